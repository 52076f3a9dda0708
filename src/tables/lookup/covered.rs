//! The tables that each rule fills, for display: otherwise nobody could tell which tables a pattern fills.

use std::collections::{BTreeSet, HashMap};

use crate::rewrite::plan::Lookup;
use crate::tables::InForce;

/// The tables of one rule that have been seen and get ids by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered {
    pub tables: usize,
    pub databases: BTreeSet<String>,
}

impl InForce {
    /// By the rule, as [`Rule::written`](crate::rules::model::Rule::written) has it.
    pub fn covered_by_rules(&self) -> HashMap<String, Covered> {
        let now = self.now();
        let mut all: HashMap<String, Covered> = HashMap::new();
        for entry in now.known.load().values() {
            let Lookup::Ruled(target) = &entry.lookup else { continue };
            if target.view.is_none() {
                let of_rule = all.entry(target.rule.written()).or_default();
                of_rule.tables += 1;
                if !of_rule.databases.contains(&target.rule.schema) {
                    of_rule.databases.insert(target.rule.schema.clone());
                }
            }
        }
        all
    }
}
