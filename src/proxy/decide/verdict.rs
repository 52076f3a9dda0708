//! The verdict on a command, and the refusals that several ways share.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::ParamType;
use crate::mysql::reader::Malformed;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::note::Note;
use crate::proxy::known::statements::Kept;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::stage::Named;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, Plan};

/// The verdict on a command that continues. Nothing in it is borrowed from the window.
pub(crate) enum Verdict {
    /// The command goes on as it came.
    Pass { note: Note, may_change_session: bool },
    /// A text that is being prepared goes on as it came. The text does something when it is executed.
    PassActing(Effects),
    /// A text that cannot be rewritten goes on as it came (`rewrite.on_doubt`): the server numbers the rows of these tables.
    Forward { natively: Vec<Arc<Target>>, why: String },
    /// A text whose ids go in. Its OK packets need what `inserts` say.
    Send(FilledPacket),
    /// The payload that is sent in place of an execution.
    SendExecution(Vec<u8>, Note),
    /// An INSERT that is being prepared. Where no rule concerns it, it is sent as it came: one may later.
    Prepare(Arc<Kept>),
    /// The part of the text from this byte on is judged once everything before it is answered.
    Cut(usize),
    /// A text goes by way of a stage.
    Stage(Box<Task>),
    /// An execution of this goes by way of a stage.
    StageExecution(Arc<Kept>),
}

impl Verdict {
    /// A text that goes on as it came, and has these effects.
    pub(crate) fn pass(effects: Effects) -> Self {
        let may_change_session = !effects.leave_session();
        Verdict::Pass { note: Note::statements(Vec::new(), Vec::new(), effects), may_change_session }
    }
}

/// A client's command that goes by way of a stage. Its payload is still in its lane.
#[derive(Debug)]
pub(crate) enum Task {
    /// COM_QUERY.
    Text(Box<Plan>),
    /// An execution, and what its payload is read with.
    Execute {
        kept: Arc<Kept>,
        types: Option<Vec<ParamType>>,
        /// The parameters that were sent ahead.
        long_data: BTreeMap<u16, Vec<u8>>,
        /// MariaDB's COM_STMT_BULK_EXECUTE: a row for each set of parameters.
        is_bulk: bool,
        around: Option<Around>,
    },
}

/// The statements around a question: they set the session as it was when the client prepared, and as it is now.
#[derive(Debug)]
pub(crate) struct Around {
    pub(crate) before: Vec<Vec<u8>>,
    pub(crate) after: Vec<Vec<u8>>,
    /// The last one, where the default database is another.
    pub(crate) back: Option<Vec<u8>>,
    /// Drops the stage, as the session is now.
    pub(crate) drop: Vec<u8>,
}

impl Task {
    pub(crate) fn insert(&self) -> Option<&InsertPlan> {
        match self {
            Task::Text(plan) => plan.inserts.first(),
            Task::Execute { kept, .. } => Some(&kept.prepared.as_ref()?.insert),
        }
    }

    /// The statement that SQL's EXECUTE or EXECUTE IMMEDIATE runs.
    pub(crate) fn named(&self) -> Option<&Named> {
        self.insert()?.stage.as_ref()?.named.as_ref()
    }

    pub(crate) fn around(&self) -> Option<&Around> {
        match self {
            Task::Text(_) => None,
            Task::Execute { around, .. } => around.as_ref(),
        }
    }

    /// The client's text. `sent`: that of its command.
    pub(crate) fn text<'a>(&'a self, sent: &'a [u8]) -> &'a [u8] {
        match self {
            Task::Text(_) => self.named().map_or(sent, |named| &named.text),
            Task::Execute { kept, .. } => kept.server_text().unwrap_or_default(),
        }
    }
}

pub(crate) struct FilledPacket {
    pub(crate) plan: Plan,
    pub(crate) blocks: Vec<IdBlock>,
    pub(crate) inserts: Vec<InsertReply>,
    pub(crate) explicit: Vec<ExplicitIds>,
}

pub(crate) fn refused(why: impl Display) -> Refusal {
    Refusal::Statement(why.to_string())
}

/// The refusal of a statement while the session's state is not known: nothing that depends on the state is guessed.
pub(crate) fn state_unknown() -> Refusal {
    refused(
        "Rowstamp could not read the session's sql_mode and character set, and cannot read statements without them; try again",
    )
}

pub(crate) fn malformed(error: Malformed) -> Refusal {
    refused(format_args!("cannot read the parameters of this execution: {error}; correct the driver"))
}
