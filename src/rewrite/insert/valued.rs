//! An INSERT of values of which one at the id's place does not show what it is: an expression. The
//! server evaluates it into a stage.

use crate::rewrite::insert::staged::{by_stage, check_readable, names, stage_columns, table_span, tail};
use crate::rewrite::insert::{Context, Planning, refused, unreadable};
use crate::rewrite::plan::InsertPlan;
use crate::rewrite::plan::stage::{self, Filling, Kind, Stage, text};
use crate::sql::dialect::SqlMode;
use crate::sql::insert::body::AssignsId;
use crate::sql::insert::{Body, Columns, Form, Source};
use crate::sql::last_result::reads_counts;
use crate::sql::lex::{Lexer, Span, Token, TokenKind};
use crate::sql::name;

/// The lexer stands after the statement.
pub(super) fn plan(
    lexer: &Lexer<'_>,
    context: &Context<'_>,
    columns: &Columns,
    source: Source,
    body: &Body,
) -> Planning<InsertPlan> {
    check_id(context)?;
    let table = table_span(context);
    let written = match (&body.form, source) {
        (Form::Values(rows), Source::Values(keyword)) => {
            let end = rows.last().map_or(keyword.end, |row| row.close + 1);
            Written { from: keyword.start, values: Span { start: keyword.start, end } }
        }
        (Form::Set(set), _) => set_keyword(lexer, Span { start: table.end, end: set.end })?,
        (Form::Values(_), _) => return unreadable("what follows its table"),
    };
    check_tail(context, body)?;
    if reads_counts(lexer.text()) {
        return refused(
            "an expression as id, in a statement that reads ROW_COUNT(), FOUND_ROWS() or a count of warnings; put that into a variable \
             first",
        );
    }
    let Assigned { names, qualifiers, values } = match &body.form {
        Form::Values(_) => {
            let names = names(lexer, context, columns)?.into_iter().map(String::from).collect();
            Assigned { names, qualifiers: Vec::new(), values: vec![written.values] }
        }
        Form::Set(_) => assigned(lexer, context, written.values)?,
    };
    let defaults = default_ids(lexer, context, body);
    for span in values {
        check_values(lexer, context, span, &defaults)?;
    }
    let is_id = |name: &String| name::same_column(name, context.target.id_column());
    let id_place = names.iter().position(is_id);
    let quoted = context.quoted(&names)?;
    let schema = context.written(&name::quoted(context.target.named().0))?;
    let list = text!(stage::list(&quoted), b" ");
    let mut head = Span { start: 0, end: written.from }.of(lexer.text()).to_vec();
    let mut filled = text!(stage::stage_name(&schema), b" ");
    if matches!(body.form, Form::Values(_)) {
        filled.extend_from_slice(&list);
    }
    // A list of the client's stays as it is.
    if matches!(columns, Columns::Unlisted) {
        head.extend_from_slice(&list);
    }
    let mut edits = vec![(Span { start: table.start, end: written.from }, filled.into_boxed_slice())];
    edits.extend(qualifiers.into_iter().map(|span| (span, Box::default())));
    let mut in_values = lexer.over(written.values);
    while in_values.next()?.kind != TokenKind::End {}
    let end = written.values.end;
    let stage = Stage {
        schema,
        table,
        filling: Filling { start: 0, edits, end },
        head: head.into(),
        tail: tail(lexer, end, Vec::new()),
        columns: stage_columns(context, quoted, &names)?,
        id_place,
        zero_is_value: id_place.is_some()
            && context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
        query_params: in_values.params(),
        has_later_params: body.params > in_values.params(),
        kind: Kind::Values,
        named: None,
    };
    check_readable(lexer, &stage)?;
    let new_rows = context.new_rows(&body.tail);
    Ok(InsertPlan {
        returning: body.tail.returning.is_some(),
        params: body.params,
        ..by_stage(context, stage, new_rows)
    })
}

/// Whether the server can evaluate the id first.
fn check_id(context: &Context<'_>) -> Planning<()> {
    let column = context.target.id_column();
    let is_integer = context.id_column()?.is_some_and(|id| id.data_type.ends_with("int"));
    if !is_integer || context.only_literals {
        return refused(format!(
            "the value for {column} does not show whether it is NULL or zero; write a number, NULL, or leave the column out"
        ));
    }
    Ok(())
}

/// Where values stand in the text.
struct Written {
    /// What fills the stage goes on from here, after its list of columns.
    from: u32,
    values: Span,
}

/// After the table's name, where SET begins.
fn set_keyword(lexer: &Lexer<'_>, span: Span) -> Planning<Written> {
    let mut ahead = lexer.over(span);
    let token = ahead.skip_to(|lexer, token| lexer.is_word(token, "SET"))?;
    if token.kind == TokenKind::End {
        return unreadable("what follows its table");
    }
    Ok(Written { from: token.span.start, values: Span { start: token.span.end, end: span.end } })
}

/// What has values.
struct Assigned {
    names: Vec<String>,
    /// What qualifies them: `t.`
    qualifiers: Vec<Span>,
    values: Vec<Span>,
}

/// The assignments of the SET form.
fn assigned(lexer: &Lexer<'_>, context: &Context<'_>, span: Span) -> Planning<Assigned> {
    let mut ahead = lexer.over(span);
    let mut all = Assigned { names: Vec::new(), qualifiers: Vec::new(), values: Vec::new() };
    loop {
        let first = ahead.next()?;
        let path = name::path(&mut ahead, first)?;
        let name = path.and_then(|path| name::decode(lexer.text(), path.last, context.dialect.charset));
        let (Some(path), Some(name)) = (path, name) else { return unreadable("a column's name") };
        all.names.push(name.into_owned());
        if path.qualifier.is_some() {
            all.qualifiers.push(Span { start: first.span.start, end: path.last.span.start });
        }
        let start = ahead.next()?.span.end;
        let last = ahead.skip_to(|_, token| token.is_punct(b','))?;
        all.values.push(Span { start, end: last.span.start });
        if last.kind == TokenKind::End {
            return Ok(all);
        }
    }
}

/// Where DEFAULT stands for the id and asks for one: it is NULL in the stage.
fn default_ids(lexer: &Lexer<'_>, context: &Context<'_>, body: &Body) -> Vec<Span> {
    let Form::Values(rows) = &body.form else { return Vec::new() };
    // There it is zero.
    if context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO) {
        return Vec::new();
    }
    let ids = rows.iter().map(|row| row.id);
    ids.filter(|id| id.of(lexer.text()).eq_ignore_ascii_case(b"DEFAULT")).collect()
}

/// Values must be what they are in the table itself. The stage has other columns, and other defaults
/// where these are computed. Within a query names are its tables' first.
fn check_values(lexer: &Lexer<'_>, context: &Context<'_>, span: Span, default_ids: &[Span]) -> Planning<()> {
    let mut ahead = lexer.over(span);
    let mut before: Option<Token> = None;
    // Of each open parenthesis, whether it holds a query.
    let mut open: Vec<bool> = Vec::new();
    loop {
        let token = ahead.next()?;
        match token.kind {
            TokenKind::End => return Ok(()),
            TokenKind::Punct(b'(') => {
                let first = ahead.peek()?;
                let in_query = open.last() == Some(&true);
                open.push(in_query || ahead.is_any_word(first, &["SELECT", "WITH", "TABLE", "VALUES"]));
            }
            TokenKind::Punct(b')') => {
                open.pop();
            }
            _ if open.last() == Some(&true) || before.is_some_and(|before| before.is_punct(b'@')) => {}
            _ if !name::is_name(token) => {}
            _ if default_ids.binary_search_by_key(&token.span.start, |id| id.start).is_ok() => {}
            _ if ahead.is_word(token, "DEFAULT") => {
                return refused(
                    "an expression as id, in a statement with DEFAULT for another column; leave that column out, in a statement of its own",
                );
            }
            _ => {
                let is_call = ahead.peek()?.is_punct(b'(');
                let name = name::decode(lexer.text(), token, context.dialect.charset);
                if !is_call && name.is_none_or(|name| context.has_column(&name)) {
                    return refused(
                        "an expression as id, in a statement whose values name a column; write the value itself",
                    );
                }
            }
        }
        before = Some(token);
    }
}

fn check_tail(context: &Context<'_>, body: &Body) -> Planning<()> {
    let column = context.target.id_column();
    if body.tail.alias.is_some() {
        return refused(format!("an expression for {column}, and a row alias; write VALUES(column)"));
    }
    let odku = body.tail.odku;
    if body.traits.sets_last_id
        || odku.is_some_and(|odku| {
            odku.assigns_id != AssignsId::No || odku.traits.sets_last_id || odku.calls_last_id
        })
    {
        return refused(format!(
            "an expression for {column}, in a statement that sets LAST_INSERT_ID(expr) or updates {column}; leave that out"
        ));
    }
    Ok(())
}
