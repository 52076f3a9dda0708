//! Promise 15: what a session costs that is silent. `ROWSTAMP_IDLE` says how many there are at once (default 300; 9500 is what
//! 20,000 file descriptors are enough for).

use std::thread;
use std::time::Duration;

use crate::support::machine::memory_kib;
use crate::support::raw::{Client, Options};
use crate::support::servers::{ServerOptions, announce};
use crate::support::{Kind, Proxy, Server, proxy, told};

const RULES: &str = "schema = \"idle\"\n[generators.t]\nkind = \"sequence\"\n[tables.t]\ncolumn = \"id\"\ngenerator = \"t\"\n";
/// The most memory of the proxy for one session. The first sessions do not count: they make what all share.
const BYTES_MAX: u64 = 20 * 1024;
const FIRST: usize = 50;

#[test]
fn what_an_idle_session_costs() {
    let sessions: usize = told::number("ROWSTAMP_IDLE").unwrap_or(300);
    let arguments = vec![format!("--max-connections={}", sessions + FIRST + 20)];
    let Some(server) = Server::start_with(Kind::MariaDb, ServerOptions { arguments, ..Default::default() })
    else {
        return;
    };
    server.client().run("CREATE DATABASE idle");
    server.client().run("CREATE TABLE idle.t (id BIGINT NOT NULL PRIMARY KEY, a INT)");
    let proxy = Proxy::start(&proxy::config(&server.address()), &[("idle", RULES)]);
    let connect = |_: usize| {
        let options = Options { database: Some("idle".to_owned()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).expect("root logs in");
        client.run("INSERT INTO t (a) VALUES (1), (2), (3)");
        let read = client.run("SELECT REPEAT('x', 10000)");
        assert_eq!(read[0].cell(0, 0).map_or(0, |text| text.len()), 10_000);
        client
    };
    let first: Vec<_> = (0..FIRST).map(connect).collect();
    thread::sleep(Duration::from_millis(500));
    let before = memory_kib(proxy.pid) * 1024;
    let more: Vec<_> = (0..sessions).map(connect).collect();
    thread::sleep(Duration::from_millis(500));
    let after = memory_kib(proxy.pid) * 1024;
    let each = after.saturating_sub(before) / sessions as u64;
    announce(&format!(
        "idle: {} sessions, the proxy has {} MiB, {each} bytes for each beyond the first {FIRST}",
        first.len() + more.len(),
        after >> 20,
    ));
    assert!(each <= BYTES_MAX, "{each} bytes a session");
}
