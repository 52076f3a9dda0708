//! The store of the bounds: small versioned records, written by one compare-and-set.
//!
//! Whatever implements [`Store`] must pass `conformance`. The generators' safety rests on three of its properties:
//! a write that was answered with [`Outcome::Written`] survives any crash, [`Store::load`] sees every write that was
//! answered before it began, and of two writes that expect the same revision at most one is done.

#[cfg(test)]
pub(crate) mod conformance;
pub mod embedded;
pub mod etcd;
pub mod gate;
#[cfg(any(test, feature = "test-util"))]
pub mod memory;
pub mod metered;
pub mod mysql;
pub mod record;

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::sync::watch;

pub use record::{
    BindingRecord, GeneratorRecord, IdentityRecord, MovedRecord, ProxyRecord, SuspectRecord, WitnessRecord,
};

/// The newest format of the store that this build reads and writes.
pub const FORMAT: u64 = 1;

/// A record's name. The same in every kind of store; etcd puts its prefix in front.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    pub const GENERATORS: &'static str = "generators/";
    pub const BINDINGS: &'static str = "bindings/";
    pub const PROXIES: &'static str = "proxies/";
    pub const SLOTS: &'static str = "slots/";
    pub const WITNESSES: &'static str = "witness/";
    pub const USERS: &'static str = "users/";

    pub fn format() -> Self {
        Key("format".to_owned())
    }

    /// `name` is `schema.generator`.
    pub fn generator(name: &str) -> Self {
        Key(format!("{}{name}", Self::GENERATORS))
    }

    /// `name` is `schema.generator`; what one of its nodes has reserved.
    pub fn slot(name: &str, node: u64) -> Self {
        Key(format!("{}{name}/{node}", Self::SLOTS))
    }

    /// The beginning of the keys of a generator's nodes.
    pub fn slots(name: &str) -> String {
        format!("{}{name}/", Self::SLOTS)
    }

    /// `table` is `schema.table`.
    pub fn binding(table: &str) -> Self {
        Key(format!("{}{table}", Self::BINDINGS))
    }

    /// `name` is `proxy.name`.
    pub fn proxy(name: &str) -> Self {
        Key(format!("{}{name}", Self::PROXIES))
    }

    /// `name` is `proxy.name`.
    pub fn witness(name: &str) -> Self {
        Key(format!("{}{name}", Self::WITNESSES))
    }

    pub fn user(name: &str) -> Self {
        Key(format!("{}{name}", Self::USERS))
    }

    /// Written after each change of a user: what is read here says whether there is anything new to read.
    pub fn user_changes() -> Self {
        Key("users".to_owned())
    }

    pub fn identity() -> Self {
        Key("identity".to_owned())
    }

    pub fn suspect() -> Self {
        Key("suspect".to_owned())
    }

    /// Present, and not taken back: the bounds live elsewhere.
    pub fn moved() -> Self {
        Key("moved".to_owned())
    }

    /// For a store that is a table: the server that the table is used on.
    pub fn primary() -> Self {
        Key("primary".to_owned())
    }

    /// The key from its text, as [`Key::as_str`] has it.
    pub fn of(text: &str) -> Self {
        Key(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a record was last written, on the store's own count (etcd's `mod_revision`). Only equality means anything to
/// a generator; a store never gives one record the same revision twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    pub revision: Revision,
    pub value: T,
}

/// The content of a record: JSON, read and written by [`record`].
pub type Json = Vec<u8>;

/// One of several compare-and-sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub key: Key,
    /// `None`: if there is no record.
    pub expected: Option<Revision>,
    pub value: Json,
}

/// The answer to a compare-and-set that is known to have been done or not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and durable.
    Written(Revision),
    /// Not done: the record was not at the expected revision. The record that stands there now; `None`: there is none.
    Conflict(Option<Versioned<Json>>),
}

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The record under `key`, every answered write included.
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>>;

    /// All records whose keys start with `prefix`, in the order of their keys.
    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>>;

    /// Writes `value` if the record is at `expected` (`None`: if there is none), in one atomic, durable step.
    /// [`StoreError::UnknownOutcome`]: it may have been done, or may yet be. A future that is dropped leaves the
    /// outcome unknown too.
    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome>;

    /// Several compare-and-sets, in as few steps as the store can do them. For each whether it was written, as
    /// [`Outcome::Written`] says it. Where not, nobody knows why: the record is to be read again, and may even have been written. An
    /// error: any of them may have been written, or may yet be.
    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let mut written = Vec::with_capacity(writes.len());
        for Write { key, expected, value } in writes {
            let outcome = self.compare_and_set(key, *expected, value).await?;
            written.push(matches!(outcome, Outcome::Written(_)));
        }
        Ok(written)
    }

    /// Grows each time that an operator has raised all floors after the store went back. What was seen of it before counts for
    /// nothing.
    fn era(&self) -> u64 {
        0
    }

    /// Changes whenever the store is found to have gone back: all that is reserved must be given up. Changes
    /// also when an operator has settled the store: [`Store::era`] is then another, and the records beside the bounds may be lost.
    fn recalls(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// A clean end.
    async fn close(&self) {}
}

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    #[error("the store ({store}) is not available: {reason}")]
    Unavailable { store: String, reason: String },
    #[error("other proxies changed {record} in the store in each of {attempts} attempts; try again")]
    Contended { record: String, attempts: u32 },
    #[error(
        "the store ({store}) refuses requests of Rowstamp: {reason}; check store.user, its password and its rights"
    )]
    Refused { store: String, reason: String },
    #[error("the store ({store}) did not confirm whether it has written {key}: {reason}")]
    UnknownOutcome { store: String, key: Key, reason: String },
    #[error(
        "{place} in the store is damaged: {reason}; restore the store, and do the steps of {} before proxies start",
        crate::book::page!("restore")
    )]
    Corrupt { place: String, reason: String },
    #[error(
        "{place} has format {found}, and this version of Rowstamp reads formats up to {known}; run the version that wrote \
         the format, or a newer one"
    )]
    NewerFormat { place: String, found: u64, known: u64 },
    #[error(
        "{} is in use by another Rowstamp process; stop that process first (`rowstamp status` and the console show the \
         generators of a proxy that runs); only a proxy for other tables may have another store.path",
        path.display()
    )]
    InUse { path: PathBuf },
    /// Noticed here or by another proxy.
    #[error(
        "the store ({store}) seems to hold older data than before, as after a restore: {reason}; no ids are issued until you \
         run `rowstamp store raise --settle` ({})",
        crate::book::page!("restore")
    )]
    Suspect { store: String, reason: String },
    #[error(
        "the proxy at {address} has used the name {name} since {since}; stop that proxy, or give each proxy its own proxy.name"
    )]
    NameTaken { name: String, address: String, since: String },
    #[error(
        "table {table} is bound to generator {generator}, and can move to another only while one proxy runs; stop the other \
         proxies ({others}), reload or start this proxy, then start the others with the new rules"
    )]
    Shared { table: String, generator: String, others: String },
    #[error(
        "node {node} of generator {generator} belongs to proxy {by}, which is running; give each proxy another node, or write \
         node = \"auto\""
    )]
    NodeTaken { generator: String, node: u64, by: String },
    #[error(
        "all nodes of generator {generator} belong to running proxies (running: {living}); stop a proxy, or use a generator of \
         another name whose layout has more bits for the node"
    )]
    NoNode { generator: String, living: usize },
    #[error(
        "node {node} of generator {generator} went to proxy {to} while this proxy was away; this proxy issues no more ids of \
         the node"
    )]
    NodeLost { generator: String, node: u64, to: String },
    #[error(
        "node {node} of generator {generator} is missing in the store, which is a restored copy; this proxy issues no \
         more ids of the node"
    )]
    NodeGone { generator: String, node: u64 },
    #[error(
        "a table was moved away from {key} while this proxy was away; this proxy reserves no ids there before it has read the \
         bindings again"
    )]
    TableMoved { key: Key },
    #[error(
        "this store was moved to {to} ({since}): its bounds are old, and ids from this store would come twice; use the \
         configuration of that store, or move the bounds back with `rowstamp store move --from` that configuration"
    )]
    Moved { to: String, since: String },
    #[error("cannot open the store {}: {reason}; {remedy}", path.display())]
    Open { path: PathBuf, reason: String, remedy: String },
    /// A bound lower than one that was committed: a restored copy, or somebody wrote by hand.
    #[error(
        "{key} in the store has older data than before: {reason}; the generator issues no ids until you raise its bound above \
         the ids in its tables ({})",
        crate::book::page!("restore")
    )]
    SteppedBack { key: Key, reason: String },
    #[error(
        "{key} in the store is a generator of kind {found:?}, not {expected:?}; give the new generator another name"
    )]
    WrongKind { key: Key, found: String, expected: String },
    #[error(
        "{key} in the store has ids of another layout ({found}), and {expected} could make the same ids again; write the old \
         layout again, or give the new layout a generator of another name"
    )]
    OtherLayout { key: Key, found: String, expected: String },
}

impl StoreError {
    /// True if the store may well answer when it is asked again, with nothing changed.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            StoreError::Unavailable { .. } | StoreError::UnknownOutcome { .. } | StoreError::Contended { .. }
        )
    }

    /// True if a generator can never reserve again, and must be opened again.
    pub fn needs_reopening(&self) -> bool {
        matches!(
            self,
            StoreError::NodeLost { .. } | StoreError::NodeGone { .. } | StoreError::TableMoved { .. }
        )
    }
}
