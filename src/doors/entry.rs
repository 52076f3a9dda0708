//! The clients of a door: who may come in, by TLS or not. A connection that begins as TLS does is TLS, any other is
//! plain.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::address::listener::{self, Accepted, Listener, Trouble};
use crate::address::lobby::{Lobby, Place};
use crate::address::socket::{Stream, close, stream};

/// So many clients may be there that have not logged in; one more, and one of them has to go (`lobby`).
const STRANGERS_MAX: usize = 4096;

/// The first byte of a TLS connection: a handshake record (RFC 8446, 5.1). No request of Redis or HTTP begins so.
const TLS_HANDSHAKE: u8 = 22;

pub trait Protocol: Send + Sync + 'static {
    /// In the log: "the Redis protocol".
    const NAME: &'static str;

    /// The answer to a client without TLS, if TLS is required.
    const NEEDS_TLS: &'static str;

    fn serve(&self, guest: Guest<'_>) -> impl Future<Output = io::Result<End>> + Send;
}

pub struct Guest<'a> {
    pub(super) stream: &'a mut dyn Stream,
    /// `None`: over a Unix socket.
    pub(super) from: Option<IpAddr>,
    /// The address by which it came.
    pub(super) at: Option<SocketAddr>,
    pub(super) is_tls: bool,
    /// This door's number of the connection.
    pub(super) id: u64,
    pub(super) limits: ClientLimits,
    /// The client's place among those who have not logged in.
    pub(super) place: Place,
    pub(super) draining: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ClientLimits {
    pub(super) login_until: Instant,
    pub(super) idle: Duration,
    pub(super) write: Duration,
    /// The most clients that have logged in.
    pub(super) clients: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client went, or said that it goes.
    Client,
    Violation,
    /// The client did not log in in time.
    Login,
    /// Too many have logged in.
    TooMany,
    /// The client has to use TLS.
    Plain,
    Idle,
    Stalled,
    Drained,
}

/// The settings for a client that comes now.
#[derive(Clone)]
pub struct Terms {
    /// `None`: no TLS.
    pub acceptor: Option<TlsAcceptor>,
    pub needs_tls: bool,
    pub connections_max: usize,
    pub login_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
}

impl Terms {
    fn limits(&self, login_until: Instant) -> ClientLimits {
        ClientLimits {
            login_until,
            idle: self.idle_timeout,
            write: self.write_timeout,
            clients: u64::try_from(self.connections_max).unwrap_or(u64::MAX),
        }
    }
}

pub struct Door<P> {
    protocol: Arc<P>,
    terms: Box<dyn Fn() -> Terms + Send + Sync>,
    lobby: Arc<Lobby>,
    numbers: AtomicU64,
    draining: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl<P: Protocol> Door<P> {
    /// `terms` is asked for each client, so that a reload's are used.
    pub fn new(protocol: P, terms: impl Fn() -> Terms + Send + Sync + 'static) -> Self {
        Door {
            protocol: Arc::new(protocol),
            terms: Box::new(terms),
            lobby: Lobby::new(STRANGERS_MAX),
            numbers: AtomicU64::new(1),
            draining: watch::Sender::new(false),
            clients: JoinSet::new(),
        }
    }

    /// Accepts clients for as long as it is polled.
    pub async fn accept(&mut self, listener: &Listener) -> Infallible {
        let Door { protocol, terms, lobby, numbers, draining, clients } = self;
        let welcome = |clients: &mut JoinSet<()>, client, from: Option<IpAddr>| {
            let arrival = Arrival {
                protocol: protocol.clone(),
                terms: terms(),
                from: from.map(|from| from.to_canonical()),
                id: numbers.fetch_add(1, Ordering::Relaxed),
                draining: draining.subscribe(),
            };
            lobby.serve(clients, from, |place| arrival.meet(client, place));
            Ok(())
        };
        let tell = |trouble| match trouble {
            Trouble::Accept(error) => {
                tracing::warn!(%error, "a client of {} could not be accepted", P::NAME);
            }
            Trouble::Panic => {
                tracing::error!("a connection of {} panicked; please report the message above", P::NAME);
            }
        };
        listener::accept(listener, clients, welcome, tell).await
    }

    /// Serves one client, whatever carries it, to its end.
    #[cfg(feature = "test-util")]
    pub async fn serve(&self, mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin) {
        let guest = Guest {
            stream: &mut stream,
            from: None,
            at: None,
            is_tls: false,
            id: 1,
            limits: (self.terms)().limits(Instant::now() + Duration::from_secs(10)),
            place: self.lobby.place(),
            draining: self.draining.subscribe(),
        };
        // The client sees any error in its answers.
        let _ = self.protocol.serve(guest).await;
    }

    /// Each connection ends as soon as its protocol allows.
    pub async fn drain(mut self) {
        self.draining.send_replace(true);
        while self.clients.join_next().await.is_some() {}
    }
}

/// A client before its first byte.
struct Arrival<P> {
    protocol: Arc<P>,
    terms: Terms,
    from: Option<IpAddr>,
    id: u64,
    draining: watch::Receiver<bool>,
}

/// A client's connection, the address by which it came, and true if it is TLS.
type Begun = (Box<dyn Stream>, Option<SocketAddr>, bool);

impl<P: Protocol> Arrival<P> {
    async fn meet(self, client: Accepted, place: Place) {
        let from = self.from.map_or_else(|| "a Unix socket".to_owned(), |from| from.to_string());
        match self.serve(client, place).await {
            Ok(end) => tracing::debug!(?end, client = from, "a connection of {} ended", P::NAME),
            // Port scans and health checks come and go.
            Err(error) => tracing::debug!(%error, client = from, "a connection of {} ended", P::NAME),
        }
    }

    async fn serve(self, client: Accepted, place: Place) -> io::Result<End> {
        let login_until = Instant::now() + self.terms.login_timeout;
        let begun = match timeout_at(login_until, begin(client, &self.terms)).await {
            Ok(begun) => begun?,
            Err(_) => return Ok(End::Login),
        };
        let (mut stream, at, is_tls) = begun;
        if self.terms.needs_tls && !is_tls && at.is_some() {
            let told = timeout(self.terms.write_timeout, stream.write_all(P::NEEDS_TLS.as_bytes()));
            if matches!(told.await, Ok(Ok(()))) {
                close(stream).await;
            }
            return Ok(End::Plain);
        }
        let guest = Guest {
            stream: &mut *stream,
            from: self.from,
            at,
            is_tls,
            id: self.id,
            limits: self.terms.limits(login_until),
            place,
            draining: self.draining,
        };
        let ended = self.protocol.serve(guest).await;
        // A client that has gone reads nothing any more.
        if matches!(ended, Ok(End::Violation | End::Login | End::Client | End::Drained | End::TooMany)) {
            close(stream).await;
        }
        ended
    }
}

/// Waits for a client's first byte, and for its TLS handshake.
async fn begin(client: Accepted, terms: &Terms) -> io::Result<Begun> {
    let Accepted::Tcp(tcp) = client else {
        return Ok((stream(client)?, None, false));
    };
    let at = tcp.local_addr().ok();
    tcp.set_nodelay(true)?;
    match &terms.acceptor {
        Some(acceptor) if begins_tls(&tcp).await? => {
            let stream = acceptor.accept(tcp).await?;
            Ok((Box::new(stream), at, true))
        }
        _ => Ok((stream(Accepted::Tcp(tcp))?, at, false)),
    }
}

async fn begins_tls(tcp: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(tcp.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE])
}
