//! `rowstamp store`: an operator reads and changes the store of the proxies.

use std::process::Command;
use std::time::Duration;

use crate::fleet::{client, goes_on, member, refused};
use crate::rig::{INSERT, insert_id, make, rows, server};
use crate::support::etcd::Version;
use crate::support::wait::wait_until;
use crate::support::{Etcd, Kind, Proxy};
use crate::timestamps;

/// With the files of a proxy: exit code, and what it says.
pub(crate) fn store(proxy: &Proxy, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(crate::support::proxy::binary());
    let output = command.current_dir(proxy.dir()).arg("store").args(line.split(' ')).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[track_caller]
pub(crate) fn check(proxy: &Proxy, line: &str, code: i32, expect: &[&str]) {
    let (found, text) = store(proxy, line);
    assert_eq!(found, Some(code), "{line}: {text}");
    for expect in expect {
        assert!(text.contains(expect), "{line}: {expect:?} is not in {text}");
    }
}

/// The copy is older than p2, which has no witness in it, nor its name.
#[test]
fn an_etcd_that_was_put_back_is_settled_while_proxies_run() {
    const DB: &str = "operator_settles";
    let Some(server) = server(Kind::MariaDb) else { return };
    for version in Version::ALL {
        let Some(mut etcd) = Etcd::start(version, 1) else { continue };
        server.client().run(format!("DROP DATABASE IF EXISTS {DB}"));
        make(server, DB, "");
        let first = member(server, &etcd, "p1", DB, 100);
        let mut to_first = client(first.port, DB).unwrap();
        to_first.run(INSERT);
        let copy = etcd.snapshot();
        let mut second = member(server, &etcd, "p2", DB, 100);
        let mut to_second = client(second.port, DB).unwrap();
        for _ in 0..150 {
            to_first.run(INSERT);
            to_second.run(INSERT);
        }
        etcd.restore(&copy);
        refused(&mut to_first, &first);
        refused(&mut to_second, &second);
        check(&first, "list", 1, &["p1", "suspects since", "rowstamp store raise --settle"]);
        let highest: u64 = rows(&mut to_first, "SELECT MAX(id) FROM t").parse().unwrap();
        let raised = format!("to {}\n", highest + 1);
        check(&first, "raise --settle", 0, &["suspected by p", &raised, "settled"]);
        for client in [&mut to_first, &mut to_second] {
            goes_on(client);
            for _ in 0..150 {
                assert!(insert_id(client, INSERT) > highest, "{version:?}");
            }
        }
        check(&first, "list", 0, &["p1", "p2"]);

        if version != Version::Debian {
            continue;
        }
        // Once more, while p2 does not run: nobody can know whether it is only cut off.
        let stopped = etcd.snapshot();
        second.stop();
        drop(to_second);
        etcd.restore(&stopped);
        check(&first, "raise --settle", 1, &["are not connected to it now: p2", "--others-stopped"]);
        check(&first, "raise --settle --others-stopped", 0, &["settled"]);
        goes_on(&mut to_first);
        second.restart();
        let mut to_second = client(second.port, DB).unwrap();
        goes_on(&mut to_second);
        let all = rows(&mut to_first, "SELECT COUNT(*) = COUNT(DISTINCT id) FROM t");
        assert_eq!(all, "1");
    }
}

/// The copy has no records. The proxy that runs writes each table's generator and the store's name again, so that no other proxy gives
/// a table another generator.
#[test]
fn an_etcd_that_was_emptied_knows_the_tables_and_its_name_again() {
    const DB: &str = "operator_emptied";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let empty = etcd.snapshot();
    let first = member(server, &etcd, "p1", DB, 10);
    let mut to_first = client(first.port, DB).unwrap();
    to_first.run(INSERT);
    let binding = format!("/rowstamp/bindings/{DB}.t");
    assert!(etcd.ctl(0, &["get", &binding]).contains(&format!("{DB}.g")));
    etcd.restore(&empty);
    refused(&mut to_first, &first);
    assert!(!etcd.ctl(0, &["get", &binding]).contains(&format!("{DB}.g")));
    check(&first, "raise --settle", 0, &["settled"]);
    goes_on(&mut to_first);
    wait_until(|| first.log(), || etcd.ctl(0, &["get", &binding]).contains(&format!("{DB}.g")));
    goes_on(&mut to_first);
    // Another proxy of this store may start, but only with the same rules.
    let second = member(server, &etcd, "p2", DB, 10);
    goes_on(&mut client(second.port, DB).unwrap());
    let config = crate::fleet::config(server, &etcd, "p3");
    let rules = crate::fleet::moved(&crate::fleet::rules(DB, 10));
    let third = std::panic::catch_unwind(|| Proxy::start(&config, &[("rules", &rules)]));
    let panic = third.err().expect("it does not serve");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("only while one proxy runs; stop the other proxies (p1, p2)"), "{text}");
}

/// The copy is older than p2's node.
#[test]
fn timestamps_are_settled_on_every_node() {
    const DB: &str = "operator_times";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let first = timestamps::member(&etcd, "p1", DB, "advance = \"1s\"");
    let mut to_first = client(first.port, DB).unwrap();
    to_first.run(INSERT);
    let copy = etcd.snapshot();
    // The times that are reserved in the copy are past by then.
    std::thread::sleep(Duration::from_secs(3));
    let second = timestamps::member(&etcd, "p2", DB, "advance = \"1s\"");
    let mut to_second = client(second.port, DB).unwrap();
    for _ in 0..20 {
        to_first.run(INSERT);
        to_second.run(INSERT);
    }
    etcd.restore(&copy);
    refused(&mut to_first, &first);
    refused(&mut to_second, &second);
    let highest: u64 = rows(&mut to_first, "SELECT MAX(id) FROM t").parse().unwrap();
    let (to_come, of_first) =
        (format!("{DB}.g: new nodes begin at 20"), format!("{DB}.g: node 0 is raised from 20"));
    check(&first, "raise --settle", 0, &["suspected by p", &to_come, &of_first, "settled"]);
    for client in [&mut to_first, &mut to_second] {
        goes_on(client);
        assert!(insert_id(client, INSERT) > highest);
    }
    assert_eq!(rows(&mut to_first, "SELECT COUNT(*) = COUNT(DISTINCT id) FROM t"), "1");
    let nodes = "SELECT COUNT(DISTINCT id >> 2 & 1023) FROM t WHERE id > ";
    assert_eq!(rows(&mut to_first, &format!("{nodes}{highest}")), "2", "each is a node of its own again");
    check(&first, &format!("raise {DB}.g --above-tables"), 0, &[&to_come]);
    check(&first, &format!("raise {DB}.g --above-tables"), 0, &["is already above 20", "on every node"]);
    check(&first, &format!("raise {DB}.g --to 7"), 2, &["bounds are times, not ids; write --above-tables"]);
    check(&first, "list", 0, &[&format!("{DB}.g  0     20"), "timestamp"]);
}

#[test]
fn bounds_of_running_proxies_are_raised_in_etcd() {
    const DB: &str = "operator_raises";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let proxy = member(server, &etcd, "p1", DB, 10);
    let mut client = client(proxy.port, DB).unwrap();
    client.run(INSERT);
    check(&proxy, &format!("raise {DB}.g --to 70000"), 0, &["is raised from 1", "to 70000"]);
    check(&proxy, &format!("raise {DB}.g --to 60000"), 1, &["which is above 60000"]);
    let ids: Vec<_> = (0..50).map(|_| insert_id(&mut client, INSERT)).collect();
    assert!(ids.is_sorted() && *ids.last().unwrap() >= 70_000, "{ids:?}");
    let is_raised = |id: u64| {
        server.client().run(format!("INSERT INTO {DB}.t VALUES({id}, NULL)"));
        let (code, text) = store(&proxy, &format!("raise {DB}.g --above-tables"));
        assert_eq!(code, Some(0), "{text}");
        let is_raised = text.contains(&format!("to {}\n", id + 1));
        // A proxy that lost its lock on a busy machine looks at the table when it has it again, and may be the first.
        assert!(is_raised || text.contains(" is already at "), "{text}");
        is_raised
    };
    assert!((1..=60).any(|nth| is_raised(nth * 100_000)), "the proxy was first each time");
    let keys = etcd.ctl(0, &["get", "--prefix", "--keys-only", ""]);
    assert!(!keys.contains("suspect") && keys.matches("witness/").count() == 1, "{keys}");
}

#[test]
fn bounds_in_a_table_are_listed_and_raised() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        for table in ["bounds", "leaf_alloc"] {
            let db = format!("operator_{table}");
            make(server, &db, crate::in_table::LEAF);
            let config = crate::in_table::config(server, "p1", &format!("{db}.{table}"));
            let mut proxy = Proxy::start(&config, &[("rules", &crate::fleet::rules(&db, 10))]);
            let mut client = client(proxy.port, &db).unwrap();
            client.run(INSERT);
            check(&proxy, "list", 0, &["GENERATOR", "sequence", "PROXY", "p1", &format!("{db}.t")]);
            check(&proxy, &format!("raise {db}.g --to 70000"), 0, &["to 70000\n"]);
            let ids: Vec<_> = (0..50).map(|_| insert_id(&mut client, INSERT)).collect();
            assert!(ids.is_sorted() && *ids.last().unwrap() >= 70_000, "{ids:?}");
            check(
                &proxy,
                "raise --settle",
                1,
                &["would continue to issue their reserved ids: p1; stop them, then settle"],
            );
            drop(client);
            proxy.stop();
            server.client().run(format!("INSERT INTO {db}.t VALUES(90000, NULL)"));
            check(&proxy, "raise --settle", 0, &["to 90001\n"]);
        }
    }
}

#[test]
fn a_table_of_bounds_moves_to_etcd_when_its_proxies_are_stopped() {
    const DB: &str = "operator_moves";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let config = crate::in_table::config(server, "p1", &format!("{DB}.bounds"));
    let mut old = Proxy::start(&config, &[("rules", &crate::fleet::rules(DB, 10))]);
    check(&old, &format!("raise {DB}.g --to 70000"), 0, &["to 70000\n"]);
    let mut to_old = client(old.port, DB).unwrap();
    let last = (0..50).map(|_| insert_id(&mut to_old, INSERT)).max().unwrap();
    drop(to_old);
    let config = crate::fleet::config(server, &etcd, "p2");
    let mut new = Proxy::written(&config, &[("rules", &crate::fleet::rules(DB, 10))]);
    let line = format!("move --from {}", old.dir().join("rowstamp.toml").display());
    check(&new, &line, 1, &["proxies use the store of", "stop them, then move"]);
    server.client().run(format!("DELETE FROM {DB}.t"));
    old.stop();
    check(&new, &line, 0, &["records: 2, written: ", "written"]);
    new.try_start().unwrap();
    let mut to_new = client(new.port, DB).unwrap();
    let ids: Vec<_> = (0..50).map(|_| insert_id(&mut to_new, INSERT)).collect();
    assert!(ids.is_sorted() && *ids.last().unwrap() > last, "{ids:?} {last}");
    check(&new, "export -", 0, &["below the store: p2", "generators/operator_moves.g"]);
    let outcome = etcd.ctl(0, &["put", "/rowstamp/suspect", r#"{"v":1,"by":"x","since":"s","reason":"r"}"#]);
    assert_eq!(outcome.trim(), "OK");
    check(&new, "export -", 1, &["the store may hold older data than before"]);
}
