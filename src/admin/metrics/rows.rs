//! Metrics that say what the desk's rows say.

use std::time::{Duration, UNIX_EPOCH};

use super::{
    BOUND, BUILD_INFO, CHECK_PASSED, CLOCK_AHEAD, CLOCK_LEAP, DRAINING, GENERATORS, HEADROOM_IDS, IDS_ISSUED,
    NODE, READY, RESERVE_IDS, RESERVE_SECONDS, START_TIME, STATE_OF_GENERATOR, STORE_UP, USED, number,
};
use crate::admin::desk::{About, Check, GeneratorRow, GeneratorState, Metric};

/// The words of `rowstamp_generator_state`.
const STATES: [&str; 4] = ["open", "paused", "troubled", "stopped"];

/// The name of the check that `rowstamp_store_up` is.
const STORE: &str = "store";

pub fn of_about(about: &About) -> Vec<Metric> {
    let since = about.since.duration_since(UNIX_EPOCH).unwrap_or_default();
    vec![
        BUILD_INFO.of([([about.version], 1.0)]),
        START_TIME.is(since.as_secs_f64()),
        DRAINING.is(flag(about.is_draining)),
    ]
}

pub fn of_checks(checks: &[Check]) -> Vec<Metric> {
    let is_fine = |check: &Check| check.trouble.is_none();
    let of_store = checks.iter().find(|check| check.name == STORE);
    vec![
        READY.is(flag(checks.iter().all(is_fine))),
        CHECK_PASSED.of(checks.iter().map(|check| ([&*check.name], flag(is_fine(check))))),
        STORE_UP.of(of_store.map(|check| ([], flag(is_fine(check))))),
    ]
}

/// Those that no rule uses are left out.
pub fn of_generators(rows: &[GeneratorRow]) -> Vec<Metric> {
    let rows: Vec<_> = rows.iter().filter(|row| row.state != GeneratorState::Unused).collect();
    let each = |value: fn(&GeneratorRow) -> Option<f64>| {
        rows.iter().filter_map(move |&row| Some(([row.name.as_str()], value(row)?)))
    };
    let states = rows
        .iter()
        .flat_map(|row| STATES.map(|state| ([row.name.as_str(), state], flag(state == row.state.word()))));
    vec![
        GENERATORS.is(number(rows.len().try_into().unwrap_or(u64::MAX))),
        IDS_ISSUED.of(each(|row| Some(number(row.issued)))),
        RESERVE_IDS.of(each(|row| row.reserved_ids.map(number))),
        RESERVE_SECONDS.of(each(|row| row.reserved_for.as_ref().map(Duration::as_secs_f64))),
        BOUND.of(each(|row| row.bound.map(number))),
        HEADROOM_IDS.of(each(|row| row.headroom.map(number))),
        USED.of(each(|row| Some(row.used))),
        STATE_OF_GENERATOR.of(states),
        NODE.of(each(|row| row.node.map(number))),
        CLOCK_AHEAD.of(each(|row| row.ahead.as_ref().map(Duration::as_secs_f64))),
        CLOCK_LEAP.of(each(|row| row.node.map(|_| row.leap.unwrap_or_default().as_secs_f64()))),
    ]
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
