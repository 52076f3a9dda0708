//! The files read again while the proxy serves: all of them act, or none.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::audit::{self, AuditError};
use crate::config::keys::{ConfigFile, LogLevel};
use crate::config::reload::{acts_on_reload, reloaded};
use crate::config::{Config, LoadError, Loaded};
use crate::daemon::doors::{self, DoorTerms, ReloadableTerms};
use crate::daemon::settings::differing;
use crate::log_span::within;
use crate::proxy::connect::tls::{Tls, TlsError};
use crate::proxy::shared::Shared;
use crate::rules::{Mark, RuleSet, changes};
use crate::tables::TableError;
use crate::toml_file::{Findings, Severity};
use crate::users::Directory;

/// Rules that have come, gone or changed and are named in the log, each in a line; of more it says
/// how many.
const CHANGES_LOGGED_MAX: usize = 100;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("the new rules cannot be activated: {0}")]
    Tables(#[from] TableError),
    #[error("an internal error of Rowstamp ended the reading of the files: {0}")]
    Task(#[from] tokio::task::JoinError),
}

#[derive(Debug)]
pub struct Reloaded {
    pub rules: usize,
    /// The generators that are there; in a dry run, those of the files.
    pub generators: usize,
    pub changes: Vec<String>,
    pub warnings: Findings,
    /// Keys of rowstamp.toml that were changed and act.
    pub settings: Vec<String>,
    /// Keys that were changed and act after a restart only.
    pub waiting: Vec<&'static str>,
}

/// The counts of reloads and the last result, without dry runs.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) good: u64,
    pub(crate) bad: u64,
    pub(crate) last_was_good: bool,
    /// When what is active was read.
    pub(crate) good_at: SystemTime,
}

/// The outcome of a reload; the log has the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    Active,
    /// Until the files are fixed.
    Refused,
    /// The files are right: what they need was not to be had.
    TryAgain,
}

/// Reads the files again on request.
pub struct Reloader {
    config_path: PathBuf,
    /// The active configuration. Held while files are read: one reload at a time.
    acting: tokio::sync::Mutex<Config>,
    /// Reloads since the start, dry runs aside: the number of the last one.
    last: AtomicU64,
    /// Notes for readers that must not wait for a reload.
    notes: Mutex<Notes>,
    /// rowstamp.toml at the start.
    began: Arc<ConfigFile>,
    /// The settings and rules that new sessions get.
    shared: Arc<ArcSwap<Shared>>,
    terms: DoorTerms,
    users: Arc<Directory>,
    set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

struct Notes {
    /// The rules' files as they were read last, whatever came of it.
    read: Mark,
    /// rowstamp.toml as it was made active last.
    written: Arc<ConfigFile>,
    done: Done,
}

/// Files that were read and checked, and are not active yet.
struct NextConfig {
    config: Config,
    written: Arc<ConfigFile>,
    rules: RuleSet,
    tls: Tls,
    terms: ReloadableTerms,
    summary: Reloaded,
}

impl Reloader {
    pub fn new(
        config_path: PathBuf,
        (acting, written, read): (Config, ConfigFile, Mark),
        (shared, terms, users): (Arc<ArcSwap<Shared>>, DoorTerms, Arc<Directory>),
        set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    ) -> Self {
        let done = Done { good: 0, bad: 0, last_was_good: true, good_at: SystemTime::now() };
        let began = Arc::new(written);
        let notes = Mutex::new(Notes { read, written: Arc::clone(&began), done });
        let acting = tokio::sync::Mutex::new(acting);
        let last = AtomicU64::new(0);
        Reloader { config_path, acting, last, notes, began, shared, terms, users, set_log_level }
    }

    /// The folder whose changes are taken up by themselves. `None`: they are not, or another
    /// process has taken over.
    pub(crate) async fn watched(&self) -> Option<PathBuf> {
        let rules = self.acting.lock().await.rules.clone();
        (rules.watch && !self.shared.load().tables.has_yielded()).then_some(rules.path)
    }

    /// The rules' files as they were read last.
    pub(crate) fn read(&self) -> Mark {
        self.notes.lock().read.clone()
    }

    /// rowstamp.toml at the start, and as it was made active last.
    pub(crate) fn written(&self) -> (Arc<ConfigFile>, Arc<ConfigFile>) {
        (Arc::clone(&self.began), Arc::clone(&self.notes.lock().written))
    }

    pub(crate) fn done(&self) -> Done {
        self.notes.lock().done.clone()
    }

    /// Reads and checks everything first; what fails leaves everything as it was, but `log.audit`,
    /// which goes first.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let mut acting = self.acting.lock().await;
        let reloaded = match self.next(&acting, true).await {
            Ok(next) => self.activate(next, &mut acting).await,
            Err(error) => Err(error),
        };
        let done = &mut self.notes.lock().done;
        done.last_was_good = reloaded.is_ok();
        if reloaded.is_ok() {
            (done.good, done.good_at) = (done.good + 1, SystemTime::now());
        } else {
            done.bad += 1;
        }
        reloaded
    }

    /// The changes that [`Reloader::reload`] would make, as far as the files tell; nothing is changed.
    pub(crate) async fn dry_run(&self) -> Result<Reloaded, ReloadError> {
        let acting = self.acting.lock().await;
        Ok(self.next(&acting, false).await?.summary)
    }

    /// `marks`: what is read counts as read.
    async fn next(&self, acting: &Config, marks: bool) -> Result<NextConfig, ReloadError> {
        let (path, folder) = (self.config_path.clone(), acting.rules.path.clone());
        let read = move || (Mark::of(&folder), crate::config::load_file(&path));
        let (before, loaded) = tokio::task::spawn_blocking(read).await?;
        if marks {
            self.notes.lock().read = loaded.as_ref().map_or(before, |loaded| loaded.mark.clone());
        }
        let Loaded { config, written, rules, warnings, .. } = loaded?;
        let (config, waiting) = reloaded(acting, config);
        let of_tls = config.clone();
        let both = move || Ok::<_, TlsError>((Tls::new(&of_tls.proxy)?, doors::terms(&of_tls)?));
        let (tls, terms) = tokio::task::spawn_blocking(both).await??;
        let changed = differing(&self.written().1, &written);
        let summary = Reloaded {
            rules: rules.rules().len(),
            generators: rules.specs().count(),
            changes: changes(&self.shared.load().tables.rules(), &rules),
            warnings,
            settings: changed.into_iter().filter(|key| acts_on_reload(key)).collect(),
            waiting,
        };
        Ok(NextConfig { config, written: Arc::from(written), rules, tls, terms, summary })
    }

    async fn activate(&self, next: NextConfig, acting: &mut Config) -> Result<Reloaded, ReloadError> {
        let NextConfig { config, written, rules, tls, terms, summary } = next;
        let shared = self.shared.load_full();
        // Statements are noted in it a moment before the rest acts, or, where that fails, from now
        // on.
        let opened = audit::open(config.log.audit.as_deref()).await?;
        shared.audit.note_in(opened)?;
        shared.tables.change(Arc::new(rules)).await?;
        // From here on nothing fails.
        let summary = Reloaded { generators: shared.tables.generator_specs().len(), ..summary };
        let settings = Arc::new(config.proxy.clone());
        shared.login.seats.limit(&settings.limits);
        let mut next = Shared::clone(&shared);
        next.login.settings = settings;
        next.login.tls = Arc::new(tls);
        next.id_deadline = config.store.deadline;
        next.verifier.mode = config.rewrite.verify;
        next.forwards = config.rewrite.forwards();
        self.shared.store(Arc::new(next));
        self.terms.store(Arc::new(terms));
        (self.set_log_level)(config.log.level);
        self.users.set_file(&config.admin.users, config.users_stale_max);
        *acting = config;
        self.notes.lock().written = written;
        Ok(summary)
    }

    /// [`Reloader::reload`], and the log says how it went; `cause` is what asked for it. Its lines have its number since the start.
    pub(crate) async fn reload_for(&self, cause: &str) -> Result<Reloaded, ReloadError> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let reloading = async {
            let reloaded = self.reload().await;
            log(cause, &reloaded);
            reloaded
        };
        within(("reload", number), reloading).await
    }

    /// [`Reloader::reload_for`], where nobody waits for more than a word.
    pub(crate) async fn reload_and_log(&self, cause: &str) -> Activation {
        match self.reload_for(cause).await {
            Ok(_) => Activation::Active,
            Err(ReloadError::Tables(error)) if error.may_pass() => Activation::TryAgain,
            Err(_) => Activation::Refused,
        }
    }
}

fn log(cause: &str, reloaded: &Result<Reloaded, ReloadError>) {
    match reloaded {
        Ok(Reloaded { rules, generators, changes, warnings, waiting, .. }) => {
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            for key in waiting {
                tracing::warn!("{key} has changed: it keeps its value until a restart");
            }
            for change in changes.iter().take(CHANGES_LOGGED_MAX) {
                tracing::info!("{cause}: {change}");
            }
            if let Some(more @ 1..) = changes.len().checked_sub(CHANGES_LOGGED_MAX) {
                tracing::info!("{cause}: more changes of the rules: {more}");
            }
            tracing::info!(rules, generators, "{cause}: the files are active");
        }
        Err(error) => {
            match error {
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
            tracing::error!("{cause}: nothing is changed, the rules and settings from before stay active");
        }
    }
}
