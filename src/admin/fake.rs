//! A desk without a proxy, for tests of what uses a desk: unit tests, and tests/console, which has
//! this file as its own.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::desk::{
    About, BackendRow, Check, ConfigRow, Desk, DeskError, DoorRow, EventRow, FindingRow, GeneratorRow,
    GeneratorState, Kind, LastRow, Metric, MetricKind, ProxyRow, Raised, RefusedRow, Reload, RuleRow, Sample,
    SessionRow, SessionState, SlotRow, StoredRow, Timing, Unit,
};
use super::users::{Change, Changed, Directory, Role, User};

/// A desk that notes each action, a line each.
#[derive(Default)]
pub(crate) struct FakeDesk {
    pub(crate) done: Mutex<Vec<String>>,
    /// Whatever asks the store or the backend fails.
    pub(crate) is_away: bool,
    pub(crate) is_draining: bool,
    /// By shop.orders; else 1,234.
    pub(crate) issued: Option<u64>,
    /// Schemas that have a rule of the same kind beside those of `shop`.
    pub(crate) more_schemas: Vec<&'static str>,
    /// Generators `more.0` and so on; `more.N` gives N ids a second.
    pub(crate) more_generators: u32,
    pub(crate) users: OnceLock<Arc<Directory>>,
}

impl FakeDesk {
    fn note(&self, what: String) {
        self.done.lock().push(what);
    }

    fn asked<T>(&self, rows: Vec<T>) -> Result<Vec<T>, DeskError> {
        if self.is_away {
            Err(DeskError::Failed("the store (etcd) is not available: connection refused".into()))
        } else {
            Ok(rows)
        }
    }
}

/// The generators "shop.events" and "shop.orders".
fn generator(name: &str, kind: Kind) -> GeneratorRow {
    let is_sequence = kind == Kind::Sequence;
    GeneratorRow {
        name: name.into(),
        kind,
        state: GeneratorState::Open,
        issued: 1_234,
        per_second: 2.5,
        reserved_ids: is_sequence.then_some(8_766),
        reserved_for: Some(Duration::from_secs(3_506)),
        bound: is_sequence.then_some(10_001),
        max: Some(i64::MAX.unsigned_abs()),
        headroom: is_sequence.then_some(i64::MAX.unsigned_abs() - 10_000),
        used: 0.25,
        node: (!is_sequence).then_some(3),
        ahead: (!is_sequence).then_some(Duration::from_millis(12)),
        leap: None,
        rules: 1,
    }
}

#[async_trait]
impl Desk for FakeDesk {
    fn about(&self) -> About {
        About {
            version: "0.0.1",
            name: "db1:3307".into(),
            listen: "127.0.0.1:3307".into(),
            backends: vec!["127.0.0.1:3306".into()],
            store: "etcd",
            since: SystemTime::UNIX_EPOCH,
            is_draining: self.is_draining,
        }
    }

    fn checks(&self) -> Vec<Check> {
        let trouble = self.is_away.then(|| "the store did not answer the last request".to_owned());
        let listener = self.is_draining.then(|| "the proxy drains".to_owned());
        vec![Check::needed("listener", listener), Check::wanted("store", trouble)]
    }

    fn rules(&self) -> Vec<RuleRow> {
        let rule = |schema: &str, table: &str| RuleRow {
            schema: schema.into(),
            table: table.into(),
            column: "id".into(),
            generator: "shop.orders".into(),
            explicit: "advance".into(),
            insert_id: "session".into(),
            mode: "on".into(),
            unavailable: "refuse".into(),
            tables: 1,
            databases: vec![schema.into()],
            origin: "rules/shop.toml:7".into(),
        };
        let more = self.more_schemas.iter().map(|schema| rule(schema, "posts"));
        [rule("shop", "orders"), rule("shop", "items")].into_iter().chain(more).collect()
    }

    fn generators(&self) -> Vec<GeneratorRow> {
        let orders = generator("shop.orders", Kind::Sequence);
        let issued = self.issued.unwrap_or(orders.issued);
        let more = (0..self.more_generators).map(|n| GeneratorRow {
            per_second: f64::from(n),
            ..generator(&format!("more.{n}"), Kind::Sequence)
        });
        [generator("shop.events", Kind::Timestamp), GeneratorRow { issued, ..orders }]
            .into_iter()
            .chain(more)
            .collect()
    }

    fn doors(&self) -> Vec<DoorRow> {
        let redis = DoorRow {
            name: "resp",
            protocol: "Redis protocol",
            address: Some("127.0.0.1:6379".into()),
            is_open: true,
            tls: "preferred".into(),
            clients: 3,
            requests: [("given", 40), ("denied", 2), ("over_quota", 1), ("wrong", 0), ("no_ids", 0)].into(),
            ids: 4_000,
            logins_refused: 5,
            ..DoorRow::default()
        };
        let http = DoorRow { name: "api", protocol: "HTTP", tls: "disabled".into(), ..DoorRow::default() };
        vec![redis, http]
    }

    fn backends(&self) -> Vec<BackendRow> {
        let row = |address: &str, is_primary| BackendRow {
            address: address.into(),
            is_primary,
            is_up: Some(is_primary),
            is_read_only: is_primary.then_some(false),
            is_replica: is_primary.then_some(false),
            connect_errors: if is_primary { vec![] } else { vec![("refused", 1)] },
            last_error: (!is_primary)
                .then(|| ("Connection refused".into(), SystemTime::UNIX_EPOCH + Duration::from_mins(1))),
            connect_time: Timing { seconds: 0.5, buckets: vec![(0.25, 1), (f64::INFINITY, 2)] },
        };
        vec![row("10.0.0.1:3306", true), row("10.0.0.2:3306", false)]
    }

    fn sessions(&self) -> Vec<SessionRow> {
        vec![SessionRow {
            id: 7,
            state: SessionState::Idle,
            user: "app".into(),
            client: "10.0.0.5:50123".into(),
            database: "shop".into(),
            connection: 41,
            is_tls: true,
            age: Duration::from_secs(61),
            in_state: Duration::from_millis(2_500),
            statements: 20,
            rewritten: 5,
            refused: 1,
            ids: 9,
            bytes_from_client: 4_096,
            bytes_to_client: 65_536,
        }]
    }

    async fn proxies(&self) -> Result<Vec<ProxyRow>, DeskError> {
        self.asked(vec![ProxyRow {
            name: "db1:3307".into(),
            address: "127.0.0.1:3307".into(),
            version: "0.0.1".into(),
            since: "2026-11-22 10:00:00".into(),
            is_self: true,
        }])
    }

    async fn slots(&self) -> Result<Vec<SlotRow>, DeskError> {
        self.asked(vec![SlotRow {
            generator: "shop.events".into(),
            node: 3,
            owner: "db1:3307".into(),
            is_live: true,
            reserved: "2026-11-22 10:01:00".into(),
        }])
    }

    async fn stored(&self) -> Result<Vec<StoredRow>, DeskError> {
        let row =
            |generator: &str, bound| StoredRow { generator: generator.into(), kind: Kind::Sequence, bound };
        self.asked(vec![row("shop.left", Some(77)), row("shop.orders", Some(99_999))])
    }

    fn last_ruled(&self) -> Vec<(u64, LastRow)> {
        let statement = "INSERT INTO orders(a) VALUES (...)".to_owned();
        vec![(7, LastRow { digest: Some("fedcba9876543210".into()), statement })]
    }

    fn refused(&self) -> Vec<RefusedRow> {
        vec![RefusedRow {
            digest: "0123456789abcdef".into(),
            statement: "ANALYZE INSERT IGNORE INTO orders VALUES (...)".into(),
            why: "ANALYZE of an INSERT with IGNORE; leave IGNORE out, or write EXPLAIN".into(),
            count: 3,
            user: "app".into(),
            last: SystemTime::UNIX_EPOCH + std::time::Duration::from_mins(1),
        }]
    }

    fn events(&self) -> Vec<EventRow> {
        vec![EventRow {
            at: 60.0,
            level: "warn".into(),
            text: "the table already has the id that the generator issued (error 1062), table shop.orders"
                .into(),
        }]
    }

    async fn findings(&self) -> Result<Vec<FindingRow>, DeskError> {
        self.asked(vec![FindingRow {
            severity: "warning",
            code: "column-not-unique".into(),
            place: "shop.orders.id".into(),
            why: "no key makes id unique: the server accepts the same id twice".into(),
            remedy: "ALTER TABLE shop.orders ADD UNIQUE KEY (id)".into(),
        }])
    }

    fn config(&self) -> Vec<ConfigRow> {
        vec![ConfigRow {
            key: "listen.address".into(),
            value: "127.0.0.1:3307".into(),
            default: "127.0.0.1:3307".into(),
            takes_effect: "after a restart",
        }]
    }

    fn counted(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn metrics(&self) -> Vec<Metric> {
        let labelled = |value, generator: &str| Sample {
            labels: vec![("generator", generator.to_owned())],
            value,
            buckets: Vec::new(),
        };
        vec![Metric {
            name: "rowstamp_ids_issued",
            help: "Ids taken from a generator.",
            kind: MetricKind::Counter,
            unit: Unit::Count,
            samples: vec![labelled(1_234.0, "shop.events"), labelled(1_234.0, "shop.orders")],
        }]
    }

    async fn explain(&self, statement: &[u8], database: Option<&str>) -> Result<String, DeskError> {
        self.asked(vec![()])?;
        let database = database.unwrap_or("no database");
        Ok(format!("in {database}:\n{}", String::from_utf8_lossy(statement)))
    }

    async fn reload(&self, is_dry_run: bool) -> Result<Reload, DeskError> {
        self.asked(vec![()])?;
        self.note(format!("reload dry_run={is_dry_run}"));
        Ok(Reload {
            is_dry_run,
            rules: 2,
            generators: 2,
            changes: vec!["table shop.t is new: column id".into()],
            settings: vec![],
            waiting: vec!["store.path".into()],
            warnings: vec![],
        })
    }

    async fn raise(&self, generator: &str, to: u64, is_meant: bool) -> Result<Raised, DeskError> {
        self.asked(vec![()])?;
        if generator != "shop.orders" {
            return Err(DeskError::Wrong(format!(
                "the rules have no generator {generator}; SHOW GENERATORS lists all"
            )));
        }
        self.note(format!("raise {generator} {to}{}", if is_meant { " meant" } else { "" }));
        Ok(Raised { generator: generator.into(), from: 10_001, to })
    }

    fn pause(&self, generator: &str, is_paused: bool) -> Result<bool, DeskError> {
        if !["shop.orders", "shop.events"].contains(&generator) {
            return Err(DeskError::Wrong(format!(
                "the rules have no generator {generator}; SHOW GENERATORS lists all"
            )));
        }
        self.note(format!("pause {generator} {is_paused}"));
        Ok(true)
    }

    fn drain(&self) {
        self.note("drain".into());
    }

    fn kill(&self, session: u64) -> Result<(), DeskError> {
        if session != 7 {
            return Err(DeskError::Wrong(format!("there is no session {session}; SHOW SESSIONS lists all")));
        }
        self.note(format!("kill {session}"));
        Ok(())
    }

    fn users(&self) -> Arc<Directory> {
        let user = |name: &str, password: &str, role| {
            Arc::new(User::of_file(name, password.to_owned().into(), role))
        };
        let users = || [user("dba", "s3crët", Role::Write), user("guest", "look", Role::Read)];
        Arc::clone(self.users.get_or_init(|| Directory::without_store(&users())))
    }

    async fn change_user(&self, change: &Change, by: &str, client: &str) -> Result<Changed, DeskError> {
        self.note(format!("{by} from {client}: {change}"));
        self.users().change(change).await.map_err(|error| DeskError::Failed(error.to_string()))
    }

    fn note_denied(&self, change: &Change, by: &str, client: &str, _why: &str) {
        self.note(format!("denied to {by} from {client}: {change}"));
    }
}
