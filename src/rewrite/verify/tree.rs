//! One INSERT's tree before and after: the ids are taken out of the one, and what is left must be
//! the other.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, ObjectName, OnInsert, Parens, Query, SetExpr, Statement,
    UnaryOperator, Value,
};

use super::Difference;
use crate::ids::block::IdBlock;
use crate::rewrite::plan::InsertPlan;
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece, Style};
use crate::rules::model::TableShape;
use crate::sql::name;

type Compared<T> = Result<T, Difference>;

/// `block`: the statement's ids; `None` where they are placeholders, or none. False: the tree says
/// nothing.
pub(super) fn compare(
    insert: &InsertPlan,
    block: Option<&IdBlock>,
    zero_is_value: bool,
    before: &Statement,
    after: Statement,
) -> Compared<bool> {
    match (before, after) {
        (Statement::Insert(before), Statement::Insert(after)) => {
            Taking { insert, block, zero_is_value, nth: 0 }.compare(before, after)
        }
        (Statement::Explain { statement: before, .. }, Statement::Explain { statement: after, .. }) => {
            compare(insert, block, zero_is_value, before, *after)
        }
        // Another statement's text, in a string.
        (Statement::Execute { .. } | Statement::Prepare { .. }, _) => Ok(false),
        _ => Err(Difference("a statement that is no INSERT has changed")),
    }
}

/// Takes ids out, one after the other.
struct Taking<'a> {
    insert: &'a InsertPlan,
    block: Option<&'a IdBlock>,
    zero_is_value: bool,
    /// Ids taken out so far.
    nth: u32,
}

type Row = Parens<Vec<Expr>>;

impl Taking<'_> {
    fn compare(mut self, before: &Insert, mut after: Insert) -> Compared<bool> {
        if before.assignments.is_empty() {
            let (Some(old), Some(new)) = (rows(before), rows_mut(&mut after.source)) else {
                // INSERT ... SELECT.
                return Ok(false);
            };
            let added = self.take_from_rows(before, old, new)?;
            let is_column = |column: &ObjectName| self.is_column(column);
            if added && !after.columns.pop().as_ref().is_some_and(is_column) {
                return Err(Difference("the id's column is not last in the list"));
            }
            if before.columns.is_empty() && old.iter().any(|row| !row.content.is_empty()) {
                self.take_list(&mut after.columns)?;
            }
        } else {
            self.take_from_assignments(&before.assignments, &mut after.assignments)?;
        }
        take_from_alias(before, &mut after)?;
        self.take_from_update(before, &mut after)?;
        if self.nth != self.insert.ids {
            return Err(Difference("there are more or fewer ids than rows without an id"));
        }
        if *before != after {
            return Err(Difference("more than the id has changed"));
        }
        Ok(true)
    }

    /// Takes the ids out of the rows. True if they stand in a column that was added.
    fn take_from_rows(&mut self, before: &Insert, old: &[Row], new: &mut [Row]) -> Compared<bool> {
        if old.len() != new.len() {
            return Err(Difference("the number of rows has changed"));
        }
        let place = if before.columns.is_empty() {
            self.place_of_table().filter(|_| old.iter().any(|row| !row.content.is_empty()))
        } else {
            before.columns.iter().position(|column| self.is_column(column))
        };
        for (old, new) in old.iter().zip(new) {
            if let Some(place) = place {
                let both = old.content.get(place).zip(new.content.get_mut(place));
                let (old, new) = both.ok_or(Difference("a row is shorter than its id's place"))?;
                self.value(old, new)?;
            } else {
                let id = new.content.pop().ok_or(Difference("a row has no id"))?;
                self.id(&id)?;
            }
        }
        Ok(place.is_none())
    }

    /// Takes out the list of columns that is added where none is listed.
    fn take_list(&self, columns: &mut Vec<ObjectName>) -> Compared<()> {
        let shape = self.insert.target.shape.as_deref();
        let expected =
            shape.into_iter().flat_map(TableShape::visible).map(|column| name::quoted(&column.name));
        if columns.iter().map(ToString::to_string).eq(expected) {
            columns.clear();
            return Ok(());
        }
        Err(Difference("the column list is not that of the table"))
    }

    fn take_from_assignments(&mut self, old: &[Assignment], new: &mut Vec<Assignment>) -> Compared<()> {
        let is_id = |assignment: &Assignment| matches!(&assignment.target, AssignmentTarget::ColumnName(column) if self.is_column(column));
        if let Some(place) = old.iter().position(is_id) {
            return match (old.get(place), new.get_mut(place)) {
                (Some(old), Some(new)) => self.value(&old.value, &mut new.value),
                _ => Err(Difference("the assignment of the id is missing")),
            };
        }
        match new.pop() {
            Some(last) if is_id(&last) => self.id(&last.value),
            _ => Err(Difference("the assignment of the id is not the last one")),
        }
    }

    /// `id=LAST_INSERT_ID(id)` after the client's own assignments.
    fn take_from_update(&self, before: &Insert, after: &mut Insert) -> Compared<()> {
        let (Some(OnInsert::DuplicateKeyUpdate(old)), Some(OnInsert::DuplicateKeyUpdate(new))) =
            (&before.on, &mut after.on)
        else {
            return Ok(());
        };
        let appends = matches!(self.insert.style, Style::OdkuOne | Style::OdkuLiteral);
        if new.len() == old.len() || !appends {
            return Ok(());
        }
        let column = name::quoted(self.insert.target.id_column());
        let plain = format!("{column} = LAST_INSERT_ID({column})");
        let last = new.pop().map(|last| last.to_string()).unwrap_or_default();
        let qualified = last
            .strip_prefix(&format!("{column} = LAST_INSERT_ID("))
            .is_some_and(|rest| rest.ends_with(&format!(".{column})")) && rest.starts_with('`'));
        if last == plain || qualified {
            Ok(())
        } else {
            Err(Difference("ON DUPLICATE KEY UPDATE assigns more than the id"))
        }
    }

    fn is_column(&self, name: &ObjectName) -> bool {
        let last = name.0.last().and_then(|part| part.as_ident());
        last.is_some_and(|last| name::same_column(&last.value, self.insert.target.id_column()))
    }

    /// The id's place where no columns are listed: the visible columns in the table's own order.
    fn place_of_table(&self) -> Option<usize> {
        let mut visible = self.insert.target.shape.as_deref()?.visible();
        visible.position(|column| name::same_column(&column.name, self.insert.target.id_column()))
    }

    /// A value at the id's place: what it became is put back. Which other constants are zero to the
    /// column, the scanner knows alone; but only a constant may give way to an id.
    fn value(&mut self, old: &Expr, new: &mut Expr) -> Compared<()> {
        let lacks_id = is_null(old) || !self.zero_is_value && (is_default(old) || is_zero(old));
        if lacks_id || !self.zero_is_value && old != new && is_constant(old) {
            self.id(new)?;
        } else if !is_default(old) {
            // Any other change is found with everything else.
            return Ok(());
        } else if new.to_string() != "0" {
            return Err(Difference("DEFAULT has not become the zero that it stores"));
        }
        new.clone_from(old);
        Ok(())
    }

    /// Takes out the statement's next id, which must be written as its style has it.
    fn id(&mut self, value: &Expr) -> Compared<()> {
        let nth = u64::from(self.nth);
        let is_wrapped = matches!(self.insert.style, Style::Wrapped | Style::OdkuOne);
        let id = match self.block {
            Some(block) => {
                block.nth(nth).ok_or(Difference("there are more ids than Rowstamp took"))?.to_string()
            }
            None => "?".to_owned(),
        };
        let expected = if is_wrapped && nth == 0 {
            format!("LAST_INSERT_ID({id})")
        } else if is_wrapped && self.block.is_none() {
            let offset =
                self.insert.target.spacing.offset(nth).ok_or(Difference("the ids are too far apart"))?;
            format!("LAST_INSERT_ID() + {offset}")
        } else {
            id
        };
        let is_it = value.to_string() == expected || self.is_warned(value);
        self.nth += 1;
        if is_it { Ok(()) } else { Err(Difference("the id of a row is not the next one")) }
    }

    /// True if the id is written as text, of which the server warns as it would of what the client
    /// wrote.
    fn is_warned(&self, value: &Expr) -> bool {
        let is_here = |edit: &Edit| matches!(edit.piece, Piece::Id(Id { nth, form: IdForm::Warned, .. }) if nth == self.nth);
        let id = self.block.and_then(|block| block.nth(u64::from(self.nth)));
        let expected = match (self.block, id) {
            (Some(_), Some(id)) => format!("'{id}x'"),
            (Some(_), None) => return false,
            (None, _) => "CONCAT(?, 'x')".to_owned(),
        };
        value.to_string() == expected && self.insert.edits.iter().any(is_here)
    }
}

/// `AS new(a, b)` names the column that was added as well; `AS new` gets a list for it, of the
/// columns' own names.
fn take_from_alias(before: &Insert, after: &mut Insert) -> Compared<()> {
    let (Some(old), Some(new)) = (&before.insert_alias, &mut after.insert_alias) else { return Ok(()) };
    if old.col_aliases == new.col_aliases {
        return Ok(());
    }
    let names = new.col_aliases.as_mut().ok_or(Difference("the row alias has no column list"))?;
    if !names.pop().is_some_and(|name| name.value.starts_with("rowstamp_id")) {
        return Err(Difference("the last column of the row alias is not the added one"));
    }
    let own = || before.columns.iter().map(|column| column.0.last().and_then(|part| part.as_ident()));
    let has_list = old.col_aliases.as_ref().is_some_and(|names| !names.is_empty());
    if !has_list && names.iter().map(Some).eq(own()) {
        new.col_aliases.clone_from(&old.col_aliases);
    }
    Ok(())
}

fn rows(insert: &Insert) -> Option<&[Row]> {
    match insert.source.as_deref()?.body.as_ref() {
        SetExpr::Values(values) => Some(&values.rows),
        _ => None,
    }
}

fn rows_mut(source: &mut Option<Box<Query>>) -> Option<&mut [Row]> {
    match source.as_deref_mut()?.body.as_mut() {
        SetExpr::Values(values) => Some(&mut values.rows),
        _ => None,
    }
}

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// `DEFAULT`, or of the id's column: of another it would be an expression, which gets no plan.
fn is_default(value: &Expr) -> bool {
    let is = |word: &str| word.eq_ignore_ascii_case("DEFAULT");
    match value {
        Expr::Identifier(word) => word.quote_style.is_none() && is(&word.value),
        Expr::Function(call) => is(&call.name.to_string()),
        _ => false,
    }
}

/// Zero to any column, spelled so that nobody doubts it.
fn is_zero(value: &Expr) -> bool {
    let zeros = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit == b'0');
    match value {
        Expr::Nested(inner) => is_zero(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) | Value::SingleQuotedString(digits) => zeros(digits),
            _ => false,
        },
        _ => false,
    }
}

fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_constant(inner),
        Expr::Prefixed { value, .. } => is_constant(value),
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        // `0b0` is a name to this parser.
        Expr::Identifier(word) => {
            word.quote_style.is_none() && word.value.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}
