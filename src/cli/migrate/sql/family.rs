//! What foreign keys tie to the ruled columns, as the server has it.

use anyhow::{Context, bail};

use super::{Shard, Subject, column};
use crate::migrate::family::{Family, Member, Place, is_narrow, related};
use crate::schema::{IdColumn, TableName};

/// The narrow columns of these tables, and all that must be widened with them.
pub(super) async fn read(shard: &Shard, subjects: &[Subject]) -> anyhow::Result<Family> {
    let narrow = subjects.iter().filter(|of| is_narrow(&of.column));
    let place = |of: &Subject| -> Place {
        let table = TableName { schema: of.schema.clone(), table: of.table.clone() };
        (table, of.column.name.clone())
    };
    let roots: Vec<Place> = narrow.map(place).collect();
    if roots.is_empty() {
        return Ok(Family::default());
    }
    let all = shard.schema.whole_keys().await?;
    let (places, keys) = related(shard.schema.name_case().await?, &roots, &all);
    let mut columns = Vec::with_capacity(places.len());
    for (table, name) in places {
        let of = IdColumn { schema: &table.schema, table: &table.table, column: &name };
        let tied =
            || format!("{}.{}.{name}, which foreign keys tie to a ruled column", table.schema, table.table);
        let Some((column, definition)) = column(shard, of).await.with_context(tied)? else {
            bail!("{} is gone meanwhile: run this again", tied());
        };
        if is_narrow(&column) {
            columns.push(Member { table, column, definition });
        }
    }
    Ok(Family { columns, keys })
}
