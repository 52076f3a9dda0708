//! Generators that are made for tables, while something is in the way: the store is away, another proxy makes the same one, the
//! rules change.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::ScopedJoinHandle;

use crate::fleet::{client, config, hasty};
use crate::patterns::{EACH, TABLE, TIMESTAMPS};
use crate::reload::Stop;
use crate::rig::{Rig, each_with, insert_id, make, message, rows, server};
use crate::support::etcd::{Etcd, Version};
use crate::support::raw::Client;
use crate::support::{Kind, Proxy};

fn rules(pattern: &str, keys: &str) -> String {
    format!("schema = \"{pattern}\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{{table}}\"\n{keys}")
}

/// The id of one INSERT; the error where there is none.
fn attempt(client: &mut Client, sql: &str) -> Result<u64, String> {
    let outcomes = client.query(sql).unwrap();
    let last = outcomes.last().unwrap();
    last.ok()
        .map(|ok| ok.insert_id)
        .ok_or_else(|| last.err().map(|error| format!("{} {}", error.code, error.message)).unwrap())
}

#[test]
fn the_store_is_away_when_a_table_is_new() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { continue };
        let db = "pata_1";
        make(server, db, &format!("CREATE TABLE first {TABLE}; CREATE TABLE native {TABLE};"));
        let keys = format!("{EACH}batch = 5\n");
        let rules = rules("pata_*", &keys)
            + "[tables.native]\ncolumn = \"auto\"\ngenerator = \"{table}\"\nunavailable = \"native\"\n";
        let proxy = Proxy::start(&hasty(server, &etcd, "p1"), &[("rules", &rules)]);
        let rig = Rig { kind, server, proxy, db: db.to_owned() };
        let (mut client, name) = (rig.client(), rig.name());
        assert_eq!(insert_id(&mut client, "INSERT INTO first(a) VALUES(1)"), 1, "{name}");
        etcd.signal(0, "STOP");
        client.run(format!("CREATE TABLE late {TABLE}"));
        rig.direct().run("INSERT INTO late VALUES(40, 1)");
        let said = message(&mut client, "INSERT INTO late(a) VALUES(1)");
        let expect = "Rowstamp could not open the table's generator; the proxy's log has the reason";
        assert!(said.starts_with("1467 ") && said.contains(expect), "{name}: {said}");
        let told = rig.proxy.log();
        let line = told.lines().find(|line| line.contains("Rowstamp cannot serve a table with a rule"));
        assert!(
            line.is_some_and(|line| line.contains("etcd") && line.contains("pata_1.late")),
            "{name}: {told}"
        );
        // The ids at hand are issued first. Then the server numbers the rows where a rule allows it.
        assert_eq!(insert_id(&mut client, "INSERT INTO first(a) VALUES(1)"), 2, "{name}");
        let mut ids = BTreeSet::new();
        for n in 0..30 {
            let id = attempt(&mut client, "INSERT INTO native(a) VALUES(1)")
                .unwrap_or_else(|e| panic!("{name}: {e}, the {n}-th, after {ids:?}: {}", rig.proxy.log()));
            assert!(ids.insert(id), "{name}: {id} again, the {n}-th");
        }
        etcd.signal(0, "CONT");
        rig.wait_until("the table is served", || {
            attempt(&mut client, "INSERT INTO late(a) VALUES(1)").is_ok()
        });
        assert_eq!(rows(&mut client, "SELECT MIN(id) FROM late WHERE id <> 40"), "41", "{name}");
        rig.wait_until("the generator goes on", || {
            rig.proxy.log().contains("continues above the table's ids")
        });
        for _ in 0..30 {
            let id = attempt(&mut client, "INSERT INTO native(a) VALUES(1)")
                .unwrap_or_else(|e| panic!("{name}: {e} after {ids:?}: {}", rig.proxy.log()));
            assert!(Some(&id) > ids.last(), "{name}: {id} after {ids:?}");
            ids.insert(id);
        }
    }
}

/// No id comes twice if two proxies meet the same new tables at once.
#[test]
fn two_proxies_meet_new_tables_at_once() {
    const TABLES: usize = 12;
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { continue };
        for (db, keys) in [("patb_1", EACH), ("patc_1", TIMESTAMPS)] {
            make(server, db, "");
            let rules = rules(&db.replace("_1", "_*"), keys);
            let start = |name| Proxy::start(&config(server, &etcd, name), &[("rules", &rules)]);
            let proxies = [start("p1"), start("p2")];
            let mut direct = server.client();
            for n in 0..TABLES {
                direct.run(format!("CREATE TABLE {db}.n{n} {TABLE}"));
                direct.run(format!("INSERT INTO {db}.n{n} VALUES(7, 0)"));
            }
            let together = Barrier::new(4);
            let write = |proxy: &Proxy| {
                let mut client = client(proxy.port, db).unwrap();
                let mut ids = Vec::new();
                for n in 0..TABLES {
                    together.wait();
                    for _ in 0..30 {
                        let sql = format!("INSERT INTO n{n}(a) VALUES(1),(2)");
                        let id = attempt(&mut client, &sql)
                            .unwrap_or_else(|e| panic!("{sql}: {e}\n{}", proxy.log()));
                        ids.push((n, id));
                    }
                }
                ids
            };
            let all: Vec<(usize, u64)> = std::thread::scope(|scope| {
                let writers = proxies.each_ref().map(|proxy| [(); 2].map(|()| scope.spawn(|| write(proxy))));
                writers.into_iter().flatten().flat_map(|writer| writer.join().unwrap()).collect()
            });
            let different: BTreeSet<_> = all.iter().collect();
            assert_eq!((all.len(), different.len()), (TABLES * 120, TABLES * 120), "{}", kind.name());
            for n in 0..TABLES {
                let seen = rows(&mut direct, &format!("SELECT COUNT(*) FROM {db}.n{n}"));
                assert_eq!(seen, "241", "{}: {db}.n{n}", kind.name());
            }
        }
    }
}

/// Rules come and go while tables are made; no INSERT fails, and no id comes twice.
#[test]
fn the_rules_change_while_generators_are_made() {
    let keys = |batch: u32| EACH.to_owned() + &format!("batch = {batch}\n");
    each_with("patd_1", "", "", &rules("patd_*", &keys(10)), |rig| {
        let (stop, made) = (AtomicBool::new(false), AtomicU32::new(0));
        let writers = std::thread::scope(|scope| {
            let writers = [0, 1].map(|writer| {
                let (rig, stop, made) = (&*rig, &stop, &made);
                scope.spawn(move || {
                    let (mut client, mut tables) = (rig.client(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        let table = format!("w{writer}_{tables}");
                        client.run(format!("CREATE TABLE {table} {TABLE}"));
                        client.run(format!("INSERT INTO {table} VALUES(40, 0)"));
                        for expect in 41..61 {
                            // A row's id is the primary key: the server says where one came twice.
                            let id = insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(1)"));
                            assert!(id >= expect, "{}: {table}: {id}", rig.name());
                        }
                        tables += 1;
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    tables
                })
            });
            let _stops = Stop(&stop);
            let mut nth = 0;
            while nth < 30 || made.load(Ordering::Relaxed) < 20 {
                assert!(
                    !writers.iter().any(ScopedJoinHandle::is_finished),
                    "{}: a writer has ended",
                    rig.name()
                );
                rig.change(&rules("patd_*", &keys(11 + nth % 2)));
                nth += 1;
            }
            stop.store(true, Ordering::Relaxed);
            writers.map(|writer| writer.join().unwrap())
        });
        // Under the last rules all of them go on.
        let mut client = rig.client();
        for n in 0..writers[0] {
            let highest: u64 = rows(&mut client, &format!("SELECT MAX(id) FROM w0_{n}")).parse().unwrap();
            let id = insert_id(&mut client, &format!("INSERT INTO w0_{n}(a) VALUES(1)"));
            assert!(id > highest, "{}: w0_{n}: {id} after {highest}", rig.name());
        }
    });
}
