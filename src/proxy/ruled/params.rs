//! The parameters of an execution: one set of them (COM_STMT_EXECUTE), or several (MariaDB's
//! COM_STMT_BULK_EXECUTE), each of which gets ids of its own, out of one range.

use crate::mysql::bulk::{Bulk, BulkError};
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, ParamType};
use crate::proxy::ruled::verdict::malformed;
use crate::rewrite::plan::InsertPlan;

pub(in crate::proxy) enum Params<'a> {
    One(Execute<'a>),
    Bulk(Bulk<'a>),
}

impl<'a> Params<'a> {
    pub(in crate::proxy) fn parse(
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

    /// Their types, where they are others than those of the last execution.
    pub(in crate::proxy) fn new_types(&self, expected: Expected<'_>) -> Option<Vec<ParamType>> {
        let (own, known) = (expected.params, expected.types);
        match self {
            Params::One(_) if own == 0 => None,
            Params::One(execute) if known.is_some_and(|known| execute.has_types(known, own)) => None,
            Params::One(execute) => Some(execute.types(own)),
            Params::Bulk(bulk) => (known != Some(&*bulk.types)).then(|| bulk.types.clone()),
        }
    }

    /// The execution with all types in it.
    pub(in crate::proxy) fn build(&self) -> Vec<u8> {
        match self {
            Params::One(execute) => execute.build(),
            Params::Bulk(bulk) => bulk.whole(),
        }
    }
}

/// Why an INSERT ... SELECT takes no bulk execution.
pub(in crate::proxy) const BULK_SELECT: &str =
    "MariaDB's bulk execution of an INSERT ... SELECT; execute it once for each set of parameters";

/// Why the INSERT takes no bulk execution of so many sets, if so.
pub(in crate::proxy) fn too_many_sets(insert: &InsertPlan, sets: u32) -> Option<String> {
    let why = insert.one_set_only.filter(|_| sets > 1)?;
    Some(format!("a bulk execution of several rows, and {why}; execute the rows one by one"))
}
