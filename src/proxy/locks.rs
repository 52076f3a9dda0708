//! With the embedded store, nothing but the backend itself knows of a second proxy: each ruled table is held by a
//! `GET_LOCK` of the control account, on one connection that lives as long as the proxy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::schema::{Schema, SchemaError};

/// The connection is asked so often whether it still lives: a lost lock is noticed within this time.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How often locks that are lost are tried again. Behind a failover nothing else is in the way of ruled statements.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Connecting, and each answer beyond what it waits for a lock.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a lock is waited for: the backend may take a moment to notice that a proxy which was killed is gone.
const LOCK_TIMEOUT_SECONDS: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "table {table} is held by another Rowstamp (connection {holder} on the backend): stop that one; with the \
         embedded store one proxy serves a table, a fleet shares etcd (store.kind)"
    )]
    Held { table: String, holder: u64 },
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("locking table {table}: {error}")]
    Query { table: String, error: mysql_async::Error },
    #[error("locking table {table}: the backend does not answer")]
    Timeout { table: String },
}

/// All locks of this proxy.
#[derive(Clone)]
pub struct TableLocks {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Schema,
    held: Mutex<Held>,
    /// Why nothing may be issued at present.
    lost: ArcSwapOption<String>,
}

#[derive(Default)]
struct Held {
    conn: Option<Conn>,
    /// The server that it is with, as [`Primary::get`](crate::schema::Primary::get) numbers them.
    server: usize,
    tables: BTreeSet<String>,
}

impl TableLocks {
    pub fn new(schema: Schema) -> Self {
        let inner = Arc::new(Inner { schema, held: Mutex::default(), lost: ArcSwapOption::empty() });
        tokio::spawn(watch(Arc::downgrade(&inner)));
        TableLocks { inner }
    }

    /// Takes the table's lock and keeps it.
    pub async fn take(&self, table: &str) -> Result<(), LockError> {
        let mut held = self.inner.held.lock().await;
        if held.tables.contains(table) {
            return Ok(());
        }
        self.inner.lock_one(&mut held, table).await?;
        held.tables.insert(table.to_owned());
        Ok(())
    }

    /// Gives up all locks: another process takes them.
    pub async fn give_up(&self) {
        let mut held = self.inner.held.lock().await;
        held.tables.clear();
        // The locks end with it. A server that does not answer notices by itself.
        if let Some(conn) = held.conn.take() {
            let _ = tokio::time::timeout(ANSWER_TIMEOUT, conn.disconnect()).await;
        }
    }

    /// Gives up the locks of all tables but those to `keep`.
    pub async fn keep(&self, keep: impl Fn(&str) -> bool) {
        let mut held = self.inner.held.lock().await;
        let held = &mut *held;
        for table in held.tables.iter().filter(|table| !keep(table)).cloned().collect::<Vec<_>>() {
            held.tables.remove(&table);
            let Some(conn) = &mut held.conn else { continue };
            // Where the connection is gone, so is the lock.
            let release = conn.exec_drop("SELECT RELEASE_LOCK(?)", (lock_name(&table),));
            match answered(&table, ANSWER_TIMEOUT, release).await {
                Ok(()) => tracing::info!(table, "no rule is in force for the table: its lock is given up"),
                Err(error) => {
                    tracing::debug!(%error, "a table's lock could not be given up");
                    held.conn = None;
                }
            }
        }
    }

    /// Why ruled statements must be refused at present, where they must.
    pub fn lost(&self) -> Option<String> {
        self.inner.lost.load().as_deref().cloned()
    }
}

impl Inner {
    /// A connection that fails is given up, and with it what it held: [`Inner::check`] takes all locks again on the next.
    async fn lock_one(&self, held: &mut Held, table: &str) -> Result<(), LockError> {
        let conn = match &mut held.conn {
            Some(conn) => conn,
            none => {
                held.server = self.schema.primary().get();
                none.insert(self.schema.own_connection(ANSWER_TIMEOUT).await?)
            }
        };
        let locked = get_lock(conn, table).await;
        if let Err(LockError::Query { .. } | LockError::Timeout { .. }) = &locked {
            held.conn = None;
        }
        locked
    }

    /// Whether the connection lives; else all locks are taken again on a new one.
    async fn check(&self) {
        let mut held = self.held.lock().await;
        if held.tables.is_empty() {
            return;
        }
        // A lock on another server than sessions write to keeps nobody off.
        let is_there = held.server == self.schema.primary().get();
        let alive = match &mut held.conn {
            _ if !is_there => false,
            Some(conn) => {
                tokio::time::timeout(ANSWER_TIMEOUT, conn.ping()).await.is_ok_and(|ping| ping.is_ok())
            }
            None => false,
        };
        if alive && self.lost.load().is_none() {
            return;
        }
        if !alive {
            held.conn = None;
        }
        match self.lock_all(&mut held).await {
            Ok(()) => {
                if self.lost.swap(None).is_some() {
                    tracing::info!("the locks on the ruled tables are held again");
                }
            }
            Err(error) => {
                let reason = format!("the locks on the ruled tables are lost: {error}");
                if self.lost.swap(Some(Arc::new(reason.clone()))).is_none() {
                    tracing::error!("{reason}; ruled statements are refused until they are held again");
                }
            }
        }
    }

    async fn lock_all(&self, held: &mut Held) -> Result<(), LockError> {
        for table in held.tables.clone() {
            self.lock_one(held, &table).await?;
        }
        Ok(())
    }
}

async fn get_lock(conn: &mut Conn, table: &str) -> Result<(), LockError> {
    let name = lock_name(table);
    let wait = Duration::from_secs(LOCK_TIMEOUT_SECONDS.into()) + ANSWER_TIMEOUT;
    // A lock that is taken twice must be given up twice.
    let sql = "SELECT IF(IS_USED_LOCK(?)=CONNECTION_ID(),1,GET_LOCK(?,?))";
    let get = conn.exec_first(sql, (&name, &name, LOCK_TIMEOUT_SECONDS));
    let taken: Option<Option<u8>> = answered(table, wait, get).await?;
    if taken.flatten() == Some(1) {
        return Ok(());
    }
    let ask = conn.exec_first("SELECT IS_USED_LOCK(?)", (&name,));
    let holder: Option<Option<u64>> = answered(table, ANSWER_TIMEOUT, ask).await?;
    Err(LockError::Held { table: table.to_owned(), holder: holder.flatten().unwrap_or(0) })
}

/// Behind an answer that did not come in time the connection is of no more use.
async fn answered<T>(
    table: &str,
    limit: Duration,
    query: impl Future<Output = mysql_async::Result<T>>,
) -> Result<T, LockError> {
    let table = || table.to_owned();
    let answer =
        tokio::time::timeout(limit, query).await.map_err(|_| LockError::Timeout { table: table() })?;
    answer.map_err(|error| LockError::Query { table: table(), error })
}

/// Ends with the proxy: it holds the locks only weakly.
async fn watch(inner: std::sync::Weak<Inner>) {
    let mut interval = CHECK_INTERVAL;
    loop {
        tokio::time::sleep(interval).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.check().await;
        interval = if inner.lost.load().is_some() { RETRY_INTERVAL } else { CHECK_INTERVAL };
    }
}

/// Names of locks hold at most 64 characters.
fn lock_name(table: &str) -> String {
    let digest = Sha256::digest(table.as_bytes());
    let half = digest.iter().take(16).fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
    format!("rowstamp.{half:032x}")
}
