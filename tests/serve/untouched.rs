//! For statements that no rule can concern, the proxy is a bare relay: the bytes of both wires are the same.

use crate::rig::{Rig, code, each, each_with, insert_id, rows};
use crate::support::Kind;
use crate::support::Proxy;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_RESULTS, CLIENT_MULTI_STATEMENTS, CLIENT_PS_MULTI_RESULTS,
    CLIENT_SESSION_TRACK, Client, Options, Param,
};
use crate::support::tap::{Direction, Log, Tap};
use crate::support::wait::wait_until;

/// All with SESSION_TRACK, which the proxy agrees on with the server for every client: others get their answers without its reports
/// (`tracking`).
pub(crate) const CAPABILITIES: [u32; 3] = [
    CLIENT_SESSION_TRACK,
    CLIENT_SESSION_TRACK | CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS,
    CLIENT_SESSION_TRACK
        | CLIENT_MULTI_STATEMENTS
        | CLIENT_MULTI_RESULTS
        | CLIENT_PS_MULTI_RESULTS
        | CLIENT_DEPRECATE_EOF,
];

/// In a schema with a rule for `t`, none of them names it.
const STATEMENTS: &[&str] = &[
    "INSERT INTO u VALUES(1,2)",
    "INSERT INTO u(id) VALUES(ROW_COUNT())",
    "UPDATE u SET a=3",
    "INSERT INTO u SELECT id,a FROM u",
    "SELECT ROW_COUNT()",
    "SET sql_mode='ANSI_QUOTES'",
    "INSERT INTO \"u\" VALUES(1,2)",
    "SET NAMES latin1",
    "SET sql_mode=DEFAULT",
    "CREATE TABLE other (id INT)",
    "INSERT INTO other VALUES(1)",
    "CREATE VIEW w AS SELECT * FROM other",
    "INSERT INTO w VALUES(2)",
    "CREATE TEMPORARY TABLE tmp (id INT)",
    "INSERT INTO tmp VALUES(2)",
    "PREPARE s FROM 'INSERT INTO other VALUES(?)'",
    "SET @a=5",
    "EXECUTE s USING @a",
    "DEALLOCATE PREPARE s",
    "INSERT INTO other VALUE",
    "INSERT INTO other VALUES(1/*",
    "CALL p()",
    "INSERT INTO other VALUES(LAST_INSERT_ID())",
    "REPLACE INTO other SET id=3",
    "DELETE FROM other",
    "LOAD DATA INFILE '/nowhere' INTO TABLE other",
    "SHOW STATUS LIKE 'Questions'",
    "SHOW STATUS LIKE 'Last_query_cost'",
    "SHOW VARIABLES LIKE 'session_track%'",
    "SELECT @@session_track_state_change",
    "DROP VIEW w",
    "DROP TABLE other",
    "SELECT * FROM u USE INDEX () LIMIT 1",
    "USE nowhere",
    "PREPARE s FROM 'SELECT ''a'', \"b\"'",
    "UPDATE u SET a=4",
    "# this goes with the PREPARE\n -- and EXECUTE IMMEDIATE @a\n",
];

const OF_MARIADB: &[&str] = &[
    "BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'INSERT INTO u VALUES(7,8)'; END",
    "FOR i IN 1..2 DO INSERT INTO u VALUES(i,i); END FOR",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "SET STATEMENT sql_mode='' FOR INSERT INTO u VALUES(9,9)",
];

const SEVERAL: &[&str] = &[
    "CALL p(); INSERT INTO u VALUES(1,2)",
    "INSERT INTO u VALUES(1,2); INSERT nonsense",
    "SET @x=1; INSERT INTO u VALUES(@x,\"\\\"\")",
    "SELECT ';'; SELECT 2",
];

/// All that went one way.
pub(crate) fn sent(logs: &[Log], direction: Direction) -> Vec<u8> {
    logs.iter().flatten().filter(|(to, _)| *to == direction).flat_map(|(_, bytes)| bytes.clone()).collect()
}

/// A proxy between two taps. It has no control account, whose queries would be on the server's wire too.
pub(crate) struct Wires {
    pub(crate) outer: Tap,
    pub(crate) inner: Tap,
    _proxy: Proxy,
}

impl Wires {
    pub(crate) fn new(rig: &Rig) -> Wires {
        let inner = Tap::start(&rig.server.address());
        let config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[listen.tls]\nmode = \"disabled\"\n[backend]\naddress = \"{}\"\n\
             [backend.tls]\nmode = \"disabled\"\n[http]\naddress = \"off\"\n",
            inner.address()
        );
        let rules = crate::rig::rules(&rig.db).replace("\"sequence\"", "\"sequence\"\nseed = \"none\"");
        let proxy = Proxy::start(&config, &[("rules", &rules)]);
        let outer = Tap::start(&proxy.address());
        Wires { outer, inner, _proxy: proxy }
    }

    /// Forgets what the wires have carried for the one client that is connected, and for those before it. These have to end first: the
    /// server may have a last word for them (MySQL: 1158).
    pub(crate) fn begin(&self) {
        let open = || [self.outer.open(), self.inner.open()];
        wait_until(|| format!("{:?} connections are open", open()), || open() == [1, 1]);
        self.outer.take();
        self.inner.take();
    }

    #[track_caller]
    pub(crate) fn are_alike(&self, context: &str) {
        let (outer, inner) = (self.outer.take(), self.inner.take());
        for direction in [Direction::Up, Direction::Down] {
            let (client, server) = (sent(&outer, direction), sent(&inner, direction));
            assert!(
                client == server,
                "{context}, {direction:?}:\nthe client's wire: {}\nthe server's wire: {}",
                client.escape_ascii(),
                server.escape_ascii()
            );
        }
    }
}

/// Runs everything in a database, and compares the wires after each statement.
fn check(rig: &Rig, wires: &Wires, capabilities: u32, database: &str, passes: impl Fn(&str) -> bool) {
    let options = Options { database: Some(database.to_owned()), capabilities, ..Options::default() };
    let mut client = Client::connect(&wires.outer.address(), &options).unwrap();
    wires.begin();
    let context = |text: &str| format!("{} in {database} with {capabilities:#x}: {text}", rig.name());
    let mut texts = STATEMENTS.to_vec();
    if rig.kind == Kind::MariaDb {
        texts.extend(OF_MARIADB);
    }
    if capabilities & CLIENT_MULTI_STATEMENTS != 0 {
        texts.extend(SEVERAL);
    }
    for text in texts.into_iter().filter(|text| passes(text)) {
        client.query(text).unwrap_or_else(|error| panic!("{}: {error}", context(text)));
        wires.are_alike(&context(text));
    }
    for text in ["INSERT INTO u VALUES(?,?)", "REPLACE INTO u(a,id) VALUES(?,?)"] {
        let statement = client.prepare(text).unwrap().unwrap();
        for _ in 0..2 {
            client.execute(&statement, &[Param::Int(1), Param::NullInt]).unwrap();
        }
        client.close(&statement).unwrap();
        client.query("SELECT 1").unwrap();
        wires.are_alike(&context(text));
    }
    client.use_database("mysql").unwrap();
    client.query("SELECT 1").unwrap();
    client.use_database(database).unwrap();
    client.query("INSERT INTO u VALUES(1,1)").unwrap();
    for text in [&*format!("USE `{database}`"), "DELETE FROM u WHERE a=2"] {
        if passes(text) {
            client.query(text).unwrap();
        }
    }
    client.reset().unwrap();
    client.query("INSERT INTO u VALUES(1,1)").unwrap();
    if passes("DELETE") {
        client.query("DELETE FROM u WHERE a=2").unwrap();
    }
    wires.are_alike(&context("other commands"));
    // Whom it does not hear from MySQL tells so (1158), some time later.
    client.quit().unwrap();
}

#[test]
fn statements_that_name_nothing_ruled_pass_byte_for_byte() {
    let second = "CREATE PROCEDURE p() INSERT INTO u VALUES(4,4); CREATE DATABASE untouched_bytes_2; USE untouched_bytes_2; \
                  CREATE TABLE t (id INT, a INT); CREATE TABLE u (id INT, a INT); CREATE PROCEDURE p() INSERT INTO u VALUES(4,4);";
    each("untouched_bytes", second, |rig| {
        let wires = Wires::new(rig);
        for capabilities in CAPABILITIES {
            // A schema with rules asks in front of what leaves counts.
            let leaves_counts = |text: &str| ["UPDATE", "DELETE"].iter().any(|word| text.starts_with(word));
            check(rig, &wires, capabilities, &rig.db, |text| !leaves_counts(text));
            check(rig, &wires, capabilities, "untouched_bytes_2", |_| true);
        }
    });
}

/// Words of USE and PREPARE that are no statements, a USE that only the server can read, a login that failed.
#[test]
fn what_moves_nothing_leaves_a_session_untouched() {
    let other = "CREATE DATABASE untouched_words_2; CREATE TABLE untouched_words_2.help (id INT, topic TEXT); \
                 CREATE DATABASE `untouched_words_ї`;";
    each("untouched_words", other, |rig| {
        let wires = Wires::new(rig);
        for capabilities in CAPABILITIES {
            let options = Options {
                database: Some("untouched_words_2".to_owned()),
                capabilities,
                ..Options::default()
            };
            let mut client = Client::connect(&wires.outer.address(), &options).unwrap();
            wires.begin();
            for text in [
                "SET NAMES utf8mb4",
                "INSERT INTO help VALUES(1,'’\\' USE INDEX; PREPARE s FROM @a; EXECUTE s; USE b')",
                "DELETE FROM help WHERE id=1",
                "SET @n=(SELECT COUNT(*) FROM help WHERE topic='use')",
                "DELETE FROM help WHERE id=1",
                "USE `untouched_words_ї`",
                "DELETE FROM untouched_words_2.help",
                "USE untouched_words_2",
            ] {
                let failed = code(&mut client, text);
                assert_eq!(failed, 0, "{text}");
                wires.are_alike(&format!("{} {capabilities:#x}: {text}", rig.name()));
            }
            // MySQL ends the session.
            if rig.kind == Kind::MySql9 {
                continue;
            }
            assert!(client.change_user("nobody_of_this_name", "mysql").is_err());
            wires.begin();
            client.query("DELETE FROM help").unwrap();
            wires.are_alike(&format!("{} {capabilities:#x}: after a failed COM_CHANGE_USER", rig.name()));
        }
    });
}

/// To a client that speaks GBK a string ends elsewhere than in UTF-8, and statements follow it that fill a text in.
#[test]
fn a_string_of_another_character_set_hides_no_statement() {
    each("untouched_charset", "", |rig| {
        let capabilities = CLIENT_SESSION_TRACK | CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS;
        // INSERT INTO t(a) VALUES(7)
        let insert = "494e5345525420494e544f20742861292056414c554553283729";
        let text = format!(
            "INSERT INTO u VALUES(LENGTH('’\\'),1); SET @z=0x{insert}; PREPARE q FROM @z; EXECUTE q; -- '),1)"
        );
        for tracked in [true, false] {
            for charset in ["gbk", "utf8mb4"] {
                let mut client = rig.client_with(capabilities);
                client.run("SET NAMES utf8mb4");
                if !tracked {
                    client.run("SET session_track_system_variables=''");
                }
                client.run("SET sql_mode=''");
                client.run(format!("SET NAMES {charset}"));
                // The text may be refused. In UTF-8 it is one INSERT of one row.
                let _ = client.query(&text).unwrap();
            }
        }
        let lost = "SELECT COUNT(*) FROM t WHERE id IS NULL OR id=0";
        assert_eq!(rows(&mut rig.direct(), lost), "0", "{}", rig.name());
    });
}

/// A table of a ruled one's name, in a schema without rules.
#[test]
fn a_name_is_ruled_in_its_schema_only() {
    each(
        "untouched_schema",
        "CREATE DATABASE untouched_schema_2; CREATE TABLE untouched_schema_2.t (id INT, a INT);",
        |rig| {
            let wires = Wires::new(rig);
            for capabilities in CAPABILITIES {
                let options = Options { capabilities, ..Options::default() };
                let mut client = Client::connect(&wires.outer.address(), &options).unwrap();
                wires.begin();
                client.query("USE untouched_schema_2").unwrap();
                for text in ["INSERT INTO t VALUES(1,2)", "INSERT INTO t SELECT * FROM t", "TRUNCATE TABLE t"]
                {
                    assert_eq!(code(&mut client, text), 0, "{text}");
                }
                wires.are_alike(&format!("{} {capabilities:#x}", rig.name()));
                client.query(format!("USE {}", rig.db)).unwrap();
                assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0, "{}", rig.name());
                client.query("USE untouched_schema_2").unwrap();
                client.query("INSERT INTO t VALUES(1,2)").unwrap();
                let mut client = Client::connect(&wires.outer.address(), &options).unwrap();
                client.query("USE untouched_schema_2").unwrap();
                let qualified = format!("INSERT INTO {}.t(a) VALUES(NULL)", rig.db);
                assert!(insert_id(&mut client, &qualified) > 0, "{}", rig.name());
            }
        },
    );
}

/// The default database moves by a text within a text, and the client has the server not report it.
#[test]
fn a_move_that_nothing_reports_is_not_missed() {
    let other = "CREATE DATABASE untouched_moves_2; CREATE TABLE untouched_moves_2.t (id INT, a INT);";
    each("untouched_moves", other, |rig| {
        let options = Options { database: Some("untouched_moves_2".to_owned()), ..Options::default() };
        let connect = || {
            let mut client = Client::connect(&rig.proxy.address(), &options).unwrap();
            client.run("SET session_track_schema=OFF");
            client
        };
        let inserts = |client: &mut Client, context: &str| {
            // On MySQL it cannot be prepared, and nothing moves.
            let is_ruled = rows(client, "SELECT DATABASE()") == rig.db;
            assert!(is_ruled || rig.kind == Kind::MySql9, "{context}");
            let id = insert_id(client, "INSERT INTO t(a) VALUES(NULL)");
            assert_eq!(id > 0, is_ruled, "{} {context}", rig.name());
        };
        for text in [
            format!("EXECUTE IMMEDIATE 'USE {}'", rig.db),
            format!("EXECUTE IMMEDIATE \" use {}\"", rig.db),
            format!("SET STATEMENT max_statement_time=10 FOR USE {}", rig.db),
            format!("EXECUTE IMMEDIATE 'SET STATEMENT max_statement_time=10 FOR USE {}'", rig.db),
        ] {
            let mut client = connect();
            client.query(&text).unwrap();
            inserts(&mut client, &text);
        }
        let mut client = connect();
        client.query(format!("PREPARE s FROM 'USE {}'", rig.db)).unwrap();
        client.run("USE untouched_moves_2");
        client.query("EXECUTE s").unwrap();
        inserts(&mut client, "PREPARE");
        let mut client = connect();
        let prepared = client.prepare(format!("USE {}", rig.db)).unwrap();
        client.run("USE untouched_moves_2");
        if let Ok(prepared) = prepared {
            client.execute(&prepared, &[]).unwrap();
        }
        inserts(&mut client, "the driver's PREPARE");
    });
}

/// Once a session has named a ruled table, the proxy knows it; what no rule can concern is refused no more than before.
#[test]
fn what_cannot_be_read_passes_where_it_names_nothing_ruled() {
    each("untouched_passes", "CREATE PROCEDURE p() INSERT INTO u VALUES(4,4);", |rig| {
        for is_ruled in [false, true] {
            let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS);
            let mut direct = rig.direct_with(CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS);
            if is_ruled {
                client.run("INSERT INTO t(a) VALUES(NULL)");
            }
            let mut texts = SEVERAL.to_vec();
            texts.extend([
                "SET @s='INSERT INTO u VALUES(5,5)'; PREPARE s FROM @s; EXECUTE s",
                "PREPARE s FROM 'INSERT INTO u VALUES(6,6)'; EXECUTE s; INSERT INTO u VALUES(7,7)",
            ]);
            if rig.kind == Kind::MariaDb {
                texts.extend(OF_MARIADB);
            }
            for text in texts {
                // In a packet of several, the last outcome says whether one failed.
                let natively = code(&mut direct, text);
                assert_eq!(code(&mut client, text), natively, "{} {is_ruled} {text}", rig.name());
            }
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0);
        }
    });
}

/// After a text that could not be seen, the session's state is known, and compound statements are read.
#[test]
fn a_compound_statement_prepares_in_a_schema_without_rules() {
    each("untouched_compound", "CREATE DATABASE untouched_compound_2;", |rig| {
        if rig.kind == Kind::MySql9 {
            return;
        }
        let options = Options { database: Some("untouched_compound_2".to_owned()), ..Options::default() };
        let mut client = Client::connect(&rig.proxy.address(), &options).unwrap();
        // A word of a ruled table is not its name yet.
        client.run("SET @t='t'");
        let block = "BEGIN NOT ATOMIC EXECUTE IMMEDIATE CONCAT('SELECT ', 1); END";
        assert_eq!(rows(&mut client, block), "1");
        assert_eq!(code(&mut client, "PREPARE s FROM @nothing"), 1064);
        assert_eq!(rows(&mut client, block), "1");
        assert_eq!(code(&mut client, "USE nowhere"), 1049);
        assert_eq!(rows(&mut client, block), "1");
        client.run("SET @s='untouched_compound'");
        assert_eq!(code(&mut client, block), 1235);
    });
}

/// A statement is prepared, by SQL or by the driver, before its table has a rule.
#[test]
fn what_passed_before_a_rule_came_does_not_run_without_an_id() {
    let config = "[rules]\nwatch = false\n";
    each_with(
        "untouched_rule",
        "CREATE TABLE later (id BIGINT PRIMARY KEY, a INT);",
        config,
        &crate::rig::rules("untouched_rule"),
        |rig| {
            let mut client = rig.client();
            let prepared = client.prepare("INSERT INTO later(a) VALUES(?)").unwrap().unwrap();
            let quoted = client.prepare("INSERT INTO later(a) VALUES(LENGTH(\"x\")+?)").unwrap().unwrap();
            client.run("PREPARE s FROM 'INSERT INTO later(a) VALUES(7)'");
            let rules = crate::rig::rules(&rig.db) + "[tables.later]\ncolumn = \"id\"\ngenerator = \"g\"\n";
            rig.proxy.write_rules("rules", &rules);
            rig.proxy.reload();
            let outcome = client.query("EXECUTE s").unwrap().remove(0);
            let error = outcome.err().unwrap_or_else(|| panic!("{}: it ran", rig.name()));
            assert!(
                error.code == 1235 && error.message.contains("PREPARE the statement again"),
                "{}",
                error.message
            );
            let outcome = client.execute(&prepared, &[Param::Int(1)]).unwrap().remove(0);
            assert!(outcome.ok().is_some_and(|ok| ok.insert_id > 0), "{}: {outcome:?}", rig.name());
            let outcome = client.execute(&quoted, &[Param::Int(1)]).unwrap().remove(0);
            let error = outcome.err().unwrap_or_else(|| panic!("{}: it ran", rig.name()));
            assert!(
                error.code == 1235 && error.message.contains("prepare the statement again"),
                "{}",
                error.message
            );
            assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM later WHERE id>0"), "1");
        },
    );
}

/// The text is computed by functions: the server says what it is before anything is judged.
#[test]
fn texts_that_functions_compute_are_asked_for() {
    each("untouched_computed", "", |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let (mut client, mut direct) = (rig.client(), rig.direct());
        for text in [
            "EXECUTE IMMEDIATE SFORMAT('INSERT INTO {} VALUES(1,2)', 'u')",
            "PREPARE s FROM REVERSE('1 TCELES')",
            "EXECUTE s",
            "EXECUTE IMMEDIATE CONCAT(LEFT('INSERT nothing', 6), ' u VALUES(3,4)')",
            "EXECUTE IMMEDIATE no_such_function('a')",
            "EXECUTE IMMEDIATE (SELECT 'SELECT 1')",
            "EXECUTE IMMEDIATE",
            "PREPARE s FROM ",
            "EXECUTE IMMEDIATE ELT(1,'INSERT INTO u VALUE')",
        ] {
            assert_eq!(code(&mut client, text), code(&mut direct, text), "{text}");
        }
        for text in ["CONCAT('INSERT INTO ','t(a) VALUES(NULL)')", "ELT(1,'INSERT INTO t(a) VALUES(NULL)')"] {
            client.run(format!("EXECUTE IMMEDIATE {text}"));
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE id>0"), "2");
    });
}

/// A function's result is computed once, and the proxy judges that text. A second time it could be another.
#[test]
fn a_text_that_comes_out_otherwise_the_second_time_gets_no_row_without_an_id() {
    each("untouched_turns", "", |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let insert = "'INSERT INTO t(a) VALUES(NULL)'";
        for (first, second, ids) in [
            ("'SELECT 1'", insert, 0),
            ("'SELECT ''é😀'''", insert, 0),
            ("NULL", insert, 0),
            // Out of range.
            ("POW(9, 999 + @n)", insert, 0),
            (insert, "'SELECT 1'", 1),
            (insert, "'INSERT INTO t VALUES(0,0)'", 1),
        ] {
            for charset in ["utf8mb4", "latin1"] {
                for command in ["EXECUTE IMMEDIATE", "PREPARE s FROM"] {
                    let mut client = rig.client();
                    client.run(format!("SET NAMES {charset}"));
                    client.run("SET @n = 0");
                    client.run("DELETE FROM t");
                    let text = format!("{command} IF((@n:=@n+1)=1, {first}, {second})");
                    let failed = code(&mut client, &text) != 0;
                    assert_eq!(failed, first.starts_with(['N', 'P']), "{charset} {text}");
                    // Runs the statement that PREPARE has named, if it has.
                    let _ = client.query("EXECUTE s").unwrap();
                    assert_eq!(rows(&mut client, "SELECT @n"), "1", "{charset} {text}");
                    let ids = format!("{ids} of {ids}");
                    let got =
                        rows(&mut client, "SELECT CONCAT(COUNT(IF(id>0,1,NULL)), ' of ', COUNT(*)) FROM t");
                    assert_eq!(got, ids, "{charset} {text}");
                }
            }
        }
    });
}

/// A handler catches an error after the columns of a result have gone out. MySQL ends that result by the old packet, whatever was
/// agreed on.
#[test]
fn a_result_that_a_handler_cuts_off_is_followed_by_the_next() {
    let sql = "CREATE FUNCTION fails() RETURNS INT NO SQL BEGIN SIGNAL SQLSTATE '45000'; RETURN 1; END; \
               CREATE PROCEDURE handles() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 42; SELECT fails(); END;";
    each("untouched_handler", sql, |rig| {
        for capabilities in CAPABILITIES {
            let (mut client, mut direct) = (
                rig.client_with(capabilities | CLIENT_MULTI_RESULTS),
                rig.direct_with(capabilities | CLIENT_MULTI_RESULTS),
            );
            client.send_query(b"CALL handles()").unwrap();
            direct.send_query(b"CALL handles()").unwrap();
            client.send_command(0x0E, b"").unwrap();
            direct.send_command(0x0E, b"").unwrap();
            // To the OK of COM_PING, whose number is 1 like that of each first packet.
            let (mut through, mut straight) = (Vec::new(), Vec::new());
            for _ in 0..8 {
                straight.push(direct.read_packet().unwrap_or_default().escape_ascii().to_string());
                through.push(client.read_packet().unwrap_or_default().escape_ascii().to_string());
                if straight.iter().any(|packet| packet.contains("42"))
                    && straight.last().is_some_and(|p| p.starts_with("\\x00"))
                {
                    break;
                }
            }
            assert_eq!(through, straight, "{} {capabilities:#x}", rig.name());
        }
    });
}

/// A server that is busy with a statement sees that its client is gone.
#[test]
fn a_client_that_leaves_takes_its_statement_along() {
    each("untouched_leaves", "", |rig| {
        let client = rig.client();
        let mut holder = rig.direct();
        holder.run("SELECT GET_LOCK('untouched_leaves', 1)");
        let mut waiting = client;
        waiting.send_query(b"SELECT GET_LOCK('untouched_leaves', 600)").unwrap();
        let waits =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE 'SELECT GET_LOCK%600)'";
        rig.wait_until("it does not wait", || rows(&mut holder, waits) == "1");
        drop(waiting);
        // The statement's own limit is longer.
        rig.wait_until("it still waits, for nobody", || rows(&mut holder, waits) == "0");
    });
}
