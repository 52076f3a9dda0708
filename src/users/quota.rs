//! Limits of the ids that a user draws: a bucket for each grant that has a LIMIT. It holds as many ids as the limit
//! gives in a second, and this proxy fills it with its share of the limit.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::rights::{Grant, Scope};

#[derive(Debug, Default)]
pub(super) struct Quotas {
    buckets: Mutex<HashMap<(String, Scope), Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    ids: f64,
    at: Instant,
}

/// Why ids may not be drawn now. The text is for who asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("user {user} may draw {limit} ids a second of generator {generator} (LIMIT){}", self.remedy())]
pub(crate) struct OverQuota {
    user: String,
    generator: String,
    limit: u64,
    /// The ids may be drawn after this time. `None`: never so many at once.
    wait: Option<Duration>,
}

impl OverQuota {
    /// See the field.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    fn remedy(&self) -> String {
        match self.wait {
            // Rounded up.
            Some(wait) => {
                let wait = (wait.as_secs_f64() * 10.0).ceil() / 10.0;
                format!(", and has drawn them; try again in {wait} s")
            }
            None => format!("; ask for at most {} at once", self.limit),
        }
    }
}

impl Quotas {
    /// `proxies` share the limit.
    pub(super) fn take(
        &self,
        user: &str,
        grant: &Grant,
        (generator, n): (&str, u64),
        proxies: u64,
        now: Instant,
    ) -> Result<(), OverQuota> {
        let Some(limit) = grant.per_second else { return Ok(()) };
        let over = |wait| OverQuota { user: user.to_owned(), generator: generator.to_owned(), limit, wait };
        if n > limit {
            return Err(over(None));
        }
        let (most, wanted) = (as_float(limit), as_float(n));
        let share = most / as_float(proxies.max(1));
        let mut buckets = self.buckets.lock();
        let bucket =
            buckets.entry((user.to_owned(), grant.on.clone())).or_insert(Bucket { ids: most, at: now });
        let filled = now.duration_since(bucket.at).as_secs_f64() * share;
        (bucket.ids, bucket.at) = ((bucket.ids + filled).min(most), now);
        if bucket.ids >= wanted {
            bucket.ids -= wanted;
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64((wanted - bucket.ids) / share);
        Err(over(Some(wait.unwrap_or(Duration::MAX))))
    }

    /// Puts back what was taken and not used.
    pub(super) fn refund(&self, user: &str, grant: &Grant, n: u64) {
        let Some(limit) = grant.per_second else { return };
        if let Some(bucket) = self.buckets.lock().get_mut(&(user.to_owned(), grant.on.clone())) {
            bucket.ids = (bucket.ids + as_float(n)).min(as_float(limit));
        }
    }

    /// Forgets those of grants that are no more.
    pub(super) fn keep(&self, is_kept: impl Fn(&str, &Scope) -> bool) {
        self.buckets.lock().retain(|(user, on), _| is_kept(user, on));
    }
}

#[allow(clippy::cast_precision_loss)] // Limits above 2^53 ids a second do not matter.
fn as_float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::{Grant, Quotas};
    use crate::users::rights::Right;
    use std::time::Duration;
    use tokio::time::Instant;

    fn grant(per_second: Option<u64>) -> Grant {
        Grant::new(Right::Take, "shop.*".parse().unwrap(), per_second)
    }

    #[tokio::test]
    async fn a_bucket_is_filled_by_this_proxys_share() {
        let (quotas, start) = (Quotas::default(), Instant::now());
        let grant = grant(Some(10));
        let take = |n, proxies, at| {
            let taken = quotas.take("app", &grant, ("shop.x", n), proxies, start + Duration::from_millis(at));
            taken.map_err(|over| over.to_string())
        };
        let over = |remedy: &str| {
            Err(format!("user app may draw 10 ids a second of generator shop.x (LIMIT){remedy}"))
        };
        let wait = |tenths: u32| over(&format!(", and has drawn them; try again in 0.{tenths} s"));
        assert_eq!(take(11, 1, 0), over("; ask for at most 10 at once"));
        assert_eq!(take(10, 1, 0), Ok(()));
        assert_eq!(take(1, 1, 0), wait(1));
        assert_eq!(take(1, 4, 0), wait(4));
        let other = || quotas.take("other", &grant, ("shop.x", 10), 1, start);
        assert_eq!(other(), Ok(()), "each user has one");
        assert_eq!(take(5, 2, 1_000), Ok(()));
        assert_eq!(take(1, 2, 1_000), wait(2));
        assert_eq!(take(10, 2, 60_000), Ok(()));
        assert_eq!(take(1, 2, 60_000), wait(2), "no more is kept");
        quotas.refund("app", &grant, 4);
        assert_eq!((take(4, 2, 60_000), take(1, 2, 60_000).is_err()), (Ok(()), true));
        quotas.keep(|user, _| user == "other");
        assert_eq!(take(10, 1, 60_000), Ok(()));
        assert_eq!(other().unwrap_err().wait, Some(Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn without_a_limit_nothing_is_counted() {
        let quotas = Quotas::default();
        for _ in 0..3 {
            assert_eq!(quotas.take("app", &grant(None), ("shop.x", u64::MAX), 1, Instant::now()), Ok(()));
        }
        assert!(quotas.buckets.lock().is_empty());
    }
}
