//! What the OK packet of a ruled INSERT must say, so that the client learns the id that a native table would have told it.
//! ARCHITECTURE.md, "The insert id", has the rules; the differential tests hold each.

use std::sync::Arc;

use crate::ids::range::IdRange;
use crate::mysql::ok::OkPacket;
use crate::rewrite::plan::{InsertPlan, Style, Target};
use crate::rules::model::InsertId;

/// One ruled INSERT that is on its way.
#[derive(Debug)]
pub(super) struct InsertReply {
    /// Which result of the packet is its own, counted from 0.
    pub(super) statement: usize,
    style: Style,
    ids: Ids,
    /// IGNORE or ON DUPLICATE KEY UPDATE: not every id need have become a row.
    may_skip: bool,
    rows: u32,
    target: Arc<Target>,
    smallest: Smallest,
}

/// What is known of the smallest of our ids that is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Smallest {
    NotAsked,
    None,
    Id(u64),
}

/// First and last of the ids that a statement took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl From<&IdRange> for Ids {
    fn from(range: &IdRange) -> Self {
        Ids { first: range.first(), last: range.last() }
    }
}

/// Which of our ids is the smallest in the table? The first that a native table would have reported.
#[derive(Debug, Clone)]
pub(super) struct SmallestId {
    pub(super) target: Arc<Target>,
    pub(super) ids: Ids,
}

#[derive(Debug)]
pub(super) enum Settled {
    Leave,
    Patch { insert_id: u64 },
    Ask(SmallestId),
}

impl InsertReply {
    pub(super) fn new(insert: &InsertPlan, ids: Ids) -> Self {
        InsertReply {
            statement: insert.statement,
            style: insert.style,
            ids,
            may_skip: insert.may_skip,
            rows: insert.rows,
            target: insert.target.clone(),
            smallest: Smallest::NotAsked,
        }
    }

    pub(super) fn answered(&mut self, smallest: Option<u64>) {
        self.smallest = smallest.map_or(Smallest::None, Smallest::Id);
    }

    /// Whether the statement itself sets what `LAST_INSERT_ID()` shows.
    pub(super) fn sets_insert_id(&self) -> bool {
        matches!(self.style, Style::Wrapped | Style::OdkuOne)
    }

    /// What the OK packet's insert id becomes.
    pub(super) fn settle(&self, ok: &OkPacket<'_>) -> Settled {
        match self.style {
            // The server's own report is right.
            Style::OdkuNative => Settled::Leave,
            // Ours: inserted. Another with 2 affected rows: the updated row's, as native. Else nothing changed.
            Style::OdkuOne if ok.insert_id == self.ids.first || ok.affected_rows == 2 => Settled::Leave,
            Style::OdkuOne => Settled::Patch { insert_id: 0 },
            Style::Wrapped | Style::Literal if ok.affected_rows == 0 => Settled::Patch { insert_id: 0 },
            // Under a wrapper the server reports it too, unless a trigger inserted rows of its own.
            Style::Wrapped => Settled::Patch { insert_id: self.ids.first },
            Style::Literal if !self.may_skip || self.rows == 1 && ok.affected_rows == 1 => {
                Settled::Patch { insert_id: self.ids.first }
            }
            Style::Literal => match self.smallest {
                Smallest::NotAsked => Settled::Ask(SmallestId { target: self.target.clone(), ids: self.ids }),
                Smallest::Id(insert_id) => Settled::Patch { insert_id },
                Smallest::None => Settled::Leave,
            },
        }
    }

    /// What `LAST_INSERT_ID()` should show from now on and the server does not know, where that is so. `insert_id` is what
    /// the client's OK packet says.
    pub(super) fn owed_insert_id(&self, ok: &OkPacket<'_>, insert_id: u64) -> Option<u64> {
        let shows = self.target.rule.insert_id == InsertId::Session;
        match self.style {
            // Another's id (of an updated or an explicit row) reaches the packet, not the function.
            Style::Literal => {
                Some(insert_id).filter(|id| shows && (self.ids.first..=self.ids.last).contains(id))
            }
            // A literal in an AUTO_INCREMENT column reaches the OK packet, not the function.
            Style::OdkuNative if ok.affected_rows == 1 => {
                Some(self.ids.first).filter(|&id| shows && id == insert_id)
            }
            Style::Wrapped | Style::OdkuOne | Style::OdkuNative => None,
        }
    }
}
