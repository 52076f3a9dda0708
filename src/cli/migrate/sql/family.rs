//! The columns that foreign keys tie to the columns of rules, as the server has them.

use anyhow::{Context, bail};

use super::{Shard, Subject, column};
use crate::migrate::family::{Family, Member, TableColumn, is_narrow, related};
use crate::schema::IdColumn;
use crate::sql::name::quoted;
use crate::table_name::TableName;

/// The narrow columns of these tables, and all that must be widened with them.
pub(super) async fn read(shard: &Shard, subjects: &[Subject]) -> anyhow::Result<Family> {
    let narrow = subjects.iter().filter(|of| is_narrow(&of.column));
    let case = shard.schema.name_case().await?;
    // The names as the foreign keys have them: folded, if the server folds names.
    let folded = |name: &str| case.folded(name).into_owned();
    let place = |of: &Subject| -> TableColumn {
        (TableName { schema: folded(&of.schema), table: folded(&of.table) }, of.column.name.clone())
    };
    let roots: Vec<TableColumn> = narrow.map(place).collect();
    if roots.is_empty() {
        return Ok(Family::default());
    }
    let all = shard.schema.whole_keys().await?;
    let (places, keys) = related(case, &roots, &all);
    if let Some(key) = keys.iter().find(|key| key.on_delete.is_empty() || key.on_update.is_empty()) {
        let (schema, table) = (&key.child.schema, &key.child.table);
        bail!(
            "foreign key {} of {schema}.{table}: the control account does not see the key's actions for DELETE and UPDATE, so the \
             SQL could not restore the key; GRANT SELECT, SHOW VIEW ON {}.* to the account",
            key.name,
            quoted(schema)
        );
    }
    let mut columns = Vec::with_capacity(places.len());
    for (table, name) in places {
        let of = IdColumn { schema: &table.schema, table: &table.table, column: &name };
        let tied = || {
            format!(
                "{}.{}.{name}, which foreign keys connect to a column with a rule",
                table.schema, table.table
            )
        };
        let Some((column, definition)) = column(shard, of).await.with_context(tied)? else {
            bail!("{} does not exist any more: run the command again", tied());
        };
        if is_narrow(&column) {
            columns.push(Member { table, column, definition });
        }
    }
    Ok(Family { columns, keys })
}
