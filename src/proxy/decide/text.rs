//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's
//! place.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::attributes::text_at;
use crate::mysql::command::{Command, command_payload};
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::proxy::decide::draws::Drawing;
use crate::proxy::decide::locked;
use crate::proxy::decide::verdict::{Verdict, state_unknown, within};
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::inserts::{Ids, InsertReply, Smallest, SmallestId};
use crate::proxy::known::need::{Need, Shown, Supplied, Unsent};
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::known::temporary::Masked;
use crate::proxy::relay::Arrived;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::progress::{Later, Packet, Progress, Task, WithIds};
use crate::proxy::serve::session::{Going, Session};
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{self, InsertPlan, Lookup, Plan, Planned, Protocol};
use crate::rewrite::planner;
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::verify::Written;
use crate::rules::model::ColumnShape;
use crate::schema::smallest_query;
use crate::sessions::Count;
use crate::sql::look::begins_with;
use crate::table_name::TableName;
use crate::tables::Tables;

/// ER_UNSUPPORTED_PS
const CANNOT_BE_PREPARED: u16 = 1295;

impl Session {
    /// COM_QUERY or COM_STMT_PREPARE with its whole text.
    pub(in crate::proxy) fn statement(&mut self, arriving: &mut Arrived) -> Progress {
        let command = arriving.command;
        let mut supplied = std::mem::take(&mut self.relay.known.supplied);
        let tables = self.shared.tables.now();
        let drawing = self.draw(&tables, arriving, &mut supplied);
        let arrived = *arriving;
        match drawing {
            Ok(Drawing::Done) => {}
            Ok(Drawing::Cut { text_at, at }) => {
                self.relay.cut(arrived, text_at, at);
                return Progress::Done;
            }
            Err(_) if tables.is_retired() => {
                self.relay.known.supplied = supplied;
                return Progress::Needs(Need::Rules { retired: tables });
            }
            Err(unsent) => {
                self.relay.known.supplied = supplied;
                return self.unsent(arrived, unsent);
            }
        }
        let payload = payload_of(self.relay.up.window(), arrived.window_bytes);
        let has_attributes = command == Command::Query && self.relay.known.has_attributes();
        let Ok(text_at) = text_at(&payload, has_attributes) else {
            drop(payload);
            return self.refuse(arrived, &Refusal::MalformedPacket);
        };
        let text = payload.get(text_at..).unwrap_or_default();
        let judged = self.judge(&tables, command, text, &mut supplied);
        let judged = match self.doubted(&tables, (command, text), judged, &mut supplied) {
            // All that was made of rules that are retired is dropped.
            _ if tables.is_retired() => Err(Need::Rules { retired: tables.clone() }.into()),
            judged => judged,
        };
        if let Err(Unsent::Needs(need)) = judged {
            drop(payload);
            self.relay.known.supplied = supplied;
            return Progress::Needs(need);
        }
        // The words of a long text take long to look at; once both have been seen, no text tells
        // more.
        let mentioned = self.relay.known.session.mentioned;
        let mentioned =
            if mentioned.is_ruled() { mentioned } else { mentioned.and(self.mentioned(&tables, text)) };
        let dialect = self.relay.known.session.dialect();
        let locks = matches!(judged, Ok(Verdict::Pass(_))) && begins_with(text, dialect, &["LOCK"]);
        let rehearsed = if judged.is_ok() { self.rehearse(command, text) } else { None };
        drop(payload);
        self.relay.may_have_locked |= locks;
        let session = &mut self.relay.known.session;
        session.mentioned = mentioned;
        if let Some(effects) = rehearsed {
            session.rehearsed_prepared.take(&effects, None);
        }
        match judged {
            Err(unsent) => self.unsent(arrived, unsent),
            Ok(Verdict::Pass(effects)) => {
                let may_change_session = !effects.leave_session();
                let note = Note::statements(Vec::new(), Vec::new(), effects);
                self.pass(arrived, may_change_session, note)
            }
            Ok(Verdict::PassActing(effects)) => {
                let effects = Arc::new(effects);
                self.pass(arrived, false, Note::PrepareActing(effects.clone()));
                self.relay.known.statements.prepare_acting(effects);
                Progress::Done
            }
            Ok(Verdict::Prepare(kept)) => self.prepare(arrived, kept),
            Ok(Verdict::Cut(at)) => {
                self.relay.cut(arrived, text_at, at);
                Progress::Done
            }
            Ok(Verdict::Stage(plan)) => Progress::Stage(Box::new(Task::Text { text_at, plan })),
            Ok(Verdict::Send(packet)) => {
                let packet = WithIds { text_at, ..packet };
                let sets = packet.plan.variables(&packet.ranges);
                let is_quick = arrived.packets == 1 && !packet.inserts.iter().any(InsertReply::is_late);
                if sets.is_none() && is_quick {
                    return self.send_planned(arrived, packet, None);
                }
                Progress::Later(Box::new(Later { sets, packet: Packet::Text(packet), tables }))
            }
        }
    }

    /// COM_STMT_PREPARE of an INSERT: with parameters of ours, or as it came where no rule concerns
    /// it.
    fn prepare(&mut self, arrived: Arrived, kept: Arc<Kept>) -> Progress {
        let note = Note::Prepare(kept.clone());
        match &kept.prepared {
            None => {
                self.pass(arrived, false, note);
            }
            Some(prepared) => {
                let payload = command_payload(Command::StmtPrepare, &prepared.text.text);
                let nr_shift = self.relay.send_instead(&payload, arrived);
                self.relay.owe(Command::StmtPrepare.reply(), false, nr_shift, note);
            }
        }
        self.relay.known.statements.prepare(kept);
        Progress::Done
    }

    /// A statement that our scanner cannot read: the server says what is wrong with it, or it is
    /// refused.
    pub(in crate::proxy) async fn show(&mut self, arrived: Arrived, shown: Shown) -> Going<Progress> {
        let is_to_be = shown.is_inner || arrived.command != Command::Query;
        Ok(match self.ask(Question::Prepare(&shown.text)).await? {
            // EXECUTE, say, cannot be prepared, which tells nothing of it.
            Err(error) if error.code == CANNOT_BE_PREPARED && !is_to_be => {
                self.refuse(arrived, &shown.refusal)
            }
            Err(error) => self.fail(arrived, &error.payload),
            Ok(_) => self.refuse(arrived, &shown.refusal),
        })
    }

    /// What is kept of a text that is being prepared. `None`: the session's state is not known.
    fn source(&self, text: &[u8], (schema, table): (&str, &str)) -> Option<Arc<Source>> {
        let state = self.relay.known.session.state()?;
        let has_room = self.relay.known.statements.has_room(2 * text.len());
        Some(Arc::new(Source {
            text: has_room.then(|| text.to_vec()),
            dialect: state.dialect,
            reads_alike: false,
            database: state.database.clone(),
            settings: state.settings.clone(),
            table: TableName::new(schema, table),
        }))
    }

    /// What becomes of a text by these rules, as far as is known.
    pub(in crate::proxy) fn judge(
        &self,
        tables: &Arc<Tables>,
        command: Command,
        text: &[u8],
        supplied: &mut Supplied,
    ) -> Result<Verdict, Unsent> {
        let session = &self.relay.known.session;
        if let Some(error) = session.locked().filter(|_| tables.has_rules()) {
            if locked::may_insert(command, text, session.multi_statements) {
                return Err(Unsent::Failed(error.to_vec()));
            }
            return Ok(Verdict::Pass(Effects::unseen()));
        }
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let planned = match self.planned(tables, protocol, text, supplied) {
            Ok(planned) => planned,
            Err(_) if self.is_unconcerned(tables, text) => Planned::Untouched(Effects::unseen()),
            Err(refusal) => return Err(refusal.into()),
        };
        match &planned {
            Planned::Rewrite(plan) => {
                if let Some(need) = supplied.outdated(tables, plan.inserts.iter()) {
                    return Err(need.into());
                }
            }
            Planned::Untouched(_) => {}
            // DDL seen while a table is read has it read again.
            Planned::Needs(plan::Need::Table(_)) if supplied.may_look() => {
                supplied.begin_looking(tables, self.relay.outstanding.is_empty());
            }
            Planned::Stale { table, .. } if !supplied.has_read_again => {
                supplied.has_read_again = true;
                return Err(Need::Table { name: table.clone(), again: true }.into());
            }
            Planned::Needs(plan::Need::Table(name)) => {
                return Err(Refusal::NoId(format!("Rowstamp cannot look up table {name}; try again")).into());
            }
            // Whether the text may name a view is asked below.
            _ if tables.misses_views() && supplied.may_look() => return Err(Need::Views.into()),
            _ => {}
        }
        match self.spared(tables, text, planned) {
            Planned::Untouched(effects) => Ok(self.untouched(command, text, effects)),
            Planned::Needs(need) => Err(Need::from(need).into()),
            Planned::Cut(at) => Ok(Verdict::Cut(at)),
            Planned::Away(why) => Err(Refusal::NoId(why).into()),
            Planned::Fails(error) => Err(Unsent::Failed(error)),
            Planned::Refused(refusal) => Err(Refusal::from(refusal).into()),
            Planned::Unreadable(unreadable) | Planned::Stale { unreadable, .. } => {
                Err(Unsent::Unreadable(Shown::new(unreadable, text)))
            }
            Planned::Rewrite(plan) => {
                // The server judges any other text that is being prepared before it is executed.
                let takes_now = protocol == Protocol::Text;
                let reads_warnings = || {
                    let session = &self.relay.known.session;
                    session.sql_prepared.looks_back(text, session.dialect()).reads.warnings
                };
                if let Some(need) = self.needs_set_id(&plan, supplied).filter(|_| takes_now) {
                    return Err(need.into());
                }
                if let Some(need) = self.relay.known.rights.update_is_unknown(&plan, reads_warnings) {
                    return Err(need.into());
                }
                if let Some(next) = supplied.next_ids.as_ref().filter(|_| plan.may_pass()) {
                    return Ok(Self::numbered_by_server(tables, plan, next)?);
                }
                match takes_now.then(|| self.relay.known.rights.objection(&plan, reads_warnings)).flatten() {
                    Some(unsent) => Err(unsent),
                    None if protocol == Protocol::Prepare => self.prepared(text, plan),
                    None if plan.staged().is_some() => Ok(Verdict::Stage(Box::new(plan))),
                    None => self.verified(text, self.fill(tables, plan, supplied)?),
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
        let table = effects.inserts_into.as_ref();
        match table.and_then(|name| self.source(text, (&name.schema, &name.table))) {
            Some(source) => Verdict::Prepare(Arc::new(Kept { source, prepared: None })),
            None => Verdict::Pass(effects),
        }
    }

    /// A text that is being prepared, with parameters of ours.
    fn prepared(&self, text: &[u8], plan: Plan) -> Result<Verdict, Unsent> {
        let prepared = plan.prepare(text).map_err(Refusal::from)?;
        if self.shared.verifier.is_due() {
            self.judge_rewrite(&plan, (text, &prepared.text), Written::Placeholders)?;
        }
        let Some(insert) = plan.inserts.into_iter().next() else { return Ok(Verdict::Pass(plan.effects)) };
        let source = self.source(text, insert.target.named()).ok_or_else(state_unknown)?;
        if insert.stage.is_some() && source.settings.is_none() {
            return Err(Need::State { must_ask: true }.into());
        }
        let prepared = Some(Arc::new(PreparedInsert { insert, text: prepared }));
        Ok(Verdict::Prepare(Arc::new(Kept { source, prepared })))
    }

    fn judge_rewrite(&self, plan: &Plan, texts: (&[u8], &[u8]), written: Written<'_>) -> Result<(), Refusal> {
        let state = self.relay.known.session.state().ok_or_else(state_unknown)?;
        self.shared.verifier.judge(plan, &state.dialect, texts, written)
    }

    /// What is to be sent, unless a second parser reads it otherwise. It gets the very text that
    /// would be sent, so ids are taken by then, and lost where it differs.
    fn verified(&self, text: &[u8], verdict: Verdict) -> Result<Verdict, Unsent> {
        if let Verdict::Send(WithIds { plan, ranges, .. }) = &verdict
            && self.shared.verifier.is_due()
            // What cannot be spliced is refused where it is sent.
            && let Some(after) = plan.splice(text, ranges)
        {
            self.judge_rewrite(plan, (text, &after), Written::Ids(ranges))?;
        }
        Ok(verdict)
    }

    fn planned(
        &self,
        tables: &Tables,
        protocol: Protocol,
        text: &[u8],
        supplied: &Supplied,
    ) -> Result<Planned, Refusal> {
        let session = &self.relay.known.session;
        let Some(state) = session.state() else {
            return if tables.has_rules() {
                Err(state_unknown())
            } else {
                Ok(Planned::Untouched(Effects::unseen()))
            };
        };
        let lookup = |schema: &str, table: &str| match supplied.lookup(tables, schema, table) {
            // A temporary table matters only where the name is ruled.
            found @ (Lookup::NotRuled | Lookup::Unknown) => found,
            _ if session.temporary.masked(schema, table) == Masked::Unsure => Lookup::PerhapsHidden,
            found => found,
        };
        let hidden = |schema: &str, table: &str| session.temporary.masked(schema, table) == Masked::Yes;
        let plan_view = plan::PlanContext {
            dialect: &state.dialect,
            multi_statements: session.multi_statements && protocol == Protocol::Text,
            default_schema: state.database.as_deref(),
            insert_id_is_set: session.set_id != SetId::Unset,
            cannot_update: self.relay.known.rights.cannot_update(),
            any_rules: tables.has_rules(),
            tables: &lookup,
            id_names: tables,
            hidden: &hidden,
            session: &session.sql_prepared,
        };
        Ok(planner::plan(text, &plan_view, protocol))
    }

    /// A statement longer than `limits.statement_bytes` passes where its beginning shows that no
    /// rule concerns it.
    pub(in crate::proxy) fn decide_too_long(&mut self, command: Command, header: Header) -> Option<Need> {
        let window = self.relay.up.window();
        let payload = window.get(HEADER_BYTES..header.packet_bytes().min(window.len())).unwrap_or_default();
        let has_attributes = command == Command::Query && self.relay.known.has_attributes();
        let text = text_at(payload, has_attributes).ok().and_then(|at| payload.get(at..)).unwrap_or_default();
        let protocol = if command == Command::Query { Protocol::Text } else { Protocol::Prepare };
        let begins_insert = self
            .relay
            .known
            .session
            .state()
            .is_some_and(|state| planner::begins_insert(text, &state.dialect));
        let tables = self.shared.tables.now();
        let planned = if begins_insert {
            self.planned(&tables, protocol, text, &self.relay.known.supplied).ok()
        } else {
            None
        };
        match planned {
            Some(Planned::Needs(need @ plan::Need::Table(_))) if self.relay.known.supplied.may_look() => {
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
    fn fill(&self, tables: &Arc<Tables>, plan: Plan, supplied: &mut Supplied) -> Result<Verdict, Unsent> {
        // What SQL has prepared has places for ids of ours in it.
        let may_go_without = |insert: &InsertPlan| {
            insert.target.may_go_without() && !(insert.is_executed && insert.has_edits())
        };
        if supplied.without_ids.is_some() && plan.inserts.iter().all(may_go_without) {
            let natively = plan.inserts.iter().map(|insert| insert.target.clone()).collect();
            return Ok(Verdict::Pass(Effects { natively, ..plan.effects }));
        }
        let mut explicit = Vec::new();
        for insert in &plan.inserts {
            let written = (insert.ids, &*insert.explicit);
            explicit.extend(self.expect(tables, (insert, &insert.target), written, !insert.is_executed)?);
        }
        let mut ranges = Vec::with_capacity(plan.inserts.len());
        for insert in plan.inserts.iter().filter(|insert| insert.ids > 0) {
            match self.take_ids(tables, (insert, &insert.target), insert.ids, supplied) {
                Ok(range) => ranges.push(range),
                Err(unsent) => {
                    // Those that are at hand stay so, and none is issued that the client wrote.
                    let taken = plan.inserts.iter().filter(|insert| insert.ids > 0).zip(ranges);
                    taken.for_each(|(insert, range)| supplied.put(tables, insert.target.clone(), range));
                    supplied.keep_expecting(explicit);
                    return Err(unsent);
                }
            }
        }
        let facts = (self.relay.known.found_rows(), self.relay.known.session.set_id);
        let mut taken = ranges.iter();
        let mut inserts = Vec::with_capacity(plan.inserts.len());
        for insert in &plan.inserts {
            let ids = if insert.ids > 0 { taken.next().map(Ids::from) } else { None };
            // An update reports the id by what was added to its list.
            let is_told = insert.style == Style::OdkuLiteral && !insert.is_named;
            if ids.is_some() || is_told || insert.tells_written(insert.last) {
                inserts.push(InsertReply::new((insert, insert.last), ids, facts, tables.clone()));
            }
        }
        if inserts.is_empty() && explicit.is_empty() && !plan.has_edits() {
            return Ok(Verdict::Pass(plan.effects));
        }
        Ok(Verdict::Send(WithIds { plan, ranges, inserts, explicit, text_at: 0 }))
    }

    /// Ids for a statement: those that were waited for, or of those at hand.
    pub(in crate::proxy) fn take(
        &self,
        tables: &Arc<Tables>,
        target: &Arc<Target>,
        ids: u32,
        supplied: &mut Supplied,
    ) -> Result<IdBlock, Unsent> {
        let n = NonZeroU64::new(ids.into()).ok_or_else(|| Refusal::NoId("a statement without ids".into()))?;
        if let Some(why) = &supplied.without_ids {
            return Err(Unsent::WithoutIds(why.clone()));
        }
        let Some(range) = supplied.take(tables, target, n).or_else(|| tables.take_at_once(target, n)) else {
            return Err(Need::Ids { tables: tables.clone(), target: target.clone(), n }.into());
        };
        // Only after they were taken, however long ago that was.
        if !tables.is_guarded(target) {
            supplied.put(tables, target.clone(), range);
            return Err(Need::Guard { tables: tables.clone(), target: target.clone() }.into());
        }
        self.relay.known.here.count(Count::Ids, n.get());
        target.filled.note(n.get());
        Ok(within(target, range)?)
    }

    /// Asked on the control connection, which sees the rows of this session's open transaction at
    /// READ UNCOMMITTED.
    pub(in crate::proxy) async fn smallest_id(&mut self, question: &SmallestId) -> Going<Smallest> {
        let target = &question.target;
        let Some(schema) = self.shared.tables.schema() else { return Ok(Smallest::Unknown) };
        // Of the table, also where the statement names a view.
        let Some(column) = target.id_shape() else { return Ok(Smallest::Unknown) };
        let column = ColumnShape { name: target.rule.column.clone(), ..column.clone() };
        let table = (target.rule.schema.as_str(), target.table.as_str());
        let Ids { first, last, spacing } = question.ids;
        let query = smallest_query(table, &column, (first, last, &spacing));
        let error = match schema.smallest_id(&query).await {
            Ok(smallest) => return Ok(smallest.map_or(Smallest::None, Smallest::Id)),
            Err(error) => error,
        };
        // Perhaps this session itself has locked the table: it has stored rows in it.
        let mut smallest = Smallest::Unknown;
        if error.waits_for_lock() && !column.masked {
            smallest = self.smallest_in_locked(target, &query).await?;
        }
        if smallest == Smallest::Unknown {
            tracing::warn!(%error, "cannot read the insert id of a statement with IGNORE or ON DUPLICATE KEY UPDATE");
        }
        Ok(smallest)
    }
}
