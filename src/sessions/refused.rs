//! Statements that the proxy has refused, one row for all that differ in their values alone: what the log has a line of once an
//! hour, and the console shows.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Rows that are kept; then the one that was seen longest ago goes. A row takes some 2 KiB at most.
const ROWS_MAX: usize = 1_000;
/// A row is logged once in this time at most.
const PERIOD: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
pub struct Refused(Mutex<HashMap<String, Row>>);

#[derive(Debug)]
struct Row {
    seen: RefusedStatement,
    logged: SystemTime,
}

/// Statements that differ in their values alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedStatement {
    /// The digest's hash, as `log.audit` and `explain` have it.
    pub digest: String,
    /// Without its values; empty where its text is not known any more.
    pub statement: String,
    /// The reason, as in the error that the last client got.
    pub why: String,
    pub count: u64,
    /// Whose the last one was.
    pub user: String,
    pub last: SystemTime,
}

impl Refused {
    /// Notes one; `seen.count` is what it adds. Returns how often it was refused so far, if the log is to have a line.
    pub fn note(&self, seen: RefusedStatement) -> Option<u64> {
        let mut rows = self.0.lock();
        if rows.len() >= ROWS_MAX && !rows.contains_key(&seen.digest) {
            let oldest = rows.iter().min_by_key(|(_, row)| row.seen.last).map(|(digest, _)| digest.clone());
            oldest.and_then(|digest| rows.remove(&digest));
        }
        match rows.get_mut(&seen.digest) {
            None => {
                let (digest, count, logged) = (seen.digest.clone(), seen.count, seen.last);
                rows.insert(digest, Row { seen, logged });
                Some(count)
            }
            Some(row) => {
                let count = row.seen.count.saturating_add(seen.count);
                row.seen = RefusedStatement { count, ..seen };
                let since = row.seen.last.duration_since(row.logged).unwrap_or_default();
                (since >= PERIOD).then(|| {
                    row.logged = row.seen.last;
                    count
                })
            }
        }
    }

    /// The most frequent first.
    pub fn rows(&self) -> Vec<RefusedStatement> {
        let rows = self.0.lock();
        let mut rows: Vec<_> = rows.values().map(|row| row.seen.clone()).collect();
        rows.sort_by(|a, b| (b.count, &a.digest).cmp(&(a.count, &b.digest)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS_MAX, Refused, RefusedStatement};
    use std::time::{Duration, SystemTime};

    fn seen(digest: &str, user: &str, seconds: u64) -> RefusedStatement {
        RefusedStatement {
            digest: digest.into(),
            statement: "INSERT INTO t VALUES (...)".into(),
            why: "because".into(),
            count: 1,
            user: user.into(),
            last: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        }
    }

    #[test]
    fn each_is_logged_once_an_hour_and_counted_always() {
        let refused = Refused::default();
        assert_eq!(refused.note(seen("a", "one", 0)), Some(1));
        assert_eq!(refused.note(seen("a", "two", 3_599)), None);
        assert_eq!(refused.note(seen("b", "one", 3_599)), Some(1));
        assert_eq!(refused.note(seen("a", "three", 3_600)), Some(3));
        assert_eq!(refused.note(seen("a", "four", 3_601)), None);
        let rows: Vec<_> = refused.rows().into_iter().map(|row| (row.digest, row.count, row.user)).collect();
        assert_eq!(rows, [("a".into(), 4, "four".into()), ("b".into(), 1, "one".into())]);
    }

    #[test]
    fn the_oldest_gives_its_place() {
        let refused = Refused::default();
        for n in 0..=ROWS_MAX as u64 {
            assert_eq!(refused.note(seen(&n.to_string(), "app", n)), Some(1));
        }
        let rows = refused.rows();
        assert_eq!(rows.len(), ROWS_MAX);
        assert!(rows.iter().all(|row| row.digest != "0"));
    }
}
