//! Ids that a client writes itself, into a table whose rule says that later ids go on above them. They are not issued while their
//! statement is under way, and the generator is raised once the server has stored them and before the client sees that: an account
//! that the server denies its INSERT cannot use a generator up.

use std::sync::Arc;

use super::outstanding::{Forward, Note, Outstanding};
use super::relay::Relay;
use super::session::Session;
use super::tables::Tables;
use crate::ids::generator::Advanced;
use crate::rewrite::plan::{Lookup, Target};
use crate::rules::model;

/// Those of one statement that is under way.
#[derive(Debug)]
pub(super) struct Explicit {
    /// Which result of the packet is its own, counted from 0.
    statement: usize,
    target: Arc<Target>,
    /// The highest first.
    ids: Arc<[u64]>,
    /// Where they are expected.
    tables: Arc<Tables>,
    is_followed: bool,
}

impl Explicit {
    /// `None`: there is nothing to follow.
    pub(super) fn expect(
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
        Some(Explicit { statement, target: target.clone(), ids, tables: tables.clone(), is_followed: false })
    }
}

impl Drop for Explicit {
    fn drop(&mut self) {
        self.tables.unexpect(&self.target, &self.ids);
    }
}

impl Relay {
    /// The ids of the present result that are to be followed before it goes on.
    fn explicit(&mut self) -> Option<&mut Explicit> {
        let Some(Outstanding::Forward(Forward { note: Note::Statements { explicit, .. }, results, .. })) =
            self.outstanding.front_mut()
        else {
            return None;
        };
        explicit.iter_mut().find(|one| one.statement == *results && !one.is_followed)
    }

    pub(super) fn must_follow_explicit(&mut self) -> bool {
        self.explicit().is_some()
    }
}

impl Session {
    /// The server has stored the present result's ids: later ones of the generator are above them.
    pub(super) async fn follow_explicit(&mut self) {
        let Some(explicit) = self.relay.explicit() else { return };
        explicit.is_followed = true;
        let (target, ids) = (explicit.target.clone(), explicit.ids.clone());
        self.follow(&target, &ids).await;
    }

    /// The highest first. By the active rules: what was planned under others may be closed.
    pub(super) async fn follow(&mut self, target: &Target, ids: &[u64]) {
        let table = || format!("{}.{}", target.rule.schema, target.table);
        for &id in ids {
            match self.advance_past(target, id).await {
                // All others lie below it.
                Ok(Advanced::Past) => return,
                Ok(Advanced::Elsewhere) => {}
                Ok(Advanced::TooFar) => tracing::warn!(
                    table = table(),
                    generator = %target.rule.generator,
                    "an id that a client wrote lies more than 1e9 above the generator's bound: it is stored, and not followed"
                ),
                Err(error) => {
                    tracing::warn!(
                        table = table(),
                        id,
                        error,
                        "an id that a client wrote is stored, and not followed: when the generator comes to it, the server \
                         answers 1062; raise the generator above it (rowstamp store raise)"
                    );
                    return;
                }
            }
        }
    }

    async fn advance_past(&mut self, target: &Target, id: u64) -> Result<Advanced, String> {
        let limit = self.shared.id_deadline;
        let mut tables = self.relay.view.tables.now();
        loop {
            let now = match tables.lookup(&target.rule.schema, &target.table) {
                Lookup::Ruled(now) => now,
                _ => Arc::new(target.clone()),
            };
            let advanced = tables.advance_past(&now, id, limit).await;
            if !tables.is_retired() {
                return advanced.map_err(|error| error.to_string());
            }
            let next = self.relay.view.tables.after(&tables, limit).await;
            tables = next.ok_or("the rules are being changed")?;
        }
    }
}
