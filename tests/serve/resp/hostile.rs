//! Clients that do not keep to the protocol, and what others notice of them: nothing.

use std::io::Write;

use super::client::{GENERATORS, Redis, alone, config, flood, port, request, wait_until_it_ends};
use crate::support::machine::memory_kib;

#[test]
fn what_is_no_request_ends_its_own_connection() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let mut other = Redis::at(port);
    let megabyte = vec![b'a'; 1 << 20];
    let nested = b"*1\r\n".repeat(100_000);
    let cases: [(&[u8], &str); 8] = [
        (b"*2147483648\r\n$4\r\nPING", "-ERR Protocol error: invalid multibulk length"),
        (b"*2\r\n$99999999999\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n:5\r\n", "-ERR Protocol error: expected '$', got ':'"),
        (&nested, "-ERR Protocol error: expected '$', got '*'"),
        (&megabyte, "-ERR Protocol error: too big inline request"),
        (b"*1\r\n$4\r\nPINGPING\r\n", "-ERR Protocol error: a bulk string does not end with CR LF"),
        (b"PING \"a\r\n", "-ERR Protocol error: unbalanced quotes in request"),
        (b"*-2x\r\n", "-ERR Protocol error: invalid multibulk length"),
    ];
    for (bytes, expect) in cases {
        let mut redis = Redis::at(port);
        let shown = bytes[..bytes.len().min(20)].escape_ascii();
        // The proxy need not read all of it.
        let _ = redis.stream().write_all(bytes);
        assert_eq!(redis.answer().as_deref(), Some(expect), "{shown}");
        assert_eq!(redis.answer(), None, "{shown}");
    }
    for (bytes, expect) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$20000\r\n", "-ERR Protocol error: unauthenticated bulk length"),
    ] {
        let mut redis = Redis::stranger(port);
        redis.send(bytes);
        assert_eq!(redis.answer().as_deref(), Some(expect));
        assert_eq!(redis.answer(), None);
    }
    assert_eq!(other.ask("INCR shop.orders"), ":1");
}

/// A request that comes byte by byte is answered like any other; one that never ends costs what has come of it.
#[test]
fn what_comes_slowly_is_waited_for() {
    let proxy = alone(&config(), GENERATORS);
    let mut redis = Redis::of(&proxy);
    for byte in request(&["INCRBY", "shop.orders", "7"]) {
        redis.send(&[byte]);
    }
    assert_eq!(redis.answer().as_deref(), Some(":7"));
    let before = memory_kib(proxy.pid);
    let long = format!("PING {}\r\n", "x".repeat(60_000));
    let halves: Vec<Redis> = (0..200)
        .map(|_| {
            let mut half = Redis::of(&proxy);
            // The proxy keeps nothing of an answered request, and makes no room for what has not come.
            half.send(long.as_bytes());
            assert!(half.answer().is_some());
            half.send(b"*1000\r\n$60000\r\nabc");
            half
        })
        .collect();
    assert_eq!(redis.ask("INCR shop.orders"), ":8");
    let grown = memory_kib(proxy.pid).saturating_sub(before);
    assert!(grown < 8_000, "{} half requests hold {grown} KiB", halves.len());
}

/// Answers that nobody reads are not made: the proxy stops reading.
#[test]
fn who_reads_no_answers_gets_no_more_and_goes() {
    let proxy = alone(&format!("{}[limits]\nwrite_timeout = \"2s\"\n", config()), GENERATORS);
    let port = port(&proxy);
    let mut other = Redis::at(port);
    let before = memory_kib(proxy.pid);
    let greedy = Redis::at(port);
    let info = request(&["INFO"]).repeat(1000);
    let sent = flood(greedy.stream(), &info);
    let grown = memory_kib(proxy.pid).saturating_sub(before);
    assert!(grown < 20_000, "{sent} bytes of requests hold {grown} KiB");
    assert_eq!(other.ask("INCR shop.orders"), ":1");
    // The greedy client is disconnected: what was answered can be read, and then there is an end.
    wait_until_it_ends(greedy.stream(), b"PING\r\n");
    assert_eq!(other.ask("INCR shop.orders"), ":2");
}
