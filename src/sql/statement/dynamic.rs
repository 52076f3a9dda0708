//! PREPARE, EXECUTE, EXECUTE IMMEDIATE and DEALLOCATE PREPARE: statements whose text stands in a
//! string or in a variable.
//!
//! MySQL takes a string or a user's variable for the text and user's variables for parameters;
//! MariaDB takes expressions.

use crate::sql::charset::skips_bytewise;
use crate::sql::dialect::{ClientCharset, SqlMode};
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;

/// A statement on statements that SQL's PREPARE has named. `Deallocate` is DEALLOCATE PREPARE and DROP PREPARE.
#[derive(Debug, PartialEq)]
pub enum Dynamic {
    Prepare { name: String, source: TextSource },
    Execute { name: String, using: Using },
    Immediate { source: TextSource, using: Using },
    Deallocate { name: String },
}

#[derive(Debug, PartialEq)]
pub enum TextSource {
    Literal(Literal),
    /// A user's variable, or an expression that gives the same each time it is evaluated and does
    /// nothing else. The span is of all of it.
    Evaluated(Span),
    /// Any other expression.
    Computed(Span),
    /// A string that the character set may read otherwise.
    Unseen,
}

/// A string, and what the server makes of it.
#[derive(Debug, PartialEq)]
pub struct Literal {
    /// The text that the server reads: without quotes and escapes.
    pub text: Vec<u8>,
    quote: u8,
    /// From this byte of `text` on, a byte stands so far from its place in the packet. Ascending.
    shifts: Vec<(u32, u32)>,
}

/// USING: the parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Using {
    pub args: Vec<Span>,
    /// The offset after the statement's last token.
    pub end: u32,
}

/// Functions of an expression that is evaluated once more than it was written.
const DETERMINISTIC: &[&str] = keywords!(
    CONCAT CONCAT_WS IF IFNULL NULLIF COALESCE REPLACE QUOTE LOWER UPPER LPAD RPAD REPEAT TRIM
    SUBSTRING NULL
);

/// True if a statement with the word PREPARE or IMMEDIATE shows every word of the text that it may run. It does if
/// that text is one string, no escape joins the letters of a word in it, and no expression stands beside it. The
/// statement has not been cut into tokens, so `false` says nothing. `true` holds in every character set and, if
/// `escapes` is not known, under every sql_mode. `escapes`: a backslash is one (NO_BACKSLASH_ESCAPES is not set).
pub fn shows_its_text(statement: &[u8], escapes: Option<bool>) -> bool {
    // A byte of a character may look like a backslash.
    let is_clear = statement.is_ascii() || !statement.contains(&b'\\');
    // A statement may change how the next one is read.
    let is_read_so = |escapes| shows_read_so(statement, escapes, true);
    is_clear
        && (escapes.is_some_and(is_read_so)
            || [true, false].into_iter().all(|escapes| shows_read_so(statement, escapes, false)))
}

/// The place in a statement, relative to the text that the statement runs.
#[derive(PartialEq)]
enum TextAt {
    Elsewhere,
    /// The text begins next: PREPARE ... FROM or EXECUTE IMMEDIATE stands before it.
    Begins,
    Ended,
}

/// `escapes`: not under NO_BACKSLASH_ESCAPES. `is_one`: no, where a second statement follows.
fn shows_read_so(statement: &[u8], escapes: bool, is_one: bool) -> bool {
    let is_word_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    let (mut at, mut place) = (0, TextAt::Elsewhere);
    // The two words or names in front.
    let mut before: [&[u8]; 2] = [b"", b""];
    while let Some(&byte) = statement.get(at) {
        let rest = statement.get(at..).unwrap_or_default();
        match byte {
            b'\'' | b'"' | b'`' => {
                let Some((length, joins)) = quoted(rest, escapes && byte != b'`') else { return false };
                match place {
                    TextAt::Begins if byte != b'`' && !joins => place = TextAt::Ended,
                    TextAt::Begins | TextAt::Ended => return false,
                    TextAt::Elsewhere => {}
                }
                before = [before[1], b""];
                at += length;
            }
            _ if is_word_byte(&byte) => {
                let word = rest.split(|byte| !is_word_byte(byte)).next().unwrap_or_default();
                let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
                place = match place {
                    TextAt::Ended if is(word, "using") => TextAt::Elsewhere,
                    TextAt::Begins | TextAt::Ended => return false,
                    TextAt::Elsewhere if is(word, "immediate") => TextAt::Begins,
                    TextAt::Elsewhere if is(word, "from") && is(before[0], "prepare") => TextAt::Begins,
                    TextAt::Elsewhere => TextAt::Elsewhere,
                };
                before = [before[1], word];
                at += word.len();
            }
            // A comment may hold quotes that are none.
            b'#' | b'/' => return false,
            b'-' if rest.starts_with(b"--") => return false,
            b';' if is_one && rest.trim_ascii_end() != b";" => return false,
            b';' => (place, at) = (TextAt::Elsewhere, at + 1),
            _ if byte.is_ascii_whitespace() || place == TextAt::Elsewhere => at += 1,
            _ => return false,
        }
    }
    true
}

/// The length of what is quoted at the beginning, and whether an escape may join letters to a word
/// in it. `None`: it does not end.
fn quoted(text: &[u8], escapes: bool) -> Option<(usize, bool)> {
    let (quote, mut at, mut joins) = (*text.first()?, 1, false);
    loop {
        let byte = *text.get(at)?;
        let next = text.get(at + 1);
        at += match byte {
            b'\\' if escapes => {
                joins |= next?.is_ascii_alphanumeric();
                2
            }
            _ if byte != quote => 1,
            _ if next == Some(&quote) => 2,
            _ => return Some((at + 1, joins)),
        };
    }
}

/// After PREPARE, EXECUTE, DEALLOCATE or DROP, which is `first`. `None`: no such statement, or one
/// that is wrong.
pub(in crate::sql) fn read(lexer: &mut Lexer<'_>, first: Token) -> Result<Option<Dynamic>, Odd> {
    if lexer.is_word(first, "PREPARE") {
        let Some(name) = statement_name(lexer)? else { return Ok(None) };
        if !lexer.eat_word("FROM")? {
            return Ok(None);
        }
        let first = lexer.peek()?;
        let (source, end, _) = source(lexer)?;
        // MySQL takes nothing but a string or a variable.
        let is_right = match source {
            _ if lexer.dialect().is_mariadb() => true,
            TextSource::Literal(_) => true,
            TextSource::Evaluated(span) => is_variable(lexer, span),
            TextSource::Computed(_) => false,
            TextSource::Unseen => first.kind == TokenKind::String,
        };
        let is_there = !first.ends_statement();
        return Ok(
            (is_right && is_there && end.ends_statement()).then_some(Dynamic::Prepare { name, source })
        );
    }
    if lexer.is_word(first, "EXECUTE") {
        let mut ahead = lexer.clone();
        // A statement may have this name.
        let is_immediate =
            lexer.dialect().is_mariadb() && ahead.eat_word("IMMEDIATE")? && !ahead.peek()?.ends_statement();
        if is_immediate {
            *lexer = ahead;
            let (source, next, end) = source(lexer)?;
            return Ok(using(lexer, next, end)?.map(|using| Dynamic::Immediate { source, using }));
        }
        let Some(name) = statement_name(lexer)? else { return Ok(None) };
        let end = lexer.position();
        let next = lexer.next()?;
        return Ok(using(lexer, next, end)?.map(|using| Dynamic::Execute { name, using }));
    }
    if !lexer.eat_word("PREPARE")? {
        return Ok(None);
    }
    let name = statement_name(lexer)?;
    let end = lexer.next()?;
    Ok(name.filter(|_| end.ends_statement()).map(|name| Dynamic::Deallocate { name }))
}

fn statement_name(lexer: &mut Lexer<'_>) -> Result<Option<String>, Odd> {
    let token = lexer.next()?;
    Ok(name::decode(lexer.text(), token, lexer.dialect().charset).map(std::borrow::Cow::into_owned))
}

/// The text's place, the token after it, and where it ends.
fn source(lexer: &mut Lexer<'_>) -> Result<(TextSource, Token, u32), Odd> {
    let first = lexer.peek()?;
    let (mut last, mut tokens, mut depth) = (first, 0u32, 0u32);
    let mut is_plain = true;
    loop {
        let before = lexer.clone();
        let token = lexer.next()?;
        if token.ends_statement() || depth == 0 && tokens > 0 && lexer.is_word(token, "USING") {
            let source = match first.kind {
                TokenKind::String if tokens == 1 => {
                    Literal::read(lexer, first).map_or(TextSource::Unseen, TextSource::Literal)
                }
                _ if is_plain && tokens > 0 => {
                    TextSource::Evaluated(Span { start: first.span.start, end: last.span.end })
                }
                _ => TextSource::Computed(Span { start: first.span.start, end: last.span.end }),
            };
            return Ok((source, token, last.span.end));
        }
        last = token;
        match token.kind {
            TokenKind::Punct(b'@') => {
                *lexer = before;
                if let Some(span) = variable(lexer)? {
                    last.span = span;
                } else {
                    is_plain = false;
                    lexer.next()?;
                }
            }
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            TokenKind::Punct(b',' | b'=') | TokenKind::String | TokenKind::Integer => {}
            TokenKind::Word => is_plain &= lexer.is_any_word(token, DETERMINISTIC),
            _ => is_plain = false,
        }
        tokens += 1;
    }
}

/// `@name`, all of it in one piece. `None`, and nothing read: something else.
fn variable(lexer: &mut Lexer<'_>) -> Result<Option<Span>, Odd> {
    let mut ahead = lexer.clone();
    let at = ahead.next()?;
    let mut name = ahead.next()?;
    let is_name =
        |token: Token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::String);
    if !at.is_punct(b'@') || !is_name(name) || name.span.start != at.span.end {
        return Ok(None);
    }
    while ahead.peek()?.is_punct(b'.') {
        let dot = ahead.next()?;
        let part = ahead.next()?;
        if dot.span.start != name.span.end || part.kind != TokenKind::Word || part.span.start != dot.span.end
        {
            return Ok(None);
        }
        name = part;
    }
    *lexer = ahead;
    Ok(Some(Span { start: at.span.start, end: name.span.end }))
}

/// After `token`, which is USING or ends the statement; what stands before it ends at `end`.
fn using(lexer: &mut Lexer<'_>, token: Token, end: u32) -> Result<Option<Using>, Odd> {
    let mut args = Vec::new();
    if token.ends_statement() {
        return Ok(Some(Using { args, end }));
    }
    if !lexer.is_word(token, "USING") {
        return Ok(None);
    }
    let (mut depth, mut arg): (u32, Option<Span>) = (0, None);
    loop {
        let token = lexer.next()?;
        let ends = token.ends_statement();
        if ends || depth == 0 && token.is_punct(b',') {
            let Some(span) = arg.take() else { return Ok(None) };
            args.push(span);
            if ends {
                return Ok(Some(Using { args, end: span.end }));
            }
            continue;
        }
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        arg.get_or_insert(token.span).end = token.span.end;
    }
}

/// After SET: `@name = 'text'` and nothing else. The variable with its `@`, and the text where it
/// is of ASCII.
pub fn assigned_text(lexer: &mut Lexer<'_>) -> Result<Option<(Span, String)>, Odd> {
    let Some(name) = variable(lexer)? else { return Ok(None) };
    let equals = lexer.next()?;
    let string = lexer.next()?;
    if !equals.is_assignment() || string.kind != TokenKind::String || !lexer.peek()?.ends_statement() {
        return Ok(None);
    }
    let text = Literal::read(lexer, string).and_then(|literal| String::from_utf8(literal.text).ok());
    Ok(text.filter(|text| text.is_ascii()).map(|text| (name, text)))
}

/// True if a parameter is nothing but a user's variable.
pub fn is_variable(lexer: &Lexer<'_>, arg: Span) -> bool {
    let mut inside = lexer.over(arg);
    variable(&mut inside).is_ok_and(|found| found == Some(arg))
}

impl Literal {
    /// `None` where the character set may read it otherwise.
    fn read(lexer: &Lexer<'_>, token: Token) -> Option<Literal> {
        let bytes = token.span.of(lexer.text());
        let (&quote, inner) = bytes.split_first()?;
        let (_, inner) = inner.split_last()?;
        if !inner.is_ascii() && !skips_bytewise(lexer.dialect().charset) {
            return None;
        }
        let escapes = !lexer.dialect().sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES);
        let mut shift = token.span.start + 1;
        let mut literal = Literal { text: Vec::with_capacity(inner.len()), quote, shifts: vec![(0, shift)] };
        let mut bytes = inner.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte != quote && !(byte == b'\\' && escapes) {
                literal.text.push(byte);
                continue;
            }
            let next = bytes.next()?;
            if byte != quote && matches!(next, b'%' | b'_') {
                // To the server these stay two characters.
                literal.text.extend([byte, next]);
                continue;
            }
            literal.text.push(if byte == quote { quote } else { unescaped(next) });
            shift += 1;
            literal.shifts.push((u32::try_from(literal.text.len()).ok()?, shift));
        }
        Some(literal)
    }

    /// The offset in the packet of a byte of the text.
    pub fn place(&self, at: u32) -> u32 {
        let index = self.shifts.partition_point(|&(from, _)| from <= at).saturating_sub(1);
        at + self.shifts.get(index).map_or(0, |&(_, shift)| shift)
    }

    /// `piece` as it must be written within these quotes.
    pub fn escape(&self, piece: &[u8], sql_mode: SqlMode) -> Vec<u8> {
        escape(piece, self.quote, sql_mode)
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'0' => 0,
        b'Z' => 0x1A,
        other => other,
    }
}

/// `text`, in a character set none of whose characters holds a quote or a backslash, as it must be
/// written between two of these quotes.
pub fn escape(text: &[u8], quote: u8, sql_mode: SqlMode) -> Vec<u8> {
    let escapes = !sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES);
    let mut out = Vec::with_capacity(text.len() + 16);
    for &byte in text {
        if byte == quote || byte == b'\\' && escapes {
            out.push(byte);
        }
        out.push(byte);
    }
    out
}

/// True if text of the server's, in UTF-8, may be written into a statement in this character set.
pub fn may_be_written(text: &[u8], charset: ClientCharset) -> bool {
    match charset {
        ClientCharset::Utf8 => std::str::from_utf8(text).is_ok(),
        ClientCharset::Unknown => false,
        _ => text.is_ascii(),
    }
}

#[cfg(test)]
mod tests;
