//! Every read of a peer's bytes: checked, and named after what was expected. Formats: <https://mariadb.com/kb/en/protocol-data-types/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_strings.html>.

use thiserror::Error;

/// A peer's packet does not have the form that the protocol gives it.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
pub enum Malformed {
    #[error("the packet ends before its {0}")]
    Truncated(&'static str),
    #[error("bad {0}")]
    Bad(&'static str),
}

/// A cursor over a packet's payload that never reads past its end.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The length of the bytes that it was made from. The position is counted from it.
    len: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, len: bytes.len() }
    }

    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub fn bytes(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Malformed::Truncated(what))?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated(what))?;
        self.rest = tail;
        Ok(*head)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[b]| b)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u24(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array::<3>(what).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// `int<lenenc>`. 0xFB (NULL) and 0xFF are not integers.
    pub fn lenenc(&mut self, what: &'static str) -> Result<u64, Malformed> {
        match self.u8(what)? {
            byte @ 0..=0xFA => Ok(u64::from(byte)),
            0xFC => self.u16(what).map(u64::from),
            0xFD => self.u24(what).map(u64::from),
            0xFE => self.u64(what),
            0xFB | 0xFF => Err(Malformed::Bad(what)),
        }
    }

    /// `string<lenenc>`
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let n = self.lenenc(what)?;
        self.bytes(usize::try_from(n).map_err(|_| Malformed::Truncated(what))?, what)
    }

    /// `string<NUL>`, without its NUL.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let n = memchr::memchr(0, self.rest).ok_or(Malformed::Truncated(what))?;
        let text = self.bytes(n, what)?;
        self.u8(what)?;
        Ok(text)
    }

    /// `string<EOF>`
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// Appends `int<lenenc>`.
pub fn put_lenenc(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0xFA => out.extend_from_slice(&n.to_le_bytes()[..1]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&n.to_le_bytes()[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&n.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&n.to_le_bytes());
        }
    }
}

/// Appends `string<lenenc>`.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::{Malformed, Reader, put_lenenc};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn lenenc_reads_what_it_wrote(n in any::<u64>(), shift in 0..64) {
            let n = n >> shift;
            let mut out = Vec::new();
            put_lenenc(&mut out, n);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.lenenc("n"), Ok(n));
            assert!(reader.is_empty());
        }

        #[test]
        fn truncated_is_an_error_never_a_panic(bytes: Vec<u8>) {
            let _ = Reader::new(&bytes).lenenc_bytes("text");
            let _ = Reader::new(&bytes).nul_bytes("text");
            let _ = Reader::new(&bytes).u64("n");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(Reader::new(&[0xFB]).lenenc("n"), Err(Malformed::Bad("n")));
        assert_eq!(Reader::new(&[0xFE, 1, 2]).lenenc("n"), Err(Malformed::Truncated("n")));
        assert_eq!(
            Reader::new(&[0xFE, 255, 255, 255, 255, 255, 255, 255, 255]).lenenc_bytes("t"),
            Err(Malformed::Truncated("t"))
        );
        assert_eq!(Reader::new(b"ab\0c").nul_bytes("t"), Ok(&b"ab"[..]));
        assert_eq!(Reader::new(b"ab").nul_bytes("t"), Err(Malformed::Truncated("t")));
    }
}
