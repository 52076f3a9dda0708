//! The facts of a step, as the servers and the store have them now.
//!
//! The order of reading counts: a counter before the highest id, ids before the generator's bound,
//! which only goes up.

use std::sync::Arc;

use anyhow::Context;

use crate::cli::migrate::shards::Shard;
use crate::config::Config;
use crate::ids::bound_of;
use crate::migrate::interleave::{Counting, VARIABLES};
use crate::migrate::steps::guard_name;
use crate::migrate::verdict::{
    Decoded, Ids, Line, Old, Outcome, ServerFacts, TableFacts, Ticks, old_sessions,
};
use crate::opened::store::OperatorStore;
use crate::rules::RuleSet;
use crate::rules::model::{GeneratorKind, Mode, Rule};
use crate::schema::IdColumn;
use crate::sql::name::same_column;
use crate::store::record::decode;
use crate::store::{GeneratorRecord, Key};

/// A ruled table of one server.
pub(super) struct TableOf<'a> {
    pub(super) shard: &'a Shard,
    pub(super) table: String,
    pub(super) rule: Arc<Rule>,
    /// The name of the table in the verdict.
    pub(super) about: String,
}

impl TableOf<'_> {
    pub(super) fn column(&self) -> IdColumn<'_> {
        IdColumn { schema: &self.rule.schema, table: &self.table, column: &self.rule.column }
    }
}

/// The store, with the bounds that generators have committed.
pub(super) enum StoreAccess {
    Open(OperatorStore),
    /// And why.
    Closed(String),
}

impl StoreAccess {
    pub(super) async fn open(config: &Config) -> StoreAccess {
        match OperatorStore::open(config).await {
            Ok(operator) => StoreAccess::Open(operator),
            Err(error) => StoreAccess::Closed(format!("{error:#}")),
        }
    }

    /// Said once, where it cannot be read.
    pub(super) fn line(&self) -> Option<Line> {
        let StoreAccess::Closed(why) = self else { return None };
        let text = format!("the generators' bounds cannot be read: {why}");
        Some(Line { about: "the store".to_owned(), outcome: Outcome::Open, text })
    }

    async fn bound(&self, generator: &str) -> anyhow::Result<Option<u64>> {
        match self {
            StoreAccess::Open(operator) => Ok(Some(bound_of(&*operator.store, generator).await?)),
            StoreAccess::Closed(_) => Ok(None),
        }
    }

    async fn ticks(&self, generator: &str) -> anyhow::Result<Option<Ticks>> {
        let StoreAccess::Open(operator) = self else { return Ok(None) };
        let prefix = format!("{}{generator}/", Key::SLOTS);
        let mut ticks = Ticks::new();
        for (key, found) in operator.store.list(&prefix).await? {
            let node = key.as_str().strip_prefix(&prefix).and_then(|node| node.parse().ok());
            if let Some(node) = node {
                ticks.insert(node, decode::<GeneratorRecord>(&key, &found.value)?.bound);
            }
        }
        Ok(Some(ticks))
    }
}

pub(super) async fn read_server(
    shard: &Shard,
    config: &Config,
    sessions_up_to: Option<u64>,
) -> anyhow::Result<ServerFacts> {
    let counting = Counting::of(&shard.schema.globals(&VARIABLES).await?);
    let control = config.control.as_ref().map_or("", |account| account.user.as_str());
    let old = match sessions_up_to {
        None => Old::Unknown,
        Some(up_to) => match shard.schema.sessions().await? {
            None => Old::Unseen,
            Some(all) => Old::Live(old_sessions(all, up_to, control)),
        },
    };
    Ok(ServerFacts { counting, old })
}

pub(super) async fn read_table(
    of: &TableOf<'_>,
    rules: &RuleSet,
    store: &StoreAccess,
    range: (u64, u64),
    since: Option<u64>,
) -> anyhow::Result<TableFacts> {
    let (schema, rule) = (&of.shard.schema, &of.rule);
    let column = of.column();
    let shape = schema.shape(column.schema, column.table).await?;
    let shape =
        shape.and_then(|shape| shape.columns.into_iter().find(|one| same_column(&one.name, &rule.column)));
    let shape = shape
        .with_context(|| format!("{}: table {} has no column {}", rule.origin, of.about, rule.column))?;
    let counters = schema.counters(std::slice::from_ref(&rule.schema)).await?;
    let mine =
        counters.iter().find(|one| one.table == of.table && same_column(&one.column.name, &rule.column));
    let counter = mine.map(|one| one.next);
    let highest = schema.highest_ids(&[column]).await?.first().copied().flatten().unwrap_or(0);
    let triggers = schema.insert_triggers(&rule.schema).await?;
    let guard = guard_name(&of.table);
    let is_guarded = triggers.iter().any(|one| one.table == of.table && one.name == guard);
    let name = rule.generator.to_string();
    let ids = match rules.generator_of(rule).map(|spec| &spec.kind) {
        _ if shape.highest().is_none() => Ids::NotRead,
        None => Ids::NotRead,
        Some(GeneratorKind::Sequence(spec)) => {
            let step = spec.step.get();
            let tally = schema.tally(column, range, (step, spec.offset % step)).await?;
            Ids::Sequence { spec: spec.clone(), tally, bound: store.bound(&name).await? }
        }
        Some(GeneratorKind::Timestamp(spec)) => {
            let mut decoded = Decoded::new(spec.layout.clone());
            let mut after = range.0;
            loop {
                let page = schema.ids_after(column, (after, range.1), super::PAGE_IDS).await?;
                let Some((last, _)) = page.last() else { break };
                after = *last;
                let ticks = store.ticks(&name).await?;
                for (id, rows) in &page {
                    decoded.add(*id, *rows, ticks.as_ref());
                }
            }
            Ids::Timestamp(decoded)
        }
    };
    Ok(TableFacts { is_on: rule.mode == Mode::On, counter, highest, is_guarded, since, ids })
}
