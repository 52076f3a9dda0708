//! What the OK packet of a ruled INSERT must say: the id that a native table would have reported.
//! docs/design/inserts.md, "The insert id", has the rules; the differential tests hold each.

use std::sync::Arc;
use std::time::Duration;

use crate::ids::range::block::{IdBlock, Spacing};
use crate::mysql::ok::OkPacket;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::select::SelectPlan;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, NewRows};
use crate::rules::model::{Explicit, InsertId};
use crate::tables::Tables;
use crate::tables::locks::SendBy;

/// One ruled INSERT that is on its way.
#[derive(Debug)]
pub(in crate::proxy) struct InsertReply {
    /// Which result of the packet is its own, counted from 0.
    pub(in crate::proxy) statement: usize,
    style: Style,
    /// `None`: it takes none, but its OK packet still shows an id that stands in its text.
    ids: Option<Ids>,
    rows: u32,
    new_rows: NewRows,
    /// CLIENT_FOUND_ROWS: an old row that stays as it is counts as an affected one.
    found_rows: bool,
    /// The client's own `LAST_INSERT_ID(x)`.
    sets_last_id: bool,
    returning: bool,
    /// Several sets of parameters in one execution.
    bulk: Option<InBulk>,
    pub(in crate::proxy) target: Arc<Target>,
    smallest: Smallest,
    /// INSERT ... SELECT.
    selected: Option<Selected>,
    /// The version of the rules that it was planned under: the table stays locked while it is under
    /// way.
    tables: Arc<Tables>,
    /// Until when it may be sent, as far as was known when its ids were taken.
    send_by: SendBy,
}

/// What an INSERT ... SELECT was numbered with.
#[derive(Debug, Clone, Copy)]
struct Selected {
    /// LAST_INSERT_ID() before it.
    before_first: u64,
    /// Its query brings ids.
    brings_ids: bool,
    /// They are stored, and the generator has not gone past them yet.
    must_follow: bool,
    /// Its answer has rows, whose columns have been sent before it may fail.
    returns_rows: bool,
}

/// What differs in a bulk execution of several sets. A wrapper acts for each, and so shows the last
/// id.
#[derive(Debug, Clone, Copy)]
struct InBulk {
    /// `id=LAST_INSERT_ID(id)` is ours. Where no row is new the server reports an updated one; a
    /// native table reports 0 for several rows.
    none_is_zero: bool,
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
pub(in crate::proxy) struct Ids {
    pub(in crate::proxy) first: u64,
    pub(in crate::proxy) last: u64,
    /// Others' ids may lie between them.
    pub(in crate::proxy) spacing: Spacing,
}

impl From<&IdBlock> for Ids {
    fn from(range: &IdBlock) -> Self {
        Ids { first: range.first(), last: range.last(), spacing: range.spacing() }
    }
}

/// Which of our ids is the smallest in the table? The first that a native table would have
/// reported.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct SmallestId {
    pub(in crate::proxy) target: Arc<Target>,
    pub(in crate::proxy) ids: Ids,
}

#[derive(Debug)]
pub(in crate::proxy) enum Settled {
    Leave,
    Patch { insert_id: u64 },
    Ask(SmallestId),
}

impl InsertReply {
    /// Whether the lease that its ids were taken in ends too soon to send it: writing a long
    /// statement took long.
    pub(in crate::proxy) fn is_late(&self) -> bool {
        self.ids.is_some() && self.send_by.is_near()
    }

    /// Until when it may be sent, as far as is known now; `None`: it takes no ids.
    pub(in crate::proxy) fn send_by(&self) -> Option<SendBy> {
        self.ids?;
        Some(self.tables.send_by(&self.target).unwrap_or(self.send_by))
    }

    /// What was taken for it, if anything.
    pub(in crate::proxy) fn taken(&self) -> Option<(&Target, Ids)> {
        Some((&self.target, self.ids?))
    }

    /// `found_rows`: CLIENT_FOUND_ROWS was negotiated.
    pub(in crate::proxy) fn new(
        insert: &InsertPlan,
        ids: Option<Ids>,
        found_rows: bool,
        tables: Arc<Tables>,
    ) -> Self {
        let send_by = tables.lease(&insert.target).unwrap_or(SendBy::Boottime(Duration::ZERO));
        InsertReply {
            statement: insert.statement,
            style: insert.style,
            ids,
            rows: insert.rows,
            new_rows: insert.new_rows,
            found_rows,
            sets_last_id: insert.sets_last_id,
            returning: insert.returning,
            bulk: None,
            target: insert.target.clone(),
            smallest: Smallest::NotAsked,
            selected: None,
            tables,
            send_by,
        }
    }

    /// The same of an execution with so many sets of parameters; of one it is an execution as any
    /// other.
    pub(in crate::proxy) fn in_bulk(self, sets: u32) -> Self {
        if sets == 1 {
            return self;
        }
        let is_ours = matches!(self.style, Style::OdkuOne | Style::OdkuLiteral) && !self.sets_last_id;
        let style = if self.style == Style::Wrapped { Style::Wrapped } else { Style::Literal };
        let bulk = Some(InBulk { none_is_zero: is_ours });
        InsertReply { style, bulk, rows: self.rows.saturating_mul(sets), ..self }
    }

    fn none_is_zero(&self) -> bool {
        self.bulk.is_some_and(|bulk| bulk.none_is_zero)
    }

    /// Of an INSERT ... SELECT.
    pub(in crate::proxy) fn selected(
        insert: &InsertPlan,
        select: &SelectPlan,
        ids: Ids,
        found_rows: bool,
        before_first: u64,
        tables: Arc<Tables>,
    ) -> Self {
        let brings_ids = select.id_place.is_some();
        let must_follow = brings_ids && insert.target.rule.explicit == Explicit::Advance;
        let returns_rows = select.returns_rows;
        let selected = Some(Selected { before_first, brings_ids, must_follow, returns_rows });
        InsertReply { selected, ..InsertReply::new(insert, Some(ids), found_rows, tables) }
    }

    /// What LAST_INSERT_ID() said before an INSERT ... SELECT, which counts with it.
    pub(in crate::proxy) fn counted_from(&self) -> Option<u64> {
        self.selected.map(|selected| selected.before_first)
    }

    /// Whether the generator is to go past ids that its query brought.
    pub(in crate::proxy) fn must_follow(&self) -> bool {
        self.selected.is_some_and(|selected| selected.must_follow)
    }

    pub(in crate::proxy) fn is_followed(&mut self) {
        if let Some(selected) = &mut self.selected {
            selected.must_follow = false;
        }
    }

    /// Whether its answer has rows; `None`: it is no INSERT ... SELECT.
    pub(in crate::proxy) fn selects_with_rows(&self) -> Option<bool> {
        self.selected.map(|selected| selected.returns_rows)
    }

    pub(in crate::proxy) fn answered(&mut self, smallest: Option<u64>) {
        self.smallest = smallest.map_or(Smallest::None, Smallest::Id);
    }

    /// Whether the statement itself sets what `LAST_INSERT_ID()` shows.
    pub(in crate::proxy) fn sets_insert_id(&self) -> bool {
        self.bulk.is_none() && matches!(self.style, Style::Wrapped | Style::OdkuOne)
    }

    /// What the OK packet's insert id becomes.
    pub(in crate::proxy) fn settle(&self, ok: &OkPacket<'_>) -> Settled {
        // What the server says where it has generated no id: nothing, or what the client's
        // LAST_INSERT_ID(x) was given.
        let without_id = if self.sets_last_id { Settled::Leave } else { Settled::Patch { insert_id: 0 } };
        match (self.style, ok.affected_rows, self.ids) {
            // The server's own report is right.
            (Style::OdkuNative, ..) => Settled::Leave,
            (_, 0, _) => without_id,
            (Style::OdkuOne | Style::OdkuLiteral, ..) => self.settle_odku(ok, without_id),
            (Style::Literal, _, None) if self.none_is_zero() => Settled::Patch { insert_id: 0 },
            (Style::Wrapped | Style::Literal, _, None) => Settled::Leave,
            // Under a wrapper the server reports it too, unless a trigger inserted rows of its own.
            (Style::Wrapped, _, Some(ids)) => Settled::Patch { insert_id: ids.first },
            (Style::Literal, affected, Some(ids)) => {
                let is_new = self.rows == 1 && affected == 1;
                let brings_ids = self.selected.is_some_and(|selected| selected.brings_ids);
                let all_are_new = match self.new_rows {
                    NewRows::All => !brings_ids,
                    NewRows::SomeIgnored => self.selected.is_none() && affected == u64::from(self.rows),
                    NewRows::SomeUpdated => false,
                };
                if all_are_new || is_new && !self.counts_old() {
                    return Settled::Patch { insert_id: ids.first };
                }
                // After a query the server reports what LAST_INSERT_ID() was put back to.
                let is_put_back = self.selected.is_some() && self.new_rows != NewRows::All;
                self.smallest(ids, |smallest| match smallest {
                    // The first is in no row where REPLACE met it again.
                    Some(_) if self.new_rows == NewRows::All => Settled::Patch { insert_id: ids.first },
                    Some(insert_id) => Settled::Patch { insert_id },
                    None if self.none_is_zero() || is_put_back => Settled::Patch { insert_id: 0 },
                    None => Settled::Leave,
                })
            }
        }
    }

    /// One row, inserted or met by `id=LAST_INSERT_ID(id)`; at least one affected row.
    fn settle_odku(&self, ok: &OkPacket<'_>, unchanged: Settled) -> Settled {
        // The updated row's id, as native.
        if ok.affected_rows != 1 {
            return Settled::Leave;
        }
        match self.ids {
            Some(ids) if !self.counts_old() || ok.insert_id == ids.first => {
                Settled::Patch { insert_id: ids.first }
            }
            // New, unless an old row that stays as it is has this id.
            Some(ids) => self.smallest(ids, |smallest| {
                smallest.map_or(unchanged, |insert_id| Settled::Patch { insert_id })
            }),
            // An id of the client's own, which a table without AUTO_INCREMENT does not report.
            None if ok.insert_id == 0 || !self.counts_old() => Settled::Leave,
            None => unchanged,
        }
    }

    /// Whether one affected row may be an old one that stays as it was.
    fn counts_old(&self) -> bool {
        self.found_rows && self.new_rows == NewRows::SomeUpdated
    }

    fn smallest(&self, ids: Ids, known: impl FnOnce(Option<u64>) -> Settled) -> Settled {
        match self.smallest {
            Smallest::NotAsked => Settled::Ask(SmallestId { target: self.target.clone(), ids }),
            Smallest::None => known(None),
            Smallest::Id(id) => known(Some(id)),
        }
    }

    /// The end of the rows that RETURNING answers with: no OK packet tells how many rows are new.
    /// The id that `LAST_INSERT_ID()` then shows, as for [`InsertReply::settle`].
    pub(in crate::proxy) fn settle_rows(&self) -> Settled {
        match (self.style, self.ids) {
            _ if !self.returning => Settled::Leave,
            (Style::Wrapped, Some(ids)) if self.bulk.is_some() => Settled::Patch { insert_id: ids.first },
            (_, None) | (Style::Wrapped | Style::OdkuOne, _) => Settled::Leave,
            (Style::Literal, Some(ids)) if self.new_rows == NewRows::All => {
                Settled::Patch { insert_id: ids.first }
            }
            (_, Some(ids)) => self.smallest(ids, |smallest| {
                smallest.map_or(Settled::Leave, |insert_id| Settled::Patch { insert_id })
            }),
        }
    }

    /// What `LAST_INSERT_ID()` should show from now on, where the server does not know it.
    /// `insert_id` is what the client's OK packet says.
    pub(in crate::proxy) fn owed_insert_id(&self, affected_rows: u64, insert_id: u64) -> Option<u64> {
        let ids = self.ids.filter(|_| self.target.rule.insert_id == InsertId::Session)?;
        let is_owed = match self.style {
            Style::Wrapped => self.bulk.is_some() && affected_rows > 0,
            Style::OdkuOne => false,
            // Another's id (of an updated or an explicit row) reaches the packet, not the function.
            // Nor does that of a row of ours that was left out.
            Style::Literal => (ids.first..=ids.last).contains(&insert_id) && self.smallest != Smallest::None,
            // A literal in an AUTO_INCREMENT column reaches the OK packet, not the function.
            Style::OdkuLiteral | Style::OdkuNative => affected_rows == 1 && insert_id == ids.first,
        };
        is_owed.then_some(insert_id)
    }
}
