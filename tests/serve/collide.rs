//! Ids that are in the table already, because somebody inserts past the proxy (error 1062).

use crate::rig::{Rig, code, code_of, each_with, execute, insert_id, make, pipelined, prepare, rows, server};
use crate::support::raw::{CLIENT_COMPRESS, CLIENT_MULTI_STATEMENTS, Client, Options, Param};
use crate::support::{Kind, Proxy, proxy};

const AUTO: &str = "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT; CREATE TABLE m (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT);";
const DUPLICATE: u16 = 1062;

fn rules(db: &str, table: &str, collide: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\n[tables.{table}]\ncolumn = \"id\"\ngenerator = \"g\"\n\
         collide = \"{collide}\"\n"
    )
}

/// The next ids of the generator, all taken by another writer.
fn insert_past(rig: &Rig, client: &mut Client, table: &str, count: usize) {
    assert_eq!(code(client, format!("INSERT INTO {table}(a) VALUES(NULL)")), 0, "{}", rig.name());
    let mut direct = rig.direct();
    for _ in 0..count {
        direct.run(format!("INSERT INTO {table}(a) VALUES(NULL)"));
    }
}

/// The client sees no error where the statement can be sent again, and one where it needs a stage.
#[test]
fn the_generator_goes_on_above_them() {
    for (table, insert, first) in
        [("t", "INSERT INTO t(a) VALUES(NULL),(NULL)", 0), ("m", "INSERT INTO m(a) SELECT 7", DUPLICATE)]
    {
        let db = format!("collide_{table}");
        each_with(&db, AUTO, "", &rules(&db, table, "raise"), |rig| {
            let mut client = rig.client();
            insert_past(rig, &mut client, table, 300);
            let highest = rows(&mut rig.direct(), &format!("SELECT MAX(id) FROM {table}"));
            // By themselves the ids would have been met one after the other.
            let codes: Vec<u16> = (0..5).map(|_| code(&mut client, insert)).collect();
            assert_eq!(codes, [first, 0, 0, 0, 0], "{}: {}", rig.name(), rig.proxy.log());
            let above = format!("SELECT COUNT(*)>0 FROM {table} WHERE id>{highest}");
            assert_eq!(rows(&mut client, &above), "1", "{}", rig.name());
            let log = rig.proxy.log();
            let told = format!("{db}.{table}");
            assert!(log.contains("(error 1062)") && log.contains(&told), "{}: {log}", rig.name());
            assert!(log.contains("continues above the table's ids"), "{}: {log}", rig.name());
        });
    }
}

/// With several sessions, and with ids that are texts.
#[test]
fn no_session_sees_an_error() {
    const SESSIONS: usize = 6;
    let db = "collide_many";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let id = "id VARCHAR(20) NOT NULL PRIMARY KEY";
        make(server, db, &format!("{AUTO} CREATE TABLE texts ({id}, a INT);"));
        let rules = rules(db, "t", "raise") + "[tables.texts]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules)]);
        let rig = Rig { kind, server, proxy, db: db.to_owned() };
        let mut direct = rig.direct();
        for table in ["t", "texts"] {
            let insert = format!("INSERT INTO {table}(a) VALUES(NULL)");
            let first = insert_id(&mut rig.client(), &insert);
            let ids = (first + 1..first + 500).map(|id| format!("('{id}')")).collect::<Vec<_>>().join(",");
            direct.run(format!("INSERT INTO {table}(id) VALUES {ids}"));
            let sessions = (0..SESSIONS).map(|_| {
                let (mut client, insert) = (rig.client(), insert.clone());
                std::thread::spawn(move || {
                    (0..20).map(|_| code(&mut client, &insert)).filter(|code| *code != 0).collect::<Vec<_>>()
                })
            });
            let sessions: Vec<_> = sessions.collect();
            for session in sessions {
                let codes = session.join().unwrap();
                assert_eq!(codes, [0; 0], "{} {table}: {}", rig.name(), rig.proxy.log());
            }
        }
    }
}

#[test]
fn a_rule_that_only_reports() {
    let db = "collide_report";
    each_with(db, AUTO, "", &rules(db, "t", "report"), |rig| {
        let mut client = rig.client();
        insert_past(rig, &mut client, "t", 20);
        let mut client = rig.client();
        let failed =
            (0..21).filter(|_| code(&mut client, "INSERT INTO t(a) VALUES(NULL)") == DUPLICATE).count();
        assert_eq!(failed, 20, "{}", rig.name());
        let log = rig.proxy.log();
        assert!(log.contains("(error 1062)") && !log.contains("continues above"), "{}: {log}", rig.name());
    });
}

#[test]
fn another_keys_duplicate_is_none_of_these() {
    let db = "collide_other";
    each_with(db, AUTO, "", &rules(db, "t", "raise"), |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1000)"), 0);
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1000)"), DUPLICATE);
        assert!(!rig.proxy.log().contains("(error 1062)"), "{}: {}", rig.name(), rig.proxy.log());
    });
}

/// The control account cannot read the table then, so the session does.
#[test]
fn a_session_that_has_locked_the_table_meets_one() {
    let db = "collide_locked";
    each_with(db, AUTO, "", &rules(db, "t", "raise"), |rig| {
        let mut client = rig.client();
        insert_past(rig, &mut client, "t", 20);
        client.run("LOCK TABLES t WRITE");
        let codes: Vec<u16> = (0..5).map(|_| code(&mut client, "INSERT INTO t(a) VALUES(NULL)")).collect();
        assert!(codes[1..].iter().all(|code| *code == 0), "{}: {codes:?} {}", rig.name(), rig.proxy.log());
    });
}

/// Tables into which [`take_ids`] puts the ids that the generator issues next.
const WAYS: &str = "CREATE TABLE noted (what VARCHAR(20)) ENGINE=MyISAM;
    CREATE TABLE fires (id BIGINT PRIMARY KEY, a INT UNIQUE);
    CREATE TRIGGER counted BEFORE INSERT ON fires FOR EACH ROW INSERT INTO noted VALUES ('fired');
    CREATE TABLE kept (id BIGINT PRIMARY KEY, a INT) ENGINE=MyISAM;
    CREATE TABLE plain (id BIGINT PRIMARY KEY, a INT UNIQUE);";

/// Puts the next ids of the generator into the table, past the proxy.
fn take_ids(direct: &mut Client, table: &str) {
    let highest = rows(direct, &format!("SELECT COALESCE(MAX(id),0) FROM {table}")).parse::<u64>().unwrap();
    let ids = (highest + 1..highest + 30).map(|id| format!("({id})")).collect::<Vec<_>>().join(",");
    direct.run(format!("INSERT INTO {table}(id) VALUES {ids}"));
}

fn each_table_rules(db: &str, tables: &[&str]) -> String {
    let rule = |table: &&str| {
        format!(
            "[tables.{table}]
column = \"id\"
generator = \"{{table}}\"
"
        )
    };
    let rules: String = tables.iter().map(rule).collect();
    format!(
        "schema = \"{db}\"
[generators.\"{{table}}\"]
kind = \"sequence\"
{rules}"
    )
}

#[test]
fn what_is_sent_again_and_what_is_not() {
    let db = "collide_ways";
    each_with(db, WAYS, "", &each_table_rules(db, &["fires", "kept", "plain"]), |rig| {
        let mut direct = rig.direct();
        let f = "CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC NO SQL RETURN x";
        direct.run(f);
        for table in ["fires", "kept", "plain"] {
            rig.client().run(format!("INSERT INTO {table}(a) VALUES (NULL)"));
        }
        let mut a = 100;
        let mut check = |client: &mut Client, table: &str, insert: &str, expect: u16| {
            take_ids(&mut direct, table);
            a += 10;
            let insert = insert.replace("{a}", &a.to_string()).replace("{b}", &(a + 1).to_string());
            let context = |rig: &Rig| format!("{}: {insert}: {}", rig.name(), rig.proxy.log());
            let before = rows(client, &format!("SELECT COUNT(*) FROM {table} WHERE a={a}"));
            assert_eq!(code(client, &insert), expect, "{}", context(rig));
            let stored = rows(client, &format!("SELECT COUNT(*) FROM {table} WHERE a={a}"));
            assert_eq!(
                (before.as_str(), stored.as_str()),
                ("0", if expect == 0 { "1" } else { "0" }),
                "{}",
                context(rig)
            );
            // The next INSERT succeeds.
            if expect != 0 {
                assert_eq!(code(client, &insert), 0, "{}", context(rig));
            }
        };
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        for (table, insert, expect) in [
            ("plain", "INSERT INTO plain(a) VALUES ({a})", 0),
            ("plain", "INSERT INTO plain SET a={a}", 0),
            ("plain", "insert into plain values (NULL, {a}), (DEFAULT, ABS({b}))", 0),
            ("plain", "INSERT INTO plain(a) VALUES (@x:={a})", DUPLICATE),
            ("plain", "INSERT INTO plain(a) VALUES (f({a}))", DUPLICATE),
            ("plain", "INSERT INTO plain(a) VALUES ({a}); INSERT INTO plain(a) VALUES ({b})", 0),
            ("plain", "SELECT 1; INSERT INTO plain(a) VALUES ({a})", DUPLICATE),
            ("kept", "INSERT INTO kept(a) VALUES ({a})", 0),
            ("fires", "INSERT INTO fires(a) VALUES ({a})", DUPLICATE),
        ] {
            check(&mut client, table, insert, expect);
        }
        if rig.kind == Kind::MariaDb {
            check(&mut client, "plain", "INSERT INTO plain(a) VALUES ({a}) RETURNING id", DUPLICATE);
        }
        // The trigger has fired once for each try: the first row, the 29 ids that were taken, and the two INSERTs.
        let fired = rows(&mut direct, "SELECT COUNT(*) FROM noted");
        assert_eq!(fired, (1 + 29 + 2).to_string(), "{}", rig.name());
        // The first row of a statement of two stays in a table without transactions: it is not stored twice.
        take_ids(&mut direct, "kept");
        direct.run("DELETE FROM kept WHERE id=(SELECT id FROM (SELECT MAX(id)-28 AS id FROM kept) AS x)");
        assert_eq!(code(&mut client, "INSERT INTO kept(a) VALUES (71),(72)"), DUPLICATE, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a FROM kept WHERE a IN (71,72)"), "71", "{}", rig.name());
    });
}

/// The session is as after a statement that succeeded at the first try.
#[test]
fn what_a_session_sees_of_a_statement_that_was_sent_again() {
    let db = "collide_sees";
    each_with(db, WAYS, "", &each_table_rules(db, &["plain"]), |rig| {
        let mut direct = rig.direct();
        for capabilities in [Options::default().capabilities, CLIENT_MULTI_STATEMENTS | CLIENT_COMPRESS] {
            let mut client = rig.client_with(capabilities);
            client.run("INSERT INTO plain(a) VALUES (NULL)");
            client.run("BEGIN");
            client.run("INSERT INTO u VALUES (1,1)");
            take_ids(&mut direct, "plain");
            let id = insert_id(&mut client, "INSERT INTO plain(a) VALUES (NULL),(NULL)");
            let seen = rows(&mut client, "SELECT LAST_INSERT_ID(), ROW_COUNT()");
            assert_eq!(seen, format!("{id},2"), "{}", rig.name());
            client.run("ROLLBACK");
            assert_eq!(
                rows(&mut direct, &format!("SELECT COUNT(*) FROM plain WHERE id>={id}")),
                "0",
                "{}",
                rig.name()
            );
            take_ids(&mut direct, "plain");
            take_ids(&mut direct, "plain");
            let insert = prepare(&mut client, "INSERT INTO plain(a) VALUES (?)");
            for _ in 0..2 {
                take_ids(&mut direct, "plain");
                let outcomes = client.execute(&insert, &[Param::Null]).unwrap();
                let id = outcomes[0].ok().unwrap_or_else(|| panic!("{}: {outcomes:?}", rig.name())).insert_id;
                let highest = rows(&mut client, "SELECT MAX(id) FROM plain");
                assert_eq!(id.to_string(), highest, "{}", rig.name());
            }
            // An INSERT is not sent again if another command was sent after it.
            take_ids(&mut direct, "plain");
            let one = b"INSERT INTO plain(a) VALUES (NULL)";
            let seen = pipelined(&mut client, &[(3, one), (3, b"SELECT 5"), (3, one)]);
            assert_eq!(seen, "error 1062,5,ok 1", "{}", rig.name());
        }
        // A duplicate of another key, whose value is also the generator's next id. The error is the client's.
        let mut client = rig.client();
        let next = insert_id(&mut client, "INSERT INTO plain(a) VALUES (NULL)") + 1;
        direct.run(format!("INSERT INTO plain(id,a) VALUES (-5,{next})"));
        assert_eq!(
            code(&mut client, format!("INSERT INTO plain(a) VALUES ({next})")),
            DUPLICATE,
            "{}",
            rig.name()
        );
        let after = insert_id(&mut client, "INSERT INTO plain(a) VALUES (NULL)");
        assert_eq!(after, next + 1, "{}: it was sent once", rig.name());
    });
}

/// An AUTO_INCREMENT table with another writer, which takes the next id again and again.
#[test]
fn a_writer_that_continues_past_the_proxy() {
    let db = "collide_writer";
    each_with(db, AUTO, "", &rules(db, "t", "raise"), |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        for _ in 0..30 {
            direct.run("INSERT INTO t(a) VALUES(NULL)");
            assert_eq!(
                code(&mut client, "INSERT INTO t(a) VALUES(NULL)"),
                0,
                "{}: {}",
                rig.name(),
                rig.proxy.log()
            );
        }
        assert_eq!(rows(&mut direct, "SELECT COUNT(*) FROM t"), "60", "{}", rig.name());
    });
}

/// The tables are renamed past the proxy. The other table's ids are among those that the generator has reserved.
#[test]
fn another_table_takes_the_name() {
    for keeps in ["", " AUTO_INCREMENT"] {
        let db = if keeps.is_empty() { "collide_renamed" } else { "collide_renamed_auto" };
        let of = |name: &str| format!("CREATE TABLE {name} (id BIGINT{keeps} PRIMARY KEY, k INT UNIQUE);");
        let sql = of("orders") + &of("orders_new");
        each_with(db, &sql, "", &each_table_rules(db, &["orders"]), |rig| {
            let (mut client, mut direct) = (rig.client(), rig.direct());
            client.run("INSERT INTO orders(k) VALUES (1),(2)");
            let rows_of_new = (1..=50).map(|id| format!("({id},{})", -id)).collect::<Vec<_>>().join(",");
            direct.run(format!("INSERT INTO orders_new VALUES {rows_of_new}"));
            direct.run("RENAME TABLE orders TO o, orders_new TO orders");
            let insert = prepare(&mut client, "INSERT INTO orders(k) VALUES (?)");
            for k in 3..83 {
                let context = || format!("{} {keeps} {k}: {}", rig.name(), rig.proxy.log());
                if k % 2 == 0 {
                    let outcomes = client.execute(&insert, &[Param::Int(k)]).unwrap();
                    assert!(outcomes[0].ok().is_some(), "{}: {outcomes:?}", context());
                } else {
                    assert_eq!(
                        code(&mut client, format!("INSERT INTO orders(k) VALUES ({k})")),
                        0,
                        "{}",
                        context()
                    );
                }
            }
            let stored =
                rows(&mut direct, "SELECT MIN(id), COUNT(*), COUNT(DISTINCT id) FROM orders WHERE k > 0");
            assert_eq!(stored, "51,80,80", "{} {keeps}", rig.name());
        });
    }
}

/// Data that a client sends ahead is for the next execution. Ids that calls draw are drawn once.
#[test]
fn what_is_in_the_way_of_sending_it_again() {
    let db = "collide_ahead";
    let rules = each_table_rules(db, &["plain"]) + "[generators.tickets]\nkind = \"sequence\"\nsql = true\n";
    let sql = "CREATE TABLE plain (id BIGINT PRIMARY KEY, a BIGINT, b VARCHAR(20));";
    each_with(db, sql, "", &rules, |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        client.run("INSERT INTO plain(b) VALUES ('first')");
        let insert = prepare(&mut client, "INSERT INTO plain(b) VALUES (?)");
        take_ids(&mut direct, "plain");
        // NULL for its parameter, and a value that is sent ahead of the next execution.
        let execution = [&insert.id.to_le_bytes()[..], &[0, 1, 0, 0, 0, 1, 1, 0xFD, 0]].concat();
        let ahead = [&insert.id.to_le_bytes()[..], &[0, 0], b"ahead"].concat();
        client.pipeline(&[(0x17, &execution), (0x18, &ahead)]).unwrap();
        client.next_response();
        let first = code_of(&client.read_outcomes(true).unwrap());
        let second = execute(&mut client, insert.id, &[0, 0]);
        let stored = rows(
            &mut client,
            "SELECT COALESCE(b,'none') FROM plain WHERE id>30 OR b IS NOT NULL ORDER BY id",
        );
        match first {
            0 => assert_eq!((second, stored.as_str()), (0, "first none ahead"), "{}", rig.name()),
            _ => {
                assert_eq!((first, second, stored.as_str()), (DUPLICATE, 0, "first ahead"), "{}", rig.name());
            }
        }
        for text in [
            "INSERT INTO plain(a,b) VALUES (NEXTVAL(tickets),?)",
            "INSERT INTO plain(b,a) VALUES (?,NEXTVAL(tickets))",
        ] {
            let insert = prepare(&mut client, text);
            take_ids(&mut direct, "plain");
            for _ in 0..2 {
                let outcomes = client.execute(&insert, &[Param::String(b"x".to_vec())]).unwrap();
                assert!([0, DUPLICATE].contains(&code_of(&outcomes)), "{}: {text}: {outcomes:?}", rig.name());
            }
        }
        let wrong =
            rows(&mut client, "SELECT COUNT(*) FROM plain WHERE a IS NOT NULL AND (b<>'x' OR a>4 OR a<1)");
        assert_eq!(wrong, "0", "{}", rig.name());
    });
}

/// The session does not wait for another one that has locked the table meanwhile.
#[test]
fn ignore_while_another_session_locks_the_table() {
    let db = "collide_ignore";
    each_with(db, WAYS, "", &each_table_rules(db, &["plain"]), |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        client.run("INSERT INTO plain(a) VALUES (1)");
        // This session had a lock itself, and the server says that it has none now.
        client.run("LOCK TABLES u READ");
        client.run("UNLOCK TABLES");
        // The first row of the INSERT collides. Right after the INSERT the other session gets its lock.
        let insert = b"INSERT IGNORE INTO plain(a) VALUES (1),(2+SLEEP(3))";
        client.pipeline(&[(3, insert)]).unwrap();
        let mut is_under_way = |text: &str| {
            let sql =
                format!("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '{text}%'");
            rig.wait_until(text, || rows(&mut direct, &sql) == "1");
        };
        is_under_way("INSERT IGNORE");
        let (address, db) = (rig.server.address(), rig.db.clone());
        let (locked, done) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let third = std::thread::spawn(move || {
            let options = Options { database: Some(db), ..Options::default() };
            let mut session = Client::connect(&address, &options).unwrap();
            session.run("LOCK TABLES plain WRITE");
            locked.0.send(()).unwrap();
            let _ = done.1.recv();
        });
        client.next_response();
        let outcomes = client.read_outcomes(false).unwrap();
        assert_eq!(outcomes[0].ok().map(|ok| ok.affected_rows), Some(1), "{}", rig.name());
        locked.1.recv().unwrap();
        drop(done.0);
        third.join().unwrap();
    });
}
