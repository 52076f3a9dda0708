//! Only proxies of one store may issue ids for a table. Stores know nothing of each other, so
//! the backend keeps them apart, by user-level locks (`GET_LOCK`) of one connection that lives as
//! long as the proxy (`locks/server` lists them).
//!
//! A lock ends with its connection, and this proxy learns of that later. So its ids are good for a
//! lease (300 ms) from when the locks were last seen held, and who takes a lock waits longer than
//! that (600 ms) before it looks which ids are in the table. A statement takes its ids first and
//! looks at the lease then. Where the locks were not seen in time, another store's proxy may have
//! issued ids in the meantime: all tables are assigned again, above what is in them, before the lease
//! is renewed. A process may be stopped between any two steps: what it did not send in time (150 ms
//! after the lease) is not sent any more, and its session ends.

mod line;
mod lines;
mod look;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use crate::schema::{Schema, SchemaError};
use crate::store::{Store, StoreError, record};
use crate::tables::locks::line::{ANSWER_TIMEOUT, Line};
use crate::tables::locks::lines::Lines;
use crate::tables::locks::look::look_on;
use crate::tables::locks::server::{Holder, TABLES_PER_QUERY};

/// The time for which ids may be used after the locks were seen held.
const LEASE: Duration = Duration::from_millis(300);

/// The time for which a proxy that takes a lock waits before it issues ids: for the lease of the last
/// holder, and for the statements that the last holder had sent by then.
const GRACE: Duration = Duration::from_millis(600);

/// The least limit of a wait after a lapse: the grace, and the time to look at the tables.
const BIND_TIME: Duration = Duration::from_secs(2);

/// The time between two looks at the locks.
const CHECK_INTERVAL: Duration = Duration::from_millis(75);

/// The time to wait for a lock that another store's proxy holds. The backend may take a moment to
/// notice that a proxy which was killed is gone.
const HELD_MAX: Duration = Duration::from_secs(3);

/// The time between two tries for it. Two proxies of one store that start at once are done with it in less.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "table {table} is held by another Rowstamp, which has another store (connection {holder} on the backend{whose}); stop that \
         proxy, or give both proxies one store (store.kind)"
    )]
    Held { table: String, holder: u64, whose: String },
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("locking table {table}: {error}")]
    Query { table: String, error: mysql_async::Error },
    #[error("locking table {table}: the backend does not answer")]
    Timeout { table: String },
    #[error("locking table {table}: the backend sent an unexpected answer")]
    Answer { table: String },
}

/// Errors of a server without GET_LOCK: Percona XtraDB Cluster's strict mode, and servers that
/// do not know the function or refuse it. MySQL Router is none of these, with `connection_sharing`
/// neither: a connection that has called GET_LOCK is not shared.
const NO_LOCKS: [u16; 4] = [1105, 1235, 1305, 3566];

impl LockError {
    /// True if the same attempt may succeed later: the store did not answer.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, LockError::Store(error) if error.passes())
    }

    fn has_no_locks(&self) -> bool {
        matches!(self, LockError::Query { error: mysql_async::Error::Server(error), .. }
            if NO_LOCKS.contains(&error.code))
    }
}

/// The store, whose proxies share the tables' locks.
pub enum Sharing {
    /// A file by its name, which one process has open at a time: the next one takes the locks over.
    File(String),
    /// A store that names itself, and that several proxies write.
    Store(Arc<dyn Store>),
}

#[derive(Clone)]
pub struct TableLocks {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Schema,
    sharing: Sharing,
    held: Mutex<Held>,
    lease: ArcSwap<Lease>,
    /// Notified after each look at the locks.
    looked: watch::Sender<()>,
    /// Notified by a statement that waits for the next look.
    wanted: Arc<Notify>,
    /// The locks were not seen in time: the tables are to be assigned again. How often that was.
    lapses: watch::Sender<u64>,
    /// Tables whose lock another store has, each with the error text for clients.
    lost: ArcSwap<BTreeMap<String, String>>,
    /// The error text for clients while nothing is known of the locks.
    away: ArcSwapOption<String>,
    /// There is something in `lost` or `away`. Each INSERT asks for it several times.
    refuses: AtomicBool,
    /// The server has no such locks for us, and the store keeps its proxies apart by itself.
    unguarded: AtomicBool,
}

#[derive(Default)]
struct Held {
    lines: Lines,
    /// The connections were made after the last look, and hold none of the locks that those before them held.
    is_new: bool,
    /// The server that the connections are with, as [`Primary::get`](crate::schema::Primary::get) numbers them.
    server: usize,
    /// The name of the store, once it is known: the locks are named after it.
    store: Option<String>,
    /// The holder of each table's lock, as last seen.
    tables: BTreeMap<String, Holder>,
    /// No ids are issued before: another proxy may still use those of its last lease.
    from: Option<Instant>,
    /// A lapse was seen, and the tables are not assigned again yet.
    lapsed: bool,
}

/// By CLOCK_BOOTTIME, which goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, Default)]
struct Lease {
    server: usize,
    until: Duration,
}

impl TableLocks {
    pub fn new(schema: Schema, sharing: Sharing) -> Self {
        let inner = Arc::new(Inner {
            schema,
            sharing,
            held: Mutex::default(),
            lease: ArcSwap::default(),
            looked: watch::channel(()).0,
            wanted: Arc::default(),
            lapses: watch::channel(0).0,
            lost: ArcSwap::default(),
            away: ArcSwapOption::empty(),
            refuses: AtomicBool::new(false),
            unguarded: AtomicBool::new(false),
        });
        tokio::spawn(look_on(Arc::downgrade(&inner), inner.wanted.clone()));
        TableLocks { inner }
    }

    /// Takes and keeps the table's lock. Its ids are looked at after [`TableLocks::settled`].
    pub async fn take(&self, table: &str) -> Result<(), LockError> {
        if self.is_unguarded() {
            return Ok(());
        }
        match self.inner.take(table).await {
            Err(error) if error.has_no_locks() && matches!(self.inner.sharing, Sharing::Store(_)) => {
                tracing::warn!(%error, "the server has no user-level locks, so nothing keeps proxies with other stores off the tables with a rule");
                self.inner.unguarded.store(true, Ordering::Relaxed);
                Ok(())
            }
            taken => taken,
        }
    }

    fn is_unguarded(&self) -> bool {
        self.inner.unguarded.load(Ordering::Relaxed)
    }

    /// Waits until nobody else issues ids any more for the tables whose locks were taken.
    pub async fn settled(&self) {
        let from = self.inner.held.lock().await.from;
        if let Some(from) = from {
            tokio::time::sleep_until(from).await;
        }
    }

    /// Gives the store its name again if it has lost it. Else proxies that start later would give it another name, and the
    /// tables' locks would keep them off.
    pub async fn name_store_again(&self) -> Result<(), LockError> {
        let name = self.inner.held.lock().await.store.clone();
        if let (Sharing::Store(store), Some(name)) = (&self.inner.sharing, name) {
            let found = record::identity_or(&**store, &name).await?;
            if found != name {
                tracing::error!(
                    "another proxy has given the store another name, so the tables' locks keep new proxies off; restart this proxy"
                );
            }
        }
        Ok(())
    }

    /// Gives up the locks of all tables but those to `keep`.
    pub async fn keep(&self, keep: impl Fn(&str) -> bool) {
        let mut held = self.inner.held.lock().await;
        let held = &mut *held;
        for table in held.tables.keys().filter(|table| !keep(table)).cloned().collect::<Vec<_>>() {
            held.tables.remove(&table);
            let Some(store) = &held.store else { continue };
            // If the connection is gone, so is the lock.
            match held.lines.release(&table, store).await {
                Ok(()) => tracing::info!(
                    table,
                    "this process issues no more ids for the table: its lock is given up"
                ),
                Err(error) => {
                    tracing::debug!(%error, "Rowstamp could not give up a table's lock");
                    held.lines = Lines::default();
                }
            }
        }
    }

    /// Why statements into the table must be refused at present, where they must.
    pub fn lost(&self, table: impl FnOnce() -> String) -> Option<String> {
        if !self.inner.refuses.load(Ordering::Acquire) {
            return None;
        }
        if let Some(why) = self.inner.away.load().as_deref() {
            return Some(why.clone());
        }
        self.inner.lost.load().get(&table()).cloned()
    }

    /// Waits until ids that were taken before may be used: the locks were seen held a moment ago, or
    /// are now. Waits for `limit`, and at least for as long as it takes to assign the tables again.
    /// The error says why the ids may not be used.
    pub async fn seen(&self, limit: Duration) -> Result<(), String> {
        if self.inner.is_seen() {
            return Ok(());
        }
        let mut looked = self.inner.looked.subscribe();
        let seen = async {
            loop {
                self.inner.wanted.notify_one();
                if looked.changed().await.is_err() || self.inner.is_seen() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit.max(BIND_TIME), seen).await.is_ok() {
            return Ok(());
        }
        let why = self.inner.away.load().as_deref().cloned();
        Err(why.unwrap_or_else(|| "Rowstamp could not check its locks on the tables in time".to_owned()))
    }

    /// Until when statements may be sent whose ids were taken by now: later another store's proxy
    /// may issue these ids. `None`: the locks were not seen in time.
    pub fn send_by(&self) -> Option<SendBy> {
        self.inner.send_by()
    }

    /// Changes with each lapse; [`TableLocks::assigned_again`] ends one.
    pub fn lapses(&self) -> watch::Receiver<u64> {
        let mut lapses = self.inner.lapses.subscribe();
        if *lapses.borrow() > 0 {
            lapses.mark_changed();
        }
        lapses
    }

    /// All tables are assigned again after a lapse.
    pub async fn assigned_again(&self) {
        self.inner.held.lock().await.lapsed = false;
        self.inner.wanted.notify_one();
    }

    /// [`TableLocks::take`] of many tables, a hundred by one statement. It calls `took` with the number of locks, now and then.
    pub async fn take_all(&self, tables: &[String], took: impl Fn(usize)) -> Result<(), LockError> {
        for tables in tables.chunks(TABLES_PER_QUERY) {
            // If the server has no locks for us, `take` of the first table gets the same error, and handles it.
            let free = if self.is_unguarded() { Ok(()) } else { self.inner.take_ahead(tables).await };
            free.or_else(|error| if error.has_no_locks() { Ok(()) } else { Err(error) })?;
            for table in tables {
                self.take(table).await?;
            }
            took(tables.len());
        }
        Ok(())
    }

    /// Takes those of these locks that are free, and waits for none. A proxy that takes a table's lock waits for the
    /// grace time before it issues ids: if it took the lock long before the table is made, the table's first INSERT
    /// does not wait. A lock that another store's
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
    fn is_seen(&self) -> bool {
        self.send_by().is_some()
    }

    fn send_by(&self) -> Option<SendBy> {
        if self.unguarded.load(Ordering::Relaxed) {
            return Some(SendBy::AnyTime);
        }
        let lease = self.lease.load();
        let is_seen = lease.server == self.schema.primary().get() && boottime() < lease.until;
        is_seen.then(|| SendBy::Boottime(lease.until + SENDING))
    }

    async fn take(&self, table: &str) -> Result<(), LockError> {
        let begun = Instant::now();
        loop {
            let mut held = self.held.lock().await;
            if held.tables.contains_key(table) {
                return Ok(());
            }
            let found = self.ask(&mut held, &[table]).await?.into_iter().next();
            match found {
                Some(holder) if holder.is_ours() => {
                    if !holder.is_settled() {
                        held.from = Some(Instant::now() + GRACE);
                    }
                    held.tables.insert(table.to_owned(), holder);
                    return Ok(());
                }
                Some(Holder::Foreign { connection }) if begun.elapsed() >= HELD_MAX => {
                    return Err(self.held_by(&mut held, table, connection).await);
                }
                _ => {}
            }
            // Meanwhile the other tables' locks are looked at.
            drop(held);
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn held_by(&self, held: &mut Held, table: &str, holder: u64) -> LockError {
        let user = match held.lines.any() {
            Some(line) => server::user_of(line, holder).await,
            None => None,
        };
        let whose = user.map(|user| format!(", of {user}")).unwrap_or_default();
        LockError::Held { table: table.to_owned(), holder, whose }
    }

    /// Takes those of these locks that are free, and returns the holder of each. If a connection fails,
    /// all connections are given up, and with them the locks that they held.
    async fn ask(&self, held: &mut Held, tables: &[&str]) -> Result<Vec<Holder>, LockError> {
        let primary = self.schema.primary().get();
        // A lock on another server than sessions write to keeps nobody off.
        if held.server != primary {
            held.lines = Lines::default();
        }
        let store = match &mut held.store {
            Some(store) => store,
            none => none.insert(self.store_name().await?),
        };
        if !held.lines.is_open() {
            held.server = primary;
            held.is_new = !held.tables.is_empty();
            held.lines = Lines::default();
        }
        let holders = held.lines.take(tables, store, &self.schema).await;
        if holders.is_err() {
            held.lines = Lines::default();
        }
        holders
    }

    async fn store_name(&self) -> Result<String, StoreError> {
        match &self.sharing {
            Sharing::File(name) => Ok(name.clone()),
            Sharing::Store(store) => record::identity(&**store).await,
        }
    }

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

/// CLOCK_BOOTTIME, which goes on while the machine sleeps.
pub(crate) fn boottime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A table's lock that is held by a connection of none of the store's proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldByOther {
    pub table: String,
    /// The server's id of the connection that holds the lock.
    pub connection: u64,
    /// The connection's user and host, where the account may see them.
    pub user: Option<String>,
}

/// `tables`: the names that locks are named after. `store`: the store's name, if it has one yet.
pub async fn held_by_others(
    schema: &Schema,
    tables: &[String],
    store: Option<&str>,
) -> Result<Vec<HeldByOther>, LockError> {
    let mut line = Line::new(schema.own_connection(ANSWER_TIMEOUT).await?);
    let names: Vec<&str> = tables.iter().map(String::as_str).collect();
    let holders = server::look(&mut line, &names, store.unwrap_or_default()).await?;
    let mut held = Vec::new();
    for (table, holder) in tables.iter().zip(holders) {
        let Holder::Foreign { connection } = holder else { continue };
        let user = server::user_of(&mut line, connection).await;
        held.push(HeldByOther { table: table.clone(), connection, user });
    }
    Ok(held)
}

/// The time after the lease in which a statement may be sent whose ids were taken within the lease.
/// The rest of the grace time is the network's and the server's.
const SENDING: Duration = Duration::from_millis(150);

/// When a statement with ids may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendBy {
    /// Before this moment of CLOCK_BOOTTIME.
    Boottime(Duration),
    /// Nobody else can issue its ids.
    AnyTime,
}

impl SendBy {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, SendBy::Boottime(limit) if boottime() >= limit)
    }

    /// True if the lease that it came from is over.
    pub(crate) fn is_near(self) -> bool {
        matches!(self, SendBy::Boottime(limit) if boottime() + SENDING >= limit)
    }
}
