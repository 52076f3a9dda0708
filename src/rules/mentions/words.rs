//! The words that names are made of, and how they are found in a text.

/// For each first byte, a bit for each length of the words that begin with it.
#[derive(Debug)]
pub(super) struct Lengths([u64; 256]);

impl Default for Lengths {
    fn default() -> Self {
        Lengths([0; 256])
    }
}

impl Lengths {
    fn bit(word: &[u8]) -> u64 {
        1 << word.len().min(63)
    }

    pub(super) fn add(&mut self, word: &[u8]) {
        if let Some(first) = word.first()
            && let Some(lengths) = self.0.get_mut(usize::from(*first))
        {
            *lengths |= Lengths::bit(word);
        }
    }

    pub(super) fn may_hold(&self, word: &[u8]) -> bool {
        word.first()
            .and_then(|first| self.0.get(usize::from(first.to_ascii_lowercase())))
            .is_some_and(|lengths| lengths & Lengths::bit(word) != 0)
    }
}

/// A piece of a word.
#[derive(Debug)]
pub(super) struct Piece {
    /// In lower case.
    pub(super) bytes: Box<[u8]>,
    /// The text's word begins, ends with it.
    pub(super) begins: bool,
    pub(super) ends: bool,
}

impl Piece {
    pub(super) fn is_in(&self, word: &[u8]) -> bool {
        let fits = |at: Option<&[u8]>| at.is_some_and(|at| at.eq_ignore_ascii_case(&self.bytes));
        match (self.begins, self.ends) {
            (true, true) => fits(Some(word)),
            (true, false) => fits(word.get(..self.bytes.len())),
            (false, true) => fits(word.len().checked_sub(self.bytes.len()).and_then(|from| word.get(from..))),
            (false, false) => word.windows(self.bytes.len()).any(|window| fits(Some(window))),
        }
    }
}

/// By a table: every byte of every text is looked at.
pub(super) fn is_word_byte(byte: u8) -> bool {
    const IS_ONE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < table.len() {
            #[allow(clippy::cast_possible_truncation, clippy::indexing_slicing)] // Below 256.
            {
                table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
            }
            byte += 1;
        }
        table
    };
    IS_ONE.get(usize::from(byte)).copied().unwrap_or_default()
}

/// The longest run of word bytes in a name, in lower case, and whether a text's word begins and
/// ends with it.
pub(super) fn longest_word(name: &str, is_pattern: bool) -> Option<Piece> {
    let is_wild = |byte: Option<&u8>| is_pattern && byte.is_some_and(|b| matches!(b, b'*' | b'?'));
    let bytes = name.as_bytes();
    let mut at = 0;
    let mut longest: Option<Piece> = None;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let run = rest.iter().take_while(|b| is_word_byte(**b)).count();
        if run > longest.as_ref().map_or(0, |piece| piece.bytes.len()) {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            let after = bytes.get(at + run);
            longest = Some(Piece {
                bytes: rest.get(..run).unwrap_or_default().to_ascii_lowercase().into(),
                // The last byte of a character may be a letter in the client's character set.
                begins: !is_wild(before) && before.is_none_or(u8::is_ascii),
                ends: !is_wild(after),
            });
        }
        at += run.max(1);
    }
    longest
}
