//! The configuration and the rules: the example, the schemas and the reference are those of the types that read them.

use std::fs;
use std::path::Path;

use rowstamp::config::keys::ConfigFile;
use rowstamp::rules::keys::RulesFile;
use rowstamp::toml_file::{self, Findings, join};
use serde_json::Value;

use super::{at, cell, check_generated, check_part, read};

pub(super) fn config_schema() -> Value {
    toml_file::schema_of::<ConfigFile>().to_value()
}

pub(super) fn rules_schema() -> Value {
    toml_file::schema_of::<RulesFile>().to_value()
}

#[test]
fn schemas_are_those_of_the_types() {
    let check = schemars::schema_for!(rowstamp::lint::report::Report).to_value();
    for (path, schema) in [
        ("schemas/rowstamp.schema.json", config_schema()),
        ("schemas/rules.schema.json", rules_schema()),
        ("schemas/check.schema.json", check),
    ] {
        check_generated(path, &format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()));
    }
}

/// A key as the schema has it: its full name, its schema, whether it must be there.
pub(super) struct Key<'a> {
    pub(super) path: String,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
}

fn is_table(schema: &Value) -> bool {
    let kind = &schema["type"];
    kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&Value::from("object")))
}

/// All keys that hold a value, not a table; a table of the user's own names is shown as NAME.
fn leaves<'a>(table: &'a Value, path: &str, all: &mut Vec<Key<'a>>) {
    if table["additionalProperties"].is_object() {
        return leaves(&table["additionalProperties"], &join(path, "NAME"), all);
    }
    for (name, schema) in table["properties"].as_object().unwrap() {
        let path = join(path, name);
        let is_required = table["required"].as_array().is_some_and(|all| all.contains(&Value::from(&**name)));
        let items = &schema["items"];
        match (is_table(schema), is_table(items)) {
            (true, _) => leaves(schema, &path, all),
            (_, true) => leaves(items, &format!("{path}[0]"), all),
            _ => all.push(Key { path, schema, is_required }),
        }
    }
}

pub(super) fn keys_of(schema: &Value) -> Vec<Key<'_>> {
    let mut all = Vec::new();
    leaves(schema, "", &mut all);
    all
}

/// The default, or where there is none the example.
fn expected(key: &Key<'_>) -> Value {
    let default = &key.schema["default"];
    if default.is_null() { key.schema["examples"][0].clone() } else { default.clone() }
}

fn value_at<'a>(toml: &'a toml::Value, path: &str) -> Option<&'a toml::Value> {
    path.split('.').try_fold(toml, |table, part| match part.strip_suffix("[0]") {
        Some(list) => table.get(list)?.get(0),
        None => table.get(part),
    })
}

fn parse<T>(name: &str, text: &str) -> toml_file::Source<T>
where
    T: serde::de::DeserializeOwned + schemars::JsonSchema,
{
    let mut findings = Findings::default();
    let source = toml_file::parse(Path::new(name), text, None, &mut findings);
    assert!(!findings.has_errors(), "{findings}");
    source.unwrap()
}

#[test]
fn the_example_parses_to_the_defaults() {
    let text = read("examples/rowstamp.toml");
    assert!(text.starts_with("#:schema ../schemas/rowstamp.schema.json\n"));
    let mut keys = parse::<ConfigFile>("rowstamp.toml", &text).keys;
    assert!(keys.backend.address.take().is_some(), "the one key that has no default is there");
    assert_eq!(keys, ConfigFile::default());
}

#[test]
fn the_example_names_every_key_with_its_default() {
    let text = read("examples/rowstamp.toml");
    let in_force = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => format!("{key}\n"),
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(in_force).collect();
    parse::<ConfigFile>("rowstamp.toml", &text);
    let toml: toml::Value = toml::from_str(&text).unwrap();
    let schema = config_schema();
    for key in keys_of(&schema) {
        let found =
            value_at(&toml, &key.path).unwrap_or_else(|| panic!("{} is not in the example", key.path));
        assert_eq!(serde_json::to_value(found).unwrap(), expected(&key), "{}", key.path);
    }
}

fn row(key: &Key<'_>) -> String {
    let text = |value: &Value| if value.is_null() { "-".to_owned() } else { format!("`{value}`") };
    let default = if key.is_required { "required".to_owned() } else { text(&key.schema["default"]) };
    let kind = cell(&toml_file::describe(key.schema));
    let example = &expected(key);
    let meaning = key.schema["description"].as_str().unwrap_or_else(|| panic!("{} has no comment", key.path));
    format!("| {} | {kind} | {default} | {} | {} |\n", key.path, text(example), cell(meaning))
}

#[test]
fn the_reference_of_rules_files_is_that_of_the_types() {
    let schema = rules_schema();
    let rows: String = keys_of(&schema).iter().map(row).collect();
    let table = format!("| key | value | default | example | meaning |\n|---|---|---|---|---|\n{rows}");
    check_part("docs/rules.md", "keys", &table);
}

#[test]
fn the_variables_are_those_of_the_keys() {
    let schema = config_schema();
    let row = |variable: String| {
        let path = variable.trim_start_matches("ROWSTAMP_").to_lowercase().replace("__", ".");
        let key = path.split('.').fold(&schema, |table, part| &table["properties"][part]);
        let kind = toml_file::describe(key).replace('|', "\\|");
        let default = if key["default"].is_null() { "-".to_owned() } else { format!("`{}`", key["default"]) };
        format!("| `{variable}` | {path} | {kind} | {default} |\n")
    };
    let variables = toml_file::variables_of::<ConfigFile>();
    let rows: String = variables.iter().cloned().map(row).collect();
    check_part(
        "docs/environment.md",
        "variables",
        &format!("| variable | key | value | default |\n|---|---|---|---|\n{rows}"),
    );
    // Each key has one, and no other has.
    let mut keys: Vec<_> = keys_of(&schema)
        .into_iter()
        .map(|key| toml_file::variable_of(key.path.split("[0]").next().unwrap()))
        .collect();
    keys.dedup();
    assert_eq!(keys, variables);
}

#[test]
fn every_key_has_a_comment_and_a_default_or_an_example() {
    for schema in [config_schema(), rules_schema()] {
        for key in keys_of(&schema) {
            let has = |what: &str| !key.schema[what].is_null();
            assert!(has("description"), "{} has no comment", key.path);
            assert!(has("default") || has("examples"), "{} has neither default nor example", key.path);
        }
    }
}

#[test]
fn the_samples_are_rules() {
    let (rules, warnings) = rowstamp::rules::load(&at("rules")).unwrap();
    assert_eq!((warnings.to_string(), rules.rules().len()), (String::new(), 2));
    let page = read("docs/rules.md");
    let samples: Vec<_> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(samples.len(), 3);
    for sample in samples {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("shop.toml"), sample).unwrap();
        rowstamp::rules::load(folder.path()).unwrap();
    }
}

#[test]
fn the_systemd_unit_leaves_room_for_the_defaults() {
    let unit = read("examples/rowstamp.service");
    let number = |key: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_end_matches('s').parse().unwrap()
    };
    let limits = ConfigFile::default().limits;
    assert!(number("TimeoutStopSec=") > limits.drain_timeout.0.as_secs());
    assert!(number("LimitNOFILE=") > 2 * u64::from(limits.connections));
}
