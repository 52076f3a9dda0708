//! MariaDB's bulk executions of prepared INSERTs into ruled tables: each set of parameters gets ids of its own, out of one range.

use std::sync::Arc;

use super::execute::{Filled, bound_to_id};
use super::hidden::Execution;
use super::inserts::{Ids, InsertReply};
use super::outstanding::Note;
use super::session::Session;
use super::statements::PreparedInsert;
use super::tables::Tables;
use super::upstream::payload_of;
use crate::ids::range::IdRange;
use crate::mysql::bulk::{Bulk, BulkError, Cells, Indicator, put_integer, put_text};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Param, ParamType, statement_id};
use crate::rewrite::meaning::{Bound, Meaning};
use crate::rewrite::plan::Style;

impl Session {
    /// COM_STMT_BULK_EXECUTE of a ruled statement.
    pub(super) async fn bulk_execute(&mut self, window_bytes: usize, packets: usize) {
        let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
        match self.hides_prepared(&payload) {
            Execution::Ruled => {}
            Execution::Passes => return self.pass_execution(&payload, window_bytes),
            Execution::Asked => return,
            Execution::Refused(refusal) => {
                return self.refuse_execution(&payload, &refusal, window_bytes, packets);
            }
        }
        let filled = self.filled_bulk(&payload).await;
        if let Ok(Filled::PrepareFirst(id, kept)) = filled {
            return self.prepare_again(id, kept);
        }
        let server_id = statement_id(&payload).ok().and_then(|id| self.relay.statements.translated(id));
        match filled {
            Err(refusal) => self.refuse_execution(&payload, &refusal, window_bytes, packets),
            Ok(Filled::Failed(error)) => {
                self.relay.up.skip(window_bytes);
                self.relay.answer_with(&error, packets);
            }
            Ok(Filled::Probe(unreadable, text)) => self.probe(&unreadable, &text, window_bytes, packets),
            Ok(Filled::PrepareFirst(..) | Filled::Select(_)) => {}
            Ok(Filled::Passes) => {
                self.relay.translate_id();
                self.pass(Command::StmtBulkExecute, window_bytes, false, Note::Nothing);
            }
            Ok(Filled::Send(mut payload, reply)) => {
                if let Some((id, place)) = server_id.zip(payload.get_mut(1..5)) {
                    place.copy_from_slice(&id.to_le_bytes());
                }
                let nr_shift = self.relay.send_instead(&payload, window_bytes, packets);
                let note = Note::Statements { inserts: reply.into_iter().collect(), effects: Arc::default() };
                self.relay.owe(Command::StmtBulkExecute.reply(), false, nr_shift, note);
            }
        }
    }

    /// The execution with its ids, by the rules in force.
    async fn filled_bulk(&mut self, payload: &[u8]) -> Result<Filled, Refusal> {
        if !self.relay.capabilities.contains(Capabilities::MARIADB_STMT_BULK) {
            return Err(Refusal::UnsupportedPrepared);
        }
        let id = statement_id(payload).map_err(|_| Refusal::WrongArguments)?;
        if let Some(error) = self.failed_again(id)? {
            return Ok(Filled::Failed(error));
        }
        let mut tables = self.relay.view.tables.now();
        loop {
            let filled = self.filled_bulk_by(&tables, id, payload).await;
            match self.superseding(&tables).await? {
                None => return filled,
                Some(next) => tables = next,
            }
        }
    }

    async fn filled_bulk_by(
        &mut self,
        tables: &Arc<Tables>,
        id: u32,
        payload: &[u8],
    ) -> Result<Filled, Refusal> {
        let kept = match self.kept_now(tables, id).await? {
            Ok(kept) => kept,
            Err(filled) => return Ok(filled),
        };
        let is_another = self.relay.statements.translated(id).is_some();
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        let Some(prepared) = &kept.prepared else {
            // The types that the client left out went to the statement before it. What is wrong is the server's to say.
            return Ok(match Bulk::parse(payload, statement.params, statement.types.as_deref()) {
                Ok(bulk) => {
                    let again = is_another.then(|| bulk.whole());
                    statement.types = Some(bulk.types);
                    again.map_or(Filled::Passes, |payload| Filled::Send(payload, None))
                }
                Err(_) => Filled::Passes,
            });
        };
        if prepared.insert.select.is_some() {
            return Err(Refusal::Statement(
                "rowstamp: MariaDB's bulk execution of an INSERT ... SELECT; execute it once for each set of parameters".into(),
            ));
        }
        if !statement.long_data.is_empty() {
            return Err(Refusal::WrongArguments);
        }
        let params = prepared.text.client_params;
        let bulk = Bulk::parse(payload, params, statement.types.as_deref()).map_err(refusal_of)?;
        statement.types = Some(bulk.types.clone());
        let meaning = self.meaning(prepared)?;
        let mut draft = Draft::new(prepared, &bulk, meaning);
        draft.read()?;
        if let Some(why) = prepared.insert.one_set_only.filter(|_| draft.sets > 1) {
            return Err(Refusal::Statement(format!(
                "rowstamp: a bulk execution of several rows, and {why}; execute the rows one by one"
            )));
        }
        self.follow_explicit(tables, &prepared.insert.target, &draft.explicit).await?;
        let kinds = draft.kinds()?;
        let too_many = || Refusal::NoId("too many rows; send fewer at a time".into());
        let fixed = prepared.text.fixed_ids.checked_mul(draft.sets).ok_or_else(too_many)?;
        let ids = fixed.checked_add(draft.taking).ok_or_else(too_many)?;
        let range = match ids {
            0 => None,
            ids => Some(self.take(tables, &prepared.insert.target, ids).await?),
        };
        // An update of an explicit row still tells by what was added to its list.
        let tells = range.is_some() || prepared.text.style == Style::OdkuLiteral;
        let reply = tells.then(|| {
            let (ids, found_rows) = (range.as_ref().map(Ids::from), self.relay.found_rows());
            InsertReply::new(&prepared.insert, ids, found_rows, tables.clone()).in_bulk(draft.sets)
        });
        let out =
            draft.write(&kinds, range.as_ref()).ok_or_else(|| Refusal::NoId("the ids do not fit".into()))?;
        Ok(Filled::Send(out, reply))
    }
}

fn refusal_of(error: BulkError) -> Refusal {
    match error {
        BulkError::Unsupported => Refusal::UnsupportedPrepared,
        BulkError::Malformed(_) => Refusal::WrongArguments,
    }
}

/// What becomes of a cell at the id's place.
#[derive(Debug, Clone, Copy)]
enum IdCell {
    Takes,
    /// DEFAULT under NO_AUTO_VALUE_ON_ZERO, which a column without a default has not.
    Zero,
    /// The client's own; its integer, where it is one.
    Keeps(Option<i128>),
}

/// How a parameter at the id's place is sent.
#[derive(Debug, Clone, Copy)]
enum IdKind {
    /// As it came: no cell of it takes an id.
    AsItIs,
    /// Its type carries its length: digits.
    Text,
    Integer(ParamType),
}

struct Draft<'a> {
    prepared: &'a PreparedInsert,
    bulk: &'a Bulk<'a>,
    meaning: Meaning,
    /// By parameter: its place among those of the id.
    id_place: Vec<Option<usize>>,
    /// Set after set, in the order of the parameters.
    id_cells: Vec<IdCell>,
    sets: u32,
    taking: u32,
    explicit: Vec<i128>,
}

impl<'a> Draft<'a> {
    fn new(prepared: &'a PreparedInsert, bulk: &'a Bulk<'a>, meaning: Meaning) -> Self {
        let mut id_place = vec![None; usize::from(prepared.text.client_params)];
        for (nth, place) in prepared.text.id_params.iter().enumerate() {
            if let Some(slot) = id_place.get_mut(usize::from(place.index)) {
                *slot = Some(nth);
            }
        }
        Draft {
            prepared,
            bulk,
            meaning,
            id_place,
            id_cells: Vec::new(),
            sets: 0,
            taking: 0,
            explicit: prepared.insert.explicit.clone(),
        }
    }

    /// Reads all sets once: how many there are, and which cells take an id.
    fn read(&mut self) -> Result<(), Refusal> {
        let mut cells = self.bulk.cells();
        while let Some((param, cell)) = cells.cell().map_err(|_| Refusal::WrongArguments)? {
            self.sets += u32::from(param == 0);
            if self.id_place.get(param).copied().flatten().is_none() {
                continue;
            }
            let is_default = matches!(cell.indicator, Indicator::Default | Indicator::Ignore);
            let kind = self.bulk.types.get(param).copied().unwrap_or(ParamType::ID);
            self.id_cells.push(if is_default && self.meaning.zero_is_value {
                bound_to_id(self.meaning, self.prepared, Some(&Param::id(&[0; 8])))?;
                IdCell::Zero
            } else {
                match bound_to_id(self.meaning, self.prepared, Some(&cell.param(kind)))? {
                    Bound::Takes => IdCell::Takes,
                    Bound::Explicit(value) => IdCell::Keeps(value),
                }
            });
            match self.id_cells.last() {
                Some(IdCell::Takes) => self.taking += 1,
                Some(IdCell::Zero) => self.explicit.push(0),
                Some(IdCell::Keeps(Some(value))) => self.explicit.push(*value),
                Some(IdCell::Keeps(None)) | None => {}
            }
        }
        Ok(())
    }

    /// The types that the parameters of the id are sent with.
    fn kinds(&self) -> Result<Vec<IdKind>, Refusal> {
        let places = self.prepared.text.id_params.len();
        let of = |nth: usize| self.id_cells.iter().skip(nth).step_by(places.max(1));
        let kind_of = |nth: usize, index: u16| {
            if of(nth).all(|cell| matches!(cell, IdCell::Keeps(_))) {
                return Ok(IdKind::AsItIs);
            }
            let kind = self.bulk.types.get(usize::from(index)).copied().unwrap_or(ParamType::ID);
            if kind.carries_text() {
                return Ok(IdKind::Text);
            }
            let values =
                || of(nth).filter_map(|cell| if let IdCell::Keeps(value) = cell { *value } else { None });
            let is_negative = values().any(|value| value < 0);
            if !is_negative {
                return Ok(IdKind::Integer(ParamType::ID));
            }
            if values().any(|value| value > i128::from(i64::MAX)) {
                return Err(Refusal::Statement(
                    "rowstamp: ids below zero and above 9223372036854775807 in one bulk execution; send them apart".into(),
                ));
            }
            Ok(IdKind::Integer(ParamType { flags: 0, ..ParamType::ID }))
        };
        self.prepared
            .text
            .id_params
            .iter()
            .enumerate()
            .map(|(nth, place)| kind_of(nth, place.index))
            .collect()
    }

    /// The execution with its ids. `None`: they do not fit.
    fn write(&self, kinds: &[IdKind], range: Option<&IdRange>) -> Option<Vec<u8>> {
        let hidden = &self.prepared.text.hidden;
        let sets = usize::try_from(self.sets).ok()?;
        let mut out = Vec::with_capacity(64 + self.bulk.bytes() + sets * (hidden.len() + kinds.len()) * 9);
        let mut types = self.bulk.types.clone();
        for (place, kind) in self.prepared.text.id_params.iter().zip(kinds) {
            if let (IdKind::Integer(kind), Some(slot)) = (kind, types.get_mut(usize::from(place.index))) {
                *slot = *kind;
            }
        }
        for hidden in hidden {
            types.insert(usize::from(hidden.index).min(types.len()), ParamType::ID);
        }
        self.bulk.put_head(types.iter().copied(), &mut out);
        let mut cells = self.bulk.cells();
        let mut ids = IdsOf { range, taken: 0 };
        let mut id_cells = self.id_cells.iter();
        for _ in 0..self.sets {
            let first = ids.taken;
            let mut hidden = hidden.iter().peekable();
            for at in 0..types.len() {
                match hidden.next_if(|hidden| usize::from(hidden.index) == at) {
                    // Rows and parameters stand in the same order, and so do their ids.
                    Some(_) => put_integer(&mut out, ids.next()?),
                    None => self.put_cell(&mut cells, kinds, &mut id_cells, &mut ids, &mut out)?,
                }
            }
            // Behind a wrapper the other rows count up by themselves.
            ids.taken = ids.taken.max(first + u64::from(self.prepared.text.fixed_ids));
        }
        Some(out)
    }

    fn put_cell(
        &self,
        cells: &mut Cells<'_>,
        kinds: &[IdKind],
        id_cells: &mut std::slice::Iter<'_, IdCell>,
        ids: &mut IdsOf<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (param, cell) = cells.cell().ok()??;
        let Some(nth) = self.id_place.get(param).copied().flatten() else {
            cell.put(out);
            return Some(());
        };
        let value = match (id_cells.next()?, kinds.get(nth)?) {
            (_, IdKind::AsItIs) | (IdCell::Keeps(_), IdKind::Text) => {
                cell.put(out);
                return Some(());
            }
            (IdCell::Takes, _) => i128::from(ids.next()?),
            (IdCell::Zero, _) => 0,
            (IdCell::Keeps(value), IdKind::Integer(_)) => (*value)?,
        };
        match kinds.get(nth)? {
            IdKind::Text => put_text(out, value.to_string().as_bytes()),
            // In two's complement both are the same bits.
            IdKind::Integer(_) | IdKind::AsItIs => put_integer(
                out,
                u64::try_from(value).ok().or_else(|| i64::try_from(value).ok().map(i64::cast_unsigned))?,
            ),
        }
        Some(())
    }
}

/// The ids of a range, one after the other.
struct IdsOf<'a> {
    range: Option<&'a IdRange>,
    taken: u64,
}

impl IdsOf<'_> {
    fn next(&mut self) -> Option<u64> {
        let id = self.range?.nth(self.taken)?;
        self.taken += 1;
        Some(id)
    }
}
