//! The compressed protocol, as a client speaks it: strict about the numbers of the server's frames.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::bad;

/// The compression that a client uses, where the server offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    #[default]
    Off,
    Zlib,
    /// At this level.
    Zstd(u8),
}

impl Compress {
    /// `ROWSTAMP_TEST_COMPRESS` ("zlib", "zstd") has whole suites run compressed.
    pub fn of_environment() -> Self {
        match std::env::var("ROWSTAMP_TEST_COMPRESS").as_deref() {
            Ok("zlib") => Compress::Zlib,
            Ok("zstd") => Compress::Zstd(3),
            _ => Compress::Off,
        }
    }
}

const HEADER_BYTES: usize = 7;
const BODY_MAX: usize = 0x00FF_FFFF;

pub(super) struct Frames {
    compress: Compress,
    /// The number of the next frame in either direction.
    nr: u8,
    plain: Vec<u8>,
    at: usize,
    /// Bytes of bodies, and of what they unpacked to.
    pub(super) read: (usize, usize),
    again: bool,
    /// No frame of the client's holds more.
    pub(super) plain_max: usize,
}

impl Frames {
    pub(super) fn new(compress: Compress) -> Self {
        Frames { compress, nr: 0, plain: Vec::new(), at: 0, read: (0, 0), again: false, plain_max: BODY_MAX }
    }

    /// The next frame, of either side, has this number.
    pub(super) fn expect(&mut self, nr: u8) {
        self.again = false;
        self.nr = nr;
    }

    pub(super) fn write(&mut self, stream: &mut TcpStream, packets: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for plain in packets.chunks(self.plain_max) {
            // Short ones too: a server takes them.
            let body = match self.compress {
                Compress::Zlib => {
                    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(1));
                    zlib.write_all(plain)?;
                    zlib.finish()?
                }
                Compress::Zstd(level) => zstd::bulk::compress(plain, level.into())?,
                Compress::Off => plain.to_vec(),
            };
            let is_packed = body.len() < plain.len();
            let (body, of) = if is_packed { (&body[..], plain.len()) } else { (plain, 0) };
            bytes.extend(&body.len().to_le_bytes()[..3]);
            bytes.push(self.nr);
            bytes.extend(&of.to_le_bytes()[..3]);
            bytes.extend(body);
            self.nr = self.nr.wrapping_add(1);
        }
        stream.write_all(&bytes)
    }

    pub(super) fn read_exact(&mut self, stream: &mut TcpStream, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            if self.at == self.plain.len() {
                self.frame(stream)?;
            }
            let n = buffer.len().min(self.plain.len() - self.at);
            let (now, later) = buffer.split_at_mut(n);
            now.copy_from_slice(&self.plain[self.at..self.at + n]);
            self.at += n;
            buffer = later;
        }
        Ok(())
    }

    fn frame(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let [a, b, c, nr, x, y, z] = header;
        let three = |a, b, c| u32::from_le_bytes([a, b, c, 0]) as usize;
        if nr != self.nr && !(self.again && nr == 1) {
            return Err(bad(&format!("frame number {nr} where {} was due", self.nr)));
        }
        self.nr = nr.wrapping_add(1);
        let mut body = vec![0; three(a, b, c)];
        stream.read_exact(&mut body)?;
        let bytes = three(x, y, z);
        self.read.0 += body.len();
        self.plain = match (bytes, self.compress) {
            (0, _) => body,
            (_, Compress::Zstd(_)) => zstd::bulk::decompress(&body, bytes)?,
            _ => {
                let mut plain = Vec::new();
                flate2::read::ZlibDecoder::new(&body[..]).read_to_end(&mut plain)?;
                plain
            }
        };
        if bytes != 0 && self.plain.len() != bytes {
            return Err(bad(&format!("a frame of {} bytes that says {bytes}", self.plain.len())));
        }
        self.read.1 += self.plain.len();
        self.at = 0;
        Ok(())
    }

    /// Another answer may begin with any frame.
    pub(super) fn may_begin_again(&mut self) {
        self.again = true;
    }
}
