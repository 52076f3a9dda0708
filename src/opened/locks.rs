//! Locks of ruled tables that somebody else holds. Every account of a server may take a lock by any
//! name (GET_LOCK), the names of ours among them.

use crate::config::{Config, StoreKind};
use crate::lint::{self, Finding, StoreFacts, Where};
use crate::rules::RuleSet;
use crate::schema::Schema;
use crate::schema::facts::{Facts, TableFacts};
use crate::store::embedded::file_name;
use crate::tables::locks::{HeldByOther, held_by_others};

/// None where it is not known what names the store.
pub(crate) async fn findings(
    schema: &Schema,
    config: &Config,
    facts: &Facts,
    rules: &RuleSet,
    store: &StoreFacts,
) -> Vec<Finding> {
    let store = match &config.store.kind {
        StoreKind::Embedded { path } => file_name(path).ok(),
        StoreKind::Etcd(_) | StoreKind::Mysql(_) if store.generators.is_err() => return Vec::new(),
        StoreKind::Etcd(_) | StoreKind::Mysql(_) => store.identity.clone(),
    };
    let is_ruled = |table: &&TableFacts| {
        table.is_base() && matches!(rules.find(facts.case, &table.schema, &table.name), Ok(Some(_)))
    };
    let of = |table: &TableFacts| {
        format!("{}.{}", facts.case.folded(&table.schema), facts.case.folded(&table.name))
    };
    let tables: Vec<&TableFacts> = facts.tables.iter().filter(is_ruled).collect();
    let names: Vec<String> = tables.iter().map(|table| of(table)).collect();
    // Without an answer, or on a server without such locks, there is nothing to report here.
    let Ok(held) = held_by_others(schema, &names, store.as_deref()).await else { return Vec::new() };
    let finding = |other: HeldByOther| {
        let table = tables.iter().find(|table| of(table) == other.table)?;
        lint::lock_held(
            Where::table(&table.schema, &table.name),
            Some((other.connection, other.user.as_deref())),
        )
    };
    held.into_iter().filter_map(finding).collect()
}
