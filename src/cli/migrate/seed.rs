//! `rowstamp migrate seed`: generators above the ids and counters of their tables, over every
//! shard.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::shards::{Found, Target};
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
    /// Ids to leave free above what is found, for writers that take ids elsewhere until they have
    /// moved. For sequences.
    #[arg(long, value_name = "IDS", default_value_t = 0)]
    pub margin: u64,
    /// Say what would be raised, and write nothing.
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
            if args.dry_run {
                println!("{name} would begin at {} on every node", layout.time_of(*floor));
            } else {
                println!("{}", ticks::raise(&operator, generator, layout, *floor).await?);
            }
            continue;
        }
        let to = floor.saturating_add(args.margin).min(ID_MAX + 1);
        let from = bound_of(&*operator.store, &name).await?;
        if args.dry_run {
            println!("{name} {}", would(from, to));
        } else {
            println!("{}", raise(&operator, &name, to).await?);
        }
        if from > 1 && from < to {
            reserves.push(format!("{name} below {from}"));
        }
    }
    let proxies = operator.proxies().await?;
    if !reserves.is_empty() && !proxies.is_empty() {
        println!(
            "{} may have reserved ids of {}, and use them up first: where tables on other servers hold those, begin with rules that \
             are off",
            proxies.join(", "),
            reserves.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A server whose ids are not counted would have them come again.
fn be_complete(found: &Found) -> anyhow::Result<()> {
    for absent in &found.absent {
        let names = found.names(absent);
        if absent.is_elsewhere {
            bail!(
                "{names} has no table of the rule {} that the control account sees, and other servers have: ids there would not \
                 count, and come again. GRANT SELECT on it to the account; or leave the server out, or the table (--table)",
                absent.rule
            );
        }
        eprintln!(
            "note: {names} has no table {} that the control account sees; nothing is raised for it",
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
        _ if from >= to => format!("stands at {from}, above {}", to - 1),
        _ => format!("would be raised from {from} to {to}"),
    }
}

async fn open(config: &Config, is_dry: bool) -> anyhow::Result<OperatorStore> {
    let opened =
        if is_dry { OperatorStore::open(config).await } else { OperatorStore::open_or_make(config).await };
    opened.or_else(|error| match error.downcast_ref::<StoreError>() {
        Some(StoreError::InUse { path }) => bail!(
            "{} is open in a running proxy. Where the backend has all of a generator's tables there is nothing to do: a rule that \
             comes into force makes the proxy read their ids and counters itself. For tables on other servers stop the proxy \
             while this runs, or keep the bounds in etcd or in a table (store.kind)",
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
        assert_eq!(would(7, 7), "stands at 7, above 6");
        assert_eq!(would(9, 7), "stands at 9, above 6");
        assert_eq!(would(5, 7), "would be raised from 5 to 7");
    }
}
