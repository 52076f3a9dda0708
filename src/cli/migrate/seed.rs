//! `rowstamp migrate seed`: generators above the ids and counters of their tables, over every
//! shard.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::shards::{Found, Target};
use crate::cli::output::stdout;
use crate::cli::store::raise::{floors_on, raise};
use crate::cli::store::ticks;
use crate::config::Config;
use crate::ids::{ID_MAX, bound_of};
use crate::opened::store::OperatorStore;
use crate::rules::model::{GeneratorName, Rule};
use crate::store::StoreError;

#[derive(Debug, Args)]
pub struct SeedArgs {
    #[command(flatten)]
    pub target: Target,
    /// The number of ids to leave free above the highest id and counter, for writers that get ids
    /// elsewhere until they have moved. For sequences.
    #[arg(long, value_name = "IDS", default_value_t = 0)]
    pub margin: u64,
    /// Print what would be raised, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

pub(super) async fn run(args: &SeedArgs) -> anyhow::Result<ExitCode> {
    let found = args.target.find().await?;
    be_complete(&found)?;
    let floors = floors(&found).await?;
    let loaded = &found.loaded;
    let operator = open(&loaded.config, args.dry_run).await?;
    let mut reserves = Vec::new();
    for (generator, floor) in &floors {
        let name = generator.to_string();
        if let Some(layout) = &ticks::layout_of(loaded, &name) {
            let said = if args.dry_run {
                format!("{name} would begin at {} on every node", layout.time_of(*floor))
            } else {
                ticks::raise(&operator, generator, layout, *floor).await?
            };
            writeln!(stdout(), "{said}")?;
            continue;
        }
        let to = floor.saturating_add(args.margin).min(ID_MAX + 1);
        let from = bound_of(&*operator.store, &name).await?;
        let said = if args.dry_run {
            format!("{name} {}", would(from, to))
        } else {
            raise(&operator, &name, to).await?
        };
        writeln!(stdout(), "{said}")?;
        if from > 1 && from < to {
            reserves.push(format!("{name} below {from}"));
        }
    }
    let proxies = operator.proxies().await?;
    if !reserves.is_empty() && !proxies.is_empty() {
        writeln!(
            stdout(),
            "{} may have reserved ids of {}, and will use them first: if tables on other servers have such ids, run seed while the \
             rules are off",
            proxies.join(", "),
            reserves.join(", ")
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A server whose ids are not counted would have them come again.
fn be_complete(found: &Found) -> anyhow::Result<()> {
    for absent in &found.absent {
        let names = found.names(absent);
        if absent.is_elsewhere {
            bail!(
                "{}: the control account sees no table of this rule on {names}, only on other servers: ids on {names} would not \
                 count, and could come twice. GRANT SELECT on the table to the account; or leave out the server (--shard) or the \
                 table (--table)",
                absent.rule
            );
        }
        eprintln!(
            "note: {}: the control account sees no such table on {names}; no generator is raised for the table",
            absent.rule
        );
    }
    Ok(())
}

/// Above the ids and counters of all servers.
async fn floors(found: &Found) -> anyhow::Result<BTreeMap<GeneratorName, u64>> {
    let mut floors: BTreeMap<GeneratorName, u64> = BTreeMap::new();
    for (shard, tables) in found.shards.iter().zip(&found.tables) {
        let is_wanted = |rule: &Rule| tables.iter().any(|(_, one)| **one == *rule);
        let of_shard = floors_on(&shard.schema, &found.loaded.rules, is_wanted).await;
        for (generator, floor) in of_shard.with_context(|| shard.name.clone())? {
            let highest = floors.entry(generator).or_insert(floor);
            *highest = (*highest).max(floor);
        }
    }
    Ok(floors)
}

fn would(from: u64, to: u64) -> String {
    match from {
        0 => format!("would be made at {to}"),
        _ if from >= to => format!("is at {from}, above {}", to - 1),
        _ => format!("would be raised from {from} to {to}"),
    }
}

async fn open(config: &Config, is_dry: bool) -> anyhow::Result<OperatorStore> {
    let opened =
        if is_dry { OperatorStore::open(config).await } else { OperatorStore::open_or_make(config).await };
    opened.or_else(|error| match error.downcast_ref::<StoreError>() {
        Some(StoreError::InUse { path }) => bail!(
            "{} is open in a running proxy. If the backend has all tables of a generator, there is nothing to do: when a rule \
             becomes active, the proxy reads their ids and counters itself. For tables on other servers, stop the proxy \
             while this command runs, or keep the bounds in etcd or in a table (store.kind)",
            path.display()
        ),
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::would;

    #[test]
    fn what_would_be() {
        assert_eq!(would(0, 7), "would be made at 7");
        assert_eq!(would(7, 7), "is at 7, above 6");
        assert_eq!(would(9, 7), "is at 9, above 6");
        assert_eq!(would(5, 7), "would be raised from 5 to 7");
    }
}
