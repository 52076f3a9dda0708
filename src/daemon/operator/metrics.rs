//! The values of the metrics that `admin::metrics` names.

use std::time::UNIX_EPOCH;

use crate::admin::metrics::{
    self as catalogue, ANSWER_TIME, AUDIT_LOST, BYTES, CLOCK_DRIFT, EXPLICIT_IDS_NOT_FOLLOWED, ID_COLLISIONS,
    ID_WAIT, LOGINS_REFUSED, NATIVE, NO_ID_GIVEN, RELOAD_GOOD, RELOAD_TIME, RELOADS, REWRITE_TIME, RULES,
    SECOND_OPINIONS, SERVER_TIME, SESSIONS, SESSIONS_LIMIT, SESSIONS_OPENED, SESSIONS_REFUSED, SHADOW,
    STATEMENTS, STATEMENTS_REFUSED, STORE_FAILURES, STORE_TIME, TABLE_IDS, TABLE_OVERTAKEN, TABLE_STATEMENTS,
    number,
};
use crate::admin::{Desk, Metric, Timing};
use crate::daemon::operator::{Parts, ProxyDesk, process};
use crate::ids::Generator;
use crate::meter::Timed;
use crate::sessions::{Count, Login, Sessions};
use crate::tables::shadow::counts::ShadowCount;

/// All metrics, sorted by name.
pub(super) fn all(desk: &ProxyDesk, parts: &Parts, sessions: &Sessions) -> Vec<Metric> {
    let mut all = catalogue::of_about(&desk.about());
    all.extend(catalogue::of_checks(&desk.checks()));
    all.extend(catalogue::of_generators(&desk.generators()));
    all.extend(catalogue::of_backends(&desk.backends()));
    all.extend(of_ids(parts));
    all.extend(counted(desk, parts, sessions));
    all.push(of_shadow(parts));
    all.push(AUDIT_LOST.of([([], number(parts.shared.load().audit.lost()))]));
    all.push(of_limits(parts));
    all.extend(of_reloads(parts));
    all.extend(process::metrics());
    all.push(CLOCK_DRIFT.of(desk.health.backend().drift.map(|drift| ([], drift))));
    all.sort_by_key(|metric| metric.name);
    all
}

/// The metrics that cost the same, however many rules there are.
pub(super) fn counted(desk: &ProxyDesk, parts: &Parts, sessions: &Sessions) -> Vec<Metric> {
    let mut counted = of_store(parts);
    counted.extend(catalogue::of_doors(&desk.doors()));
    counted.extend(catalogue::of_users(&parts.users));
    counted.extend(of_statements(parts, sessions));
    counted.extend(of_tables(parts));
    counted.extend(of_sessions(sessions));
    counted
}

fn of_ids(parts: &Parts) -> Vec<Metric> {
    let taken = parts.tables.taken();
    let names: Vec<_> = parts
        .tables
        .generator_specs()
        .iter()
        .map(|spec| (spec.name.to_string(), taken.of(&spec.name)))
        .collect();
    let refused = names
        .iter()
        .flat_map(|(name, of)| of.refused().map(move |(why, count)| ([name.as_str(), why], number(count))))
        .filter(has_happened);
    let open = parts.tables.generators();
    let not_followed = open.iter().filter_map(|generator| match generator {
        Generator::Sequence(sequence) => Some((sequence.name(), sequence.stats())),
        Generator::Timestamp(_) => None,
    });
    let not_followed = not_followed.flat_map(|(name, stats)| {
        [
            ([name, "elsewhere"], number(stats.explicit_elsewhere)),
            ([name, "too_far"], number(stats.explicit_too_far)),
        ]
    });
    let not_followed = not_followed.filter(has_happened);
    let collisions = names.iter().map(|(name, of)| ([name.as_str()], number(of.collisions())));
    let native = names.iter().map(|(name, of)| ([name.as_str()], number(of.native())));
    let (collisions, native) = (collisions.filter(has_happened), native.filter(has_happened));
    vec![
        NO_ID_GIVEN.of(refused),
        NATIVE.of(native),
        ID_COLLISIONS.of(collisions),
        EXPLICIT_IDS_NOT_FOLLOWED.of(not_followed),
        ID_WAIT.timed([([], timing(&taken.waited.read()))]),
    ]
}

/// A generator has these series only once there is something to tell: 10,000 generators that nothing is wrong with are
/// 60,000 series, and not 180,000.
fn has_happened<L>((_, count): &(L, f64)) -> bool {
    *count > 0.0
}

fn of_store(parts: &Parts) -> Vec<Metric> {
    let operations = parts.meter.operations();
    let took = operations.iter().map(|(name, operation)| ([*name], timing(&operation.took.read())));
    let failures = operations.iter().flat_map(|(name, operation)| {
        operation.failures().map(move |(why, count)| ([*name, why], number(count)))
    });
    vec![STORE_TIME.timed(took), STORE_FAILURES.of(failures)]
}

fn of_statements(parts: &Parts, sessions: &Sessions) -> Vec<Metric> {
    let counted = sessions.counted();
    let get = |count| counted.get(count);
    let (sent, failed) = (get(Count::Rewritten), get(Count::Failed));
    let passed = get(Count::Statements).saturating_sub(sent + counted.refused());
    let outcomes = [
        (["passed"], number(passed)),
        (["rewritten"], number(sent.saturating_sub(failed))),
        (["refused"], number(counted.refused())),
        (["failed"], number(failed)),
    ];
    let [agrees, not_verified, differs] = parts.shared.load().verifier.counted();
    // The session counts a refusal by rewrite.verify as `Unsupported`, like others.
    let refused = Count::REFUSED.into_iter().map(|(count, why)| {
        let by_verify = if count == Count::Unsupported { differs } else { 0 };
        ([why], number(get(count).saturating_sub(by_verify)))
    });
    let opinions = [(["agrees"], agrees), (["not_verified"], not_verified), (["differs"], differs)]
        .map(|(l, n)| (l, number(n)));
    let bytes = [(["from_client"], Count::BytesFromClient), (["to_client"], Count::BytesToClient)];
    vec![
        STATEMENTS.of(outcomes),
        STATEMENTS_REFUSED.of(refused.chain([(["verify"], number(differs))])),
        SECOND_OPINIONS.of(opinions),
        ANSWER_TIME.timed([([], timing(&sessions.answered.read()))]),
        SERVER_TIME.timed([([], timing(&sessions.at_server.read()))]),
        REWRITE_TIME.timed([([], timing(&sessions.rewriting.read()))]),
        BYTES.of(bytes.map(|(label, count)| (label, number(get(count))))),
        RULES.is(number(parts.tables.rules().rules().len() as u64)),
    ]
}

fn of_limits(parts: &Parts) -> Metric {
    let limits = &parts.shared.load().login.settings.limits;
    let rows = [
        ("connections", limits.connections_max),
        ("per_user", limits.connections_per_user_max),
        ("per_address", limits.connections_per_address_max),
    ];
    // A limit that is not set has no value.
    let is_set = |(_, limit): &(&str, usize)| (1..usize::MAX).contains(limit);
    SESSIONS_LIMIT.of(rows.into_iter().filter(is_set).map(|(name, limit)| ([name], number(limit as u64))))
}

/// Metrics of the tables that something was inserted into.
fn of_tables(parts: &Parts) -> [Metric; 3] {
    let tables = parts.tables.taken().tables_used();
    let tables: Vec<_> = tables
        .iter()
        .map(|(name, usage)| {
            let (statements, ids) = usage.get();
            (name.to_string(), [statements, ids, usage.overtaken()])
        })
        .collect();
    let each = |value: fn(&[u64; 3]) -> u64| {
        tables.iter().map(move |(name, counted)| ([name.as_str()], number(value(counted))))
    };
    [
        TABLE_STATEMENTS.of(each(|[statements, ..]| *statements)),
        TABLE_IDS.of(each(|[_, ids, _]| *ids)),
        TABLE_OVERTAKEN.of(each(|[.., overtaken]| *overtaken).filter(has_happened)),
    ]
}

fn of_shadow(parts: &Parts) -> Metric {
    let counts = parts.tables.shadow();
    // Statements without a schema are those whose table is not known.
    let named = |count: &ShadowCount| match count.schema.as_str() {
        "" => count.table.clone(),
        schema => format!("{schema}.{}", count.table),
    };
    let tables: Vec<_> = counts.iter().map(named).collect();
    let of_each = tables.iter().zip(&counts).flat_map(|(name, count)| {
        [
            ("rewritten", count.rewritten),
            ("refused", count.refused),
            ("passed", count.passed),
            ("server_first", count.server_first),
            ("unknown", count.unknown),
        ]
        .map(|(outcome, n)| ([name.as_str(), outcome], number(n)))
    });
    SHADOW.of(of_each)
}

fn of_sessions(sessions: &Sessions) -> Vec<Metric> {
    let logins = |login| number(sessions.logins(login));
    // Several kinds of failure may have one word.
    let mut refused: Vec<([&str; 1], f64)> = Vec::new();
    for (login, why) in Login::REFUSED {
        match refused.iter_mut().find(|(label, _)| *label == [why]) {
            Some((_, sum)) => *sum += logins(login),
            None => refused.push(([why], logins(login))),
        }
    }
    vec![
        SESSIONS.is(number(sessions.open() as u64)),
        SESSIONS_OPENED.is(number(sessions.opened())),
        SESSIONS_REFUSED.of(refused),
        LOGINS_REFUSED.is(logins(Login::Denied)),
    ]
}

fn of_reloads(parts: &Parts) -> Vec<Metric> {
    let done = parts.reloader.done();
    let since_1970 = done.good_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    vec![
        RELOADS.of([(["good"], number(done.good)), (["bad"], number(done.bad))]),
        RELOAD_GOOD.is(f64::from(u8::from(done.last_was_good))),
        RELOAD_TIME.is(since_1970),
    ]
}

pub(super) fn timing(timed: &Timed) -> Timing {
    let end = |end: Option<std::time::Duration>| end.map_or(f64::INFINITY, |end| end.as_secs_f64());
    Timing {
        seconds: timed.sum.as_secs_f64(),
        buckets: timed.up_to.iter().map(|&(up_to, count)| (end(up_to), count)).collect(),
    }
}
