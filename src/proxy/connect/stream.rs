//! A connection of either side, whatever carries it. One task polls it in both directions.

#[cfg(test)]
pub mod buffers;
pub mod compressed;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{client, server};

use self::compressed::{Compressed, Peer};
use crate::mysql::auth::Transport;
use crate::mysql::compressed::Agreed;

/// A peer that vanished without a word is noticed after these: 60 s of silence, then 6 probes 10 s apart.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// After this, bytes that nobody has acknowledged end the connection (TCP_USER_TIMEOUT); the kernel
/// by itself sends them again for 15 minutes, with a transaction open on the server. It also ends a
/// peer that takes nothing, as `limits.write_timeout` does.
const CLIENT_USER_TIMEOUT: Duration = Duration::from_mins(2);
/// Longer: a server takes nothing for a while where it waits for a lock in the middle of a LOAD DATA LOCAL.
const SERVER_USER_TIMEOUT: Duration = Duration::from_mins(5);

/// A socket without TLS, or under it.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub enum Stream {
    Plain(Socket),
    ClientTls(Box<server::TlsStream<Socket>>),
    ServerTls(Box<client::TlsStream<Socket>>),
    /// Logged in, with frames agreed on.
    Compressed(Box<Compressed>),
    /// A test's buffers in place of a socket.
    #[cfg(test)]
    Buffers(buffers::Wire),
}

impl Socket {
    /// Sets TCP_NODELAY (without it a prepare waits 40 ms for the delayed ACK), keepalive and the user timeout.
    fn tcp(stream: TcpStream, user_timeout: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES);
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(user_timeout))?;
        Ok(Socket::Tcp(stream))
    }
}

impl Stream {
    pub fn client(stream: TcpStream) -> io::Result<Self> {
        Socket::tcp(stream, CLIENT_USER_TIMEOUT).map(Stream::Plain)
    }

    pub fn server(stream: TcpStream) -> io::Result<Self> {
        Socket::tcp(stream, SERVER_USER_TIMEOUT).map(Stream::Plain)
    }

    pub fn unix(stream: UnixStream) -> Self {
        Stream::Plain(Socket::Unix(stream))
    }

    pub fn transport(&self) -> Transport {
        match self {
            Stream::Plain(Socket::Tcp(_)) => Transport::Tcp,
            Stream::Plain(Socket::Unix(_)) => Transport::Unix,
            Stream::ClientTls(_) | Stream::ServerTls(_) => Transport::Tls,
            Stream::Compressed(compressed) => compressed.stream.transport(),
            #[cfg(test)]
            Stream::Buffers(_) => Transport::Tcp,
        }
    }

    /// The stream in frames from here on, if any are agreed on. `read`: the bytes of frames that were read already.
    #[must_use]
    pub fn compressed(self, peer: Peer, agreed: Option<Agreed>, read: Vec<u8>) -> Self {
        match agreed {
            Some(agreed) => Stream::Compressed(Box::new(Compressed::new(self, peer, agreed, read))),
            None => self,
        }
    }

    pub fn is_compressed(&self) -> bool {
        matches!(self, Stream::Compressed(_))
    }

    /// The next write is this packet of an exchange: it gets a frame of that number.
    pub(in crate::proxy) fn go_on_from(&mut self, packet_nr: u8) {
        if let Stream::Compressed(compressed) = self {
            compressed.go_on_from(packet_nr);
        }
    }

    /// The bytes written from here on answer the client's next command. A side that counts frames learns it here: the bytes do
    /// not show it.
    pub(in crate::proxy) fn begin_answer(&mut self) {
        if let Stream::Compressed(compressed) = self {
            compressed.begin_answer();
        }
    }

    /// The server has asked the client for a file, which comes next.
    pub(in crate::proxy) fn begin_file(&mut self) {
        if let Stream::Compressed(compressed) = self {
            compressed.begin_file();
        }
    }

    /// True if nobody can listen in: TLS or a Unix socket.
    pub fn is_secure(&self) -> bool {
        self.transport() != Transport::Tcp
    }
}

/// Both enums hand every call to the variant they hold.
macro_rules! delegate {
    ($type:ident: $($(#[$test:meta])? $variant:ident)|+) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($(#[$test])? $type::$variant(s) => Pin::new(s).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($(#[$test])? $type::$variant(s) => Pin::new(s).poll_write(cx, buf),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($(#[$test])? $type::$variant(s) => Pin::new(s).poll_write_vectored(cx, bufs),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($(#[$test])? $type::$variant(s) => s.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($(#[$test])? $type::$variant(s) => Pin::new(s).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($(#[$test])? $type::$variant(s) => Pin::new(s).poll_shutdown(cx),)+
                }
            }
        }
    };
}

delegate!(Socket: Tcp | Unix);
delegate!(Stream: Plain | ClientTls | ServerTls | Compressed | #[cfg(test)] Buffers);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};

    use super::{Socket, Stream};

    #[tokio::test]
    async fn what_the_kernel_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let accepted = listener.accept().await.unwrap().0;
        let (client, server) = (Stream::client(accepted).unwrap(), Stream::server(connected).unwrap());
        for (stream, minutes) in [(client, 2), (server, 5)] {
            let Stream::Plain(Socket::Tcp(stream)) = stream else { panic!("plain TCP") };
            let socket = SockRef::from(&stream);
            assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_mins(minutes)));
        }
    }
}
