//! Both lanes of a session without its sockets: scripts of what each peer sends and must get.
//! However the bytes come in slices, and however few of them a peer takes at once, what goes out
//! must be the same.

mod asks;
mod attributes;
mod limits;
mod rig;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::{Client, STATEMENT_BYTES_MAX, Say, Server, ToClient, ToServer, check, check_at_random, play};

use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{PAYLOAD_BYTES_MAX, as_packets};
use crate::proxy::known::tracking::{STATE_SQL, TRACK_SQL};
use crate::proxy::relay::err_packet;

fn p(nr: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    as_packets(nr, payload.as_ref())
}

fn q(sql: &str) -> Vec<u8> {
    p(0, [b"\x03", sql.as_bytes()].concat())
}

fn prepare(sql: &str) -> Vec<u8> {
    p(0, [b"\x16", sql.as_bytes()].concat())
}

/// An execution of a statement without parameters.
fn execute(id: u32) -> Vec<u8> {
    p(0, [&[0x17][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0]].concat())
}

/// With one parameter of ours.
fn execute_with(id: u32, ours: u64) -> Vec<u8> {
    let parts = [&[0x17][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0, 0, 1, 8, 0], &ours.to_le_bytes()].concat();
    p(0, parts)
}

fn ok(nr: u8, affected: u8, insert_id: u8, status: u8) -> Vec<u8> {
    p(nr, [0, affected, insert_id, status, 0, 0, 0])
}

fn all(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

/// A result of so many columns with these rows.
fn result(modern: bool, mut nr: u8, columns: u8, rows: &[Vec<u8>], status: u8) -> Vec<u8> {
    let mut out = p(nr, [columns]);
    let end = [0xFE, 0, 0, status, 0, 0, 0];
    let definitions = std::iter::repeat_n(&b"\x03def"[..], columns.into());
    let eof = (!modern).then_some(&end[..5]);
    for payload in definitions.chain(eof).chain(rows.iter().map(Vec::as_slice)).chain([if modern {
        &end[..]
    } else {
        &end[..5]
    }]) {
        nr += 1;
        out.extend(p(nr, payload));
    }
    out
}

/// The row of a session's state: sql_mode '', character set utf8mb4; changes of the schema are reported, other state and
/// variables not; insert_id is not set; no database.
const STATE_ROW: &[u8] = b"\x00\x0e757466386d6234\x00\x0e757466386d6234\x010\x011\x00\x010\x00";

fn state_rows(modern: bool) -> Vec<u8> {
    result(modern, 1, 9, &[STATE_ROW.to_vec()], 2)
}

/// The session learns its state before its first ruled statement.
fn learns(capabilities: Capabilities) -> [Say; 2] {
    // The OK reports a change, which the client must not see.
    let tracked = p(1, b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04test");
    [
        ToServer(all(&[q(STATE_SQL), q(&TRACK_SQL)])),
        Server(all(&[state_rows(capabilities.contains(MODERN)), tracked])),
    ]
}

const CLASSIC: Capabilities = Capabilities::SESSION_TRACK;
const MODERN: Capabilities = Capabilities::DEPRECATE_EOF;

fn both() -> [Capabilities; 2] {
    [CLASSIC, CLASSIC | MODERN]
}

/// A result of one column with these rows.
fn rows(capabilities: Capabilities, nr: u8, texts: &[&str], status: u8) -> Vec<u8> {
    let row = |text: &&str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let rows: Vec<_> = texts.iter().map(row).collect();
    result(capabilities.contains(MODERN), nr, 1, &rows, status)
}

const INSERT: &str = "INSERT INTO s.t(a) VALUES(1)";

fn inserted(id: u8) -> Vec<u8> {
    q(&format!("INSERT INTO s.t(a,`id`) VALUES(1,LAST_INSERT_ID({id}))"))
}

#[tokio::test]
async fn queries_between_inserts_of_ours_and_answers_of_ours() {
    for capabilities in both() {
        let [_, told] = learns(capabilities);
        let result = rows(capabilities, 1, &["a", "bc"], 2);
        let several = all(&[ok(1, 0, 0, 0x0A), rows(capabilities, 2, &["x"], 2)]);
        let script = [
            // All at once; the ruled one holds back what comes after it until the state is known.
            Client(all(&[q("SELECT 'a'"), q(INSERT), q("SELECT 2"), p(0, [0x99]), p(0, []), q("UPDATE u")])),
            ToServer(all(&[q("SELECT 'a'"), q(STATE_SQL), q(&TRACK_SQL)])),
            Server(result.clone()),
            ToClient(result),
            told,
            ToServer(all(&[inserted(1), q("SELECT 2"), q("UPDATE u")])),
            Server(all(&[ok(1, 1, 1, 2), several.clone()])),
            ToClient(all(&[
                ok(1, 1, 1, 2),
                several,
                err_packet(&Refusal::UnknownCommand(0x99), 1),
                err_packet(&Refusal::UnknownCommand(0), 1),
            ])),
            Server(p(1, b"\xff\x28\x04#42000no")),
            ToClient(p(1, b"\xff\x28\x04#42000no")),
        ];
        check(capabilities, &script).await;
    }
}

/// COM_STMT_PREPARE's answer with these numbers of definitions.
fn prepared(capabilities: Capabilities, id: u8, columns: u8, params: u8) -> Vec<u8> {
    let mut nr = 1;
    let mut out = p(nr, [0, id, 0, 0, 0, columns, 0, params, 0, 0, 0, 0]);
    for count in [params, columns] {
        for n in 0..count {
            nr += 1;
            out.extend(p(nr, [3, b'd', b'e', b'f', n]));
        }
        if count > 0 && !capabilities.contains(MODERN) {
            nr += 1;
            out.extend(p(nr, [0xFE, 0, 0, 2, 0]));
        }
    }
    out
}

#[tokio::test]
async fn our_parameters_leave_no_trace() {
    for capabilities in both() {
        let [track, told] = learns(capabilities);
        let script = [
            Client(all(&[prepare(INSERT), execute(u32::MAX), execute(u32::MAX)])),
            track,
            told,
            ToServer(all(&[
                prepare("INSERT INTO s.t(a,`id`) VALUES(1,LAST_INSERT_ID(?))"),
                execute_with(u32::MAX, 1),
                execute_with(u32::MAX, 2),
            ])),
            Server(all(&[prepared(capabilities, 7, 0, 1), ok(1, 1, 1, 2), ok(1, 1, 2, 2)])),
            ToClient(all(&[prepared(capabilities, 7, 0, 0), ok(1, 1, 1, 2), ok(1, 1, 2, 2)])),
            // The statement's number is known now; a statement of one's own stays what it is.
            Client(all(&[execute(7), execute(8), p(0, [0x19, 7, 0, 0, 0]), execute(7)])),
            ToServer(all(&[execute_with(7, 3), execute(8), p(0, [0x19, 7, 0, 0, 0]), execute(7)])),
            Server(all(&[ok(1, 1, 3, 2), ok(1, 0, 0, 2), p(1, b"\xff\xdb\x04#HY000gone")])),
            ToClient(all(&[ok(1, 1, 3, 2), ok(1, 0, 0, 2), p(1, b"\xff\xdb\x04#HY000gone")])),
        ];
        check(capabilities, &script).await;
    }
}

#[tokio::test]
async fn definitions_behind_dropped_ones_are_renumbered() {
    for capabilities in both() {
        let [track, told] = learns(capabilities);
        let sql = "INSERT INTO s.t(a) VALUES(?) RETURNING id";
        let script = [
            Client(prepare(sql)),
            track,
            told,
            ToServer(prepare("INSERT INTO s.t(a,`id`) VALUES(?,LAST_INSERT_ID(?)) RETURNING id")),
            Server(prepared(capabilities, 7, 1, 2)),
            ToClient(prepared(capabilities, 7, 1, 1)),
        ];
        check(capabilities, &script).await;
    }
}

#[tokio::test]
async fn a_file_of_the_clients() {
    let script = [
        Client(q("SELECT 1")),
        ToServer(q("SELECT 1")),
        Server(p(1, b"\xfbf")),
        ToClient(p(1, b"\xfbf")),
        Client(all(&[p(2, "rows"), p(3, "more"), p(4, [])])),
        ToServer(all(&[p(2, "rows"), p(3, "more"), p(4, [])])),
        Server(ok(5, 2, 0, 2)),
        ToClient(ok(5, 2, 0, 2)),
        Client(q("SELECT 2")),
        ToServer(q("SELECT 2")),
        Server(ok(1, 0, 0, 2)),
        ToClient(ok(1, 0, 0, 2)),
    ];
    check(CLASSIC, &script).await;
}

#[tokio::test]
async fn an_id_owed_goes_in_front_of_who_may_read_it() {
    for capabilities in both() {
        let [track, told] = learns(capabilities);
        let script = [
            // A literal: the statement reads the function itself.
            Client(q("INSERT INTO s.t(a) VALUES(LAST_INSERT_ID())")),
            track,
            told,
            ToServer(q("INSERT INTO s.t(a,`id`) VALUES(LAST_INSERT_ID(),1)")),
            Server(ok(1, 1, 0, 2)),
            ToClient(ok(1, 1, 1, 2)),
            Client(q("SELECT ROW_COUNT()")),
            ToServer(q("SELECT ROW_COUNT()")),
            Server(rows(capabilities, 1, &["1"], 2)),
            ToClient(rows(capabilities, 1, &["1"], 2)),
            Client(all(&[q("SELECT f()"), q("SELECT g()")])),
            ToServer(all(&[q("SET last_insert_id=1"), q("SELECT f()"), q("SELECT g()")])),
            Server(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
            ToClient(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
        ];
        check(capabilities, &script).await;
    }
}

#[tokio::test]
async fn an_id_that_will_be_owed_is_waited_for() {
    let [track, told] = learns(CLASSIC);
    let script = [
        Client(all(&[q("INSERT INTO s.t(a) VALUES(LAST_INSERT_ID())"), q("SHOW WARNINGS"), q("SELECT f()")])),
        track,
        told,
        ToServer(all(&[q("INSERT INTO s.t(a,`id`) VALUES(LAST_INSERT_ID(),1)"), q("SHOW WARNINGS")])),
        Server(ok(1, 1, 0, 2)),
        ToClient(ok(1, 1, 1, 2)),
        ToServer(all(&[q("SET last_insert_id=1"), q("SELECT f()")])),
        Server(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2), ok(1, 7, 0, 2)])),
        ToClient(all(&[ok(1, 0, 0, 2), ok(1, 7, 0, 2)])),
    ];
    check(CLASSIC, &script).await;
}

#[tokio::test]
async fn what_cannot_be_read_is_the_servers_to_judge() {
    let [track, told] = learns(CLASSIC);
    let sql = "INSERT INTO s.t(a) VALUES(1) garbage";
    let script = [
        Client(all(&[q(sql), q("SELECT 1")])),
        track,
        told,
        // The command after it waits for the answer.
        ToServer(prepare(sql)),
        Server(p(1, b"\xff\x28\x04#42000syntax")),
        ToClient(p(1, b"\xff\x28\x04#42000syntax")),
        ToServer(q("SELECT 1")),
        Server(ok(1, 0, 0, 2)),
        ToClient(ok(1, 0, 0, 2)),
    ];
    check(CLASSIC, &script).await;
}

/// A ruled INSERT that is refused.
const REFUSED: &str = "INSERT INTO s.t(id) VALUES(@x)";

fn stmt(command: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    p(0, [&[command][..], &id.to_le_bytes(), rest].concat())
}

#[tokio::test]
async fn the_last_prepared_is_not_the_servers_where_ours_was_refused() {
    let [_, told] = learns(CLASSIC);
    let other = all(&[prepare("SELECT 1"), execute(u32::MAX)]);
    let last = all(&[
        prepare(REFUSED),
        execute(u32::MAX),
        stmt(0x18, u32::MAX, &[0, 0, b'x']),
        stmt(0x1A, u32::MAX, &[]),
        stmt(0x19, u32::MAX, &[]),
        q("SELECT 2"),
    ]);
    let unknown = err_packet(&Refusal::UnknownStatement(u32::MAX), 1);
    let why = "s.t: the value for id in row 1 does not show whether it is NULL or zero; write an integer or NULL, or \
               leave id out";
    let refusal = err_packet(&Refusal::Statement(why.into()), 1);
    let answers = all(&[prepared(CLASSIC, 5, 0, 0), ok(1, 0, 0, 2)]);
    let script = [
        Client(all(&[other.clone(), last])),
        ToServer(all(&[other, q(STATE_SQL), q(&TRACK_SQL)])),
        Server(answers.clone()),
        ToClient(answers),
        told,
        ToServer(q("SELECT 2")),
        ToClient(all(&[refusal, unknown.clone(), unknown])),
        Server(ok(1, 0, 0, 2)),
        ToClient(ok(1, 0, 0, 2)),
    ];
    check(CLASSIC, &script).await;
}

#[tokio::test]
async fn the_last_prepared_is_not_the_probe() {
    let [track, told] = learns(CLASSIC);
    let sql = "INSERT INTO s.t(a) VALUES(1) garbage";
    let why = "s.t: cannot read this statement: the part after the table's name; rewrite that part";
    let refusal = err_packet(&Refusal::Statement(why.into()), 1);
    let script = [
        Client(all(&[prepare(sql), execute(u32::MAX)])),
        track,
        told,
        ToServer(prepare(sql)),
        Server(prepared(CLASSIC, 9, 0, 1)),
        ToServer(stmt(0x19, 9, &[])),
        ToClient(all(&[refusal, err_packet(&Refusal::UnknownStatement(u32::MAX), 1)])),
        Client(q("SELECT 1")),
        ToServer(q("SELECT 1")),
        Server(ok(1, 0, 0, 2)),
        ToClient(ok(1, 0, 0, 2)),
    ];
    check(CLASSIC, &script).await;
}

#[tokio::test]
async fn what_was_sent_ahead_ends_with_a_refused_execution() {
    let [track, told] = learns(CLASSIC);
    // Longer than a statement that is read whole may be.
    let long = vec![b'x'; 2 * STATEMENT_BYTES_MAX];
    let ahead = |param: u8| stmt(0x18, 7, &[&[param, 0][..], &long].concat());
    // Types BLOB and DATE: what is bound to the id is refused.
    let date = stmt(0x17, 7, &[0, 1, 0, 0, 0, 0, 1, 0xFC, 0, 0x0A, 0, 4, 0xE8, 7, 1, 2]);
    let null = stmt(0x17, 7, &[0, 1, 0, 0, 0, 0b10, 1, 0xFC, 0, 0x08, 0, 1, b'y']);
    let filled =
        stmt(0x17, 7, &[&[0, 1, 0, 0, 0, 0, 1, 0xFC, 0, 0x08, 0, 1, b'y'][..], &1u64.to_le_bytes()].concat());
    let why =
        "s.t: parameter 2, which is bound to id, does not show whether it is zero; bind an integer or NULL";
    let script = [
        Client(prepare("INSERT INTO s.t(a,id) VALUES(?,?)")),
        track,
        told,
        ToServer(prepare("INSERT INTO s.t(a,id) VALUES(?,?)")),
        Server(prepared(CLASSIC, 7, 0, 2)),
        ToClient(prepared(CLASSIC, 7, 0, 2)),
        Client(all(&[ahead(0), date, null])),
        ToServer(all(&[ahead(0), stmt(0x1A, 7, &[]), filled])),
        Server(all(&[ok(1, 0, 0, 2), ok(1, 1, 1, 2)])),
        ToClient(all(&[err_packet(&Refusal::Statement(why.into()), 1), ok(1, 1, 1, 2)])),
    ];
    check_at_random(&script, 300).await;
}

#[tokio::test]
async fn a_reset_waits_for_what_belongs_to_the_old_session() {
    let [track, told] = learns(CLASSIC);
    let [track_again, told_again] = learns(CLASSIC);
    let script = [
        Client(all(&[q("INSERT INTO s.t(a) VALUES(LAST_INSERT_ID())"), p(0, [0x1F]), q("SELECT f()")])),
        track,
        told,
        ToServer(q("INSERT INTO s.t(a,`id`) VALUES(LAST_INSERT_ID(),1)")),
        Server(ok(1, 1, 0, 3)),
        ToClient(ok(1, 1, 1, 3)),
        // The owed id is forgotten, and the state is learnt again.
        ToServer(all(&[p(0, [0x1F]), q("SELECT f()")])),
        Server(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
        ToClient(all(&[ok(1, 0, 0, 2), ok(1, 0, 0, 2)])),
        Client(q(INSERT)),
        track_again,
        told_again,
        // The function ran before anything was reported: it may have made a temporary table.
        ToServer(q("SHOW CREATE TABLE `s`.`t`")),
        Server(p(1, b"\xff\x7a\x04#42S02no table")),
        ToServer(inserted(2)),
        Server(ok(1, 1, 2, 2)),
        ToClient(ok(1, 1, 2, 2)),
    ];
    check(CLASSIC, &script).await;
}

#[tokio::test]
async fn a_prepared_statement_acts_when_it_is_executed() {
    let [track, told] = learns(CLASSIC);
    let create = "CREATE TEMPORARY TABLE s.t(a INT)";
    let script = [
        Client(prepare(create)),
        track,
        told,
        ToServer(prepare(create)),
        Server(prepared(CLASSIC, 3, 0, 0)),
        ToClient(prepared(CLASSIC, 3, 0, 0)),
        // Not yet left out.
        Client(all(&[q(INSERT), execute(3), q(INSERT)])),
        ToServer(all(&[inserted(1), execute(3)])),
        Server(all(&[ok(1, 1, 1, 2), ok(1, 0, 0, 2)])),
        ToClient(all(&[ok(1, 1, 1, 2), ok(1, 0, 0, 2)])),
        ToServer(q(INSERT)),
        Server(ok(1, 1, 0, 2)),
        ToClient(ok(1, 1, 0, 2)),
    ];
    check(CLASSIC, &script).await;
}
