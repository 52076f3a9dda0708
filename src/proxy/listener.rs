//! Accepting clients, and ending with them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::complaints::Complaints;
use super::serve;
use super::serve::session::SessionError;
use super::shared::Shared;
use crate::address::Address;
use crate::address::listener::{ACCEPT_PAUSE, Accepted, ListenError, Listener, Trouble, accept};
use crate::log_span::within;
use crate::mysql::error::Refusal;
use crate::mysql::packet::as_packets;
use crate::proxy::connect::login::LoginError;
use crate::proxy::connect::proxy_protocol::{self, ProxyProtocolError};
use crate::proxy::connect::stream::Stream;
use crate::sessions::{Login, SessionHandle};

/// The remedies for [`ListenError::new`].
const REMEDIES: [&str; 3] = [
    "stop the program that listens there, or set another listen.address",
    "listen.address needs a port or a folder that this user may use",
    "correct listen.address",
];

pub async fn bind(address: &Address) -> Result<Listener, ListenError> {
    let bound = Listener::bind(address).await;
    bound.map_err(|error| ListenError::new("cannot listen on", address, error, REMEDIES))
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
        let welcome = |sessions: &mut JoinSet<()>, client, _| {
            let client = match client {
                Accepted::Tcp(stream) => Stream::client(stream)?,
                Accepted::Unix(stream) => Stream::unix(stream),
            };
            welcome(sessions, client, &shared.load(), complaints);
            Ok(())
        };
        let tell = |trouble| match trouble {
            Trouble::Accept(error) => tracing::warn!(%error, "a client could not be accepted"),
            Trouble::Panic => tell_panic(),
        };
        tokio::select! {
            stopped = stop => stopped,
            never = accept(&self.listener, &mut self.sessions, welcome, tell) => match never {},
        }
    }

    /// Another process accepts: sessions go on for the drain timeout, or until `stop` resolves; then as [`Server::drain`].
    pub async fn outlive(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let drain_timeout = self.drain_timeout();
        self.listener.leave();
        let Server { listener, draining, mut sessions, .. } = self;
        drop(listener);
        tracing::info!(sessions = sessions.len(), timeout = ?drain_timeout, "another process now accepts clients; existing sessions continue");
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
        () = hurry => tracing::warn!("received a second signal: stopping at once"),
        () = tokio::time::sleep(drain_timeout) => tracing::warn!("limits.drain_timeout is over: closing the remaining sessions"),
    }
    sessions.shutdown().await;
}

async fn all_ended(sessions: &mut JoinSet<()>) {
    while let Some(ended) = sessions.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            tell_panic();
        }
    }
}

/// A panic ends its own session only; the hook has logged where it was.
fn tell_panic() {
    tracing::error!("a session panicked; please report the message above");
}

fn welcome(sessions: &mut JoinSet<()>, client: Stream, shared: &Shared, complaints: &Arc<Complaints>) {
    let Some(seat) = shared.login.seats.connection() else {
        shared.sessions.note_login(Login::Connections);
        let (mut client, full) = (client, Refusal::TooManyConnections("limits.connections"));
        sessions.spawn(async move { refuse(&mut client, &full).await });
        return;
    };
    let here = shared.sessions.enter();
    let (shared, complaints, id, span) = (shared.clone(), Arc::clone(complaints), here.id(), here.span());
    let registry = Arc::clone(&shared.sessions);
    let task = sessions.spawn(within(span, async move {
        let _seat = seat;
        meet(client, shared, here, &complaints).await;
    }));
    registry.serves(id, task);
}

/// Finds out who comes, and serves it to its end.
async fn meet(mut client: Stream, shared: Shared, here: SessionHandle, complaints: &Arc<Complaints>) {
    let settings = &shared.login.settings;
    let asking = proxy_protocol::ends_of(&mut client, &settings.listen_proxy);
    let ends = match tokio::time::timeout(settings.limits.handshake_timeout, asking).await {
        Ok(Ok(ends)) => ends,
        Ok(Err(ProxyProtocolError::Io(error))) => {
            here.all().note_login(Login::Gone);
            return tracing::debug!(%error, "the client did not log in");
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
            return refuse(&mut client, &Refusal::Timeout("limits.handshake_timeout")).await;
        }
    };
    if let Some(ends) = &ends {
        here.is_of(ends.client);
    }
    let address = ends.map(|ends| ends.client.ip());
    let seat_of_address = address.map(|address| shared.login.seats.address(address));
    if let Some(None) = seat_of_address {
        here.all().note_login(Login::PerAddress);
        return refuse(&mut client, &Refusal::TooManyConnections("limits.per_address")).await;
    }
    match serve::run(client, ends, shared, here).await {
        Ok(end) => tracing::debug!(?end, "session ended"),
        // Port scans and health checks come and go.
        Err(SessionError::Login(LoginError::Client(error))) => {
            tracing::debug!(%error, "the client did not log in");
        }
        Err(SessionError::Socket { side, error }) => {
            tracing::debug!(%error, side, "session ended");
        }
        Err(error @ SessionError::Quit(_)) => tracing::debug!(%error, "session ended"),
        Err(SessionError::Login(error)) => {
            let is_told =
                if error.is_of_server() { complaints.tells_of_server() } else { complaints.tells(address) };
            if is_told {
                tracing::warn!(%error, "session ended");
            } else {
                tracing::debug!(%error, "session ended");
            }
        }
        Err(error) => tracing::warn!(%error, "session ended"),
    }
}

/// The client may be slow to take it; it gets a moment.
async fn refuse(client: &mut Stream, refusal: &Refusal) {
    let packet = as_packets(0, &refusal.payload_before_greeting());
    let _ = tokio::time::timeout(ACCEPT_PAUSE, client.write_all(&packet)).await;
}
