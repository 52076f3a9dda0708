//! The tasks that run beside the sessions.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::daemon::reload::{Activation, Reloader};
use crate::daemon::{caught, watch};
use crate::rules::{Mark, Watch};
use crate::store::Store;
use crate::tables::{InForce, REFRESH_INTERVAL, SHAPE_AGE_MAX, TableError, shadow};

/// The pause after a look at the tables' ids, as a multiple of the time that the look took.
const PAUSE_FACTOR: u32 = 10;

/// After a lapse of the tables' locks, between two tries to assign the tables again.
const BIND_INTERVAL: Duration = Duration::from_millis(200);

/// The interval of looks for tables that are gone, if no session has sent DDL.
const GONE_INTERVAL: Duration = Duration::from_mins(10);

pub(super) fn watch(tables: &Arc<InForce>, store: &dyn Store) {
    tokio::spawn(watch_schema(Arc::downgrade(tables)));
    tokio::spawn(watch_ids(Arc::downgrade(tables)));
    tokio::spawn(raise_generators(Arc::downgrade(tables)));
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
    let (mut gone_at, mut gone_ddl) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        if let Err(error) = tables.now().refresh().await {
            tracing::debug!(%error, "Rowstamp cannot read the columns of tables with a rule");
        }
        tables.now().read_shadows().await;
        tables.now().compare_clocks().await;
        let trouble = tables.reopen().await.err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|_| trouble != told) {
            tracing::warn!(error, "the generators cannot be opened; Rowstamp tries again");
        }
        told = trouble;
        if views_read_at.elapsed() < SHAPE_AGE_MAX {
            continue;
        }
        views_read_at = Instant::now();
        if let Err(error) = tables.tidy().await {
            tracing::debug!(%error, "Rowstamp cannot read the views of tables with a rule");
        }
        let ddl = tables.ddl_seen();
        if ddl == gone_ddl && gone_at.elapsed() < GONE_INTERVAL {
            continue;
        }
        (gone_at, gone_ddl) = (Instant::now(), ddl);
        if let Err(error) = tables.forget_gone().await {
            tracing::debug!(%error, "Rowstamp cannot find out which tables with a rule are gone");
        }
    }
}

/// Ids that do not come through the proxy are looked for. Ends with the tables.
async fn watch_ids(tables: Weak<InForce>) {
    let mut pause = REFRESH_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let Some(tables) = tables.upgrade() else { return };
        let begun = Instant::now();
        tables.look_at_used().await;
        pause = REFRESH_INTERVAL.max(begun.elapsed() * PAUSE_FACTOR);
    }
}

/// Generators are raised above ids that the server made, and where that failed before. Ends with the tables.
async fn raise_generators(tables: Weak<InForce>) {
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        tables.raise_due().await;
    }
}

/// Logs the counts of tables in shadow mode. Ends with the tables.
async fn tell_shadow(tables: Weak<InForce>) {
    let mut logged = Vec::new();
    loop {
        tokio::time::sleep(shadow::counts::LOG_INTERVAL).await;
        let Some(tables) = tables.upgrade() else { return };
        shadow::counts::log(tables.shadow(), &mut logged);
    }
}

/// After a lapse of the tables' locks all tables are assigned again, however often that must be tried.
/// Ends with the tables.
async fn watch_locks(mut lapses: watch::Receiver<u64>, tables: Weak<InForce>) {
    while lapses.changed().await.is_ok() {
        let failed =
            "Rowstamp cannot bind the tables to their generators again, and issues no ids; it tries again";
        assign_again(&tables, failed).await;
    }
}

async fn assign_again(tables: &Weak<InForce>, failed: &str) {
    let mut told = None;
    while let Some(tables) = tables.upgrade() {
        let error = match tables.assign_again().await {
            // Another process takes over. If it ends without that, the tables are assigned then.
            Ok(()) | Err(TableError::Yielded) => return,
            Err(error) => error.to_string(),
        };
        drop(tables);
        if told.as_ref() != Some(&error) {
            tracing::error!(error, "{failed}");
            told = Some(error);
        }
        tokio::time::sleep(BIND_INTERVAL).await;
    }
}

/// When the store went back, all reserves are given up. When an operator has settled the store, the tables are assigned again,
/// because the store may have lost which generator each table has. Ends with either.
async fn watch_store(mut recalls: watch::Receiver<u64>, tables: Weak<InForce>) {
    let failed = "the store was settled, and Rowstamp cannot bind the tables to their generators again; it tries again";
    let mut era = tables.upgrade().map(|tables| tables.store_era());
    let mut is_to_assign = false;
    loop {
        tokio::select! {
            changed = recalls.changed() => if changed.is_err() { return },
            () = assign_again(&tables, failed), if is_to_assign => {
                is_to_assign = false;
                continue;
            }
        }
        let Some(tables) = tables.upgrade() else { return };
        tables.give_up_reserves();
        let now = tables.store_era();
        is_to_assign |= era.replace(now).is_some_and(|era| era != now);
    }
}

/// The interval of looks at the folder; files that two looks find the same have come to rest.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Rules that could not be made active, since the store or the backend was away, are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// `rules.watch`: reloads when the rules have changed. Never ends.
pub(crate) async fn watch_rules(reloader: Arc<Reloader>) {
    let mut watch = Watch::default();
    let mut again_at = None;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(folder) = reloader.watched().await else { continue };
        let Ok(now) = tokio::task::spawn_blocking(move || Mark::of(&folder)).await else { continue };
        let is_due = watch.is_due(now, &reloader.read());
        if !is_due && again_at.is_none_or(|at| Instant::now() < at) {
            continue;
        }
        again_at = match caught(reloader.reload_and_log("rules.watch")).await {
            Ok(Activation::TryAgain) => Some(Instant::now() + RETRY_INTERVAL),
            Ok(Activation::Active | Activation::Refused) => None,
            Err(_) => {
                tracing::error!(
                    "rules.watch: an internal error of Rowstamp ended the reload; the log has its message above; Rowstamp reloads \
                     again when the rules change"
                );
                None
            }
        };
    }
}
