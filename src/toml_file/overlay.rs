//! Keys that the environment says, laid over those of a file: from there on they are read as if the file had them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::{Environment, variable_of};
use super::finding::Finding;
use super::leaf::{Forms, nearest};

/// The keys that came from variables, and the findings about the variables.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// The variable that says a key, by the key's full name; and the first one that says anything in a table that the
    /// file has not got.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) found: Vec<Finding>,
}

impl Overlay {
    pub(super) fn lay<'a>(table: &mut DeTable<'a>, schema: &Value, environment: &'a Environment) -> Overlay {
        let mut overlay = Overlay::default();
        for (variable, text, path) in environment.keys() {
            let laid = match text {
                None => {
                    Err("is not UTF-8; set the variable to the value as in TOML, without quotes".to_owned())
                }
                Some(text) => overlay.one(table, schema, (variable, &path), text),
            };
            if let Err(why) = laid {
                overlay.found.push(Finding::error(&place_of(variable), None, None, why));
            }
        }
        overlay
    }

    fn one<'a>(
        &mut self,
        table: &mut DeTable<'a>,
        schema: &Value,
        (variable, path): (&str, &str),
        text: &'a str,
    ) -> Result<(), String> {
        let Some(leaf) = find(schema, path).filter(|_| variable == variable_of(path)) else {
            return Err(unknown(variable, schema));
        };
        let forms = Forms::of(leaf);
        if forms.table().is_some() {
            let first = variables(leaf, path).into_iter().next().unwrap_or_default();
            return Err(format!("names a table; set one of its keys, for example {first}"));
        }
        let value = typed(text, &forms)?;
        let Some((tables, key)) = path.rsplit_once('.') else { return Err(unknown(variable, schema)) };
        let mut around = table;
        let mut name = String::new();
        for part in tables.split('.') {
            name = if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
            if !around.contains_key(part) {
                around.insert(nowhere(Cow::Owned(part.to_owned())), nowhere(DeValue::Table(DeTable::new())));
                // The file's own sections are at home in the file, also where it lacks them.
                if name.contains('.') {
                    self.variables.insert(name.clone(), variable.to_owned());
                }
            }
            // A value that is no table, and should be one, has its error from the file.
            let Some(DeValue::Table(inner)) = around.get_mut(part).map(Spanned::get_mut) else {
                return Ok(());
            };
            around = inner;
        }
        around.insert(nowhere(Cow::Owned(key.to_owned())), nowhere(value));
        self.variables.insert(path.to_owned(), variable.to_owned());
        Ok(())
    }
}

/// The place of an error about a variable, in place of a file's name.
pub(super) fn place_of(variable: &str) -> std::path::PathBuf {
    Path::new(&format!("${variable}")).to_owned()
}

/// The variable that says the key, or a table or list around it.
pub(super) fn variable_at<'a>(variables: &'a BTreeMap<String, String>, path: &str) -> Option<&'a str> {
    let mut path = path;
    loop {
        if let Some(variable) = variables.get(path) {
            return Some(variable);
        }
        path = path.get(..path.rfind(['.', '['])?)?;
    }
}

fn nowhere<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn find<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(schema, |schema, part| Forms::of(schema).table()?.get("properties")?.get(part))
}

/// The variables of all keys at and below `path`, in the order of their names.
pub(super) fn variables(schema: &Value, path: &str) -> Vec<String> {
    let Some(properties) = Forms::of(schema).table().and_then(|table| table.get("properties")?.as_object())
    else {
        return vec![variable_of(path)];
    };
    let below = properties.iter().flat_map(|(name, schema)| {
        variables(schema, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") })
    });
    below.collect()
}

fn unknown(variable: &str, schema: &Value) -> String {
    let known = variables(schema, "");
    match nearest(variable, known.iter().map(String::as_str)) {
        Some(near) => format!("names no key of rowstamp.toml; did you mean {near}?"),
        None => "names no key of rowstamp.toml; `rowstamp --help` lists the variables of all keys".to_owned(),
    }
}

/// A text without quotes as the value that the key's schema takes: a list as TOML writes it, or with commas between.
pub(super) fn typed<'a>(text: &'a str, forms: &Forms<'_>) -> Result<DeValue<'a>, String> {
    if let Some(items) = forms.list_items() {
        let is_table = Forms::of(items).table().is_some();
        if is_table || text.trim_start().starts_with('[') {
            let list = DeValue::parse(text.trim()).map(Spanned::into_inner).ok();
            return list.filter(|list| matches!(list, DeValue::Array(_))).ok_or_else(|| {
                let example =
                    if is_table { "[{ name = \"dba\", role = \"read\" }]" } else { "[\"a:1\", \"b:2\"]" };
                format!("is not a list; write the list as in TOML, {example}")
            });
        }
        if text.contains(',') || !forms.has_text() {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let parts = parts.map(|part| nowhere(DeValue::String(Cow::Borrowed(part))));
            return Ok(DeValue::Array(parts.collect()));
        }
    }
    let is_bare = forms.has_number_or_boolean() && !forms.has_word(text);
    let bare = is_bare.then(|| DeValue::parse(text.trim()).map(Spanned::into_inner).ok()).flatten();
    let bare =
        bare.filter(|bare| matches!(bare, DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)));
    Ok(bare.unwrap_or(DeValue::String(Cow::Borrowed(text))))
}
