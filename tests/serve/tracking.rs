//! The proxy has the server report every change of the session's state. A client gets what it would get without the
//! proxy, and finds its own variables as it left them.

use crate::rig::{Rig, each, insert_id, rows};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, CLIENT_MULTI_RESULTS, CLIENT_SESSION_TRACK, Client};

const COM_QUERY: u8 = 0x03;
const COM_INIT_DB: u8 = 0x02;

/// Statements that change the session's state, and statements that look at or set which changes are told.
/// `{}` is the test's database.
const SCRIPT: &[&str] = &[
    "USE mysql",
    "USE {}",
    "SET sql_mode='ANSI_QUOTES'",
    "SET sql_mode=''",
    "SET NAMES latin1",
    "SET NAMES utf8mb4",
    "SET time_zone='+01:00'",
    "SET @a=1",
    "SELECT @a:=2",
    "CREATE TEMPORARY TABLE tmp (a INT)",
    "DROP TEMPORARY TABLE tmp",
    "CALL makes()",
    "SELECT makes_too()",
    "CALL sets()",
    "PREPARE s FROM 'SELECT 1'",
    "DEALLOCATE PREPARE s",
    "BEGIN",
    "COMMIT",
    "SHOW VARIABLES LIKE 'session_track_s%'",
    "SELECT @@session_track_schema,@@session_track_state_change,@@session_track_system_variables",
    "SET session_track_state_change=ON",
    "SET @a=3",
    "USE {}",
    "SET sql_mode='ANSI'",
    "SET session_track_system_variables='sql_mode,time_zone'",
    "SET sql_mode=''",
    "SET NAMES utf8mb4",
    "SET SESSION_TRACK_STATE_CHANGE=DEFAULT",
    "SET @a=3",
    "SET session_track_schema=OFF",
    "USE {}",
    "SET session_track_system_variables='*'",
    "SET sql_mode=DEFAULT, time_zone=DEFAULT, max_join_size=5000",
    "SET session_track_system_variables=''",
    "SET sql_mode=''",
    "SELECT @@session_track_schema,@@session_track_state_change,@@session_track_system_variables",
    "SET session_track_schema=DEFAULT, session_track_system_variables=DEFAULT",
    "USE {}",
    "SELECT VARIABLE_VALUE FROM performance_schema.session_variables WHERE VARIABLE_NAME LIKE 'SESSION\\_TRACK\\_S%'",
];

const ROUTINES: &str = "CREATE PROCEDURE makes() BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS made (a INT); DROP TEMPORARY TABLE made; END; \
     CREATE FUNCTION makes_too() RETURNS INT NO SQL BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS made (a INT); DROP TEMPORARY TABLE made; RETURN 1; END; \
     CREATE PROCEDURE sets() SET time_zone='+02:00', @b=1;";

fn capabilities() -> [u32; 4] {
    let all = CLIENT_MULTI_RESULTS | CLIENT_SESSION_TRACK;
    [CLIENT_MULTI_RESULTS, CLIENT_MULTI_RESULTS | CLIENT_DEPRECATE_EOF, all, all | CLIENT_DEPRECATE_EOF]
}

fn script(rig: &Rig) -> impl Iterator<Item = String> {
    SCRIPT.iter().map(|text| text.replace("{}", &rig.db))
}

/// The reports in an OK packet, which is all but their end, in order: that of several variables depends on a hash table of the server's.
fn sort_reports(packet: &mut [u8]) {
    const STATUS: usize = 3;
    let is_short = |at: usize| packet.get(at).is_some_and(|byte| *byte < 0xFB);
    let has_state = matches!(&*packet, [0, 0, 0, _, high, ..] if *high & 0x40 != 0);
    // Without rows and ids; with a short text.
    if !has_state || !is_short(STATUS + 4) {
        return;
    }
    let block = STATUS + 4 + 1 + usize::from(packet[STATUS + 4]);
    if !is_short(block) || block + 1 + usize::from(packet[block]) != packet.len() {
        return;
    }
    let mut reports = Vec::new();
    let mut rest = &packet[block + 1..];
    while let [_, length, ..] = *rest {
        let Some((report, more)) = rest.split_at_checked(2 + usize::from(length)) else { return };
        reports.push(report.to_vec());
        rest = more;
    }
    reports.sort();
    packet[block + 1..].copy_from_slice(&reports.concat());
}

/// The answers, packet by packet. MySQL numbers the statements of all sessions, and tells the number where all variables are reported.
fn transcript(client: &mut Client, command: u8, text: &str) -> Vec<String> {
    const NUMBER: &[u8] = b"statement_id";
    let mut packets = client.transcript(command, text.as_bytes()).unwrap();
    for packet in &mut packets {
        if let Some(at) = packet.windows(NUMBER.len()).position(|window| window == NUMBER) {
            let digits = at + NUMBER.len() + 1;
            let count = usize::from(packet[digits - 1]);
            packet[digits..][..count].fill(b'n');
        }
        sort_reports(packet);
    }
    packets.iter().map(|packet| packet.escape_ascii().to_string()).collect()
}

#[test]
fn clients_are_told_what_they_would_be_told_without_a_proxy() {
    each("tracking_told", ROUTINES, |rig| {
        for capabilities in capabilities() {
            let (mut client, mut direct) = (rig.client_with(capabilities), rig.direct_with(capabilities));
            for text in script(rig) {
                // The proxy looks at the session's state before each of these, wherever it does not know it.
                insert_id(&mut client, &format!("INSERT INTO {}.t(a) VALUES(NULL)", rig.db));
                direct.run(format!("INSERT INTO {}.u(a) VALUES(NULL)", rig.db));
                let (through, straight) =
                    (transcript(&mut client, COM_QUERY, &text), transcript(&mut direct, COM_QUERY, &text));
                assert_eq!(through, straight, "{} {capabilities:#x}: {text}", rig.name());
            }
            let (through, straight) = (
                transcript(&mut client, COM_INIT_DB, "mysql"),
                transcript(&mut direct, COM_INIT_DB, "mysql"),
            );
            assert_eq!(through, straight, "{} {capabilities:#x}: COM_INIT_DB", rig.name());
        }
    });
}

/// A statement that looks at the variables, prepared before and after the proxy knows the session.
#[test]
fn executions_see_the_sessions_own_variables() {
    let sql = "SELECT @@session_track_state_change,@@session_track_system_variables";
    each("tracking_executed", "", |rig| {
        for capabilities in capabilities() {
            let mut client = rig.client_with(capabilities);
            let before = client.prepare(sql).unwrap().unwrap();
            let own = format!("{:?}", client.execute(&before, &[]).unwrap()[0].rows());
            insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)");
            let after = client.prepare(sql).unwrap().unwrap();
            for statement in [&before, &after] {
                insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)");
                let found = format!("{:?}", client.execute(statement, &[]).unwrap()[0].rows());
                assert_eq!(found, own, "{} {capabilities:#x}", rig.name());
            }
        }
    });
}

/// The proxy tracks what the client turns off: it reads the session as it is.
#[test]
fn the_session_is_followed_whatever_the_client_tracks() {
    each(
        "tracking_followed",
        "CREATE PROCEDURE off() SET session_track_state_change=OFF, session_track_system_variables='';",
        |rig| {
            let mut client = rig.client();
            insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)");
            for off in [
                "SET session_track_schema=OFF, session_track_state_change=OFF, session_track_system_variables=''",
                "CALL off()",
            ] {
                client.run(off);
                client.run("SET sql_mode='ANSI_QUOTES'");
                insert_id(&mut client, "INSERT INTO t(\"a\") VALUES(NULL)");
                client.run("CREATE TEMPORARY TABLE t (a INT)");
                client.run("INSERT INTO t VALUES(1)");
                assert_eq!(rows(&mut client, "SELECT * FROM t"), "1", "{} {off}", rig.name());
                client.run("DROP TEMPORARY TABLE t");
                client.run("SET sql_mode=''");
                assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0, "{} {off}", rig.name());
                assert_eq!(
                    rows(&mut client, "SELECT @@session_track_system_variables"),
                    "",
                    "{} {off}",
                    rig.name()
                );
            }
        },
    );
}
