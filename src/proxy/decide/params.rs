//! The parameters of an execution: one set of them (COM_STMT_EXECUTE), or several (MariaDB's
//! COM_STMT_BULK_EXECUTE), each of which gets ids of its own, out of one block.

use crate::mysql::bulk::{Bulk, BulkError, Indicator};
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, ParamType, ParamValue};
use crate::mysql::reader::Malformed;
use crate::proxy::decide::verdict::{malformed, refused, state_unknown};
use crate::proxy::known::Known;
use crate::rewrite::meaning::Meaning;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, NewRows};
use crate::rewrite::prepare::PreparedInsert;

pub(crate) enum Params<'a> {
    One(Execute<'a>),
    Bulk(Bulk<'a>),
}

impl<'a> Params<'a> {
    pub(crate) fn parse(
        command: Command,
        payload: &'a [u8],
        expected: Expected<'_>,
    ) -> Result<Self, Refusal> {
        if command == Command::StmtBulkExecute {
            let bulk = Bulk::parse(payload, expected.params, expected.types);
            return bulk.map(Params::Bulk).map_err(|error| match error {
                BulkError::Unsupported => Refusal::UnsupportedPrepared,
                BulkError::Malformed(_) => Refusal::WrongArguments,
            });
        }
        Execute::parse(payload, expected).map(Params::One).map_err(malformed)
    }

    /// The types of the parameters, where they are others than those of the last execution.
    pub(crate) fn new_types(&self, expected: Expected<'_>) -> Option<Vec<ParamType>> {
        let (own, known) = (expected.params, expected.types);
        match self {
            Params::One(_) if own == 0 => None,
            Params::One(execute) if known.is_some_and(|known| execute.has_types(known, own)) => None,
            Params::One(execute) => Some(execute.types(own)),
            Params::Bulk(bulk) => (known != Some(&*bulk.types)).then(|| bulk.types.clone()),
        }
    }

    /// MariaDB reads a value of some types as NULL, and its bytes as those of the next parameter: an
    /// id that comes after it would be another one.
    pub(crate) fn refuse_unread(&self, target: &Target) -> Result<(), Refusal> {
        let Some((at, kind)) = self.first_unread() else { return Ok(()) };
        Err(refused(target.at(format_args!(
            "parameter {} is bound as {kind}, which MariaDB reads as NULL, and whose bytes MariaDB reads as the next parameter; \
             bind an integer or a string",
            at + 1
        ))))
    }

    fn first_unread(&self) -> Option<(usize, &'static str)> {
        match self {
            Params::One(execute) => {
                let mut values = execute
                    .params
                    .iter()
                    .enumerate()
                    .filter(|(_, p)| matches!(p.value, ParamValue::Value(_)));
                values.find_map(|(at, param)| Some((at, param.kind.unread_by_mariadb()?)))
            }
            Params::Bulk(bulk) => {
                bulk.types.iter().find_map(|kind| kind.unread_by_mariadb())?;
                let mut cells = bulk.cells();
                std::iter::from_fn(|| cells.cell().ok().flatten()).find_map(|(at, cell)| {
                    let kind = bulk.types.get(at)?.unread_by_mariadb()?;
                    (cell.indicator == Indicator::Value).then_some((at, kind))
                })
            }
        }
    }

    /// The execution with all types in it.
    pub(crate) fn build(&self) -> Vec<u8> {
        match self {
            Params::One(execute) => execute.build(),
            Params::Bulk(bulk) => bulk.whole(),
        }
    }
}

/// The meaning of values at the id's place, for this execution.
pub(crate) fn meaning(known: &Known, prepared: &PreparedInsert) -> Result<Meaning, Refusal> {
    let insert = &prepared.insert;
    let state = known.session.state().ok_or_else(state_unknown)?;
    let meaning = Meaning::new(&state.dialect, insert.target.id_shape());
    if insert.zero_meant.is_some_and(|zero_was_value| zero_was_value != meaning.zero_is_value) {
        return Err(refused(insert.target.at(
            "NO_AUTO_VALUE_ON_ZERO was set or unset since the statement was prepared, and decides what zero and DEFAULT mean as id; \
             prepare the statement again",
        )));
    }
    if insert.strict_meant.is_some_and(|strictness| strictness != meaning.strictness()) {
        return Err(refused(insert.target.at(
            "the strictness of sql_mode has changed since the statement was prepared, and decides whether a value for the id is an \
             error; prepare the statement again",
        )));
    }
    Ok(meaning)
}

/// Why the rows of a bulk execution do not go by way of a stage, if so.
pub(crate) fn not_staged_in_bulk(insert: &InsertPlan, bulk: &Bulk<'_>) -> Result<Option<String>, Malformed> {
    let mut cells = bulk.cells();
    let mut leaves_out = false;
    while let Some((_, cell)) = cells.cell()? {
        leaves_out |= matches!(cell.indicator, Indicator::Default | Indicator::Ignore);
    }
    let what = if leaves_out {
        "DEFAULT or IGNORE indicators"
    } else if insert.new_rows != NewRows::All || insert.returning {
        "IGNORE, ON DUPLICATE KEY UPDATE or RETURNING"
    } else {
        return Ok(None);
    };
    Ok(Some(insert.target.at(format!(
        "Rowstamp cannot run a bulk execution with an expression as id and with {what}; execute the rows one by one"
    ))))
}

/// Why the INSERT takes no bulk execution of so many sets, if so.
pub(crate) fn too_many_sets(insert: &InsertPlan, sets: u32) -> Option<String> {
    let why = insert.one_set_only.filter(|_| sets > 1)?;
    Some(insert.target.at(format!(
        "Rowstamp cannot run a bulk execution of several rows if {why}; execute the rows one by one"
    )))
}
