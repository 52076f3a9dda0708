//! `rowstamp migrate verify`: the facts of a step, read and judged.

mod facts;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use self::facts::{StoreAccess, TableOf, read_server, read_table};
use super::shards::{Found, Target};
use crate::cli::output::stdout;
use crate::cli::{EXIT_FOUND, Usage};
use crate::ids::ID_MAX;
use crate::lint::report::counted;
use crate::migrate::doubles::Merge;
use crate::migrate::verdict::{self, Done, Ids, Line, Outcome};

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub target: Target,
    /// Check what must be true after this step. Without --step: what must be true at any time.
    #[arg(long, value_enum, value_name = "STEP")]
    pub step: Option<Done>,
    /// Only ids above this one.
    #[arg(long, value_name = "ID")]
    pub since_id: Option<u64>,
    /// Only ids up to this one.
    #[arg(long, value_name = "ID")]
    pub up_to_id: Option<u64>,
    /// The number that step interleave printed: sessions up to this number began before the
    /// increments were set. Each server numbers its own sessions: with several servers, write the
    /// option once for each --shard, in the same order.
    #[arg(long, value_name = "NUMBER")]
    pub sessions_up_to: Vec<u64>,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Ids of one page of one table: what is kept of it while tables are compared.
const PAGE_IDS: usize = 10_000;

/// A text about facts that reading the tables cannot show.
const NOT_SEEN: &str = "Not checked: rows that are deleted already, sessions that set auto_increment_increment themselves, ids that \
                        applications write themselves, and proxies that have not loaded these rules.";

pub(super) async fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let found = args.target.find().await?;
    let (servers, numbers) = (found.shards.len(), args.sessions_up_to.len());
    if numbers > 0 && numbers != servers {
        bail!(Usage(format!(
            "--sessions-up-to has {} for {}: each server numbers its own sessions; write the number that step interleave printed \
             on each server, in the order of --shard",
            counted(numbers, "number"),
            counted(servers, "server")
        )));
    }
    let lines = judge(args, &found).await?;
    let count = |outcome| lines.iter().filter(|line| line.outcome == outcome).count();
    let findings = count(Outcome::Finding);
    let mut out = stdout();
    if args.json {
        writeln!(out, "{:#}", json!({ "lines": lines, "findings": findings, "open": count(Outcome::Open) }))?;
    } else {
        print(&mut out, &lines)?;
        let (proved, open) = (count(Outcome::Proved), count(Outcome::Open));
        let findings = counted(findings, "finding");
        writeln!(out, "{proved} proved, {open} open, {findings}\n{NOT_SEEN}")?;
    }
    Ok(ExitCode::from(if findings == 0 { 0 } else { EXIT_FOUND }))
}

async fn judge(args: &VerifyArgs, found: &Found) -> anyhow::Result<Vec<Line>> {
    let Found { loaded, shards, .. } = found;
    let done = args.step;
    let range = (args.since_id.unwrap_or(0), args.up_to_id.unwrap_or(ID_MAX));
    let (mut lines, mut tables) = (Vec::new(), Vec::new());
    for (nth, (shard, of_shard)) in shards.iter().zip(&found.tables).enumerate() {
        if done.is_some() {
            let facts = read_server(shard, &loaded.config, args.sessions_up_to.get(nth).copied()).await?;
            lines.extend(verdict::server(&shard.name, &facts, done));
        }
        for (table, rule) in of_shard {
            let name = format!("{}.{table}", rule.schema);
            let about = if shards.len() > 1 { format!("{name} on {}", shard.name) } else { name };
            tables.push(TableOf { shard, table: table.clone(), rule: rule.clone(), about });
        }
    }
    lines.extend(found.absent.iter().map(|absent| {
        verdict::absent(&format!("{} on {}", absent.rule, found.names(absent)), absent.is_elsewhere)
    }));
    let store = StoreAccess::open(&loaded.config).await;
    lines.extend(store.line());
    let mut by_rule: ByRule<'_> = BTreeMap::new();
    for table in &tables {
        let facts = read_table(table, &loaded.rules, &store, range, args.since_id).await?;
        lines.extend(verdict::table(&table.about, &facts, done));
        let is_read = !matches!(facts.ids, Ids::NotRead);
        by_rule.entry((&table.rule.schema, &table.rule.table)).or_default().push((table, is_read));
    }
    for ((schema, table), tables) in &by_rule {
        lines.push(doubles(&format!("{schema}.{table}"), tables, range).await?);
    }
    Ok(by_subject(lines))
}

/// All lines about one thing together, the things in the order in which they come first.
fn by_subject(mut lines: Vec<Line>) -> Vec<Line> {
    let mut first = HashMap::new();
    for (nth, line) in lines.iter().enumerate() {
        first.entry(line.about.clone()).or_insert(nth);
    }
    lines.sort_by_key(|line| first.get(&line.about).copied());
    lines
}

/// The tables of each rule, and whether their ids are integers.
type ByRule<'a> = BTreeMap<(&'a str, &'a str), Vec<(&'a TableOf<'a>, bool)>>;

/// Compares the ids of all tables of one rule, on all servers: two tables that share an id could never be
/// merged.
async fn doubles(about: &str, tables: &[(&TableOf<'_>, bool)], range: (u64, u64)) -> anyhow::Result<Line> {
    if let [(only, _)] = tables
        && only.shard.schema.has_unique_key(only.column()).await?
    {
        return Ok(verdict::is_unique(about));
    }
    // Ids that are no integers do not have the order in which pages follow each other.
    if tables.iter().any(|(_, is_read)| !is_read) {
        return Ok(verdict::not_compared(about));
    }
    let mut merge = Merge::new(tables.len(), range.0);
    while let Some((nth, after)) = merge.wanting() {
        let Some((of, _)) = tables.get(nth) else { break };
        let page = of.shard.schema.ids_after(of.column(), (after, range.1), PAGE_IDS).await?;
        merge.give(nth, page);
    }
    let sources: Vec<_> = tables.iter().map(|(table, _)| table.about.clone()).collect();
    Ok(verdict::doubles(about, &merge.found(), &sources))
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

#[cfg(test)]
mod tests {
    use super::{by_subject, print};
    use crate::migrate::verdict::{Line, Outcome};

    #[test]
    fn each_heading_is_printed_once() {
        let line = |about: &str, text: &str| Line {
            about: about.to_owned(),
            outcome: Outcome::Proved,
            text: text.to_owned(),
        };
        let lines = [("s.b", "1"), ("s.a", "2"), ("s.a", "3"), ("s.a", "4"), ("s.b", "5")];
        let mut out = Vec::new();
        print(&mut out, &by_subject(lines.map(|(about, text)| line(about, text)).into())).unwrap();
        let expect = "s.b\n  proved   1\n  proved   5\ns.a\n  proved   2\n  proved   3\n  proved   4\n";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
