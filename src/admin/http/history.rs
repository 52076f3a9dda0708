//! The last ten minutes, kept here and not in a browser's tab: a page that is opened after an alert shows
//! the time before the alert too.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;

use crate::admin::desk::Desk;
use crate::admin::metrics::{ANSWER_TIME, SERVER_TIME, SESSIONS, STATEMENTS, STORE_TIME};
use crate::admin::status::{Counts, Timed, seconds_since_1970};

/// The page's own interval.
const INTERVAL: Duration = Duration::from_secs(2);
const POINTS_MAX: usize = 300;
/// Generators of a point: those that most was taken from.
const GENERATORS_MAX: usize = 50;

#[derive(Debug, Default)]
pub(super) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    points: VecDeque<Point>,
    last: Option<Instant>,
}

/// A moment in `/history.json`.
#[derive(Debug, Clone, Serialize)]
struct Point {
    /// Seconds since 1970.
    at: f64,
    /// Ids a second.
    ids: f64,
    /// A second, by outcome.
    statements: BTreeMap<String, f64>,
    sessions: f64,
    /// The shortest of all sequences, in seconds.
    reserve: Option<f64>,
    /// The largest share.
    used: Option<f64>,
    store: Calls,
    latency: Calls,
    server_latency: Calls,
    /// Ids a second, where there are any.
    generators: BTreeMap<String, f64>,
}

/// Sums since the process began.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Calls {
    count: u64,
    seconds: f64,
}

impl Calls {
    fn and(self, timed: &Timed) -> Self {
        Calls { count: self.count + timed.count, seconds: self.seconds + timed.seconds }
    }
}

impl History {
    /// True if it is time for another point.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.0.lock().last.is_none_or(|last| now.duration_since(last) >= INTERVAL)
    }

    pub(super) fn note(&self, now: Instant, desk: &dyn Desk, counts: &Counts<'_>) {
        let point = Point::of(desk, counts);
        let mut kept = self.0.lock();
        kept.last = Some(now);
        if kept.points.len() >= POINTS_MAX {
            kept.points.pop_front();
        }
        kept.points.push_back(point);
    }

    /// The points as JSON; the oldest first.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.0.lock().points)
    }
}

impl Point {
    fn of(desk: &dyn Desk, counts: &Counts<'_>) -> Point {
        let generators = desk.generators();
        let mut taken: Vec<_> = generators.iter().filter(|each| each.per_second > 0.0).collect();
        taken.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        taken.truncate(GENERATORS_MAX);
        let statements = counts.by_label(&STATEMENTS).into_iter();
        Point {
            at: seconds_since_1970(SystemTime::now()),
            ids: generators.iter().map(|each| each.per_second).sum(),
            statements: statements.map(|(name, each)| (name, each.per_second)).collect(),
            sessions: counts.sum(&SESSIONS).unwrap_or_default(),
            reserve: generators
                .iter()
                .filter_map(|each| Some(each.reserved_for?.as_secs_f64()))
                .min_by(f64::total_cmp),
            used: generators.iter().map(|each| each.used).max_by(f64::total_cmp),
            store: counts.timed_by_label(&STORE_TIME).values().fold(Calls::default(), Calls::and),
            latency: Calls::default().and(&counts.timed(&ANSWER_TIME)),
            server_latency: Calls::default().and(&counts.timed(&SERVER_TIME)),
            generators: taken.into_iter().map(|each| (each.name.clone(), each.per_second)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{GENERATORS_MAX, History, POINTS_MAX};
    use crate::admin::desk::Desk;
    use crate::admin::fake::FakeDesk;
    use crate::admin::status::{Counts, Rates};

    #[test]
    fn ten_minutes_of_points_with_the_busiest_generators() {
        let desk =
            FakeDesk { more_generators: 2 * u32::try_from(GENERATORS_MAX).unwrap(), ..FakeDesk::default() };
        let (rates, history, begin) = (Rates::new(), History::default(), Instant::now());
        let counts = Counts::new(desk.counted(), &rates);
        for n in 0..=u32::try_from(POINTS_MAX).unwrap() {
            let now = begin + Duration::from_secs(2) * n;
            assert!(history.is_due(now), "{n}");
            history.note(now, &desk, &counts);
            assert!(!history.is_due(now + Duration::from_secs(1)));
        }
        let points: serde_json::Value = serde_json::from_str(&history.json().unwrap()).unwrap();
        let points = points.as_array().unwrap();
        assert_eq!(points.len(), POINTS_MAX, "the oldest is gone");
        let generators = points[0]["generators"].as_object().unwrap();
        assert!(generators.contains_key("more.99") && !generators.contains_key("more.1"), "{generators:?}");
        assert_eq!(generators.len(), GENERATORS_MAX);
    }
}
