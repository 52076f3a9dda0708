//! CREATE, ALTER, DROP, RENAME, TRUNCATE: which names of tables they make, rename and drop.

use crate::sql::lex::{Lexer, Odd, Token};
use crate::sql::name::{self, Path};
use crate::sql::statement::Statement;

/// The change of a table or view by DDL. A view that is altered counts as created.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum TableChange {
    CreatedTemporary(Path),
    DroppedTemporary(Path),
    CreatedView(Path),
    Dropped(Path),
    Renamed { from: Path, to: Path },
}

/// The lexer stands after `first`, the statement's first word.
pub(in crate::sql) fn read(lexer: &mut Lexer<'_>, first: Token) -> Result<Statement, Odd> {
    let mut tables = Vec::new();
    if lexer.is_word(first, "CREATE") {
        return create(lexer);
    }
    if lexer.is_word(first, "ALTER") {
        return alter(lexer);
    }
    let is_drop = lexer.is_word(first, "DROP");
    let is_temporary = is_drop && lexer.eat_word("TEMPORARY")?;
    let names_tables = (is_drop || lexer.is_word(first, "RENAME"))
        && (lexer.eat_word("TABLE")? || lexer.eat_word("TABLES")? || lexer.eat_word("SEQUENCE")?);
    if !names_tables {
        return Ok(Statement::Ddl(tables));
    }
    skip_if_exists(lexer)?;
    if is_drop {
        let dropped = if is_temporary { TableChange::DroppedTemporary } else { TableChange::Dropped };
        while let Some(path) = table(lexer)? {
            tables.push(dropped(path));
            if !lexer.eat_punct(b',')? {
                break;
            }
        }
    } else {
        while let Some(from) = table(lexer)? {
            if !lexer.eat_word("TO")? {
                break;
            }
            let Some(to) = table(lexer)? else { break };
            tables.push(TableChange::Renamed { from, to });
            if !lexer.eat_punct(b',')? {
                break;
            }
        }
    }
    Ok(Statement::Ddl(tables))
}

fn table(lexer: &mut Lexer<'_>) -> Result<Option<Path>, Odd> {
    let first = lexer.next()?;
    name::table(lexer, first)
}

/// IF EXISTS, IF NOT EXISTS
fn skip_if_exists(lexer: &mut Lexer<'_>) -> Result<(), Odd> {
    if lexer.eat_word("IF")? {
        lexer.eat_word("NOT")?;
        lexer.eat_word("EXISTS")?;
    }
    Ok(())
}

/// The most words that may stand in front of the kind of object: `OR REPLACE DEFINER = 'a' @ 'b' SQL SECURITY ...`.
const WORDS_MAX: usize = 20;

fn create(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    let mut temporary = false;
    for _ in 0..WORDS_MAX {
        let token = lexer.next()?;
        let is = |words: &[&str]| lexer.is_any_word(token, words);
        if is(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"]) {
            return Ok(Statement::Routine);
        }
        temporary |= is(&["TEMPORARY"]);
        // MariaDB's SEQUENCE, which may be temporary too, is in the tables' names.
        if is(&["TABLE", "SEQUENCE"]) {
            skip_if_exists(lexer)?;
            let made = table(lexer)?.filter(|_| temporary).map(TableChange::CreatedTemporary);
            return Ok(Statement::Ddl(made.into_iter().collect()));
        }
        if is(&["VIEW"]) {
            return view(lexer);
        }
        if is(&["INDEX", "DATABASE", "SCHEMA", "USER", "ROLE", "SERVER", "TABLESPACE"])
            || token.ends_statement()
        {
            break;
        }
    }
    Ok(Statement::Ddl(Vec::new()))
}

/// The lexer stands after VIEW.
fn view(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    skip_if_exists(lexer)?;
    Ok(Statement::Ddl(table(lexer)?.map(TableChange::CreatedView).into_iter().collect()))
}

fn alter(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    let mut tables = Vec::new();
    for _ in 0..WORDS_MAX {
        let token = lexer.next()?;
        if lexer.is_word(token, "EVENT") {
            return Ok(Statement::Routine);
        }
        if lexer.is_word(token, "VIEW") {
            return view(lexer);
        }
        if lexer.is_word(token, "TABLE") {
            skip_if_exists(lexer)?;
            if let Some(from) = table(lexer)? {
                renames(lexer, from, &mut tables)?;
            }
            break;
        }
        if token.ends_statement() {
            break;
        }
    }
    Ok(Statement::Ddl(tables))
}

/// `RENAME [TO | AS | =] name` among an ALTER TABLE's actions; RENAME COLUMN, INDEX and KEY name no
/// table.
fn renames(lexer: &mut Lexer<'_>, from: Path, tables: &mut Vec<TableChange>) -> Result<(), Odd> {
    loop {
        let token = lexer.next()?;
        if token.ends_statement() {
            return Ok(());
        }
        if !lexer.is_word(token, "RENAME") {
            continue;
        }
        if lexer.is_any_word(lexer.peek()?, &["COLUMN", "INDEX", "KEY"]) {
            continue;
        }
        if !(lexer.eat_word("TO")? || lexer.eat_word("AS")?) {
            lexer.eat_punct(b'=')?;
        }
        if let Some(to) = table(lexer)? {
            tables.push(TableChange::Renamed { from, to });
        }
        return Ok(());
    }
}
