//! The facts that decide how the server reads a statement's bytes: its kind and version, `sql_mode`, `character_set_client`.

use std::borrow::Cow;

use super::letters::Letters;

/// MySQL, or what is compatible with it, or MariaDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    MySql,
    MariaDb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    pub kind: ServerKind,
    /// The version as version comments write it: 101106 is 10.11.6, 90400 is 9.4.0.
    pub version: u32,
}

impl Server {
    /// From the greeting's version string: "5.5.5-10.11.19-MariaDB-0+deb12u1", "11.8.3-MariaDB",
    /// "9.4.0".
    pub fn parse(greeting: &str) -> Option<Server> {
        let kind = if greeting.contains("MariaDB") { ServerKind::MariaDb } else { ServerKind::MySql };
        // MariaDB 10 puts "5.5.5-" in front for old replicas.
        let text = match kind {
            ServerKind::MariaDb => greeting.strip_prefix("5.5.5-").unwrap_or(greeting),
            ServerKind::MySql => greeting,
        };
        let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
        let version = major.checked_mul(10_000)?.checked_add(minor.checked_mul(100)?)?.checked_add(patch)?;
        Some(Server { kind, version })
    }
}

/// The modes that matter to who reads or fills an INSERT, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqlMode(u16);

impl SqlMode {
    pub const NONE: SqlMode = SqlMode(0);
    pub const ANSI_QUOTES: SqlMode = SqlMode(1);
    pub const NO_BACKSLASH_ESCAPES: SqlMode = SqlMode(2);
    pub const NO_AUTO_VALUE_ON_ZERO: SqlMode = SqlMode(4);
    pub const IGNORE_SPACE: SqlMode = SqlMode(8);
    /// MariaDB reads statements with another grammar.
    pub const ORACLE: SqlMode = SqlMode(16);
    /// A value that a column cannot hold is an error; in a table without transactions in the first row only.
    pub const STRICT_TRANS_TABLES: SqlMode = SqlMode(32);
    pub const STRICT_ALL_TABLES: SqlMode = SqlMode(64);
    /// MariaDB: '' is NULL.
    pub const EMPTY_STRING_IS_NULL: SqlMode = SqlMode(128);
    /// The modes from here on change what an expression means. A prepared statement keeps its meaning when they change.
    pub const PIPES_AS_CONCAT: SqlMode = SqlMode(256);
    pub const HIGH_NOT_PRECEDENCE: SqlMode = SqlMode(512);
    pub const REAL_AS_FLOAT: SqlMode = SqlMode(1024);

    /// From the text of `@@sql_mode` or of a `SET sql_mode='...'`. Modes without a meaning here are
    /// left out. Combinations are expanded as the server does (manual, "Server SQL Modes",
    /// "Combination SQL Modes").
    pub fn parse(text: &str) -> SqlMode {
        text.split(',').map(|mode| SqlMode::one(mode.trim())).fold(SqlMode::NONE, SqlMode::union)
    }

    fn one(mode: &str) -> SqlMode {
        let combined = SqlMode::ANSI_QUOTES.union(SqlMode::IGNORE_SPACE).union(SqlMode::PIPES_AS_CONCAT);
        match mode.to_ascii_uppercase().as_str() {
            "ANSI_QUOTES" => SqlMode::ANSI_QUOTES,
            "NO_BACKSLASH_ESCAPES" => SqlMode::NO_BACKSLASH_ESCAPES,
            "NO_AUTO_VALUE_ON_ZERO" => SqlMode::NO_AUTO_VALUE_ON_ZERO,
            "IGNORE_SPACE" => SqlMode::IGNORE_SPACE,
            "PIPES_AS_CONCAT" => SqlMode::PIPES_AS_CONCAT,
            "REAL_AS_FLOAT" => SqlMode::REAL_AS_FLOAT,
            "ANSI" => combined.union(SqlMode::REAL_AS_FLOAT),
            "HIGH_NOT_PRECEDENCE" | "MYSQL323" | "MYSQL40" => SqlMode::HIGH_NOT_PRECEDENCE,
            "MSSQL" | "DB2" | "MAXDB" | "POSTGRESQL" => combined,
            "STRICT_TRANS_TABLES" => SqlMode::STRICT_TRANS_TABLES,
            "STRICT_ALL_TABLES" => SqlMode::STRICT_ALL_TABLES,
            "TRADITIONAL" => SqlMode::STRICT_TRANS_TABLES.union(SqlMode::STRICT_ALL_TABLES),
            "EMPTY_STRING_IS_NULL" => SqlMode::EMPTY_STRING_IS_NULL,
            "ORACLE" => combined.union(SqlMode::ORACLE),
            _ => SqlMode::NONE,
        }
    }

    #[must_use]
    pub const fn union(self, other: SqlMode) -> SqlMode {
        SqlMode(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, other: SqlMode) -> SqlMode {
        SqlMode(self.0 & !other.0)
    }

    pub const fn contains(self, other: SqlMode) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `character_set_client`, as far as it decides where a string or a name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCharset {
    /// utf8mb4, utf8mb3: bytes of a character after the first are never ASCII.
    Utf8,
    /// Latin1: one byte a character; names can still be read.
    Latin1,
    /// One byte a character; its letters are known, so that names can be read.
    OneByte(&'static Letters),
    /// One byte a character, or characters none of whose bytes looks like ASCII punctuation.
    Safe,
    /// gbk, and gb18030, whose four-byte characters hold digits.
    Gbk,
    Gb18030,
    Big5,
    /// sjis and cp932.
    Sjis,
    /// Nothing is known: bytes from 0x80 on cannot be read for certain.
    Unknown,
}

impl ClientCharset {
    /// The letters of a set other than UTF-8, if they are known.
    pub fn letters(self) -> Option<&'static Letters> {
        match self {
            ClientCharset::Latin1 => Letters::named("latin1"),
            ClientCharset::OneByte(letters) => Some(letters),
            _ => None,
        }
    }

    /// A text of ours in this character set; `None`: not all of it can be written for certain.
    pub fn written(self, text: &str) -> Option<Cow<'_, [u8]>> {
        match self {
            ClientCharset::Utf8 => Some(Cow::Borrowed(text.as_bytes())),
            _ if text.is_ascii() => Some(Cow::Borrowed(text.as_bytes())),
            other => other.letters()?.encode(text),
        }
    }

    /// From a character set's name, as `SHOW CHARACTER SET` lists it. Names of collations are not
    /// understood.
    pub fn parse(name: &str) -> ClientCharset {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "utf8" | "utf8mb3" | "utf8mb4" => ClientCharset::Utf8,
            "latin1" => ClientCharset::Latin1,
            name if Letters::named(name).is_some() => {
                Letters::named(name).map_or(ClientCharset::Unknown, ClientCharset::OneByte)
            }
            "ascii" | "armscii8" | "binary" | "cp850" | "cp852" | "dec8" | "eucjpms" | "euckr" | "gb2312"
            | "geostd8" | "hp8" | "keybcs2" | "macce" | "swe7" | "tis620" | "ujis" => ClientCharset::Safe,
            "gbk" => ClientCharset::Gbk,
            "gb18030" => ClientCharset::Gb18030,
            "big5" => ClientCharset::Big5,
            "sjis" | "cp932" => ClientCharset::Sjis,
            _ => ClientCharset::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    pub server: Server,
    pub sql_mode: SqlMode,
    pub charset: ClientCharset,
}

impl Dialect {
    pub fn is_mariadb(&self) -> bool {
        self.server.kind == ServerKind::MariaDb
    }
}

/// The dialects that tests read in.
#[cfg(test)]
impl Dialect {
    pub const MARIADB: Dialect = Dialect {
        server: Server { kind: ServerKind::MariaDb, version: 101_119 },
        sql_mode: SqlMode::NONE,
        charset: ClientCharset::Utf8,
    };
    pub const MYSQL: Dialect =
        Dialect { server: Server { kind: ServerKind::MySql, version: 90_704 }, ..Dialect::MARIADB };
}

#[cfg(test)]
mod tests {
    use super::{ClientCharset, Server, ServerKind, SqlMode};

    #[test]
    fn versions_of_greetings() {
        for (greeting, expected) in [
            ("5.5.5-10.11.19-MariaDB-0+deb12u1", Some((ServerKind::MariaDb, 101_119))),
            ("11.8.3-MariaDB", Some((ServerKind::MariaDb, 110_803))),
            ("9.7.4-2", Some((ServerKind::MySql, 90_704))),
            ("8.0.36", Some((ServerKind::MySql, 80_036))),
            ("x", None),
            ("", None),
            ("99999999.1.1", None),
        ] {
            assert_eq!(Server::parse(greeting).map(|s| (s.kind, s.version)), expected, "{greeting}");
        }
    }

    #[test]
    fn combinations_are_expanded() {
        let quotes = SqlMode::ANSI_QUOTES.union(SqlMode::IGNORE_SPACE);
        let ansi = quotes.union(SqlMode::PIPES_AS_CONCAT);
        for (text, expected) in [
            ("", SqlMode::NONE),
            ("ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION", SqlMode::NONE),
            ("TRADITIONAL", SqlMode::STRICT_TRANS_TABLES.union(SqlMode::STRICT_ALL_TABLES)),
            ("ansi_quotes, STRICT_ALL_TABLES", SqlMode::ANSI_QUOTES.union(SqlMode::STRICT_ALL_TABLES)),
            ("ANSI", ansi.union(SqlMode::REAL_AS_FLOAT)),
            (
                "PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE",
                SqlMode::PIPES_AS_CONCAT.union(SqlMode::HIGH_NOT_PRECEDENCE),
            ),
            ("MSSQL", ansi),
            ("ORACLE", ansi.union(SqlMode::ORACLE)),
            (
                "NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES",
                SqlMode::NO_AUTO_VALUE_ON_ZERO.union(SqlMode::NO_BACKSLASH_ESCAPES),
            ),
        ] {
            assert_eq!(SqlMode::parse(text), expected, "{text}");
        }
        assert!(!SqlMode::ANSI_QUOTES.contains(ansi));
        assert_eq!(quotes.without(SqlMode::IGNORE_SPACE), SqlMode::ANSI_QUOTES);
    }

    #[test]
    fn unknown_character_sets_are_unknown() {
        assert_eq!(ClientCharset::parse("UTF8MB4"), ClientCharset::Utf8);
        assert_eq!(ClientCharset::parse("utf8mb4_general_ci"), ClientCharset::Unknown);
        assert_eq!(ClientCharset::parse("ucs2"), ClientCharset::Unknown);
    }
}
