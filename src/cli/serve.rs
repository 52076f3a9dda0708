//! `rowstamp serve`: run the proxy.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Instant;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::keys::{LogFormat, LogLevel};
use crate::config::{Config, Loaded, LogSettings, StoreKind};
use crate::proxy::backend;
use crate::proxy::listener::{self, Listener};
use crate::proxy::locks::TableLocks;
use crate::proxy::login::{KeyCell, LoginContext};
use crate::proxy::seats::Seats;
use crate::proxy::session::Shared;
use crate::proxy::settings::Verify;
use crate::proxy::tables::{REFRESH_INTERVAL, SHAPE_AGE_MAX, Tables};
use crate::proxy::tls::Tls;
use crate::proxy::verifier::Verifier;
use crate::rules::RuleSet;
use crate::schema::Schema;
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;

pub fn run(config: &Path) -> anyhow::Result<ExitCode> {
    let Loaded { config, rules, warnings } = super::load(config)?;
    log_to_stderr(&config.log);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, rules))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config, rules: RuleSet) -> anyhow::Result<()> {
    // Before anything is opened: a signal that comes now must end the process cleanly too.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Not caught, it would end the process: operators send it to have files read again.
    let mut hangup = signal(SignalKind::hangup())?;
    let settings = Arc::new(config.proxy.clone());
    let tls = Arc::new(Tls::new(&settings)?);
    let tables = Arc::new(tables(&config, rules).await?);
    tokio::spawn(watch_schema(Arc::downgrade(&tables)));
    let listener = Listener::bind(&settings.listen, settings.listen_is_written).await?;
    let (draining, drain) = watch::channel(false);
    let login = LoginContext {
        seats: Arc::new(Seats::new(&settings.limits)),
        settings,
        tls,
        own_key: Arc::new(KeyCell::default()),
        os_user: backend::os_user(),
    };
    let verifier = Verifier::new(config.rewrite.verify);
    let shared = Shared {
        login,
        tables: tables.clone(),
        id_deadline: config.store.deadline,
        verifier: verifier.clone(),
        draining: drain,
    };
    tracing::info!("listening on {}", listener.address());
    let stop = async {
        let name = loop {
            tokio::select! {
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                _ = hangup.recv() => tracing::warn!("SIGHUP: this version reads its files at the start only; restart it"),
            }
        };
        tracing::info!("{name}: no new clients");
    };
    listener::serve(listener, shared, draining, stop, second_signal()).await;
    if verifier.mode != Verify::Off {
        let [agreed, not_verified, refused] = verifier.counted();
        tracing::info!(
            agreed,
            not_verified,
            refused,
            "rewrite.verify: rewrites and what a second parser said of them"
        );
    }
    for generator in tables.generators() {
        generator.close().await;
    }
    Ok(())
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

/// DDL that does not come through the proxy is looked for. Ends with the tables.
async fn watch_schema(tables: Weak<Tables>) {
    let mut views_read_at = Instant::now();
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        if let Err(error) = tables.refresh().await {
            tracing::debug!(%error, "the columns of ruled tables cannot be read");
        }
        if views_read_at.elapsed() < SHAPE_AGE_MAX {
            continue;
        }
        views_read_at = Instant::now();
        if let Err(error) = tables.read_views().await {
            tracing::debug!(%error, "the views of ruled tables cannot be read");
        }
    }
}

async fn tables(config: &Config, rules: RuleSet) -> anyhow::Result<Tables> {
    let StoreKind::Embedded { path } = &config.store.kind;
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(path)?);
    let schema = match super::control(config) {
        Some(control) => Some(Schema::connect(&control).await?),
        None => None,
    };
    let locks = schema.clone().map(TableLocks::new);
    let name = config.proxy.name.clone();
    Tables::open(Arc::new(rules), schema, store, locks, name)
        .await
        .context("the ruled tables cannot be opened")
}

/// Libraries are heard when something is wrong with them.
fn log_to_stderr(settings: &LogSettings) {
    let level = match settings.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::new(format!("warn,rowstamp={level}"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}
