//! AUTO_INCREMENT beside the generator: who writes past the proxy, and by which steps.

use std::num::NonZeroU64;

use crate::ids::sequence::SequenceSpec;
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::{GeneratorKind, GeneratorSpec, Mode};
use crate::schema::facts::{ColumnFacts, ServerFacts};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let server = &survey.facts.server;
    // While a rule is off the counter is all there is.
    for (live, column) in survey.columns().filter(|(live, _)| live.rule.mode != Mode::Off) {
        if column.shape.auto_increment {
            found.push(kept(survey, live, column));
            if let GeneratorKind::Sequence(sequence) = &live.spec.kind {
                found.extend(interleaved(live, column, sequence, server));
            }
        } else {
            found.extend(stray(live, column, server));
        }
    }
    for spec in survey.rules.generators() {
        found.extend(driver(survey, spec));
    }
}

fn kept(survey: &Survey<'_>, live: &Live<'_>, column: &ColumnFacts) -> Finding {
    let above = survey.bound(live).zip(live.highest()).filter(|(bound, highest)| highest >= bound);
    let others = above.map_or(String::new(), |(bound, highest)| {
        format!(
            " Other clients do insert: the table holds ids up to {highest}, and the bound of {} is {bound}.",
            live.spec.name
        )
    });
    let then = if live.follows_table() {
        "the generator continues above it, within a second if the table is in use; an INSERT through Rowstamp that gets the same id before that is \
         sent again, or fails with error 1062"
    } else {
        "INSERTs through Rowstamp that get the same id fail with error 1062"
    };
    let why = format!(
        "{} is still AUTO_INCREMENT: a direct INSERT (not through Rowstamp) takes its id from the counter; {then}.{others}",
        column.shape.name
    );
    let page = crate::book::page!("migrate");
    let remedy = format!("when all clients insert through Rowstamp: {} ({page})", live.step("drop"));
    Finding::warning(Code::AutoIncrementKept, live.column_place(column), why, remedy)
}

/// The highest auto_increment_increment of both servers.
const INCREMENT_MAX: u64 = 65_535;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// True if the generator issues none of the counter's numbers, with the increments that the server has now.
pub(in crate::lint) fn are_apart(sequence: &SequenceSpec, server: &ServerFacts) -> bool {
    let (increment, offset) = counter(server);
    // Generator and counter share ids just where they agree modulo the greatest common divisor of their steps.
    let common = gcd(sequence.step.get(), increment);
    offset % common != sequence.offset % sequence.step % common
}

/// Two steps that are both 1 are what `kept` says; else somebody meant them to interleave.
fn interleaved(
    live: &Live<'_>,
    column: &ColumnFacts,
    sequence: &SequenceSpec,
    server: &ServerFacts,
) -> Option<Finding> {
    let (increment, offset) = counter(server);
    let (step, residue) = (sequence.step.get(), sequence.offset % sequence.step);
    if increment == 1 && step == 1 || are_apart(sequence, server) {
        return None;
    }
    let why = format!(
        "{} gives ids with remainder {residue} when divided by {step}, the counter gives ids with remainder {} when divided by \
         {increment} (auto_increment_increment, auto_increment_offset): some ids are the same",
        live.spec.name,
        offset % increment,
    );
    let free = (offset + 1) % increment.max(2);
    let remedy = format!(
        "while there are direct INSERTs: write step = {n}, offset = {free} for the generator, and \
         SET GLOBAL auto_increment_increment = {n}",
        n = increment.max(2)
    );
    Some(Finding::warning(Code::StepDiffers, live.column_place(column), why, remedy))
}

/// The step of AUTO_INCREMENT, and its first id. Source: MySQL manual, "auto_increment_offset": it counts only up to the step.
fn counter(server: &ServerFacts) -> (u64, u64) {
    let increment = server.number("auto_increment_increment").max(1);
    let offset = server.number("auto_increment_offset");
    (increment, if offset > increment { 1 } else { offset })
}

fn stray(live: &Live<'_>, column: &ColumnFacts, server: &ServerFacts) -> Option<Finding> {
    // For columns that may be NULL or have a default, `column-default` reports what is stored.
    let is_silent = !server.is_strict() && !column.is_nullable && !column.has_default;
    (is_silent && column.shape.highest().is_some()).then(|| {
        let why = format!(
            "a direct INSERT (not through Rowstamp) without {} stores 0, because the server's sql_mode is not strict",
            column.shape.name
        );
        let remedy = "SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',STRICT_TRANS_TABLES'): such an INSERT then fails";
        Finding::warning(Code::StrayZero, live.column_place(column), why, remedy)
    })
}

/// Connector/J's getGeneratedKeys counts from the first id of an INSERT of several rows by the session's
/// auto_increment_increment.
fn driver(survey: &Survey<'_>, spec: &GeneratorSpec) -> Option<Finding> {
    survey.columns().find(|(live, _)| live.spec.name == spec.name)?;
    let (increment, _) = counter(&survey.facts.server);
    let step = spec.kind.spacing().step;
    (NonZeroU64::new(increment) != Some(step)).then(|| {
        let why = format!(
            "the ids of an INSERT of several rows are {step} apart, but auto_increment_increment is {increment}: drivers that compute \
             ids from this variable (Connector/J's getGeneratedKeys) report wrong ids after the first"
        );
        let can_be_set = step.get() <= INCREMENT_MAX;
        let session = format!("SET auto_increment_increment = {step} in the sessions of such drivers");
        let remedy = match &spec.kind {
            GeneratorKind::Sequence(_) if can_be_set => format!("write step = {increment}, or {session}"),
            GeneratorKind::Sequence(_) => format!("write step = {increment}, or insert row by row"),
            GeneratorKind::Timestamp(_) if can_be_set => format!("{session}, or insert row by row"),
            GeneratorKind::Timestamp(_) => "insert row by row".to_owned(),
        };
        Finding::note(Code::DriverStep, Where::object(&spec.name).at(&spec.origin), why, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::gcd;

    #[test]
    fn greatest_common_divisors() {
        for (a, b, expect) in [(1, 1, 1), (4, 2, 2), (2, 4, 2), (3, 2, 1), (12, 18, 6)] {
            assert_eq!(gcd(a, b), expect, "{a} {b}");
        }
    }
}
