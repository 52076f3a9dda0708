//! Where the console listens, and who may come in.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::address::Address;
use crate::admin::console::protocol::login::{Doorman, LoggedIn, LoginError, Tls};
use crate::admin::console::protocol::wire::{Origin, Stream, Wire, part};
use crate::admin::console::{CONNECTIONS_MAX, LOGIN_TIMEOUT, session};
use crate::admin::lobby::Lobby;
use crate::mysql::error::Refusal;

/// After a failed accept (out of file descriptors, most often): long enough for a connection to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections to the console are numbered from here on, and the proxy's sessions from 1: a client that ends its own query at Ctrl-C
/// (KILL QUERY, with its own number) must not hit an application.
const CONNECTION_ID_MIN: u32 = 0x8000_0000;

/// The console's socket.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Removed when it is dropped.
        path: PathBuf,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("the console cannot listen on {address}: {error}; {remedy}")]
pub struct ListenError {
    address: Address,
    error: io::Error,
    remedy: &'static str,
}

impl ListenError {
    /// Another process has it.
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}

impl Listener {
    pub async fn bind(address: &Address) -> Result<Listener, ListenError> {
        let bound = match address {
            Address::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Listener::Tcp),
            Address::Unix(path) => bind_unix(path).await,
        };
        bound.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "stop what listens there, or set another admin.address",
                io::ErrorKind::PermissionDenied => {
                    "admin.address needs a port or a folder that this user may use"
                }
                _ => "correct admin.address",
            };
            ListenError { address: address.clone(), error, remedy }
        })
    }

    /// The address as it came out: with its port where any was asked for.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(|a| a.to_string()).unwrap_or_default(),
            Listener::Unix { path, .. } => format!("unix:{}", path.display()),
        }
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Origin)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Without it an answer waits for the delayed ACK.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Origin { address: Some(from.ip()), is_tls: false }))
            }
            Listener::Unix { listener, .. } => {
                Ok((Box::new(listener.accept().await?.0), Origin { address: None, is_tls: false }))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket file that nobody answers on was left behind by a process that was killed.
async fn bind_unix(path: &Path) -> io::Result<Listener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && tokio::net::UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(Listener::Unix { listener: UnixListener::bind(path)?, path: path.to_owned() })
}

/// Accepts for as long as it is polled; connections end with it. So many may log in at once, and so many be logged in. `tls` is asked at each login.
pub(crate) async fn accept(listener: Listener, doorman: Doorman, tls: impl Fn() -> Tls + Send + Sync) {
    let doorman = Arc::new(doorman);
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let lobby = Lobby::new(CONNECTIONS_MAX);
    let ids = AtomicU32::new(CONNECTION_ID_MIN);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, mut origin)) => {
                    let wire = Wire { stream, packet_nr: 0 };
                    // Behind 2^31 of them they begin again.
                    let id = ids.fetch_add(1, Ordering::Relaxed) | CONNECTION_ID_MIN;
                    let (doorman, tls) = (doorman.clone(), tls());
                    let (place, seats) = (lobby.enter(origin.address), seats.clone());
                    let nth = place.nth();
                    let task = connections.spawn(async move {
                        if let Some(login) = welcome(&doorman, wire, &mut origin, id, &tls, &seats).await {
                            // Nobody who has not said who they are takes the seat of one who has.
                            drop(place);
                            serve(&doorman, login, origin, id).await;
                        }
                    });
                    lobby.is_of(nth, task);
                }
                Err(error) => {
                    tracing::warn!(%error, "the console could not accept a client");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tracing::error!("a connection to the console panicked; please report the message above");
                }
            }
        }
    }
}

async fn refuse(mut wire: Wire, told: Vec<u8>) {
    let said = tokio::time::timeout(ACCEPT_PAUSE, wire.write(&told)).await;
    if matches!(said, Ok(Ok(()))) {
        part(wire.stream).await;
    }
}

/// Who has said who they are, with their seat.
async fn welcome(
    doorman: &Doorman,
    mut wire: Wire,
    origin: &mut Origin,
    id: u32,
    tls: &Tls,
    seats: &Arc<Semaphore>,
) -> Option<(LoggedIn, OwnedSemaphorePermit)> {
    let login = doorman.login(&mut wire, origin, id, tls);
    let Ok(login) = tokio::time::timeout(LOGIN_TIMEOUT, login).await else {
        refuse(wire, Refusal::Timeout.payload()).await;
        return None;
    };
    match login {
        Ok(login) => {
            if let Ok(seat) = seats.clone().try_acquire_owned() {
                return Some((login, seat));
            }
            wire.stream = login.stream;
            refuse(wire, Refusal::TooManyConnections.payload()).await;
        }
        Err(error) => {
            let client = client_of(*origin);
            if matches!(error, LoginError::Wrong { .. }) {
                tracing::warn!(client, "the console: {error}");
            } else {
                // Port scans come and go, and who has to wait was told of.
                tracing::debug!(client, "the console: no login: {error}");
            }
            if let Some(told) = error.told() {
                refuse(wire, told).await;
            }
        }
    }
    None
}

async fn serve(doorman: &Doorman, (login, _seat): (LoggedIn, OwnedSemaphorePermit), origin: Origin, id: u32) {
    let client = client_of(origin);
    tracing::info!(user = login.user.name, client, tls = login.is_tls, "the console: logged in");
    if let Err(error) = session::serve(doorman.desk.clone(), login, client, id).await {
        tracing::debug!(%error, "the console: a connection ended");
    }
}

fn client_of(origin: Origin) -> String {
    origin.address.map_or_else(|| "localhost".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::Listener;
    use crate::address::Address;

    #[tokio::test]
    async fn a_socket_file_goes_with_its_listener_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address).await.unwrap();
        let taken = Listener::bind(&address).await.unwrap_err();
        assert!(taken.is_taken() && taken.to_string().contains("another admin.address"), "{taken}");
        drop(listener);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && Listener::bind(&address).await.is_ok());
    }
}
