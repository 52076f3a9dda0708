//! The ids that are taken a second, which only shows by looking again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Weak;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::daemon::operator::ProxyDesk;

const INTERVAL: Duration = Duration::from_secs(1);
/// Rates are over so many intervals.
const KEPT: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Rates {
    /// Ids taken so far, of each generator, at the last few moments.
    taken: Mutex<BTreeMap<String, VecDeque<(Instant, u64)>>>,
}

impl Rates {
    /// Ids a second of a generator, over the last seconds.
    pub(super) fn per_second(&self, generator: &str) -> f64 {
        let taken = self.taken.lock();
        let ends = taken.get(generator).and_then(|looks| looks.front().zip(looks.back()));
        let Some((&(since, before), &(until, now))) = ends else { return 0.0 };
        let seconds = until.duration_since(since).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is for people")]
        let ids = now.saturating_sub(before) as f64;
        if seconds > 0.0 { ids / seconds } else { 0.0 }
    }

    /// Generators that are missing from `taken` are forgotten.
    fn note(&self, now: Instant, taken: Vec<(String, u64)>) {
        let mut all = self.taken.lock();
        let mut before = std::mem::take(&mut *all);
        for (name, ids) in taken {
            let mut of = before.remove(&name).unwrap_or_default();
            of.push_back((now, ids));
            if of.len() > KEPT + 1 {
                of.pop_front();
            }
            all.insert(name, of);
        }
    }
}

/// Ends with the desk.
pub(super) async fn sample(desk: Weak<ProxyDesk>) {
    loop {
        let Some(here) = desk.upgrade() else { return };
        let tables = &here.parts.tables;
        let specs = tables.generator_specs();
        let taken = specs.iter().map(|spec| (spec.name.to_string(), tables.taken().of(&spec.name).ids()));
        here.rates.note(Instant::now(), taken.collect());
        drop(here);
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{KEPT, Rates};

    #[test]
    fn a_rate_is_of_the_last_seconds() {
        let (rates, begun) = (Rates::default(), Instant::now());
        let look = |second: u64, ids: u64| {
            rates.note(begun + Duration::from_secs(second), vec![("s.g".to_owned(), ids)]);
        };
        assert!(rates.per_second("s.g").abs() < f64::EPSILON, "nothing is known");
        look(0, 1_000_000);
        assert!(rates.per_second("s.g").abs() < f64::EPSILON, "one look is no rate");
        look(1, 1_000_500);
        assert!((rates.per_second("s.g") - 500.0).abs() < 1e-9);
        // More looks than are kept, at ten a second; the look before counts no more.
        for second in 2..=KEPT as u64 + 2 {
            look(second, 1_000_500 + (second - 2) * 10);
        }
        assert!((rates.per_second("s.g") - 10.0).abs() < 1e-9);
        rates.note(begun, vec![]);
        assert!(rates.per_second("s.g").abs() < f64::EPSILON, "it is gone");
    }
}
