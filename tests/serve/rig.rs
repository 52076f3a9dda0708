//! A proxy of a test's own in front of a server that all tests share: each test has a database for itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::raw::{Client, MARIADB_STMT_BULK, Options, Outcome, Prepared};
use crate::support::servers::{ServerOptions, Shared};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Kind, Proxy, Server, proxy};

pub(crate) struct Rig {
    pub(crate) kind: Kind,
    pub(crate) server: &'static Server,
    pub(crate) proxy: Proxy,
    pub(crate) db: String,
}

pub(crate) fn server(kind: Kind) -> Option<&'static Server> {
    static SERVERS: Shared = Shared::new();
    SERVERS.get(kind, || {
        let mut arguments = vec!["--max-allowed-packet=66M".to_owned()];
        if kind == Kind::MariaDb {
            // The plugins for tests are called experimental.
            arguments.push("--plugin-maturity=unknown".to_owned());
        }
        ServerOptions { arguments, ..Default::default() }
    })
}

/// Tables `t` (ruled; id and a) and `u` (not ruled).
const TABLES: &str =
    "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT UNIQUE); CREATE TABLE u (id INT, a INT);";

/// Takes one id.
pub(crate) const INSERT: &str = "INSERT INTO t(a) VALUES(NULL)";

pub(crate) fn rules(db: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\n[tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n"
    )
}

/// The test `run` on each server that is here: its database has [`TABLES`] and what `sql` makes.
pub(crate) fn each(db: &str, sql: &str, run: impl Fn(&mut Rig)) {
    each_with(db, sql, "", &rules(db), run);
}

/// With keys of the configuration and rules of its own.
pub(crate) fn each_with(db: &str, sql: &str, config: &str, rules: &str, run: impl Fn(&mut Rig)) {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, sql);
        let config = format!("{}{config}", proxy::config(&server.address()));
        let proxy = Proxy::start(&config, &[("rules", rules)]);
        run(&mut Rig { kind, server, proxy, db: db.to_owned() });
    }
}

/// Held by tests whose statements keep a core busy for seconds in this build: two at a time, a proxy may
/// stand still for longer than the lease that its ids were taken in lasts, and ends the session.
pub(crate) fn alone() -> impl Drop {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) fn make(server: &Server, db: &str, sql: &str) {
    let options =
        Options { capabilities: crate::support::raw::CLIENT_MULTI_STATEMENTS, ..Options::default() };
    let mut direct = Client::connect(&server.address(), &options).unwrap();
    direct.run(format!("CREATE DATABASE {db}; USE {db}; {TABLES}{sql}"));
}

impl Rig {
    /// Three processes take over, one after the other, while ids are drawn, which `drawn` counts.
    pub(crate) fn take_over_while(&mut self, drawn: &AtomicU64) {
        for takes_over in [true, true, true, false] {
            let seen = drawn.load(Ordering::Relaxed);
            wait_until(|| self.proxy.log(), || drawn.load(Ordering::Relaxed) > seen + 300);
            if takes_over {
                let before = self.proxy.take_over();
                assert!(before.ends_within(NEVER), "{}: {}", self.name(), self.proxy.log());
            }
        }
    }

    /// Through the proxy, in the test's database.
    pub(crate) fn client(&self) -> Client {
        self.client_with(Options::default().capabilities)
    }

    pub(crate) fn client_with(&self, capabilities: u32) -> Client {
        let options = Options { database: Some(self.db.clone()), capabilities, ..Options::default() };
        Client::connect(&self.proxy.address(), &options).unwrap()
    }

    /// With MariaDB's bulk executions agreed on, where the server has them; straight to it where `proxied` is not set.
    pub(crate) fn bulk_client(&self, proxied: bool) -> Client {
        let options =
            Options { database: Some(self.db.clone()), extended: MARIADB_STMT_BULK, ..Options::default() };
        let address = if proxied { self.proxy.address() } else { self.server.address() };
        Client::connect(&address, &options).unwrap()
    }

    /// Straight to the server.
    pub(crate) fn direct(&self) -> Client {
        self.direct_with(Options::default().capabilities)
    }

    pub(crate) fn direct_with(&self, capabilities: u32) -> Client {
        let options = Options { database: Some(self.db.clone()), capabilities, ..Options::default() };
        Client::connect(&self.server.address(), &options).unwrap()
    }

    /// Until it is so; fails with `what` and the proxy's log where it never is.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) {
        wait_until(|| format!("{}: {what}: {}", self.name(), self.proxy.log()), is_so);
    }

    pub(crate) fn name(&self) -> &'static str {
        self.kind.name()
    }
}

/// The rows of a query as text, cells by `,`, rows by a blank.
pub(crate) fn rows(client: &mut Client, sql: &str) -> String {
    let outcomes = client.run(sql);
    let cell = |v: &crate::support::raw::Value| v.text().unwrap_or("NULL".into());
    let row = |row: &Vec<_>| row.iter().map(cell).collect::<Vec<_>>().join(",");
    outcomes[0].rows().iter().map(row).collect::<Vec<_>>().join(" ")
}

/// The error that a query gives; 0 where it gives none.
pub(crate) fn code(client: &mut Client, sql: impl AsRef<[u8]>) -> u16 {
    code_of(&client.query(sql).unwrap())
}

/// COM_STMT_EXECUTE, its parameters as given: null bitmap, flag, types and values. The error that it gives; 0 where it gives none.
pub(crate) fn execute(client: &mut Client, id: u32, rest: &[u8]) -> u16 {
    client.send_command(0x17, &[&id.to_le_bytes()[..], &[0, 1, 0, 0, 0], rest].concat()).unwrap();
    code_of(&client.read_outcomes(true).unwrap())
}

pub(crate) fn prepare(client: &mut Client, sql: &str) -> Prepared {
    client.prepare(sql).unwrap().unwrap()
}

/// Sends commands in one write. Returns for each one the first cell, "ok" and the rows affected, or "error"
/// and its code.
pub(crate) fn pipelined(client: &mut Client, commands: &[(u8, &[u8])]) -> String {
    client.pipeline(commands).unwrap();
    let mut seen = Vec::new();
    for _ in commands {
        client.next_response();
        let outcomes = client.read_outcomes(false).unwrap();
        seen.push(match outcomes.last().unwrap() {
            Outcome::Ok(ok) => format!("ok {}", ok.affected_rows),
            Outcome::Err(error) => format!("error {}", error.code),
            Outcome::Rows(_) => outcomes[0].cell(0, 0).unwrap(),
        });
    }
    seen.join(",")
}

pub(crate) fn code_of(outcomes: &[Outcome]) -> u16 {
    outcomes.last().and_then(Outcome::err).map_or(0, |error| error.code)
}

pub(crate) fn message(client: &mut Client, sql: &str) -> String {
    let outcomes = client.query(sql).unwrap();
    outcomes.last().and_then(Outcome::err).map(|error| format!("{} {}", error.code, error.message)).unwrap()
}

pub(crate) fn insert_id(client: &mut Client, sql: &str) -> u64 {
    client.run(sql).last().unwrap().ok().unwrap().insert_id
}
