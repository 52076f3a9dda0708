//! Metrics that say what the desk's rows say.

use std::time::{Duration, UNIX_EPOCH};

use super::{
    BACKEND_PRIMARY, BACKEND_READ_ONLY, BACKEND_UP, BOUND, BUILD_INFO, CHECK_PASSED, CLOCK_AHEAD, CLOCK_LEAP,
    CONNECT_FAILURES, CONNECT_TIME, DEGRADED, DOOR_CONNECTIONS, DOOR_IDS, DOOR_LOGINS_REFUSED, DOOR_REQUESTS,
    DRAINING, GENERATORS, HEADROOM_IDS, IDS_ISSUED, NODE, READY, RESERVE_IDS, RESERVE_SECONDS, START_TIME,
    STATE_OF_GENERATOR, STORE_UP, USED, USER_IDS, USER_REQUESTS_REFUSED, USERS, USERS_AGE, number,
};
use crate::admin::desk::{
    About, BackendRow, Check, DoorRow, GeneratorRow, GeneratorState, Metric, Readiness,
};
use crate::users::{Directory, Home};

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
    let readiness = Readiness::of(checks);
    let of_store = checks.iter().find(|check| check.name == STORE);
    vec![
        READY.is(flag(readiness.takes_clients())),
        DEGRADED.is(flag(readiness == Readiness::Degraded)),
        CHECK_PASSED.of(checks.iter().map(|check| ([&*check.name], flag(is_fine(check))))),
        STORE_UP.of(of_store.map(|check| ([], flag(is_fine(check))))),
    ]
}

pub fn of_backends(rows: &[BackendRow]) -> Vec<Metric> {
    let each = |value: fn(&BackendRow) -> Option<f64>| {
        rows.iter().filter_map(move |row| Some(([row.address.as_str()], value(row)?)))
    };
    let failures = rows.iter().flat_map(|row| {
        row.connect_errors.iter().map(|(reason, count)| ([row.address.as_str(), *reason], number(*count)))
    });
    let took = rows.iter().map(|row| ([row.address.as_str()], row.connect_time.clone()));
    vec![
        BACKEND_UP.of(each(|row| row.is_up.map(flag))),
        BACKEND_PRIMARY.of(each(|row| Some(flag(row.is_primary)))),
        BACKEND_READ_ONLY.of(each(|row| row.is_read_only.map(flag))),
        CONNECT_TIME.timed(took),
        CONNECT_FAILURES.of(failures),
    ]
}

/// Generators that no rule uses are left out.
pub fn of_generators(rows: &[GeneratorRow]) -> Vec<Metric> {
    let rows: Vec<_> = rows.iter().filter(|row| row.state != GeneratorState::Unused).collect();
    let each = |value: fn(&GeneratorRow) -> Option<f64>| {
        rows.iter().filter_map(move |&row| Some(([row.name.as_str()], value(row)?)))
    };
    let states = rows.iter().map(|row| ([row.name.as_str(), row.state.word()], 1.0));
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

/// Doors that are off are left out.
pub fn of_doors(rows: &[DoorRow]) -> Vec<Metric> {
    let rows: Vec<_> = rows.iter().filter(|row| row.address.is_some()).collect();
    let each = |value: fn(&DoorRow) -> u64| rows.iter().map(move |&row| ([row.name], number(value(row))));
    let requests = rows
        .iter()
        .flat_map(|row| row.requests.iter().map(|(outcome, count)| ([row.name, *outcome], number(*count))));
    vec![
        DOOR_CONNECTIONS.of(each(|row| row.clients)),
        DOOR_REQUESTS.of(requests),
        DOOR_IDS.of(each(|row| row.ids)),
        DOOR_LOGINS_REFUSED.of(each(|row| row.logins_refused)),
    ]
}

/// Each user has a series as soon as there is something to tell.
pub fn of_users(users: &Directory) -> Vec<Metric> {
    let of_home = |home: Home| ([home.word()], number(users.count(home) as u64));
    let usage = users.usage();
    let drawn = usage.iter().map(|(user, usage)| ([user.as_str()], usage.ids()));
    let refused = usage.iter().flat_map(|(user, usage)| {
        let user = user.as_str();
        [([user, "denied"], usage.denied()), ([user, "over_quota"], usage.over_quota())]
    });
    vec![
        USERS.of([Home::File, Home::Store].map(of_home)),
        USERS_AGE.of(users.age().map(|age| ([], age.as_secs_f64()))),
        USER_IDS.of(counted(drawn)),
        USER_REQUESTS_REFUSED.of(counted(refused)),
    ]
}

fn counted<L>(counts: impl Iterator<Item = (L, u64)>) -> impl Iterator<Item = (L, f64)> {
    counts.filter(|(_, count)| *count > 0).map(|(labels, count)| (labels, number(count)))
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
