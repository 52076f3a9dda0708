//! Differences, gathered by what they are about.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::support::Kind;
use crate::values::plan::Cell;
use crate::values::sides::TABLES;

const TOLD_MAX: u64 = 12;
const TEXT_MAX: usize = 160;

/// The place in which a fact differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) kind: Kind,
    /// "val_aut" or "val_pla".
    pub(crate) schema: &'a str,
    pub(crate) cell: Cell,
    pub(crate) is_staged: bool,
    /// One of its executions, natively or through the proxy.
    pub(crate) has_failed: bool,
    /// The name of its value.
    pub(crate) form: &'a str,
}

/// True if docs/differences.md or docs/refused.md has the difference.
pub(crate) fn is_declared(place: Place<'_>, fact: &str, native: &str, proxied: &str) -> bool {
    // After an error MySQL names the columns that have no default, of which the id is one without AUTO_INCREMENT.
    const ID: &str = "Error 1364 Field 'id' doesn't have a default value; ";
    let Place { kind, schema, cell, is_staged, has_failed, form } = place;
    let Cell { ignore, table, is_prepared, .. } = cell;
    let is_myisam = table == TABLES[1];
    if fact == "warnings" && kind == Kind::MySql9 && schema == "val_pla" && proxied.replace(ID, "") == native
    {
        return true;
    }
    if fact == "gap" {
        return ignore;
    }
    if !is_staged {
        return false;
    }
    // Which types MySQL takes an execution's parameters to be of.
    let is_of_types = kind == Kind::MySql9 && is_prepared && form.ends_with("with one type after the other");
    match fact {
        "refused" => form.contains("FOUND_ROWS()"),
        "stored" => is_of_types,
        "insert id" => false,
        _ if is_of_types => true,
        // If several rows fail, the error may be that of another row.
        "error" | "error's text" if !is_myisam => has_failed && native != "none" && proxied != "none",
        // The warnings after an error or beyond the kept ones may differ, and so may their order.
        "warnings" if has_failed || is_cut(native) || sorted(native) == sorted(proxied) => true,
        // A table without transactions keeps the rows before the one that fails.
        _ => is_myisam && (has_failed || fact == "warnings") && fact != "prepared",
    }
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.split("; ").map(|line| line.trim_start_matches(" | ")).collect();
    lines.sort_unstable();
    lines
}

/// True if there are as many warnings as servers keep of a statement.
fn is_cut(lines: &str) -> bool {
    const KEPT: usize = 64;
    lines.split(" | ").any(|lines| lines.matches("; ").count() >= KEPT)
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// By server, fact and value: how many, and the first of them.
    by_subject: BTreeMap<(&'static str, String, String), (usize, String)>,
}

impl Findings {
    pub(crate) fn add(&mut self, kind: Kind, fact: &str, form: &str, example: impl FnOnce() -> String) {
        let subject = (kind.name(), fact.to_owned(), form.to_owned());
        self.by_subject.entry(subject).or_insert_with(|| (0, example())).0 += 1;
    }

    pub(crate) fn merge(&mut self, other: Findings) {
        self.by_subject.extend(other.by_subject);
    }

    pub(crate) fn count(&self) -> usize {
        self.by_subject.values().map(|(count, _)| count).sum()
    }

    /// Empty where there is none. `told_max`: of each kind.
    pub(crate) fn told(&self, told_max: Option<u64>) -> String {
        if self.by_subject.is_empty() {
            return String::new();
        }
        let told_max = told_max.unwrap_or(TOLD_MAX);
        let mut text = format!("{} differences in {} values\n", self.count(), self.by_subject.len());
        let mut told: BTreeMap<(&str, &str), (u64, usize)> = BTreeMap::new();
        for ((server, fact, form), (count, example)) in &self.by_subject {
            let (values, differences) = told.entry((server, fact)).or_default();
            *values += 1;
            *differences += count;
            if *values <= told_max {
                let _ = writeln!(text, "{server} {fact}: {count} of {form}\n    {example}");
            }
        }
        for ((server, fact), (values, differences)) in told {
            let _ = writeln!(text, "{server} {fact}: {differences} differences in {values} values");
        }
        text
    }
}

/// Both values from a little before where they begin to differ.
pub(crate) fn differing(native: &str, proxied: &str) -> String {
    let same = native.chars().zip(proxied.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        let part: String = text.chars().skip(same.saturating_sub(40)).take(TEXT_MAX).collect();
        part
    };
    format!("natively {:?}, through the proxy {:?}", part(native), part(proxied))
}
