//! Facts from the backend about a sequence's tables: how far the sequence can be raised before the number
//! looks like a typing error, and how far it can be lowered.

use crate::config::Loaded;
use crate::ids::ID_MAX;
use crate::ids::reach::{Far, Reach};
use crate::ids::sequence::SequenceSpec;
use crate::opened::control;
use crate::rules::model::{GeneratorKind, Rule};
use crate::schema::{Schema, SchemaError};

/// A table that rules give the sequence.
pub(super) struct DrawingTable {
    /// `schema.table`
    pub(super) name: String,
    /// The highest id in it, uncommitted ones and its AUTO_INCREMENT counter included.
    pub(super) highest: u64,
    /// The highest id that its column holds.
    pub(super) max: u64,
}

/// All tables of the sequence, also of rules that are off.
pub(super) async fn tables(
    schema: &Schema,
    loaded: &Loaded,
    name: &str,
) -> anyhow::Result<Vec<DrawingTable>> {
    let case = schema.name_case().await?;
    let found = schema.ruled_tables(case, &loaded.rules).await?;
    let mut known = Vec::new();
    for (table, rule) in found.tables {
        if rule.generator.to_string() == name {
            known.extend(one(schema, &rule, &table).await?);
        }
    }
    Ok(known)
}

async fn one(schema: &Schema, rule: &Rule, table: &str) -> Result<Option<DrawingTable>, SchemaError> {
    let Some(shape) = schema.shape(&rule.schema, table).await? else { return Ok(None) };
    let is_it = |name: &str| name.eq_ignore_ascii_case(&rule.column);
    let Some(column) = shape.columns.iter().find(|column| is_it(&column.name)) else { return Ok(None) };
    Ok(Some(DrawingTable {
        name: format!("{}.{table}", rule.schema),
        highest: schema.highest_id(&rule.schema, table, &rule.column, None).await?,
        max: column.highest().unwrap_or(ID_MAX),
    }))
}

/// Why a raise of the sequence from `bound` needs a second word. Facts that the backend does not tell are
/// not known.
pub(super) async fn far(loaded: &Loaded, name: &str, bound: u64, to: u64) -> Option<Far> {
    let spec = loaded.rules.generator_named(name);
    let sequence = match spec.map(|spec| spec.kind) {
        Some(GeneratorKind::Sequence(sequence)) => sequence,
        _ => SequenceSpec::default(),
    };
    let tables = match control(&loaded.config) {
        None => None,
        Some(control) => {
            let asked = async { tables(&Schema::connect(&control).await?, loaded, name).await };
            asked
                .await
                .inspect_err(|error| eprintln!("note: the ids in the tables could not be read: {error:#}"))
                .ok()
        }
    };
    let columns = tables.iter().flatten().map(|table| table.max).min().unwrap_or(ID_MAX);
    let highest = tables.and_then(|tables| tables.iter().map(|table| table.highest).max());
    Reach { bound, highest, max: sequence.last_id(columns) }.far(to)
}
