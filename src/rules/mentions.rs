//! Which texts can name a ruled table at all, told from their words alone.
//!
//! A name is made of words (letters, digits and `_` of ASCII, which have the same bytes in every
//! character set that a client may speak) and of what is between them. However a name is quoted,
//! escaped or written in comments that are code, its words stand in the text as they are, letter
//! case apart. So a text that lacks a name's longest word does not name it: under any sql_mode, and
//! whatever statements the text holds. The one exception is a text within a text (PREPARE, EXECUTE
//! IMMEDIATE), which may be put together from pieces: [`Mention::dynamic`] says that there may be
//! one.

use std::collections::HashMap;

use super::pattern::is_pattern;

/// What was found in a text.
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
    /// For each first byte, a bit for each length of the words that begin with it.
    lengths: Lengths,
    /// Words that a pattern, or a character beyond ASCII, lets go on.
    pieces: Vec<(Piece, Target)>,
    /// Names without a word of ASCII: every text may hold them; `true`: only one with bytes beyond
    /// ASCII.
    wordless: Vec<(bool, Target)>,
    /// In lower case. The place of one is its bit in a [`Schemas`]; all after the last bit share
    /// that.
    schemas: Vec<String>,
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
}

#[derive(Debug)]
struct Lengths([u64; 256]);

impl Default for Lengths {
    fn default() -> Self {
        Lengths([0; 256])
    }
}

impl Lengths {
    fn bit(word: &[u8]) -> u64 {
        1 << word.len().min(63)
    }

    fn add(&mut self, word: &[u8]) {
        if let Some(first) = word.first()
            && let Some(lengths) = self.0.get_mut(usize::from(*first))
        {
            *lengths |= Lengths::bit(word);
        }
    }

    fn may_hold(&self, word: &[u8]) -> bool {
        word.first()
            .and_then(|first| self.0.get(usize::from(first.to_ascii_lowercase())))
            .is_some_and(|lengths| lengths & Lengths::bit(word) != 0)
    }
}

/// A piece of a word.
#[derive(Debug)]
struct Piece {
    /// In lower case.
    bytes: Box<[u8]>,
    /// The text's word begins, ends with it.
    begins: bool,
    ends: bool,
}

impl Piece {
    fn is_in(&self, word: &[u8]) -> bool {
        let fits = |at: Option<&[u8]>| at.is_some_and(|at| at.eq_ignore_ascii_case(&self.bytes));
        match (self.begins, self.ends) {
            (true, true) => fits(Some(word)),
            (true, false) => fits(word.get(..self.bytes.len())),
            (false, true) => fits(word.len().checked_sub(self.bytes.len()).and_then(|from| word.get(from..))),
            (false, false) => word.windows(self.bytes.len()).any(|window| fits(Some(window))),
        }
    }
}

/// Whether the word USE may begin a statement, unlike that of an index hint: before it is nothing,
/// the end of a statement, the FOR of SET STATEMENT, the quote of a text within the text, or what
/// may be a comment or its version.
fn may_begin_with_use(text: &[u8]) -> bool {
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
                || head.last().is_none_or(|byte| matches!(byte, b';' | b'/' | b'\'' | b'"')))
    })
}

/// By a table: every byte of every text is looked at.
fn is_word_byte(byte: u8) -> bool {
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
fn longest_word(name: &str, is_pattern: bool) -> Option<Piece> {
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

impl Mentions {
    /// Of names by schema and table; `true`: the table's name may be a pattern. Schemas are no
    /// patterns.
    pub fn new<'a>(names: impl IntoIterator<Item = (&'a str, &'a str, bool)>) -> Self {
        let mut mentions = Mentions::default();
        for (schema, table, may_be_pattern) in names {
            let schema = schema.to_lowercase();
            let known = mentions.schemas.iter().position(|known| *known == schema);
            let place = known.unwrap_or_else(|| {
                mentions.schemas.push(schema.clone());
                let place = mentions.schemas.len() - 1;
                mentions.add(&schema, false, Target::Schema(bit(place)));
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
        if has_letters_of_ascii(text) {
            self.words.values().flatten().for_each(|target| found.note(*target));
            self.pieces.iter().for_each(|(_, target)| found.note(*target));
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
        found.moves = found.moves && (has_letters_of_ascii(text) || may_begin_with_use(text));
        found.mention()
    }

    /// Whether it is or may be a schema with rules.
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
                self.schemas.iter().position(is_it).map_or(0, bit)
            }
            DefaultSchema::OneOf(one, others) => {
                let others = others.iter().map(|name| DefaultSchema::Is(name));
                others.fold(self.schemas_of(DefaultSchema::of(one)), |all, name| all | self.schemas_of(name))
            }
        }
    }
}

/// Whether it has a character beyond ASCII whose lower case is a letter of ASCII: a server that
/// compares names in lower case takes it for that letter. They are U+212A, the Kelvin sign, and
/// U+0130, the I with a dot.
fn has_letters_of_ascii(text: &[u8]) -> bool {
    let has = |letter: &&str| memchr::memmem::find(text, letter.as_bytes()).is_some();
    !text.is_ascii() && ["\u{212a}", "\u{130}"].iter().any(has)
}

fn bit(place: usize) -> Schemas {
    1 << place.min(63)
}

/// What was found in a text so far.
#[derive(Default)]
struct Found {
    /// The default database, among the schemas.
    default: Schemas,
    /// Schemas of tables whose words were seen.
    tables: Schemas,
    schemas: Schemas,
    dynamic: bool,
    moves: bool,
}

impl Found {
    fn note(&mut self, target: Target) {
        match target {
            Target::Table(schemas) => self.tables |= schemas,
            Target::Schema(schemas) => self.schemas |= schemas,
            Target::Dynamic => self.dynamic = true,
            Target::Use => self.moves = true,
        }
    }

    fn mention(&self) -> Mention {
        Mention {
            table: self.tables & (self.default | self.schemas) != 0,
            words: self.tables != 0,
            schema: self.schemas != 0,
            dynamic: self.dynamic,
            moves: self.moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DefaultSchema, Mentions};
    use crate::rules::pattern;
    use proptest::prelude::{Just, any, prop_assert, prop_oneof, proptest};

    const NAMES: &[(&str, &str, bool)] = &[
        ("shop", "orders", true),
        ("shop", "order_item_*", true),
        ("shop", "*_log", true),
        ("shop", "a-b c", true),
        ("crm", "x*y", true),
        ("crm", "таблица", true),
        ("crm", "表t1", true),
        ("all", "*", true),
    ];

    /// Letters: t a table, s a schema, d dynamic, u USE.
    #[track_caller]
    fn check(default: DefaultSchema<'_>, text: &str, expect: &str) {
        let mention = Mentions::new(NAMES.iter().copied()).in_text(text.as_bytes(), default);
        let flags =
            [(mention.table, 't'), (mention.schema, 's'), (mention.dynamic, 'd'), (mention.moves, 'u')];
        let found: String = flags.iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect();
        assert_eq!(found, expect, "{default:?} {text}");
    }

    #[test]
    fn what_may_move() {
        for text in [
            "USE a",
            " use a",
            "SELECT 1; use a",
            "/* b */ use a",
            "-- b\nuse a",
            "/*!50000 use a */",
            "/*!use a */",
            "SET STATEMENT a=1 FOR USE a",
            "EXECUTE IMMEDIATE 'USE a'",
            "EXECUTE IMMEDIATE \" use a\"",
            "use`a`",
        ] {
            check(DefaultSchema::None, text, if text.contains("IMMEDIATE") { "du" } else { "u" });
        }
        for text in [
            "SELECT * FROM t1 USE INDEX (a)",
            "SELECT * FROM `t` use key ()",
            "CREATE TABLE used(use_ INT)",
            "CREATE PROCEDURE p()\nUSE a",
        ] {
            check(DefaultSchema::None, text, "");
        }
    }

    #[test]
    fn words() {
        let shop = DefaultSchema::Is("Shop");
        check(shop, "insert into orders values(1)", "t");
        check(shop, "INSERT INTO `ORDERS`(a) VALUES(1)", "t");
        check(shop, "INSERT INTO shop.orders VALUES(1)", "ts");
        check(shop, "/*!INSERT*/INTO/**/orders", "t");
        check(shop, "insert into orders2 values('order')", "");
        check(shop, "insert into my_orders values(1)", "");
        check(shop, "insert into order_item_7 values(1)", "t");
        check(shop, "insert into order_item values(1)", "");
        check(shop, "insert into audit_log values(1)", "t");
        check(shop, "insert into audit_log2 values(1)", "");
        check(shop, "insert into `a-b c` values(1)", "t");
        check(shop, "insert into crm.`x1y` values(1)", "ts");
        check(shop, "insert into x1y values(1)", "");
        check(shop, "PREPARE s FROM 'select 1'", "d");
        check(shop, "execute immediate @s", "d");
        check(shop, "use x", "u");
        check(shop, "", "");
        check(shop, "insert into au\u{130}x values(1)", "tsdu");
    }

    #[test]
    fn the_default_database() {
        check(DefaultSchema::Is("other"), "insert into orders values(1)", "");
        check(DefaultSchema::None, "insert into orders values(1)", "");
        check(DefaultSchema::Unknown, "insert into orders values(1)", "t");
        check(DefaultSchema::Is("other"), "insert into SHOP . orders values(1)", "ts");
        check(DefaultSchema::Is("all"), "insert into anything values(1)", "t");
        let others = ["all".to_owned()];
        check(DefaultSchema::OneOf(Some("other"), &others), "insert into anything values(1)", "t");
        check(DefaultSchema::OneOf(Some("shop"), &others[..0]), "insert into orders values(1)", "t");
        check(DefaultSchema::OneOf(None, &["other".to_owned()]), "insert into orders values(1)", "");
        check(DefaultSchema::Is("other"), "insert into `all`.x values(1)", "ts");
        check(DefaultSchema::Is("crm"), "insert into таблица values(1)", "t");
        check(DefaultSchema::Is("crm"), "insert into y values('ü')", "t");
        check(DefaultSchema::Is("crm"), "insert into y values('u')", "");
        check(DefaultSchema::Is("crm"), "insert into 表t1 values(1)", "t");
    }

    #[test]
    fn without_names() {
        let mentions = Mentions::new([]);
        assert!(mentions.is_empty());
        assert_eq!(
            mentions.in_text(b"insert into t values(1)", DefaultSchema::Unknown),
            super::Mention::default()
        );
    }

    #[test]
    fn more_schemas_than_bits() {
        let schemas: Vec<String> = (0..200).map(|n| format!("s{n}")).collect();
        let mentions = Mentions::new(schemas.iter().map(|schema| (schema.as_str(), "t", true)));
        for schema in &schemas {
            assert!(mentions.in_text(b"insert into t values()", DefaultSchema::Is(schema)).table, "{schema}");
        }
        assert!(!mentions.in_text(b"insert into t values()", DefaultSchema::Is("other")).table);
    }

    /// A name as a client may write it: quoted or not, in any letter case.
    fn written(name: &str, quoted: bool, upper: &[bool]) -> String {
        let cased: String = name
            .chars()
            .zip(upper.iter().cycle())
            .map(|(c, upper)| if *upper && c.is_ascii() { c.to_ascii_uppercase() } else { c })
            .collect();
        if quoted { format!("`{}`", cased.replace('`', "``")) } else { cased }
    }

    proptest! {
        /// What a rule names is never missed, however it is written and whatever stands around it.
        #[test]
        fn a_name_that_is_there_is_seen(
            pattern in "[a-zé_$` *?-]{1,8}",
            filler in "[a-z0-9_$é`]{0,4}",
            upper in proptest::collection::vec(any::<bool>(), 1..9),
            quoted: bool,
            qualified: bool,
            around in prop_oneof![Just(""), Just(" "), Just("/**/"), Just("\n")],
        ) {
            let name = pattern.replace('*', &filler).replace('?', "q");
            let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
            proptest::prop_assume!(pattern::matches(&pattern, &name) && !name.is_empty() && (quoted || is_plain));
            let mentions = Mentions::new([("db", pattern.as_str(), true)]);
            let name = written(&name, quoted, &upper);
            let schema = if qualified { "DB." } else { "" };
            let text = format!("INSERT INTO{around} {schema}{name}{around} VALUES(1)");
            let default = if qualified { DefaultSchema::None } else { DefaultSchema::Is("db") };
            prop_assert!(mentions.in_text(text.as_bytes(), default).table, "{}", text);
        }
    }
}
