//! The changes that a new version of the rules makes, for people: line by line, in the words of the rules
//! files.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::model::{GeneratorKind, GeneratorSpec, Rule};
use super::set::RuleSet;
use crate::ids::nodes::Node;
use crate::ids::sequence::{Batch, Seed};
use crate::toml_file::Interval;

/// One rule or generator that has come, gone or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `table shop.orders`, `generator shop.g`
    what: String,
    how: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// With these keys, as `key value`.
    Added(Vec<String>),
    Removed,
    /// With these changed keys, as `key old -> new`.
    Changed(Vec<String>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            How::Added(keys) => write!(f, "{} is new: {}", self.what, keys.join(", ")),
            How::Removed => write!(f, "{} is removed from the rules", self.what),
            How::Changed(keys) => write!(f, "{} has changed: {}", self.what, keys.join(", ")),
        }
    }
}

/// The keys of a rule or generator that act, in the order in which they are listed.
type Keys = Vec<(&'static str, String)>;

/// All that acts otherwise under `new` than under `old`; where it stands in the files does not
/// count. Generators first, each kind by name.
pub fn changes(old: &RuleSet, new: &RuleSet) -> Vec<Change> {
    let generators = |rules: &RuleSet| -> BTreeMap<String, Keys> {
        rules.specs().map(|spec| (format!("generator {}", spec.name), keys_of_generator(spec))).collect()
    };
    let tables = |rules: &RuleSet| -> BTreeMap<String, Keys> {
        rules
            .rules()
            .map(|rule| (format!("table {}.{}", rule.schema, rule.table), keys_of_rule(rule)))
            .collect()
    };
    let mut all = between(generators(old), generators(new));
    all.extend(between(tables(old), tables(new)));
    all
}

fn between(mut old: BTreeMap<String, Keys>, new: BTreeMap<String, Keys>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (what, keys) in new {
        let how = match old.remove(&what) {
            None => How::Added(keys.into_iter().map(|(key, value)| format!("{key} {value}")).collect()),
            Some(before) if before != keys => How::Changed(differing(&before, &keys)),
            Some(_) => continue,
        };
        changes.push(Change { what, how });
    }
    changes.extend(old.into_keys().map(|what| Change { what, how: How::Removed }));
    changes.sort_by(|a, b| a.what.cmp(&b.what));
    changes
}

fn differing(old: &Keys, new: &Keys) -> Vec<String> {
    let value =
        |keys: &Keys, name: &str| keys.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
    let mut told: Vec<String> = new
        .iter()
        .filter_map(|(key, now)| match value(old, key) {
            Some(before) if before == *now => None,
            before => Some(format!("{key} {} -> {now}", before.as_deref().unwrap_or("none"))),
        })
        .collect();
    let gone = old.iter().filter(|(key, _)| value(new, key).is_none());
    told.extend(gone.map(|(key, before)| format!("{key} {before} -> none")));
    told
}

fn keys_of_rule(rule: &Rule) -> Keys {
    vec![
        ("column", rule.column.clone()),
        ("generator", rule.generator.to_string()),
        ("explicit", word(&rule.explicit)),
        ("insert_id", word(&rule.insert_id)),
        ("mode", word(&rule.mode)),
        ("unavailable", word(&rule.unavailable)),
        ("collide", word(&rule.collide)),
    ]
}

fn keys_of_generator(spec: &GeneratorSpec) -> Keys {
    let mut keys = keys_of_kind(&spec.kind);
    keys.push(("sql", spec.sql.to_string()));
    keys
}

fn keys_of_kind(kind: &GeneratorKind) -> Keys {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    match kind {
        GeneratorKind::Sequence(sequence) => vec![
            ("kind", "sequence".to_owned()),
            ("start", sequence.start.to_string()),
            ("step", sequence.step.to_string()),
            ("offset", sequence.offset.to_string()),
            (
                "batch",
                match sequence.batch {
                    Batch::Auto => "auto".to_owned(),
                    Batch::Fixed(ids) => ids.to_string(),
                },
            ),
            ("low_water", sequence.low_water.to_string()),
            ("max", or_none(sequence.max.map(|max| max.to_string()))),
            (
                "seed",
                match sequence.seed {
                    Seed::Tables => "tables".to_owned(),
                    Seed::None => "none".to_owned(),
                },
            ),
        ],
        GeneratorKind::Timestamp(timestamp) => vec![
            ("kind", "timestamp".to_owned()),
            ("layout", format!("({})", timestamp.layout)),
            ("random_start", timestamp.layout.random_start().to_string()),
            (
                "node",
                match timestamp.node {
                    Node::Auto => "auto".to_owned(),
                    Node::Fixed(node) => node.to_string(),
                },
            ),
            ("advance", interval(timestamp.advance)),
            ("max_ahead", or_none(timestamp.max_ahead.map(interval))),
            ("max_forward", interval(timestamp.max_forward)),
        ],
    }
}

fn interval(duration: Duration) -> String {
    Interval(duration).to_string()
}

/// The word of a value, as the rules files spell it.
pub fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::changes;
    use crate::rules::RuleSet;

    fn rules(text: &str) -> RuleSet {
        RuleSet::of_text(&format!("schema = \"s\"\n{text}"))
    }

    #[track_caller]
    fn check(old: &str, new: &str, expect: &[&str]) {
        let told: Vec<String> = changes(&rules(old), &rules(new)).iter().map(ToString::to_string).collect();
        assert_eq!(told, expect);
    }

    const G: &str = "[generators.g]\nkind = \"sequence\"\n";
    const T: &str = "[tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";

    #[test]
    fn what_is_told() {
        let both = [G, T].concat();
        check(&both, &both, &[]);
        check(&both, &format!("# moved down\n\n{both}"), &[]);
        check(
            "",
            &both,
            &[
                "generator s.g is new: kind sequence, start 1, step 1, offset 0, batch auto, low_water 0.5, max none, seed tables, sql false",
                "table s.t is new: column id, generator s.g, explicit advance, insert_id session, mode on, unavailable refuse, collide raise",
            ],
        );
        check(&both, "", &["generator s.g is removed from the rules", "table s.t is removed from the rules"]);
        check(
            &both,
            &format!("{G}batch = 500\nmax = 9000\n{T}explicit = \"reject\"\nmode = \"off\"\n"),
            &[
                "generator s.g has changed: batch auto -> 500, max none -> 9000",
                "table s.t has changed: explicit advance -> reject, mode on -> off",
            ],
        );
        check(&both, &format!("{G}sql = true\n{T}"), &["generator s.g has changed: sql false -> true"]);
        // A name that was another table's is another table.
        check(
            &both,
            &both.replace("tables.t", "tables.u"),
            &[
                "table s.t is removed from the rules",
                "table s.u is new: column id, generator s.g, explicit advance, insert_id session, mode on, unavailable refuse, collide raise",
            ],
        );
    }

    #[test]
    fn a_generator_of_the_other_kind() {
        let timestamp = "[generators.g]\nkind = \"timestamp\"\nlayout = \"snowflake\"\nmax_ahead = \"90s\"\n";
        let told = changes(&rules(&[G, T].concat()), &rules(&[timestamp, T].concat()));
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        for part in [
            "generator s.g has changed: kind sequence -> timestamp, layout none -> (",
            "node none -> auto",
            "max_ahead none -> 1m 30s",
            "step 1 -> none",
        ] {
            assert!(told[0].contains(part), "{part}: {told:?}");
        }
        assert_eq!(told[1], "table s.t has changed: explicit advance -> keep");
    }
}
