//! The doors of a process that serves: ids for clients of the Redis protocol and of the HTTP API.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::address::Address;
use crate::address::listener::{ListenError, Listener};
use crate::config::keys::Compat;
use crate::config::{Config, DoorSettings};
use crate::doors::api::{Api, Service};
use crate::doors::resp::Redis;
use crate::doors::{Door, DoorMeter, IdDesk, Protocol, Terms};
use crate::proxy::connect::tls::{ClientSide, TlsError};
use crate::proxy::session::Shared;
use crate::serve::socket::{Names, Socket};
use crate::users::Directory;

/// One of each, in the order of [`NAMES`].
pub(super) type PerDoor<T> = [T; 2];

/// What a reload replaces.
pub(super) type DoorTerms = Arc<ArcSwap<ReloadableTerms>>;

pub struct ReloadableTerms {
    /// Towards new clients of each.
    tls: PerDoor<ClientSide>,
    /// The other services whose paths the HTTP API answers.
    services: Vec<Service>,
}

/// In metrics and audit lines.
pub(super) const NAMES: PerDoor<&str> = [RESP, API];

const RESP: &str = "resp";
const API: &str = "api";

static SOCKETS: PerDoor<Names> = [
    Names {
        what: "the Redis protocol cannot listen on",
        without: "until then there is no Redis protocol",
        remedies: [
            "stop the program that listens there, or set another resp.address",
            "resp.address needs a port or a folder that this user may use",
            "correct resp.address",
        ],
    },
    Names {
        what: "the HTTP API cannot listen on",
        without: "until then there is no HTTP API",
        remedies: [
            "stop the program that listens there, or set another api.address",
            "api.address needs a port or a folder that this user may use",
            "correct api.address",
        ],
    },
];

pub(super) fn settings(config: &Config) -> PerDoor<&DoorSettings> {
    [&config.resp, &config.api]
}

pub(super) fn addresses(config: &Config) -> PerDoor<Option<&Address>> {
    settings(config).map(|door| door.address.as_ref())
}

/// `inherited`: from the process that hands over.
pub(super) async fn bind_sockets(
    config: &Config,
    inherited: PerDoor<Option<Listener>>,
    takes_over: bool,
) -> Result<PerDoor<Socket>, ListenError> {
    let bind = async |names, address, inherited| match inherited {
        Some(listener) => Ok(Socket::Bound(listener)),
        None => Socket::bind(names, address, true, takes_over).await,
    };
    let ([resp, api], [resp_at, api_at], [resp_socket, api_socket]) =
        (&SOCKETS, addresses(config), inherited);
    Ok([bind(resp, resp_at, resp_socket).await?, bind(api, api_at, api_socket).await?])
}

/// Where a door is off, no file is read or made for its TLS.
pub(super) fn terms(config: &Config) -> Result<ReloadableTerms, TlsError> {
    let of = |settings: &DoorSettings, state_path: &Path| match settings.address {
        Some(_) => ClientSide::new(&settings.tls, state_path),
        None => Ok(ClientSide::Disabled),
    };
    let ([resp, api], state_path) = (settings(config), &config.proxy.state_path);
    let tls = [of(resp, state_path)?, of(api, state_path)?];
    let service = |compat: &Compat| match compat {
        Compat::Leaf => Service::Leaf,
        Compat::Udf => Service::Udf,
    };
    let services = config.api_compat.iter().map(service).collect();
    Ok(ReloadableTerms { tls, services })
}

/// What the doors of this process stand on.
pub(super) struct Doors {
    pub(super) shared: Arc<ArcSwap<Shared>>,
    pub(super) users: Arc<Directory>,
    pub(super) terms: DoorTerms,
    pub(super) meters: PerDoor<Arc<DoorMeter>>,
    pub(super) proxy: String,
}

/// Doors that are open, or will be.
pub(super) struct OpenDoors(PerDoor<OpenDoor>);

struct OpenDoor {
    listener: watch::Receiver<Option<Arc<Listener>>>,
    close: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Doors {
    pub(super) fn open(&self, sockets: PerDoor<Socket>) -> OpenDoors {
        let [resp, api] = sockets;
        let ([resp_meter, api_meter], [resp_says, api_says]) = (&self.meters, &SOCKETS);
        let redis = Redis::new(self.desk(RESP, resp_meter), &self.proxy);
        let reloadable = self.terms.clone();
        let http =
            Api::new(self.desk(API, api_meter), move |service| reloadable.load().services.contains(&service));
        let resp = open((resp, resp_says), redis, self.terms(|[resp, _]| resp));
        OpenDoors([resp, open((api, api_says), http, self.terms(|[_, api]| api))])
    }

    fn desk(&self, door: &'static str, meter: &Arc<DoorMeter>) -> IdDesk {
        let shared = self.shared.clone();
        IdDesk {
            door,
            tables: shared.load().tables.clone(),
            users: self.users.clone(),
            audit: shared.load().audit.clone(),
            deadline: Box::new(move || shared.load().id_deadline),
            meter: meter.clone(),
        }
    }

    fn terms(
        &self,
        of_door: fn(&PerDoor<ClientSide>) -> &ClientSide,
    ) -> impl Fn() -> Terms + Send + Sync + 'static {
        let (reloadable, shared) = (self.terms.clone(), self.shared.clone());
        move || {
            let (reloadable, limits) = (reloadable.load(), shared.load().login.settings.limits.clone());
            let tls = of_door(&reloadable.tls);
            Terms {
                acceptor: tls.acceptor().cloned(),
                needs_tls: tls.is_required(),
                connections_max: limits.connections_max,
                login_timeout: limits.handshake_timeout,
                idle_timeout: limits.idle_timeout,
                write_timeout: limits.write_timeout,
            }
        }
    }
}

impl OpenDoors {
    /// Their sockets, where there are any.
    pub(super) fn listeners(&self) -> PerDoor<Option<Arc<Listener>>> {
        self.0.each_ref().map(|door| door.listener.borrow().clone())
    }

    /// They accept no more clients, and end with those that there are as soon as what they sent is answered, or after `limit`.
    pub(super) async fn close(self, limit: Duration) {
        let closing = self.0.map(|door| async move {
            let OpenDoor { close, mut serving, .. } = door;
            let _ = close.send(());
            if timeout(limit, &mut serving).await.is_err() {
                serving.abort();
            }
        });
        let [resp, api] = closing;
        tokio::join!(resp, api);
    }
}

fn open<P: Protocol>(
    socket: (Socket, &'static Names),
    protocol: P,
    terms: impl Fn() -> Terms + Send + Sync + 'static,
) -> OpenDoor {
    let (listens, listener) = watch::channel(None);
    let (close, closing) = oneshot::channel();
    let serving = tokio::spawn(serve(socket, Door::new(protocol, terms), listens, closing));
    OpenDoor { listener, close, serving }
}

async fn serve<P: Protocol>(
    (socket, names): (Socket, &'static Names),
    mut door: Door<P>,
    listens: watch::Sender<Option<Arc<Listener>>>,
    mut closing: oneshot::Receiver<()>,
) {
    let listener = tokio::select! {
        listener = socket.listener(names) => listener,
        _ = &mut closing => None,
    };
    let Some(listener) = listener.map(Arc::new) else { return };
    listener.adopt();
    listens.send_replace(Some(listener.clone()));
    // Not in the words that tell where the proxy listens, which scripts look for.
    tracing::info!("{} is at {}", P::NAME, listener.address());
    tokio::select! {
        never = door.accept(&listener) => match never {},
        _ = closing => {}
    }
    listens.send_replace(None);
    drop(listener);
    door.drain().await;
}
