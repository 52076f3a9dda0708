//! Ids that a statement takes, and whether the column holds them.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::proxy::known::Known;
use crate::proxy::known::need::{Need, Unsent};
use crate::rewrite::plan::target::Target;
use crate::sessions::Count;
use crate::tables::Tables;

/// Ids for a statement: those that were waited for, or of those at hand.
pub(crate) fn take(
    known: &mut Known,
    tables: &Arc<Tables>,
    target: &Arc<Target>,
    ids: u32,
) -> Result<IdBlock, Unsent> {
    let n = NonZeroU64::new(ids.into()).ok_or_else(|| Refusal::NoId("a statement without ids".into()))?;
    if let Some(why) = &known.supplied.without_ids {
        return Err(Unsent::WithoutIds(why.clone()));
    }
    let Some(block) = known.supplied.take(tables, target, n).or_else(|| tables.take_at_once(target, n))
    else {
        return Err(Need::Ids { tables: tables.clone(), target: target.clone(), n }.into());
    };
    // Only after they were taken, however long ago that was.
    if !tables.is_guarded(target) {
        known.supplied.put(tables, target.clone(), block);
        return Err(Need::Guard { tables: tables.clone(), target: target.clone() }.into());
    }
    known.here.count(Count::Ids, n.get());
    target.usage.note(n.get());
    Ok(within(target, block)?)
}

/// Ids, where the column can hold them.
fn within(target: &Target, block: IdBlock) -> Result<IdBlock, Refusal> {
    let highest = target.highest_id();
    if block.last() <= highest {
        return Ok(block);
    }
    if target.rule.column.is_empty() {
        return Err(Refusal::NoId(format!(
            "a call gives ids up to {highest}, and generator {} is above that",
            target.rule.generator
        )));
    }
    Err(Refusal::NoId(format!(
        "{}.{}.{} holds ids up to {highest}, and generator {} is above that; widen the column",
        target.rule.schema, target.table, target.rule.column, target.rule.generator
    )))
}
