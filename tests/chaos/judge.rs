//! A table's rows, in the order of their ids, against what clients were told and what was reserved.

use std::collections::BTreeMap;

use crate::chaos::findings::Findings;
use crate::chaos::fleet::Ended;
use crate::chaos::history::Range;
use crate::chaos::ledger::Told;
use crate::chaos::tables::{Ids, Table};

/// The ranges that a kill may lose.
const RANGES_LOST_MAX: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) token: u64,
}

/// Ids of a sequence's ranges that no row has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) all: u64,
    pub(crate) kills: u64,
    /// In the last two ranges of the processes that were killed.
    pub(crate) by_kills: u64,
    /// The most that one of these processes lost there.
    pub(crate) most: u64,
}

/// Sees the rows of a table in the order of their ids.
pub(crate) struct Judge<'a> {
    table: &'a Table,
    told: &'a [Told],
    /// How many rows of each were seen.
    seen: Vec<u64>,
    nodes: BTreeMap<u64, Node<'a>>,
    /// Names, and how each one's processes ended.
    proxies: &'a [(String, Vec<Ended>)],
    findings: &'a Findings,
    pub(crate) last: Option<Row>,
    pub(crate) rows: u64,
}

/// The ranges reserved under one bound.
struct Node<'a> {
    ranges: &'a [Range],
    /// Rows within each.
    used: Vec<u64>,
    /// The range that the last row was in. If it was in none: the next range after it.
    range: usize,
    last: u64,
}

impl<'a> Node<'a> {
    fn new(ranges: &'a [Range]) -> Self {
        Node { ranges, used: vec![0; ranges.len()], range: 0, last: 0 }
    }

    /// The range that it is in. They come in their order.
    fn see(&mut self, at: u64) -> Option<&'a Range> {
        self.last = at;
        while self.ranges.get(self.range).is_some_and(|range| range.to <= at) {
            self.range += 1;
        }
        let range = self.ranges.get(self.range).filter(|range| range.from <= at)?;
        self.used[self.range] += 1;
        Some(range)
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        table: &'a Table,
        told: &'a [Told],
        ranges: &'a BTreeMap<u64, Vec<Range>>,
        proxies: &'a [(String, Vec<Ended>)],
        findings: &'a Findings,
    ) -> Self {
        let nodes = ranges.iter().map(|(node, ranges)| (*node, Node::new(ranges))).collect();
        Judge { table, told, seen: vec![0; told.len()], nodes, proxies, findings, last: None, rows: 0 }
    }

    pub(crate) fn row(&mut self, row: Row) {
        self.rows += 1;
        if let Some(last) = self.last.replace(row).filter(|last| last.id == row.id) {
            self.findings.note("an id issued twice", || format!("{last:?} {row:?}"));
        }
        let place = self.table.ids.place(row.id);
        let range = self.nodes.get_mut(&place.node).and_then(|node| node.see(place.at));
        if range.is_none() {
            self.findings.note("an id of no range", || format!("{row:?} {place:?}"));
        }
        let nth = self.told.partition_point(|told| told.first_token <= row.token);
        let Some(nth) = nth.checked_sub(1) else { return };
        let told = self.told[nth];
        let within = row.token - told.first_token;
        if within >= told.rows {
            // The row is of a statement whose answer never came.
            return;
        }
        // A statement's ids ascend with its rows, those of a sequence without gaps.
        let is_right = match self.table.ids {
            Ids::Sequence { .. } => row.id == told.first_id + within,
            Ids::Timestamp => within == self.seen[nth] && (within > 0 || row.id == told.first_id),
        };
        self.seen[nth] += 1;
        if !is_right {
            self.findings.note("an acknowledged row has another id", || format!("{row:?} {told:?}"));
        }
        if range.is_some_and(|range| range.proxy != self.proxies[told.proxy].0) {
            self.findings.note("an id of another proxy's range", || format!("{row:?} {told:?} {range:?}"));
        }
    }

    /// `bounds`: of each node.
    pub(crate) fn end(self, bounds: &BTreeMap<u64, u64>) -> Option<Losses> {
        for (told, seen) in self.told.iter().zip(&self.seen) {
            if told.rows != *seen {
                self.findings.note("acknowledged rows are missing", || format!("{told:?}: {seen} seen"));
            }
        }
        for (nr, node) in &self.nodes {
            if bounds.get(nr).is_none_or(|bound| node.last >= *bound) {
                let found = || format!("{} of node {nr}, the bounds are {bounds:?}", node.last);
                self.findings.note("an id that is not below the bound", found);
            }
        }
        match self.table.ids {
            Ids::Sequence { batch } => Some(self.losses(batch)),
            Ids::Timestamp => None,
        }
    }

    fn losses(&self, batch: u64) -> Losses {
        // Ids that no row has, and how many there were.
        let mut lost: BTreeMap<(&str, usize), Vec<(u64, u64)>> = BTreeMap::new();
        for node in self.nodes.values() {
            for (range, used) in node.ranges.iter().zip(&node.used) {
                let ids = range.to - range.from;
                lost.entry((&range.proxy, range.process)).or_default().push((ids.saturating_sub(*used), ids));
            }
        }
        // Ranges that statements held when their proxy was killed.
        let in_flight = (self.table.writers * self.table.rows_max) as u64 / batch;
        let mut losses = Losses::default();
        for ((proxy, process), ranges) in lost {
            losses.all += ranges.iter().map(|(lost, _)| lost).sum::<u64>();
            let ended = self.proxies.iter().find(|(name, _)| name == proxy);
            let Some(ended) = ended.and_then(|(_, ended)| ended.get(process)) else {
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

#[cfg(test)]
mod tests {
    use super::{Judge, Losses, Row};
    use crate::chaos::findings::Findings;
    use crate::chaos::fleet::Ended;
    use crate::chaos::history::Range;
    use crate::chaos::ledger::Told;
    use crate::chaos::tables::{Ids, Table};

    const fn table(ids: Ids) -> Table {
        Table { name: "t", generator: "g", ids, rows_max: 2, writers: 1, pause: None }
    }

    fn range(from: u64, to: u64, proxy: &str) -> Range {
        Range { from, to, proxy: proxy.to_owned(), process: 0 }
    }

    fn ended(name: &str, killed: bool, given_up: u64) -> (String, Vec<Ended>) {
        (name.to_owned(), vec![Ended { killed, given_up }])
    }

    const TOLD: [Told; 2] = [
        Told { first_token: 100, rows: 2, first_id: 1, proxy: 0 },
        Told { first_token: 200, rows: 1, first_id: 11, proxy: 1 },
    ];

    #[test]
    fn what_is_wrong_with_a_sequence_is_noticed() {
        let check = |rows: &[(u64, u64)], expect: &[&str]| {
            let (findings, table) = (Findings::default(), table(Ids::Sequence { batch: 10 }));
            let ranges = [(0, vec![range(1, 11, "p1"), range(11, 21, "p2")])].into();
            let proxies = [ended("p1", true, 0), ended("p2", false, 0)];
            let mut judge = Judge::new(&table, &TOLD, &ranges, &proxies, &findings);
            for &(id, token) in rows {
                judge.row(Row { id, token });
            }
            let losses = judge.end(&[(0, 21)].into());
            assert_eq!(findings.kinds(), expect, "{rows:?}");
            losses
        };
        let losses = check(&[(1, 100), (2, 101), (3, 150), (11, 200)], &[]);
        assert_eq!(losses, Some(Losses { all: 16, kills: 1, by_kills: 7, most: 7 }));
        check(&[(1, 100), (2, 101), (11, 150), (11, 200)], &["an id issued twice"]);
        check(&[(1, 100), (3, 101), (11, 200)], &["an acknowledged row has another id"]);
        check(&[(1, 100), (11, 200)], &["acknowledged rows are missing"]);
        let moved = ["an acknowledged row has another id", "an id of another proxy's range"];
        check(&[(1, 100), (2, 101), (3, 200)], &moved);
        let beyond = ["an id of no range", "an id that is not below the bound"];
        check(&[(1, 100), (2, 101), (11, 200), (21, 300)], &beyond);
    }

    #[test]
    fn what_is_wrong_with_timestamps_is_noticed() {
        let check = |rows: &[(u64, u64, u64)], expect: &[&str]| {
            let (findings, table) = (Findings::default(), table(Ids::Timestamp));
            let id = |tick: u64, node: u64| (tick << 22) | (node << 12);
            let mut told = TOLD;
            (told[0].first_id, told[1].first_id) = (id(5, 0), id(5, 1));
            let ranges = [(0, vec![range(1, 10, "p1")]), (1, vec![range(1, 10, "p2")])].into();
            let proxies = [ended("p1", true, 0), ended("p2", false, 0)];
            let mut judge = Judge::new(&table, &told, &ranges, &proxies, &findings);
            for &(tick, node, token) in rows {
                judge.row(Row { id: id(tick, node), token });
            }
            assert_eq!(judge.end(&[(0, 10), (1, 10)].into()), None);
            assert_eq!(findings.kinds(), expect, "{rows:?}");
        };
        check(&[(5, 0, 100), (5, 1, 200), (7, 0, 101)], &[]);
        check(&[(5, 0, 101), (5, 1, 200), (7, 0, 100)], &["an acknowledged row has another id"]);
        check(&[(5, 0, 100), (5, 0, 101), (5, 1, 200)], &["an id issued twice"]);
        check(&[(5, 0, 100), (5, 1, 200), (5, 2, 300), (7, 0, 101)], &["an id of no range"]);
        let beyond = ["an id of no range", "an id that is not below the bound"];
        check(&[(5, 0, 100), (5, 1, 200), (7, 0, 101), (10, 1, 300)], &beyond);
    }

    #[test]
    fn a_kill_loses_two_ranges() {
        let lost = |given_up, count: u64| {
            let (findings, table) = (Findings::default(), table(Ids::Sequence { batch: 1_000 }));
            let all: Vec<_> = (1..=count).map(|nth| range(nth * 1_000, (nth + 1) * 1_000, "p1")).collect();
            let (ranges, proxies) = ([(0, all)].into(), [ended("p1", true, given_up)]);
            Judge::new(&table, &[], &ranges, &proxies, &findings).end(&[(0, u64::MAX)].into());
            findings.kinds()
        };
        assert_eq!(lost(0, 2), [""; 0]);
        assert_eq!(lost(0, 3), ["a kill that lost more than two ranges"]);
        assert_eq!(lost(1, 3), [""; 0]);
    }
}
