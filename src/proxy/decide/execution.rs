//! Executions of prepared INSERTs into ruled tables. Which parameters take an id is decided at each execution.

use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::reader::Malformed;
use crate::proxy::decide::Basis;
use crate::proxy::decide::natively::forwarded;
use crate::proxy::decide::params::{Params, meaning, too_many_sets};
use crate::proxy::decide::rehearsal::rehearse_execution;
use crate::proxy::decide::set_id::{expect, take_ids};
use crate::proxy::decide::text::judge;
use crate::proxy::decide::verdict::{Verdict, malformed, refused, state_unknown};
use crate::proxy::known::Known;
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::note::Note;
use crate::proxy::known::statements::Kept;
use crate::proxy::known::temporary::Hidden;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::{LastId, Lookup, UpdatedIds};
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::{bulk, execution};
use crate::table_name::TableName;

/// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE of an INSERT that is kept.
pub(crate) fn decide(known: &mut Known, by: Basis<'_>, payload: &[u8]) -> Result<Verdict, Unsent> {
    let passes = |note| Ok(Verdict::Pass { note, may_change_session: true });
    if is_hidden(known, by)? {
        let effects = by.statement.and_then(|id| known.statements.effects(id));
        return passes(effects.map_or(Note::Nothing, Note::effects));
    }
    if let Some(effects) = forwarded(known, by)? {
        return passes(Note::effects(effects));
    }
    let filled = with_params(known, by, payload);
    // Looked at after ids were taken: what was made of rules that are retired by then is dropped.
    if by.tables.is_retired() {
        return Err(Need::Rules { retired: by.tables.clone() }.into());
    }
    filled
}

/// True if an execution passes because its statement was prepared for a temporary table, which still hides the table
/// with the rule.
fn is_hidden(known: &Known, by: Basis<'_>) -> Result<bool, Unsent> {
    let Some(id) = by.statement else { return Ok(false) };
    let session = &known.session;
    let (name, was_hidden) = match known.statements.get(id) {
        Some(statement) => {
            let (kept, name) = (&statement.kept, &statement.kept.source.table);
            let hidden = session.temporary.hidden(&name.schema, &name.table);
            // If the table has got a rule since, the statement is planned again, by what hides the name then.
            let lookup =
                || by.tables.lookup_since(&name.schema, &name.table, by.tables.ddl_seen(), (by.clock)());
            let has_new_rule = || !kept.is_current(&lookup());
            let must_ask = kept.prepared.is_some() || hidden == Hidden::Unsure && has_new_rule();
            if hidden == Hidden::No || !must_ask {
                return Ok(false);
            }
            (name.clone(), false)
        }
        None => match known.statements.effects(id).and_then(|e| e.hidden_insert.clone()) {
            Some(name) => (*name, true),
            None => return Ok(false),
        },
    };
    if session.is_untouched() {
        return Err(Need::State { must_ask: true }.into());
    }
    match (session.temporary.hidden(&name.schema, &name.table), was_hidden) {
        (Hidden::Unsure, _) => Err(Need::Temporary(name).into()),
        (Hidden::No, false) => Ok(false),
        (Hidden::Yes, true) => Ok(true),
        (Hidden::Yes, false) | (Hidden::No, true) => Err(refused(format_args!(
            "{name}: a temporary table of this name was created or dropped since the statement was prepared; prepare the \
             statement again"
        ))
        .into()),
    }
}

/// The execution with its ids.
fn with_params(known: &mut Known, by: Basis<'_>, payload: &[u8]) -> Result<Verdict, Unsent> {
    let as_it_came = || Verdict::Pass { note: Note::Nothing, may_change_session: false };
    let is_bulk = by.command == Command::StmtBulkExecute;
    if is_bulk && !known.capabilities.contains(Capabilities::MARIADB_STMT_BULK) {
        return Err(Refusal::UnsupportedPrepared.into());
    }
    let id = by.statement.ok_or_else(|| {
        if is_bulk { Refusal::WrongArguments } else { malformed(Malformed::Truncated("statement id")) }
    })?;
    let kept = current(known, by, id)?;
    if kept.is_staged() {
        return match (known.session.set_id, &kept.prepared) {
            // MariaDB answers so: it takes rows of values only.
            _ if is_bulk && kept.is_of_query() => Err(Refusal::UnsupportedPrepared.into()),
            (SetId::MayBeSet, Some(prepared)) => {
                Err(Need::SetId { taken_for: Some(prepared.insert.target.clone()) }.into())
            }
            _ if known.session.state().is_some_and(|state| state.settings.is_none()) => {
                Err(Need::State { must_ask: true }.into())
            }
            _ => Ok(Verdict::StageExecution(kept)),
        };
    }
    let with_attributes = known.has_attributes();
    let statement = known.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
    if is_bulk && kept.prepared.is_some() && !statement.long_data.is_empty() {
        return Err(Refusal::WrongArguments.into());
    }
    let expected = statement.expected(with_attributes);
    let params = Params::parse(by.command, payload, expected);
    if let Ok(Some(types)) = params.as_ref().map(|params| params.new_types(expected)) {
        statement.types = Some(types);
    }
    if let Some(prepared) = &kept.prepared {
        let params = params?;
        if known.session.presumed_dialect().is_mariadb() {
            params.refuse_unread(&prepared.insert.target)?;
        }
        return fill(known, by, prepared, params);
    }
    // The server says what is wrong with the parameters.
    let Ok(params) = params else { return Ok(as_it_came()) };
    rehearse_execution(known, by, &kept, &params);
    // The types that the client left out went to the statement before it.
    let is_another = known.statements.translated(id).is_some();
    Ok(if is_another { Verdict::SendExecution(params.build(), Note::Nothing) } else { as_it_came() })
}

/// The statement that is executed, under these rules and the present columns of its table.
fn current(known: &mut Known, by: Basis<'_>, id: u32) -> Result<Arc<Kept>, Unsent> {
    let statement = known.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
    let (server_id, before) = (statement.server_id, statement.kept.clone());
    let kept = planned_again(known, by, before.clone())?;
    if !Arc::ptr_eq(&kept, &before) && kept.server_text() != before.server_text() {
        server_id.ok_or(Refusal::UnknownStatement(id))?;
        return Err(Need::Prepared { id, kept }.into());
    }
    if kept.prepared.is_some() && known.session.state().is_none() {
        return Err(state_unknown().into());
    }
    let statement = known.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
    statement.kept = kept.clone();
    Ok(kept)
}

/// The statement under these rules and the present columns of its table. Where the server needs
/// another text, that is prepared under the client's id.
fn planned_again(known: &mut Known, by: Basis<'_>, kept: Arc<Kept>) -> Result<Arc<Kept>, Unsent> {
    let tables = by.tables;
    let source = &kept.source;
    let name = &source.table;
    let not_now = || Unsent::from(Refusal::NoId(format!("Rowstamp cannot look up table {name}; try again")));
    match known.supplied.lookup(tables, (&name.schema, &name.table), (by.clock)()) {
        lookup if kept.is_current(&lookup) => {
            let insert = kept.prepared.as_ref().map(|prepared| &prepared.insert);
            return match known.supplied.outdated(tables, insert.into_iter(), by.clock) {
                Some(need) => Err(need.into()),
                None => Ok(kept),
            };
        }
        // The server's word.
        Lookup::Missing => return Ok(kept),
        Lookup::Unknown if known.supplied.may_ask() => {
            return Err(Need::Table { name: name.clone(), again: false }.into());
        }
        Lookup::Unknown | Lookup::PerhapsHidden => return Err(not_now()),
        Lookup::Away(why) => return Err(Refusal::NoId(why).into()),
        Lookup::Refused(why) | Lookup::ServerFirst(why) => return Err(refused(why).into()),
        Lookup::Ruled(_) | Lookup::NotRuled => {}
    }
    // A rule has come for it, in a session that was asked nothing so far.
    if !known.session.is_settled() {
        return Err(Need::State { must_ask: true }.into());
    }
    let is_as_then = known.session.state().is_some_and(|now| source.reads_as_in(now));
    let Some(text) = source.text.as_deref().filter(|_| is_as_then) else {
        return Err(cannot_prepare_again(name, is_as_then).into());
    };
    let prepared = match judge(known, Basis { command: Command::StmtPrepare, ..by }, text) {
        Ok(Verdict::Prepare(kept)) => kept.prepared.clone(),
        Ok(Verdict::Pass { .. } | Verdict::PassActing(_)) => None,
        // None of a statement that is prepared in a session whose state is known.
        Ok(
            Verdict::Forward { .. }
            | Verdict::Send(_)
            | Verdict::SendExecution(..)
            | Verdict::Stage(_)
            | Verdict::StageExecution(_)
            | Verdict::Cut(_),
        )
        | Err(Unsent::Failed(_)) => {
            return Err(not_now());
        }
        Err(unsent) => return Err(unsent),
    };
    Ok(Arc::new(Kept { source: source.clone(), prepared }))
}

fn fill(
    known: &mut Known,
    by: Basis<'_>,
    prepared: &PreparedInsert,
    params: Params<'_>,
) -> Result<Verdict, Unsent> {
    let meaning = meaning(known, prepared)?;
    if let Some(why) = &known.supplied.without_ids {
        return Err(Unsent::WithoutIds(why.clone()));
    }
    let no_id = |why: &str| Refusal::NoId(prepared.insert.target.at(why));
    let (filled, note) = match params {
        Params::One(execute) => {
            let draft = execution::ExecutionDraft::new(prepared, &execute, meaning)?;
            let (ids, last) = (draft.ids, draft.last);
            let (block, note) = take_for(known, by, prepared, ids, &draft.explicit, last, 1)?;
            match block {
                Some(block) => (draft.write(execute, &block), note),
                None => (Some(execute.build()), note),
            }
        }
        Params::Bulk(bulk) => {
            let draft = bulk::BulkDraft::new(prepared, &bulk, meaning)?;
            if let Some(why) = too_many_sets(&prepared.insert, draft.sets) {
                return Err(refused(why).into());
            }
            let kinds = draft.kinds()?;
            let ids = draft.ids().ok_or_else(|| no_id("too many rows; send fewer at a time"))?;
            let (sets, last) = (draft.sets, draft.last);
            let (block, note) = take_for(known, by, prepared, ids, &draft.explicit, last, sets)?;
            (draft.write(&kinds, block.as_ref()), note)
        }
    };
    let payload = filled.ok_or_else(|| no_id("the ids do not fit; please report this fault of Rowstamp"))?;
    Ok(Verdict::SendExecution(payload, note))
}

/// Takes `ids` ids for an execution with `sets` sets of parameters, and notes the facts that its answer needs.
/// `explicit`: the ids that it brings itself.
fn take_for(
    known: &mut Known,
    by: Basis<'_>,
    prepared: &PreparedInsert,
    ids: u32,
    explicit: &[i128],
    last: LastId,
    sets: u32,
) -> Result<(Option<IdBlock>, Note), Unsent> {
    let insert = &prepared.insert;
    if let Some(why) = insert.too_many_rows(insert.rows.saturating_mul(sets), ids) {
        return Err(refused(insert.target.at(why)).into());
    }
    let target = &insert.target;
    if ids > 0 && known.session.set_id == SetId::MayBeSet {
        return Err(Need::SetId { taken_for: Some(target.clone()) }.into());
    }
    let explicit = expect(known, by.tables, (insert, target), (ids, explicit), false)?;
    let block = match ids {
        0 => None,
        ids => match take_ids(known, by, (insert, target), ids) {
            Ok(block) => Some(block),
            Err(unsent) => {
                known.supplied.keep_expecting(explicit);
                return Err(unsent);
            }
        },
    };
    // An update of an explicit row reports the id by what was added to its list.
    let tells = block.is_some() || insert.style == Style::OdkuLiteral || insert.tells_written(last);
    let reply = tells.then(|| {
        let facts = (known.found_rows(), known.session.set_id);
        InsertReply::new((insert, last), block.as_ref().map(Ids::from), facts, by.tables.clone())
            .in_bulk(sets)
    });
    let (inserts, explicit) = (reply.into_iter().collect(), explicit.into_iter().collect());
    let effects = Effects { moves_ids: insert.updated_ids == UpdatedIds::Move, ..Effects::default() };
    Ok((block, Note::statements(inserts, explicit, effects)))
}

fn cannot_prepare_again(name: &TableName, is_as_then: bool) -> Refusal {
    let why = if is_as_then {
        "Rowstamp has not kept the statement's text"
    } else {
        "the default database, sql_mode or character set too"
    };
    refused(format_args!(
        "{name}: the table's rule or columns have changed since the statement was prepared, and {why}; prepare the statement again"
    ))
}
