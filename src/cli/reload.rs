//! The files read again while the proxy serves: all of them act, or none.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::config::keys::LogLevel;
use crate::config::reload::reloaded;
use crate::config::{Config, LoadError, Loaded};
use crate::proxy::session::Shared;
use crate::proxy::tables::TableError;
use crate::proxy::tls::{Tls, TlsError};
use crate::rules::{Change, Mark, changes};
use crate::toml_file::{Findings, Severity};

/// Rules that have come, gone or changed and are named in the log, each in a line; of more it says how many.
const CHANGES_TOLD_MAX: usize = 100;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the new rules cannot be put in force: {0}")]
    Tables(#[from] TableError),
    #[error("reading the files: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What a reload did.
#[derive(Debug)]
pub struct Reloaded {
    pub rules: usize,
    pub generators: usize,
    /// Of the rules.
    pub changes: Vec<Change>,
    pub warnings: Findings,
    /// Keys that were changed and act after a restart only.
    pub waiting: Vec<&'static str>,
}

/// What came of a reload, as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    InForce,
    /// Until the files are mended.
    Refused,
    /// The files are right: what they need was not to be had.
    TryAgain,
}

/// Reads the files again when it is told to.
pub struct Reloader {
    config_path: PathBuf,
    /// What acts. Held while files are read: one reload at a time.
    acting: tokio::sync::Mutex<Config>,
    /// The rules' files as they were read last, whatever came of it.
    read: Mutex<Mark>,
    /// What new sessions get.
    shared: Arc<ArcSwap<Shared>>,
    set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

impl Reloader {
    pub fn new(
        config_path: PathBuf,
        (acting, read): (Config, Mark),
        shared: Arc<ArcSwap<Shared>>,
        set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    ) -> Self {
        let (acting, read) = (tokio::sync::Mutex::new(acting), Mutex::new(read));
        Reloader { config_path, acting, read, shared, set_log_level }
    }

    /// The folder whose changes are taken up by themselves. `None`: they are not, or another process has taken over.
    pub(super) async fn watched(&self) -> Option<PathBuf> {
        let rules = self.acting.lock().await.rules.clone();
        (rules.watch && !self.shared.load().tables.has_yielded()).then_some(rules.path)
    }

    /// The rules' files as they were read last.
    pub(super) fn read(&self) -> Mark {
        self.last_read().clone()
    }

    fn last_read(&self) -> std::sync::MutexGuard<'_, Mark> {
        // A mark is right whatever panicked while it was locked.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and checks everything first; what fails leaves everything as it was.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let mut acting = self.acting.lock().await;
        let (path, folder) = (self.config_path.clone(), acting.rules.path.clone());
        let read = move || (Mark::of(&folder), super::load(&path));
        let (before, loaded) = tokio::task::spawn_blocking(read).await?;
        *self.last_read() = loaded.as_ref().map_or(before, |loaded| loaded.mark.clone());
        let Loaded { config, rules, warnings, .. } = loaded?;
        let (config, waiting) = reloaded(&acting, config);
        let settings = Arc::new(config.proxy.clone());
        let for_tls = settings.clone();
        let tls = tokio::task::spawn_blocking(move || Tls::new(&for_tls)).await??;
        let (rule_count, generators) = (rules.rules().len(), rules.generators().len());
        let shared = self.shared.load_full();
        let changes = changes(&shared.tables.rules(), &rules);
        shared.tables.change(Arc::new(rules)).await?;
        // From here on nothing fails.
        shared.login.seats.limit(&settings.limits);
        let mut next = Shared::clone(&shared);
        next.login.settings = settings;
        next.login.tls = Arc::new(tls);
        next.id_deadline = config.store.deadline;
        next.verifier.mode = config.rewrite.verify;
        self.shared.store(Arc::new(next));
        (self.set_log_level)(config.log.level);
        *acting = config;
        Ok(Reloaded { rules: rule_count, generators, changes, warnings, waiting })
    }

    /// [`Reloader::reload`], and the log says how it went; `cause` is what asked for it.
    pub(super) async fn reload_and_tell(&self, cause: &str) -> Told {
        match self.reload().await {
            Ok(Reloaded { rules, generators, changes, warnings, waiting }) => {
                for warning in &warnings {
                    tracing::warn!("{warning}");
                }
                for key in waiting {
                    tracing::warn!("{key} has changed: it keeps its value until a restart");
                }
                for change in changes.iter().take(CHANGES_TOLD_MAX) {
                    tracing::info!("{cause}: {change}");
                }
                if let Some(more @ 1..) = changes.len().checked_sub(CHANGES_TOLD_MAX) {
                    tracing::info!("{cause}: and {more} more changes of the rules");
                }
                tracing::info!(rules, generators, "{cause}: the files are in force");
                Told::InForce
            }
            Err(error) => {
                match &error {
                    ReloadError::Load(LoadError::Findings(findings)) => {
                        for finding in findings {
                            match finding.severity {
                                Severity::Error => tracing::error!("{finding}"),
                                Severity::Warning => tracing::warn!("{finding}"),
                            }
                        }
                    }
                    error => tracing::error!("{error}"),
                }
                tracing::error!(
                    "{cause}: nothing is changed, the rules and settings from before stay in force"
                );
                match error {
                    ReloadError::Tables(error) if error.may_pass() => Told::TryAgain,
                    _ => Told::Refused,
                }
            }
        }
    }
}
