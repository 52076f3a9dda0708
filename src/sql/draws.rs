//! Calls that draw an id: `NEXT VALUE FOR g`, `NEXTVAL(g)`, `PREVIOUS VALUE FOR g`, `LASTVAL(g)` (MariaDB's words) and
//! `ROWSTAMP_TAKE(g, n)`. Where they stand says whether one value is right for them
//! (docs/design/doors.md).

mod items;
mod walk;

use super::lex::{Lexer, Odd, Span, Token, TokenKind};
use super::name::{self, Path};

/// The most ids that one `ROWSTAMP_TAKE` takes.
pub const TAKEN_MAX: u32 = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// The next id.
    Next,
    /// The last one that the session drew.
    Previous,
    /// The first of so many; `None`: that is not a number from 1 to [`TAKEN_MAX`].
    Take(Option<u32>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPlace {
    /// The call is evaluated once.
    Once {
        /// The call is in a select list, whose columns have types and names.
        in_list: bool,
        /// A name may be that of a column there.
        among_columns: bool,
    },
    /// EXPLAIN: it is not evaluated.
    Explained,
    /// The call may be evaluated for several rows, or later. The text says what the call stands in.
    Several(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub span: Span,
    /// The client's `?` before it.
    pub params_before: u32,
    pub form: CallForm,
    /// `NEXT VALUE FOR` and `PREVIOUS VALUE FOR`: no function can be meant.
    pub in_words: bool,
    /// The generator's name.
    pub path: Path,
    pub place: CallPlace,
}

/// The calls of one statement that draw ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// In the order of the text, and so of evaluation.
    pub calls: Vec<Call>,
    /// The client's `?` in the statement.
    pub params: u32,
    /// Columns of the result with calls in them, which have no name of their own: the server names them by
    /// their text.
    pub unnamed: Vec<Span>,
}

/// The calls of a packet's first statement; and where the packet is to be cut, so that a statement with calls is
/// alone, and read when all before it has run. `several`: a `;` may be followed by another statement.
pub fn find(mut lexer: Lexer<'_>, several: bool) -> Result<(Draws, Option<u32>), Odd> {
    let (draws, is_last) = walk::statement(&mut lexer)?;
    let mut more = !is_last && several;
    while more {
        let start = lexer.position();
        if lexer.peek()?.kind == TokenKind::End {
            break;
        }
        let (later, is_last) = walk::statement(&mut lexer)?;
        if !(draws.calls.is_empty() && later.calls.is_empty()) {
            return Ok((draws, Some(start)));
        }
        more = !is_last;
    }
    Ok((draws, None))
}

/// True if a text may hold such a call: VAL or AKE is in the words of every call, and in few texts.
///
/// Every statement of a session is looked at, so it is made for the compiler to compare many bytes at once.
pub fn may_be_in(text: &[u8]) -> bool {
    let Some(end) = text.last_chunk() else {
        let is_one = |at: &[u8]| at.eq_ignore_ascii_case(b"val") || at.eq_ignore_ascii_case(b"ake");
        return text.windows(3).any(is_one);
    };
    let mut rest = text;
    while let Some(chunk) = rest.first_chunk() {
        if is_in_chunk(chunk) {
            return true;
        }
        rest = rest.get(CHUNK..).unwrap_or_default();
    }
    is_in_chunk(end)
}

/// Places that are looked at together.
const CHUNK: usize = 16;

#[allow(clippy::indexing_slicing)] // The loop's bound is two below the length.
fn is_in_chunk(bytes: &[u8; CHUNK + 2]) -> bool {
    let mut found = 0;
    for at in 0..CHUNK {
        let (a, b, c) = (bytes[at] | 0x20, bytes[at + 1] | 0x20, bytes[at + 2] | 0x20);
        let val = u8::from(a == b'v') & u8::from(b == b'a') & u8::from(c == b'l');
        let ake = u8::from(a == b'a') & u8::from(b == b'k') & u8::from(c == b'e');
        found |= val | ake;
    }
    found != 0
}

/// A call that begins with `first`, which was read. The lexer ends up after it; where there is none, it stays
/// where it is.
fn call(lexer: &mut Lexer<'_>, first: Token) -> Result<Option<(CallForm, bool, Path, Span)>, Odd> {
    if first.kind != TokenKind::Word {
        return Ok(None);
    }
    let mut ahead = lexer.clone();
    let read = if lexer.is_word(first, "NEXT") {
        in_words(&mut ahead)?.map(|path| (CallForm::Next, true, path))
    } else if lexer.is_word(first, "PREVIOUS") {
        in_words(&mut ahead)?.map(|path| (CallForm::Previous, true, path))
    } else if lexer.is_word(first, "NEXTVAL") {
        argument(&mut ahead)?.map(|path| (CallForm::Next, false, path))
    } else if lexer.is_word(first, "LASTVAL") {
        argument(&mut ahead)?.map(|path| (CallForm::Previous, false, path))
    } else if lexer.is_word(first, "ROWSTAMP_TAKE") {
        taken(&mut ahead)?
    } else {
        None
    };
    let Some((form, in_words, path)) = read else { return Ok(None) };
    let span = Span { start: first.span.start, end: ahead.position() };
    // A comment that is code begins or ends within it.
    let count = |sign: &[u8]| memchr::memmem::find_iter(span.of(ahead.text()), sign).count();
    if count(b"/*") != count(b"*/") {
        return Ok(None);
    }
    *lexer = ahead;
    Ok(Some((form, in_words, path, span)))
}

/// `VALUE FOR g`
fn in_words(lexer: &mut Lexer<'_>) -> Result<Option<Path>, Odd> {
    if !(lexer.eat_word("VALUE")? && lexer.eat_word("FOR")?) {
        return Ok(None);
    }
    let first = lexer.next()?;
    name::table(lexer, first)
}

/// `(g)`
fn argument(lexer: &mut Lexer<'_>) -> Result<Option<Path>, Odd> {
    if !lexer.eat_punct(b'(')? {
        return Ok(None);
    }
    let first = lexer.next()?;
    let path = name::table(lexer, first)?;
    Ok(path.filter(|_| lexer.eat_punct(b')') == Ok(true)))
}

/// `(g, n)`. What is no number goes up to the closing parenthesis.
fn taken(lexer: &mut Lexer<'_>) -> Result<Option<(CallForm, bool, Path)>, Odd> {
    if !lexer.eat_punct(b'(')? {
        return Ok(None);
    }
    let first = lexer.next()?;
    let Some(path) = name::table(lexer, first)? else { return Ok(None) };
    if !lexer.eat_punct(b',')? {
        return Ok(None);
    }
    let n = lexer.next()?;
    if n.ends_statement() || n.is_punct(b')') {
        return Ok(None);
    }
    let digits = std::str::from_utf8(n.span.of(lexer.text())).unwrap_or_default();
    let is_number = n.kind == TokenKind::Integer;
    let mut number = digits.parse().ok().filter(|n| is_number && (1..=TAKEN_MAX).contains(n));
    let mut depth = u32::from(n.is_punct(b'('));
    loop {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') if depth == 0 => return Ok(Some((CallForm::Take(number), false, path))),
            TokenKind::Punct(b')') => depth -= 1,
            _ if token.ends_statement() => return Ok(None),
            _ => {}
        }
        number = None;
    }
}

#[cfg(test)]
mod tests;
