//! The running process: what `rowstamp serve` starts, reloads, shows to operators and hands over.

mod background;
mod console;
pub(crate) mod doors;
mod folders;
pub mod log;
mod notify;
mod operator;
pub mod preflight;
pub mod reload;
mod settings;
mod socket;
mod started;
mod takeover;

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use takeover::{Incumbent, TakenOver};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address::listener::Listener;
use crate::admin::http::{self, Listening};
use crate::config::keys::ConfigFile;
use crate::config::{Config, StoreKind};
use crate::daemon::doors::{DoorTerms, Doors, PerDoor};
use crate::daemon::log::SetLogLevel;
use crate::daemon::operator::{Parts, ProxyDesk};
use crate::daemon::reload::Reloader;
use crate::daemon::socket::Socket;
use crate::log_span::within;
use crate::proxy::connect::login::LoginContext;
use crate::proxy::connect::socket_users::SocketUsers;
use crate::proxy::listener::{self, Server};
use crate::proxy::settings::Verify;
use crate::proxy::shared::Shared;
use crate::proxy::verifier::Verifier;
use crate::rules::{Mark, RuleSet};
use crate::schema::Schema;
use crate::store::Store;
use crate::store::embedded::{file_name, folder_of};
use crate::store::gate::GateStore;
use crate::store::metered::{MeteredStore, StoreMeter};
use crate::tables::locks::{Sharing, TableLocks};
use crate::tables::{InForce, shadow};
use crate::takeover::Handover;
use crate::users::Directory;
use crate::{audit, opened};

/// The time that a start waits for the users of the store. The doors then open without them.
const USERS_WAIT: Duration = Duration::from_secs(2);

/// The file and the options that the process was started with.
#[derive(Debug)]
pub struct Start {
    pub config_path: PathBuf,
    /// `--trust-clock`
    pub trusts_clock: bool,
    /// `--takeover`
    pub takes_over: bool,
}

/// A proxy that has all it needs but the listener.
pub struct Opened {
    parts: Parts,
    config_path: PathBuf,
    store: Arc<GateStore>,
    draining: watch::Sender<bool>,
    console: Socket,
    doors: PerDoor<Socket>,
    terms: DoorTerms,
    http: Option<Listening>,
    incumbent: Incumbent,
    hangup: Signal,
}

/// Serves until a signal or an operator ends it, or another process has taken over.
pub async fn start(
    start: Start,
    files: (Config, ConfigFile, Mark),
    rules: RuleSet,
    set_log_level: SetLogLevel,
) -> anyhow::Result<()> {
    // Before anything is opened: a signal that comes now must end the process cleanly too.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let takes_over = start.takes_over;
    let opening = async {
        let (mut opened, handover) = Box::pin(Opened::open(start, files, rules, set_log_level)).await?;
        let settings = &opened.parts.config.proxy;
        let (listener, handover) = match handover {
            Some((handover, listener)) => (listener, Some(handover)),
            None => (listener::bind(&settings.listen).await?, None),
        };
        opened.incumbent.open(handover).await?;
        listener.adopt();
        anyhow::Ok((listener, opened))
    };
    let (listener, opened) =
        if takes_over { within(("takeover", std::process::id()), opening).await? } else { opening.await? };
    let stop = async || {
        tokio::select! { _ = terminate.recv() => "SIGTERM", _ = interrupt.recv() => "SIGINT" }
    };
    run(listener, opened, stop, second_signal()).await;
    Ok(())
}

impl Opened {
    /// With it comes the place of the process that runs, where this one is to take over and there
    /// is one.
    pub async fn open(
        start: Start,
        (config, written, mark): (Config, ConfigFile, Mark),
        rules: RuleSet,
        set_log_level: SetLogLevel,
    ) -> anyhow::Result<(Opened, Option<(Handover, Listener)>)> {
        let hangup = signal(SignalKind::hangup())?;
        let settings = &config.proxy;
        folders::be_ours("state.path", &settings.state_path, config.others_may_write)?;
        if let StoreKind::Embedded { path } = &config.store.kind {
            folders::be_ours("store.path", folder_of(path), config.others_may_write)?;
        }
        let mut login = LoginContext::new(settings.clone())?;
        // All that can fail before the other process gives its place.
        let schema = match opened::control(&config) {
            Some(control) => Some(Schema::connect(&control).await?),
            None => None,
        };
        let http = match &config.http {
            Some(settings) => Some(http::listen(settings, start.takes_over).await?),
            None => None,
        };
        login.primary = schema.as_ref().map(|schema| schema.primary().clone()).unwrap_or_default();
        let terms = doors::terms(&config)?;
        let place =
            if start.takes_over { takeover::ask(settings, doors::addresses(&config)).await? } else { None };
        let takes_over = place.is_some();
        let (handover, inherited) = match place {
            Some(TakenOver { handover, listener, doors }) => (Some((handover, listener)), doors),
            None => (None, PerDoor::default()),
        };
        let store = takeover::open_store(&config, takes_over).await?;
        let meter = Arc::new(StoreMeter::default());
        let metered: Arc<dyn Store> = Arc::new(MeteredStore::new(store.clone(), Arc::clone(&meter)));
        let tables =
            Arc::new(tables(&config, schema.clone(), Arc::clone(&metered), rules, start.trusts_clock).await?);
        background::watch(&tables, &*store);
        let console = console::bind_socket(&config.admin, takes_over).await?;
        let doors = doors::bind_sockets(&config, inherited, takes_over).await?;
        let (draining, drain) = watch::channel(false);
        login.socket_users = SocketUsers::watch(&settings.backend.addresses, schema.clone()).await;
        let (id_deadline, verify) = (config.store.deadline, config.rewrite.verify);
        let shared = Shared::new(login, tables.clone(), id_deadline, verify, drain.clone());
        let users = Directory::watch(store.clone(), &config.admin.users, config.users_stale_max);
        // So that no door opens before they are known. Where the store does not answer they come later.
        let _ = timeout(USERS_WAIT, users.look()).await;
        let shared = Shared { forwards: config.rewrite.forwards(), users: Some(users.clone()), ..shared };
        shared.audit.note_in(audit::open(config.log.audit.as_deref()).await?)?;
        let shared = Arc::new(ArcSwap::from_pointee(shared));
        let incumbent = Incumbent::new(&config, tables.clone(), store.clone());
        let acting = (config.clone(), written, mark);
        let config_path = start.config_path.clone();
        let terms = Arc::new(ArcSwap::from_pointee(terms));
        let acts = (shared.clone(), terms.clone(), users.clone());
        let reloader = Arc::new(Reloader::new(start.config_path, acting, acts, set_log_level));
        let parts =
            Parts { config, shared, tables, schema, store: metered, users, meter, reloader, draining: drain };
        let opened =
            Opened { parts, config_path, store, draining, console, doors, terms, http, incumbent, hangup };
        Ok((opened, handover))
    }
}

/// Serves who comes to `listener`, until `stop` says why no more are to come, an operator does, or
/// another process has taken over; then until its sessions have ended or `hurry` resolves.
pub async fn run(
    listener: Listener,
    opened: Opened,
    mut stop: impl AsyncFnMut() -> &'static str,
    hurry: impl Future<Output = ()>,
) {
    let Opened { parts, config_path, store, draining, console, doors, terms, http, mut incumbent, hangup } =
        opened;
    let (shared, tables, reloader) = (parts.shared.clone(), parts.tables.clone(), parts.reloader.clone());
    let mut reloads = JoinSet::new();
    reloads.spawn(reload_at(hangup, reloader.clone(), listener.address()));
    reloads.spawn(background::watch_rules(reloader.clone()));
    let stand_on = Doors {
        shared: shared.clone(),
        users: parts.users.clone(),
        terms,
        proxy: parts.config.proxy.name.clone(),
    };
    let doors = stand_on.open(doors);
    let schema = parts.schema.clone();
    let desk = ProxyDesk::new(listener.address(), parts, doors.seen());
    started::tell(&*desk, &config_path, schema.as_ref()).await;
    let http = http.map(|listening| listening.serve(desk.clone()));
    let mut consoles = JoinSet::new();
    consoles.spawn(console::serve(console, desk.clone(), shared.clone()));
    tracing::info!("listening on {}", listener.address());
    notify::ready(&listener.address());
    let mut stop = async || {
        let name = tokio::select! { name = stop() => name, () = desk.drain_asked() => "DRAIN" };
        tracing::info!("{name}: no new clients");
        notify::stopping(name);
    };
    let mut server = Server::new(listener, shared.clone(), draining);
    let is_handed = loop {
        let request = server
            .accept(async {
                tokio::select! { () = stop() => None, request = incumbent.request() => Some(request) }
            })
            .await;
        let Some(request) = request else { break false };
        if incumbent.hand(request, server.listener(), doors.listeners()).await {
            break true;
        }
    };
    drop(incumbent);
    let drain_timeout = shared.load().login.settings.limits.drain_timeout;
    // The doors' clients connect again, and are served by who has the socket then, or by another proxy.
    let closing = tokio::spawn(doors.close(drain_timeout));
    // Asked for twice: at the door too.
    let hurried = Cell::new(false);
    let mut hurry = pin!(async {
        hurry.await;
        hurried.set(true);
    });
    if is_handed {
        notify::handed_over();
        // Metrics and the page come from the process that has the clients.
        drop(http);
        // The other process has its own, at this address.
        consoles.shutdown().await;
        server.outlive(stop(), hurry.as_mut()).await;
    } else {
        server.drain(hurry.as_mut()).await;
    }
    if !hurried.get() {
        tokio::select! {
            _ = closing => {}
            () = hurry => {}
        }
    }
    consoles.shutdown().await;
    // A reload that is cut off leaves nothing open but generators that have issued nothing.
    reloads.shutdown().await;
    tell_opinions(&shared.load().verifier);
    shadow::counts::log(tables.shadow(), &mut Vec::new());
    tables.close_generators().await;
    store.close().await;
}

/// Logs the counts of `rewrite.verify` when the process ends.
fn tell_opinions(verifier: &Verifier) {
    if verifier.mode != Verify::Off {
        let [agreed, not_verified, refused] = verifier.counted();
        tracing::info!(
            agreed,
            not_verified,
            refused,
            "rewrite.verify: how the second parser judged the rewrites"
        );
    }
}

/// Signals that come while files are read count as one.
async fn reload_at(mut hangup: Signal, reloader: Arc<Reloader>, address: String) {
    while hangup.recv().await.is_some() {
        notify::reloading();
        if caught(reloader.reload_and_log("SIGHUP")).await.is_err() {
            tracing::error!(
                "SIGHUP: an internal error of Rowstamp ended the reload; the log has its message above; send SIGHUP again"
            );
        }
        notify::ready(&address);
    }
}

/// Runs the future. A panic in it becomes an error; the panic's own message is printed already.
pub(super) async fn caught<F: Future>(future: F) -> std::thread::Result<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Resolves at a signal that comes from here on.
async fn second_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn tables(
    config: &Config,
    schema: Option<Schema>,
    store: Arc<dyn Store>,
    rules: RuleSet,
    trusts_clock: bool,
) -> anyhow::Result<InForce> {
    let sharing = match &config.store.kind {
        StoreKind::Embedded { path } => {
            Sharing::File(file_name(path).context("Rowstamp cannot read the attributes of the store's file")?)
        }
        StoreKind::Etcd(_) | StoreKind::Mysql(_) => Sharing::Store(store.clone()),
    };
    let locks = schema.clone().map(|schema| TableLocks::new(schema, sharing));
    let name = config.proxy.name.clone();
    InForce::open(Arc::new(rules), schema, store, locks, name, trusts_clock)
        .await
        .context("Rowstamp cannot open the tables with a rule")
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[tokio::test]
    async fn what_panics_is_caught_and_what_waits_goes_on() {
        assert_eq!(caught(async { 1 }).await.ok(), Some(1));
        let waits = async {
            tokio::task::yield_now().await;
            2
        };
        assert_eq!(caught(waits).await.ok(), Some(2));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert!(caught(panics).await.is_err());
    }
}
