//! Clients that insert all the time: one row or many, as text or prepared, and begin again whenever their connection breaks.

use std::io;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::chaos::fleet::Member;
use crate::chaos::lanes::Campaign;
use crate::chaos::ledger::Told;
use crate::chaos::tables::{TABLES, Table};
use crate::support::raw::{Client, Outcome, Param, Prepared};

/// Before a client tries again.
const PAUSE: Duration = Duration::from_millis(5);
/// No ids at present: what ruled INSERTs are answered while the store is away.
const NO_IDS: u16 = 1467;
/// Tokens of a writer: more than it has rows.
const TOKEN_BITS: u32 = 40;

struct Writer<'a> {
    campaign: &'a Campaign<'a>,
    table_nr: usize,
    table: &'static Table,
    proxy_nr: usize,
    proxy: &'a Member,
    random: StdRng,
    next_token: u64,
}

pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, campaign: &'scope Campaign<'scope>, seed: u64) {
    let mut writers = 0;
    for (proxy_nr, proxy) in campaign.fleet.members.iter().enumerate() {
        for (table_nr, table) in TABLES.iter().enumerate() {
            for _ in 0..table.writers {
                writers += 1;
                let mut writer = Writer {
                    campaign,
                    table_nr,
                    table,
                    proxy_nr,
                    proxy,
                    random: StdRng::seed_from_u64(seed ^ (writers << 32)),
                    next_token: writers << TOKEN_BITS,
                };
                scope.spawn(move || writer.run());
            }
        }
    }
}

impl Writer<'_> {
    fn run(&mut self) {
        while !self.campaign.is_stopped() {
            match self.proxy.client() {
                Ok(client) => {
                    if self.write_on(client).is_err() {
                        self.campaign.ledger.note_cut_off();
                    }
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Until the connection breaks.
    fn write_on(&mut self, mut client: Client) -> io::Result<()> {
        let rows_prepared = [1, (self.table.rows_max / 4).max(2)];
        let mut statements = Vec::new();
        for rows in rows_prepared {
            let sql = format!("{}{}", self.insert(), vec!["(?)"; rows].join(","));
            match client.prepare(&sql)? {
                Ok(prepared) => statements.push((rows, prepared)),
                // A proxy that has just started waits for etcd. The next connection prepares again.
                Err(error) if error.code == NO_IDS => {
                    self.campaign.ledger.note_refused();
                    thread::sleep(PAUSE);
                    return Ok(());
                }
                Err(error) => self.campaign.findings.note("a prepare that failed", || format!("{error:?}")),
            }
        }
        while !self.campaign.is_stopped() {
            match self.table.pause {
                Some(pause) => thread::sleep(pause),
                None => self.campaign.wait_for_pace(),
            }
            let (prepared, rows) = match self.random.gen_range(0..8) {
                0 => (None, 1),
                1 | 2 => (statements.choose(&mut self.random).map(|(_, prepared)| prepared), 0),
                _ => (None, self.random.gen_range(self.table.rows_max / 2..=self.table.rows_max)),
            };
            let rows = prepared.map_or(rows, |prepared| usize::from(prepared.params));
            self.write_once(&mut client, prepared, rows as u64)?;
        }
        Ok(())
    }

    fn write_once(&mut self, client: &mut Client, prepared: Option<&Prepared>, rows: u64) -> io::Result<()> {
        let first_token = self.next_token;
        let tokens = first_token..first_token + rows;
        self.next_token = tokens.end;
        let sent = Instant::now();
        let outcomes = if let Some(prepared) = prepared {
            client.execute(prepared, &tokens.map(Param::Uint).collect::<Vec<_>>())
        } else {
            let values: Vec<_> = tokens.map(|token| format!("({token})")).collect();
            client.query(format!("{}{}", self.insert(), values.join(",")))
        }?;
        let ledger = &self.campaign.ledger;
        match outcomes.first() {
            Some(Outcome::Ok(ok)) if ok.affected_rows == rows => {
                self.proxy.calm.note_served(self.table_nr, rows, sent, Instant::now());
                let told = Told { first_token, rows, first_id: ok.insert_id, proxy: self.proxy_nr };
                ledger.note(self.table_nr, told);
            }
            Some(Outcome::Err(error)) if error.code == NO_IDS => {
                ledger.note_refused();
                thread::sleep(PAUSE);
            }
            other => {
                let findings = &self.campaign.findings;
                findings.note("an INSERT with another answer", || format!("{rows} rows: {other:?}"));
            }
        }
        Ok(())
    }

    fn insert(&self) -> String {
        format!("INSERT INTO {} (token) VALUES ", self.table.name)
    }
}
