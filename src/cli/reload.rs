//! The files read again while the proxy serves: all of them act, or none.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::keys::LogLevel;
use crate::config::reload::reloaded;
use crate::config::{Config, LoadError, Loaded};
use crate::proxy::session::Shared;
use crate::proxy::tables::TableError;
use crate::proxy::tls::{Tls, TlsError};
use crate::toml_file::{Findings, Severity};

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
    pub warnings: Findings,
    /// Keys that were changed and act after a restart only.
    pub waiting: Vec<&'static str>,
}

/// Reads the files again when it is told to.
pub struct Reloader {
    config_path: PathBuf,
    /// What acts. Held while files are read: one reload at a time.
    acting: tokio::sync::Mutex<Config>,
    /// What new sessions get.
    shared: Arc<ArcSwap<Shared>>,
    set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

impl Reloader {
    pub fn new(
        config_path: PathBuf,
        acting: Config,
        shared: Arc<ArcSwap<Shared>>,
        set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    ) -> Self {
        Reloader { config_path, acting: tokio::sync::Mutex::new(acting), shared, set_log_level }
    }

    /// Reads and checks everything first; what fails leaves everything as it was.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let mut acting = self.acting.lock().await;
        let path = self.config_path.clone();
        let Loaded { config, rules, warnings } =
            tokio::task::spawn_blocking(move || super::load(&path)).await??;
        let (config, waiting) = reloaded(&acting, config);
        let settings = Arc::new(config.proxy.clone());
        let for_tls = settings.clone();
        let tls = tokio::task::spawn_blocking(move || Tls::new(&for_tls)).await??;
        let (rule_count, generators) = (rules.rules().len(), rules.generators().len());
        let shared = self.shared.load_full();
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
        Ok(Reloaded { rules: rule_count, generators, warnings, waiting })
    }

    /// [`Reloader::reload`], and the log says how it went; `cause` is what asked for it.
    pub async fn reload_and_tell(&self, cause: &str) {
        match self.reload().await {
            Ok(Reloaded { rules, generators, warnings, waiting }) => {
                for warning in &warnings {
                    tracing::warn!("{warning}");
                }
                for key in waiting {
                    tracing::warn!("{key} has changed: it keeps its value until a restart");
                }
                tracing::info!(rules, generators, "{cause}: the files are in force");
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
            }
        }
    }
}
