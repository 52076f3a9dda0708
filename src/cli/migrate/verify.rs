//! `rowstamp migrate verify`: the facts of a step, read and judged.

mod facts;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use self::facts::{Store, TableOf, read_server, read_table};
use super::shards::{self, Choice, Shard};
use crate::address::Address;
use crate::cli::{ConfigArg, EXIT_FOUND, load};
use crate::config::Loaded;
use crate::ids::ID_MAX;
use crate::migrate::doubles::Merge;
use crate::migrate::verdict::{self, Done, Line, Outcome};

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    #[command(flatten)]
    pub choice: Choice,
    /// A server that holds these tables; may be written several times. Default: the backend. The account is the control account.
    #[arg(long = "shard", value_name = "ADDRESS")]
    pub shards: Vec<Address>,
    /// How far the migration is said to be: what must hold there is demanded. Without it: what must always hold.
    #[arg(long, value_enum, value_name = "STEP")]
    pub step: Option<StepDone>,
    /// Only ids above this one.
    #[arg(long, value_name = "ID")]
    pub since_id: Option<u64>,
    /// Only ids up to this one.
    #[arg(long, value_name = "ID")]
    pub up_to_id: Option<u64>,
    /// Sessions with numbers up to this one began before the increments were set: what step interleave printed.
    #[arg(long, value_name = "NUMBER")]
    pub sessions_up_to: Option<u64>,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StepDone {
    /// The server's counter hands out odd ids to every session; the rules are off.
    Interleaved,
    /// The rules are on; some write directly, some through the proxy.
    On,
    /// Nobody writes directly any more.
    Moved,
    /// AUTO_INCREMENT is gone.
    Dropped,
    /// Everybody writes directly again, and the rules are off.
    Back,
}

impl StepDone {
    fn done(self) -> Done {
        match self {
            StepDone::Interleaved => Done::Interleaved,
            StepDone::On => Done::On,
            StepDone::Moved => Done::Moved,
            StepDone::Dropped => Done::Dropped,
            StepDone::Back => Done::Back,
        }
    }
}

/// Ids of one page of one table: what is kept of it while tables are compared.
const PAGE_IDS: usize = 10_000;

/// What no reading of tables shows.
const NOT_SEEN: &str = "Not seen by any of this: rows that were deleted before it looked, sessions that set auto_increment_increment \
                        themselves, and ids that applications write themselves.";

pub(super) async fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let loaded = load(&args.config.config)?;
    let shards = shards::open(&loaded.config, &args.shards).await?;
    let lines = judge(args, &loaded, &shards).await?;
    let count = |outcome| lines.iter().filter(|line| line.outcome == outcome).count();
    let findings = count(Outcome::Finding);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", json!({ "lines": lines, "findings": findings, "open": count(Outcome::Open) }))?;
    } else {
        print(&mut out, &lines)?;
        let (proved, open) = (count(Outcome::Proved), count(Outcome::Open));
        writeln!(out, "{proved} proved, {open} open, {findings} findings\n{NOT_SEEN}")?;
    }
    Ok(ExitCode::from(if findings == 0 { 0 } else { EXIT_FOUND }))
}

async fn judge(args: &VerifyArgs, loaded: &Loaded, shards: &[Shard]) -> anyhow::Result<Vec<Line>> {
    let done = args.step.map(StepDone::done);
    let range = (args.since_id.unwrap_or(0), args.up_to_id.unwrap_or(ID_MAX));
    let (mut of_servers, mut tables) = (Vec::new(), Vec::new());
    for shard in shards {
        if done.is_some() {
            let facts = read_server(shard, &loaded.config, args.sessions_up_to).await?;
            of_servers.extend(verdict::server(&shard.name, &facts, done));
        }
        for (table, rule) in shard.ruled(&loaded.rules, &args.choice).await? {
            let name = format!("{}.{table}", rule.schema);
            let about = if shards.len() > 1 { format!("{name} on {}", shard.name) } else { name };
            tables.push(TableOf { shard, table, rule, about });
        }
    }
    shards::be_some(tables.len(), shards)?;
    let store = Store::open(&loaded.config).await;
    let mut of_tables = Vec::new();
    for table in &tables {
        let facts = read_table(table, &loaded.rules, &store, range, args.since_id).await?;
        of_tables.extend(verdict::table(&table.about, &facts, done));
    }
    let of_doubles = doubles(&tables, range).await?;
    let of_store = store.line().into_iter();
    Ok(of_servers.into_iter().chain(of_store).chain(of_tables).chain(of_doubles).collect())
}

/// Of each rule, the ids of all its tables on all servers: two of them with one id could never be merged.
async fn doubles(tables: &[TableOf<'_>], range: (u64, u64)) -> anyhow::Result<Vec<Line>> {
    let mut by_rule: BTreeMap<(&str, &str), Vec<&TableOf<'_>>> = BTreeMap::new();
    for table in tables {
        by_rule.entry((&table.rule.schema, &table.rule.table)).or_default().push(table);
    }
    let mut lines = Vec::new();
    for ((schema, table), tables) in by_rule {
        let about = format!("{schema}.{table}");
        if let [only] = tables.as_slice()
            && only.shard.schema.has_unique_key(only.column()).await?
        {
            let text = "no id is double: its column has a unique key".to_owned();
            lines.push(Line { about, outcome: Outcome::Proved, text });
            continue;
        }
        let mut merge = Merge::new(tables.len(), range.0);
        while let Some((nth, after)) = merge.wanting() {
            let Some(of) = tables.get(nth) else { break };
            let page = of.shard.schema.ids_after(of.column(), (after, range.1), PAGE_IDS).await?;
            merge.give(nth, page);
        }
        let sources: Vec<_> = tables.iter().map(|table| table.about.clone()).collect();
        lines.push(verdict::doubles(&about, &merge.found(), &sources));
    }
    Ok(lines)
}

fn print(out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    let mut about = "";
    for line in lines {
        if line.about != about {
            writeln!(out, "{}", line.about)?;
            about = &line.about;
        }
        let outcome = match line.outcome {
            Outcome::Proved => "proved",
            Outcome::Finding => "FINDING",
            Outcome::Open => "open",
            Outcome::Note => "note",
        };
        writeln!(out, "  {outcome:<8} {}", line.text)?;
    }
    Ok(())
}
