//! CREATE, ALTER, DROP, RENAME, TRUNCATE: which names of tables they make, rename and drop.

use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name::{self, Path};
use crate::sql::statement::Statement;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum TableChange {
    CreatedTemporary(Path),
    DroppedTemporary(Path),
    /// Or altered.
    CreatedView(Path),
    Dropped(Path),
    Renamed {
        from: Path,
        to: Path,
    },
}

pub type Tables = Vec<TableChange>;

/// Behind the first word.
pub(in crate::sql) fn read(lexer: &mut Lexer<'_>, first: Token) -> Result<Statement, Odd> {
    let mut tables = Vec::new();
    if lexer.is_word(first, "CREATE") {
        return create(lexer);
    }
    if lexer.is_word(first, "ALTER") {
        return alter(lexer);
    }
    if lexer.is_word(first, "DROP") {
        let temporary = lexer.eat_word("TEMPORARY")?;
        if lexer.eat_word("TABLE")? || lexer.eat_word("TABLES")? {
            if lexer.eat_word("IF")? {
                lexer.eat_word("EXISTS")?;
            }
            while let Some(path) = table(lexer)? {
                tables.push(if temporary {
                    TableChange::DroppedTemporary(path)
                } else {
                    TableChange::Dropped(path)
                });
                if !lexer.eat_punct(b',')? {
                    break;
                }
            }
        }
    } else if lexer.is_word(first, "RENAME") && (lexer.eat_word("TABLE")? || lexer.eat_word("TABLES")?) {
        if lexer.eat_word("IF")? {
            lexer.eat_word("EXISTS")?;
        }
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
    Ok(name::path(lexer, first)?.filter(|path| !path.deep))
}

/// How many words may stand in front of the kind of object: `OR REPLACE DEFINER = 'a' @ 'b' SQL SECURITY ...`.
const WORDS_MAX: usize = 20;

fn create(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    let mut temporary = false;
    for _ in 0..WORDS_MAX {
        let token = lexer.next()?;
        let is = |words: &[&str]| words.iter().any(|word| lexer.is_word(token, word));
        if is(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"]) {
            return Ok(Statement::Routine);
        }
        temporary |= is(&["TEMPORARY"]);
        if is(&["TABLE"]) {
            if lexer.eat_word("IF")? {
                lexer.eat_word("NOT")?;
                lexer.eat_word("EXISTS")?;
            }
            let made = table(lexer)?.filter(|_| temporary).map(TableChange::CreatedTemporary);
            return Ok(Statement::Ddl(made.into_iter().collect()));
        }
        if is(&["VIEW"]) {
            return view(lexer);
        }
        if is(&["INDEX", "DATABASE", "SCHEMA", "USER", "ROLE", "SERVER", "SEQUENCE", "TABLESPACE"])
            || matches!(token.kind, TokenKind::End | TokenKind::Punct(b';'))
        {
            break;
        }
    }
    Ok(Statement::Ddl(Vec::new()))
}

/// Behind VIEW.
fn view(lexer: &mut Lexer<'_>) -> Result<Statement, Odd> {
    if lexer.eat_word("IF")? {
        lexer.eat_word("NOT")?;
        lexer.eat_word("EXISTS")?;
    }
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
            if lexer.eat_word("IF")? {
                lexer.eat_word("EXISTS")?;
            }
            if let Some(from) = table(lexer)? {
                renames(lexer, from, &mut tables)?;
            }
            break;
        }
        if matches!(token.kind, TokenKind::End | TokenKind::Punct(b';')) {
            break;
        }
    }
    Ok(Statement::Ddl(tables))
}

/// `RENAME [TO | AS | =] name` among an ALTER TABLE's actions; RENAME COLUMN, INDEX and KEY name no table.
fn renames(lexer: &mut Lexer<'_>, from: Path, tables: &mut Tables) -> Result<(), Odd> {
    loop {
        let token = lexer.next()?;
        if matches!(token.kind, TokenKind::End | TokenKind::Punct(b';')) {
            return Ok(());
        }
        if !lexer.is_word(token, "RENAME") {
            continue;
        }
        let next = lexer.peek()?;
        if ["COLUMN", "INDEX", "KEY"].iter().any(|word| lexer.is_word(next, word)) {
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
