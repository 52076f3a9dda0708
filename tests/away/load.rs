//! Statements at a fixed pace, and how long each took.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use crate::support::raw::{Client, Options};

/// One statement of each writer so often: four make 2,000 ruled rows a second.
pub(crate) const PACE: Duration = Duration::from_millis(2);
const WRITERS: usize = 4;
/// The pace of the statements that no rule concerns, by turns an INSERT and a SELECT.
const OTHER_PACE: Duration = Duration::from_millis(4);
const OTHERS: usize = 2;

/// Longer than the reserve lasts.
const DEADLINE: Duration = Duration::from_mins(2);

/// Room for an hour: a Vec that grows keeps every writer waiting.
const SAMPLES: usize = 10_000_000;

/// ER_AUTOINC_READ_FAILED
const NO_ID: u16 = 1467;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ruled,
    Other,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    work: Kind,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    /// By 1467: there is no id.
    pub(crate) is_refused: bool,
}

pub(crate) struct Load {
    pub(crate) stop: AtomicBool,
    port: u16,
    samples: Mutex<Vec<Sample>>,
}

impl Load {
    pub(crate) fn new(port: u16) -> Load {
        Load { stop: AtomicBool::new(false), port, samples: Mutex::new(Vec::with_capacity(SAMPLES)) }
    }

    /// The writers take turns at `tables`.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, tables: &[&str]) {
        for writer in 0..WRITERS {
            let sql = format!("INSERT INTO {}(a) VALUES(1)", tables[writer % tables.len()]);
            scope.spawn(move || self.run(Kind::Ruled, PACE, |_| &sql));
        }
        for _ in 0..OTHERS {
            let by_turns = |nth: u64| match nth % 2 {
                0 => "INSERT INTO free(a) VALUES(1)",
                _ => "SELECT a FROM free WHERE id = 1",
            };
            scope.spawn(move || self.run(Kind::Other, OTHER_PACE, by_turns));
        }
    }

    /// Statements that come later than their time make the next ones no more frequent.
    fn run<'a>(&self, work: Kind, pace: Duration, sql: impl Fn(u64) -> &'a str) {
        let options = Options { database: Some("away".to_owned()), ..Options::default() };
        let address = format!("127.0.0.1:{}", self.port);
        let mut client = Client::connect(&address, &options).expect("root logs in through the proxy");
        let mut due = Instant::now();
        for nth in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let at = Instant::now();
            let outcomes = client.query(sql(nth)).expect("the proxy serves");
            let took = at.elapsed();
            let error = outcomes[0].err();
            if let Some(error) = error {
                assert_eq!((work, error.code), (Kind::Ruled, NO_ID), "{}", error.message);
            }
            let sample = Sample { work, at, took, is_refused: error.is_some() };
            self.samples.lock().expect("no writer panicked").push(sample);
            due = (due + pace).max(at + took);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// Waits for the first ruled INSERT from now on that ended after `since` and for which `is_it` is true.
    pub(crate) fn wait_for(&self, since: Instant, is_it: impl Fn(&Sample) -> bool) -> Sample {
        let end = Instant::now() + DEADLINE;
        // Writers wait for the lock: what was looked at once is not looked at again.
        let mut seen = self.samples.lock().expect("no writer panicked").len();
        loop {
            let samples = self.samples.lock().expect("no writer panicked");
            let mut later = samples[seen..].iter().filter(|sample| sample.at + sample.took > since);
            if let Some(found) = later.find(|sample| sample.work == Kind::Ruled && is_it(sample)) {
                return *found;
            }
            seen = samples.len();
            drop(samples);
            assert!(Instant::now() < end, "it does not come to that");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The times of the statements that succeeded, and whose start and length are `inside`.
    pub(crate) fn spread(&self, work: Kind, inside: impl Fn(Instant, Duration) -> bool) -> Spread {
        let samples = self.samples.lock().expect("no writer panicked");
        let of_it = samples.iter().filter(|s| s.work == work && !s.is_refused && inside(s.at, s.took));
        let mut took: Vec<Duration> = of_it.map(|sample| sample.took).collect();
        took.sort_unstable();
        let at = |permille: usize| took.get(took.len() * permille / 1_000).copied().unwrap_or_default();
        let max = took.last().copied().unwrap_or_default();
        Spread { count: took.len(), p50: at(500), p99: at(990), p999: at(999), max }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    p50: Duration,
    p99: Duration,
    pub(crate) p999: Duration,
    max: Duration,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { count, p50, p99, p999, max } = self;
        write!(
            f,
            "{count:>7} statements, p50 {p50:>9.1?}, p99 {p99:>9.1?}, p99.9 {p999:>9.1?}, slowest {max:>9.1?}"
        )
    }
}
