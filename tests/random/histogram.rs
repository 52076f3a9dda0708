//! How often each production was drawn, and what became of the statements.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::differential::case::Case;
use crate::differential::run::Record;
use crate::differential::tally::Combination;
use crate::random::marks;
use crate::random::session::{self, Drawn};

const UNKNOWN_STATEMENT: &str = "1243 ";

type Name = (&'static str, &'static str);

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// Choices of it in statements that are different.
    drawn: u64,
    /// Statements with it, in each combination.
    run: u64,
    refused: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    rows: BTreeMap<Name, Row>,
    /// INSERTs, each in each combination.
    pub(crate) compared: u64,
    pub(crate) other_statements: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    by_combination: BTreeMap<Combination, u64>,
    reasons: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    marks_met: BTreeMap<usize, u64>,
    left_out: BTreeMap<&'static str, u64>,
}

impl Histogram {
    pub(crate) fn draw(&mut self, drawn: &Drawn) {
        for apart in &drawn.left_out {
            *self.left_out.entry(apart).or_default() += 1;
        }
        for (_, name) in &drawn.productions {
            self.rows.entry(*name).or_default().drawn += 1;
        }
    }

    /// One case in one combination; each step is a statement or an execution of one.
    pub(crate) fn count(
        &mut self,
        drawn: &Drawn,
        case: &Case,
        native: &Record,
        proxied: &Record,
        here: Combination,
    ) {
        let said: BTreeMap<usize, &String> =
            proxied.refusals.iter().map(|(step, said)| (*step, said)).collect();
        let mut steps: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
        for fact in native.facts.iter().filter(|fact| fact.step > 0) {
            let step = steps.entry(fact.step).or_insert((fact.statement, true));
            if fact.field == "error" {
                step.1 = false;
                *self.errors.entry(fact.value.clone()).or_default() += 1;
            }
        }
        // EXECUTE of a statement whose PREPARE was refused, and so left out.
        let unknown: Vec<usize> =
            native.facts.iter().filter(|f| f.value.starts_with(UNKNOWN_STATEMENT)).map(|f| f.step).collect();
        steps.retain(|step, _| !unknown.contains(step));
        for (step, (statement, accepted)) in steps {
            let mut names: Vec<Name> = drawn.productions_of(statement).collect();
            let refused = case.statements[statement].refused.is_some();
            names.extend(drawn.productions_of_session());
            names.sort_unstable();
            names.dedup();
            for name in &names {
                let row = self.rows.entry(*name).or_default();
                row.run += 1;
                row.refused += u64::from(refused);
            }
            let message = said.get(&step);
            if let Some(mark) = message.and_then(|message| marks::mark_of(drawn, statement, message)) {
                *self.marks_met.entry(mark).or_default() += 1;
            }
            if !names.iter().any(|(group, _)| *group == "verb") {
                self.other_statements += 1;
                continue;
            }
            self.compared += 1;
            *self.by_combination.entry(here).or_default() += 1;
            self.accepted += u64::from(accepted && !refused);
            self.refused += u64::from(refused);
            if let Some(message) = message {
                *self.reasons.entry((*message).clone()).or_default() += 1;
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Histogram) {
        for (name, row) in other.rows {
            let mine = self.rows.entry(name).or_default();
            mine.drawn += row.drawn;
            mine.run += row.run;
            mine.refused += row.refused;
        }
        self.compared += other.compared;
        self.other_statements += other.other_statements;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.by_combination.extend(other.by_combination);
        for (reason, times) in other.reasons {
            *self.reasons.entry(reason).or_default() += times;
        }
        for (error, times) in other.errors {
            *self.errors.entry(error).or_default() += times;
        }
        for (apart, times) in other.left_out {
            *self.left_out.entry(apart).or_default() += times;
        }
        for (mark, times) in other.marks_met {
            *self.marks_met.entry(mark).or_default() += times;
        }
    }

    pub(crate) fn accepted_percent(&self) -> u64 {
        self.accepted * 100 / self.compared.max(1)
    }

    /// Productions by how many statements with them were run, the rarest first.
    pub(crate) fn rarest(&self) -> Vec<(u64, Name)> {
        let run = |name: &Name| self.rows.get(name).map_or(0, |row| row.run);
        let mut all: Vec<_> = session::all_productions().into_keys().map(|name| (run(&name), name)).collect();
        all.sort_unstable();
        all
    }

    /// Marks that excused nothing.
    pub(crate) fn unused_marks(&self) -> Vec<String> {
        let unused = marks::MARKS.iter().enumerate().filter(|(index, _)| !self.marks_met.contains_key(index));
        unused.map(|(_, mark)| format!("{} {}: {}", mark.group, mark.production, mark.message)).collect()
    }

    pub(crate) fn summary(&self) -> String {
        let mut text = format!(
            "{} INSERTs compared and {} other statements; {} % accepted natively, {} refused by the proxy\n",
            self.compared,
            self.other_statements,
            self.accepted_percent(),
            self.refused
        );
        for (combination, times) in &self.by_combination {
            let _ = writeln!(text, "  {combination}: {times}");
        }
        for (error, times) in &self.errors {
            let _ = writeln!(text, "  {times:>7} native error {error}");
        }
        for (reason, times) in &self.reasons {
            let _ = writeln!(text, "  {times:>7} refused: {reason}");
        }
        for (apart, times) in &self.left_out {
            let _ = writeln!(text, "  {times:>7} left out: {apart}");
        }
        text
    }

    pub(crate) fn table(&self) -> String {
        let mut text =
            format!("{:<18} {:<26} {:>8} {:>9} {:>9}\n", "group", "production", "drawn", "run", "refused %");
        for name @ (group, production) in session::all_productions().into_keys() {
            let row = self.rows.get(&name).copied().unwrap_or_default();
            let percent = row.refused * 1000 / row.run.max(1);
            let _ = writeln!(
                text,
                "{group:<18} {production:<26} {:>8} {:>9} {:>6}.{}",
                row.drawn,
                row.run,
                percent / 10,
                percent % 10
            );
        }
        text
    }
}
