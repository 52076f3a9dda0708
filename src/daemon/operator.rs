//! The running proxy as operators see it: what the console and the HTTP server show and do, made of
//! its parts.

mod generators;
mod health;
mod metrics;
mod process;
mod rates;
mod store;

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::{Notify, watch};

use crate::admin::{
    About, BackendRow, Check, ConfigRow, Desk, DeskError, DoorRow, EventRow, FindingRow, GeneratorRow,
    GeneratorState, LastRow, Metric, ProxyRow, Raised, RefusedRow, Reload, RuleRow, SessionRow, SessionState,
    SlotRow, StoredRow,
};
use crate::audit::UserChange;
use crate::config::{Config, StoreKind};
use crate::daemon::doors::SeenDoors;
use crate::daemon::log::recent;
use crate::daemon::operator::health::Health;
use crate::daemon::operator::rates::Rates;
use crate::daemon::reload::Reloader;
use crate::daemon::settings;
use crate::explain::tables::LiveTables;
use crate::explain::{ExplainInput, explain_statement};
use crate::ids::layout::Moment;
use crate::lint::{self, Access, Finding, Where};
use crate::opened::facts::{access_of, facts_of};
use crate::opened::locks;
use crate::proxy::shared::Shared;
use crate::rules::model::{GeneratorName, Rule};
use crate::rules::word;
use crate::schema::facts::Facts;
use crate::schema::{Role, Schema};
use crate::sessions::last::LastDigest;
use crate::sessions::{Count, Seen, Sessions};
use crate::store::Store;
use crate::store::metered::StoreMeter;
use crate::tables::{Covered, InForce};
use crate::users::{Change, ChangeError, Changed, Directory};

/// Troubles that a check names.
const TROUBLES_MAX: usize = 5;

pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) shared: Arc<ArcSwap<Shared>>,
    pub(crate) tables: Arc<InForce>,
    pub(crate) schema: Option<Schema>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) users: Arc<Directory>,
    pub(crate) meter: Arc<StoreMeter>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) draining: watch::Receiver<bool>,
}

pub(crate) struct ProxyDesk {
    /// The address that applications connect to, with the real port.
    listen: String,
    parts: Parts,
    doors: SeenDoors,
    sessions: Arc<Sessions>,
    since: SystemTime,
    rates: Rates,
    health: Health,
    drains: Arc<Notify>,
}

impl ProxyDesk {
    /// Needs a Tokio runtime, in which it looks at the generators, and asks the backend and the
    /// store, while it lives.
    pub(crate) fn new(listen: String, parts: Parts, doors: SeenDoors) -> Arc<Self> {
        let sessions = Arc::clone(&parts.shared.load().sessions);
        let (rates, health, drains) = (Rates::default(), Health::default(), Arc::default());
        let since = SystemTime::now();
        let desk = Arc::new(ProxyDesk { listen, parts, doors, sessions, since, rates, health, drains });
        tokio::spawn(rates::sample(Arc::downgrade(&desk)));
        tokio::spawn(health::watch(Arc::downgrade(&desk)));
        desk
    }

    /// Resolves when an operator asks for it.
    pub(crate) async fn drain_asked(&self) {
        self.drains.notified().await;
    }

    fn note_change(&self, change: &Change, user: &str, client: &str, error: Option<&str>) {
        let audit = &self.parts.shared.load().audit;
        if audit.is_on() {
            let (time, change) = (Moment::from(SystemTime::now()).to_string(), change.to_string());
            audit.note_line(&UserChange { time: &time, user, client, change: &change, error });
        }
    }

    /// The store is a file of this proxy's own.
    fn is_alone(&self) -> bool {
        matches!(self.parts.config.store.kind, StoreKind::Embedded { .. })
    }

    fn generator(&self, name: &str) -> Result<GeneratorName, DeskError> {
        let tables = &self.parts.tables;
        tables.generator_named(name).map(|spec| spec.name.clone()).ok_or_else(|| {
            let names: Vec<_> = tables.generator_specs().iter().map(|spec| spec.name.to_string()).collect();
            let near = crate::toml_file::nearest(name, names.iter().map(String::as_str));
            let near = near.map_or_else(
                || "SHOW GENERATORS lists all".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            DeskError::Wrong(format!("the rules have no generator {name}; {near}"))
        })
    }
}

#[async_trait]
impl Desk for ProxyDesk {
    fn about(&self) -> About {
        let Parts { config, draining, .. } = &self.parts;
        About {
            version: env!("CARGO_PKG_VERSION"),
            name: config.proxy.name.clone(),
            listen: self.listen.clone(),
            backends: config.proxy.backend.addresses.iter().map(ToString::to_string).collect(),
            store: match config.store.kind {
                StoreKind::Embedded { .. } => "embedded",
                StoreKind::Etcd(_) => "etcd",
                StoreKind::Mysql(_) => "mysql",
            },
            since: self.since,
            is_draining: *draining.borrow(),
        }
    }

    fn checks(&self) -> Vec<Check> {
        let tables = &self.parts.tables;
        let listener = match () {
            () if *self.parts.draining.borrow() => Some("the proxy drains".to_owned()),
            () if tables.has_yielded() => Some("another process has taken over".to_owned()),
            () => None,
        };
        let stopped = self.generators().into_iter().filter_map(|row| match row.state {
            GeneratorState::Stopped(why) => Some(format!("{}: {why}", row.name)),
            _ => None,
        });
        let store =
            self.parts.meter.is_away().then(|| "the store did not answer the last request".to_owned());
        // A proxy that takes no clients closes its doors too.
        let closed = self.doors().into_iter().filter(|door| listener.is_none() && !door.is_open);
        let doors = joined(closed.filter_map(|door| {
            let (name, address) = (door.name, door.address?);
            Some(format!("{name}.address: nobody can connect to {address} yet; the log says why"))
        }));
        vec![
            Check::needed("listener", listener),
            Check::needed("backend", self.health.backend().trouble),
            Check::wanted("store", store),
            Check::wanted("generators", joined(stopped)),
            Check::wanted("users", self.parts.users.trouble()),
            Check::wanted("doors", doors),
        ]
    }

    fn rules(&self) -> Vec<RuleRow> {
        let mut covered = self.parts.tables.covered_by_rules();
        let rules = self.parts.tables.rules();
        rules
            .rules()
            .map(|rule| rule_row(rule, covered.remove(&rule.written()).unwrap_or_default()))
            .collect()
    }

    fn generators(&self) -> Vec<GeneratorRow> {
        generators::rows(&self.parts.tables, &self.rates)
    }

    fn doors(&self) -> Vec<DoorRow> {
        self.doors.rows(&self.parts.config)
    }

    fn backends(&self) -> Vec<BackendRow> {
        let shared = self.parts.shared.load();
        let primary = &shared.login.primary;
        let row = |(nth, address): (usize, &crate::address::Address)| {
            let seen = primary.seen(nth);
            let answered = seen.role.filter(|role| *role != Role::Away);
            BackendRow {
                address: address.to_string(),
                is_primary: nth == primary.get(),
                is_up: seen.is_up(),
                is_read_only: answered.map(|role| role == Role::ReadOnly),
                is_replica: answered.filter(|role| *role != Role::ReadOnly).map(|role| role == Role::Replica),
                connect_errors: seen.failed.iter().map(|(failure, count)| (failure.word(), *count)).collect(),
                connect_time: metrics::timing(&seen.connected.read()),
                last_error: seen.last_error,
            }
        };
        self.parts.config.proxy.backend.addresses.iter().enumerate().map(row).collect()
    }

    fn sessions(&self) -> Vec<SessionRow> {
        self.sessions.seen().into_iter().map(session_row).collect()
    }

    fn last_ruled(&self) -> Vec<(u64, LastRow)> {
        let row = |(id, LastDigest { hash, text })| (id, LastRow { digest: hash, statement: text });
        self.sessions.last_ruled().into_iter().map(row).collect()
    }

    fn refused(&self) -> Vec<RefusedRow> {
        self.sessions.refused.rows()
    }

    fn events(&self) -> Vec<EventRow> {
        recent::rows()
    }

    async fn proxies(&self) -> Result<Vec<ProxyRow>, DeskError> {
        let own = &self.parts.config.proxy.name;
        let mut rows = store::proxies(&*self.parts.store, own).await?;
        // A store that is a file is this proxy's alone, and has no record of the proxy.
        if self.is_alone() {
            let about = self.about();
            let since = humantime::format_rfc3339_millis(about.since).to_string();
            let (address, version) = (about.listen, about.version.to_owned());
            rows.push(ProxyRow { name: about.name, address, version, since, is_self: true });
        }
        Ok(rows)
    }

    async fn slots(&self) -> Result<Vec<SlotRow>, DeskError> {
        let own = &self.parts.config.proxy.name;
        let rows = store::slots(&*self.parts.store).await?;
        let is_own = |row: &SlotRow| self.is_alone() && row.owner == *own;
        Ok(rows.into_iter().map(|row| SlotRow { is_live: row.is_live || is_own(&row), ..row }).collect())
    }

    async fn stored(&self) -> Result<Vec<StoredRow>, DeskError> {
        if self.parts.meter.is_away() {
            return Err(DeskError::Failed("the store did not answer the last request".to_owned()));
        }
        store::generators(&*self.parts.store).await
    }

    async fn findings(&self) -> Result<Vec<FindingRow>, DeskError> {
        let Some(schema) = &self.parts.schema else {
            return Err(DeskError::Wrong(
                "findings need the control account; write [backend.control] into rowstamp.toml".to_owned(),
            ));
        };
        let rules = self.parts.tables.rules();
        let facts =
            Facts::read(schema, &rules).await.map_err(|error| DeskError::Failed(error.to_string()))?;
        let store = facts_of(&*self.parts.store, &self.parts.config).await;
        let access = Access { users: self.parts.users.of_file(), ..access_of(&self.parts.config) };
        let mut findings = lint::findings(&facts, &rules, &store, Some(&access));
        findings.extend(locks::findings(schema, &self.parts.config, &facts, &rules, &store).await);
        Ok(findings.into_iter().map(finding_row).collect())
    }

    fn config(&self) -> Vec<ConfigRow> {
        let (began, now) = self.parts.reloader.written();
        settings::rows(&began, &now)
    }

    fn counted(&self) -> Vec<Metric> {
        metrics::counted(self, &self.parts, &self.sessions)
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics::all(self, &self.parts, &self.sessions)
    }

    async fn explain(&self, statement: &[u8], database: Option<&str>) -> Result<String, DeskError> {
        let failed = |error: &dyn std::fmt::Display| DeskError::Failed(error.to_string());
        let rules = self.parts.tables.rules();
        let (live, version) = match &self.parts.schema {
            Some(schema) => {
                let live = LiveTables::of(schema, &rules).await.map_err(|error| failed(&error))?;
                (Some(live), schema.version().await.map_err(|error| failed(&error))?)
            }
            None => (None, crate::explain::SERVER.to_owned()),
        };
        let input = ExplainInput { statement, database, sql_mode: "", server_version: &version };
        let verify = self.parts.shared.load().verifier.mode;
        let explained = explain_statement(&input, &rules, live.as_ref(), verify);
        Ok(explained.map_err(|error| DeskError::Wrong(format!("{error:#}")))?.text)
    }

    async fn reload(&self, is_dry_run: bool) -> Result<Reload, DeskError> {
        let reloader = &self.parts.reloader;
        let read =
            if is_dry_run { reloader.dry_run().await } else { reloader.reload_for("the console").await };
        let done = read.map_err(|error| DeskError::Failed(error.to_string()))?;
        Ok(Reload {
            is_dry_run,
            rules: done.rules,
            generators: done.generators,
            changes: done.changes,
            settings: done.settings,
            waiting: done.waiting.iter().map(ToString::to_string).collect(),
            warnings: done.warnings.iter().map(ToString::to_string).collect(),
        })
    }

    async fn raise(&self, generator: &str, to: u64, is_meant: bool) -> Result<Raised, DeskError> {
        let name = self.generator(generator)?;
        generators::raise(&self.parts.tables, &name, to, is_meant).await
    }

    fn pause(&self, generator: &str, is_paused: bool) -> Result<bool, DeskError> {
        let name = self.generator(generator)?;
        let is_new = self.parts.tables.taken().of(&name).pause(is_paused);
        if is_new && is_paused {
            tracing::warn!(
                generator,
                "an operator has paused the generator: INSERTs into its tables fail with error 1467"
            );
        } else if is_new {
            tracing::info!(generator, "an operator has resumed the generator");
        }
        Ok(is_new)
    }

    fn drain(&self) {
        self.drains.notify_one();
    }

    fn kill(&self, session: u64) -> Result<(), DeskError> {
        if self.sessions.kill(session) {
            tracing::info!(session, "an operator has killed the session");
            return Ok(());
        }
        Err(DeskError::Wrong(format!("there is no session {session}; SHOW SESSIONS lists all")))
    }

    fn users(&self) -> Arc<Directory> {
        Arc::clone(&self.parts.users)
    }

    async fn change_user(&self, change: &Change, by: &str, client: &str) -> Result<Changed, DeskError> {
        let changed = self.parts.users.change(change).await;
        self.note_change(change, by, client, changed.as_ref().err().map(ToString::to_string).as_deref());
        changed.map_err(|error| match error {
            ChangeError::Refused(refusal) => DeskError::Wrong(refusal.to_string()),
            error => DeskError::Failed(error.to_string()),
        })
    }

    fn note_denied(&self, change: &Change, by: &str, client: &str, why: &str) {
        self.note_change(change, by, client, Some(why));
    }
}

fn rule_row(rule: &Rule, covered: Covered) -> RuleRow {
    let databases = match rule.of_schemas {
        Some(_) => covered.databases.into_iter().collect(),
        None => vec![rule.schema.clone()],
    };
    RuleRow {
        tables: covered.tables,
        databases,
        schema: rule.schema.clone(),
        table: rule.table.clone(),
        column: rule.column.clone(),
        generator: rule.generator.to_string(),
        explicit: word(&rule.explicit),
        insert_id: word(&rule.insert_id),
        mode: word(&rule.mode),
        unavailable: word(&rule.unavailable),
        origin: rule.origin.to_string(),
    }
}

fn finding_row(finding: Finding) -> FindingRow {
    FindingRow {
        severity: finding.severity.as_str(),
        code: finding.code.as_str().to_owned(),
        place: place_of(&finding.place),
        why: finding.why,
        remedy: finding.remedy,
    }
}

/// `schema.table.column`, an object, `file:line`: what of them is known.
fn place_of(place: &Where) -> String {
    let column = place.column.iter().map(|column| format!(".{column}"));
    let named = place.table.iter().cloned().chain(column).collect::<String>();
    let file = place.file.as_ref().map(|file| match place.line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    });
    let parts = [Some(named).filter(|named| !named.is_empty()), place.object.clone(), file];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn session_row(seen: Seen) -> SessionRow {
    let Seen { id, age, in_state, who, client, is_busy, counted } = seen;
    let state = match (&who, is_busy) {
        (None, _) => SessionState::Login,
        (Some(_), true) => SessionState::Busy,
        (Some(_), false) => SessionState::Idle,
    };
    let who = who.unwrap_or_default();
    SessionRow {
        id,
        state,
        user: who.user,
        client: client.map(|client| client.to_string()).unwrap_or_default(),
        database: who.database,
        connection: who.connection,
        is_tls: who.is_tls,
        age,
        in_state,
        statements: counted.get(Count::Statements),
        rewritten: counted.get(Count::Rewritten),
        refused: counted.refused(),
        ids: counted.get(Count::Ids),
        bytes_from_client: counted.get(Count::BytesFromClient),
        bytes_to_client: counted.get(Count::BytesToClient),
    }
}

/// The first troubles, and how many there are besides. If a store is away, thousands of generators have the same trouble.
/// `None` of nothing.
fn joined(mut troubles: impl Iterator<Item = String>) -> Option<String> {
    let first: Vec<_> = troubles.by_ref().take(TROUBLES_MAX).collect();
    let more = match troubles.count() {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    (!first.is_empty()).then(|| first.join("; ") + &more)
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_few_troubles_are_named() {
        let of = |count: u32| joined((1..=count).map(|nth| format!("g{nth}")));
        for (count, expect) in [
            (0, None),
            (1, Some("g1")),
            (5, Some("g1; g2; g3; g4; g5")),
            (6, Some("g1; g2; g3; g4; g5; and 1 more")),
            (5_000, Some("g1; g2; g3; g4; g5; and 4995 more")),
        ] {
            assert_eq!(of(count).as_deref(), expect, "{count}");
        }
    }
}
