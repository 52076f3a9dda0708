//! `rowstamp store raise`: a generator's bound, raised and never lowered.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::cli::output::stdout;
use crate::cli::store::{OWNER, known, ticks};
use crate::cli::{ConfigArg, Usage};
use crate::config::{Config, Loaded, load_file};
use crate::ids::{ID_MAX, bound_of, raise_bound};
use crate::opened::control;
use crate::opened::store::OperatorStore;
use crate::rules::RuleSet;
use crate::rules::model::{GeneratorKind, GeneratorName, Mode, Rule};
use crate::schema::Schema;
use crate::store::record::decode;
use crate::store::{GeneratorRecord, Key, StoreError};
use crate::toml_file::did_you_mean;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct RaiseArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The generator, as SCHEMA.NAME.
    #[arg(value_name = "GENERATOR", required_unless_present = "settle", conflicts_with = "settle")]
    pub generator: Option<String>,
    /// The new bound: ids below it are no longer issued. With --settle: the bound for generators with
    /// seed = "none".
    #[arg(
        long,
        value_name = "BOUND",
        value_parser = clap::value_parser!(u64).range(1..=ID_MAX + 1),
        required_unless_present_any = ["above_tables", "settle"]
    )]
    pub to: Option<u64>,
    /// Raise the bound above the highest id and the AUTO_INCREMENT counter of every table of the generator.
    #[arg(long, conflicts_with_all = ["to", "settle"])]
    pub above_tables: bool,
    /// After a restore of the store from a copy: raise every generator of the rules above the ids in
    /// its tables, then let the proxies continue. With etcd the proxies may run; they issue no ids for
    /// 8 seconds. With other stores stop all proxies first.
    #[arg(long)]
    pub settle: bool,
    /// Confirm a large raise: to more than 1000 times the ids in use, or to more than half of the range.
    /// The error without --yes has the numbers.
    #[arg(long)]
    pub yes: bool,
    /// With --settle: confirm that every proxy that once wrote to the store and is not connected to it
    /// now is stopped, and not only cut off.
    #[arg(long, requires = "settle")]
    pub others_stopped: bool,
}

pub(super) async fn run(args: &RaiseArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let Some(name) = &args.generator else { bail!("name the generator to raise") };
    let operator = OperatorStore::open(&loaded.config).await?;
    if let Some(layout) = &ticks::layout_of(&loaded, name)
        && args.above_tables
    {
        let mut floors =
            floors(&loaded.config, &loaded.rules, |generator| generator.to_string() == *name).await?;
        let Some((generator, floor)) = floors.pop_first() else {
            bail!("{name} is not raised: the backend has no table of this generator");
        };
        let said = ticks::raise(&operator, &generator, layout, floor).await?;
        writeln!(stdout(), "{said}")?;
        return Ok(ExitCode::SUCCESS);
    }
    be_a_sequence(&operator, &loaded, name).await?;
    let to = match args.to {
        Some(to) => to,
        None => above_tables(&loaded, name).await?,
    };
    let from = bound_of(&*operator.store, name).await?;
    if args.to.is_some() && to < from {
        bail!(
            "{name} is at {from}, which is above {to}; a bound is never lowered, because ids would come twice"
        );
    }
    if args.to.is_some() && !args.yes {
        be_near(&loaded, name, from, to).await?;
    }
    let said = raise(&operator, name, to).await?;
    writeln!(stdout(), "{said}")?;
    Ok(ExitCode::SUCCESS)
}

/// An error where a raise looks like a typing error.
pub(super) async fn be_near(loaded: &Loaded, name: &str, from: u64, to: u64) -> anyhow::Result<()> {
    match known::far(loaded, name, from, to).await {
        None => Ok(()),
        Some(far) => {
            bail!("{name} is not raised: {far} (`rowstamp store lower`); if the bound is right, add --yes")
        }
    }
}

/// Raises the generator, or makes it; says from where to where.
pub(in crate::cli) async fn raise(
    operator: &OperatorStore,
    name: &str,
    to: u64,
) -> Result<String, StoreError> {
    let from = bound_of(&*operator.store, name).await?;
    let now = raise_bound(operator.store.clone(), name, OWNER, to).await?;
    Ok(match from {
        0 => format!("{name} is created at {now}"),
        _ if from == now => format!("{name} is already at {now}"),
        _ => format!("{name} is raised from {from} to {now}"),
    })
}

/// An error where the name is nobody's, or no sequence's.
async fn be_a_sequence(operator: &OperatorStore, loaded: &Loaded, name: &str) -> anyhow::Result<()> {
    let key = Key::generator(name);
    let found = operator.store.load(&key).await?;
    let stored = found.map(|found| decode::<GeneratorRecord>(&key, &found.value)).transpose()?;
    let spec = loaded.rules.generator_named(name);
    let is_timestamp = stored.as_ref().is_some_and(|record| record.kind == "timestamp")
        || spec.as_ref().is_some_and(|spec| matches!(spec.kind, GeneratorKind::Timestamp(_)));
    if is_timestamp {
        let why = "is a timestamp generator, and its bounds are times, not ids; write --above-tables";
        return Err(Usage(format!("{name} {why}")).into());
    }
    if stored.is_some() || spec.is_some() {
        return Ok(());
    }
    let mut names: Vec<_> = loaded.rules.generators().map(|spec| spec.name.to_string()).collect();
    names.extend(operator.names(Key::GENERATORS).await?);
    let near = did_you_mean(name, &names);
    Err(Usage(format!("neither the store nor the rules have a generator {name}{near}")).into())
}

async fn above_tables(loaded: &Loaded, name: &str) -> anyhow::Result<u64> {
    let Some(spec) = loaded.rules.generator_named(name) else {
        bail!(Usage(format!("the rules have no generator {name}, so its tables are not known; write --to")));
    };
    let mut floors = floors(&loaded.config, &loaded.rules, |generator| *generator == spec.name).await?;
    Ok(floors.remove(&spec.name).unwrap_or(1))
}

/// The bound above the ids and counters of their tables, of each wanted generator that has tables
/// in the backend; of a timestamp generator a tick.
pub(super) async fn floors(
    config: &Config,
    rules: &RuleSet,
    is_wanted: impl Fn(&GeneratorName) -> bool,
) -> anyhow::Result<BTreeMap<GeneratorName, u64>> {
    let Some(control) = control(config) else {
        let why = "[backend.control] is missing: Rowstamp reads the ids in the tables with this account; add it, or name \
                   a generator and --to";
        return Err(Usage(why.to_owned()).into());
    };
    let schema = Schema::connect(&control).await?;
    floors_on(&schema, rules, |rule| rule.mode != Mode::Off && is_wanted(&rule.generator)).await
}

/// Like `floors`, for one server and the rules that are wanted.
pub(in crate::cli) async fn floors_on(
    schema: &Schema,
    rules: &RuleSet,
    is_wanted: impl Fn(&Rule) -> bool,
) -> anyhow::Result<BTreeMap<GeneratorName, u64>> {
    let case = schema.name_case().await?;
    let found = schema.ruled_tables(case, rules).await?;
    if let Some(ambiguous) = found.ambiguous.first() {
        bail!("{ambiguous}");
    }
    let mut floors = BTreeMap::new();
    for (table, rule) in found.tables {
        if !is_wanted(&rule) {
            continue;
        }
        let shape = schema.shape(&rule.schema, &table).await?;
        let has_column = |column: &str| column.eq_ignore_ascii_case(&rule.column);
        if !shape.is_some_and(|shape| shape.columns.iter().any(|column| has_column(&column.name))) {
            bail!(
                "{}: table {}.{table} has no column {}; correct the rule",
                rule.origin,
                rule.schema,
                rule.column
            );
        }
        let bound = match rules.generator_of(&rule).map(|spec| &spec.kind) {
            Some(GeneratorKind::Timestamp(timestamp)) => {
                let column = (rule.schema.as_str(), table.as_str(), rule.column.as_str());
                ticks::tick_above(schema, column, &timestamp.layout).await?
            }
            _ => schema.highest_id(&rule.schema, &table, &rule.column, None).await?.min(ID_MAX) + 1,
        };
        let floor = floors.entry(rule.generator.clone()).or_insert(1);
        *floor = (*floor).max(bound);
    }
    Ok(floors)
}
