//! Generators as operators see them.

use std::collections::HashMap;
use std::time::Duration;

use crate::admin::{DeskError, GeneratorRow, GeneratorState, Kind, Raised};
use crate::daemon::operator::rates::Rates;
use crate::ids::generator::{Sequence, Stats};
use crate::ids::reach::Reach;
use crate::ids::timestamp::{self, Timestamp};
use crate::ids::{Generator, ID_MAX};
use crate::rules::model::{GeneratorKind, GeneratorName, GeneratorSpec};
use crate::tables::InForce;

/// The time that the store has to raise a bound.
const DEADLINE: Duration = Duration::from_secs(5);

/// By name. Those that no rule which acts names are not opened.
pub(super) fn rows(tables: &InForce, rates: &Rates) -> Vec<GeneratorRow> {
    let (rules, open) = (tables.rules(), tables.generators());
    let open: HashMap<&str, &Generator> =
        open.iter().map(|generator| (generator.name(), generator)).collect();
    let mut named: HashMap<&GeneratorName, usize> = HashMap::new();
    for rule in rules.rules() {
        *named.entry(&rule.generator).or_default() += 1;
    }
    let wide: Vec<_> = rules.rules().filter(|rule| rule.made_from.is_some()).collect();
    let row = |spec: &GeneratorSpec| {
        let name = spec.name.to_string();
        let (taken, per_second) = (tables.taken().of(&spec.name), rates.per_second(&name));
        let kind = match &spec.kind {
            GeneratorKind::Sequence(_) => Kind::Sequence,
            GeneratorKind::Timestamp(_) => Kind::Timestamp,
        };
        let blank = GeneratorRow {
            state: match why_none_is_open(tables) {
                Some(why) => GeneratorState::Stopped(why.to_owned()),
                None => GeneratorState::Unused,
            },
            issued: taken.ids(),
            per_second,
            rules: named.get(&spec.name).copied().unwrap_or_default()
                + wide.iter().filter(|rule| rule.draws_from(&spec.name)).count(),
            name,
            kind,
            ..GeneratorRow::default()
        };
        let mut row = match open.get(blank.name.as_str()) {
            Some(Generator::Sequence(sequence)) => of_sequence(sequence, blank),
            Some(Generator::Timestamp(timestamp)) => of_timestamp(timestamp, blank),
            None => blank,
        };
        if taken.is_paused() {
            row.state = GeneratorState::Paused;
        }
        row
    };
    let specs = tables.generator_specs();
    tables.taken().know(specs.iter().map(|spec| &spec.name));
    specs.iter().map(row).collect()
}

/// `None`: those are that a rule needs.
fn why_none_is_open(tables: &InForce) -> Option<&'static str> {
    match () {
        () if tables.has_yielded() => Some("another process has taken over and issues its ids"),
        () if tables.is_waiting() => {
            Some("the store did not answer when this proxy started, and does not answer yet")
        }
        () => None,
    }
}

fn of_sequence(sequence: &Sequence, row: GeneratorRow) -> GeneratorRow {
    let Stats { reserved, bound, max, headroom, trouble, .. } = sequence.stats();
    let lasts = (row.per_second > 0.0).then(|| seconds(number(reserved) / row.per_second)).flatten();
    let state = match trouble {
        _ if reserved == 0 && bound > max => {
            GeneratorState::Stopped(format!("all ids up to {max} are used up"))
        }
        None => GeneratorState::Open,
        Some(why) if reserved > 0 => GeneratorState::Troubled(why),
        Some(why) => GeneratorState::Stopped(why),
    };
    GeneratorRow {
        state,
        reserved_ids: Some(reserved),
        reserved_for: lasts,
        bound: Some(bound),
        max: Some(max),
        headroom: Some(headroom),
        used: share(number(bound.saturating_sub(1)), number(max)),
        ..row
    }
}

fn of_timestamp(timestamp: &Timestamp, row: GeneratorRow) -> GeneratorRow {
    let timestamp::TimestampStats {
        position, ahead, reserved, leap, epoch, end, node, trouble, held, ..
    } = timestamp.stats();
    let until = |end: u64, now: u64| Duration::from_micros(end.saturating_sub(now));
    let left = until(reserved.micros(), position.micros());
    let state = match (held, trouble) {
        (Some(held), _) => GeneratorState::Stopped(held.to_string()),
        (None, Some(why)) if left.is_zero() => GeneratorState::Stopped(why),
        (None, Some(why)) => GeneratorState::Troubled(why),
        (None, None) => GeneratorState::Open,
    };
    let (life, gone) = (until(end.micros(), epoch.micros()), until(position.micros(), epoch.micros()));
    GeneratorRow {
        state,
        // Time passes whether anybody takes ids or not; while nobody does, none is reserved.
        reserved_for: (!left.is_zero()).then_some(left),
        max: Some(timestamp.id_max()),
        used: share(gone.as_secs_f64(), life.as_secs_f64()),
        node: Some(node),
        ahead: Some(ahead),
        leap,
        ..row
    }
}

/// Raises a sequence, for the console's RAISE GENERATOR.
pub(super) async fn raise(
    tables: &InForce,
    name: &GeneratorName,
    to: u64,
    is_meant: bool,
) -> Result<Raised, DeskError> {
    let generator = tables.generators().into_iter().find(|generator| generator.name() == name.to_string());
    let sequence = match generator {
        Some(Generator::Sequence(sequence)) => sequence,
        Some(Generator::Timestamp(_)) => {
            return Err(DeskError::Wrong(format!(
                "{name} is a timestamp generator: its bound is a time, not an id; use `rowstamp store raise {name} --above-tables`"
            )));
        }
        None => return Err(DeskError::Failed(not_open(tables, name))),
    };
    if to == 0 || to > ID_MAX + 1 {
        return Err(DeskError::Wrong(format!(
            "{to} is not a bound; write a number from 1 to {}",
            ID_MAX + 1
        )));
    }
    let Stats { bound, max, .. } = sequence.stats();
    if to < bound {
        return Err(DeskError::Wrong(format!(
            "{name} is at {bound}, which is above {to}; a bound is never lowered, because ids would come twice"
        )));
    }
    if to > max {
        return Err(DeskError::Wrong(format!(
            "{to} is above {max}, the last id of {name} by its max and its columns' types; no id would be left, and a bound is \
             never lowered"
        )));
    }
    // Ids that are reserved and issued lie below the bound, so the bound is a limit for the tables' ids too.
    if let Some(far) = (Reach { bound, highest: None, max }).far(to).filter(|_| !is_meant) {
        return Err(DeskError::Wrong(format!(
            "{name} is not raised: {far} (`rowstamp store lower`); to raise it all the same, write RAISE GENERATOR {name} TO {to} YES"
        )));
    }
    let raised = sequence.raise_floor_from(to - 1, DEADLINE).await;
    let from = raised.map_err(|error| DeskError::Failed(error.to_string()))?;
    let to = sequence.stats().bound;
    tracing::warn!(generator = %name, from, to, "an operator has raised the generator");
    Ok(Raised { generator: name.to_string(), from, to })
}

fn not_open(tables: &InForce, name: &GeneratorName) -> String {
    match why_none_is_open(tables) {
        Some(why) => format!("{name} is not open: {why}"),
        None => format!(
            "no active rule names {name}, so the generator is not open; `rowstamp store raise {name} --to ...` raises it in the \
             store (a store in a file: only while no proxy runs)"
        ),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares and rates are for people")]
fn number(count: u64) -> f64 {
    count as f64
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 1.0 }
}

/// `None`: longer than anybody lives.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::{seconds, share};

    #[test]
    fn shares_and_seconds() {
        assert!((share(1.0, 4.0) - 0.25).abs() < f64::EPSILON);
        assert!((share(9.0, 4.0) - 1.0).abs() < f64::EPSILON);
        assert!((share(0.0, 0.0) - 1.0).abs() < f64::EPSILON);
        assert_eq!((seconds(1.5).map(|s| s.as_millis()), seconds(1e300)), (Some(1500), None));
    }
}
