//! MariaDB's bulk executions of a prepared INSERT: each set of parameters gets ids of its own, out
//! of one block.

use super::execution::bound_to_id;
use super::meaning::{Meaning, ParamMeaning};
use super::plan::LastId;
use super::prepare::PreparedInsert;
use crate::ids::block::{IdBlock, Ticks};
use crate::mysql::bulk::{Bulk, Cells, Indicator, put_integer, put_text};
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Param, ParamType};

/// The decision on a cell at the id's place.
#[derive(Debug, Clone, Copy)]
enum IdCell {
    Takes,
    /// DEFAULT under NO_AUTO_VALUE_ON_ZERO: the column has no default, so zero is stored.
    Zero,
    /// The client's own; its integer, where it is one.
    Keeps(Option<i128>),
}

/// The form in which a parameter at the id's place is sent.
#[derive(Debug, Clone, Copy)]
pub enum IdKind {
    /// The parameter as it came: no cell of it takes an id.
    AsItIs,
    /// The parameter's type carries a length: an id is sent as digits.
    Text,
    Integer(ParamType),
}

/// The decisions on an execution's cells.
pub struct BulkDraft<'a> {
    prepared: &'a PreparedInsert,
    bulk: &'a Bulk<'a>,
    meaning: Meaning,
    /// For each parameter, its number among those at the id's place; `None`: it stands elsewhere.
    id_place: Vec<Option<usize>>,
    /// The cells at the id's place, set after set, in the order of the parameters.
    id_cells: Vec<IdCell>,
    /// Sets of parameters.
    pub sets: u32,
    taking: u32,
    /// Ids that the client wrote or bound itself.
    pub explicit: Vec<i128>,
    /// The id of the last row of the last set.
    pub last: LastId,
}

impl<'a> BulkDraft<'a> {
    /// Reads all sets once: how many there are, and which cells take an id.
    pub fn new(prepared: &'a PreparedInsert, bulk: &'a Bulk<'a>, meaning: Meaning) -> Result<Self, Refusal> {
        let mut id_place = vec![None; usize::from(prepared.text.client_params)];
        for (nth, place) in prepared.text.id_params.iter().enumerate() {
            if let Some(slot) = id_place.get_mut(usize::from(place.index)) {
                *slot = Some(nth);
            }
        }
        let mut draft = BulkDraft {
            prepared,
            bulk,
            meaning,
            id_place,
            id_cells: Vec::new(),
            sets: 0,
            taking: 0,
            explicit: prepared.insert.explicit.clone(),
            last: prepared.insert.last,
        };
        draft.read()?;
        Ok(draft)
    }

    /// The number of ids that the execution takes; `None`: too many to count.
    pub fn ids(&self) -> Option<u32> {
        let Some(ticks) = self.ticks_apart() else {
            return self.prepared.text.fixed_ids.checked_mul(self.sets)?.checked_add(self.taking);
        };
        // No parameter of the client's takes an id then.
        let ids = u64::from(self.prepared.text.fixed_ids);
        let taken = (0..self.sets).fold(0, |taken, _| start_of_set(taken, ids, ticks) + ids);
        u32::try_from(taken).ok()
    }

    /// The ids of a tick, where rows count up from a wrapper by distances in the text, and the
    /// distance to the next tick is another. Each set then must lie within a tick, or begin one.
    fn ticks_apart(&self) -> Option<Ticks> {
        let counts_up = self.prepared.text.ours.len() < self.prepared.text.fixed_ids as usize;
        self.prepared.insert.target.spacing.ticks.filter(|_| counts_up)
    }

    fn read(&mut self) -> Result<(), Refusal> {
        let mut cells = self.bulk.cells();
        while let Some((param, cell)) = cells.cell().map_err(|_| Refusal::WrongArguments)? {
            self.sets += u32::from(param == 0);
            if self.id_place.get(param).copied().flatten().is_none() {
                continue;
            }
            let index = u16::try_from(param).unwrap_or(u16::MAX);
            let is_default = matches!(cell.indicator, Indicator::Default | Indicator::Ignore);
            let kind = self.bulk.types.get(param).copied().unwrap_or(ParamType::BIGINT_UNSIGNED);
            self.id_cells.push(if is_default && self.meaning.zero_is_value {
                bound_to_id(self.meaning, self.prepared, (index, Some(&Param::id(&[0; 8], false))), None)?;
                IdCell::Zero
            } else {
                match bound_to_id(self.meaning, self.prepared, (index, Some(&cell.param(kind))), None)? {
                    ParamMeaning::Takes => IdCell::Takes,
                    ParamMeaning::TakesWarned | ParamMeaning::Fails => return Err(self.warned(index)),
                    ParamMeaning::Explicit(value) => IdCell::Keeps(value),
                }
            });
            let last = match self.id_cells.last() {
                Some(IdCell::Takes) => LastId::Generated,
                Some(IdCell::Zero) => LastId::Written(0),
                Some(IdCell::Keeps(Some(value))) => LastId::Written(*value),
                Some(IdCell::Keeps(None)) | None => LastId::Unknown,
            };
            self.taking += u32::from(last == LastId::Generated);
            if let LastId::Written(value) = last {
                self.explicit.push(value);
            }
            if self.prepared.insert.last == LastId::Param(index) {
                self.last = last;
            }
        }
        Ok(())
    }

    /// All ids of a bulk execution have one type.
    fn warned(&self, index: u16) -> Refusal {
        let target = &self.prepared.insert.target;
        Refusal::Statement(target.at(format!(
            "parameter {} of set {}, which is bound to {}, is no number, or below zero in an unsigned column; bind an integer or NULL",
            u32::from(index) + 1,
            self.sets,
            target.id_column()
        )))
    }

    /// The types that the parameters of the id are sent with.
    pub fn kinds(&self) -> Result<Vec<IdKind>, Refusal> {
        let places = self.prepared.text.id_params.len();
        let of = |nth: usize| self.id_cells.iter().skip(nth).step_by(places.max(1));
        let kind_of = |nth: usize, index: u16| {
            if of(nth).all(|cell| matches!(cell, IdCell::Keeps(_))) {
                return Ok(IdKind::AsItIs);
            }
            let kind = self.bulk.types.get(usize::from(index)).copied().unwrap_or(ParamType::BIGINT_UNSIGNED);
            if kind.carries_text() {
                return Ok(IdKind::Text);
            }
            let values =
                || of(nth).filter_map(|cell| if let IdCell::Keeps(value) = cell { *value } else { None });
            let is_negative = values().any(|value| value < 0);
            if !is_negative {
                return Ok(IdKind::Integer(ParamType::BIGINT_UNSIGNED));
            }
            if values().any(|value| value > i128::from(i64::MAX)) {
                return Err(Refusal::Statement(self.prepared.insert.target.at(
                    "a bulk execution has ids below zero and ids above 9223372036854775807; send them separately",
                )));
            }
            Ok(IdKind::Integer(ParamType::BIGINT))
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
    pub fn write(&self, kinds: &[IdKind], block: Option<&IdBlock>) -> Option<Vec<u8>> {
        let ours = &self.prepared.text.ours;
        let sets = usize::try_from(self.sets).ok()?;
        let mut out = Vec::with_capacity(64 + self.bulk.bytes() + sets * (ours.len() + kinds.len()) * 9);
        let mut types = self.bulk.types.clone();
        for (place, kind) in self.prepared.text.id_params.iter().zip(kinds) {
            if let (IdKind::Integer(kind), Some(slot)) = (kind, types.get_mut(usize::from(place.index))) {
                *slot = *kind;
            }
        }
        for ours in ours {
            types.insert(usize::from(ours.index).min(types.len()), ParamType::BIGINT_UNSIGNED);
        }
        self.bulk.put_head(types.iter().copied(), &mut out);
        let mut cells = self.bulk.cells();
        let mut ids = IdsOf { block, taken: 0 };
        let mut id_cells = self.id_cells.iter();
        let ticks = self.ticks_apart();
        for _ in 0..self.sets {
            if let Some(ticks) = ticks {
                ids.taken = start_of_set(ids.taken, u64::from(self.prepared.text.fixed_ids), ticks);
            }
            let first = ids.taken;
            let mut ours = ours.iter().peekable();
            for at in 0..types.len() {
                match ours.next_if(|ours| usize::from(ours.index) == at) {
                    // Rows and parameters stand in the same order, and so do their ids.
                    Some(_) => put_integer(&mut out, ids.next()?),
                    None => self.put_cell(&mut cells, kinds, &mut id_cells, &mut ids, &mut out)?,
                }
            }
            // After a wrapper the other rows count up by themselves.
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

/// The start of a set of `ids` ids, after `taken` ids of a block that begins a tick or lies within one.
fn start_of_set(taken: u64, ids: u64, ticks: Ticks) -> u64 {
    let in_tick = taken % ticks.ids;
    if in_tick == 0 || in_tick + ids <= ticks.ids.get() {
        taken
    } else {
        taken.next_multiple_of(ticks.ids.get())
    }
}

/// The ids of a block, one after the other.
struct IdsOf<'a> {
    block: Option<&'a IdBlock>,
    taken: u64,
}

impl IdsOf<'_> {
    fn next(&mut self) -> Option<u64> {
        let id = self.block?.nth(self.taken)?;
        self.taken += 1;
        Some(id)
    }
}
