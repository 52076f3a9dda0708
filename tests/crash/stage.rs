//! kill -9 while an INSERT ... SELECT goes by way of a stage: of the proxy, of the server, of the session on the server, in each of
//! its three steps. All of its rows are there, each with an id of its own, or none; no temporary table stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::raw::{Client, Options};
use crate::support::{Kind, Proxy, Server, proxy};

const DEADLINE: Duration = Duration::from_secs(30);
const ROWS: usize = 10;
const TABLES: [&str; 4] = [
    "CREATE DATABASE stages",
    "CREATE TABLE stages.t (id BIGINT PRIMARY KEY, a INT UNIQUE)",
    "CREATE TABLE stages.d (n INT)",
    "INSERT INTO stages.d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
];
const RULES: &str = "schema = \"stages\"\n[generators.g]\nkind = \"sequence\"\nbatch = 50\n\
                     [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";

/// The step of the INSERT in which something is killed.
struct Step {
    name: &'static str,
    /// Another session keeps it there by this, until that.
    blocks: [&'static str; 2],
    insert: &'static str,
    /// How the statement that waits looks.
    waits: &'static str,
}

const STEPS: [Step; 3] = [
    Step {
        name: "the stage is made",
        blocks: ["LOCK TABLES t WRITE", "UNLOCK TABLES"],
        insert: "INSERT INTO t(a) SELECT n FROM d",
        waits: "CREATE TEMPORARY%",
    },
    Step {
        name: "it is filled",
        blocks: ["DO GET_LOCK('stages', 60)", "DO RELEASE_LOCK('stages')"],
        insert: "INSERT INTO t(a) SELECT n+GET_LOCK('stages', 60)*0 FROM d",
        waits: "%rowstamp stage` (%",
    },
    Step {
        name: "it is stored",
        blocks: ["INSERT INTO t(id,a) VALUES(-1,5)", "ROLLBACK"],
        insert: "INSERT INTO t(a) SELECT n FROM d",
        waits: "%rowstamp s`%",
    },
];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Proxy,
    Server,
    Session,
}

#[test]
fn in_each_step_of_a_stage_on_mariadb() {
    in_each_step(Kind::MariaDb);
}

#[test]
fn in_each_step_of_a_stage_on_mysql9() {
    in_each_step(Kind::MySql9);
}

fn in_each_step(kind: Kind) {
    let Some(mut server) = Server::start(kind) else { return };
    let mut direct = server.client();
    for sql in TABLES {
        direct.run(sql);
    }
    // Rows that are taken out stay out.
    direct.run("SET GLOBAL innodb_flush_log_at_trx_commit=1");
    let mut proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", RULES)]);
    let mut seen = BTreeSet::new();
    for step in &STEPS {
        for victim in [Victim::Session, Victim::Proxy, Victim::Server] {
            let what = format!("{} {victim:?} while {}", kind.name(), step.name);
            // The proxy asks some things once for each account: here it asks them before the kill.
            insert(&proxy, &what);
            take(&server, &mut seen, &what, &[ROWS]);
            let mut other = connect(&server.address());
            other.run("SET autocommit=0");
            other.run(step.blocks[0]);
            let mut client = connect(&proxy.address());
            client.send_query(step.insert.as_bytes()).unwrap();
            let id = client.connection_id;
            wait(&server, &what, &format!("id={id} AND info LIKE '{}'", step.waits), "1");
            match victim {
                Victim::Session => drop(server.client().run(format!("KILL {id}"))),
                Victim::Proxy => proxy.kill(),
                Victim::Server => server.kill(),
            }
            assert!(
                client.read_outcomes(false).map_or(true, |outcomes| outcomes[0].err().is_some()),
                "{what}"
            );
            if let Victim::Server = victim {
                server.restart();
                server.client().run("SET GLOBAL innodb_flush_log_at_trx_commit=1");
            } else {
                other.run(step.blocks[1]);
            }
            if let Victim::Proxy = victim {
                proxy.restart();
            }
            // The server goes on with what it had, until it looks at the socket.
            wait(&server, &what, &format!("id={id} AND db='stages'"), "0");
            take(&server, &mut seen, &what, &[0, ROWS]);
        }
    }
    insert(&proxy, "afterwards");
    take(&server, &mut seen, "afterwards", &[ROWS]);
    let stays = temporary_tables(server.dir());
    assert!(stays.is_empty(), "{}: {stays:?}", kind.name());
}

/// Inserts, once the locks are held again that went with the server.
fn insert(proxy: &Proxy, what: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let answer = connect(&proxy.address()).query("INSERT INTO t(a) SELECT n FROM d").unwrap();
        match answer[0].err() {
            None => return,
            Some(error) => assert!(error.code == 1467 && Instant::now() < end, "{what}: {error:?}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn connect(address: &str) -> Client {
    let options = Options { database: Some("stages".to_owned()), ..Options::default() };
    let end = Instant::now() + DEADLINE;
    loop {
        match Client::connect(address, &options) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < end, "nobody answers: {error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Until so many threads of the server are as said.
fn wait(server: &Server, what: &str, which: &str, count: &str) {
    let mut client = connect(&server.address());
    let end = Instant::now() + DEADLINE;
    let sql =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE {which} AND id<>CONNECTION_ID()");
    while client.run(&sql)[0].cell(0, 0).as_deref() != Some(count) {
        let list = "SELECT id, command, time, state, info FROM information_schema.processlist";
        assert!(Instant::now() < end, "{what}: not {count} with {which}: {:?}", client.run(list));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes the table's rows out: so many, each with an id that none had before.
#[track_caller]
fn take(server: &Server, seen: &mut BTreeSet<u64>, what: &str, counts: &[usize]) {
    let mut client = connect(&server.address());
    let outcome = client.run("SELECT id, a FROM t").remove(0);
    let rows = outcome.rows().len();
    assert!(counts.contains(&rows), "{what}: {rows} rows");
    for row in 0..rows {
        let id = outcome.cell(row, 0).unwrap().parse().expect("an id");
        assert!(seen.insert(id), "{what}: {id} was there before");
    }
    client.run("DELETE FROM t");
}

/// Files of temporary tables in the server's folder.
fn temporary_tables(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(temporary_tables(&entry.path()));
        } else if name.starts_with("#sql") && !name.starts_with("#sql-ib") {
            found.push(name);
        }
    }
    found
}
