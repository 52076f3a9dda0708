//! SHOW GENERATORS: what the desk knows of them, and what the store knows of those that are not
//! open here.

use std::time::Duration;

use super::Field;
use crate::admin::console::answer::Type::{Real, Text, Unsigned};
use crate::admin::console::answer::Value;
use crate::admin::desk::{Desk, GeneratorRow, GeneratorState, StoredRow};

/// For the store's answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) const FIELDS: [Field<GeneratorRow>; 15] = [
    ("generator", Text, |row| (&*row.name).into()),
    ("kind", Text, |row| row.kind.word().into()),
    ("state", Text, |row| row.state.word().into()),
    ("issued_ids", Unsigned, |row| row.issued.into()),
    ("ids_per_second", Real, |row| rounded(row.per_second, 2).into()),
    ("reserve_ids", Unsigned, |row| row.reserved_ids.into()),
    ("reserve_seconds", Real, |row| row.reserved_for.map(seconds).into()),
    ("bound", Unsigned, |row| row.bound.into()),
    ("max_id", Unsigned, |row| row.max.into()),
    ("used_percent", Real, |row| row.max.map(|_| rounded(row.used * 100.0, 4)).into()),
    ("node", Unsigned, |row| row.node.into()),
    ("ahead_seconds", Real, |row| row.ahead.map(seconds).into()),
    ("leap_seconds", Real, |row| row.leap.map(seconds).into()),
    ("rules", Unsigned, |row| (row.rules as u64).into()),
    ("why", Text, |row| match &row.state {
        GeneratorState::Open => Value::Null,
        GeneratorState::Paused => {
            "an operator has paused the generator; RESUME GENERATOR ends the pause".into()
        }
        GeneratorState::Troubled(why) | GeneratorState::Stopped(why) => (&**why).into(),
        GeneratorState::Unused => "no rule with mode = \"on\" names the generator".into(),
    }),
];

/// The rules' generators, and those that the store alone knows. What is not open has its bound by
/// the store, if that answers soon: who looks for what is wrong with the store must not wait
/// for it.
pub(super) async fn with_stored(desk: &dyn Desk) -> Vec<GeneratorRow> {
    let mut rows = desk.generators();
    let stored = tokio::time::timeout(STORE_TIMEOUT, desk.stored()).await;
    for StoredRow { generator, kind, bound } in stored.ok().and_then(Result::ok).unwrap_or_default() {
        match rows.iter_mut().find(|row| row.name == generator) {
            Some(row) if row.max.is_none() => row.bound = bound,
            Some(_) => {}
            None => rows.push(GeneratorRow { name: generator, kind, bound, ..GeneratorRow::default() }),
        }
    }
    rows
}

fn seconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64(), 3)
}

/// For people: more decimals would be noise.
fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}
