//! The meaning of each row's value at the id's place: an id of ours, or the client's own.

use super::{Draft, Planning, Rows, Unplanned, refused};
use crate::rewrite::meaning::{ColumnClass, Meaning};
use crate::rewrite::plan::{IdParam, LastId};
use crate::rules::model::Explicit;
use crate::sql::insert::Body;
use crate::sql::value::IdValue;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowId {
    Generate,
    Keep,
    /// NO_AUTO_VALUE_ON_ZERO: DEFAULT stores 0, also where the column has no default.
    Zero,
    /// The client's `?`: decided at execution.
    Client,
    /// The server would make zero of it, with a warning, and so take an id for it; or it is an
    /// error.
    Clamped,
}

impl RowId {
    /// `None`: the text does not show it.
    pub(super) fn of(meaning: Meaning, class: IdValue) -> Option<RowId> {
        match class {
            IdValue::ConvertedZero | IdValue::Converted | IdValue::MinusZero
                if matches!(meaning.column, ColumnClass::Text | ColumnClass::Real) =>
            {
                None
            }
            IdValue::MinusZero if meaning.column != ColumnClass::Signed => None,
            IdValue::Default if meaning.zero_is_value => Some(RowId::Zero),
            IdValue::Zero | IdValue::ConvertedZero | IdValue::MinusZero if meaning.zero_is_value => {
                Some(RowId::Keep)
            }
            IdValue::Omitted
            | IdValue::Null
            | IdValue::Default
            | IdValue::Zero
            | IdValue::ConvertedZero
            | IdValue::MinusZero => Some(RowId::Generate),
            IdValue::Placeholder(_) => Some(RowId::Client),
            IdValue::Integer | IdValue::Converted => Some(RowId::Keep),
            IdValue::Text | IdValue::TruncatedZero | IdValue::Truncated => match meaning.column {
                ColumnClass::Text => Some(RowId::Keep),
                ColumnClass::Real => None,
                ColumnClass::Signed | ColumnClass::Unsigned if class == IdValue::Truncated => {
                    Some(RowId::Keep)
                }
                ColumnClass::Signed | ColumnClass::Unsigned => Some(RowId::Clamped),
            },
            IdValue::Expression => None,
        }
    }
}

impl Draft<'_> {
    /// Reads of each row what it takes. Returns the first row, counted from 1, of which the text does not
    /// show it.
    pub(super) fn decide(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<Option<u32>> {
        let mut integers = body.integers.iter().copied();
        for (at, row) in (0u32..).zip(rows.rows.iter()) {
            let Some(id) = RowId::of(self.meaning, row.class) else { return Ok(Some(at + 1)) };
            let has_integer = matches!(row.class, IdValue::Integer | IdValue::Converted | IdValue::Truncated);
            let integer = has_integer.then(|| integers.next()).flatten();
            let id =
                if integer.is_some_and(|integer| self.meaning.clamps(integer)) { RowId::Clamped } else { id };
            self.plan.last = match (id, row.class) {
                (RowId::Clamped, _) => self.decide_clamped(at, integer),
                (RowId::Generate, _) => self.generate(),
                (RowId::Client, IdValue::Placeholder(index)) => {
                    let index = param(index)?;
                    self.plan.id_params.push(IdParam { index, row: at });
                    LastId::Param(index)
                }
                (_, IdValue::Text) => LastId::Unknown,
                _ if has_integer => integer.map_or(LastId::Unknown, |integer| self.keep(integer)),
                _ => self.keep(0),
            };
            let is_zero = matches!(
                row.class,
                IdValue::Default | IdValue::Zero | IdValue::ConvertedZero | IdValue::MinusZero
            );
            if is_zero || id == RowId::Clamped {
                self.plan.zero_meant = Some(self.meaning.zero_is_value);
            }
            if matches!(id, RowId::Keep | RowId::Zero) {
                self.kept.get_or_insert(at);
            }
        }
        self.check_row_ids(body).map(|()| None)
    }

    fn generate(&mut self) -> LastId {
        self.plan.ids += 1;
        LastId::Generated
    }

    fn keep(&mut self, integer: i128) -> LastId {
        self.plan.explicit.push(integer);
        LastId::Written(integer)
    }

    /// A row of which the server makes zero with a warning gets an id by which it warns too. Where
    /// zero is a value, and where the server refuses what the client wrote, that stays as it is.
    fn decide_clamped(&mut self, at: u32, integer: Option<i128>) -> LastId {
        let stays = !self.context.head.ignore && self.meaning.refuses_clamped(at);
        if self.meaning.zero_is_value {
            self.kept.get_or_insert(at);
            self.keep(integer.unwrap_or_default())
        } else if stays {
            self.plan.strict_meant = Some(self.meaning.strictness());
            LastId::Unknown
        } else {
            self.warned.push(at);
            self.generate()
        }
    }

    fn check_row_ids(&self, body: &Body) -> Planning<()> {
        let column = self.context.target.id_column();
        if let Some(row) = self.kept.filter(|_| self.context.target.rule.explicit == Explicit::Reject) {
            return refused(format!(
                "row {} has a value for {column}, which the table's rule rejects; leave {column} out, or write NULL",
                row + 1
            ));
        }
        let takes = self.plan.ids > 0 || !self.plan.id_params.is_empty();
        if takes && self.id.is_some_and(|id| id.data_type == "float") {
            return refused(format!("{column} is a FLOAT, which rounds large ids; make {column} a BIGINT"));
        }
        if body.later.names_id && takes {
            return refused(format!(
                "a value after {column} may read {column} and would see the id; put {column} last"
            ));
        }
        Ok(())
    }
}

fn param(index: u32) -> Planning<u16> {
    u16::try_from(index).map_err(|_| Unplanned::Unreadable("more than 65,535 placeholders".to_owned()))
}
