//! The insert id in the OK packet of a ruled INSERT: the id that a native table would have reported.
//! docs/design/inserts.md, "The insert id", has the rules; the differential tests hold each.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::block::{IdBlock, Spacing};
use crate::mysql::ok::{Filled, OkPacket};
use crate::proxy::known::explicit::set_id::SetId;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, LastId, NewRows};
use crate::rules::model::{Collide, InsertId};
use crate::tables::Tables;
use crate::tables::locks::SendBy;

/// One ruled INSERT that is on its way.
#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Debug)]
pub(crate) struct InsertReply {
    /// Which result of the packet is its own, counted from 0.
    pub(crate) statement: usize,
    style: Style,
    /// `None`: it takes none, but its OK packet still shows an id that stands in its text.
    ids: Option<Ids>,
    last: LastRow,
    pub(crate) rows: u32,
    new_rows: NewRows,
    /// CLIENT_FOUND_ROWS: an old row that stays as it is counts as an affected one.
    found_rows: bool,
    /// The client's own `LAST_INSERT_ID(x)`.
    sets_last_id: bool,
    returning: bool,
    /// Several sets of parameters in one execution: a wrapper acts for each, and so shows the last id. Whether
    /// `id=LAST_INSERT_ID(id)` is ours: where no row is new the server reports an updated one, and a native table 0.
    bulk: Option<bool>,
    pub(crate) target: Arc<Target>,
    /// The server's answer to [`SmallestId`], if it was asked.
    pub(crate) smallest: Smallest,
    /// True once the proxy has found out if its error 1062 is about an id of its own.
    pub(crate) was_looked_at: bool,
    /// Warnings of the statement that filled the stage, less those that storing the rows gives again.
    pub(crate) more_warnings: i32,
    /// The statement that filled the stage, by its OK packet.
    pub(crate) filled: Option<Filled>,
    /// The version of the rules that it was planned under: the table stays locked while it is under way.
    tables: Arc<Tables>,
    /// Until when it may be sent, as far as was known when its ids were taken.
    send_by: SendBy,
    /// The state of `insert_id` when the ids were taken. [`SetId::Taken`]: the client says which ids it takes.
    set_id: SetId,
}

/// The id of the statement's last row. A native table reports it where no id was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastRow {
    Ours,
    /// The client's own, as the table holds it.
    Written(u64),
    Unknown,
}

impl LastRow {
    fn of(target: &Target, last: LastId) -> LastRow {
        match last {
            LastId::Generated => LastRow::Ours,
            LastId::Written(id) => target.stored_id(id).map_or(LastRow::Unknown, LastRow::Written),
            LastId::Param(_) | LastId::Unknown => LastRow::Unknown,
        }
    }
}

/// The smallest of our ids that is in the table, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Smallest {
    NotAsked,
    /// The table could not be asked.
    Unknown,
    None,
    Id(u64),
}

/// First and last of the ids that a statement took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Others' ids may lie between them.
    pub(crate) spacing: Spacing,
}

impl From<&IdBlock> for Ids {
    fn from(block: &IdBlock) -> Self {
        Ids { first: block.first(), last: block.last(), spacing: block.spacing() }
    }
}

/// Which of our ids is the smallest in the table? The first that a native table would have reported.
#[derive(Debug, Clone)]
pub(crate) struct SmallestId {
    pub(crate) target: Arc<Target>,
    pub(crate) ids: Ids,
}

/// The id in the answer to the client: it stays, is this one, or is asked of the server. `AskSession`: it is the session's
/// `LAST_INSERT_ID()`.
#[derive(Debug, Clone)]
pub(crate) enum Settled {
    Leave,
    Patch { insert_id: u64 },
    Ask(SmallestId),
    AskSession,
}

impl InsertReply {
    /// Until when it may be sent, as far as was known when its ids were taken; `None`: it takes no ids.
    pub(crate) fn lease(&self) -> Option<SendBy> {
        self.ids.map(|_| self.send_by)
    }

    /// Until when it may be sent, as far as is known now; `None`: it takes no ids.
    pub(crate) fn send_by(&self) -> Option<SendBy> {
        self.ids?;
        Some(self.tables.send_by(&self.target).unwrap_or(self.send_by))
    }

    /// The ids that were taken for it, and their table. `None`: it took none.
    pub(crate) fn taken(&self) -> Option<(&Target, Ids)> {
        Some((&self.target, self.ids?))
    }

    /// Which of the ids the server names as a duplicate, in whatever language: the first thing between quotes is
    /// the key's value, its parts by dashes.
    pub(crate) fn collided(&self, error: &str) -> Option<u64> {
        let ids = self.ids.filter(|_| !self.is_said())?;
        let value = error.split('\'').nth(1)?;
        let mut numbers = value.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
        numbers.find(|id| (ids.first..=ids.last).contains(id))
    }

    /// True if the statement's form allows a second send after one of its ids was in the table already:
    /// nothing of its packet has run before it, and its answer reports no row that was in the way.
    pub(crate) fn may_be_sent_again(&self) -> bool {
        let is_plain = self.statement == 0 && self.new_rows == NewRows::All && !self.returning;
        let is_single = self.bulk.is_none() && self.filled.is_none() && !self.sets_last_id;
        is_plain
            && is_single
            && self.ids.is_some()
            && !self.is_said()
            && self.target.rule.collide == Collide::Raise
    }

    /// `last`: of the last row, as the statement is run. `found_rows`: CLIENT_FOUND_ROWS was
    /// negotiated. `set_id`: as it came to its ids.
    pub(crate) fn new(
        (insert, last): (&InsertPlan, LastId),
        ids: Option<Ids>,
        (found_rows, set_id): (bool, SetId),
        tables: Arc<Tables>,
    ) -> Self {
        let send_by = tables.lease(&insert.target).unwrap_or(SendBy::Boottime(Duration::ZERO));
        InsertReply {
            statement: insert.statement,
            style: insert.style,
            ids,
            last: LastRow::of(&insert.target, last),
            rows: insert.rows,
            new_rows: insert.new_rows,
            found_rows,
            sets_last_id: insert.sets_last_id,
            returning: insert.returning,
            bulk: None,
            target: insert.target.clone(),
            smallest: Smallest::NotAsked,
            was_looked_at: false,
            more_warnings: 0,
            filled: None,
            tables,
            send_by,
            set_id,
        }
    }

    pub(crate) fn is_said(&self) -> bool {
        self.ids.is_some() && matches!(self.set_id, SetId::Taken(_))
    }

    /// The reply of an execution with so many sets of parameters. An execution with one set is like any other.
    pub(crate) fn in_bulk(self, sets: u32) -> Self {
        if sets == 1 {
            return self;
        }
        let is_ours = matches!(self.style, Style::OdkuOne | Style::OdkuLiteral) && !self.sets_last_id;
        let style = if self.style == Style::Wrapped { Style::Wrapped } else { Style::Literal };
        InsertReply { style, bulk: Some(is_ours), rows: self.rows.saturating_mul(sets), ..self }
    }

    fn none_is_zero(&self) -> bool {
        self.bulk == Some(true)
    }

    /// The reply of an INSERT that stores so many rows from a stage, into the table as it is by now.
    pub(crate) fn staged(
        self,
        target: Arc<Target>,
        (rows, more_warnings, filled): (u64, i32, Filled),
    ) -> Self {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        InsertReply { target, rows, more_warnings, filled: Some(filled), ..self }
    }

    /// True if the statement itself sets what `LAST_INSERT_ID()` shows.
    pub(crate) fn sets_insert_id(&self) -> bool {
        self.bulk.is_none() && matches!(self.style, Style::Wrapped | Style::OdkuOne)
    }

    /// True if its answer may leave an insert id that the server does not know.
    pub(crate) fn may_owe(&self) -> bool {
        self.ids.is_some() && !self.sets_insert_id()
    }

    /// The insert id that the OK packet gets.
    pub(crate) fn settle(&self, ok: &OkPacket<'_>) -> Settled {
        // The insert id if the server has generated none: 0, or the value of the client's LAST_INSERT_ID(x).
        let without_id = if self.sets_last_id { Settled::Leave } else { Settled::Patch { insert_id: 0 } };
        match (self.style, ok.affected_rows, self.ids) {
            // The server's own report is right.
            (Style::OdkuNative, ..) => Settled::Leave,
            (_, 0, _) => without_id,
            (Style::OdkuOne | Style::OdkuLiteral, ..) => self.settle_odku(ok, without_id),
            (Style::Wrapped | Style::Literal, _, None) => self.settle_written(ok),
            // Under a wrapper the server reports it too, unless a trigger inserted rows of its own.
            (Style::Wrapped, _, Some(ids)) => Settled::Patch { insert_id: ids.first },
            (Style::Literal, _, Some(ids)) if self.target.trigger_writes_id() => self.settle_triggered(ids),
            (Style::Literal, affected, Some(ids)) => {
                let all_are_new = match self.new_rows {
                    NewRows::All => true,
                    NewRows::SomeIgnored => affected == u64::from(self.rows),
                    NewRows::SomeUpdated => false,
                };
                if all_are_new || self.is_one_new(ok) {
                    return Settled::Patch { insert_id: ids.first };
                }
                let left_out = || self.settle_left_out(ok, ids);
                let otherwise =
                    if self.none_is_zero() { Settled::Patch { insert_id: 0 } } else { left_out() };
                self.smallest(ids, otherwise)
            }
        }
    }

    /// A trigger may have written another id: then none was generated, as natively, and the server's own report is
    /// right where the column is AUTO_INCREMENT.
    fn settle_triggered(&self, ids: Ids) -> Settled {
        if self.rows == 1 && self.target.keeps_auto_increment() {
            return Settled::Leave;
        }
        self.smallest(ids, Settled::Leave)
    }

    /// No id was generated, and rows are affected. The server says so itself where the column is
    /// AUTO_INCREMENT, or where the client's LAST_INSERT_ID(x) says otherwise.
    fn settle_written(&self, ok: &OkPacket<'_>) -> Settled {
        let otherwise = if self.none_is_zero() { Settled::Patch { insert_id: 0 } } else { Settled::Leave };
        let LastRow::Written(insert_id) = self.last else { return otherwise };
        if ok.insert_id == 0 && (self.new_rows != NewRows::SomeUpdated || self.is_one_new(ok)) {
            return Settled::Patch { insert_id };
        }
        if ok.insert_id != 0 && !self.none_is_zero() {
            return Settled::Leave;
        }
        // A row with this id was updated in place of the last row, or stored, or else the last row met another.
        let only = Ids { first: insert_id, last: insert_id, spacing: Spacing::by(NonZeroU64::MIN) };
        self.smallest(only, otherwise)
    }

    /// IGNORE has left out all rows whose id is ours, and not all others.
    fn settle_left_out(&self, ok: &OkPacket<'_>, ids: Ids) -> Settled {
        match self.last {
            _ if ok.insert_id != 0 || self.new_rows != NewRows::SomeIgnored => Settled::Leave,
            LastRow::Ours => Settled::Patch { insert_id: ids.last },
            LastRow::Written(insert_id) => Settled::Patch { insert_id },
            LastRow::Unknown => Settled::Leave,
        }
    }

    fn is_one_new(&self, ok: &OkPacket<'_>) -> bool {
        let may_be_old = self.counts_old() || self.target.fires_on_update();
        self.rows == 1 && ok.affected_rows == 1 && !may_be_old
    }

    /// One row, inserted or met by `id=LAST_INSERT_ID(id)`; at least one affected row.
    fn settle_odku(&self, ok: &OkPacket<'_>, unchanged: Settled) -> Settled {
        // The updated row's id, as native.
        if ok.affected_rows != 1 {
            return self.settle_updated(ok);
        }
        match self.ids {
            // MySQL counts an old row once that only the trigger has changed.
            Some(ids) if self.target.fires_on_update() && ok.insert_id == 0 => match self.style {
                Style::OdkuOne => self.settle_updated(ok),
                _ => self.smallest(ids, Settled::AskSession),
            },
            Some(ids) if !self.counts_old() || ok.insert_id == ids.first => {
                Settled::Patch { insert_id: ids.first }
            }
            // New, unless an old row that stays as it is has this id.
            Some(ids) => self.smallest(ids, unchanged),
            // The OK packet would have the id of a row that was met, by the assignment that was added to the list.
            None if ok.insert_id == 0 => match self.last {
                LastRow::Written(insert_id) => Settled::Patch { insert_id },
                LastRow::Ours | LastRow::Unknown => Settled::Leave,
            },
            None if !self.counts_old() => Settled::Leave,
            None => unchanged,
        }
    }

    /// A trigger makes the server forget for the OK packet what `LAST_INSERT_ID(x)` was given last. The function still shows it.
    fn settle_updated(&self, ok: &OkPacket<'_>) -> Settled {
        match self.smallest {
            Smallest::NotAsked if ok.insert_id == 0 && !self.sets_last_id => Settled::AskSession,
            Smallest::Id(insert_id) => Settled::Patch { insert_id },
            _ => Settled::Leave,
        }
    }

    /// True if one affected row may be an old one that stays as it was.
    fn counts_old(&self) -> bool {
        self.found_rows && self.new_rows == NewRows::SomeUpdated
    }

    /// The smallest of the ids that is in the table, and `otherwise` where none is.
    fn smallest(&self, ids: Ids, otherwise: Settled) -> Settled {
        match self.smallest {
            Smallest::NotAsked => Settled::Ask(SmallestId { target: self.target.clone(), ids }),
            Smallest::Unknown => Settled::Leave,
            Smallest::None => otherwise,
            Smallest::Id(insert_id) => Settled::Patch { insert_id },
        }
    }

    /// The end of the rows that RETURNING answers with: no OK packet says how many rows are new.
    /// The id that `LAST_INSERT_ID()` then shows, as for [`InsertReply::settle`].
    pub(crate) fn settle_rows(&self) -> Settled {
        match (self.style, self.ids) {
            _ if !self.returning => Settled::Leave,
            (Style::Wrapped, Some(ids)) if self.bulk.is_some() => Settled::Patch { insert_id: ids.first },
            (_, None) | (Style::Wrapped | Style::OdkuOne, _) => Settled::Leave,
            (Style::Literal, Some(ids))
                if self.new_rows == NewRows::All && !self.target.trigger_writes_id() =>
            {
                Settled::Patch { insert_id: ids.first }
            }
            (_, Some(ids)) => self.smallest(ids, Settled::Leave),
        }
    }

    /// The id that `LAST_INSERT_ID()` should show from now on, if the server does not know it.
    /// `insert_id` is what the client's OK packet says.
    pub(crate) fn owed_insert_id(&self, affected_rows: u64, insert_id: u64) -> Option<u64> {
        let ids = self.ids.filter(|_| self.target.rule.insert_id == InsertId::Session)?;
        let is_owed = match self.style {
            Style::Wrapped => self.bulk.is_some() && affected_rows > 0,
            Style::OdkuOne => false,
            // Another's id (of an updated or an explicit row) reaches the packet, not the function.
            // Nor does that of a row of ours that was left out.
            Style::Literal => {
                (ids.first..=ids.last).contains(&insert_id)
                    && !matches!(self.smallest, Smallest::None | Smallest::Unknown)
            }
            // A literal in an AUTO_INCREMENT column reaches the OK packet, not the function.
            Style::OdkuLiteral | Style::OdkuNative => affected_rows == 1 && insert_id == ids.first,
        };
        is_owed.then_some(insert_id)
    }
}
