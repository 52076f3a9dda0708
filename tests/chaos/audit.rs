//! The end: every row of every table against what clients were told and what was reserved. Rows are read in the order of their
//! ids and not kept: there are millions.

use std::time::{Duration, SystemTime};

use crate::chaos::bounds::bounds;
use crate::chaos::fleet::Fleet;
use crate::chaos::history::History;
use crate::chaos::judge::{Judge, Losses, Row};
use crate::chaos::lanes::Campaign;
use crate::chaos::tables::{DATABASE, TABLES, Table};
use crate::support::raw::Client;
use crate::support::told::wait_until_quiet;

/// Rows that are read at once.
const CHUNK: u64 = 50_000;

#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// In the tables.
    pub(crate) rows: u64,
    pub(crate) acknowledged: u64,
    /// How far the newest timestamp was ahead of the clock when all had stopped.
    pub(crate) ahead: Option<Duration>,
    /// The losses of each table. Ticks of timestamps are not lost.
    pub(crate) losses: Vec<Option<Losses>>,
}

pub(crate) fn of(fleet: &Fleet, campaign: &Campaign, history: &History) -> Audit {
    let (mut direct, console) = (fleet.server.client(), fleet.console());
    wait_until_quiet(&mut direct, DATABASE);
    let proxies: Vec<_> = fleet
        .members
        .iter()
        .map(|member| (member.name.clone(), member.ended.lock().unwrap().clone()))
        .collect();
    let stopped = SystemTime::now();
    let mut audit = Audit::default();
    for (nth, table) in TABLES.iter().enumerate() {
        let told = campaign.ledger.sorted(nth);
        let mut judge = Judge::new(table, &told, &history.ranges[nth], &proxies, &campaign.findings);
        each_row(&mut direct, table, |row| judge.row(row));
        audit.rows += judge.rows;
        let newest = judge.last.and_then(|row| table.ids.time(row.id));
        audit.ahead = audit.ahead.max(newest.and_then(|time| time.duration_since(stopped).ok()));
        audit.acknowledged += told.iter().map(|told| told.rows).sum::<u64>();
        audit.losses.push(judge.end(&bounds(&console, table)));
    }
    audit
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
