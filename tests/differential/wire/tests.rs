//! A session that is as it should be passes. If one thing in it is changed, that is noticed.

use super::edits::{Ids, Known, Told, ids_in};
use super::{Rules, Wire};
use crate::support::raw::CLIENT_DEPRECATE_EOF;
use crate::support::tap::Direction::{self, Down, Up};
use crate::support::tap::Log;

const RULES: Rules = Rules { columns: &["id"], first_id: 1000 };
const KNOWN: Known<'_> = Known { columns: RULES.columns, told: &[] };

const STATE: &[u8] =
    b"\x03SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@collation_connection),HEX(IFNULL(@@character_set_results,'')),HEX(@@session_track_state_change),HEX(@@session_track_schema),HEX(IFNULL(@@session_track_system_variables,'')),HEX(@@insert_id),HEX(CONVERT(IFNULL(DATABASE(),'') USING utf8mb4)) LIMIT 1";
const INSERT: &[u8] = b"\x03INSERT INTO t (a, b) VALUES ('it''s', NULL), (2, 'y')";
const WITH_IDS: &[u8] =
    b"\x03INSERT INTO t (a, b,`id`) VALUES ('it''s', NULL,LAST_INSERT_ID(1000)), (2, 'y',1001)";
const PREPARE: &[u8] = b"\x16INSERT INTO t (a) VALUES (?)";
const PREPARED: &[u8] = b"\x16INSERT INTO t (a,`id`) VALUES (?,LAST_INSERT_ID(?))";
/// Affected rows, insert id 1000, status, warnings; the server's with the default database, which has changed.
const OK: &[u8] = b"\x00\x02\xfc\xe8\x03\x02\x00\x00\x00";
const OK_WITH_STATE: &[u8] = b"\x00\x02\xfc\xe8\x03\x02\x40\x00\x00\x00\x04\x01\x02\x01s";
const SELECT: &[u8] = b"\x03SELECT b FROM t";
const ROW: &[u8] = b"\x04text";

/// Direction, number and payload.
type Packets = Vec<(Direction, u8, Vec<u8>)>;

/// Both wires.
struct Session {
    client: Packets,
    server: Packets,
}

fn put(packets: &mut Packets, asked: &[u8], answer: &[&[u8]]) {
    packets.push((Up, 0, asked.to_vec()));
    packets.extend((1..).zip(answer).map(|(nr, payload)| (Down, nr, payload.to_vec())));
}

fn session() -> Session {
    let greeting = b"\x0a9.7\0\x11\0\0\0nonce".to_vec();
    let response = CLIENT_DEPRECATE_EOF.to_le_bytes().to_vec();
    let login = vec![(Down, 0, greeting), (Up, 1, response), (Down, 2, b"\0\0\0\x02\0\0\0".to_vec())];
    let (mut client, mut server) = (login.clone(), login);
    let end = b"\xfe\0\0\x02\0\0\0";
    let rows: &[&[u8]] = &[b"\x01", b"definition", ROW, end];
    put(&mut client, SELECT, rows);
    put(&mut server, SELECT, rows);
    put(&mut server, STATE, &[b"\x01", b"definition", b"row", end]);
    put(&mut client, INSERT, &[OK]);
    put(&mut server, WITH_IDS, &[OK_WITH_STATE]);
    put(&mut client, PREPARE, &[b"\0\x05\0\0\0\0\0\x01\0\0\0\0", b"a"]);
    put(&mut server, PREPARED, &[b"\0\x05\0\0\0\0\0\x02\0\0\0\0", b"a", b"id"]);
    put(&mut client, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x01x", &[b"\0\x01\xfc\xea\x03\x02\0\0\0"]);
    let bound = b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x08\0\x01x\xea\x03\0\0\0\0\0\0";
    put(&mut server, bound, &[b"\0\x01\xfc\xea\x03\x02\0\0\0"]);
    for packets in [&mut client, &mut server] {
        put(packets, b"\x01", &[]);
    }
    Session { client, server }
}

fn complaints(session: &Session) -> Vec<String> {
    Wire::new(RULES).complaints(&[log(&session.client)], &[log(&session.server)])
}

fn log(packets: &Packets) -> Log {
    let chunk = |(direction, nr, payload): &(Direction, u8, Vec<u8>)| {
        let [low, high] = u16::try_from(payload.len()).expect("short").to_le_bytes();
        (*direction, [&[low, high, 0, *nr], &**payload].concat())
    };
    packets.iter().map(chunk).collect()
}

/// `part` of a payload of one wire becomes `other`.
fn swap(packets: &mut Packets, part: &[u8], other: &[u8]) {
    let found = packets.iter_mut().find_map(|(_, _, payload)| {
        let at = memchr::memmem::find(payload, part)?;
        payload.splice(at..at + part.len(), other.iter().copied());
        Some(())
    });
    assert!(found.is_some(), "nothing holds {}", part.escape_ascii());
}

fn drop_packet(packets: &mut Packets, payload: &[u8]) {
    let at = packets.iter().position(|packet| packet.2 == payload).expect("it is there");
    packets.remove(at);
}

#[track_caller]
fn notices(complaint: &str, change: impl Fn(&mut Session)) {
    let mut session = session();
    change(&mut session);
    let complaints = complaints(&session);
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

#[test]
fn a_session_as_it_should_be() {
    assert_eq!(complaints(&session()), [""; 0]);
}

#[test]
fn changed_commands_are_noticed() {
    notices("SELECT b FROM t became", |s| swap(&mut s.server, b"SELECT b", b"SELECT B"));
    notices("VALUES (\\'it\\'\\'s\\'", |s| swap(&mut s.server, b"'it''s'", b"'it''S'"));
    notices("INSERT INTO t (a, b) VALUES", |s| swap(&mut s.server, b"(2, 'y'", b"(3, 'y'"));
    notices("INSERT INTO t (a, b) VALUES", |s| swap(&mut s.server, b"(2, 'y'", b"(2,'y'"));
    notices("which is no id", |s| swap(&mut s.server, b", NULL", b", 1"));
    notices("which is no id", |s| swap(&mut s.server, b"1001", b"999"));
    notices("which was taken before", |s| swap(&mut s.server, b"1001", b"1000"));
    notices("which was taken before", |s| swap(&mut s.server, b"LAST_INSERT_ID(1000)", b"1001"));
    // The execution: the client's string, its type, and an id that was given already.
    notices("\\x17\\x05", |s| swap(&mut s.server, b"\x01x\xea", b"\x01y\xea"));
    notices("\\x17\\x05", |s| swap(&mut s.server, b"\xfd\0\x08", b"\xfc\0\x08"));
    notices("which was taken before", |s| swap(&mut s.server, b"\x01x\xea", b"\x01x\xe9"));
    // A command of the proxy's own in another form than it is known by.
    notices("became \\x03SELECT HEX(@@sql_mode)", |s| {
        swap(&mut s.server, b"@@character_set_client", b"@@version");
    });
}

#[test]
fn changed_answers_are_noticed() {
    notices("\\x04text became \\x04teXt", |s| swap(&mut s.client, b"text", b"teXt"));
    notices("packet 0", |s| swap(&mut s.client, b"\x00\x02\xfc\xe8", b"\x00\x03\xfc\xe8"));
    notices("packet 0", |s| swap(&mut s.client, b"\x02\xfc\xe8", b"\x02\xfc\xf8"));
    notices("packet 0", |s| swap(&mut s.client, OK, OK_WITH_STATE));
    notices("packet 3", |s| swap(&mut s.client, b"\xfe\0\0\x02", b"\xfe\0\x07\x02"));
    notices("should have become", |s| swap(&mut s.client, b"\0\x05\0\0\0\0\0\x01", b"\0\x05\0\0\0\0\0\x02"));
    notices("should have become", |s| {
        swap(&mut s.client, b"\0\x05\0\0\0\0\0\x01\0\0\0\0", b"\0\x05\0\0\0\0\0\x01\0\0\x01\0");
    });
}

#[test]
fn packets_too_few_and_too_many_are_noticed() {
    notices("became nothing", |s| drop(s.server.pop()));
    notices("SELECT b FROM t became", |s| {
        s.server.drain(3..8);
    });
    notices("packet number 4 answers nothing", |s| drop_packet(&mut s.client, ROW));
    notices("4 packets became 3", |s| {
        drop_packet(&mut s.client, ROW);
        s.client[6].1 -= 1;
    });
    notices("nothing answers", |s| drop_packet(&mut s.client, OK));
    notices("answers nothing", |s| s.client.push((Down, 1, OK.to_vec())));
    notices("4 packets became 5", |s| s.client.insert(8, (Down, 5, ROW.to_vec())));
    notices("became \\x03SET a=1", |s| {
        let at = s.server.iter().position(|packet| packet.2 == WITH_IDS).expect("it is there");
        s.server.splice(at..at, [(Up, 0, b"\x03SET a=1".to_vec()), (Down, 1, OK.to_vec())]);
    });
    notices("nobody asked for \\x0e", |s| put(&mut s.server, b"\x0e", &[OK]));
    notices("where 1 was due", |s| s.client[9].1 = 3);
    notices("became nothing", |s| s.client.push((Up, 0, Vec::new())));
    let mut cut = log(&session().client[..3].to_vec());
    cut.push((Up, vec![9, 0, 0, 0, 3]));
    assert_eq!(Wire::new(RULES).complaints(&[cut.clone()], &[cut]), ["the connection ends within a packet"]);
    notices("carried nothing", |s| s.client.clear());
    notices("carried nothing of it", |s| s.server.clear());
}

#[track_caller]
fn check(asked: &str, sent: &str, expect: Option<(&[u64], &[u16])>) {
    let ids = ids_in(asked.as_bytes(), sent.as_bytes(), KNOWN);
    let expect = expect.map(|(numbers, hidden)| Ids {
        numbers: numbers.into(),
        hidden: hidden.into(),
        ..Ids::default()
    });
    assert_eq!(ids, expect, "{asked}\n{sent}");
}

#[test]
fn ids_that_are_put_in() {
    let put = |asked: &str, sent: &str, ids: &[u64]| check(asked, sent, Some((ids, &[])));
    put("insert t values (1)", "insert t (`a`,`id`) values (1,LAST_INSERT_ID(7))", &[7]);
    put("insert t() values (), ( )", "insert t(`id`) values (LAST_INSERT_ID(7)), ( 8)", &[7, 8]);
    put("insert t set a=1 -- x", "insert t set a=1,`id`=7 -- x", &[7]);
    put("insert t values('0'on duplicate", "insert t values(7 on duplicate", &[7]);
    put("insert t(id,a) values(- 0.4e0,'')", "insert t(id,a) values(7,'')", &[7]);
    put("insert t(id) values(default(id))", "insert t(id) values(0)", &[]);
    put(
        "insert t(a) values(1) as n on duplicate key update a=n.a",
        "insert t(a,`id`) values(1,7) as n(a,rowstamp_id) on duplicate key update a=n.a,`id`=LAST_INSERT_ID(`id`)",
        &[7],
    );
    put("execute s using @a, f(1)", "execute s using @a, 7 , f(1),8", &[7, 8]);
    put("execute s;", "execute s USING 7;", &[7]);
    put(
        "prepare s from 'insert t(b) values(''x'')'",
        "prepare s from 'insert t(b,`id`) values(''x'',7)'",
        &[7],
    );
    check("insert t values(?,'?',?)", "insert t values(?,'?',?,LAST_INSERT_ID(?))", Some((&[], &[2])));
    check(
        "insert t values(1),(2)",
        "insert t values(1,LAST_INSERT_ID(?)),(2,LAST_INSERT_ID()+1)",
        Some((&[], &[0])),
    );
    let told =
        [Told::Text(b"insert t(a) values('x')".to_vec()), Told::Text(b"select 'y'".to_vec()), Told::Null];
    let known = Known { told: &told, ..KNOWN };
    let sent = br"prepare s from 'insert t(a,`id`) values(\'x\',LAST_INSERT_ID(?))'";
    assert_eq!(ids_in(b"prepare s from concat(@a, '')", sent, known), Some(Ids::default()));
    assert_eq!(
        ids_in(b"prepare s from @a", &sent.map(|byte| if byte == b'x' { b'y' } else { byte }), known),
        None
    );
    let computed = |sent: &str| ids_in(b"prepare s from if(rand()<1,'a','b')", sent.as_bytes(), known);
    for sent in ["'select ''y'''", "NULL", "_utf8mb4 0x73656c65637420277927"] {
        assert_eq!(computed(&format!("prepare s from {sent}")), Some(Ids::default()), "{sent}");
    }
    for sent in ["'select ''x'''", "_utf8mb4 0x73656c65637420277827", ""] {
        assert_eq!(computed(&format!("prepare s from {sent}")), None, "{sent}");
    }
}

#[test]
fn what_is_more_than_ids() {
    let refuse = |asked: &str, sent: &str| check(asked, sent, None);
    refuse("insert t(a) values('x')", "insert t(a,`id`) values('y',7)");
    refuse("insert t(a) values('x')", "insert t(a,`b`) values('x',7)");
    refuse("insert t(a) values('x')", "insert t(a,`id`) values('x,7')");
    refuse("insert t(id) values(5)", "insert t(id) values(7)");
    refuse("insert t(id) values('0.6')", "insert t(id) values(7)");
    refuse("insert t(a) values(1)", "insert t(a,`id`)  values(1,7)");
    refuse("insert t(a) values(1)", "INSERT t(a,`id`) values(1,7)");
    refuse("insert t(a) values(1) /* x */", "insert t(a,`id`) values(1,7)");
    refuse(
        "insert t(a) values('insert t(a) values(1)')",
        "insert t(a) values('insert t(a,`id`) values(1,7)')",
    );
    refuse("prepare s from 'insert t(b) values(''x'')'", "prepare s from 'insert t(b,`id`) values(''y'',7)'");
    refuse("select 1", "select 1,7");
}

#[test]
fn a_packet_that_was_cut() {
    const MORE: &[u8] = b"\x00\x01\x00\x0a\x00\x00\x00";
    const LAST: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
    let in_parts = |client: &[&[u8]], server: &[&[u8]]| {
        let mut session = session();
        let asked = b"\x03DO 1; CALL p(';'); DO 2;\nDO 3";
        put(&mut session.client, asked, client);
        put(&mut session.server, b"\x03DO 1; CALL p(';');", &[MORE, server[0]]);
        put(&mut session.server, STATE, &[b"\x01", b"definition", b"row", b"\xfe\0\0\x02\0\0\0"]);
        put(&mut session.server, b"\x03 DO 2;", &[server[1]]);
        put(&mut session.server, b"\x03\nDO 3", &[server[2]]);
        complaints(&session)
    };
    assert_eq!(in_parts(&[MORE, MORE, MORE, LAST], &[LAST, LAST, LAST]), [""; 0]);
    // A part is missing in the answer, it says that it is the last, or it counts another row.
    assert_ne!(in_parts(&[MORE, MORE, MORE], &[LAST, LAST, LAST]), [""; 0]);
    assert_ne!(in_parts(&[MORE, LAST, MORE, LAST], &[LAST, LAST, LAST]), [""; 0]);
    assert_ne!(in_parts(&[MORE, MORE, MORE, b"\x00\x02\x00\x02\x00\x00\x00"], &[LAST, LAST, LAST]), [""; 0]);
}
