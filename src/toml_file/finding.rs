//! A finding: what is wrong, where, and what to do about it.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing acts on this file until it is fixed.
    Error,
    Warning,
}

/// One error or warning. Ordered by file and line, as they are printed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: PathBuf,
    /// Counts from 1; `None`: the file as a whole.
    pub line: Option<usize>,
    pub severity: Severity,
    /// The key's full name, as in `generators.orders.step`.
    pub key: Option<String>,
    /// "why; remedy": the mistake and what to do about it. Never a secret.
    pub text: String,
}

impl Finding {
    pub fn error(file: &Path, line: Option<usize>, key: Option<&str>, text: impl Display) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            severity: Severity::Error,
            key: key.map(str::to_owned),
            text: text.to_string(),
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}:")?;
        }
        write!(f, " {}", self.text)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.0.extend(findings);
    }

    /// In the order of files and lines.
    #[must_use]
    pub fn sorted(mut self) -> Findings {
        self.0.sort();
        self.0.dedup();
        self
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.iter().filter(|finding| finding.severity == severity).count()
    }

    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A line each.
impl Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, finding) in self.iter().enumerate() {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let end_of_last = if k == 0 { "" } else { "\n" };
            write!(f, "{end_of_last}{severity}: {finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}
