use super::{
    Decoded, Done, Ids, Line, Old, Outcome, ServerFacts, TableFacts, Ticks, absent, doubles, old_sessions,
    server, table,
};
use crate::ids::layout::presets::Preset;
use crate::ids::sequence::SequenceSpec;
use crate::migrate::doubles::{Double, Doubles};
use crate::migrate::interleave::{Counting, Flavour, Increments};
use crate::schema::{ServerConnection, Tally};
use std::num::NonZeroU64;

use Done::{Back, Dropped, Interleaved, Moved, On};
use Outcome::{Finding, Note, Open, Proved};

/// Findings, or the outcomes of all lines with a part of their texts.
#[track_caller]
fn check(lines: &[Line], expect: &[(Outcome, &str)]) {
    let found: Vec<_> = lines.iter().map(|line| (line.outcome, line.text.as_str())).collect();
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.0 == expect.0 && found.1.contains(expect.1), "{found:?}: {expect:?}");
    }
}

/// The verdict on a table.
#[track_caller]
fn judged(facts: &TableFacts, done: Option<Done>, expect: &[(Outcome, &str)]) {
    check(&table("t", facts, done), expect);
}

fn session(id: u64, user: &str, command: &str) -> ServerConnection {
    ServerConnection { id, user: user.into(), host: "10.0.0.5:7".into(), command: command.into() }
}

fn facts(increment: u64, old: Old) -> ServerFacts {
    let increments = Increments { increment, offset: 1 };
    ServerFacts { counting: Counting { flavour: Flavour::MySql, increments, is_galeras: false }, old }
}

#[test]
fn who_began_before() {
    let all = vec![
        session(3, "event_scheduler", "Daemon"),
        session(4, "system user", "Connect"),
        session(5, "repl", "Binlog Dump GTID"),
        session(6, "rowstamp", "Sleep"),
        session(7, "app", "Sleep"),
        session(8, "app", "Query"),
        session(9, "app", "Query"),
    ];
    let old = old_sessions(all, 8, "rowstamp");
    assert_eq!(old.iter().map(|one| one.id).collect::<Vec<_>>(), [7, 8]);
}

#[test]
fn servers() {
    let odd = (Proved, "new sessions get odd ids");
    check(
        &server("s", &facts(2, Old::Live(vec![])), Some(Interleaved)),
        &[odd, (Proved, "no session began before")],
    );
    check(&server("s", &facts(2, Old::Unknown), Some(Interleaved)), &[odd, (Open, "--sessions-up-to")]);
    check(&server("s", &facts(2, Old::Unseen), Some(Interleaved)), &[odd, (Open, "GRANT PROCESS")]);
    check(&server("s", &facts(2, Old::Unknown), Some(On)), &[odd]);
    let old = Old::Live(vec![session(7, "app", "Sleep")]);
    check(
        &server("s", &facts(1, old), Some(On)),
        &[
            (Finding, "increment is 1"),
            (Finding, "1 session began before the increments were set, and can get even ids: 7 (app@"),
        ],
    );
    check(&server("s", &facts(1, Old::Unknown), Some(Moved)), &[]);
    check(&server("s", &facts(1, Old::Unknown), None), &[]);
}

/// `tally`: rows, of them the generator's, and the highest of these.
fn sequence(step: u64, (rows, of_class, highest): (u64, u64, u64), bound: Option<u64>) -> TableFacts {
    let spec = SequenceSpec { step: NonZeroU64::new(step).unwrap(), ..SequenceSpec::default() };
    let others = (rows > of_class).then_some((11, 13));
    let tally = Tally { rows, of_class, highest_of_class: (of_class > 0).then_some(highest), others };
    TableFacts {
        is_on: true,
        counter: Some(highest + 1),
        highest,
        is_guarded: false,
        since: Some(9),
        ids: Ids::Sequence { spec, tally, bound },
    }
}

#[test]
fn tables_under_interleaving() {
    let off = TableFacts { is_on: false, ..sequence(2, (3, 1, 12), Some(5)) };
    let even = (Proved, "even ids only");
    judged(
        &off,
        Some(Interleaved),
        &[
            (Proved, "rule is off"),
            even,
            (Note, "2 rows above 9 have ids of the server's counter (11 to 13)"),
        ],
    );
    let on = sequence(2, (3, 1, 12), Some(20));
    let below = (Proved, "1 row above 9 with id % 2 = 0, all below the generator's committed bound 20");
    judged(&on, Some(On), &[(Proved, "rule is on"), even, below, (Note, "2 rows")]);
    judged(&on, Some(Interleaved), &[(Finding, "on already"), even, below, (Note, "2 rows")]);
    judged(&off, Some(On), &[(Finding, "remove mode"), even, (Note, "2 rows")]);
    judged(&on, None, &[below, (Note, "2 rows")]);
    let whole = sequence(1, (3, 3, 12), Some(20));
    judged(&whole, Some(On), &[(Proved, "rule is on"), (Finding, "issues odd ids too"), (Proved, "below")]);
    let above = sequence(2, (1, 1, 20), Some(20));
    judged(&above, Some(On), &[(Proved, "rule is on"), even, (Finding, "id 20 is not below")]);
    let unread = sequence(2, (1, 1, 20), None);
    judged(&unread, None, &[(Open, "the store cannot be read")]);
    let guarded = TableFacts { is_guarded: true, ..on };
    judged(
        &guarded,
        Some(On),
        &[(Proved, "rule is on"), even, (Finding, "--step guard --back"), below, (Note, "2 rows")],
    );
}

#[test]
fn tables_that_have_moved() {
    let (on, guard, still) = (
        (Proved, "rule is on"),
        (Note, "no guard trigger"),
        (Proved, "has given no id that is not in the table"),
    );
    let below = (Proved, "all below");
    let moved = |facts: &TableFacts, expect: &[(Outcome, &str)]| {
        judged(facts, Some(Moved), &[&[on, still, guard], expect].concat());
    };
    moved(&sequence(2, (3, 3, 12), Some(20)), &[below, (Proved, "all 3 rows above 9")]);
    let none = "no row has an id above 9, where the server's counter would continue";
    moved(&sequence(2, (0, 0, 12), Some(20)), &[(Proved, none)]);
    // The counter of another table, or of another server.
    let below_it = TableFacts { counter: Some(9), highest: 8, ..sequence(2, (0, 0, 8), Some(20)) };
    moved(&below_it, &[(Finding, "counter is at 9, so rows above 9 do not show the ids that it gives")]);
    let only = "the only row above 9 has an id of the generator";
    moved(&sequence(2, (1, 1, 12), Some(20)), &[below, (Proved, only)]);
    let stray = sequence(2, (3, 2, 12), Some(20));
    moved(&stray, &[below, (Finding, "1 row above 9 has an id of other writers (11 to 13)")]);
    moved(&TableFacts { since: None, ..stray.clone() }, &[below, (Open, "--since-id")]);
    let whole = TableFacts { counter: Some(99), is_guarded: true, ..sequence(1, (3, 3, 12), Some(20)) };
    judged(
        &whole,
        Some(Moved),
        &[
            on,
            (Note, "is at 99, 86 above"),
            (Proved, "guard trigger refuses"),
            below,
            (Open, "cannot tell ids of the generator from ids of the counter"),
        ],
    );
    judged(
        &stray,
        Some(Dropped),
        &[on, (Finding, "still has AUTO_INCREMENT"), guard, below, (Finding, "past the proxy")],
    );
    let gone = TableFacts { counter: None, ..sequence(2, (3, 3, 12), Some(20)) };
    judged(&gone, Some(Dropped), &[on, (Proved, "no AUTO_INCREMENT"), guard, below, (Proved, "all 3 rows")]);
}

#[test]
fn tables_that_are_back() {
    for (rows, expect) in [
        ((3, 0, 12), (Proved, "all 3 rows above 9 have ids of the server's")),
        ((3, 1, 12), (Finding, "1 row above 9 has an id of the generator")),
        ((0, 0, 12), (Open, "no row has an id above 9 yet")),
    ] {
        let off = TableFacts { is_on: false, ..sequence(2, rows, Some(20)) };
        judged(&off, Some(Back), &[(Proved, "rule is off"), (Proved, "has AUTO_INCREMENT"), expect]);
    }
    let bare = TableFacts { counter: None, is_guarded: true, ..sequence(1, (3, 3, 12), Some(20)) };
    judged(
        &bare,
        Some(Back),
        &[
            (Finding, "still on"),
            (Finding, "no AUTO_INCREMENT"),
            (Finding, "refuses direct INSERTs"),
            (Proved, "below"),
            (Open, "step = 2"),
        ],
    );
}

#[test]
fn ids_of_timestamps() {
    let layout = Preset::find("snowflake").unwrap().layout();
    let id = |tick, node| layout.compose(tick, node, 0).unwrap();
    let with = |ids: &[u64], ticks: Option<Ticks>| {
        let mut decoded = Decoded::new(layout.clone());
        for id in ids {
            decoded.add(*id, 1, ticks.as_ref());
        }
        TableFacts { ids: Ids::Timestamp(decoded), ..sequence(1, (0, 0, 0), None) }
    };
    let ticks = || Some(Ticks::from([(3, 100)]));
    judged(&with(&[id(99, 3), id(7, 3)], ticks()), None, &[(Proved, "2 rows have ids with a time that")]);
    judged(&with(&[id(99, 3)], None), None, &[(Open, "1 row has an id of the generator's layout")]);
    judged(
        &with(&[id(99, 3), id(100, 3), id(5, 4), id(6, 4), u64::MAX], ticks()),
        None,
        &[
            (Finding, "1 row has an id outside the"),
            (Finding, "2 rows have ids with a node"),
            (Finding, "1 row has an id with a time"),
        ],
    );
    judged(&with(&[], ticks()), None, &[]);
}

#[test]
fn doubles_are_named_with_their_places() {
    let sources = ["a t".to_owned(), "b t".to_owned()];
    let none = Doubles { ids: 0, first: vec![], compared: 7 };
    check(&[doubles("t", &none, &sources)], &[(Proved, "7 ids of 2 tables compared: none is double")]);
    let one = |id, sources: &[usize]| Double { id, sources: sources.to_vec() };
    let found = Doubles { ids: 2, first: vec![one(5, &[0, 1]), one(6, &[1])], compared: 7 };
    check(&[doubles("t", &found, &sources)], &[(Finding, "2 ids came twice: 5 in a t and b t, 6 in b t")]);
}

#[test]
fn a_table_that_is_nowhere_or_elsewhere() {
    check(&[absent("t on b", true)], &[(Finding, "other servers have the table: GRANT SELECT")]);
    check(&[absent("t on b", false)], &[(Open, "verify proves nothing of the table; create the table")]);
}
