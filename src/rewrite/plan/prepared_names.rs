//! The statements that SQL's PREPARE names, and what only the session can say of the text in a variable.

use std::sync::Arc;

use crate::rewrite::plan::PreparedText;
use crate::sql::dialect::Dialect;

/// A statement that PREPARE gave a name. It is planned again at each EXECUTE, under what it was
/// read in, and must come out as it was sent.
#[derive(Debug, PartialEq)]
pub struct NamedStatement {
    /// The client's own text.
    pub source: Vec<u8>,
    pub dialect: Dialect,
    pub(in crate::rewrite) database: Database,
    /// The collation of its literals, if it `is_staged`.
    pub(in crate::rewrite) collation: String,
    /// The text with parameters of ours. `None`: the text was sent as it came, or `is_staged`.
    pub(in crate::rewrite) sent: Option<PreparedText>,
    /// The statement goes by way of a stage. The server has another statement by its name, which does nothing.
    pub(in crate::rewrite) is_staged: bool,
}

/// The default database that a text is read in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    None,
    Is(String),
    /// A statement before it in its packet may have changed it, or a log does not tell it.
    Unknown,
}

/// The session's knowledge of a name. Letter case does not count.
#[derive(Debug, Clone)]
pub enum NameMeaning {
    /// Nobody prepared it, or it was deallocated.
    Unknown,
    /// A routine may have prepared it.
    Unseen,
    Is(Arc<NamedStatement>),
    /// A routine that ran since, or a packet that failed half-way, may have prepared something
    /// else.
    Perhaps(Arc<NamedStatement>),
    /// A packet that failed half-way prepared it, or it was prepared before its table had a rule.
    Lost,
}

#[derive(Debug, Clone)]
pub enum NamedChange {
    Prepared(String, Arc<NamedStatement>),
    /// Deallocated, or it could not be prepared.
    Dropped(String),
}

impl NamedChange {
    pub fn name(&self) -> &str {
        match self {
            NamedChange::Prepared(name, _) | NamedChange::Dropped(name) => name,
        }
    }
}

/// The server's answer to a `question`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    NotAsked,
    Null,
    Text(String),
    /// Too long, or in no form that can be read.
    Unknown,
    /// The server's error packet.
    Failed(Vec<u8>),
}

/// The facts that only the session knows.
pub trait SessionFacts {
    fn prepared(&self, name: &str) -> NameMeaning;
    fn value(&self, question: &[u8]) -> Value;

    /// `collation_connection`. `None`: it is to be read again.
    fn collation(&self) -> Option<&str> {
        Some("")
    }

    /// True if LAST_INSERT_ID() may be in a text: MySQL Router refuses it (3566) where sessions
    /// share connections.
    fn takes_last_insert_id(&self) -> bool {
        true
    }
}

/// A session that has prepared nothing and asked nothing.
pub struct Fresh;

impl SessionFacts for Fresh {
    fn prepared(&self, _: &str) -> NameMeaning {
        NameMeaning::Unknown
    }

    fn value(&self, _: &[u8]) -> Value {
        Value::NotAsked
    }
}

/// The most bytes, in UTF-8, of a text that the server is asked for. Its answer, twice as long, must fit into a
/// packet that is read whole (2 MiB).
const TEXT_BYTES_MAX: u32 = 1_000_000;

/// Asks for an expression as [`question`] does, where EXECUTE IMMEDIATE evaluates it: the server
/// takes no stored functions and no subqueries there, so that nothing runs that would not run
/// without us. MariaDB only.
pub(in crate::rewrite) fn question_at_execute(expression: &[u8]) -> Vec<u8> {
    let mut sql = format!(
        "EXECUTE IMMEDIATE 'SELECT a IS NULL,IF(LENGTH(CONVERT(a USING utf8mb4))>{TEXT_BYTES_MAX},''-'',\
         HEX(CONVERT(a USING utf8mb4)))FROM(SELECT ? AS a)AS x LIMIT 1' USING "
    )
    .into_bytes();
    sql.extend_from_slice(expression);
    sql
}

/// Asks for an expression: a row of two. The first is 1 where it is NULL, the second its text in
/// UTF-8 in hexadecimal digits, or `-` where that is too long.
pub(in crate::rewrite) fn question(expression: &[u8]) -> Vec<u8> {
    let mut sql = b"SELECT (".to_vec();
    sql.extend_from_slice(expression);
    sql.extend_from_slice(b") IS NULL,IF(LENGTH(CONVERT(");
    sql.extend_from_slice(expression);
    sql.extend_from_slice(format!(" USING utf8mb4))>{TEXT_BYTES_MAX},'-',HEX(CONVERT(").as_bytes());
    sql.extend_from_slice(expression);
    sql.extend_from_slice(b" USING utf8mb4))) LIMIT 1");
    sql
}
