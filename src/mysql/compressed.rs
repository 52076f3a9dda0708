//! The compressed protocol: the packets of a session in frames. A frame is 3 bytes of its body's length, 1 byte of frame
//! number, 3 bytes of the length of what the body unpacks to, and the body. A length of 0 in the last place: the body is
//! stored as it is. Frames and packets are cut independently of each other. Sources: <https://mariadb.com/kb/en/0-packet/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression_packet.html>.

pub mod turns;

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::bulk::Compressor;
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::capabilities::Capabilities;
use super::reader::{Malformed, Reader};

/// Bytes in front of every body.
pub const HEADER_BYTES: usize = 7;
/// The longest body, and the longest text that one unpacks to.
pub const BODY_BYTES_MAX: usize = 0xFF_FFFF;
/// A shorter text is stored as it is: servers and clients do so too (MIN_COMPRESS_LENGTH).
const PACKED_BYTES_MIN: usize = 50;
/// The level that servers use if nobody names one.
const ZLIB_LEVEL: u32 = 6;
/// MySQL's default_zstd_compression_level.
pub const ZSTD_LEVEL: u8 = 3;
/// Levels that a client may ask for.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<u8> = 1..=22;
/// A frame of zstd that needs a larger window is refused: nothing that is to be unpacked here is longer than 2^24.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;
/// A longer text is packed at MySQL's default level at most: a higher one takes hundreds of megabytes for it.
const HIGH_LEVEL_BYTES_MAX: usize = 256 * 1024;
/// Unpacking states that a thread keeps.
const SPARE_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Zlib,
    Zstd,
}

/// The way in which the bodies of one direction are written: as they are, or packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Stored,
    Zlib,
    Zstd { level: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    pub reads: Algorithm,
    pub writes: Packing,
}

/// The level of a client's zstd is none that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Invalid zstd compression level for algorithm 'zstd'")]
pub struct BadLevel;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a compressed packet has a body that is not valid {0:?} data")]
    NotPacked(Algorithm),
    #[error("a compressed packet has an incomplete body")]
    CutShort,
    #[error("a compressed packet holds more bytes than its header says")]
    TooLong,
}

/// The compression between a server that offers `offered` and a client that asks for `asked`. `None`: no frames. With
/// both algorithms it is zlib, as with MySQL. A client that asks for an algorithm that was not offered gets frames in
/// which all is stored, and may pack its own: MySQL 9 under protocol_compression_algorithms = uncompressed answers so
/// too (measured), and a client that asks takes it for agreed. `knows_zstd`: the bit of zstd has that meaning to the
/// server that the client believes in.
pub fn agreed_with_client(
    asked: Capabilities,
    offered: Capabilities,
    level: Option<u8>,
    knows_zstd: bool,
) -> Result<Option<Agreed>, BadLevel> {
    let both = asked & offered;
    let (zlib, zstd) = (Capabilities::COMPRESS, Capabilities::ZSTD);
    if both.contains(zlib) {
        return Ok(Some(Agreed { reads: Algorithm::Zlib, writes: Packing::Zlib }));
    }
    if both.contains(zstd) {
        let level = level.filter(|level| ZSTD_LEVELS.contains(level)).ok_or(BadLevel)?;
        return Ok(Some(Agreed { reads: Algorithm::Zstd, writes: Packing::Zstd { level } }));
    }
    let reads = match (asked.contains(zlib), asked.contains(zstd) && knows_zstd) {
        (true, _) => Algorithm::Zlib,
        (false, true) => Algorithm::Zstd,
        (false, false) => return Ok(None),
    };
    Ok(Some(Agreed { reads, writes: Packing::Stored }))
}

/// The compression that a client uses with a server that offers `offered`, out of `wanted`. If both algorithms are
/// possible it is zstd, which costs less.
pub fn agreed_with_server(wanted: Capabilities, offered: Capabilities, level: u8) -> Option<Agreed> {
    let both = wanted & offered;
    if both.contains(Capabilities::ZSTD) {
        return Some(Agreed { reads: Algorithm::Zstd, writes: Packing::Zstd { level } });
    }
    let zlib = Agreed { reads: Algorithm::Zlib, writes: Packing::Zlib };
    both.contains(Capabilities::COMPRESS).then_some(zlib)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    body_bytes: usize,
    frame_nr: u8,
    /// 0: the body is stored.
    plain_bytes: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let (body_bytes, frame_nr) = (r.u24("frame length")? as usize, r.u8("frame number")?);
        Ok(Header { body_bytes, frame_nr, plain_bytes: r.u24("length before packing")? as usize })
    }

    #[allow(clippy::many_single_char_names)] // Bytes of two numbers.
    fn bytes(self) -> [u8; HEADER_BYTES] {
        // At most 0xFF_FFFF each, by construction.
        let ([a, b, c, ..], [x, y, z, ..]) = (self.body_bytes.to_le_bytes(), self.plain_bytes.to_le_bytes());
        [a, b, c, self.frame_nr, x, y, z]
    }
}

thread_local! {
    /// A frame is packed at one go, so a thread needs one state of each kind and a session none.
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(ZLIB_LEVEL), true));
    static ZSTD: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    /// Unpacking may have to wait in the middle of a frame. Between frames a session has no state.
    static SPARE: RefCell<Vec<Unpacking>> = const { RefCell::new(Vec::new()) };
}

/// Appends `plain`, [`BODY_BYTES_MAX`] bytes at most, as one frame. Stored where it is short or packing makes it no shorter.
pub fn pack(plain: &[u8], frame_nr: u8, packing: Packing, out: &mut Vec<u8>) {
    debug_assert!(plain.len() <= BODY_BYTES_MAX, "its length has three bytes");
    let start = out.len();
    let body = start + HEADER_BYTES;
    // With no room for more than it was: what does not fit is stored.
    out.resize(body + plain.len(), 0);
    let room = out.get_mut(body..).unwrap_or_default();
    let packed = if plain.len() < PACKED_BYTES_MIN { None } else { packed(plain, packing, room) };
    let header = if let Some(body_bytes) = packed.filter(|bytes| *bytes < plain.len()) {
        Header { body_bytes, frame_nr, plain_bytes: plain.len() }
    } else {
        room.copy_from_slice(plain);
        Header { body_bytes: plain.len(), frame_nr, plain_bytes: 0 }
    };
    if let Some(place) = out.get_mut(start..body) {
        place.copy_from_slice(&header.bytes());
    }
    out.truncate(body + header.body_bytes);
}

/// Packs `plain` into `room`; returns how long it became, `None` where it does not fit.
fn packed(plain: &[u8], packing: Packing, room: &mut [u8]) -> Option<usize> {
    match packing {
        Packing::Stored => None,
        Packing::Zlib => DEFLATE.with_borrow_mut(|deflate| {
            deflate.reset();
            let status = deflate.compress(plain, room, FlushCompress::Finish);
            let is_whole = matches!(status, Ok(Status::StreamEnd));
            usize::try_from(deflate.total_out()).ok().filter(|_| is_whole)
        }),
        Packing::Zstd { level } => ZSTD.with_borrow_mut(|zstd| {
            let zstd = match zstd {
                Some(zstd) => zstd,
                None => zstd.insert(Compressor::new(level.into()).ok()?),
            };
            let level = if plain.len() > HIGH_LEVEL_BYTES_MAX { level.min(ZSTD_LEVEL) } else { level };
            zstd.set_compression_level(level.into()).ok()?;
            zstd.compress_to_buffer(plain, room).ok()
        }),
    }
}

enum Unpacking {
    Zlib(Decompress),
    Zstd(Decoder<'static>),
}

impl Unpacking {
    fn borrow(algorithm: Algorithm) -> Result<Self, FrameError> {
        let is_right = |state: &Unpacking| match state {
            Unpacking::Zlib(_) => algorithm == Algorithm::Zlib,
            Unpacking::Zstd(_) => algorithm == Algorithm::Zstd,
        };
        let spare =
            SPARE.with_borrow_mut(|spare| spare.iter().position(is_right).map(|at| spare.swap_remove(at)));
        let bad = |_| FrameError::NotPacked(algorithm);
        Ok(match (spare, algorithm) {
            (Some(state), _) => state,
            (None, Algorithm::Zlib) => Unpacking::Zlib(Decompress::new(true)),
            (None, Algorithm::Zstd) => {
                let mut decoder = Decoder::new().map_err(bad)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(bad)?;
                Unpacking::Zstd(decoder)
            }
        })
    }

    fn give_back(mut self) {
        let is_reset = match &mut self {
            Unpacking::Zlib(state) => {
                state.reset(true);
                true
            }
            Unpacking::Zstd(state) => state.reinit().is_ok(),
        };
        SPARE.with_borrow_mut(|spare| {
            if is_reset && spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
    }

    /// The bytes that were moved, and whether the packed ones are at their end.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(Unpacked, bool), FrameError> {
        match self {
            Unpacking::Zlib(state) => {
                let (before_in, before_out) = (state.total_in(), state.total_out());
                let status = state.decompress(input, output, FlushDecompress::None);
                let status = status.map_err(|_| FrameError::NotPacked(Algorithm::Zlib))?;
                let since = |now: u64, before| usize::try_from(now - before).unwrap_or_default();
                let (taken, given) =
                    (since(state.total_in(), before_in), since(state.total_out(), before_out));
                Ok((Unpacked { taken, given }, status == Status::StreamEnd))
            }
            Unpacking::Zstd(state) => {
                let status = state.run_on_buffers(input, output);
                let status = status.map_err(|_| FrameError::NotPacked(Algorithm::Zstd))?;
                let (taken, given) = (status.bytes_read, status.bytes_written);
                Ok((Unpacked { taken, given }, status.remaining == 0))
            }
        }
    }
}

enum State {
    // So many bytes of a header are there.
    Header(usize),
    Stored { body_left: usize },
    Packed { unpacking: Unpacking, body_left: usize, plain_left: usize, ended: bool },
}

/// The number of bytes that were taken from the input, and of those that were given into the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unpacked {
    pub taken: usize,
    pub given: usize,
}

/// Takes frames apart as their bytes come. Of what it gives nothing is kept here, so a frame that announces much costs no
/// memory by that.
pub struct Unpacker {
    algorithm: Algorithm,
    header: [u8; HEADER_BYTES],
    state: State,
    frame_nr: u8,
}

impl Unpacker {
    pub fn new(algorithm: Algorithm) -> Self {
        Unpacker { algorithm, header: [0; HEADER_BYTES], state: State::Header(0), frame_nr: 0 }
    }

    /// The number of the frame that was begun last.
    pub fn frame_nr(&self) -> u8 {
        self.frame_nr
    }

    /// True if there may be something to give without further input.
    pub fn may_give(&self) -> bool {
        matches!(self.state, State::Packed { body_left: 0, .. })
    }

    /// True if no byte of a frame is here.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header(0))
    }

    /// Takes from the input and gives into the output as far as both reach, and at most to the end of a frame, so that all
    /// that is given was in one. The output must not be empty.
    pub fn unpack(&mut self, input: &[u8], output: &mut [u8]) -> Result<Unpacked, FrameError> {
        let mut moved = Unpacked::default();
        loop {
            let rest = input.get(moved.taken..).unwrap_or_default();
            match &mut self.state {
                State::Header(have) => {
                    let Some(place) = self.header.get_mut(*have..).filter(|place| !place.is_empty()) else {
                        self.begin()?;
                        continue;
                    };
                    let Some(bytes) = rest.get(..place.len().min(rest.len())).filter(|b| !b.is_empty())
                    else {
                        return Ok(moved);
                    };
                    let (place, _) = place.split_at_mut(bytes.len());
                    place.copy_from_slice(bytes);
                    *have += bytes.len();
                    moved.taken += bytes.len();
                }
                State::Stored { body_left } => {
                    let n = rest.len().min(output.len()).min(*body_left);
                    if let (Some(from), Some(to)) = (rest.get(..n), output.get_mut(..n)) {
                        to.copy_from_slice(from);
                    }
                    *body_left -= n;
                    if *body_left == 0 {
                        self.state = State::Header(0);
                    }
                    return Ok(Unpacked { taken: moved.taken + n, given: n });
                }
                State::Packed { .. } => {
                    let step = self.unpack_body(rest, output)?;
                    moved.taken += step.taken;
                    moved.given = step.given;
                    let waits = matches!(self.state, State::Packed { .. });
                    if waits || moved.given > 0 {
                        return Ok(moved);
                    }
                }
            }
        }
    }

    /// The header is whole.
    fn begin(&mut self) -> Result<(), FrameError> {
        let header = Header::parse(&self.header).map_err(|_| FrameError::CutShort)?;
        self.frame_nr = header.frame_nr;
        self.state = match header {
            // Empty: MySQL and MariaDB wait for the next one.
            Header { body_bytes: 0, plain_bytes: 0, .. } => State::Header(0),
            Header { plain_bytes: 0, body_bytes, .. } => State::Stored { body_left: body_bytes },
            Header { plain_bytes, body_bytes, .. } => State::Packed {
                unpacking: Unpacking::borrow(self.algorithm)?,
                body_left: body_bytes,
                plain_left: plain_bytes,
                ended: false,
            },
        };
        Ok(())
    }

    fn unpack_body(&mut self, input: &[u8], output: &mut [u8]) -> Result<Unpacked, FrameError> {
        let State::Packed { unpacking, body_left, plain_left, ended } = &mut self.state else {
            return Ok(Unpacked::default());
        };
        let mut moved = Unpacked::default();
        loop {
            let rest = input.get(moved.taken..).unwrap_or_default();
            let rest = rest.get(..rest.len().min(*body_left)).unwrap_or(rest);
            if *ended {
                // Servers pass over what stands after the end, and take a body that holds less than it says (measured).
                moved.taken += rest.len();
                *body_left -= rest.len();
                break;
            }
            let room = output.get_mut(moved.given..).unwrap_or_default();
            let room_bytes = room.len().min(*plain_left);
            if room_bytes == 0 && *plain_left > 0 {
                break;
            }
            // All is there that was announced: the end must follow, and not a byte more.
            let mut beyond = [0];
            let room = if *plain_left == 0 {
                &mut beyond[..]
            } else {
                room.get_mut(..room_bytes).unwrap_or_default()
            };
            let (step, is_at_end) = unpacking.step(rest, room)?;
            if *plain_left == 0 && step.given > 0 {
                return Err(FrameError::TooLong);
            }
            *body_left -= step.taken;
            *plain_left -= step.given;
            moved.taken += step.taken;
            moved.given += step.given;
            *ended = is_at_end;
            if step.taken == 0 && step.given == 0 && !is_at_end {
                if *body_left == 0 {
                    return Err(FrameError::CutShort);
                }
                if !rest.is_empty() {
                    return Err(FrameError::NotPacked(self.algorithm));
                }
                break;
            }
        }
        if *ended && *body_left == 0 {
            let State::Packed { unpacking, .. } = std::mem::replace(&mut self.state, State::Header(0)) else {
                return Ok(moved);
            };
            unpacking.give_back();
        }
        Ok(moved)
    }
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
