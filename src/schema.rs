//! The live tables, read through the control account: columns, the ids that are already there,
//! names.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use self::account::Account;
use crate::ids::layout::Moment;
use crate::table_name::NameCase;
use crate::text_query::with_values;

mod account;
mod counters;
mod error;
pub mod facts;
mod ids;
mod keys;
mod live;
mod primary;
mod servers;
mod views;

pub use crate::role::Role;
pub use account::{Control, Way};
pub use counters::{Counter, Fired, IdColumn, InsertTrigger, ServerConnection, Tally};
pub use error::SchemaError;
use ids::as_highest;
pub use ids::{AskedHighest, BINDING_LOCK_SECONDS, HIGHEST_PER_QUERY, highest_query, smallest_query};
pub use keys::WholeKey;
pub use live::{LiveTable, RuledNames, RuledTables, TABLES_PER_READING, TableKind};
pub use servers::{ConnectFailure, Primary, SeenServer};
pub use views::{ViewSigns, ViewText};

/// The control account, and its connections.
#[derive(Debug, Clone)]
pub struct Schema {
    account: Account,
    timeout: Duration,
}

/// Tables that are read by one query.
const TABLES_PER_QUERY: usize = 32;

/// One query of the control account takes at most so long.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

impl Schema {
    /// Connects once, so that a wrong password shows at the start. Needs a Tokio runtime, which it
    /// uses until it is dropped.
    pub async fn connect(control: &Control) -> Result<Schema, SchemaError> {
        let account = Account::open(control, QUERY_TIMEOUT).await?;
        primary::watch(account.inner()).await;
        Ok(Schema { account, timeout: QUERY_TIMEOUT })
    }

    async fn conn(&self) -> Result<Conn, SchemaError> {
        self.account.connection(self.timeout).await
    }

    /// A connection of one's own: for locks, which belong to their connection.
    pub async fn own_connection(&self, limit: Duration) -> Result<Conn, SchemaError> {
        self.account.own_connection(limit).await
    }

    /// True if `backend.address` names several: a task then asks all of them which one takes writes.
    pub fn has_several_servers(&self) -> bool {
        self.account.inner().addresses().nth(1).is_some()
    }

    /// The address that is connected to first.
    pub fn primary(&self) -> &Primary {
        self.account.primary()
    }

    async fn rows(&self, sql: &str, params: Vec<mysql_async::Value>) -> Result<Vec<Row>, SchemaError> {
        let mut conn = self.conn().await?;
        within(self.timeout, conn.query(with_values(sql, params))).await
    }

    /// `lower_case_table_names`
    pub async fn name_case(&self) -> Result<NameCase, SchemaError> {
        let rows = self.rows("SELECT @@lower_case_table_names", vec![]).await?;
        let folds = rows.first().and_then(|row| number(row, 0));
        Ok(if folds == Some(0) { NameCase::Sensitive } else { NameCase::Insensitive })
    }

    /// The server's version, as `SELECT VERSION()` shows it.
    pub async fn version(&self) -> Result<String, SchemaError> {
        let rows = self.rows("SELECT VERSION()", vec![]).await?;
        Ok(rows.first().and_then(|row| text(row, 0)).unwrap_or_default())
    }

    /// Accounts that MySQL lets in over a Unix socket where an OS user of another name connects, by
    /// their names. MariaDB has none.
    pub async fn socket_users(&self, os_user: &str) -> Result<Vec<String>, SchemaError> {
        if self.version().await?.contains("MariaDB") {
            return Ok(Vec::new());
        }
        let sql = "SELECT DISTINCT user FROM mysql.user WHERE plugin = 'auth_socket' AND authentication_string = ? ORDER BY user";
        let rows = self.rows(sql, vec![os_user.into()]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    /// The time of the server's clock.
    pub async fn clock(&self) -> Result<Moment, SchemaError> {
        let sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        let rows = self.rows(sql, vec![]).await?;
        let micros = rows.first().and_then(|row| number(row, 0));
        Ok(Moment::from_micros(micros.unwrap_or_default()))
    }

    /// `user@host`, as the server takes this account.
    pub async fn account(&self) -> Result<String, SchemaError> {
        let rows = self.rows("SELECT CURRENT_USER()", vec![]).await?;
        Ok(rows.first().and_then(|row| text(row, 0)).unwrap_or_default())
    }

    /// True if the account lacks a right that the statement needs: the server prepares the statement, and nothing runs.
    pub async fn is_denied(&self, statement: &str) -> Result<bool, SchemaError> {
        let mut conn = self.conn().await?;
        let prepared = within(self.timeout, async {
            let statement = conn.prep(statement).await?;
            conn.close(statement).await
        });
        match prepared.await {
            Ok(()) => Ok(false),
            // Another error, of a table that is not there, comes after the look at the rights.
            Err(error @ SchemaError::Query(mysql_async::Error::Server(_))) => Ok(error.is_denied()),
            Err(error) => Err(error),
        }
    }

    /// True if the server takes no writes, from most of its users at least.
    pub async fn is_read_only(&self) -> Result<bool, SchemaError> {
        let rows = self.rows("SELECT @@global.read_only", vec![]).await?;
        Ok(rows.first().and_then(|row| number(row, 0)) != Some(0))
    }
}

/// The answer, unless it takes longer.
async fn within<T, E>(limit: Duration, answer: impl Future<Output = Result<T, E>>) -> Result<T, SchemaError>
where
    SchemaError: From<E>,
{
    Ok(tokio::time::timeout(limit, answer).await.map_err(|_| SchemaError::Timeout(limit))??)
}

fn text(row: &Row, at: usize) -> Option<String> {
    row.get_opt::<String, _>(at)?.ok()
}

fn number(row: &Row, at: usize) -> Option<u64> {
    row.get_opt::<u64, _>(at)?.ok()
}
