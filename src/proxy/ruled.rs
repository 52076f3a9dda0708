//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's place.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use super::explicit::Explicit;
use super::inserts::{Ids, InsertReply, SmallestId};
use super::locked;
use super::named::Held;
use super::outstanding::{Note, Probe, Purpose};
use super::relay::err_packet;
use super::select::{Job, Task};
use super::session::Session;
use super::statements::{Kept, Source};
use super::tables::{Tables, highest_of, id_shape};
use super::temporary::Hides;
use super::unconcerned::unseen;
use crate::ids::TakeError;
use crate::ids::range::block::IdBlock;
use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::rewrite::effects::Effects;
use crate::rewrite::plan::{self, InsertPlan, Lookup, Plan, Planned, Protocol, Target, Unreadable};
use crate::rewrite::prepare::{PreparedInsert, PreparedText};
use crate::rewrite::verify::Written;
use crate::rules::model::ColumnShape;
use crate::sessions::Count;

/// Looks at one packet: more than the tables it names, and than DDL comes in between.
const LOOKUPS_MAX: u32 = 100;

/// What a statement turned out to be, with everything borrowed from the window gone.
pub(super) enum Verdict {
    Pass(Effects),
    Refuse(Refusal),
    /// The server's own error: see [`locked`], and [`Planned::Fails`].
    Fail(Vec<u8>),
    /// The server is asked this first.
    Ask(Vec<u8>),
    Probe(Unreadable),
    /// The server is asked whether a temporary table hides this name; then the statement is judged again.
    AskTemporary {
        schema: String,
        table: String,
    },
    /// The server is asked whether the user may insert into this; then the statement is judged again.
    AskRight(Arc<Target>),
    /// The ids go in, and the OK packets need what `inserts` say.
    Send(Held),
    Prepare(Arc<PreparedInsert>),
    /// INSERT ... SELECT by text.
    Select(Box<Plan>),
}

impl Session {
    /// COM_QUERY or COM_STMT_PREPARE with its whole text.
    #[allow(clippy::too_many_lines)] // One arm a verdict.
    pub(super) async fn statement(&mut self, command: Command, window_bytes: usize, packets: usize) {
        let is_held = self.held.is_some();
        let held = match self.take_held(window_bytes, packets) {
            Some(Err(())) => return,
            Some(Ok(held)) => Some(held),
            None => None,
        };
        let payload = payload_of(self.relay.up.window(), window_bytes);
        let has_attributes = command == Command::Query && self.relay.has_attributes();
        let Ok(text_at) = text_at(&payload, has_attributes) else {
            drop(payload);
            return self.refuse(&Refusal::MalformedPacket, window_bytes, packets);
        };
        let text = payload.get(text_at..).unwrap_or_default();
        let verdict = match held {
            Some(held) => Verdict::Send(held),
            None => self.judge(command, text).await,
        };
        let named = self.named(&self.relay.view.tables.now(), text);
        let rehearsed = if is_held { None } else { self.rehearse(command, text, &verdict) };
        let probe_text = match (&verdict, &payload) {
            (Verdict::Probe(Unreadable { inner: Some(inner), .. }), _) => inner.clone(),
            (Verdict::Probe(unreadable), _) => {
                text.get(unreadable.statement.clone()).unwrap_or(text).to_vec()
            }
            (Verdict::AskTemporary { .. }, _) => text.to_vec(),
            (Verdict::Select(_), _) => payload.to_vec(),
            (Verdict::Prepare(prepared), _) if prepared.insert.select.is_some() => text.to_vec(),
            _ => Vec::new(),
        };
        let source = match &verdict {
            Verdict::Prepare(prepared) => self.source(text, prepared.insert.target.named()),
            Verdict::Pass(Effects { inserts_into: Some(name), .. }) => self.source(text, (&name.0, &name.1)),
            _ => None,
        };
        drop(payload);
        self.relay.view.note_named(named);
        if let Some(effects) = rehearsed {
            self.relay.view.rehearsed_names.take(&effects, None);
        }
        if let Verdict::Ask(question) = verdict {
            return self.relay.ask_value(&question);
        }
        if let Verdict::AskRight(target) = verdict {
            return self.ask_right(target);
        }
        self.relay.rights.forget_answers();
        if !matches!(verdict, Verdict::AskTemporary { .. }) {
            self.relay.view.names.forget_answers();
        }
        let is_answered_here = matches!(verdict, Verdict::Refuse(_) | Verdict::Fail(_) | Verdict::Probe(_));
        if command == Command::StmtPrepare && is_answered_here {
            self.relay.statements.refuse_last();
        }
        match verdict {
            // It does something when it is executed.
            Verdict::Pass(effects)
                if command == Command::StmtPrepare
                    && (!effects.leave_session() || effects.hidden_insert.is_some()) =>
            {
                let effects = Arc::new(effects);
                self.pass(command, window_bytes, false, Note::PrepareActing(effects.clone()));
                self.relay.statements.prepare_acting(effects);
            }
            Verdict::Pass(_) if let Some(source) = source => {
                let kept = Arc::new(Kept { source, prepared: None });
                self.pass(command, window_bytes, false, Note::Prepare(kept.clone()));
                self.relay.statements.prepare(kept);
            }
            Verdict::Pass(effects) => {
                let may_change_session = !effects.leave_session();
                self.pass(
                    command,
                    window_bytes,
                    may_change_session,
                    Note::statements(Vec::new(), Vec::new(), effects),
                );
            }
            Verdict::Refuse(refusal) => self.refuse(&refusal, window_bytes, packets),
            Verdict::Fail(error) => self.fail(&error, window_bytes, packets),
            Verdict::AskTemporary { schema, table } => {
                if let Err(refusal) = self.ask_temporary(&schema, &table, &probe_text) {
                    if command == Command::StmtPrepare {
                        self.relay.statements.refuse_last();
                    }
                    self.refuse(&refusal, window_bytes, packets);
                }
            }
            Verdict::Probe(unreadable) => self.probe(&unreadable, &probe_text, window_bytes, packets),
            Verdict::Ask(_) | Verdict::AskRight(_) => {}
            Verdict::Send(held) => {
                if let Some(variables) = held.plan.variables(&held.ranges).filter(|_| !is_held) {
                    return self.hold(&variables, held);
                }
                self.send_planned(command, held, text_at, window_bytes, packets);
            }
            Verdict::Select(plan) => {
                self.relay.up.skip(window_bytes);
                let task = Task::Text { payload: probe_text, text_at, plan };
                self.relay.select = Some(Box::new(Job::new(task, packets)));
            }
            Verdict::Prepare(prepared) => match source {
                Some(source) => {
                    let kept = Arc::new(Kept { source, prepared: Some(prepared) });
                    self.send_prepare(kept, probe_text, window_bytes, packets);
                }
                None => self.refuse(&state_unknown(), window_bytes, packets),
            },
        }
    }

    /// A packet with its ids, and what its answers are to be told by.
    fn send_planned(
        &mut self,
        command: Command,
        held: Held,
        text_at: usize,
        window_bytes: usize,
        packets: usize,
    ) {
        let Held { plan, ranges, inserts, explicit } = held;
        let may_change_session = !plan.effects.leave_session();
        if !plan.has_edits() {
            let note = Note::statements(inserts, explicit, plan.effects);
            return self.pass(command, window_bytes, may_change_session, note);
        }
        if self.shared.audit.is_on() {
            let payload = payload_of(self.relay.up.window(), window_bytes);
            self.audit(payload.get(text_at..), &inserts);
        }
        let sent = self.relay.send_spliced((&plan, &ranges), text_at, window_bytes, packets);
        let Some(nr_shift) = sent else {
            let refusal = Refusal::NoId("the ids do not fit the plan".into());
            return self.refuse(&refusal, window_bytes, packets);
        };
        // The wrapper sets it again; where the statement fails, what the function shows is undefined anyway.
        if inserts.iter().any(InsertReply::sets_insert_id) {
            self.relay.view.take_owed_insert_id();
        }
        let note = Note::statements(inserts, explicit, plan.effects);
        self.relay.owe(command.reply(), may_change_session, nr_shift, note);
    }

    /// COM_STMT_PREPARE with parameters of ours, or what goes before it.
    fn send_prepare(&mut self, kept: Arc<Kept>, text: Vec<u8>, window_bytes: usize, packets: usize) {
        if kept.selects() {
            self.relay.up.skip(window_bytes);
            self.relay.select = Some(Box::new(Job::new(Task::Prepare { kept, text }, packets)));
            return;
        }
        let command = Command::StmtPrepare;
        let payload = command_payload(command, kept.server_text().unwrap_or_default());
        let nr_shift = self.relay.send_instead(&payload, window_bytes, packets);
        self.relay.statements.prepare(kept.clone());
        self.relay.owe(command.reply(), false, nr_shift, Note::Prepare(kept));
    }

    /// With the server's own error, in its place.
    fn fail(&mut self, error: &[u8], window_bytes: usize, packets: usize) {
        self.relay.up.skip(window_bytes);
        self.relay.answer_with(error, packets);
    }

    /// What is kept of a text that is being prepared. `None`: the session's state is not known.
    fn source(&self, text: &[u8], (schema, table): (&str, &str)) -> Option<Arc<Source>> {
        let state = self.relay.view.state()?;
        let has_room = self.relay.statements.has_room(2 * text.len());
        Some(Arc::new(Source {
            text: has_room.then(|| text.to_vec()),
            dialect: state.dialect,
            reads_alike: false,
            database: state.database.clone(),
            named: (schema.to_owned(), table.to_owned()),
        }))
    }

    /// By the active rules. Where they change meanwhile, all that was made of the old ones is dropped.
    pub(super) async fn judge(&self, command: Command, text: &[u8]) -> Verdict {
        let mut tables = self.relay.view.tables.now();
        loop {
            let verdict = self.judged_by(&tables, command, text).await;
            match self.superseding(&tables).await {
                Ok(None) => return verdict,
                Ok(Some(next)) => tables = next,
                Err(refusal) => return Verdict::Refuse(refusal),
            }
        }
    }

    /// The version of the rules by which to begin again, if `tables` is in force no more. Asked when everything is ready to
    /// be sent: `tables/change` rests on that.
    pub(super) async fn superseding(&self, tables: &Arc<Tables>) -> Result<Option<Arc<Tables>>, Refusal> {
        if !tables.is_retired() {
            return Ok(None);
        }
        let next = self.relay.view.tables.after(tables, self.shared.id_deadline).await;
        let next = next.ok_or_else(|| Refusal::NoId("the rules are being changed; try again".into()));
        next.map(Some)
    }

    pub(super) async fn judged_by(&self, tables: &Arc<Tables>, command: Command, text: &[u8]) -> Verdict {
        if let Some(error) = self.relay.view.locked().filter(|_| tables.has_rules()) {
            return locked::verdict(error, command, text, self.relay.view.multi_statements());
        }
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let planned = match self.planned(tables, protocol, text).await {
            Ok(planned) => planned,
            Err(_) if self.is_unconcerned(tables, text) => Planned::Untouched(unseen()),
            Err(refusal) => return Verdict::Refuse(refusal),
        };
        if !matches!(planned, Planned::Untouched(_) | Planned::Rewrite(_)) {
            // Whether the text may name a view is asked below.
            tables.know_views().await;
        }
        match self.spared(tables, text, planned) {
            Planned::Untouched(effects) => Verdict::Pass(effects),
            Planned::AsksTemporary { schema, table } => Verdict::AskTemporary { schema, table },
            Planned::NeedsValue { question } => Verdict::Ask(question),
            Planned::Away(why) => Verdict::Refuse(Refusal::NoId(why)),
            Planned::Fails(error) => Verdict::Fail(error),
            Planned::Refused(refusal) => Verdict::Refuse(Refusal::Statement(refusal.to_string())),
            Planned::Unreadable(unreadable) | Planned::Stale { unreadable, .. } => Verdict::Probe(unreadable),
            Planned::NeedsTable { schema, table } => {
                Verdict::Refuse(Refusal::NoId(format!("table {schema}.{table} cannot be looked up")))
            }
            Planned::Rewrite(plan) => {
                // What is prepared otherwise is judged by the server before it is executed.
                let takes_now = protocol == Protocol::Text || plan.select().is_some();
                let verdict = if takes_now { self.relay.rights.verdict(&plan, text) } else { None };
                match verdict {
                    Some(verdict) => verdict,
                    None => self.rewritten(tables, protocol, text, plan).await,
                }
            }
        }
    }

    async fn rewritten(&self, tables: &Arc<Tables>, protocol: Protocol, text: &[u8], plan: Plan) -> Verdict {
        if protocol == Protocol::Prepare {
            return match plan.prepare(text) {
                Ok(prepared) => self.prepared(text, plan, prepared),
                Err(refusal) => Verdict::Refuse(Refusal::Statement(refusal.to_string())),
            };
        }
        if plan.select().is_some() {
            return Verdict::Select(Box::new(plan));
        }
        match self.fill(tables, plan).await {
            Ok(verdict) => self.verified(text, verdict),
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    fn prepared(&self, text: &[u8], plan: Plan, prepared: PreparedText) -> Verdict {
        if self.shared.verifier.is_due()
            && let Err(refusal) = self.judge_rewrite(&plan, (text, &prepared.text), Written::Placeholders)
        {
            return Verdict::Refuse(refusal);
        }
        match plan.inserts.into_iter().next() {
            Some(insert) => Verdict::Prepare(Arc::new(PreparedInsert { insert, text: prepared })),
            None => Verdict::Pass(plan.effects),
        }
    }

    fn judge_rewrite(&self, plan: &Plan, texts: (&[u8], &[u8]), written: Written<'_>) -> Result<(), Refusal> {
        let state = self.relay.view.state().ok_or_else(state_unknown)?;
        self.shared.verifier.judge(plan, &state.dialect, texts, written)
    }

    /// What is to be sent, unless a second parser reads it otherwise. The ids are taken by then, and lost with it: only so
    /// is it the very text that is judged.
    fn verified(&self, text: &[u8], verdict: Verdict) -> Verdict {
        let Verdict::Send(Held { plan, ranges, .. }) = &verdict else { return verdict };
        if !self.shared.verifier.is_due() {
            return verdict;
        }
        // What cannot be spliced is refused where it is sent.
        let Some(after) = plan.splice(text, ranges) else { return verdict };
        match self.judge_rewrite(plan, (text, &after), Written::Ids(ranges)) {
            Ok(()) => verdict,
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    /// The plan, with every table it needs looked up.
    async fn planned(&self, tables: &Tables, protocol: Protocol, text: &[u8]) -> Result<Planned, Refusal> {
        let view = &self.relay.view;
        let Some(state) = view.state() else {
            return if tables.has_rules() { Err(state_unknown()) } else { Ok(Planned::Untouched(unseen())) };
        };
        let lookup = |schema: &str, table: &str| match tables.lookup(schema, table) {
            // Whether it is ruled at all comes first.
            found @ (Lookup::NotRuled | Lookup::Unknown) => found,
            _ if view.hides(schema, table) == Hides::Unsure => Lookup::PerhapsHidden,
            found => found,
        };
        let hidden = |schema: &str, table: &str| view.hides(schema, table) == Hides::Yes;
        let plan_view = plan::View {
            dialect: &state.dialect,
            multi_statements: view.multi_statements() && protocol == Protocol::Text,
            default_schema: state.database.as_deref(),
            any_rules: tables.has_rules(),
            tables: &lookup,
            hidden: &hidden,
            session: &view.names,
        };
        let mut tries = 0;
        let mut is_refreshed = false;
        loop {
            let planned = plan::plan(text, &plan_view, protocol);
            tries += 1;
            match &planned {
                // DDL seen while a table is read has it read again.
                Planned::NeedsTable { schema, table } if tries < LOOKUPS_MAX => {
                    tables.fetch(schema, table, false).await;
                }
                Planned::Stale { schema, table, .. } if !is_refreshed => {
                    is_refreshed = true;
                    tables.fetch(schema, table, true).await;
                }
                _ => return Ok(planned),
            }
        }
    }

    /// A statement longer than `limits.statement_bytes`: its beginning tells whether a rule concerns it.
    pub(super) async fn too_long(&mut self, command: Command) {
        let window = self.relay.up.window();
        let Some(header) = Header::parse(window) else { return };
        let payload = window.get(HEADER_BYTES..header.packet_bytes().min(window.len())).unwrap_or_default();
        let has_attributes = command == Command::Query && self.relay.has_attributes();
        let text = text_at(payload, has_attributes).ok().and_then(|at| payload.get(at..)).unwrap_or_default();
        let state = self.relay.view.state();
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let passes = state.is_some_and(|state| plan::begins_insert(text, &state.dialect))
            && matches!(
                self.planned(&self.relay.view.tables.now(), protocol, text).await,
                Ok(Planned::Untouched(_))
            );
        if passes {
            self.rehearse_too_long(text);
            self.relay.pass_too_long(command, header);
        } else {
            self.relay.refuse_too_long(command, header);
        }
    }

    /// Takes the ids that a text needs.
    async fn fill(&self, tables: &Arc<Tables>, plan: Plan) -> Result<Verdict, Refusal> {
        let expect = |insert: &InsertPlan| {
            Explicit::expect(tables, &insert.target, insert.statement, &insert.explicit)
        };
        let explicit: Vec<_> = plan.inserts.iter().filter_map(expect).collect();
        let mut ranges = Vec::with_capacity(plan.inserts.len());
        let mut inserts = Vec::with_capacity(plan.inserts.len());
        let found_rows = self.relay.found_rows();
        for insert in &plan.inserts {
            if insert.ids > 0 {
                let range = self.take(tables, &insert.target, insert.ids).await?;
                let ids = Some(Ids::from(&range));
                inserts.push(InsertReply::new(insert, ids, found_rows, tables.clone()));
                ranges.push(range);
            } else if insert.style == plan::Style::OdkuLiteral && !insert.is_named {
                // An update still tells by what was added to its list.
                inserts.push(InsertReply::new(insert, None, found_rows, tables.clone()));
            }
        }
        if inserts.is_empty() && explicit.is_empty() && !plan.has_edits() {
            return Ok(Verdict::Pass(plan.effects));
        }
        Ok(Verdict::Send(Held { plan, ranges, inserts, explicit }))
    }

    pub(super) async fn take(&self, tables: &Tables, target: &Target, ids: u32) -> Result<IdBlock, Refusal> {
        let Some(n) = NonZeroU64::new(u64::from(ids)) else {
            return Err(Refusal::NoId("a statement without ids".into()));
        };
        let range = match tables.take_at_once(target, n) {
            Some(range) => range,
            None => self.wait_for(tables, target, n).await?,
        };
        self.relay.here.count(Count::Ids, n.get());
        let highest = highest_of(target);
        if range.last() > highest {
            return Err(Refusal::NoId(format!(
                "{}.{}.{} holds ids up to {highest}, generator {} is beyond; widen the column",
                target.rule.schema, target.table, target.rule.column, target.rule.generator
            )));
        }
        Ok(range)
    }

    async fn wait_for(&self, tables: &Tables, target: &Target, n: NonZeroU64) -> Result<IdBlock, Refusal> {
        let asked = Instant::now();
        let range = tables.take(target, n, self.shared.id_deadline).await.map_err(|error| no_id(&error))?;
        let waited = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.relay.here.count(Count::WaitedNanos, waited);
        Ok(range)
    }

    /// A statement that our scanner cannot read: the server says what is wrong with it, or it is refused.
    pub(super) fn probe(
        &mut self,
        unreadable: &Unreadable,
        text: &[u8],
        window_bytes: usize,
        packets: usize,
    ) {
        let refusal = Refusal::Statement(unreadable.refusal.to_string());
        self.relay.up.skip(window_bytes);
        let packet_nr = (packets % 256).to_le_bytes().first().copied().unwrap_or(1);
        let probe = Probe { packet_nr, refusal: err_packet(&refusal, packets) };
        let payload = command_payload(Command::StmtPrepare, text);
        self.relay.statements.displace_last();
        self.relay.send_own(Purpose::Probe(probe), Command::StmtPrepare.reply(), &payload);
    }

    /// Asked on the control connection, which sees the rows of this session's open transaction at READ UNCOMMITTED.
    pub(super) async fn smallest_id(&self, question: &SmallestId) -> Option<u64> {
        let target = &question.target;
        let schema = self.relay.view.tables.schema()?;
        // Of the table, also where the statement names a view.
        let column = id_shape(target)?;
        let column = ColumnShape { name: target.rule.column.clone(), ..column.clone() };
        let table = (target.rule.schema.as_str(), target.table.as_str());
        let Ids { first, last, spacing } = question.ids;
        match schema.smallest_id(table, &column, (first, last, &spacing)).await {
            Ok(smallest) => smallest,
            Err(error) => {
                tracing::warn!(%error, "the insert id of a statement with IGNORE or ON DUPLICATE KEY UPDATE is not known (LOCK TABLES ... WRITE keeps the control account out)");
                None
            }
        }
    }
}

pub(super) fn no_id(error: &TakeError) -> Refusal {
    Refusal::NoId(error.for_client())
}

pub(super) fn command_payload(command: Command, text: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(text.len() + 1);
    payload.push(command as u8);
    payload.extend_from_slice(text);
    payload
}

/// Nothing that depends on it is guessed.
pub(super) fn state_unknown() -> Refusal {
    Refusal::Statement(
        "rowstamp: the session's sql_mode and character set could not be read, so no statement can be read for certain; \
         try again"
            .to_owned(),
    )
}
