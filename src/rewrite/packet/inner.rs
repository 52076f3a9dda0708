//! A statement within a statement: what it comes to, and where its ids go.

use std::fmt::Display;

use super::{Halt, Place, refused};
use crate::rewrite::packet::hiding::Hidden;
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_text::PreparedText;
use crate::rewrite::plan::{InsertPlan, Planned};
use crate::sql::lex::Span;
use crate::table_name::TableName;

/// What a text leaves behind when it runs.
pub(super) struct Ran {
    pub(super) effects: Effects,
    pub(super) overlay: Vec<(TableName, Hidden)>,
    pub(super) views: Vec<TableName>,
}

/// What a text within a statement turned out to be.
pub(super) enum Inner {
    /// It passes, and does this when it runs.
    Passes(Box<Ran>),
    Fills(Box<InsertPlan>),
}

/// What is around an EXECUTE may change what its INSERT stores.
pub(super) fn check_around(insert: &InsertPlan, place: Place) -> Result<(), Halt> {
    if place.around.settings.ids && (insert.ids > 0 || !insert.id_params.is_empty() || insert.stage.is_some())
    {
        return refused(insert.target.at(
            "SET STATEMENT sets a variable that decides which ids the server generates (insert_id, auto_increment_increment, ...); \
             write the id itself, or leave the variable out",
        ));
    }
    Ok(())
}

/// Why EXECUTE cannot bind more parameters than its statement has: the server has more.
pub(super) fn too_many_params(params: impl Display) -> String {
    format!("EXECUTE binds more parameters than its statement has ({params}); leave the surplus out")
}

/// The plan's text as it is prepared.
pub(super) fn prepared(insert: &InsertPlan, text: &[u8]) -> Result<PreparedText, Halt> {
    insert.prepare(text).map_err(|refusal| Box::new(Planned::Refused(refusal)))
}

/// Rows that take an id: ids ascend with them.
pub(super) struct Order(Vec<u32>);

impl Order {
    pub(super) fn new(rows: impl Iterator<Item = u32>, taking: &[(u32, Span)]) -> Order {
        let mut rows: Vec<u32> = rows.chain(taking.iter().map(|&(row, _)| row)).collect();
        rows.sort_unstable();
        Order(rows)
    }

    /// Which of the statement's ids is this row's.
    pub(super) fn nth(&self, row: u32) -> u32 {
        u32::try_from(self.0.partition_point(|&other| other < row)).unwrap_or(u32::MAX)
    }
}

/// Ids in place of the client's parameters.
pub(super) fn taken_edits(taking: &[(u32, Span)], order: &Order) -> Vec<Edit> {
    let edit = |&(row, arg): &(u32, Span)| {
        let piece = Piece::Id(Id { nth: order.nth(row), row, comma: false, form: IdForm::Literal });
        Edit::over(arg, piece)
    };
    taking.iter().map(edit).collect()
}
