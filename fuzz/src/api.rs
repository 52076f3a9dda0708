//! Bytes of a client of HTTP: whatever they are, the answers can be read, are the same however the bytes are sliced, and cost little
//! memory.

use rowstamp::doors::api::Api;

use crate::doors::answers;
use crate::input::Input;

/// A request of 100 bytes may be answered by the OpenAPI document, of 16 KiB.
const MEMORY_BYTES_MAX: usize = 8 << 20;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    // What most requests need, so that inputs may be short.
    let beginning: &[u8] = match input.below(7) {
        0 => b"",
        1 => b"POST /v1/generators/s.g/ids HTTP/1.1\r\nAuthorization: Basic YXBwOng=\r\n",
        2 => b"POST /v1/generators/s.few/ids HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Basic YXBwOng=\r\n",
        3 => b"GET /v1/generators",
        4 => b"GET /api/segment/get/g HTTP/1.1\r\nAuthorization: Basic YXBwOng=\r\n",
        5 => b"GET /service/id/batch/0/2 HTTP/1.1\r\nAuthorization: Basic YXBwOng=\r\n",
        _ => b"POST /v1/generators/s.g/ids HTTP/1.1\r\nAuthorization: Basic bG9vazp5\r\n",
    };
    let slicing = input.byte();
    let api = |issuer| Api::new(issuer, |_| true);
    let bytes = [beginning, input.rest()].concat();
    let [whole, sliced] = answers(&bytes, slicing, MEMORY_BYTES_MAX, api).map(|told| read(&told));
    // What is no request is answered with 400 when its head has ended, or when all of it comes at once.
    let [whole, sliced] = [whole, sliced].map(|mut answers| {
        answers.pop_if(|last| last.starts_with("HTTP/1.1 4") && last.contains("\ncontent-length: 0\n"));
        answers
    });
    assert_eq!(whole, sliced, "answers depend on slices");
}

/// The answers, but for what says when they were made, and for "100 Continue", which depends on what has come.
fn read(told: &[u8]) -> Vec<String> {
    let (mut answers, mut rest) = (Vec::new(), told);
    while !rest.is_empty() {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends");
        let head = std::str::from_utf8(&rest[..end]).expect("a head is text");
        rest = &rest[end + 4..];
        let status: u16 = head
            .strip_prefix("HTTP/1.")
            .and_then(|line| line.get(2..5)?.parse().ok())
            .unwrap_or_else(|| panic!("{head:?} has no status"));
        let lines = head.lines().filter(|line| !line.starts_with("date: "));
        let kept = lines.collect::<Vec<_>>().join("\n");
        let value = |name: &str| {
            head.lines().find_map(|line| line.strip_prefix(name).and_then(|line| line.strip_prefix(": ")))
        };
        if status == 100 {
            continue;
        }
        let length: usize = value("content-length").map_or(0, |length| length.parse().expect("a length"));
        // An answer to HEAD has a length and no body.
        let length = if rest.len() < length || rest.starts_with(b"HTTP/1.") { 0 } else { length };
        let body = std::str::from_utf8(&rest[..length]).expect("a body is text");
        rest = &rest[length..];
        let mut body = body.to_owned();
        match value("content-type") {
            _ if length == 0 => {}
            Some("text/plain;charset=UTF-8") => {
                assert!(status == 200 && body.parse::<u64>().is_ok(), "{head}\n{body}");
            }
            kind => {
                assert!(body.starts_with('{') && body.trim_end().ends_with('}'), "{body}");
                let is_in_envelope = body.starts_with("{\"id\":\"") && body.contains("\"stackTrace\":null");
                let is_problem = kind == Some("application/problem+json");
                assert_eq!(is_problem || is_in_envelope, status != 200, "{head}\n{body}");
                if let Some((_, rest)) = body.split_once("\",\"code\":") {
                    // Its id is random, and an error's date is when it was made.
                    let (before, after) = rest.split_once("\"date\":\"").unwrap_or((rest, ""));
                    body = format!(
                        "{before}{}",
                        after.get("2026-11-29T14:33:14:123+0000".len()..).unwrap_or_default()
                    );
                }
            }
        }
        let body = without_times(&body);
        answers.push(format!("{kept}\n\n{body}"));
    }
    answers
}

/// Ids of the time are not the same twice; those of the generator `s.high` are.
fn without_times(body: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut kept, mut rest) = (String::new(), body);
    while let Some(at) = rest.find(is_digit) {
        let (before, from) = rest.split_at(at);
        let (number, after) = from.split_at(from.find(|c| !is_digit(c)).unwrap_or(from.len()));
        let is_time = number.len() >= 13 && !number.starts_with("9223372036854775");
        kept.extend([before, if is_time { "#" } else { number }]);
        rest = after;
    }
    kept + rest
}
