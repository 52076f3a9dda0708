//! Frames of the compressed protocol: however they are sliced, the same comes out or the same is wrong with them, and no frame
//! takes memory for what it announces. What is packed comes out as it went in.

use rowstamp::mysql::compressed::turns::Turns;
use rowstamp::mysql::compressed::{Algorithm, FrameError, Packing, Unpacked, Unpacker, pack};

use crate::input::Input;
use crate::memory;

/// States of both algorithms, made once a thread, and a window of zstd's as long as what a frame says that it holds.
const STATE_BYTES: usize = 40 << 20;
/// Of what comes out of the frames of an input no more is asked for.
const PLAIN_BYTES_MAX: usize = 1 << 20;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let algorithm = input.pick(&[Algorithm::Zlib, Algorithm::Zstd]);
    let (slice, room) = (usize::from(input.byte()).max(1), usize::from(input.byte()).max(1));
    match input.below(3) {
        0 => of_stream(algorithm, (slice, room), input.rest()),
        1 => of_packets(algorithm, (slice, room), input),
        _ => of_turns(slice, input.rest()),
    }
}

/// What comes out, and what was wrong.
fn take(frames: &[u8], algorithm: Algorithm, (slice, room): (usize, usize)) -> (Vec<u8>, Option<FrameError>) {
    let (mut unpacker, mut plain, mut at) = (Unpacker::new(algorithm), Vec::new(), 0);
    let mut room = vec![0; room];
    while (at < frames.len() || unpacker.may_give()) && plain.len() < PLAIN_BYTES_MAX {
        let next = &frames[at..frames.len().min(at + slice)];
        match unpacker.unpack(next, &mut room) {
            Ok(Unpacked { taken, given }) => {
                assert!(taken + given > 0, "it stands still at {at}");
                at += taken;
                plain.extend_from_slice(&room[..given]);
            }
            Err(error) => return (plain, Some(error)),
        }
    }
    plain.truncate(PLAIN_BYTES_MAX);
    (plain, None)
}

fn of_stream(algorithm: Algorithm, sizes: (usize, usize), frames: &[u8]) {
    let (plain, wrong) = memory::within(STATE_BYTES + 4 * PLAIN_BYTES_MAX, || take(frames, algorithm, sizes));
    let (whole, wrong_as_whole) = take(frames, algorithm, (frames.len().max(1), 16 * 1024));
    // The one may stop in front of what is wrong where the other reads on: at the end of the bytes, or of what is read here.
    let is_end = !is_whole(frames) || plain.len().max(whole.len()) >= PLAIN_BYTES_MAX;
    // A body may be wrong in two ways, and which of them is seen first depends on the slices.
    let is_same = wrong.is_some() == wrong_as_whole.is_some();
    // zstd compares what a body holds with the size in its own header only where its last block is not empty, or where the room
    // takes all of that size at once. So a body of zstd that holds less than it says may be wrong in one way of reading alone.
    let announced = announced(frames);
    let holds_less = |plain: &[u8], wrong: Option<FrameError>| wrong.is_none() && plain.len() < announced;
    let is_short =
        algorithm == Algorithm::Zstd && (holds_less(&plain, wrong) || holds_less(&whole, wrong_as_whole));
    assert!(is_same || is_end || is_short, "in slices of {}: {wrong:?}, not {wrong_as_whole:?}", sizes.0);
    // How much of a body that is wrong, or not yet there, comes out first depends on the algorithm.
    let is_right = wrong.is_none() && wrong_as_whole.is_none();
    if is_right && !is_end {
        assert_eq!(plain, whole);
    } else if is_right {
        assert!(plain.starts_with(&whole) || whole.starts_with(&plain), "other bytes");
    }
}

/// Whether the last frame's end is there.
fn is_whole(mut frames: &[u8]) -> bool {
    while let [a, b, c, _, _, _, _, rest @ ..] = frames {
        let Some(next) = rest.get(u32::from_le_bytes([*a, *b, *c, 0]) as usize..) else { return false };
        frames = next;
    }
    frames.is_empty()
}

/// What the frames say that they hold.
fn announced(mut frames: &[u8]) -> usize {
    let mut bytes = 0;
    while let [a, b, c, _, x, y, z, rest @ ..] = frames {
        let three = |a: &u8, b: &u8, c: &u8| u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let body = three(a, b, c);
        bytes += match three(x, y, z) {
            0 => body,
            plain => plain,
        };
        frames = rest.get(body..).unwrap_or_default();
    }
    bytes
}

fn of_packets(algorithm: Algorithm, sizes: (usize, usize), mut input: Input<'_>) {
    let level = input.below(22) + 1;
    let times = usize::from(input.byte()) + 1;
    let packing = match algorithm {
        _ if input.byte() == 0 => Packing::Stored,
        Algorithm::Zlib => Packing::Zlib,
        Algorithm::Zstd => Packing::Zstd { level },
    };
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for (nr, part) in (0..=255_u8).cycle().zip(input.rest().split(|&byte| byte == b'|')) {
        let part = part.repeat(times);
        let before = frames.len();
        pack(&part, nr, packing, &mut frames);
        assert!(frames.len() - before <= part.len() + 7, "packing makes nothing longer");
        assert_eq!(frames[before + 3], nr);
        expected.extend_from_slice(&part);
    }
    expected.truncate(PLAIN_BYTES_MAX);
    assert!(take(&frames, algorithm, sizes) == (expected, None), "{packing:?}");
}

/// Commands begin at the same places, however the bytes come.
fn of_turns(slice: usize, bytes: &[u8]) {
    let follow = |slice: usize| {
        let (mut turns, mut starts, mut at) = (Turns::default(), Vec::new(), 0);
        for part in bytes.chunks(slice) {
            let mut rest = part;
            while !rest.is_empty() {
                let n = turns.follow(rest, 0);
                assert!(n > 0);
                if n < rest.len() {
                    starts.push(at + n);
                }
                at += n;
                rest = &rest[n..];
            }
        }
        let answers = bytes.len() / 4 + 1;
        (starts, (0..answers).map(|_| turns.answer()).collect::<Vec<_>>())
    };
    let (starts, answers) = follow(slice);
    let (all, same) = follow(bytes.len().max(1));
    assert_eq!(answers, same);
    // One that begins with a slice is seen by whoever slices.
    assert!(starts.iter().all(|start| all.contains(start)), "{starts:?} of {all:?}");
    assert!(all.iter().all(|start| starts.contains(start) || start % slice == 0), "{starts:?} of {all:?}");
}
