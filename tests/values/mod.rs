//! The value matrix: what INSERT ... SELECT and INSERT ... VALUES store, for every type of column and every way to make a
//! value.
//!
//! The same statement goes straight into a table with AUTO_INCREMENT, and through the proxy into one with
//! AUTO_INCREMENT and into one without, all on one server. The answers, the warnings, the stored bytes and the order of the
//! ids must be the same. A run natively tells first which columns take a value: these share one statement, so that
//! a few thousand statements cover the matrix, and each column that refuses it has one of its own.
//!
//! * [`columns`]: the types.
//! * [`forms`]: the ways to make a value, most of them lines of `forms.txt`.
//! * [`plan`]: statements of them.
//! * [`sides`]: one statement on one table -> facts.
//! * [`runner`]: all of it on one server.
//! * [`findings`]: differences, gathered by what they are about.
//!
//! Not every statement of the matrix runs each time. Each value runs in strict mode and without it; chance draws a third of those with
//! IGNORE, and the protocol, the form of the statement and the table. The run among all tests always draws the same; `tests/values.sh`
//! draws others. ROWSTAMP_VALUES_PERCENT=100 runs all, ROWSTAMP_VALUES_SEED=n draws again what an earlier run drew.
//! ROWSTAMP_VALUES_FILTER=text runs the values whose name holds it, ROWSTAMP_VALUES_SERVER=mariadb or mysql9 one server.
//! ROWSTAMP_VALUES_TOLD=n prints so many differences of each kind.

mod columns;
mod findings;
mod forms;
mod plan;
mod runner;
mod sides;

use std::thread;

use crate::support::servers::announce;
use crate::support::{Kind, told};
use findings::Findings;

/// The percentage that runs of the statements beyond the one for each value, sql_mode and IGNORE.
const PERCENT_IN_SHORT: u64 = 1;
/// The seed of the run among all tests: it is the same each time.
const SEED: u64 = 1;
/// Through the proxy, in the short run on one server.
const STATEMENTS_AT_LEAST: u64 = 2000;

#[test]
fn what_is_stored_is_what_the_server_would_have_stored() {
    // `tests/values.sh` draws others.
    let is_asked = std::env::var_os("ROWSTAMP_VALUES_PERCENT").is_some();
    let drawn = || if is_asked { u64::from(rand::random::<u32>()) } else { SEED };
    let seed = told::number("ROWSTAMP_VALUES_SEED").unwrap_or_else(drawn);
    let percent = told::number("ROWSTAMP_VALUES_PERCENT").unwrap_or(PERCENT_IN_SHORT);
    let filter = std::env::var("ROWSTAMP_VALUES_FILTER").unwrap_or_default();
    let only = std::env::var("ROWSTAMP_VALUES_SERVER").ok();
    announce(&format!("values: seed {seed}, {percent} percent"));
    let kinds: Vec<_> =
        Kind::ALL.into_iter().filter(|kind| only.as_ref().is_none_or(|only| kind.name() == only)).collect();
    let mut findings = Findings::default();
    thread::scope(|scope| {
        let threads: Vec<_> = kinds
            .iter()
            .map(|kind| scope.spawn(|| runner::run_all(*kind, &runner::Draw { seed, percent }, &filter)))
            .collect();
        for thread in threads {
            let Some(outcome) = thread.join().expect("a running thread ends by itself") else { continue };
            announce(&outcome.summary());
            assert!(
                !filter.is_empty() || outcome.proxied >= STATEMENTS_AT_LEAST,
                "too few statements: {}",
                outcome.summary()
            );
            findings.merge(outcome.findings);
        }
    });
    let told = findings.told(told::number("ROWSTAMP_VALUES_TOLD"));
    assert!(told.is_empty(), "seed {seed}: {told}");
}
