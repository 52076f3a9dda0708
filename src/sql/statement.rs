//! Which kind of statement it is, told from its first words.

use super::ddl::{self, Tables};
use super::for_statement::{self, ForStatement};
use super::insert::Verb;
use super::lex::{Lexer, Odd, Token, TokenKind};
use super::name::{self, Path};
use super::set::{self, Settings};

/// A statement, as far as ids and the reading of what follows depend on it.
#[derive(Debug, PartialEq)]
pub enum Statement {
    /// Nothing but blanks and comments.
    Empty,
    /// The lexer stands behind the verb.
    Insert(Verb),
    /// Changes nothing that matters here: SELECT, UPDATE, COMMIT, SHOW, EXPLAIN (which shows an INSERT and does not run
    /// it: MySQL's `EXPLAIN ANALYZE INSERT` neither, MariaDB has none), ...
    Harmless,
    /// `None`: a name that cannot be read.
    Use(Option<String>),
    Set(Settings),
    /// A schema changes; the names that it makes, renames and drops.
    Ddl(Tables),
    /// CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT: a body may follow whose `;` do not end the statement.
    Routine,
    /// Runs what the text does not show: CALL, EXECUTE of a name.
    Opaque,
    /// PREPARE, EXECUTE IMMEDIATE: another statement's text, and whether it runs at once.
    Inner {
        text: InnerText,
        runs: bool,
    },
    /// MariaDB's ANALYZE, which runs a statement and answers with its plan: the lexer stands before that statement.
    Analyze,
    /// MariaDB's SET STATEMENT ... FOR: the lexer stands before the statement that runs.
    For(ForStatement),
    /// LOAD DATA, LOAD XML; `None`: the table's name was not found.
    Load(Option<Path>),
    /// BEGIN NOT ATOMIC, IF, LOOP, ...: statements within.
    Compound,
    /// No statement that we know.
    Unknown,
}

#[derive(Debug, PartialEq)]
pub enum InnerText {
    Literal(Vec<u8>),
    /// A variable or an expression.
    Unseen,
}

const HARMLESS: &[&str] = &[
    "SELECT",
    "UPDATE",
    "DELETE",
    "COMMIT",
    "ROLLBACK",
    "SHOW",
    "START",
    "WITH",
    "DO",
    "SAVEPOINT",
    "RELEASE",
    "VALUES",
    "TABLE",
    "KILL",
    "FLUSH",
    "RESET",
    "LOCK",
    "UNLOCK",
    "CHECK",
    "OPTIMIZE",
    "REPAIR",
    "CHECKSUM",
    "HELP",
    "GRANT",
    "REVOKE",
    "XA",
    "PURGE",
    "CHANGE",
    "STOP",
    "BINLOG",
    "INSTALL",
    "UNINSTALL",
    "CACHE",
    "HANDLER",
    "SIGNAL",
    "RESIGNAL",
    "GET",
    "SHUTDOWN",
    "RESTART",
    "CLONE",
    "IMPORT",
    "EXPLAIN",
    "DESCRIBE",
    "DESC",
    "DEALLOCATE",
    "BACKUP",
];
const COMPOUND: &[&str] = &["IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR", "DECLARE"];

/// Reads the statement's first words. The lexer ends up behind them, never behind a `;`.
pub fn classify(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    let before = lexer.clone();
    let first = lexer.next()?;
    match first.kind {
        TokenKind::End | TokenKind::Punct(b';') => {
            *lexer = before;
            return Ok(Statement::Empty);
        }
        TokenKind::Punct(b'(') => return Ok(Statement::Harmless),
        _ => {}
    }
    let is = |words: &[&str]| words.iter().any(|word| lexer.is_word(first, word));
    if is(&["INSERT"]) {
        return Ok(Statement::Insert(Verb::Insert));
    }
    if is(&["REPLACE"]) {
        return Ok(Statement::Insert(Verb::Replace));
    }
    // Statements that are looked into are read ahead, so that their end is found from here.
    let mut ahead = lexer.clone();
    if is(HARMLESS) {
        return Ok(Statement::Harmless);
    }
    if is(&["SET"]) {
        if let Some(settings) = for_statement::read(&mut ahead)? {
            *lexer = ahead;
            return Ok(Statement::For(settings));
        }
        return Ok(Statement::Set(set::read(&mut ahead)?));
    }
    if is(&["USE"]) {
        let token = ahead.next()?;
        let name = name::decode(lexer.text(), token, lexer.dialect().charset);
        return Ok(Statement::Use(name.map(std::borrow::Cow::into_owned)));
    }
    if is(&["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"]) {
        return ddl::read(&mut ahead, first);
    }
    if is(&["BEGIN"]) {
        let next = ahead.next()?;
        let is_transaction =
            matches!(next.kind, TokenKind::End | TokenKind::Punct(b';')) || lexer.is_word(next, "WORK");
        return Ok(if is_transaction { Statement::Harmless } else { Statement::Compound });
    }
    if is(COMPOUND) || ahead.peek()?.is_punct(b':') {
        return Ok(Statement::Compound);
    }
    if is(&["ANALYZE"]) {
        return analyze(lexer);
    }
    if is(&["CALL"]) {
        return Ok(Statement::Opaque);
    }
    if is(&["PREPARE"]) {
        ahead.next()?;
        return inner(&mut ahead, "FROM", false);
    }
    if is(&["EXECUTE"]) {
        return inner(&mut ahead, "IMMEDIATE", true);
    }
    if is(&["LOAD"]) {
        return load(&mut ahead);
    }
    Ok(Statement::Unknown)
}

/// MariaDB's `ANALYZE [FORMAT=JSON] statement` runs it; `ANALYZE TABLE` does not.
fn analyze(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    if !lexer.dialect().is_mariadb() {
        return Ok(Statement::Harmless);
    }
    if lexer.eat_word("FORMAT")? {
        lexer.eat_punct(b'=')?;
        lexer.next()?;
    }
    for word in ["LOCAL", "NO_WRITE_TO_BINLOG"] {
        lexer.eat_word(word)?;
    }
    Ok(Statement::Analyze)
}

/// Behind PREPARE and its name, or behind EXECUTE: `keyword` and a text. EXECUTE of a name is opaque.
fn inner(lexer: &mut Lexer<'_>, keyword: &str, runs: bool) -> Result<Statement, Odd> {
    if !lexer.eat_word(keyword)? {
        return Ok(if runs { Statement::Opaque } else { Statement::Unknown });
    }
    let literal = lexer.next()?;
    let next = lexer.next()?;
    let alone = matches!(next.kind, TokenKind::End | TokenKind::Punct(b';')) || lexer.is_word(next, "USING");
    let text = match literal.kind {
        TokenKind::String if alone => unescape(lexer, literal).map_or(InnerText::Unseen, InnerText::Literal),
        _ => InnerText::Unseen,
    };
    Ok(Statement::Inner { text, runs })
}

/// A string's content; `None` where the character set may read it otherwise.
fn unescape(lexer: &Lexer<'_>, token: Token) -> Option<Vec<u8>> {
    let bytes = token.span.of(lexer.text());
    let (&quote, inner) = bytes.split_first()?;
    let (_, inner) = inner.split_last()?;
    if !inner.is_ascii() && !super::charset::skips_bytewise(lexer.dialect().charset) {
        return None;
    }
    let escapes = !lexer.dialect().sql_mode.contains(super::dialect::SqlMode::NO_BACKSLASH_ESCAPES);
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' if escapes => match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 0x08,
                b'0' => 0,
                b'Z' => 0x1A,
                other => other,
            },
            _ if byte == quote => {
                bytes.next();
                quote
            }
            _ => byte,
        });
    }
    Some(out)
}

fn load(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    if lexer.eat_word("INDEX")? {
        return Ok(Statement::Harmless);
    }
    loop {
        let token = lexer.next()?;
        if matches!(token.kind, TokenKind::End | TokenKind::Punct(b';')) {
            return Ok(Statement::Load(None));
        }
        if lexer.is_word(token, "INTO") && lexer.eat_word("TABLE")? {
            let first = lexer.next()?;
            return Ok(Statement::Load(name::path(lexer, first)?.filter(|path| !path.deep)));
        }
    }
}
