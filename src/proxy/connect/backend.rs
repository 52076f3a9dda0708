//! Connecting to the server.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Address;
use crate::proxy::connect::stream::Stream;
use crate::proxy::settings::Backend;

/// No address of the list could be connected to.
#[derive(Debug, thiserror::Error)]
#[error("backend.address: {}", describe(.attempts))]
pub struct ConnectError {
    pub attempts: Vec<(Address, io::Error)>,
}

fn describe(attempts: &[(Address, io::Error)]) -> String {
    let texts: Vec<String> = attempts.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    texts.join("; ")
}

/// The first address that answers, each given the timeout for itself: the one in the place
/// `primary`, then all others in their order.
pub async fn connect(backend: &Backend, primary: usize) -> Result<(Stream, &Address), ConnectError> {
    let mut attempts = Vec::new();
    let others = backend.addresses.iter().enumerate().filter(|(nth, _)| *nth != primary);
    for address in backend.addresses.get(primary).into_iter().chain(others.map(|(_, address)| address)) {
        match connect_to(address, backend.connect_timeout).await {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => attempts.push((address.clone(), error)),
        }
    }
    Err(ConnectError { attempts })
}

async fn connect_to(address: &Address, limit: Duration) -> io::Result<Stream> {
    let connecting = async {
        match address {
            Address::Tcp { host, port } => Stream::server(TcpStream::connect((host.as_str(), *port)).await?),
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::unix),
        }
    };
    match timeout(limit, connecting).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within backend.connect_timeout ({limit:?})"),
        )),
    }
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
    use super::{connect, os_user};
    use crate::proxy::settings::{Backend, BackendTls, BackendTlsMode, SendProxy, ServerCompression};
    use std::time::Duration;

    fn backend(addresses: &[String]) -> Backend {
        Backend {
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            send_proxy: SendProxy::Off,
            clear_passwords: false,
            compression: ServerCompression::Off,
            tls: BackendTls { mode: BackendTlsMode::Disabled, ca: None, identity: None },
            connect_timeout: Duration::from_millis(300),
        }
    }

    #[tokio::test]
    async fn addresses_are_tried_in_order_and_all_named_when_none_answers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let both = backend(&["unix:/nowhere/s".into(), open.clone()]);
        for primary in [0, 1, 2] {
            let (stream, address) = connect(&both, primary).await.unwrap();
            assert_eq!((address.to_string(), stream.is_secure()), (open.clone(), false));
        }
        drop(listener);
        let error = connect(&both, 0).await.unwrap_err().to_string();
        assert!(error.contains("unix:/nowhere/s: No such file") && error.contains(&open), "{error}");
    }

    #[test]
    fn the_process_has_a_user() {
        let name = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
        assert_eq!(os_user().as_deref(), Some(name.trim_ascii_end()));
    }
}
