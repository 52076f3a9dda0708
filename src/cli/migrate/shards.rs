//! The servers that a command asks, and the ruled tables that it finds there.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;

use crate::address::Address;
use crate::cli::{Usage, control};
use crate::config::Config;
use crate::migrate::survey::Chosen;
use crate::rules::RuleSet;
use crate::rules::model::Rule;
use crate::schema::{Control, Schema};

/// A server, asked by the control account.
pub(super) struct Shard {
    /// Its address.
    pub(super) name: String,
    pub(super) schema: Schema,
}

#[derive(Debug, Args)]
pub struct Choice {
    /// Only tables of this schema; may be written several times.
    #[arg(long = "schema", value_name = "NAME")]
    pub schemas: Vec<String>,
    /// Only these tables: TABLE or SCHEMA.TABLE, with * and ?; may be written several times.
    #[arg(long = "table", value_name = "PATTERN")]
    pub tables: Vec<String>,
}

impl Choice {
    pub(super) fn has(&self, schema: &str, table: &str) -> bool {
        let of_schema = self.schemas.is_empty() || self.schemas.iter().any(|one| one == schema);
        of_schema && Chosen(self.tables.clone()).has(schema, table)
    }
}

/// Each of these addresses, or the backend where there are none; the same account for all.
pub(super) async fn open(config: &Config, addresses: &[Address]) -> anyhow::Result<Vec<Shard>> {
    let Some(control) = control(config) else {
        let why = "[backend.control] is missing: the servers are asked by that account; write it (README, \"The control account\")";
        return Err(Usage(why.to_owned()).into());
    };
    if addresses.is_empty() {
        let schema = Schema::connect(&control).await?;
        let at = schema.primary().get();
        let name = control.addresses.get(at).map(ToString::to_string).unwrap_or_default();
        return Ok(vec![Shard { name, schema }]);
    }
    let mut shards = Vec::with_capacity(addresses.len());
    for address in addresses {
        let control = Control { addresses: vec![address.clone()], ..control.clone() };
        let schema = Schema::connect(&control).await.with_context(|| address.to_string())?;
        shards.push(Shard { name: address.to_string(), schema });
    }
    Ok(shards)
}

impl Shard {
    /// The tables here that have rules and are chosen.
    pub(super) async fn ruled(
        &self,
        rules: &RuleSet,
        choice: &Choice,
    ) -> anyhow::Result<Vec<(String, Arc<Rule>)>> {
        let found = self.schema.ruled_tables(self.schema.name_case().await?, rules).await?;
        if let Some(ambiguous) = found.ambiguous.first() {
            bail!("{ambiguous}");
        }
        let is_chosen = |(table, rule): &(String, Arc<Rule>)| choice.has(&rule.schema, table);
        Ok(found.tables.into_iter().filter(is_chosen).collect())
    }
}

/// An error where none is found on any server.
pub(super) fn be_some(count: usize, shards: &[Shard]) -> anyhow::Result<()> {
    if count > 0 {
        return Ok(());
    }
    let names: Vec<_> = shards.iter().map(|shard| shard.name.as_str()).collect();
    bail!(
        "{} has no table that the rules name, of those that were asked for; write its rule first (rowstamp migrate plan --write)",
        names.join(", ")
    );
}
