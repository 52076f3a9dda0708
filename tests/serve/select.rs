//! INSERT ... SELECT by way of a stage: many rows, sessions side by side, and what goes wrong on the way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, code_of, each, each_with, insert_id, message, pipelined, rows, rules};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, Client, Param};
use crate::support::servers::ServerOptions;
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, Server, proxy};

/// `d`: the digits; rows by the thousand are made by joining it with itself. `m` keeps what is written to it, whatever
/// becomes of the statement.
const DIGITS: &str = "CREATE TABLE d (n INT); INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9); \
    CREATE TABLE m (a INT) ENGINE=MyISAM; CREATE TRIGGER t_ai AFTER INSERT ON t FOR EACH ROW INSERT INTO m VALUES (NEW.a);";
const TWENTY_THOUSAND: &str = "SELECT z.n*10000+y.n*1000+x.n*100+w.n*10+v.n FROM d v, d w, d x, d y, d z \
    WHERE z.n<2 ORDER BY 1 DESC";

fn count(client: &mut Client, table: &str) -> u64 {
    rows(client, &format!("SELECT COUNT(*) FROM {table}")).parse().unwrap()
}

#[test]
fn twenty_thousand_rows_follow_the_order_of_the_query() {
    each("select_many", DIGITS, |rig| {
        let mut client = rig.client();
        let outcomes = client.run(format!("INSERT INTO t(a) {TWENTY_THOUSAND}"));
        let ok = outcomes[0].ok().unwrap();
        assert_eq!(ok.affected_rows, 20_000, "{}", rig.name());
        let first = ok.insert_id;
        assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), first.to_string(), "{}", rig.name());
        let wrong = format!("SELECT COUNT(*) FROM t WHERE a<>19999-(id-{first})");
        assert_eq!(rows(&mut client, &wrong), "0", "{}: ids follow the order", rig.name());
        assert_eq!(rows(&mut client, "SELECT MAX(id)-MIN(id) FROM t"), "19999");
        assert_eq!(count(&mut client, "m"), 20_000, "{}", rig.name());
        // There were as many ids as rows.
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(-1)"), first + 20_000, "{}", rig.name());
    });
}

#[test]
fn a_transaction_keeps_what_came_before() {
    each("select_transaction", DIGITS, |rig| {
        let mut client = rig.client();
        client.run("BEGIN");
        client.run("INSERT INTO t(a) VALUES(-1)");
        client.run(format!("INSERT INTO t(a) {TWENTY_THOUSAND}"));
        assert_eq!(count(&mut client, "t"), 20_001, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO t(a) SELECT n FROM d UNION ALL SELECT -1"), 1062);
        client.run("SAVEPOINT s");
        client.run("INSERT INTO t(a) SELECT -10-x.n*10-y.n FROM d x, d y");
        client.run("ROLLBACK TO s");
        client.run("COMMIT");
        assert_eq!(count(&mut client, "t"), 20_001, "{}", rig.name());
    });
}

/// Rows of 40,000 bytes, and 1,100 columns: the stage is in another engine then.
#[test]
fn tables_that_are_too_wide_for_innodb() {
    let columns = |count: usize, kind: &str| {
        (0..count).map(|nth| format!("c{nth} {kind}")).collect::<Vec<_>>().join(",")
    };
    let long = columns(200, "CHAR(200) CHARACTER SET latin1 NOT NULL DEFAULT 'x'");
    let sql = format!(
        "DROP TABLE t, u; SET sql_mode=''; CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY,{long},d DATE NOT NULL DEFAULT '0000-00-00') \
         ENGINE=MyISAM; CREATE TABLE u (id BIGINT NOT NULL PRIMARY KEY,{}) ENGINE=MyISAM",
        columns(1100, "INT")
    );
    let rules = format!("{}[tables.u]\ncolumn = \"id\"\ngenerator = \"g\"\n", rules("select_wide"));
    each_with("select_wide", &sql, "", &rules, |rig| {
        let mut client = rig.client();
        let numbers = |count: usize| (0..count).map(|nth| nth.to_string()).collect::<Vec<_>>().join(",");
        // Under the second mode, no new table may have such a default.
        for mode in ["", "STRICT_ALL_TABLES,NO_ZERO_DATE"] {
            client.run(format!("SET sql_mode='{mode}'"));
            for (table, values) in [("t", format!("{},'2020-01-01'", numbers(200))), ("u", numbers(1100))] {
                let insert =
                    format!("INSERT INTO {table} SELECT NULL,{values} UNION ALL SELECT NULL,{values}");
                let ok = client.run(&insert)[0].ok().cloned().unwrap();
                assert_eq!((ok.affected_rows, ok.warnings), (2, 0), "{} {table}", rig.name());
                let stored = rows(
                    &mut client,
                    &format!("SELECT c0,c199,id-{} FROM {table} ORDER BY id DESC LIMIT 2", ok.insert_id),
                );
                assert_eq!(stored, "0,199,1 0,199,0", "{} {table}", rig.name());
            }
        }
    });
}

#[test]
fn sessions_side_by_side() {
    let sql = format!("ALTER TABLE t DROP INDEX a; {DIGITS}");
    each("select_sessions", &sql, |rig| {
        let rig: &Rig = rig;
        std::thread::scope(|scope| {
            for nth in 0..4 {
                scope.spawn(move || {
                    let mut client = rig.client();
                    let prepared = client.prepare(
                        "INSERT INTO t(a) SELECT x.n*100+y.n*10+z.n+? FROM d x, d y, d z WHERE x.n<?",
                    );
                    let prepared = prepared.unwrap().unwrap();
                    for round in 0..5 {
                        let params = [Param::Int(nth), Param::Int(round)];
                        assert_eq!(code_of(&client.execute(&prepared, &params).unwrap()), 0);
                        client.run("INSERT INTO t(a) SELECT n FROM d");
                        client.run("INSERT INTO t(a) VALUES(1),(2)");
                    }
                });
            }
        });
        let mut client = rig.client();
        let expect = 4 * (100 * (1 + 2 + 3 + 4) + 5 * 12);
        assert_eq!(count(&mut client, "t"), expect, "{}", rig.name());
        let ids: BTreeSet<_> = rows(&mut client, "SELECT id FROM t").split(' ').map(str::to_owned).collect();
        assert_eq!(ids.len() as u64, expect);
    });
}

/// Other sessions' DDL has the columns read again, also between the reading and the look at what was read.
#[test]
fn ddl_of_others_refuses_nothing() {
    each("select_ddl", "ALTER TABLE t DROP INDEX a;", |rig| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|number| {
                    let (rig, is_over) = (&rig, &is_over);
                    scope.spawn(move || {
                        let mut client = rig.client();
                        let mut made = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            client.run(format!("CREATE OR REPLACE VIEW {}.w{number} AS SELECT 1", rig.db));
                            made += 1;
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        made
                    })
                })
                .collect();
            let mut client = rig.client();
            let prepared = client.prepare("INSERT INTO t VALUES(?,?)").unwrap().unwrap();
            let failed: Vec<_> = (0..150)
                .map(|row| match row % 3 {
                    0 => client.query(format!("INSERT INTO t(a) SELECT {row}")).unwrap(),
                    1 => client.query(format!("INSERT INTO t VALUES(NULL,{row})")).unwrap(),
                    _ => client.execute(&prepared, &[Param::Null, Param::Int(row)]).unwrap(),
                })
                .filter(|outcomes| code_of(outcomes) != 0)
                .collect();
            is_over.store(true, Ordering::Relaxed);
            let made: usize = makers.into_iter().map(|maker| maker.join().unwrap()).sum();
            assert!(
                failed.is_empty(),
                "{}: {} of 150 failed: {:?}",
                rig.name(),
                failed.len(),
                failed.first()
            );
            assert!(made > 4, "{}: {made}", rig.name());
        });
    });
}

/// The backend's connection is killed, or the client goes, while the stage is filled or stored.
#[test]
fn who_goes_in_the_middle_leaves_nothing() {
    each("select_killed", DIGITS, |rig| {
        let (mut other, mut third) = (rig.direct(), rig.direct());
        let steps = [
            // The first INSERT waits for the other session's lock, where the query runs; the second waits for its row.
            (
                "SELECT GET_LOCK('select_killed', 60)",
                "INSERT INTO t(a) SELECT n+GET_LOCK('select_killed', 60)*0 FROM d",
                "stage` (%",
            ),
            ("INSERT INTO t(id,a) VALUES(-1,5)", "INSERT INTO t(a) SELECT n FROM d", "rowstamp s%"),
        ];
        for (blocks, insert, shows) in steps {
            for kills in [true, false] {
                other.run("BEGIN");
                other.run(blocks);
                let mut client = rig.client();
                client.send_query(insert.as_bytes()).unwrap();
                let end = Instant::now() + NEVER;
                let id = client.connection_id;
                let waiting = format!(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE id={id} AND info LIKE '%{shows}' AND time>=1"
                );
                while rows(&mut third, &waiting) != "1" {
                    assert!(Instant::now() < end, "{}: {insert} does not wait", rig.name());
                    std::thread::sleep(Duration::from_millis(20));
                }
                if kills {
                    third.run(format!("KILL {id}"));
                    let answer = client.read_outcomes(false);
                    assert!(answer.is_err() || code_of(&answer.unwrap()) > 0, "{}: {insert}", rig.name());
                }
                drop(client);
                let gone = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id={id}");
                if !kills {
                    // The server looks at the socket of whom it makes wait, or when it has waited.
                    third.run(format!("KILL {id}"));
                }
                other.run("ROLLBACK");
                other.run("DO RELEASE_LOCK('select_killed')");
                while rows(&mut third, &gone) != "0" {
                    assert!(Instant::now() < end, "{}: {insert}: it stays", rig.name());
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert_eq!(count(&mut third, "t"), 0, "{}: {insert}", rig.name());
            }
        }
        let mut client = rig.client();
        client.run("INSERT INTO t(a) SELECT x.n*10+y.n FROM d x, d y");
        assert_eq!(count(&mut client, "t"), 100);
    });
}

#[test]
fn a_query_runs_once() {
    each("select_once", DIGITS, |rig| {
        let mut client = rig.client();
        client.run("SET @n=0");
        client.run("INSERT INTO t(a) SELECT @n:=@n+1 FROM d x, d y, d z");
        assert_eq!(
            rows(&mut client, "SELECT @n, COUNT(*), MAX(a) FROM t"),
            "1000,1000,1000",
            "{}",
            rig.name()
        );
        assert_eq!(count(&mut client, "m"), 1000, "{}", rig.name());
    });
}

/// The stage is gone before the session's next statement, and a session has one at a time.
#[test]
fn no_stage_stays() {
    each("select_stays", DIGITS, |rig| {
        let mut client = rig.client();
        let stage = "SELECT COUNT(*) FROM `rowstamp stage`";
        for insert in [
            "INSERT INTO t(a) SELECT n FROM d",
            "INSERT INTO t(a) SELECT n FROM d",
            "INSERT INTO t(a) SELECT n FROM nowhere",
            "INSERT INTO t(a) SELECT 'no number'",
            "INSERT INTO t(a) SELECT -n FROM d WHERE n > 0",
        ] {
            client.query(insert.as_bytes()).unwrap();
            client.query(insert.as_bytes()).unwrap();
            assert_eq!(code(&mut client, stage), 1146, "{}: {insert}", rig.name());
        }
        // ROW_COUNT() still tells of the INSERT if it is asked at once.
        client.run("DELETE FROM t");
        client.run("INSERT INTO t(a) SELECT n FROM d");
        assert_eq!(rows(&mut client, "SELECT ROW_COUNT()"), "10", "{}", rig.name());
        assert_eq!(code(&mut client, stage), 1146, "{}", rig.name());
    });
}

/// Numbers of the stage that are not one apart.
#[test]
fn a_session_that_counts_in_tens() {
    each("select_tens", DIGITS, |rig| {
        let mut client = rig.client();
        client.run("SET auto_increment_increment=10, auto_increment_offset=7");
        client.run("INSERT INTO t(a) SELECT n FROM d ORDER BY n");
        client.run("INSERT INTO t(a) SELECT n+10 FROM d ORDER BY n");
        let wrong = "SELECT COUNT(*) FROM t WHERE a<>id-(SELECT MIN(id) FROM (SELECT id FROM t) u)";
        assert_eq!((count(&mut client, "t"), rows(&mut client, wrong)), (20, "0".into()), "{}", rig.name());
    });
}

#[test]
fn long_data_is_sent_once() {
    each("select_long", DIGITS, |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            let insert =
                client.prepare("INSERT INTO t(a) SELECT n+LENGTH(?) FROM d WHERE n<?").unwrap().unwrap();
            assert_eq!(insert.params, 2, "{}", rig.name());
            let long = [&insert.id.to_le_bytes()[..], &[0, 0], b"abc"].concat();
            client.send_command(0x18, &long).unwrap();
            // BLOB, BIGINT; 3.
            let rest = [0, 1, 0xFC, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0];
            let body = [&insert.id.to_le_bytes()[..], &[0, 1, 0, 0, 0], &rest].concat();
            client.send_command(0x17, &body).unwrap();
            assert_eq!(code_of(&client.read_outcomes(true).unwrap()), 0, "{}", rig.name());
            assert_eq!(rows(&mut client, "SELECT a FROM t ORDER BY id"), "3 4 5", "{}", rig.name());
        }
    });
}

#[test]
fn others_wait_in_their_turn() {
    each("select_pipeline", DIGITS, |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            let texts = [
                "SELECT 1",
                "INSERT INTO t(a) SELECT x.n*10+y.n FROM d x, d y",
                "SELECT LAST_INSERT_ID()=MIN(id) FROM t",
                "INSERT INTO t(a) SELECT nothing FROM d",
                "INSERT INTO t(a) SELECT 0x41",
                "INSERT INTO t(a) VALUES(-1)",
                "SELECT COUNT(*) FROM t",
            ];
            let commands: Vec<(u8, &[u8])> = texts.iter().map(|text| (3, text.as_bytes())).collect();
            let seen = pipelined(&mut client, &commands);
            assert_eq!(seen, "1,ok 100,1,error 1054,error 1062,ok 1,101", "{}", rig.name());
        }
    });
}

#[test]
fn ids_that_a_query_brings() {
    let sql = "CREATE TABLE old (id BIGINT, a INT); INSERT INTO old VALUES (5000000,1),(5000001,2); CREATE TABLE r LIKE t;";
    let rules = format!(
        "{}explicit = \"advance\"\n[tables.r]\ncolumn = \"id\"\ngenerator = \"g\"\nexplicit = \"reject\"\n",
        rules("select_explicit")
    );
    each_with("select_explicit", sql, "", &rules, |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO t SELECT * FROM old");
        assert_eq!(
            rows(&mut client, "SELECT id,a FROM t ORDER BY id"),
            "5000000,1 5000001,2",
            "{}",
            rig.name()
        );
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)") > 5_000_001, "{}: followed", rig.name());
        client.run("SELECT LAST_INSERT_ID(77)");
        assert_eq!(code(&mut client, "INSERT INTO r SELECT * FROM old"), 1235, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), "77", "{}: as it was", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO r SELECT NULL, a FROM old"), 0, "{}", rig.name());
    });
}

/// The events of the log from `from` on that write rows, and those that hold a statement of ours.
fn logged(client: &mut Client, from: &str) -> (usize, usize) {
    let (file, at) = from.split_once(',').unwrap();
    let outcomes = client.run(format!("SHOW BINLOG EVENTS IN '{file}' FROM {at}"));
    let events: Vec<(String, String)> = outcomes[0]
        .rows()
        .iter()
        .map(|row| (row[2].text().unwrap_or_default(), row[5].text().unwrap_or_default()))
        .collect();
    let written = events.iter().filter(|(kind, _)| kind.starts_with("Write_rows")).count();
    let ours = events.iter().filter(|(kind, info)| kind == "Query" && info.contains("rowstamp")).count();
    (written, ours)
}

#[test]
fn rows_are_logged_not_statements() {
    for kind in Kind::ALL {
        let arguments = match kind {
            Kind::MariaDb => {
                vec!["--log-bin=log".into(), "--server-id=1".into(), "--binlog-format=MIXED".into()]
            }
            Kind::MySql9 => vec!["--server-id=1".into()],
        };
        let options = ServerOptions { binlog: true, arguments, ..Default::default() };
        let Some(server) = Server::start_with(kind, options) else { continue };
        crate::rig::make(&server, "select_log", "CREATE TABLE d (n INT); INSERT INTO d VALUES (1),(2),(3);");
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules("select_log"))]);
        let (mut client, mut direct) = (proxy.client(), server.client());
        client.run("USE select_log");
        let status = if kind == Kind::MariaDb { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
        for format in ["MIXED", "ROW"] {
            client.run(format!("SET SESSION binlog_format={format}"));
            let place = rows(&mut direct, status);
            let from = place.split(',').take(2).collect::<Vec<_>>().join(",");
            client.run("DELETE FROM t");
            client.run("INSERT INTO t(a) SELECT n FROM d");
            client.run("INSERT INTO t(id,a) SELECT NULL, n+10 FROM d ORDER BY n");
            assert_eq!(logged(&mut direct, &from), (2, 0), "{} {format}", kind.name());
        }
        client.run("SET SESSION binlog_format=STATEMENT");
        let said = message(&mut client, "INSERT INTO t(a) SELECT n+20 FROM d");
        let expect =
            "1235 rowstamp: select_log.t: with binlog_format = STATEMENT a replica may number the rows";
        assert!(said.starts_with(expect), "{}: {said}", kind.name());
        client.run("SET SESSION sql_log_bin=0");
        assert_eq!(code(&mut client, "INSERT INTO t(a) SELECT n+20 FROM d"), 0, "{}", kind.name());
        assert_eq!(count(&mut client, "t"), 9);
    }
}
