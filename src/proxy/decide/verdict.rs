//! What a statement turned out to be, and the refusals that several ways share.

use std::fmt::Display;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::mysql::reader::Malformed;
use crate::proxy::known::statements::Kept;
use crate::proxy::serve::progress::WithIds;
use crate::rewrite::plan::Plan;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;

/// What becomes of a statement that goes on. Nothing in it is borrowed from the window.
pub(in crate::proxy) enum Verdict {
    Pass(Effects),
    /// It is being prepared, and does something when it is executed.
    PassActing(Effects),
    /// The ids go in, and the OK packets need what `inserts` say.
    Send(WithIds),
    /// An INSERT that is being prepared. Where no rule concerns it, it is sent as it came: one may
    /// later.
    Prepare(Arc<Kept>),
    /// What begins at this byte of the text is judged once all before it is answered.
    Cut(usize),
    /// INSERT ... SELECT by text.
    Stage(Box<Plan>),
}

/// Ids, where the column can hold them.
pub(in crate::proxy) fn within(target: &Target, range: IdBlock) -> Result<IdBlock, Refusal> {
    let highest = target.highest_id();
    if range.last() <= highest {
        return Ok(range);
    }
    if target.rule.column.is_empty() {
        return Err(Refusal::NoId(format!(
            "a call gives ids up to {highest}, and generator {} is above that",
            target.rule.generator
        )));
    }
    Err(Refusal::NoId(format!(
        "{}.{}.{} holds ids up to {highest}, and generator {} is above that; widen the column",
        target.rule.schema, target.table, target.rule.column, target.rule.generator
    )))
}

/// The statement is refused for what it says.
pub(in crate::proxy) fn refused(why: impl Display) -> Refusal {
    Refusal::Statement(why.to_string())
}

/// Nothing that depends on it is guessed.
pub(in crate::proxy) fn state_unknown() -> Refusal {
    refused(
        "Rowstamp could not read the session's sql_mode and character set, and cannot read statements without them; try again",
    )
}

pub(in crate::proxy) fn malformed(error: Malformed) -> Refusal {
    refused(format_args!("cannot read the parameters of this execution: {error}; correct the driver"))
}
