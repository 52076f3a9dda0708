//! The console's clients: how they are accepted, log in and get a seat.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::address::listener::{self, ACCEPT_PAUSE, Listener, Trouble};
use crate::address::lobby::Lobby;
use crate::address::socket::{close, stream};
use crate::admin::console::protocol::login::{Authenticator, LoggedIn, LoginError, Tls};
use crate::admin::console::protocol::wire::Wire;
use crate::admin::console::{CONNECTIONS_MAX, LOGIN_TIMEOUT, shim};
use crate::admin::desk::Desk;
use crate::mysql::error::Refusal;

/// Connections to the console are numbered from here on, and the proxy's sessions from 1. At Ctrl-C
/// a client sends KILL QUERY with its own number, which must not hit an application's session.
const CONNECTION_ID_MIN: u32 = 0x8000_0000;

/// Serves the console for as long as it is polled; connections end with it. `tls` is asked at each
/// login, so that a reload's certificates are used.
pub async fn serve(listener: Listener, desk: Arc<dyn Desk>, tls: impl Fn() -> Tls + Send + Sync) {
    let authenticator = Arc::new(Authenticator { users: desk.users(), desk, throttle: Arc::default() });
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let lobby = Lobby::new(CONNECTIONS_MAX);
    let ids = AtomicU32::new(CONNECTION_ID_MIN);
    let welcome = |connections: &mut JoinSet<()>, client, from| {
        let wire = Wire { stream: stream(client)?, packet_nr: 0 };
        // After 2^31 of them they begin again.
        let id = ids.fetch_add(1, Ordering::Relaxed) | CONNECTION_ID_MIN;
        let (authenticator, tls, seats) = (authenticator.clone(), tls(), seats.clone());
        lobby.serve(connections, from, move |place| async move {
            if let Some(login) = log_in(&authenticator, wire, from, id, &tls, &seats).await {
                // A client that is logged in has a seat, and newer clients cannot take it away.
                drop(place);
                serve_client(&authenticator, login, from, id).await;
            }
        });
        Ok(())
    };
    let tell = |trouble| match trouble {
        Trouble::Accept(error) => tracing::warn!(%error, "the console could not accept a client"),
        Trouble::Panic => {
            tracing::error!("a connection to the console panicked; please report the message above");
        }
    };
    match listener::accept(&listener, &mut JoinSet::new(), welcome, tell).await {}
}

async fn refuse(mut wire: Wire, refusal: &Refusal) {
    let written = tokio::time::timeout(ACCEPT_PAUSE, wire.write(&refusal.payload())).await;
    if matches!(written, Ok(Ok(()))) {
        close(wire.stream).await;
    }
}

/// A client that has logged in, with its seat.
async fn log_in(
    authenticator: &Authenticator,
    mut wire: Wire,
    from: Option<IpAddr>,
    id: u32,
    tls: &Tls,
    seats: &Arc<Semaphore>,
) -> Option<(LoggedIn, OwnedSemaphorePermit)> {
    let login = authenticator.login(&mut wire, from, id, tls);
    let Ok(login) = tokio::time::timeout(LOGIN_TIMEOUT, login).await else {
        refuse(wire, &Refusal::Timeout("the console allows")).await;
        return None;
    };
    match login {
        Ok(login) => {
            if let Ok(seat) = seats.clone().try_acquire_owned() {
                return Some((login, seat));
            }
            wire.stream = login.stream;
            refuse(wire, &Refusal::TooManyConnections("limit of connections to the console")).await;
        }
        Err(error) => {
            let client = client_of(from);
            if matches!(error, LoginError::Wrong { .. }) {
                tracing::warn!(client, "the console: {error}");
            } else {
                // Port scans come and go, and who has to wait was logged before.
                tracing::debug!(client, "the console: no login: {error}");
            }
            if let Some(refusal) = error.refusal() {
                refuse(wire, &refusal).await;
            }
        }
    }
    None
}

async fn serve_client(
    authenticator: &Authenticator,
    (login, _seat): (LoggedIn, OwnedSemaphorePermit),
    from: Option<IpAddr>,
    id: u32,
) {
    let client = client_of(from);
    tracing::info!(user = login.login.user.name, client, tls = login.is_tls, "the console: logged in");
    if let Err(error) = shim::serve(authenticator.desk.clone(), login, client, id).await {
        tracing::debug!(%error, "the console: a connection ended");
    }
}

fn client_of(from: Option<IpAddr>) -> String {
    from.map_or_else(|| "localhost".to_owned(), |address| address.to_string())
}
