//! Compares the ids that the generator has reserved with the ids that are in the tables already.

use crate::ids::sequence::{Seed, SequenceSpec};
use crate::ids::timestamp::TimestampSpec;
use crate::ids::timestamp::check::APART_MAX;
use crate::lint::finding::{Code, Finding};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::{Explicit, GeneratorKind};
use crate::schema::facts::{ColumnFacts, Highest};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    for (live, column) in survey.columns() {
        match &live.table.highest {
            Highest::Unread(why) => found.push(unread(live, column, why)),
            Highest::Denied(why) => found.push(denied(live, column, why)),
            Highest::Id(highest) => match &live.spec.kind {
                GeneratorKind::Sequence(sequence) => {
                    found.extend(of_sequence(survey, live, column, *highest, sequence));
                }
                GeneratorKind::Timestamp(timestamp) => {
                    found.extend(of_timestamp(survey, live, column, *highest, timestamp));
                }
            },
        }
    }
}

fn unread(live: &Live<'_>, column: &ColumnFacts, why: &str) -> Finding {
    let why =
        format!("the highest id in the table was not read: {why}; the generator is not compared with it");
    let remedy = "add an index that begins with the column, or check again when the server has less to do";
    Finding::note(Code::HighestUnread, live.column_place(column), why, remedy)
}

/// A generator that starts above the ids in its tables cannot start.
fn denied(live: &Live<'_>, column: &ColumnFacts, why: &str) -> Finding {
    let why = format!("the control account may not read the highest id in the table: {why}");
    let remedy = format!("GRANT SELECT ON {} to the control account", live.quoted());
    let place = live.column_place(column);
    match &live.spec.kind {
        GeneratorKind::Sequence(sequence) if sequence.seed == Seed::None => {
            Finding::note(Code::HighestUnread, place, why, remedy)
        }
        GeneratorKind::Sequence(_) | GeneratorKind::Timestamp(_) => {
            Finding::error(Code::HighestUnread, place, why, remedy)
        }
    }
}

fn of_sequence(
    survey: &Survey<'_>,
    live: &Live<'_>,
    column: &ColumnFacts,
    highest: u64,
    sequence: &SequenceSpec,
) -> Option<Finding> {
    let (name, place) = (&live.spec.name, live.column_place(column));
    let seeds = sequence.seed == Seed::Tables;
    let is_read = survey.store.generators.is_ok();
    let Some(bound) = survey.bound(live) else {
        // Not made yet, or not known: its start counts only where the tables do not.
        let why = format!("{name} begins at {}, and the table holds ids up to {highest}", sequence.start);
        let remedy = format!("write seed = \"tables\", or start = {}", highest.saturating_add(1));
        let is_below = is_read && !seeds && sequence.start <= highest;
        return is_below.then(|| Finding::error(Code::StartBelowTable, place, why, remedy));
    };
    if highest < bound {
        return None;
    }
    let raise = format!("rowstamp store raise {name} --above-tables");
    if !seeds {
        let why = format!(
            "the bound of {name} is {bound}, but the table holds ids up to {highest}, which seed = \"none\" ignores"
        );
        return Some(Finding::error(Code::RowsAboveBound, place, why, raise));
    }
    if live.rule.explicit == Explicit::Keep {
        let why = format!(
            "the bound of {name} is {bound}, the table holds ids up to {highest}, and explicit = \"keep\" lets clients write \
             more such ids: the sequence will issue the same ids (error 1062)"
        );
        let remedy = format!("write explicit = \"advance\" or \"reject\", and {raise}");
        return Some(Finding::warning(Code::KeepAboveBound, place, why, remedy));
    }
    let way = if column.shape.auto_increment {
        "other clients insert into it by AUTO_INCREMENT, or the counter is ahead"
    } else {
        "other clients write ids into it, or another table has taken its name"
    };
    let why = format!("the bound of {name} is {bound}, but the table holds ids up to {highest}: {way}");
    let at_next = if live.follows_table() {
        "a proxy raises the bound when the table is used next, and"
    } else {
        "a proxy raises the bound"
    };
    let remedy =
        format!("let all clients that insert connect to Rowstamp; {raise}; {at_next} when it starts");
    Some(Finding::warning(Code::RowsAboveBound, place, why, remedy))
}

/// No finding if the layout has the node above the time: the highest id then says nothing about the others.
fn of_timestamp(
    survey: &Survey<'_>,
    live: &Live<'_>,
    column: &ColumnFacts,
    highest: u64,
    timestamp: &TimestampSpec,
) -> Option<Finding> {
    let (layout, name, place) = (&timestamp.layout, &live.spec.name, live.column_place(column));
    let (_, now) = survey.facts.clocks.filter(|_| !layout.is_by_node())?;
    let Some(tick) = layout.numbering(0).ok()?.tick_above(highest) else {
        let why = format!(
            "the table holds ids up to {highest}, and the layout of {name} has no id above: the table's INSERTs fail with error 1467"
        );
        let remedy =
            "choose a layout with larger ids (an earlier epoch, or more bits), or give these rows lower ids";
        return Some(Finding::error(Code::IdsAhead, place, why, remedy));
    };
    let time = layout.time_of(tick);
    let slack = timestamp.advance.max(APART_MAX);
    let limit = now.micros().saturating_add(u64::try_from(slack.as_micros()).unwrap_or(u64::MAX));
    (time.micros() > limit).then(|| {
        let why = format!("the table holds ids up to {highest}, which {name} reads as {time}: new ids begin there, ahead of the clock");
        let remedy = "choose a layout with an earlier epoch or more bits, or give these rows lower ids";
        Finding::warning(Code::IdsAhead, place, why, remedy)
    })
}
