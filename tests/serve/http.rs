//! `http.address`: metrics, health and the page of a real proxy, and `rowstamp status`, which reads them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rowstamp::admin::MetricKind;
use rowstamp::admin::metrics::{ALL, Entry, Values};
use serde_json::Value;

use crate::rig::{Rig, code, insert_id, make, prepare, rows, rules, server};
use crate::support::gate::Gate;
use crate::support::servers::free_port;
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Kind, Proxy, Server, proxy};

/// A literal of a statement.
const CANARY: &str = "1815162342";

/// Like [`crate::rig::each`], with an HTTP server at the port.
fn each(db: &str, run: impl Fn(&mut Rig, u16)) {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, "");
        let port = free_port();
        let config = proxy::config(&server.address())
            .replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{port}\""));
        let proxy = Proxy::start(&config, &[("rules", &rules(db))]);
        run(&mut Rig { kind, server, proxy, db: db.to_owned() }, port);
    }
}

/// Status code and body; `None`: nobody is there.
pub(crate) fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(NEVER)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub(crate) fn status(port: u16) -> Option<Value> {
    serde_json::from_str(&get(port, "/status.json")?.1).ok()
}

#[track_caller]
fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    wait_until(|| what.to_owned(), is_so);
}

/// Samples by name and labels, each held to the catalogue.
pub(crate) fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let is_of = |entry: &&Entry| {
            let rest = name.strip_prefix(entry.name).unwrap_or("?");
            match entry.kind {
                MetricKind::Counter => rest == "_total",
                MetricKind::Gauge => rest.is_empty(),
                MetricKind::Histogram => ["_bucket", "_sum", "_count"].contains(&rest),
            }
        };
        let entry = ALL.iter().find(is_of).unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.trim_end_matches('"').split_once("=\"").unwrap();
            if label == "le" {
                continue;
            }
            let known = entry.labels.iter().find(|known| known.name == label);
            let known = known.unwrap_or_else(|| panic!("{line}: {label} is not in the catalogue"));
            if let Values::Words(words) = known.values {
                assert!(
                    words.iter().any(|(word, _)| *word == value),
                    "{line}: {value} is not in the catalogue"
                );
            }
        }
        found.insert(series.to_owned(), value.parse().unwrap());
    }
    found
}

#[test]
fn a_proxy_shows_what_it_does_and_no_literal() {
    let db = "http_metrics";
    each(db, |rig, port| {
        let mut client = rig.client();
        insert_id(&mut client, &format!("INSERT INTO t(a) VALUES(1),(2),({CANARY})"));
        let refused = format!("INSERT INTO t(id,a) VALUES(id,{CANARY}7)");
        assert_eq!(code(&mut client, refused), 1235, "{}", rig.name());
        let (code, text) = get(port, "/metrics").unwrap();
        let found = samples(&text);
        let value = |series: &str| found.get(series).copied();
        assert_eq!(code, 200);
        for (series, expect) in [
            ("rowstamp_ids_issued_total{generator=\"http_metrics.g\"}", 3.0),
            ("rowstamp_statements_total{outcome=\"rewritten\"}", 1.0),
            ("rowstamp_statements_refused_total{reason=\"unsupported\"}", 1.0),
            ("rowstamp_generator_state{generator=\"http_metrics.g\",state=\"open\"}", 1.0),
            ("rowstamp_sessions", 1.0),
            ("rowstamp_store_up", 1.0),
            ("rowstamp_rules", 1.0),
        ] {
            assert_eq!(value(series), Some(expect), "{}: {series}\n{text}", rig.name());
        }
        assert!(value("rowstamp_reserve_ids{generator=\"http_metrics.g\"}").unwrap() > 100.0, "{text}");
        wait_for("it is ready", || get(port, "/readyz").is_some_and(|(code, _)| code == 200));
        let told = status(port).unwrap();
        let generator = &told["generators"][0];
        assert_eq!((&generator["name"], &generator["issued"]), (&"http_metrics.g".into(), &3.into()));
        assert_eq!(told["sessions"]["idle"], 1, "{told}");
        for path in ["/", "/metrics", "/status.json", "/readyz", "/healthz"] {
            let (code, body) = get(port, path).unwrap();
            assert!(code == 200 && !body.contains(CANARY), "{path}: {code} {body}");
        }
        wait_for("a rate", || {
            insert_id(&mut rig.client(), "INSERT INTO t() VALUES()");
            status(port)
                .is_some_and(|told| told["statements"]["rewritten"]["per_second"].as_f64() > Some(0.0))
        });
        rig.proxy.stop();
        assert!(get(port, "/healthz").is_none());
    });
}

fn run_status(proxy: &Proxy, flags: &[&str]) -> Output {
    let config = proxy.dir().join("rowstamp.toml");
    let mut line = Command::new(env!("CARGO_BIN_EXE_rowstamp"));
    line.args(["status", "--config"]).arg(config).args(flags).output().unwrap()
}

#[test]
fn status_in_a_terminal() {
    let db = "http_status";
    each(db, |rig, port| {
        insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(1),(2)");
        wait_for("it is ready", || get(port, "/readyz").is_some_and(|(code, _)| code == 200));
        let output = run_status(&rig.proxy, &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("  ready, up "), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("http_status.g") && line.contains(" open ")),
            "{text}"
        );
        let output = run_status(&rig.proxy, &["--json"]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Twice as many where the rules gave way to another version while the statement was judged, as on a busy machine.
        assert!(matches!(told["generators"][0]["issued"].as_u64(), Some(2 | 4)), "{told:#}");
        rig.proxy.kill();
        let output = run_status(&rig.proxy, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(&format!("127.0.0.1:{port}")) && error.contains("start the proxy"), "{error}");
        // Over a Unix socket, beside rowstamp.toml.
        let file = rig.proxy.dir().join("rowstamp.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let tcp = format!("address = \"127.0.0.1:{port}\"");
        std::fs::write(&file, config.replace(&tcp, "address = \"unix:http.sock\"")).unwrap();
        rig.proxy.restart();
        wait_for("it answers there", || run_status(&rig.proxy, &[]).status.success());
        std::fs::write(&file, config.replace(&tcp, "address = \"off\"")).unwrap();
        let output = run_status(&rig.proxy, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

/// `rowstamp status --watch`, read line by line. Killed when it is dropped.
struct Watch {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Watch {
    fn start(proxy: &Proxy, flags: &[&str]) -> Watch {
        let mut line = Command::new(env!("CARGO_BIN_EXE_rowstamp"));
        line.args(["status", "--watch", "--config"]).arg(proxy.dir().join("rowstamp.toml")).args(flags);
        let mut child = line.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        let (out, told) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |from: Box<dyn Read + Send>, to: std::sync::mpsc::Sender<String>| {
            std::thread::spawn(move || {
                let lines = BufReader::new(from).lines().map_while(Result::ok);
                lines.for_each(|line| drop(to.send(line)));
            });
        };
        read(Box::new(out), sender.clone());
        read(Box::new(told), sender);
        Watch { child, lines }
    }

    /// The next line that is so; the others are lost.
    #[track_caller]
    fn next(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + NEVER;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if is_so(&line) {
                return line;
            }
        }
        panic!("no line in time: {what}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn status_that_is_watched() {
    let db = "http_watch";
    each(db, |rig, port| {
        wait_for("it is ready", || get(port, "/readyz").is_some_and(|(code, _)| code == 200));
        let watch = Watch::start(&rig.proxy, &[]);
        let issued = |line: &str, ids: &str| {
            line.starts_with("http_watch.g ") && line.split_whitespace().nth(3) == Some(ids)
        };
        watch.next("a screen", |line| issued(line, "0"));
        insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(1),(2)");
        let line = watch.next("another", |line| issued(line, "2"));
        assert!(!line.contains('\u{1b}'), "no terminal, no codes for one: {line:?}");
        // Who is away is waited for.
        rig.proxy.kill();
        watch.next("an error", |line| line.contains("error: ") && line.contains("start the proxy"));
        rig.proxy.restart();
        watch.next("it goes on", |line| line.contains("  ready, up "));
        let watch = Watch::start(&rig.proxy, &["--json"]);
        for _ in 0..2 {
            let told: Value = serde_json::from_str(&watch.next("a line", |_| true)).unwrap();
            assert_eq!(told["format"], 1, "{told}");
        }
        // Piped into `head`.
        let mut line = Command::new("sh");
        line.args(["-c", "\"$0\" status --watch --config \"$1\" | head -n 1"]);
        let config = rig.proxy.dir().join("rowstamp.toml");
        let output = line.arg(env!("CARGO_BIN_EXE_rowstamp")).arg(config).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "whoever reads no more needs no error");
    });
}

/// While nobody inserts, nothing else asks the store. A load balancer sends nobody to a proxy
/// that is not ready.
#[test]
fn readiness_comes_and_goes_with_the_store_though_nobody_inserts() {
    let Some(server) = server(Kind::MariaDb) else { return };
    let db = "http_store";
    make(server, db, "");
    let mut direct = server.client();
    direct.run("CREATE OR REPLACE USER http_store@'%' IDENTIFIED BY 'canary-3'");
    direct.run("GRANT ALL ON *.* TO http_store@'%'");
    let gate = Gate::start(&server.address());
    let port = free_port();
    let config = proxy::config(&server.address())
        .replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{port}\""));
    let config = format!(
        "{config}[store]\nkind = \"mysql\"\ntable = \"{db}.bounds\"\naddress = \"{}\"\nuser = \"http_store\"\n\
         password = \"canary-3\"\n",
        gate.address()
    );
    let _proxy = Proxy::start(&config, &[("rules", &rules(db))]);
    let is = |strict: u16| {
        move || {
            get(port, "/readyz?strict")
                .is_some_and(|(code, body)| code == strict && (code == 200 || body.contains("store")))
        }
    };
    wait_for("it is ready", is(200));
    gate.turn("127.0.0.1:1");
    for id in rows(&mut direct, "SELECT id FROM information_schema.processlist WHERE user = 'http_store'")
        .split_whitespace()
    {
        let _ = direct.query(format!("KILL {}", id.trim_matches(|c: char| !c.is_ascii_digit())));
    }
    wait_for("the store is missed", is(503));
    // Load balancers go on sending clients.
    let (code, body) = get(port, "/readyz").unwrap();
    assert!(code == 200 && body.starts_with("{\"ready\":true,\"degraded\":true,"), "{code} {body}");
    let (_, text) = get(port, "/metrics").unwrap();
    assert_eq!(samples(&text)["rowstamp_store_up"].to_string(), "0", "{text}");
    gate.turn(&server.address());
    wait_for("it is ready again", is(200));
}

#[test]
fn a_server_that_takes_no_writes_is_not_ready() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let db = "http_read_only";
        make(&server, db, "");
        let port = free_port();
        let config = proxy::config(&server.address())
            .replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{port}\""));
        let _proxy = Proxy::start(&config, &[("rules", &rules(db))]);
        let is = |expect: u16, told: &'static str| {
            move || get(port, "/readyz").is_some_and(|(code, body)| code == expect && body.contains(told))
        };
        wait_for("it is ready", is(200, "\"degraded\":false"));
        server.client().run("SET GLOBAL read_only=1");
        wait_for("it is not", is(503, "the server is read_only"));
        server.client().run("SET GLOBAL read_only=0");
        wait_for("it is again", is(200, "\"degraded\":false"));
    }
}

#[test]
fn who_takes_over_has_the_address_while_old_sessions_go_on() {
    let db = "http_takeover";
    each(db, |rig, port| {
        let mut old = rig.client();
        let since = |told: Value| told["about"]["since"].as_f64().unwrap();
        let first = since(status(port).unwrap());
        let before = rig.proxy.take_over();
        wait_for("the second answers", || status(port).is_some_and(|told| since(told) > first));
        assert!(before.is_running(), "{}: it has a session", rig.name());
        assert_eq!(insert_id(&mut old, "INSERT INTO t() VALUES()"), 1, "{}", rig.name());
    });
}

#[test]
fn an_address_that_is_anothers_is_an_error() {
    let Some(server) = server(Kind::MariaDb) else { return };
    let db = "http_taken";
    make(server, db, "");
    let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules(db))]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = proxy.dir().join("rowstamp.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        config.replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"{address}\"")),
    )
    .unwrap();
    let said = proxy.attempt(&[]);
    assert!(
        said.contains(&format!("http.address {address}")) && said.contains("set another address"),
        "{said}"
    );
}

/// The server, the tables, latency and the process; what has not happened has no series.
#[test]
fn what_was_done_and_where() {
    const PAUSE: Duration = Duration::from_millis(1_500);
    each("http_where", |rig, port| {
        let (name, begun) = (rig.name(), Instant::now());
        let mut client = rig.client();
        for sql in
            ["INSERT INTO t(a) VALUES(1),(2)", "INSERT INTO t(a) SELECT 3", "INSERT INTO u VALUES(1,1)"]
        {
            assert_eq!(code(&mut client, sql), 0, "{name}: {sql}");
        }
        client.run("SELECT SLEEP(0.2)");
        // The client's pause between two commands is no latency, even after a command that has no answer.
        let prepared = prepare(&mut client, "SELECT 1");
        client.send_command(0x19, &prepared.id.to_le_bytes()).unwrap();
        std::thread::sleep(PAUSE);
        client.run("SELECT 1");
        let busy = begun.elapsed().saturating_sub(PAUSE).as_secs_f64();
        let backend = format!("{{backend=\"{}\"}}", rig.server.address());
        wait_for("the server is asked", || {
            let text = get(port, "/metrics").unwrap().1;
            text.contains(&format!("rowstamp_backend_read_only{backend} 0"))
        });
        let (_, text) = get(port, "/metrics").unwrap();
        let found = samples(&text);
        let value =
            |series: &str| found.get(series).copied().unwrap_or_else(|| panic!("{name}: {series}: {text}"));
        for (series, expect) in [
            (format!("rowstamp_backend_up{backend}"), 1.0),
            (format!("rowstamp_backend_primary{backend}"), 1.0),
            ("rowstamp_table_statements_total{table=\"http_where.t\"}".into(), 2.0),
            ("rowstamp_table_ids_total{table=\"http_where.t\"}".into(), 3.0),
            ("rowstamp_sessions_limit{limit=\"connections\"}".into(), 10_000.0),
            ("rowstamp_generator_state{generator=\"http_where.g\",state=\"open\"}".into(), 1.0),
        ] {
            assert!((value(&series) - expect).abs() < 0.5, "{name}: {series}: {text}");
        }
        // Login, three INSERTs, SELECT: what was answered, and nearly all of it the server's time.
        assert!(value("rowstamp_command_seconds_count") >= 4.0, "{name}: {text}");
        let (all, server) =
            (value("rowstamp_command_seconds_sum"), value("rowstamp_command_server_seconds_sum"));
        assert!(server > 0.2 && server <= all && all <= busy, "{name}: {server} of {all}, in {busy}");
        assert!(value("process_open_fds") > 4.0 && value("process_resident_memory_bytes") > 1e6, "{name}");
        for absent in ["rowstamp_ids_refused_total", "rowstamp_id_collisions_total", "state=\"stopped\""] {
            assert!(!found.keys().any(|series| series.contains(absent)), "{name}: {absent}: {text}");
        }
        let status = status(port).unwrap();
        assert_eq!(status["tables"]["http_where.t"]["ids"]["total"], 3.0, "{name}: {status}");
        assert_eq!(status["backends"][0]["up"], true, "{name}: {status}");
        assert!(status["latency"]["count"].as_u64().unwrap() >= 4, "{name}: {status}");
    });
}

/// By a client that does not use the proxy.
#[test]
fn tables_that_others_write_to() {
    each("http_others", |rig, port| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        client.run("INSERT INTO t(a) VALUES (1)");
        let overtaken = || status(port).unwrap()["tables"]["http_others.t"]["overtaken"]["total"].as_f64();
        assert_eq!(overtaken(), Some(0.0), "{}", rig.name());
        direct.run("INSERT INTO t(id, a) VALUES (20000, 2)");
        let mut keys = 3..;
        wait_for("others are seen", || {
            client.run(format!("INSERT INTO t(a) VALUES ({})", keys.next().unwrap()));
            overtaken() > Some(0.0)
        });
        // A statement that is sent again is one statement.
        wait_for("an id collides", || {
            direct.run("INSERT INTO t(id, a) SELECT MAX(id) + 1, -MAX(id) FROM t");
            client.run(format!("INSERT INTO t(a) VALUES ({})", keys.next().unwrap()));
            get(port, "/metrics").unwrap().1.contains("rowstamp_id_collisions_total{")
        });
        let sent = keys.next().unwrap() - 2;
        assert_eq!(
            status(port).unwrap()["statements"]["rewritten"]["total"],
            f64::from(sent),
            "{}",
            rig.name()
        );
        let series = "rowstamp_table_overtaken_total{table=\"http_others.t\"}";
        let (_, text) = get(port, "/metrics").unwrap();
        assert!(samples(&text).get(series).is_some_and(|count| *count >= 1.0), "{}: {text}", rig.name());
    });
}
