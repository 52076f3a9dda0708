//! Bounds in a table of MySQL or MariaDB: Rowstamp's own, or Leaf's `leaf_alloc` as it is.
//!
//! * **One statement a write**, with autocommit: an UPDATE that names the revision, or an INSERT that meets a duplicate key.
//! * **Revisions only grow**, also of a record that was deleted and made again: the first is the time in microseconds.
//! * **The primary alone is used** (`place`): no replica, and where there are several servers the one that can be written to.
//! * **What is unknown is said to be unknown**: of a write the server's errors of `NOT_DONE` alone mean that it was not done.
//! * A write is as durable as the server makes it: `innodb_flush_log_at_trx_commit = 1`, else a crash of the server takes back
//!   bounds that ids were issued under. [`MysqlStore::open`] warns.

mod connection;
mod leaf;
mod name;
mod place;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use self::connection::Connection;
pub use self::connection::Server;
use self::leaf::Leaf;
use self::name::Holder;
pub use self::name::Proxy;
use super::record::{check_format, encode_format};
use super::{Json, Key, Outcome, Result, Revision, Store, StoreError, Versioned, Write};
use crate::text_query::with_values;

/// One call takes at most so long.
const CALL_DEADLINE: Duration = Duration::from_secs(2);
/// Finding the primary, and making the table.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// The pause before the primary is looked for again.
const OPEN_PAUSE: Duration = Duration::from_millis(500);
const RECORDS_PER_STATEMENT: usize = 500;
/// Half of the least max_allowed_packet that is usual.
const BYTES_PER_STATEMENT: usize = 512 * 1024;
/// An UPDATE names a record so often.
const NAMES_PER_RECORD: usize = 3;

const NO_SUCH_TABLE: u16 = 1146;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub schema: String,
    pub name: String,
}

impl Table {
    /// `table`, in the database `rowstamp`, or `schema.table`.
    pub fn parse(text: &str) -> Self {
        let (schema, name) = text.split_once('.').unwrap_or((DEFAULT_SCHEMA, text));
        Table { schema: schema.to_owned(), name: name.to_owned() }
    }

    /// The table of Rowstamp's own: beside Leaf's, or this one.
    #[must_use]
    pub fn own(&self) -> Table {
        if self.is_leafs() { Table { name: OWN_TABLE.to_owned(), ..self.clone() } } else { self.clone() }
    }

    fn is_leafs(&self) -> bool {
        self.name == LEAF_TABLE
    }

    fn quoted(&self) -> String {
        let quote = |name: &str| format!("`{}`", name.replace('`', "``"));
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }

    /// The rights that the store needs. `is_made`: the table of Rowstamp's own is there.
    #[must_use]
    pub fn needs(&self, is_made: bool) -> Vec<NeededRight> {
        let own = self.own().quoted();
        let create = (!is_made).then(|| NeededRight::new("CREATE", &own, create(&own)));
        let mut needs: Vec<_> = create.into_iter().collect();
        let of_table = |table: &str, column: &str| {
            [
                NeededRight::new("SELECT", table, format!("SELECT {column} FROM {table} LIMIT 0")),
                NeededRight::new("INSERT", table, format!("INSERT INTO {table} ({column}) VALUES (1)")),
                NeededRight::new("UPDATE", table, format!("UPDATE {table} SET {column} = 1 WHERE 1 = 0")),
            ]
        };
        needs.extend(of_table(&own, "revision"));
        if self.is_leafs() {
            needs.extend(of_table(&self.quoted(), "max_id"));
        }
        needs
    }
}

/// A right on a table, and a statement whose preparation the server denies to an account without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededRight {
    pub right: &'static str,
    /// Quoted, with its schema.
    pub table: String,
    pub statement: String,
}

impl NeededRight {
    fn new(right: &'static str, table: &str, statement: String) -> Self {
        NeededRight { right, table: table.to_owned(), statement }
    }
}

/// `own`: quoted.
fn create(own: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {own} (name VARBINARY(600) PRIMARY KEY, revision BIGINT UNSIGNED NOT NULL, \
         value LONGBLOB NOT NULL) ENGINE = InnoDB"
    )
}

/// The database of a table that is named without one.
pub const DEFAULT_SCHEMA: &str = "rowstamp";
/// Leaf's table; what it has no columns for goes into [`OWN_TABLE`] beside it.
const LEAF_TABLE: &str = "leaf_alloc";
const OWN_TABLE: &str = "rowstamp_bounds";

pub struct MysqlStore {
    inner: Arc<Inner>,
    /// `None`: looked into without serving, or ended.
    name: Mutex<Option<Holder>>,
}

struct Inner {
    connection: Connection,
    /// Quoted.
    own: String,
    leaf: Option<Leaf>,
}

impl MysqlStore {
    /// Connects to the primary among `servers`, makes the table where there is none, checks the store's format, and takes the
    /// proxy's name, if it serves.
    pub async fn open(servers: Vec<Server>, table: &Table, proxy: Option<&Proxy>) -> Result<Self> {
        let inner = Self::connect(servers, table, false).await?;
        let holder = match proxy {
            Some(proxy) => Some(inner.take_name(proxy).await?),
            None => None,
        };
        Ok(MysqlStore { inner, name: Mutex::new(holder) })
    }

    /// To read only: nothing is made or written, not even a record of which server is the primary. A table that is not there is
    /// an error.
    pub async fn look(servers: Vec<Server>, table: &Table) -> Result<Self> {
        Ok(MysqlStore { inner: Self::connect(servers, table, true).await?, name: Mutex::new(None) })
    }

    async fn connect(servers: Vec<Server>, table: &Table, only_reads: bool) -> Result<Arc<Inner>> {
        let leaf = table.is_leafs().then(|| Leaf::new(table.quoted()));
        let name = format!("mysql, table {}.{}", table.schema, table.name);
        let own = table.own().quoted();
        let connection = Connection::new(servers, name, &own, only_reads);
        let inner = Arc::new(Inner { connection, own, leaf });
        let end = Instant::now() + OPEN_DEADLINE;
        loop {
            let prepared = timeout(OPEN_DEADLINE, inner.prepare()).await;
            match prepared
                .unwrap_or_else(|_| Err(inner.connection.away(format!("no answer within {OPEN_DEADLINE:?}"))))
            {
                Ok(()) => break,
                // A failover takes a while.
                Err(error) if inner.connection.may_move() && error.passes() && Instant::now() < end => {
                    sleep(OPEN_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(inner)
    }
}

impl Inner {
    async fn prepare(&self) -> Result<()> {
        let create = create(&self.own);
        let own = self.own.clone();
        self.connection
            .read(async |conn| {
                // An account that may not create tables can use a table that somebody else has made.
                match conn.query_drop(format!("SELECT 1 FROM {own} LIMIT 0")).await {
                    Err(mysql_async::Error::Server(error))
                        if error.code == NO_SUCH_TABLE && !self.connection.only_reads =>
                    {
                        conn.query_drop(&create).await
                    }
                    found => found,
                }
            })
            .await?;
        if let Some(leaf) = &self.leaf {
            leaf.check(&self.connection).await?;
        }
        self.warn_of_durability().await?;
        self.settle_format().await
    }

    async fn warn_of_durability(&self) -> Result<()> {
        let sql = "SELECT @@innodb_flush_log_at_trx_commit";
        let flush: Option<u64> = self.connection.read(async |conn| conn.query_first(sql).await).await?;
        if flush != Some(1) {
            tracing::warn!(
                innodb_flush_log_at_trx_commit = flush,
                "a crash of the store's server can lose bounds, and ids can then come twice; set innodb_flush_log_at_trx_commit to 1"
            );
        }
        Ok(())
    }

    async fn settle_format(&self) -> Result<()> {
        let key = Key::format();
        if let Some(found) = self.load_own(&key).await? {
            return check_format(&found.value);
        }
        if self.connection.only_reads {
            return Ok(());
        }
        match self.compare_and_set(&key, None, &encode_format()).await? {
            Outcome::Written(_) | Outcome::Conflict(None) => Ok(()),
            Outcome::Conflict(Some(found)) => check_format(&found.value),
        }
    }

    /// Leaf's row, of a generator's key.
    fn leaf_of<'a>(&'a self, key: &'a Key) -> Option<(&'a Leaf, &'a str)> {
        let leaf = self.leaf.as_ref()?;
        Some((leaf, leaf::tag(key.as_str().strip_prefix(Key::GENERATORS)?)))
    }

    async fn load_own(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let sql = format!("SELECT revision, value FROM {} WHERE name = ?", self.own);
        let found: Option<(u64, Vec<u8>)> = self
            .connection
            .read(async |conn| conn.query_first(with_values(&sql, (key.as_str().as_bytes(),))).await)
            .await?;
        Ok(found.map(|(revision, value)| Versioned { revision: Revision(revision), value }))
    }

    async fn set_own(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Option<Revision>> {
        let name = key.as_str().as_bytes();
        let Some(Revision(expected)) = expected else {
            let sql = format!("INSERT INTO {} (name, revision, value) VALUES (?, ?, ?)", self.own);
            let revision = first_revision();
            let rows = self.connection.write(key, &sql, (name, revision, value).into()).await?;
            return Ok(rows.map(|_| Revision(revision)));
        };
        let sql = format!(
            "UPDATE {} SET value = ?, revision = revision + 1 WHERE name = ? AND revision = ?",
            self.own
        );
        let rows = self.connection.write(key, &sql, (value, name, expected).into()).await?;
        Ok((rows == Some(1)).then_some(Revision(expected + 1)))
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        self.inner.load(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        self.inner.list(prefix).await
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        self.inner.compare_and_set(key, expected, value).await
    }

    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        self.inner.write_all(writes).await
    }

    async fn close(&self) {
        let holder = self.name.lock().take();
        drop(holder);
    }
}

impl Inner {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        match self.leaf_of(key) {
            Some((leaf, tag)) => leaf.load(&self.connection, tag).await,
            None => self.load_own(key).await,
        }
    }

    /// Lists only those proxies that live.
    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let sql = format!(
            "SELECT name, revision, value FROM {} WHERE name >= ? AND LEFT(name, ?) = ? \
             AND (LEFT(name, {}) <> '{}' OR {}) ORDER BY name",
            self.own,
            Key::PROXIES.len(),
            Key::PROXIES,
            self.is_live()
        );
        let bytes = prefix.as_bytes();
        let rows: Vec<(Vec<u8>, u64, Vec<u8>)> = self
            .connection
            .read(async |conn| conn.query(with_values(&sql, (bytes, bytes.len(), bytes))).await)
            .await?;
        let mut found = Vec::with_capacity(rows.len());
        for (name, revision, value) in rows {
            let name = String::from_utf8(name).map_err(|error| StoreError::Corrupt {
                place: format!("a name in table {}", self.own),
                reason: error.to_string(),
            })?;
            found.push((Key(name), Versioned { revision: Revision(revision), value }));
        }
        if let Some(leaf) = &self.leaf {
            found.extend(leaf.list(&self.connection, prefix).await?);
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(found)
    }

    /// A statement for new records writes all of them or, where one is there, none. Leaf's rows are not written here.
    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let is_own = |one: &&Write| self.leaf_of(&one.key).is_none();
        let mut written = Vec::with_capacity(writes.len());
        for writes in statements(writes) {
            let own = writes.iter().filter(is_own);
            let (new, old): (Vec<&Write>, Vec<&Write>) = own.partition(|one| one.expected.is_none());
            let (created, replaced) = (self.create_all(&new).await?, self.replace_all(&old).await?);
            let is_written =
                |one: &Write| is_own(&one) && if one.expected.is_none() { created } else { replaced };
            written.extend(writes.iter().map(is_written));
        }
        Ok(written)
    }

    /// False: none was written.
    async fn create_all(&self, new: &[&Write]) -> Result<bool> {
        let Some(first) = new.first() else { return Ok(false) };
        let places = vec!["(?, ?, ?)"; new.len()].join(", ");
        let sql = format!("INSERT INTO {} (name, revision, value) VALUES {places}", self.own);
        let revision = first_revision();
        let values = new.iter().flat_map(|one| [name_of(one), revision.into(), one.value.as_slice().into()]);
        let values: Vec<mysql_async::Value> = values.collect();
        Ok(self.connection.write(&first.key, &sql, values.into()).await?.is_some())
    }

    /// False: at least one was not written.
    async fn replace_all(&self, old: &[&Write]) -> Result<bool> {
        let Some(first) = old.first() else { return Ok(false) };
        let case = format!("CASE name{} END", " WHEN ? THEN ?".repeat(old.len()));
        let sql = format!(
            "UPDATE {} SET value = {case}, revision = revision + 1 WHERE name IN ({}) AND revision = {case}",
            self.own,
            vec!["?"; old.len()].join(", ")
        );
        let values = old.iter().flat_map(|one| [name_of(one), one.value.as_slice().into()]);
        let names = old.iter().map(|one| name_of(one));
        let revisions = old.iter().flat_map(|one| [name_of(one), one.expected.map_or(0, |at| at.0).into()]);
        let values: Vec<mysql_async::Value> = values.chain(names).chain(revisions).collect();
        let rows = self.connection.write(&first.key, &sql, values.into()).await?;
        Ok(rows.is_some_and(|rows| usize::try_from(rows) == Ok(old.len())))
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        let written = match self.leaf_of(key) {
            Some((leaf, tag)) => leaf.set(&self.connection, key, tag, expected, value).await?,
            None => self.set_own(key, expected, value).await?,
        };
        Ok(match written {
            Some(revision) => Outcome::Written(revision),
            None => Outcome::Conflict(self.load(key).await?),
        })
    }
}

/// The records of one statement each.
fn statements(mut writes: &[Write]) -> impl Iterator<Item = &[Write]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = writes.iter().take(RECORDS_PER_STATEMENT).take_while(|one| {
            bytes += NAMES_PER_RECORD * one.key.as_str().len() + one.value.len();
            bytes <= BYTES_PER_STATEMENT
        });
        let (now, later) = writes.split_at(fitting.count().max(1).min(writes.len()));
        writes = later;
        (!now.is_empty()).then_some(now)
    })
}

fn name_of(write: &Write) -> mysql_async::Value {
    write.key.as_str().as_bytes().into()
}

/// A revision above that of any record of this name that was there before, unless the clock went back meanwhile.
fn first_revision() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::{BYTES_PER_STATEMENT, RECORDS_PER_STATEMENT, statements};
    use crate::store::{Key, Write};

    #[test]
    fn records_of_one_statement() {
        let write =
            |bytes: usize| Write { key: Key::generator("s.g"), expected: None, value: vec![b' '; bytes] };
        let long = BYTES_PER_STATEMENT / 3;
        for (bytes, expect) in [
            (vec![], vec![]),
            (vec![9; RECORDS_PER_STATEMENT + 2], vec![RECORDS_PER_STATEMENT, 2]),
            (vec![long; 5], vec![2, 2, 1]),
            (vec![9, BYTES_PER_STATEMENT, 9], vec![1, 1, 1]),
        ] {
            let writes: Vec<Write> = bytes.iter().copied().map(write).collect();
            let found: Vec<usize> = statements(&writes).map(<[Write]>::len).collect();
            assert_eq!(found, expect);
        }
    }
}
