//! The running process: what `rowstamp serve` starts, reloads, shows to operators and hands over.

mod background;
mod console;
mod folders;
pub mod log;
mod operator;
pub mod reload;
mod rules_watch;
mod settings;
mod takeover;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use anyhow::Context;
use arc_swap::ArcSwap;
use takeover::Place;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::http;
use crate::audit::{self, Audit};
use crate::config::keys::ConfigFile;
use crate::config::{Config, StoreKind};
use crate::opened;
use crate::proxy::connect::login::LoginContext;
use crate::proxy::connect::seats::Seats;
use crate::proxy::connect::socket_users::SocketUsers;
use crate::proxy::connect::tls::Tls;
use crate::proxy::listener::{Listener, Server};
use crate::proxy::rsa_key::KeyCell;
use crate::proxy::session::Shared;
use crate::proxy::settings::Verify;
use crate::proxy::verifier::Verifier;
use crate::rules::{Mark, RuleSet};
use crate::schema::{Primary, Schema};
use crate::serve::log::SetLogLevel;
use crate::serve::operator::{Parts, ProxyDesk};
use crate::serve::reload::Reloader;
use crate::store::Store;
use crate::store::embedded::file_name;
use crate::store::metered::{MeteredStore, StoreMeter};
use crate::tables::locks::{Sharing, TableLocks};
use crate::tables::{InForce, shadow_counts};

/// How the process was started.
#[derive(Debug)]
pub struct Start {
    pub config_path: PathBuf,
    /// `--trust-clock`
    pub trusts_clock: bool,
    /// `--takeover`
    pub takes_over: bool,
}

/// Serves until a signal or an operator ends it, or another process has taken over.
pub async fn run(
    start: Start,
    (config, written, mark): (Config, ConfigFile, Mark),
    rules: RuleSet,
    set_log_level: SetLogLevel,
) -> anyhow::Result<()> {
    // Before anything is opened: a signal that comes now must end the process cleanly too.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;
    let settings = Arc::new(config.proxy.clone());
    folders::be_ours("state.path", &settings.state_path)?;
    if let StoreKind::Embedded { path } = &config.store.kind {
        folders::be_ours("store.path", &folders::of_file(path))?;
    }
    let tls = Arc::new(Tls::new(&settings)?);
    // All that can fail before the other process gives its place.
    let schema = match opened::control(&config) {
        Some(control) => Some(Schema::connect(&control).await?),
        None => None,
    };
    let http = match &config.http {
        Some(settings) => Some(http::listen(settings, start.takes_over).await?),
        None => None,
    };
    let primary = schema.as_ref().map(|schema| schema.primary().clone()).unwrap_or_default();
    let offered = if start.takes_over { takeover::ask(&settings).await? } else { None };
    let store = takeover::open_store(&config, offered.is_some()).await?;
    let meter = Arc::new(StoreMeter::default());
    let metered: Arc<dyn Store> = Arc::new(MeteredStore::new(store.clone(), Arc::clone(&meter)));
    let tables = tables(&config, schema.clone(), Arc::clone(&metered), rules, start.trusts_clock).await?;
    let tables = Arc::new(tables);
    background::watch(&tables, &*store);
    let listen = settings.listen.clone();
    let console = console::place(&config.admin, offered.is_some()).await?;
    let (mut listener, offered) = match offered {
        Some((offered, listener)) => (listener, Some(offered)),
        None => (Listener::bind(&settings.listen, settings.listen_is_written).await?, None),
    };
    let (draining, drain) = watch::channel(false);
    let socket_users = SocketUsers::watch(&settings.backend.addresses, schema.clone()).await;
    let shared = shared(&config, tls, (primary, socket_users), tables.clone(), drain.clone()).await?;
    let shared = Arc::new(ArcSwap::from_pointee(shared));
    let mut place = Place::new(&config, tables.clone(), store.clone());
    place.open(offered).await?;
    listener.adopt(&listen);
    let acting = (config.clone(), written, mark);
    let reloader = Arc::new(Reloader::new(start.config_path, acting, shared.clone(), set_log_level));
    let mut reloads = JoinSet::new();
    reloads.spawn(reload_at(hangup, reloader.clone()));
    reloads.spawn(rules_watch::watch_rules(reloader.clone()));
    let for_console = shared.clone();
    let desk = ProxyDesk::new(Parts {
        listen: listener.address(),
        config,
        shared: shared.clone(),
        tables: tables.clone(),
        schema,
        store: metered,
        meter,
        reloader,
        draining: drain,
    });
    let http = http.map(|listening| listening.serve(desk.clone()));
    let mut consoles = JoinSet::new();
    consoles.spawn(console::serve(console, desk.clone(), for_console));
    tracing::info!("listening on {}", listener.address());
    let mut stop = async || {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            () = desk.drain_asked() => "DRAIN",
        };
        tracing::info!("{name}: no new clients");
    };
    let shared_at_end = shared.clone();
    let mut server = Server::new(listener, shared, draining);
    let is_handed = loop {
        let offer = server
            .accept(async {
                tokio::select! { () = stop() => None, offer = place.offer() => Some(offer) }
            })
            .await;
        let Some(offer) = offer else { break false };
        if place.hand(offer, server.listener()).await {
            break true;
        }
    };
    drop(place);
    if is_handed {
        // Who has the clients is who tells of them.
        drop(http);
        // The other process has its own, at this address.
        consoles.shutdown().await;
        server.outlive(stop(), second_signal()).await;
    } else {
        server.drain(second_signal()).await;
    }
    consoles.shutdown().await;
    // A reload that is cut off leaves nothing open but generators that have issued nothing.
    reloads.shutdown().await;
    tell_opinions(&shared_at_end.load().verifier);
    shadow_counts::tell(tables.shadow(), &mut Vec::new());
    for generator in tables.generators() {
        generator.close().await;
    }
    store.close().await;
    Ok(())
}

/// At the end.
fn tell_opinions(verifier: &Verifier) {
    if verifier.mode != Verify::Off {
        let [agreed, not_verified, refused] = verifier.counted();
        tracing::info!(
            agreed,
            not_verified,
            refused,
            "rewrite.verify: rewrites and what a second parser said of them"
        );
    }
}

/// What the first sessions get.
async fn shared(
    config: &Config,
    tls: Arc<Tls>,
    (primary, socket_users): (Primary, SocketUsers),
    tables: Arc<InForce>,
    draining: watch::Receiver<bool>,
) -> anyhow::Result<Shared> {
    let audit = Audit::default();
    audit.note_in(audit::open(config.log.audit.as_deref()).await?)?;
    let settings = Arc::new(config.proxy.clone());
    let login = LoginContext {
        seats: Arc::new(Seats::new(&settings.limits)),
        settings,
        tls,
        own_key: Arc::new(KeyCell::default()),
        socket_users,
        primary,
    };
    Ok(Shared {
        login,
        tables,
        id_deadline: config.store.deadline,
        verifier: Verifier::new(config.rewrite.verify),
        sessions: Arc::default(),
        audit: Arc::new(audit),
        allowed: Arc::default(),
        draining,
    })
}

/// Signals that come while files are read count as one.
async fn reload_at(mut hangup: Signal, reloader: Arc<Reloader>) {
    while hangup.recv().await.is_some() {
        if caught(reloader.reload_and_tell("SIGHUP")).await.is_err() {
            tracing::error!(
                "SIGHUP: a fault of Rowstamp's own ended the reload, as told before; send SIGHUP again"
            );
        }
    }
}

/// A panic in it is an error, which the panic's own message has told of.
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
            Sharing::File(file_name(path).context("the store's file cannot be looked at")?)
        }
        StoreKind::Etcd(_) | StoreKind::Mysql(_) => Sharing::Store(store.clone()),
    };
    let locks = schema.clone().map(|schema| TableLocks::new(schema, sharing));
    let name = config.proxy.name.clone();
    InForce::open(Arc::new(rules), schema, store, locks, name, trusts_clock)
        .await
        .context("the ruled tables cannot be opened")
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
