//! One set of ids for INSERTs, clients of Redis and of HTTP, whatever happens to processes.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::client::{Http, port};
use crate::resp::client::{self as redis, Redis};
use crate::rig::{INSERT, each_with, insert_id};
use crate::support::told::StopOnDrop;
use crate::support::wait::{NEVER, wait_until};

/// For so long a process that hands over keeps silent connections.
const FAREWELL: Duration = Duration::from_secs(2);

/// Both doors.
fn config() -> String {
    format!("{}[api]\naddress = \"127.0.0.1:0\"\n", redis::config())
}

#[test]
fn inserts_redis_and_http_share_one_set() {
    const DB: &str = "api_one_set";
    const EACH: usize = 400;
    each_with(DB, "INSERT INTO t VALUES (100, 1);", &config(), &crate::rig::rules(DB), |rig| {
        let (port, redis_port) = (port(&rig.proxy), redis::port(&rig.proxy));
        let key = format!("{DB}.g");
        assert_eq!(Http::dba(port).draw(&key, "").id(), 101, "{}: above the ids of the table", rig.name());
        assert_eq!(insert_id(&mut rig.client(), INSERT), 102, "{}", rig.name());
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let key = &key;
            let by_http = |_| {
                scope.spawn(move || {
                    let mut http = Http::dba(port);
                    (0..EACH).map(|_| http.draw(key, "").id()).collect::<Vec<_>>()
                })
            };
            let mut client = rig.client();
            let by_insert = scope.spawn(move || (0..EACH).map(|_| insert_id(&mut client, INSERT)).collect());
            let by_redis = scope.spawn(move || {
                let mut redis = Redis::at(redis_port);
                (0..EACH).map(|_| redis.id(&format!("INCR {key}"))).collect()
            });
            let all: Vec<_> = (0..2).map(by_http).chain([by_insert, by_redis]).collect();
            all.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), EACH * 4, "{}: an id came twice", rig.name());
        assert!(ids.iter().all(|id| *id > 102), "{}", rig.name());
    });
}

/// A client that keeps its connection, and connects again after an answer with `Connection: close`, never sees a request fail.
#[test]
fn processes_that_take_over() {
    const DB: &str = "api_takeover";
    each_with(DB, "", &config(), &crate::rig::rules(DB), |rig| {
        let (port, redis_port) = (port(&rig.proxy), redis::port(&rig.proxy));
        let (stop, drawn) = (AtomicBool::new(false), AtomicU64::new(0));
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let stop_on_panic = StopOnDrop(&stop);
            let (stop, drawn) = (&stop, &drawn);
            let draw = move || {
                let (mut ids, mut http) = (Vec::new(), Http::dba(port));
                let path = format!("/v1/generators/{DB}.g/ids");
                // When the last request was made that was answered.
                let mut asked_at = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let now = Instant::now();
                    let request = http.request("POST", &path, "");
                    let sent = http.stream().write_all(request.as_bytes()).is_ok();
                    let Some(answer) = http.answer().filter(|_| sent) else {
                        // The process that made the last answer began to end later, and then waits so long: a client
                        // that meets a closed connection earlier has lost a request. A slow machine only adds time.
                        assert!(asked_at.elapsed() >= FAREWELL, "a request is lost");
                        http = Http::dba(port);
                        continue;
                    };
                    asked_at = now;
                    ids.push(answer.id());
                    drawn.fetch_add(1, Ordering::Relaxed);
                    if answer.header("connection") == Some("close") {
                        http = Http::dba(port);
                    }
                }
                ids
            };
            let writers: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            rig.take_over_while(drawn);
            drop(stop_on_panic);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        // The sockets went over: at the same ports.
        assert_eq!((self::port(&rig.proxy), redis::port(&rig.proxy)), (port, redis_port));
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{}: an id came twice", rig.name());
    });
}

/// A door whose address has changed comes at its new one, and the other stays where it was.
#[test]
fn a_takeover_that_moves_a_door() {
    const DB: &str = "api_moves";
    each_with(DB, "", &config(), &crate::rig::rules(DB), |rig| {
        let (stays, key) = (port(&rig.proxy), format!("{DB}.g"));
        let first = Http::dba(stays).draw(&key, "").id();
        let file = rig.proxy.dir().join("rowstamp.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let next = crate::support::servers::free_port();
        let moved = text
            .replace("[resp]\naddress = \"127.0.0.1:0\"", &format!("[resp]\naddress = \"127.0.0.1:{next}\""));
        std::fs::write(&file, moved).unwrap();
        let before = rig.proxy.take_over();
        assert!(before.ends_within(NEVER), "{}", rig.proxy.log());
        assert_eq!((redis::port(&rig.proxy), port(&rig.proxy)), (next, stays));
        let second = Redis::at(next).id(&format!("INCR {key}"));
        let third = Http::dba(stays).draw(&key, "").id();
        assert!(first < second && second < third, "{first} {second} {third}");
    });
}

/// A request that has begun is answered, and told that the connection ends.
#[test]
fn a_proxy_that_stops_says_so() {
    let mut proxy = redis::alone(&config(), redis::GENERATORS);
    let port = port(&proxy);
    let (mut idle, mut asks) = (Http::dba(port), Http::dba(port));
    for http in [&mut idle, &mut asks] {
        assert_eq!(http.draw("shop.orders", "").header("connection"), None);
    }
    let request = asks.request("POST", "/v1/generators/shop.orders/ids", "{\"count\": 2}");
    let (begun, rest) = request.split_at(request.len() - 3);
    asks.send(begun.as_bytes());
    proxy.signal("TERM");
    wait_until(|| proxy.log(), || proxy.log().contains("SIGTERM: no new clients"));
    assert!(idle.answer().is_none());
    asks.send(rest.as_bytes());
    let last = asks.answer().unwrap();
    assert_eq!((last.id(), last.header("connection")), (3, Some("close")));
    assert!(asks.answer().is_none());
    proxy.stop();
}
