use super::{LANE_BYTES, Lane, ROOMY_FILLS_MAX, SendBy};
use crate::mysql::packet::{PAYLOAD_BYTES_MAX, as_packets as packet};
use crate::proxy::relay::outstanding::Numbers;
use crate::tables::locks::boottime;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn send(lane: &mut Lane, to: &mut Vec<u8>) {
    let mut sent = 0;
    let done = lane.poll_send(&mut Context::from_waker(Waker::noop()), to, &mut sent);
    assert!(matches!(done, Poll::Ready(Ok(()))));
}

/// Sends to a peer that takes so many bytes.
fn send_some(lane: &mut Lane, to: &mut Vec<u8>, n: usize) {
    let (mut taken, mut sent) = (vec![0; n], 0);
    let mut peer = std::io::Cursor::new(&mut taken[..]);
    let _ = lane.poll_send(&mut Context::from_waker(Waker::noop()), &mut peer, &mut sent);
    to.extend_from_slice(&taken[..sent]);
}

fn fill(lane: &mut Lane, mut from: &[u8], wanted: usize) -> usize {
    match lane.poll_fill(&mut Context::from_waker(Waker::noop()), &mut from, wanted) {
        Poll::Ready(Ok(n)) => n,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone)]
enum Dealt {
    Accept(usize),
    Skip(usize),
    Ours(Vec<u8>),
    Replace(usize, Option<Vec<u8>>),
    PutBack(usize, Vec<u8>),
    Send(usize),
}

proptest! {
    #[test]
    fn bytes_keep_their_order_in_whatever_order_they_are_dealt_with(
        held in vec(any::<u8>(), 0..40),
        steps in vec(prop_oneof![
            (0..9usize).prop_map(Dealt::Accept),
            (0..9usize).prop_map(Dealt::Skip),
            vec(any::<u8>(), 0..9).prop_map(Dealt::Ours),
            (0..9usize, option::of(vec(any::<u8>(), 0..9))).prop_map(|(n, with)| Dealt::Replace(n, with)),
            (0..9usize, vec(any::<u8>(), 0..9)).prop_map(|(n, bytes)| Dealt::PutBack(n, bytes)),
            (0..20usize).prop_map(Dealt::Send),
        ], 0..20),
    ) {
        let (mut lane, mut to) = (Lane::holding(&held), Vec::new());
        let (mut window, mut expect) = (held, Vec::new());
        for step in steps {
            match step {
                Dealt::Accept(n) => {
                    let n = lane.accept(n);
                    expect.extend(window.drain(..n));
                }
                Dealt::Skip(n) => drop(window.drain(..lane.skip(n))),
                Dealt::Ours(bytes) => {
                    expect.extend_from_slice(&bytes);
                    lane.push(bytes);
                }
                Dealt::Replace(n, with) => {
                    let write = |_: &[u8], out: &mut Vec<u8>| with.as_ref().map(|with| out.extend_from_slice(with));
                    lane.replace(n, write);
                    if let Some(with) = &with {
                        expect.extend(packet(0, with));
                        drop(window.drain(..n.min(window.len())));
                    }
                }
                Dealt::PutBack(n, bytes) => {
                    window.splice(..n.min(window.len()), bytes.iter().copied());
                    lane.put_back(n, bytes);
                }
                Dealt::Send(n) => send_some(&mut lane, &mut to, n),
            }
            assert_eq!(lane.window(), window);
        }
        send(&mut lane, &mut to);
        assert_eq!(to, expect);
    }
}

#[test]
fn rows_pass_as_far_as_they_are_plain_and_whole() {
    let rows = [packet(9, b"a"), packet(10, b"\xFB"), packet(11, &[0; 300])].concat();
    let numbers = [
        (Numbers::Moved(0), [9, 10, 11], Numbers::Moved(0)),
        (Numbers::Moved(250), [3, 4, 5], Numbers::Moved(250)),
        (Numbers::From(254), [254, 255, 0], Numbers::From(1)),
    ];
    let ends: [&[u8]; 7] = [
        b"",
        b"\x01\0\0",
        b"\x02\0\0\x0cx",
        &packet(12, b""),
        &packet(12, b"\xFE\0\0\0\0"),
        &packet(12, b"\xFFerror"),
        b"\xFF\xFF\xFF\x0cx",
    ];
    for end in ends {
        for (mut given, expect, left) in numbers {
            let mut lane = Lane::holding(&[&rows[..], end].concat());
            assert_eq!(lane.accept_rows(&mut given), 3, "{end:?}");
            assert_eq!((lane.window(), given), (end, left));
            let mut to = Vec::new();
            send(&mut lane, &mut to);
            assert_eq!([to[3], to[8], to[13]], expect);
            assert_eq!((to.len(), to[4], to[9]), (rows.len(), b'a', 0xFB));
            assert_eq!(lane.accept_rows(&mut given), 0, "{end:?}");
        }
        let mut due = Numbers::Due(1);
        assert_eq!(Lane::holding(&rows).accept_rows(&mut due), 0, "the answer is not announced yet");
    }
}

#[test]
fn what_is_put_back_comes_next() {
    for held in [&b"abcdef"[..], b"ab"] {
        let (mut lane, mut to) = (Lane::holding(held), Vec::new());
        lane.accept(1);
        lane.put_back(1, b"XYZ".to_vec());
        assert_eq!(lane.window(), [b"XYZ", &held[2..]].concat());
        lane.put_back(0, vec![b'-'; 2 * LANE_BYTES]);
        assert_eq!(lane.accept(2 * LANE_BYTES + 2), 2 * LANE_BYTES + 2);
        send(&mut lane, &mut to);
        assert!(to.starts_with(b"a-") && to.ends_with(b"-XY"));
        assert_eq!(fill(&mut lane, b"!", 0), 1);
        assert_eq!(lane.window(), [b"Z", &held[2..], b"!"].concat());
    }
    let mut lane = Lane::default();
    lane.put_back(0, b"ab".to_vec());
    assert_eq!(lane.window(), b"ab");
    assert_eq!(fill(&mut lane, b"c", 3), 1);
    assert_eq!(lane.window(), b"abc");
}

#[test]
fn what_comes_too_late() {
    let later = SendBy::Boottime(boottime() + Duration::from_mins(1));
    for (limit, too_late) in [(SendBy::AnyTime, false), (later, false), (SendBy::Boottime(boottime()), true)]
    {
        let mut lane = Lane::default();
        lane.send_by(limit);
        assert_eq!(lane.is_too_late(), too_late, "{limit:?}");
        assert!(!lane.is_too_late(), "what is sent after it has no ids, or a limit of its own");
    }
}

#[test]
fn a_big_packet_grows_the_lane_as_it_comes_and_gives_it_back() {
    let big = vec![7; 1_000_000];
    let (mut lane, mut at) = (Lane::default(), 0);
    while at < big.len() {
        at += fill(&mut lane, &big[at..], big.len());
        assert!(lane.bytes.len() <= (2 * at).max(LANE_BYTES), "{} for {at}", lane.bytes.len());
    }
    assert_eq!(lane.window(), big);
    lane.skip(big.len());
    for _ in 0..ROOMY_FILLS_MAX + 2 {
        fill(&mut lane, b"x", 0);
        assert_eq!(lane.window(), b"x");
        lane.skip(1);
    }
    assert_eq!(lane.bytes.len(), LANE_BYTES);
}

#[test]
fn big_packets_in_a_row_keep_their_room() {
    let big = vec![7; 10 * LANE_BYTES];
    let mut lane = Lane::default();
    for nth in 0..3 * ROOMY_FILLS_MAX {
        let mut at = fill(&mut lane, &big, 0);
        assert!(nth == 0 || lane.bytes.len() >= big.len(), "the {nth}th begins in {}", lane.bytes.len());
        while at < big.len() {
            at += fill(&mut lane, &big[at..], big.len());
        }
        lane.skip(big.len());
    }
}

#[test]
fn a_replaced_payload_is_as_many_packets_as_it_needs() {
    for len in [1, 300, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1] {
        let (mut lane, mut to) = (Lane::holding(b"abcdef"), Vec::new());
        let packets = lane.replace(4, |window, out| {
            assert_eq!(window, b"abcd");
            out.resize(out.len() + len, 7);
            Some(())
        });
        send(&mut lane, &mut to);
        assert!(to == packet(0, &vec![7; len]) && packets == Some(1 + len / PAYLOAD_BYTES_MAX), "{len}");
        assert_eq!(lane.window(), b"ef");
    }
    let mut lane = Lane::holding(b"ab");
    assert_eq!(lane.replace(1, |_, out| out.pop().map(|_| ()).filter(|()| false)), None);
    assert!(lane.is_clear() && lane.window() == b"ab");
}

#[test]
fn a_window_at_the_end_moves_to_the_front() {
    let mut lane = Lane::default();
    fill(&mut lane, &vec![1; LANE_BYTES], 0);
    lane.skip(LANE_BYTES - 3);
    assert_eq!(fill(&mut lane, b"yz", 5), 2);
    assert_eq!(lane.window(), [1, 1, 1, b'y', b'z']);
}

#[test]
fn a_lane_that_waits_has_no_buffer() {
    let mut lane = Lane::default();
    let wait = |lane: &mut Lane| {
        let (mut never, _other_end) = tokio::io::duplex(1);
        let polled = lane.poll_fill(&mut Context::from_waker(Waker::noop()), &mut never, 5);
        assert!(polled.is_pending());
    };
    wait(&mut lane);
    assert_eq!(lane.bytes.capacity(), 0);
    fill(&mut lane, b"abc", 5);
    assert_eq!(lane.bytes.len(), LANE_BYTES);
    wait(&mut lane);
    assert_eq!(lane.window(), b"abc", "it waits for more of a packet");
    lane.skip(3);
    wait(&mut lane);
    assert_eq!((lane.bytes.capacity(), lane.window()), (0, &b""[..]));
    fill(&mut lane, b"de", 5);
    assert_eq!(lane.window(), b"de");
}
