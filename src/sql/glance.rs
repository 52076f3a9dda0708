//! The first look at a statement: most cannot matter to a rule, and their first word shows it.

/// What a first look shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// One statement that neither inserts nor changes how later ones are read.
    Harmless,
    /// It must be read whole.
    Read,
    /// The first word is not there yet.
    Unclear,
}

/// Looks at a statement or its beginning. With several statements allowed in a packet, a semicolon
/// anywhere makes it one that must be read.
pub fn glance(text: &[u8], is_complete: bool, multi_statements: bool) -> Glance {
    let Some(start) = skip_blanks_and_comments(text) else {
        return if is_complete { Glance::Read } else { Glance::Unclear };
    };
    let rest = text.get(start..).unwrap_or_default();
    let letters = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let Some(after) = rest.get(letters) else {
        let is_whole_word = is_complete && letters > 0;
        return if is_whole_word {
            word(rest)
        } else if is_complete {
            Glance::Read
        } else {
            Glance::Unclear
        };
    };
    // A word that goes on (`select1`, `select_x`, a letter beyond ASCII) is another word.
    if after.is_ascii_alphanumeric() || matches!(after, b'_' | b'$' | 0x80..) {
        return Glance::Read;
    }
    match word(rest.get(..letters).unwrap_or_default()) {
        Glance::Harmless if multi_statements && (!is_complete || memchr::memchr(b';', rest).is_some()) => {
            Glance::Read
        }
        glance => glance,
    }
}

/// The longest of the words below.
const WORD_BYTES_MAX: usize = 9;

/// Harmless are words that begin statements which cannot insert and cannot change sql_mode,
/// character set or default database. (What stored functions and triggers do inside them no proxy
/// sees.)
fn word(word: &[u8]) -> Glance {
    let mut upper = [0; WORD_BYTES_MAX];
    let Some(place) = upper.get_mut(..word.len()) else { return Glance::Read };
    place.copy_from_slice(word);
    place.make_ascii_uppercase();
    match &*place {
        b"SELECT" | b"UPDATE" | b"DELETE" | b"COMMIT" | b"ROLLBACK" | b"SHOW" | b"START" | b"SAVEPOINT"
        | b"RELEASE" | b"KILL" | b"WITH" | b"DO" => Glance::Harmless,
        _ => Glance::Read,
    }
}

/// Where the first word begins; `None` where the text ends before. A comment that may be code
/// counts as a word.
fn skip_blanks_and_comments(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text.get(at..)?.iter().take_while(|b| matches!(b, b' ' | b'\t'..=b'\r')).count();
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let comment = match rest {
            // It may go on as a comment.
            [b'-' | b'/'] | [b'-', b'-'] => return None,
            [b'/', b'*', b'!' | b'M', ..] => return Some(at),
            [b'/', b'*', body @ ..] => memchr::memmem::find(body, b"*/")? + 4,
            [b'#', ..] | [b'-', b'-', b' ' | b'\t'..=b'\r', ..] => memchr::memchr(b'\n', rest)? + 1,
            _ => return Some(at),
        };
        at += comment;
    }
}

/// Where a word of lower case is in a text, in any letter case: what precedes it, and what follows
/// it.
fn places<'t>(text: &'t [u8], word: &'t [u8]) -> impl Iterator<Item = (&'t [u8], &'t [u8])> {
    let first = word.first().copied().unwrap_or_default();
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), text).filter_map(|at| {
        let (before, rest) = text.split_at_checked(at)?;
        let (place, after) = rest.split_at_checked(word.len())?;
        place.eq_ignore_ascii_case(word).then_some((before, after))
    })
}

/// Whether a word of lower case is in a text, in any letter case.
pub fn has_word(text: &[u8], word: &[u8]) -> bool {
    places(text, word).next().is_some()
}

/// [`has_word`] where it is no part of a longer name. A digit before the word may be a version
/// comment's (`/*!50000CALL p()*/`), and a byte beyond ASCII may be anything: neither makes it part
/// of a name.
pub fn has_whole_word(text: &[u8], word: &[u8]) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
    places(text, word).any(|(before, after)| {
        !before.last().is_some_and(|&byte| is_letter(byte))
            && !after.first().is_some_and(|&byte| is_letter(byte) || byte.is_ascii_digit())
    })
}

/// Whether EXECUTE may be in a text with the name of a prepared statement.
pub fn may_execute_name(text: &[u8]) -> bool {
    let is_immediate = |after: &[u8]| {
        after.trim_ascii_start().get(..9).is_some_and(|word| word.eq_ignore_ascii_case(b"immediate"))
    };
    places(text, b"execute").any(|(_, after)| !is_immediate(after))
}

/// Whether a text may insert, or run a text that does.
pub fn may_insert(text: &[u8]) -> bool {
    [&b"insert"[..], b"replace", b"load", b"execute", b"prepare"].iter().any(|word| has_word(text, word))
}

/// Whether it is nothing but comments to the ends of their lines, which both servers answer with error
/// 1065. No byte of a longer character is a line end.
pub fn is_only_comments(text: &[u8]) -> bool {
    // Most texts are told by their first byte.
    matches!(text.trim_ascii_start().first(), None | Some(b'#' | b'-'))
        && text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start).all(|line| {
            let is_dashes = matches!(line, [b'-', b'-'] | [b'-', b'-', 0..=b' ', ..]);
            line.is_empty() || line.starts_with(b"#") || is_dashes
        })
}

#[cfg(test)]
mod tests {
    use super::{Glance, glance, has_whole_word, is_only_comments, may_execute_name};

    #[track_caller]
    fn check(text: &str, multi_statements: bool, expect: Glance) {
        assert_eq!(glance(text.as_bytes(), true, multi_statements), expect, "{text}");
    }

    #[test]
    fn comments_to_the_ends_of_their_lines() {
        for (text, expect) in [
            ("# prepare\n\t-- execute immediate @a\n--\n\n", true),
            ("", true),
            ("# a\nSELECT 1", false),
            ("--1", false),
            ("/* a */", false),
            ("; # a", false),
        ] {
            assert_eq!(is_only_comments(text.as_bytes()), expect, "{text}");
        }
    }

    #[test]
    fn words_that_are_no_part_of_a_name() {
        for (text, expect) in [
            ("call p()", true),
            ("; CALL`p`()", true),
            ("/*!50000Call p()*/", true),
            ("\u{a0}call\u{a0}p()", true),
            ("callers", false),
            ("recall call1 _call call_ $call call$", false),
            ("recall call", true),
            ("", false),
        ] {
            assert_eq!(has_whole_word(text.as_bytes(), b"call"), expect, "{text}");
        }
    }

    #[test]
    fn names_that_are_executed() {
        for (text, expect) in [
            ("EXECUTE s", true),
            ("execute  immediate 'a'", false),
            ("BEGIN EXECUTE IMMEDIATE 'a'; EXECUTE s; END", true),
            ("EXECUTE /**/ IMMEDIATE 'a'", true),
            ("SELECT 1", false),
        ] {
            assert_eq!(may_execute_name(text.as_bytes()), expect, "{text}");
        }
    }

    #[test]
    fn first_words() {
        check("SELECT 1", false, Glance::Harmless);
        check("  /* hint */ select 1", true, Glance::Harmless);
        check("-- x\n# y\n update t set a=1", false, Glance::Harmless);
        check("COMMIT", true, Glance::Harmless);
        check("select_x", false, Glance::Read);
        check("select1", false, Glance::Read);
        check("INSERT INTO t VALUES (1)", false, Glance::Read);
        check("/*!50000 INSERT */ INTO t VALUES(1)", false, Glance::Read);
        check("/*M! INSERT */ INTO t VALUES(1)", false, Glance::Read);
        check("SET sql_mode=''", false, Glance::Read);
        check("(SELECT 1)", false, Glance::Read);
        check("", false, Glance::Read);
        check("--1", false, Glance::Read);
    }

    #[test]
    fn several_statements() {
        check("SELECT 1; INSERT INTO t VALUES (1)", true, Glance::Read);
        check("SELECT 1; INSERT INTO t VALUES (1)", false, Glance::Harmless);
        check("SELECT ';'", true, Glance::Read);
    }

    #[test]
    fn beginnings() {
        let check =
            |text: &str, multi, expect| assert_eq!(glance(text.as_bytes(), false, multi), expect, "{text}");
        check("SEL", false, Glance::Unclear);
        check("select", false, Glance::Unclear);
        check("select ", false, Glance::Harmless);
        check("select ", true, Glance::Read);
        check("/* long", false, Glance::Unclear);
        check("-- long", false, Glance::Unclear);
        check("-", false, Glance::Unclear);
        check(" --", false, Glance::Unclear);
        check("/", false, Glance::Unclear);
        check("-1", false, Glance::Read);
        check("insert into", false, Glance::Read);
    }
}
