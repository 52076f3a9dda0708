//! `rowstamp check`: everything that is wrong with the configuration and the rules, without a server.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_FOUND, load};
use crate::config::{LoadError, Loaded};
use crate::rules::{RuleSet, pattern};
use crate::toml_file::{Findings, Severity};

pub fn run(config: &Path) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match load(config) {
        Ok(Loaded { rules, warnings, .. }) => {
            print(&mut out, &warnings)?;
            writeln!(out, "{}", summary(&rules))?;
            Ok(ExitCode::SUCCESS)
        }
        // What serve ends with 2 for is what check is there to find.
        Err(LoadError::Findings(findings)) => {
            print(&mut out, &findings)?;
            Ok(ExitCode::from(EXIT_FOUND))
        }
        Err(error @ LoadError::NoFile(_)) => Err(error.into()),
    }
}

fn print(out: &mut impl Write, findings: &Findings) -> io::Result<()> {
    if findings.iter().next().is_some() {
        writeln!(out, "{findings}")?;
        let (errors, warnings) = (findings.count(Severity::Error), findings.count(Severity::Warning));
        writeln!(out, "{}, {}", counted(errors, "error"), counted(warnings, "warning"))?;
    }
    Ok(())
}

fn summary(rules: &RuleSet) -> String {
    let patterns = rules.rules().filter(|rule| pattern::is_pattern(&rule.table)).count();
    let [all, tables, patterns, generators] = [
        counted(rules.rules().len(), "rule"),
        counted(rules.rules().len() - patterns, "table"),
        counted(patterns, "pattern"),
        counted(rules.generators().len(), "generator"),
    ];
    format!("{all} for {tables} and {patterns}, {generators}")
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_one() {
        let words = [0, 1, 2].map(|n| counted(n, "rule"));
        assert_eq!(words, ["0 rules", "1 rule", "2 rules"]);
    }
}
