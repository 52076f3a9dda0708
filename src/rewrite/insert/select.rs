//! What of an INSERT ... SELECT can be kept, from its text and the table's columns.

use crate::rewrite::insert::{Context, Planning, refused, unreadable};
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::select::{
    HiddenDigits, ROWS_BELIEVED_MAX, ROWS_GUESSED, ROWS_GUESSED_ONCE, SelectPlan,
};
use crate::rewrite::plan::{InsertPlan, NewRows, Protocol};
use crate::rules::model::InsertId;
use crate::sql::dialect::{ClientCharset, ServerKind, SqlMode};
use crate::sql::insert::body::AssignsId;
use crate::sql::insert::{Columns, Query, RowsMax};
use crate::sql::lex::{Lexer, Token};
use crate::sql::name;

/// Behind the query's first token, to behind the statement; whether a `;` ended it.
pub(in crate::rewrite) fn plan(
    lexer: &mut Lexer<'_>,
    context: &Context<'_>,
    columns: &Columns,
    id_place: Option<u32>,
    first: Token,
) -> Planning<(InsertPlan, bool)> {
    let column = context.target.id_column();
    let Some(query) = Query::read(lexer, first, column, context.table)? else {
        return unreadable("what follows its table");
    };
    if query.all_params > 0 && context.protocol == Protocol::Text {
        return unreadable("a placeholder outside of a prepared statement");
    }
    check_text(lexer, context, &query)?;
    check_updates(lexer, context, &query)?;
    let may_skip = context.head.ignore || query.tail.odku.is_some();
    let returning = query.tail.returning;
    if let Some(traits) = returning {
        let shows = traits.loud || traits.reads_last_id || traits.sets_last_id;
        if may_skip || shows || id_place.is_some() || context.target.rule.insert_id == InsertId::Packet {
            return refused(
                "RETURNING of an INSERT ... SELECT with IGNORE, ON DUPLICATE KEY UPDATE, functions or the id among its \
                 columns; leave the id out, and RETURNING plain columns",
            );
        }
    }
    let (list, count) = listed(context, columns, id_place, query.span.start)?;
    if id_place.is_some() {
        context.check_integer_id()?;
    }
    let (block, may_overrun) = match query.rows_max {
        RowsMax::One => (1, false),
        RowsMax::AtMost(n) if n <= ROWS_BELIEVED_MAX => (u32::try_from(n.max(1)).unwrap_or(1), false),
        _ if query.is_repeatable => (ROWS_GUESSED, true),
        _ => (ROWS_GUESSED_ONCE, true),
    };
    let is_mariadb = context.dialect.is_mariadb();
    let select = SelectPlan {
        list,
        start: query.span.start,
        end: query.span.end,
        limit_at: query.limit_at,
        columns: count,
        id_place,
        zero_is_value: context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
        block,
        may_overrun,
        is_repeatable: query.is_repeatable,
        hidden_digits: hidden_digits(&query, is_mariadb),
        is_listed: matches!(columns, Columns::Listed { .. }),
        names: query.names.iter().filter_map(|&token| decoded(lexer, context, token)).collect(),
        returns_rows: returning.is_some(),
        query_params: query.params,
    };
    let insert = InsertPlan {
        statement: context.statement,
        target: context.target.clone(),
        ids: 0,
        rows: 0,
        explicit: Vec::new(),
        style: if returning.is_some() { Style::Wrapped } else { Style::Literal },
        new_rows: match (&query.tail.odku, context.head.ignore) {
            (Some(_), _) => NewRows::SomeUpdated,
            (None, true) => NewRows::SomeIgnored,
            (None, false) => NewRows::All,
        },
        sets_last_id: false,
        one_set_only: None,
        first_variable: None,
        is_named: false,
        strict_meant: None,
        zero_meant: id_place.map(|_| select.zero_is_value),
        returning: returning.is_some(),
        select: Some(Box::new(select)),
        edits: Vec::new(),
        params: query.all_params,
        id_params: Vec::new(),
    };
    Ok((insert, query.semicolon))
}

fn decoded(lexer: &Lexer<'_>, context: &Context<'_>, token: Token) -> Option<String> {
    name::decode(lexer.text(), token, context.dialect.charset).map(std::borrow::Cow::into_owned)
}

/// MySQL keeps the further digits of AVG, MariaDB those of divisions too (measured on 9.7 and
/// 10.11).
fn hidden_digits(query: &Query, is_mariadb: bool) -> HiddenDigits {
    let hidden = query.inexact.iter().filter(|inexact| is_mariadb || inexact.is_average);
    let mut at = Vec::new();
    for inexact in hidden {
        match inexact.column {
            Some(column) if !query.selects_star => at.push(column),
            _ => return HiddenDigits::Anywhere,
        }
    }
    if at.is_empty() { HiddenDigits::Nowhere } else { HiddenDigits::At(at) }
}

/// A text of ours, and where it goes.
type Added = (u32, Box<str>);

/// What goes into the statement's column list, and how many columns the query has.
fn listed(
    context: &Context<'_>,
    columns: &Columns,
    id_place: Option<u32>,
    start: u32,
) -> Planning<(Option<Added>, u32)> {
    let id = context.target.id_column();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (list, count) = match columns {
        Columns::Listed { names, .. } if names.is_empty() => {
            return unreadable("an empty list in front of a query");
        }
        Columns::Listed { open, names, .. } => {
            let added = id_place.is_none().then(|| (open + 1, format!("{},", name::quoted(id))));
            (added, count(names.len()))
        }
        Columns::Unlisted => {
            let Some(visible) = context.visible_columns() else {
                return refused(
                    "an INSERT without a column list needs the table's columns; name them in the INSERT, or give Rowstamp an \
                     account under [backend.control]",
                );
            };
            let names: Vec<_> = visible.map(name::quoted).collect();
            // An invisible id is not among them.
            let added = id_place.is_none().then(|| name::quoted(id));
            let all: Vec<_> = added.into_iter().chain(names.iter().cloned()).collect();
            (Some((start, format!("({}) ", all.join(",")))), count(names.len()))
        }
    };
    if context.dialect.charset != ClientCharset::Utf8
        && list.as_ref().is_some_and(|(_, names)| !names.is_ascii())
    {
        return refused(
            "a column's name would have to be written in this character set; connect with utf8mb4",
        );
    }
    Ok((list.map(|(at, names)| (at, names.into_boxed_str())), count))
}

fn check_text(lexer: &Lexer<'_>, context: &Context<'_>, query: &Query) -> Planning<()> {
    if query.has_into {
        // The server's own error, but for MySQL, which takes some.
        return unreadable("INTO in its query");
    }
    if let Some(why) = query.unfit {
        return refused(why);
    }
    if query.sets_last_id {
        return refused("the statement sets LAST_INSERT_ID(x) itself; set it in a statement of its own");
    }
    let hinted = lexer.hint().is_some() && context.dialect.server.kind == ServerKind::MySql;
    let text = query.span.of(lexer.text()).to_ascii_uppercase();
    if hinted && memchr::memmem::find(&text, b"SET_VAR").is_some() {
        return refused(
            "the query's optimizer hint may set variables for this statement; write it after INSERT",
        );
    }
    if query.tail.alias.is_some() {
        return unreadable("a row alias after a query");
    }
    Ok(())
}

/// ON DUPLICATE KEY UPDATE no longer sees the query's tables.
fn check_updates(lexer: &Lexer<'_>, context: &Context<'_>, query: &Query) -> Planning<()> {
    let Some(odku) = query.tail.odku else { return Ok(()) };
    let known = |token: &Token| {
        let name = name::decode(lexer.text(), *token, context.dialect.charset);
        name.is_some_and(|name| context.has_column(&name))
    };
    if query.names_source || !query.bare_names.iter().all(known) {
        return refused(
            "ON DUPLICATE KEY UPDATE may name the query's tables, which it cannot see here; write VALUES(column), or the \
             table's own columns",
        );
    }
    if odku.assigns_id != AssignsId::No || odku.traits.sets_last_id {
        return refused(
            "ON DUPLICATE KEY UPDATE of several rows that assigns the id, or LAST_INSERT_ID(expr); leave that out",
        );
    }
    Ok(())
}
