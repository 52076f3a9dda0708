//! An entry of a log: one action of a connection.

#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// `None`: the log does not say.
    pub connection: Option<u64>,
    /// The line that it begins in, counted from 1.
    pub line: u64,
    pub what: EntryKind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The server started, or began a new file (FLUSH LOGS, in the midst of its connections): its
    /// version, as `SELECT VERSION()` shows it.
    Starts {
        version: String,
        /// A number that is used again has a login before it, if it is another connection's.
        shows_logins: bool,
    },
    /// A login, or COM_CHANGE_USER: the session is a new one, with this default database.
    Connect {
        database: Option<String>,
    },
    /// COM_RESET_CONNECTION: a new one with the default database of before (measured on both
    /// servers).
    Reset,
    /// The default database, or that there is none.
    Database(Option<String>),
    /// COM_QUERY.
    Query(Vec<u8>),
    /// COM_STMT_PREPARE, or what SQL's PREPARE prepares.
    Prepare(Vec<u8>),
    /// An execution of either, with the values in the place of its parameters.
    Execute(Vec<u8>),
    /// Too long to be kept.
    TooLong,
    /// A statement that a stored routine ran. MariaDB's slow log has them, if the server is set so.
    InRoutine,
    Quit,
    /// An entry without a statement.
    Other,
}
