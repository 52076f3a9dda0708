//! A store in a table of a server that has replicas: it follows the primary, and uses no other.

use std::time::{Duration, Instant};

use crate::rig::{make, rows};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options};
use crate::support::servers::ServerOptions;
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Kind, Proxy, Server, proxy};

const DB: &str = "store_primary";

/// A primary and its asynchronous replica, which both hold the table and the accounts.
struct Pair {
    first: Server,
    second: Server,
}

impl Pair {
    fn start(kind: Kind) -> Option<Pair> {
        let pair = Pair { first: start(kind, 1)?, second: start(kind, 2)? };
        follow(&pair.second, &pair.first);
        make(&pair.first, DB, "");
        run(
            &pair.first,
            "CREATE DATABASE rowstamp; CREATE USER keeper IDENTIFIED BY ''; GRANT ALL ON rowstamp.* TO keeper",
        );
        wait("the replica has the account", || {
            count(&pair.second, "SELECT COUNT(*) FROM mysql.user WHERE user = 'keeper'") == 1
        });
        Some(pair)
    }

    /// A proxy before both, whose store is reached as `user`.
    fn proxy(&self, name: &str, user: &str) -> Proxy {
        let both = format!("[\"{}\", \"{}\"]", self.first.address(), self.second.address());
        let config = proxy::config("127.0.0.1:1").replace("\"127.0.0.1:1\"", &both);
        let store =
            format!("[store]\nkind = \"mysql\"\nuser = \"{user}\"\npassword = \"\"\ndeadline = \"1s\"\n");
        let config = format!("{config}{store}[proxy]\nname = \"{name}\"\n");
        Proxy::start(&config, &[("rules", &crate::fleet::rules(DB, 10))])
    }
}

fn start(kind: Kind, server_id: u32) -> Option<Server> {
    // A kill must not lose what was answered.
    let mut arguments =
        vec![format!("--server-id={server_id}"), "--innodb-flush-log-at-trx-commit=2".to_owned()];
    if kind == Kind::MariaDb {
        arguments.push("--log-slave-updates=ON".to_owned());
    }
    let mut server =
        Server::start_with(kind, ServerOptions { binlog: true, arguments, ..ServerOptions::default() })?;
    // MySQL's servers are told apart by what is in this file, and a template's copies have the same.
    if std::fs::remove_file(server.dir().join("data/auto.cnf")).is_ok() {
        server.restart();
    }
    Some(server)
}

fn follow(replica: &Server, primary: &Server) {
    let port = primary.port;
    let sql = match replica.kind {
        Kind::MariaDb => format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root', MASTER_PASSWORD = '', \
             MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE"
        ),
        Kind::MySql9 => format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'root', \
             SOURCE_PASSWORD = '', SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA"
        ),
    };
    run(replica, &sql);
}

fn promote(replica: &Server) {
    run(
        replica,
        match replica.kind {
            Kind::MariaDb => "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0",
            Kind::MySql9 => {
                "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0"
            }
        },
    );
}

fn run(server: &Server, sql: &str) {
    let options = Options { capabilities: CLIENT_MULTI_STATEMENTS, ..Options::default() };
    Client::connect(&server.address(), &options).expect("root logs in").run(sql);
}

fn count(server: &Server, sql: &str) -> u64 {
    rows(&mut server.client(), sql).parse().unwrap()
}

#[track_caller]
fn wait(what: &str, is_so: impl FnMut() -> bool) {
    wait_until(|| what.to_owned(), is_so);
}

/// Each INSERT on a connection of its own, which goes wherever sessions go now. What was answered, and the last error.
fn insert_for(time: Duration, proxies: &[&Proxy], ids: &mut Vec<u64>) -> String {
    let (end, mut last) = (Instant::now() + time, String::new());
    let options =
        Options { database: Some(DB.to_owned()), timeout: Duration::from_secs(5), ..Options::default() };
    while Instant::now() < end {
        for proxy in proxies {
            let Ok(mut client) = Client::connect(&proxy.address(), &options) else { continue };
            for _ in 0..3 {
                let Ok(outcomes) = client.query("INSERT INTO t(a) VALUES(NULL)") else { break };
                match outcomes[0].err() {
                    None => ids.push(outcomes[0].ok().unwrap().insert_id),
                    Some(error) => last.clone_from(&error.message),
                }
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    last
}

/// Every proxy gets ids again.
#[track_caller]
fn until_both_insert(proxies: &[&Proxy], ids: &mut Vec<u64>) {
    for proxy in proxies {
        let end = Instant::now() + NEVER;
        // More than what is reserved.
        let goal = ids.len() + 30;
        while ids.len() < goal {
            let last = insert_for(Duration::from_millis(100), &[proxy], ids);
            assert!(Instant::now() < end, "1467 without end: {last}\n{}", proxy.log());
        }
    }
}

#[track_caller]
fn are_distinct(mut ids: Vec<u64>, what: &str) {
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "{what}: {} of {all} ids came twice", all - ids.len());
}

/// The account may write on the replica (root is not kept off by read_only), or may not: for 3 seconds there is no primary.
#[test]
fn a_replica_is_no_store_while_the_primary_is_away() {
    for kind in Kind::ALL {
        for user in ["root", "keeper"] {
            let Some(mut pair) = Pair::start(kind) else { continue };
            if user == "keeper" {
                run(&pair.second, "SET GLOBAL read_only = 1");
            }
            let proxies = [pair.proxy("p1", user), pair.proxy("p2", user)];
            let proxies: Vec<_> = proxies.iter().collect();
            let mut ids = Vec::new();
            until_both_insert(&proxies, &mut ids);
            pair.first.kill();
            insert_for(Duration::from_secs(3), &proxies, &mut ids);
            pair.first.restart();
            until_both_insert(&proxies, &mut ids);
            insert_for(Duration::from_secs(1), &proxies, &mut ids);
            are_distinct(ids, &format!("{} as {user}", kind.name()));
        }
    }
}

/// A switchover: the old primary is read_only, the replica is caught up and promoted. Then a failover back, after which the
/// server that was killed comes back as a primary that nobody knows of.
#[test]
fn the_store_follows_the_primary() {
    for kind in Kind::ALL {
        let Some(mut pair) = Pair::start(kind) else { continue };
        let (p1, p2) = (pair.proxy("p1", "root"), pair.proxy("p2", "root"));
        let mut ids = Vec::new();
        until_both_insert(&[&p1, &p2], &mut ids);
        run(&pair.first, "SET GLOBAL read_only = 1");
        wait("the replica has all bounds", || {
            let sql = "SELECT COUNT(*), IFNULL(SUM(revision), 0) FROM rowstamp.rowstamp_bounds";
            rows(&mut pair.first.client(), sql) == rows(&mut pair.second.client(), sql)
        });
        promote(&pair.second);
        until_both_insert(&[&p1, &p2], &mut ids);
        let p3 = pair.proxy("p3", "root");
        until_both_insert(&[&p3], &mut ids);
        // The first server comes back, can be written to, and has the bounds of before.
        pair.first.restart();
        run(&pair.first, "SET GLOBAL read_only = 0");
        insert_for(Duration::from_secs(2), &[&p1, &p2, &p3], &mut ids);
        let p4 = pair.proxy("p4", "root");
        until_both_insert(&[&p1, &p2, &p3, &p4], &mut ids);
        are_distinct(ids, kind.name());
        // The store's lines have its name.
        let log = p1.log();
        let told =
            log.lines().find(|line| line.contains("this server is the primary that has the store's table"));
        assert!(
            told.is_some_and(|line| line.contains(" store=\"the table rowstamp_bounds at 127.0.0.1:")),
            "{log}"
        );
    }
}

/// Nobody knows which of two is the primary.
#[test]
fn two_servers_that_can_be_written_to_are_no_store() {
    let (Some(first), Some(second)) = (Server::start(Kind::MariaDb), Server::start(Kind::MariaDb)) else {
        return;
    };
    for server in [&first, &second] {
        make(server, DB, "");
        run(server, "CREATE DATABASE rowstamp");
    }
    let both = format!("[\"{}\", \"{}\"]", first.address(), second.address());
    let config = proxy::config("127.0.0.1:1").replace("\"127.0.0.1:1\"", &both);
    let config = format!("{config}[store]\nkind = \"mysql\"\n");
    let mut proxy = Proxy::written(&config, &[("rules", &crate::fleet::rules(DB, 10))]);
    let said = proxy.try_start().expect_err("it is not to start");
    assert!(said.contains("can be written to") && said.contains("read_only"), "{said}");
}
