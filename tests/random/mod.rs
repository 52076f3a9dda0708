//! The judge on statements that nobody wrote: a grammar of INSERT draws them, and all that a client can see is
//! compared natively and through the proxy as in tests/differential, whose machinery it uses.
//!
//! * [`choices`]: what chance decides, as numbers that can be decided again.
//! * [`tables`]: where statements go.
//! * [`session`], [`insert`], [`clauses`], [`select`], [`values`], with [`writer`] and [`when`]: the grammar.
//! * [`runner`]: many cases on one server.
//! * [`marks`]: what may be refused.
//! * [`histogram`]: what was drawn and what became of it.
//! * [`shrink`], [`print`]: a difference as a small case for tests/differential/cases.
//!
//! ROWSTAMP_RANDOM_STATEMENTS=200000 runs so many INSERTs over the eight combinations, half of them from a seed of its own (and then demands
//! that every production was drawn often); ROWSTAMP_RANDOM_SEED=n begins from that seed,
//! and ROWSTAMP_RANDOM_CASE=n runs that one of its cases. tests/random.sh does the long run.

mod choices;
mod clauses;
mod histogram;
mod insert;
mod marks;
mod print;
mod runner;
mod select;
mod session;
mod shrink;
mod tables;
mod values;
mod when;
mod writer;

use std::thread;

use crate::differential::lab::Lab;
use crate::support::servers::announce;
use crate::support::{Kind, told};
use histogram::Histogram;

/// In `cargo test`: over both servers, from a seed that is always the same.
const STATEMENTS_IN_SHORT: u64 = 1000;
/// From here on so many statements with each production must have been run.
const STATEMENTS_IN_LONG: u64 = 200_000;
const RUN_AT_LEAST: u64 = 500;
/// A short run has too few statements for the whole of it.
const ACCEPTED_PERCENT_AT_LEAST: (u64, u64) = (70, 80);
const FIXED_SEED: u64 = 20_251_120;

#[test]
fn drawn_statements_do_what_native_ones_do() {
    let told = told::number("ROWSTAMP_RANDOM_STATEMENTS");
    let (is_campaign, statements) = (told.is_some(), told.unwrap_or(STATEMENTS_IN_SHORT));
    let only = told::number("ROWSTAMP_RANDOM_CASE");
    let seeds = match told::number("ROWSTAMP_RANDOM_SEED") {
        Some(seed) => vec![seed],
        None if is_campaign => vec![FIXED_SEED, u64::from(rand::random::<u32>())],
        // The same statements each time: what fails came with the change that is tested.
        None => vec![FIXED_SEED],
    };
    announce(&format!("random: seeds {seeds:?}, {statements} INSERTs"));
    let mut histogram = Histogram::default();
    let mut differences = Vec::new();
    let mut servers = 0;
    thread::scope(|scope| {
        let threads = Kind::ALL.map(|kind| {
            let seeds = &seeds;
            scope.spawn(move || {
                let lab = Lab::with_proxy(kind)?;
                let each = statements / 2 / u64::try_from(seeds.len()).unwrap_or(1);
                Some(
                    seeds
                        .iter()
                        .map(|seed| (kind, *seed, runner::run_all(&lab, *seed, each, only)))
                        .collect::<Vec<_>>(),
                )
            })
        });
        for thread in threads {
            let Some(outcomes) = thread.join().expect("a running thread ends by itself") else { continue };
            servers += 1;
            for (kind, seed, outcome) in outcomes {
                let a_second = outcome.histogram.compared * 1000
                    / u64::try_from(outcome.took.as_millis()).unwrap_or(1).max(1);
                announce(&format!(
                    "random: {} seed {seed}: {} INSERTs in {:.1} s, {a_second} a second, {} differences",
                    kind.name(),
                    outcome.histogram.compared,
                    outcome.took.as_secs_f64(),
                    outcome.differences.len()
                ));
                histogram.merge(outcome.histogram);
                differences.extend(outcome.differences);
            }
        }
    });
    announce(&histogram.summary());
    let long = statements >= STATEMENTS_IN_LONG;
    if is_campaign {
        announce(&histogram.table());
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    if servers < Kind::ALL.len() || only.is_some() {
        return;
    }
    let accepted = histogram.accepted_percent();
    let (short_least, long_least) = ACCEPTED_PERCENT_AT_LEAST;
    let least = if long { long_least } else { short_least };
    assert!(accepted >= least, "only {accepted} % were accepted natively");
    if long {
        let rare: Vec<_> = histogram.rarest().into_iter().filter(|(run, _)| *run < RUN_AT_LEAST).collect();
        assert!(rare.is_empty(), "less than {RUN_AT_LEAST} statements with them: {rare:?}");
        let unused = histogram.unused_marks();
        assert!(unused.is_empty(), "marks that excuse nothing, remove: {unused:?}");
    }
}
