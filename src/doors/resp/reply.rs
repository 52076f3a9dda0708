//! Answers, as RESP2 and RESP3 write them. Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

/// The version of the protocol that a client has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

/// Answers that were not sent yet, in their order.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
    pub(super) version: Version,
}

impl Replies {
    pub(super) fn new() -> Self {
        Replies { bytes: Vec::new(), version: Version::Two }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: impl itoa::Integer) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    /// A text of ours, without line ends.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `code`: the first word, by which clients know what to do.
    pub(super) fn error(&mut self, code: &str, text: impl std::fmt::Display) {
        let text = format!("{code} {text}");
        self.line(b'-', text.replace(['\r', '\n'], " ").as_bytes());
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// One above a signed 64-bit integer, which RESP2 has no integer for, is a string there.
    pub(super) fn id(&mut self, id: u64) {
        match (i64::try_from(id), self.version) {
            (Ok(id), _) => self.integer(id),
            (Err(_), Version::Three) => self.number(b'(', id),
            (Err(_), Version::Two) => self.bulk(id.to_string()),
        }
    }

    pub(super) fn bulk(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.number(b'$', text.len());
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn bulks<T: AsRef<[u8]>>(&mut self, texts: impl IntoIterator<Item = T>) {
        texts.into_iter().for_each(|text| self.bulk(text));
    }

    /// Text for people. `redis-cli` shows it without quotes where it may.
    pub(super) fn text(&mut self, text: &str) {
        match self.version {
            Version::Two => self.bulk(text),
            Version::Three => {
                self.number(b'=', text.len() + "txt:".len());
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// So many answers follow, as its elements.
    pub(super) fn array(&mut self, len: usize) {
        self.number(b'*', len);
    }

    /// So many pairs follow.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.number(b'*', pairs * 2),
            Version::Three => self.number(b'%', pairs),
        }
    }

    /// So many answers follow, in no order.
    pub(super) fn set(&mut self, len: usize) {
        self.number(if self.version == Version::Two { b'*' } else { b'~' }, len);
    }
}
