//! Raising a timestamp generator: its nodes' bounds are times, and what they must be above are ids
//! in tables.

use crate::cli::store::OWNER;
use crate::config::Loaded;
use crate::ids::layout::Layout;
use crate::ids::raise_ticks;
use crate::opened::store::OperatorStore;
use crate::rules::model::{GeneratorKind, GeneratorName};
use crate::schema::Schema;

/// The layout of a generator of the rules; `None`: it is a sequence, or there is none of that name.
pub(in crate::cli) fn layout_of(loaded: &Loaded, name: &str) -> Option<Layout> {
    match loaded.rules.generator_named(name)?.kind {
        GeneratorKind::Timestamp(timestamp) => Some(timestamp.layout),
        GeneratorKind::Sequence(_) => None,
    }
}

/// The first tick all of whose ids, whatever the node, are above those of a table's column.
pub(super) async fn tick_above(
    schema: &Schema,
    (table_schema, table, column): (&str, &str, &str),
    layout: &Layout,
) -> anyhow::Result<u64> {
    let (mut tick, mut up_to) = (1, None);
    loop {
        let highest = schema.highest_id(table_schema, table, column, up_to).await?;
        // Within a tick ids of higher nodes are higher: those of the lowest count.
        let node = if layout.is_by_node() { layout.node_of(highest) } else { 0 };
        let numbering = layout.numbering(node)?;
        if let Some(above) = numbering.tick_above(highest) {
            tick = tick.max(above);
        } else if up_to.is_none() {
            anyhow::bail!(
                "table {table_schema}.{table} has the id {highest}, and the layout has no id above it"
            );
        }
        // Ids of the next lower node lie below all of this one's.
        match numbering.id(0).checked_sub(1).filter(|below| layout.is_by_node() && *below > 0 && highest > 0)
        {
            Some(below) => up_to = Some(below),
            None => return Ok(tick),
        }
    }
}

/// Raises all nodes; says from where to where, as times.
pub(in crate::cli) async fn raise(
    operator: &OperatorStore,
    name: &GeneratorName,
    layout: &Layout,
    tick: u64,
) -> anyhow::Result<String> {
    let name = name.to_string();
    let to = layout.time_of(tick);
    let raised = raise_ticks(&operator.store, &name, OWNER, layout, tick).await?;
    if raised.is_empty() {
        return Ok(format!("{name} is already above {to} on every node"));
    }
    let lines = raised.into_iter().map(|(node, from)| match node {
        None => format!("{name}: new nodes begin at {to}"),
        Some(node) => format!("{name}: node {node} is raised from {} to {to}", layout.time_of(from)),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
