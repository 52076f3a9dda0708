//! The doors of a process that serves: ids for clients of the Redis protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::address::listener::{ListenError, Listener};
use crate::config::RespSettings;
use crate::doors::resp::{Door, Terms};
use crate::doors::{DoorMeter, IdDesk};
use crate::proxy::connect::tls::{ClientSide, TlsError};
use crate::proxy::session::Shared;
use crate::serve::socket::{Names, Socket};
use crate::users::Directory;

const NAMES: Names = Names {
    what: "the Redis protocol cannot listen on",
    without: "until then there is no Redis protocol",
    remedies: [
        "stop the program that listens there, or set another resp.address",
        "resp.address needs a port or a folder that this user may use",
        "correct resp.address",
    ],
};

/// `inherited`: from the process that hands over.
pub(super) async fn bind_socket(
    settings: &RespSettings,
    inherited: Option<Listener>,
    takes_over: bool,
) -> Result<Socket, ListenError> {
    match inherited {
        Some(listener) => Ok(Socket::Bound(listener)),
        None => Socket::bind(&NAMES, settings.address.as_ref(), true, takes_over).await,
    }
}

/// TLS towards clients of Redis. Where the door is off, no file is read or made for it.
pub(super) fn tls(settings: &RespSettings, state_path: &Path) -> Result<ClientSide, TlsError> {
    match settings.address {
        Some(_) => ClientSide::new(&settings.tls, state_path),
        None => Ok(ClientSide::Disabled),
    }
}

/// What the doors of this process stand on.
pub(super) struct Doors {
    pub(super) shared: Arc<ArcSwap<Shared>>,
    pub(super) users: Arc<Directory>,
    pub(super) tls: Arc<ArcSwap<ClientSide>>,
    pub(super) meter: Arc<DoorMeter>,
    pub(super) proxy: String,
}

/// A door that is open, or will be.
pub(super) struct OpenDoor {
    listener: watch::Receiver<Option<Arc<Listener>>>,
    close: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl OpenDoor {
    pub(super) fn open(socket: Socket, doors: Doors) -> OpenDoor {
        let (listens, listener) = watch::channel(None);
        let (close, closing) = oneshot::channel();
        let serving = tokio::spawn(serve(socket, doors, listens, closing));
        OpenDoor { listener, close, serving }
    }

    /// Its socket, if there is one.
    pub(super) fn listener(&self) -> Option<Arc<Listener>> {
        self.listener.borrow().clone()
    }

    /// Accepts no more clients, and ends with those that there are as soon as what they sent is answered, or after `limit`.
    pub(super) async fn close(mut self, limit: Duration) {
        let _ = self.close.send(());
        if timeout(limit, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
    }
}

async fn serve(
    socket: Socket,
    doors: Doors,
    listens: watch::Sender<Option<Arc<Listener>>>,
    mut closing: oneshot::Receiver<()>,
) {
    let listener = tokio::select! {
        listener = socket.listener(&NAMES) => listener,
        _ = &mut closing => None,
    };
    let Some(listener) = listener.map(Arc::new) else { return };
    listener.adopt();
    listens.send_replace(Some(listener.clone()));
    // Not in the words that tell where the proxy listens, which scripts look for.
    tracing::info!("the Redis protocol is at {}", listener.address());
    let Doors { shared, users, tls, meter, proxy } = doors;
    let (of_terms, audit) = (shared.clone(), shared.load().audit.clone());
    let desk = IdDesk {
        door: "resp",
        tables: shared.load().tables.clone(),
        users,
        deadline: Box::new(move || shared.load().id_deadline),
        audit,
        meter,
    };
    let terms = move || {
        let (tls, limits) = (tls.load(), of_terms.load().login.settings.limits.clone());
        Terms {
            acceptor: tls.acceptor().cloned(),
            needs_tls: tls.is_required(),
            connections_max: limits.connections_max,
            login_timeout: limits.handshake_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
        }
    };
    let mut door = Door::new(desk, &proxy, terms);
    tokio::select! {
        never = door.accept(&listener) => match never {},
        _ = closing => {}
    }
    listens.send_replace(None);
    drop(listener);
    door.drain().await;
}
