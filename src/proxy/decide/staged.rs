//! Statements that go by way of a stage: an INSERT ... SELECT, a LOAD, values that only the server can work out.
//! `serve/stage` takes their steps.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::decide::Basis;
use crate::proxy::decide::params::{Params, meaning, not_staged_in_bulk};
use crate::proxy::decide::verdict::{Around, Task, malformed, refused, state_unknown};
use crate::proxy::known::Known;
use crate::proxy::known::session_state::State;
use crate::proxy::known::statements::Kept;
use crate::rewrite::plan::stage::STAGE;
use crate::rewrite::plan::target::Target;
use crate::sql::name::quoted;

/// The statements that set the session as it was when `kept` was prepared, and back. `None`: it is as it was then.
fn around(kept: &Kept, now: &State) -> Result<Option<Around>, Refusal> {
    let source = &kept.source;
    let is = now.settings.as_deref().ok_or_else(state_unknown)?;
    // A rule came after it was prepared: they are not known, and the collation is taken to be the same.
    let then = source.settings.as_deref().or(source.reads_as_in(now).then_some(is));
    let insert = &kept.prepared.as_ref().ok_or_else(lost)?.insert;
    let has_changed = || has_changed(&insert.target);
    let then = then.ok_or_else(has_changed)?;
    let (set, unset) = (then.in_place_of(is, &is.results), is.in_place_of(then, &is.results));
    if source.database == now.database && set.is_none() {
        return Ok(None);
    }
    // The file is read while it runs, as the session is then.
    if insert.stage.as_ref().is_some_and(|stage| stage.is_load()) {
        return Err(has_changed());
    }
    let written = |text: String| now.written(&text).ok_or_else(has_changed);
    let go_to = |name: &Option<String>| {
        let name = name.as_ref().filter(|_| source.database != now.database);
        name.map(|name| written(format!("USE {}", quoted(name)))).transpose()
    };
    let (there, back) = (go_to(&source.database)?, go_to(&now.database)?);
    if there.is_some() != back.is_some() {
        return Err(has_changed());
    }
    let drop = written(format!("DROP TEMPORARY TABLE {}.{STAGE}", quoted(insert.target.named().0)))?;
    // Names of databases are in the present character set.
    let before = there.into_iter().chain(set.map(Into::into)).collect();
    let after = unset.map(Into::into).into_iter().chain(back.clone()).collect();
    Ok(Some(Around { before, after, back, drop }))
}

/// An execution of a prepared INSERT that goes by way of a stage.
pub(crate) fn execution(
    known: &mut Known,
    by: Basis<'_>,
    kept: Arc<Kept>,
    payload: &[u8],
) -> Result<Task, Refusal> {
    let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
    let target = &prepared.insert.target;
    meaning(known, prepared)?;
    let now = known.session.state().ok_or_else(state_unknown)?;
    let around = around(&kept, now)?;
    let is_mariadb = now.dialect.is_mariadb();
    let with_attributes = known.has_attributes();
    let statement = by.statement.and_then(|id| known.statements.get_mut(id)).ok_or_else(lost)?;
    let expected = statement.expected(with_attributes);
    let is_bulk = by.command == Command::StmtBulkExecute;
    if is_bulk && !statement.long_data.is_empty() {
        return Err(Refusal::WrongArguments);
    }
    let params = Params::parse(by.command, payload, expected)?;
    if let Params::Bulk(bulk) = &params {
        not_staged_in_bulk(&prepared.insert, bulk)
            .map_err(malformed)?
            .map_or(Ok(()), |why| Err(refused(why)))?;
    }
    if is_mariadb {
        params.refuse_unread(target)?;
    }
    let sent = params.new_types(expected);
    let types = statement.types.clone();
    if sent.is_some() {
        statement.types = sent;
    }
    let long_data = statement.long_values.take().ok_or_else(|| {
        refused(target.at(
            "parameters were sent ahead in a piece of 16 MB, or of more than limits.statement_bytes in all; send smaller values",
        ))
    })?;
    statement.forget_long_data();
    Ok(Task::Execute { kept, types, long_data, is_bulk, around })
}

/// A prepared statement cannot run as it was meant.
pub(crate) fn has_changed(target: &Target) -> Refusal {
    refused(target.at(
        "the default database, sql_mode, character set or collation has changed since the statement was prepared; prepare the \
         statement again",
    ))
}

/// A fault of ours: the plan of a statement on its way is not there.
pub(crate) fn lost() -> Refusal {
    Refusal::NoId("a statement lost its plan".into())
}
