//! An INSERT of values of which one at the id's place does not show what it is: an expression. The
//! server evaluates it into a stage.

use crate::rewrite::insert::staged::{by_stage, check_readable, names, stage_columns, table_span, tail};
use crate::rewrite::insert::{Context, Planning, refused, unreadable};
use crate::rewrite::plan::InsertPlan;
use crate::rewrite::plan::stage::{self, Filling, Kind, Stage, text};
use crate::sql::dialect::SqlMode;
use crate::sql::insert::body::{AssignsId, Odku};
use crate::sql::insert::{Body, Columns, Form, Source};
use crate::sql::lex::{Lexer, Span, Token, TokenKind};
use crate::sql::name;
use crate::sql::reads::Reads;
use crate::sql::value::IdValue;

/// A statement of which the server evaluates an id first.
pub(super) struct Evaluated<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) body: &'a Body,
    /// The first row whose id is an expression, counted from 1.
    pub(super) row: u32,
}

impl Evaluated<'_> {
    fn refused<T>(&self, why: &str) -> Planning<T> {
        refused(format!("the id of row {} is an expression, and {why}", self.row))
    }
}

/// The lexer stands after the statement.
pub(super) fn plan_values(
    lexer: &Lexer<'_>,
    evaluated: &Evaluated<'_>,
    columns: &Columns,
    source: Source,
) -> Planning<InsertPlan> {
    let &Evaluated { context, body, .. } = evaluated;
    evaluated.check_id()?;
    let table = table_span(context);
    let written = match (&body.form, source) {
        (Form::Values(rows), Source::Values(keyword)) => {
            let end = rows.last().map_or(keyword.end, |row| row.close + 1);
            Written { from: keyword.start, values: Span { start: keyword.start, end } }
        }
        (Form::Set(set), _) => set_keyword(lexer, Span { start: table.end, end: set.end })?,
        (Form::Values(_), _) => return unreadable("the part after the table's name"),
    };
    evaluated.check_tail()?;
    if Reads::of(lexer.text(), lexer.dialect()).last_result() {
        return evaluated.refused(
            "the statement reads ROW_COUNT(), FOUND_ROWS() or a count of warnings; read the count into a variable first",
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
        evaluated.check_values(lexer, span, &defaults)?;
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

/// The place of the values in the text.
struct Written {
    /// The statement that fills the stage continues from here, after its list of columns.
    from: u32,
    values: Span,
}

/// Finds SET after the table's name.
fn set_keyword(lexer: &Lexer<'_>, span: Span) -> Planning<Written> {
    let mut ahead = lexer.over(span);
    let token = ahead.skip_to(|lexer, token| lexer.is_word(token, "SET"))?;
    if token.kind == TokenKind::End {
        return unreadable("the part after the table's name");
    }
    Ok(Written { from: token.span.start, values: Span { start: token.span.end, end: span.end } })
}

/// The columns that have values, and these values.
struct Assigned {
    names: Vec<String>,
    /// The qualifiers of the names: `t.`
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
        let (Some(path), Some(name)) = (path, name) else { return unreadable("the name of a column") };
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

/// The places at which DEFAULT stands for the id and asks for one: it is NULL in the stage.
fn default_ids(lexer: &Lexer<'_>, context: &Context<'_>, body: &Body) -> Vec<Span> {
    let Form::Values(rows) = &body.form else { return Vec::new() };
    // There it is zero.
    if context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO) {
        return Vec::new();
    }
    let ids = rows.iter().map(|row| row.id);
    ids.filter(|id| id.of(lexer.text()).eq_ignore_ascii_case(b"DEFAULT")).collect()
}

impl Evaluated<'_> {
    /// Refuses the statement if the server cannot evaluate the id first.
    fn check_id(&self) -> Planning<()> {
        let (context, column) = (self.context, self.context.target.id_column());
        let is_integer = context.id_column()?.is_some_and(|id| id.data_type.ends_with("int"));
        if !is_integer || context.only_literals {
            return refused(format!(
                "the value for {column} in row {} does not show whether it is NULL or zero; write an integer or NULL, or leave \
                 {column} out",
                self.row
            ));
        }
        Ok(())
    }

    /// Values must be what they are in the table itself. The stage has other columns, and other defaults
    /// where these are computed. Within a query names are its tables' first.
    fn check_values(&self, lexer: &Lexer<'_>, span: Span, default_ids: &[Span]) -> Planning<()> {
        let mut ahead = lexer.over(span);
        let mut before: Option<Token> = None;
        // One entry for each open parenthesis: true if it holds a query.
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
                _ if ahead.is_word(token, "DEFAULT") => return self.refused_default(token),
                _ => {
                    let is_call = ahead.peek()?.is_punct(b'(');
                    let name = name::decode(lexer.text(), token, self.context.dialect.charset);
                    if !is_call && name.is_none_or(|name| self.context.has_column(&name)) {
                        return self
                            .refused("a value of the statement names a column; write the value itself");
                    }
                }
            }
            before = Some(token);
        }
    }

    /// DEFAULT that is none of [`default_ids`].
    fn refused_default<T>(&self, default: Token) -> Planning<T> {
        let is_in = |id: Span| id.range().contains(&(default.span.start as usize));
        let id_of = match &self.body.form {
            Form::Values(rows) => {
                (1..).zip(rows).find(|(_, row)| is_in(row.id)).map(|(nr, row)| (nr, row.class))
            }
            Form::Set(set) => Some((1, set.class)).filter(|_| is_in(set.id)),
        };
        match id_of {
            None => {
                self.refused("another column has DEFAULT; leave that column out, in a separate statement")
            }
            Some((row, IdValue::Default)) => self.refused(&format!(
                "that of row {row} is DEFAULT; write NULL in row {row}, or 0 under NO_AUTO_VALUE_ON_ZERO"
            )),
            Some((row, _)) => refused(format!(
                "the id of row {row} has DEFAULT in parentheses or within an expression; write DEFAULT by itself, or the value"
            )),
        }
    }

    fn check_tail(&self) -> Planning<()> {
        let (tail, column) = (&self.body.tail, self.context.target.id_column());
        if tail.alias.is_some() {
            return self.refused("the statement has a row alias; write VALUES(column) in place of the alias");
        }
        let odku = tail.odku;
        let sets = |odku: &Odku| odku.traits.sets_last_id || odku.calls_last_id;
        if self.body.traits.sets_last_id || odku.as_ref().is_some_and(sets) {
            return self.refused("the statement has LAST_INSERT_ID(expr); leave LAST_INSERT_ID(expr) out");
        }
        if odku.is_some_and(|odku| odku.assigns_id != AssignsId::No) {
            return self.refused(&format!(
                "ON DUPLICATE KEY UPDATE assigns {column}; leave {column} out of the assignments"
            ));
        }
        Ok(())
    }
}
