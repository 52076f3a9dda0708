//! What a statement turned out to be, and the refusals that several ways share.

use std::sync::Arc;

use crate::ids::TakeError;
use crate::ids::range::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::mysql::reader::Malformed;
use crate::proxy::known::need::Need;
use crate::proxy::known::rights::Objection;
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::ruled::progress::{Shown, WithIds};
use crate::rewrite::plan::Plan;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;

/// What a statement turned out to be, with everything borrowed from the window gone.
pub(in crate::proxy) enum Verdict {
    Pass(Effects),
    /// What is prepared does something when it is executed.
    PassActing(Effects),
    /// An INSERT that is prepared as it came: a rule may concern it later.
    PassKept(Arc<Source>),
    Refuse(Refusal),
    /// The server's own error: see `locked`, and `Planned::Fails`.
    Fail(Vec<u8>),
    /// It is judged again when this is known.
    Needs(Need),
    Show(Shown),
    /// The ids go in, and the OK packets need what `inserts` say.
    Send(WithIds),
    Prepare(Arc<Kept>),
    /// INSERT ... SELECT by text.
    Select(Box<Plan>),
    /// One that is being prepared.
    PrepareSelect(Arc<Kept>),
}

impl From<Objection> for Verdict {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Denied(error) => Verdict::Fail(error),
            Objection::Ask(target) => Verdict::Needs(Need::Right(target)),
        }
    }
}

/// Why a statement has no ids yet.
pub(in crate::proxy) enum Lacking {
    Needs(Need),
    Refused(Refusal),
}

impl From<Refusal> for Lacking {
    fn from(refusal: Refusal) -> Self {
        Lacking::Refused(refusal)
    }
}

/// Ids, where the column can hold them.
pub(in crate::proxy) fn within(target: &Target, range: IdBlock) -> Result<IdBlock, Refusal> {
    let highest = target.highest_id();
    if range.last() <= highest {
        return Ok(range);
    }
    Err(Refusal::NoId(format!(
        "{}.{}.{} holds ids up to {highest}, generator {} is beyond; widen the column",
        target.rule.schema, target.table, target.rule.column, target.rule.generator
    )))
}

pub(in crate::proxy) fn no_id(error: &TakeError) -> Refusal {
    Refusal::NoId(error.for_client())
}

/// Nothing that depends on it is guessed.
pub(in crate::proxy) fn state_unknown() -> Refusal {
    Refusal::Statement(
        "the session's sql_mode and character set could not be read, so no statement can be read for certain; \
         try again"
            .to_owned(),
    )
}

pub(in crate::proxy) fn malformed(error: Malformed) -> Refusal {
    Refusal::Statement(format!("the execution's parameters cannot be read: {error}"))
}
