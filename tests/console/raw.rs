//! Packets by hand, sharing no code with the crate.

use std::io::{Read, Write};
use std::net::TcpStream;

use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::support::raw::wire::packet;
use crate::support::wait::NEVER;

/// LONG_PASSWORD, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH.
pub(crate) const BASE: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 19;
pub(crate) const SSL: u32 = 1 << 11;
pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;

pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    pub(crate) nonce: Vec<u8>,
    pub(crate) connection_id: u32,
    pub(crate) offered: u32,
}

pub(crate) fn response(capabilities: u32, user: &str, answer: &[u8], plugin: &str) -> Vec<u8> {
    let mut out = capabilities.to_le_bytes().to_vec();
    out.extend(0x0100_0000_u32.to_le_bytes());
    out.push(45);
    out.resize(32, 0);
    out.extend(user.bytes());
    out.push(0);
    out.push(u8::try_from(answer.len()).unwrap());
    out.extend_from_slice(answer);
    if capabilities & (1 << 3) != 0 {
        out.extend(b"shop\0");
    }
    if capabilities & PLUGIN_AUTH != 0 {
        out.extend(plugin.bytes());
        out.push(0);
    }
    out
}

pub(crate) fn sha2(password: &str, nonce: &[u8]) -> Vec<u8> {
    let once = Sha256::digest(password);
    let mask = Sha256::digest([&Sha256::digest(once)[..], nonce].concat());
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

pub(crate) fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    let once = Sha1::digest(password);
    let mask = Sha1::digest([nonce, &Sha1::digest(once)[..]].concat());
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

impl Raw {
    /// Connected, and the greeting read.
    pub(crate) fn greeted(port: u16) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        stream.set_write_timeout(Some(NEVER)).unwrap();
        let mut raw = Raw { stream, nonce: Vec::new(), connection_id: 0, offered: 0 };
        let (nr, greeting) = raw.read().unwrap();
        assert_eq!((nr, greeting[0]), (0, 10), "{greeting:?}");
        let at = greeting.iter().position(|byte| *byte == 0).unwrap() + 1;
        raw.connection_id = u32::from_le_bytes(greeting[at..at + 4].try_into().unwrap());
        raw.nonce = greeting[at + 4..at + 12].to_vec();
        raw.offered = u32::from(u16::from_le_bytes([greeting[at + 13], greeting[at + 14]]))
            | u32::from(u16::from_le_bytes([greeting[at + 18], greeting[at + 19]])) << 16;
        raw.nonce.extend(&greeting[at + 31..at + 43]);
        assert!(greeting[at + 43..].starts_with(b"\0caching_sha2_password\0"), "{greeting:?}");
        raw
    }

    /// Logs in as the user dba, by caching_sha2_password.
    pub(crate) fn logged_in(port: u16, capabilities: u32) -> Raw {
        let mut raw = Raw::greeted(port);
        let answer = sha2("s3crët", &raw.nonce);
        let payload = response(capabilities | BASE, "dba", &answer, "caching_sha2_password");
        raw.send(&packet(1, &payload));
        assert_eq!(raw.read().unwrap(), (2, vec![1, 3]));
        assert_eq!(raw.read().unwrap(), (3, vec![0, 0, 0, 2, 0, 0, 0]));
        raw
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn command(&mut self, command: u8, body: &[u8]) {
        self.send(&packet(0, &[&[command], body].concat()));
    }

    /// The next packet's number and payload; `None` at the end of the connection, however it ended.
    pub(crate) fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).ok()?;
        let [a, b, c, nr] = header;
        let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some((nr, payload))
    }

    /// Code and text of the error that is next.
    #[track_caller]
    pub(crate) fn error(&mut self) -> (u16, String) {
        let (_, payload) = self.read().expect("an answer");
        assert_eq!(payload[0], 0xFF, "{}", String::from_utf8_lossy(&payload));
        let text = String::from_utf8_lossy(&payload[9..]).into_owned();
        (u16::from_le_bytes([payload[1], payload[2]]), text)
    }

    /// The answer to a query with a text result: its rows' texts, by `|`; "OK"; or the error. With EOF packets.
    pub(crate) fn rows(&mut self) -> Vec<String> {
        let (_, first) = self.read().expect("an answer");
        match first[0] {
            0 => return vec!["OK".into()],
            0xFF => return vec![String::from_utf8_lossy(&first[9..]).into_owned()],
            columns => (0..=columns).for_each(|_| drop(self.read().unwrap())),
        }
        let mut rows = Vec::new();
        loop {
            let (_, row) = self.read().unwrap();
            if row[0] == 0xFE && row.len() < 9 {
                return rows;
            }
            rows.push(texts(&row).join("|"));
        }
    }
}

/// Short ones, as the tests' are, but for a length of two bytes.
fn texts(mut row: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let [first, rest @ ..] = row {
        let (bytes, rest) = match first {
            0xFB => {
                texts.push("NULL".into());
                row = rest;
                continue;
            }
            0xFC => (usize::from(u16::from_le_bytes([rest[0], rest[1]])), &rest[2..]),
            short => (usize::from(*short), rest),
        };
        texts.push(String::from_utf8_lossy(&rest[..bytes]).into_owned());
        row = &rest[bytes..];
    }
    texts
}
