//! The contents of `/status.json`: the page and `rowstamp status` show it, and docs/metrics.md has its shape.
//!
//! Fields may be added; none changes its meaning while `format` is 1. Ids are strings: JavaScript's
//! numbers end at 2^53.

mod doors;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use self::doors::{BusyUser, DoorStatus, UsersStatus};
use super::desk::{
    BackendRow, Check, Desk, EventRow, GeneratorRow, GeneratorState, Metric, ProxyRow, Readiness, RefusedRow,
    Sample, SessionRow, SessionState,
};
use super::metrics::{
    ANSWER_TIME, BYTES, Family, ID_WAIT, LOGINS_REFUSED, RELOAD_GOOD, RELOAD_TIME, REWRITE_TIME, SERVER_TIME,
    SESSIONS_LIMIT, SESSIONS_OPENED, SESSIONS_REFUSED, STATEMENTS, STATEMENTS_REFUSED, STORE_FAILURES,
    STORE_TIME, TABLE_IDS, TABLE_OVERTAKEN, TABLE_STATEMENTS,
};

pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub format: u32,
    /// Seconds since 1970.
    pub now: f64,
    /// True if clients should be sent here.
    pub ready: bool,
    /// Clients should be sent here, but something is not as it should be; `checks` says what.
    #[serde(default)]
    pub degraded: bool,
    pub about: AboutStatus,
    pub checks: Vec<Check>,
    pub generators: Vec<GeneratorStatus>,
    /// In the order of `backend.address`.
    #[serde(default)]
    pub backends: Vec<BackendStatus>,
    pub sessions: SessionsStatus,
    /// The ports where ids are drawn without an INSERT, including those that are off.
    #[serde(default)]
    pub doors: Vec<DoorStatus>,
    #[serde(default)]
    pub users: UsersStatus,
    /// From a client's command to the end of its answer.
    #[serde(default)]
    pub latency: Timed,
    /// The part of `latency` from when the command was sent to the server.
    #[serde(default)]
    pub server_latency: Timed,
    /// By `schema.table`: those that something was inserted into.
    #[serde(default)]
    pub tables: BTreeMap<String, TableStatus>,
    /// By outcome, since the start.
    pub statements: BTreeMap<String, Counted>,
    /// Statements that were refused, by reason.
    pub refused: BTreeMap<String, Counted>,
    /// Bytes by direction.
    pub traffic: BTreeMap<String, Counted>,
    /// By operation.
    pub store: BTreeMap<String, Timed>,
    pub store_failures: f64,
    /// The proxy's own time for a statement that got ids.
    pub rewrite: Timed,
    /// Waits for ids.
    pub id_wait: Timed,
    pub rules: RulesStatus,
    pub fleet: FleetStatus,
    /// The users and hosts that are connected, those with the most sessions first; 20 at most.
    #[serde(default)]
    pub clients: Vec<ClientStatus>,
    /// The statements that were refused most; 20 at most.
    #[serde(default)]
    pub refused_statements: Vec<RefusedStatus>,
    /// The last lines of the log, the newest first.
    #[serde(default)]
    pub events: Vec<EventRow>,
}

/// Lists that could grow without end are cut to this many rows.
const ROWS_MAX: usize = 20;

/// The sessions of a user from one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    pub user: String,
    /// Empty over a Unix socket.
    pub host: String,
    pub sessions: usize,
    pub busy: usize,
    /// Statements of the sessions that are there now.
    pub statements: u64,
}

/// Statements that were refused and differ in their values alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// Without its values.
    pub statement: String,
    pub why: String,
    pub count: u64,
    /// The time of the last one, in seconds since 1970.
    pub last: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AboutStatus {
    pub version: String,
    pub name: String,
    pub listen: String,
    pub backends: Vec<String>,
    pub store: String,
    /// Seconds since 1970.
    pub since: f64,
    pub draining: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorStatus {
    pub name: String,
    /// "sequence", "timestamp"
    pub kind: String,
    /// "open", "paused", "troubled", "stopped", "unused"
    pub state: String,
    pub trouble: Option<String>,
    pub issued: u64,
    pub per_second: f64,
    pub reserved_ids: Option<u64>,
    pub reserved_seconds: Option<f64>,
    pub bound: Option<String>,
    pub max: Option<String>,
    pub headroom_ids: Option<String>,
    /// 0 to 1.
    pub used: f64,
    pub node: Option<u64>,
    pub ahead_seconds: Option<f64>,
    pub leap_seconds: Option<f64>,
    pub rules: usize,
}

/// The counts of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TableStatus {
    /// INSERTs that took ids.
    pub statements: Counted,
    pub ids: Counted,
    /// Times that ids that did not come from the generator were found above it.
    #[serde(default)]
    pub overtaken: Counted,
}

/// A server of `backend.address`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendStatus {
    pub address: String,
    /// New sessions go to it.
    pub primary: bool,
    /// `null`: nobody has tried yet.
    pub up: Option<bool>,
    /// `null`: it was not asked, or did not answer.
    pub read_only: Option<bool>,
    pub connect_errors: u64,
    pub last_error: Option<String>,
    /// Connections for clients.
    pub connect: Timed,
}

/// Clients that are connected now, by state, and what became of those that came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionsStatus {
    pub login: usize,
    pub idle: usize,
    pub busy: usize,
    pub opened: f64,
    pub refused: f64,
    pub logins_refused: f64,
    /// `limits.connections`
    #[serde(default)]
    pub limit: f64,
}

/// Since the start, and a second over the last ten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub total: f64,
    pub per_second: f64,
}

/// Since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    pub count: u64,
    /// All of them together.
    pub seconds: f64,
    /// Upper ends in seconds, and how many took at most that; what took longer is in `count` alone.
    pub buckets: Vec<(f64, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RulesStatus {
    pub count: usize,
    /// True if the files that were read last are active. `None`: that is not known.
    pub good: Option<bool>,
    /// When the active ones were read, in seconds since 1970.
    pub since: Option<f64>,
}

/// The proxies of this store, or why they are not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStatus {
    pub proxies: Vec<ProxyRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A second, over the last ten, by metric and the value of its first label.
pub(crate) type Rates = BTreeMap<(&'static str, String), f64>;

impl Status {
    pub(crate) fn of(desk: &dyn Desk, fleet: FleetStatus, rates: &Rates) -> Status {
        let checks = desk.checks();
        let readiness = Readiness::of(&checks);
        let counts = Counts::new(desk.metrics(), rates);
        Status {
            format: FORMAT,
            now: seconds_since_1970(SystemTime::now()),
            ready: readiness.takes_clients(),
            degraded: readiness == Readiness::Degraded,
            about: about(desk),
            checks,
            generators: desk.generators().into_iter().map(GeneratorStatus::from).collect(),
            backends: desk.backends().into_iter().map(BackendStatus::from).collect(),
            sessions: sessions(desk, &counts),
            doors: doors::doors(desk.doors(), &counts),
            users: UsersStatus::of(&desk.users(), &counts),
            latency: counts.timed(&ANSWER_TIME),
            server_latency: counts.timed(&SERVER_TIME),
            tables: counts.tables(),
            statements: counts.by_label(&STATEMENTS),
            refused: counts.by_label(&STATEMENTS_REFUSED),
            traffic: counts.by_label(&BYTES),
            store: counts.timed_by_label(&STORE_TIME),
            store_failures: counts.sum(&STORE_FAILURES).unwrap_or_default(),
            rewrite: counts.timed(&REWRITE_TIME),
            id_wait: counts.timed(&ID_WAIT),
            rules: RulesStatus {
                count: desk.rules().len(),
                good: counts.sum(&RELOAD_GOOD).map(|good| good > 0.0),
                since: counts.sum(&RELOAD_TIME),
            },
            fleet,
            clients: clients(&desk.sessions()),
            refused_statements: desk.refused().into_iter().take(ROWS_MAX).map(RefusedStatus::from).collect(),
            events: desk.events(),
        }
    }
}

/// By user and host.
fn clients(sessions: &[SessionRow]) -> Vec<ClientStatus> {
    let mut by: BTreeMap<(&str, &str), ClientStatus> = BTreeMap::new();
    for session in sessions.iter().filter(|session| session.state != SessionState::Login) {
        let host = session.client.rsplit_once(':').map_or("", |(host, _)| host);
        let client = by.entry((&session.user, host)).or_insert_with(|| ClientStatus {
            user: session.user.clone(),
            host: host.to_owned(),
            sessions: 0,
            busy: 0,
            statements: 0,
        });
        client.sessions += 1;
        client.busy += usize::from(session.state == SessionState::Busy);
        client.statements = client.statements.saturating_add(session.statements);
    }
    let mut all: Vec<_> = by.into_values().collect();
    // Stable: those with as many are by name.
    all.sort_by_key(|client| std::cmp::Reverse(client.sessions));
    all.truncate(ROWS_MAX);
    all
}

impl From<RefusedRow> for RefusedStatus {
    fn from(row: RefusedRow) -> Self {
        let RefusedRow { statement, why, count, last, .. } = row;
        RefusedStatus { statement, why, count, last: seconds_since_1970(last) }
    }
}

pub(crate) fn seconds_since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn about(desk: &dyn Desk) -> AboutStatus {
    let about = desk.about();
    AboutStatus {
        version: about.version.to_owned(),
        name: about.name,
        listen: about.listen,
        backends: about.backends,
        store: about.store.to_owned(),
        since: seconds_since_1970(about.since),
        draining: about.is_draining,
    }
}

fn sessions(desk: &dyn Desk, counts: &Counts<'_>) -> SessionsStatus {
    let mut sessions = SessionsStatus {
        opened: counts.sum(&SESSIONS_OPENED).unwrap_or_default(),
        refused: counts.sum(&SESSIONS_REFUSED).unwrap_or_default(),
        logins_refused: counts.sum(&LOGINS_REFUSED).unwrap_or_default(),
        limit: counts.by_label(&SESSIONS_LIMIT).get("connections").map_or(0.0, |limit| limit.total),
        ..SessionsStatus::default()
    };
    for session in desk.sessions() {
        match session.state {
            SessionState::Login => sessions.login += 1,
            SessionState::Idle => sessions.idle += 1,
            SessionState::Busy => sessions.busy += 1,
        }
    }
    sessions
}

/// Metrics of the desk's, and how fast they grow.
pub(crate) struct Counts<'a> {
    metrics: Vec<Metric>,
    rates: &'a Rates,
}

impl<'a> Counts<'a> {
    pub(crate) fn new(metrics: Vec<Metric>, rates: &'a Rates) -> Self {
        Counts { metrics, rates }
    }

    fn of<const LABELS: usize>(&self, family: &Family<LABELS>) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == family.name())
    }

    /// Over all labels. `None`: there is no value.
    pub(crate) fn sum<const LABELS: usize>(&self, family: &Family<LABELS>) -> Option<f64> {
        let samples = &self.of(family)?.samples;
        (!samples.is_empty()).then(|| samples.iter().map(|sample| sample.value).sum())
    }

    pub(crate) fn by_label(&self, family: &Family<1>) -> BTreeMap<String, Counted> {
        let samples = self.of(family).into_iter().flat_map(|metric| &metric.samples);
        let counted = samples.filter_map(|sample| {
            let (_, label) = sample.labels.first()?;
            let per_second = self.rate(family, label);
            Some((label.clone(), Counted { total: sample.value, per_second }))
        });
        counted.collect()
    }

    /// A second, of all counters with this first label together.
    fn rate<const LABELS: usize>(&self, family: &Family<LABELS>, label: &str) -> f64 {
        self.rates.get(&(family.name(), label.to_owned())).copied().unwrap_or_default()
    }

    fn tables(&self) -> BTreeMap<String, TableStatus> {
        let mut ids = self.by_label(&TABLE_IDS);
        let mut overtaken = self.by_label(&TABLE_OVERTAKEN);
        let statements = self.by_label(&TABLE_STATEMENTS).into_iter();
        let table = |(name, statements): (String, Counted)| {
            let ids = ids.remove(&name).unwrap_or_default();
            let overtaken = overtaken.remove(&name).unwrap_or_default();
            (name, TableStatus { statements, ids, overtaken })
        };
        statements.map(table).collect()
    }

    pub(crate) fn timed_by_label(&self, family: &Family<1>) -> BTreeMap<String, Timed> {
        let samples = self.of(family).into_iter().flat_map(|metric| &metric.samples);
        samples.filter_map(|sample| Some((sample.labels.first()?.1.clone(), Timed::from(sample)))).collect()
    }

    pub(crate) fn timed(&self, family: &Family<0>) -> Timed {
        self.of(family).and_then(|metric| metric.samples.first()).map(Timed::from).unwrap_or_default()
    }
}

impl Timed {
    fn of(seconds: f64, buckets: &[(f64, u64)]) -> Self {
        Timed {
            count: buckets.last().map_or(0, |(_, count)| *count),
            seconds,
            // JSON has no infinity.
            buckets: buckets.iter().copied().filter(|(end, _)| end.is_finite()).collect(),
        }
    }
}

impl From<&Sample> for Timed {
    fn from(sample: &Sample) -> Self {
        Timed::of(sample.value, &sample.buckets)
    }
}

impl From<BackendRow> for BackendStatus {
    fn from(row: BackendRow) -> Self {
        BackendStatus {
            connect: Timed::of(row.connect_time.seconds, &row.connect_time.buckets),
            connect_errors: row.connect_errors(),
            address: row.address,
            primary: row.is_primary,
            up: row.is_up,
            read_only: row.is_read_only,
            last_error: row.last_error.map(|(why, _)| why),
        }
    }
}

impl From<GeneratorRow> for GeneratorStatus {
    fn from(row: GeneratorRow) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        GeneratorStatus {
            kind: row.kind.word().to_owned(),
            state: row.state.word().to_owned(),
            headroom_ids: row.headroom.map(|ids| ids.to_string()),
            issued: row.issued,
            per_second: row.per_second,
            reserved_ids: row.reserved_ids,
            reserved_seconds: seconds(row.reserved_for),
            bound: row.bound.map(|bound| bound.to_string()),
            max: row.max.map(|max| max.to_string()),
            used: row.used,
            node: row.node,
            ahead_seconds: seconds(row.ahead),
            leap_seconds: seconds(row.leap),
            rules: row.rules,
            trouble: match row.state {
                GeneratorState::Open | GeneratorState::Paused | GeneratorState::Unused => None,
                GeneratorState::Troubled(why) | GeneratorState::Stopped(why) => Some(why),
            },
            name: row.name,
        }
    }
}
