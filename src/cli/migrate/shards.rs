//! The servers that a command asks, and the ruled tables that it finds there.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;

use crate::address::Address;
use crate::cli::{ConfigArg, Usage};
use crate::config::{Config, Loaded, load_file};
use crate::migrate::survey::Chosen;
use crate::opened::control;
use crate::rules::model::Rule;
use crate::rules::{RuleSet, pattern};
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

/// The ruled tables of one server or several.
#[derive(Debug, Args)]
pub struct Target {
    #[command(flatten)]
    pub config: ConfigArg,
    #[command(flatten)]
    pub choice: Choice,
    /// A server that has these tables; may be written several times. Default: the backend. Rowstamp
    /// logs in as the control account.
    #[arg(long = "shard", value_name = "ADDRESS")]
    pub shards: Vec<Address>,
}

impl Target {
    /// An error where no server has any of the tables.
    pub(super) async fn find(&self) -> anyhow::Result<Found> {
        let loaded = load_file(&self.config.config)?;
        let shards = open(&loaded.config, &self.shards).await?;
        let mut tables = Vec::with_capacity(shards.len());
        for shard in &shards {
            tables.push(shard.ruled(&loaded.rules, &self.choice).await?);
        }
        be_some(tables.iter().map(Vec::len).sum(), &shards)?;
        let absent = absent(&loaded.rules, &self.choice, &tables);
        Ok(Found { loaded, shards, tables, absent })
    }
}

pub(super) struct Found {
    pub(super) loaded: Loaded,
    pub(super) shards: Vec<Shard>,
    /// One list for each server, in the order of `shards`: its tables that have rules and are chosen.
    pub(super) tables: Vec<Vec<(String, Arc<Rule>)>>,
    pub(super) absent: Vec<Absent>,
}

/// A chosen rule without a table on some server: none is there, or the control account does not see
/// it.
pub(super) struct Absent {
    /// `schema.table`, as the rule has it.
    pub(super) rule: String,
    /// The servers' places in [`Found::shards`].
    pub(super) on: Vec<usize>,
    /// Other servers have it.
    pub(super) is_elsewhere: bool,
}

impl Found {
    /// The names of the servers that lack the rule's table.
    pub(super) fn names(&self, absent: &Absent) -> String {
        let name = |nth: &usize| self.shards.get(*nth).map_or("", |shard| shard.name.as_str());
        absent.on.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

fn absent(rules: &RuleSet, choice: &Choice, tables: &[Vec<(String, Arc<Rule>)>]) -> Vec<Absent> {
    let of_rule = |rule: &Arc<Rule>| {
        let lacks = |nth: &usize| {
            tables.get(*nth).is_some_and(|found| !found.iter().any(|(_, one)| one.origin == rule.origin))
        };
        let on: Vec<usize> = (0..tables.len()).filter(lacks).collect();
        let is_elsewhere = on.len() < tables.len();
        // A pattern without a table on any server cannot be chosen: it gives no name of a table to compare.
        let is_chosen =
            is_elsewhere || !pattern::is_pattern(&rule.table) && choice.has(&rule.schema, &rule.table);
        let rule = format!("{}.{}", rule.schema, rule.table);
        (!on.is_empty() && is_chosen).then_some(Absent { rule, on, is_elsewhere })
    };
    rules.rules().filter_map(of_rule).collect()
}

/// Each of these addresses, or the backend where there are none; the same account for all.
pub(super) async fn open(config: &Config, addresses: &[Address]) -> anyhow::Result<Vec<Shard>> {
    let Some(control) = control(config) else {
        let why = concat!(
            "[backend.control] is missing: Rowstamp reads the servers with this account; add it: ",
            crate::book::page!("accounts")
        );
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
        "the control account sees no chosen table with a rule on {}; write a rule first (rowstamp migrate plan --write), or GRANT \
         SELECT on the table to the account",
        names.join(", ")
    );
}
