//! Who may come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::address::listener::{self, ACCEPT_PAUSE, Accepted, Listener, Trouble};
use crate::admin::console::protocol::login::{Doorman, LoggedIn, LoginError, Tls};
use crate::admin::console::protocol::wire::{Origin, Stream, Wire, part};
use crate::admin::console::{CONNECTIONS_MAX, LOGIN_TIMEOUT, session};
use crate::admin::lobby::Lobby;
use crate::mysql::error::Refusal;

/// Connections to the console are numbered from here on, and the proxy's sessions from 1: a client that ends its own query at Ctrl-C
/// (KILL QUERY, with its own number) must not hit an application.
const CONNECTION_ID_MIN: u32 = 0x8000_0000;

/// Accepts for as long as it is polled; connections end with it. So many may log in at once, and so many be logged in. `tls` is asked at each login.
pub(in crate::admin::console) async fn accept(
    listener: Listener,
    doorman: Doorman,
    tls: impl Fn() -> Tls + Send + Sync,
) {
    let doorman = Arc::new(doorman);
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let lobby = Lobby::new(CONNECTIONS_MAX);
    let ids = AtomicU32::new(CONNECTION_ID_MIN);
    let welcome = |connections: &mut JoinSet<()>, client, address| {
        let stream: Box<dyn Stream> = match client {
            Accepted::Tcp(stream) => {
                // Without it an answer waits for the delayed ACK.
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Accepted::Unix(stream) => Box::new(stream),
        };
        let (wire, mut origin) = (Wire { stream, packet_nr: 0 }, Origin { address, is_tls: false });
        // Behind 2^31 of them they begin again.
        let id = ids.fetch_add(1, Ordering::Relaxed) | CONNECTION_ID_MIN;
        let (doorman, tls) = (doorman.clone(), tls());
        let (place, seats) = (lobby.enter(address), seats.clone());
        let nth = place.nth();
        let task = connections.spawn(async move {
            if let Some(login) = welcome(&doorman, wire, &mut origin, id, &tls, &seats).await {
                // Nobody who has not said who they are takes the seat of one who has.
                drop(place);
                serve(&doorman, login, origin, id).await;
            }
        });
        lobby.is_of(nth, task);
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

async fn refuse(mut wire: Wire, told: Vec<u8>) {
    let said = tokio::time::timeout(ACCEPT_PAUSE, wire.write(&told)).await;
    if matches!(said, Ok(Ok(()))) {
        part(wire.stream).await;
    }
}

/// Who has said who they are, with their seat.
async fn welcome(
    doorman: &Doorman,
    mut wire: Wire,
    origin: &mut Origin,
    id: u32,
    tls: &Tls,
    seats: &Arc<Semaphore>,
) -> Option<(LoggedIn, OwnedSemaphorePermit)> {
    let login = doorman.login(&mut wire, origin, id, tls);
    let Ok(login) = tokio::time::timeout(LOGIN_TIMEOUT, login).await else {
        refuse(wire, Refusal::Timeout.payload()).await;
        return None;
    };
    match login {
        Ok(login) => {
            if let Ok(seat) = seats.clone().try_acquire_owned() {
                return Some((login, seat));
            }
            wire.stream = login.stream;
            refuse(wire, Refusal::TooManyConnections.payload()).await;
        }
        Err(error) => {
            let client = client_of(*origin);
            if matches!(error, LoginError::Wrong { .. }) {
                tracing::warn!(client, "the console: {error}");
            } else {
                // Port scans come and go, and who has to wait was told of.
                tracing::debug!(client, "the console: no login: {error}");
            }
            if let Some(told) = error.told() {
                refuse(wire, told).await;
            }
        }
    }
    None
}

async fn serve(doorman: &Doorman, (login, _seat): (LoggedIn, OwnedSemaphorePermit), origin: Origin, id: u32) {
    let client = client_of(origin);
    tracing::info!(user = login.user.name, client, tls = login.is_tls, "the console: logged in");
    if let Err(error) = session::serve(doorman.desk.clone(), login, client, id).await {
        tracing::debug!(%error, "the console: a connection ended");
    }
}

fn client_of(origin: Origin) -> String {
    origin.address.map_or_else(|| "localhost".to_owned(), |address| address.to_string())
}
