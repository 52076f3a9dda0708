//! An INSERT ... SELECT, from its text and the table's columns.

use std::borrow::Cow;

use crate::rewrite::insert::{Context, Planning, refused, sources, unreadable};
use crate::rewrite::plan::stage::{self, Column, Filling, Kind, Stage, text};
use crate::rewrite::plan::{InsertPlan, NewRows, Protocol};
use crate::sql::dialect::{ServerKind, SqlMode};
use crate::sql::insert::body::AssignsId;
use crate::sql::insert::{Columns, Query};
use crate::sql::lex::{Lexer, Span, Token, TokenKind};
use crate::sql::name;

/// Plans an INSERT of a query, from after the query's first token to the statement's end. True if a `;` ended it.
pub(in crate::rewrite) fn plan_staged(
    lexer: &mut Lexer<'_>,
    context: &Context<'_>,
    columns: &Columns,
    id_place: Option<u32>,
    first: Token,
) -> Planning<(InsertPlan, bool)> {
    let column = context.target.id_column();
    let Some(query) = Query::read(lexer, first, column, context.table)? else {
        return unreadable("the part after the table's name");
    };
    if query.all_params > 0 && context.protocol == Protocol::Text {
        return unreadable("a placeholder outside of a prepared statement");
    }
    if query.reads.counts {
        return refused("the query reads ROW_COUNT() or FOUND_ROWS(); put the number into a variable first");
    }
    if query.reads.warnings {
        return refused(
            "the query reads @@warning_count or @@error_count; put the number into a variable first",
        );
    }
    if query.counts_rows {
        return refused("the query has SQL_CALC_FOUND_ROWS; count the rows in a separate statement");
    }
    let hinted = lexer.hint().is_some() && context.dialect.server.kind == ServerKind::MySql;
    let text = query.span.of(lexer.text()).to_ascii_uppercase();
    if hinted && memchr::memmem::find(&text, b"SET_VAR").is_some() {
        return refused(
            "the query's optimizer hint may set variables for this statement; write the hint after INSERT",
        );
    }
    if id_place.is_some() {
        context.check_integer_id()?;
    }
    let decoded = names(lexer, context, columns)?;
    let tail = tail(lexer, query.span.end, sources::edits(lexer, context, &query, &decoded)?);
    check_updates(lexer, context, &query, &tail)?;
    let (head, names) = head(lexer, context, columns, &decoded, id_place, query.span.start)?;
    let schema = context.written(&name::quoted(context.target.named().0))?;
    let filled = text!(stage::stage_name(&schema), b" ", stage::list(&names), b" ");
    let table = table_span(context);
    let stage = Stage {
        schema,
        table,
        filling: Filling {
            start: 0,
            edits: vec![(Span { start: table.start, end: query.span.start }, filled.into())],
            end: query.span.end,
        },
        head,
        tail,
        columns: stage_columns(context, names, &decoded)?,
        id_place: id_place.map(|place| place as usize),
        zero_is_value: id_place.is_some()
            && context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
        query_params: query.params,
        has_later_params: query.all_params > query.params,
        kind: Kind::Query,
        named: None,
    };
    check_readable(lexer, &stage)?;
    let new_rows = context.new_rows(&query.tail);
    let insert = InsertPlan {
        sets_last_id: query.tail.odku.is_some_and(|odku| odku.calls_last_id),
        returning: query.tail.returning.is_some(),
        params: query.all_params,
        ..by_stage(context, stage, new_rows)
    };
    Ok((insert, query.semicolon))
}

/// The columns that a query or values are for, all of which are stored.
pub(super) fn stage_columns(
    context: &Context<'_>,
    quoted: Vec<Box<[u8]>>,
    names: &[impl AsRef<str>],
) -> Planning<Vec<Column>> {
    quoted.into_iter().zip(names).map(|(quoted, name)| context.staged(quoted, name.as_ref(), true)).collect()
}

/// A comment that is code, around what is replaced, would be cut in two.
pub(super) fn check_readable(lexer: &Lexer<'_>, stage: &Stage) -> Planning<()> {
    let text = lexer.text();
    for sent in [stage.fill(text), [&*stage.head, b" SELECT 1 ", &*stage.tail.of(text)].concat()] {
        let Some(mut sent) = Lexer::new(&sent, lexer.dialect()) else {
            return refused("the statement has 4 GiB or more; send less at a time");
        };
        while sent.next()?.kind != TokenKind::End {}
    }
    Ok(())
}

/// The table's name, with its schema where one is written.
pub(super) fn table_span(context: &Context<'_>) -> Span {
    let path = context.head.table;
    let start = path.qualifier.map_or(path.last.span.start, |qualifier| qualifier.span.start);
    Span { start, end: path.last.span.end }
}

/// The plan of an INSERT that goes by way of this stage.
pub(super) fn by_stage(context: &Context<'_>, stage: Stage, new_rows: NewRows) -> InsertPlan {
    InsertPlan {
        zero_meant: stage.brings_ids().then_some(stage.zero_is_value),
        new_rows,
        stage: Some(Box::new(stage)),
        ..context.empty_plan()
    }
}

/// The columns that the query has values for.
pub(super) fn names<'a>(
    lexer: &'a Lexer<'_>,
    context: &'a Context<'_>,
    columns: &Columns,
) -> Planning<Vec<Cow<'a, str>>> {
    match columns {
        Columns::Listed { names, .. } if names.is_empty() => {
            unreadable("an empty column list in front of a query")
        }
        Columns::Listed { names, .. } => {
            let decoded = |&token| name::decode(lexer.text(), token, context.dialect.charset);
            let names: Option<Vec<_>> = names.iter().map(decoded).collect();
            names.map_or_else(|| unreadable("the name of a column"), Ok)
        }
        Columns::Unlisted => match context.shape() {
            Some(shape) => Ok(shape.visible().map(|column| Cow::Borrowed(column.name.as_str())).collect()),
            None => refused(
                "the INSERT has no column list, and Rowstamp does not know the table's columns; name the columns in the INSERT, or \
                 give Rowstamp an account under [backend.control]",
            ),
        },
    }
}

/// Names as they are written.
type Quoted = Vec<Box<[u8]>>;

/// The client's text up to its query, with the id added to the column list where it is left out; and
/// the columns, quoted.
fn head(
    lexer: &Lexer<'_>,
    context: &Context<'_>,
    columns: &Columns,
    names: &[Cow<'_, str>],
    id_place: Option<u32>,
    query_start: u32,
) -> Planning<(Box<[u8]>, Quoted)> {
    let (quoted, id) = (context.quoted(names)?, context.left_id(id_place.is_none())?);
    let mut head = Span { start: 0, end: query_start }.of(lexer.text()).to_vec();
    match columns {
        Columns::Listed { open, .. } => {
            let at = *open as usize + 1;
            head.splice(at..at, id.iter().flat_map(|id| [&id[..], b","]).flatten().copied());
        }
        Columns::Unlisted => head.extend(text!(stage::list(id.iter().chain(&quoted)), b" ")),
    }
    Ok((head.into(), quoted))
}

/// The text after the query or the values, to its end.
pub(super) fn tail(lexer: &Lexer<'_>, start: u32, edits: Vec<(Span, Box<[u8]>)>) -> Filling {
    Filling { start, edits, end: u32::try_from(lexer.text().len()).unwrap_or(u32::MAX) }
}

/// ON DUPLICATE KEY UPDATE does not see the query's tables, but for what `tail` has in their place.
fn check_updates(lexer: &Lexer<'_>, context: &Context<'_>, query: &Query, tail: &Filling) -> Planning<()> {
    let Some(odku) = query.tail.odku else { return Ok(()) };
    let is_edited =
        |of: &Span| tail.edits.iter().any(|(edited, _)| edited.start <= of.start && of.end <= edited.end);
    let known = |token: &Token| {
        let name = name::decode(lexer.text(), *token, context.dialect.charset);
        is_edited(&token.span) || name.is_some_and(|name| context.has_column(&name))
    };
    if !query.sources.iter().all(is_edited) || !query.bare_names.iter().all(known) {
        return refused(
            "ON DUPLICATE KEY UPDATE reads the query's tables, and Rowstamp supports only a = q.a for a column a that the query \
             fills with q.a; write VALUES(a), the value as the column has it",
        );
    }
    if odku.assigns_id == AssignsId::Otherwise {
        let column = context.target.id_column();
        return refused(format!(
            "ON DUPLICATE KEY UPDATE of a query's rows assigns {column}; leave {column} out, or write {column} = \
             LAST_INSERT_ID({column})"
        ));
    }
    if odku.traits.sets_last_id {
        return refused(
            "ON DUPLICATE KEY UPDATE has LAST_INSERT_ID(expr) inside of a larger expression; assign LAST_INSERT_ID(expr) by \
             itself",
        );
    }
    Ok(())
}
