//! A MariaDB primary and its asynchronous replica.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::failover::load::Table;
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options};
use crate::support::servers::ServerOptions;
use crate::support::told::{self, Row};
use crate::support::{Kind, Server};

const REPLICATION_DEADLINE: Duration = Duration::from_secs(20);

/// ER_DUP_ENTRY
const DUPLICATE: u16 = 1062;

const TABLES: &str = "\
    CREATE DATABASE drill; \
    CREATE TABLE drill.ruled (id BIGINT NOT NULL PRIMARY KEY, token BIGINT NOT NULL); \
    CREATE TABLE drill.native (id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT, token BIGINT NOT NULL); \
    CREATE USER app IDENTIFIED BY ''; GRANT ALL ON drill.* TO app;";

/// How the replica comes to lack rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// The replica receives nothing more from a moment before the kill.
    NotReceived,
    /// The replica receives and does not apply, and is promoted without waiting for that.
    NotApplied,
}

pub(crate) struct Pair {
    pub(crate) primary: Server,
    pub(crate) replica: Server,
}

/// The result of loading back a table's rows that the replica lacked.
#[derive(Debug, Default)]
pub(crate) struct LoadedBack {
    pub(crate) missing: usize,
    pub(crate) collisions: usize,
    /// A row that collided.
    pub(crate) example: Option<Row>,
}

impl Pair {
    /// Both run, the replica has the primary's tables. `None` where this machine lacks MariaDB.
    pub(crate) fn start() -> Option<Pair> {
        let pair = Pair { primary: start(1)?, replica: start(2)? };
        run(&pair.primary, TABLES);
        let follow = format!(
            "SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
             MASTER_PASSWORD = '', MASTER_USE_GTID = slave_pos; START SLAVE",
            pair.primary.port
        );
        run(&pair.replica, &follow);
        let (mut client, end) = (pair.replica.client(), Instant::now() + REPLICATION_DEADLINE);
        // The account is the last that the primary was told of.
        while client.run("SELECT COUNT(*) FROM mysql.user WHERE user = 'app'")[0].cell(0, 0).as_deref()
            != Some("1")
        {
            assert!(Instant::now() < end, "nothing is replicated:\n{}", pair.replica.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(pair)
    }

    /// From here on the replica misses rows.
    pub(crate) fn fall_behind(&self, behind: Behind) {
        let thread = match behind {
            Behind::NotReceived => "IO_THREAD",
            Behind::NotApplied => "SQL_THREAD",
        };
        run(&self.replica, &format!("STOP SLAVE {thread}"));
    }

    /// The replica has all that the primary has written.
    pub(crate) fn wait_until_replicated(&self) {
        let position =
            |server: &Server, of: &str| server.client().run(format!("SELECT @@GLOBAL.{of}"))[0].cell(0, 0);
        let written = position(&self.primary, "gtid_current_pos");
        let end = Instant::now() + REPLICATION_DEADLINE;
        while position(&self.replica, "gtid_slave_pos") != written {
            assert!(Instant::now() < end, "{written:?} is not replicated:\n{}", self.replica.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The replica takes writes.
    pub(crate) fn promote(&self) {
        run(&self.replica, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0");
    }

    /// Rows of the old primary, which runs again, that are not on the new one, go there by their ids. A row that is on both must
    /// have one id.
    pub(crate) fn load_back(&self, table: Table) -> LoadedBack {
        let name = table.name();
        let (mut old, mut new) = (self.primary.client(), self.replica.client());
        let there: HashMap<u64, u64> =
            told::read(&mut new, name).into_iter().map(|row| (row.token, row.id)).collect();
        let mut back = LoadedBack::default();
        for row in told::read(&mut old, name) {
            if let Some(id) = there.get(&row.token) {
                assert_eq!(*id, row.id, "{name}: replicated with another id: {row:?}");
                continue;
            }
            back.missing += 1;
            let sql = format!("INSERT INTO {name} (id, token) VALUES ({}, {})", row.id, row.token);
            let outcomes = new.query(&sql).expect("the new primary runs");
            if let Some(error) = outcomes[0].err() {
                assert_eq!(error.code, DUPLICATE, "{sql}: {}", error.message);
                back.collisions += 1;
                back.example.get_or_insert(row);
            }
        }
        back
    }
}

/// A kill must not lose what was committed, nor tear a page: then the old primary's disk has all that was acknowledged.
fn start(server_id: u32) -> Option<Server> {
    let arguments =
        ["--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=ON", "--log-slave-updates=ON"];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.push(format!("--server-id={server_id}"));
    Server::start_with(Kind::MariaDb, ServerOptions { binlog: true, arguments, ..ServerOptions::default() })
}

fn run(server: &Server, sql: &str) {
    let options = Options { capabilities: CLIENT_MULTI_STATEMENTS, ..Options::default() };
    Client::connect(&server.address(), &options).expect("root logs in").run(sql);
}
