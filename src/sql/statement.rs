//! The kind of a statement, by its first words.

pub mod ddl;
pub mod dynamic;
pub mod for_statement;
pub mod moves;
pub mod set;
pub mod view;

use self::ddl::TableChange;
use self::dynamic::Dynamic;
use self::for_statement::ForStatement;
use self::set::Settings;
use super::insert::Verb;
use super::lex::{Lexer, Odd, Token, TokenKind};
use super::name::{self, Path};

/// A statement, as far as ids and the reading of what follows depend on it.
#[derive(Debug, PartialEq)]
pub enum Statement {
    /// Nothing but blanks and comments.
    Empty,
    /// The lexer stands after the verb.
    Insert(Verb),
    /// Changes nothing that matters here: SELECT, UPDATE, COMMIT, SHOW, ...
    Harmless,
    /// `None`: a name that cannot be read.
    Use(Option<String>),
    Set(Settings),
    /// A schema changes; the names that it makes, renames and drops.
    Ddl(Vec<TableChange>),
    /// CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT: a body may follow whose `;` do not end the
    /// statement.
    Routine,
    /// CALL: runs what the text does not show.
    Opaque,
    /// PREPARE, EXECUTE and their like: the text stands elsewhere.
    Dynamic(Dynamic),
    /// MariaDB's ANALYZE, which runs a statement and answers with its plan: the lexer stands before
    /// that statement.
    Analyze,
    /// EXPLAIN and DESCRIBE, which show an INSERT and do not run it (MySQL's `EXPLAIN ANALYZE
    /// INSERT` neither, MariaDB has none): the lexer stands before it.
    Explain,
    /// MariaDB's SET STATEMENT ... FOR: the lexer stands before the statement that runs.
    For(ForStatement),
    /// LOAD DATA, LOAD XML; `None`: the table's name was not found.
    Load(Option<Path>),
    /// BEGIN NOT ATOMIC, IF, LOOP, ...: statements within.
    Compound,
    /// No statement that we know.
    Unknown,
}

const HARMLESS: &[&str] = keywords!(
    SELECT UPDATE DELETE COMMIT ROLLBACK SHOW START WITH DO SAVEPOINT RELEASE VALUES TABLE KILL
    FLUSH RESET LOCK UNLOCK CHECK OPTIMIZE REPAIR CHECKSUM HELP GRANT REVOKE XA PURGE CHANGE STOP
    BINLOG INSTALL UNINSTALL CACHE HANDLER SIGNAL RESIGNAL GET SHUTDOWN RESTART CLONE IMPORT BACKUP
);
const COMPOUND: &[&str] = &["IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR", "DECLARE"];

/// Reads the statement's first words. The lexer ends up after them, never after a `;`.
pub fn classify(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    let before = lexer.clone();
    let first = lexer.next()?;
    if first.ends_statement() {
        *lexer = before;
        return Ok(Statement::Empty);
    }
    if first.is_punct(b'(') {
        return Ok(Statement::Harmless);
    }
    let is = |words: &[&str]| lexer.is_any_word(first, words);
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
    if is(&["PREPARE", "EXECUTE", "DEALLOCATE", "DROP"]) {
        let mut within = ahead.clone();
        match dynamic::read(&mut within, first)? {
            Some(dynamic) => return Ok(Statement::Dynamic(dynamic)),
            None if is(&["DROP"]) => {}
            None => return Ok(Statement::Unknown),
        }
    }
    if is(&["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"]) {
        return ddl::read(&mut ahead, first);
    }
    if is(&["BEGIN"]) {
        let next = ahead.next()?;
        let is_transaction = next.ends_statement() || lexer.is_word(next, "WORK");
        return Ok(if is_transaction { Statement::Harmless } else { Statement::Compound });
    }
    if is(COMPOUND) || ahead.peek()?.is_punct(b':') {
        return Ok(Statement::Compound);
    }
    if is(&["ANALYZE"]) {
        return analyze(lexer);
    }
    if is(&["EXPLAIN", "DESCRIBE", "DESC"]) {
        return explain(lexer);
    }
    if is(&["CALL"]) {
        return Ok(Statement::Opaque);
    }
    if is(&["LOAD"]) {
        return load(&mut lexer.clone());
    }
    Ok(Statement::Unknown)
}

/// MariaDB's `ANALYZE [FORMAT=JSON] statement` runs it; `ANALYZE TABLE` does not.
fn analyze(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    if !lexer.dialect().is_mariadb() {
        return Ok(Statement::Harmless);
    }
    format(lexer)?;
    for word in ["LOCAL", "NO_WRITE_TO_BINLOG"] {
        lexer.eat_word(word)?;
    }
    Ok(Statement::Analyze)
}

/// `EXPLAIN [EXTENDED | PARTITIONS | ALL | ANALYZE] [FORMAT=JSON] statement`, or of a table.
fn explain(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    for word in ["EXTENDED", "PARTITIONS", "ALL", "ANALYZE"] {
        lexer.eat_word(word)?;
    }
    format(lexer)?;
    Ok(Statement::Explain)
}

fn format(lexer: &mut Lexer<'_>) -> Result<(), Odd> {
    if lexer.eat_word("FORMAT")? && lexer.eat_punct(b'=')? && name::is_name(lexer.peek()?) {
        lexer.next()?;
    }
    Ok(())
}

fn load(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    if lexer.eat_word("INDEX")? {
        return Ok(Statement::Harmless);
    }
    loop {
        let token = lexer.next()?;
        if token.ends_statement() {
            return Ok(Statement::Load(None));
        }
        if lexer.is_word(token, "INTO") && lexer.eat_word("TABLE")? {
            let first = lexer.next()?;
            return Ok(Statement::Load(name::table(lexer, first)?));
        }
    }
}

/// Moves after the `;` that ends a CREATE PROCEDURE or its like, or to the end; says whether there was one. The `;` within
/// its body do not end it. `None`: the blocks do not close, so nothing is known about where it ends.
pub fn skip_routine(lexer: &mut Lexer<'_>) -> Result<Option<bool>, Odd> {
    let mut depth = 0u32;
    let mut starts = false;
    let mut last: Option<Token> = None;
    loop {
        let token = lexer.next()?;
        let text = lexer.text();
        let is = |words: &[&str]| words.iter().any(|word| token.is_word(text, word));
        let is_name_part = last.is_some_and(|t| t.is_punct(b'.') || t.is_punct(b'@'));
        let mut starts_next = false;
        match token.kind {
            TokenKind::End => return Ok((depth == 0).then_some(false)),
            TokenKind::Punct(b';') if depth == 0 => return Ok(Some(true)),
            TokenKind::Punct(b';' | b':') => starts_next = true,
            TokenKind::Word if !is_name_part => {
                if is(&["END"]) {
                    let Some(less) = depth.checked_sub(1) else { return Ok(None) };
                    depth = less;
                    end_of(lexer)?;
                } else if is(&["THEN"]) && depth == 0 {
                    // A body that is a single IF.
                    depth = 1;
                } else if is(&["BEGIN", "CASE"]) || (starts || depth == 0) && is(&["LOOP", "WHILE"]) {
                    depth += 1;
                } else if starts && is(&["IF", "FOR", "REPEAT"]) {
                    let calls = is(&["REPEAT"]) && lexer.peek()?.is_punct(b'(');
                    depth += u32::from(!calls);
                }
                starts_next = is(&["BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC"]);
            }
            _ => {}
        }
        starts = starts_next;
        last = Some(token);
    }
}

/// After END: the word that names the block.
fn end_of(lexer: &mut Lexer<'_>) -> Result<(), Odd> {
    let next = lexer.peek()?;
    let names_block =
        ["IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR"].iter().any(|word| lexer.is_word(next, word));
    if name::is_name(next) && names_block {
        lexer.next()?;
    }
    Ok(())
}
