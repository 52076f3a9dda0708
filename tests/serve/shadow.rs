//! `mode = "shadow"`: statements go on byte for byte as they came, and what would have become of them is counted.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::rig::{Rig, code, code_of, each, each_with, insert_id, make, rows, server};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options, Outcome, Param};
use crate::support::tap::{Direction, Log, Tap};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, proxy};

const AUTO: &str = "ALTER TABLE t MODIFY id BIGINT NOT NULL AUTO_INCREMENT;";

fn rules(db: &str, mode: &str, keys: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\nstart = 1000000000\n{keys}\n\
         [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\nmode = \"{mode}\"\n"
    )
}

/// The payloads of commands that went up.
fn commands(log: &Log) -> Vec<Vec<u8>> {
    let up = log.iter().filter(|(direction, _)| *direction == Direction::Up);
    let bytes: Vec<u8> = up.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let (mut at, mut found) = (0, Vec::new());
    while at + 4 <= bytes.len() {
        let len = usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8 | usize::from(bytes[at + 2]) << 16;
        if bytes[at + 3] == 0 {
            found.push(bytes[at + 4..at + 4 + len].to_vec());
        }
        at += 4 + len;
    }
    found
}

/// Commands of the one session that sent the mark; those by which the proxy learns the session's state left out.
fn of_session(logs: &[Log]) -> Vec<Vec<u8>> {
    let is_ours = |payload: &[u8]| memchr::memmem::find(payload, b"session_track").is_some();
    let all = logs.iter().map(commands).find(|log| log.iter().any(|sent| sent.ends_with(b"'the mark'")));
    all.unwrap().into_iter().filter(|payload| !is_ours(payload)).collect()
}

#[test]
fn everything_passes_byte_for_byte_and_is_counted() {
    let db = "shadow_bytes";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, AUTO);
        let to_server = Tap::start(&server.address());
        let config = format!("{}[backend.tls]\nmode = \"disabled\"\n", proxy::config(&to_server.address()));
        let mut proxy = Proxy::start(&config, &[("rules", &rules(db, "shadow", ""))]);
        let to_proxy = Tap::start(&proxy.address());
        let options = Options { database: Some(db.to_owned()), ..Options::default() };
        let mut client = Client::connect(&to_proxy.address(), &options).unwrap();
        client.run("SELECT 'the mark'");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "the server's own id");
        assert_eq!(insert_id(&mut client, "insert /* 'x' */ into t(a) values (2),\n(3)"), 2);
        assert_eq!(code(&mut client, "INSERT INTO t(id,a) VALUES(100,4)"), 0);
        // Statements that the proxy would refuse, and one that the server itself refuses.
        let odku = "INSERT INTO t(a) VALUES(50),(51) ON DUPLICATE KEY UPDATE id=id+1000";
        assert_eq!((code(&mut client, odku), code(&mut client, odku.replace("50", "52"))), (0, 0));
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES('canary'"), 1064);
        assert_eq!(code(&mut client, "INSERT INTO t(a) SELECT 70"), 0);
        let one = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        assert_eq!(one.params, 1, "none of ours");
        assert_eq!(code_of(&client.execute(&one, &[Param::Int(80)]).unwrap()), 0);
        assert_eq!(code_of(&client.execute(&one, &[Param::Int(81)]).unwrap()), 0);
        let two = client.prepare("INSERT INTO t(id,a) VALUES(?,?)").unwrap().unwrap();
        assert_eq!(code_of(&client.execute(&two, &[Param::Null, Param::Int(82)]).unwrap()), 0);
        assert_eq!(code_of(&client.execute(&two, &[Param::Int(5000), Param::Int(83)]).unwrap()), 0);
        // A rule on a table says nothing of others.
        assert_eq!(code(&mut client, "INSERT INTO u(a) VALUES(1)"), 0);
        // The proxy would ask if an EXECUTE has made a temporary table.
        client.run("PREPARE s FROM 'INSERT INTO t(a) VALUES(90)'");
        assert_eq!(code(&mut client, "EXECUTE s"), 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "13", "{}", kind.name());
        let id = client.connection_id;
        client.quit().unwrap();
        // Then all has passed the taps.
        let there = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id={id}");
        let mut direct = server.client();
        wait_until(|| "the session stays".to_owned(), || rows(&mut direct, &there) == "0");
        let (sent, arrived) = (of_session(&to_proxy.take()), of_session(&to_server.take()));
        assert_eq!(sent.len(), arrived.len(), "{}", kind.name());
        for (sent, arrived) in sent.iter().zip(&arrived) {
            assert_eq!(sent, arrived, "{}", kind.name());
        }
        proxy.stop();
        let log = proxy.last_log();
        let expect = "rewritten=7 passed=2 refused=2 server_first=1 unknown=0 asked=1 ids=7";
        assert!(log.contains(&format!("table=\"{db}.t\" {expect}")), "{}: {log}", kind.name());
        // One line for the two refusals of one digest, with its text and the reason.
        let told = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        let odku = "INSERT INTO t(a) VALUES (...) ON DUPLICATE KEY UPDATE id = id + ?";
        assert_eq!(told(odku), 1, "{}: {log}", kind.name());
        assert_eq!(told("shadow mode: Rowstamp would refuse the statement"), 2, "{}: {log}", kind.name());
        assert!(!log.contains("canary"), "{}: {log}", kind.name());
        holds_nothing(&proxy, kind.name());
        let mut direct = server.client();
        let lock = format!("SELECT IS_USED_LOCK(CONCAT('rowstamp.',LEFT(SHA2('{db}.t',256),32)))");
        assert_eq!(rows(&mut direct, &lock), "NULL", "{}: no lock is taken", kind.name());
    }
}

/// The store knows neither the generator nor the table.
fn holds_nothing(proxy: &Proxy, name: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_rowstamp"))
        .current_dir(proxy.dir())
        .args(["store", "export", "dump.json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(proxy.dir().join("dump.json")).unwrap();
    assert!(!text.contains("shadow_bytes"), "{name}: {text}");
}

#[test]
fn bulk_executions_are_counted() {
    let db = "shadow_bulk";
    each_with(db, AUTO, "", &rules(db, "shadow", ""), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut client = rig.bulk_client(true);
        let one = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let sets: &[&[Param]] = &[&[Param::Int(1)], &[Param::Int(2)], &[Param::Int(3)]];
        assert_eq!(code_of(&client.bulk(one.id, sets).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT id,a FROM t ORDER BY id"), "1,1 2,2 3,3");
        drop(client);
        rig.proxy.stop();
        let log = rig.proxy.last_log();
        assert!(
            log.contains("rewritten=1 passed=0 refused=0 server_first=0 unknown=0 asked=0 ids=3"),
            "{log}"
        );
    });
}

/// An INSERT through a view counts as its table's, whatever the view calls the id.
#[test]
fn inserts_through_views_count_as_their_tables() {
    let db = "shadow_views";
    let views = format!(
        "{AUTO} CREATE VIEW v AS SELECT a, id AS nr FROM t; CREATE VIEW w AS SELECT a FROM v; \
         CREATE VIEW of_u AS SELECT id, a FROM u WHERE a IN (SELECT a FROM t);"
    );
    each_with(db, &views, "", &rules(db, "shadow", ""), |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO v(a) VALUES(1),(2)"), 0, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO v(a,nr) VALUES(3,30)"), 0, "{}", rig.name());
        // The view `w` does not show the id.
        assert_eq!(code(&mut client, "INSERT INTO w(a) VALUES(4)"), 0, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO of_u(a) VALUES(5)"), 0, "{}", rig.name());
        let prepared = client.prepare("INSERT INTO v(a) VALUES(?)").unwrap().unwrap();
        assert_eq!(prepared.params, 1, "{}", rig.name());
        assert_eq!(code_of(&client.execute(&prepared, &[Param::Int(6)]).unwrap()), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "5", "{}", rig.name());
        drop(client);
        rig.proxy.stop();
        let log = rig.proxy.last_log();
        let t =
            format!("table=\"{db}.t\" rewritten=2 passed=1 refused=0 server_first=1 unknown=0 asked=0 ids=3");
        assert!(log.contains(&t), "{}: {log}", rig.name());
        assert!(!log.contains("of_u"), "{}: {log}", rig.name());
    });
}

#[test]
fn a_packet_for_a_table_that_is_on_and_one_in_shadow_mode() {
    let db = "shadow_mixed";
    let on = "[tables.u]\ncolumn = \"id\"\ngenerator = \"h\"\n";
    let rules = format!("{}{on}", rules(db, "shadow", "[generators.h]\nkind = \"sequence\"\nstart = 77\n"));
    let sql = format!("{AUTO} ALTER TABLE u MODIFY id INT NOT NULL PRIMARY KEY;");
    each_with(db, &sql, "", &rules, |rig| {
        let mut client = rig.client_with(Options::default().capabilities | CLIENT_MULTI_STATEMENTS);
        let both = "INSERT INTO t(a) VALUES(1); INSERT INTO u(a) VALUES(1); INSERT INTO t(a) VALUES(2)";
        let ids: Vec<u64> = client.run(both).iter().map(|outcome| outcome.ok().unwrap().insert_id).collect();
        assert_eq!(ids, [1, 77, 2], "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT id FROM u"), "77", "{}", rig.name());
        // `t` counts as a table without a rule: a packet with one for a table that is on must be read whole.
        let refused = "INSERT INTO t(a) VALUES(3); INSERT INTO u(id,a) VALUES(a,1)";
        assert_eq!(code_of(&client.query(refused).unwrap()), 1235, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "2", "{}", rig.name());
        drop(client);
        rig.proxy.stop();
        let log = rig.proxy.last_log();
        assert!(log.contains("rewritten=2 passed=0 refused=0"), "{}: {log}", rig.name());
    });
}

/// Without a control account nothing is known of columns; what passes without a rule passes still.
#[test]
fn without_a_control_account() {
    let db = "shadow_blind";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, AUTO);
        let config = proxy::config(&server.address())
            .replace("[backend.control]\nuser = \"root\"\npassword = \"\"\n", "");
        let mut proxy = Proxy::start(&config, &[("rules", &rules(db, "shadow", "seed = \"none\""))]);
        let options = Options { database: Some(db.to_owned()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{}", kind.name());
        assert_eq!(code(&mut client, "INSERT INTO t VALUES(NULL,2)"), 0, "{}", kind.name());
        drop(client);
        proxy.stop();
        let log = proxy.last_log();
        assert!(log.contains("rewritten=1 passed=0 refused=1 "), "{}: {log}", kind.name());
    }
}

/// Stops the writers also where the test fails: the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn off_shadow_on_and_back_under_load() {
    let db = "shadow_load";
    each_with(db, AUTO, "", &rules(db, "off", ""), |rig| {
        let (stop, next) = (AtomicBool::new(false), AtomicU64::new(1));
        std::thread::scope(|scope| {
            let (stop, next, this) = (&stop, &next, &*rig);
            let stopping = Stop(stop);
            for nth in 0..4 {
                scope.spawn(move || write(this, nth % 2 == 0, stop, next));
            }
            let wait = || {
                let from = next.load(Ordering::Relaxed);
                while next.load(Ordering::Relaxed) < from + 200 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            wait();
            for mode in ["shadow", "on", "shadow"] {
                this.change(&rules(db, mode, ""));
                wait();
            }
            drop(stopping);
        });
        let mut client = rig.client();
        let written = next.load(Ordering::Relaxed) - 1;
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), written.to_string(), "{}", rig.name());
        let sequence = rows(&mut client, "SELECT COUNT(*)>=150 FROM t WHERE id>=1000000000");
        assert_eq!(sequence, "1", "{}: ids of the generator's while it was on", rig.name());
        drop(client);
        rig.proxy.stop();
        let log = rig.proxy.last_log();
        let counts = log.lines().find(|line| line.contains("the statements into the table so far")).unwrap();
        let number = |key: &str| {
            let rest = counts.split_once(key).unwrap().1;
            rest.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let counted = number("rewritten=");
        assert!((300..written).contains(&counted), "{}: {counted} of {written}", rig.name());
        let refused: Vec<&str> = log.lines().filter(|line| line.contains("would refuse")).collect();
        assert_eq!(
            (number("refused="), number("ids=")),
            (0, counted),
            "{}: {counts}: {refused:?}",
            rig.name()
        );
    });
}

fn write(rig: &Rig, by_text: bool, stop: &AtomicBool, next: &AtomicU64) {
    let mut client = rig.client();
    let insert = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
    while !stop.load(Ordering::Relaxed) {
        let a = next.fetch_add(1, Ordering::Relaxed);
        let outcomes: Vec<Outcome> = if by_text {
            client.query(format!("INSERT INTO t(a) VALUES({a})")).unwrap()
        } else {
            client.execute(&insert, &[Param::Uint(a)]).unwrap()
        };
        assert_eq!(code_of(&outcomes), 0, "{}: {outcomes:?}", rig.name());
    }
}

/// The other modes are as they were.
#[test]
fn a_rule_that_is_on_counts_nothing() {
    each("counts_none", "", |rig| {
        assert_eq!(code(&mut rig.client(), "INSERT INTO t(a) VALUES(1)"), 0);
        rig.proxy.stop();
        assert!(!rig.proxy.last_log().contains("shadow"), "{}", rig.name());
    });
}
