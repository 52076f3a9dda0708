//! Each key with each kind of value: a finding names the file, the line and the key, and says in words of ours what to do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PLAIN, RULES, folder, found};

const VALUES: [&str; 15] = [
    "''",
    "'canary'",
    "' '",
    "'*'",
    "'a{b}c'",
    "'${UNSET}'",
    "0",
    "-7",
    "1.5",
    "1e40",
    "true",
    "['canary']",
    "[5]",
    "{ a = 'canary' }",
    "1979-05-27",
];
/// One of these is in each finding: it says what to do.
const REMEDIES: [&str; 13] = [
    "write",
    "remove",
    "expected ",
    "did you mean",
    "belongs under",
    "create ",
    "define ",
    "correct ",
    "set it ",
    "name ",
    "add ",
    "run ",
    "the keys here are",
];
/// Words of libraries.
const FOREIGN: [&str; 8] = [
    "invalid type",
    "invalid value",
    "missing field",
    "unknown variant",
    "unknown field",
    "did not match",
    "untagged",
    "`",
];

/// The keys of a schema by their full names. A key of a list's item follows "[].", and the name of a map's entry is "NAME".
fn walk(schema: &Value, path: &str, keys: &mut Vec<String>) {
    for choice in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
        walk(choice, path, keys);
    }
    let dot = if path.is_empty() { "" } else { "." };
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        keys.push(format!("{path}{dot}{name}"));
        walk(value, &format!("{path}{dot}{name}"), keys);
    }
    if schema["items"]["properties"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), keys);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}.NAME"), keys);
    }
}

/// The text with one key more, in place of what it has of that key; and the number of its line.
fn with(text: &str, key: &str, value: &str) -> (String, usize) {
    let is_part = |name: &str, of: &str| name == of || name.starts_with(&format!("{of}."));
    let whole = key.split("[]").next().unwrap();
    let kept = text.lines().filter(|line| {
        let name = line.split(" = ").next().unwrap();
        !is_part(name, whole) && !is_part(whole, name)
    });
    let mut lines: Vec<String> = kept.map(str::to_owned).collect();
    lines.push(match key.split_once("[].") {
        Some((list, key)) => {
            let required = if list == "admin.users" {
                [("name", "'dba'"), ("password_env", "'SECRET'")]
            } else {
                [("field", "'timestamp'"), ("bits", "41")]
            };
            let rest: BTreeMap<_, _> = required.into_iter().chain([(key, value)]).collect();
            let rest: Vec<String> = rest.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            format!("{list} = [{{ {} }}]", rest.join(", "))
        }
        None => format!("{key} = {value}"),
    });
    (lines.join("\n"), lines.len())
}

/// The faults of the findings, each with its key and value.
fn wrong_in(file: &str, schema: &str, text: &str, find: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut keys = Vec::new();
    walk(&serde_json::from_str(schema).unwrap(), "", &mut keys);
    keys.sort();
    keys.dedup();
    let mut wrong = Vec::new();
    let mut errors = 0;
    for key in &keys {
        let key = &match key.split_once(".NAME") {
            Some(("tables", rest)) => format!("tables.orders{rest}"),
            Some((map, rest)) => format!("{map}.ids{rest}"),
            None => key.clone(),
        };
        for value in VALUES {
            let mut text = text.to_owned();
            if key.starts_with("generators.ids.layout") {
                text = text.replace("'sequence'", "'timestamp'");
            }
            if key.starts_with("generators.ids.layout.") {
                text += "\ngenerators.ids.layout.epoch = 0\ngenerators.ids.layout.fields = [{ field = 'timestamp', bits = 41 }]";
            }
            let (text, line) = with(&text, key, value);
            let found = find(&text);
            errors += found.iter().filter(|finding| finding.starts_with("error: ")).count();
            let written = key.replace("[].", "[0].");
            let here = format!("{file}:{line}: {written}");
            // A table's finding stands at its first line.
            let tables = written.match_indices('.').map(|(end, _)| format!(": {}: ", &written[..end]));
            let places: Vec<String> = tables.chain([here]).collect();
            let names_the_key = |finding: &String| places.iter().any(|place| finding.contains(place));
            let mut say = |why: &str| wrong.push(format!("{key} = {value}: {why}\n  {}", found.join("\n  ")));
            if !found.is_empty() && !found.iter().any(names_the_key) {
                say("the key is not named");
            }
            for finding in &found {
                if !REMEDIES.iter().any(|remedy| finding.contains(remedy)) {
                    say("no remedy");
                }
                if let Some(word) = FOREIGN.iter().find(|word| finding.contains(**word)) {
                    say(word);
                }
            }
            if key.ends_with(".password") && found.join("\n").contains("canary") {
                say("a password is shown");
            }
        }
    }
    assert!(keys.len() > 30 && errors > 500, "{} keys, {errors} errors", keys.len());
    wrong
}

#[test]
fn of_rowstamp_toml() {
    let schema = include_str!("../../../schemas/rowstamp.schema.json");
    let plain = PLAIN.replace(
        "backend.control = { user = 'r', password_env = 'SECRET' }",
        "backend.control.user = 'r'\nbackend.control.password_env = 'SECRET'",
    );
    let wrong = wrong_in("rowstamp.toml", schema, &plain, |text| found(folder(text, RULES).path()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_a_rules_file() {
    let schema = include_str!("../../../schemas/rules.schema.json");
    let plain = "schema = 'shop'\ngenerators.ids.kind = 'sequence'\ntables.orders.column = 'id'\ntables.orders.generator = 'ids'";
    let wrong = wrong_in("rules/shop.toml", schema, plain, |rules| found(folder(PLAIN, rules).path()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
