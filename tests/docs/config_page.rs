//! docs/config.md lists every key of rowstamp.toml, and docs/reload.md says of each when a change takes effect.

use std::collections::BTreeMap;

use rowstamp::config::reload::effect;
use rowstamp::toml_file;
use serde_json::Value;

use super::config::{Key, config_schema, keys_of};
use super::{cell, check_part, read};

const HEAD: &str =
    "| key | value | default | example | takes effect | meaning |\n|---|---|---|---|---|---|\n";

/// `listen.tls.mode` -> `listen.tls`, `mode`
fn halves(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or_else(|| panic!("{path} is under no header"))
}

/// The header as the file has it: `[listen.tls]`, `[[admin.users]]`.
fn header(section: &str) -> String {
    match section.strip_suffix("[0]") {
        Some(list) => format!("[[{list}]]"),
        None => format!("[{section}]"),
    }
}

/// The schema of a section.
fn table_at<'a>(schema: &'a Value, section: &str) -> &'a Value {
    section.split('.').fold(schema, |table, part| match part.strip_suffix("[0]") {
        Some(list) => &table["properties"][list]["items"],
        None => &table["properties"][part],
    })
}

fn shown(value: &Value) -> String {
    if value.is_null() { "-".to_owned() } else { format!("`{value}`") }
}

/// The meaning of a key, and of each of its words that has a comment and is not explained there.
fn meaning(key: &Key<'_>) -> String {
    let meaning = key.schema["description"].as_str().unwrap_or_else(|| panic!("{} has no comment", key.path));
    let choices = key.schema["oneOf"].as_array().into_iter().flatten();
    let choices = choices.filter_map(|choice| {
        let (word, about) = (choice["const"].as_str()?, choice["description"].as_str()?);
        let word = format!("\"{word}\"");
        (!meaning.contains(&word)).then(|| format!(" `{word}`: {about}"))
    });
    cell(&format!("{meaning}{}", choices.collect::<String>()))
}

fn row(key: &Key<'_>) -> String {
    let (_, name) = halves(&key.path);
    let default = if key.is_required { "required".to_owned() } else { shown(&key.schema["default"]) };
    // A default is an example.
    let example =
        if key.schema["default"].is_null() { shown(&key.schema["examples"][0]) } else { String::new() };
    let value = cell(&toml_file::describe(key.schema));
    format!(
        "| `{name}` | {value} | {default} | {example} | {} | {} |\n",
        effect(&key.path).as_str(),
        meaning(key)
    )
}

/// A heading and a table for each header.
fn reference(schema: &Value) -> String {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    for key in keys_of(schema) {
        let (section, _) = halves(&key.path);
        sections.entry(section.to_owned()).or_default().push_str(&row(&key));
    }
    let page = |(section, rows): (&String, &String)| {
        let about = table_at(schema, section)["description"].as_str();
        let about = about.map_or(String::new(), |text| format!("{text}\n\n"));
        format!("## `{}`\n\n{about}{HEAD}{rows}\n", header(section))
    };
    sections.iter().map(page).collect()
}

#[test]
fn the_reference_has_every_key() {
    check_part("docs/config.md", "keys", &reference(&config_schema()));
}

/// How well a name on the page means the key, by the length of what they share: `store.*`, `admin.users`, or the key itself.
fn shared(name: &str, key: &str) -> Option<usize> {
    let rest = key.strip_prefix(name.trim_end_matches(".*"))?;
    (rest.is_empty() || rest.starts_with('.')).then_some(key.len() - rest.len())
}

/// The key's effect by docs/reload.md: "`store.*`, except for `store.deadline` | after a restart".
fn told<'a>(rows: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    let best = |(names, _): &&(&str, &str)| {
        let (names, _) = names.split_once("except").unwrap_or((*names, ""));
        names.split('`').skip(1).step_by(2).filter_map(|name| shared(name, key)).max()
    };
    rows.iter().filter(|row| best(row).is_some()).max_by_key(best).map(|(_, effect)| *effect)
}

#[test]
fn the_reload_page_has_the_effect_of_every_key() {
    let page = read("docs/reload.md");
    let rows =
        page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line[2..].split_once(" | "));
    let rows: Vec<_> = rows.collect();
    let schema = config_schema();
    let wrong = keys_of(&schema).into_iter().filter_map(|key| {
        let (path, expect) = (key.path.replace("[0]", ""), effect(&key.path).as_str());
        let found = told(&rows, &path).unwrap_or("nothing");
        (!found.starts_with(expect)).then(|| format!("{path}: {expect}, not {found}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "docs/reload.md:\n{}", wrong.join("\n"));
}

#[test]
fn rows_of_the_reload_page_are_read() {
    let rows = [
        ("`store.*`, except for `store.deadline`", "after a restart |"),
        ("`store.deadline`, `log.level`", "at once |"),
        ("`admin.users`", "now |"),
    ];
    for (key, expect) in [
        ("store.tls.ca", Some("after a restart |")),
        ("store.deadline", Some("at once |")),
        ("log.level", Some("at once |")),
        ("admin.users.name", Some("now |")),
        ("admin.address", None),
        ("log.levels", None),
    ] {
        assert_eq!(told(&rows, key), expect, "{key}");
    }
}

#[test]
fn headers_are_those_of_the_file() {
    for (path, expect) in [
        ("listen.address", "[listen]"),
        ("store.tls.ca", "[store.tls]"),
        ("admin.users[0].name", "[[admin.users]]"),
    ] {
        assert_eq!(header(halves(path).0), expect, "{path}");
    }
    let users = table_at(&config_schema(), "admin.users[0]")["description"].clone();
    assert!(users.as_str().unwrap().starts_with("A user of the console"), "{users}");
}
