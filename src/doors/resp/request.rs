//! A request: an array of bulk strings, or one line of words (an inline command).
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use std::iter::Peekable;
use std::ops::Range;

/// The largest request: Redis's limit of a line. A generator's name is at most some hundred bytes.
const BYTES_MAX: usize = 64 * 1024;

/// The most arguments of a request. Redis's limit is 1,048,576.
const ARGS_MAX: usize = 1024;

/// Redis's limits for clients that have not said who they are.
const ARGS_BEFORE_LOGIN_MAX: usize = 10;
const BYTES_BEFORE_LOGIN_MAX: usize = 16 * 1024;

/// The longest length as it is written: a type's byte, digits, CR, LF.
const LENGTH_BYTES_MAX: usize = 32;

/// The beginning of the bytes that have come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A request of so many bytes. Its arguments are in what the caller gave. One without arguments is skipped.
    Whole(usize),
    /// The beginning of a request or of a violation, which has at least so many bytes in all.
    Part(usize),
}

/// The connection cannot go on: where the next request begins is not known. The texts are Redis's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("Protocol error: too big inline request")]
    LongLine,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: unauthenticated multibulk length")]
    CountBeforeLogin,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    NoBulk(u8),
    #[error("Protocol error: invalid bulk length")]
    Length,
    #[error("Protocol error: unauthenticated bulk length")]
    LengthBeforeLogin,
    #[error("Protocol error: a bulk string does not end with CR LF")]
    End,
}

/// The limits of a client's requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    args_max: usize,
    bytes_max: usize,
    too_many: Violation,
    too_long: Violation,
}

impl Limits {
    pub(super) const LOGGED_IN: Limits = Limits {
        args_max: ARGS_MAX,
        bytes_max: BYTES_MAX,
        too_many: Violation::Count,
        too_long: Violation::Length,
    };

    pub(super) const BEFORE_LOGIN: Limits = Limits {
        args_max: ARGS_BEFORE_LOGIN_MAX,
        bytes_max: BYTES_BEFORE_LOGIN_MAX,
        too_many: Violation::CountBeforeLogin,
        too_long: Violation::LengthBeforeLogin,
    };
}

/// The places of a request's arguments. A line's are copied, since quotes may change them.
#[derive(Debug, Default)]
pub(super) struct Args {
    ranges: Vec<Range<usize>>,
    line: Option<Vec<u8>>,
}

impl Args {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// `input`: what the request was read from.
    pub(super) fn get<'a>(&'a self, input: &'a [u8], nth: usize) -> Option<&'a [u8]> {
        let bytes = self.line.as_deref().unwrap_or(input);
        bytes.get(self.ranges.get(nth)?.clone())
    }

    pub(super) fn iter<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).filter_map(move |nth| self.get(input, nth))
    }

    fn clear(&mut self) {
        self.ranges.clear();
        self.line = None;
    }
}

/// Reads the request at the beginning of `input`.
pub(super) fn parse(input: &[u8], limits: Limits, args: &mut Args) -> Result<Parsed, Violation> {
    args.clear();
    match input.first() {
        None => Ok(Parsed::Part(1)),
        Some(b'*') => array(input, limits, args),
        Some(_) => inline(input, limits, args),
    }
}

fn array(input: &[u8], limits: Limits, args: &mut Args) -> Result<Parsed, Violation> {
    let one_more = Ok(Parsed::Part(input.len() + 1));
    let Some((count, mut at)) = length(input, 0, Violation::Count)? else { return one_more };
    // A count below zero is no error and gets no answer, as in Redis.
    let Ok(count) = usize::try_from(count) else { return Ok(Parsed::Whole(at)) };
    if count > limits.args_max {
        return Err(limits.too_many);
    }
    for _ in 0..count {
        match input.get(at) {
            None => return one_more,
            Some(b'$') => {}
            Some(&other) => return Err(Violation::NoBulk(other)),
        }
        let Some((bytes, start)) = length(input, at, Violation::Length)? else { return one_more };
        let bytes = usize::try_from(bytes).map_err(|_| Violation::Length)?;
        let end = start.saturating_add(bytes);
        if end > limits.bytes_max {
            return Err(limits.too_long);
        }
        match input.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(Violation::End),
            None => return Ok(Parsed::Part(end + 2)),
        }
        args.ranges.push(start..end);
        at = end + 2;
    }
    Ok(Parsed::Whole(at))
}

/// The number after the byte at `at`, and where its line ends. `None`: the line has not come whole.
fn length(input: &[u8], at: usize, wrong: Violation) -> Result<Option<(i64, usize)>, Violation> {
    let rest = input.get(at + 1..).unwrap_or_default();
    let shown = rest.get(..LENGTH_BYTES_MAX).unwrap_or(rest);
    let Some(end) = memchr::memchr(b'\r', shown) else {
        let is_too_long = shown.len() == LENGTH_BYTES_MAX;
        return if is_too_long { Err(wrong) } else { Ok(None) };
    };
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(wrong),
    }
    let digits = rest.get(..end).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default();
    let number = integer(digits.as_bytes()).ok_or(wrong)?;
    Ok(Some((number, at + 1 + end + 2)))
}

/// Reads an integer as Redis does: in its only spelling, so without blanks, a plus sign or zeros before it.
pub(super) fn integer(written: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(written).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(number).as_bytes() == written).then_some(number)
}

fn inline(input: &[u8], limits: Limits, args: &mut Args) -> Result<Parsed, Violation> {
    let Some(end) = memchr::memchr(b'\n', input.get(..limits.bytes_max).unwrap_or(input)) else {
        let is_too_long = input.len() >= limits.bytes_max;
        return if is_too_long { Err(Violation::LongLine) } else { Ok(Parsed::Part(input.len() + 1)) };
    };
    let line = input.get(..end).unwrap_or_default();
    let words = words(line.strip_suffix(b"\r").unwrap_or(line)).ok_or(Violation::Quotes)?;
    if words.len() > limits.args_max {
        return Err(limits.too_many);
    }
    let mut text = Vec::with_capacity(line.len());
    for word in words {
        args.ranges.push(text.len()..text.len() + word.len());
        text.extend_from_slice(&word);
    }
    args.line = Some(text);
    Ok(Parsed::Whole(end + 1))
}

/// The words of a line, as Redis cuts it (`sdssplitargs`). `None`: a quote is not closed, or something follows one that is.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.iter().copied().peekable();
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        if rest.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'"' | b'\'' => {
                    quoted(byte, &mut rest, &mut word)?;
                    if rest.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                        return None;
                    }
                }
                other => word.push(other),
            }
        }
        words.push(word);
    }
}

/// Reads up to the closing quote, and that too.
fn quoted(quote: u8, rest: &mut Peekable<impl Iterator<Item = u8>>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        let byte = rest.next()?;
        if byte == quote {
            return Some(());
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        if quote == b'\'' {
            // Nothing but the quote itself is escaped.
            word.push(if rest.next_if_eq(&quote).is_some() { quote } else { b'\\' });
            continue;
        }
        match rest.next()? {
            b'n' => word.push(b'\n'),
            b'r' => word.push(b'\r'),
            b't' => word.push(b'\t'),
            b'b' => word.push(8),
            b'a' => word.push(7),
            b'x' => {
                let mut digits = Vec::new();
                while digits.len() < 2 {
                    let Some(digit) = rest.next_if(u8::is_ascii_hexdigit) else { break };
                    digits.push(digit);
                }
                match std::str::from_utf8(&digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(byte) if digits.len() == 2 => word.push(byte),
                    _ => {
                        word.push(b'x');
                        word.extend_from_slice(&digits);
                    }
                }
            }
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
