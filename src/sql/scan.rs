//! Scans the tokens of a trigger, routine or event for what it does with ids. Blocks are not followed: a
//! statement in one may run.

use crate::sql::dialect::{ClientCharset, Dialect};
use crate::sql::insert::{Columns, Head, Source, Verb};
use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name::{self, decode, same_column};
use crate::sql::reads::variable_name;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    pub inserts: Vec<Inserted>,
    /// LAST_INSERT_ID() without an argument, @@identity, @@last_insert_id.
    pub reads_insert_id: bool,
    /// Columns that `SET NEW.column = ...` assigns.
    pub sets_new: Vec<String>,
    /// PREPARE, EXECUTE, EXECUTE IMMEDIATE.
    pub is_dynamic: bool,
}

/// An INSERT or REPLACE.
#[derive(Debug, PartialEq, Eq)]
pub struct Inserted {
    pub schema: Option<String>,
    pub table: String,
    /// `None`: none are named.
    pub columns: Option<Vec<String>>,
}

impl Inserted {
    /// True if the statement names this column to give it a value. `None`: it names no columns, and may give one by
    /// the column's place in the table.
    pub fn writes(&self, column: &str) -> Option<bool> {
        Some(self.columns.as_ref()?.iter().any(|name| same_column(name, column)))
    }
}

/// The words after which a statement begins.
const STARTS: [&str; 8] = ["BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC", "AS"];

/// Bodies are UTF-8, as information_schema has them.
pub fn scan(text: &str, dialect: Dialect) -> Result<Scan, Odd> {
    let dialect = Dialect { charset: ClientCharset::Utf8, ..dialect };
    let mut scan = Scan::default();
    let Some(mut lexer) = Lexer::new(text.as_bytes(), dialect) else { return Ok(scan) };
    let (mut last, mut starts) = (None::<Token>, true);
    loop {
        let token = lexer.next()?;
        if token.kind == TokenKind::End {
            return Ok(scan);
        }
        let is_glued = last.is_some_and(|last| name::is_glued(last, token));
        if token.is_punct(b'@') && is_glued {
            scan.reads_insert_id |= names_insert_id(&mut lexer.clone())?;
        } else if token.kind == TokenKind::Word && !is_glued {
            let follows_or = last.is_some_and(|last| last.is_word(text.as_bytes(), "OR"));
            scan.word(&lexer, token, starts, follows_or)?;
        }
        starts = matches!(token.kind, TokenKind::Punct(b';' | b':'))
            || !is_glued && STARTS.iter().any(|word| lexer.is_word(token, word));
        last = Some(token);
    }
}

impl Scan {
    /// The lexer stands after the word.
    fn word(&mut self, lexer: &Lexer<'_>, word: Token, starts: bool, follows_or: bool) -> Result<(), Odd> {
        let mut ahead = lexer.clone();
        let is = |name: &str| lexer.is_word(word, name);
        if is("LAST_INSERT_ID") {
            self.reads_insert_id |= ahead.eat_punct(b'(')? && ahead.eat_punct(b')')?;
        } else if is("INSERT") || is("REPLACE") && !follows_or {
            // The functions of these names have an argument.
            if !ahead.peek()?.is_punct(b'(') {
                let verb = if is("INSERT") { Verb::Insert } else { Verb::Replace };
                self.inserts.extend(inserted(&mut ahead, verb)?);
            }
        } else if is("SET") {
            // After DECLARE ... HANDLER FOR no statement seems to begin; and nobody but a row is called NEW.
            let names = assigned(&mut ahead)?;
            self.sets_new.extend(names.into_iter().filter_map(|(new, column)| {
                new.is_some_and(|new| new.eq_ignore_ascii_case("NEW")).then_some(column)
            }));
        } else if starts && (is("PREPARE") || is("EXECUTE")) {
            self.is_dynamic = true;
        }
        Ok(())
    }
}

/// Reads the name of the variable after `@@`. True if the variable is the insert id.
fn names_insert_id(lexer: &mut Lexer<'_>) -> Result<bool, Odd> {
    let name = variable_name(lexer)?;
    Ok(lexer.is_word(name, "IDENTITY") || lexer.is_word(name, "LAST_INSERT_ID"))
}

fn text_of(lexer: &Lexer<'_>, token: Token) -> Option<String> {
    decode(lexer.text(), token, ClientCharset::Utf8).map(std::borrow::Cow::into_owned)
}

/// Reads an INSERT after its verb. `None`: it is no INSERT.
fn inserted(lexer: &mut Lexer<'_>, verb: Verb) -> Result<Option<Inserted>, Odd> {
    let Some(head) = Head::parse(lexer, verb)? else { return Ok(None) };
    let Some(table) = text_of(lexer, head.table.last) else { return Ok(None) };
    let schema = head.table.qualifier.and_then(|token| text_of(lexer, token));
    let columns = match Head::columns(lexer)? {
        Some((_, Source::Set)) => Some(assigned(lexer)?.into_iter().map(|(_, column)| column).collect()),
        Some((Columns::Listed { names, .. }, _)) if !names.is_empty() => {
            Some(names.into_iter().filter_map(|name| text_of(lexer, name)).collect())
        }
        _ => None,
    };
    Ok(Some(Inserted { schema, table, columns }))
}

/// Reads the assignments after SET: the name in front of each `=`, with its qualifier.
fn assigned(lexer: &mut Lexer<'_>) -> Result<Vec<(Option<String>, String)>, Odd> {
    let (mut names, mut depth, mut is_target) = (Vec::new(), 0u32, true);
    loop {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::End | TokenKind::Punct(b';') => return Ok(names),
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            TokenKind::Punct(b',') if depth == 0 => {
                is_target = true;
                continue;
            }
            TokenKind::Word | TokenKind::QuotedName if is_target => {
                let (mut qualifier, mut name) = (None, text_of(lexer, token));
                while lexer.eat_punct(b'.')? {
                    let part = lexer.next()?;
                    qualifier = name.take();
                    name = text_of(lexer, part);
                }
                let next = lexer.peek()?;
                if next.is_punct(b'=') || next.kind == TokenKind::Assign {
                    names.extend(name.map(|name| (qualifier, name)));
                }
            }
            _ => {}
        }
        is_target = false;
    }
}

#[cfg(test)]
mod tests {
    use super::scan;
    use crate::sql::dialect::Dialect;

    /// Tables with their columns, then what else it does.
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let found = scan(text, Dialect::MARIADB).map_or_else(
            |odd| format!("odd: {}", odd.what),
            |scan| {
                let mut words: Vec<String> = Vec::new();
                for insert in &scan.inserts {
                    let schema =
                        insert.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
                    let columns = insert.columns.as_ref().map_or("*".to_owned(), |names| names.join(","));
                    words.push(format!("{schema}{}({columns})", insert.table));
                }
                words.extend(scan.reads_insert_id.then(|| "reads".to_owned()));
                words.extend(scan.sets_new.iter().map(|name| format!("NEW.{name}")));
                words.extend(scan.is_dynamic.then(|| "dynamic".to_owned()));
                words.join(" ")
            },
        );
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn inserts() {
        check("INSERT INTO t (a, `b`) VALUES (1, 2)", "t(a,b)");
        check("BEGIN INSERT IGNORE s.`t``x` VALUES (1); replace into u select 1; END", "s.t`x(*) u(*)");
        check("BEGIN IF a THEN INSERT t SET a = f(1, b = 2), t.id = 5; END IF; END", "t(a,id)");
        check("INSERT INTO t () VALUES ()", "t(*)");
        check("SET a = INSERT('x', 1, 1, 'y'), b = REPLACE('a', 'b', 'c')", "");
        check("-- INSERT INTO t VALUES (1)\nSELECT 'INSERT INTO t VALUES (1)' /* INSERT INTO t */", "");
        check("BEGIN CREATE OR REPLACE TABLE t (a INT); END", "");
        check("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2", "t(a)");
    }

    #[test]
    fn readers_of_the_insert_id() {
        check("SET a = LAST_INSERT_ID()", "reads");
        check("SELECT last_insert_id ( ) INTO x", "reads");
        check("UPDATE t SET id = LAST_INSERT_ID(id + 1)", "");
        check("SET a = t.last_insert_id", "");
        check("SELECT @@identity, @last_insert_id", "reads");
        check("SELECT @@session.last_insert_id", "reads");
        check("SELECT @last_insert_id, @identity", "");
    }

    #[test]
    fn assignments_to_the_new_row() {
        check("SET NEW.id = 5", "NEW.id");
        check("BEGIN IF NEW.id = 0 THEN SET @a = 1, new.`id` := uuid_short(); END IF; END", "NEW.id");
        check("UPDATE u SET n = NEW.id WHERE NEW.id = 7", "");
        check("SET @x = (NEW.id = 5)", "");
        check("BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET NEW.id = 1; END", "NEW.id");
        check("BEGIN SET @a = 1, NEW.id = 2; UPDATE u SET k = 1; END", "NEW.id");
    }

    #[test]
    fn dynamic_statements() {
        check("BEGIN PREPARE s FROM @q; EXECUTE s; END", "dynamic");
        check("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'", "dynamic");
        check("SELECT execute FROM t", "");
        check("SELECT a \\ b", "odd: a backslash");
    }
}
