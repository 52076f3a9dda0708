//! One INSERT into a ruled table: which rows get ids, and how they are written.

use std::borrow::Cow;
use std::sync::Arc;

use super::meaning::Meaning;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, LastId, NewRows, PARAMS_MAX, Protocol, UpdatedIds, stage};
use crate::rules::model::{ColumnShape, TableShape};
use crate::sql::dialect::Dialect;
use crate::sql::insert::tail::Tail;
use crate::sql::insert::{Body, Columns, Form, Head, Row, Source, Verb, Wants};
use crate::sql::lex::{Lexer, Odd, Span, Token};
use crate::sql::name;
use crate::sql::value::IdValue;

mod edits;
pub(super) mod loaded;
mod row_ids;
mod sources;
mod staged;
mod style;
mod valued;

#[derive(Debug)]
pub(super) enum Unplanned {
    /// "why; what to write instead"
    Refused(String),
    /// The part that cannot be read.
    Unreadable(String),
    /// The rows do not fit the columns as known: "why; what to write instead".
    Stale(String),
}

impl From<Odd> for Unplanned {
    fn from(odd: Odd) -> Self {
        Unplanned::Unreadable(odd.to_string())
    }
}

pub(super) type Planning<T> = Result<T, Unplanned>;

pub(super) fn refused<T>(why: impl Into<String>) -> Planning<T> {
    Err(Unplanned::Refused(why.into()))
}

pub(super) fn unreadable<T>(what: impl Into<String>) -> Planning<T> {
    Err(Unplanned::Unreadable(what.into()))
}

pub(super) struct Context<'a> {
    pub(super) statement: usize,
    pub(super) target: &'a Arc<Target>,
    pub(super) dialect: Dialect,
    pub(super) protocol: Protocol,
    pub(super) head: Head,
    /// The table's name as the statement spells it.
    pub(super) table: &'a str,
    /// LAST_INSERT_ID() must not stand in the text.
    pub(super) only_literals: bool,
    /// The account may not update the id.
    pub(super) cannot_update: bool,
}

/// Reads what follows the table's name, up to the statement's end. Returns also whether a `;` ended
/// it.
pub(super) fn plan(lexer: &mut Lexer<'_>, context: &Context<'_>) -> Planning<(InsertPlan, bool)> {
    let Some((columns, source)) = Head::columns(lexer)? else { return unreadable("the column list") };
    let (mut plan, semicolon) = plan_of(lexer, context, &columns, source)?;
    plan.lists_none = matches!((&columns, source), (Columns::Unlisted, Source::Values(_) | Source::Query(_)));
    Ok((plan, semicolon))
}

fn plan_of(
    lexer: &mut Lexer<'_>,
    context: &Context<'_>,
    columns: &Columns,
    source: Source,
) -> Planning<(InsertPlan, bool)> {
    let id = context.id_column()?;
    let wants = Wants {
        id_place: context.id_place(lexer, columns, source, id)?,
        column: context.target.id_column(),
        table: context.table,
    };
    let body = match source {
        Source::Values(_) => Body::values(lexer, wants)?,
        Source::Set => Body::set(lexer, wants)?,
        Source::Query(_) if context.only_literals => {
            return refused(
                "INSERT ... SELECT needs a temporary table, which MySQL Router does not keep if sessions share connections \
                 (connection_sharing); write INSERT ... VALUES",
            );
        }
        Source::Query(first) => return staged::plan_staged(lexer, context, columns, wants.id_place, first),
    };
    let Some(body) = body else { return unreadable("the part after the table's name") };
    context.check(&body)?;
    let rows = context.rows(columns, source, &body)?;
    if rows.shape == RowShape::Empty && context.target.view.is_some() && context.is_mariadb() {
        // The server's own error, 1423, by which it asks for values.
        return unreadable("a row without values, through a view");
    }
    if rows.shape == RowShape::Empty && body.tail.odku.is_some() && body.tail.alias.is_some() {
        // The alias stands for all columns of the table. With the id filled in, it would stand for
        // the id's column alone.
        return refused(
            "a row without values has an alias; name the columns, with DEFAULT for each, or leave the alias out",
        );
    }
    let mut draft = Draft::new(context, id);
    if let Some(row) = draft.decide(&rows, &body)? {
        let evaluated = valued::Evaluated { context, body: &body, row };
        return Ok((valued::plan_values(lexer, &evaluated, columns, source)?, body.semicolon));
    }
    draft.choose_style(&rows, &body)?;
    draft.write_columns(columns, source, &rows)?;
    draft.write_rows(&rows, lexer.text());
    draft.write_tail(&body, columns, &rows, lexer.text())?;
    let semicolon = body.semicolon;
    Ok((draft.finish(&body, &rows), semicolon))
}

/// Reads an explained statement after its table's name. Returns why the server cannot explain it
/// without an id, where it cannot.
pub(super) fn not_explained(lexer: &mut Lexer<'_>, context: &Context<'_>) -> Planning<Option<&'static str>> {
    let id = context.id_column()?;
    if id.is_none_or(|id| id.auto_increment) {
        return Ok(None);
    }
    let Some((columns, source)) = Head::columns(lexer)? else { return Ok(None) };
    let id_place = context.id_place(lexer, &columns, source, id)?;
    if let Source::Query(_) = source {
        let misses_id = context.is_mariadb() && id_place.is_none();
        return Ok(
            misses_id.then_some("an INSERT ... SELECT that leaves the id out; EXPLAIN the query by itself")
        );
    }
    let wants = Wants { id_place, column: context.target.id_column(), table: context.table };
    let body = match source {
        Source::Set => Body::set(lexer, wants)?,
        _ => Body::values(lexer, wants)?,
    };
    let asks_for_default = |class: IdValue, id: Span| {
        class == IdValue::Default && !id.of(lexer.text()).eq_ignore_ascii_case(b"DEFAULT")
    };
    let asks_for_default = match body.map(|body| body.form) {
        Some(Form::Values(rows)) => rows.iter().any(|row| asks_for_default(row.class, row.id)),
        Some(Form::Set(set)) => asks_for_default(set.class, set.id),
        None => false,
    };
    Ok(asks_for_default.then_some("an INSERT with DEFAULT(id); write NULL for the id"))
}

impl Context<'_> {
    /// The statement's, of which nothing is decided.
    fn empty_plan(&self) -> InsertPlan {
        InsertPlan {
            statement: self.statement,
            target: Arc::clone(self.target),
            ids: 0,
            rows: 0,
            explicit: Vec::new(),
            last: LastId::Unknown,
            updated_ids: UpdatedIds::Stay,
            style: Style::Literal,
            new_rows: NewRows::All,
            replaces: self.head.verb == Verb::Replace,
            sets_last_id: false,
            zero_meant: None,
            strict_meant: None,
            one_set_only: None,
            lists_none: false,
            returning: false,
            stage: None,
            edits: Vec::new(),
            params: 0,
            id_params: Vec::new(),
            first_variable: None,
            is_named: false,
            is_executed: false,
        }
    }

    fn new_rows(&self, tail: &Tail) -> NewRows {
        match (&tail.odku, self.head.ignore) {
            (Some(_), _) => NewRows::SomeUpdated,
            (None, true) => NewRows::SomeIgnored,
            (None, false) => NewRows::All,
        }
    }

    pub(super) fn has_column(&self, name: &str) -> bool {
        self.shape().is_some_and(|shape| shape.column(name).is_some())
    }

    /// A column of the stage, which is made as the table's is read.
    fn staged(&self, quoted: Box<[u8]>, name: &str, is_stored: bool) -> Planning<stage::Column> {
        let column = self.shape().and_then(|shape| shape.column(name));
        if column.is_some_and(|column| column.masked) {
            return refused(format!(
                "the statement needs a temporary table, whose column {name} would get the type that its MASKING POLICY shows; write \
                 INSERT ... VALUES without an expression as id"
            ));
        }
        // Has zero dates; not where the columns are not known.
        let is_date =
            column.is_some_and(|column| matches!(&*column.data_type, "date" | "datetime" | "timestamp"));
        Ok(stage::Column { name: quoted, is_stored, is_date })
    }

    /// Refuses an id column that is no integer, for a query that brings values for the id: only of integers is it known
    /// which ones are taken for zero.
    pub(super) fn check_integer_id(&self) -> Planning<()> {
        match self.id_column()? {
            Some(id) if id.data_type.ends_with("int") => Ok(()),
            _ => {
                let column = self.target.id_column();
                refused(format!(
                    "the query or file brings values for {column}, which is no integer, or whose type Rowstamp does not know; leave \
                     {column} out"
                ))
            }
        }
    }

    /// A text of ours in the client's character set.
    fn written(&self, text: &str) -> Planning<Box<[u8]>> {
        match self.dialect.charset.written(text) {
            Some(text) => Ok(text.into()),
            None => refused(
                "Rowstamp must write a name for which the client's character set may have no letters; connect with utf8mb4",
            ),
        }
    }

    /// Names as the statements of a stage have them.
    fn quoted(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Planning<Vec<Box<[u8]>>> {
        names.into_iter().map(|name| self.written(&name::quoted(name.as_ref()))).collect()
    }

    /// The id's column, where the statement leaves it out.
    fn left_id(&self, is_left: bool) -> Planning<Option<Box<[u8]>>> {
        let written = || self.written(&name::quoted(self.target.id_column()));
        is_left.then(written).transpose()
    }

    fn shape(&self) -> Option<&TableShape> {
        self.target.shape.as_deref()
    }

    fn is_mariadb(&self) -> bool {
        self.dialect.is_mariadb()
    }

    fn id_column(&self) -> Planning<Option<&ColumnShape>> {
        let Some(shape) = self.shape() else { return Ok(None) };
        let column = self.target.id_column();
        match shape.column(column) {
            Some(found) => Ok(Some(found)),
            None => {
                Err(Unplanned::Stale(format!("the table has no column {column}; correct the table's rule")))
            }
        }
    }

    /// The index of the id among the values of each row.
    fn id_place(
        &self,
        lexer: &Lexer<'_>,
        columns: &Columns,
        source: Source,
        id: Option<&ColumnShape>,
    ) -> Planning<Option<u32>> {
        match (columns, source, self.shape(), id) {
            (Columns::Listed { names, .. }, ..) => self.listed_place(lexer, names),
            (Columns::Unlisted, Source::Values(_) | Source::Query(_), Some(shape), Some(id)) => {
                // An invisible id has no place among the values: it is left out.
                let place = shape.visible().position(|c| c.name == id.name);
                Ok(place.and_then(|place| u32::try_from(place).ok()))
            }
            _ => Ok(None),
        }
    }

    fn listed_place(&self, lexer: &Lexer<'_>, names: &[Token]) -> Planning<Option<u32>> {
        let mut place = None;
        for (i, &token) in names.iter().enumerate() {
            let column = self.target.id_column();
            let Some(is_id) = name::names_column(lexer.text(), token, self.dialect.charset, column) else {
                return unreadable("the name of a column");
            };
            if is_id {
                if place.is_some() {
                    // The server's own error, 1110.
                    return unreadable("a column that is named twice");
                }
                place = u32::try_from(i).ok();
            }
        }
        Ok(place)
    }

    /// Stops statements that cannot get an id in any way.
    fn check(&self, body: &Body) -> Planning<()> {
        let sets = matches!(&body.form, Form::Set(set) if set.times == 0);
        let odku = body.tail.odku.filter(|odku| odku.traits.names_id);
        if sets && odku.is_some() && body.tail.alias.is_some_and(|alias| alias.list_close.is_none()) {
            // The row of the alias would have the id's column, too.
            return refused(format!(
                "the SET form with a row alias refers to {}; write columns and VALUES instead of SET",
                self.target.id_column()
            ));
        }
        if body.params > 0 && self.protocol == Protocol::Text {
            return unreadable("a placeholder outside of a prepared statement");
        }
        // The server's own error, 1390.
        if body.params as usize > PARAMS_MAX {
            return unreadable("more than 65,535 placeholders");
        }
        Ok(())
    }

    /// The rows, each with as many values as there are columns.
    fn rows<'b>(&self, columns: &Columns, source: Source, body: &'b Body) -> Planning<Rows<'b>> {
        let rows = match &body.form {
            Form::Set(set) if set.times > 1 => return unreadable("a column that is assigned twice"),
            Form::Set(set) => {
                let row = Row {
                    open: set.end,
                    close: set.end,
                    values: 1,
                    id: set.id,
                    class: set.class,
                    params_before: set.params_before,
                };
                return Ok(Rows { rows: Cow::Owned(vec![row]), shape: RowShape::Assignments });
            }
            Form::Values(rows) => rows,
        };
        let other_than = |values: usize| rows.iter().position(|row| row.values as usize != values);
        let all = |values: usize| other_than(values).is_none();
        let shape = match (columns, self.shape()) {
            (Columns::Listed { names, .. }, _) if all(names.len()) => {
                if names.is_empty() {
                    RowShape::Empty
                } else {
                    RowShape::Filled
                }
            }
            // The server's own error, 1136.
            (Columns::Listed { names, .. }, _) => {
                let row = other_than(names.len()).unwrap_or_default() + 1;
                return unreadable(format!("row {row} with more or fewer values than columns"));
            }
            (Columns::Unlisted, _) if all(0) => RowShape::Empty,
            (Columns::Unlisted, None) => {
                return refused(
                    "the INSERT has no column list, and Rowstamp does not know the table's columns; name the columns in the INSERT, \
                     or give Rowstamp an account under [backend.control]",
                );
            }
            (Columns::Unlisted, Some(shape)) if all(shape.visible().count()) => RowShape::Filled,
            (Columns::Unlisted, Some(shape)) => {
                let row = other_than(shape.visible().count()).unwrap_or_default() + 1;
                return Err(Unplanned::Stale(format!(
                    "row {row} has more or fewer values than the table has columns; correct that row"
                )));
            }
        };
        debug_assert!(matches!(source, Source::Values(_)));
        Ok(Rows { rows: Cow::Borrowed(rows), shape })
    }
}

struct Rows<'b> {
    rows: Cow<'b, [Row]>,
    shape: RowShape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowShape {
    /// Rows with values.
    Filled,
    /// `()`
    Empty,
    /// The SET form.
    Assignments,
}

/// The effect of several sets of parameters in one execution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InSets {
    AsOne,
    /// Something in it may read LAST_INSERT_ID() as the wrapper of the previous set left it.
    Loud,
}

struct Draft<'a> {
    context: &'a Context<'a>,
    id: Option<&'a ColumnShape>,
    meaning: Meaning,
    /// The first row that keeps what the client wrote.
    kept: Option<u32>,
    /// Rows, ascending, in which the server would warn of the client's value: it is to warn of the
    /// id too.
    warned: Vec<u32>,
    odku_appends: bool,
    in_sets: InSets,
    /// The plan, as far as it is decided.
    plan: InsertPlan,
}

impl<'a> Draft<'a> {
    fn new(context: &'a Context<'a>, id: Option<&'a ColumnShape>) -> Self {
        Draft {
            context,
            id,
            meaning: Meaning::new(&context.dialect, id),
            kept: None,
            warned: Vec::new(),
            odku_appends: false,
            in_sets: InSets::AsOne,
            plan: InsertPlan { style: Style::Wrapped, ..context.empty_plan() },
        }
    }

    fn finish(self, body: &Body, rows: &Rows<'_>) -> InsertPlan {
        let one_set_only = self.one_set_only();
        InsertPlan {
            rows: u32::try_from(rows.rows.len()).unwrap_or(u32::MAX),
            new_rows: self.context.new_rows(&body.tail),
            one_set_only,
            returning: body.tail.returning.is_some(),
            params: body.params,
            ..self.plan
        }
    }
}
