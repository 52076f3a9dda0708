//! One set of ids for INSERTs, calls in SQL and clients of Redis, whatever happens to rules, processes and stores.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::client::{Redis, config, port, request};
use crate::fleet::hasty;
use crate::rig::{INSERT, each_with, insert_id, make, rows, server};
use crate::support::etcd::Version;
use crate::support::told::StopOnDrop;
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Etcd, Kind, Proxy, proxy};

fn rules(db: &str) -> String {
    crate::rig::rules(db).replace("kind = \"sequence\"", "kind = \"sequence\"\nsql = true")
}

#[test]
fn inserts_calls_and_redis_share_one_set() {
    const DB: &str = "resp_one_set";
    const EACH: usize = 400;
    each_with(DB, "INSERT INTO t VALUES (100, 1);", &config(), &rules(DB), |rig| {
        let (port, key) = (port(&rig.proxy), format!("{DB}.g"));
        let mut redis = Redis::at(port);
        assert_eq!(redis.id(&format!("INCR {key}")), 101, "{}: above the ids of the table", rig.name());
        assert_eq!(insert_id(&mut rig.client(), INSERT), 102, "{}", rig.name());
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let by_redis = |_| {
                let key = &key;
                scope.spawn(move || {
                    let mut redis = Redis::at(port);
                    (0..EACH).map(|_| redis.id(&format!("INCR {key}"))).collect::<Vec<_>>()
                })
            };
            let by_insert = |_| {
                let mut client = rig.client();
                scope.spawn(move || (0..EACH).map(|_| insert_id(&mut client, INSERT)).collect::<Vec<_>>())
            };
            let mut client = rig.client();
            let by_call = scope.spawn(move || {
                let next = |_| rows(&mut client, "SELECT NEXTVAL(g)").parse().unwrap();
                (0..EACH).map(next).collect::<Vec<u64>>()
            });
            let all: Vec<_> = (0..3).map(by_redis).chain((0..2).map(by_insert)).chain([by_call]).collect();
            all.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), EACH * 6, "{}: an id came twice", rig.name());
        assert!(ids.iter().all(|id| *id > 102), "{}", rig.name());
    });
}

/// Reloads that open the generator again, while clients draw: ids go on ascending on each connection.
#[test]
fn a_generator_that_changes_while_clients_draw() {
    const DB: &str = "resp_reload";
    each_with(DB, "", &config(), &rules(DB), |rig| {
        let (port, stop) = (port(&rig.proxy), AtomicBool::new(false));
        let drawn = AtomicU64::new(0);
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let stop_on_panic = StopOnDrop(&stop);
            let (stop, drawn) = (&stop, &drawn);
            let draw = move || {
                let (mut redis, mut ids) = (Redis::at(port), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    ids.push(redis.id(&format!("INCR {DB}.g")));
                    drawn.fetch_add(1, Ordering::Relaxed);
                }
                assert!(ids.is_sorted(), "ids of one connection ascend");
                ids
            };
            let writers: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            for step in [2, 3, 1, 5, 1] {
                let seen = drawn.load(Ordering::Relaxed);
                wait_until(|| "ids".to_owned(), || drawn.load(Ordering::Relaxed) > seen + 200);
                let rules = rules(DB).replace("sql = true", &format!("sql = true\nstep = {step}"));
                rig.proxy.write_rules("rules", &rules);
                let (is_active, log) = rig.proxy.reload();
                assert!(is_active, "{log}");
            }
            drop(stop_on_panic);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{}: an id came twice", rig.name());
        // A generator that is gone is no generator any more.
        let mut redis = Redis::at(port);
        rig.proxy.write_rules("rules", &format!("schema = \"{DB}\"\n"));
        let (is_active, log) = rig.proxy.reload();
        assert!(is_active, "{log}");
        assert!(redis.ask(&format!("INCR {DB}.g")).starts_with("-ERR the rules have no generator"));
    });
}

/// Each connection ends where nothing is lost by it, and the socket is never without a process that listens.
#[test]
fn processes_that_take_over() {
    const DB: &str = "resp_takeover";
    // The table has a generator that is made for it.
    let made = crate::rig::rules(DB)
        .replace("[generators.g]\nkind = \"sequence\"\n", "")
        .replace("\"g\"", "\"{table}\"");
    each_with(DB, "", &config(), &made, |rig| {
        let (port, key) = (port(&rig.proxy), format!("{DB}.t"));
        let (stop, drawn) = (AtomicBool::new(false), AtomicU64::new(0));
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let stop_on_panic = StopOnDrop(&stop);
            let (stop, drawn, key) = (&stop, &drawn, &key);
            let draw = move || {
                let mut ids = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    // One of the processes listens at any time: a refusal would be a panic.
                    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    stream.set_read_timeout(Some(NEVER)).unwrap();
                    let mut redis = Redis::over(stream);
                    if redis.try_ask("AUTH dba c4nary-1").is_none() {
                        continue;
                    }
                    while !stop.load(Ordering::Relaxed)
                        && let Some(answer) = redis.try_ask(&format!("INCR {key}"))
                    {
                        ids.push(
                            answer.strip_prefix(':').unwrap_or_else(|| panic!("{answer}")).parse().unwrap(),
                        );
                        drawn.fetch_add(1, Ordering::Relaxed);
                    }
                }
                ids
            };
            let writers: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            rig.take_over_while(drawn);
            drop(stop_on_panic);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{}: an id came twice", rig.name());
    });
}

/// Everything that came before the signal is answered, and then the connection ends.
#[test]
fn a_proxy_that_stops_answers_what_has_come() {
    let mut proxy = super::client::alone(&config(), super::client::GENERATORS);
    let (mut idle, mut busy) = (Redis::of(&proxy), Redis::of(&proxy));
    let port = port(&proxy);
    busy.send(&request(&["INCR", "shop.orders"]).repeat(5_000));
    // The first answer: the rest has come too, or is being sent.
    assert_eq!(busy.answer().as_deref(), Some(":1"));
    let stopping = std::thread::spawn(move || proxy.stop());
    assert_eq!(idle.answer(), None);
    let answered = std::iter::from_fn(|| busy.answer()).enumerate();
    for (nth, answer) in answered {
        assert_eq!(answer, format!(":{}", nth + 2));
    }
    stopping.join().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

/// A second signal ends the process, whatever a client of Redis does.
#[test]
fn a_second_signal_waits_for_no_client() {
    let mut proxy = super::client::alone(&config(), super::client::GENERATORS);
    let greedy = Redis::of(&proxy);
    greedy.stream().set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    // Until the proxy waits for its answers to be read.
    while greedy.stream().write_all(&request(&["INFO"]).repeat(1000)).is_ok() {}
    proxy.signal("TERM");
    wait_until(|| proxy.log(), || proxy.log().contains("draining"));
    proxy.signal("TERM");
    proxy.stop();
    // The drain timeout, for which it would have waited, is 30 s.
    assert!(!proxy.last_log().contains("limits.drain_timeout is over"), "{}", proxy.last_log());
}

/// A proxy with another store draws no ids of a generator that this one draws from.
#[test]
fn two_stores_and_one_generator() {
    const DB: &str = "resp_two_stores";
    let Some(server) = server(Kind::MariaDb) else { return };
    make(server, DB, "");
    let rules = format!("schema = \"{DB}\"\n[generators.g]\nkind = \"sequence\"\n");
    let start =
        || Proxy::start(&format!("{}{}", proxy::config(&server.address()), config()), &[("rules", &rules)]);
    let (first, second, line) = (start(), start(), format!("INCR {DB}.g"));
    let (mut to_first, mut to_second) = (Redis::of(&first), Redis::of(&second));
    assert_eq!(to_first.ask(&line), ":1");
    let denied = to_second.ask(&line);
    let expect = format!(
        "-TRYAGAIN generator {DB}.g: another Rowstamp, which has another store, gives ids of it; the proxy's log has more"
    );
    assert!(denied.starts_with(&expect), "{denied}");
    assert!(
        second.log().contains("is held by another Rowstamp, which has another store (connection "),
        "{}",
        second.log()
    );
    assert_eq!(to_first.ask(&line), ":2");
    drop(first);
    wait_until(|| second.log(), || to_second.ask(&line) == ":1");
}

#[test]
fn a_fleet_whose_store_is_away_and_comes_back() {
    const DB: &str = "resp_fleet";
    let Some(server) = server(Kind::MariaDb) else { return };
    make(server, DB, "");
    for version in Version::ALL {
        let Some(etcd) = Etcd::start(version, 1) else { continue };
        let rules = rules(DB).replace("sql = true", "batch = 100");
        let start =
            |name| Proxy::start(&format!("{}{}", hasty(server, &etcd, name), config()), &[("rules", &rules)]);
        let mut proxies = [start("p1"), start("p2")];
        let mut ids = Vec::new();
        let line = format!("INCR {DB}.g");
        let mut clients = [Redis::of(&proxies[0]), Redis::of(&proxies[1])];
        for nth in 0..60 {
            ids.push(clients[nth % 2].id(&line));
        }
        // One of them is killed and started again: what it had reserved is a gap.
        proxies[1].restart();
        clients[1] = Redis::of(&proxies[1]);
        ids.push(clients[1].id(&line));
        etcd.signal(0, "STOP");
        let mut refused = None;
        for _ in 0..1000 {
            match clients[0].ask(&line) {
                id if id.starts_with(':') => ids.push(id[1..].parse().unwrap()),
                other => {
                    refused = Some(other);
                    break;
                }
            }
        }
        let refused = refused.expect("the reserve ends");
        assert!(
            refused.starts_with(&format!("-TRYAGAIN generator {DB}.g: the reserved ids are used up")),
            "{refused}"
        );
        assert!(!refused.contains("127.0.0.1"), "no address of the store's: {refused}");
        etcd.signal(0, "CONT");
        wait_until(|| proxies[0].log(), || clients[0].ask(&line).starts_with(':'));
        for client in &mut clients {
            ids.push(client.id(&line));
        }
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{version:?}: an id came twice");
    }
}

impl Redis {
    /// `None`: the connection has ended before the answer.
    fn try_ask(&mut self, line: &str) -> Option<String> {
        let request = request(&line.split(' ').collect::<Vec<_>>());
        self.stream().write_all(&request).ok()?;
        self.answer()
    }
}
