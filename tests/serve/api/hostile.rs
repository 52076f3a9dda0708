//! Clients that do not keep to HTTP, and what others notice of them: nothing.

use std::io::Write;

use super::client::{Http, config, dba, port};
use crate::resp::client::{GENERATORS, alone, flood, wait_until_it_ends};
use crate::support::machine::memory_kib;

/// Each gets its error, and its connection ends: what follows is no request.
#[test]
fn what_is_no_request_ends_its_own_connection() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let mut other = Http::dba(port);
    let draw =
        format!("POST /v1/generators/shop.orders/ids HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n", dba());
    let next = "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    let json = "Content-Type: application/json\r\n";
    let many_headers = "a: b\r\n".repeat(100);
    let long_header = format!("a: {}\r\n", "b".repeat(100_000));
    for (bytes, status) in [
        // A request of Redis.
        ("*1\r\n$4\r\nPING\r\n".to_owned(), 400),
        ("\0\0\0\0\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        (format!("{draw}{long_header}\r\n"), 431),
        (format!("{draw}{many_headers}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)), 431),
        (format!("{draw}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}   {next}"), 400),
        (format!("{draw}Content-Length: -1\r\n\r\n{next}"), 400),
        (format!("{draw}Content-Length: +2\r\n\r\n{{}}{next}"), 400),
        (format!("{draw}Content-Length : 2\r\n\r\n{{}}{next}"), 400),
        (format!("{draw}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{next}"), 400),
        (format!("{draw}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{next}"), 400),
        (format!("{draw}{json}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n{next}"), 400),
        (format!("{draw}{json}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{next}"), 400),
        (format!("{draw} folded: 1\r\n\r\n{next}"), 400),
        (format!("{draw}a\0b: 1\r\n\r\n{next}"), 400),
        // Bodies that are too long, told before or not.
        (format!("{draw}{json}Content-Length: 10485760\r\n\r\n{}", " ".repeat(1 << 20)), 413),
        (format!("{draw}{json}Content-Length: 18446744073709551615\r\n\r\n{next}"), 431),
        (format!("{draw}{json}Transfer-Encoding: chunked\r\n\r\n100000\r\n{}", " ".repeat(1 << 20)), 413),
    ] {
        let shown: String = bytes.chars().skip(bytes.find("Auth").unwrap_or(0)).take(200).collect();
        let mut http = Http::new(port, "");
        // The proxy need not read all of it.
        let _ = http.stream().write_all(bytes.as_bytes());
        let answer = http.answer().unwrap_or_else(|| panic!("no answer: {shown}"));
        assert_eq!(answer.status, status, "{shown}: {answer:?}");
        assert!(http.answer().is_none(), "there is a second answer: {shown}");
    }
    // A length and chunks at once: the chunks count, and no other request comes on that connection (RFC 9112, 6.3).
    for (nth, both) in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut http = Http::new(port, "");
        http.send(format!("{draw}{json}{both}\r\n0\r\n\r\n{next}").as_bytes());
        assert_eq!(http.answer().unwrap().id(), nth as u64 + 1);
        assert!(http.answer().is_none(), "{both}");
    }
    assert_eq!(other.draw("shop.orders", "").id(), 3, "no other request has drawn");
}

/// A request that comes byte by byte, and one in chunks, are answered like any other; those that never end cost what has come of them.
#[test]
fn what_comes_slowly_is_waited_for() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let mut http = Http::dba(port);
    for byte in http.request("POST", "/v1/generators/shop.orders/ids", "{\"count\": 7}").into_bytes() {
        http.send(&[byte]);
    }
    assert_eq!(http.answer().unwrap().json()["count"], 7);
    let chunked = http
        .request("POST", "/v1/generators/shop.orders/ids", "")
        .replace("\r\n\r\n", "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    http.send(format!("{chunked}5\r\n{{\"cou\r\n7\r\nnt\": 2}}\r\n0\r\n\r\n").as_bytes());
    assert_eq!(http.answer().unwrap().json()["count"], 2);
    // Who waits to be asked for the body is asked for it.
    let expects = http.request("POST", "/v1/generators/shop.orders/ids", "").replace(
        "\r\n\r\n",
        "\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
    );
    http.send(expects.as_bytes());
    assert_eq!(http.answer().unwrap().status, 100);
    http.send(b"{}");
    assert_eq!(http.answer().unwrap().id(), 10);
    let before = memory_kib(proxy.pid);
    let halves: Vec<Http> = (0..200)
        .map(|_| {
            let mut half = Http::dba(port);
            assert_eq!(half.draw("shop.orders", "").status, 200);
            half.send(format!("POST / HTTP/1.1\r\na: {}", "x".repeat(10_000)).as_bytes());
            half
        })
        .collect();
    assert_eq!(http.draw("shop.orders", "").id(), 211);
    let grown = memory_kib(proxy.pid).saturating_sub(before);
    assert!(grown < 20_000, "{} half requests hold {grown} KiB", halves.len());
}

/// An answer of 220 KB is not kept when it has been sent.
#[test]
fn who_drew_a_long_list_costs_no_more_than_others() {
    let events = "[generators.events]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n";
    let proxy = alone(&config(), &format!("{GENERATORS}{events}"));
    let port = port(&proxy);
    let draw = || {
        let mut client = Http::dba(port);
        let answer = client.draw("shop.events", "{\"count\": 10000}");
        assert_eq!(answer.json()["ids"].as_array().unwrap().len(), 10_000);
        client
    };
    // The first one takes the memory that an answer needs.
    drop(draw());
    let before = memory_kib(proxy.pid);
    let clients: Vec<Http> = (0..200).map(|_| draw()).collect();
    let grown = memory_kib(proxy.pid).saturating_sub(before);
    assert!(grown < 20_000, "{} silent clients hold {grown} KiB", clients.len());
}

/// Answers that nobody reads are not made: the proxy stops reading.
#[test]
fn who_reads_no_answers_gets_no_more_and_goes() {
    let proxy = alone(&format!("{}[limits]\nwrite_timeout = \"2s\"\n", config()), GENERATORS);
    let port = port(&proxy);
    let mut other = Http::dba(port);
    let before = memory_kib(proxy.pid);
    let greedy = Http::dba(port);
    let requests = greedy.request("GET", "/v1/openapi.json", "").repeat(100);
    let sent = flood(greedy.stream(), requests.as_bytes());
    let grown = memory_kib(proxy.pid).saturating_sub(before);
    assert!(grown < 20_000, "{sent} bytes of requests hold {grown} KiB");
    assert_eq!(other.draw("shop.orders", "").id(), 1);
    wait_until_it_ends(greedy.stream(), b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(other.draw("shop.orders", "").id(), 2);
}
