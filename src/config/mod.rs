//! From the text of rowstamp.toml to settings that can act.
//!
//! [`keys`] defines the keys that can be written. `act` and `store` make settings of them,
//! and [`reload`] says which keys take effect when the file is read again.

mod act;
pub mod keys;
pub mod reload;
mod secret;
mod store;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keys::{Compat, ConfigFile, LogFormat, LogLevel, OnDoubt};

use crate::address::Address;
use crate::admin::http::HttpSettings;
use crate::ids::sequence::Seed;
use crate::proxy::settings::{ListenTls, Settings, TlsIdentity, Verify};
use crate::rules::model::{GENERATOR_OF_UDF, GeneratorKind};
use crate::rules::{self, Mark, RuleSet};
use crate::toml_file::{self, Environment, Finding, Findings, Secret, Severity, Source};
use crate::users::User;

pub const DEFAULT_PATH: &str = "rowstamp.toml";

/// Everything that the commands need to act.
#[derive(Debug, Clone)]
pub struct Config {
    pub proxy: Settings,
    /// Rowstamp's own account on the backend.
    pub control: Option<Account>,
    pub store: StoreSettings,
    /// `state.others_may_write`
    pub others_may_write: bool,
    pub rules: RulesSettings,
    pub rewrite: RewriteSettings,
    /// `None`: nothing is served.
    pub http: Option<HttpSettings>,
    pub admin: AdminSettings,
    /// The time for which known users of the store stay valid while the store does not answer.
    pub users_stale_max: Duration,
    /// The Redis protocol.
    pub resp: DoorSettings,
    /// The HTTP API.
    pub api: DoorSettings,
    /// Whose paths it answers beside its own.
    pub api_compat: Vec<Compat>,
    pub log: LogSettings,
}

impl Config {
    /// The address at which other machines reach the HTTP API. `None`: they cannot reach it, or the system chooses the port.
    pub fn api_elsewhere(&self) -> Option<String> {
        let address = self.api.address.as_ref().filter(|address| !address.is_of_this_machine())?;
        let Address::Tcp { host, port: port @ 1.. } = address else { return None };
        let is_any = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        let host = if is_any { act::host_name() } else { host.clone() };
        Some(Address::Tcp { host, port: *port }.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub user: String,
    pub password: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    pub kind: StoreKind,
    /// The time that an INSERT into a table with a rule waits for an id before it fails with error 1467.
    pub deadline: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreKind {
    Embedded { path: PathBuf },
    Etcd(Etcd),
    Mysql(Mysql),
}

/// The store in a table. A field that is `None` is the same as for the backend's control account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mysql {
    pub table: String,
    pub address: Option<Address>,
    pub account: Option<Account>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etcd {
    /// `host:port` of each member.
    pub endpoints: Vec<String>,
    /// In front of all keys, with no `/` at its end.
    pub prefix: String,
    pub account: Option<Account>,
    pub tls: Option<EtcdTls>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// Certificates (PEM) that etcd's must lead to.
    pub ca: PathBuf,
    pub identity: Option<TlsIdentity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesSettings {
    pub path: PathBuf,
    pub watch: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewriteSettings {
    pub verify: Verify,
    pub on_doubt: OnDoubt,
}

impl RewriteSettings {
    /// True if a statement that cannot be rewritten goes to the server as it came. Its tables must keep their AUTO_INCREMENT.
    pub fn forwards(&self) -> bool {
        self.on_doubt == OnDoubt::Forward
    }
}

/// The console.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// `None`: off.
    pub address: Option<Address>,
    /// True if the file or the environment has the address. False: it is the default, [`AdminSettings::PORT`] of this machine.
    pub is_written: bool,
    pub users: Arc<[Arc<User>]>,
}

impl AdminSettings {
    /// The default port of the console: the port after the proxy's own.
    pub const PORT: u16 = 3308;
}

/// A door: it gives ids without an INSERT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorSettings {
    /// `None`: off.
    pub address: Option<Address>,
    pub tls: ListenTls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    pub level: LogLevel,
    pub format: LogFormat,
    /// The audit log: the file in which rewritten statements are noted.
    pub audit: Option<PathBuf>,
}

/// A configuration and its rules that can act, and what is to be warned of.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// The keys as rowstamp.toml and the environment have them.
    pub written: Box<ConfigFile>,
    /// The places of these keys in rowstamp.toml and the environment.
    pub places: Source<()>,
    pub rules: RuleSet,
    /// The rules' files from before they were read.
    pub mark: Mark,
    pub warnings: Findings,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "{}: there is no such file; write one (all keys: {}), name another with --config or $ROWSTAMP_CONFIG, or set the keys in \
         the environment, ROWSTAMP_BACKEND__ADDRESS first",
        .0.display(),
        crate::book::page!("config")
    )]
    NoFile(PathBuf),
    #[error("{0}")]
    Findings(Findings),
}

/// [`load`] with the environment of this process.
pub fn load_file(path: &Path) -> Result<Loaded, LoadError> {
    load(path, &Environment::of_process())
}

/// A configuration that is not this process's own: keys that the environment says are not meant for it.
pub fn load_other_file(path: &Path) -> Result<Loaded, LoadError> {
    load(path, &Environment::of_process().without_keys())
}

/// Reads rowstamp.toml, the keys that the environment says, and the rules; fails with everything that is wrong with any of
/// them.
pub fn load(path: &Path, environment: &Environment) -> Result<Loaded, LoadError> {
    let mut findings = Findings::default();
    let read = written(path, environment, &mut findings)?;
    let Some(source) = read else { return Err(LoadError::Findings(findings.sorted())) };
    let config = act::config(&source, environment, &mut findings);
    let folder = source.resolve(&source.keys.rules.path);
    let mark = Mark::of(&folder);
    let rules = match rules_of(&source, &folder) {
        Ok((rules, warnings)) => {
            let is_door_open = config
                .as_ref()
                .is_some_and(|config| config.resp.address.is_some() || config.api.address.is_some());
            findings
                .extend(warnings.into_iter().filter(|found| !(is_door_open && rules::is_of_unused(found))));
            let has_control = source.keys.backend.control.is_some();
            findings.extend(control_account(path, has_control, &rules));
            findings.extend(rules::short_lived(&rules, SystemTime::now().into()));
            findings.extend(generator_of_udf(&source, &rules));
            Some(rules)
        }
        Err(errors) => {
            findings.extend(errors);
            None
        }
    };
    let findings = findings.sorted();
    match (config, rules) {
        (Some(config), Some(rules)) if !findings.has_errors() => {
            let (places, keys) = source.with_keys(());
            Ok(Loaded { config, written: Box::new(keys), places, rules, mark, warnings: findings })
        }
        _ => Err(LoadError::Findings(findings)),
    }
}

/// The rules; that their folder is not there is an error of the key that names it.
fn rules_of(source: &Source<ConfigFile>, folder: &Path) -> Result<(RuleSet, Findings), Findings> {
    match std::fs::read_dir(folder) {
        Ok(_) => rules::load(folder),
        Err(error) => {
            let mut findings = Findings::default();
            let text = format!(
                "{} cannot be read: {error}; create the folder, or correct the path",
                folder.display()
            );
            findings.push(source.error("rules.path", text));
            Err(findings)
        }
    }
}

/// The keys of the file and of the environment. Without a file those of the environment alone, as a container has them; but
/// where it has none, or a file was named, the file is missing.
fn written(
    path: &Path,
    environment: &Environment,
    findings: &mut Findings,
) -> Result<Option<Source<ConfigFile>>, LoadError> {
    if path.try_exists().unwrap_or(true) {
        return Ok(toml_file::read(path, Some(environment), findings));
    }
    if path != Path::new(DEFAULT_PATH) || !environment.has_keys() {
        return Err(LoadError::NoFile(path.to_owned()));
    }
    Ok(toml_file::parse(path, "", Some(environment), findings))
}

/// The address at which the process of this configuration serves its status; `None`: it serves none. The rules may be
/// broken, and passwords missing.
pub fn http_address(path: &Path) -> Result<Option<Address>, LoadError> {
    let mut findings = Findings::default();
    match written(path, &Environment::of_process(), &mut findings)? {
        Some(source) => Ok(act::http(&source).map(|http| http.address)),
        None => Err(LoadError::Findings(findings.sorted())),
    }
}

/// Without it the paths of `api.compat` answer errors.
fn generator_of_udf(source: &Source<ConfigFile>, rules: &RuleSet) -> Option<Finding> {
    if !source.keys.api.compat.contains(&Compat::Udf) {
        return None;
    }
    let why = match rules.generator_named(GENERATOR_OF_UDF).map(|spec| spec.kind) {
        Some(GeneratorKind::Timestamp(_)) => return None,
        Some(GeneratorKind::Sequence(_)) => "and it is a sequence, which has no workers",
        None => "and the rules have none",
    };
    let why = format!(
        "\"udf\" gives ids of generator {GENERATOR_OF_UDF}, {why}; write schema = \"service\" and [generators.id] with kind = \"timestamp\" \
         into a file of the rules"
    );
    Some(source.warning("api.compat", why))
}

/// Findings about what Rowstamp cannot do without a control account.
fn control_account(path: &Path, has_control: bool, rules: &RuleSet) -> Vec<Finding> {
    if has_control || rules.is_empty() {
        return Vec::new();
    }
    let no_shapes = "is missing, so Rowstamp will refuse each INSERT without a column list into a table with a rule; add an \
                     account that may read information_schema and the tables with rules";
    let warning = Finding {
        severity: Severity::Warning,
        ..Finding::error(path, None, Some("backend.control"), no_shapes)
    };
    let seeded = rules.specs().filter_map(|generator| {
        let GeneratorKind::Sequence(sequence) = &generator.kind else { return None };
        let key = toml_file::join(&toml_file::join("generators", &generator.name.name), "seed");
        (sequence.seed == Seed::Tables).then(|| {
            let text = "\"tables\" needs an account that can read the tables' ids and counters; add \
                        [backend.control] to rowstamp.toml, or write seed = \"none\" and a start above all ids";
            Finding::error(&generator.origin.file, Some(generator.origin.line), Some(&key), text)
        })
    });
    let auto = rules.rules().filter(|rule| rule.is_auto()).map(|rule| {
        let key = toml_file::join(&toml_file::join("tables", &rule.table), "column");
        let text = "\"auto\" needs an account that can read the columns of the live table; add [backend.control] to \
                    rowstamp.toml, or name the column";
        Finding::error(&rule.origin.file, Some(rule.origin.line), Some(&key), text)
    });
    let made = rules.rules().filter(|rule| rule.made_from.is_some()).map(|rule| {
        let key = toml_file::join(&toml_file::join("tables", &rule.table), "generator");
        let text = "makes a generator for each live table, and needs an account that can see them; add [backend.control] to rowstamp.toml, or \
                    name one generator of this file's only database";
        Finding::error(&rule.origin.file, Some(rule.origin.line), Some(&key), text)
    });
    std::iter::once(warning).chain(seeded).chain(auto).chain(made).collect()
}

#[cfg(test)]
mod tests;
