//! Several proxies on one etcd and one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::rig::{INSERT, code, insert_id, make, message, rows, server};
use crate::support::etcd::Version;
use crate::support::raw::{Client, Options};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Etcd, Kind, Proxy, Server, proxy};

/// A proxy of the fleet; `batch` ids a store write.
pub(crate) fn member(server: &Server, etcd: &Etcd, name: &str, db: &str, batch: u32) -> Proxy {
    Proxy::start(&hasty(server, etcd, name), &[("rules", &rules(db, batch))])
}

pub(crate) fn config(server: &Server, etcd: &Etcd, name: &str) -> String {
    format!(
        "{}[store]\nkind = \"etcd\"\nendpoints = {}\n\n[proxy]\nname = \"{name}\"\n",
        proxy::config(&server.address()),
        etcd.endpoints_toml()
    )
}

/// An INSERT waits for ids for a second at most: for tests in which the store is away on purpose.
pub(crate) fn hasty(server: &Server, etcd: &Etcd, name: &str) -> String {
    config(server, etcd, name).replace("[store]\n", "[store]\ndeadline = \"1s\"\n")
}

pub(crate) fn rules(db: &str, batch: u32) -> String {
    crate::rig::rules(db).replace("kind = \"sequence\"", &format!("kind = \"sequence\"\nbatch = {batch}"))
}

pub(crate) fn client(port: u16, db: &str) -> std::io::Result<Client> {
    Client::connect(
        &format!("127.0.0.1:{port}"),
        &Options { database: Some(db.to_owned()), ..Options::default() },
    )
}

/// Returns the ids that one writer got, in the order of their answers, a list for each connection. Also
/// returns the longest time without an id.
fn write(
    port: &AtomicU16,
    db: &str,
    writer: u32,
    (stop, told): (&AtomicBool, &AtomicU64),
) -> (Vec<Vec<u64>>, Duration) {
    let (mut connections, mut n) = (Vec::new(), 0);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = client(port.load(Ordering::Relaxed), db) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let mut ids = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            let sql = format!("INSERT INTO t(a) VALUES({})", writer * 1_000_000 + n);
            // The proxy was killed: this row may be there or not.
            let Ok(outcomes) = client.query(sql) else { break };
            let outcome = outcomes.last().unwrap();
            if let Some(error) = outcome.err() {
                assert_eq!(error.code, 1467, "writer {writer}: {}", error.message);
                continue;
            }
            ids.push(outcome.ok().unwrap().insert_id);
            told.fetch_add(1, Ordering::Relaxed);
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        connections.push(ids);
    }
    (connections, longest)
}

/// The rows of all writers together.
const ROWS_AT_LEAST: u64 = 1_000;

/// Eight writers at three proxies, for as long as `disturb` takes, and until they have written enough; all ids that they got, and the longest time that
/// one of them waited for the next.
pub(crate) fn eight_writers(
    proxies: &mut [Proxy],
    db: &'static str,
    disturb: impl FnOnce(&mut [Proxy], &[Arc<AtomicU16>]),
) -> (Vec<u64>, Duration) {
    let ports: Vec<_> = proxies.iter().map(|proxy| Arc::new(AtomicU16::new(proxy.port))).collect();
    let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (port, stop, told) =
                (ports[writer as usize % ports.len()].clone(), stop.clone(), told.clone());
            std::thread::spawn(move || write(&port, db, writer, (&stop, &told)))
        })
        .collect();
    disturb(proxies, &ports);
    wait_until(|| "nothing is written".to_owned(), || told.load(Ordering::Relaxed) > ROWS_AT_LEAST);
    stop.store(true, Ordering::Relaxed);
    let (mut all, mut longest) = (Vec::new(), Duration::ZERO);
    for writer in writers {
        let (connections, waited) = writer.join().expect("no error but 1467 and a lost connection");
        assert!(connections.iter().all(|ids| ids.is_sorted()), "ids ascend per connection");
        all.extend(connections.into_iter().flatten());
        longest = longest.max(waited);
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no id twice");
    (all, longest)
}

/// Below which ids of the rules' generator may be issued, as etcd has it.
fn bound(etcd: &Etcd, db: &str) -> u64 {
    let json = etcd.ctl(0, &["get", "--print-value-only", &format!("/rowstamp/generators/{db}.g")]);
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    record["bound"].as_u64().unwrap()
}

fn count(server: &Server, db: &str) -> usize {
    let mut direct = Client::connect(&server.address(), &Options::default()).unwrap();
    rows(&mut direct, &format!("SELECT COUNT(*) FROM {db}.t")).parse().unwrap()
}

#[test]
fn three_proxies_share_a_table() {
    const DB: &str = "fleet_three";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 3) else { return };
    make(server, DB, "");
    let mut proxies: Vec<_> =
        ["p1", "p2", "p3"].iter().map(|name| member(server, &etcd, name, DB, 50)).collect();
    let (told, _) = eight_writers(&mut proxies, DB, |proxies, ports| {
        for _ in 0..3 {
            std::thread::sleep(Duration::from_secs(1));
            proxies[1].restart();
            ports[1].store(proxies[1].port, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    // Each writer at the proxy that was killed three times may have lost one answer each time.
    let there = count(server, DB);
    assert!((told.len()..=told.len() + 9).contains(&there), "{there} rows, {} answers", told.len());
}

/// The reserve is small and used up at once, so every hiccup of etcd's is seen.
#[test]
fn members_of_etcd_die_and_hang_while_three_proxies_write() {
    const DB: &str = "fleet_members";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 3) else { return };
    make(server, DB, "");
    let mut proxies: Vec<_> =
        ["p1", "p2", "p3"].iter().map(|name| member(server, &etcd, name, DB, 50)).collect();
    let (told, longest) = eight_writers(&mut proxies, DB, |_, _| {
        for member in 0..3 {
            std::thread::sleep(Duration::from_millis(500));
            etcd.signal(member, "STOP");
            std::thread::sleep(Duration::from_secs(2));
            etcd.signal(member, "CONT");
            std::thread::sleep(Duration::from_millis(500));
            etcd.kill(member);
            std::thread::sleep(Duration::from_secs(1));
            etcd.restart(member);
            assert!(etcd.wait_until_healthy());
        }
    });
    // How soon it goes on is measured by tests/chaos: an election takes a second or two of etcd's own.
    println!("{} ids, at most {longest:?} from one to the next of a writer", told.len());
    assert_eq!(count(server, DB), told.len());
}

#[test]
fn the_store_may_be_away_for_the_reserve() {
    const DB: &str = "fleet_away";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let proxy = member(server, &etcd, "p1", DB, 100);
    let mut client = client(proxy.port, DB).unwrap();
    for how in ["killed", "stopped"] {
        let id = insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)");
        // The first answer may come before the reserve is full again, and etcd knows of that before the proxy does.
        wait_until(|| "the reserve stays empty".to_owned(), || bound(&etcd, DB) > id + 50);
        std::thread::sleep(Duration::from_millis(300));
        match how {
            "killed" => etcd.kill(0),
            _ => etcd.signal(0, "STOP"),
        }
        let mut taken = 0;
        let (refused_after, text) = loop {
            let begun = Instant::now();
            let outcomes = client.query("INSERT INTO t(a) VALUES(NULL)").unwrap();
            match outcomes.last().unwrap().err() {
                None => taken += 1,
                Some(error) => {
                    assert_eq!(error.code, 1467, "{how}: {}", error.message);
                    break (begun.elapsed(), error.message.clone());
                }
            }
            assert!(taken < 1_000, "{how}: ids do not end");
        };
        assert!(taken >= 40, "{how}: {taken} ids of the reserve");
        // store.deadline; that it is no longer is a matter of a paused clock, in ids/generator.
        assert!(refused_after > Duration::from_millis(900), "{how}: refused after {refused_after:?}");
        assert!(text.contains("the store"), "{how}: {text}");
        assert_eq!(rows(&mut client, "SELECT 1"), "1");
        assert_eq!(code(&mut client, "INSERT INTO u VALUES(1,1)"), 0, "no rule concerns it");
        match how {
            "killed" => {
                etcd.restart(0);
                assert!(etcd.wait_until_healthy());
            }
            _ => etcd.signal(0, "CONT"),
        }
        goes_on(&mut client);
        let log = proxy.log();
        let lines = |text: &str| log.matches(text).count();
        let outages = usize::from(how == "stopped") + 1;
        // A line when they begin to fail, and one when they no longer do, however many there were.
        assert_eq!(
            (lines("the generator gives no ids"), lines("the generator gives ids again")),
            (outages, outages),
            "{how}: {log}"
        );
    }
}

/// The proxy relays, and issues ids as soon as etcd is there: above those that the table has got meanwhile.
#[test]
fn a_proxy_that_starts_while_etcd_is_away() {
    const DB: &str = "fleet_late";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let mut proxy = member(server, &etcd, "p1", DB, 100);
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    let before = insert_id(&mut client(proxy.port, DB).unwrap(), insert);
    server.client().run(format!("CREATE VIEW {DB}.v AS SELECT a FROM {DB}.t"));
    etcd.kill(0);
    proxy.kill();
    proxy.restart();
    let mut client = client(proxy.port, DB).unwrap();
    let through_view = message(&mut client, "INSERT INTO v(a) VALUES(NULL)");
    assert!(through_view.starts_with("1467 "), "{through_view}");
    assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "1");
    assert_eq!(code(&mut client, "INSERT INTO u VALUES(1,1)"), 0, "no rule concerns it");
    for _ in 0..3 {
        let text = message(&mut client, insert);
        assert!(
            text.starts_with("1467 ") && text.contains("the store was away when this proxy started"),
            "{text}"
        );
    }
    server.client().run(format!("INSERT INTO {DB}.t(id, a) VALUES ({}, 1000)", before + 5_000));
    etcd.restart(0);
    assert!(etcd.wait_until_healthy());
    goes_on(&mut client);
    assert!(insert_id(&mut client, insert) > before + 5_000);
}

/// Until the store is suspected.
pub(crate) fn refused(client: &mut Client, proxy: &Proxy) {
    let end = Instant::now() + NEVER;
    loop {
        let outcomes = client.query(INSERT).unwrap();
        if let Some(error) = outcomes.last().unwrap().err() {
            assert_eq!(error.code, 1467, "{}", error.message);
            let log = proxy.log();
            if log.contains("older data than before") {
                return;
            }
        }
        assert!(Instant::now() < end, "it goes on:\n{}", proxy.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How soon is measured by tests/away.
pub(crate) fn goes_on(client: &mut Client) {
    wait_until(|| "it does not go on".to_owned(), || code(client, INSERT) == 0);
}

#[test]
fn an_etcd_that_was_put_back_from_a_copy_stops_all() {
    const DB: &str = "fleet_back";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let proxies: Vec<_> = ["p1", "p2"].iter().map(|name| member(server, &etcd, name, DB, 1_000)).collect();
    let mut clients: Vec<_> = proxies.iter().map(|proxy| client(proxy.port, DB).unwrap()).collect();
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    clients[0].run(insert);
    let copy = etcd.snapshot();
    clients[1].run(insert);
    etcd.restore(&copy);
    // p2 lost its range; p1 has a reserve that somebody else may be given now.
    for (client, proxy) in clients.iter_mut().zip(&proxies) {
        refused(client, proxy);
        assert_eq!(rows(client, "SELECT 1"), "1");
        // The store's own lines have its name.
        let (log, name) = (proxy.log(), " store=\"etcd at 127.0.0.1:");
        assert!(log.lines().any(|line| line.contains("ERROR the store (") && line.contains(name)), "{log}");
    }
    let highest = "SELECT MAX(id) FROM t";
    let before: u64 = rows(&mut clients[0], highest).parse().unwrap();
    etcd.raise(&[(&format!("{DB}.g"), 50_000)]);
    for client in &mut clients {
        goes_on(client);
    }
    let after: u64 = rows(&mut clients[0], highest).parse().unwrap();
    assert!(before < 50_000 && after >= 51_000, "{before} {after}: each proxy has a range of its own again");
}

#[test]
fn a_second_proxy_of_one_name_is_refused() {
    const DB: &str = "fleet_name";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let first = member(server, &etcd, "p1", DB, 50);
    let second = std::panic::catch_unwind(|| member(server, &etcd, "p1", DB, 50));
    let panic = second.err().expect("it does not serve");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("has used the name p1 since"), "{text}");
    assert!(first.is_running());
}

/// The table has another generator.
pub(crate) fn moved(rules: &str) -> String {
    format!(
        "{}[generators.h]\nkind = \"sequence\"\n",
        rules.replace("generator = \"g\"", "generator = \"h\"")
    )
}

/// The others have the old rules, and would go on issuing from the old generator.
#[test]
fn a_table_moves_to_another_generator_while_one_proxy_runs() {
    const DB: &str = "fleet_move";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let (first, mut second) = (member(server, &etcd, "p1", DB, 50), member(server, &etcd, "p2", DB, 50));
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    let mut to_first = client(first.port, DB).unwrap();
    to_first.run(insert);
    first.write_rules("rules", &moved(&rules(DB, 50)));
    let (in_force, log) = first.reload();
    assert!(!in_force && log.contains("only while one proxy runs; stop the other proxies (p2)"), "{log}");
    to_first.run(insert);
    let mut to_second = client(second.port, DB).unwrap();
    to_second.run(insert);
    drop(to_second);
    second.stop();
    let (in_force, log) = first.reload();
    assert!(in_force, "{log}");
    to_first.run(insert);
    assert_eq!(rows(&mut to_first, "SELECT COUNT(*) FROM t"), "4");
}

/// Then the proxy of this name does not live, as others see it.
pub(crate) fn wait_until_its_lease_is_over(etcd: &Etcd, name: &str) {
    let key = format!("/rowstamp/proxies/{name}");
    wait_until(|| format!("{key} stays"), || etcd.ctl(0, &["get", &key]).is_empty());
}

/// The frozen proxy lost its lease, so nobody waits for it: of the old generator it issues only what it had reserved.
#[test]
fn a_table_moves_while_a_proxy_is_frozen() {
    const DB: &str = "fleet_frozen";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let (first, second) = (member(server, &etcd, "p1", DB, 50), member(server, &etcd, "p2", DB, 50));
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    let (mut to_first, mut to_second) = (client(first.port, DB).unwrap(), client(second.port, DB).unwrap());
    to_first.run(insert);
    to_second.run(insert);
    second.signal("STOP");
    wait_until_its_lease_is_over(&etcd, "p2");
    first.write_rules("rules", &moved(&rules(DB, 50)));
    let (in_force, log) = first.reload();
    assert!(in_force, "{log}");
    for _ in 0..200 {
        to_first.run(insert);
    }
    second.signal("CONT");
    // The second proxy had reserved 150 ids at the most. Then it looks at the binding.
    let mut codes: Vec<u16> = (0..200).map(|_| code(&mut to_second, insert)).collect();
    wait_until(
        || second.log(),
        || second.log().contains("only while one proxy runs; stop the other proxies (p1)"),
    );
    wait_until(
        || second.log(),
        || {
            codes.push(code(&mut to_second, insert));
            codes.last() == Some(&1467)
        },
    );
    assert!(codes.iter().all(|code| [0, 1467].contains(code)), "{codes:?}");
    second.write_rules("rules", &moved(&rules(DB, 50)));
    let (in_force, log) = second.reload();
    assert!(in_force, "{log}");
    for client in [&mut to_first, &mut to_second] {
        client.run(insert);
    }
    assert_eq!(rows(&mut to_first, "SELECT COUNT(*)-COUNT(DISTINCT id) FROM t"), "0");
}

/// Stores know nothing of each other: whoever has another one than the table's is refused, of whatever kind it is.
#[test]
fn a_proxy_with_another_store_is_refused() {
    let Some(server) = server(Kind::MariaDb) else { return };
    make(server, "fleet_stores", "");
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let first = member(server, &etcd, "first", "fleet_stores", 100);
    // On the same store the lock is shared.
    let second = member(server, &etcd, "second", "fleet_stores", 100);
    let insert = |proxy: &Proxy, n: u32| {
        let mut client = client(proxy.port, "fleet_stores").unwrap();
        insert_id(&mut client, &format!("INSERT INTO t(a) VALUES({n})"))
    };
    assert!(insert(&first, 1) != insert(&second, 2));
    let other_prefix = config(server, &etcd, "third").replace("[proxy]", "prefix = \"/other/\"\n\n[proxy]");
    let in_table = format!(
        "{}[store]\nkind = \"mysql\"\ntable = \"fleet_stores.bounds\"\n",
        proxy::config(&server.address())
    );
    for other in [proxy::config(&server.address()), other_prefix, in_table] {
        let log = Proxy::written(&other, &[("rules", &rules("fleet_stores", 100))]).try_start();
        let log = log.expect_err("the table is the fleet's");
        let expected =
            "table fleet_stores.t is held by another Rowstamp, which has another store (connection ";
        assert!(log.contains(expected) && log.contains("of \"root\" from"), "{other}:\n{log}");
    }
    // Whoever of the fleet goes on keeps the table.
    drop(first);
    for n in 3..10 {
        assert!(insert(&second, n) > 0);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(
        Proxy::written(&proxy::config(&server.address()), &[("rules", &rules("fleet_stores", 100))])
            .try_start()
            .is_err()
    );
}
