//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's place.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::attributes::text_at;
use crate::mysql::command::{Command, command_payload};
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::{Ids, InsertReply, SmallestId};
use crate::proxy::known::need::{Need, Supplied};
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::known::temporary::Hides;
use crate::proxy::relay::Arrived;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::ruled::locked;
use crate::proxy::ruled::progress::{Later, Packet, Progress, Shown, Slowly, Task, WithIds};
use crate::proxy::ruled::verdict::{Lacking, Verdict, state_unknown, within};
use crate::proxy::session::{Going, Question, Session};
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_text::PreparedText;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{self, InsertPlan, Lookup, Plan, Planned, Protocol};
use crate::rewrite::planner;
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::verify::Written;
use crate::rules::model::ColumnShape;
use crate::sessions::Count;
use crate::table_name::TableName;
use crate::tables::Tables;

impl Session {
    /// COM_QUERY or COM_STMT_PREPARE with its whole text.
    pub(in crate::proxy) fn statement(&mut self, arrived: Arrived) -> Progress {
        let command = arrived.command;
        let mut supplied = std::mem::take(&mut self.supplied);
        let tables = self.relay.session.tables.now();
        let payload = payload_of(self.relay.up.window(), arrived.window_bytes);
        let has_attributes = command == Command::Query && self.relay.has_attributes();
        let Ok(text_at) = text_at(&payload, has_attributes) else {
            drop(payload);
            self.refuse(arrived, &Refusal::MalformedPacket);
            return Progress::Done;
        };
        let text = payload.get(text_at..).unwrap_or_default();
        let verdict = match self.judge(&tables, command, text, &mut supplied) {
            // All that was made of rules that are retired is dropped.
            _ if tables.is_retired() => Verdict::Needs(Need::Rules { retired: tables.clone() }),
            Verdict::Send(packet) => Verdict::Send(WithIds { text_at, ..packet }),
            verdict => verdict,
        };
        if let Verdict::Needs(need) = verdict {
            drop(payload);
            self.supplied = supplied;
            return need.into();
        }
        let named = self.named(&tables, text);
        let rehearsed = self.rehearse(command, text, &verdict);
        let task = match &verdict {
            Verdict::Select(_) => Some(payload.to_vec()),
            Verdict::PrepareSelect(_) => Some(text.to_vec()),
            _ => None,
        };
        drop(payload);
        self.relay.session.note_named(named);
        if let Some(effects) = rehearsed {
            self.relay.session.rehearsed_names.take(&effects, None);
        }
        let slowly = match (verdict, task) {
            (Verdict::Select(plan), Some(payload)) => {
                Slowly::Select(Box::new(Task::Text { payload, text_at, plan }))
            }
            (Verdict::PrepareSelect(kept), Some(text)) => {
                Slowly::Select(Box::new(Task::Prepare { kept, text }))
            }
            (Verdict::Show(shown), _) => Slowly::Show(shown),
            (Verdict::Send(packet), _) => {
                let sets = packet.plan.variables(&packet.ranges);
                if sets.is_none() && !packet.inserts.iter().any(InsertReply::is_late) {
                    self.send_planned(arrived, packet);
                    return Progress::Done;
                }
                let packet = Packet::Text(packet);
                Slowly::Later(Box::new(Later { sets, packet, tables }))
            }
            (verdict, _) => {
                self.act(arrived, verdict);
                return Progress::Done;
            }
        };
        Progress::Slowly(slowly)
    }

    fn act(&mut self, arrived: Arrived, verdict: Verdict) {
        match verdict {
            Verdict::PassActing(effects) => {
                let effects = Arc::new(effects);
                self.pass(arrived, false, Note::PrepareActing(effects.clone()));
                self.relay.statements.prepare_acting(effects);
            }
            Verdict::PassKept(source) => {
                let kept = Arc::new(Kept { source, prepared: None });
                self.pass(arrived, false, Note::Prepare(kept.clone()));
                self.relay.statements.prepare(kept);
            }
            Verdict::Pass(effects) => {
                let may_change_session = !effects.leave_session();
                let note = Note::statements(Vec::new(), Vec::new(), effects);
                self.pass(arrived, may_change_session, note);
            }
            Verdict::Refuse(refusal) => self.refuse(arrived, &refusal),
            Verdict::Fail(error) => self.fail(arrived, &error),
            Verdict::Prepare(kept) => self.send_prepare(arrived, kept),
            Verdict::Needs(_)
            | Verdict::Show(_)
            | Verdict::Send(_)
            | Verdict::Select(_)
            | Verdict::PrepareSelect(_) => {}
        }
    }

    /// COM_STMT_PREPARE with parameters of ours.
    fn send_prepare(&mut self, arrived: Arrived, kept: Arc<Kept>) {
        let command = Command::StmtPrepare;
        let payload = command_payload(command, kept.server_text().unwrap_or_default());
        let nr_shift = self.relay.send_instead(&payload, arrived);
        self.relay.statements.prepare(kept.clone());
        self.relay.owe(command.reply(), false, nr_shift, Note::Prepare(kept));
    }

    /// A statement that our scanner cannot read: the server says what is wrong with it, or it is refused.
    pub(in crate::proxy) async fn show(&mut self, arrived: Arrived, shown: Shown) -> Going<()> {
        match self.ask(Question::Prepare(&shown.text)).await? {
            Err(error) => self.fail(arrived, &error.payload),
            Ok(_) => self.refuse(arrived, &shown.refusal),
        }
        Ok(())
    }

    /// What is kept of a text that is being prepared. `None`: the session's state is not known.
    fn source(&self, text: &[u8], (schema, table): (&str, &str)) -> Option<Arc<Source>> {
        let state = self.relay.session.state()?;
        let has_room = self.relay.statements.has_room(2 * text.len());
        Some(Arc::new(Source {
            text: has_room.then(|| text.to_vec()),
            dialect: state.dialect,
            reads_alike: false,
            database: state.database.clone(),
            named: TableName::new(schema, table),
        }))
    }

    /// What becomes of a text by these rules, as far as is known.
    pub(in crate::proxy) fn judge(
        &self,
        tables: &Arc<Tables>,
        command: Command,
        text: &[u8],
        supplied: &mut Supplied,
    ) -> Verdict {
        if let Some(error) = self.relay.session.locked().filter(|_| tables.has_rules()) {
            return locked::verdict(error, command, text, self.relay.session.multi_statements());
        }
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let planned = match self.planned(tables, protocol, text) {
            Ok(planned) => planned,
            Err(_) if self.is_unconcerned(tables, text) => Planned::Untouched(Effects::unseen()),
            Err(refusal) => return Verdict::Refuse(refusal),
        };
        match &planned {
            Planned::Untouched(_) | Planned::Rewrite(_) => {}
            // DDL seen while a table is read has it read again.
            Planned::Needs(plan::Need::Table(_)) if supplied.may_look() => {}
            Planned::Stale { table, .. } if !supplied.has_read_again => {
                supplied.has_read_again = true;
                return Verdict::Needs(Need::Table { name: table.clone(), again: true });
            }
            Planned::Needs(plan::Need::Table(name)) => {
                return Verdict::Refuse(Refusal::NoId(format!("table {name} cannot be looked up")));
            }
            // Whether the text may name a view is asked below.
            _ if tables.misses_views() && supplied.may_look() => return Verdict::Needs(Need::Views),
            _ => {}
        }
        match self.spared(tables, text, planned) {
            Planned::Untouched(effects) => self.untouched(command, text, effects),
            Planned::Needs(need) => Verdict::Needs(need.into()),
            Planned::Away(why) => Verdict::Refuse(Refusal::NoId(why)),
            Planned::Fails(error) => Verdict::Fail(error),
            Planned::Refused(refusal) => Verdict::Refuse(refusal.into()),
            Planned::Unreadable(unreadable) | Planned::Stale { unreadable, .. } => {
                Verdict::Show(Shown::new(unreadable, text))
            }
            Planned::Rewrite(plan) => {
                // What is prepared otherwise is judged by the server before it is executed.
                let takes_now = protocol == Protocol::Text || plan.select().is_some();
                let objection = if takes_now { self.relay.rights.objection(&plan, text) } else { None };
                match objection {
                    Some(objection) => objection.into(),
                    None => self.rewritten(tables, protocol, text, plan, supplied),
                }
            }
        }
    }

    /// What no rule changes, and what is kept of it where it is being prepared.
    fn untouched(&self, command: Command, text: &[u8], effects: Effects) -> Verdict {
        let is_prepare = command == Command::StmtPrepare;
        if is_prepare && (!effects.leave_session() || effects.hidden_insert.is_some()) {
            return Verdict::PassActing(effects);
        }
        let named = effects.inserts_into.as_ref();
        match named.and_then(|named| self.source(text, (&named.schema, &named.table))) {
            Some(source) => Verdict::PassKept(source),
            None => Verdict::Pass(effects),
        }
    }

    fn rewritten(
        &self,
        tables: &Arc<Tables>,
        protocol: Protocol,
        text: &[u8],
        plan: Plan,
        supplied: &mut Supplied,
    ) -> Verdict {
        if protocol == Protocol::Prepare {
            return match plan.prepare(text) {
                Ok(prepared) => self.prepared(text, plan, prepared),
                Err(refusal) => Verdict::Refuse(refusal.into()),
            };
        }
        if plan.select().is_some() {
            return Verdict::Select(Box::new(plan));
        }
        let verdict = self.fill(tables, plan, supplied);
        self.verified(text, verdict)
    }

    fn prepared(&self, text: &[u8], plan: Plan, prepared: PreparedText) -> Verdict {
        if self.shared.verifier.is_due()
            && let Err(refusal) = self.judge_rewrite(&plan, (text, &prepared.text), Written::Placeholders)
        {
            return Verdict::Refuse(refusal);
        }
        let Some(insert) = plan.inserts.into_iter().next() else { return Verdict::Pass(plan.effects) };
        let Some(source) = self.source(text, insert.target.named()) else {
            return Verdict::Refuse(state_unknown());
        };
        let selects = insert.select.is_some();
        let prepared = Some(Arc::new(PreparedInsert { insert, text: prepared }));
        let kept = Arc::new(Kept { source, prepared });
        if selects { Verdict::PrepareSelect(kept) } else { Verdict::Prepare(kept) }
    }

    fn judge_rewrite(&self, plan: &Plan, texts: (&[u8], &[u8]), written: Written<'_>) -> Result<(), Refusal> {
        let state = self.relay.session.state().ok_or_else(state_unknown)?;
        self.shared.verifier.judge(plan, &state.dialect, texts, written)
    }

    /// What is to be sent, unless a second parser reads it otherwise. The ids are taken by then, and lost with it: only so
    /// is it the very text that is judged.
    fn verified(&self, text: &[u8], verdict: Verdict) -> Verdict {
        let Verdict::Send(WithIds { plan, ranges, .. }) = &verdict else { return verdict };
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

    fn planned(&self, tables: &Tables, protocol: Protocol, text: &[u8]) -> Result<Planned, Refusal> {
        let view = &self.relay.session;
        let Some(state) = view.state() else {
            return if tables.has_rules() {
                Err(state_unknown())
            } else {
                Ok(Planned::Untouched(Effects::unseen()))
            };
        };
        let lookup = |schema: &str, table: &str| match tables.lookup(schema, table) {
            // Whether it is ruled at all comes first.
            found @ (Lookup::NotRuled | Lookup::Unknown) => found,
            _ if view.hides(schema, table) == Hides::Unsure => Lookup::PerhapsHidden,
            found => found,
        };
        let hidden = |schema: &str, table: &str| view.hides(schema, table) == Hides::Yes;
        let plan_view = plan::PlanContext {
            dialect: &state.dialect,
            multi_statements: view.multi_statements() && protocol == Protocol::Text,
            default_schema: state.database.as_deref(),
            any_rules: tables.has_rules(),
            tables: &lookup,
            hidden: &hidden,
            session: &view.names,
        };
        Ok(planner::plan(text, &plan_view, protocol))
    }

    /// A statement longer than `limits.statement_bytes` passes where its beginning shows that no rule concerns it.
    pub(in crate::proxy) fn decide_too_long(&mut self, command: Command, header: Header) -> Option<Need> {
        let window = self.relay.up.window();
        let payload = window.get(HEADER_BYTES..header.packet_bytes().min(window.len())).unwrap_or_default();
        let has_attributes = command == Command::Query && self.relay.has_attributes();
        let text = text_at(payload, has_attributes).ok().and_then(|at| payload.get(at..)).unwrap_or_default();
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let begins_insert =
            self.relay.session.state().is_some_and(|state| planner::begins_insert(text, &state.dialect));
        let tables = self.relay.session.tables.now();
        let planned = if begins_insert { self.planned(&tables, protocol, text).ok() } else { None };
        match planned {
            Some(Planned::Needs(need @ plan::Need::Table(_))) if self.supplied.may_look() => {
                return Some(need.into());
            }
            Some(Planned::Untouched(_)) => {
                self.rehearse_too_long(text);
                self.relay.pass_too_long(command, header);
            }
            _ => {
                self.relay.refuse_too_long(command, header);
            }
        }
        None
    }

    /// Takes the ids that a text needs.
    fn fill(&self, tables: &Arc<Tables>, plan: Plan, supplied: &mut Supplied) -> Verdict {
        let expect = |insert: &InsertPlan| {
            Explicit::expect(tables, &insert.target, insert.statement, &insert.explicit)
        };
        let explicit: Vec<_> = plan.inserts.iter().filter_map(expect).collect();
        let mut ranges = Vec::with_capacity(plan.inserts.len());
        for insert in plan.inserts.iter().filter(|insert| insert.ids > 0) {
            match self.take(tables, &insert.target, insert.ids, supplied) {
                Ok(range) => ranges.push(range),
                Err(Lacking::Refused(refusal)) => return Verdict::Refuse(refusal),
                Err(Lacking::Needs(need)) => {
                    // Those that are at hand stay so, and none is issued that the client wrote.
                    let taken = plan.inserts.iter().filter(|insert| insert.ids > 0).zip(ranges);
                    taken.for_each(|(insert, range)| supplied.put(tables, insert.target.clone(), range));
                    supplied.keep_expecting(explicit);
                    return Verdict::Needs(need);
                }
            }
        }
        let (found_rows, mut taken) = (self.relay.found_rows(), ranges.iter());
        let mut inserts = Vec::with_capacity(plan.inserts.len());
        for insert in &plan.inserts {
            let ids = if insert.ids > 0 { taken.next().map(Ids::from) } else { None };
            // An update still tells by what was added to its list.
            if ids.is_some() || insert.style == Style::OdkuLiteral && !insert.is_named {
                inserts.push(InsertReply::new(insert, ids, found_rows, tables.clone()));
            }
        }
        if inserts.is_empty() && explicit.is_empty() && !plan.has_edits() {
            return Verdict::Pass(plan.effects);
        }
        Verdict::Send(WithIds { plan, ranges, inserts, explicit, text_at: 0 })
    }

    /// Ids for a statement: those that were waited for, or of those at hand.
    pub(in crate::proxy) fn take(
        &self,
        tables: &Arc<Tables>,
        target: &Arc<Target>,
        ids: u32,
        supplied: &mut Supplied,
    ) -> Result<IdBlock, Lacking> {
        let Some(n) = NonZeroU64::new(u64::from(ids)) else {
            return Err(Refusal::NoId("a statement without ids".into()).into());
        };
        let range = take_of(tables, target, n, supplied).map_err(Lacking::Needs)?;
        self.relay.here.count(Count::Ids, n.get());
        Ok(within(target, range)?)
    }

    /// [`Session::take`] for a statement that is sent in several steps.
    pub(in crate::proxy) fn take_once(
        &mut self,
        tables: &Arc<Tables>,
        target: &Arc<Target>,
        n: NonZeroU64,
    ) -> Result<IdBlock, Need> {
        let range = take_of(tables, target, n, &mut self.supplied)?;
        self.relay.here.count(Count::Ids, n.get());
        Ok(range)
    }

    /// Asked on the control connection, which sees the rows of this session's open transaction at READ UNCOMMITTED.
    pub(in crate::proxy) async fn smallest_id(&mut self, question: &SmallestId) -> Option<u64> {
        let target = &question.target;
        let schema = self.relay.session.tables.schema()?;
        // Of the table, also where the statement names a view.
        let column = target.id_shape()?;
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

fn take_of(
    tables: &Arc<Tables>,
    target: &Arc<Target>,
    n: NonZeroU64,
    supplied: &mut Supplied,
) -> Result<IdBlock, Need> {
    let needed = || (tables.clone(), target.clone());
    let range = supplied.take(tables, target, n).or_else(|| tables.take_at_once(target, n));
    let range = range.ok_or_else(|| {
        let (tables, target) = needed();
        Need::Ids { tables, target, n }
    })?;
    // Only after they were taken, however long ago that was.
    if tables.is_guarded(target) {
        return Ok(range);
    }
    supplied.put(tables, target.clone(), range);
    let (tables, target) = needed();
    Err(Need::Guard { tables, target })
}
