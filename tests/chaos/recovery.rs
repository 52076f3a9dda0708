//! Since when a proxy is left in peace, and since when it serves again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::chaos::plan::Kind;
use crate::chaos::tables::TABLES;

/// Faults that concern a proxy, and the INSERTs that it answered last.
pub(crate) struct Calm(Mutex<State>);

struct State {
    /// Faults that are on.
    active: u32,
    since: Instant,
    served: [Served; TABLES.len()],
}

/// The rows that were sent into a table after the last fault, and answered by OK.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    rows: u64,
    /// When these were enough.
    proved: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// INSERTs into every table were proved to work, this much later than the last fault ended.
    Again(Duration),
    NotYet,
    /// Another fault is on: whoever ends it asks again.
    Disturbed,
}

impl Calm {
    pub(crate) fn new() -> Calm {
        Calm(Mutex::new(State { active: 0, since: Instant::now(), served: Default::default() }))
    }

    pub(crate) fn fault_begins(&self) {
        self.0.lock().unwrap().active += 1;
    }

    pub(crate) fn fault_ended(&self, at: Instant) {
        let mut state = self.0.lock().unwrap();
        state.active -= 1;
        state.begin_anew(at);
    }

    pub(crate) fn note_served(&self, table: usize, rows: u64, sent: Instant, answered: Instant) {
        let mut state = self.0.lock().unwrap();
        if sent < state.since {
            return;
        }
        let served = &mut state.served[table];
        served.rows += rows;
        if served.rows >= TABLES[table].rows_that_prove() {
            served.proved.get_or_insert(answered);
        }
    }

    /// Tells if the proxy serves again after a fault that ended then, here or elsewhere.
    pub(crate) fn serves_since(&self, end: Instant) -> Serves {
        let mut state = self.0.lock().unwrap();
        if state.active > 0 {
            return Serves::Disturbed;
        }
        state.begin_anew(end);
        let mut last = state.since;
        for served in &state.served {
            let Some(proved) = served.proved else { return Serves::NotYet };
            last = last.max(proved);
        }
        Serves::Again(last - state.since)
    }
}

impl State {
    /// Counts from zero again: statements sent before the last fault was over show nothing.
    fn begin_anew(&mut self, at: Instant) {
        if at > self.since {
            self.since = at;
            self.served = Default::default();
        }
    }
}

/// How long it took, by the kind of the fault.
#[derive(Default)]
pub(crate) struct Recoveries(Mutex<Vec<(Kind, Duration)>>);

impl Recoveries {
    pub(crate) fn note(&self, kind: Kind, took: Duration) {
        self.0.lock().unwrap().push((kind, took));
    }

    /// How many there are of a kind, their median, 99 of 100, and the longest.
    pub(crate) fn of(&self, kind: Kind) -> Option<(usize, [Duration; 3])> {
        let all = self.0.lock().unwrap();
        let mut took: Vec<_> =
            all.iter().filter(|(other, _)| *other == kind).map(|(_, took)| *took).collect();
        took.sort_unstable();
        // Nearest rank: of 100, the 99th.
        let share = |percent: usize| took.get((took.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some((took.len(), [share(50)?, share(99)?, share(100)?]))
    }
}

#[test]
fn what_was_sent_before_the_last_fault_was_over_shows_nothing() {
    let calm = Calm::new();
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let serve = |table: usize, sent, answered| {
        calm.note_served(table, TABLES[table].rows_that_prove(), at(sent), at(answered));
    };
    calm.fault_begins();
    assert_eq!(calm.serves_since(at(10)), Serves::Disturbed);
    calm.fault_ended(at(10));
    (0..TABLES.len()).for_each(|table| serve(table, 9, 30));
    assert_eq!(calm.serves_since(at(10)), Serves::NotYet);
    serve(0, 31, 40);
    assert_eq!(calm.serves_since(at(10)), Serves::NotYet);
    (0..TABLES.len()).for_each(|table| serve(table, 50, 60));
    assert_eq!(calm.serves_since(at(10)), Serves::Again(Duration::from_millis(50)));
    assert_eq!(calm.serves_since(at(65)), Serves::NotYet);
    (0..TABLES.len()).for_each(|table| serve(table, 90, 95));
    assert_eq!(calm.serves_since(at(65)), Serves::Again(Duration::from_millis(30)));
}

#[test]
fn shares_are_of_the_kind_alone() {
    let recoveries = Recoveries::default();
    assert_eq!(recoveries.of(Kind::Kill), None);
    recoveries.note(Kind::Freeze, Duration::from_secs(9));
    (1..=100).rev().for_each(|ms| recoveries.note(Kind::Kill, Duration::from_millis(ms)));
    assert_eq!(recoveries.of(Kind::Kill), Some((100, [50, 99, 100].map(Duration::from_millis))));
    assert_eq!(recoveries.of(Kind::Freeze), Some((1, [Duration::from_secs(9); 3])));
}
