//! What `/status.json` says: the page and `rowstamp status` show it, and docs/metrics.md has its
//! shape.
//!
//! Fields may be added; none changes its meaning while `format` is 1. Ids are strings: JavaScript's
//! numbers end at 2^53.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::desk::{Check, Desk, GeneratorRow, GeneratorState, Metric, ProxyRow, Sample, SessionState};
use super::metrics::{
    BYTES, Family, ID_WAIT, LOGINS_REFUSED, RELOAD_GOOD, RELOAD_TIME, REWRITE_TIME, SESSIONS_OPENED,
    SESSIONS_REFUSED, STATEMENTS, STATEMENTS_REFUSED, STORE_FAILURES, STORE_TIME,
};

pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub format: u32,
    /// Seconds since 1970.
    pub now: f64,
    pub ready: bool,
    pub about: AboutStatus,
    pub checks: Vec<Check>,
    pub generators: Vec<GeneratorStatus>,
    pub sessions: SessionsStatus,
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

/// Clients that are connected now, by state, and what became of those that came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionsStatus {
    pub login: usize,
    pub idle: usize,
    pub busy: usize,
    pub opened: f64,
    pub refused: f64,
    pub logins_refused: f64,
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
    /// Whether the files that were read last are in force. `None`: that is not known.
    pub good: Option<bool>,
    /// When those in force were read, in seconds since 1970.
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
        let counts = Counts { metrics: desk.metrics(), rates };
        Status {
            format: FORMAT,
            now: seconds_since_1970(SystemTime::now()),
            ready: is_ready(&checks),
            about: about(desk),
            checks,
            generators: desk.generators().into_iter().map(GeneratorStatus::from).collect(),
            sessions: sessions(desk, &counts),
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
        }
    }
}

pub(crate) fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.trouble.is_none())
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

/// The desk's metrics, and how fast they grow.
struct Counts<'a> {
    metrics: Vec<Metric>,
    rates: &'a Rates,
}

impl Counts<'_> {
    fn of<const LABELS: usize>(&self, family: &Family<LABELS>) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == family.name())
    }

    /// Over all labels. `None`: there is no value.
    fn sum<const LABELS: usize>(&self, family: &Family<LABELS>) -> Option<f64> {
        let samples = &self.of(family)?.samples;
        (!samples.is_empty()).then(|| samples.iter().map(|sample| sample.value).sum())
    }

    fn by_label(&self, family: &Family<1>) -> BTreeMap<String, Counted> {
        let samples = self.of(family).into_iter().flat_map(|metric| &metric.samples);
        let counted = samples.filter_map(|sample| {
            let (_, label) = sample.labels.first()?;
            let per_second = self.rates.get(&(family.name(), label.clone())).copied().unwrap_or_default();
            Some((label.clone(), Counted { total: sample.value, per_second }))
        });
        counted.collect()
    }

    fn timed_by_label(&self, family: &Family<1>) -> BTreeMap<String, Timed> {
        let samples = self.of(family).into_iter().flat_map(|metric| &metric.samples);
        samples.filter_map(|sample| Some((sample.labels.first()?.1.clone(), Timed::from(sample)))).collect()
    }

    fn timed(&self, family: &Family<0>) -> Timed {
        self.of(family).and_then(|metric| metric.samples.first()).map(Timed::from).unwrap_or_default()
    }
}

impl From<&Sample> for Timed {
    fn from(sample: &Sample) -> Self {
        Timed {
            count: sample.buckets.last().map_or(0, |(_, count)| *count),
            seconds: sample.value,
            // JSON has no infinity.
            buckets: sample.buckets.iter().copied().filter(|(end, _)| end.is_finite()).collect(),
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
