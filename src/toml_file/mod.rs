//! TOML files that people write: read as the types say, with every error of a file told at once, each by line and key.
//!
//! The types' own JSON schema leads the way through the file, so that what editors complete, what the reference lists and
//! what is accepted here are one and the same. Whatever does not fit is reported and left out, and its default stands in, so
//! that later checks still see the rest.

mod finding;
mod leaf;
mod values;
mod walk;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use toml::de::DeTable;

pub use finding::{Finding, Findings, Severity};
pub use leaf::{describe, did_you_mean, nearest};
pub use values::{ByteSize, Interval, Network, OneOrMany, OrOff, Place, Secret, UtcTime};
pub use walk::join;

/// Errors of one file that are shown.
const FINDINGS_MAX: usize = 100;
/// A larger file is refused unread.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file's keys, and where each was written.
#[derive(Debug)]
pub struct Source<T> {
    pub file: PathBuf,
    pub keys: T,
    /// Lines of the keys that the file has, by their full names; lines count from 1.
    lines: BTreeMap<String, usize>,
}

impl<T> Source<T> {
    /// Whether the file has the key, be it with its default.
    pub fn is_written(&self, key: &str) -> bool {
        self.lines.contains_key(key)
    }

    /// The line of a key; of the nearest table around it that the file has, where the key is missing.
    pub fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return *line;
            }
            let Some((around, _)) = key.rsplit_once('.') else { return 1 };
            key = around;
        }
    }

    /// An error about a key of this file.
    pub fn error(&self, key: &str, text: impl Display) -> Finding {
        Finding::error(&self.file, Some(self.line(key)), Some(key), text)
    }

    /// A warning about a key of this file.
    pub fn warning(&self, key: &str, text: impl Display) -> Finding {
        Finding { severity: Severity::Warning, ..self.error(key, text) }
    }

    /// A path that this file names: relative to the folder that the file is in.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }
}

/// The JSON schema of a file's type, without references: editors that ignore what stands beside a `$ref` see it all.
pub fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// Reads a file; `None` where there is nothing to go on with, and then `findings` says why.
pub fn read<T: DeserializeOwned + JsonSchema>(file: &Path, findings: &mut Findings) -> Option<Source<T>> {
    match text_of(file) {
        Ok(text) => parse(file, &text, findings),
        Err(why) => {
            findings.push(Finding::error(file, None, None, why));
            None
        }
    }
}

/// Reads a file's text, for [`read`] and its tests.
pub fn parse<T: DeserializeOwned + JsonSchema>(
    file: &Path,
    text: &str,
    findings: &mut Findings,
) -> Option<Source<T>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What the parser recovers after a syntax error is a guess: its findings would lead astray.
        findings.extend(errors.iter().take(FINDINGS_MAX).map(|error| syntax_error(file, text, error)));
        return None;
    }
    let (json, lines, found) = walk::walk(file, text, table.get_ref(), schema_of::<T>().as_value());
    findings.extend(found);
    match serde_json::from_value(json) {
        Ok(keys) => Some(Source { file: file.to_owned(), keys, lines }),
        Err(error) => {
            findings.push(Finding::error(file, None, None, error));
            None
        }
    }
}

fn syntax_error(file: &Path, text: &str, error: &toml::de::Error) -> Finding {
    // Never the error's own Display: it prints the line, and the line may hold a password.
    let Some(span) = error.span() else { return Finding::error(file, None, None, error.message()) };
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Finding::error(file, Some(line), None, format!("column {column}: {}", error.message()))
}

fn text_of(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    // Before it is opened: opening a pipe waits for its writer.
    if !fs::metadata(file).map_err(cannot)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(cannot)?;
    if opened.metadata().map_err(cannot)?.len() <= FILE_BYTES_MAX {
        // The file may grow while it is read.
        opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 <= FILE_BYTES_MAX {
            return String::from_utf8(bytes).map_err(|error| {
                let valid = error.utf8_error().valid_up_to();
                let line = error.as_bytes().iter().take(valid).filter(|b| **b == b'\n').count() + 1;
                format!("line {line} is not UTF-8: save the file as UTF-8")
            });
        }
    }
    Err(format!("is larger than {} MiB: split it", FILE_BYTES_MAX >> 20))
}

#[cfg(test)]
mod tests;
