//! A listening socket, TCP or Unix.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::address::Address;

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(OfFile),
}

/// Its file goes before it stops listening: one that another process makes in its place is not touched.
#[derive(Debug)]
pub(super) struct OfFile {
    path: PathBuf,
    listener: UnixListener,
}

#[derive(Debug)]
pub(super) enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

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

    /// And where it comes from.
    pub(super) async fn accept(&self) -> io::Result<(Peer, Option<IpAddr>)> {
        Ok(match self {
            Socket::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                (Peer::Tcp(stream), Some(from.ip()))
            }
            Socket::Unix(of_file) => (Peer::Unix(of_file.listener.accept().await?.0), None),
        })
    }

    /// For people: where to go, with the port as it came out.
    pub(super) fn shown(&self) -> String {
        match self {
            Socket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}/"),
                Err(error) => format!("http, at an address that cannot be told: {error}"),
            },
            Socket::Unix(of_file) => format!("unix:{}", of_file.path.display()),
        }
    }
}

/// A socket file that nobody answers on is a killed process's.
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
