//! TOML files that people write: read as the types say, with a file's errors reported at once, each by line and key.
//!
//! The types' own JSON schema leads the way through the file, so that what editors complete, what the reference lists and
//! what is accepted here are one and the same. Whatever does not fit is reported and left out, and its default stands in, so
//! that later checks still see the rest.

mod environment;
mod finding;
mod leaf;
mod overlay;
mod source;
mod syntax;
mod values;
mod walk;

use std::fs;
use std::io::Read;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use toml::de::DeTable;

pub use environment::{Environment, variable_of};
pub use finding::{Finding, Findings, Severity};
pub use leaf::{describe, did_you_mean, nearest};
pub use source::Source;
pub use values::{AddressText, ByteSize, Interval, Network, OneOrMany, OrOff, Secret, UtcTime};
pub use walk::join;

/// Errors of one file that are shown.
const FINDINGS_MAX: usize = 100;
/// A larger file is refused unread.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// The JSON schema of a file's type, without references: editors that ignore what stands beside a `$ref` see it all.
pub fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// The variables of the environment that say keys of this type's files, in the order of their names.
pub fn variables_of<T: JsonSchema>() -> Vec<String> {
    overlay::variables(schema_of::<T>().as_value(), "")
}

/// Reads a file; `None` where there is nothing to go on with, and then `findings` says why. With an environment, that may say
/// its keys instead, and its values may name variables.
pub fn read<T: DeserializeOwned + JsonSchema>(
    file: &Path,
    environment: Option<&Environment>,
    findings: &mut Findings,
) -> Option<Source<T>> {
    parse(file, &text_of(file, findings)?, environment, findings)
}

/// Reads a file's text, for [`read`] and its tests.
pub fn parse<T: DeserializeOwned + JsonSchema>(
    file: &Path,
    text: &str,
    environment: Option<&Environment>,
    findings: &mut Findings,
) -> Option<Source<T>> {
    let (mut table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // The parser guesses the rest after a syntax error: findings about it would lead astray.
        findings.extend(syntax::errors(file, text, errors));
        return None;
    }
    let (json, written, found) = walk::walk(file, text, &mut table, schema_of::<T>().as_value(), environment);
    findings.extend(found);
    match serde_json::from_value(json) {
        Ok(keys) => Some(Source { file: file.to_owned(), keys, written }),
        Err(error) => {
            findings.push(Finding::error(file, None, None, error));
            None
        }
    }
}

fn text_of(file: &Path, findings: &mut Findings) -> Option<String> {
    read_text(file).map_err(|why| findings.push(Finding::error(file, None, None, why))).ok()
}

fn read_text(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "give the user that rowstamp runs as the right to read it"
            }
            _ => "name a file that exists",
        };
        format!("cannot be read: {error}; {remedy}")
    };
    // Before it is opened: opening a pipe waits for its writer.
    if !fs::metadata(file).map_err(cannot)?.is_file() {
        return Err("is not a file; name the file itself".to_owned());
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
