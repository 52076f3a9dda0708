//! Tables that the server has no more: what is known of them is forgotten, and what was made for them. An application that makes
//! tables under ever new names must not fill the memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Instant;

use crate::rules::model::GeneratorName;
use crate::schema::SchemaError;
use crate::table_name::FoldedName;
use crate::tables::{InForce, Tables};

impl InForce {
    /// Forgets the tables that are not there any more, and the generators that were made for these alone. The store keeps their
    /// bounds: where such a table is made again, its ids go on above all that were issued.
    pub async fn forget_gone(&self) -> Result<(), SchemaError> {
        let Some(schema) = &self.common.schema else { return Ok(()) };
        // A change reads all tables itself.
        let Ok(_nothing_changes) = self.changing.try_lock() else { return Ok(()) };
        let now = self.now();
        let mut gone = now.outdated();
        if gone.is_empty() {
            return Ok(());
        }
        for (name, _) in schema.ruled_names(self.common.case, &now.rules).await?.names {
            gone.remove(&now.folded(&name.schema, &name.table).into_owned());
        }
        if gone.is_empty() {
            return Ok(());
        }
        let _nothing_is_assigned = self.common.fetching.lock().await;
        now.forget(&gone);
        Ok(())
    }
}

impl Tables {
    /// The names that are read again before they are used, if they ever are; each with the time when it was read.
    fn outdated(&self) -> BTreeMap<FoldedName<'static>, Instant> {
        let (known, ddl, now) = (self.known.load(), self.common.ddl.seen(), Instant::now());
        let outdated = known.iter().filter(|(_, entry)| !self.is_fresh(entry, ddl, now));
        outdated.map(|(name, entry)| (name.clone(), entry.read_at)).collect()
    }

    /// The caller holds `fetching`: nothing that is outdated is read again meanwhile. What was read since `gone` was made up is
    /// there again.
    fn forget(&self, gone: &BTreeMap<FoldedName<'static>, Instant>) {
        let outdated = self.outdated();
        let is_gone =
            |(name, read_at): &(&FoldedName<'static>, &Instant)| outdated.get(*name) == Some(*read_at);
        let gone: BTreeSet<_> = gone.iter().filter(is_gone).map(|(name, _)| name.clone()).collect();
        self.change_known(|known| known.retain(|name, _| !gone.contains(name)));
        // Not by what is known of the tables, which may be that they cannot be served now.
        let drawn: HashSet<GeneratorName> = self
            .known
            .load()
            .iter()
            .filter(|(_, entry)| entry.is_assigned)
            .filter_map(|(name, _)| self.rules.acting(self.common.case, name.schema(), name.table()).ok()?)
            .map(|rule| rule.generator.clone())
            .collect();
        let closed = self.generators.remove_made(|name| !drawn.contains(name));
        if closed.is_empty() {
            return;
        }
        for (_, generator) in &closed {
            generator.burn();
        }
        let names: Vec<&GeneratorName> = closed.iter().map(|(name, _)| name).collect();
        self.common.taken.forget(&names);
        tracing::info!(
            generators = closed.len(),
            tables = gone.len(),
            "tables no longer exist; Rowstamp has closed the generators that it made for them"
        );
    }
}
