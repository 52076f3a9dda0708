//! `rowstamp store list`: what is in the store, for people or as JSON.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::cli::output::stdout;
use crate::cli::table::table;
use crate::cli::{ConfigArg, EXIT_FOUND};
use crate::config::load_file;
use crate::ids::layout::Layout;
use crate::opened::store::OperatorStore;
use crate::store::record::{self, decode};
use crate::store::{
    BindingRecord, GeneratorRecord, Json, Key, MovedRecord, ProxyRecord, StoreError, SuspectRecord, Versioned,
};

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Print one JSON object with every field of every record.
    #[arg(long)]
    pub json: bool,
}

pub(super) async fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let operator = OperatorStore::open_as_it_is(&loaded.config).await?;
    let moved = record::moved(&*operator.store).await?;
    let listing = Listing::of(&operator.store.list("").await?);
    let mut out = stdout();
    if args.json {
        writeln!(out, "{:#}", listing.json())?;
    } else {
        write!(out, "{}", listing.text())?;
    }
    for error in &listing.damaged {
        eprintln!("error: {error}");
    }
    if let Some(SuspectRecord { by, since, reason, .. }) = &listing.suspect {
        eprintln!(
            "error: {by} suspects since {since} that the store holds older data than before: {reason}; no proxy issues ids \
             until you run `rowstamp store raise --settle`"
        );
    }
    if let Some(MovedRecord { to, since, .. }) = &moved {
        eprintln!("error: {}", StoreError::Moved { to: to.clone(), since: since.clone() });
    }
    let is_fine = moved.is_none() && listing.suspect.is_none() && listing.damaged.is_empty();
    Ok(ExitCode::from(if is_fine { 0 } else { EXIT_FOUND }))
}

/// The records, by the names in their keys.
#[derive(Default)]
struct Listing {
    generators: Vec<(String, GeneratorRecord)>,
    /// Generator and node.
    slots: Vec<(String, String, GeneratorRecord)>,
    bindings: Vec<(String, BindingRecord)>,
    proxies: Vec<(String, ProxyRecord)>,
    suspect: Option<SuspectRecord>,
    /// Errors of records that cannot be read.
    damaged: Vec<StoreError>,
}

impl Listing {
    fn of(records: &[(Key, Versioned<Json>)]) -> Self {
        let mut listing = Listing::default();
        for (key, found) in records {
            let name = |prefix: &str| key.as_str().strip_prefix(prefix).map(str::to_owned);
            let json = &found.value;
            if let Some(generator) = name(Key::GENERATORS) {
                let record = listing.read(key, json);
                listing.generators.extend(record.map(|record| (generator, record)));
            } else if let Some(table) = name(Key::BINDINGS) {
                let record = listing.read(key, json);
                listing.bindings.extend(record.map(|record| (table, record)));
            } else if let Some(proxy) = name(Key::PROXIES) {
                let record = listing.read(key, json);
                listing.proxies.extend(record.map(|record| (proxy, record)));
            } else if *key == Key::suspect() {
                listing.suspect = listing.read(key, json);
            } else if let Some(slot) = name(Key::SLOTS)
                && let Some((generator, node)) = slot.split_once('/')
            {
                let record = listing.read(key, json);
                listing.slots.extend(record.map(|record| (generator.to_owned(), node.to_owned(), record)));
            }
        }
        listing
    }

    fn read<T: DeserializeOwned>(&mut self, key: &Key, json: &[u8]) -> Option<T> {
        decode(key, json).map_err(|error| self.damaged.push(error)).ok()
    }

    fn text(&self) -> String {
        let generators = self
            .generators
            .iter()
            .map(|(name, record)| [name.clone(), bound(record), record.kind.clone(), record.owner.clone()]);
        let slots = self
            .slots
            .iter()
            .map(|(name, node, record)| [name.clone(), node.clone(), bound(record), record.owner.clone()]);
        let bindings = self.bindings.iter().map(|(table, BindingRecord { generator, floor, .. })| {
            [table.clone(), generator.clone(), floor.to_string()]
        });
        let proxies = self.proxies.iter().map(|(name, ProxyRecord { address, version, since, .. })| {
            [name.clone(), address.clone(), version.clone(), since.clone()]
        });
        let parts = [
            table(["GENERATOR", "BOUND", "KIND", "OWNER"], generators),
            table(["GENERATOR", "NODE", "BOUND", "OWNER"], slots),
            table(["TABLE", "GENERATOR", "FLOOR"], bindings),
            table(["PROXY", "ADDRESS", "VERSION", "SINCE"], proxies),
        ];
        let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        if text.is_empty() { "the store has no generators\n".to_owned() } else { text }
    }

    fn json(&self) -> Value {
        let named = |name: &str, record: Map<String, Value>| {
            let name = ("name".to_owned(), Value::from(name));
            Value::Object([name].into_iter().chain(record).collect())
        };
        let slots = self.slots.iter().map(|(name, node, record)| {
            let node = ("node".to_owned(), Value::from(node.as_str()));
            named(name, [node].into_iter().chain(fields(record)).collect())
        });
        let mut all = Map::new();
        let mut put = |part: &str, value: Value| drop(all.insert(part.to_owned(), value));
        put("generators", self.generators.iter().map(|(name, record)| named(name, fields(record))).collect());
        put("slots", slots.collect());
        put("bindings", self.bindings.iter().map(|(name, record)| named(name, fields(record))).collect());
        put("proxies", self.proxies.iter().map(|(name, record)| named(name, fields(record))).collect());
        put("suspect", self.suspect.as_ref().map_or(Value::Null, |record| Value::Object(fields(record))));
        Value::Object(all)
    }
}

/// An id, or the time that a timestamp generator's tick is.
fn bound(record: &GeneratorRecord) -> String {
    match record.layout.as_deref().map(str::parse::<Layout>) {
        Some(Ok(layout)) => layout.time_of(record.bound).to_string(),
        _ => record.bound.to_string(),
    }
}

fn fields<T: Serialize>(record: &T) -> Map<String, Value> {
    match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        // No record is anything else.
        _ => Map::new(),
    }
}
