//! Views of ruled tables: an INSERT through one reaches the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::rules::RuleSet;
use crate::rules::model::NameCase;
use crate::schema::ViewText;
use crate::sql::statement::view::names_in;

/// The views that mention a ruled table, directly or by another view, or may do so; by schema and name as the backend
/// compares them.
#[derive(Debug, Default)]
pub(crate) struct Views {
    ruled: ArcSwap<Mentioning>,
    /// How often DDL had been seen when they were read.
    ddl: AtomicU64,
}

impl Clone for Views {
    fn clone(&self) -> Self {
        Views {
            ruled: ArcSwap::new(self.ruled.load_full()),
            ddl: AtomicU64::new(self.ddl.load(Ordering::Acquire)),
        }
    }
}

impl Views {
    /// Whether the name is such a view, as far as was read.
    pub(crate) fn contains(&self, schema: &str, name: &str) -> bool {
        self.ruled.load().get(schema).is_some_and(|names| names.contains(name))
    }

    /// Whether they were read after DDL was seen for the `ddl`-th time.
    pub(crate) fn are_read_at(&self, ddl: u64) -> bool {
        self.ddl.load(Ordering::Acquire) >= ddl
    }

    /// Returns whether others mention a ruled table than before.
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

    /// What is known counts as read when DDL had been seen `ddl` times.
    pub(crate) fn settle(&self, ddl: u64) {
        self.ddl.fetch_max(ddl, Ordering::AcqRel);
    }
}

fn ruled(rules: &RuleSet, case: NameCase, views: &[ViewText]) -> Mentioning {
    mentioning(case, views, |schema, table| !matches!(rules.acting(case, schema, table), Ok(None)))
}

/// Names of views by their schemas, both as the backend compares them.
pub(crate) type Mentioning = BTreeMap<String, BTreeSet<String>>;

/// The views that mention a table that `is_ruled`, directly or by another view, or may do so.
pub(crate) fn mentioning(
    case: NameCase,
    views: &[ViewText],
    is_ruled: impl Fn(&str, &str) -> bool,
) -> Mentioning {
    let mut found = Mentioning::new();
    // A view of a view of a table takes one more round for each step.
    loop {
        let before: usize = found.values().map(BTreeSet::len).sum();
        for view in views {
            // Without SHOW VIEW the definition is empty: it may be of any table.
            let mentions = view.definition.is_empty()
                || names_in(&view.definition).iter().any(|(schema, table)| {
                    is_ruled(schema, table)
                        || found
                            .get(&*case.folded(schema))
                            .is_some_and(|names| names.contains(&*case.folded(table)))
                });
            if mentions {
                let schema = case.folded(&view.schema).into_owned();
                found.entry(schema).or_default().insert(case.folded(&view.name).into_owned());
            }
        }
        if found.values().map(BTreeSet::len).sum::<usize>() == before {
            return found;
        }
    }
}
