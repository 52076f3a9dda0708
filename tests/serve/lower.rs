//! A bound that a typing error raised, and that is lowered again while no proxy runs: what a proxy that was frozen had reserved is
//! issued by nobody.

use std::time::{Duration, Instant};

use crate::fleet::client;
use crate::operator::{check, store};
use crate::rig::{INSERT, code, insert_id, make, rows};
use crate::support::etcd::Version;
use crate::support::{Etcd, Kind, Proxy, Server, proxy};

const DB: &str = "lowered";
/// Longer than the lease of a proxy's name in etcd.
const LEASE: Duration = Duration::from_secs(10);

fn rules() -> String {
    crate::fleet::rules(DB, 10)
}

/// The frozen proxy's connections end, and with them its locks.
fn kill_all_connections(server: &Server) {
    let mut direct = server.client();
    let ids = rows(
        &mut direct,
        "SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()",
    );
    for id in ids.split(' ').filter(|id| !id.is_empty()) {
        let _ = direct.query(format!("KILL {id}"));
    }
}

#[track_caller]
fn run(server: &Server, config: impl Fn(&str) -> String) {
    let start = |name: &str| Proxy::start(&config(name), &[("rules", &rules())]);
    let (frozen, mut other) = (start("p1"), start("p2"));
    let mut to_frozen = client(frozen.port, DB).unwrap();
    to_frozen.run(INSERT);
    let raise = format!("raise {DB}.g --to 9000000");
    check(&other, &raise, 1, &["9000000 is far above its bound", "highest id in its tables, 1", "add --yes"]);
    check(&other, &format!("{raise} --yes"), 0, &["to 9000000\n"]);
    let highest = (0..15).map(|_| insert_id(&mut to_frozen, INSERT)).max().unwrap();
    assert!(highest >= 9_000_000, "it has reserved up there: {highest}");
    server.client().run(format!("DELETE FROM {DB}.t WHERE id >= 9000000"));

    let lower = format!("lower {DB}.g --to 100 --yes");
    check(
        &other,
        &lower,
        1,
        &["proxies run and may have reserved ids above the new bound: p", "stop every proxy"],
    );
    other.stop();
    frozen.signal("STOP");
    std::thread::sleep(LEASE);
    let (found, said) = store(&other, &lower);
    assert!(
        found == Some(1) && (said.contains("p1; stop every proxy") || said.contains("is held by another")),
        "{said}"
    );
    kill_all_connections(server);
    check(
        &other,
        &format!("lower {DB}.g --to 5 --yes"),
        1,
        &["cannot be lowered to 5", "the highest id of table"],
    );
    check(&other, &format!("lower {DB}.g --to 10000000 --yes"), 1, &["which is not above", "store raise"]);
    check(&other, &format!("lower {DB}.g --to 100"), 1, &["would be lowered from 90000", "add --yes"]);
    check(&other, &lower, 0, &["is lowered from 90000", "to 100;"]);

    let fleet = start("p3");
    let mut to_fleet = client(fleet.port, DB).unwrap();
    let ids: Vec<_> = (0..30).map(|_| insert_id(&mut to_fleet, INSERT)).collect();
    assert!(ids.iter().all(|id| (100..1000).contains(id)), "{ids:?}");
    frozen.signal("CONT");
    let (begun, mut refused) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(4) {
        let Ok(mut to_frozen) = client(frozen.port, DB) else { continue };
        let found = code(&mut to_frozen, INSERT);
        assert_eq!(found, 1467, "{}", frozen.log());
        refused += 1;
        insert_id(&mut to_fleet, INSERT);
    }
    assert!(refused > 0);
    let highest = rows(&mut server.client(), &format!("SELECT MAX(id) FROM {DB}.t")).parse::<u64>().unwrap();
    assert!(highest < 9_000_000, "{highest}");
}

#[test]
fn a_bound_in_etcd_is_lowered_past_a_frozen_proxy() {
    let (Some(server), Some(etcd)) = (Server::start(Kind::MariaDb), Etcd::start(Version::Debian, 1)) else {
        return;
    };
    make(&server, DB, "");
    run(&server, |name| crate::fleet::config(&server, &etcd, name));
}

#[test]
fn a_bound_in_a_table_is_lowered_past_a_frozen_proxy() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        make(&server, DB, "");
        run(&server, |name| crate::in_table::config(&server, name, &format!("{DB}.bounds")));
    }
}

#[test]
fn a_bound_in_a_file_is_lowered_when_its_proxy_has_ended() {
    let Some(server) = Server::start(Kind::MariaDb) else { return };
    make(&server, DB, "");
    let mut proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules())]);
    client(proxy.port, DB).unwrap().run(INSERT);
    let lower = format!("lower {DB}.g --to 7 --yes");
    check(&proxy, &lower, 1, &["is in use by another Rowstamp process"]);
    proxy.stop();
    check(&proxy, &format!("raise {DB}.g --to 9223372036854775807"), 1, &[", 1 would be left", "--yes"]);
    check(&proxy, &format!("raise {DB}.g --to 9223372036854775807 --yes"), 0, &["to 9223372036854775807\n"]);
    check(&proxy, &lower, 0, &["to 7;"]);
    proxy.try_start().unwrap();
    assert_eq!(insert_id(&mut client(proxy.port, DB).unwrap(), INSERT), 7);
}
