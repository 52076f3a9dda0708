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
use crate::admin::DoorRow;
use crate::config::keys::Compat;
use crate::config::{Config, DoorSettings};
use crate::daemon::socket::{Names, Socket};
use crate::doors::api::{Api, Service};
use crate::doors::resp::Redis;
use crate::doors::{Door, DoorMeter, Issuer, Protocol, Terms};
use crate::proxy::connect::tls::{ClientSide, TlsError};
use crate::proxy::shared::Shared;
use crate::rules::word;
use crate::users::Directory;

/// One of each, in the order of [`DOORS`].
pub(super) type PerDoor<T> = [T; 2];

/// The settings that a reload replaces.
pub(super) type DoorTerms = Arc<ArcSwap<ReloadableTerms>>;

pub struct ReloadableTerms {
    /// Towards new clients of each.
    tls: PerDoor<ClientSide>,
    /// The other services whose paths the HTTP API answers.
    services: Vec<Service>,
    /// `tls.mode` of each, and `api.compat`, as they are written.
    modes: PerDoor<String>,
    compat: Vec<String>,
}

/// For each door its name in metrics and audit lines, and its name for people.
const DOORS: PerDoor<(&str, &str)> = [(RESP, "Redis protocol"), (API, "HTTP")];

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

/// The doors that are on: "Redis protocol at 127.0.0.1:6379 (TLS preferred)".
pub(crate) fn described(config: &Config) -> impl Iterator<Item = String> {
    settings(config).into_iter().zip(DOORS).filter_map(|(door, (name, protocol))| {
        let (address, tls) = (door.address.as_ref()?, word(&door.tls.mode));
        let compat: Vec<_> = config.api_compat.iter().filter(|_| name == API).map(word).collect();
        let compat =
            if compat.is_empty() { String::new() } else { format!(", compat {}", compat.join(", ")) };
        Some(format!("{protocol} at {address} (TLS {tls}{compat})"))
    })
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

/// The terms by these settings. A door that is off reads and makes no file for its TLS.
pub(super) fn terms(config: &Config) -> Result<ReloadableTerms, TlsError> {
    let of = |settings: &DoorSettings, state_path: &Path| match settings.address {
        Some(_) => ClientSide::new(&settings.tls, state_path),
        None => Ok(ClientSide::default()),
    };
    let ([resp, api], state_path) = (settings(config), &config.proxy.state_path);
    let tls = [of(resp, state_path)?, of(api, state_path)?];
    let service = |compat: &Compat| match compat {
        Compat::Leaf => Service::Leaf,
        Compat::Udf => Service::Udf,
    };
    let services = config.api_compat.iter().map(service).collect();
    let modes = settings(config).map(|door| word(&door.tls.mode));
    let compat = config.api_compat.iter().map(word).collect();
    Ok(ReloadableTerms { tls, services, modes, compat })
}

pub(super) struct Doors {
    pub(super) shared: Arc<ArcSwap<Shared>>,
    pub(super) users: Arc<Directory>,
    pub(super) terms: DoorTerms,
    pub(super) proxy: String,
}

pub(super) struct OpenDoors {
    doors: PerDoor<OpenDoor>,
    terms: DoorTerms,
}

/// `None`: clients cannot connect.
type Opening = watch::Receiver<Option<Arc<Listener>>>;

struct OpenDoor {
    listener: Opening,
    meter: Arc<DoorMeter>,
    close: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Doors {
    pub(super) fn open(&self, sockets: PerDoor<Socket>) -> OpenDoors {
        let ([resp, api], [resp_says, api_says]) = (sockets, &SOCKETS);
        let (redis, http) = (self.issuer(RESP), self.issuer(API));
        let [resp_meter, api_meter] = [redis.meter.clone(), http.meter.clone()];
        let reloadable = self.terms.clone();
        let (redis, http) = (
            Redis::new(redis, &self.proxy),
            Api::new(http, move |service| reloadable.load().services.contains(&service)),
        );
        let resp = open((resp, resp_says), (redis, resp_meter), self.terms(|[resp, _]| resp));
        let api = open((api, api_says), (http, api_meter), self.terms(|[_, api]| api));
        OpenDoors { doors: [resp, api], terms: self.terms.clone() }
    }

    fn issuer(&self, door: &'static str) -> Issuer {
        let shared = self.shared.clone();
        Issuer {
            door,
            tables: shared.load().tables.clone(),
            users: self.users.clone(),
            audit: shared.load().audit.clone(),
            deadline: Box::new(move || shared.load().id_deadline),
            meter: Arc::default(),
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
                acceptor: tls.acceptor.clone(),
                needs_tls: tls.is_required,
                connections_max: limits.connections_max,
                login_timeout: limits.handshake_timeout,
                idle_timeout: limits.idle_timeout,
                write_timeout: limits.write_timeout,
            }
        }
    }
}

impl OpenDoors {
    pub(super) fn listeners(&self) -> PerDoor<Option<Arc<Listener>>> {
        self.doors.each_ref().map(|door| door.listener.borrow().clone())
    }

    /// The doors' state for the console, the page and the metrics.
    pub(super) fn seen(&self) -> SeenDoors {
        let doors = self.doors.each_ref().map(|door| (door.listener.clone(), door.meter.clone()));
        SeenDoors { doors, terms: self.terms.clone() }
    }

    /// Closes the doors to new clients. Connections end as soon as what they sent is answered, or after `limit`.
    pub(super) async fn close(self, limit: Duration) {
        let closing = self.doors.map(|door| async move {
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

pub(super) struct SeenDoors {
    doors: PerDoor<(Opening, Arc<DoorMeter>)>,
    terms: DoorTerms,
}

impl SeenDoors {
    pub(super) fn rows(&self, config: &Config) -> Vec<DoorRow> {
        let reloadable = self.terms.load();
        let doors = self.doors.iter().zip(DOORS).zip(addresses(config)).zip(&reloadable.modes);
        let doors = doors.map(|((((opening, meter), (name, protocol)), written), mode)| {
            let listens = opening.borrow().as_ref().map(|listener| listener.address());
            DoorRow {
                name,
                protocol,
                is_open: listens.is_some(),
                // The real address, if the port was left to the system.
                address: listens.or_else(|| written.map(Address::to_string)),
                tls: mode.clone(),
                compat: if name == API { reloadable.compat.clone() } else { Vec::new() },
                clients: meter.connections(),
                requests: meter.requests().collect(),
                ids: meter.ids(),
                logins_refused: meter.logins_refused(),
            }
        });
        doors.collect()
    }
}

fn open<P: Protocol>(
    socket: (Socket, &'static Names),
    (protocol, meter): (P, Arc<DoorMeter>),
    terms: impl Fn() -> Terms + Send + Sync + 'static,
) -> OpenDoor {
    let (listens, listener) = watch::channel(None);
    let (close, closing) = oneshot::channel();
    let serving = tokio::spawn(serve(socket, Door::new(protocol, terms), listens, closing));
    OpenDoor { listener, meter, close, serving }
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
