//! Findings as they are printed: for people, grouped by table, or as one JSON document.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Finding, Severity};

/// The document that `rowstamp check --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Sorted by table, then by severity, the most severe first. Findings that concern no table come last.
    pub findings: Vec<Finding>,
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
}

impl Report {
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort();
        findings.dedup();
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
        Report { findings, errors, warnings, notes }
    }
}

/// Blocks of one table each, then the counts.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.findings.iter().map(|finding| finding.code.as_str().len()).max().unwrap_or(0);
        let mut last = None;
        for finding in &self.findings {
            let heading = finding.place.table.as_deref();
            if last != Some(heading) {
                writeln!(f, "{}", heading.unwrap_or("(no table)"))?;
                last = Some(heading);
            }
            let severity = finding.severity.as_str();
            let about = about(finding);
            writeln!(f, "  {severity:7}  {:width$}  {about}{}", finding.code, finding.why)?;
            if !finding.remedy.is_empty() {
                writeln!(f, "  {:7}  {:width$}  -> {}", "", "", finding.remedy)?;
            }
        }
        if last.is_some() {
            writeln!(f)?;
        }
        let [errors, warnings, notes] =
            [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")]
                .map(|(n, what)| counted(n, what));
        writeln!(f, "{errors}, {warnings}, {notes}")
    }
}

/// The object and the rule's place, in front of the why.
fn about(finding: &Finding) -> String {
    let place = &finding.place;
    let mut about = String::new();
    // Writing to a String does not fail.
    if let Some(file) = &place.file {
        let _ = write!(about, "{}:", file.display());
        if let Some(line) = place.line {
            let _ = write!(about, "{line}:");
        }
        about.push(' ');
    }
    if let Some(object) = &place.object {
        let _ = write!(about, "{object}: ");
    }
    about
}

/// "1 rule", "2 rules"
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::{Report, counted};
    use crate::lint::{Code, Finding, Where};

    #[test]
    fn one_is_one() {
        let words = [0, 1, 2].map(|n| counted(n, "rule"));
        assert_eq!(words, ["0 rules", "1 rule", "2 rules"]);
    }

    fn three() -> Report {
        let table = |name| Where::table("shop", name);
        Report::of(vec![
            Finding::note(Code::JsUnsafe, Where::object("shop.g"), "big", "text"),
            Finding::warning(Code::ColumnDefault, table("b").of("x"), "null", "NOT NULL"),
            Finding::note(Code::ColumnSigned, table("a").column("id"), "signed", "UNSIGNED"),
            Finding::error(Code::ColumnMissing, table("a"), "none", ""),
            Finding::error(Code::ColumnMissing, table("a"), "none", ""),
        ])
    }

    #[test]
    fn for_people() {
        let text = "shop.a\n\
                    \x20 error    column-missing  none\n\
                    \x20 note     column-signed   signed\n\
                    \x20                          -> UNSIGNED\n\
                    shop.b\n\
                    \x20 warning  column-default  x: null\n\
                    \x20                          -> NOT NULL\n\
                    (no table)\n\
                    \x20 note     js-unsafe       shop.g: big\n\
                    \x20                          -> text\n\
                    \n1 error, 1 warning, 2 notes\n";
        assert_eq!(three().to_string(), text);
        assert_eq!(Report::default().to_string(), "0 errors, 0 warnings, 0 notes\n");
    }

    #[test]
    fn for_programs() {
        let json = serde_json::to_value(three()).unwrap();
        assert_eq!((&json["errors"], &json["warnings"], &json["notes"]), (&1.into(), &1.into(), &2.into()));
        let second = serde_json::json!({
            "code": "column-signed", "severity": "note", "where": {"table": "shop.a", "column": "id"},
            "why": "signed", "remedy": "UNSIGNED",
        });
        assert_eq!(json["findings"][1], second);
    }
}
