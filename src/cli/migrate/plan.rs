//! `rowstamp migrate plan`: which tables have AUTO_INCREMENT, how far they reach, and rules for
//! them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::shards::{self, Choice, Shard};
use crate::cli::output::stdout;
use crate::cli::table::table;
use crate::cli::{ConfigArg, Usage};
use crate::config::{Loaded, load_file};
use crate::ids::layout::presets::Preset;
use crate::lint::report::Report;
use crate::lint::{self, Code};
use crate::migrate::databases::{Databases, Group, groups};
use crate::migrate::interleave::{Counting, VARIABLES};
use crate::migrate::proposed::{Proposal, with};
use crate::migrate::rules_file::{Addition, Part, additions, file_name, text};
use crate::migrate::survey::{Ruled, Severity, Surveyed, Wanted, server_notes};
use crate::opened;
use crate::schema::IdColumn;
use crate::schema::facts::Facts;
use crate::toml_file::nearest;

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    #[command(flatten)]
    pub choice: Choice,
    /// The kind of the proposed generators.
    #[arg(long, value_enum, value_name = "KIND", default_value = "sequence")]
    pub kind: Kind,
    /// With --kind timestamp: the layout of the ids, as the name of a preset (`rowstamp decode
    /// --help` lists the presets).
    #[arg(long, value_name = "NAME", required_if_eq("kind", "timestamp"))]
    pub layout: Option<String>,
    /// Propose sequences of even ids, for tables that clients write to directly and through the
    /// proxy during the move.
    #[arg(long)]
    pub interleave: bool,
    /// Write the rules, with mode = "off", to SCHEMA.toml in the rules' folder. Entries that are
    /// there already stay unchanged.
    #[arg(long)]
    pub write: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Sequence,
    Timestamp,
}

pub(super) async fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let wanted = wanted(args)?;
    let loaded = load_file(&args.config.config)?;
    let shards = shards::open(&loaded.config, &[]).await?;
    let Some(shard) = shards.first() else { return Err(Usage("backend.address is empty".to_owned()).into()) };
    let tables = survey(shard, &args.choice, &loaded, &wanted).await?;
    let counting = Counting::of(&shard.schema.globals(&VARIABLES).await?);
    let server = server_notes(&counting, &wanted);
    let groups = groups(&tables, &shard.schema.schemas().await?, &loaded.rules);
    let files = files(&groups, &loaded, &wanted)?;
    let checked = checked(shard, &loaded, &tables, &files, &wanted).await?;
    if args.write {
        files.iter().try_for_each(write)?;
    }
    let mut out = stdout();
    if args.json {
        let rules = files.iter().map(|file| {
            json!({ "file": file.path, "text": file.text, "is_written": args.write, "tables": file.tables() })
        });
        let rules: Vec<_> = rules.collect();
        let all = json!({
            "server": shard.name, "findings": server, "tables": tables, "checked": checked.findings, "rules": rules
        });
        writeln!(out, "{all:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    print_tables(&mut out, shard, &tables)?;
    let of_server = server.iter().map(|note| (shard.name.clone(), note));
    let of_tables = tables.iter().flat_map(|table| table.findings.iter().map(|note| (table.name(), note)));
    for (about, note) in of_server.chain(of_tables) {
        let severity = if note.severity == Severity::Error { "error" } else { "warning" };
        writeln!(out, "{severity}: {about}: {}; {}", note.why, note.remedy)?;
    }
    if !checked.findings.is_empty() {
        writeln!(
            out,
            "\n`rowstamp check --online` reports this for these tables with their rules on:\n\n{}",
            checked.to_string().trim_end()
        )?;
    }
    for file in &files {
        writeln!(out)?;
        if args.write {
            writeln!(out, "{}: {}", file.path.display(), file.news())?;
        } else {
            writeln!(out, "{} (--write writes it):\n", file.path.display())?;
            write!(out, "{}", file.text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted(args: &PlanArgs) -> Result<Wanted, Usage> {
    if args.kind == Kind::Sequence {
        return match args.layout {
            Some(_) => Err(Usage("--layout is for --kind timestamp".to_owned())),
            None => Ok(Wanted::Sequence { is_even: args.interleave }),
        };
    }
    if args.interleave {
        let why = concat!(
            "--interleave is for sequences: after a timestamp id the server's counter would continue among the ids to come; move \
             the table with a sequence, and change to timestamps when all clients write through the proxy: ",
            crate::book::page!("migrate")
        );
        return Err(Usage(why.to_owned()));
    }
    let name = args.layout.as_deref().unwrap_or_default();
    let Some(preset) = Preset::living().find(|preset| preset.name == name) else {
        let near = nearest(name, Preset::living().map(|preset| preset.name));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        return Err(Usage(format!("there is no layout {name:?}{near}")));
    };
    let layout = preset.layout();
    let last = layout.compose(layout.last_tick(), 0, 0).unwrap_or(i64::MAX.unsigned_abs());
    Ok(Wanted::Timestamp { layout: name.to_owned(), last })
}

async fn survey(
    shard: &Shard,
    choice: &Choice,
    loaded: &Loaded,
    wanted: &Wanted,
) -> anyhow::Result<Vec<Surveyed>> {
    let mut counters = shard.schema.counters(&choice.schemas).await?;
    counters.retain(|counter| choice.has(&counter.schema, &counter.table));
    let columns: Vec<_> = counters
        .iter()
        .map(|of| IdColumn { schema: &of.schema, table: &of.table, column: &of.column.name })
        .collect();
    let highest = shard.schema.highest_ids(&columns).await?;
    let case = shard.schema.name_case().await?;
    let rules = (&loaded.rules, case);
    let surveyed =
        counters.iter().zip(highest).map(|(counter, highest)| Surveyed::of(counter, highest, wanted, rules));
    Ok(surveyed.collect::<Result<_, _>>()?)
}

/// Findings that are left out: the steps of the migration take care of them, or the printed table shows them.
const SAID_ELSEWHERE: [Code; 4] =
    [Code::AutoIncrementKept, Code::StepDiffers, Code::DriverStep, Code::ColumnNearlyFull];

/// The findings of `check --online` for these tables, by the rules that they have and those that
/// are proposed.
async fn checked(
    shard: &Shard,
    loaded: &Loaded,
    tables: &[Surveyed],
    files: &[NewFile],
    wanted: &Wanted,
) -> anyhow::Result<Report> {
    let proposals: Vec<_> = files
        .iter()
        .filter(|file| file.has_rules)
        .map(|file| Proposal {
            databases: &file.databases,
            generators_of: &file.generators_of,
            file: &file.path,
            added: &file.added,
        })
        .collect();
    let rules = with(&loaded.rules, &proposals, wanted);
    let facts = Facts::read(&shard.schema, &rules).await?;
    let mut findings = lint::findings(&facts, &rules, &opened::facts::facts(&loaded.config).await, None);
    let names: Vec<_> = tables.iter().map(Surveyed::name).collect();
    findings.retain(|finding| {
        let is_ours = match &finding.place.table {
            Some(table) => names.contains(table),
            None => finding.severity != lint::Severity::Note,
        };
        is_ours && !SAID_ELSEWHERE.contains(&finding.code)
    });
    Ok(Report::of(findings))
}

/// A rules file as it would be.
struct NewFile {
    path: PathBuf,
    text: String,
    databases: Databases,
    generators_of: String,
    /// Without rules: the generators alone.
    has_rules: bool,
    added: Vec<Addition>,
}

impl NewFile {
    /// The number of tables that the file's new rules are for.
    fn tables(&self) -> usize {
        if self.has_rules { self.added.iter().map(|one| one.tables).sum() } else { 0 }
    }

    /// A text that says what is new in the file.
    fn news(&self) -> String {
        let generators = self.added.iter().filter(|one| one.makes_generator).count();
        match (self.has_rules, self.tables()) {
            (false, _) if generators == 1 => "1 generator is new".to_owned(),
            (false, _) => format!("{generators} generators are new"),
            (true, 1) => "1 table is new, with mode = \"off\"".to_owned(),
            (true, tables) => format!("{tables} tables are new, with mode = \"off\""),
        }
    }
}

fn files(groups: &[Group<'_>], loaded: &Loaded, wanted: &Wanted) -> anyhow::Result<Vec<NewFile>> {
    let mut files = Vec::new();
    for group in groups {
        let added = additions(group, &loaded.rules);
        let of_generators = Databases::One(group.generators_of.clone());
        // A file has the generators of one schema.
        let parts = if group.is_of_shards() {
            let makes = added.iter().any(|one| one.makes_generator);
            vec![(&group.databases, true, false), (&of_generators, false, true)]
                .into_iter()
                .filter(|(_, has_rules, _)| *has_rules || makes)
                .collect()
        } else {
            vec![(&group.databases, true, true)]
        };
        for (databases, has_rules, has_generators) in parts.into_iter().filter(|_| !added.is_empty()) {
            let generators_of = &*group.generators_of;
            let part = Part { databases, generators_of, has_rules, has_generators };
            let name =
                if has_generators { generators_of.to_owned() } else { format!("{generators_of}-shards") };
            let path = loaded.config.rules.path.join(file_name(&name));
            let text = new_text(&path, &part, &added, wanted, &files)?;
            files.push(NewFile {
                path,
                text,
                databases: databases.clone(),
                generators_of: generators_of.to_owned(),
                has_rules,
                added: added.clone(),
            });
        }
    }
    Ok(files)
}

fn new_text(
    path: &Path,
    part: &Part<'_>,
    added: &[Addition],
    wanted: &Wanted,
    others: &[NewFile],
) -> anyhow::Result<String> {
    let old = match fs::read_to_string(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    if let Some(other) = others.iter().find(|file| file.path == path) {
        let why = format!(
            "the rules of {} and of {} would both be in {}: write the rules of one with --schema, rename the file, then write the \
             other rules",
            part.databases.names().join(", "),
            other.databases.names().join(", "),
            path.display()
        );
        return Err(Usage(why).into());
    }
    Ok(text(path, old.as_deref(), part, added, wanted)?)
}

/// Whole: a running proxy that watches the folder never sees half of it.
fn write(file: &NewFile) -> anyhow::Result<()> {
    let folder = file.path.parent().unwrap_or(Path::new("."));
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let making = folder.join(format!(".{name}.new"));
    let cannot = || format!("{} cannot be written", file.path.display());
    let written = fs::File::create(&making).and_then(|mut new| {
        new.write_all(file.text.as_bytes())?;
        if let Ok(old) = fs::metadata(&file.path) {
            new.set_permissions(old.permissions())?;
        }
        new.sync_all()
    });
    written.and_then(|()| fs::rename(&making, &file.path)).with_context(cannot)
}

fn print_tables(out: &mut impl Write, shard: &Shard, tables: &[Surveyed]) -> io::Result<()> {
    if tables.is_empty() {
        return writeln!(out, "{}: no chosen table has AUTO_INCREMENT", shard.name);
    }
    let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let row = |one: &Surveyed| {
        let rule = match &one.rule {
            Ruled::None => "-".to_owned(),
            Ruled::Off { generator } => format!("off ({generator})"),
            Ruled::On { generator } => format!("on ({generator})"),
        };
        [
            one.name(),
            one.column.clone(),
            one.column_type.clone(),
            format!("~{}", one.rows_approximate),
            number(one.max_id),
            one.counter.to_string(),
            number(one.left),
            one.left_percent.map_or_else(|| "?".to_owned(), |percent| format!("{percent} %")),
            rule,
        ]
    };
    let head = ["TABLE", "COLUMN", "TYPE", "ROWS", "MAX(ID)", "COUNTER", "IDS LEFT", "LEFT", "RULE"];
    write!(out, "{}", table(head, tables.iter().map(row)))?;
    writeln!(out, "\nROWS is the engine's estimate; COUNTER is the next id of the server's counter.")
}
