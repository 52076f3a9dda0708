//! Ids of timestamp generators, through every way in which a statement gets them. The layout has 4 ids a tick, and the node
//! lies between tick and number, so that most statements have several runs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::fleet::{client, hasty, moved, wait_until_its_lease_is_over};
use crate::reload::rules as sequences;
use crate::rig::{Rig, code, each_with, insert_id, make, message, rows, server};
use crate::support::clock::{self, Clock};
use crate::support::etcd::Version;
use crate::support::machine::announce;
use crate::support::raw::{Client, Param};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Etcd, Kind, Proxy, proxy};

const TICK_SHIFT: u32 = 12;
const SEQUENCE_BITS: u32 = 2;
/// 2020-01-01T00:00:00Z
const EPOCH_MILLIS: u64 = 1_577_836_800_000;

fn generator(keys: &str) -> String {
    format!(
        "kind = \"timestamp\"\n{keys}\n[generators.g.layout]\nepoch = \"2020-01-01T00:00:00Z\"\ntick = \"1ms\"\n\
         fields = [{{ field = \"timestamp\", bits = 41 }}, {{ field = \"node\", bits = 10 }}, {{ field = \"sequence\", bits = 2 }}]\n"
    )
}

fn rules(db: &str, keys: &str) -> String {
    let generator = generator(keys);
    format!("schema = \"{db}\"\n[generators.g]\n{generator}[tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n")
}

fn tick(id: u64) -> u64 {
    id >> TICK_SHIFT
}

pub(crate) fn node(id: u64) -> u64 {
    id >> SEQUENCE_BITS & 0x3FF
}

fn tick_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    u64::try_from(now).unwrap() - EPOCH_MILLIS
}

/// Ascending.
fn ids(client: &mut Client, sql: &str) -> Vec<u64> {
    rows(client, sql).split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Checks that the ids are a statement's ids in a row: within a tick, or from the beginning of one on.
#[track_caller]
fn assert_in_a_row(ids: &[u64]) {
    let number = |id: u64| tick(id) << SEQUENCE_BITS | id & 3;
    let numbers: Vec<_> = ids.iter().map(|id| number(*id) - number(ids[0])).collect();
    assert!(numbers.iter().copied().eq(0..ids.len() as u64), "{ids:?}");
    assert!(ids.iter().all(|id| node(*id) == node(ids[0])), "{ids:?}");
    let is_one_run = tick(ids[0]) == tick(ids[ids.len() - 1]);
    assert!(is_one_run || ids[0].is_multiple_of(4), "{ids:?}: as few runs as can be");
}

/// Inserts rows 1 to `count` by `insert`, and looks at what was stored and told.
#[track_caller]
fn check(rig: &Rig, client: &mut Client, count: usize, insert: impl FnOnce(&mut Client) -> u64) {
    client.run("DELETE FROM t");
    let told = insert(client);
    let stored = ids(client, "SELECT id FROM t ORDER BY a");
    assert_eq!((stored.len(), stored[0]), (count, told), "{}", rig.name());
    assert_in_a_row(&stored);
    assert_eq!(rows(client, "SELECT LAST_INSERT_ID()"), told.to_string(), "{}", rig.name());
}

fn values(count: usize) -> String {
    (1..=count).map(|a| format!("({a})")).collect::<Vec<_>>().join(",")
}

#[test]
fn every_way_in_fills_in_the_ids_of_several_ticks() {
    let sql = "CREATE TABLE source (a INT); INSERT INTO source VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13);";
    each_with("timestamps", sql, "", &rules("timestamps", ""), |rig| {
        let mut client = rig.client();
        for count in [1, 3, 4, 5, 23] {
            let text = format!("INSERT INTO t(a) VALUES {}", values(count));
            check(rig, &mut client, count, |client| insert_id(client, &text));
            check(rig, &mut client, count, |client| {
                let prepared = client.prepare(&text).unwrap().unwrap();
                client.execute(&prepared, &[]).unwrap()[0].ok().unwrap().insert_id
            });
            let nulls = vec!["(?, ?)"; count].join(",");
            check(rig, &mut client, count, |client| {
                let prepared =
                    client.prepare(format!("INSERT INTO t(id, a) VALUES {nulls}")).unwrap().unwrap();
                let params: Vec<_> = (1..=count as u64).flat_map(|a| [Param::Null, Param::Uint(a)]).collect();
                client.execute(&prepared, &params).unwrap()[0].ok().unwrap().insert_id
            });
        }
        let select = "INSERT INTO t(a) SELECT a FROM source ORDER BY a";
        check(rig, &mut client, 13, |client| insert_id(client, select));
        check(rig, &mut client, 13, |client| {
            let prepared = client.prepare(select).unwrap().unwrap();
            client.execute(&prepared, &[]).unwrap()[0].ok().unwrap().insert_id
        });
        // More rows than the first block has.
        check(rig, &mut client, 169, |client| {
            insert_id(client, "INSERT INTO t(a) SELECT x.a*13-13+y.a FROM source x, source y ORDER BY 1")
        });
        check(rig, &mut client, 9, |client| {
            insert_id(client, &format!("INSERT IGNORE INTO t(a) VALUES {}", values(9)))
        });
    });
}

/// The insert id is that of the first row which is new, and another node's ids lie between.
#[test]
fn rows_that_are_left_out() {
    each_with("timestamps_ignore", "", "", &rules("timestamps_ignore", ""), |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO t(a) VALUES(1),(2),(3),(4),(5)");
        // Rows of another node, in each tick to come.
        let tick = tick_now();
        let others: Vec<_> =
            (0..5_000).map(|k| format!("({},{})", ((tick + k) << TICK_SHIFT) | 4, 100 + k)).collect();
        rig.direct().run(format!("INSERT INTO t(id,a) VALUES {}", others.join(",")));
        let told = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES (1),(2),(3),(4),(5),(6),(7)");
        let stored = ids(&mut client, "SELECT id FROM t WHERE a IN (6,7) ORDER BY a");
        assert_eq!((stored.len(), stored[0]), (2, told), "{}", rig.name());
    });
}

#[test]
fn bulk_executions_of_several_rows_begin_their_sets_where_these_fit() {
    each_with("timestamps_bulk", "", "", &rules("timestamps_bulk", ""), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut client = rig.bulk_client(true);
        for width in [1, 2, 3, 5] {
            client.run("DELETE FROM t");
            let marks = vec!["(?)"; width].join(",");
            let prepared = client.prepare(format!("INSERT INTO t(a) VALUES {marks}")).unwrap().unwrap();
            let sets: Vec<Vec<Param>> = (0..7)
                .map(|set| (0..width).map(|row| Param::Uint((set * width + row) as u64)).collect())
                .collect();
            let sets: Vec<&[Param]> = sets.iter().map(Vec::as_slice).collect();
            let told = client.bulk(prepared.id, &sets).unwrap()[0].ok().unwrap().insert_id;
            let stored = ids(&mut client, "SELECT id FROM t ORDER BY a");
            assert_eq!((stored.len(), stored[0]), (7 * width, told), "{width} rows a set");
            assert_eq!(stored.iter().collect::<BTreeSet<_>>().len(), stored.len());
            stored.chunks(width).for_each(assert_in_a_row);
            assert!(stored.is_sorted(), "{stored:?}");
        }
    });
}

#[test]
fn ids_are_of_their_time_and_ascend_behind_a_restart() {
    each_with(
        "timestamps_restart",
        "",
        "",
        &rules("timestamps_restart", "node = 7\nadvance = \"2s\""),
        |rig| {
            let before = tick_now();
            let mut above = 0;
            for round in 0..3 {
                let mut client = rig.client();
                for a in 0..200 {
                    let id =
                        insert_id(&mut client, &format!("INSERT INTO t(a) VALUES({})", round * 1000 + a));
                    assert!(id > above && node(id) == 7, "{}: {id} {above}", rig.name());
                    above = id;
                }
                drop(client);
                match round {
                    0 => rig.proxy.kill(),
                    _ => rig.proxy.stop(),
                }
                rig.proxy.restart();
            }
            // After the kill, ids start above all that was reserved.
            let ahead = tick(above).checked_sub(before).unwrap();
            assert!(ahead < tick_now() - before + 3_000, "{}: {ahead} ms", rig.name());
        },
    );
}

/// A table's way from a sequence to timestamps and back, and a column that cannot hold them.
#[test]
fn tables_move_between_sequences_and_timestamps() {
    const DB: &str = "timestamps_move";
    let sequence = sequences(DB, "", &[("t", "id", "g")]);
    let other = format!(
        "schema = \"{DB}\"\n[generators.f]\n{}[tables.t]\ncolumn = \"id\"\ngenerator = \"f\"\n",
        generator("").replace("generators.g", "generators.f")
    );
    let narrow = other.replace("[tables.t]\ncolumn = \"id\"", "[tables.u]\ncolumn = \"id\"");
    each_with(DB, "ALTER TABLE u ADD PRIMARY KEY(id);", "", &sequence, |rig| {
        let mut client = rig.client();
        let mut above = insert_id(&mut client, "INSERT INTO t(a) VALUES(1)");
        for (a, rules) in (2..).zip([&other, &sequence, &other, &sequence]) {
            rig.change(rules);
            let id = insert_id(&mut client, &format!("INSERT INTO t(a) VALUES({a})"));
            assert!(id > above, "{}: {id} is not above {above}", rig.name());
            assert_eq!(tick(id) > 0, a > 1, "{}", rig.name());
            above = id;
        }
        rig.change(&narrow);
        let text = message(&mut client, "INSERT INTO u(a) VALUES(1)");
        assert!(text.starts_with("1467 ") && text.contains("holds ids up to 2147483647"), "{text}");
        // A generator of that name is a sequence.
        rig.proxy.write_rules("rules", &rules(DB, ""));
        let (is_in_force, log) = rig.proxy.reload();
        assert!(
            !is_in_force && log.contains("is a generator of kind \"sequence\", not \"timestamp\""),
            "{log}"
        );
    });
}

pub(crate) fn member(etcd: &Etcd, name: &str, db: &str, keys: &str) -> Proxy {
    Proxy::start(&hasty(server(Kind::MariaDb).unwrap(), etcd, name), &[("rules", &rules(db, keys))])
}

#[test]
fn each_proxy_of_a_fleet_is_a_node_of_its_own() {
    const DB: &str = "timestamps_fleet";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let mut proxies: Vec<_> = ["p1", "p2", "p3"].iter().map(|name| member(&etcd, name, DB, "")).collect();
    let one_each = |proxies: &[Proxy]| -> Vec<u64> {
        let insert = |proxy: &Proxy| {
            insert_id(&mut client(proxy.port, DB).unwrap(), "INSERT INTO t(a) VALUES(NULL),(NULL),(NULL)")
        };
        proxies.iter().map(insert).map(node).collect()
    };
    assert_eq!(one_each(&proxies), [0, 1, 2]);
    // The proxy p2 has its own node again, wherever the others are.
    proxies[1].kill();
    proxies[1].restart();
    assert_eq!(one_each(&proxies), [0, 1, 2]);
    // A node whose proxy is gone goes to the next who comes.
    proxies[0].stop();
    let newcomer = member(&etcd, "p4", DB, "");
    assert_eq!(one_each(std::slice::from_ref(&newcomer)), [0]);
    proxies[0].restart();
    assert_eq!(one_each(&proxies), [3, 1, 2]);
    let mut direct = client(newcomer.port, DB).unwrap();
    assert_eq!(rows(&mut direct, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t"), "30,30");
}

#[test]
fn a_number_is_for_one_running_proxy() {
    const DB: &str = "timestamps_node";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let first = member(&etcd, "p1", DB, "node = 5");
    let second = std::panic::catch_unwind(|| member(&etcd, "p2", DB, "node = 5"));
    let panic = second.err().expect("it does not serve");
    let text = panic.downcast_ref::<String>().expect("a text");
    let expected = format!("node 5 of generator {DB}.g belongs to proxy p1, which is running");
    assert!(text.contains(&expected), "{text}");
    assert!(first.is_running());
}

/// A proxy was frozen for longer than its lease, and somebody took its node: it goes on as another one.
#[test]
fn a_proxy_that_lost_its_node_takes_another() {
    const DB: &str = "timestamps_lost";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let frozen = member(&etcd, "p1", DB, "advance = \"1s\"");
    let mut of_frozen = client(frozen.port, DB).unwrap();
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    assert_eq!(node(insert_id(&mut of_frozen, insert)), 0);
    frozen.signal("STOP");
    wait_until_its_lease_is_over(&etcd, "p1");
    let other = member(&etcd, "p2", DB, "advance = \"1s\"");
    let mut of_other = client(other.port, DB).unwrap();
    assert_eq!(node(insert_id(&mut of_other, insert)), 0);
    frozen.signal("CONT");
    let end = Instant::now() + NEVER;
    let mut nodes = BTreeSet::new();
    while !nodes.contains(&1) {
        assert!(Instant::now() < end, "{nodes:?}: {}", frozen.log());
        if code(&mut of_frozen, insert) == 0 {
            nodes.insert(node(rows(&mut of_frozen, "SELECT LAST_INSERT_ID()").parse().unwrap()));
        }
        assert_eq!(code(&mut of_other, insert), 0);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(rows(&mut of_other, "SELECT COUNT(*)-COUNT(DISTINCT id) FROM t"), "0");
}

/// Like `fleet::a_table_moves_while_a_proxy_is_frozen`, with timestamps.
#[test]
fn a_table_moves_while_a_node_is_frozen() {
    const DB: &str = "timestamps_frozen";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let [first, second] = ["p1", "p2"].map(|name| member(&etcd, name, DB, "advance = \"1s\""));
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    let (mut to_first, mut to_second) = (client(first.port, DB).unwrap(), client(second.port, DB).unwrap());
    let of_second = insert_id(&mut to_second, insert);
    to_first.run(insert);
    second.signal("STOP");
    wait_until_its_lease_is_over(&etcd, "p2");
    first.write_rules("rules", &moved(&rules(DB, "advance = \"1s\"")));
    let (in_force, log) = first.reload();
    assert!(in_force, "{log}");
    assert!(insert_id(&mut to_first, insert) > of_second);
    second.signal("CONT");
    wait_until(|| second.log(), || code(&mut to_second, insert) != 0);
    // And so it stays.
    for _ in 0..4 {
        assert_eq!(code(&mut to_second, insert), 1467, "{}", second.log());
    }
    assert_eq!(rows(&mut to_first, "SELECT COUNT(*)-COUNT(DISTINCT id) FROM t"), "0");
}

/// A start with a wrong clock waits for it; a clock that goes wrong later is not followed.
#[test]
fn clocks_that_are_wrong() {
    const DB: &str = "timestamps_clock";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(library) = clock::library() else {
        assert!(
            std::env::var("CI").is_err(),
            "libfaketime is not on this machine: tests/install.sh faketime"
        );
        return announce("SKIPPED: libfaketime is not on this machine: tests/install.sh faketime");
    };
    make(server, DB, "");
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::new(folder.path().join("clock"));
    let insert = "INSERT INTO t(a) VALUES(NULL)";
    for (by_seconds, said) in [(3_600, "1h ahead of the backend's"), (-26_000_000, "behind the backend's")] {
        clock.set(by_seconds);
        let rules = [("rules", &*rules(DB, "node = 9"))];
        let proxy = Proxy::start_under(clock.under(&library), &proxy::config(&server.address()), &rules);
        let mut client = client(proxy.port, DB).unwrap();
        let text = message(&mut client, insert);
        assert!(text.starts_with("1467 ") && text.contains(said), "{text}");
        assert_eq!(code(&mut client, "INSERT INTO u VALUES(1,1)"), 0, "no rule concerns it");
        clock.set(0);
        wait_until(|| format!("the clock is right: {}", proxy.log()), || code(&mut client, insert) == 0);
        for by_seconds in [0, 7_200, 0, -3_600, 0] {
            clock.set(by_seconds);
            std::thread::sleep(Duration::from_millis(300));
            let begun = tick_now();
            let told = tick(insert_id(&mut client, insert));
            // One that went back is waited for.
            let about_now = begun - 2_000..tick_now() + 2_000;
            assert!(about_now.contains(&told), "{by_seconds}: {told}, {about_now:?}");
        }
    }
    // The operator's word: this clock is the right one.
    clock.set(3_600);
    let rules = [("rules", &*rules(DB, "node = 9"))];
    let mut proxy = Proxy::start_under(clock.under(&library), &proxy::config(&server.address()), &rules);
    assert_eq!(code(&mut client(proxy.port, DB).unwrap(), insert), 1467);
    proxy.restart_with(&["--trust-clock"]);
    let id = insert_id(&mut client(proxy.port, DB).unwrap(), insert);
    let ahead = tick(id) - tick_now();
    assert!((3_590_000..3_610_000).contains(&ahead), "{ahead} ms");
}
