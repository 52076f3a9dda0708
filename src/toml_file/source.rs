//! A file that was read: its keys, and where each was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Severity};
use super::overlay::{place_of, variable_at};

/// A file's keys, and where each was written.
#[derive(Debug, Clone)]
pub struct Source<T> {
    pub file: PathBuf,
    pub keys: T,
    pub(super) written: Written,
}

/// The places where keys were written, by the keys' full names.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    /// Lines count from 1.
    pub(super) lines: BTreeMap<String, usize>,
    /// The variables of keys, as in `Overlay`.
    pub(super) variables: BTreeMap<String, String>,
    /// Keys whose value holds the text of a variable.
    pub(super) filled_in: BTreeSet<String>,
}

impl<T> Source<T> {
    /// True if the file or the environment has the key, even with its default.
    pub fn is_written(&self, key: &str) -> bool {
        self.written.lines.contains_key(key)
    }

    /// True if the file has the value itself, and no variable in its place.
    pub fn is_in_file(&self, key: &str) -> bool {
        self.is_written(key) && self.variable(key).is_none() && !self.written.filled_in.contains(key)
    }

    /// The variable that says the key, or something in a table around it that the file has not got.
    fn variable(&self, key: &str) -> Option<&str> {
        variable_at(&self.written.variables, key)
    }

    /// The line of a key; of the nearest table around it that the file has, where the key is missing.
    pub fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some(line) = self.written.lines.get(key) {
                return *line;
            }
            let Some((around, _)) = key.rsplit_once('.') else { return 1 };
            key = around;
        }
    }

    pub fn error(&self, key: &str, text: impl Display) -> Finding {
        match self.variable(key) {
            Some(variable) => Finding::error(&place_of(variable), None, Some(key), text),
            None => Finding::error(&self.file, Some(self.line(key)), Some(key), text),
        }
    }

    pub fn warning(&self, key: &str, text: impl Display) -> Finding {
        Finding { severity: Severity::Warning, ..self.error(key, text) }
    }

    /// A path that this file names, or a variable in its place: relative to the folder that the file is in.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// This source's places with other keys, or with none; and its own keys.
    pub fn with_keys<U>(self, keys: U) -> (Source<U>, T) {
        let Source { file, keys: before, written } = self;
        (Source { file, keys, written }, before)
    }
}
