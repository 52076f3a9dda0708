//! Views of ruled tables: an INSERT through one reaches the table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::rules::RuleSet;
use crate::schema::{ViewSigns, ViewText};
use crate::sql::statement::view::names_in;
use crate::table_name::{FoldedName, NameCase, TableName};

/// The views that mention a ruled table, directly or by another view, or may do so; as the backend
/// compares their names.
#[derive(Debug, Default)]
pub(crate) struct Views {
    ruled: ArcSwap<Mentioning>,
    /// One more than the number of times that DDL had been seen when they were read. 0: they were never read.
    read_before: AtomicU64,
    looked: Mutex<Option<Looked>>,
}

/// The time after a sign of a change in which views are read at each look. The server counts
/// statements when they begin; one that waits for a lock changes something later.
const SETTLING: Duration = Duration::from_mins(1);

/// Without any sign they are read after this: for a statement that waited even longer, and for what
/// changes by no statement.
const READ_AGAIN: Duration = Duration::from_mins(1);

/// The last reading.
#[derive(Debug, Clone)]
struct Looked {
    read_at: Instant,
    /// The server's counts right before it; `None`: the server does not count.
    signs: Option<ViewSigns>,
    /// When other counts were seen last.
    changed_at: Instant,
}

impl Looked {
    fn may_be_old(&self, signs: Option<&ViewSigns>, now: Instant) -> bool {
        self.signs.is_none()
            || self.signs.as_ref() != signs
            || now.duration_since(self.changed_at) < SETTLING
            || now.duration_since(self.read_at) >= READ_AGAIN
    }
}

impl Clone for Views {
    fn clone(&self) -> Self {
        Views {
            ruled: ArcSwap::new(self.ruled.load_full()),
            read_before: AtomicU64::new(self.read_before.load(Ordering::Acquire)),
            looked: Mutex::new(self.looked.lock().clone()),
        }
    }
}

impl Views {
    /// True if the name is a view that mentions a ruled table, or may do so, as far as was read.
    pub(crate) fn contains(&self, name: &FoldedName<'_>) -> bool {
        self.ruled.load().contains(name)
    }

    /// True if the views were read after DDL was seen for the `ddl`-th time.
    pub(crate) fn are_read_at(&self, ddl: u64) -> bool {
        self.read_before.load(Ordering::Acquire) > ddl
    }

    /// True if the views may be others than those that were read, by what the server counts now.
    pub(crate) fn may_differ(&self, signs: Option<&ViewSigns>) -> bool {
        self.looked.lock().as_ref().is_none_or(|looked| looked.may_be_old(signs, Instant::now()))
    }

    /// Notes that the views were read, after the server had counted this.
    pub(crate) fn were_read(&self, signs: Option<ViewSigns>) {
        let mut looked = self.looked.lock();
        let now = Instant::now();
        let same = looked.as_ref().filter(|before| before.signs == signs);
        let changed_at = same.map_or(now, |before| before.changed_at);
        *looked = Some(Looked { read_at: now, signs, changed_at });
    }

    /// Takes these views for those of the server. True if others mention a ruled table than before.
    pub(crate) fn take(&self, rules: &RuleSet, case: NameCase, views: &[ViewText]) -> bool {
        let found = ruled(rules, case, views);
        let are_others = *self.ruled.load_full() != found;
        if are_others {
            self.ruled.store(found.into());
        }
        are_others
    }

    /// All of them.
    pub(crate) fn ruled(&self) -> Arc<Mentioning> {
        self.ruled.load_full()
    }

    /// The views that are known count as read when DDL had been seen `ddl` times.
    pub(crate) fn settle(&self, ddl: u64) {
        self.read_before.fetch_max(ddl + 1, Ordering::AcqRel);
    }
}

fn ruled(rules: &RuleSet, case: NameCase, views: &[ViewText]) -> Mentioning {
    mentioning(case, views, |schema, table| !matches!(rules.acting(case, schema, table), Ok(None)))
}

pub(crate) type Mentioning = BTreeSet<FoldedName<'static>>;

/// The views that mention a table that `is_ruled`, directly or by another view, or may do so.
pub(crate) fn mentioning(
    case: NameCase,
    views: &[ViewText],
    is_ruled: impl Fn(&str, &str) -> bool,
) -> Mentioning {
    let mut found = Mentioning::new();
    // A view of a view of a table takes one more round for each step.
    loop {
        let before = found.len();
        for view in views {
            // Without SHOW VIEW the definition is empty: it may be of any table.
            let mentions = view.definition.is_empty()
                || names_in(&view.definition).iter().any(|TableName { schema, table }| {
                    is_ruled(schema, table) || found.contains(&case.fold(schema, table))
                });
            if mentions {
                found.insert(case.fold(&view.schema, &view.name).into_owned());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Looked;
    use crate::schema::ViewSigns;

    #[test]
    fn a_quiet_server_is_asked_for_no_views() {
        let signs = |count| Some(ViewSigns::of_one(count));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        // When they were read, when other counts were seen last, what was counted then, and now.
        for (read, changed, before, now, seconds, expect) in [
            (100, 0, 7, 7, 105, false),
            (100, 0, 7, 7, 159, false),
            (100, 0, 7, 7, 160, true),
            (100, 0, 7, 8, 101, true),
            (100, 0, 7, 0, 101, true),
            (100, 99, 7, 7, 101, true),
            (155, 99, 7, 7, 158, true),
            (155, 99, 7, 7, 160, false),
        ] {
            let looked = Looked { read_at: at(read), signs: signs(before), changed_at: at(changed) };
            let told = looked.may_be_old(signs(now).as_ref(), at(seconds));
            assert_eq!(
                told, expect,
                "read at {read}, changed at {changed}, {before} then and {now} at {seconds}"
            );
            assert!(Looked { signs: None, ..looked }.may_be_old(None, at(seconds)), "nothing is counted");
        }
    }
}
