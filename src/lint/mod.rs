//! The rules against the live server: what would go wrong, or does already. Pure: facts and rules in, findings out.
//!
//! [`findings`] is all of it; `finding` has the codes, `report` what is printed. Each of the others judges one subject:
//! `names`, `columns`, `widths`, `keys`, `floors`, `counters`, `bodies` (what `sql/scan` sees of their texts), `views`, `grants`, `accounts`,
//! `server`, `stored`, `users`.

mod checks;
pub mod finding;
pub mod report;
mod store_facts;
mod survey;

use crate::lint::checks::{
    accounts, bodies, columns, counters, floors, grants, keys, names, server, stored, users, views, widths,
};
use crate::rules::RuleSet;
use crate::rules::column::Meant;
use crate::schema::facts::Facts;

pub use finding::{Code, Finding, Severity, Where};
pub use server::{compression, lock_held};
pub use store_facts::{Denied, StoreFacts, StoreKind};
pub use users::Access;

/// All that is to be said of these rules on this server, in the order in which it is shown: by table, the worst first. `access`: those who
/// draw ids without an INSERT are looked at too.
pub fn findings(facts: &Facts, rules: &RuleSet, store: &StoreFacts, access: Option<&Access>) -> Vec<Finding> {
    let bases = facts.tables.iter().filter(|table| table.is_base());
    let with_rules = bases.filter_map(|table| {
        let rule = rules.find(facts.case, &table.schema, &table.name).ok()??;
        matches!(rule.meant(&table.name, table.shapes()), Meant::Fills(_)).then_some(rule)
    });
    let with_rules: Vec<_> = with_rules.collect();
    let rules = &rules.with_made(with_rules.iter().map(|rule| &**rule));
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
    grants::judge(&survey, &mut found);
    accounts::judge(&survey, &mut found);
    server::judge(&survey, &mut found);
    stored::judge(&survey, &mut found);
    if let Some(access) = access {
        users::judge(access, &survey, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
