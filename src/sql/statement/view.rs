//! A view's definition as information_schema writes it: every name between backticks, `*` spelled
//! out.

use crate::table_name::TableName;

/// A view of one table or view; anything else may be insertable too, and is not followed.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    /// The table or view that it selects from.
    pub from: TableName,
    /// For each of its columns the column that it shows; `None`: an expression.
    pub columns: Vec<Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Name(String),
    Word(&'a str),
    Other(char),
}

impl Definition {
    /// `select <columns> from <table> [alias] [where ... | order by ...]`
    pub fn parse(text: &str) -> Option<Definition> {
        let tokens = tokens(text)?;
        let (Token::Word("select"), mut rest) = tokens.split_first()? else { return None };
        let mut columns = Vec::new();
        loop {
            let end = item_end(rest)?;
            let (item, tail) = rest.split_at_checked(end)?;
            columns.push(column_behind(item));
            let (ends_with, tail) = tail.split_first()?;
            rest = tail;
            if *ends_with != Token::Other(',') {
                break;
            }
        }
        let [Token::Name(schema), Token::Other('.'), Token::Name(table), tail @ ..] = rest else {
            return None;
        };
        let tail = match tail {
            [Token::Name(_alias), tail @ ..] => tail,
            tail => tail,
        };
        let is_one = matches!(tail.first(), None | Some(Token::Word("where" | "order")));
        is_one.then(|| Definition { from: TableName::new(schema, table), columns })
    }
}

/// The end of an item of the select list: its comma, or FROM.
fn item_end(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    tokens.iter().position(|token| {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(token, Token::Other(',') | Token::Word("from"))
    })
}

/// `` `a`.`b`.`column` AS `name` ``, with one to three names.
fn column_behind(item: &[Token<'_>]) -> Option<String> {
    let [path @ .., Token::Word("AS" | "as"), Token::Name(_)] = item else { return None };
    let is_path = path.len() <= 5
        && path.iter().enumerate().all(|(nth, token)| match token {
            Token::Name(_) => nth % 2 == 0,
            token => nth % 2 == 1 && *token == Token::Other('.'),
        });
    match path.last() {
        Some(Token::Name(column)) if is_path => Some(column.clone()),
        _ => None,
    }
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if matches!(first, '`' | '\'' | '"') {
            let (name, tail) = quoted(rest)?;
            tokens.push(if first == '`' { Token::Name(name) } else { Token::Other(first) });
            rest = tail;
            continue;
        }
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word);
        if word.is_empty() {
            if !first.is_whitespace() {
                tokens.push(Token::Other(first));
            }
            rest = rest.get(first.len_utf8()..)?;
        } else {
            tokens.push(Token::Word(word));
            rest = tail;
        }
    }
    Some(tokens)
}

/// Every `` `a`.`b` `` of a definition; a column's `` `a`.`b`.`c` `` counts twice.
pub fn names_in(definition: &str) -> Vec<TableName> {
    let tokens = tokens(definition).unwrap_or_default();
    let pair = |three: &[Token<'_>]| match three {
        [Token::Name(a), Token::Other('.'), Token::Name(b)] => Some(TableName::new(a, b)),
        _ => None,
    };
    tokens.windows(3).filter_map(pair).collect()
}

/// The text between the quotes that `text` begins with, and the text after them.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(_)) if quote != '`' => {
                chars.next();
            }
            (c, Some(&(_, next))) if c == quote && next == quote => {
                chars.next();
                name.push(c);
            }
            (c, _) if c == quote => return Some((name, text.get(at + 1..).unwrap_or_default())),
            (c, _) => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Definition, names_in};

    #[track_caller]
    fn check_names(definition: &str, expect: &[(&str, &str)]) {
        let names = names_in(definition);
        let names: Vec<(&str, &str)> =
            names.iter().map(|name| (name.schema.as_str(), name.table.as_str())).collect();
        assert_eq!(names, expect, "{definition}");
    }

    #[test]
    fn names_of_a_definition() {
        check_names(
            "select `shop`.`orders`.`id` AS `id` from `shop`.`orders`",
            &[("shop", "orders"), ("orders", "id"), ("shop", "orders")],
        );
        check_names("select 1 AS `a`,'`x`.`y`' AS `b` from `s`.`t``1`", &[("s", "t`1")]);
        check_names("select 'it\\'s `a`.`b`' AS `c`", &[]);
        check_names("select `a` `b`", &[]);
        check_names("select `open", &[]);
    }

    /// `schema.table: columns`, expressions as `-`; empty: not followed.
    #[track_caller]
    fn check(definition: &str, expect: &str) {
        let shown = Definition::parse(definition).map(|view| {
            let columns = view.columns.iter().map(|c| c.as_deref().unwrap_or("-")).collect::<Vec<_>>();
            format!("{}: {}", view.from, columns.join(" "))
        });
        assert_eq!(shown.unwrap_or_default(), expect, "{definition}");
    }

    #[test]
    fn definitions_of_both_servers() {
        check("select `s`.`t`.`id` AS `id`,`s`.`t`.`a` AS `x` from `s`.`t`", "s.t: id a");
        check("select `w2`.`x` AS `x` from `s`.`w2` where `w2`.`x` > 0", "s.w2: x");
        check("select `q`.`id` AS `id` from `s`.`t` `q` order by `q`.`a`", "s.t: id");
        check("select (`s`.`t`.`a` + 1) AS `a1`,`s`.`t`.`id` AS `id` from `s`.`t`", "s.t: - id");
        check("select `s`.`t`.`a` + 1 AS `a1` from `s`.`t`", "s.t: -");
        check("select concat(`a`.`b`,',from ',`c`) AS `x`,`s`.`t`.`id` AS `id` from `s`.`t`", "s.t: - id");
        check("select `s`.`t`.`i``d` AS `o``dd`,7 AS `,` from `s`.`t``t`", "s.t`t: i`d -");
        check("select (select `c`.`p` AS `p` from `s`.`c`) AS `x` from `s`.`t`", "s.t: -");
    }

    #[test]
    fn what_is_not_followed() {
        check("select `s`.`t`.`id` AS `id` from (`s`.`t` join `s`.`c`)", "");
        check("select `s`.`t`.`id` AS `id` from `s`.`t`,`s`.`c`", "");
        check("select `x`.`id` AS `id` from (select `s`.`t`.`id` AS `id` from `s`.`t`) `x`", "");
        check("select `s`.`t`.`id` AS `id` from `s`.`t` union select 1", "");
        check("with `c` as (select 1) select `c`.`id` AS `id` from `c`", "");
        check("select `open", "");
        check("", "");
    }
}
