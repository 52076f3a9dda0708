//! Executions of a prepared INSERT: which parameters take an id is decided here, at each of them.

use super::meaning::{Meaning, ParamMeaning};
use super::plan::{LastId, NewRows, OurParam};
use super::prepare::PreparedInsert;
use crate::ids::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Param, id_bytes, id_text};
use crate::rules::model::Explicit;

/// The place of an id: a parameter of the client's, or one of ours. The server warns of one that gets the id as text.
enum IdPlace {
    Client(u16),
    Warned(u16),
    Ours { index: u16, is_whole: bool },
}

/// The ids of an execution.
pub struct ExecutionDraft {
    /// The rows that take an id, ascending, and for each the parameter that gets it.
    places: Vec<(u32, IdPlace)>,
    pub ids: u32,
    /// Ids that the client wrote or bound itself.
    pub explicit: Vec<i128>,
    pub last: LastId,
    /// The id's column.
    is_unsigned: bool,
}

impl ExecutionDraft {
    /// `execute` has the client's parameters.
    pub fn new(prepared: &PreparedInsert, execute: &Execute<'_>, meaning: Meaning) -> Result<Self, Refusal> {
        let ours = prepared
            .text
            .ours
            .iter()
            .map(|&OurParam { index, row, is_whole }| (row, IdPlace::Ours { index, is_whole }));
        let mut places: Vec<_> = ours.collect();
        let mut explicit = prepared.insert.explicit.clone();
        let mut ids = prepared.text.fixed_ids;
        let mut last = prepared.insert.last;
        // With ON DUPLICATE KEY UPDATE there may be IGNORE too.
        let may_fail = prepared.insert.new_rows == NewRows::All;
        for place in &prepared.text.id_params {
            let param = execute.params.get(usize::from(place.index));
            let bound = bound_to_id(meaning, prepared, (place.index, param), may_fail.then_some(place.row))?;
            if last == LastId::Param(place.index) {
                last = LastId::from(bound);
            }
            match bound {
                ParamMeaning::Takes => {
                    places.push((place.row, IdPlace::Client(place.index)));
                    ids = ids.saturating_add(1);
                }
                ParamMeaning::TakesWarned => {
                    places.push((place.row, IdPlace::Warned(place.index)));
                    ids = ids.saturating_add(1);
                }
                ParamMeaning::Fails => {}
                ParamMeaning::Explicit(value) => explicit.extend(value),
            }
        }
        places.sort_by_key(|(row, _)| *row);
        let is_unsigned = prepared.insert.target.id_shape().is_some_and(|id| id.unsigned);
        Ok(ExecutionDraft { places, ids, explicit, last, is_unsigned })
    }

    /// The execution with its ids. `None`: they do not fit.
    pub fn write(&self, execute: Execute<'_>, block: &IdBlock) -> Option<Vec<u8>> {
        let ids = || (0..block.count()).filter_map(|k| block.nth(k));
        let bytes: Vec<_> = ids().map(id_bytes).collect();
        let has_warned = self.places.iter().any(|(_, place)| matches!(place, IdPlace::Warned(_)));
        let texts: Vec<_> = ids().filter(|_| has_warned).map(id_text).collect();
        // Lives no longer than the ids' bytes.
        let mut execute = execute;
        let mut ours = Vec::with_capacity(self.places.len());
        for (nth, (_, place)) in self.places.iter().enumerate() {
            let bytes = bytes.get(nth)?;
            match *place {
                IdPlace::Warned(at) => {
                    *execute.params.get_mut(usize::from(at))? =
                        texts.get(nth).map(|text| Param::text(text))?;
                }
                IdPlace::Client(at) => {
                    *execute.params.get_mut(usize::from(at))? = Param::id(bytes, self.is_unsigned);
                }
                IdPlace::Ours { index, is_whole } => {
                    ours.push((usize::from(index), Param::id(bytes, is_whole && self.is_unsigned)));
                }
            }
        }
        execute.put_among(ours.into_iter());
        Some(execute.build())
    }
}

impl From<ParamMeaning> for LastId {
    fn from(bound: ParamMeaning) -> LastId {
        match bound {
            ParamMeaning::Takes | ParamMeaning::TakesWarned => LastId::Generated,
            ParamMeaning::Explicit(Some(value)) => LastId::Written(value),
            ParamMeaning::Explicit(None) | ParamMeaning::Fails => LastId::Unknown,
        }
    }
}

/// The decision on a parameter at the id's place, by its number and value. An error if the value does not
/// show whether it asks for an id, or if the rule rejects ids that clients write.
pub(super) fn bound_to_id(
    meaning: Meaning,
    prepared: &PreparedInsert,
    (index, param): (u16, Option<&Param<'_>>),
    row: Option<u32>,
) -> Result<ParamMeaning, Refusal> {
    let target = &prepared.insert.target;
    let (number, column) = (u32::from(index) + 1, target.id_column());
    let refused = |why: String| Refusal::Statement(target.at(why));
    let bound = param.and_then(|param| meaning.of_param_in(param, row)).ok_or_else(|| {
        refused(format!(
            "parameter {number}, which is bound to {column}, does not show whether it is zero; bind an integer or NULL"
        ))
    })?;
    if matches!(bound, ParamMeaning::Explicit(_)) && target.rule.explicit == Explicit::Reject {
        return Err(refused(format!(
            "parameter {number} is a value for {column}, which the table's rule rejects; bind NULL"
        )));
    }
    Ok(bound)
}
