//! A connection of either side, whatever carries it. One task polls it in both directions.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{client, server};

use crate::mysql::auth::Transport;

/// A peer that vanished without a word is noticed after these: 60 s of silence, then 6 probes 10 s apart.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// A socket without TLS, or under it.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection to a client or to a server.
#[derive(Debug)]
pub enum Stream {
    Plain(Socket),
    /// We are the TLS server.
    ClientTls(Box<server::TlsStream<Socket>>),
    /// We are the TLS client.
    ServerTls(Box<client::TlsStream<Socket>>),
}

impl Socket {
    /// Sets TCP_NODELAY (without it a prepare waits 40 ms for the delayed ACK) and keepalive.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Ok(Socket::Tcp(stream))
    }
}

impl Stream {
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        Socket::tcp(stream).map(Stream::Plain)
    }

    pub fn unix(stream: UnixStream) -> Self {
        Stream::Plain(Socket::Unix(stream))
    }

    pub fn transport(&self) -> Transport {
        match self {
            Stream::Plain(Socket::Tcp(_)) => Transport::Tcp,
            Stream::Plain(Socket::Unix(_)) => Transport::Unix,
            Stream::ClientTls(_) | Stream::ServerTls(_) => Transport::Tls,
        }
    }

    /// Whether nobody can listen in: TLS or a Unix socket.
    pub fn is_secure(&self) -> bool {
        self.transport() != Transport::Tcp
    }
}

/// Both enums hand every call to the variant they hold.
macro_rules! delegate {
    ($type:ident: $($variant:ident)|+) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(s) => Pin::new(s).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(s) => Pin::new(s).poll_write(cx, buf),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(s) => Pin::new(s).poll_write_vectored(cx, bufs),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($type::$variant(s) => s.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(s) => Pin::new(s).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(s) => Pin::new(s).poll_shutdown(cx),)+
                }
            }
        }
    };
}

delegate!(Socket: Tcp | Unix);
delegate!(Stream: Plain | ClientTls | ServerTls);
