//! Ids that a client wrote itself, once the server has stored them: the generator goes past them.

use std::sync::Arc;

use crate::ids::generator::Advanced;
use crate::proxy::session::Session;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;

impl Session {
    /// The server has stored the present result's ids: later ones of the generator are above them.
    pub(in crate::proxy) async fn follow_explicit(&mut self) {
        let Some(explicit) = self.relay.outstanding.explicit() else { return };
        explicit.is_followed = true;
        let (target, ids) = (explicit.target.clone(), explicit.ids.clone());
        self.follow(&target, &ids).await;
    }

    /// `ids`: the highest first. By the active rules: the generators of earlier ones may be closed.
    pub(in crate::proxy) async fn follow(&mut self, target: &Target, ids: &[u64]) {
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
        let mut tables = self.relay.session.tables.now();
        loop {
            let now = match tables.lookup(&target.rule.schema, &target.table) {
                Lookup::Ruled(now) => now,
                _ => Arc::new(target.clone()),
            };
            let advanced = tables.advance_past(&now, id, limit).await;
            if !tables.is_retired() {
                return advanced.map_err(|error| error.to_string());
            }
            let next = self.relay.session.tables.after(&tables, limit).await;
            tables = next.ok_or("the rules are being changed")?;
        }
    }
}
