//! The console's statements cut into words. Comments are blanks: drivers put their names into them.

/// One word of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// Letters, digits, `_`, `$` and `@`, as written.
    Plain(&'a str),
    /// Between backticks, which are taken off.
    Name(String),
    /// Between quotes of either kind, which are taken off.
    Text(String),
    Sign(char),
}

/// A quote or a comment that is not closed: the rest of the statement is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not closed")]
pub(super) struct Unclosed(&'static str);

/// A statement from some place on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl Word<'_> {
    /// Whether it is this word of the language, given in capitals.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Word::Plain(word) if word.eq_ignore_ascii_case(keyword))
    }
}

impl<'a> Words<'a> {
    /// Without what ends a statement: blanks, `;`, and the `\G` of the command-line clients.
    pub(super) fn new(statement: &'a str) -> Self {
        let mut rest = statement;
        loop {
            let shorter = rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace() || c == '\0');
            let shorter = shorter.strip_suffix("\\G").or(shorter.strip_suffix("\\g")).unwrap_or(shorter);
            if shorter.len() == rest.len() {
                return Words { rest };
            }
            rest = shorter;
        }
    }

    /// Whether there is nothing at all, not even a comment.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.trim_start().is_empty()
    }

    /// `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, Unclosed> {
        self.skip_blanks()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        match first {
            '`' => self.quoted('`', "a name in backticks").map(|name| Some(Word::Name(name))),
            '\'' | '"' => self.quoted(first, "a text in quotes").map(|text| Some(Word::Text(text))),
            _ if is_of_word(first) => {
                let end = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(Some(Word::Plain(word)))
            }
            sign => {
                self.rest = self.rest.get(sign.len_utf8()..).unwrap_or_default();
                Ok(Some(Word::Sign(sign)))
            }
        }
    }

    /// The next word without taking it.
    pub(super) fn peek(&self) -> Result<Option<Word<'a>>, Unclosed> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, keyword: &str) -> Result<bool, Unclosed> {
        let is_it = self.peek()?.is_some_and(|word| word.is(keyword));
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    /// All that is left, as it is written.
    pub(super) fn rest(mut self) -> &'a str {
        // A comment that is not closed is a matter of whoever reads it.
        let _ = self.skip_blanks();
        self.rest
    }

    fn skip_blanks(&mut self) -> Result<(), Unclosed> {
        loop {
            let rest = self.rest.trim_start();
            self.rest = if let Some(comment) = rest.strip_prefix("/*") {
                comment.split_once("*/").ok_or(Unclosed("a comment"))?.1
            } else if rest.starts_with('#') || is_dashes(rest) {
                rest.split_once('\n').map_or("", |(_, behind)| behind)
            } else {
                self.rest = rest;
                return Ok(());
            }
        }
    }

    /// A doubled quote is one of the text; `\` hides what is behind it, but for a name.
    fn quoted(&mut self, quote: char, what: &'static str) -> Result<String, Unclosed> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character == '\\' && quote != '`' {
                match characters.next() {
                    // LIKE's own escapes stay for it.
                    Some((_, c @ ('%' | '_'))) => text.extend(['\\', c]),
                    Some((_, hidden)) => text.push(hidden),
                    None => return Err(Unclosed(what)),
                }
            } else if character != quote {
                text.push(character);
            } else if characters.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                self.rest = self.rest.get(at + quote.len_utf8()..).unwrap_or_default();
                return Ok(text);
            }
        }
        Err(Unclosed(what))
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@')
}

/// `--` begins a comment only before a blank or at the end.
fn is_dashes(rest: &str) -> bool {
    rest.strip_prefix("--").is_some_and(|behind| behind.chars().next().is_none_or(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::{Unclosed, Word, Words};
    use proptest::prelude::proptest;

    fn all(statement: &str) -> Result<Vec<Word<'_>>, Unclosed> {
        let mut words = Words::new(statement);
        std::iter::from_fn(|| words.next().transpose()).collect()
    }

    #[test]
    fn statements() {
        use Word::{Name, Plain, Sign, Text};
        for (statement, expect) in [
            ("SHOW rules;", vec![Plain("SHOW"), Plain("rules")]),
            ("show rules ; \\G ;\n", vec![Plain("show"), Plain("rules")]),
            (
                "/* a driver */ SELECT @@x -- y\n, 1 # z",
                vec![Plain("SELECT"), Plain("@@x"), Sign(','), Plain("1")],
            ),
            ("a.`b``c`", vec![Plain("a"), Sign('.'), Name("b`c".into())]),
            (
                r"'it''s' 'a\'b' '\%\_' ''",
                vec![Text("it's".into()), Text("a'b".into()), Text(r"\%\_".into()), Text(String::new())],
            ),
            ("a--b", vec![Plain("a"), Sign('-'), Sign('-'), Plain("b")]),
            ("", vec![]),
            (";;", vec![]),
            ("/*!40100 SET x */", vec![]),
        ] {
            assert_eq!(all(statement), Ok(expect), "{statement}");
        }
        for statement in ["'a", "\"", "`a``", "/* a", r"'\"] {
            assert!(all(statement).is_err(), "{statement}");
        }
    }

    #[test]
    fn what_is_left_stays_as_it_is() {
        let mut words = Words::new("EXPLAIN /* x */ REWRITE  INSERT INTO t VALUES ('a;') ;");
        words.next().unwrap();
        assert!(words.take("REWRITE").unwrap() && !words.take("IN").unwrap());
        assert_eq!(words.rest(), "INSERT INTO t VALUES ('a;')");
    }

    proptest! {
        #[test]
        fn any_text_ends(statement: String) {
            let _ = all(&statement);
        }
    }
}
