//! SHOW GENERATORS: what the desk knows of them, and of those that are not open here the store.

use std::time::Duration;

use crate::admin::console::show::table::{Rows, Value, sorted};
use crate::admin::desk::{Desk, GeneratorRow, GeneratorState, Kind, StoredRow};

/// For what SHOW GENERATORS asks the store.
const STORED_PATIENCE: Duration = Duration::from_secs(1);

/// The rules' generators, and those that the store alone knows. What is not open has its bound by the store, where that answers:
/// who looks for what is wrong with it is not to wait for it.
pub(crate) async fn with_stored(desk: &dyn Desk) -> Vec<GeneratorRow> {
    let mut rows = desk.generators();
    let stored = tokio::time::timeout(STORED_PATIENCE, desk.stored()).await;
    for StoredRow { generator, kind, bound } in stored.ok().and_then(Result::ok).unwrap_or_default() {
        match rows.iter_mut().find(|row| row.name == generator) {
            Some(row) if row.max.is_none() => row.bound = bound,
            Some(_) => {}
            None => rows.push(GeneratorRow { bound, ..GeneratorRow::unused(generator, kind) }),
        }
    }
    rows
}

pub(crate) fn generators(generators: &[GeneratorRow]) -> Rows {
    let row = |row: &GeneratorRow| {
        let kind = match row.kind {
            Kind::Sequence => "sequence",
            Kind::Timestamp => "timestamp",
        };
        let (state, why) = match &row.state {
            GeneratorState::Open => ("open", Value::Null),
            GeneratorState::Paused => ("paused", "by an operator; RESUME GENERATOR".into()),
            GeneratorState::Troubled(why) => ("troubled", (&**why).into()),
            GeneratorState::Stopped(why) => ("stopped", (&**why).into()),
            GeneratorState::Unused => ("unused", "no rule that acts names it".into()),
        };
        vec![
            (&*row.name).into(),
            kind.into(),
            state.into(),
            row.issued.into(),
            rounded(row.per_second, 2).into(),
            row.reserved_ids.into(),
            row.reserved_for.map(seconds).into(),
            row.bound.into(),
            row.max.into(),
            row.max.map(|_| rounded(row.used * 100.0, 4)).into(),
            row.node.into(),
            row.ahead.map(seconds).into(),
            row.leap.map(seconds).into(),
            (row.rules as u64).into(),
            why,
        ]
    };
    sorted(generators.iter().map(row).collect())
}

fn seconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64(), 3)
}

/// For reading: what is behind these decimals is noise.
fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}
