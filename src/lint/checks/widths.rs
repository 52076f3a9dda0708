//! Checks that the generator's ids fit the column: today, and until they run out.

use crate::ids::layout::{Layout, Moment};
use crate::ids::sequence::SequenceSpec;
use crate::ids::{BIGINT_MAX, ID_MAX};
use crate::lint::finding::{Code, Finding, Severity, Where};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::{GeneratorKind, GeneratorSpec};
use crate::schema::facts::ColumnFacts;

/// The largest number that JavaScript, and a DOUBLE, tell from its neighbours: `Number.MAX_SAFE_INTEGER`.
const DOUBLE_MAX: u64 = (1 << 53) - 1;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    for (live, column) in survey.columns() {
        let Some(max) = capacity(column) else { continue };
        match &live.spec.kind {
            GeneratorKind::Timestamp(timestamp) => {
                found.extend(of_layout(live, column, max, &timestamp.layout, now(survey)));
            }
            GeneratorKind::Sequence(sequence) => {
                found.extend(of_sequence(survey, live, column, max, sequence));
            }
        }
        found.extend(signed(live, column));
    }
    for spec in survey.rules.generators() {
        found.extend(differing(survey, spec));
        found.extend(javascript(survey, spec));
    }
}

/// The server's time; 1970 where it could not be read.
fn now(survey: &Survey<'_>) -> Moment {
    survey.facts.clocks.map_or(Moment::default(), |(_, theirs)| theirs)
}

/// The highest id that the column holds, as far as ids go; `None`: none at all.
pub(in crate::lint) fn capacity(column: &ColumnFacts) -> Option<u64> {
    let nines = |digits: u64| 10u64.checked_pow(u32::try_from(digits).ok()?).map(|power| power - 1);
    let shape = &column.shape;
    let max = match shape.data_type.as_str() {
        _ if shape.generated => return None,
        "double" => DOUBLE_MAX,
        "decimal" => {
            let (digits, behind) = column.digits?;
            nines(digits.saturating_sub(behind)).unwrap_or(ID_MAX)
        }
        _ if shape.holds_text() => column.length.and_then(nines).unwrap_or(ID_MAX),
        _ => shape.highest()?,
    };
    Some(max.min(ID_MAX))
}

fn too_narrow(live: &Live<'_>, column: &ColumnFacts, max: u64, why: &str) -> Finding {
    let why = format!("{} holds ids up to {max}; {why}", column.column_type);
    let remedy = live.widen(column);
    Finding::error(Code::ColumnTooNarrow, live.column_place(column), why, remedy)
}

/// The last id of a tick, of the highest node.
fn last_id_of(layout: &Layout, tick: u64) -> u64 {
    layout.numbering(layout.node_of(u64::MAX)).map_or(0, |numbering| numbering.last_id_of(tick))
}

fn of_layout(
    live: &Live<'_>,
    column: &ColumnFacts,
    max: u64,
    layout: &Layout,
    now: Moment,
) -> Option<Finding> {
    let (name, today) = (&live.spec.name, layout.tick_at(now));
    // The least that ids are by now: those of the lowest node.
    let id = layout.numbering(0).map_or(0, |numbering| numbering.last_id_of(today));
    if id > max {
        return Some(too_narrow(live, column, max, &format!("{name} now makes ids of {id} and more")));
    }
    if last_id_of(layout, layout.last_tick()) <= max {
        return None;
    }
    // Ids grow with their ticks: the first tick that does not fit.
    let (mut low, mut high) = (today, layout.last_tick());
    while low < high {
        let middle = low + (high - low) / 2;
        if last_id_of(layout, middle) > max { high = middle } else { low = middle + 1 }
    }
    let why = if low == today {
        format!("{name} makes larger ids on its higher nodes")
    } else {
        format!("{name} makes larger ids from {} on", layout.time_of(low))
    };
    Some(Finding { severity: crate::lint::Severity::Warning, ..too_narrow(live, column, max, &why) })
}

fn of_sequence(
    survey: &Survey<'_>,
    live: &Live<'_>,
    column: &ColumnFacts,
    max: u64,
    sequence: &SequenceSpec,
) -> Option<Finding> {
    let name = &live.spec.name;
    let (next, last) = (survey.next_id(live), sequence.last_id(max));
    if next > max {
        let why = format!("the next id of {name} is {next}");
        return Some(too_narrow(live, column, max, &why));
    }
    let left = (last.saturating_sub(next) / sequence.step).saturating_add(u64::from(next <= last));
    // If the rules set a lower max, the remedy is in the rules.
    let (end, remedy) = if sequence.max.is_some_and(|rule| rule < max) {
        (format!("max = {last}"), format!("raise generators.{}.max", name.name))
    } else {
        (format!("{} ends at {max}", column.column_type), live.widen(column))
    };
    (next > last / 5 * 4).then(|| {
        let why = format!("{end}, and the next id of {name} is {next}; ids left: {left}");
        Finding::warning(Code::ColumnNearlyFull, live.column_place(column), why, remedy)
    })
}

/// A BIGINT's sign costs nothing: nobody comes to the end of a signed one.
fn signed(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    let max = column.shape.highest().filter(|max| *max < BIGINT_MAX && !column.shape.unsigned)?;
    let why = format!("{} is signed: its negative half is never used", column.column_type);
    let written = column.column_type.split('(').next().unwrap_or_default();
    let remedy = format!(
        "{}; the column then holds ids up to {}. Change columns that refer to this column likewise",
        live.modify(column, &format!("{written} UNSIGNED")),
        max * 2 + 1
    );
    Some(Finding::note(Code::ColumnSigned, live.column_place(column), why, remedy))
}

/// Columns of a sequence that hold different ids: the narrowest is its end.
fn differing(survey: &Survey<'_>, spec: &GeneratorSpec) -> Option<Finding> {
    let GeneratorKind::Sequence(_) = spec.kind else { return None };
    let mine = survey.columns().filter(|(live, _)| live.spec.name == spec.name);
    let mut widths: Vec<_> = mine
        .filter_map(|(live, column)| Some((column.shape.highest()?.min(BIGINT_MAX), live, column)))
        .collect();
    widths.sort_by_key(|(max, live, _)| (*max, &live.table.name));
    let ((least, narrow, column), (most, wide, other)) = (widths.first()?, widths.last()?);
    if least == most {
        return None;
    }
    let why = format!(
        "{} is {}, but the column of {}.{}, which also uses {}, is {}: the sequence ends at {least} for both tables",
        column.shape.name,
        column.column_type,
        wide.table.schema,
        wide.table.name,
        spec.name,
        other.column_type
    );
    let how = if other.shape.data_type == "bigint" && other.shape.unsigned == column.shape.unsigned {
        narrow.widen(column)
    } else {
        narrow.modify(column, &other.column_type)
    };
    let remedy = format!("{how}; or give the table a separate generator");
    Some(Finding::warning(Code::ColumnsDiffer, narrow.column_place(column), why, remedy))
}

fn javascript(survey: &Survey<'_>, spec: &GeneratorSpec) -> Option<Finding> {
    let mut mine = survey.columns().filter(|(live, _)| live.spec.name == spec.name).peekable();
    mine.peek()?;
    let holds = mine.filter_map(|(live, column)| Some((live, capacity(column)?)));
    // Ids that a narrower column cannot hold are never issued.
    let (live, _) = holds.filter(|(_, max)| *max > DOUBLE_MAX).min_by_key(|(live, _)| &live.table.name)?;
    let place = Where::object(&spec.name).at(&spec.origin);
    let (is_now, why, remedy) = match &spec.kind {
        GeneratorKind::Timestamp(timestamp) => {
            let layout = &timestamp.layout;
            let (today, end) =
                (last_id_of(layout, layout.tick_at(now(survey))), last_id_of(layout, layout.last_tick()));
            let why = format!("the ids go up to {end}: JavaScript rounds ids above 2^53-1 = {DOUBLE_MAX}");
            ((end > DOUBLE_MAX).then_some(today > DOUBLE_MAX)?, why, "choose layout = \"js-safe\"".to_owned())
        }
        GeneratorKind::Sequence(sequence) => {
            let is_now = survey.next_id(live) > DOUBLE_MAX;
            let is_meant = sequence.max.is_some_and(|max| max > DOUBLE_MAX);
            let why = format!("the sequence can go above 2^53-1 = {DOUBLE_MAX}: JavaScript rounds such ids");
            ((is_now || is_meant).then_some(is_now)?, why, format!("write max = {DOUBLE_MAX}"))
        }
    };
    let remedy = format!("send ids to browsers and JSON as strings, or {remedy}");
    let finding = Finding::warning(Code::JsUnsafe, place, why, remedy);
    Some(if is_now { finding } else { Finding { severity: Severity::Note, ..finding } })
}
