//! `rowstamp store export`, `import` and `move`: bounds and bindings, from one store to another.
//! Floors only rise.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::output::stdout;
use crate::cli::store::known;
use crate::cli::{ConfigArg, EXIT_FOUND};
use crate::config::{Loaded, load_file, load_other_file};
use crate::ids::layout::{Layout, Moment};
use crate::ids::reach::Reach;
use crate::ids::{ID_MAX, bound_of};
use crate::opened::store::{OperatorStore, described};
use crate::store::record::{self, decode, encode, fresh_token};
use crate::store::{BindingRecord, GeneratorRecord, Json, Key, Outcome, StoreError};

/// The name of this command as the last writer in a generator's record.
const OWNER: &str = "rowstamp store import";

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 16;

/// Bounds of timestamp generators are ahead of the clock by what is reserved.
const TIME_AHEAD_MAX: Duration = Duration::from_hours(24);

/// A line is one record; the longest is a few hundred bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// A new file; - is standard output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The file that `export` wrote; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Confirm a large raise: to more than 1000 times the ids in use, or to more than half of the range.
    /// The error without --yes has the numbers.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The configuration of the store to move from. That store is marked as moved: proxies refuse it
    /// until the bounds are moved back. Keys in the environment do not apply to this configuration.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
}

/// A record as a line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    value: Value,
}

pub(super) async fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let operator = OperatorStore::open(&load_file(&args.config.config)?.config).await?;
    let lines = lines(&operator).await?;
    let live = operator.proxies().await?;
    if !live.is_empty() {
        eprintln!(
            "note: proxies run and continue to raise bounds, so the export is soon below the store: {}",
            live.join(", ")
        );
    }
    if args.file == Path::new("-") {
        // Not `output::stdout`: a reader that ends has a part of the bounds only.
        write(io::stdout().lock(), &lines).context("the export is not complete")?;
    } else {
        let file = OpenOptions::new().write(true).create_new(true).open(&args.file);
        let file = file.with_context(|| {
            format!("Rowstamp cannot create {}; name a file that does not exist", args.file.display())
        })?;
        write(&file, &lines)?;
        file.sync_all()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(to: impl Write, lines: &[Line]) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    for line in lines {
        serde_json::to_writer(&mut to, line)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

pub(super) async fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let from = args.file.display().to_string();
    let records = if args.file == Path::new("-") {
        read(&from, io::stdin().lock())?
    } else {
        let file = std::fs::File::open(&args.file).with_context(|| format!("{from} cannot be read"))?;
        read(&from, BufReader::new(file))?
    };
    let operator = OperatorStore::open_or_make(&loaded.config).await?;
    if !args.yes {
        be_near(&operator, &loaded, &from, &records).await?;
    }
    put(&operator, &from, &records).await
}

/// An error where a bound of the file looks like a typing error: far above what is in use, or far
/// in the future.
async fn be_near(
    operator: &OperatorStore,
    loaded: &Loaded,
    from: &str,
    records: &[(Key, Json)],
) -> anyhow::Result<()> {
    let mut far = Vec::new();
    for (key, json) in records {
        let is_generator = |part: &str| key.as_str().starts_with(part);
        if !is_generator(Key::GENERATORS) && !is_generator(Key::SLOTS) {
            continue;
        }
        let record: GeneratorRecord = decode(key, json)?;
        if let Some(layout) = record.layout.as_deref().and_then(|layout| layout.parse::<Layout>().ok()) {
            let time = layout.time_of(record.bound);
            if time > Moment::from(SystemTime::now() + TIME_AHEAD_MAX) {
                far.push(format!(
                    "{key}: its bound, {time}, is more than a day ahead of this machine's clock"
                ));
            }
        } else if let Some(name) = key.as_str().strip_prefix(Key::GENERATORS) {
            let bound = bound_of(&*operator.store, name).await?;
            // The backend is asked only where it may make a difference: there may be thousands.
            if (Reach { bound, highest: None, max: ID_MAX }).far(record.bound).is_some()
                && let Some(why) = known::far(loaded, name, bound, record.bound).await
            {
                far.push(format!("{name}: {why}"));
            }
        }
    }
    for why in &far {
        eprintln!("error: {from}: {why}");
    }
    if far.is_empty() {
        return Ok(());
    }
    bail!("nothing was written; if these bounds are right, add --yes");
}

pub(super) async fn run_move(args: &MoveArgs) -> anyhow::Result<ExitCode> {
    let (loaded, other) = (load_file(&args.config.config)?, load_other_file(&args.from)?);
    let from = args.from.display().to_string();
    let source = OperatorStore::open_as_it_is(&other.config).await?;
    be_quiet(&source, &from).await?;
    let to = described(&loaded.config);
    // A move that was interrupted continues if it is run again.
    if record::moved(&*source.store).await?.is_none_or(|moved| moved.to != to) {
        record::has_not_moved(&*source.store).await.with_context(|| from.clone())?;
    }
    let lines = lines(&source).await?;
    let mut records = Vec::with_capacity(lines.len());
    for line in &lines {
        records.push(record(line)?);
    }
    let operator = OperatorStore::make(&loaded.config).await?;
    if described(&other.config) == to {
        bail!("{from} has the same store, {to}; name the configuration of the store to move from");
    }
    let code = put(&operator, &from, &records).await?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    // From here on no proxy starts there. One that started before is seen.
    record::move_to(&*source.store, &to).await?;
    be_quiet(&source, &from).await?;
    if self::lines(&source).await? != lines {
        bail!(
            "the store of {from} changed during the move; stop the proxies that write to it, then move again"
        );
    }
    // The bounds may have been moved away from this store earlier. Now they are back.
    record::move_to(&*operator.store, "").await?;
    writeln!(stdout(), "the store of {from} is marked as moved: its bounds are now in {to}")?;
    Ok(code)
}

/// An error where proxies live that would raise bounds in the store of `from` while others work
/// with the new one.
async fn be_quiet(source: &OperatorStore, from: &str) -> anyhow::Result<()> {
    let why = |live| {
        format!(
            "proxies use the store of {from} and would continue to issue ids: {live}; stop them, then move"
        )
    };
    source.be_alone(why).await
}

/// The records that an export contains: all except those of proxies and of the store itself.
async fn lines(operator: &OperatorStore) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (key, found) in operator.store.list("").await? {
        if key == Key::suspect() {
            bail!(
                "the store may hold older data than before, as after a restore, so its bounds may be too low; run \
                 `rowstamp store raise --settle` first"
            );
        }
        if !is_portable(&key) {
            continue;
        }
        if key.as_str().strip_prefix(Key::GENERATORS).is_some_and(|name| !name.contains('.')) {
            bail!(
                "{key} cannot be exported: it is a tag of Leaf's table, which names no schema; raise its generator in the new \
                 store with `rowstamp store raise SCHEMA.NAME --to BOUND`"
            );
        }
        lines.push(Line { key: key.to_string(), value: decode(&key, &found.value)? });
    }
    Ok(lines)
}

fn is_portable(key: &Key) -> bool {
    let is_about_proxies = [Key::PROXIES, Key::WITNESSES].iter().any(|part| key.as_str().starts_with(part));
    !is_about_proxies
        && ![Key::format(), Key::identity(), Key::moved(), Key::primary(), Key::suspect()].contains(key)
}

fn read(from: &str, file: impl BufRead) -> anyhow::Result<Vec<(Key, Json)>> {
    let mut records = Vec::new();
    let mut file = file;
    for number in 1.. {
        let mut text = Vec::new();
        let place = || format!("{from}:{number}");
        file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text).with_context(place)?;
        if text.is_empty() {
            break;
        }
        let line: Line = serde_json::from_slice(&text)
            .with_context(|| format!("{from}:{number}: this is no line of `rowstamp store export`"))?;
        records.push(record(&line).with_context(place)?);
    }
    Ok(records)
}

/// A line that can be put into a store.
fn record(line: &Line) -> anyhow::Result<(Key, Json)> {
    let (key, json) = (Key::of(&line.key), encode(&line.value));
    if !is_portable(&key) {
        bail!("{key} belongs to one store only and is never exported; remove the line");
    }
    // This finds a record that is damaged, or of a newer format, before anything is written.
    merged(&key, &json, None)?;
    Ok((key, json))
}

/// Raises what stands to what came; nothing is written where something does not fit.
async fn put(operator: &OperatorStore, from: &str, records: &[(Key, Json)]) -> anyhow::Result<ExitCode> {
    let mut misfits = Vec::new();
    for (key, json) in records {
        let stands = operator.store.load(key).await?;
        if let Err(error) = merged(key, json, stands.as_ref().map(|found| &*found.value)) {
            misfits.push(error);
        }
    }
    for misfit in &misfits {
        eprintln!("error: {from}: {misfit}");
    }
    if !misfits.is_empty() {
        eprintln!("nothing was written");
        return Ok(ExitCode::from(EXIT_FOUND));
    }
    // A generator is raised before a table is assigned to it.
    let (bindings, others): (Vec<_>, Vec<_>) =
        records.iter().partition(|(key, _)| key.as_str().starts_with(Key::BINDINGS));
    let mut changed = 0;
    for (key, json) in others.into_iter().chain(bindings) {
        changed += u32::from(put_one(operator, key, json).await?);
    }
    writeln!(
        stdout(),
        "{from}: records: {}, written: {changed}; the others were already as high",
        records.len()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a record, unless the store's is as high. True if it had to be written.
async fn put_one(operator: &OperatorStore, key: &Key, json: &[u8]) -> anyhow::Result<bool> {
    for _ in 0..ATTEMPTS_MAX {
        let stands = operator.store.load(key).await?;
        let (revision, value) =
            stands.map_or((None, None), |found| (Some(found.revision), Some(found.value)));
        let Some(record) = merged(key, json, value.as_deref())? else { return Ok(false) };
        match operator.store.compare_and_set(key, revision, &record).await {
            Ok(Outcome::Written(_)) => return Ok(true),
            Ok(Outcome::Conflict(_)) | Err(StoreError::UnknownOutcome { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("{key} could not be written in {ATTEMPTS_MAX} attempts; import again");
}

#[derive(Debug, thiserror::Error)]
enum Misfit {
    #[error("{key} is {there}, but {here} in this store; give one of the two generators another name")]
    Generator { key: Key, there: String, here: String },
    #[error(
        "table {table} has generator {there}, but {here} in this store, and the two could issue the same ids; change the rules \
         of one store, so that its proxies move the table first"
    )]
    Binding { table: String, there: String, here: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The record that is to stand; `None`: what stands is as high.
fn merged(key: &Key, came: &[u8], stands: Option<&[u8]>) -> Result<Option<Json>, Misfit> {
    let is = |part: &str| key.as_str().starts_with(part);
    if is(Key::GENERATORS) || is(Key::SLOTS) {
        let there: GeneratorRecord = decode(key, came)?;
        let Some(here) = stands else { return Ok(Some(came.to_vec())) };
        let here: GeneratorRecord = decode(key, here)?;
        let text = |record: &GeneratorRecord| match &record.layout {
            Some(layout) => format!("of kind {} with layout {layout}", record.kind),
            None => format!("of kind {}", record.kind),
        };
        if (&there.kind, &there.layout) != (&here.kind, &here.layout) {
            return Err(Misfit::Generator { key: key.clone(), there: text(&there), here: text(&here) });
        }
        if there.bound <= here.bound {
            return Ok(None);
        }
        let (bound, owner) = (there.bound, OWNER.to_owned());
        return Ok(Some(encode(&GeneratorRecord { bound, owner, token: fresh_token(), ..here })));
    }
    if let Some(table) = key.as_str().strip_prefix(Key::BINDINGS) {
        let there: BindingRecord = decode(key, came)?;
        let Some(here) = stands else { return Ok(Some(came.to_vec())) };
        let here: BindingRecord = decode(key, here)?;
        if there.generator != here.generator {
            let table = table.to_owned();
            return Err(Misfit::Binding { table, there: there.generator, here: here.generator });
        }
        let floor = there.floor;
        return Ok((floor > here.floor).then(|| encode(&BindingRecord { floor, ..here })));
    }
    // Users, and records of a later version: a record that the store has already is kept.
    decode::<Value>(key, came)?;
    Ok(stands.is_none().then(|| came.to_vec()))
}
