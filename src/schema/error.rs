//! Why the live tables cannot be read: who is at fault, and what to do.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "the control account {user:?} cannot connect: {error}; correct user and password in [backend.control], or the account on the server"
    )]
    Connect { user: String, error: String },
    /// The server cannot be reached or cannot be used. The account is not at fault.
    #[error("the server at {address} {why}")]
    Unreachable { address: String, why: String },
    /// None of several servers can be used. One error for each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; and "))]
    Nowhere(Vec<SchemaError>),
    // Not its source too: a chain of errors would print the server's text twice.
    #[error("a query of the control account failed: {0}")]
    Query(mysql_async::Error),
    #[error("the backend did not answer the control account within {0:?}")]
    Timeout(Duration),
    #[error(
        "{table} is locked (LOCK TABLES or DDL), and Rowstamp must read its highest id before the first INSERT; try again after \
         UNLOCK TABLES, or when the DDL has ended"
    )]
    Locked { table: String },
}

impl From<mysql_async::Error> for SchemaError {
    fn from(error: mysql_async::Error) -> Self {
        SchemaError::Query(error)
    }
}

/// `ER_LOCK_WAIT_TIMEOUT`
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_BAD_DB_ERROR`, `ER_BAD_FIELD_ERROR`, `ER_NO_SUCH_TABLE`
const GONE: [u16; 3] = [1049, 1054, 1146];
/// `ER_DBACCESS_DENIED_ERROR`, `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`
const NOT_READABLE: [u16; 3] = [1044, 1142, 1143];

impl SchemaError {
    /// True if the query waited in vain for a lock on the table: LOCK TABLES, or DDL.
    pub fn waits_for_lock(&self) -> bool {
        matches!(self, SchemaError::Query(mysql_async::Error::Server(error)) if error.code == LOCK_WAIT_TIMEOUT)
    }

    /// True if the query waited in vain for a lock on the table, or the error is [`SchemaError::Locked`] already.
    pub fn is_locked(&self) -> bool {
        self.waits_for_lock() || matches!(self, SchemaError::Locked { .. })
    }

    /// True if the database, the table or the column is not there.
    pub fn is_gone(&self) -> bool {
        matches!(self, SchemaError::Query(mysql_async::Error::Server(error)) if GONE.contains(&error.code))
    }

    /// True if the account lacks a right: on the database, the table, or a column.
    pub fn is_denied(&self) -> bool {
        matches!(self, SchemaError::Query(mysql_async::Error::Server(error)) if NOT_READABLE.contains(&error.code))
    }
}
