//! Views of ruled tables: an INSERT through one reaches the table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::rules::RuleSet;
use crate::schema::ViewText;
use crate::sql::statement::view::names_in;
use crate::table_name::{FoldedName, NameCase, TableName};

/// The views that mention a ruled table, directly or by another view, or may do so; as the backend
/// compares their names.
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
    pub(crate) fn contains(&self, name: &FoldedName<'_>) -> bool {
        self.ruled.load().contains(name)
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
