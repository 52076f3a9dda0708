//! INSERTs after the client has set `insert_id` (`known/explicit/set_id`). A text into a table that keeps its AUTO_INCREMENT goes to
//! the server as it came, which numbers the rows as ever. For any other statement the proxy takes the value from
//! the server (`serve/set_id`), so that no later INSERT uses it there, and the rows get it by way of the rewritten statement.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::proxy::decide::Basis;
use crate::proxy::decide::ids::take;
use crate::proxy::decide::verdict::{FilledPacket, Verdict, refused};
use crate::proxy::known::Known;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::explicit::set_id::{NextIds, SetId};
use crate::proxy::known::need::{Need, Unsent};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::rules::model;
use crate::tables::Tables;

/// The question for `insert_id`, if a text that is run needs the answer before it continues.
pub(crate) fn needs_set_id(known: &Known, plan: &Plan) -> Option<Need> {
    let passes = plan.may_pass();
    if known.session.set_id != SetId::MayBeSet || passes && known.supplied.next_ids.is_some() {
        return None;
    }
    let insert = plan.inserts.iter().find(|insert| insert.may_take_ids())?;
    Some(Need::SetId { taken_for: (!passes).then(|| insert.target.clone()) })
}

/// The text goes on as it came: the server numbers its rows.
pub(crate) fn numbered_by_server(
    tables: &Arc<Tables>,
    mut plan: Plan,
    next: &NextIds,
) -> Result<Verdict, Refusal> {
    let mut explicit = Vec::new();
    for insert in std::mem::take(&mut plan.inserts) {
        may_be_written(&insert.target)?;
        let highest = [&insert.explicit[..], &[next.highest(insert.ids)]].concat();
        if insert.stage.is_none() {
            explicit.extend(ExplicitIds::expect(tables, &insert.target, insert.statement, &highest));
        }
        if insert.stage.is_some() || next.is_passed_by(&insert.explicit) {
            plan.effects.natively.push(insert.target);
        }
    }
    Ok(Verdict::Send(FilledPacket { plan, blocks: Vec::new(), inserts: Vec::new(), explicit }))
}

/// Ids that the generator goes on above: those that the client wrote, and those that it says by `insert_id`.
pub(crate) fn expect(
    known: &Known,
    tables: &Arc<Tables>,
    (insert, target): (&InsertPlan, &Arc<Target>),
    (ids, explicit): (u32, &[i128]),
    writes_each: bool,
) -> Result<Option<ExplicitIds>, Refusal> {
    let (SetId::Taken(next), Some(n)) = (known.session.set_id, NonZeroU64::new(ids.into())) else {
        return Ok(ExplicitIds::expect(tables, target, insert.statement, explicit));
    };
    may_be_written(target)?;
    next.objection(insert, (ids, explicit), writes_each).map_or(Ok(()), Err)?;
    let block = next.block(n)?;
    let written = [explicit, &[block.first().into(), block.last().into()]].concat();
    Ok(ExplicitIds::expect(tables, target, insert.statement, &written))
}

/// The ids of an INSERT: the generator's, unless the client says which.
pub(crate) fn take_ids(
    known: &mut Known,
    by: Basis<'_>,
    (insert, target): (&InsertPlan, &Arc<Target>),
    ids: u32,
) -> Result<IdBlock, Unsent> {
    let (SetId::Taken(next), Some(n)) = (known.session.set_id, NonZeroU64::new(ids.into())) else {
        if known.supplied.without_ids.is_none() {
            known.supplied.look_before(by.tables, insert, target, by.clock)?;
        }
        return take(known, by.tables, target, ids);
    };
    let (block, highest) = (next.block(n)?, target.highest_id());
    if block.last() > highest {
        return Err(Refusal::NoId(target.at(format_args!(
            "insert_id is set, and column {} holds ids up to {highest}, which the statement's ids exceed; set a lower insert_id",
            target.id_column()
        )))
        .into());
    }
    Ok(block)
}

/// `insert_id` is an id that the client says.
fn may_be_written(target: &Target) -> Result<(), Refusal> {
    if target.rule.explicit != model::Explicit::Reject {
        return Ok(());
    }
    let why = "insert_id is set, and the table's rule rejects ids of the client; insert without insert_id";
    Err(refused(target.at(why)))
}
