//! The rates at which counters grow. They are read once a second, and their rate is that of the last ten seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::admin::desk::Metric;
use crate::admin::metrics::{
    BYTES, DOOR_IDS, DOOR_REQUESTS, STATEMENTS, STATEMENTS_REFUSED, TABLE_IDS, TABLE_OVERTAKEN,
    TABLE_STATEMENTS, USER_IDS,
};
use crate::admin::status::Rates;

pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const LOOKS_MAX: usize = 11;

#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<VecDeque<(Instant, Counts)>>);

/// By metric and the value of its first label: those with the same one are added up.
type Counts = BTreeMap<(&'static str, String), f64>;

impl Looks {
    pub(super) fn look(&self, at: Instant, metrics: &[Metric]) {
        let watched = [
            STATEMENTS.name(),
            STATEMENTS_REFUSED.name(),
            BYTES.name(),
            TABLE_STATEMENTS.name(),
            TABLE_IDS.name(),
            TABLE_OVERTAKEN.name(),
            DOOR_IDS.name(),
            DOOR_REQUESTS.name(),
            USER_IDS.name(),
        ];
        let samples = metrics
            .iter()
            .filter(|metric| watched.contains(&metric.name))
            .flat_map(|metric| metric.samples.iter().map(|sample| (metric.name, sample)));
        let mut counts = Counts::new();
        for (name, sample) in samples {
            if let Some((_, label)) = sample.labels.first() {
                *counts.entry((name, label.clone())).or_default() += sample.value;
            }
        }
        let mut looks = self.0.lock();
        looks.push_back((at, counts));
        if looks.len() > LOOKS_MAX {
            looks.pop_front();
        }
    }

    pub(super) fn rates(&self) -> Rates {
        let looks = self.0.lock();
        let (Some((from, before)), Some((to, now))) = (looks.front(), looks.back()) else {
            return Rates::new();
        };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds <= 0.0 {
            return Rates::new();
        }
        let rate = |key, count: &f64| (count - before.get(key).copied().unwrap_or_default()) / seconds;
        now.iter().map(|(key, count)| (key.clone(), rate(key, count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Looks;
    use crate::admin::metrics::{BYTES, DOOR_REQUESTS, IDS_ISSUED, STATEMENTS};
    use std::time::{Duration, Instant};

    #[test]
    fn over_the_last_ten_seconds() {
        let (looks, begin) = (Looks::default(), Instant::now());
        assert!(looks.rates().is_empty());
        for second in 0..30_u32 {
            let passed = if second < 20 { 0.0 } else { f64::from(second - 19) * 5.0 };
            let mut metrics = vec![STATEMENTS.of([(["passed"], passed)]), IDS_ISSUED.of([(["s.g"], 9.0)])];
            let [given, wrong] = ["given", "wrong"].map(|outcome| (["resp", outcome], f64::from(second)));
            metrics.push(DOOR_REQUESTS.of([given, wrong]));
            if second == 29 {
                metrics.push(BYTES.of([(["to_client"], 30.0)]));
            }
            looks.look(begin + Duration::from_secs(second.into()), &metrics);
            if second == 0 {
                assert!(looks.rates().is_empty(), "one look shows no rate");
            }
        }
        let rate = |name, label: &str| looks.rates().get(&(name, label.to_owned())).copied();
        assert_eq!(rate("rowstamp_statements", "passed"), Some(5.0));
        assert_eq!(rate("rowstamp_traffic_bytes", "to_client"), Some(3.0), "it was not there before");
        assert_eq!(rate("rowstamp_door_requests", "resp"), Some(2.0), "those of one door together");
        assert_eq!(rate("rowstamp_ids_issued", "s.g"), None, "generators know their own");
    }
}
