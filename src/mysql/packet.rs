//! A packet: 3 bytes of payload length, 1 byte of packet number, the payload. A payload of 16 MiB - 1 or more is cut into
//! several packets; the first one shorter than that ends it.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>.

use std::borrow::Cow;

use super::reader::Reader;

/// Bytes in front of every payload.
pub const HEADER_BYTES: usize = 4;
/// A packet of this length is followed by another one of the same payload.
pub const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;

/// The first byte of the payload of the packet at the front of `bytes`: a command, or the kind of an answer. If the payload is empty, it
/// is the next packet's: look at the header first.
#[inline]
pub fn first_of_payload(bytes: &[u8]) -> Option<u8> {
    bytes.get(HEADER_BYTES).copied()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub payload_bytes: usize,
    pub packet_nr: u8,
}

impl Header {
    /// `None` while fewer than four bytes are there.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let mut r = Reader::new(bytes);
        let payload_bytes = r.u24("payload length").ok()? as usize;
        Some(Header { payload_bytes, packet_nr: r.u8("packet number").ok()? })
    }

    pub fn continues(self) -> bool {
        self.payload_bytes == PAYLOAD_BYTES_MAX
    }

    /// Header and payload together.
    pub fn packet_bytes(self) -> usize {
        HEADER_BYTES + self.payload_bytes
    }

    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        // At most 0xFF_FFFF, by construction.
        let [a, b, c, ..] = self.payload_bytes.to_le_bytes();
        [a, b, c, self.packet_nr]
    }
}

/// Appends `payload` as one packet or as many as it needs, numbered from `packet_nr`; returns the next number.
pub fn put_packets(out: &mut Vec<u8>, mut packet_nr: u8, payload: &[u8]) -> u8 {
    let mut rest = payload;
    loop {
        let (chunk, tail) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
        let header = Header { payload_bytes: chunk.len(), packet_nr };
        out.extend_from_slice(&header.bytes());
        out.extend_from_slice(chunk);
        packet_nr = packet_nr.wrapping_add(1);
        rest = tail;
        if !header.continues() {
            return packet_nr;
        }
    }
}

/// A payload as one packet or as many as it needs, numbered from `packet_nr`.
pub fn as_packets(packet_nr: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + packets_of(payload.len()) * HEADER_BYTES);
    put_packets(&mut out, packet_nr, payload);
    out
}

pub fn packets_of(payload_bytes: usize) -> usize {
    payload_bytes / PAYLOAD_BYTES_MAX + 1
}

/// The place of a command's payload in a window: if it is there whole, and how many of the window's bytes it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    Needs { window_bytes: usize },
    Is { window_bytes: usize, packets: usize },
}

/// Follows the headers of the first payload in a window.
pub fn whole_payload(window: &[u8]) -> Whole {
    let (mut at, mut packets) = (0, 0);
    loop {
        let Some(header) = window.get(at..).and_then(Header::parse) else {
            return Whole::Needs { window_bytes: at + HEADER_BYTES };
        };
        at += header.packet_bytes();
        packets += 1;
        if window.len() < at {
            return Whole::Needs { window_bytes: at };
        }
        if !header.continues() {
            return Whole::Is { window_bytes: at, packets };
        }
    }
}

/// The payload that [`whole_payload`] found: borrowed where it is one packet, put together where it is several.
pub fn payload_of(window: &[u8], window_bytes: usize) -> Cow<'_, [u8]> {
    let window = window.get(..window_bytes).unwrap_or(window);
    if window_bytes < PAYLOAD_BYTES_MAX {
        return window.get(HEADER_BYTES..).unwrap_or_default().into();
    }
    let mut payload = Vec::with_capacity(window_bytes);
    let mut rest = window;
    while let Some(header) = Header::parse(rest) {
        let (packet, tail) = rest.split_at(header.packet_bytes().min(rest.len()));
        payload.extend_from_slice(packet.get(HEADER_BYTES..).unwrap_or_default());
        rest = tail;
    }
    payload.into()
}

#[cfg(test)]
mod tests {
    use super::{
        HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, Whole, as_packets, packets_of, payload_of, put_packets,
        whole_payload,
    };

    #[test]
    fn payloads_around_the_edge() {
        for (len, packets) in
            [(0, 1), (1, 1), (PAYLOAD_BYTES_MAX - 1, 1), (PAYLOAD_BYTES_MAX, 2), (PAYLOAD_BYTES_MAX + 1, 2)]
        {
            let mut out = Vec::new();
            let next = put_packets(&mut out, 255, &vec![7; len]);
            assert_eq!((usize::from(next.wrapping_add(1)), packets_of(len)), (packets, packets), "{len}");
            assert_eq!(out.len(), len + packets * HEADER_BYTES);
            let first = Header::parse(&out).unwrap();
            assert_eq!((first.packet_nr, first.continues()), (255, packets > 1));
        }
        assert_eq!(Header::parse(&[1, 2, 3]), None);
    }

    #[test]
    fn payloads_of_one_and_of_several_packets() {
        for len in [1, 100, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 5] {
            let payload = vec![3; len];
            let mut window = as_packets(0, &payload);
            let packets = len / PAYLOAD_BYTES_MAX + 1;
            window.extend_from_slice(&[1, 0, 0, 0, 14]);
            let window_bytes = len + 4 * packets;
            assert_eq!(whole_payload(&window), Whole::Is { window_bytes, packets });
            assert_eq!(payload_of(&window, window_bytes), payload);
            assert_eq!(
                whole_payload(&window[..len + 3]),
                Whole::Needs {
                    // All of it, but where the second packet is empty and its header was cut off.
                    window_bytes: if len <= PAYLOAD_BYTES_MAX { len + 4 } else { window_bytes }
                }
            );
        }
        assert_eq!(whole_payload(&[]), Whole::Needs { window_bytes: 4 });
    }
}
