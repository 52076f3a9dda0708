//! The rules against the live server: what would go wrong, or does already. Pure: facts and rules in, findings out.
//!
//! [`findings`] is all of it; `finding` has the codes, `report` what is printed. Each of the others judges one subject:
//! `names`, `columns`, `widths`, `keys`, `floors`, `counters`, `bodies` (what `scan` sees of their texts), `views`, `rights`,
//! `server`, `stored`.

mod checks;
pub mod finding;
pub mod report;
mod scan;
mod store_facts;
mod survey;

use crate::lint::checks::{
    bodies, columns, counters, floors, keys, names, rights, server, stored, views, widths,
};
use crate::rules::RuleSet;
use crate::schema::facts::Facts;

pub use finding::{Code, Finding, Severity, Where};
pub use server::{compression, lock_held};
pub use store_facts::{StoreFacts, StoreKind};

/// All that is to be said of these rules on this server, in the order in which it is shown: by table, the worst first.
pub fn findings(facts: &Facts, rules: &RuleSet, store: &StoreFacts) -> Vec<Finding> {
    let survey = survey::Survey::of(facts, rules, store);
    let mut found = Vec::new();
    names::judge(&survey, &mut found);
    columns::judge(&survey, &mut found);
    widths::judge(&survey, &mut found);
    keys::judge(&survey, &mut found);
    floors::judge(&survey, &mut found);
    counters::judge(&survey, &mut found);
    views::judge(&survey, &mut found);
    bodies::judge(&survey, &mut found);
    rights::judge(&survey, &mut found);
    server::judge(&survey, &mut found);
    stored::judge(&survey, &mut found);
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
