//! Finds statements that may give rows other ids: an UPDATE that assigns the id's column, and MariaDB's FOR PORTION
//! OF, which makes rows of the rest of a period.

use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name;

/// The names of what is filled with ids, in any schema.
pub trait IdNames: Sync {
    fn has_column(&self, name: &str) -> bool;
    /// True if a view has this name. Its columns may have other names than the table's.
    fn has_view(&self, name: &str) -> bool;
}

/// No column or view is filled with ids.
impl IdNames for () {
    fn has_column(&self, _: &str) -> bool {
        false
    }

    fn has_view(&self, _: &str) -> bool {
        false
    }
}

/// Reads an UPDATE or a DELETE, perhaps after WITH, which the lexer stands before. True if it may give rows other ids.
/// `None`: the text ends before it shows.
pub fn moves_ids(lexer: &mut Lexer<'_>, ids: &(impl IdNames + ?Sized)) -> Result<Option<bool>, Odd> {
    let charset = lexer.dialect().charset;
    let mut before = lexer.next()?;
    let mut is_update = lexer.is_word(before, "UPDATE");
    loop {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::End | TokenKind::Punct(b';') => return Ok(None),
            TokenKind::Punct(b'(') if !skip_parentheses(lexer)? => return Ok(None),
            TokenKind::Word if lexer.is_word(token, "PORTION") && lexer.is_word(before, "FOR") => {
                return Ok(Some(true));
            }
            TokenKind::Word if is_update && lexer.is_word(token, "SET") => return assigns_id(lexer, ids),
            // A SELECT after WITH; the end of a DELETE's tables.
            TokenKind::Word if !is_update && lexer.is_any_word(token, &["SELECT", "WHERE", "TABLE"]) => {
                return Ok(Some(false));
            }
            TokenKind::Word if !is_update && lexer.is_word(token, "UPDATE") => is_update = true,
            TokenKind::Word | TokenKind::QuotedName
                if is_update
                    && name::decode(lexer.text(), token, charset).is_none_or(|name| ids.has_view(&name)) =>
            {
                return Ok(Some(true));
            }
            _ => {}
        }
        before = token;
    }
}

/// The lexer stands after SET.
fn assigns_id(lexer: &mut Lexer<'_>, ids: &(impl IdNames + ?Sized)) -> Result<Option<bool>, Odd> {
    let charset = lexer.dialect().charset;
    loop {
        let first = lexer.next()?;
        let Some(path) = name::path(lexer, first)? else { return Ok(ended(first)) };
        let assignment = lexer.next()?;
        if !assignment.is_assignment() {
            return Ok(ended(assignment));
        }
        let column = name::decode(lexer.text(), path.last, charset);
        let is_id = column.as_deref().is_none_or(|column| ids.has_column(column));
        let first = lexer.peek()?;
        let (tokens, end) = skip_value(lexer)?;
        let is_itself = tokens == 1
            && column.is_some_and(|column| {
                name::names_column(lexer.text(), first, charset, &column) == Some(true)
            });
        match end.kind {
            TokenKind::End => return Ok((is_id && !is_itself && tokens > 0).then_some(true)),
            _ if is_id && !is_itself => return Ok(Some(true)),
            TokenKind::Punct(b',') => {}
            _ => return Ok(Some(false)),
        }
    }
}

/// The answer for a token that is no part of an assignment: `false`. `None`: the text has ended.
fn ended(token: Token) -> Option<bool> {
    (token.kind != TokenKind::End).then_some(false)
}

/// Reads a value; how many tokens it has, and the one that ends it.
fn skip_value(lexer: &mut Lexer<'_>) -> Result<(usize, Token), Odd> {
    let (mut tokens, mut after_dot) = (0, false);
    loop {
        let token = lexer.next()?;
        // After a dot these words are names. MariaDB has RETURNING; on MySQL it is a name.
        let is_end = token.ends_statement()
            || token.is_punct(b',')
            || !after_dot && lexer.is_any_word(token, &["WHERE", "ORDER", "LIMIT"])
            || !after_dot && lexer.dialect().is_mariadb() && lexer.is_word(token, "RETURNING");
        if is_end {
            return Ok((tokens, token));
        }
        tokens += 1;
        after_dot = token.is_punct(b'.');
        if token.is_punct(b'(') {
            skip_parentheses(lexer)?;
        }
    }
}

/// After an opening parenthesis; whether there is its closing one.
fn skip_parentheses(lexer: &mut Lexer<'_>) -> Result<bool, Odd> {
    let mut depth = 1u32;
    while depth > 0 {
        match lexer.next()?.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth -= 1,
            TokenKind::End => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{IdNames, moves_ids};
    use crate::sql::dialect::Dialect;
    use crate::sql::lex::Lexer;

    struct Names;

    impl IdNames for Names {
        fn has_column(&self, name: &str) -> bool {
            name.eq_ignore_ascii_case("id")
        }

        fn has_view(&self, name: &str) -> bool {
            name == "v"
        }
    }

    #[test]
    fn what_gives_rows_other_ids() {
        for (text, expect) in [
            ("UPDATE t SET v='a', id=7 WHERE id=1", Some(true)),
            ("UPDATE t SET t.`ID` := id + 1 ORDER BY id DESC", Some(true)),
            (
                "UPDATE a JOIN (SELECT 1 AS id) b ON a.id=b.id SET a.v=(SELECT id FROM b WHERE id=1), s.a.id = 3",
                Some(true),
            ),
            ("UPDATE LOW_PRIORITY IGNORE a, w SET w.id = a.id", Some(true)),
            ("UPDATE `v` SET number = 3", Some(true)),
            ("UPDATE t JOIN s.v ON t.id = number SET t.k = 3", Some(true)),
            ("WITH c AS (SELECT 1) UPDATE t, c SET id = 5", Some(true)),
            ("UPDATE t FOR PORTION OF p FROM '2020-01-01' TO '2021-01-01' SET v = 1", Some(true)),
            ("DELETE FROM t FOR PORTION OF p FROM '2020-01-01' TO '2021-01-01'", Some(true)),
            ("UPDATE t SET v='id', w = id = 3 WHERE id=1", Some(false)),
            ("UPDATE t SET v=IF(id=3, 1, 2), id=id LIMIT 1", Some(false)),
            ("UPDATE t SET n = t.order, id = 7 WHERE v = 1", Some(true)),
            ("UPDATE t SET v=1 WHERE id=7", Some(false)),
            ("UPDATE t JOIN a ON t.id = a.id SET v=v ORDER BY id", Some(false)),
            ("DELETE FROM t WHERE id=7", Some(false)),
            ("WITH c AS (SELECT 1) SELECT id FROM c", Some(false)),
            // All of a text: no.
            ("UPDATE t SET v=1", None),
            ("DELETE t", None),
            // The beginning of one.
            ("UPDATE t SET v=(1", None),
            ("UPDATE t SET id", None),
            ("UPDATE t SET id =", None),
            ("UPDATE t SET id = i", Some(true)),
            ("UPDATE", None),
        ] {
            let mut lexer = Lexer::new(text.as_bytes(), Dialect::MARIADB).unwrap();
            let moves = moves_ids(&mut lexer, &Names).unwrap();
            assert_eq!(moves, expect, "{text}");
        }
    }
}
