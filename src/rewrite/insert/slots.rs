//! What each row's value at the id's place means: an id of ours, or the client's own.

use super::{Draft, Planning, Rows, Stop, refused};
use crate::rewrite::meaning::{Column, Meaning};
use crate::rewrite::prepare::IdParam;
use crate::rules::model::Explicit;
use crate::sql::insert::Body;
use crate::sql::value::IdValue;

/// What becomes of a row's id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Generate,
    Keep,
    /// NO_AUTO_VALUE_ON_ZERO: DEFAULT stores 0, also where the column has no default.
    Zero,
    /// The client's `?`: decided at execution.
    Client,
}

impl Slot {
    /// `None`: not to be told from the text.
    pub(super) fn of(meaning: Meaning, class: IdValue) -> Option<Slot> {
        match class {
            IdValue::ConvertedZero | IdValue::Converted | IdValue::MinusZero
                if matches!(meaning.column, Column::Text | Column::Real) =>
            {
                None
            }
            IdValue::MinusZero if meaning.column != Column::Signed => None,
            IdValue::Default if meaning.zero_is_value => Some(Slot::Zero),
            IdValue::Zero | IdValue::ConvertedZero | IdValue::MinusZero if meaning.zero_is_value => {
                Some(Slot::Keep)
            }
            IdValue::Omitted
            | IdValue::Null
            | IdValue::Default
            | IdValue::Zero
            | IdValue::ConvertedZero
            | IdValue::MinusZero => Some(Slot::Generate),
            IdValue::Placeholder(_) => Some(Slot::Client),
            IdValue::Integer | IdValue::Converted => Some(Slot::Keep),
            IdValue::Text if meaning.column == Column::Text => Some(Slot::Keep),
            IdValue::Text | IdValue::Expression => None,
        }
    }
}

impl Draft<'_> {
    pub(super) fn decide(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
        let mut integers = body.integers.iter().copied();
        for (nth, row) in rows.rows.iter().enumerate() {
            let Some(slot) = Slot::of(self.meaning, row.class) else { return self.refuse_value() };
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
            if matches!(
                row.class,
                IdValue::Default | IdValue::Zero | IdValue::ConvertedZero | IdValue::MinusZero
            ) {
                self.zero_meant = Some(self.meaning.zero_is_value);
            }
            self.kept |= matches!(slot, Slot::Keep | Slot::Zero);
        }
        self.check_slots(body)
    }

    fn refuse_value<T>(&self) -> Planning<T> {
        let column = self.context.target.id_column();
        refused(format!(
            "the value for {column} does not show whether it is NULL or zero; write a number, NULL, or leave the column out"
        ))
    }

    fn check_slots(&self, body: &Body) -> Planning<()> {
        let column = self.context.target.id_column();
        if self.kept && self.context.target.rule.explicit == Explicit::Reject {
            return refused(format!(
                "the rule rejects values written for {column}; leave the column out or write NULL"
            ));
        }
        let takes = self.ids > 0 || !self.id_params.is_empty();
        if takes && self.id.is_some_and(|id| id.data_type == "float") {
            return refused(format!(
                "{column} is a FLOAT, which does not hold every integer; make it a BIGINT"
            ));
        }
        if body.later.names_id && takes {
            return refused(format!(
                "a value behind {column} may refer to it and would see the id; put {column} last"
            ));
        }
        Ok(())
    }
}

fn param(index: u32) -> Planning<u16> {
    u16::try_from(index).map_err(|_| Stop::Unreadable("more than 65,535 placeholders".to_owned()))
}
