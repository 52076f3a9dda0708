//! Ids that a client writes itself, into a table whose rule says that later ids go on above them.
//! They are not issued while their statement is under way. The generator is raised once the server
//! has stored them, and before the client gets the answer. An account that the server denies its
//! INSERT cannot use a generator up. `set_id` has those that it says beforehand.

pub(crate) mod set_id;

use std::sync::Arc;

use crate::rewrite::plan::target::Target;
use crate::rules::model;
use crate::tables::Tables;

/// The explicit ids of one statement that is under way.
#[derive(Debug)]
pub(crate) struct ExplicitIds {
    /// Which result of the packet is its own, counted from 0.
    pub(crate) statement: usize,
    pub(crate) target: Arc<Target>,
    /// The highest first.
    pub(crate) ids: Arc<[u64]>,
    /// The tables that expect these ids.
    tables: Arc<Tables>,
    pub(crate) is_followed: bool,
}

impl ExplicitIds {
    /// `None`: there is nothing to follow.
    pub(crate) fn expect(
        tables: &Arc<Tables>,
        target: &Arc<Target>,
        statement: usize,
        values: &[i128],
    ) -> Option<Self> {
        if values.is_empty() || target.rule.explicit != model::Explicit::Advance {
            return None;
        }
        let mut ids: Vec<u64> = values.iter().filter_map(|&value| u64::try_from(value).ok()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        let ids: Arc<[u64]> = ids.into();
        tables.expect(target, &ids);
        Some(ExplicitIds {
            statement,
            target: target.clone(),
            ids,
            tables: tables.clone(),
            is_followed: false,
        })
    }
}

impl Drop for ExplicitIds {
    fn drop(&mut self) {
        self.tables.unexpect(&self.target, &self.ids);
    }
}
