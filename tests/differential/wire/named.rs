//! Statements that use a stage, by SQL's PREPARE, EXECUTE and EXECUTE IMMEDIATE. Under the client's name the
//! server has a statement that does nothing. The text itself is run as if the client had sent it.

use super::Walk;
use super::edits::Told;
use super::transcript::{Exchange, command};

impl Walk<'_> {
    /// A command, or the text that it runs.
    pub(super) fn named_or_not(&mut self, asked: &Exchange) -> Result<(), String> {
        let Err(problem) = self.exchange(asked) else {
            self.note_named(asked);
            return Ok(());
        };
        // The proxy's questions to the server come first. By now their answers are known.
        let Some(text) = self.text_run_by(asked) else { return Err(problem) };
        let text = [&[command::QUERY], &*text].concat();
        self.exchange(&Exchange::new(vec![text], &asked.answer)).map_err(|_| problem)
    }

    pub(super) fn text_run_by(&self, asked: &Exchange) -> Option<Vec<u8>> {
        let text = asked.text().trim_ascii();
        let rest = strip(text, b"EXECUTE ").filter(|_| asked.byte() == command::QUERY)?;
        if let Some(rest) = strip(rest, b"IMMEDIATE ") {
            return self.literal_or_told(rest);
        }
        self.named.get(&name(rest)).cloned()
    }

    fn note_named(&mut self, asked: &Exchange) {
        let text = asked.text().trim_ascii();
        let Some(rest) = strip(text, b"PREPARE ").filter(|_| asked.byte() == command::QUERY) else { return };
        let name = name(rest);
        let from = memchr::memmem::find(&rest.to_ascii_uppercase(), b"FROM ").map_or(rest.len(), |at| at + 5);
        let found = self.literal_or_told(rest[from..].trim_ascii_start());
        match found.filter(|_| asked.error().is_none()) {
            Some(text) => self.named.insert(name, text),
            None => self.named.remove(&name),
        };
    }

    /// A string, or what the server said that a variable or an expression is.
    fn literal_or_told(&self, text: &[u8]) -> Option<Vec<u8>> {
        if text.first() == Some(&b'\'') { literal(text) } else { self.last_told.clone() }
    }
}

/// The last text among what the server was asked for.
pub(super) fn last_text(told: &[Told]) -> Option<Vec<u8>> {
    told.iter().rev().find_map(|told| told.text().map(<[u8]>::to_vec))
}

/// True if `sent` is the client's PREPARE, but of a statement that does nothing.
pub(super) fn stands_in(asked: &[u8], sent: &[u8]) -> bool {
    let is_it = || {
        strip(asked.trim_ascii_start(), b"PREPARE ")?;
        let at = memchr::memmem::find(sent, b"DO ?")?;
        let params = sent[at + 4..].iter().take_while(|byte| b",?".contains(byte)).count();
        let (head, tail) = (&sent[..at], &sent[at + 4 + params..]);
        let is_quoted = asked.starts_with(head) && asked.ends_with(tail);
        // A string in the place of a variable.
        let unquoted = head.strip_suffix(b"'").zip(tail.strip_prefix(b"'"));
        let of_variable =
            unquoted.is_some_and(|(head, tail)| asked.starts_with(head) && asked.ends_with(tail));
        Some(is_quoted || of_variable)
    };
    is_it() == Some(true)
}

fn strip<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    text.get(..word.len()).filter(|begin| begin.eq_ignore_ascii_case(word))?;
    Some(text[word.len()..].trim_ascii_start())
}

fn name(text: &[u8]) -> Vec<u8> {
    text.iter()
        .copied()
        .take_while(|byte| !byte.is_ascii_whitespace() && *byte != b';')
        .collect::<Vec<_>>()
        .to_ascii_lowercase()
}

/// The string that a text begins with, which may double its quotes.
fn literal(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = text[1..].iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\'' if bytes.peek() == Some(&b'\'') => out.push(bytes.next()?),
            b'\'' => return Some(out),
            b'\\' => out.push(bytes.next()?),
            byte => out.push(byte),
        }
    }
    None
}
