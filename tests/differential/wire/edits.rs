//! Checks that one text is another with ids put in, without asking the code that puts them in. Both are cut
//! into tokens. All that the server's has more must be one of the pieces below. All else must be the same,
//! byte for byte.
//!
//! ```text
//! ID      7 | LAST_INSERT_ID(7) | ? | LAST_INSERT_ID(?) | LAST_INSERT_ID()+1 | @`rowstamp.0`
//! put in  ID   ,ID   ID,   USING ID            a value, among others or alone
//!         `id`   ,`id`   `id`,   (`a`,`id`)    a column's name in a list, or the list
//!         ,`id`=ID   ,`id`=LAST_INSERT_ID(`id`)    an assignment
//!         ,rowstamp_id   (a,rowstamp_id)       the same of a row alias
//! in place of NULL, DEFAULT, zero              ID, or 0
//! in place of 'abc', -5                        '7x', or CONCAT(?,'x'), of which the server warns too
//! after any of them                            a blank
//! ```
//!
//! In PREPARE and EXECUTE a string may hold such a text, or stand in place of an expression whose value the server was
//! asked for.

use std::collections::HashSet;
use std::iter::successors;
use std::ops::RangeInclusive;

use super::tokens::{Kind, READINGS, Reading, Token};

/// The ids that were put in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) numbers: Vec<u64>,
    /// Parameters of ours among the server's, counted from 0.
    pub(crate) hidden: Vec<u16>,
    /// Numbers of the user's variables that hold ids.
    pub(crate) variables: Vec<u64>,
}

/// Facts that the texts alone do not show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// The names of the id columns of ruled tables and views.
    pub(crate) columns: &'a [&'a str],
    pub(crate) told: &'a [Told],
}

/// The server's answer about a user's variable or a computed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Null,
    Text(Vec<u8>),
}

impl Told {
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match self {
            Told::Null => None,
            Told::Text(text) => Some(text),
        }
    }
}

/// The ids in `sent` that are not in `asked`; `None`: there is another difference.
pub(crate) fn ids_in(asked: &[u8], sent: &[u8], known: Known<'_>) -> Option<Ids> {
    // No statement begins with an id.
    if asked.iter().zip(sent).take(4).any(|(asked, sent)| asked != sent) {
        return None;
    }
    READINGS.into_iter().find_map(|reading| ids_as_read(asked, sent, known, reading))
}

fn ids_as_read(asked: &[u8], sent: &[u8], known: Known<'_>, reading: Reading) -> Option<Ids> {
    let (asked, sent) = (reading.tokens(asked), reading.tokens(sent));
    let has = |words: &[&str]| asked.iter().any(|token| words.iter().any(|word| token.is_word(word)));
    if !has(&["INSERT", "REPLACE", "EXECUTE", "PREPARE"]) {
        return None;
    }
    let is_dynamic = has(&["EXECUTE", "PREPARE"]);
    let search = Search { asked: &asked, sent: &sent, known, reading, is_dynamic };
    let pieces = search.pieces()?;
    let mut ids = Ids::default();
    let mut params =
        sent.iter().enumerate().filter(|(_, token)| token.is_punct(b'?')).map(|(at, _)| at).zip(0_u16..);
    for piece in pieces {
        match piece {
            Piece::Number(number) => ids.numbers.push(number),
            Piece::Hidden(at) => ids.hidden.push(params.find(|(param, _)| *param == at)?.1),
            Piece::Variable(number) => ids.variables.push(number),
            Piece::Inside(inside) => ids.numbers.extend(inside.numbers),
        }
    }
    Some(ids)
}

#[derive(Debug, Clone)]
enum Piece {
    Number(u64),
    /// A `?`, by its place among the server's tokens.
    Hidden(usize),
    Variable(u64),
    /// The ids in a string. The parameters in it are bound by SQL's EXECUTE.
    Inside(Ids),
}

struct Search<'a> {
    asked: &'a [Token<'a>],
    sent: &'a [Token<'a>],
    known: Known<'a>,
    reading: Reading,
    is_dynamic: bool,
}

/// A way that leads so far into both texts.
struct Way {
    asked: usize,
    sent: usize,
    /// Something was put in right here.
    is_edit: bool,
    /// The last piece found on it, by its place among all.
    found: Option<usize>,
}

/// Tokens of the server's text that are one of ours, and the id in them.
type Put = (usize, Option<Piece>);

impl<'a> Search<'a> {
    /// The pieces by which the texts differ, if by nothing else.
    fn pieces(&self) -> Option<Vec<Piece>> {
        /// How far what was put in may begin with what stood there: blanks, commas.
        const BACK: usize = 4;
        let mut ways = vec![Way { asked: 0, sent: 0, is_edit: false, found: None }];
        // With the one before it on its way.
        let mut all: Vec<(Piece, Option<usize>)> = Vec::new();
        let mut tried = HashSet::new();
        // The last is tried first.
        while let Some(Way { asked, sent, is_edit, found }) = ways.pop() {
            if !is_edit {
                let pairs = self.asked[asked..].iter().zip(&self.sent[sent..]);
                let same = pairs.take_while(|(asked, sent)| asked == sent).count();
                let (ended, end) = (asked + same, sent + same);
                if ended == self.asked.len() && end == self.sent.len() {
                    let way = successors(found, |&nth| all[nth].1);
                    let mut pieces: Vec<Piece> = way.map(|nth| all[nth].0.clone()).collect();
                    pieces.reverse();
                    return Some(pieces);
                }
                let backs = (0..=same.min(BACK)).rev();
                ways.extend(backs.map(|back| Way {
                    asked: ended - back,
                    sent: end - back,
                    is_edit: true,
                    found,
                }));
                continue;
            }
            if !tried.insert((asked, sent)) {
                continue;
            }
            for (gone, length, piece) in self.edits(asked, sent).into_iter().rev() {
                let found = match piece {
                    Some(piece) => {
                        all.push((piece, found));
                        Some(all.len() - 1)
                    }
                    None => found,
                };
                let (asked, sent) = (asked + gone, sent + length);
                if self.at(sent).is_some_and(|token| token.bytes == b" ") {
                    ways.push(Way { asked, sent: sent + 1, is_edit: false, found });
                }
                ways.push(Way { asked, sent, is_edit: false, found });
            }
        }
        None
    }

    /// The edits that may begin here: how many of the client's tokens gave way, how many came, and their id.
    fn edits(&self, asked: usize, sent: usize) -> Vec<(usize, usize, Option<Piece>)> {
        let mut edits: Vec<_> =
            self.put_in(sent).into_iter().map(|(length, piece)| (0, length, piece)).collect();
        let zero = self.at(sent).filter(|token| token.bytes == b"0").map(|_| (1, None));
        let value = self.value(sent).map(|(length, piece)| (length, Some(piece)));
        for (length, piece) in value.into_iter().chain(zero) {
            let nothings = self.runs(asked, |number| number.abs() <= 0.5, Rest::None);
            edits.extend(nothings.into_iter().map(|gone| (gone, length, piece.clone())));
        }
        if let Some((length, piece)) = self.warned(sent) {
            let numbers = self.runs(asked, |number| number <= 0.5, Rest::Any);
            edits.extend(numbers.into_iter().map(|gone| (gone, length, Some(piece.clone()))));
        }
        if self.is_dynamic {
            if let Some(length) = self.settled(sent) {
                edits.extend(self.expressions(asked).map(|gone| (gone, length, None)));
            }
            edits.extend(
                self.inside(asked, sent).into_iter().map(|(gone, ids)| (gone, 1, Some(Piece::Inside(ids)))),
            );
        }
        edits
    }

    /// A string whose text differs by ids, or one that stands for what the server has told: tokens that gave way to it.
    fn inside(&self, asked: usize, sent: usize) -> Vec<(usize, Ids)> {
        let Some(token) = self.at(sent).filter(|token| token.kind == Kind::Text) else { return Vec::new() };
        let inside = self.reading.unquoted(token);
        let mut found = Vec::new();
        if let Some(original) = self.asked.get(asked).filter(|token| token.kind == Kind::Text) {
            let original = self.reading.unquoted(*original);
            found.extend(ids_as_read(&original, &inside, self.known, self.reading).map(|ids| (1, ids)));
        }
        for told in self.known.told.iter().filter_map(Told::text) {
            let Some(ids) = ids_as_read(told, &inside, self.known, self.reading) else { continue };
            found.extend(self.expressions(asked).map(|gone| (gone, ids.clone())));
        }
        found
    }

    /// How many tokens an expression may be that gave way to what it is.
    fn expressions(&self, asked: usize) -> RangeInclusive<usize> {
        const EXPRESSION_TOKENS_MAX: usize = 60;
        1..=EXPRESSION_TOKENS_MAX.min(self.asked.len() - asked)
    }

    /// How many tokens stand for what the server has told, as it is.
    fn settled(&self, sent: usize) -> Option<usize> {
        let was = |told: &Told| self.known.told.contains(told);
        let token = self.at(sent)?;
        if token.kind == Kind::Text {
            return was(&Told::Text(self.reading.unquoted(token))).then_some(1);
        }
        if token.is_word("NULL") {
            return was(&Told::Null).then_some(1);
        }
        let digits = self.at(sent + 2).filter(|_| token.is_word("_utf8mb4"))?.bytes.strip_prefix(b"0x")?;
        from_digits(digits).is_some_and(|text| was(&Told::Text(text))).then_some(3)
    }

    /// An id with a letter after it.
    fn warned(&self, sent: usize) -> Option<(usize, Piece)> {
        let token = self.at(sent)?;
        if token.kind == Kind::Text {
            return Some((1, Piece::Number(digits_and_letter(&self.reading.unquoted(token))?)));
        }
        let parts: Vec<_> = self.sent[sent..].iter().take(6).map(|token| token.bytes).collect();
        (parts == [&b"CONCAT"[..], b"(", b"?", b",", b"'x'", b")"]).then_some((6, Piece::Hidden(sent + 2)))
    }

    /// Lengths of what stands at the id's place and is no value, or a number that `fits`.
    fn runs(&self, asked: usize, fits: impl Fn(f64) -> bool, rest: Rest) -> Vec<usize> {
        const TOKENS_MAX: usize = 12;
        let mut depth = 0;
        let mut runs = Vec::new();
        for (nth, token) in self.asked[asked..].iter().enumerate().take(TOKENS_MAX) {
            match token.bytes {
                b"(" => depth += 1,
                b")" | b"," if depth == 0 => break,
                b")" => depth -= 1,
                _ => {}
            }
            if depth == 0 && self.may_give_way(&self.asked[asked..=asked + nth], &fits, rest) {
                runs.push(nth + 1);
            }
        }
        runs
    }

    fn may_give_way(&self, tokens: &[Token<'_>], fits: impl Fn(f64) -> bool, rest: Rest) -> bool {
        let is = |word| tokens.iter().any(|token| token.is_word(word));
        if is("NULL") || is("DEFAULT") || is("FALSE") || self.is_dynamic && tokens[0].is_punct(b'@') {
            return true;
        }
        let mut text = String::new();
        let mut is_hexadecimal = false;
        for token in tokens.iter().filter(|token| !matches!(token.kind, Kind::Space | Kind::Comment)) {
            match token.kind {
                Kind::Text if is_hexadecimal => {
                    text.push_str(&from_hexadecimal(&self.reading.unquoted(*token)));
                }
                Kind::Text => text.push_str(&String::from_utf8_lossy(&self.reading.unquoted(*token))),
                // The character set of a string, or how its digits are meant.
                Kind::Word if token.bytes.starts_with(b"_") => {}
                Kind::Word if token.is_word("x") => is_hexadecimal = true,
                Kind::Word if token.is_word("n") && tokens.len() > 1 || token.is_word("b") => {}
                _ => text.push_str(&String::from_utf8_lossy(token.bytes)),
            }
        }
        let text = text.replace(['(', ')'], "").to_ascii_lowercase();
        let text = text.trim();
        let unsigned = text.trim_start_matches(['+', '-']);
        let digits = unsigned.trim_start_matches("0x").trim_start_matches("0b");
        let is_zero = !digits.is_empty() && digits.bytes().all(|byte| byte == b'0' || byte == 0);
        // A half of a DOUBLE is rounded to even. `\N` is NULL.
        is_zero
            || text == "\\"
            || [text, unsigned].into_iter().filter_map(|text| number(text, rest)).any(fits)
    }

    fn at(&self, sent: usize) -> Option<Token<'a>> {
        self.sent.get(sent).copied()
    }

    fn is(&self, sent: usize, byte: u8) -> bool {
        self.at(sent).is_some_and(|token| token.is_punct(byte))
    }

    fn is_function(&self, sent: usize) -> bool {
        self.at(sent).is_some_and(|token| token.bytes == b"LAST_INSERT_ID") && self.is(sent + 1, b'(')
    }

    /// An id, in any of its forms.
    fn value(&self, sent: usize) -> Option<(usize, Piece)> {
        let one = |at: usize| match self.at(at)? {
            token if token.is_punct(b'?') => Some(Piece::Hidden(at)),
            token => token.digits().filter(|number| *number > 0).map(Piece::Number),
        };
        if self.is_function(sent) {
            if self.is(sent + 2, b')') {
                let behind = self.is(sent + 3, b'+') && self.at(sent + 4)?.digits().is_some();
                // Told from the first id, which is bound.
                return behind.then_some((5, Piece::Inside(Ids::default())));
            }
            return self.is(sent + 3, b')').then_some((4, one(sent + 2)?));
        }
        if self.is(sent, b'@') {
            let name = self.at(sent + 1)?.bytes.strip_prefix(b"`rowstamp.")?.strip_suffix(b"`")?;
            return Some((2, Piece::Variable(std::str::from_utf8(name).ok()?.parse().ok()?)));
        }
        Some((1, one(sent)?))
    }

    fn is_id_column(&self, sent: usize) -> bool {
        let Some(token) = self.at(sent).filter(|token| token.kind == Kind::Name) else { return false };
        let name = self.reading.unquoted(token);
        self.known.columns.iter().any(|column| column.as_bytes().eq_ignore_ascii_case(&name))
    }

    fn is_alias(&self, sent: usize) -> bool {
        self.at(sent).is_some_and(|token| token.kind == Kind::Word && token.bytes.starts_with(b"rowstamp_id"))
    }

    /// Tokens that may stand here though the client did not write them.
    fn put_in(&self, sent: usize) -> Vec<Put> {
        let mut all = Vec::new();
        let mut add = |length: usize, piece: Option<Piece>| all.push((length, piece));
        if let Some((length, piece)) = self.value(sent) {
            add(length, Some(piece));
        }
        if let Some((length, piece)) = self.value(sent) {
            let blank = usize::from(self.at(sent + length).is_some_and(|token| token.bytes == b" "));
            if self.is(sent + length + blank, b',') {
                add(length + blank + 1, Some(piece));
            }
        }
        if self.is_id_column(sent) {
            add(1, None);
            if self.is(sent + 1, b',') {
                add(2, None);
            }
        }
        if self.is(sent, b',') {
            if let Some((length, piece)) = self.value(sent + 1) {
                add(length + 1, Some(piece));
            }
            if self.is_alias(sent + 1) {
                add(2, None);
            }
            if self.is_id_column(sent + 1) {
                add(2, None);
                if self.is(sent + 2, b'=') {
                    let from =
                        sent + 3 + usize::from(self.at(sent + 3).is_some_and(|token| token.bytes == b" "));
                    if let Some((length, piece)) = self.value(from) {
                        add(from + length - sent, Some(piece));
                    }
                    if let Some(length) = self.own_id(sent + 3) {
                        add(3 + length, None);
                    }
                }
            }
        }
        if self.is(sent, b'(')
            && let Some(length) = self.list(sent)
        {
            add(length, None);
        }
        if self.at(sent).is_some_and(|token| token.bytes == b" ")
            && self.at(sent + 1).is_some_and(|token| token.bytes == b"USING")
            && let Some((length, piece)) = self.value(sent + 3)
        {
            add(3 + length, Some(piece));
        }
        all
    }

    /// ``LAST_INSERT_ID(`id`)`` or ``LAST_INSERT_ID(`t`.`id`)``
    fn own_id(&self, sent: usize) -> Option<usize> {
        let name = if self.is(sent + 3, b'.') { sent + 4 } else { sent + 2 };
        let fits = self.is_function(sent) && self.is_id_column(name) && self.is(name + 1, b')');
        fits.then_some(name + 2 - sent)
    }

    /// A list of columns: of quoted names, or of a row alias, with its `rowstamp_id` last.
    fn list(&self, sent: usize) -> Option<usize> {
        let length = self.sent[sent..].iter().position(|token| token.is_punct(b')'))? + 1;
        let inside = &self.sent[sent + 1..sent + length - 1];
        let in_turn = inside.iter().enumerate().all(|(nth, token)| token.is_punct(b',') == (nth % 2 == 1));
        let is_quoted = inside.iter().step_by(2).all(|token| token.kind == Kind::Name);
        (in_turn && inside.len() % 2 == 1 && (is_quoted || self.is_alias(sent + length - 2)))
            .then_some(length)
    }
}

/// The text that may follow a number's digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    Any,
}

/// The number that a column makes of a text: of what begins as one, where `rest` may follow.
pub(crate) fn number(text: &str, rest: Rest) -> Option<f64> {
    let text = text.trim();
    let ends = (0..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
    match rest {
        Rest::None => text.parse().ok().filter(|number: &f64| number.is_finite()),
        // Rust reads `inf` and `nan` too.
        Rest::Any => {
            let is_digits =
                |text: &&str| !text.bytes().any(|byte| byte.is_ascii_alphabetic() && byte != b'e');
            Some(
                ends.map(|end| &text[..end])
                    .filter(is_digits)
                    .find_map(|text| text.parse().ok())
                    .unwrap_or(0.0),
            )
        }
    }
}

/// `7x`
pub(crate) fn digits_and_letter(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.strip_suffix(b"x")?).ok()?.parse().ok()
}

/// The bytes of a literal in hexadecimal digits.
pub(crate) fn from_digits(digits: &[u8]) -> Option<Vec<u8>> {
    let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

fn from_hexadecimal(digits: &[u8]) -> String {
    let pairs =
        digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or(b'?'));
    pairs.map(char::from).collect()
}
