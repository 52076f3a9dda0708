//! A peer's bytes, every read checked; and single packets, for tests that play a server, or a client that breaks the rules.

use std::io::{self, Read};

pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    pub(super) fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or_else(cut)?;
        self.rest = tail;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| cut())
    }

    pub(super) fn u8(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer.
    pub(super) fn lenenc(&mut self) -> io::Result<u64> {
        match self.u8()? {
            short @ 0..=0xFA => Ok(u64::from(short)),
            0xFC => Ok(u64::from(self.u16()?)),
            0xFD => {
                let [a, b, c] = self.array()?;
                Ok(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            0xFE => self.u64(),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a length")),
        }
    }

    pub(super) fn lenenc_bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = usize::try_from(self.lenenc()?).map_err(io::Error::other)?;
        self.take(length)
    }

    pub(super) fn null_terminated(&mut self) -> io::Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
        let bytes = self.take(end)?;
        self.take(1)?;
        Ok(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the packet ends too early")
}

/// One packet of less than 16 MiB.
pub fn packet(packet_nr: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a packet's length").to_le_bytes();
    [&length[..3], &[packet_nr], payload].concat()
}

/// The next packet's number and payload; `None` at the end of the connection.
pub fn read_packet(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let [a, b, c, packet_nr] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((packet_nr, payload))
}
