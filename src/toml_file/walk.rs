//! From a TOML tree to JSON, led by the JSON schema of what it is meant to be.

use std::path::Path;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FINDINGS_MAX;
use super::environment::{Environment, has_places, variable_of};
use super::finding::Finding;
use super::leaf::{self, Forms, nearest};
use super::overlay::{Overlay, place_of, typed, variable_at};
use super::source::Written;

/// A longer name is cut in messages.
const NAME_CHARS_MAX: usize = 64;

/// The part of the file, and of what the environment says in its place, that fits; where each of its keys was written; and
/// what does not fit.
pub(super) fn walk<'a>(
    file: &Path,
    text: &str,
    table: &mut Spanned<DeTable<'a>>,
    schema: &Value,
    environment: Option<&'a Environment>,
) -> (Value, Written, Vec<Finding>) {
    let overlay = environment.map(|environment| Overlay::lay(table.get_mut(), schema, environment));
    let Overlay { variables, found } = overlay.unwrap_or_default();
    let line_starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
    let mut walk = Walk {
        file,
        root: schema,
        line_starts: line_starts.collect(),
        environment,
        line_of_filled_in: None,
        written: Written { variables, ..Written::default() },
        found,
        found_more: 0,
    };
    let json = walk.table(table.get_ref(), schema, "", 1);
    walk.found.sort();
    if walk.found_more > 0 {
        let more = format!("errors of this file that are not shown: {}", walk.found_more);
        walk.found.push(Finding::error(file, None, None, more));
    }
    (json, walk.written, walk.found)
}

/// The full name of a key within the table of that name, written as TOML would have it.
pub fn join(table: &str, key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let dot = if table.is_empty() { "" } else { "." };
    let quote = if !key.is_empty() && key.chars().all(is_bare) { "" } else { "\"" };
    if key.chars().count() > NAME_CHARS_MAX {
        let cut: String = key.chars().take(NAME_CHARS_MAX).collect();
        return format!("{table}{dot}{quote}{cut}...{quote}");
    }
    format!("{table}{dot}{quote}{key}{quote}")
}

struct Walk<'a> {
    file: &'a Path,
    /// The schema of the whole file.
    root: &'a Value,
    /// Byte offsets.
    line_starts: Vec<usize>,
    /// `None`: every value is what stands in the file.
    environment: Option<&'a Environment>,
    /// The line of a value that is read from a variable's text, which has no lines of the file.
    line_of_filled_in: Option<usize>,
    written: Written,
    found: Vec<Finding>,
    /// The number of findings after the first [`FINDINGS_MAX`].
    found_more: usize,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, schema: &Value, path: &str, line: usize) -> Value {
        let mut json = Map::new();
        let known = schema.get("properties").and_then(Value::as_object);
        // A table of the user's own names: generators, tables.
        let any = schema.get("additionalProperties").filter(|any| any.is_object());
        for (key, value) in table {
            let name: &str = key.get_ref();
            let (path, line) = (join(path, name), self.line_at(key.span().start));
            match known.and_then(|known| known.get(name)).or(any) {
                Some(schema) => {
                    self.written.lines.insert(path.clone(), line);
                    if let Some(value) = self.value(value.get_ref(), schema, &path, line) {
                        json.insert(name.to_owned(), value);
                    }
                }
                None => self.error(&path, line, unknown(name, known, self.root)),
            }
        }
        self.missing(table, schema, path, line);
        Value::Object(json)
    }

    /// Keys that must be there and are not, also of tables that are not there.
    fn missing(&mut self, table: &DeTable<'_>, schema: &Value, path: &str, line: usize) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        for (name, schema) in known {
            let is_absent = !table.contains_key(&**name);
            let path = join(path, name);
            if is_absent && is_required(name) {
                let example = schema.get("examples").and_then(|all| all.get(0));
                let example = match (example, variable_at(&self.written.variables, &path)) {
                    (_, Some(_)) => format!("; set {}", variable_of(&path)),
                    (Some(one), None) => format!("; write, for example, {name} = {}", toml_of(one)),
                    (None, None) => String::new(),
                };
                self.error(&path, line, format!("is missing{example}"));
            } else if is_absent && schema.get("type").is_some_and(|kind| kind == "object") {
                self.missing(&DeTable::new(), schema, &path, line);
            }
        }
    }

    fn value(&mut self, value: &DeValue<'_>, schema: &Value, path: &str, line: usize) -> Option<Value> {
        let DeValue::String(text) = value else { return self.as_written(value, schema, path, line) };
        let is_from_variable = variable_at(&self.written.variables, path).is_some();
        match self.environment.filter(|_| has_places(text) && !is_from_variable) {
            Some(environment) => self.filled_in(text, environment, schema, (path, line)),
            None => self.as_written(value, schema, path, line),
        }
    }

    /// A string that names variables: their text counts as if it had been written.
    fn filled_in(
        &mut self,
        text: &str,
        environment: &Environment,
        schema: &Value,
        (path, line): (&str, usize),
    ) -> Option<Value> {
        self.written.filled_in.insert(path.to_owned());
        let filled = environment.filled_in(text).map_err(|why| self.error(path, line, why)).ok()?;
        let value = typed(&filled, &Forms::of(schema)).map_err(|why| self.error(path, line, why)).ok()?;
        let (environment, line_before) = (self.environment.take(), self.line_of_filled_in.replace(line));
        let value = self.as_written(&value, schema, path, line);
        (self.environment, self.line_of_filled_in) = (environment, line_before);
        value
    }

    fn as_written(&mut self, value: &DeValue<'_>, schema: &Value, path: &str, line: usize) -> Option<Value> {
        let forms = Forms::of(schema);
        let fitted = match (value, forms.table(), forms.list_items()) {
            (DeValue::Table(table), Some(schema), _) => return Some(self.table(table, schema, path, line)),
            (DeValue::Array(list), _, Some(schema)) => return Some(self.list(list, schema, path)),
            _ => leaf::check(value, &forms),
        };
        fitted.map_err(|why| self.error(path, line, why)).ok()
    }

    fn list(&mut self, list: &[Spanned<DeValue<'_>>], schema: &Value, path: &str) -> Value {
        let items = list.iter().enumerate().filter_map(|(k, item)| {
            let line = self.line_at(item.span().start);
            let path = format!("{path}[{k}]");
            self.written.lines.insert(path.clone(), line);
            self.value(item.get_ref(), schema, &path, line)
        });
        Value::Array(items.collect())
    }

    fn error(&mut self, path: &str, line: usize, text: String) {
        if self.found.len() < FINDINGS_MAX {
            self.found.push(match variable_at(&self.written.variables, path) {
                Some(variable) => Finding::error(&place_of(variable), None, Some(path), text),
                None => Finding::error(self.file, Some(line), Some(path), text),
            });
        } else {
            self.found_more += 1;
        }
    }

    fn line_at(&self, offset: usize) -> usize {
        self.line_of_filled_in.unwrap_or_else(|| self.line_starts.partition_point(|start| *start <= offset))
    }
}

/// An example of a schema as somebody writes it.
fn toml_of(example: &Value) -> String {
    toml::Value::try_from(example).map_or_else(|_| example.to_string(), |value| value.to_string())
}

fn unknown(name: &str, known: Option<&Map<String, Value>>, root: &Value) -> String {
    let names = || known.into_iter().flat_map(Map::keys).map(String::as_str);
    if let Some(near) = nearest(name, names()) {
        return format!("unknown key; did you mean {near}?");
    }
    let mut elsewhere = Vec::new();
    tables_with(name, root, "", &mut elsewhere);
    if elsewhere.is_empty() {
        return format!("unknown key; the keys here are: {}", names().collect::<Vec<_>>().join(", "));
    }
    format!("unknown key here; it belongs under {}", elsewhere.join(" or "))
}

/// The headers of the tables that have a key of this name; not of those that people name themselves.
fn tables_with(name: &str, schema: &Value, path: &str, found: &mut Vec<String>) {
    let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
    if known.contains_key(name) && !path.is_empty() {
        found.push(format!("[{path}]"));
    }
    for (key, schema) in known {
        if let Some(table) = Forms::of(schema).table() {
            tables_with(name, table, &join(path, key), found);
        }
    }
}
