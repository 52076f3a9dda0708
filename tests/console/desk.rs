//! A desk without a proxy: what it has is one row of each kind, what it is told to do it writes down.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rowstamp::admin::{
    About, Check, ConfigRow, Desk, DeskError, FindingRow, GeneratorRow, GeneratorState, Kind, Metric,
    MetricKind, ProxyRow, Raised, Reload, Role, RuleRow, Sample, SessionRow, SessionState, SlotRow, Unit,
    User,
};

#[derive(Default)]
pub(crate) struct TestDesk {
    pub(crate) done: Mutex<Vec<String>>,
}

impl TestDesk {
    fn note(&self, what: String) {
        self.done.lock().unwrap().push(what);
    }
}

#[async_trait::async_trait]
impl Desk for TestDesk {
    fn about(&self) -> About {
        About {
            version: "0.1.0",
            name: "db1:3307".into(),
            listen: "127.0.0.1:3307".into(),
            backends: vec!["127.0.0.1:3306".into()],
            store: "embedded",
            since: SystemTime::now(),
            is_draining: false,
        }
    }

    fn checks(&self) -> Vec<Check> {
        vec![Check { name: "backend", trouble: None }]
    }

    fn rules(&self) -> Vec<RuleRow> {
        let rule = |table: &str| RuleRow {
            schema: "shop".into(),
            table: table.into(),
            column: "id".into(),
            generator: "shop.orders".into(),
            explicit: "advance".into(),
            insert_id: "session".into(),
            mode: "on".into(),
            unavailable: "refuse".into(),
            origin: "rules/shop.toml:7".into(),
        };
        vec![rule("orders"), rule("items")]
    }

    fn generators(&self) -> Vec<GeneratorRow> {
        vec![GeneratorRow {
            name: "shop.orders".into(),
            kind: Kind::Sequence,
            state: GeneratorState::Open,
            issued: u64::MAX,
            per_second: 2.5,
            reserved_ids: Some(8_766),
            reserved_for: None,
            bound: Some(10_001),
            max: i64::MAX.unsigned_abs(),
            used: 0.25,
            node: None,
            ahead: None,
            leap: None,
            rules: 2,
        }]
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
            statements: 20,
            rewritten: 5,
            refused: 1,
            ids: 9,
            bytes_from_client: 4_096,
            bytes_to_client: 65_536,
        }]
    }

    async fn proxies(&self) -> Result<Vec<ProxyRow>, DeskError> {
        Err(DeskError::Failed("the store does not answer: ß".into()))
    }

    async fn slots(&self) -> Result<Vec<SlotRow>, DeskError> {
        Ok(Vec::new())
    }

    async fn findings(&self) -> Result<Vec<FindingRow>, DeskError> {
        Ok(Vec::new())
    }

    fn config(&self) -> Vec<ConfigRow> {
        Vec::new()
    }

    fn metrics(&self) -> Vec<Metric> {
        let sample =
            Sample { labels: vec![("generator", "shop.orders".into())], value: 1.5, buckets: vec![] };
        vec![Metric {
            name: "rowstamp_ids_issued",
            help: "Ids taken from a generator.",
            kind: MetricKind::Counter,
            unit: Unit::Count,
            samples: vec![sample],
        }]
    }

    async fn explain(&self, statement: &[u8], database: Option<&str>) -> Result<String, DeskError> {
        Ok(format!("in {}:\n{}", database.unwrap_or("no database"), String::from_utf8_lossy(statement)))
    }

    async fn reload(&self, is_dry_run: bool) -> Result<Reload, DeskError> {
        self.note(format!("reload {is_dry_run}"));
        Ok(Reload {
            is_dry_run,
            rules: 2,
            generators: 1,
            changes: vec!["table shop.items is new: column id".into()],
            settings: vec![],
            waiting: vec![],
            warnings: vec![],
        })
    }

    async fn raise(&self, generator: &str, to: u64) -> Result<Raised, DeskError> {
        self.note(format!("raise {generator} {to}"));
        Ok(Raised { generator: generator.into(), from: 10_001, to })
    }

    fn pause(&self, generator: &str, is_paused: bool) -> Result<bool, DeskError> {
        self.note(format!("pause {generator} {is_paused}"));
        Ok(true)
    }

    fn drain(&self) {
        self.note("drain".into());
    }

    fn kill(&self, session: u64) -> Result<(), DeskError> {
        match session {
            7 => {
                self.note("kill 7".into());
                Ok(())
            }
            other => Err(DeskError::Wrong(format!("there is no session {other}: SHOW SESSIONS"))),
        }
    }

    fn users(&self) -> Arc<[User]> {
        let user = |name: &str, password: &str, role| User {
            name: name.into(),
            password: password.to_owned().into(),
            role,
        };
        [user("dba", "s3crët", Role::Write), user("guest", "look", Role::Read)].into()
    }
}
