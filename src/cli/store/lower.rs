//! `rowstamp store lower`: a sequence's bound, lowered while no proxy runs. A typing error in a
//! raise is undone by it.
//!
//! Why no id comes twice. What was issued and stored is below the new bound: the tables are asked,
//! uncommitted rows included. What a proxy has reserved and not used is above it, and must never be
//! used:
//!
//! 1. The table's locks are taken and held. A proxy that lives, or is frozen with its connection to
//!    the backend open, has them, and the command is refused; who had them before has used no id
//!    for longer than its lease (`tables/locks`).
//! 2. The store gets another name. A proxy that is cut off, or frozen without a connection, knows
//!    the name before: when it wakes, it is another store's proxy, which gets no lock while one of
//!    the new fleet has it. If it wakes before that fleet starts, it has the lock, and the fleet is
//!    refused until it is stopped; each start begins above the ids in the tables.
//! 3. The record counts one more move: who has the generator open from before reserves no more.
//! 4. The record is written at the revision that it had before all this: nobody reserved in
//!    between.
//!
//! A file is open in one process at a time, so with it 1 and 4 are all there is to do. Leaf's table
//! has no room for 3, and is refused. What is not known here: other servers (shards) with tables of
//! the same generator, and the ids of rows that were deleted.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use crate::cli::output::stdout;
use crate::cli::store::known;
use crate::cli::{ConfigArg, Usage};
use crate::config::{StoreKind, load_file};
use crate::ids::ID_MAX;
use crate::opened::control;
use crate::opened::store::OperatorStore;
use crate::role::{self, Role};
use crate::schema::Schema;
use crate::store::record::{self, decode, encode, fresh_token};
use crate::store::{BindingRecord, GeneratorRecord, Key, Outcome, Versioned};
use crate::tables::locks::{Sharing, TableLocks};

const OWNER: &str = "rowstamp store lower";

#[derive(Debug, Args)]
pub struct LowerArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The sequence, as SCHEMA.NAME.
    #[arg(value_name = "GENERATOR")]
    pub generator: String,
    /// The new bound, above every id in its tables.
    #[arg(long, value_name = "BOUND", value_parser = clap::value_parser!(u64).range(1..=ID_MAX))]
    pub to: u64,
    /// Lower the bound. Without --yes the command only says what it would do.
    #[arg(long)]
    pub yes: bool,
}

pub(super) async fn run(args: &LowerArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let (name, to) = (args.generator.as_str(), args.to);
    let Some(control) = control(&loaded.config) else {
        let why =
            "[backend.control] is missing: Rowstamp reads the ids in the tables with this account; add it";
        return Err(Usage(why.to_owned()).into());
    };
    let operator = OperatorStore::open(&loaded.config).await?;
    let key = Key::generator(name);
    let stands =
        operator.store.load(&key).await?.with_context(|| format!("the store has no generator {name}"))?;
    let record: GeneratorRecord = decode(&key, &stands.value)?;
    be_lowerable(&record, name, to)?;
    be_quiet(&operator, name).await?;
    let schema = Schema::connect(&control).await?;
    let mut conn = schema.own_connection(LIMIT).await?;
    let server = role::ask(&mut conn).await?;
    if server.role != Role::Writable {
        bail!(
            "the backend {}, so its tables may lack ids; name the primary in backend.address",
            server.role.as_str()
        );
    }
    // Under a name that no proxy has: held by any of them, they are refused.
    let locks = TableLocks::new(schema.clone(), Sharing::File(fresh_token()));
    for table in assigned_tables(&operator, name).await? {
        locks.take(&table).await.with_context(|| format!("{name} is not lowered"))?;
    }
    locks.settled().await;
    let tables = known::tables(&schema, &loaded, name).await?;
    be_known(&operator, &schema, name, &tables).await?;
    if let Some(table) = tables.iter().find(|table| table.highest >= to) {
        bail!(
            "{name} cannot be lowered to {to}: the highest id of table {}, or its AUTO_INCREMENT counter, is {}; write a bound above it",
            table.name,
            table.highest
        );
    }
    let highest = tables.iter().map(|table| table.highest).max().unwrap_or(0);
    if !args.yes {
        bail!(
            "{name} would be lowered from {} to {to}; its tables on this backend: {}; the highest id in them: {highest}. Make sure \
             that every proxy of this store is stopped, and that no other server (shard) has ids of {name}. Ids of deleted rows \
             will be issued again. Then add --yes",
            record.bound,
            tables.len()
        );
    }
    if !matches!(loaded.config.store.kind, StoreKind::Embedded { .. }) {
        record::rename(&*operator.store).await?;
    }
    be_quiet(&operator, name).await?;
    lower(&operator, &key, &stands, &record, to).await?;
    let from = record.bound;
    writeln!(stdout(), "{name} is lowered from {from} to {to}; the highest id in its tables is {highest}")?;
    Ok(ExitCode::SUCCESS)
}

const LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

fn be_lowerable(record: &GeneratorRecord, name: &str, to: u64) -> anyhow::Result<()> {
    if record.kind != "sequence" {
        bail!("{name} is not lowered: it is of kind {}, and its bounds are times, not ids", record.kind);
    }
    if record.token.is_empty() {
        bail!(
            "{name} is not lowered: it is in Leaf's table, which has no mark for a proxy that wakes up later"
        );
    }
    if to >= record.bound {
        bail!("{name} is at {}, which is not above {to}; `rowstamp store raise` raises it", record.bound);
    }
    Ok(())
}

/// No proxy lives, and the store is what it was.
async fn be_quiet(operator: &OperatorStore, name: &str) -> anyhow::Result<()> {
    operator.be_alone(|live| {
        format!(
            "proxies run and may have reserved ids above the new bound: {live}; stop every proxy of this store, then lower {name}"
        )
    })
    .await?;
    if operator.store.load(&Key::suspect()).await?.is_some() {
        bail!(
            "the store may hold older data than before, as after a restore; run `rowstamp store raise --settle` first"
        );
    }
    Ok(())
}

/// All that ids of the generator went to, as the locks are named.
async fn assigned_tables(operator: &OperatorStore, name: &str) -> anyhow::Result<Vec<String>> {
    let mut tables = Vec::new();
    for (key, found) in operator.store.list(Key::BINDINGS).await? {
        let binding: BindingRecord = decode(&key, &found.value)?;
        if binding.generator == name {
            tables.extend(key.as_str().strip_prefix(Key::BINDINGS).map(str::to_owned));
        }
    }
    Ok(tables)
}

/// An error where a table got ids of the generator, and the rules do not say in which column.
async fn be_known(
    operator: &OperatorStore,
    schema: &Schema,
    name: &str,
    tables: &[known::DrawingTable],
) -> anyhow::Result<()> {
    for assigned in assigned_tables(operator, name).await? {
        if tables.iter().any(|table| table.name.eq_ignore_ascii_case(&assigned)) {
            continue;
        }
        let (of, table) = assigned.split_once('.').unwrap_or(("", &assigned));
        if schema.shape(of, table).await?.is_some() {
            bail!(
                "table {assigned} got ids of {name}, and no rule names their column; restore the rule (mode = \"off\" is enough), \
                 then lower {name}"
            );
        }
    }
    Ok(())
}

async fn lower(
    operator: &OperatorStore,
    key: &Key,
    stands: &Versioned<Vec<u8>>,
    record: &GeneratorRecord,
    to: u64,
) -> anyhow::Result<()> {
    let lowered = GeneratorRecord {
        bound: to,
        owner: OWNER.to_owned(),
        token: fresh_token(),
        moves: record.moves + 1,
        ..record.clone()
    };
    match operator.store.compare_and_set(key, Some(stands.revision), &encode(&lowered)).await {
        Ok(Outcome::Written(_)) => Ok(()),
        Ok(Outcome::Conflict(_)) => {
            bail!(
                "another process, for example a proxy, wrote {key} meanwhile; stop every proxy of this store, then lower again"
            )
        }
        Err(error) => Err(error).with_context(|| {
            format!("{key} may have been lowered or not; `rowstamp store list` shows its bound")
        }),
    }
}
