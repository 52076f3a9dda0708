#![allow(clippy::many_single_char_names, clippy::similar_names, clippy::unnecessary_wraps)] // Bytes of numbers; what unpacks and what was unpacked.

use super::turns::{Begins, Turns};

use super::{
    Agreed, Algorithm, BODY_BYTES_MAX, BadLevel, FrameError, HEADER_BYTES, Packing, Unpacked, Unpacker,
    agreed_with_client, agreed_with_server, pack,
};
use crate::mysql::capabilities::Capabilities as C;
use crate::mysql::handshake::ClientResponse;
use crate::mysql::packet::{PAYLOAD_BYTES_MAX, as_packets as p};
use proptest::prelude::{any, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use zeroize::Zeroizing;

const ZSTD: Packing = Packing::Zstd { level: 3 };
const BOTH: [(Algorithm, Packing); 2] = [(Algorithm::Zlib, Packing::Zlib), (Algorithm::Zstd, ZSTD)];

fn framed(plain: &[u8], packing: Packing) -> Vec<u8> {
    let mut out = Vec::new();
    pack(plain, 7, packing, &mut out);
    out
}

/// The content of these frames, read through an input and an output of these sizes.
fn unframed(
    frames: &[u8],
    algorithm: Algorithm,
    (input, output): (usize, usize),
) -> Result<Vec<u8>, FrameError> {
    let (mut unpacker, mut plain) = (Unpacker::new(algorithm), Vec::new());
    let (mut room, mut at) = (vec![0; output], 0);
    while at < frames.len() || unpacker.may_give() {
        let slice = &frames[at..frames.len().min(at + input)];
        let Unpacked { taken, given } = unpacker.unpack(slice, &mut room)?;
        assert!(taken + given > 0 || unpacker.is_between_frames(), "it makes no progress at {at}");
        at += taken;
        plain.extend_from_slice(&room[..given]);
    }
    Ok(plain)
}

/// A frame with this body, whose header says that it unpacks to `plain_bytes`.
fn saying(body: &[u8], plain_bytes: usize) -> Vec<u8> {
    let [a, b, c, ..] = body.len().to_le_bytes();
    let [x, y, z, ..] = plain_bytes.to_le_bytes();
    [&[a, b, c, 0, x, y, z], body].concat()
}

#[test]
fn what_is_short_or_does_not_pack_is_stored() {
    let mut noise = vec![0; 2000];
    StdRng::seed_from_u64(1).fill_bytes(&mut noise);
    for (algorithm, packing) in BOTH {
        for (plain, is_stored) in
            [(&b"a".repeat(49)[..], true), (&b"a".repeat(50), false), (&noise, true), (b"", true)]
        {
            let frame = framed(plain, packing);
            assert_eq!(frame[4..7] == [0; 3], is_stored, "{packing:?} {}", plain.len());
            assert!(frame.len() <= HEADER_BYTES + plain.len());
            assert_eq!(frame[3], 7);
            assert_eq!(unframed(&frame, algorithm, (100, 100)).unwrap(), plain);
        }
        assert_eq!(framed(&b"a".repeat(1000), Packing::Stored).len(), 1007);
    }
}

#[test]
fn the_longest_frame() {
    for (algorithm, packing) in BOTH
        .into_iter()
        .chain([(Algorithm::Zlib, Packing::Stored), (Algorithm::Zstd, Packing::Zstd { level: 22 })])
    {
        let plain = vec![5; BODY_BYTES_MAX];
        let frame = framed(&plain, packing);
        assert!(unframed(&frame, algorithm, (16384, 16384)).unwrap() == plain, "{packing:?}");
    }
}

/// A query of the `mysql` client 9.7.4 to MySQL 9.7.4.
const QUERY_ZLIB: &[u8] =
    b"\x1e\0\0\0\xac\0\0x^[\xc1\xc0\xc0\xc0\xcc\xc0\xe8\xe2\xaf\xa0^\x94_^\x5c\x92\x98[0Xiu\0:\x88Gr";
const QUERY_ZSTD: &[u8] =
    b"$\0\0\0\xac\0\0(\xb5/\xfd \xac\xdd\0\0\xa0\xa8\0\0\0\x03\0\x01DO 'rowstamp'\x01\0+\xa3J\x18";

/// The proxy takes and refuses these frames as MySQL 9.7 and MariaDB 10.11 do.
#[test]
fn frames_that_lie() {
    use Algorithm::{Zlib, Zstd};
    let plain = p(0, &[b"\x03\0\x01DO '", &b"rowstamp".repeat(20)[..], b"'"].concat());
    for (algorithm, frame) in [(Zlib, QUERY_ZLIB), (Zstd, QUERY_ZSTD)] {
        let body = &frame[HEADER_BYTES..];
        let read = |body: &[u8], plain_bytes, sizes| unframed(&saying(body, plain_bytes), algorithm, sizes);
        for sizes in [(1, 1), (7, 3), (1000, 1000)] {
            assert_eq!(unframed(frame, algorithm, sizes).unwrap(), plain);
            assert_eq!(read(body, 173, sizes).unwrap(), plain, "less than it says");
            assert_eq!(read(body, 171, sizes), Err(FrameError::TooLong));
            assert_eq!(read(body, 1, sizes), Err(FrameError::TooLong));
            for end in 0..body.len() {
                let cut = read(&body[..end], 172, sizes);
                assert!(matches!(cut, Err(FrameError::CutShort)), "{algorithm:?} {end}: {cut:?}");
            }
            let other = if algorithm == Zlib { Zstd } else { Zlib };
            assert_eq!(unframed(frame, other, sizes), Err(FrameError::NotPacked(other)));
        }
    }
    let behind = [&QUERY_ZLIB[HEADER_BYTES..], b"xyz"].concat();
    assert_eq!(unframed(&saying(&behind, 172), Zlib, (5, 5)).unwrap(), plain);
    let twice = [&saying(b"", 0)[..], &saying(b"abc", 0), &saying(b"", 0), QUERY_ZLIB].concat();
    assert_eq!(unframed(&twice, Zlib, (9, 9)).unwrap(), [b"abc", &plain[..]].concat());
}

/// 16 MiB of zeros in 16 KiB: they come out as they are asked for, and no further.
#[test]
fn a_bomb_gives_no_more_than_there_is_room_for() {
    for (algorithm, packing) in BOTH {
        let bomb = framed(&vec![0; BODY_BYTES_MAX], packing);
        assert!(bomb.len() < 20_000, "{}", bomb.len());
        let mut unpacker = Unpacker::new(algorithm);
        let (mut room, mut at, mut plain) = ([1; 1000], 0, 0);
        while plain < BODY_BYTES_MAX {
            let unpacked = unpacker.unpack(&bomb[at..], &mut room).unwrap();
            at += unpacked.taken;
            plain += unpacked.given;
            assert!(unpacked.given > 0 && unpacked.given <= room.len());
        }
    }
}

#[test]
fn what_is_given_at_once_was_in_one_frame() {
    let frames = [
        framed(b"abc", Packing::Stored),
        framed(&b"d".repeat(60), Packing::Zlib),
        framed(b"e", Packing::Zlib),
    ];
    let (mut unpacker, mut room, bytes) = (Unpacker::new(Algorithm::Zlib), [0; 100], frames.concat());
    let mut at = 0;
    for len in [3, 60, 1] {
        let unpacked = loop {
            let unpacked = unpacker.unpack(&bytes[at..], &mut room).unwrap();
            at += unpacked.taken;
            if unpacked.given > 0 {
                break unpacked;
            }
        };
        assert_eq!((unpacked.given, unpacker.frame_nr()), (len, 7));
    }
}

fn agreed(reads: Algorithm, writes: Packing) -> Option<Agreed> {
    Some(Agreed { reads, writes })
}

/// The proxy answers a client as MySQL 9.7 does under each protocol_compression_algorithms.
#[test]
fn what_a_client_gets() {
    use Algorithm::{Zlib, Zstd};
    use Packing::Stored;
    let (none, zlib, zstd, any) = (C::default(), C::COMPRESS, C::ZSTD, C::COMPRESS | C::ZSTD);
    let check = |asked, offered, level, expect| {
        let found = agreed_with_client(asked, offered, level, true);
        assert_eq!(found, expect, "{asked:?} {offered:?} {level:?}");
    };
    check(none, any, None, Ok(None));
    check(zlib, any, None, Ok(agreed(Zlib, Packing::Zlib)));
    check(any, any, Some(99), Ok(agreed(Zlib, Packing::Zlib)));
    check(zstd, any, Some(22), Ok(agreed(Zstd, Packing::Zstd { level: 22 })));
    check(any, zstd, Some(1), Ok(agreed(Zstd, Packing::Zstd { level: 1 })));
    for level in [None, Some(0), Some(23)] {
        check(zstd, any, level, Err(BadLevel));
        check(zstd, none, level, Ok(agreed(Zstd, Stored)));
    }
    check(zlib, none, None, Ok(agreed(Zlib, Stored)));
    check(zlib, zstd, None, Ok(agreed(Zlib, Stored)));
    check(any, none, Some(3), Ok(agreed(Zlib, Stored)));
    // A bit that MariaDB does not know.
    assert_eq!(agreed_with_client(zstd, none, Some(3), false), Ok(None));
}

#[test]
fn what_a_server_is_asked_for() {
    let (none, zlib, zstd, any) = (C::default(), C::COMPRESS, C::ZSTD, C::COMPRESS | C::ZSTD);
    let of_zlib = agreed(Algorithm::Zlib, Packing::Zlib);
    for (wanted, offered, expect) in [
        (none, any, None),
        (any, none, None),
        (zstd, zlib, None),
        (zlib, any, of_zlib),
        (any, zlib, of_zlib),
        (any, any, agreed(Algorithm::Zstd, Packing::Zstd { level: 5 })),
    ] {
        assert_eq!(agreed_with_server(wanted, offered, 5), expect, "{wanted:?} {offered:?}");
    }
}

/// A handshake response that asks for zstd, which was not offered, and for `bits`.
fn asking(bits: C, rest: &[u8]) -> ClientResponse {
    let mut out = (bits | C::ZSTD | C::PROTOCOL_41 | C::CLIENT_MYSQL | C::SECURE_CONNECTION)
        .base()
        .to_le_bytes()
        .to_vec();
    out.resize(32, 0);
    out.extend_from_slice(b"me\0\0");
    out.extend_from_slice(rest);
    ClientResponse::parse(Zeroizing::new(out), C::RELAYED).unwrap()
}

#[test]
fn the_level_of_a_clients_zstd() {
    let sent =
        |response: &ClientResponse| response.patched(response.capabilities | C::ZSTD, b"").unwrap().to_vec();
    let fields = b"plugin\0\x04\x01a\x01b";
    for (level, read, for_server) in
        [(&[7][..], Some(7), 7), (&[0], Some(0), 3), (&[23], Some(23), 3), (&[], None, 3)]
    {
        let response = asking(C::PLUGIN_AUTH | C::CONNECT_ATTRS, &[fields, level].concat());
        assert_eq!((response.compression, response.zstd_level), (C::ZSTD, read));
        assert!(!response.capabilities.contains(C::ZSTD), "it was not offered");
        assert!(sent(&response).ends_with(&[&fields[..], &[for_server]].concat()), "{level:?}");
        let relayed = response.patched(response.capabilities, b"").unwrap();
        assert!(relayed.ends_with(&[fields, level].concat()), "what came stays");
    }
    // A response has no room for a level if the server would read it as something else.
    for (rest, has_room) in [(&b"x\0\0"[..], true), (b"x\0", false), (b"x", false)] {
        let response = asking(C::PLUGIN_AUTH | C::CONNECT_ATTRS, rest);
        assert_eq!(response.has_room_for_level(), has_room, "{}", rest.escape_ascii());
    }
}

/// The numbers that answers begin with, where the bytes come in frames of this length. Each command starts their numbers again.
fn answers(packets: &[(Vec<u8>, bool)], frame_bytes: usize) -> Vec<u8> {
    let (mut turns, mut frame_nr) = (Turns::default(), 0_u8);
    let mut commands = 0;
    for (bytes, is_command) in packets {
        if *is_command {
            frame_nr = 0;
        }
        for frame in bytes.chunks(frame_bytes) {
            let mut rest = frame;
            while !rest.is_empty() {
                rest = &rest[turns.follow(rest, frame_nr)..];
            }
            frame_nr = frame_nr.wrapping_add(1);
        }
        commands += usize::from(*is_command);
    }
    (0..commands).map(|_| turns.answer()).collect()
}

#[test]
fn answers_begin_behind_the_last_frame_of_a_command() {
    let query = p(0, b"\x03SELECT 1");
    let pipelined =
        [(query.clone(), true), (p(0, b"\x19\x01\0\0\0"), false), (p(0, b""), true), (p(0, b"\xEEno"), true)];
    assert_eq!(answers(&pipelined, 100), [1, 1, 1]);
    // 13, 4 and 7 bytes.
    assert_eq!(answers(&pipelined, 5), [3, 1, 2]);
    assert_eq!(answers(&pipelined, 1), [13, 4, 7]);
    let long = p(0, &[&[3][..], &vec![b'x'; PAYLOAD_BYTES_MAX + 20]].concat());
    assert_eq!(answers(&[(long.clone(), true), (query.clone(), true)], 1 << 20), [17, 1]);
    // 4 bytes of it are in a second frame.
    assert_eq!(answers(&[(long[..PAYLOAD_BYTES_MAX + 4].to_vec(), true)], PAYLOAD_BYTES_MAX), [2]);
    // A payload of a multiple of 16 MiB - 1 ends with an empty packet.
    let edge = p(0, &[&[3][..], &vec![b'x'; PAYLOAD_BYTES_MAX - 1]].concat());
    assert_eq!(answers(&[(edge, true), (query, true)], PAYLOAD_BYTES_MAX), [2, 1]);
    assert_eq!(Turns::default().answer(), 1);
}

#[test]
fn commands_are_told_from_files_and_passwords() {
    let mut turns = Turns::default();
    let (query, password) = (p(0, b"\x03LOAD"), p(3, b"secret"));
    assert_eq!(turns.begins(&query), Some(Begins::Command));
    let both = [&query[..], &password].concat();
    assert_eq!(turns.follow(&both, 0), query.len(), "no further than the command");
    assert_eq!(turns.begins(&password), Some(Begins::Exchange));
    assert_eq!(turns.follow(&password[..2], 0), 2);
    assert_eq!(turns.begins(&query), None, "in the middle of a packet");
    assert_eq!(turns.follow(&password[2..], 0), password.len() - 2);
    turns.expect_file();
    // The frames' numbers wrap, and begin with any.
    let file = [p(0, b"\x03a"), p(1, b"b"), p(0, &vec![7; PAYLOAD_BYTES_MAX]), p(0, b"")].concat();
    assert_eq!(turns.begins(&file), None);
    assert_eq!(turns.follow(&[&file[..], &query].concat(), 0), file.len());
    assert_eq!(turns.begins(&query), Some(Begins::Command));
    assert_eq!((turns.answer(), turns.answer()), (1, 1), "one command was sent, and one answer is due");
}

fn packing() -> impl Strategy<Value = (Algorithm, Packing)> {
    prop_oneof![
        Just((Algorithm::Zlib, Packing::Zlib)),
        Just((Algorithm::Zlib, Packing::Stored)),
        Just((Algorithm::Zstd, Packing::Stored)),
        (1..=22_u8).prop_map(|level| (Algorithm::Zstd, Packing::Zstd { level })),
    ]
}

proptest! {
    #[test]
    fn there_and_back(
        parts in proptest::collection::vec((proptest::collection::vec(0..4_u8, 0..400), 1..5_usize), 0..6),
        (algorithm, packing) in packing(),
        input in 1..200_usize,
        output in 1..200_usize,
    ) {
        let (mut frames, mut plain) = (Vec::new(), Vec::new());
        for (nr, (part, times)) in parts.iter().enumerate() {
            let part = part.repeat(*times);
            pack(&part, u8::try_from(nr).unwrap(), packing, &mut frames);
            plain.extend_from_slice(&part);
        }
        assert_eq!(unframed(&frames, algorithm, (input, output)).unwrap(), plain);
    }

    #[test]
    fn any_bytes(
        bytes: Vec<u8>,
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        (algorithm, packing) in packing(),
        sizes in (1..100_usize, 1..100_usize),
    ) {
        let mut noisy = framed(&b"rowstamp".repeat(30), packing);
        for (at, byte) in flips {
            let len = noisy.len();
            noisy[at % len] = byte;
        }
        let _ = unframed(&bytes, algorithm, sizes);
        let _ = unframed(&noisy, algorithm, sizes);
        let mut turns = Turns::default();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let followed = turns.follow(rest, 1);
            assert!(followed > 0);
            rest = &rest[followed..];
        }
    }
}
