//! opensrv-mysql 0.7.0 reads freed memory if more than one packet is in its buffer, and has the same salt for all
//! connections. The adapter in front of it (src/admin/console/protocol/opensrv.rs) has all that is wrong in it.

use std::collections::BTreeSet;

use crate::console::raw::{DEPRECATE_EOF, Raw};
use crate::console::rig::Console;
use crate::support::raw::wire::packet;

const QUERIES: usize = 3_000;

#[test]
fn three_thousand_pipelined_queries_come_back_each_right() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, 0);
    let query = |nth: usize| {
        // The queries have all lengths, so that buffers grow and packets lie across their ends.
        format!("\x03SELECT '{nth} {}' AS x", "x".repeat(nth * 7 % 200))
    };
    let sent: Vec<u8> = (0..QUERIES).flat_map(|nth| packet(0, query(nth).as_bytes())).collect();
    let mut writer = raw.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &sent));
    for nth in 0..QUERIES {
        let expect = format!("{nth} {}", "x".repeat(nth * 7 % 200));
        assert_eq!(raw.rows(), [expect], "the query {nth}");
    }
    writing.join().unwrap().unwrap();
    raw.command(0x0E, b"");
    assert_eq!(raw.read().unwrap().1[0], 0);
}

#[test]
fn queries_in_pieces_of_a_byte() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, 0);
    let sent: Vec<u8> = (0..20).flat_map(|nth| packet(0, format!("\x03SELECT {nth}").as_bytes())).collect();
    for byte in sent {
        raw.send(&[byte]);
    }
    for nth in 0..20 {
        assert_eq!(raw.rows(), [nth.to_string()]);
    }
}

#[test]
fn no_two_connections_have_one_salt() {
    let console = Console::start();
    let raws: Vec<_> = (0..50).map(|_| Raw::greeted(console.port)).collect();
    let salts: BTreeSet<_> = raws.iter().map(|raw| raw.nonce.clone()).collect();
    assert_eq!((salts.len(), raws[0].nonce.len()), (50, 20));
    // Not of a session of the proxy's: KILL with one's own number must hit none.
    assert!(raws.iter().all(|raw| raw.connection_id >= 0x8000_0000));
}

#[test]
fn prepared_statements() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, DEPRECATE_EOF);
    raw.command(0x16, b"SHOW GENERATORS LIKE 'shop.o%'");
    let (_, prepared) = raw.read().unwrap();
    assert_eq!((prepared[0], &prepared[5..9]), (0, &[15, 0, 0, 0][..]), "15 columns, no parameters");
    let id: [u8; 4] = prepared[1..5].try_into().unwrap();
    (0..15).for_each(|_| drop(raw.read().unwrap()));
    for _ in 0..2 {
        raw.command(0x17, &[&id[..], &[0, 1, 0, 0, 0]].concat());
        assert_eq!(raw.read().unwrap().1, [15]);
        (0..15).for_each(|_| drop(raw.read().unwrap()));
        let (_, row) = raw.read().unwrap();
        // The row of binary values: its map of NULLs, then the values, issued_ids as eight bytes.
        let name = row.windows(11).position(|part| part == b"shop.orders").unwrap();
        assert_eq!((row[0], name), (0, 5));
        assert!(
            row.windows(8).any(|part| part == [0xFF; 8])
                && row.windows(8).any(|part| part == 2.5_f64.to_le_bytes())
        );
        assert_eq!(raw.read().unwrap().1[0], 0xFE);
    }
    // COM_STMT_SEND_LONG_DATA gets no answer, and a closed statement is not known any more.
    raw.command(0x18, &[&id[..], b"\0\0x"].concat());
    raw.command(0x19, &id);
    raw.command(0x17, &[&id[..], &[0, 1, 0, 0, 0]].concat());
    assert_eq!(raw.error().0, 1243);
    raw.command(0x16, b"SHOW NOTHING");
    assert_eq!(raw.error().0, 1064);
    raw.command(0x16, b"DRAIN");
    assert_eq!(&raw.read().unwrap().1[5..9], [0; 4]);
    assert_eq!(console.done(), Vec::<String>::new());
}

#[test]
fn prepared_statements_are_bounded() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, DEPRECATE_EOF);
    for nth in 0..=1_000 {
        raw.command(0x16, b"DRAIN");
        let (_, answer) = raw.read().unwrap();
        assert_eq!(answer[0], if nth < 1_000 { 0 } else { 0xFF });
    }
    // A new beginning.
    raw.command(0x1F, b"");
    assert_eq!(raw.read().unwrap().1[0], 0);
    raw.command(0x16, b"DRAIN");
    let (_, answer) = raw.read().unwrap();
    assert_eq!((answer[0], &answer[1..5]), (0, &[1, 0, 0, 0][..]), "the numbers are free again");
}

/// Servers do so for every client: MariaDB's takes the packet for malformed without it.
#[test]
fn an_oks_text_has_its_length_in_front() {
    let console = Console::start();
    for capabilities in [0, DEPRECATE_EOF] {
        let mut raw = Raw::logged_in(console.port, capabilities);
        raw.command(0x03, b"KILL 7");
        let text = b"the session has ended";
        assert_eq!(raw.read().unwrap().1, [&[0, 0, 0, 0, 0, 0, 0, 21], &text[..]].concat());
    }
    assert_eq!(console.done(), ["kill 7", "kill 7"]);
}

/// opensrv-mysql would answer these by itself, the first with a number of its own.
#[test]
fn what_is_ours_to_answer() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, 0);
    for (statement, expect) in [
        ("SELECT @@max_allowed_packet", "1048576"),
        ("select @@max_allowed_packet", "1048576"),
        ("USE `my;shop`", "OK"),
        ("SELECT DATABASE()", "my;shop"),
    ] {
        raw.command(0x03, statement.as_bytes());
        assert_eq!(raw.rows(), [expect], "{statement}");
    }
}
