//! Errors in TOML syntax, in words for people who do not know the grammar: where, what, and what to write instead.

use std::path::Path;

use super::FINDINGS_MAX;
use super::finding::Finding;
use super::walk::join;

/// The parser's word for a key or a table that is here a second time.
const DUPLICATE: &str = "duplicate key";
/// A longer name is no slip of the finger.
const NAME_BYTES_MAX: usize = 64;

/// The first error of each line: the errors after it mostly come from it.
pub(super) fn errors(file: &Path, text: &str, mut errors: Vec<toml::de::Error>) -> Vec<Finding> {
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let mut found: Vec<Finding> = Vec::new();
    let mut second_table = None;
    for error in &errors {
        if found.len() == FINDINGS_MAX {
            break;
        }
        let start = error.span().map_or(0, |span| span.start);
        let is_duplicate = error.message() == DUPLICATE;
        // The keys of a table that is here a second time are no mistakes of their own.
        let behind = second_table.and_then(|header| text.get(header..start));
        if is_duplicate && behind.is_some_and(|behind| !behind.contains("\n[")) {
            continue;
        }
        if is_duplicate && line_at(text, start).trim_start().starts_with('[') {
            second_table = Some(start);
        }
        let finding = one(file, text, error);
        if found.last().is_none_or(|last| last.line.is_none() || last.line != finding.line) {
            found.push(finding);
        }
    }
    found
}

fn one(file: &Path, text: &str, error: &toml::de::Error) -> Finding {
    // Never the error's own Display: it prints the line, and the line may hold a password.
    let Some(span) = error.span() else { return Finding::error(file, None, None, error.message()) };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = line_at(text, span.start);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    let at = Line { text: line, key: key(line), is_header: line.trim_start().starts_with('[') };
    let full_name = match at.key {
        // A line of a string of several lines, of which nothing is shown.
        _ if is_in_string(before) => None,
        Some(name) if at.is_header => Some(name.to_owned()),
        Some(name) => Some(table(before.get(..start).unwrap_or_default()).map_or(name.to_owned(), |table| {
            let parts = name.split('.').map(str::trim);
            parts.fold(table.to_owned(), |table, part| join(&table, part))
        })),
        None => None,
    };
    let why = at.explained(error.message());
    Finding::error(file, Some(number), full_name.as_deref(), format!("column {column}: {why}"))
}

fn line_at(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    text.get(start..).unwrap_or_default().lines().next().unwrap_or_default()
}

struct Line<'a> {
    text: &'a str,
    /// The key as the line writes it.
    key: Option<&'a str>,
    is_header: bool,
}

impl Line<'_> {
    /// `message`: the parser's.
    fn explained(&self, message: &str) -> String {
        let reason = message.split(", expected").next().unwrap_or(message);
        let value = self.text.split_once('=').map(|(_, value)| value.trim());
        let key = self.key.filter(|_| !self.is_header).unwrap_or("key");
        let remedy = match reason {
            DUPLICATE if self.is_header => {
                return "the table is defined a second time; put all its keys under one header".to_owned();
            }
            DUPLICATE => return "the key is defined a second time; remove one of the two".to_owned(),
            _ if value == Some("") => return format!("the value is missing; write it after {key} ="),
            // A text that begins as `inf` or `nan` do.
            "invalid float" if value.is_some_and(|value| value.starts_with(char::is_alphabetic)) => {
                return format!("string values must be quoted; write {key} = \"...\"");
            }
            "string values must be quoted" => format!("write {key} = \"...\""),
            "invalid boolean" => "write true or false, in small letters".to_owned(),
            "invalid literal string" | "invalid basic string" => {
                "end the string on the same line, with the quote that begins it".to_owned()
            }
            "key with no value" | "invalid unquoted key" if self.text.contains(':') && value.is_none() => {
                return format!(
                    "this is not TOML (YAML or JSON?); write {key} = value, and tables as [backend]"
                );
            }
            "key with no value" => format!("write {key} = and the value"),
            "invalid unquoted key" => {
                "put quotes around a name with other characters than letters, digits, _ and -".to_owned()
            }
            "unclosed table" => "close the table's name, as in [backend]".to_owned(),
            "missing escaped value" => "write two backslashes, or single quotes around the string".to_owned(),
            "`_` may only go between digits" => "remove the `_`".to_owned(),
            "unexpected key or value" => "remove the text after the value, or begin a new line".to_owned(),
            "invalid key-value pair" => "write key = value, and tables as [backend]".to_owned(),
            _ => "see https://toml.io for the grammar".to_owned(),
        };
        format!("{reason}; {remedy}")
    }
}

/// The name at the beginning of a line: of a table's header, or of a key.
fn key(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches('[');
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"._- ".contains(c)).unwrap_or(line.len());
    let name = line.get(..end)?.trim();
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(' ');
    is_name.then_some(name)
}

/// The table whose header is the last one.
fn table(before: &str) -> Option<&str> {
    before.lines().rev().find(|line| line.trim_start().starts_with('[')).and_then(key)
}

fn is_in_string(before: &str) -> bool {
    ["\"\"\"", "'''"].iter().any(|quote| before.matches(quote).count() % 2 == 1)
}
