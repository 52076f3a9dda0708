//! The results for a log's statements, by digest: for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::rewrite::plan::PREFIX;
use crate::rules::word;
use crate::sql::digest::Digest;

/// The number of digests that are counted separately. All others are counted as one.
const DIGESTS_MAX: usize = 10_000;

/// The worst first: rows are listed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Refused,
    /// Shown to the server, and refused where that has no error of its own.
    ServerFirst,
    /// The log does not tell enough.
    Unknown,
    Rewritten,
    /// An INSERT that goes on as it came.
    Left,
}

#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) outcome: Outcome,
    pub(crate) ids: u64,
    why: String,
    remedy: String,
}

impl Said {
    /// `refusal`: "why; what to write instead", or nothing.
    pub(crate) fn new(outcome: Outcome, refusal: &str) -> Said {
        let refusal = refusal.strip_prefix(PREFIX).unwrap_or(refusal);
        let (why, remedy) = refusal.rsplit_once("; ").unwrap_or((refusal, ""));
        Said { outcome, ids: 0, why: printable(why), remedy: printable(remedy) }
    }
}

/// Names of a log may hold what a terminal would act on.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Statements of one digest that come out the same.
#[derive(Debug, Serialize)]
struct Row {
    count: u64,
    /// Times that it was prepared to be run later.
    prepared: u64,
    outcome: Outcome,
    ids: u64,
    why: String,
    remedy: String,
    digest: String,
    /// Empty if the statement cannot be read, and in the row of the digests that are counted as one.
    text: String,
    /// The place of the first of these statements in the log.
    at: String,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By outcome and hash.
    rows: BTreeMap<(Outcome, String), Row>,
    /// Statements that ran.
    pub(crate) statements: u64,
    /// Statements that ran, but insert nothing and change no rule's table.
    pub(crate) elsewhere: u64,
    /// Entries that are too long to be looked at.
    pub(crate) too_long: u64,
    /// Entries of statements that ran within stored routines.
    pub(crate) in_routines: u64,
    pub(crate) broken_lines: u64,
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    statements: u64,
    refused: u64,
    server_first: u64,
    unknown: u64,
    rewritten: u64,
    left: u64,
    elsewhere: u64,
    ids: u64,
    too_long: u64,
    in_routines: u64,
    broken_lines: u64,
    digests: Vec<&'a Row>,
}

impl Tally {
    pub(crate) fn executed(&mut self, digest: Digest, said: Said, at: impl Fn() -> String) {
        let ids = said.ids;
        let row = self.row(digest, said, at);
        row.count += 1;
        row.ids = row.ids.saturating_add(ids);
    }

    pub(crate) fn prepared(&mut self, digest: Digest, said: Said, at: impl Fn() -> String) {
        self.row(digest, said, at).prepared += 1;
    }

    fn row(&mut self, digest: Digest, said: Said, at: impl Fn() -> String) -> &mut Row {
        let Digest { mut hash, mut text } = digest;
        if self.rows.len() >= DIGESTS_MAX && !self.rows.contains_key(&(said.outcome, hash.clone())) {
            (hash, text) = ("other".to_owned(), String::new());
        }
        let Said { outcome, why, remedy, .. } = said;
        self.rows.entry((outcome, hash.clone())).or_insert_with(|| Row {
            count: 0,
            prepared: 0,
            outcome,
            ids: 0,
            why,
            remedy,
            digest: hash,
            text,
            at: at(),
        })
    }

    /// True if any statement would be refused, or may be.
    pub(crate) fn is_refused(&self) -> bool {
        self.too_long > 0 || self.rows.keys().any(|(outcome, _)| *outcome <= Outcome::Unknown)
    }

    /// The worst first, and what is most of it.
    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.values().collect();
        rows.sort_by_key(|row| (row.outcome, std::cmp::Reverse((row.count, row.prepared))));
        rows
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.rows.values().filter(|row| row.outcome == outcome).map(|row| row.count).sum()
    }

    fn ids(&self) -> u64 {
        self.rows.values().fold(0, |sum, row| sum.saturating_add(row.ids))
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Summary {
            statements: self.statements,
            refused: self.count(Outcome::Refused),
            server_first: self.count(Outcome::ServerFirst),
            unknown: self.count(Outcome::Unknown),
            rewritten: self.count(Outcome::Rewritten),
            left: self.count(Outcome::Left),
            elsewhere: self.elsewhere,
            ids: self.ids(),
            too_long: self.too_long,
            in_routines: self.in_routines,
            broken_lines: self.broken_lines,
            digests: self.sorted(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let rows = self.sorted();
        // Writing to a String cannot fail.
        if !rows.is_empty() {
            let _ =
                writeln!(out, "{:>9}  {:<12}  {:>9}  {:<16}  statement", "count", "outcome", "ids", "digest");
        }
        for row in rows {
            let Row { count, outcome, ids, digest, why, remedy, text, at, prepared } = row;
            let text = match (digest.as_str(), text.as_str()) {
                ("other", _) => format!("(more than {DIGESTS_MAX} digests: all others)"),
                (_, "") => "(cannot be read)".to_owned(),
                (_, text) => text.to_owned(),
            };
            let name = word(outcome).replace('-', " ");
            let _ = writeln!(out, "{count:>9}  {name:<12}  {ids:>9}  {digest:<16}  {text}");
            let mut note = |name: &str, text: &str| {
                if !text.is_empty() {
                    let _ = writeln!(out, "{:>9}  {name}: {text}", "");
                }
            };
            note("why", why);
            note("remedy", remedy);
            if *outcome <= Outcome::Unknown {
                note("first", at);
            }
            if *count == 0 && *prepared > 0 {
                let times = if *prepared == 1 { "once".to_owned() } else { format!("{prepared} times") };
                note("note", &format!("prepared {times}, and not run"));
            }
        }
        out + &self.summary()
    }

    fn summary(&self) -> String {
        let Tally { statements, elsewhere, too_long, in_routines, broken_lines, .. } = self;
        let mut out = format!(
            "statements: {statements}; refused: {}, server first: {}, rewritten: {} (ids: {}), INSERTs left unchanged: {}, others: \
             {elsewhere}\n",
            self.count(Outcome::Refused),
            self.count(Outcome::ServerFirst),
            self.count(Outcome::Rewritten),
            self.ids(),
            self.count(Outcome::Left),
        );
        if self.count(Outcome::ServerFirst) > 0 {
            out.push_str("server first: Rowstamp shows such a statement to the server, and refuses it if the server has no error\n");
        }
        let unknown = self.count(Outcome::Unknown);
        if unknown > 0 {
            let _ = writeln!(out, "statements that could not be judged: {unknown}");
        }
        if *in_routines > 0 {
            let _ = writeln!(
                out,
                "entries of statements within stored routines, which no proxy sees, not judged: {in_routines}"
            );
        }
        if *too_long > 0 {
            let _ = writeln!(out, "entries longer than limits.statement_bytes, not judged: {too_long}");
        }
        if *broken_lines > 0 {
            let _ = writeln!(out, "lines that belong to no entry: {broken_lines}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{DIGESTS_MAX, Outcome, PREFIX, Said, Tally};
    use crate::sql::digest::Digest;

    fn digest(hash: &str) -> Digest {
        Digest { text: format!("INSERT {hash}"), hash: hash.to_owned() }
    }

    #[test]
    fn the_worst_comes_first_and_then_what_is_most_of_it() {
        let mut tally = Tally::default();
        let at = || "log:1".to_owned();
        for (hash, outcome, times) in [
            ("a", Outcome::Left, 9),
            ("b", Outcome::Rewritten, 2),
            ("c", Outcome::Refused, 1),
            ("d", Outcome::Refused, 3),
            ("b", Outcome::Refused, 2),
        ] {
            for _ in 0..times {
                tally.executed(
                    digest(hash),
                    Said { ids: 2, ..Said::new(outcome, &format!("{PREFIX}why; do it")) },
                    at,
                );
            }
        }
        tally.prepared(digest("e"), Said::new(Outcome::ServerFirst, ""), at);
        let order: Vec<_> = tally.sorted().iter().map(|row| format!("{}{}", row.digest, row.count)).collect();
        assert_eq!(order, ["d3", "b2", "c1", "e0", "b2", "a9"]);
        assert!(tally.is_refused());
        assert!(tally.text().contains("why: why\n") && tally.text().contains("remedy: do it\n"));
        assert!(tally.text().contains("note: prepared once, and not run\n"));
        assert!(tally.json().unwrap().contains("\"outcome\": \"server-first\""));
    }

    #[test]
    fn what_a_terminal_would_act_on_is_not_printed() {
        let said = Said::new(Outcome::Refused, "table `a\u{1b}[2J`; do\nit");
        assert_eq!((said.why.as_str(), said.remedy.as_str()), ("table `a\u{fffd}[2J`", "do\u{fffd}it"));
    }

    #[test]
    fn digests_have_a_limit_and_nothing_is_lost() {
        let mut tally = Tally::default();
        for n in 0..=DIGESTS_MAX + 5 {
            tally.executed(digest(&n.to_string()), Said::new(Outcome::Left, ""), String::new);
        }
        assert_eq!(tally.rows.len(), DIGESTS_MAX + 1);
        assert_eq!(tally.count(Outcome::Left), DIGESTS_MAX as u64 + 6);
        assert!(!tally.is_refused() && tally.text().contains("all others"));
    }
}
