//! The console's statements cut into tokens. Comments count as blanks: drivers put their names into
//! them.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters, digits, `_`, `$` and `@`, as written.
    Word(&'a str),
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

/// The rest of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl Token<'_> {
    /// True if it is this keyword, given in capitals.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }
}

impl<'a> Tokens<'a> {
    /// Leaves out what ends a statement: blanks, `;`, and the `\G` of the command-line clients.
    pub(super) fn new(statement: &'a str) -> Self {
        let mut rest = statement;
        loop {
            let shorter = rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace() || c == '\0');
            let shorter = shorter.strip_suffix("\\G").or(shorter.strip_suffix("\\g")).unwrap_or(shorter);
            if shorter.len() == rest.len() {
                return Tokens { rest };
            }
            rest = shorter;
        }
    }

    /// True if nothing is left, not even a comment.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.trim_start().is_empty()
    }

    /// `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, Unclosed> {
        self.skip_blanks()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        match first {
            '`' => self.quoted('`', "a name in backticks").map(|name| Some(Token::Name(name))),
            '\'' | '"' => self.quoted(first, "a text in quotes").map(|text| Some(Token::Text(text))),
            _ if is_of_word(first) => {
                let end = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(Some(Token::Word(word)))
            }
            sign => {
                self.rest = self.rest.get(sign.len_utf8()..).unwrap_or_default();
                Ok(Some(Token::Sign(sign)))
            }
        }
    }

    /// The next token without taking it.
    pub(super) fn peek(&self) -> Result<Option<Token<'a>>, Unclosed> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Takes the next token if it is this word.
    pub(super) fn take(&mut self, keyword: &str) -> Result<bool, Unclosed> {
        let is_it = self.peek()?.is_some_and(|token| token.is(keyword));
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    pub(super) fn rest(mut self) -> &'a str {
        // The reader of the rest finds a comment that is not closed.
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

    /// A doubled quote is one of the text. In a text, but not in a name, `\` escapes the next
    /// character.
    fn quoted(&mut self, quote: char, what: &'static str) -> Result<String, Unclosed> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character == '\\' && quote != '`' {
                match characters.next() {
                    // `\%` and `\_` are escapes of LIKE, which reads them itself.
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

/// `--` begins a comment only where a blank or the end follows.
fn is_dashes(rest: &str) -> bool {
    rest.strip_prefix("--").is_some_and(|behind| behind.chars().next().is_none_or(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::{Token, Tokens, Unclosed};
    use proptest::prelude::proptest;

    fn all(statement: &str) -> Result<Vec<Token<'_>>, Unclosed> {
        let mut tokens = Tokens::new(statement);
        std::iter::from_fn(|| tokens.next().transpose()).collect()
    }

    #[test]
    fn statements() {
        use Token::{Name, Sign, Text, Word};
        for (statement, expect) in [
            ("SHOW rules;", vec![Word("SHOW"), Word("rules")]),
            ("show rules ; \\G ;\n", vec![Word("show"), Word("rules")]),
            (
                "/* a driver */ SELECT @@x -- y\n, 1 # z",
                vec![Word("SELECT"), Word("@@x"), Sign(','), Word("1")],
            ),
            ("a.`b``c`", vec![Word("a"), Sign('.'), Name("b`c".into())]),
            (
                r"'it''s' 'a\'b' '\%\_' ''",
                vec![Text("it's".into()), Text("a'b".into()), Text(r"\%\_".into()), Text(String::new())],
            ),
            ("a--b", vec![Word("a"), Sign('-'), Sign('-'), Word("b")]),
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
        let mut tokens = Tokens::new("EXPLAIN /* x */ REWRITE  INSERT INTO t VALUES ('a;') ;");
        tokens.next().unwrap();
        assert!(tokens.take("REWRITE").unwrap() && !tokens.take("IN").unwrap());
        assert_eq!(tokens.rest(), "INSERT INTO t VALUES ('a;')");
    }

    proptest! {
        #[test]
        fn any_text_ends(statement: String) {
            let _ = all(&statement);
        }
    }
}
