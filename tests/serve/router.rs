//! The proxy in front of MySQL Router, which hands a server's connection from one client to the next
//! (`connection_sharing`).

use std::time::Duration;

use crate::rig::{code_of, rows, rules};
use crate::support::raw::{Client, Options, Param};
use crate::support::router::Router;
use crate::support::{Kind, Proxy, Server, proxy};

const TABLES: &str = "CREATE DATABASE router; CREATE TABLE router.t (id BIGINT NOT NULL PRIMARY KEY, a INT UNIQUE); \
                      CREATE TABLE router.u (id INT, a INT)";

/// The Router tracks the sessions for itself, lets nobody set how (1766), and refuses LAST_INSERT_ID() in texts (3566).
#[test]
fn sessions_that_share_connections() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    for sql in TABLES.split("; ") {
        server.client().run(sql);
    }
    let Some(router) = Router::start(&server, true) else { return };
    let config = proxy::config(&router.address());
    let proxy = Proxy::start(&config, &[("rules", &rules("router"))]);
    let options = Options { database: Some("router".to_owned()), ..Options::default() };
    let connect = || Client::connect(&proxy.address(), &options).unwrap();
    let (mut one, mut other) = (connect(), connect());
    let mut last = 0;
    for round in 0..4u32 {
        for (nth, client) in [&mut one, &mut other].into_iter().enumerate() {
            let a = round * 10 + u32::try_from(nth).unwrap() * 5;
            let outcomes = client.query(format!("INSERT INTO t(a) VALUES({a}),({})", a + 1)).unwrap();
            assert_eq!(code_of(&outcomes), 0, "{outcomes:?}");
            let id = outcomes[0].ok().unwrap().insert_id;
            assert!(id > last, "{id} behind {last}");
            last = id + 1;
            assert_eq!(rows(client, &format!("SELECT id FROM t WHERE a={a}")), id.to_string());
            assert_eq!(rows(client, "SELECT @@last_insert_id"), id.to_string());
            // The function itself is the Router's to refuse, while the session has no server's connection to itself. What is
            // prepared gives it one: the client's own statement, or the proxy's question whether the user may insert.
            let said = client.query("SELECT LAST_INSERT_ID()").unwrap();
            assert!(code_of(&said) == 3566 || round > 0 || nth == 0, "{said:?}");
            if code_of(&said) == 0 {
                assert_eq!(rows(client, "SELECT LAST_INSERT_ID()"), id.to_string());
            }
            let prepared = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
            let outcomes = client.execute(&prepared, &[Param::Int(i64::from(a) + 2)]).unwrap();
            assert_eq!(outcomes[0].ok().unwrap().insert_id, last + 1);
            last += 1;
            client.close(&prepared).unwrap();
        }
        // Long enough for the connections to go back into the pool.
        std::thread::sleep(Duration::from_millis(400));
    }
    // The proxy knows the sql_mode of each session, from one connection to the next.
    one.run("SET sql_mode='ANSI_QUOTES'");
    std::thread::sleep(Duration::from_millis(400));
    one.run("INSERT INTO \"t\" (\"a\") VALUES(1000)");
    other.run("INSERT INTO t(a) VALUES(1001)");
    assert_eq!(rows(&mut one, "SELECT COUNT(*) FROM t WHERE id > 0"), "26");
    // The proxy refuses a statement that needs LAST_INSERT_ID(), with a reason.
    for sql in
        ["INSERT INTO t(a) SELECT 2000", "INSERT INTO t(a) VALUES(1001) ON DUPLICATE KEY UPDATE a=1002"]
    {
        let said = other.query(sql).unwrap();
        let error = said.last().unwrap().err().unwrap();
        assert!(error.code == 1235 && error.message.contains("MySQL Router"), "{sql}: {error:?}");
    }
    assert_eq!(rows(&mut other, "SELECT COUNT(*) FROM t"), "26");
    assert!(!proxy.log().contains("ERROR"), "{}", proxy.log());
}

#[test]
fn sessions_that_share_nothing() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    for sql in TABLES.split("; ") {
        server.client().run(sql);
    }
    let Some(router) = Router::start(&server, false) else { return };
    let proxy = Proxy::start(&proxy::config(&router.address()), &[("rules", &rules("router"))]);
    let options = Options { database: Some("router".to_owned()), ..Options::default() };
    let mut client = Client::connect(&proxy.address(), &options).unwrap();
    client.run("INSERT INTO t(a) VALUES(1),(2)");
    assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()=MIN(id) FROM t"), "1");
    client.run("INSERT INTO t(a) SELECT 3");
}
