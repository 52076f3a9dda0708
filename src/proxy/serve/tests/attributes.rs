//! Query attributes: in front of the client's texts, which keep them, and of ours, which have none.

use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::proxy::known::tracking::{STATE_SQL, TRACK_SQL};
use crate::proxy::relay::err_packet;
use crate::proxy::serve::tests::rig::{Client, Server, ToClient, ToServer, check};
use crate::proxy::serve::tests::{INSERT, MODERN, all, ok, p, prepare, prepared, state_rows};

const NONE: &[u8] = b"\x00\x01";
/// `a` is 'hi; INSERT', `b` is NULL.
const TWO: &[u8] = b"\x02\x01\x02\x01\xfe\x00\x01a\xfe\x00\x01b\x0ahi; INSERT";

fn capabilities() -> Capabilities {
    Capabilities::SESSION_TRACK | MODERN | Capabilities::QUERY_ATTRIBUTES
}

fn q(attributes: &[u8], sql: &str) -> Vec<u8> {
    p(0, [b"\x03", attributes, sql.as_bytes()].concat())
}

fn execute(flags: u8, rest: &[u8]) -> Vec<u8> {
    p(0, [&[0x17, 7, 0, 0, 0, flags, 1, 0, 0, 0], rest].concat())
}

#[tokio::test]
async fn texts_keep_theirs() {
    let wrapped = "INSERT INTO s.t(a,`id`) VALUES(1,LAST_INSERT_ID(1))";
    let literal = "INSERT IGNORE INTO s.t(a,`id`) VALUES(1,2)";
    let script = [
        Client(all(&[q(TWO, "SELECT 1"), q(TWO, INSERT)])),
        ToServer(all(&[q(TWO, "SELECT 1"), q(NONE, STATE_SQL), q(NONE, &TRACK_SQL)])),
        Server(all(&[ok(1, 0, 0, 2), state_rows(true), ok(1, 0, 0, 2)])),
        ToClient(ok(1, 0, 0, 2)),
        ToServer(q(TWO, wrapped)),
        Server(ok(1, 1, 1, 2)),
        ToClient(ok(1, 1, 1, 2)),
        Client(q(NONE, "INSERT IGNORE INTO s.t(a) VALUES(1)")),
        ToServer(q(NONE, literal)),
        Server(ok(1, 1, 0, 2)),
        ToClient(ok(1, 1, 2, 2)),
        Client(all(&[q(TWO, "SELECT ROW_COUNT()"), q(TWO, "SELECT LAST_INSERT_ID()")])),
        ToServer(all(&[
            q(TWO, "SELECT ROW_COUNT()"),
            q(NONE, "SET last_insert_id=2"),
            q(TWO, "SELECT LAST_INSERT_ID()"),
        ])),
        Server(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
        ToClient(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
        // Two sets; a value that is longer than the packet.
        Client(all(&[q(b"\x00\x02", INSERT), q(b"\x01\x01\x00\x01\xfe\x00\x00\xfc\xff\xff", INSERT)])),
        ToClient(err_packet(&Refusal::MalformedPacket, 1).repeat(2)),
    ];
    check(capabilities(), &script).await;
}

#[tokio::test]
async fn a_text_that_cannot_be_read_is_prepared_without_them() {
    let unreadable = "INSERT INTO s.t(a) VALUES(1) garbage";
    let error = p(1, b"\xff\x28\x04#42000no");
    let script = [
        Client(q(TWO, unreadable)),
        ToServer(all(&[q(NONE, STATE_SQL), q(NONE, &TRACK_SQL)])),
        Server(all(&[state_rows(true), ok(1, 0, 0, 2)])),
        ToServer(prepare(unreadable)),
        Server(error.clone()),
        ToClient(error),
    ];
    check(capabilities(), &script).await;
}

#[tokio::test]
async fn executions_have_them_behind_their_parameters() {
    const ID: &[u8] = b"\x00\x00\x00\x00\x00\x00\x00";
    let ours = |n: u8| [&b"\x01\x00\x01\x08\x00\x00"[..], &[n], ID].concat();
    let with_one = [b"\x02\x00\x01\x08\x00\x00\xfe\x00\x01a\x03", ID, b"\x02hi"].concat();
    let script = [
        Client(prepare(INSERT)),
        ToServer(all(&[q(NONE, STATE_SQL), q(NONE, &TRACK_SQL)])),
        Server(all(&[state_rows(true), ok(1, 0, 0, 2)])),
        ToServer(prepare("INSERT INTO s.t(a,`id`) VALUES(1,LAST_INSERT_ID(?))")),
        Server(prepared(MODERN, 7, 0, 1)),
        ToClient(prepared(MODERN, 7, 0, 0)),
        Client(all(&[execute(0, b""), execute(8, b"\x00"), execute(8, b"\x01\x00\x01\xfe\x00\x01a\x02hi")])),
        ToServer(all(&[execute(0, &ours(1)), execute(8, &ours(2)), execute(8, &with_one)])),
        Server(all(&[ok(1, 1, 1, 2), ok(1, 1, 2, 2), ok(1, 1, 3, 2)])),
        ToClient(all(&[ok(1, 1, 1, 2), ok(1, 1, 2, 2), ok(1, 1, 3, 2)])),
    ];
    check(capabilities(), &script).await;
}
