//! A listening socket, TCP or Unix, of the console or of the HTTP server.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::address::Address;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(OfFile),
}

/// Its file goes before it stops listening: one that another process makes in its place is not touched.
#[derive(Debug)]
pub(crate) struct OfFile {
    path: PathBuf,
    listener: UnixListener,
}

/// Why there is no socket: at whose address, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what} {address}: {error}; {remedy}")]
pub struct ListenError {
    what: &'static str,
    address: Address,
    error: io::Error,
    remedy: &'static str,
}

impl ListenError {
    pub(super) fn new(
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

    /// Another process has the address.
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}

/// A connection, whatever carries it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Socket {
    pub(super) async fn bind(address: &Address) -> io::Result<Socket> {
        match address {
            Address::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Socket::Tcp),
            Address::Unix(path) => {
                remove_left_behind(path).await?;
                let listener = UnixListener::bind(path)?;
                Ok(Socket::Unix(OfFile { path: path.clone(), listener }))
            }
        }
    }

    /// And where it comes from. `None`: over a Unix socket.
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        match self {
            Socket::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Without it an answer waits for the delayed ACK.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Some(from.ip())))
            }
            Socket::Unix(of_file) => Ok((Box::new(of_file.listener.accept().await?.0), None)),
        }
    }

    /// The address as it came out: with its port where any was asked for.
    pub(super) fn address(&self) -> io::Result<String> {
        match self {
            Socket::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Socket::Unix(of_file) => Ok(format!("unix:{}", of_file.path.display())),
        }
    }
}

/// A socket file that nobody answers on was left behind by a process that was killed.
async fn remove_left_behind(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl Drop for OfFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
