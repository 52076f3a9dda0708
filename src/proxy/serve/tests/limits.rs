//! Statements that are too long, and rules that change before a statement is sent.

use super::rig::Rig;
use super::*;

#[tokio::test]
async fn too_long_a_statement_is_answered_in_its_turn() {
    let [asks, told] = learns(CLASSIC);
    let long = format!("INSERT INTO s.t(a) VALUES('{}')", "x".repeat(2 * STATEMENT_BYTES_MAX));
    // No rule concerns it.
    let other = long.replace("s.t", "s.u");
    let harmless = format!("SELECT '{}'", "x".repeat(2 * STATEMENT_BYTES_MAX));
    let script = [
        Client(all(&[q(&long), q(&other), q(&harmless), q(INSERT)])),
        asks,
        told,
        ToClient(err_packet(&Refusal::PacketTooBig { bytes_max: STATEMENT_BYTES_MAX }, 1)),
        ToServer(all(&[q(&other), q(&harmless), inserted(1)])),
        Server(all(&[ok(1, 1, 0, 2), ok(1, 0, 0, 2), ok(1, 1, 1, 2)])),
        ToClient(all(&[ok(1, 1, 0, 2), ok(1, 0, 0, 2), ok(1, 1, 1, 2)])),
    ];
    check_at_random(&script, 300).await;
}

/// Blobs go ahead of an execution, and of one that is refused too. No client waits for an answer to them.
#[tokio::test]
async fn too_long_a_command_that_has_no_answer_gets_none() {
    let [asks, told] = learns(CLASSIC);
    let blob = [b'x'; 2 * STATEMENT_BYTES_MAX];
    let unknown = err_packet(&Refusal::UnknownStatement(u32::MAX), 1);
    let why = "s.t: the value for id in row 1 does not show whether it is NULL or zero; write an integer or NULL, or \
               leave id out";
    let refusal = err_packet(&Refusal::Statement(why.into()), 1);
    let too_big = err_packet(&Refusal::PacketTooBig { bytes_max: STATEMENT_BYTES_MAX }, 1);
    let script = [
        Client(all(&[
            prepare(REFUSED),
            stmt(0x18, u32::MAX, &blob),
            execute(u32::MAX),
            stmt(0x19, u32::MAX, &blob),
            stmt(0x1A, u32::MAX, &blob),
            q("SELECT 2"),
        ])),
        asks,
        told,
        ToServer(q("SELECT 2")),
        ToClient(all(&[refusal, unknown, too_big])),
        Server(ok(1, 0, 0, 2)),
        ToClient(ok(1, 0, 0, 2)),
    ];
    check_at_random(&script, 50).await;
}

#[tokio::test]
async fn payloads_at_the_edge_pass_in_both_directions() {
    for bytes in PAYLOAD_BYTES_MAX - 2..=PAYLOAD_BYTES_MAX + 2 {
        let text = format!("SELECT '{}'", "x".repeat(bytes - 10));
        let row = vec![0x61; bytes];
        let mut result = all(&[p(1, [1]), p(2, b"\x03def"), p(3, [0xFE, 0, 0, 2, 0])]);
        result.extend(p(4, &row));
        let nr = if bytes >= PAYLOAD_BYTES_MAX { 6 } else { 5 };
        result.extend(p(nr, [0xFE, 0, 0, 2, 0]));
        let script = [
            Client(q(&text)),
            ToServer(q(&text)),
            Server(result.clone()),
            ToClient(result),
            Client(q("SELECT 1")),
            ToServer(q("SELECT 1")),
            Server(ok(1, 0, 0, 2)),
            ToClient(ok(1, 0, 0, 2)),
        ];
        let mut random = StdRng::seed_from_u64(bytes as u64);
        play(CLASSIC, &script, 0, &format!("{bytes}"), &mut |_| random.gen_range(1..5_000_000)).await;
    }
}

#[tokio::test]
async fn a_statement_whose_rules_change_before_it_is_sent_is_planned_anew() {
    let sent = rig::changing(Rig::ready().await, &q(INSERT), "other").await;
    assert_eq!(sent, q("INSERT INTO s.t(a,`other`) VALUES(1,LAST_INSERT_ID(2))"));
    // A text with a call is sent with an id that was drawn again.
    let sent = rig::changing(Rig::ready().await, &q(DRAW), "other").await;
    assert_eq!(sent, q("SET @a=2"));
}

/// Ids that calls have drawn before a wait are not sent after it: others may have drawn the same ids.
#[tokio::test]
async fn calls_whose_rules_change_before_they_are_sent_draw_again() {
    let sql = "INSERT INTO s.t(a) VALUES(NEXTVAL(s.g))";
    let sent =
        rig::changing_before_the_answer(&q(sql), &rows(MODERN, 1, &["302C312C312C30"], 2), "other").await;
    assert_eq!(sent, q("INSERT INTO s.t(a,`other`) VALUES(3,LAST_INSERT_ID(4))"));
}

const DRAW: &str = "SET @a=NEXTVAL(s.g)";

#[tokio::test]
async fn under_retired_rules_nothing_is_sent() {
    assert_eq!(rig::under_retired_rules(Rig::ready().await, &q(INSERT)).await, b"");
    assert_eq!(rig::under_retired_rules(Rig::ready().await, &q(DRAW)).await, b"");
    for execution in [
        p(0, b"\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x01\x00\x05"),
        p(0, b"\xfa\x07\x00\x00\x00\x80\x00\x01\x00\x00\x05\x00\x06"),
    ] {
        let text = "INSERT INTO s.t(a) VALUES(?)";
        assert_eq!(rig::under_retired_rules(rig::with_prepared(text, 2).await, &execution).await, b"");
    }
}

/// The rules after it are the same ones, and ids of before may be another's by now.
#[tokio::test]
async fn ids_that_were_waited_for_while_tables_are_bound_again_are_not_sent() {
    assert_eq!(rig::assigning_again(&q(INSERT)).await, inserted(2));
    assert_eq!(rig::assigning_again(&q(DRAW)).await, q("SET @a=2"));
}

#[tokio::test]
async fn an_execution_whose_rules_change_before_it_is_sent_is_prepared_anew() {
    let text = "INSERT INTO s.t(a) VALUES(?)";
    let prepared_again = prepare("INSERT INTO s.t(a,`other`) VALUES(?,LAST_INSERT_ID(?))");
    let one = p(0, b"\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x01\x00\x05");
    assert_eq!(rig::changing(rig::with_prepared(text, 2).await, &one, "other").await, prepared_again);
    let bulk = p(0, b"\xfa\x07\x00\x00\x00\x80\x00\x01\x00\x00\x05\x00\x06");
    assert_eq!(rig::changing(rig::with_prepared(text, 2).await, &bulk, "other").await, prepared_again);
    // The prepared text is the same under the new rules, so the execution is sent.
    let same = rig::changing(rig::with_prepared(text, 2).await, &one, "id").await;
    assert_eq!(same[4], 0x17);
}
