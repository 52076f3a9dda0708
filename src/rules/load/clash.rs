//! Rules of which the texts show that they could never tell their tables, or their generators, apart.

use std::collections::BTreeMap;

use super::{Link, about};
use crate::rules::model::{GeneratorKind, GeneratorName, GeneratorSpec, Rule};
use crate::rules::pattern::{self, is_pattern};
use crate::rules::template::TABLE;
use crate::toml_file::{Finding, join};

/// Patterns of one schema: each INSERT into a table that has no rule of its own tries them all. So it does with those of all
/// patterns of schemas.
const PATTERNS_MAX: usize = 1000;

/// Rules that are tried one after another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Group<'a> {
    /// The patterns of a schema.
    Of(&'a str),
    /// The patterns of all patterns of schemas.
    Wide,
    /// All that name this table exactly, each for a pattern of schemas.
    WideFor(&'a str),
}

fn group(rule: &Rule) -> Option<Group<'_>> {
    match (rule.of_schemas.is_some(), is_pattern(&rule.table)) {
        (false, false) => None,
        (false, true) => Some(Group::Of(&rule.schema)),
        (true, false) => Some(Group::WideFor(&rule.table)),
        (true, true) => Some(Group::Wide),
    }
}

/// A pattern that lies within another one could never tell its tables from the other's.
pub(super) fn patterns<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<Finding> {
    let mut groups: BTreeMap<Group<'_>, Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        if let Some(group) = group(rule) {
            groups.entry(group).or_default().push(rule);
        }
    }
    let mut found = Vec::new();
    for (group, rules) in groups {
        let Some(one_too_many) = rules.get(PATTERNS_MAX) else {
            found.extend(rules.iter().filter_map(|narrow| within_another(narrow, &rules)));
            continue;
        };
        let whose = match group {
            Group::Of(schema) => format!("schema {schema} has"),
            Group::Wide | Group::WideFor(_) => "all patterns of schemas together have".to_owned(),
        };
        let count = rules.len();
        let text = format!(
            "{whose} {count} patterns, and {PATTERNS_MAX} is the maximum; write exact names, or wider patterns"
        );
        found.push(about(one_too_many, text));
    }
    found
}

fn within_another(narrow: &Rule, rules: &[&Rule]) -> Option<Finding> {
    let covers = |wide: &&&Rule| {
        let is_same = wide.table == narrow.table && wide.schema == narrow.schema;
        !is_same
            && pattern::covers(&wide.table, &narrow.table)
            && (wide.schema == narrow.schema || pattern::covers(&wide.schema, &narrow.schema))
    };
    let Rule { schema, table, origin, .. } = rules.iter().find(covers)?;
    let of = if *schema == narrow.schema { String::new() } else { format!(" of {schema:?}") };
    let text = format!(
        "all tables of this pattern match {table:?}{of} ({origin}) too, and only an exact name beats a pattern; remove one pattern"
    );
    Some(about(narrow, text))
}

/// Tables that would draw from a generator that is defined by its name, and is of another kind than what their rule names.
pub(super) fn kinds(link: &Link<'_>) -> Vec<Finding> {
    let specs = link.generators.values().filter_map(|defined| defined.spec.as_ref());
    let defined: Vec<&GeneratorSpec> =
        specs.map(|spec| &**spec).filter(|spec| !spec.name.is_template()).collect();
    let clash = |rule: &Rule| {
        let made = rule.made_from.as_deref()?;
        let is_it = |spec: &&&GeneratorSpec| {
            is_timestamp(spec) != is_timestamp(made)
                && rule.generator.makes(&spec.name)
                && table_of(&rule.generator, &spec.name).is_some_and(|table| is_for(link, rule, table))
        };
        let GeneratorSpec { name, origin, .. } = defined.iter().find(is_it)?;
        let text = format!(
            "would give a table the generator {name}, which is defined at {origin} with the other kind; write a rule for that table \
             alone, or rename the generator"
        );
        let key = join(&join("tables", &rule.table), "generator");
        Some(Finding::error(&rule.origin.file, Some(rule.origin.line), Some(&key), text))
    };
    link.rules.values().filter_map(clash).collect()
}

fn is_timestamp(spec: &GeneratorSpec) -> bool {
    matches!(spec.kind, GeneratorKind::Timestamp(_))
}

/// The table whose generator would be named so.
fn table_of<'a>(template: &GeneratorName, name: &'a GeneratorName) -> Option<&'a str> {
    let (before, after) = template.name.split_once(TABLE)?;
    name.name.strip_prefix(before)?.strip_suffix(after)
}

/// True if this rule is the rule of a table of this name, as far as the texts show.
fn is_for(link: &Link<'_>, rule: &Rule, table: &str) -> bool {
    let its_own = (rule.schema.clone(), table.to_owned());
    pattern::matches(&rule.table, table) && (rule.table == table || !link.rules.contains_key(&its_own))
}
