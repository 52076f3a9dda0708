//! A listening socket, TCP or Unix, and the loop that accepts connections there.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::Access;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::address::Address;

/// After a failed accept (out of file descriptors, most often): long enough for a connection to
/// end.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        path: PathBuf,
        /// The file is removed when this is dropped, before it stops listening: one that another
        /// process makes in its place is not touched. `false`: the file is another process's, which
        /// listens there too.
        owns_file: AtomicBool,
    },
}

#[derive(Debug)]
pub enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An error while connections are accepted.
#[derive(Debug)]
pub enum Trouble {
    Accept(io::Error),
    /// A connection's task panicked. The hook has logged where.
    Panic,
}

/// Why nobody listens at an address, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what} {address}: {error}; {remedy}")]
pub struct ListenError {
    what: &'static str,
    address: Address,
    error: io::Error,
    remedy: &'static str,
}

impl ListenError {
    /// `what` stands before the address. The remedies are for an address that is taken, for one
    /// that this user may not have, and for others.
    pub fn new(
        what: &'static str,
        address: &Address,
        error: io::Error,
        [taken, denied, other]: [&'static str; 3],
    ) -> ListenError {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => taken,
            io::ErrorKind::PermissionDenied => denied,
            _ => other,
        };
        ListenError { what, address: address.clone(), error, remedy }
    }

    /// Another process has it.
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}

impl Listener {
    pub async fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Listener::Tcp),
            Address::Unix(path) => {
                remove_left_behind(path).await?;
                let listener = UnixListener::bind(path)?;
                Ok(Listener::Unix { listener, path: path.clone(), owns_file: AtomicBool::new(true) })
            }
        }
    }

    /// `Ok` if [`Listener::bind`] would succeed. The probe leaves no socket, and no client gets through meanwhile. It may wait
    /// for a name server.
    pub fn probe(address: &Address) -> io::Result<()> {
        match address {
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match probe_tcp(address) {
                        Ok(()) => return Ok(()),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix(path) => probe_unix(path),
        }
    }

    /// The socket of a process that listens at `address`. Its file is that process's until
    /// [`Listener::adopt`].
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
                let listener = UnixListener::from_std(listener)?;
                Listener::Unix { listener, path: path.clone(), owns_file: AtomicBool::new(false) }
            }
        })
    }

    /// From here on the socket's file goes with this process.
    pub fn adopt(&self) {
        self.set_owns_file(true);
    }

    /// Another process listens on the same socket: its file stays when this one is dropped.
    pub fn leave(&self) {
        self.set_owns_file(false);
    }

    fn set_owns_file(&self, owns: bool) {
        if let Listener::Unix { owns_file, .. } = self {
            owns_file.store(owns, Ordering::Relaxed);
        }
    }

    /// The address as it came out: with its port where any was asked for.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(|a| a.to_string()).unwrap_or_default(),
            Listener::Unix { path, .. } => format!("unix:{}", path.display()),
        }
    }

    /// The next connection, and where it comes from (`None`: a Unix socket).
    async fn accept(&self) -> io::Result<(Accepted, Option<IpAddr>)> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                (Accepted::Tcp(stream), Some(from.ip()))
            }
            Listener::Unix { listener, .. } => (Accepted::Unix(listener.accept().await?.0), None),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, owns_file, .. } = self
            && owns_file.load(Ordering::Relaxed)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

/// Bound, and not listening: to clients nobody is there. Where another process listens the port is taken all the same.
fn probe_tcp(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

fn probe_unix(path: &Path) -> io::Result<()> {
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(file)
            if !file.file_type().is_socket() || std::os::unix::net::UnixStream::connect(path).is_ok() =>
        {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        _ => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// A socket file on which nobody answers is left from a process that was killed.
async fn remove_left_behind(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Accepts connections for as long as it is polled. `welcome` gives each a task in `tasks`; where
/// it fails, the accept has failed.
pub async fn accept(
    listener: &Listener,
    tasks: &mut JoinSet<()>,
    mut welcome: impl FnMut(&mut JoinSet<()>, Accepted, Option<IpAddr>) -> io::Result<()>,
    tell: impl Fn(Trouble),
) -> Infallible {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Err(error) = accepted.and_then(|(client, from)| welcome(tasks, client, from)) {
                    tell(Trouble::Accept(error));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            Some(ended) = tasks.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tell(Trouble::Panic);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Accepted, ListenError, Listener, Trouble, accept};
    use crate::address::Address;
    use std::cell::Cell;
    use std::os::fd::AsFd;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpStream, UnixStream};
    use tokio::task::JoinSet;

    /// A process that is handed a socket, and fails, must not take its file away from the one that
    /// serves on.
    #[tokio::test]
    async fn an_inherited_sockets_file_stays_until_it_is_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::Unix(path.clone());
        let serving = Listener::bind(&address).await.unwrap();
        let inherited =
            || Listener::inherit(serving.as_fd().try_clone_to_owned().unwrap(), &address).unwrap();
        drop(inherited());
        assert!(UnixStream::connect(&path).await.is_ok());
        let adopted = inherited();
        adopted.adopt();
        drop(adopted);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_file_goes_with_its_listener_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address).await.unwrap();
        assert!(Listener::probe(&address).is_err());
        let taken = Listener::bind(&address).await.unwrap_err();
        let taken = ListenError::new("cannot listen on", &address, taken, ["stop it", "ask", "correct it"]);
        assert!(taken.is_taken() && taken.to_string().ends_with("; stop it"), "{taken}");
        drop(listener);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(Listener::probe(&address).is_ok());
        assert!(path.exists() && Listener::bind(&address).await.is_ok());
        let at = |path: &str| Listener::probe(&Address::Unix(folder.path().join(path)));
        assert!(
            at("none/s").is_err() && at(&"x".repeat(200)).is_err() && at(".").is_err() && at("new").is_ok()
        );
    }

    #[tokio::test]
    async fn a_port_is_looked_at_and_left() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken: Address = listener.address().parse().unwrap();
        let error = Listener::probe(&taken).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(Listener::probe(&taken).is_ok() && Listener::bind(&taken).await.is_ok());
        // Documentation's own network: no address of this machine's.
        assert!(Listener::probe(&"192.0.2.1:0".parse().unwrap()).is_err());
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_connection_only() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let (mut count, panics) = (0, Cell::new(0));
        let mut tasks = JoinSet::new();
        let welcome = |tasks: &mut JoinSet<()>, client, _| {
            let nth = count;
            count += 1;
            tasks.spawn(async move {
                assert_ne!(nth, 1, "the second connection panics");
                let Accepted::Tcp(mut client) = client else { panic!("TCP") };
                let mut byte = [0];
                client.read_exact(&mut byte).await.unwrap();
                client.write_all(&byte).await.unwrap();
            });
            Ok(())
        };
        let tell = |trouble| panics.set(panics.get() + u32::from(matches!(trouble, Trouble::Panic)));
        let clients = async {
            let mut before = TcpStream::connect(&address).await.unwrap();
            let mut panicking = TcpStream::connect(&address).await.unwrap();
            assert_eq!(panicking.read(&mut [0]).await.unwrap_or(0), 0);
            let mut after = TcpStream::connect(&address).await.unwrap();
            for client in [&mut before, &mut after] {
                let mut byte = [7];
                client.write_all(&byte).await.unwrap();
                client.read_exact(&mut byte).await.unwrap();
            }
        };
        tokio::select! {
            never = accept(&listener, &mut tasks, welcome, tell) => match never {},
            () = clients => {}
        }
        assert_eq!((count, panics.get()), (3, 1));
    }
}
