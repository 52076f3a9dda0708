//! The capabilities that the two ends of a connection announce, and those of them that are relayed.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>,
//! <https://mariadb.com/kb/en/connection/#capabilities>.

use std::fmt;
use std::ops::{BitAnd, BitOr};

/// The 32 bits that MySQL knows, and above them MariaDB's 32 extended ones. Those travel in bytes that MySQL reserves,
/// and only count while neither side sets `CLIENT_MYSQL` (bit 0, MySQL's `LONG_PASSWORD`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Set: a MySQL peer. MariaDB's servers and clients leave it 0 to say that the extended bits count.
    pub const CLIENT_MYSQL: Self = Self(1);
    /// Affected rows are the rows found, not those changed.
    pub const FOUND_ROWS: Self = Self(1 << 1);
    pub const LONG_FLAG: Self = Self(1 << 2);
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    pub const NO_SCHEMA: Self = Self(1 << 4);
    pub const COMPRESS: Self = Self(1 << 5);
    pub const ODBC: Self = Self(1 << 6);
    pub const LOCAL_FILES: Self = Self(1 << 7);
    pub const IGNORE_SPACE: Self = Self(1 << 8);
    pub const PROTOCOL_41: Self = Self(1 << 9);
    pub const INTERACTIVE: Self = Self(1 << 10);
    pub const SSL: Self = Self(1 << 11);
    pub const IGNORE_SIGPIPE: Self = Self(1 << 12);
    pub const TRANSACTIONS: Self = Self(1 << 13);
    pub const RESERVED: Self = Self(1 << 14);
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    pub const PLUGIN_AUTH_LENENC: Self = Self(1 << 21);
    pub const EXPIRED_PASSWORDS: Self = Self(1 << 22);
    pub const SESSION_TRACK: Self = Self(1 << 23);
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    pub const OPTIONAL_RESULTSET_METADATA: Self = Self(1 << 25);
    pub const ZSTD: Self = Self(1 << 26);
    pub const QUERY_ATTRIBUTES: Self = Self(1 << 27);
    pub const MULTI_FACTOR: Self = Self(1 << 28);
    /// MariaDB's older way to ask for progress reports; reserved in MySQL.
    pub const PROGRESS_OLD: Self = Self(1 << 29);
    pub const SSL_VERIFY_SERVER_CERT: Self = Self(1 << 30);
    pub const REMEMBER_OPTIONS: Self = Self(1 << 31);
    pub const MARIADB_PROGRESS: Self = Self(1 << 32);
    pub const MARIADB_COM_MULTI: Self = Self(1 << 33);
    pub const MARIADB_STMT_BULK: Self = Self(1 << 34);
    pub const MARIADB_EXTENDED_METADATA: Self = Self(1 << 35);
    pub const MARIADB_CACHE_METADATA: Self = Self(1 << 36);
    pub const MARIADB_BULK_UNIT_RESULTS: Self = Self(1 << 37);

    /// The capabilities that are relayed. A bit that is not here may change the form of the packets that follow, so
    /// it is cleared on both sides: MariaDB's results of single rows of a bulk execution are not followed, and an
    /// unknown form cannot be. `SSL`, `COMPRESS` and `ZSTD` are each side's own matter.
    pub const RELAYED: Self =
        Self(((1 << 37) - 1) & !(Self::SSL.0 | Self::COMPRESS.0 | Self::ZSTD.0 | Self::MARIADB_COM_MULTI.0));

    /// From the 32 bits of both vendors and MariaDB's extended ones.
    pub fn new(base: u32, extended: u32) -> Self {
        Capabilities(u64::from(base) | u64::from(extended) << 32)
    }

    /// The 32 bits of both vendors.
    pub fn base(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// MariaDB's extended bits.
    pub fn extended(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Capabilities(self.0 | other.0)
    }

    #[must_use]
    pub fn with(self, other: Self, on: bool) -> Self {
        if on { Capabilities(self.0 | other.0) } else { Capabilities(self.0 & !other.0) }
    }
}

impl BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Capabilities(self.0 | other.0)
    }
}

impl BitAnd for Capabilities {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Capabilities(self.0 & other.0)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capabilities({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Capabilities as C;

    #[test]
    fn what_is_not_followed_is_not_relayed() {
        let left_out = C::COMPRESS | C::SSL | C::ZSTD | C::MARIADB_COM_MULTI | C::MARIADB_BULK_UNIT_RESULTS;
        assert_eq!(C::RELAYED & (left_out | C::new(0, 1 << 6)), C::default());
    }

    #[test]
    fn the_two_halves() {
        let both = C::new(0x8000_0001, 0x8000_0010);
        assert_eq!((both.base(), both.extended()), (0x8000_0001, 0x8000_0010));
        assert!(both.contains(C::MARIADB_CACHE_METADATA | C::REMEMBER_OPTIONS));
        assert!(!both.contains(C::MARIADB_CACHE_METADATA | C::SSL));
        assert_eq!(both.with(C::MARIADB_CACHE_METADATA, false).extended(), 0x8000_0000);
    }
}
