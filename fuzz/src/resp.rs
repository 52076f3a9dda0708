//! Bytes of a client of Redis, before and after its login: whatever they are, the answers can be read, are the same however the bytes are
//! sliced, and cost little memory.

use rowstamp::doors::resp::Redis;

use crate::doors::answers;
use crate::input::Input;

/// A request of 30 bytes may be answered by 1 KiB.
const MEMORY_BYTES_MAX: usize = 8 << 20;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let login: &[u8] = match input.below(4) {
        0 => b"",
        1 => b"AUTH app x\r\n",
        2 => b"HELLO 3 AUTH app x\r\n",
        _ => b"AUTH look y\r\n",
    };
    let slicing = input.byte();
    let bytes = [login, input.rest()].concat();
    let [whole, sliced] = answers(&bytes, slicing, MEMORY_BYTES_MAX, |issuer| Redis::new(issuer, "fuzz"));
    assert_eq!(String::from_utf8_lossy(&whole), String::from_utf8_lossy(&sliced), "answers depend on slices");
    let mut rest = &*whole;
    while !rest.is_empty() {
        rest = after_answer(rest);
    }
}

/// What stands after the answer that `bytes` begin with.
fn after_answer(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
    let (line, mut rest) = (&bytes[..end], &bytes[end + 2..]);
    let text = std::str::from_utf8(line).expect("what is no bulk string is ASCII");
    let number = || text[1..].parse::<i64>().unwrap_or_else(|_| panic!("{text:?} has a number"));
    match line[0] {
        b'+' | b'-' => assert!(line.len() > 1, "{text:?} says nothing"),
        b':' => drop(number()),
        b'(' => assert!(text[1..].parse::<u64>().is_ok(), "{text:?}"),
        b'_' => assert_eq!(text, "_"),
        b'$' | b'=' => {
            if let Ok(bytes) = usize::try_from(number()) {
                assert_eq!(&rest[bytes..bytes + 2], b"\r\n", "a string has its length");
                rest = &rest[bytes + 2..];
            }
        }
        b'*' | b'~' => {
            for _ in 0..number() {
                rest = after_answer(rest);
            }
        }
        b'%' => {
            for _ in 0..number() * 2 {
                rest = after_answer(rest);
            }
        }
        other => panic!("{other} begins no answer"),
    }
    rest
}
