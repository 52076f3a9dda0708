//! A packet: 3 bytes of payload length, 1 byte of packet number, the payload. A payload of 16 MiB - 1 or more is cut into
//! several packets; the first one shorter than that ends it.
//! Source: MySQL manual, "MySQL Packets".

/// Bytes in front of every payload.
pub const HEADER_BYTES: usize = 4;
/// A packet of this length is followed by another one of the same payload.
pub const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub payload_bytes: usize,
    pub packet_nr: u8,
}

impl Header {
    /// `None` while fewer than four bytes are there.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let [a, b, c, packet_nr, ..] = *bytes else { return None };
        Some(Header { payload_bytes: u32::from_le_bytes([a, b, c, 0]) as usize, packet_nr })
    }

    /// Whether another packet of the same payload follows.
    pub fn continues(self) -> bool {
        self.payload_bytes == PAYLOAD_BYTES_MAX
    }

    /// Header and payload together.
    pub fn packet_bytes(self) -> usize {
        HEADER_BYTES + self.payload_bytes
    }

    /// As it travels.
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

/// How many packets a payload of this length takes.
pub fn packets_of(payload_bytes: usize) -> usize {
    payload_bytes / PAYLOAD_BYTES_MAX + 1
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, packets_of, put_packets};

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
}
