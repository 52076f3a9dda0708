//! Writers that insert the same rows into both tables, through the proxies, come what may.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use crate::support::Proxy;
use crate::support::raw::{Client, ErrPacket, Options, Outcome};
use crate::support::told::{Batch, Inserts, Row};
use crate::support::wait::wait_until;

/// A driver's: who waits longer for a server that hangs gives up, and tries a new connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The proxy says one of these while it does not know that it holds the tables' locks.
const LOCKS_AWAY: [&str; 2] = [
    "Rowstamp cannot check its locks on the tables",
    "Rowstamp could not check its locks on the tables in time",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Ruled,
    Native,
}

impl Table {
    pub(crate) const BOTH: [Table; 2] = [Table::Ruled, Table::Native];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Ruled => "drill.ruled",
            Table::Native => "drill.native",
        }
    }
}

/// An INSERT that was acknowledged.
struct Told {
    at: Instant,
    writer: usize,
    table: Table,
    rows: Vec<Row>,
}

/// The state that the writers and the drill share.
pub(crate) struct Load<'a> {
    pub(crate) stop: AtomicBool,
    proxies: &'a [Proxy],
    writers: usize,
    told: Mutex<Vec<Told>>,
    pub(crate) refused: AtomicU64,
}

impl<'a> Load<'a> {
    pub(crate) fn new(proxies: &'a [Proxy], writers: usize) -> Self {
        Load {
            stop: AtomicBool::new(false),
            proxies,
            writers,
            told: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Inserts until told to stop, with a new connection whenever the backend has gone.
    pub(crate) fn write(&self, writer: usize, random: &mut StdRng) {
        let mut tokens = ((writer as u64) << 40) + 1..;
        let address = self.proxies[writer % self.proxies.len()].address();
        let options = Options { user: "app".to_owned(), timeout: ANSWER_TIMEOUT, ..Options::default() };
        while !self.stop.load(Ordering::SeqCst) {
            let ended = Client::connect(&address, &options)
                .and_then(|client| self.write_on(client, writer, &mut tokens, random));
            if ended.is_err() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Ends with the connection.
    fn write_on(
        &self,
        mut client: Client,
        writer: usize,
        tokens: &mut impl Iterator<Item = u64>,
        random: &mut StdRng,
    ) -> io::Result<()> {
        let mut inserts = Vec::new();
        for table in Table::BOTH {
            match Inserts::prepare(&mut client, table.name())? {
                Ok(prepared) => inserts.push((table, prepared)),
                Err(error) => self.note_refused(table, &error),
            }
        }
        while !self.stop.load(Ordering::SeqCst) {
            let batch = Batch::draw(tokens, random);
            for (table, inserts) in &inserts {
                match inserts.send(&mut client, &batch)? {
                    Outcome::Ok(ok) => {
                        let rows = batch.rows(&ok).collect();
                        let told = Told { at: Instant::now(), writer, table: *table, rows };
                        self.told.lock().expect("no writer panicked").push(told);
                    }
                    Outcome::Err(error) => self.note_refused(*table, &error),
                    Outcome::Rows(rows) => panic!("an INSERT was answered by {rows:?}"),
                }
            }
            if inserts.len() < Table::BOTH.len() {
                return Err(io::Error::other("a table was refused"));
            }
        }
        Ok(())
    }

    /// While the proxy does not hold its locks it refuses ruled statements, and nothing else.
    fn note_refused(&self, table: Table, error: &ErrPacket) {
        assert!(
            table == Table::Ruled && LOCKS_AWAY.iter().any(|reason| error.message.contains(reason)),
            "{table:?}: {error:?}"
        );
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until every writer has been acknowledged a row in each table after `since`.
    pub(crate) fn wait_until_all_wrote(&self, since: Instant) {
        wait_until(
            || format!("a writer is not acknowledged any row; {}", self.logs()),
            || !Table::BOTH.iter().any(|table| self.firsts(*table, since).len() < self.writers),
        );
    }

    pub(crate) fn logs(&self) -> String {
        let logs: Vec<_> = self.proxies.iter().map(Proxy::log).collect();
        format!("the proxies' logs:\n{}", logs.join("\n"))
    }

    /// From `since` to each writer's first row.
    fn firsts(&self, table: Table, since: Instant) -> BTreeMap<usize, Duration> {
        let told = self.told.lock().expect("no writer panicked");
        let later = told.iter().filter(|told| told.table == table && told.at > since);
        // The oldest of a writer comes last, and stays.
        later.rev().map(|told| (told.writer, told.at - since)).collect()
    }

    /// From `since` to the first row of the first writer, and of the last.
    pub(crate) fn first_and_last(&self, table: Table, since: Instant) -> (Duration, Duration) {
        let firsts = self.firsts(table, since);
        let all = || firsts.values().copied();
        (all().min().unwrap_or_default(), all().max().unwrap_or_default())
    }

    pub(crate) fn acknowledged(&self, table: Table) -> Vec<Row> {
        let told = self.told.lock().expect("no writer panicked");
        told.iter().filter(|told| told.table == table).flat_map(|told| &told.rows).copied().collect()
    }
}
