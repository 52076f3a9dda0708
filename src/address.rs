//! The address of a socket, `host:port` or `unix:/path`, and listening there.

pub mod listener;
pub(crate) mod lobby;
pub(crate) mod socket;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address as the configuration writes it. Host names are resolved at each connect, not here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host:port`; an IPv6 host is in brackets.
    Tcp { host: String, port: u16 },
    /// `unix:/path`
    Unix(PathBuf),
}

/// Why a string is no address; the text says what to write instead.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("{0:?} has no port: write host:port, or unix:/path for a Unix socket")]
    NoPort(String),
    #[error("{0:?} is not a port: write a number from 0 to 65535")]
    BadPort(String),
    #[error(
        "the host is empty: write host:port, 127.0.0.1 for this machine only, 0.0.0.0 for all its addresses"
    )]
    NoHost,
    #[error("{0:?} is a URL: write only its host:port")]
    Url(String),
    #[error("an IPv6 address needs brackets: [{0}]:port")]
    Brackets(String),
    /// The address is not shown: it may hold a password.
    #[error(
        "an address contains no user and no password; remove them from the address (accounts have their own keys)"
    )]
    Account,
    #[error("unix: needs a path after it, as in unix:/run/rowstamp.sock")]
    NoPath,
}

impl Address {
    /// True if both ends of this socket are on one machine by construction, so that nobody
    /// listens in between.
    pub fn is_unix(&self) -> bool {
        matches!(self, Address::Unix(_))
    }

    /// True if other machines cannot reach the address.
    pub fn is_of_this_machine(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => match host.parse::<IpAddr>() {
                Ok(ip) => ip.is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            },
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(AddressError::NoPath)
            } else {
                Ok(Address::Unix(PathBuf::from(path)))
            };
        }
        if text.contains('@') {
            return Err(AddressError::Account);
        }
        if text.contains("://") {
            return Err(AddressError::Url(text.to_owned()));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError::NoPort(text.to_owned()))?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(AddressError::Brackets(text.to_owned()));
        }
        let host = bare.unwrap_or(host);
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        let port = port.parse().map_err(|_| AddressError::BadPort(port.to_owned()))?;
        Ok(Address::Tcp { host: host.to_owned(), port })
    }
}

/// The address itself; for IPv6 its /64 network, because one machine can have any number of addresses in it.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError};

    #[track_caller]
    fn check(text: &str, expect: Result<&str, AddressError>) {
        assert_eq!(text.parse::<Address>().map(|a| a.to_string()), expect.map(str::to_owned));
    }

    #[test]
    fn addresses() {
        check("127.0.0.1:3307", Ok("127.0.0.1:3307"));
        check("db.example:0", Ok("db.example:0"));
        check("[::1]:3306", Ok("[::1]:3306"));
        check("unix:/run/mysqld/mysqld.sock", Ok("unix:/run/mysqld/mysqld.sock"));
        check("localhost", Err(AddressError::NoPort("localhost".into())));
        check("localhost:x", Err(AddressError::BadPort("x".into())));
        check("localhost:65536", Err(AddressError::BadPort("65536".into())));
        check(":3306", Err(AddressError::NoHost));
        check("::1:3306", Err(AddressError::Brackets("::1:3306".into())));
        check("mysql://db:3306/shop", Err(AddressError::Url("mysql://db:3306/shop".into())));
        check("unix:", Err(AddressError::NoPath));
        check("unix:@x", Ok("unix:@x"));
        for text in ["app:secret@db:3306", "mysql://app:secret@db:3306", "app:secret@db"] {
            check(text, Err(AddressError::Account));
        }
    }
}
