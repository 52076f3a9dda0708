//! One running proxy, as the console and the HTTP server see it and act on it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::sessions::refused::RefusedStatement as RefusedRow;
use crate::users::{Change, Changed, Directory};

/// Rows are as they are now; nothing in them is a secret, a literal of a statement or a bound value.
#[async_trait]
pub trait Desk: Send + Sync + 'static {
    fn about(&self) -> About;

    /// The checks that must pass for clients to be served, and those that should pass. [`Check::is_needed`] says which.
    fn checks(&self) -> Vec<Check>;

    /// In the order of files and lines.
    fn rules(&self) -> Vec<RuleRow>;

    /// The generators that rules name, by name.
    fn generators(&self) -> Vec<GeneratorRow>;

    /// The ports where ids are drawn without an INSERT, including those that are off.
    fn doors(&self) -> Vec<DoorRow>;

    /// The servers of `backend.address`, in that order.
    fn backends(&self) -> Vec<BackendRow>;

    /// Ascending by id.
    fn sessions(&self) -> Vec<SessionRow>;

    /// The last statement that was given ids, of each session that has one, by the session's id.
    fn last_ruled(&self) -> Vec<(u64, LastRow)>;

    /// The statements that were refused, by digest, the most frequent first.
    fn refused(&self) -> Vec<RefusedRow>;

    /// The last lines of the log, the newest first.
    fn events(&self) -> Vec<EventRow>;

    /// The proxies that live on the same store, by name. Asks the store.
    async fn proxies(&self) -> Result<Vec<ProxyRow>, DeskError>;

    /// The nodes of timestamp generators, by generator and number. Asks the store.
    async fn slots(&self) -> Result<Vec<SlotRow>, DeskError>;

    /// The generators that the store has a record of, by name, whether they are used here or not. Asks the
    /// store.
    async fn stored(&self) -> Result<Vec<StoredRow>, DeskError>;

    /// The findings of `rowstamp check --online`. Asks the backend.
    async fn findings(&self) -> Result<Vec<FindingRow>, DeskError>;

    /// Every key, by name; secrets as `***`.
    fn config(&self) -> Vec<ConfigRow>;

    /// All that is counted and measured, by name.
    fn metrics(&self) -> Vec<Metric>;

    /// The metrics that are read once a second: not those of each generator, nor those of the process.
    fn counted(&self) -> Vec<Metric>;

    /// The text that `rowstamp explain` prints for a statement; no id is issued.
    async fn explain(&self, statement: &[u8], database: Option<&str>) -> Result<String, DeskError>;

    /// Reads the files again; `dry_run`: all is checked and nothing changed.
    async fn reload(&self, dry_run: bool) -> Result<Reload, DeskError>;

    /// Raises a sequence: this proxy issues only ids from `to` on, and any proxy reserves only such ids from now on.
    /// Another proxy still issues the ids below the old bound that it reserved earlier. A number that looks like a
    /// typing error needs `is_meant`.
    async fn raise(&self, generator: &str, to: u64, is_meant: bool) -> Result<Raised, DeskError>;

    /// Pauses or resumes a generator. A paused one gives this proxy no ids; statements that need one are refused
    /// (1467). Returns `false` if nothing changed.
    fn pause(&self, generator: &str, is_paused: bool) -> Result<bool, DeskError>;

    /// Drains the proxy, as SIGTERM does.
    fn drain(&self);

    /// Ends a session at once, whatever it does.
    fn kill(&self, session: u64) -> Result<(), DeskError>;

    /// The users of the console and the doors, with their rights.
    fn users(&self) -> Arc<Directory>;

    /// `by` whom, and from which address: for the audit.
    async fn change_user(&self, change: &Change, by: &str, client: &str) -> Result<Changed, DeskError>;

    /// Notes a change that a user without the right to it asked for: for the audit.
    fn note_denied(&self, change: &Change, by: &str, client: &str, why: &str);
}

/// Why something was not done or cannot be shown: the culprit and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// The request names something that does not exist, or asks for something impossible.
    #[error("{0}")]
    Wrong(String),
    /// The store or the backend did not answer, or a file could not be read or has errors.
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug, Clone)]
pub struct About {
    pub version: &'static str,
    /// `proxy.name`
    pub name: String,
    pub listen: String,
    /// The backend's addresses, in their order.
    pub backends: Vec<String>,
    /// `store.kind`
    pub store: &'static str,
    pub since: SystemTime,
    pub is_draining: bool,
}

/// One thing that must, or should, be so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// A word: "listener", "backend", "store", "generators".
    pub name: Cow<'static, str>,
    /// Without it no client is served. Where another check fails most statements pass all the same.
    #[serde(rename = "needed")]
    pub is_needed: bool,
    /// `Some`: it is not so, and this is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Check {
    /// `trouble`: why it is not so.
    pub fn needed(name: &'static str, trouble: Option<String>) -> Self {
        Check { name: name.into(), is_needed: true, trouble }
    }

    /// A check that only ruled statements, or some of them, depend on: the proxy is ready without it.
    pub fn wanted(name: &'static str, trouble: Option<String>) -> Self {
        Check { name: name.into(), is_needed: false, trouble }
    }
}

/// A proxy's readiness for clients, by its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Clients should be sent here, though not all is as it should be.
    Degraded,
    NotReady,
}

impl Readiness {
    pub fn of(checks: &[Check]) -> Self {
        let fails =
            |is_needed| checks.iter().any(|check| check.trouble.is_some() && check.is_needed == is_needed);
        match (fails(true), fails(false)) {
            (true, _) => Readiness::NotReady,
            (false, true) => Readiness::Degraded,
            (false, false) => Readiness::Ready,
        }
    }

    /// True for `Ready` and `Degraded`: a load balancer continues to send clients to a degraded proxy.
    pub fn takes_clients(self) -> bool {
        self != Readiness::NotReady
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Sequence,
    Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GeneratorState {
    /// Issues ids.
    Open,
    /// Issues none: an operator has paused it.
    Paused,
    /// Issues ids of its reserve, but the store does not answer, or the like: why.
    Troubled(String),
    /// Issues none: why.
    Stopped(String),
    /// No rule that acts names it, so it is not open here.
    #[default]
    Unused,
}

/// The default is one that nothing here draws from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeneratorRow {
    /// `schema.name`
    pub name: String,
    pub kind: Kind,
    pub state: GeneratorState,
    /// Ids, since this process opened it.
    pub issued: u64,
    /// Ids a second, over the last seconds.
    pub per_second: f64,
    /// Ids that can be issued without the store. `None`: its reserve is time.
    pub reserved_ids: Option<u64>,
    /// The time that the reserve lasts at the present rate. `None`: nothing is taken just now.
    pub reserved_for: Option<Duration>,
    /// A sequence's committed bound, as last seen; ids are below.
    pub bound: Option<u64>,
    /// The last id that it may issue, by its `max` and the columns' types. `None`: it is not open.
    pub max: Option<u64>,
    /// A sequence's ids from the bound to the last one, in its steps.
    pub headroom: Option<u64>,
    /// Share of its ids, 0 to 1, that are used up; of a timestamp generator, of its layout's time.
    pub used: f64,
    /// This proxy's node of a timestamp generator.
    pub node: Option<u64>,
    /// The time by which a timestamp generator's ids are ahead of the clock.
    pub ahead: Option<Duration>,
    /// The leap of the wall clock that a timestamp generator does not follow.
    pub leap: Option<Duration>,
    pub rules: usize,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Sequence => "sequence",
            Kind::Timestamp => "timestamp",
        }
    }
}

impl GeneratorState {
    pub fn word(&self) -> &'static str {
        match self {
            GeneratorState::Open => "open",
            GeneratorState::Paused => "paused",
            GeneratorState::Troubled(_) => "troubled",
            GeneratorState::Stopped(_) => "stopped",
            GeneratorState::Unused => "unused",
        }
    }
}

/// A server of `backend.address`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendRow {
    pub address: String,
    /// New sessions go to it.
    pub is_primary: bool,
    /// `None`: nobody has tried yet.
    pub is_up: Option<bool>,
    /// `None`: it was not asked, or did not answer.
    pub is_read_only: Option<bool>,
    /// The server replicates from another. `None`: it was not asked, or did not answer.
    pub is_replica: Option<bool>,
    /// Connections for clients that could not be made, by the reason's word.
    pub connect_errors: Vec<(&'static str, u64)>,
    /// Why the last one could not be made, and when.
    pub last_error: Option<(String, SystemTime)>,
    /// The times that connections for clients took, without their logins.
    pub connect_time: Timing,
}

impl BackendRow {
    /// The sum over all reasons.
    pub fn connect_errors(&self) -> u64 {
        self.connect_errors.iter().map(|(_, count)| count).sum()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Not logged in yet.
    Login,
    /// The client has to send the next command.
    Idle,
    /// The backend has to answer.
    Busy,
}

impl SessionState {
    pub fn word(self) -> &'static str {
        match self {
            SessionState::Login => "login",
            SessionState::Idle => "idle",
            SessionState::Busy => "busy",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// This proxy's id of the session; KILL takes it.
    pub id: u64,
    pub state: SessionState,
    /// Empty before the login.
    pub user: String,
    /// The client's; empty over a Unix socket.
    pub client: String,
    /// The default database of the login. A later USE does not show here.
    pub database: String,
    /// The server's id of its connection; 0 before the login.
    pub connection: u32,
    pub is_tls: bool,
    pub age: Duration,
    /// The time since the session came into that state.
    pub in_state: Duration,
    /// Texts, those that are prepared, and executions.
    pub statements: u64,
    /// Statements that got ids.
    pub rewritten: u64,
    pub refused: u64,
    pub ids: u64,
    pub bytes_from_client: u64,
    pub bytes_to_client: u64,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// Seconds since 1970.
    pub at: f64,
    /// "error", "warn", "info", "debug", "trace"
    pub level: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRow {
    pub name: String,
    pub address: String,
    pub version: String,
    /// The time as the store has it, in UTC.
    pub since: String,
    /// True for the proxy that answers.
    #[serde(rename = "self")]
    pub is_self: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// `schema.name`
    pub generator: String,
    pub node: u64,
    /// `proxy.name`
    pub owner: String,
    /// True if that proxy lives.
    pub is_live: bool,
    /// Up to which time it has reserved, in UTC.
    pub reserved: String,
}

/// The store's record of a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// `schema.name`
    pub generator: String,
    pub kind: Kind,
    /// A sequence's bound. `None`: it is a timestamp generator.
    pub bound: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingRow {
    /// "error", "warning" or "note"
    pub severity: &'static str,
    pub code: String,
    /// The subject of the finding: `schema.table.column`, a routine, a file and line.
    pub place: String,
    pub why: String,
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    pub key: String,
    pub value: String,
    pub default: String,
    /// When a change does: at once, for new connections or after a restart.
    pub takes_effect: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    Gauge,
    /// Buckets of how long something took.
    Histogram,
}

/// The base units of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things. The metric's name says which.
    Count,
    Seconds,
    Bytes,
    /// 0 to 1.
    Ratio,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The name in Prometheus, without the `_total` of counters and the `_bucket` of histograms: "rowstamp_ids_issued".
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub unit: Unit,
    /// Empty while there is no value.
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    /// A histogram has its sum here.
    pub value: f64,
    /// A histogram's buckets: each one's upper end, and how many were at most that. The last end is infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// The values of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// All of them together.
    pub seconds: f64,
    /// Buckets as in [`Sample::buckets`].
    pub buckets: Vec<(f64, u64)>,
}

/// The effects of a reload, or, as a dry run, those that it would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    pub is_dry_run: bool,
    pub rules: usize,
    pub generators: usize,
    /// Changes of the rules, a line each.
    pub changes: Vec<String>,
    /// Keys of rowstamp.toml that have changed and act.
    pub settings: Vec<String>,
    /// Keys that have changed and wait for a restart.
    pub waiting: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    pub generator: String,
    /// The bound in the store before. Ids below it may still be issued by a proxy that has reserved them.
    pub from: u64,
    /// The bound now.
    pub to: u64,
}

/// A rule as SHOW RULES has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    pub schema: String,
    /// A name or a pattern, as the schema.
    pub table: String,
    pub column: String,
    /// `schema.name`, or a template.
    pub generator: String,
    /// The keys as rules files write them.
    pub explicit: String,
    pub insert_id: String,
    pub mode: String,
    pub unavailable: String,
    /// The number of tables that the rule fills, as far as they have been seen.
    pub tables: usize,
    /// The databases that it is for; of a pattern those of its tables that have been seen.
    pub databases: Vec<String>,
    /// `file:line`
    pub origin: String,
}

/// A session's last statement that was given ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRow {
    /// The digest, as in [`RefusedRow::digest`]. `None`: its text is not known.
    pub digest: Option<String>,
    /// The statement without its values.
    pub statement: String,
}

/// A port where ids are drawn without an INSERT. The counts are since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorRow {
    /// The door's name in metrics and audit lines: "resp", "api".
    pub name: &'static str,
    /// The protocol's name for people: "Redis protocol".
    pub protocol: &'static str,
    /// `None`: it is off.
    pub address: Option<String>,
    /// Clients can connect.
    pub is_open: bool,
    /// Towards new clients, in the words of `tls.mode`.
    pub tls: String,
    /// The other services whose paths it answers, in the words of `api.compat`.
    pub compat: Vec<String>,
    /// Clients that have logged in and are connected.
    pub clients: u64,
    /// Requests for ids, by what came of them.
    pub requests: Vec<(&'static str, u64)>,
    /// Ids that were given.
    pub ids: u64,
    pub logins_refused: u64,
}
