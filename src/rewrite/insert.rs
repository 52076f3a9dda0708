//! One INSERT into a ruled table: which rows get ids, and how they are written.

use std::borrow::Cow;
use std::sync::Arc;

use super::plan::{Edit, IdForm, InsertPlan, Piece, Protocol, Style, Target};
use super::prepare::IdParam;
use crate::rules::model::{ColumnShape, Explicit, InsertId, TableShape};
use crate::sql::dialect::{Dialect, ServerKind, SqlMode};
use crate::sql::insert::body::AssignsId;
use crate::sql::insert::expression::Traits;
use crate::sql::insert::{Body, Columns, Form, Head, Row, Source, Wants};
use crate::sql::lex::{Lexer, Odd, Token};
use crate::sql::name;
use crate::sql::value::IdValue;

/// Why there is no plan.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(String),
    Unreadable(String),
    /// The rows do not fit the columns as known.
    Stale(String),
}

impl From<Odd> for Stop {
    fn from(odd: Odd) -> Self {
        Stop::Unreadable(format!("{} cannot be read for certain (byte {})", odd.what, odd.at))
    }
}

type Planning<T> = Result<T, Stop>;

fn refused<T>(why: impl Into<String>) -> Planning<T> {
    Err(Stop::Refused(why.into()))
}

fn unreadable<T>(what: &str) -> Planning<T> {
    Err(Stop::Unreadable(format!("{what} cannot be read for certain")))
}

/// What is known of one statement.
pub(super) struct Context<'a> {
    pub(super) statement: usize,
    pub(super) target: &'a Arc<Target>,
    pub(super) dialect: Dialect,
    pub(super) protocol: Protocol,
    pub(super) head: Head,
    /// The table's name as the statement spells it.
    pub(super) table: &'a str,
    /// DDL stands before it in its packet: the columns are not known that it will find.
    pub(super) behind_ddl: bool,
}

/// From behind the table's name to behind the statement; whether a `;` ended it.
pub(super) fn plan(lexer: &mut Lexer<'_>, context: &Context<'_>) -> Planning<(InsertPlan, bool)> {
    let Some((columns, source)) = Head::columns(lexer)? else { return unreadable("its column list") };
    let id = context.id_column()?;
    let wants = Wants {
        id_place: context.id_place(lexer, &columns, source, id)?,
        column: &context.target.rule.column,
        table: context.table,
    };
    let body = match source {
        Source::Values(_) => Body::values(lexer, wants)?,
        Source::Set => Body::set(lexer, wants)?,
        Source::Query => {
            return refused(
                "INSERT ... SELECT into a ruled table is not supported yet; select the rows, then INSERT their VALUES",
            );
        }
    };
    let Some(body) = body else { return unreadable("what follows its table") };
    context.check(lexer, &body)?;
    let rows = context.rows(&columns, source, &body)?;
    let mut draft = Draft::new(context, &body, id);
    draft.decide(&rows, &body)?;
    draft.choose_style(&rows, &body)?;
    draft.write_columns(&columns, source, &rows);
    draft.write_rows(&rows, lexer.text());
    draft.write_tail(&body);
    let semicolon = body.semicolon;
    Ok((draft.finish(&body, &rows), semicolon))
}

impl Context<'_> {
    fn shape(&self) -> Option<&TableShape> {
        self.target.shape.as_deref()
    }

    fn id_column(&self) -> Planning<Option<&ColumnShape>> {
        let Some(shape) = self.shape() else { return Ok(None) };
        let column = &self.target.rule.column;
        match shape.columns.iter().find(|c| name::same_column(&c.name, column)) {
            Some(found) => Ok(Some(found)),
            None => {
                Err(Stop::Stale(format!("table {} has no column {column}; correct its rule", self.table)))
            }
        }
    }

    /// Where the id stands in each row.
    fn id_place(
        &self,
        lexer: &Lexer<'_>,
        columns: &Columns,
        source: Source,
        id: Option<&ColumnShape>,
    ) -> Planning<Option<u32>> {
        match (columns, source, self.shape(), id) {
            (Columns::Listed { names, .. }, ..) => self.listed_place(lexer, names),
            (Columns::Unlisted, Source::Values(_), Some(shape), Some(id)) => {
                if id.invisible {
                    return refused(format!(
                        "column {} is invisible; name the columns in the INSERT",
                        id.name
                    ));
                }
                let place = visible(shape).position(|c| c.name == id.name);
                Ok(place.and_then(|place| u32::try_from(place).ok()))
            }
            _ => Ok(None),
        }
    }

    fn listed_place(&self, lexer: &Lexer<'_>, names: &[Token]) -> Planning<Option<u32>> {
        let mut place = None;
        for (i, &token) in names.iter().enumerate() {
            let Some(column) = name::decode(lexer.text(), token, self.dialect.charset) else {
                return unreadable("a column's name");
            };
            if name::same_column(&column, &self.target.rule.column) {
                if place.is_some() {
                    // The server's own error, 1110.
                    return unreadable("a column that is named twice");
                }
                place = u32::try_from(i).ok();
            }
        }
        Ok(place)
    }

    /// What no form of the statement can be filled with.
    fn check(&self, lexer: &Lexer<'_>, body: &Body) -> Planning<()> {
        if body.tail.alias.is_some_and(|alias| alias.renames_columns) {
            return refused(
                "a row alias with a list of columns is not supported yet; write AS new without the list",
            );
        }
        if body.params > 0 && self.protocol == Protocol::Text {
            return unreadable("a placeholder outside of a prepared statement");
        }
        let hint = lexer.hint().filter(|_| self.dialect.server.kind == ServerKind::MySql);
        if hint.is_some_and(|hint| is_binding_hint(hint.of(lexer.text()))) {
            return refused(
                "an optimizer hint may set variables for this statement; set them for the session",
            );
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
        let all = |values: usize| rows.iter().all(|row| row.values as usize == values);
        let shape = match (columns, self.shape()) {
            (Columns::Listed { names, .. }, _) if all(names.len()) => {
                if names.is_empty() {
                    RowShape::Empty
                } else {
                    RowShape::Filled
                }
            }
            // The server's own error, 1136.
            (Columns::Listed { .. }, _) => return unreadable("a row with more or fewer values than columns"),
            (Columns::Unlisted, _) if all(0) => RowShape::Empty,
            (Columns::Unlisted, _) if self.behind_ddl => {
                return refused(
                    "it names no columns, and DDL in the same packet may change them; name the columns",
                );
            }
            (Columns::Unlisted, None) => {
                return refused(
                    "an INSERT without a column list needs the table's columns; name them in the INSERT, or give \
                     Rowstamp an account under [backend.control]",
                );
            }
            (Columns::Unlisted, Some(shape)) if all(visible(shape).count()) => RowShape::Filled,
            (Columns::Unlisted, Some(_)) => {
                return Err(Stop::Stale(
                    "a row with more or fewer values than the table has columns".to_owned(),
                ));
            }
        };
        debug_assert!(matches!(source, Source::Values(_)));
        Ok(Rows { rows: Cow::Borrowed(rows), shape })
    }
}

fn visible(shape: &TableShape) -> impl Iterator<Item = &ColumnShape> {
    shape.columns.iter().filter(|column| !column.invisible)
}

/// `SET_VAR(sql_mode=...)` changes what zero means; a quote may hide the comment's end from us.
fn is_binding_hint(hint: &[u8]) -> bool {
    let upper = hint.to_ascii_uppercase();
    memchr::memmem::find(&upper, b"SET_VAR").is_some() || memchr::memchr3(b'\'', b'"', b'`', hint).is_some()
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

/// What becomes of a row's id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Generate,
    Keep,
    /// NO_AUTO_VALUE_ON_ZERO: DEFAULT stores 0, also where the column has no default.
    Zero,
    /// The client's `?`: decided at execution.
    Client,
}

/// What decides what a value means.
#[derive(Clone, Copy)]
struct Meaning {
    /// NO_AUTO_VALUE_ON_ZERO
    zero_is_value: bool,
    /// A string column: the wrapper, which makes integers, does not fit.
    is_text: bool,
    /// A column where 0.4 is not zero.
    is_real: bool,
}

impl Meaning {
    fn new(context: &Context<'_>, id: Option<&ColumnShape>) -> Self {
        let data_type = id.map_or("", |id| id.data_type.as_str());
        let is_text = ["char", "text", "binary", "blob", "enum", "set", "uuid"];
        Meaning {
            zero_is_value: context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            // Almost every id is an integer: its name is not searched.
            is_text: !data_type.ends_with("int") && is_text.iter().any(|kind| data_type.contains(kind)),
            is_real: matches!(data_type, "float" | "double" | "decimal"),
        }
    }

    /// `None`: not to be told from the text.
    fn slot(self, class: IdValue) -> Option<Slot> {
        match class {
            IdValue::ConvertedZero | IdValue::Converted if self.is_text || self.is_real => None,
            IdValue::Default if self.zero_is_value => Some(Slot::Zero),
            IdValue::Zero | IdValue::ConvertedZero if self.zero_is_value => Some(Slot::Keep),
            IdValue::Omitted | IdValue::Null | IdValue::Default | IdValue::Zero | IdValue::ConvertedZero => {
                Some(Slot::Generate)
            }
            IdValue::Placeholder(_) => Some(Slot::Client),
            IdValue::Integer | IdValue::Converted => Some(Slot::Keep),
            IdValue::Text if self.is_text => Some(Slot::Keep),
            IdValue::Text | IdValue::Expression => None,
        }
    }
}

struct Draft<'a> {
    context: &'a Context<'a>,
    id: Option<&'a ColumnShape>,
    meaning: Meaning,
    /// Some rows keep what the client wrote.
    kept: bool,
    explicit: Vec<i128>,
    id_params: Vec<IdParam>,
    ids: u32,
    style: Style,
    edits: Vec<Edit>,
    odku_appends: bool,
    may_skip: bool,
}

impl<'a> Draft<'a> {
    fn new(context: &'a Context<'a>, body: &Body, id: Option<&'a ColumnShape>) -> Self {
        Draft {
            context,
            id,
            meaning: Meaning::new(context, id),
            kept: false,
            explicit: Vec::new(),
            id_params: Vec::new(),
            ids: 0,
            style: Style::Wrapped,
            edits: Vec::new(),
            odku_appends: false,
            may_skip: context.head.ignore || body.tail.odku.is_some(),
        }
    }

    fn decide(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
        let mut integers = body.integers.iter().copied();
        for (nth, row) in rows.rows.iter().enumerate() {
            let Some(slot) = self.meaning.slot(row.class) else { return self.refuse_value() };
            match (slot, row.class) {
                (Slot::Generate, _) => self.ids += 1,
                (Slot::Client, IdValue::Placeholder(index)) => {
                    let row = u32::try_from(nth).unwrap_or(u32::MAX);
                    self.id_params.push(IdParam { index: param(index)?, row });
                }
                (_, IdValue::Integer | IdValue::Converted) => self.explicit.extend(integers.next()),
                (_, IdValue::Text) => {}
                _ => self.explicit.push(0),
            }
            self.kept |= matches!(slot, Slot::Keep | Slot::Zero);
        }
        self.check_slots(body)
    }

    fn refuse_value<T>(&self) -> Planning<T> {
        let column = &self.context.target.rule.column;
        refused(format!(
            "the value for {column} does not show whether it is NULL or zero; write a number, NULL, or leave the column out"
        ))
    }

    fn check_slots(&self, body: &Body) -> Planning<()> {
        let column = &self.context.target.rule.column;
        if self.kept && self.context.target.rule.explicit == Explicit::Reject {
            return refused(format!(
                "the rule rejects values written for {column}; leave the column out or write NULL"
            ));
        }
        if self.ids > 0 && !self.id_params.is_empty() {
            return refused(format!(
                "some rows write a placeholder for {column} and others leave it to Rowstamp; prepare them apart"
            ));
        }
        if body.later.names_id && (self.ids > 0 || !self.id_params.is_empty()) {
            return refused(format!(
                "a value behind {column} may refer to it and would see the id; put {column} last"
            ));
        }
        Ok(())
    }

    fn is_auto_increment(&self) -> bool {
        self.id.is_some_and(|id| id.auto_increment)
    }

    /// ARCHITECTURE.md, "The insert id".
    fn choose_style(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
        let returning = body.tail.returning.unwrap_or_default();
        let in_odku = body.tail.odku.map(|odku| odku.traits).unwrap_or_default();
        let mut all = body.traits;
        all.add(returning);
        all.add(in_odku);
        let packet_only = self.context.target.rule.insert_id == InsertId::Packet || self.meaning.is_text;
        if self.ids == 0 && self.id_params.is_empty() {
            self.style = Style::Literal;
            return Ok(());
        }
        if all.sets_last_id {
            return refused("the statement sets LAST_INSERT_ID(x) itself; set it in a statement of its own");
        }
        if let Some(odku) = body.tail.odku.filter(|_| rows.rows.len() == 1 && !self.context.head.ignore) {
            self.style = self.odku_style(odku.assigns_id, packet_only, all, body.later)?;
            return Ok(());
        }
        let several = rows.rows.len() > 1;
        if several && body.tail.odku.is_some_and(|odku| odku.assigns_id == AssignsId::Idiom) {
            return refused(
                "LAST_INSERT_ID(id) in ON DUPLICATE KEY UPDATE of several rows; insert them one by one",
            );
        }
        let shows = all.reads_last_id || returning.loud || body.later.loud || several && body.traits.loud;
        let literal = packet_only
            || shows
            || self.context.head.ignore
            || body.tail.odku.is_some()
            || !self.id_params.is_empty();
        if literal && body.tail.returning.is_some() {
            // Its rows come without an OK packet, so there is nothing to tell the client's id by.
            return refused(
                "RETURNING with IGNORE, ON DUPLICATE KEY UPDATE, LAST_INSERT_ID() or a placeholder for the id; \
                            leave the id out and RETURNING plain columns",
            );
        }
        self.style = if literal { Style::Literal } else { Style::Wrapped };
        Ok(())
    }

    fn odku_style(
        &mut self,
        assigns: AssignsId,
        packet_only: bool,
        all: Traits,
        later: Traits,
    ) -> Planning<Style> {
        let column = &self.context.target.rule.column;
        if self.is_auto_increment() {
            return Ok(Style::OdkuNative);
        }
        if packet_only {
            return Ok(Style::Literal);
        }
        if !self.id_params.is_empty() {
            return refused(format!(
                "a placeholder for {column} with ON DUPLICATE KEY UPDATE; leave {column} out"
            ));
        }
        if all.reads_last_id || all.loud || later.loud {
            return refused(
                "ON DUPLICATE KEY UPDATE with functions, subqueries or LAST_INSERT_ID() that may read the insert id; compute \
                 the values beforehand",
            );
        }
        match assigns {
            AssignsId::No => self.odku_appends = true,
            AssignsId::Idiom => {}
            AssignsId::Otherwise => {
                return refused(format!(
                    "ON DUPLICATE KEY UPDATE assigns {column}; leave that out, or write {column}=LAST_INSERT_ID({column})"
                ));
            }
        }
        Ok(Style::OdkuOne)
    }

    fn edit(&mut self, start: u32, end: u32, params_before: u32, piece: Piece) {
        self.edits.push(Edit { start, end, params_before, piece });
    }

    /// The id goes last in the list, where it is not in it.
    fn write_columns(&mut self, columns: &Columns, source: Source, rows: &Rows<'_>) {
        let added = self.ids > 0 && rows.rows.first().is_some_and(|row| row.class == IdValue::Omitted);
        if !added {
            return;
        }
        match (columns, source) {
            (Columns::Listed { close, names, .. }, _) => {
                let before = if names.is_empty() { "" } else { "," };
                self.column_edit(*close, before, "");
            }
            (Columns::Unlisted, Source::Values(keyword)) => self.column_edit(keyword.start, "(", ")"),
            (Columns::Unlisted, _) => {}
        }
    }

    fn column_edit(&mut self, at: u32, before: &'static str, after: &'static str) {
        self.edit(at, at, 0, Piece::Column { before, after });
    }

    fn write_rows(&mut self, rows: &Rows<'_>, text: &[u8]) {
        self.edits.reserve(self.ids as usize + 1);
        let mut nth = 0u32;
        for row in rows.rows.iter() {
            match self.meaning.slot(row.class) {
                None | Some(Slot::Keep | Slot::Client) => {}
                Some(Slot::Zero) => {
                    self.edit(row.id.start, row.id.end, row.params_before, Piece::Text("0".into()));
                }
                Some(Slot::Generate) => {
                    self.write_id(row, rows.shape, nth);
                    nth += 1;
                }
            }
        }
        debug_assert!(self.edits.iter().all(|edit| edit.end as usize <= text.len()));
    }

    fn write_id(&mut self, row: &Row, shape: RowShape, nth: u32) {
        let form = match self.style {
            Style::Wrapped | Style::OdkuOne if nth == 0 => IdForm::Wrapper,
            Style::Wrapped | Style::OdkuOne => IdForm::BehindWrapper,
            Style::Literal | Style::OdkuNative => IdForm::Literal,
        };
        if row.class != IdValue::Omitted {
            return self.edit(
                row.id.start,
                row.id.end,
                row.params_before,
                Piece::Id { nth, comma: false, form },
            );
        }
        if shape == RowShape::Assignments {
            self.column_edit(row.close, ",", "=");
        }
        let comma = shape == RowShape::Filled;
        self.edit(row.close, row.close, row.params_before, Piece::Id { nth, comma, form });
    }

    fn write_tail(&mut self, body: &Body) {
        let Some(odku) = body.tail.odku.filter(|_| self.odku_appends) else { return };
        let column = name::quoted(&self.context.target.rule.column);
        // Beside a row alias a bare name is ambiguous.
        let updated = match body.tail.alias {
            Some(_) => format!("{}.{column}", name::quoted(self.context.table)),
            None => column.clone(),
        };
        let text = format!(",{column}=LAST_INSERT_ID({updated})");
        self.edit(odku.end, odku.end, 0, Piece::Text(text.into_boxed_str()));
    }

    fn finish(self, body: &Body, rows: &Rows<'_>) -> InsertPlan {
        InsertPlan {
            statement: self.context.statement,
            target: Arc::clone(self.context.target),
            ids: self.ids,
            rows: u32::try_from(rows.rows.len()).unwrap_or(u32::MAX),
            explicit: self.explicit,
            style: self.style,
            may_skip: self.may_skip,
            returning: body.tail.returning.is_some(),
            edits: self.edits,
            params: body.params,
            id_params: self.id_params,
        }
    }
}

fn param(index: u32) -> Planning<u16> {
    u16::try_from(index).map_err(|_| Stop::Unreadable("more than 65,535 placeholders".to_owned()))
}
