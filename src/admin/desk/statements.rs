//! Statements as operators see them: without their values.

use std::time::SystemTime;

/// A session's last statement that was given ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRow {
    /// The digest, as in [`RefusedRow::digest`]. `None`: its text is not known.
    pub digest: Option<String>,
    /// Without its values.
    pub statement: String,
}

/// Statements that differ in their values alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// The digest's hash, as `log.audit` and `explain` have it.
    pub digest: String,
    /// Without its values; empty where its text is not known any more.
    pub statement: String,
    /// The error text that the last client got.
    pub why: String,
    pub count: u64,
    /// Whose the last one was.
    pub user: String,
    pub last: SystemTime,
}
