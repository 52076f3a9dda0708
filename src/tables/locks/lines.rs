//! The connections that hold the locks, each those of a thousand tables.
//!
//! MariaDB goes through the locks that a connection holds before it gives it one more: the locks of
//! 5,000 tables took it 15 s by one connection, and take it 1 s by five.

use std::collections::{BTreeMap, HashMap};

use crate::schema::Schema;
use crate::tables::locks::LockError;
use crate::tables::locks::line::{ANSWER_TIMEOUT, Line};
use crate::tables::locks::server::{self, Holder};

const TABLES_PER_LINE: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Lines {
    all: Vec<Line>,
    /// By table, the place of the connection that has been asked for its lock.
    places: HashMap<String, usize>,
    /// The number of tables of each connection.
    counts: Vec<usize>,
}

impl Lines {
    /// True if there is a connection, and none has failed. If one has failed, all are of no more use: a table's lock
    /// belongs to a connection, which is known by its number alone.
    pub(super) fn is_open(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(Line::is_open)
    }

    pub(super) fn any(&mut self) -> Option<&mut Line> {
        self.all.first_mut()
    }

    /// [`server::take`], by as many connections as that needs.
    pub(super) async fn take(
        &mut self,
        tables: &[&str],
        store: &str,
        schema: &Schema,
    ) -> Result<Vec<Holder>, LockError> {
        for table in tables {
            if self.places.contains_key(*table) {
                continue;
            }
            let free = self.counts.iter().position(|count| *count < TABLES_PER_LINE);
            let place = free.unwrap_or(self.all.len());
            if free.is_none() {
                self.all.push(Line::new(schema.own_connection(ANSWER_TIMEOUT).await?));
                self.counts.push(0);
            }
            self.places.insert((*table).to_owned(), place);
            if let Some(count) = self.counts.get_mut(place) {
                *count += 1;
            }
        }
        let mut found: HashMap<&str, Holder> = HashMap::with_capacity(tables.len());
        for (place, tables) in self.by_place(tables) {
            let Some(line) = self.all.get_mut(place) else { continue };
            let holders = server::take(line, &tables, store).await?;
            found.extend(tables.into_iter().zip(holders));
        }
        Ok(tables.iter().map(|table| found.get(table).copied().unwrap_or(Holder::Nobody)).collect())
    }

    /// [`server::used`], by one of the connections.
    pub(super) async fn used(&mut self, tables: &[&str]) -> Result<Vec<Option<u64>>, LockError> {
        match self.all.first_mut() {
            Some(line) => server::used(line, tables).await,
            None => Ok(Vec::new()),
        }
    }

    /// [`server::settle`]
    pub(super) async fn settle(&mut self, tables: &[&str], store: &str) -> Result<(), LockError> {
        for (place, tables) in self.by_place(tables) {
            let Some(line) = self.all.get_mut(place) else { continue };
            server::settle(line, &tables, store).await?;
        }
        Ok(())
    }

    /// [`server::release`]
    pub(super) async fn release(&mut self, table: &str, store: &str) -> Result<(), LockError> {
        let Some(place) = self.places.remove(table) else { return Ok(()) };
        let Some(line) = self.all.get_mut(place) else { return Ok(()) };
        if let Some(count) = self.counts.get_mut(place) {
            *count -= 1;
        }
        server::release(line, table, store).await
    }

    /// Pings the connections. True if there are any and all live, and with them their locks.
    pub(super) async fn live(&mut self) -> bool {
        for line in &mut self.all {
            if server::lives(line).await.is_err() {
                return false;
            }
        }
        !self.all.is_empty()
    }

    fn by_place<'a>(&self, tables: &[&'a str]) -> BTreeMap<usize, Vec<&'a str>> {
        let mut by_place: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for table in tables {
            if let Some(place) = self.places.get(*table) {
                by_place.entry(*place).or_default().push(table);
            }
        }
        by_place
    }
}
