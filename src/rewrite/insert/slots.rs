//! What each row's value at the id's place means: an id of ours, or the client's own.

use super::{Context, Draft, Planning, Rows, Stop, refused};
use crate::rewrite::prepare::IdParam;
use crate::rules::model::{ColumnShape, Explicit};
use crate::sql::dialect::SqlMode;
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

/// What decides what a value means.
#[derive(Clone, Copy)]
pub(super) struct Meaning {
    /// NO_AUTO_VALUE_ON_ZERO
    zero_is_value: bool,
    /// A string column: the wrapper, which makes integers, does not fit.
    pub(super) is_text: bool,
    /// A column where 0.4 is not zero.
    is_real: bool,
}

impl Meaning {
    pub(super) fn new(context: &Context<'_>, id: Option<&ColumnShape>) -> Self {
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
    pub(super) fn slot(self, class: IdValue) -> Option<Slot> {
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

impl Draft<'_> {
    pub(super) fn decide(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
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
}

fn param(index: u32) -> Planning<u16> {
    u16::try_from(index).map_err(|_| Stop::Unreadable("more than 65,535 placeholders".to_owned()))
}
