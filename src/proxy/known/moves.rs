//! The session's default database, and which statements change it, as far as their first words show.

use crate::mysql::command::Command;
use crate::rules::mentions::DefaultSchema;

/// The default database as it is known without asking.
#[derive(Debug)]
pub(crate) enum DefaultDatabase {
    /// A statement without an answer or a report may have moved the database, or its name is not ASCII.
    Unknown,
    Is(Option<String>),
}

impl DefaultDatabase {
    pub(crate) fn at_login(database: Option<&[u8]>) -> Self {
        let name = database.filter(|name| !name.is_empty()).map(std::str::from_utf8);
        match name {
            None => DefaultDatabase::Is(None),
            Some(Ok(name)) if name.is_ascii() => DefaultDatabase::Is(Some(name.to_owned())),
            // The bytes of another name depend on the character set.
            Some(_) => DefaultDatabase::Unknown,
        }
    }
}

/// The change that a text may make to the default database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The text moves the default database to this schema, and does nothing else.
    Now(String),
    /// The text, or one that it prepares, moves the default database to this schema when it is executed.
    Later(String),
    /// The text may move the default database to any schema, now or later.
    Unclear,
}

impl Move {
    pub(crate) fn of(command: Command, text: &[u8]) -> Move {
        let is_driver = command == Command::StmtPrepare;
        if let Some(name) = used_schema(text) {
            return if is_driver { Move::Later(name) } else { Move::Now(name) };
        }
        match text_within(text).filter(|_| !is_driver) {
            Some((within, is_run)) => match used_schema(within) {
                Some(name) if is_run => Move::Now(name),
                Some(name) => Move::Later(name),
                None => Move::Unclear,
            },
            None => Move::Unclear,
        }
    }

    pub(crate) fn now(&self) -> Option<String> {
        match self {
            Move::Now(name) => Some(name.clone()),
            Move::Later(_) | Move::Unclear => None,
        }
    }
}

/// The schemas to which the session's prepared texts move its default database.
#[derive(Debug, Default)]
pub(crate) struct UnseenMoves {
    to: Vec<String>,
    /// One of them may move it to a schema that does not show, or there were too many to be kept.
    anywhere: bool,
}

/// Schemas of one session that are kept.
const SCHEMAS_MAX: usize = 16;

impl UnseenMoves {
    pub(crate) fn add(&mut self, to: Option<String>) {
        match to {
            Some(to) if self.to.contains(&to) => {}
            Some(to) if self.to.len() < SCHEMAS_MAX => self.to.push(to),
            _ => self.anywhere = true,
        }
    }

    pub(crate) fn are_known(&self) -> bool {
        !self.anywhere
    }

    /// The schemas that may be the default database by now, if it was `default` before the prepared texts were executed.
    pub(crate) fn from<'a>(&'a self, default: Option<&'a str>) -> DefaultSchema<'a> {
        match &*self.to {
            _ if self.anywhere => DefaultSchema::Unknown,
            [] => DefaultSchema::of(default),
            to => DefaultSchema::OneOf(default, to),
        }
    }
}

/// The schema of a text that is nothing but USE.
fn used_schema(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let (word, name) = text.split_at_checked(3)?;
    let is_use = word.eq_ignore_ascii_case(b"use");
    let name = name.strip_prefix(b" ").filter(|_| is_use)?.trim_ascii();
    match name.strip_prefix(b"`") {
        Some(name) => plain_name(name.strip_suffix(b"`")?),
        None if name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') => plain_name(name),
        None => None,
    }
}

/// A name of characters that are the same in every character set.
pub(crate) fn plain_name(name: &[u8]) -> Option<String> {
    let is_same = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'`' | b'\\' | b'~');
    std::str::from_utf8(name).ok().filter(|_| !name.is_empty() && name.iter().all(is_same)).map(str::to_owned)
}

/// The text within `PREPARE name FROM 'text'`, or within `EXECUTE IMMEDIATE 'text'`, which is run at once.
fn text_within(text: &[u8]) -> Option<(&[u8], bool)> {
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let at = text.iter().position(|byte| matches!(byte, b'\'' | b'"'))?;
    let (before, literal) = text.split_at_checked(at)?;
    let quote = literal.get(..1)?;
    let within = literal.strip_prefix(quote)?.strip_suffix(quote)?;
    if within.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\')) {
        return None;
    }
    let words: Vec<&[u8]> = before.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is = |word: &[u8], expect: &[u8]| word.eq_ignore_ascii_case(expect);
    let is_plain = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    match &*words {
        [prepare, name, from] if is(prepare, b"prepare") && is(from, b"from") && is_plain(name) => {
            Some((within, false))
        }
        [execute, immediate] if is(execute, b"execute") && is(immediate, b"immediate") => {
            Some((within, true))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Move, SCHEMAS_MAX, UnseenMoves};
    use crate::mysql::command::Command;
    use crate::rules::mentions::DefaultSchema;

    #[track_caller]
    fn check(command: Command, text: &str, expect: &Move) {
        assert_eq!(&Move::of(command, text.as_bytes()), expect, "{text}");
    }

    #[test]
    fn where_a_text_moves_the_default_database() {
        let a = || "a_1".to_owned();
        for text in
            ["USE a_1", "use `a_1` ;", "EXECUTE IMMEDIATE 'USE a_1'", "execute\nimmediate \"use a_1;\";"]
        {
            check(Command::Query, text, &Move::Now(a()));
        }
        for text in ["PREPARE s FROM 'USE a_1'", " prepare s_1 from \"use `a_1`\" ;"] {
            check(Command::Query, text, &Move::Later(a()));
        }
        check(Command::StmtPrepare, "USE a_1", &Move::Later(a()));
        for text in [
            "PREPARE s FROM 'USE a_1'; USE b",
            "PREPARE s FROM 'USE a' '_1'",
            "PREPARE s FROM 'USE a\\_1'",
            "PREPARE s FROM 'USE a'; PREPARE r FROM 'USE b'",
            "PREPARE s FROM 'USE a; USE b'",
            "PREPARE s FROM CONCAT('USE a')",
            "PREPARE s FROM 'USE a_1\"",
            "PREPARE `s` FROM 'USE a_1'",
            "PREPARE s FROM /*!50000 'USE a' */ 'USE b'",
            "PREPARE s FROM @s",
            "SELECT 'USE a_1'",
            "'",
        ] {
            check(Command::Query, text, &Move::Unclear);
        }
        check(Command::StmtPrepare, "EXECUTE IMMEDIATE 'USE a_1'", &Move::Unclear);
    }

    #[test]
    fn where_it_may_be() {
        let mut moves = UnseenMoves::default();
        assert!(moves.are_known());
        assert_eq!(moves.from(Some("b")), DefaultSchema::Is("b"));
        assert_eq!(moves.from(None), DefaultSchema::None);
        moves.add(Some("a".to_owned()));
        moves.add(Some("a".to_owned()));
        assert!(moves.are_known());
        assert_eq!(moves.from(None), DefaultSchema::OneOf(None, &["a".to_owned()]));
        for number in 0..SCHEMAS_MAX {
            moves.add(Some(number.to_string()));
        }
        assert_eq!(moves.from(Some("b")), DefaultSchema::Unknown);
        assert!(!moves.are_known());
        let mut moves = UnseenMoves::default();
        moves.add(None);
        assert_eq!(moves.from(Some("b")), DefaultSchema::Unknown);
    }
}
