//! `rowstamp serve`: run the proxy.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

use super::desk::{Parts, ProxyDesk};
use super::reload::Reloader;
use super::takeover::{self, Place};
use super::watch::watch_rules;
use super::{ConfigArg, console, folders};
use crate::admin::http;
use crate::audit::{self, Audit};
use crate::config::keys::{ConfigFile, LogFormat, LogLevel};
use crate::config::{Config, Loaded, LogSettings, StoreKind};
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
use crate::store::Store;
use crate::store::embedded::file_name;
use crate::store::metered::{MeteredStore, StoreMeter};
use crate::tables::locks::{Sharing, TableLocks};
use crate::tables::{InForce, REFRESH_INTERVAL, SHAPE_AGE_MAX, TableError, shadow_counts};

/// What has not ended with the proxy is left behind after so long.
const END_DEADLINE: Duration = Duration::from_secs(6);

/// After a lapse of the tables' locks, between two tries to bind the tables again.
const BIND_INTERVAL: Duration = Duration::from_millis(200);

/// Sets the least serious level that is logged.
type SetLogLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Make timestamp ids by this machine's clock at once, however far the backend's is from it
    #[arg(long)]
    pub trust_clock: bool,
    /// Take the place of the process that runs with this configuration: it hands over its listening socket and its ids, and ends
    /// with its last session
    #[arg(long)]
    pub takeover: bool,
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let path = &*args.config.config;
    let Loaded { config, written, rules, mark, warnings } = super::load(path)?;
    let set_log_level = log_to_stderr(&config.log);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args, (config, *written, mark), rules, set_log_level));
    // Files that a reload reads may lie on a disk that hangs.
    runtime.shutdown_timeout(END_DEADLINE);
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    args: &ServeArgs,
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
    let schema = match super::control(&config) {
        Some(control) => Some(Schema::connect(&control).await?),
        None => None,
    };
    let http = match &config.http {
        Some(settings) => Some(http::listen(settings, args.takeover).await?),
        None => None,
    };
    let primary = schema.as_ref().map(|schema| schema.primary().clone()).unwrap_or_default();
    let offered = if args.takeover { takeover::ask(&settings).await? } else { None };
    let store = takeover::open_store(&config, offered.is_some()).await?;
    let meter = Arc::new(StoreMeter::default());
    let metered: Arc<dyn Store> = Arc::new(MeteredStore::new(store.clone(), Arc::clone(&meter)));
    let tables = tables(&config, schema.clone(), Arc::clone(&metered), rules, args.trust_clock).await?;
    let tables = Arc::new(tables);
    watch(&tables, &*store);
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
    let reloader = Arc::new(Reloader::new(args.config.config.clone(), acting, shared.clone(), set_log_level));
    let mut reloads = JoinSet::new();
    reloads.spawn(reload_at(hangup, reloader.clone()));
    reloads.spawn(watch_rules(reloader.clone()));
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

fn watch(tables: &Arc<InForce>, store: &dyn Store) {
    tokio::spawn(watch_schema(Arc::downgrade(tables)));
    tokio::spawn(tell_shadow(Arc::downgrade(tables)));
    if let Some(recalls) = store.recalls() {
        tokio::spawn(watch_store(recalls, Arc::downgrade(tables)));
    }
    if let Some(lapses) = tables.lapses() {
        tokio::spawn(watch_locks(lapses, Arc::downgrade(tables)));
    }
}

/// DDL that does not come through the proxy is looked for. Ends with the tables.
async fn watch_schema(tables: Weak<InForce>) {
    let (mut views_read_at, mut told) = (Instant::now(), None);
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        if let Err(error) = tables.refresh().await {
            tracing::debug!(%error, "the columns of ruled tables cannot be read");
        }
        tables.refresh_shadows().await;
        tables.compare_clocks().await;
        let trouble = tables.reopen().await.err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|_| trouble != told) {
            tracing::warn!(error, "generators cannot be opened; trying again");
        }
        told = trouble;
        if views_read_at.elapsed() < SHAPE_AGE_MAX {
            continue;
        }
        views_read_at = Instant::now();
        if let Err(error) = tables.tidy().await {
            tracing::debug!(%error, "the views of ruled tables cannot be read");
        }
    }
}

/// What was counted of tables in shadow mode goes to the log. Ends with the tables.
async fn tell_shadow(tables: Weak<InForce>) {
    let mut told = Vec::new();
    loop {
        tokio::time::sleep(shadow_counts::TELL_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        shadow_counts::tell(tables.shadow(), &mut told);
    }
}

/// After a lapse of the tables' locks all tables are bound again, however often that must be tried. Ends with the tables.
async fn watch_locks(mut lapses: watch::Receiver<u64>, tables: Weak<InForce>) {
    while lapses.changed().await.is_ok() {
        let mut told = None;
        loop {
            let Some(tables) = tables.upgrade() else { return };
            let error = match tables.bind_again().await {
                // It is done when the other process has ended without taking over.
                Ok(()) | Err(TableError::Yielded) => break,
                Err(error) => error.to_string(),
            };
            drop(tables);
            if told.as_ref() != Some(&error) {
                tracing::error!(
                    error,
                    "the ruled tables cannot be bound again: no ids are issued; trying again"
                );
                told = Some(error);
            }
            tokio::time::sleep(BIND_INTERVAL).await;
        }
    }
}

/// A store that went back takes all reserves with it. Ends with either.
async fn watch_store(mut recalls: watch::Receiver<u64>, tables: Weak<InForce>) {
    while recalls.changed().await.is_ok() {
        let Some(tables) = tables.upgrade() else { return };
        tables.give_up_reserves();
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

/// Libraries are heard when something is wrong with them.
fn filter(level: LogLevel) -> EnvFilter {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Of each client that connects by an IP address rustls says "Illegal SNI extension": nothing is wrong, and all connect so.
    EnvFilter::new(format!("warn,rustls::msgs::handshake=error,rowstamp={level}"))
}

fn log_to_stderr(settings: &LogSettings) -> SetLogLevel {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    // Another filter is refused only where the log is gone.
    match settings.format {
        LogFormat::Text => {
            let log = log.with_ansi(false).with_env_filter(filter(settings.level)).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
        LogFormat::Json => {
            let log = log.json().with_env_filter(filter(settings.level)).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{caught, filter};
    use crate::config::keys::LogLevel;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_warn_but_not_of_clients_that_connect_by_address() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter(LogLevel::Info))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "rustls::msgs::handshake", "Illegal SNI extension: ignoring IP address");
            tracing::warn!(target: "rustls::conn", "heard");
            tracing::info!(target: "rustls::conn", "passed over");
            tracing::info!(target: "rowstamp::proxy", "said");
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let seen = ["Illegal", "heard", "passed over", "said"].map(|text| log.contains(text));
        assert_eq!(seen, [false, true, false, true], "{log}");
    }

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
