//! The slow query log: lines of `# ` that tell of a statement, `use ...;`, `SET timestamp=...;`, and the statement, up to the next such
//! line. Sources: <https://dev.mysql.com/doc/refman/8.4/en/slow-query-log.html>, <https://mariadb.com/kb/en/slow-query-log-overview/>.
//!
//! `use` stands where an entry's database is another than that of the last `use` in the file, of any session, and after each banner
//! (`File_query_log::db` in <https://github.com/mysql/mysql-server/blob/8.4/sql/log.cc>, `MYSQL_QUERY_LOG::db` in
//! <https://github.com/MariaDB/server/blob/11.4/sql/log.cc>; measured on both). So an entry without it has the file's last one, or none:
//! then a name without a database was an error. MariaDB says of each entry which it was (`Schema: `).

use crate::querylog::entry::{Entry, EntryKind};

#[derive(Default)]
pub(crate) struct Slow {
    place: Place,
    connection: Option<u64>,
    /// The database that the file named last, if it is known.
    database: Option<String>,
    /// True if `database` is known. A database that was named before the part that is read is not.
    knows_database: bool,
    in_routine: bool,
    line: u64,
    text: Vec<u8>,
    is_cut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Before the first entry.
    #[default]
    Outside,
    Header,
    Statement,
}

impl Slow {
    /// True if an entry begins with this line.
    pub(crate) fn is_header(line: &[u8]) -> bool {
        [&b"# Time: "[..], b"# User@Host: ", b"# Thread_id: "].iter().any(|start| line.starts_with(start))
    }

    /// Reads a line. Gives the entries that end in front of it or with it, and `true` if it belongs to an entry.
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        number: u64,
        is_cut: bool,
        bytes_max: usize,
    ) -> (Vec<Entry>, bool) {
        let mut ended = Vec::new();
        if Self::is_header(line) {
            if self.place == Place::Statement {
                ended = self.end();
            }
            self.place = Place::Header;
        }
        match self.place {
            Place::Outside => return (ended, false),
            Place::Header => ended.extend(self.header(line, number, is_cut || line.len() > bytes_max)),
            Place::Statement if self.text.len() + line.len() >= bytes_max => self.is_cut = true,
            Place::Statement => {
                self.text.push(b'\n');
                self.text.extend_from_slice(line);
                self.is_cut |= is_cut;
            }
        }
        (ended, true)
    }

    /// A banner says that the server has started. Until a `use` comes, entries have no database.
    pub(crate) fn starts_again(&mut self) {
        (self.database, self.knows_database) = (None, true);
    }

    /// An administrator's command, which has no statement.
    fn header(&mut self, line: &[u8], number: u64, is_cut: bool) -> Option<Entry> {
        if line.starts_with(b"# User@Host: ") {
            self.connection = word_behind(line, "Id:").and_then(|id| id.parse().ok());
            self.in_routine = false;
        } else if line.starts_with(b"# Thread_id: ") {
            self.connection = word_behind(line, "Thread_id:").and_then(|id| id.parse().ok());
            // Two blanks follow each value, also an empty one.
            let line = String::from_utf8_lossy(line);
            let schema = line.split_once("Schema: ").map(|(_, rest)| rest.split("  ").next().unwrap_or(rest));
            if let Some(schema) = schema {
                self.database = Some(schema.to_owned()).filter(|schema| !schema.is_empty());
                self.knows_database = true;
            }
        } else if line.starts_with(b"# Stored_routine: ") {
            self.in_routine = true;
        } else if let Some(command) = line.strip_prefix(b"# administrator command: ") {
            let what = match command {
                b"Quit;" => EntryKind::Quit,
                b"Reset Connection;" | b"Change user;" => EntryKind::Reset,
                _ => return None,
            };
            return Some(Entry { connection: self.connection, line: number, what });
        } else if line.starts_with(b"#") {
            // About time and rows.
        } else if let Some(name) = used(line) {
            (self.database, self.knows_database) = (Some(name), true);
        } else if !is_timestamp(line) {
            self.place = Place::Statement;
            self.line = number;
            self.text.extend_from_slice(line);
            self.is_cut = is_cut;
        }
        None
    }

    /// The statement as far as it was read, and its database in front of it.
    pub(crate) fn end(&mut self) -> Vec<Entry> {
        let was = std::mem::take(&mut self.place);
        let mut text = std::mem::take(&mut self.text);
        if was != Place::Statement {
            return Vec::new();
        }
        // The server's own.
        if text.last() == Some(&b';') {
            text.pop();
        }
        let what = match () {
            () if std::mem::take(&mut self.in_routine) => EntryKind::InRoutine,
            () if self.is_cut => EntryKind::TooLong,
            () => EntryKind::Query(text),
        };
        let entry = |what| Entry { connection: self.connection, line: self.line, what };
        let database = self.knows_database.then(|| entry(EntryKind::Database(self.database.clone())));
        database.into_iter().chain([entry(what)]).collect()
    }
}

fn word_behind<'a>(line: &'a [u8], word: &str) -> Option<&'a str> {
    let line = std::str::from_utf8(line).ok()?;
    line.rsplit_once(word)?.1.split_ascii_whitespace().next()
}

/// `use shop;`
fn used(line: &[u8]) -> Option<String> {
    let name = line.strip_prefix(b"use ")?.strip_suffix(b";")?;
    let name = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name);
    Some(String::from_utf8_lossy(name).replace("``", "`"))
}

/// `SET timestamp=1700000000;`, `SET last_insert_id=1,insert_id=2,timestamp=1700000000;`
fn is_timestamp(line: &[u8]) -> bool {
    line.starts_with(b"SET ") && memchr::memmem::find(line, b"timestamp=").is_some() && line.ends_with(b";")
}
