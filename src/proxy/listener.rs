//! Accepting clients, and ending with them.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::complaints::Complaints;
use super::serve;
use super::session::{SessionError, Shared};
use crate::address::Address;
use crate::mysql::error::Refusal;
use crate::mysql::packet::put_packets;
use crate::proxy::connect::login::LoginError;
use crate::proxy::connect::proxy_protocol::{self, ProxyProtocolError};
use crate::proxy::connect::stream::Stream;
use crate::sessions::{Here, Login};

/// After a failed accept (out of file descriptors, most often): long enough for a session to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that clients connect to.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Removed when it is dropped; `None`: another process listens on.
        path: Option<PathBuf>,
        address: String,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; {remedy}")]
pub struct ListenError {
    address: Address,
    error: io::Error,
    remedy: &'static str,
}

impl Listener {
    /// `is_written`: the address stands in the configuration, so it must be had; else any free port will do.
    pub async fn bind(address: &Address, is_written: bool) -> Result<Listener, ListenError> {
        let bound = match address {
            Address::Tcp { host, port } => match TcpListener::bind((host.as_str(), *port)).await {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_written => {
                    tracing::warn!("{address} is taken: listening on another port; set listen.address");
                    TcpListener::bind((host.as_str(), 0)).await.map(Listener::Tcp)
                }
                bound => bound.map(Listener::Tcp),
            },
            Address::Unix(path) => bind_unix(path).await,
        };
        bound.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "stop what listens there, or set another listen.address",
                io::ErrorKind::PermissionDenied => {
                    "listen.address needs a port or a folder that this user may use"
                }
                _ => "correct listen.address",
            };
            ListenError { address: address.clone(), error, remedy }
        })
    }

    /// The address as it came out: with its port where any was asked for.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(|a| a.to_string()).unwrap_or_default(),
            Listener::Unix { address, .. } => address.clone(),
        }
    }

    /// The socket of a process that listens at `address`. Its file is that process's until [`Listener::adopt`].
    pub fn inherit(socket: OwnedFd, address: &Address) -> io::Result<Listener> {
        Ok(match address {
            Address::Tcp { .. } => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(listener)?)
            }
            Address::Unix(path) => {
                let listener = std::os::unix::net::UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                let mut inherited = Listener::unix(UnixListener::from_std(listener)?, path);
                inherited.leave();
                inherited
            }
        })
    }

    /// From here on the socket's file goes with this process.
    pub fn adopt(&mut self, address: &Address) {
        if let (Listener::Unix { path, .. }, Address::Unix(at)) = (self, address) {
            *path = Some(at.clone());
        }
    }

    fn unix(listener: UnixListener, path: &Path) -> Listener {
        let address = format!("unix:{}", path.display());
        Listener::Unix { listener, path: Some(path.to_owned()), address }
    }

    /// Another process listens on the same socket: its file stays when this one is dropped.
    pub fn leave(&mut self) {
        if let Listener::Unix { path, .. } = self {
            *path = None;
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Stream::client(listener.accept().await?.0),
            Listener::Unix { listener, .. } => Ok(Stream::unix(listener.accept().await?.0)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path: Some(path), .. } = self {
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
    Ok(Listener::unix(UnixListener::bind(path)?, path))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

/// A listener and the sessions of those who came. A session keeps the `shared` that it began with.
pub struct Server {
    listener: Listener,
    shared: Arc<ArcSwap<Shared>>,
    draining: watch::Sender<bool>,
    sessions: JoinSet<()>,
    complaints: Arc<Complaints>,
}

impl Server {
    pub fn new(listener: Listener, shared: Arc<ArcSwap<Shared>>, draining: watch::Sender<bool>) -> Server {
        Server { listener, shared, draining, sessions: JoinSet::new(), complaints: Arc::default() }
    }

    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Accepts clients until `stop` resolves.
    pub async fn accept<T>(&mut self, stop: impl Future<Output = T>) -> T {
        let (shared, complaints) = (&self.shared, &self.complaints);
        let welcome =
            |sessions: &mut JoinSet<()>, client| welcome(sessions, client, &shared.load(), complaints);
        accept(&self.listener, &mut self.sessions, welcome, stop).await
    }

    /// Another process accepts: sessions go on for the drain timeout, or until `stop` resolves; then as [`Server::drain`].
    pub async fn outlive(mut self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let drain_timeout = self.drain_timeout();
        self.listener.leave();
        let Server { listener, draining, mut sessions, .. } = self;
        drop(listener);
        tracing::info!(sessions = sessions.len(), timeout = ?drain_timeout, "clients are another process's; sessions go on");
        tokio::select! {
            () = all_ended(&mut sessions) => {}
            () = stop => {}
            () = tokio::time::sleep(drain_timeout) => {}
        }
        end(sessions, &draining, drain_timeout, hurry).await;
    }

    /// Lets sessions end where nothing is lost by it, for at most the drain timeout. `hurry` ends the wait at once.
    pub async fn drain(self, hurry: impl Future<Output = ()>) {
        let drain_timeout = self.drain_timeout();
        let Server { listener, draining, sessions, .. } = self;
        drop(listener);
        end(sessions, &draining, drain_timeout, hurry).await;
    }

    fn drain_timeout(&self) -> Duration {
        self.shared.load().login.settings.limits.drain_timeout
    }
}

async fn end(
    mut sessions: JoinSet<()>,
    draining: &watch::Sender<bool>,
    drain_timeout: Duration,
    hurry: impl Future<Output = ()>,
) {
    draining.send_replace(true);
    tracing::info!(sessions = sessions.len(), timeout = ?drain_timeout, "draining");
    tokio::select! {
        () = all_ended(&mut sessions) => tracing::info!("all sessions have ended"),
        () = hurry => tracing::warn!("a second signal: ending at once"),
        () = tokio::time::sleep(drain_timeout) => tracing::warn!("limits.drain_timeout is over: ending"),
    }
    sessions.shutdown().await;
}

async fn all_ended(sessions: &mut JoinSet<()>) {
    while let Some(ended) = sessions.join_next().await {
        note_panic(ended);
    }
}

/// Accepts clients until `stop` resolves. `welcome` gives each a task.
async fn accept<T>(
    listener: &Listener,
    sessions: &mut JoinSet<()>,
    welcome: impl Fn(&mut JoinSet<()>, Stream),
    stop: impl Future<Output = T>,
) -> T {
    tokio::pin!(stop);
    loop {
        tokio::select! {
            stopped = &mut stop => return stopped,
            accepted = listener.accept() => match accepted {
                Ok(client) => welcome(sessions, client),
                Err(error) => {
                    tracing::warn!(%error, "a client could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = sessions.join_next() => note_panic(ended),
        }
    }
}

fn welcome(sessions: &mut JoinSet<()>, client: Stream, shared: &Shared, complaints: &Arc<Complaints>) {
    let Some(seat) = shared.login.seats.connection() else {
        shared.sessions.note_login(Login::Connections);
        let mut client = client;
        sessions.spawn(async move { refuse(&mut client, &Refusal::TooManyConnections).await });
        return;
    };
    let here = shared.sessions.enter();
    let (shared, complaints, id) = (shared.clone(), Arc::clone(complaints), here.id());
    let registry = Arc::clone(&shared.sessions);
    let task = sessions.spawn(async move {
        let _seat = seat;
        meet(client, shared, here, &complaints).await;
    });
    registry.serves(id, task);
}

/// Finds out who comes, and serves it to its end.
async fn meet(mut client: Stream, shared: Shared, here: Here, complaints: &Arc<Complaints>) {
    let settings = &shared.login.settings;
    let asking = proxy_protocol::ends_of(&mut client, &settings.listen_proxy);
    let ends = match tokio::time::timeout(settings.limits.handshake_timeout, asking).await {
        Ok(Ok(ends)) => ends,
        Ok(Err(ProxyProtocolError::Io(error))) => {
            here.all().note_login(Login::Gone);
            return tracing::debug!(%error, "no login");
        }
        Ok(Err(error)) => {
            here.all().note_login(Login::ProxyProtocol);
            if complaints.tells(error.from()) {
                tracing::warn!(%error, "a connection was refused");
            }
            return refuse(&mut client, &Refusal::BadHandshake(error.to_string())).await;
        }
        Err(_) => {
            here.all().note_login(Login::Timeout);
            return refuse(&mut client, &Refusal::Timeout).await;
        }
    };
    if let Some(ends) = &ends {
        here.is_of(ends.client);
    }
    let address = ends.map(|ends| ends.client.ip());
    let seat_of_address = address.map(|address| shared.login.seats.address(address));
    if let Some(None) = seat_of_address {
        here.all().note_login(Login::PerAddress);
        return refuse(&mut client, &Refusal::TooManyConnections).await;
    }
    match serve::run(client, ends, shared, here).await {
        Ok(end) => tracing::debug!(?end, ?address, "session ended"),
        // Port scans and health checks come and go.
        Err(SessionError::Login(LoginError::Client(error))) => {
            tracing::debug!(%error, ?address, "no login");
        }
        Err(SessionError::Socket { side, error }) => {
            tracing::debug!(%error, side, ?address, "session ended");
        }
        Err(error @ SessionError::Quit(_)) => tracing::debug!(%error, ?address, "session ended"),
        Err(error @ SessionError::Login(_)) if !complaints.tells(address) => {
            tracing::debug!(%error, ?address, "session ended");
        }
        Err(error) => tracing::warn!(%error, ?address, "session ended"),
    }
}

/// The client may be slow to take it; it gets a moment.
async fn refuse(client: &mut Stream, refusal: &Refusal) {
    let mut packet = Vec::new();
    put_packets(&mut packet, 0, &refusal.payload_before_greeting());
    let _ = tokio::time::timeout(ACCEPT_PAUSE, client.write_all(&packet)).await;
}

/// A panic ends its own session only; the hook has logged where it was.
fn note_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a session panicked; please report the message above");
    }
}

#[cfg(test)]
mod tests {
    use super::{Listener, accept};
    use crate::address::Address;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// A process that is handed a socket, and fails, must not take its file away from the one that serves on.
    #[tokio::test]
    async fn an_inherited_sockets_file_stays_until_it_is_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::Unix(path.clone());
        let serving = Listener::bind(&address, true).await.unwrap();
        let inherited =
            || Listener::inherit(serving.as_fd().try_clone_to_owned().unwrap(), &address).unwrap();
        drop(inherited());
        assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
        let mut adopted = inherited();
        adopted.adopt(&address);
        drop(adopted);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_session_only() {
        let listener = Listener::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        let address: SocketAddr = listener.address().parse().unwrap();
        let nth = AtomicUsize::new(0);
        let welcome = |sessions: &mut tokio::task::JoinSet<()>, mut client: super::Stream| {
            let nth = nth.fetch_add(1, Ordering::Relaxed);
            sessions.spawn(async move {
                assert_ne!(nth, 1, "the second session panics");
                let mut byte = [0];
                client.read_exact(&mut byte).await.unwrap();
                client.write_all(&byte).await.unwrap();
            });
        };
        let clients = async {
            let mut before = TcpStream::connect(address).await.unwrap();
            let mut panicking = TcpStream::connect(address).await.unwrap();
            assert_eq!(panicking.read(&mut [0]).await.unwrap_or(0), 0);
            let mut after = TcpStream::connect(address).await.unwrap();
            for client in [&mut before, &mut after] {
                let mut byte = [7];
                client.write_all(&byte).await.unwrap();
                client.read_exact(&mut byte).await.unwrap();
            }
        };
        accept(&listener, &mut tokio::task::JoinSet::new(), welcome, clients).await;
        assert_eq!(nth.load(Ordering::Relaxed), 3);
    }
}
