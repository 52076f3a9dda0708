//! `rowstamp store raise --settle`: the store was restored from a copy, and proxies are to continue
//! with it.
//!
//! A bound above the tables' ids is safe only while nobody issues ids that the tables do not hold
//! yet. So on etcd all proxies must first give up the ids that they have reserved
//! (`store/etcd/operator` has the order), and with another store no proxy may run. A proxy that is cut off
//! from etcd hears of nothing and continues to issue ids: it must be stopped.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;

use super::raise::RaiseArgs;
use crate::cli::Usage;
use crate::cli::output::stdout;
use crate::cli::store::{raise, ticks};
use crate::config::load_file;
use crate::ids::bound_of;
use crate::ids::sequence::Seed;
use crate::opened::store::OperatorStore;
use crate::rules::model::{GeneratorKind, GeneratorName, GeneratorSpec};
use crate::store::Key;
use crate::store::etcd::QUIET;

pub(super) async fn run(args: &RaiseArgs) -> anyhow::Result<ExitCode> {
    let loaded = &load_file(&args.config.config)?;
    let (to, others_stopped) = (args.to, args.others_stopped);
    let mut seeds = BTreeMap::new();
    for spec in loaded.rules.specs() {
        seeds.extend(seed(spec, to)?);
    }
    let operator = OperatorStore::open(&loaded.config).await?;
    // Only the store knows the generators that were made for tables.
    for name in operator.names(Key::GENERATORS).await? {
        if let Some(spec) = loaded.rules.generator_named(&name) {
            seeds.extend(seed(&spec, to)?);
        }
    }
    if let Some(to) = to.filter(|_| !args.yes) {
        for (name, _) in seeds.iter().filter(|(_, seed)| **seed == Seed::None) {
            let from = bound_of(&*operator.store, &name.to_string()).await?;
            raise::be_near(loaded, &name.to_string(), from, to).await?;
        }
    }
    match &operator.etcd {
        Some(etcd) => {
            let suspect = etcd.suspect("rowstamp store raise --settle", "an operator runs --settle").await?;
            let (by, since, reason) = (&suspect.by, &suspect.since, &suspect.reason);
            writeln!(
                stdout(),
                "the store is suspected by {by} since {since}: {reason}; all proxies stop issuing ids"
            )?;
            let seconds = QUIET.as_secs();
            writeln!(stdout(), "waiting {seconds} seconds until each proxy has given up its reserved ids")?;
            tokio::time::sleep(QUIET).await;
            be_heard(&operator, others_stopped).await?;
        }
        None => be_alone(&operator).await?,
    }
    let mut floors = BTreeMap::new();
    if seeds.values().any(|seed| *seed == Seed::Tables) {
        let is_wanted = |name: &GeneratorName| seeds.get(name) == Some(&Seed::Tables);
        floors = raise::floors(&loaded.config, &loaded.rules, is_wanted).await?;
    }
    for (name, seed) in &seeds {
        let bound = match (seed, to) {
            (Seed::None, Some(to)) => to,
            _ => floors.get(name).copied().unwrap_or(1),
        };
        let said = match &ticks::layout_of(loaded, &name.to_string()) {
            Some(layout) => ticks::raise(&operator, name, layout, bound).await?,
            None => raise::raise(&operator, &name.to_string(), bound).await?,
        };
        writeln!(stdout(), "{said}")?;
    }
    for name in operator.names(Key::GENERATORS).await? {
        // Leaf's tags have no schema.
        if !seeds.keys().any(|known| known.to_string() == name || known.name == name) {
            eprintln!("note: generator {name} of the store is not raised: the rules do not have it");
        }
    }
    if let Some(etcd) = &operator.etcd {
        etcd.acquit().await?;
        writeln!(stdout(), "settled: the proxies continue within seconds")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A generator of the rules and its seed. `None`: the name is a template. An error: the seed is "none", and `to` does not
/// say how far to raise the generator.
fn seed(spec: &GeneratorSpec, to: Option<u64>) -> anyhow::Result<Option<(GeneratorName, Seed)>> {
    let (name, origin) = (&spec.name, &spec.origin);
    let seed = match &spec.kind {
        GeneratorKind::Sequence(sequence) => sequence.seed,
        GeneratorKind::Timestamp(_) => Seed::Tables,
    };
    if seed == Seed::None && to.is_none() {
        let why = "has seed = \"none\", so Rowstamp does not read its tables; write --to with a bound above all its ids";
        return Err(Usage(format!("{origin}: {name} {why}")).into());
    }
    Ok((!name.is_template()).then(|| (name.clone(), seed)))
}

/// Each proxy that ever wrote to the store lives in it, and so has heard that it is suspected, or
/// is stopped.
async fn be_heard(operator: &OperatorStore, others_stopped: bool) -> anyhow::Result<()> {
    let live = operator.proxies().await?;
    let mut others = operator.names(Key::WITNESSES).await?;
    others.retain(|name| !live.contains(name));
    if others.is_empty() || others_stopped {
        return Ok(());
    }
    bail!(
        "some proxies wrote to the store and are not connected to it now: {}. A proxy that is only cut off from etcd would \
         continue to issue its reserved ids. Make sure that these proxies are stopped, then add --others-stopped (nothing was \
         raised, and the connected proxies issue no ids until then)",
        others.join(", ")
    );
}

async fn be_alone(operator: &OperatorStore) -> anyhow::Result<()> {
    operator.be_alone(|live| {
        format!(
            "proxies run and would continue to issue their reserved ids: {live}; stop them, then settle (only with etcd may \
             proxies run)"
        )
    })
    .await
}
