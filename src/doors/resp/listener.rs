//! Who may come in, and with what: a connection that begins as TLS does is TLS, any other is plain.

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
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::cluster::Node;
use super::session::{ClientLimits, End, Office, Session};
use crate::address::listener::{self, Accepted, Listener, Trouble};
use crate::address::lobby::{Lobby, Place};
use crate::address::socket::{Stream, close, stream};
use crate::doors::desk::IdDesk;
use crate::users::throttle::Throttle;

/// So many clients may be there that have not logged in; one more, and one of them has to go (`lobby`).
const STRANGERS_MAX: usize = 4096;

/// The first byte of a TLS connection: a handshake record (RFC 8446, 5.1). No request of Redis begins so.
const TLS_HANDSHAKE: u8 = 22;

/// What holds for a client that comes now.
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

/// The door, with those who came in.
pub struct Door {
    office: Arc<Office>,
    terms: Box<dyn Fn() -> Terms + Send + Sync>,
    lobby: Arc<Lobby>,
    numbers: AtomicU64,
    draining: watch::Sender<bool>,
    sessions: JoinSet<()>,
}

impl Door {
    /// `proxy`: its name. `terms` is asked for each client, so that a reload's are used.
    pub fn new(desk: IdDesk, proxy: &str, terms: impl Fn() -> Terms + Send + Sync + 'static) -> Door {
        let (throttle, proxy) = (Throttle::default(), proxy.to_owned());
        Door {
            office: Arc::new(Office { desk, throttle, proxy, since: Instant::now() }),
            terms: Box::new(terms),
            lobby: Lobby::new(STRANGERS_MAX),
            numbers: AtomicU64::new(1),
            draining: watch::Sender::new(false),
            sessions: JoinSet::new(),
        }
    }

    /// Accepts clients for as long as it is polled.
    pub async fn accept(&mut self, listener: &Listener) -> Infallible {
        let Door { office, terms, lobby, numbers, draining, sessions } = self;
        let welcome = |sessions: &mut JoinSet<()>, client, from| {
            let terms = terms();
            let guest = Guest {
                office: office.clone(),
                from,
                id: numbers.fetch_add(1, Ordering::Relaxed),
                draining: draining.subscribe(),
            };
            lobby.serve(sessions, from, |place| guest.meet(client, terms, place));
            Ok(())
        };
        let tell = |trouble| match trouble {
            Trouble::Accept(error) => {
                tracing::warn!(%error, "a client of the Redis protocol could not be accepted");
            }
            Trouble::Panic => {
                tracing::error!(
                    "a connection of the Redis protocol panicked; please report the message above"
                );
            }
        };
        listener::accept(listener, sessions, welcome, tell).await
    }

    /// Serves one client, whatever carries it, to its end.
    #[cfg(feature = "test-util")]
    pub async fn serve(&self, mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin) {
        let node = Node::new(&self.office.proxy, None, false);
        let limits = (self.terms)().limits(Instant::now() + Duration::from_secs(10));
        let mut session = Session::new(self.office.clone(), None, 1, node, limits);
        // What comes of a client is in its answers.
        let _ = session.serve(&mut stream, self.lobby.place(), self.draining.subscribe()).await;
    }

    /// Each connection ends as soon as what has come on it is answered.
    pub async fn drain(mut self) {
        self.draining.send_replace(true);
        while self.sessions.join_next().await.is_some() {}
    }
}

/// A client that has come.
struct Guest {
    office: Arc<Office>,
    from: Option<IpAddr>,
    id: u64,
    draining: watch::Receiver<bool>,
}

/// How a client begins.
struct Begun {
    stream: Box<dyn Stream>,
    at: Option<SocketAddr>,
    is_tls: bool,
}

impl Guest {
    async fn meet(self, client: Accepted, terms: Terms, place: Place) {
        let from = self.from.map_or_else(|| "a Unix socket".to_owned(), |from| from.to_string());
        match self.serve(client, terms, place).await {
            Ok(end) => tracing::debug!(?end, client = from, "a connection of the Redis protocol ended"),
            // Port scans and health checks come and go.
            Err(error) => {
                tracing::debug!(%error, client = from, "a connection of the Redis protocol ended");
            }
        }
    }

    async fn serve(self, client: Accepted, terms: Terms, place: Place) -> io::Result<Option<End>> {
        let login_until = Instant::now() + terms.login_timeout;
        let begun = match timeout_at(login_until, begin(client, &terms)).await {
            Ok(begun) => begun?,
            Err(_) => return Ok(Some(End::Login)),
        };
        let Begun { mut stream, at, is_tls } = begun;
        if terms.needs_tls && !is_tls && at.is_some() {
            stream.write_all(b"-ERR this port needs TLS (resp.tls.mode = \"required\")\r\n").await?;
            close(stream).await;
            return Ok(None);
        }
        let node = Node::new(&self.office.proxy, at, is_tls);
        let mut session =
            Session::new(self.office.clone(), self.from, self.id, node, terms.limits(login_until));
        let ended = session.serve(&mut *stream, place, self.draining.clone()).await;
        // Who has gone reads nothing any more.
        if matches!(ended, Ok(End::Violation | End::Login | End::Client | End::Drained | End::TooMany)) {
            close(stream).await;
        }
        ended.map(Some)
    }
}

/// Waits for a client's first byte, and for its TLS handshake.
async fn begin(client: Accepted, terms: &Terms) -> io::Result<Begun> {
    let Accepted::Tcp(tcp) = client else {
        return Ok(Begun { stream: stream(client)?, at: None, is_tls: false });
    };
    let at = tcp.local_addr().ok();
    tcp.set_nodelay(true)?;
    match &terms.acceptor {
        Some(acceptor) if begins_tls(&tcp).await? => {
            let stream = acceptor.accept(tcp).await?;
            Ok(Begun { stream: Box::new(stream), at, is_tls: true })
        }
        _ => Ok(Begun { stream: stream(Accepted::Tcp(tcp))?, at, is_tls: false }),
    }
}

async fn begins_tls(tcp: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(tcp.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE])
}
