//! The changes that a new version of the rules makes, for people: line by line, in the words of the rules
//! files.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::model::{GeneratorKind, GeneratorSpec, Rule};
use super::set::RuleSet;
use crate::ids::nodes::Node;
use crate::ids::sequence::Batch;
use crate::toml_file::Interval;

/// The keys of a rule or generator that act, in the order in which they are listed.
type Keys = Vec<(&'static str, String)>;

/// All that acts otherwise under `new` than under `old`; where it stands in the files does not
/// count. Generators first, each kind by name.
pub fn changes(old: &RuleSet, new: &RuleSet) -> Vec<String> {
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

fn between(mut old: BTreeMap<String, Keys>, new: BTreeMap<String, Keys>) -> Vec<String> {
    // By `table shop.orders`, `generator shop.g`.
    let mut changes = BTreeMap::new();
    for (what, keys) in new {
        let how = match old.remove(&what) {
            None => {
                let keys: Vec<_> = keys.into_iter().map(|(key, value)| format!("{key} {value}")).collect();
                format!("is new: {}", keys.join(", "))
            }
            Some(before) if before != keys => {
                format!("has changed: {}", differing(&before, &keys).join(", "))
            }
            Some(_) => continue,
        };
        changes.insert(what, how);
    }
    changes.extend(old.into_keys().map(|what| (what, "is removed from the rules".to_owned())));
    changes.into_iter().map(|(what, how)| format!("{what} {how}")).collect()
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
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let mut keys = match &spec.kind {
        GeneratorKind::Sequence(sequence) => {
            let batch = match sequence.batch {
                Batch::Auto => "auto".to_owned(),
                Batch::Fixed(ids) => ids.to_string(),
            };
            vec![
                ("kind", "sequence".to_owned()),
                ("start", sequence.start.to_string()),
                ("step", sequence.step.to_string()),
                ("offset", sequence.offset.to_string()),
                ("batch", batch),
                ("low_water", sequence.low_water.to_string()),
                ("max", or_none(sequence.max.map(|max| max.to_string()))),
                ("seed", word(&sequence.seed)),
            ]
        }
        GeneratorKind::Timestamp(timestamp) => {
            let node = match timestamp.node {
                Node::Auto => "auto".to_owned(),
                Node::Fixed(node) => node.to_string(),
            };
            vec![
                ("kind", "timestamp".to_owned()),
                ("layout", format!("({})", timestamp.layout)),
                ("random_start", timestamp.layout.random_start().to_string()),
                ("node", node),
                ("advance", interval(timestamp.advance)),
                ("max_ahead", or_none(timestamp.max_ahead.map(interval))),
                ("max_forward", interval(timestamp.max_forward)),
            ]
        }
    };
    keys.push(("sql", spec.sql.to_string()));
    keys
}

fn interval(duration: Duration) -> String {
    Interval(duration).to_string()
}

/// The word of a value, as serde spells it: that of the rules files.
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
        assert_eq!(changes(&rules(old), &rules(new)), expect);
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
