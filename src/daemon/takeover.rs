//! `rowstamp serve` as the process that takes over, and as the one that is taken over from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::address::Address;
use crate::address::listener::Listener;
use crate::config::Config;
use crate::daemon::doors::{PerDoor, addresses};
use crate::log_span::{self, within};
use crate::opened;
use crate::proxy::settings::Settings;
use crate::store::gate::GateStore;
use crate::store::{Key, Store, StoreError};
use crate::tables::InForce;
use crate::takeover::{Handover, RemoteSuccessor, Sockets, TakeoverError, TakeoverRequest, TakeoverServer};

/// A store that the other process let go of may be held for a moment more, by a call that was under way.
const RELEASE_DEADLINE: Duration = Duration::from_secs(5);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// The time that the store has to show that it is there.
const STORE_DEADLINE: Duration = Duration::from_secs(2);

/// Between two attempts to open the store again.
const TAKE_BACK_PAUSE: Duration = Duration::from_millis(200);

/// Another process's place, and the sockets that came with it.
pub(crate) struct TakenOver {
    pub(crate) handover: Handover,
    pub(crate) listener: Listener,
    pub(crate) doors: PerDoor<Option<Listener>>,
}

/// Asks the process that runs for its place. `None`: none runs.
pub(crate) async fn ask(
    settings: &Settings,
    doors: PerDoor<Option<&Address>>,
) -> Result<Option<TakenOver>, TakeoverError> {
    let folder = &settings.state_path;
    let asked = Handover::ask(folder, settings.listen.to_string(), written(doors));
    let Some((handover, Sockets { listener, doors: sockets })) = asked.await? else {
        tracing::warn!(state.path = %folder.display(), "--takeover: no process runs with this state.path; Rowstamp starts as usual");
        return Ok(None);
    };
    let inherited = |socket, address| Listener::inherit(socket, address).map_err(TakeoverError::Listener);
    let listener = inherited(listener, &settings.listen)?;
    let [resp, api] = sockets;
    let [resp_at, api_at] = doors;
    let at_door = |socket: Option<_>, address| {
        socket.zip(address).map(|(socket, address)| inherited(socket, address)).transpose()
    };
    let doors = [at_door(resp, resp_at)?, at_door(api, api_at)?];
    Ok(Some(TakenOver { handover, listener, doors }))
}

/// `waits`: another process has just let go of it.
pub(crate) async fn open_store(config: &Config, waits: bool) -> anyhow::Result<Arc<GateStore>> {
    let end = Instant::now() + RELEASE_DEADLINE;
    loop {
        match opened::store::open(config).await {
            Ok(store) => return Ok(GateStore::new(&store, opened::store::described(config))),
            Err(error) if !waits || Instant::now() > end => return Err(error),
            Err(_) => sleep(RELEASE_PAUSE).await,
        }
    }
}

/// This process, as another may take over from it.
pub(crate) struct Incumbent {
    config: Config,
    folder: PathBuf,
    tables: Arc<InForce>,
    store: Arc<GateStore>,
    server: Option<TakeoverServer>,
    requesting: mpsc::Sender<TakeoverRequest>,
    requests: mpsc::Receiver<TakeoverRequest>,
}

impl Incumbent {
    pub(crate) fn new(config: &Config, tables: Arc<InForce>, store: Arc<GateStore>) -> Incumbent {
        let (requesting, requests) = mpsc::channel(1);
        let folder = config.proxy.state_path.clone();
        Incumbent { config: config.clone(), folder, tables, store, server: None, requesting, requests }
    }

    /// From here on another process finds this one. `handover`: from another, whose place is this
    /// process's after `Ok`.
    pub(crate) async fn open(&mut self, handover: Option<Handover>) -> Result<(), TakeoverError> {
        let Some(handover) = handover else {
            match TakeoverServer::is_taken(&self.folder).await {
                Some(path) => tracing::warn!(
                    path = %path.display(),
                    "another process has this state.path, so no --takeover finds this process; give each proxy a state.path of its own"
                ),
                None => self.open_server(),
            }
            return Ok(());
        };
        self.server = Some(self.new_server()?);
        handover.ready().await?;
        tracing::info!("this process has taken over from the process before it");
        Ok(())
    }

    fn new_server(&self) -> Result<TakeoverServer, TakeoverError> {
        TakeoverServer::open(&self.folder, Arc::clone(&self.tables), self.requesting.clone())
    }

    fn open_server(&mut self) {
        match self.new_server() {
            Ok(server) => self.server = Some(server),
            Err(error) => {
                tracing::warn!(%error, "no process can take over from this process (serve --takeover)");
            }
        }
    }

    pub(crate) async fn request(&mut self) -> TakeoverRequest {
        match self.requests.recv().await {
            Some(request) => request,
            // Never: `requesting` is here.
            None => std::future::pending().await,
        }
    }

    /// Hands over. True if the other process has taken over; else this one continues. Both processes log with the same
    /// `takeover`, the pid of the one that takes over.
    pub(crate) async fn hand(
        &mut self,
        request: TakeoverRequest,
        listener: &Listener,
        doors: PerDoor<Option<Arc<Listener>>>,
    ) -> bool {
        within(request.pid().map(|pid| ("takeover", pid)), self.give(request, listener, doors)).await
    }

    async fn give(
        &mut self,
        mut request: TakeoverRequest,
        listener: &Listener,
        doors: PerDoor<Option<Arc<Listener>>>,
    ) -> bool {
        if let Some(reason) = self.reason_against(&request).await {
            tracing::warn!(reason, "another process asked to take over; this process refused");
            request.refuse(reason).await;
            return false;
        }
        tracing::info!("another process takes over: this process closes the store");
        let successor = Arc::new(RemoteSuccessor::new(&self.folder));
        self.tables.yield_to(successor.clone()).await;
        self.store.shut(handed(&self.config)).await;
        let own = written(addresses(&self.config));
        let mut doors = doors;
        for ((door, own), asked) in doors.iter_mut().zip(own).zip(&request.doors) {
            door.take_if(|_| own != *asked);
        }
        match request.hand(listener, doors.each_ref().map(Option::as_deref)).await {
            Ok(()) => {
                // The other process has their files.
                doors.iter().flatten().for_each(|door| door.leave());
                successor.issues();
                true
            }
            Err(error) => {
                tracing::error!(%error, "the process that asked to take over has ended: this process continues to serve");
                self.open_server();
                let (config, tables, store) =
                    (self.config.clone(), Arc::clone(&self.tables), Arc::clone(&self.store));
                log_span::spawn(take_back(config, tables, store, successor));
                false
            }
        }
    }

    async fn reason_against(&self, request: &TakeoverRequest) -> Option<String> {
        let address = self.config.proxy.listen.to_string();
        if request.address != address {
            return Some(format!(
                "the running process listens on {address}, not on {}; keep listen.address for a takeover",
                request.address
            ));
        }
        if self.tables.has_yielded() {
            return Some(
                "the running process opens its store again after another takeover; try again".to_owned(),
            );
        }
        let store: &dyn Store = &*self.store;
        match timeout(STORE_DEADLINE, store.load(&Key::format())).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("the reserved ids of the running process would be lost: {error}")),
            Err(_) => Some(
                "the reserved ids of the running process would be lost: the store does not answer".to_owned(),
            ),
        }
    }
}

/// The addresses as text, to compare them with those of the other process.
fn written(doors: PerDoor<Option<&Address>>) -> PerDoor<Option<String>> {
    doors.map(|address| address.map(Address::to_string))
}

/// Until it is done: the other process may hold the store for a moment, or the store be away.
async fn take_back(
    config: Config,
    tables: Arc<InForce>,
    gate: Arc<GateStore>,
    successor: Arc<RemoteSuccessor>,
) {
    let mut told = None;
    loop {
        let error = match opened::store::open(&config).await {
            Ok(store) => {
                gate.open(store);
                match tables.take_back().await {
                    Ok(()) => break,
                    Err(error) => {
                        gate.shut(handed(&config)).await;
                        error.to_string()
                    }
                }
            }
            Err(error) => format!("{error:#}"),
        };
        if told.as_ref() != Some(&error) {
            tracing::error!(
                error,
                "this process issues no ids until it has opened the store again; it tries again"
            );
            told = Some(error);
        }
        sleep(TAKE_BACK_PAUSE).await;
    }
    successor.has_ended();
    tracing::info!("the store is open again: this process issues ids");
}

fn handed(config: &Config) -> StoreError {
    StoreError::Unavailable {
        store: config.proxy.name.clone(),
        reason: "this process gave the store to the process that takes over".to_owned(),
    }
}
