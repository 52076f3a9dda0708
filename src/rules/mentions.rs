//! The texts that can name a ruled table at all, found by their words alone.
//!
//! A name is made of words (letters, digits and `_` of ASCII, which have the same bytes in every
//! character set that a client may speak) and of what is between them. However a name is quoted,
//! escaped or written in comments that are code, its words stand in the text as they are, letter
//! case apart. So a text that lacks a name's longest word does not name it: under any sql_mode, and
//! whatever statements the text holds. The one exception is a text within a text (PREPARE, EXECUTE
//! IMMEDIATE), which may be put together from pieces: [`Mention::dynamic`] says that there may be
//! one.

use std::collections::HashMap;

mod words;

use self::words::{Lengths, Piece, is_word_byte, longest_word};
use super::pattern::{self, is_pattern};

#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mention {
    /// The words of a ruled table or view are in it, and of its schema, unless that is or may be
    /// the default database.
    pub table: bool,
    /// The words of a table or view are in it that is ruled in some schema.
    pub words: bool,
    /// The words of a schema with rules are in it.
    pub schema: bool,
    /// PREPARE or IMMEDIATE: there may be a text within the text.
    pub dynamic: bool,
    /// USE: the default database may be another one after it.
    pub moves: bool,
    /// The words of a call that draws an id are in it, and those of a generator that it may draw from.
    pub draws: bool,
    /// Some of these words are.
    pub draw_words: bool,
}

/// The default database of the sender of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultSchema<'a> {
    Unknown,
    None,
    Is(&'a str),
    /// The one, or one of the others.
    OneOf(Option<&'a str>, &'a [String]),
}

impl<'a> DefaultSchema<'a> {
    pub fn of(name: Option<&'a str>) -> Self {
        name.map_or(DefaultSchema::None, DefaultSchema::Is)
    }
}

/// The words of all ruled names.
#[derive(Debug, Default)]
pub struct Mentions {
    /// In lower case.
    words: HashMap<Box<[u8]>, Vec<Target>>,
    lengths: Lengths,
    /// Words that a pattern, or a character beyond ASCII, lets go on.
    pieces: Vec<(Piece, Target)>,
    /// Names without a word of ASCII: every text may hold them; `true`: only one with bytes beyond
    /// ASCII.
    wordless: Vec<(bool, Target)>,
    /// In lower case. The place of one is its bit in a [`Schemas`]; all after the last share it.
    schemas: Vec<String>,
    /// The places in `schemas` that are patterns.
    wide: Vec<usize>,
    /// There are generators that calls draw from.
    draws: bool,
}

/// A set of schemas, by their places in [`Mentions::schemas`].
type Schemas = u64;

#[derive(Debug, Clone, Copy)]
enum Target {
    /// A table or view of these schemas.
    Table(Schemas),
    Schema(Schemas),
    Dynamic,
    Use,
    /// A generator that calls draw from.
    Generator,
    /// NEXTVAL and its like.
    Call,
    /// NEXT, PREVIOUS, which make a call with VALUE.
    CallBegins,
    CallGoesOn,
}

/// True if a word USE may begin a statement, unlike that of an index hint: before it is nothing,
/// a statement's end, SET STATEMENT's FOR, perhaps a comment, or the quote of a text that is run.
fn may_begin_with_use(text: &[u8], dynamic: bool) -> bool {
    memchr::memchr2_iter(b'u', b'U', text).any(|at| {
        let (before, word) = text.split_at(at);
        let is_word = word.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"use"))
            && !word.get(3).is_some_and(|byte| is_word_byte(*byte))
            && !before.last().is_some_and(|byte| is_word_byte(*byte));
        let head = before.trim_ascii_end();
        let is_new_line =
            before.get(head.len()..).is_some_and(|blank| memchr::memchr(b'\n', blank).is_some());
        let has_comment = memchr::memchr(b'#', head).is_some() || memchr::memmem::find(head, b"--").is_some();
        let version = head.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let is_versioned = head.get(..head.len() - version).is_some_and(|head| head.ends_with(b"!"));
        let last_word = head.len().checked_sub(3).and_then(|at| head.get(at..)).unwrap_or_default();
        is_word
            && (is_new_line && has_comment
                || is_versioned
                || last_word.eq_ignore_ascii_case(b"for")
                || head.last().is_none_or(|byte| match byte {
                    b'\'' | b'"' => dynamic,
                    byte => matches!(byte, b';' | b'/'),
                }))
    })
}

impl Mentions {
    /// The mentions of names by schema and table; `true`: both may be patterns.
    pub fn new<'a>(names: impl IntoIterator<Item = (&'a str, &'a str, bool)>) -> Self {
        let mut mentions = Mentions::default();
        for (schema, table, may_be_pattern) in names {
            let schema = schema.to_lowercase();
            let known = mentions.schemas.iter().position(|known| *known == schema);
            let place = known.unwrap_or_else(|| {
                mentions.schemas.push(schema.clone());
                let place = mentions.schemas.len() - 1;
                let is_wide = may_be_pattern && is_pattern(&schema);
                mentions.wide.extend(is_wide.then_some(place));
                mentions.add(&schema, is_wide, Target::Schema(bit(place)));
                place
            });
            mentions.add(table, may_be_pattern && is_pattern(table), Target::Table(bit(place)));
        }
        if !mentions.schemas.is_empty() {
            mentions.add("prepare", false, Target::Dynamic);
            mentions.add("immediate", false, Target::Dynamic);
        }
        mentions.add("use", false, Target::Use);
        mentions
    }

    /// Adds the calls that draw from the generators of these names.
    #[must_use]
    pub fn and_draws<'a>(mut self, generators: impl IntoIterator<Item = &'a str>) -> Self {
        for name in generators {
            self.add(name, false, Target::Generator);
            self.draws = true;
        }
        if self.draws {
            for word in ["nextval", "lastval", "rowstamp_take"] {
                self.add(word, false, Target::Call);
            }
            for word in ["next", "previous"] {
                self.add(word, false, Target::CallBegins);
            }
            self.add("value", false, Target::CallGoesOn);
        }
        self
    }

    /// True if a text can draw ids at all.
    pub fn has_draws(&self) -> bool {
        self.draws
    }

    fn add(&mut self, name: &str, is_pattern: bool, target: Target) {
        match longest_word(name, is_pattern) {
            None => self.wordless.push((!is_pattern && !name.is_ascii(), target)),
            Some(piece) if piece.begins && piece.ends => {
                self.lengths.add(&piece.bytes);
                let targets = self.words.entry(piece.bytes).or_default();
                // Tables of one name in several schemas.
                match (targets.iter_mut().find(|t| matches!(t, Target::Table(_))), target) {
                    (Some(Target::Table(schemas)), Target::Table(more)) => *schemas |= more,
                    _ => targets.push(target),
                }
            }
            Some(piece) => self.pieces.push((piece, target)),
        }
    }

    /// No name: nothing can be mentioned.
    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Looks at a text, or at the part of one that is there.
    pub fn in_text(&self, text: &[u8], default: DefaultSchema<'_>) -> Mention {
        let mut found = Found { default: self.schemas_of(default), ..Found::default() };
        let letters = letters_of_ascii(text);
        if !letters.is_empty() {
            let may_be = |word: &[u8]| word.iter().any(|byte| letters.contains(&byte.to_ascii_lowercase()));
            let words = self.words.iter().filter(|(word, _)| may_be(word)).flat_map(|(_, targets)| targets);
            let pieces = self.pieces.iter().filter(|(piece, _)| may_be(&piece.bytes));
            let targets = words.chain(pieces.map(|(_, target)| target));
            // Keywords are of ASCII.
            targets
                .filter(|target| matches!(target, Target::Table(_) | Target::Schema(_) | Target::Generator))
                .for_each(|target| found.note(*target));
        }
        if !self.wordless.is_empty() {
            let is_ascii = text.is_ascii();
            for (needs_more, target) in &self.wordless {
                if !(is_ascii && *needs_more) {
                    found.note(*target);
                }
            }
        }
        for word in text.split(|byte| !is_word_byte(*byte)) {
            if self.lengths.may_hold(word) {
                let targets = self.words.get(&*word.to_ascii_lowercase());
                targets.into_iter().flatten().for_each(|target| found.note(*target));
            }
            for (piece, target) in &self.pieces {
                if !word.is_empty() && piece.is_in(word) {
                    found.note(*target);
                }
            }
        }
        found.moves = found.moves && may_begin_with_use(text, found.dynamic);
        found.mention()
    }

    /// True if the default database is, or may be, a schema with rules.
    pub fn has_names_in(&self, default: DefaultSchema<'_>) -> bool {
        !self.is_empty() && self.schemas_of(default) != 0
    }

    fn schemas_of(&self, default: DefaultSchema<'_>) -> Schemas {
        match default {
            DefaultSchema::Unknown => Schemas::MAX,
            DefaultSchema::None => 0,
            DefaultSchema::Is(name) => {
                let is_it =
                    |schema: &String| schema.eq_ignore_ascii_case(name) || *schema == name.to_lowercase();
                let exact = self.schemas.iter().position(is_it).map_or(0, bit);
                let fits = |place: &&usize| {
                    let pattern = self.schemas.get(**place);
                    pattern.is_some_and(|pattern| pattern::matches(pattern, &name.to_lowercase()))
                };
                self.wide.iter().filter(fits).fold(exact, |all, &place| all | bit(place))
            }
            DefaultSchema::OneOf(one, others) => {
                let others = others.iter().map(|name| DefaultSchema::Is(name));
                others.fold(self.schemas_of(DefaultSchema::of(one)), |all, name| all | self.schemas_of(name))
            }
        }
    }
}

/// The letters of ASCII that are the lower case of a character in it that is beyond ASCII: a server
/// that compares names in lower case takes it for that letter. They are U+212A, the Kelvin sign, and
/// U+0130, the I with a dot.
pub fn letters_of_ascii(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        return Vec::new();
    }
    let has = |letter: &str| memchr::memmem::find(text, letter.as_bytes()).is_some();
    [("\u{212a}", b'k'), ("\u{130}", b'i')]
        .iter()
        .filter(|(beyond, _)| has(beyond))
        .map(|(_, letter)| *letter)
        .collect()
}

fn bit(place: usize) -> Schemas {
    1 << place.min(63)
}

#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Default)]
struct Found {
    /// The default database, among the schemas.
    default: Schemas,
    /// Schemas of tables whose words were seen.
    tables: Schemas,
    schemas: Schemas,
    dynamic: bool,
    moves: bool,
    generator: bool,
    call: bool,
    call_begins: bool,
    call_goes_on: bool,
}

impl Found {
    fn note(&mut self, target: Target) {
        match target {
            Target::Table(schemas) => self.tables |= schemas,
            Target::Schema(schemas) => self.schemas |= schemas,
            Target::Dynamic => self.dynamic = true,
            Target::Use => self.moves = true,
            Target::Generator => self.generator = true,
            Target::Call => self.call = true,
            Target::CallBegins => self.call_begins = true,
            Target::CallGoesOn => self.call_goes_on = true,
        }
    }

    fn mention(&self) -> Mention {
        Mention {
            table: self.tables & (self.default | self.schemas) != 0,
            words: self.tables != 0,
            schema: self.schemas != 0,
            dynamic: self.dynamic,
            moves: self.moves,
            draw_words: self.generator || self.call,
            draws: self.generator && (self.call || self.call_begins && self.call_goes_on),
        }
    }
}

#[cfg(test)]
mod tests;
