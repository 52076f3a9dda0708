//! Tokens to the text of a digest. What it holds grows with the statement's shape, not with its
//! rows.

use super::keywords::{keyword, keyword_behind, stands_before_values};
use crate::sql::dialect::ClientCharset;
use crate::sql::lex::{Token, TokenKind};
use crate::sql::name::is_glued;

/// The kind of text that was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing of this statement.
    Nothing,
    Value,
    Keyword(&'static str),
    Name,
    /// A sign, and whether it belongs to the value after it.
    Sign(u8, Unary),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unary {
    No,
    Yes,
}

/// The kind of lists in parentheses at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// Arguments, columns, expressions.
    Plain,
    /// Rows, after VALUES.
    Rows,
    /// After IN: values or rows.
    In,
}

/// An open parenthesis, or the statement around all of them.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// The offset of its `(` in the digest.
    opens: usize,
    /// The offset where its row begins: that of its `(`, or of the ROW in front.
    begins: usize,
    values: u32,
    only_values: bool,
    lists: Lists,
    /// The last list that ended in it.
    before: Option<(usize, usize)>,
    /// The offset of the ROW in front of the next list.
    row_at: Option<usize>,
}

impl Frame {
    fn new(opens: usize, begins: usize, lists: Lists) -> Frame {
        Frame { opens, begins, values: 0, only_values: true, lists, before: None, row_at: None }
    }
}

pub(super) struct Writer<'a> {
    text: &'a [u8],
    pub(super) charset: ClientCharset,
    out: String,
    last: Last,
    last_token: Token,
    /// The offset where the signs of the next value begin, and what was written in front of them.
    signs: Option<(usize, Last)>,
    frame: Frame,
    /// The frames around `frame`, the innermost last.
    outer: Vec<Frame>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(text: &'a [u8], charset: ClientCharset) -> Writer<'a> {
        Writer {
            text,
            charset,
            out: String::new(),
            last: Last::Nothing,
            last_token: Token { kind: TokenKind::End, span: crate::sql::lex::Span::default() },
            signs: None,
            frame: Frame::new(0, 0, Lists::Plain),
            outer: Vec::new(),
        }
    }

    /// The text, without the semicolons at its end.
    pub(super) fn finish(self) -> String {
        let end = self.out.trim_end_matches([';', ' ']).len();
        let mut out = self.out;
        out.truncate(end);
        out
    }

    pub(super) fn semicolon(&mut self) {
        if self.last != Last::Nothing {
            self.out.push(';');
        }
        self.last = Last::Nothing;
        self.signs = None;
        self.outer.clear();
        self.frame = Frame::new(0, 0, Lists::Plain);
    }

    pub(super) fn token(&mut self, token: Token) {
        let bytes = token.span.of(self.text);
        match token.kind {
            TokenKind::Word => self.word(token, bytes),
            TokenKind::QuotedName => self.name(bytes),
            TokenKind::String if self.last == Last::Value => {}
            TokenKind::Assign => self.other(":=", Last::Sign(b'=', Unary::No)),
            TokenKind::Punct(b'(') => self.open(),
            TokenKind::Punct(b')') => self.close(),
            TokenKind::Punct(sign) => self.sign(token, sign),
            TokenKind::DotDot => {
                self.sign(token, b'.');
                self.sign(token, b'.');
            }
            TokenKind::End => {}
            _ => self.value(),
        }
        self.last_token = token;
    }

    /// True if an expression begins here.
    fn expects_value(&self) -> bool {
        match self.last {
            Last::Keyword(word) => stands_before_values(word),
            Last::Sign(sign, _) => !matches!(sign, b')' | b'.' | b'@'),
            Last::Nothing | Last::Value | Last::Name => false,
        }
    }

    fn value(&mut self) {
        if let Some((at, before)) = self.signs.take() {
            self.out.truncate(at);
            self.last = before;
        }
        self.gap(b'?');
        self.out.push('?');
        self.frame.values = self.frame.values.saturating_add(1);
        self.last = Last::Value;
    }

    fn word(&mut self, token: Token, bytes: &[u8]) {
        let is = |word: &str| bytes.eq_ignore_ascii_case(word.as_bytes());
        if is_glued(self.last_token, token) {
            return self.name(bytes);
        }
        if (is("NULL") || is("TRUE") || is("FALSE")) && self.expects_value() {
            return self.value();
        }
        let before = match self.last {
            Last::Keyword(word) => word,
            _ => "",
        };
        match keyword(bytes).or_else(|| keyword_behind(before, bytes)) {
            Some(word) => self.other(word, Last::Keyword(word)),
            None if self.last == Last::Nothing && bytes.is_ascii() => {
                let first = String::from_utf8_lossy(bytes).to_ascii_uppercase();
                // Only START matters to the next word: after it TRANSACTION is a keyword.
                let last = if first == "START" { Last::Keyword("START") } else { Last::Name };
                self.other(&first, last);
            }
            None if is("ROW") && self.frame.lists != Lists::Plain => {
                let lists = self.frame.lists;
                self.name(bytes);
                self.frame.lists = lists;
                self.frame.row_at = Some(self.out.len() - bytes.len());
                return;
            }
            None => self.name(bytes),
        }
        self.frame.lists = match () {
            () if is("VALUES") || is("VALUE") => Lists::Rows,
            () if is("IN") => Lists::In,
            () => Lists::Plain,
        };
        self.frame.before = None;
    }

    fn name(&mut self, bytes: &[u8]) {
        let name: String = if self.charset == ClientCharset::Latin1 && !bytes.is_ascii() {
            bytes.iter().map(|&byte| char::from(byte)).collect()
        } else {
            let decoded = self.charset.letters().and_then(|letters| letters.decode(bytes));
            decoded.unwrap_or_else(|| String::from_utf8_lossy(bytes)).into_owned()
        };
        let plain: String =
            name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
        self.other(&plain, Last::Name);
        self.frame.lists = Lists::Plain;
    }

    /// Writes a token that is no value.
    fn other(&mut self, written: &str, last: Last) {
        self.signs = None;
        self.frame.only_values = false;
        self.gap(written.bytes().next().unwrap_or_default());
        self.out.push_str(written);
        self.last = last;
    }

    fn sign(&mut self, token: Token, sign: u8) {
        if matches!(sign, b'+' | b'-') && self.expects_value() {
            let signs = self.signs.take().unwrap_or((self.out.len(), self.last));
            self.gap(sign);
            self.out.push(char::from(sign));
            self.last = Last::Sign(sign, Unary::Yes);
            self.signs = Some(signs);
            return;
        }
        if sign == b',' {
            self.signs = None;
            self.out.push(',');
            self.last = Last::Sign(sign, Unary::No);
            return;
        }
        if self.continues(token, sign) {
            self.out.push(char::from(sign));
            self.last = Last::Sign(sign, Unary::No);
            return;
        }
        let mut buffer = [0; 4];
        self.other(char::from(sign).encode_utf8(&mut buffer), Last::Sign(sign, Unary::No));
        if sign != b'.' {
            self.frame.lists = Lists::Plain;
        }
    }

    /// True if the sign is the second or third byte of one operator.
    fn continues(&self, token: Token, sign: u8) -> bool {
        let TokenKind::Punct(before) = self.last_token.kind else { return false };
        self.last_token.span.end == token.span.start
            && [b"<=", b"<>", b"<<", b">=", b">>", b"!=", b"=>", b"->", b"||", b"&&"]
                .contains(&&[before, sign])
    }

    fn open(&mut self) {
        self.signs = None;
        self.frame.only_values = false;
        self.gap(b'(');
        let opens = self.out.len();
        self.out.push('(');
        let begins = self.frame.row_at.take().unwrap_or(opens);
        let lists = if self.frame.lists == Lists::In { Lists::In } else { Lists::Plain };
        self.outer.push(std::mem::replace(&mut self.frame, Frame::new(opens, begins, lists)));
        self.last = Last::Sign(b'(', Unary::No);
    }

    fn close(&mut self) {
        self.signs = None;
        let Some(around) = self.outer.pop() else {
            self.out.push(')');
            self.last = Last::Sign(b')', Unary::No);
            return;
        };
        let ended = std::mem::replace(&mut self.frame, around);
        let is_list = self.frame.lists != Lists::Plain;
        if ended.only_values && (ended.values > 1 || ended.values == 1 && is_list) {
            self.out.truncate(ended.opens);
            self.out.push_str("(...");
        }
        self.out.push(')');
        self.last = Last::Sign(b')', Unary::No);
        if !is_list {
            return;
        }
        let end = self.out.len();
        match self.frame.before {
            Some((start, before_end)) if self.repeats((start, before_end), ended.begins) => {
                self.out.truncate(before_end);
            }
            _ => self.frame.before = Some((ended.begins, end)),
        }
    }

    /// True if the list that begins at `begins` repeats the list before it, and nothing but a comma stands between.
    fn repeats(&self, (start, end): (usize, usize), begins: usize) -> bool {
        let (before, now) = (self.out.get(start..end), self.out.get(begins..));
        before == now && self.out.get(end..begins).is_some_and(|between| between == ", ")
    }

    /// A blank, where one stands in front of what begins with this byte.
    fn gap(&mut self, next: u8) {
        let is_open = match self.last {
            Last::Nothing => self.out.is_empty(),
            Last::Sign(sign, unary) => matches!(sign, b'(' | b'.' | b'@') || unary == Unary::Yes,
            Last::Name => next == b'(',
            Last::Keyword(_) | Last::Value => false,
        };
        if !is_open && next != b'.' {
            self.out.push(' ');
        }
    }
}
