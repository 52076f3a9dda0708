//! The state that a session's statements depend on: default database, sql_mode, temporary tables, and what
//! the client sees of it.

use crate::rig::{Rig, code, each, insert_id, message, rows};
use crate::support::Kind;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, Client, Options, Outcome,
};

/// Under ANSI_QUOTES the quoted text is a name and the statement fails on the server; else it is a string and passes.
fn check_ansi(rig: &Rig, client: &mut Client, ansi: bool) {
    let id = code(client, "INSERT INTO t(\"id\",a) VALUES(NULL,NULL)");
    assert_eq!(id == 0, ansi, "{}: ANSI_QUOTES {ansi}, but {id}", rig.name());
}

#[test]
fn sql_mode_however_it_is_set() {
    let sql = "CREATE PROCEDURE ansi() SET sql_mode='ANSI_QUOTES'; CREATE FUNCTION f() RETURNS INT DETERMINISTIC NO SQL \
               BEGIN SET sql_mode='ANSI_QUOTES'; RETURN 1; END;";
    each("state_mode", sql, |rig| {
        let mut client = rig.client();
        check_ansi(rig, &mut client, false);
        client.run("SET sql_mode='ANSI_QUOTES'");
        check_ansi(rig, &mut client, true);
        client.run("SET @@session.sql_mode=DEFAULT");
        check_ansi(rig, &mut client, false);
        client.run("SET @m='ANSI_QUOTES'");
        client.run("SET sql_mode=@m");
        check_ansi(rig, &mut client, true);
        client.run("SET sql_mode=0");
        check_ansi(rig, &mut client, false);
        let dynamic = match rig.kind {
            Kind::MariaDb => vec!["EXECUTE IMMEDIATE 'SET sql_mode=''ANSI_QUOTES'''"],
            Kind::MySql9 => vec!["PREPARE s FROM 'SET sql_mode=''ANSI_QUOTES'''", "EXECUTE s"],
        };
        for text in dynamic {
            client.run(text);
        }
        check_ansi(rig, &mut client, true);
        client.run("SET sql_mode=''");
        // A routine's own sql_mode ends with it, whatever session tracking said meanwhile.
        for call in ["CALL ansi()", "SELECT f()", "DO f()"] {
            client.run(call);
            let ansi = rows(&mut client, "SELECT @@sql_mode").contains("ANSI_QUOTES");
            check_ansi(rig, &mut client, ansi);
            client.run("SET sql_mode=''");
        }
        let set = client.prepare("SET sql_mode='ANSI_QUOTES'").unwrap().unwrap();
        check_ansi(rig, &mut client, false);
        client.execute(&set, &[]).unwrap();
        check_ansi(rig, &mut client, true);
        client.reset().unwrap();
        client.run(format!("USE {}", rig.db));
        check_ansi(rig, &mut client, false);
    });
}

#[test]
fn change_user_and_reset_start_over() {
    each("state_over", "CREATE USER other_over IDENTIFIED BY 'x'; CREATE DATABASE state_over2;", |rig| {
        let mut client = rig.client();
        for round in 0..2 {
            client.run("SET sql_mode='ANSI_QUOTES'");
            client.run("CREATE TEMPORARY TABLE t (a INT)");
            client.run("INSERT INTO t(a) VALUES(7)");
            assert_eq!(rows(&mut client, "SELECT * FROM t"), "7", "a temporary table has no ids");
            let statement = client.prepare("INSERT INTO state_over.t(a) VALUES(NULL)").unwrap().unwrap();
            client.run("DROP TEMPORARY TABLE t");
            let id = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(NULL)");
            assert!(id > 0, "{}: nothing hides it any more", rig.name());
            client.run("CREATE TEMPORARY TABLE t (a INT)");
            if round == 0 {
                client.reset().unwrap();
                client.run(format!("USE {}", rig.db));
            } else {
                client.change_user("root", &rig.db).unwrap();
            }
            assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), "0", "{}", rig.name());
            check_ansi(rig, &mut client, false);
            let id = insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)");
            assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), id.to_string());
            let gone = client.execute(&statement, &[]).unwrap();
            assert_eq!(crate::rig::code_of(&gone), 1243);
        }
        client.change_user("root", "state_over2").unwrap();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(NULL)"), 1146);
    });
}

#[test]
fn the_default_database() {
    each("state_db", "CREATE DATABASE state_db2; CREATE TABLE state_db2.t (id INT, a INT);", |rig| {
        let mut client = rig.client();
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)") > 0, "from the handshake");
        client.run("USE state_db2");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 0);
        client.use_database("state_db").unwrap();
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)") > 0);
        client.run("USE state_db2");
        assert_eq!(code(&mut client, "USE nowhere"), 1049);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(id) FROM state_db2.t"), "0");
        let mut none = Client::connect(&rig.proxy.address(), &Options::default()).unwrap();
        assert_eq!(code(&mut none, "INSERT INTO t(a) VALUES(1)"), 1046);
        assert!(insert_id(&mut none, "INSERT INTO state_db.t(a) VALUES(3)") > 0);
    });
}

#[test]
fn a_global_sql_mode_is_a_new_sessions_own() {
    // On a server of its own: others' sessions would see it.
    for kind in Kind::ALL {
        let Some(server) = crate::support::Server::start(kind) else { continue };
        crate::rig::make(&server, "state_global", "");
        let config = crate::support::proxy::config(&server.address());
        let rules = crate::rig::rules("state_global");
        let proxy = crate::support::Proxy::start(&config, &[("rules", &rules)]);
        let mut client = proxy.client();
        client.run("SET GLOBAL sql_mode='ANSI_QUOTES'");
        let quoted = "INSERT INTO state_global.t(\"id\",a) VALUES(NULL,NULL)";
        assert_ne!(code(&mut client, quoted), 0);
        assert_eq!(code(&mut proxy.client(), quoted), 0, "{}", kind.name());
    }
}

#[test]
fn who_did_not_ask_sees_no_state() {
    each("state_track", "", |rig| {
        for asked in [0, CLIENT_SESSION_TRACK] {
            for eof in [0, CLIENT_DEPRECATE_EOF] {
                let mut client = rig.client_with(asked | eof);
                client.run("SET session_track_system_variables='time_zone'");
                client.run("INSERT INTO t(a) VALUES(NULL)");
                let mut state = |text: &str| match client.run(text).remove(0) {
                    Outcome::Ok(ok) => (ok.session_state, ok.status & 0x4000 != 0),
                    other => panic!("{other:?}"),
                };
                let has = |state: &[u8], name: &str| state.windows(name.len()).any(|w| w == name.as_bytes());
                let (zone, told) = state("SET time_zone='+01:00'");
                assert_eq!((has(&zone, "time_zone"), told), (asked > 0, asked > 0), "{}", rig.name());
                // By the client's own variables, whatever the proxy has the server report.
                for (text, is_told) in
                    [("SET sql_mode='ANSI'", false), ("USE state_track", true), ("SET NAMES latin1", false)]
                {
                    let (bytes, told) = state(text);
                    let expect = asked > 0 && is_told;
                    assert_eq!((!bytes.is_empty(), told), (expect, expect), "{}: {text}", rig.name());
                }
            }
        }
    });
}

#[test]
fn last_insert_id_is_brought_up_to_date_where_it_may_be_read() {
    each("state_last", "", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run("INSERT INTO t(a) VALUES(1)");
        let ids = |client: &mut Client| rows(client, "SELECT LAST_INSERT_ID()");
        let id = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(1),(2),(3)");
        assert_eq!(rows(&mut client, "SELECT ROW_COUNT()"), "2", "{}", rig.name());
        assert_eq!(ids(&mut client), id.to_string());
        client.run("INSERT IGNORE INTO t(a) VALUES(1)");
        assert!(rows(&mut client, "SHOW WARNINGS").contains("1062"), "{}", rig.name());
        assert_eq!(ids(&mut client), id.to_string(), "nothing was inserted");
        client.run("BEGIN");
        let id = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(4)");
        client.run("COMMIT");
        assert_eq!(ids(&mut client), id.to_string());
        let read = client.prepare("SELECT LAST_INSERT_ID()").unwrap().unwrap();
        let count = client.prepare("SELECT ROW_COUNT()").unwrap().unwrap();
        let id = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(5),(6)");
        assert_eq!(client.execute(&count, &[]).unwrap()[0].cell(0, 0).unwrap(), "2", "{}", rig.name());
        assert_eq!(client.execute(&read, &[]).unwrap()[0].cell(0, 0).unwrap(), id.to_string());
        // The wrapper of the second is newer than what the first leaves owed.
        let outcomes = client.run("INSERT IGNORE INTO t(a) VALUES(7); INSERT INTO t(a) VALUES(8)");
        assert_eq!(ids(&mut client), outcomes[1].ok().unwrap().insert_id.to_string(), "{}", rig.name());
    });
}

#[test]
fn what_the_last_statement_left_is_there_though_the_state_is_read() {
    each("state_left", "INSERT INTO u VALUES (1,1),(2,2);", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run("UPDATE u SET a=9");
        client.run("SET @n=ROW_COUNT()");
        assert_eq!(rows(&mut client, "SELECT @n"), "2", "{}", rig.name());
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run("UPDATE IGNORE u SET a='x'");
        assert_ne!(rows(&mut client, "SHOW WARNINGS;"), "", "{}", rig.name());
    });
}

/// A routine's change of sql_mode ends with it. Its change of the tracking that tells of sql_mode does not.
#[test]
fn a_routine_that_switches_tracking_off() {
    let (schema, state, vars) = (
        "SET session_track_schema=OFF",
        "SET session_track_state_change=OFF",
        "SET session_track_system_variables",
    );
    let bodies = [
        format!("{vars}=''"),
        format!("{vars}='autocommit'"),
        state.to_owned(),
        schema.to_owned(),
        format!("BEGIN {state}; {vars}=''; {schema}; END"),
        format!("BEGIN {schema}; {vars}=''; {state}; END"),
    ];
    let procedures =
        bodies.iter().enumerate().map(|(n, body)| format!("CREATE PROCEDURE blind{n}() {body};"));
    let function = format!(
        "CREATE FUNCTION blind() RETURNS INT DETERMINISTIC NO SQL BEGIN {state}; {vars}=''; RETURN 1; END; \
         CREATE PROCEDURE hide() CREATE TEMPORARY TABLE t (a INT); CREATE TABLE w (n INT); \
         INSERT INTO u VALUES(1,1),(2,2); CREATE PROCEDURE two() UPDATE u SET a=a+(@x:=1);"
    );
    let sql = procedures.collect::<String>() + &function;
    each("state_blind", &sql, |rig| {
        let calls = (0..bodies.len()).map(|n| format!("CALL state_blind.blind{n}()"));
        for call in
            calls.chain(["DO state_blind.blind()".to_owned(), "SELECT state_blind.blind()".to_owned()])
        {
            let mut client = rig.client();
            check_ansi(rig, &mut client, false);
            client.run("SET @m='ANSI_QUOTES'");
            client.run(&call);
            client.run("SET sql_mode=@m");
            let id = code(&mut client, "INSERT INTO t(\"id\",a) VALUES(NULL,NULL)");
            assert_eq!(id, 0, "{}: {call}", rig.name());
            client.run("SET @m=''");
            client.run("SET sql_mode=@m");
            check_ansi(rig, &mut client, false);
            client.run(&call);
            client.run("CALL hide()");
            client.run("INSERT INTO t(a) VALUES(7)");
            assert_eq!(rows(&mut client, "SELECT * FROM t"), "7", "{}: {call}", rig.name());
            client.run("DROP TEMPORARY TABLE t");
            // ROW_COUNT() is as the statement left it, though the state is in doubt.
            client.run("CALL two()");
            client.run("INSERT INTO w SELECT ROW_COUNT()");
            assert_eq!(rows(&mut client, "SELECT n FROM w"), "2", "{}: {call}", rig.name());
            client.run("DELETE FROM w");
        }
    });
}

/// A session's settings for its own results do not hold for the questions of the proxy.
#[test]
fn questions_are_answered_whatever_the_session_limits() {
    each("state_limited", "INSERT INTO u VALUES(1,1),(2,2),(3,3);", |rig| {
        let mut client = rig.client();
        client.run("SET sql_select_limit=0");
        if rig.kind != Kind::MariaDb {
            client.run("SET session_track_system_variables=NULL");
        }
        for (sql, rows) in [
            ("INSERT INTO t(a) VALUES(NULL)", 1),
            ("INSERT INTO t(a) SELECT NULL FROM u", 3),
            ("INSERT INTO t(id,a) SELECT IF(id=1,NULL,1000+id),NULL FROM u", 3),
            ("INSERT INTO t(id,a) VALUES(@none,NULL)", 1),
        ] {
            assert_eq!(client.run(sql)[0].ok().unwrap().affected_rows, rows, "{} {sql}", rig.name());
        }
        client.run("SET @sql='INSERT INTO t(a) SELECT ? FROM u', insert_id=5000");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)"), 5000, "{}", rig.name());
        client.run("PREPARE s FROM @sql");
        client.run("SET @a=NULL");
        assert_eq!(client.run("EXECUTE s USING @a")[0].ok().unwrap().affected_rows, 3, "{}", rig.name());
    });
}

/// A statement that the proxy can neither prepare nor read is refused. The server's error would tell of
/// something else.
#[test]
fn what_the_server_cannot_be_shown_is_refused() {
    each("state_unshown", "", |rig| {
        let mut client = rig.client();
        client.run("PREPARE s FROM 'SELECT ? FROM t'");
        let load = message(&mut client, "PREPARE l FROM 'LOAD DATA INFILE ''x'' INTO TABLE t'");
        assert!(
            load.starts_with(if rig.kind == Kind::MariaDb { "1235" } else { "1295" }),
            "{}: {load}",
            rig.name()
        );
        let told = message(&mut client, "EXECUTE s USING _ucs2 'b'");
        // MySQL takes variables only.
        let expect = if rig.kind == Kind::MariaDb { "a string's character set at byte" } else { "1064" };
        assert!(told.contains(expect), "{}: {told}", rig.name());
    });
}

/// A question of the proxy for the session's state, asked in between, would take the counts away.
#[test]
fn counts_are_those_of_the_statement_before() {
    each("state_counts", "INSERT INTO u VALUES(1,1),(2,2),(3,3);", |rig| {
        for (statement, reading) in [
            ("SELECT * FROM u", "SELECT FOUND_ROWS()"),
            ("(SELECT SQL_CALC_FOUND_ROWS * FROM u) UNION ALL SELECT 4,4 LIMIT 2", "SELECT FOUND_ROWS()"),
            ("SELECT SQL_CALC_FOUND_ROWS * FROM u LIMIT 1", "SELECT FOUND_ROWS()"),
            ("UPDATE u SET a=9", "SELECT ROW_COUNT()"),
            ("INSERT INTO u VALUES(7,7),(8,7)", "UPDATE u SET a=ROW_COUNT() WHERE a=7"),
        ] {
            let outcome = |mut client: Client| {
                client.run("START TRANSACTION");
                client.query(statement).unwrap();
                let read = format!("{:?}", client.query(reading).unwrap());
                let stored = rows(&mut client, "SELECT COUNT(*), SUM(a) FROM u");
                client.run("ROLLBACK");
                assert_eq!(code(&mut client, "INSERT INTO u VALUES(0,0)"), 0);
                client.run("DELETE FROM u WHERE id=0");
                (read, stored)
            };
            let (through, direct) = (outcome(rig.client()), outcome(rig.direct()));
            assert_eq!(through, direct, "{}: {statement}; {reading}", rig.name());
        }
        assert!(insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(NULL)") > 0, "{}", rig.name());
    });
}
