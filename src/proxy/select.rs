//! An INSERT ... SELECT on its way: what was asked for it, what is known, what comes next. The client's commands behind it
//! wait until it is answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::outstanding::Outstanding;
use super::relay::{Relay, Step, err_packet};
use super::statements::{Kept, Source};
use crate::mysql::column::ColumnDefinition;
use crate::mysql::command::Command;
use crate::mysql::error::{Refusal, parse_err};
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};
use crate::mysql::prepared::ParamType;
use crate::mysql::reader::Reader;
use crate::mysql::response::PrepareOk;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::rewrite::select::SelectPlan;
use crate::rules::model::Explicit;

/// ER_DATA_OUT_OF_RANGE, and what stands in its text where a block of ids was too small.
const OUT_OF_RANGE: u16 = 1690;
const OVERRUN_MARK: &str = "18446744073709551615 + ";
const OVERRUN_OPERANDS: [&str; 2] = ["`rowstamp k`", "last_insert_id()"];

/// What the backend is asked for an INSERT ... SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// How statements are logged, and LAST_INSERT_ID().
    Facts,
    /// Whether the client's own text is right.
    ClientText,
    /// The columns of its query.
    Columns,
    /// Whether the query can be kept inside of another.
    OurText,
    /// How many views there are among what the query names.
    Views,
    /// How many rows the query has.
    Rows,
    /// LAST_INSERT_ID(), from which the rows were counted.
    Counter,
    /// LAST_INSERT_ID() is put back.
    PutBack,
}

/// The client's command.
#[derive(Debug)]
pub(super) enum Task {
    /// COM_QUERY; its text begins at `text_at` of its payload.
    Text {
        payload: Vec<u8>,
        text_at: usize,
        plan: Box<Plan>,
    },
    Prepare {
        kept: Arc<Kept>,
        text: Vec<u8>,
    },
    /// COM_STMT_EXECUTE, and what its payload is read with.
    Execute {
        kept: Arc<Kept>,
        payload: Vec<u8>,
        types: Option<Vec<ParamType>>,
        long_data: BTreeSet<u16>,
    },
}

/// What comes next, as soon as nothing is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Start,
    Asked,
    Counted,
    /// The statement itself is under way.
    Sent,
    /// The block was too small.
    Overran,
    Measured,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) task: Task,
    /// Packets of the client's command.
    pub(super) packets: usize,
    pub(super) stage: Stage,
    awaited: usize,
    pub(super) tries: u32,
    /// The block that was sent last.
    pub(super) block: u32,
    /// The generator has gone past the ids that the query brought.
    pub(super) followed: bool,
    /// The server's answer to the client's own text, where it is an error; later to ours.
    pub(super) error: Option<Vec<u8>>,
    /// Why it cannot be done.
    pub(super) refusal: Option<Refusal>,
    pub(super) before_first: Option<u64>,
    pub(super) columns: Option<Vec<ColumnDefinition>>,
    pub(super) rows: Option<u64>,
    pub(super) views: Option<u64>,
}

impl Job {
    pub(super) fn new(task: Task, packets: usize) -> Self {
        Job {
            task,
            packets,
            stage: Stage::Start,
            awaited: 0,
            tries: 0,
            block: 0,
            followed: false,
            error: None,
            refusal: None,
            before_first: None,
            columns: None,
            rows: None,
            views: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.awaited == 0 && self.stage != Stage::Sent
    }

    pub(super) fn awaits(&mut self, answers: usize, next: Stage) {
        self.awaited = answers;
        self.stage = next;
    }

    pub(super) fn insert(&self) -> Option<&InsertPlan> {
        match &self.task {
            Task::Text { plan, .. } => plan.inserts.first(),
            Task::Prepare { kept, .. } | Task::Execute { kept, .. } => Some(&kept.prepared.as_ref()?.insert),
        }
    }

    pub(super) fn select(&self) -> Option<&SelectPlan> {
        self.insert()?.select.as_deref()
    }

    /// The client's text; of an execution, which needs none, nothing.
    pub(super) fn text(&self) -> &[u8] {
        match &self.task {
            Task::Text { payload, text_at, .. } => payload.get(*text_at..).unwrap_or_default(),
            Task::Prepare { text, .. } => text,
            Task::Execute { .. } => &[],
        }
    }

    /// What an execution was prepared from.
    pub(super) fn source(&self) -> Option<&Source> {
        match &self.task {
            Task::Execute { kept, .. } => Some(&kept.source),
            Task::Text { .. } | Task::Prepare { .. } => None,
        }
    }

    pub(super) fn command(&self) -> Command {
        match self.task {
            Task::Text { .. } => Command::Query,
            Task::Prepare { .. } => Command::StmtPrepare,
            Task::Execute { .. } => Command::StmtExecute,
        }
    }

    /// Whether ids that the query may have brought are stored and not yet followed.
    pub(super) fn must_follow(&self, affected_rows: u64) -> bool {
        self.stage == Stage::Sent
            && !self.followed
            && affected_rows > 0
            && self.command() != Command::StmtPrepare
            && self.select().is_some_and(|select| select.id_place.is_some())
            && self.insert().is_some_and(|insert| insert.target.rule.explicit == Explicit::Advance)
    }

    fn refuse(&mut self, why: &str) {
        self.refusal.get_or_insert(Refusal::Statement(format!("rowstamp: {why}")));
    }

    fn take_facts(&mut self, row: Option<&[u8]>) {
        let Some(facts) = row.and_then(text_of) else {
            return self.refuse("the server's way of logging cannot be read; try again");
        };
        let mut facts = facts.split(',');
        let mut is_on = || matches!(facts.next(), Some("1" | "ON"));
        let is_logged = is_on() & is_on();
        if is_logged && facts.next().is_none_or(|format| format.eq_ignore_ascii_case("STATEMENT")) {
            self.refuse(
                "INSERT ... SELECT is logged as a statement here, and a replica may number its rows differently; SET \
                 binlog_format to ROW or MIXED",
            );
        }
        // Counting up from there must not end.
        match facts.next_back().and_then(|id| id.parse().ok()).filter(|&id| id < i64::MAX.unsigned_abs() / 2)
        {
            Some(before_first) => self.before_first = Some(before_first),
            None => self.refuse("LAST_INSERT_ID() is no id; SET last_insert_id=0"),
        }
    }

    fn take_columns(&mut self, ok: PrepareOk, definitions: &[Vec<u8>]) {
        if !ok.definitions {
            return self.refuse(
                "an INSERT ... SELECT needs the definitions of its columns; SET resultset_metadata=FULL",
            );
        }
        let columns = definitions.iter().skip(usize::from(ok.params));
        self.columns = columns.map(|definition| ColumnDefinition::parse(definition).ok()).collect();
    }
}

impl Relay {
    /// The backend has answered a question.
    pub(super) fn select_told(
        &mut self,
        question: Question,
        error: Option<(u16, String)>,
        first: Option<Vec<u8>>,
        row: Option<&[u8]>,
        definitions: &[Vec<u8>],
    ) {
        let is_prepare = matches!(question, Question::ClientText | Question::Columns | Question::OurText);
        let prepared = first.as_deref().filter(|_| is_prepare && error.is_none());
        let prepared = self.close_own(prepared);
        let Some(job) = &mut self.select else { return };
        job.awaited = job.awaited.saturating_sub(1);
        match (question, error) {
            (Question::ClientText, Some(_)) => job.error = first,
            (Question::Columns | Question::OurText, Some((code, text))) => {
                job.refuse(&format!(
                    "the query cannot be kept inside of another ({code}, {text}); write it more plainly"
                ));
            }
            (_, Some((code, text))) => job.refuse(&format!("the server answered {code}, {text}; try again")),
            (Question::Facts, None) => job.take_facts(row),
            (Question::Columns, None) => {
                if let Some(ok) = prepared {
                    job.take_columns(ok, definitions);
                }
            }
            (Question::Rows | Question::Counter, None) => {
                job.rows = row.and_then(text_of).and_then(|digits| digits.parse().ok());
            }
            (Question::Views, None) => {
                let views = row.and_then(text_of).and_then(|digits| digits.parse().ok());
                job.views = Some(views.unwrap_or(u64::MAX));
            }
            (Question::ClientText | Question::OurText | Question::PutBack, None) => {}
        }
    }

    /// The statement has failed; whether because its block was too small, and what to do with the packet then.
    pub(super) fn select_overran(&mut self, header: Header, whole: usize) -> Option<Step> {
        let payload = self.down.window().get(HEADER_BYTES..whole)?;
        let (code, text) = parse_err(payload)?;
        let is_ours =
            text.contains(OVERRUN_MARK) && OVERRUN_OPERANDS.iter().any(|operand| text.contains(operand));
        if code != OUT_OF_RANGE || !is_ours {
            return None;
        }
        let job = self.select.as_mut().filter(|job| job.stage == Stage::Sent)?;
        if !self.down.is_clear() {
            return Some(Step::SendFirst);
        }
        let returns_rows = job.select().is_some_and(|select| select.returns_rows);
        if !returns_rows {
            job.error = Some(payload.to_vec());
            job.awaits(0, Stage::Overran);
            self.down.skip(whole);
            self.outstanding.pop();
            return Some(Step::Moved);
        }
        // Its columns have been sent already.
        let Some(Outstanding::Forward(entry)) = self.outstanding.front_mut() else { return None };
        let nr = entry.numbers.take(header.packet_nr)?;
        let refusal = Refusal::NoId("the query had more rows than when they were counted; try again".into());
        self.down.skip(whole);
        put_packets(self.down.out(), nr, &refusal.payload());
        self.complete(false);
        Some(Step::Moved)
    }

    /// The response of a client's command is complete.
    pub(super) fn select_answered_client(&mut self) {
        if self.select.as_ref().is_some_and(|job| job.stage == Stage::Sent) {
            self.select = None;
        }
    }

    /// Ends the job with an error of ours.
    pub(super) fn refuse_select(&mut self, job: &Job, refusal: &Refusal) {
        if job.command() == Command::StmtPrepare {
            self.statements.refuse_last();
        }
        self.outstanding.push(Outstanding::Answer(err_packet(refusal, job.packets)));
    }

    /// Ends the job with an error of the server's.
    pub(super) fn fail_select(&mut self, job: &Job, error: &[u8]) {
        if job.command() == Command::StmtPrepare {
            self.statements.refuse_last();
        }
        let mut packet = Vec::new();
        let nr = (job.packets % 256).to_le_bytes().first().copied().unwrap_or(1);
        put_packets(&mut packet, nr, error);
        self.outstanding.push(Outstanding::Answer(packet));
    }
}

/// The text in a row's only column, which came as hexadecimal digits; zero bytes of UTF-16 are passed over.
fn text_of(row: &[u8]) -> Option<String> {
    let digits = Reader::new(row).lenenc_bytes("an answer of ours").ok()?;
    super::view::unhex(digits)
}
