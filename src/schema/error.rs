//! Why the live tables cannot be read: who is at fault, and what to do.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "the control account {user:?} cannot connect: {error}; check [backend.control] and the account's rights"
    )]
    Connect { user: String, error: String },
    /// It is not the account's fault.
    #[error("the server at {address} {why}")]
    Unreachable { address: String, why: String },
    /// Of several servers.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; and "))]
    Nowhere(Vec<SchemaError>),
    #[error("a query of the control account failed: {0}")]
    Query(#[from] mysql_async::Error),
    #[error("the backend did not answer the control account within {0:?}")]
    Timeout(Duration),
    #[error(
        "{table} is locked, and Rowstamp must read its highest id before the first INSERT; run UNLOCK TABLES, or wait until \
         its DDL has ended, and try again"
    )]
    Locked { table: String },
}
