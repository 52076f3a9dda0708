//! The end: every row of every table against what clients were told and what was reserved. Rows are read in the order of their
//! ids and not kept: there are millions.

use std::collections::BTreeMap;

use crate::bounds::bound;
use crate::findings::Findings;
use crate::fleet::{Ended, Fleet};
use crate::history::{History, Range};
use crate::lanes::Campaign;
use crate::ledger::Told;
use crate::support::raw::Client;
use crate::support::told::wait_until_quiet;
use crate::tables::{DATABASE, Ids, TABLES, Table};

/// Rows that are read at once.
const CHUNK: u64 = 50_000;
/// What a kill may lose.
const RANGES_LOST_MAX: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// In the tables.
    pub(crate) rows: u64,
    pub(crate) acknowledged: u64,
    /// Of each table.
    pub(crate) losses: Vec<Losses>,
}

/// Ids of a table's ranges that no row has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) all: u64,
    pub(crate) kills: u64,
    /// In the last two ranges of the processes that were killed.
    pub(crate) by_kills: u64,
    /// Of one of them.
    pub(crate) most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    id: u64,
    token: u64,
}

pub(crate) fn of(fleet: &Fleet, campaign: &Campaign, history: &History) -> Audit {
    let (mut direct, console) = (fleet.server.client(), fleet.console());
    wait_until_quiet(&mut direct, DATABASE);
    let mut audit = Audit::default();
    for (nth, table) in TABLES.iter().enumerate() {
        let told = campaign.ledger.sorted(nth);
        let mut judge = Judge::new(&told, &history.ranges[nth], fleet, &campaign.findings);
        each_row(&mut direct, table, |row| judge.row(row));
        audit.rows += judge.rows;
        audit.acknowledged += told.iter().map(|told| told.rows).sum::<u64>();
        let processes =
            fleet.members.iter().map(|member| (member.name.clone(), member.ended.lock().unwrap().clone()));
        audit.losses.push(judge.end(bound(&console, table), in_flight(table), &processes.collect()));
    }
    audit
}

/// Ranges that a proxy has taken ids of for statements that it was killed with.
fn in_flight(table: &Table) -> u64 {
    let Ids::Sequence { batch } = table.ids;
    (table.writers * table.rows_max) as u64 / batch
}

/// By their ids, those of one id by their tokens.
fn each_row(direct: &mut Client, table: &Table, mut see: impl FnMut(Row)) {
    let mut last = None;
    loop {
        let from = last.map_or(0, |Row { id, .. }| id);
        let sql = format!(
            "SELECT id, token FROM {} WHERE id >= {from} ORDER BY id, token LIMIT {CHUNK}",
            table.path()
        );
        let outcome = direct.run(sql).remove(0);
        let number = |nth, column| {
            outcome
                .cell(nth, column)
                .and_then(|text| text.parse().ok())
                .expect("a number that is not negative")
        };
        let rows = (0..outcome.rows().len()).map(|nth| Row { id: number(nth, 0), token: number(nth, 1) });
        let before = last;
        for row in rows.filter(|row| Some(*row) > before) {
            see(row);
            last = Some(row);
        }
        if last == before {
            return;
        }
    }
}

/// Sees the rows of a table in the order of their ids.
struct Judge<'a> {
    told: &'a [Told],
    /// How many rows of each were seen.
    seen: Vec<u64>,
    ranges: &'a [Range],
    /// Rows within each.
    used: Vec<u64>,
    /// The range that the last row was in, or behind.
    range: usize,
    names: Vec<String>,
    findings: &'a Findings,
    last: Option<Row>,
    rows: u64,
}

impl<'a> Judge<'a> {
    fn new(told: &'a [Told], ranges: &'a [Range], fleet: &Fleet, findings: &'a Findings) -> Self {
        Self::with_names(
            told,
            ranges,
            fleet.members.iter().map(|member| member.name.clone()).collect(),
            findings,
        )
    }

    fn with_names(told: &'a [Told], ranges: &'a [Range], names: Vec<String>, findings: &'a Findings) -> Self {
        let (seen, used) = (vec![0; told.len()], vec![0; ranges.len()]);
        Judge { told, seen, ranges, used, range: 0, names, findings, last: None, rows: 0 }
    }

    fn row(&mut self, row: Row) {
        self.rows += 1;
        if let Some(last) = self.last.replace(row).filter(|last| last.id == row.id) {
            self.findings.note("an id issued twice", || format!("{last:?} {row:?}"));
        }
        while self.ranges.get(self.range).is_some_and(|range| range.to <= row.id) {
            self.range += 1;
        }
        let range = self.ranges.get(self.range).filter(|range| range.from <= row.id);
        match range {
            Some(_) => self.used[self.range] += 1,
            None => self.findings.note("an id of no range", || format!("{row:?}")),
        }
        let nth = self.told.partition_point(|told| told.first_token <= row.token);
        let Some(nth) = nth.checked_sub(1) else { return };
        let told = self.told[nth];
        let within = row.token - told.first_token;
        if within >= told.rows {
            // Of a statement whose answer never came.
            return;
        }
        self.seen[nth] += 1;
        if row.id != told.first_id + within {
            self.findings.note("an acknowledged row has another id", || format!("{row:?} {told:?}"));
        }
        if range.is_some_and(|range| range.proxy != self.names[told.proxy]) {
            self.findings.note("an id of another proxy's range", || format!("{row:?} {told:?} {range:?}"));
        }
    }

    /// `processes`: how those of each proxy ended. `in_flight`: ranges that statements may hold.
    fn end(self, bound: u64, in_flight: u64, processes: &BTreeMap<String, Vec<Ended>>) -> Losses {
        for (told, seen) in self.told.iter().zip(&self.seen) {
            if told.rows != *seen {
                self.findings.note("acknowledged rows are missing", || format!("{told:?}: {seen} seen"));
            }
        }
        if let Some(last) = self.last.filter(|last| last.id >= bound) {
            let found = || format!("{last:?}, the bound is {bound}");
            self.findings.note("an id that is not below the bound", found);
        }
        // Ids that no row has, and how many there were.
        let mut lost: BTreeMap<(&str, usize), Vec<(u64, u64)>> = BTreeMap::new();
        for (range, used) in self.ranges.iter().zip(&self.used) {
            let ids = range.to - range.from;
            lost.entry((&range.proxy, range.process)).or_default().push((ids.saturating_sub(*used), ids));
        }
        let mut losses = Losses::default();
        for ((proxy, process), ranges) in lost {
            losses.all += ranges.iter().map(|(lost, _)| lost).sum::<u64>();
            let ended = processes.get(proxy).and_then(|ended| ended.get(process));
            let Some(ended) = ended else {
                self.findings.note("a process that nobody started", || format!("{proxy} {process}"));
                continue;
            };
            if !ended.killed {
                continue;
            }
            let by_kill = ranges.iter().rev().take(RANGES_LOST_MAX).map(|(lost, _)| lost).sum();
            losses.kills += 1;
            losses.by_kills += by_kill;
            losses.most = losses.most.max(by_kill);
            // A range also has a rest that was too short for the next statement.
            let gone = ranges.iter().filter(|(lost, ids)| lost * 2 > *ids).count() as u64;
            if gone > RANGES_LOST_MAX as u64 + in_flight + ended.given_up {
                self.findings.note("a kill that lost more than two ranges", || {
                    format!("{proxy} {process}: {gone} of {} ranges, {ended:?}", ranges.len())
                });
            }
        }
        losses
    }
}

#[test]
fn the_judge_notices() {
    let check = |rows: &[(u64, u64)], expect: &[&str]| {
        let findings = Findings::default();
        let told = [
            Told { first_token: 100, rows: 2, first_id: 1, proxy: 0 },
            Told { first_token: 200, rows: 1, first_id: 11, proxy: 1 },
        ];
        let range = |from, to, proxy: &str| Range { from, to, proxy: proxy.to_owned(), process: 0 };
        let ranges = [range(1, 11, "p1"), range(11, 21, "p2")];
        let names = vec!["p1".to_owned(), "p2".to_owned()];
        let mut judge = Judge::with_names(&told, &ranges, names, &findings);
        for &(id, token) in rows {
            judge.row(Row { id, token });
        }
        let ended = |killed| vec![Ended { killed, given_up: 0 }];
        let processes = [("p1".to_owned(), ended(true)), ("p2".to_owned(), ended(false))].into();
        let losses = judge.end(21, 0, &processes);
        assert_eq!(findings.kinds(), expect, "{rows:?}");
        losses
    };
    let losses = check(&[(1, 100), (2, 101), (3, 150), (11, 200)], &[]);
    assert_eq!(losses, Losses { all: 16, kills: 1, by_kills: 7, most: 7 });
    check(&[(1, 100), (2, 101), (11, 150), (11, 200)], &["an id issued twice"]);
    check(&[(1, 100), (3, 101), (11, 200)], &["an acknowledged row has another id"]);
    check(&[(1, 100), (11, 200)], &["acknowledged rows are missing"]);
    check(
        &[(1, 100), (2, 101), (3, 200)],
        &["an acknowledged row has another id", "an id of another proxy's range"],
    );
    check(
        &[(1, 100), (2, 101), (11, 200), (21, 300)],
        &["an id of no range", "an id that is not below the bound"],
    );
}

#[test]
fn a_kill_loses_two_ranges() {
    let lost = |given_up, ranges: u64| {
        let findings = Findings::default();
        let range =
            |nth| Range { from: nth * 1_000, to: (nth + 1) * 1_000, proxy: "p1".to_owned(), process: 0 };
        let ranges: Vec<_> = (1..=ranges).map(range).collect();
        let judge = Judge::with_names(&[], &ranges, vec!["p1".to_owned()], &findings);
        let processes = [("p1".to_owned(), vec![Ended { killed: true, given_up }])].into();
        judge.end(u64::MAX, 0, &processes);
        findings.kinds()
    };
    assert_eq!(lost(0, 2), [""; 0]);
    assert_eq!(lost(0, 3), ["a kill that lost more than two ranges"]);
    assert_eq!(lost(1, 3), [""; 0]);
}
