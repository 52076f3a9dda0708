//! One process takes the place of another (`serve --takeover`) while clients connect and insert.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fleet::{client, config, hasty};
use crate::rig::{code, each, each_with, insert_id, make, message, rows, rules, server};
use crate::support::etcd::Version;
use crate::support::proxy::{self, Before};
use crate::support::raw::{Client, Options, Param};
use crate::support::told::StopOnDrop;
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Etcd, Kind, Proxy};

/// The other sessions of `limits.drain_timeout` are not waited for here.
const SHORT_DRAIN: &str = "\n[limits]\ndrain_timeout = \"1s\"\n";

fn insert(client: &mut Client) -> u64 {
    insert_id(client, "INSERT INTO t() VALUES()")
}

#[test]
fn sessions_go_on_and_ids_without_a_gap() {
    each("takeover_ids", "", |rig| {
        let mut old = rig.client();
        old.run("INSERT INTO t(a) VALUES(1),(2)");
        let port = rig.proxy.port;
        let before = rig.proxy.take_over();
        assert_eq!(rig.proxy.port, port, "{}", rig.name());
        let mut new = rig.client();
        // Both sessions in turn, by one generator; the old one also by a prepared statement and with an id of its own.
        assert_eq!((insert(&mut old), insert(&mut new), insert(&mut old)), (3, 4, 5), "{}", rig.name());
        old.run("INSERT INTO t(id,a) VALUES(700,7)");
        assert_eq!((insert(&mut new), insert(&mut old)), (701, 702), "{}", rig.name());
        let statement = old.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let outcomes = old.execute(&statement, &[Param::Int(9)]).unwrap();
        assert_eq!(outcomes[0].ok().unwrap().insert_id, 703, "{}", rig.name());
        assert_eq!(rows(&mut old, "SELECT LAST_INSERT_ID()"), "703", "{}", rig.name());
        assert!(before.is_running(), "{}: it has a session", rig.name());
        drop(old);
        assert!(before.ends_within(NEVER), "{}: {}", rig.name(), rig.proxy.log());
        // A third process takes over from the second.
        let second = rig.proxy.take_over();
        assert_eq!((insert(&mut new), insert(&mut rig.client())), (704, 705), "{}", rig.name());
        drop(new);
        assert!(second.ends_within(NEVER), "{}: {}", rig.name(), rig.proxy.log());
        rig.proxy.stop();
        assert!(!rig.proxy.last_log().contains("ERROR"), "{}", rig.proxy.last_log());
    });
}

#[test]
fn a_session_that_does_not_end_is_ended_behind_the_drain_timeout() {
    each_with("takeover_drain", "", SHORT_DRAIN, &rules("takeover_drain"), |rig| {
        let mut old = rig.client();
        let before = rig.proxy.take_over();
        assert_eq!(insert(&mut old), 1, "{}", rig.name());
        assert!(before.ends_within(NEVER), "{}", rig.name());
        assert!(old.query("DO 1").is_err(), "{}: its process has ended", rig.name());
    });
}

/// A process that asks, is handed the place, and ends.
fn ask_and_end(rig_dir: &std::path::Path) {
    let mut socket = UnixStream::connect(rig_dir.join("rowstamp.state/takeover.sock")).unwrap();
    socket.write_all(b"{\"take_over\":{\"protocol\":1,\"address\":\"127.0.0.1:0\"}}\n").unwrap();
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line).unwrap();
    assert_eq!(line, "\"handed\"\n");
}

#[test]
fn a_process_that_fails_half_way_changes_nothing() {
    each("takeover_fails", "", |rig| {
        let mut old = rig.client();
        assert_eq!(insert(&mut old), 1);
        for nth in 1..=3 {
            ask_and_end(rig.proxy.dir());
            // The store may take a moment to be open again: the statement waits.
            assert_eq!(insert(&mut old), 2 * nth, "{}: {}", rig.name(), rig.proxy.log());
            assert_eq!(insert(&mut rig.client()), 2 * nth + 1, "{}", rig.name());
        }
        // And once more for good.
        let before = rig.proxy.take_over();
        assert_eq!((insert(&mut old), insert(&mut rig.client())), (8, 9), "{}", rig.name());
        drop(old);
        assert!(before.ends_within(NEVER), "{}", rig.name());
    });
}

#[test]
fn who_cannot_take_over_is_told_why() {
    each("takeover_refused", "", |rig| {
        let mut old = rig.client();
        assert_eq!(insert(&mut old), 1);
        // Without the flag, the embedded store is the first process's.
        let said = rig.proxy.attempt(&[]);
        assert!(said.contains("is in use by another Rowstamp process"), "{said}");
        let written = std::fs::read_to_string(rig.proxy.dir().join("rowstamp.toml")).unwrap();
        let write = |text: &str| std::fs::write(rig.proxy.dir().join("rowstamp.toml"), text).unwrap();
        write(&written.replace("127.0.0.1:0", "127.0.0.2:0"));
        let said = rig.proxy.attempt(&["--takeover"]);
        assert!(said.contains("listens on 127.0.0.1:0, not on 127.0.0.2:0"), "{said}");
        write(&written);
        assert_eq!((insert(&mut old), insert(&mut rig.client())), (2, 3), "{}", rig.name());
        // Rules that are not the old sessions' any more: those are told so, and lose nothing.
        let before = {
            let others = rules(&rig.db).replace("generators.g]", "generators.h]").replace("\"g\"", "\"h\"");
            rig.proxy.write_rules("rules", &others);
            rig.proxy.take_over()
        };
        let told = message(&mut old, "INSERT INTO t() VALUES()");
        assert!(
            told.starts_with("1467 ") && told.contains("has another rule for takeover_refused.t"),
            "{told}"
        );
        let next = insert(&mut rig.client());
        assert!(next > 3, "{}: {next}", rig.name());
        drop(old);
        assert!(before.ends_within(NEVER), "{}", rig.name());
    });
}

#[test]
fn no_process_to_take_over_from_is_a_start_like_any_other() {
    each("takeover_alone", "", |rig| {
        rig.proxy.restart_with(&["--takeover"]);
        assert_eq!(insert(&mut rig.client()), 1, "{}", rig.name());
        assert!(rig.proxy.log().contains("no process runs with this state.path"), "{}", rig.proxy.log());
    });
}

/// From one takeover to the next.
const IDS_BETWEEN: u64 = 100;

/// Clients that connect again for every few statements, through a row of takeovers: what went wrong, and all ids.
fn writers_through(
    proxy: &mut Proxy,
    db: &str,
    times: usize,
    befores: &mut Vec<Before>,
) -> (Vec<String>, Vec<u64>) {
    let (stop, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let port = proxy.port;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|nth| {
                let (stop, told) = (&stop, &told);
                scope.spawn(move || {
                    let (mut ids, mut errors) = (Vec::new(), Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        let mut client = match client(port, db) {
                            Ok(client) => client,
                            Err(error) => {
                                errors.push(format!("connecting: {error}"));
                                continue;
                            }
                        };
                        for _ in 0..=nth * 7 {
                            match client.query("INSERT INTO t() VALUES()") {
                                Ok(outcomes) => match outcomes[0].ok() {
                                    Some(ok) => {
                                        ids.push(ok.insert_id);
                                        told.fetch_add(1, Ordering::Relaxed);
                                    }
                                    None => errors.push(format!("{:?}", outcomes[0].err())),
                                },
                                Err(error) => {
                                    errors.push(error.to_string());
                                    break;
                                }
                            }
                        }
                    }
                    (ids, errors)
                })
            })
            .collect();
        let _stops = StopOnDrop(&stop);
        let written = || {
            let goal = told.load(Ordering::Relaxed) + IDS_BETWEEN;
            wait_until(|| "nothing is written".to_owned(), || told.load(Ordering::Relaxed) >= goal);
        };
        for _ in 0..times {
            written();
            befores.push(proxy.take_over());
        }
        written();
        stop.store(true, Ordering::Relaxed);
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        for writer in writers {
            let (ids, errors) = writer.join().unwrap();
            all.extend(ids);
            wrong.extend(errors);
        }
        (wrong, all)
    })
}

/// `ROWSTAMP_TAKEOVERS` of them; else a few.
fn times() -> usize {
    crate::support::told::number("ROWSTAMP_TAKEOVERS").unwrap_or(5)
}

#[track_caller]
fn judge(mut proxy: Proxy, db: &str, direct: &mut Client) {
    let mut befores = Vec::new();
    let (wrong, ids) = writers_through(&mut proxy, db, times(), &mut befores);
    assert!(wrong.is_empty(), "{} errors: {:?}\n{}", wrong.len(), &wrong[..wrong.len().min(5)], proxy.log());
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "no id twice");
    assert_eq!(rows(direct, &format!("SELECT COUNT(*) FROM {db}.t")), ids.len().to_string());
    assert!(befores.iter().all(|before| before.ends_within(NEVER)), "processes whose sessions have ended");
    println!("{} takeovers, {} ids, no error", times(), ids.len());
}

#[test]
fn nobody_notices_a_row_of_takeovers() {
    each_with("takeover_row", "", "", &rules("takeover_row"), |rig| {
        let config = proxy::config(&rig.server.address());
        let proxy = std::mem::replace(&mut rig.proxy, Proxy::start(&config, &[]));
        judge(proxy, "takeover_row", &mut rig.direct());
    });
}

#[test]
fn nobody_notices_a_row_of_takeovers_with_etcd_and_timestamps() {
    const DB: &str = "takeover_etcd";
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let timestamps = rules(DB).replace("kind = \"sequence\"", "kind = \"timestamp\"\nlayout = \"snowflake\"");
    let mut direct = Client::connect(&server.address(), &Options::default()).unwrap();
    judge(Proxy::start(&config(server, &etcd, "one"), &[("rules", &timestamps)]), DB, &mut direct);
    // A store that does not answer is not given up.
    let mut proxy = Proxy::start(&hasty(server, &etcd, "one"), &[("rules", &timestamps)]);
    let mut old = client(proxy.port, DB).unwrap();
    insert(&mut old);
    etcd.signal(0, "STOP");
    let said = proxy.attempt(&["--takeover"]);
    assert!(said.contains("the reserved ids of the running process would be lost"), "{said}");
    assert_eq!(code(&mut old, "INSERT INTO t() VALUES()"), 0);
    etcd.signal(0, "CONT");
    assert!(etcd.wait_until_healthy());
    let _before = proxy.take_over();
    insert(&mut old);
    insert(&mut client(proxy.port, DB).unwrap());
}
