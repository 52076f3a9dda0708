//! The locks of many tables, a hundred by one statement, and those of tables that are not there yet.
//! A proxy that takes a table's lock waits for the grace time before it issues ids. If it took the
//! lock long before the table is made, the table's first INSERT does not wait.

use tokio::time::Instant;

use crate::tables::locks::server::TABLES_PER_QUERY;
use crate::tables::locks::{GRACE, Inner, LockError, TableLocks};

impl TableLocks {
    /// [`TableLocks::take`] of many tables. `took` is told how many, now and then.
    pub async fn take_all(&self, tables: &[String], took: impl Fn(usize)) -> Result<(), LockError> {
        for tables in tables.chunks(TABLES_PER_QUERY) {
            // If the server has no locks for us, taking the first table's lock alone tells what that means.
            let free = if self.is_unguarded() { Ok(()) } else { self.inner.take_ahead(tables).await };
            free.or_else(|error| if error.has_no_locks() { Ok(()) } else { Err(error) })?;
            for table in tables {
                self.take(table).await?;
            }
            took(tables.len());
        }
        Ok(())
    }

    /// Takes those of these locks that are free, and waits for none. A lock that another store's
    /// proxy holds is tried again when its table is there; the error then names the holder.
    pub async fn take_ahead(&self, tables: &[String]) {
        // Between two statements the other tables' locks are looked at.
        for tables in tables.chunks(TABLES_PER_QUERY) {
            if let Err(error) = self.inner.take_ahead(tables).await {
                tracing::debug!(%error, "Rowstamp could not take the locks of tables that do not exist yet");
                return;
            }
        }
    }
}

impl Inner {
    async fn take_ahead(&self, tables: &[String]) -> Result<(), LockError> {
        let mut held = self.held.lock().await;
        let is_new = |table: &&str| !held.tables.contains_key(*table);
        let new: Vec<&str> = tables.iter().map(String::as_str).filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let holders = self.ask(&mut held, &new).await?;
        for (table, holder) in new.into_iter().zip(holders).filter(|(_, holder)| holder.is_ours()) {
            if !holder.is_settled() {
                held.from = Some(Instant::now() + GRACE);
            }
            held.tables.insert(table.to_owned(), holder);
        }
        Ok(())
    }
}
