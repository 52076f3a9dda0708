//! Views of ruled tables: an INSERT through one would reach the table without its id.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::rules::RuleSet;
use crate::rules::model::NameCase;
use crate::schema::ViewText;

/// The views that mention a ruled table, directly or by another view; by schema and name as the backend compares them.
#[derive(Debug, Default)]
pub(super) struct Views {
    ruled: ArcSwap<HashMap<String, HashSet<String>>>,
    /// How often DDL had been seen when they were read.
    ddl: AtomicU64,
}

impl Views {
    /// Whether the name is such a view, as far as was read.
    pub(super) fn contains(&self, schema: &str, name: &str) -> bool {
        self.ruled.load().get(schema).is_some_and(|names| names.contains(name))
    }

    /// Whether they were read after DDL was seen for the `ddl`-th time.
    pub(super) fn are_read_at(&self, ddl: u64) -> bool {
        self.ddl.load(Ordering::Acquire) >= ddl
    }

    pub(super) fn take(&self, rules: &RuleSet, case: NameCase, views: &[ViewText]) {
        self.ruled.store(ruled(rules, case, views).into());
    }

    /// What is known counts as read when DDL had been seen `ddl` times.
    pub(super) fn settle(&self, ddl: u64) {
        self.ddl.fetch_max(ddl, Ordering::AcqRel);
    }
}

fn ruled(rules: &RuleSet, case: NameCase, views: &[ViewText]) -> HashMap<String, HashSet<String>> {
    let fold = |name: &str| match case {
        NameCase::Sensitive => name.to_owned(),
        NameCase::Insensitive => name.to_lowercase(),
    };
    let mut found: HashMap<String, HashSet<String>> = HashMap::new();
    // A view of a view of a table takes one more round for each step.
    loop {
        let before: usize = found.values().map(HashSet::len).sum();
        for view in views {
            let is_ruled = names_in(&view.definition).iter().any(|(schema, table)| {
                !matches!(rules.find(case, schema, table), Ok(None))
                    || found.get(&fold(schema)).is_some_and(|names| names.contains(&fold(table)))
            });
            if is_ruled {
                found.entry(fold(&view.schema)).or_default().insert(fold(&view.name));
            }
        }
        if found.values().map(HashSet::len).sum::<usize>() == before {
            return found;
        }
    }
}

/// Every `` `a`.`b` `` of a definition, as information_schema writes it; a column's `` `a`.`b`.`c` `` counts twice.
fn names_in(definition: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut last: Option<String> = None;
    let mut rest = definition;
    while let Some(at) = rest.find(['`', '\'']) {
        let (between, quoted) = rest.split_at(at);
        let is_joined = between == ".";
        let Some((name, tail)) = quoted_name(quoted) else { break };
        if quoted.starts_with('`') {
            if is_joined && let Some(schema) = last.take() {
                names.push((schema, name.clone()));
            }
            last = Some(name);
        } else {
            last = None;
        }
        rest = tail;
    }
    names
}

/// What stands between the quotes that `text` begins with, and what follows them.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(_)) if quote == '\'' => {
                chars.next();
            }
            (c, Some(&(_, next))) if c == quote && next == quote => {
                chars.next();
                name.push(c);
            }
            (c, _) if c == quote => return Some((name, text.get(at + 1..).unwrap_or_default())),
            (c, _) => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[track_caller]
    fn check(definition: &str, expect: &[(&str, &str)]) {
        let names = names_in(definition);
        let names: Vec<(&str, &str)> = names.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(names, expect, "{definition}");
    }

    #[test]
    fn names_of_a_definition() {
        check(
            "select `shop`.`orders`.`id` AS `id` from `shop`.`orders`",
            &[("shop", "orders"), ("orders", "id"), ("shop", "orders")],
        );
        check("select 1 AS `a`,'`x`.`y`' AS `b` from `s`.`t``1`", &[("s", "t`1")]);
        check("select 'it\\'s `a`.`b`' AS `c`", &[]);
        check("select `a` `b`", &[]);
        check("select `open", &[]);
    }
}
