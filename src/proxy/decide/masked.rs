//! Executions of statements whose table a temporary one may mask.

use crate::proxy::decide::Basis;
use crate::proxy::decide::verdict::refused;
use crate::proxy::known::Known;
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::temporary::Masked;

/// True if an execution passes because its statement was prepared for a temporary table, which still masks the table
/// with the rule.
pub(crate) fn is_masked(known: &Known, by: Basis<'_>) -> Result<bool, Unsent> {
    let Some(id) = by.statement else { return Ok(false) };
    let session = &known.session;
    let (name, was_masked) = match known.statements.get(id) {
        Some(statement) => {
            let (kept, name) = (&statement.kept, &statement.kept.source.table);
            let masked = session.temporary.masked(&name.schema, &name.table);
            // If the table has got a rule since, the statement is planned again, by what masks the name then.
            let has_new_rule = || !kept.is_current(&by.tables.lookup(&name.schema, &name.table));
            let must_ask = kept.prepared.is_some() || masked == Masked::Unsure && has_new_rule();
            if masked == Masked::No || !must_ask {
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
    match (session.temporary.masked(&name.schema, &name.table), was_masked) {
        (Masked::Unsure, _) => Err(Need::Temporary(name).into()),
        (Masked::No, false) => Ok(false),
        (Masked::Yes, true) => Ok(true),
        (Masked::Yes, false) | (Masked::No, true) => Err(refused(format_args!(
            "{name}: a temporary table of this name was created or dropped since the statement was prepared; prepare the \
             statement again"
        ))
        .into()),
    }
}
