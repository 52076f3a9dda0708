//! Statements into ruled tables that go to the server as they came, which numbers their rows by its
//! AUTO_INCREMENT: what cannot be rewritten, where `rewrite.on_doubt` is "forward", and what there
//! are no ids for, where the rule's `unavailable` is "native". The generator goes on above the
//! table's ids after them.

use std::sync::Arc;

use crate::mysql::error::Refusal;
use crate::proxy::decide::Basis;
use crate::proxy::decide::params::{Params, meaning};
use crate::proxy::decide::verdict::{Verdict, refused};
use crate::proxy::known::Known;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::note::Note;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;
use crate::rewrite::{bulk, execution};
use crate::sql::look::has_whole_word;
use crate::sql::name::each_name;
use crate::table_name::TableName;

/// Words of statements that run others, which the text does not show.
const RUNS_OTHERS: [&[u8]; 3] = [b"call", b"prepare", b"execute"];

/// The verdict on a text, after `rewrite.on_doubt`. If the text is refused, the setting is "forward" and its tables
/// keep their AUTO_INCREMENT, the text goes to the server as it came.
pub(crate) fn doubted(
    known: &Known,
    by: Basis<'_>,
    text: &[u8],
    judged: Result<Verdict, Unsent>,
) -> Result<Verdict, Unsent> {
    let why = match &judged {
        Err(Unsent::Refused(Refusal::Statement(why))) if by.forwards => why,
        Err(Unsent::Unreadable(shown)) if by.forwards => match &shown.refusal {
            Refusal::Statement(why) => why,
            _ => return judged,
        },
        _ => return judged,
    };
    let Some(natively) = named_targets(known, by, text)? else { return judged };
    Ok(Verdict::Forward { natively, why: why.clone() })
}

/// The ruled tables that a text names, where each keeps its AUTO_INCREMENT. `None`: one does not, or
/// which they are is not known for certain.
fn named_targets(known: &Known, by: Basis<'_>, text: &[u8]) -> Result<Option<Vec<Arc<Target>>>, Need> {
    let session = &known.session;
    let Some(state) = session.state() else { return Ok(None) };
    if RUNS_OTHERS.iter().any(|word| has_whole_word(text, word)) {
        return Ok(None);
    }
    let mut names = Vec::new();
    let default = state.database.as_deref();
    let is_read = each_name(text, state.dialect, |schema, name| {
        names.extend(schema.or(default).map(|schema| TableName::new(schema, name)));
    });
    if is_read.is_err() {
        return Ok(None);
    }
    names.sort();
    names.dedup();
    let mut found: Vec<Arc<Target>> = Vec::new();
    for name in names {
        match known.supplied.lookup(by.tables, (&name.schema, &name.table), (by.clock)()) {
            Lookup::Ruled(target) if target.may_be_forwarded() => found.push(target),
            Lookup::NotRuled | Lookup::Missing => {}
            Lookup::Unknown if known.supplied.may_ask() => return Err(Need::Table { name, again: false }),
            _ => return Ok(None),
        }
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

/// An execution of what was prepared as it came: what it does to the session. `None`: it is none.
pub(crate) fn forwarded(known: &Known, by: Basis<'_>) -> Result<Option<Arc<Effects>>, Unsent> {
    let effects = by.statement.and_then(|id| known.statements.effects(id));
    let Some(effects) = effects.filter(|effects| !effects.natively.is_empty()) else { return Ok(None) };
    for target in &effects.natively {
        let (schema, table) = target.named();
        match known.supplied.lookup(by.tables, (schema, table), (by.clock)()) {
            Lookup::NotRuled => {}
            Lookup::Ruled(now) if now.may_be_forwarded() && by.forwards => {}
            Lookup::Unknown if known.supplied.may_ask() => {
                let name = TableName::new(schema, table);
                return Err(Need::Table { name, again: false }.into());
            }
            _ => {
                return Err(refused(target.at(
                    "the table's rule or columns have changed since the statement was prepared; prepare the statement again",
                ))
                .into());
            }
        }
    }
    Ok(Some(effects))
}

/// The client's text, the execution with its types, and what its answer needs. `None`: it has no
/// AUTO_INCREMENT, its text was not kept or would be read otherwise now, or data was sent ahead for it.
pub(crate) fn native_execution(
    known: &Known,
    by: Basis<'_>,
    payload: &[u8],
) -> Option<(Vec<u8>, Vec<u8>, Note)> {
    let statement = known.statements.get(by.statement?)?;
    let (source, prepared) = (&statement.kept.source, statement.kept.prepared.as_ref()?);
    let target = &prepared.insert.target;
    let state = known.session.state()?;
    let is_as_then = source.dialect == state.dialect && source.database == state.database;
    if !is_as_then || !statement.long_data.is_empty() || !target.may_go_without() {
        return None;
    }
    let expected = statement.expected(known.has_attributes());
    let params = Params::parse(by.command, payload, expected).ok()?;
    let (execution, meaning) = (params.build(), meaning(known, prepared).ok()?);
    let explicit = match params {
        Params::One(one) => execution::ExecutionDraft::new(prepared, &one, meaning).ok()?.explicit,
        Params::Bulk(bulk) => bulk::BulkDraft::new(prepared, &bulk, meaning).ok()?.explicit,
    };
    let explicit = ExplicitIds::expect(by.tables, target, 0, &explicit).into_iter().collect();
    let effects = Effects { natively: vec![target.clone()], ..Effects::default() };
    Some((source.text.clone()?, execution, Note::statements(Vec::new(), explicit, effects)))
}
