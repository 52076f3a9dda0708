//! Statements that come as texts: planned, and given their ids.

use std::sync::Arc;

use memchr::memchr;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::decide::Basis;
use crate::proxy::decide::natively::doubted;
use crate::proxy::decide::rehearsal::{rehearse, rehearse_too_long};
use crate::proxy::decide::set_id::{expect, needs_set_id, numbered_by_server, take_ids};
use crate::proxy::decide::unconcerned::{is_unconcerned, mentioned, spared};
use crate::proxy::decide::verdict::{FilledPacket, Task, Verdict, state_unknown};
use crate::proxy::known::Known;
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Shown, Unsent};
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::known::temporary::Hidden;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::{self, InsertPlan, Lookup, Plan, Planned, Protocol};
use crate::rewrite::planner;
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::verify::Written;
use crate::sql::look;
use crate::sql::look::begins_with;
use crate::table_name::TableName;

/// COM_QUERY or COM_STMT_PREPARE with its whole text.
pub(crate) fn decide(known: &mut Known, by: Basis<'_>, text: &[u8]) -> Result<Verdict, Unsent> {
    let judged = judge(known, by, text);
    let judged = doubted(known, by, text, judged);
    // Looked at after it was judged: what was made of rules that are retired by then is dropped.
    if by.tables.is_retired() {
        return Err(Need::Rules { retired: by.tables.clone() }.into());
    }
    // A text that lacks something is decided again.
    if !matches!(judged, Err(Unsent::Needs(_))) {
        take_note(known, by, text, &judged);
    }
    judged
}

/// Notes what the session's later statements may depend on.
fn take_note(known: &mut Known, by: Basis<'_>, text: &[u8], judged: &Result<Verdict, Unsent>) {
    // The search of a long text takes long. Once a table and a schema have been mentioned, no text adds anything.
    if !known.session.mentioned.is_ruled() {
        known.session.mentioned = known.session.mentioned.and(mentioned(known, by.tables, text));
    }
    let passes = matches!(judged, Ok(Verdict::Pass { .. } | Verdict::Forward { .. }));
    known.may_have_locked |= passes && begins_with(text, known.session.dialect(), &["LOCK"]);
    if judged.is_ok()
        && let Some(effects) = rehearse(known, by, text)
    {
        known.session.rehearsed_prepared.take(&effects, None);
    }
}

/// The verdict on a text by these rules, as far as is known.
pub(crate) fn judge(known: &mut Known, by: Basis<'_>, text: &[u8]) -> Result<Verdict, Unsent> {
    let (tables, session) = (by.tables, &known.session);
    if let Some(error) = session.locked().filter(|_| tables.has_rules()) {
        if may_insert_while_locked(by.command, text, session.multi_statements) {
            return Err(Unsent::Failed(error.to_vec()));
        }
        return Ok(Verdict::pass(Effects::unseen()));
    }
    let planned = match planned(known, by, text) {
        Ok(planned) => planned,
        Err(_) if is_unconcerned(known, by, text) => Planned::Untouched(Effects::unseen()),
        Err(refusal) => return Err(refusal.into()),
    };
    match &planned {
        Planned::Rewrite(plan) => {
            if let Some(need) = known.supplied.outdated(tables, plan.inserts.iter(), by.clock) {
                return Err(need.into());
            }
        }
        Planned::Untouched(_) => {}
        Planned::Needs(plan::PlanNeed::Table(_)) if known.supplied.may_ask() => {}
        Planned::Stale { table, .. } if known.supplied.may_read_again(table) => {
            return Err(Need::Table { name: table.clone(), again: true }.into());
        }
        Planned::Needs(plan::PlanNeed::Table(name)) => {
            return Err(Refusal::NoId(format!("Rowstamp cannot look up table {name}; try again")).into());
        }
        // Only the code below checks if the text may name a view.
        _ if tables.misses_views() && known.supplied.may_ask() => return Err(Need::Views.into()),
        _ => {}
    }
    match spared(known, by, text, planned) {
        Planned::Untouched(effects) => Ok(untouched(known, by.command, text, effects)),
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
            let takes_now = by.command == Command::Query;
            if let Some(need) = needs_set_id(known, &plan).filter(|_| takes_now) {
                return Err(need.into());
            }
            let Known { session, rights, .. } = &*known;
            let reads_warnings = || session.sql_prepared.looks_back(text, session.dialect()).reads.warnings;
            if let Some(need) = rights.update_is_unknown(&plan, reads_warnings) {
                return Err(need.into());
            }
            if let Some(next) = known.supplied.next_ids.as_ref().filter(|_| plan.may_pass()) {
                return Ok(numbered_by_server(tables, plan, next)?);
            }
            match takes_now.then(|| rights.objection(&plan, reads_warnings)).flatten() {
                Some(unsent) => Err(unsent),
                None if !takes_now => prepared(known, by, text, plan),
                None if plan.staged().is_some() => Ok(Verdict::Stage(Box::new(Task::Text(Box::new(plan))))),
                None => {
                    let verdict = fill(known, by, plan)?;
                    verified(known, by, text, verdict)
                }
            }
        }
    }
}

/// The verdict on a text that no rule changes. If the text is being prepared, the verdict has what is kept of it.
fn untouched(known: &Known, command: Command, text: &[u8], effects: Effects) -> Verdict {
    let is_prepare = command == Command::StmtPrepare;
    if is_prepare && (!effects.leave_session() || effects.hidden_insert.is_some()) {
        return Verdict::PassActing(effects);
    }
    let table = effects.inserts_into.as_ref();
    match table.and_then(|name| source(known, text, (&name.schema, &name.table))) {
        Some(source) => Verdict::Prepare(Arc::new(Kept { source, prepared: None })),
        None => Verdict::pass(effects),
    }
}

/// A text that is being prepared, with parameters of ours.
fn prepared(known: &Known, by: Basis<'_>, text: &[u8], plan: Plan) -> Result<Verdict, Unsent> {
    let prepared = plan.prepare(text).map_err(Refusal::from)?;
    if by.verifier.is_due() {
        judge_rewrite(known, by, &plan, (text, &prepared.text), Written::Placeholders)?;
    }
    let Some(insert) = plan.inserts.into_iter().next() else { return Ok(Verdict::pass(plan.effects)) };
    let source = source(known, text, insert.target.named()).ok_or_else(state_unknown)?;
    if insert.stage.is_some() && source.settings.is_none() {
        return Err(Need::State { must_ask: true }.into());
    }
    let prepared = Some(Arc::new(PreparedInsert { insert, text: prepared }));
    Ok(Verdict::Prepare(Arc::new(Kept { source, prepared })))
}

/// The source of a text that is being prepared, to be kept. `None`: the session's state is not known.
fn source(known: &Known, text: &[u8], (schema, table): (&str, &str)) -> Option<Arc<Source>> {
    let state = known.session.state()?;
    let has_room = known.statements.has_room(2 * text.len());
    Some(Arc::new(Source {
        text: has_room.then(|| text.to_vec()),
        dialect: state.dialect,
        reads_alike: false,
        database: state.database.clone(),
        settings: state.settings.clone(),
        table: TableName::new(schema, table),
    }))
}

fn judge_rewrite(
    known: &Known,
    by: Basis<'_>,
    plan: &Plan,
    texts: (&[u8], &[u8]),
    written: Written<'_>,
) -> Result<(), Refusal> {
    let state = known.session.state().ok_or_else(state_unknown)?;
    by.verifier.judge(plan, &state.dialect, texts, written)
}

/// The verdict, unless a second parser reads the text that is to be sent otherwise. The parser gets the very text
/// that would be sent, so ids are taken by then, and lost where it differs.
fn verified(known: &Known, by: Basis<'_>, text: &[u8], verdict: Verdict) -> Result<Verdict, Unsent> {
    if let Verdict::Send(FilledPacket { plan, blocks, .. }) = &verdict
        && by.verifier.is_due()
        // A text that cannot be spliced is refused where it is sent.
        && let Some(after) = plan.splice(text, blocks)
    {
        judge_rewrite(known, by, plan, (text, &after), Written::Ids(blocks))?;
    }
    Ok(verdict)
}

fn planned(known: &Known, by: Basis<'_>, text: &[u8]) -> Result<Planned, Refusal> {
    let protocol = if by.command == Command::Query { Protocol::Text } else { Protocol::Prepare };
    let (tables, session) = (&**by.tables, &known.session);
    let Some(state) = session.state() else {
        return if tables.has_rules() {
            Err(state_unknown())
        } else {
            Ok(Planned::Untouched(Effects::unseen()))
        };
    };
    let lookup =
        |schema: &str, table: &str| match known.supplied.lookup(tables, (schema, table), (by.clock)()) {
            // A temporary table matters only where the name is ruled.
            found @ (Lookup::NotRuled | Lookup::Unknown) => found,
            _ if session.temporary.hidden(schema, table) == Hidden::Unsure => Lookup::PerhapsHidden,
            found => found,
        };
    let hidden = |schema: &str, table: &str| session.temporary.hidden(schema, table) == Hidden::Yes;
    let plan_view = plan::PlanContext {
        dialect: &state.dialect,
        multi_statements: session.multi_statements && protocol == Protocol::Text,
        default_schema: state.database.as_deref(),
        insert_id_is_set: session.set_id != SetId::Unset,
        cannot_update: known.rights.cannot_update(),
        any_rules: tables.has_rules(),
        tables: &lookup,
        id_names: tables,
        hidden: &hidden,
        session: &session.sql_prepared,
    };
    Ok(planner::plan(text, &plan_view, protocol))
}

/// Judges a too long statement by its beginning, and rehearses one that passes. True if it passes: no rule concerns it.
pub(crate) fn too_long(known: &mut Known, by: Basis<'_>, beginning: &[u8]) -> Result<bool, Need> {
    let begins_insert =
        known.session.state().is_some_and(|state| planner::begins_insert(beginning, &state.dialect));
    let planned = if begins_insert { planned(known, by, beginning).ok() } else { None };
    match planned {
        Some(Planned::Needs(need @ plan::PlanNeed::Table(_))) if known.supplied.may_ask() => Err(need.into()),
        Some(Planned::Untouched(_)) => {
            rehearse_too_long(known, by, beginning);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Takes the ids that a text needs.
fn fill(known: &mut Known, by: Basis<'_>, plan: Plan) -> Result<Verdict, Unsent> {
    let tables = by.tables;
    // A statement that SQL has prepared has places for ids of ours in it.
    let may_go_without =
        |insert: &InsertPlan| insert.target.may_go_without() && !(insert.is_executed && insert.has_edits());
    if known.supplied.without_ids.is_some() && plan.inserts.iter().all(may_go_without) {
        let natively = plan.inserts.iter().map(|insert| insert.target.clone()).collect();
        return Ok(Verdict::pass(Effects { natively, ..plan.effects }));
    }
    let mut explicit = Vec::new();
    for insert in &plan.inserts {
        let written = (insert.ids, &*insert.explicit);
        explicit.extend(expect(known, tables, (insert, &insert.target), written, !insert.is_executed)?);
    }
    let mut blocks = Vec::with_capacity(plan.inserts.len());
    for insert in plan.inserts.iter().filter(|insert| insert.ids > 0) {
        match take_ids(known, by, (insert, &insert.target), insert.ids) {
            Ok(block) => blocks.push(block),
            Err(unsent) => {
                // The ids that are at hand stay so, and none is issued that the client wrote.
                let taken = plan.inserts.iter().filter(|insert| insert.ids > 0).zip(blocks);
                taken.for_each(|(insert, block)| known.supplied.put(tables, insert.target.clone(), block));
                known.supplied.keep_expecting(explicit);
                return Err(unsent);
            }
        }
    }
    let facts = (known.found_rows(), known.session.set_id);
    let mut taken = blocks.iter();
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
        return Ok(Verdict::pass(plan.effects));
    }
    Ok(Verdict::Send(FilledPacket { plan, blocks, inserts, explicit }))
}

/// True if the server may run an INSERT of this text.
///
/// Statements of a user whose password has expired. The server answers 1820 to all but its change,
/// also where the session's state is asked for, so no text can be read for certain. Nor need it be:
/// a text that the server refuses inserts nothing.
///
/// Measured: MariaDB 10.11 refuses COM_STMT_PREPARE and every packet of several statements. MySQL
/// 9.7 prepares any text, and runs what stands after the ALTER USER of the same packet. Those two
/// may insert, so there a text that names an INSERT gets the server's error from here.
fn may_insert_while_locked(command: Command, text: &[u8], multi_statements: bool) -> bool {
    let may_run = command == Command::StmtPrepare || multi_statements && memchr(b';', text).is_some();
    may_run && look::may_insert(text)
}
