//! A response ends where the server ends it: procedures with cursors and OUT parameters, errors of any
//! number, progress reports. The packets are those without the proxy.

use crate::rig::{Rig, each, insert_id, message};
use crate::support::Kind;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_RESULTS, CLIENT_MULTI_STATEMENTS, CLIENT_PS_MULTI_RESULTS,
    CLIENT_SESSION_TRACK, Client, MARIADB_PROGRESS, Options,
};

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

const PROCEDURES: &str = "\
    CREATE PROCEDURE cur() BEGIN DECLARE v INT; DECLARE c CURSOR FOR SELECT 1 UNION SELECT 2; OPEN c; FETCH c INTO v; \
    SELECT 7; CLOSE c; SELECT 8; END; \
    CREATE PROCEDURE outs(OUT a INT, INOUT b INT) BEGIN SET a=5; SET b=b+1; END; \
    CREATE PROCEDURE outsel(OUT a INT, INOUT b INT) BEGIN SELECT 3; SET a=5; SET b=b+1; SELECT 4; END; \
    CREATE PROCEDURE curout(OUT a INT) BEGIN DECLARE c CURSOR FOR SELECT 1 UNION SELECT 2; OPEN c; FETCH c INTO a; \
    SELECT 7; CLOSE c; END; \
    CREATE PROCEDURE fails(OUT a INT) BEGIN SELECT 3; SET a=5; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO=5000; END; \
    CREATE FUNCTION curfun() RETURNS INT READS SQL DATA BEGIN DECLARE v INT; DECLARE c CURSOR FOR SELECT a FROM u; OPEN c; \
    FETCH c INTO v; RETURN v; END; INSERT INTO u VALUES (1,1),(2,2);";

/// Straight to the server, and by the proxy.
fn both(rig: &Rig, capabilities: u32, extended: u32) -> [Client; 2] {
    let options = Options { database: Some(rig.db.clone()), capabilities, extended, ..Options::default() };
    [rig.server.address(), rig.proxy.address()].map(|address| Client::connect(&address, &options).unwrap())
}

/// The packets of a client that did not ask for session tracking are the server's own; of others, whose OK packets may tell more,
/// the first byte of each.
#[track_caller]
fn same(clients: &mut [Client; 2], what: &str, command: u8, bodies: &[Vec<u8>; 2]) {
    let name = clients[0].server_version.clone();
    let is_tracked = clients[0].has(CLIENT_SESSION_TRACK);
    let [native, proxied] = [0, 1].map(|at| {
        let packets = clients[at].transcript(command, &bodies[at]);
        let packets = packets.unwrap_or_else(|e| panic!("{name}: {what}: client {at}: {e}"));
        packets
            .into_iter()
            .map(|packet| if is_tracked { packet[..1].to_vec() } else { packet })
            .collect::<Vec<_>>()
    });
    assert_eq!(native, proxied, "{name} {:#x}: {what}", clients[0].capabilities);
}

fn twice(text: &str) -> [Vec<u8>; 2] {
    [text.as_bytes().to_vec(), text.as_bytes().to_vec()]
}

#[test]
fn calls_end_where_the_server_ends_them() {
    each("procedures_calls", PROCEDURES, |rig| {
        for form in
            [0, CLIENT_DEPRECATE_EOF, CLIENT_SESSION_TRACK, CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK]
        {
            for outs in [0, CLIENT_PS_MULTI_RESULTS] {
                let several = CLIENT_MULTI_RESULTS | CLIENT_MULTI_STATEMENTS;
                let clients = &mut both(rig, several | form | outs, 0);
                for text in [
                    "CALL cur()",
                    "CALL cur(); SELECT 9",
                    "CALL outs(@a,@b)",
                    "SELECT curfun()",
                    "CALL fails(@a)",
                ] {
                    same(clients, text, QUERY, &twice(text));
                }
                for (text, params) in [
                    ("CALL cur()", 0_u8),
                    ("CALL outs(?,?)", 2),
                    ("CALL outsel(?,?)", 2),
                    ("CALL curout(?)", 1),
                    ("CALL fails(?)", 1),
                    ("SELECT 1", 0),
                    ("SELECT ?", 1),
                    ("SELECT curfun()", 0),
                    ("SELECT curfun() FROM u WHERE curfun()", 0),
                    ("DO 1", 0),
                ] {
                    for flags in [0, 1, 2, 4] {
                        executed(clients, text, flags, params);
                    }
                }
                same(clients, "the session lives", QUERY, &twice("SELECT 10"));
            }
        }
    });
}

#[track_caller]
fn executed(clients: &mut [Client; 2], text: &str, flags: u8, params: u8) {
    let ids = [0, 1].map(|at: usize| -> [u8; 4] {
        let packets = clients[at].transcript(PREPARE, text.as_bytes()).unwrap();
        packets[0][1..5].try_into().unwrap()
    });
    let bodies = ids.map(|id| {
        let mut body = [&id[..], &[flags, 1, 0, 0, 0]].concat();
        if params > 0 {
            // No NULLs, types sent, each a TINYINT.
            body.extend([0, 1]);
            body.extend((0..params).flat_map(|_| [1, 0]));
            body.extend(1..=params);
        }
        body
    });
    same(clients, &format!("{text} with flags {flags}"), EXECUTE, &bodies);
    let closes = ids.map(|id| id.to_vec());
    // COM_STMT_RESET, for a cursor that is open.
    same(clients, "reset", 0x1A, &closes);
}

#[test]
fn an_error_may_have_any_number() {
    each("procedures_errors", "", |rig| {
        for form in [0, CLIENT_DEPRECATE_EOF] {
            // MariaDB takes none above 65534.
            for number in [65535, 65534, 1] {
                let text = format!("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO={number}, MESSAGE_TEXT='no'");
                let mut clients = both(rig, form, 0);
                let [native, proxied] = [0, 1].map(|at| message(&mut clients[at], &text));
                assert_eq!(native, proxied, "{}", rig.name());
                let [_, mut client] = clients;
                assert!(
                    insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(NULL)") > 0,
                    "{} {number}",
                    rig.name()
                );
                client.reset().unwrap_or_else(|e| panic!("{} {number}: {e}", rig.name()));
            }
        }
    });
}

#[test]
fn progress_reports_end_nothing() {
    let tables = "CREATE TABLE p (a INT, b VARCHAR(20)) ENGINE=MyISAM; INSERT INTO p VALUES (1,'x'),(2,'y');";
    each("procedures_progress", tables, |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let clients = &mut both(rig, CLIENT_DEPRECATE_EOF, MARIADB_PROGRESS);
        assert_eq!(clients[0].extended, MARIADB_PROGRESS);
        same(clients, "each", QUERY, &twice("SET progress_report_time=0.000001"));
        let text = b"ALTER TABLE p ENGINE=Aria, ADD KEY(a), ADD KEY(b), ORDER BY b";
        let packets = clients[1].transcript(QUERY, text).unwrap();
        assert!(packets.len() > 1 && packets[0].starts_with(&[0xFF, 0xFF, 0xFF, 1]), "{packets:?}");
        assert_eq!(packets.last().map(|packet| packet[0]), Some(0));
        assert!(insert_id(&mut clients[1], "INSERT INTO t(a) VALUES(NULL)") > 0);
        // Progress reports do not end commands that go by way of a stage either.
        rig.direct().run("SELECT a+1000 FROM p INTO OUTFILE 'progress.txt'");
        for text in ["INSERT INTO t(a) SELECT a+10 FROM p", "LOAD DATA INFILE 'progress.txt' INTO TABLE t(a)"]
        {
            let packets = clients[1].transcript(QUERY, text.as_bytes()).unwrap();
            assert_eq!(
                packets.last().map(|packet| packet[..2].to_vec()),
                Some(vec![0, 2]),
                "{text}: {packets:?}"
            );
        }
    });
}
