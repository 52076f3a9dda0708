//! The general query log: `time`, a tab, the connection's number, a command, a tab, its argument; lines without the first belong to the
//! argument before them. MySQL writes the time in every entry, MariaDB where the second has changed. Sources:
//! <https://dev.mysql.com/doc/refman/8.4/en/query-log.html>, <https://mariadb.com/kb/en/general-query-log/>.

use crate::querylog::entry::{Entry, EntryKind};

/// The names of the servers' commands: `Command_names` in <https://github.com/mysql/mysql-server/blob/8.4/sql/sql_parse.cc>,
/// `command_name` in <https://github.com/MariaDB/server/blob/11.4/sql/sql_parse.cc>.
const COMMANDS: &str = "Query, Execute, Prepare, Close stmt, Reset stmt, Long Data, Fetch, Bulk_execute, \
    Connect, Quit, Change user, Init DB, Reset Connection, Ping, Set option, Statistics, \
    Binlog Dump, Binlog Dump GTID, Clone, Com_multi, Connect Out, Create DB, Daemon, Debug, \
    Delayed insert, Drop DB, Error, Field List, Kill, Processlist, Refresh, Register Replica, \
    Register Slave, Shutdown, Slave_IO, Slave_SQL, Slave_worker, Sleep, Table Dump, Time, \
    Unimpl get tid";

/// `2026-11-22T21:48:05.123456Z`, or `261122 21:48:05` with a blank for an hour's leading zero.
fn is_time(time: &[u8]) -> bool {
    let fits = |pattern: &str| {
        time.len() >= pattern.len()
            && time.iter().zip(pattern.bytes()).all(|(&byte, expected)| match expected {
                b'0' => byte.is_ascii_digit(),
                b'_' => byte.is_ascii_digit() || byte == b' ',
                other => byte == other,
            })
    };
    fits("0000-00-00T00:00:00") || fits("000000 _0:00:00")
}

/// An entry that the next lines may go on with.
pub(crate) struct Open {
    connection: u64,
    command: &'static str,
    line: u64,
    argument: Vec<u8>,
    is_cut: bool,
}

impl Open {
    /// The beginning of an entry, if its line, `text`, is one.
    pub(crate) fn start(text: &[u8], line: u64, is_cut: bool, bytes_max: usize) -> Option<Open> {
        let rest = if let Some(rest) = text.strip_prefix(b"\t\t") {
            rest
        } else {
            let tab = memchr::memchr(b'\t', text.get(..64.min(text.len()))?)?;
            let (time, rest) = text.split_at_checked(tab)?;
            is_time(time).then_some(rest.get(1..)?)?
        };
        let rest = rest.trim_ascii_start();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = rest.split_at_checked(digits)?;
        let connection = std::str::from_utf8(number).ok()?.parse().ok()?;
        let rest = rest.strip_prefix(b" ")?.trim_ascii_start();
        let tab = memchr::memchr(b'\t', rest).unwrap_or(rest.len());
        let (name, argument) = rest.split_at_checked(tab)?;
        let name = name.trim_ascii_end();
        let command = COMMANDS.split(", ").find(|command| command.as_bytes().eq_ignore_ascii_case(name))?;
        let argument = argument.get(1..).unwrap_or_default().to_vec();
        let is_cut = is_cut || argument.len() > bytes_max;
        Some(Open { connection, command, line, argument, is_cut })
    }

    pub(crate) fn goes_on(&mut self, line: &[u8], is_cut: bool, bytes_max: usize) {
        if self.argument.len() + line.len() >= bytes_max {
            self.is_cut = true;
            return;
        }
        self.argument.push(b'\n');
        self.argument.extend_from_slice(line);
        self.is_cut |= is_cut;
    }

    pub(crate) fn entry(self) -> Entry {
        let Open { connection, command, line, argument, is_cut } = self;
        let what = match command {
            "Query" | "Prepare" | "Execute" | "Bulk_execute" if is_cut => EntryKind::TooLong,
            "Query" => EntryKind::Query(argument),
            "Prepare" => EntryKind::Prepare(argument),
            "Execute" | "Bulk_execute" => EntryKind::Execute(argument),
            "Connect" | "Change user" => EntryKind::Connect { database: database_of(&argument) },
            "Reset Connection" => EntryKind::Reset,
            "Init DB" => EntryKind::Database(Some(String::from_utf8_lossy(&argument).into_owned())),
            "Quit" => EntryKind::Quit,
            _ => EntryKind::Other,
        };
        Entry { connection: Some(connection), line, what }
    }
}

/// `root@localhost on shop using Socket`; without a database two blanks stand where it would.
fn database_of(argument: &[u8]) -> Option<String> {
    let argument = String::from_utf8_lossy(argument);
    let (_, behind) = argument.split_once(" on ")?;
    let database = behind.rsplit_once(" using ").map_or(behind, |(database, _)| database).trim();
    (!database.is_empty() && !behind.starts_with("using ")).then(|| database.to_owned())
}
