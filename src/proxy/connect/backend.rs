//! Connecting to the server.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;

use crate::address::Address;
use crate::proxy::connect::stream::Stream;
use crate::proxy::settings::Backend;
use crate::schema::{ConnectFailure, Primary};

/// No address of the list could be connected to.
#[derive(Debug, thiserror::Error)]
#[error("backend.address: {}", self.describe())]
pub struct ConnectError {
    pub attempts: Vec<(Address, io::Error)>,
}

impl ConnectError {
    fn describe(&self) -> String {
        let text = |(address, error): &(Address, io::Error)| format!("{address}: {error}");
        self.attempts.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    /// The errors without the addresses, for a reader who knows the addresses.
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<_> = self.attempts.iter().map(|(_, error)| error.to_string()).collect();
        reasons.join("; ")
    }
}

#[derive(Debug)]
pub(super) struct Connected<'a> {
    pub(super) stream: Stream,
    pub(super) address: &'a Address,
    /// The address's place in the list.
    pub(super) nth: usize,
}

/// The first address that answers, each given the timeout for itself: that of the primary, then all others
/// in their order. What came of each is noted.
pub(super) async fn connect<'a>(
    backend: &'a Backend,
    primary: &Primary,
) -> Result<Connected<'a>, ConnectError> {
    let mut attempts = Vec::new();
    let first = primary.get();
    let others = (0..backend.addresses.len()).filter(|nth| *nth != first);
    for nth in std::iter::once(first).chain(others) {
        let Some(address) = backend.addresses.get(nth) else { continue };
        let begun = Instant::now();
        match connect_to(address, backend.connect_timeout).await {
            Ok(stream) => {
                primary.note_connection(nth, begun.elapsed());
                return Ok(Connected { stream, address, nth });
            }
            Err((failure, error)) => {
                primary.note_failure(nth, failure, error.to_string());
                attempts.push((address.clone(), error));
            }
        }
    }
    Err(ConnectError { attempts })
}

async fn connect_to(address: &Address, limit: Duration) -> Result<Stream, (ConnectFailure, io::Error)> {
    let failed = |error: io::Error| (ConnectFailure::from(&error), error);
    let connecting = async {
        match address {
            Address::Tcp { host, port } => {
                let found = lookup_host((host.as_str(), *port)).await;
                let found: Vec<_> = found.map_err(|error| (ConnectFailure::Name, error))?.collect();
                let stream = TcpStream::connect(&*found).await.map_err(failed)?;
                Stream::server(stream).map_err(failed)
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::unix).map_err(failed),
        }
    };
    timeout(limit, connecting).await.unwrap_or_else(|_| {
        let why = format!("no answer within backend.connect_timeout ({limit:?})");
        Err(failed(io::Error::new(io::ErrorKind::TimedOut, why)))
    })
}

/// The name of the OS user that this process runs as. Over a Unix socket a server may let that user
/// in without a password (`unix_socket`, `auth_socket`), so clients must not log in under this
/// name.
pub fn os_user() -> Option<Vec<u8>> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.as_bytes().to_vec())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::{Connected, connect, os_user};
    use crate::proxy::settings::{Backend, Settings};
    use crate::schema::{ConnectFailure, Primary, Role};

    fn backend(addresses: &[String]) -> Backend {
        let addresses: Vec<crate::address::Address> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let bare = Settings::bare(addresses[0].clone(), PathBuf::new()).backend;
        Backend { addresses, connect_timeout: Duration::from_millis(300), ..bare }
    }

    #[tokio::test]
    async fn addresses_are_tried_in_order_and_all_named_when_none_answers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let both = backend(&["unix:/nowhere/s".into(), open.clone()]);
        let primary = Primary::default();
        for _ in 0..2 {
            let Connected { stream, address, nth } = connect(&both, &primary).await.unwrap();
            assert_eq!((address.to_string(), nth, stream.is_secure()), (open.clone(), 1, false));
        }
        let seen = [0, 1, 2].map(|nth| primary.seen(nth));
        let made = seen.each_ref().map(|seen| (seen.is_up(), seen.connected.read().count()));
        assert_eq!(made, [(Some(false), 0), (Some(true), 2), (None, 0)]);
        assert_eq!(seen[0].failed, BTreeMap::from([(ConnectFailure::Refused, 2)]));
        assert!(seen[0].last_error.as_ref().is_some_and(|(why, _)| why.contains("No such file")));
        primary.note_role(0, Role::ReadOnly);
        assert_eq!(primary.seen(0).is_up(), Some(true), "it has answered since");
        drop(listener);
        let error = connect(&both, &primary).await.unwrap_err().to_string();
        assert!(error.contains("unix:/nowhere/s: No such file") && error.contains(&open), "{error}");
    }

    #[tokio::test]
    async fn why_a_connection_could_not_be_made() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let of =
            [(closed, ConnectFailure::Refused), ("no-such-host.invalid:3306".into(), ConnectFailure::Name)];
        for (address, expected) in of {
            let primary = Primary::default();
            let mut backend = backend(std::slice::from_ref(&address));
            backend.connect_timeout = Duration::from_secs(20);
            connect(&backend, &primary).await.unwrap_err();
            assert_eq!(primary.seen(0).failed, BTreeMap::from([(expected, 1)]), "{address}");
        }
    }

    #[test]
    fn the_process_has_a_user() {
        let name = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
        assert_eq!(os_user().as_deref(), Some(name.trim_ascii_end()));
    }
}
