//! The alert rules of examples/ in a real Prometheus that reads a real proxy: each expression is evaluated, a proxy at work raises
//! none, and the server's end and a bad rules file raise their own. promtool has the cases of made-up series (tests/alerts.sh).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::keeper::Keeper;
use crate::support::machine::{announce, find_program, free_port, temporary_folder};
use crate::support::raw::{Client, Options};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, Server, proxy};

const RULES: &str = "schema = \"shop\"\n[generators.orders]\nkind = \"sequence\"\nbatch = 10000\n\n\
                     [tables.orders]\ncolumn = \"id\"\ngenerator = \"orders\"\n";
/// The time of INSERTs while no alert may be raised: twenty looks of Prometheus.
const AT_WORK: Duration = Duration::from_secs(10);

struct Prometheus {
    port: u16,
    keeper: Keeper,
}

impl Prometheus {
    /// Reads a proxy twice a second, with the rules as they are in examples/. `None`: it is not on this machine, which is said.
    fn start(proxy: u16) -> Option<Prometheus> {
        let Some(program) = find_program("prometheus") else {
            announce("SKIPPED: Prometheus is not on this machine: tests/install.sh promtool installs it");
            return None;
        };
        let (dir, port) = (temporary_folder("prometheus"), free_port());
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/prometheus-alerts.yml");
        let config = format!(
            "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\nrule_files: [\"{}\"]\nscrape_configs:\n\
             - job_name: rowstamp\n  static_configs:\n  - targets: [\"127.0.0.1:{proxy}\"]\n",
            rules.display()
        );
        let file = dir.join("prometheus.yml");
        fs::write(&file, config).expect("the configuration is written");
        let command = [
            program.display().to_string(),
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        Some(Prometheus { port, keeper: Keeper::start(&dir, &command) })
    }

    /// `data` of an answer of its API; `None` while there is none.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        // HTTP/1.0: in one piece, not in chunks.
        stream
            .write_all(format!("GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let body = answer.split_once("\r\n\r\n")?.1;
        let mut answer: Value = serde_json::from_str(body).ok()?;
        (answer["status"] == "success").then(|| answer["data"].take())
    }

    fn rules(&self) -> Vec<Value> {
        let groups = self.ask("rules").unwrap_or_default();
        let groups = groups["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// The names of the alerts whose expression is true now, whether they fire already or wait for their time.
    fn raised(&self) -> Vec<String> {
        let rules = self.rules();
        let raised = rules.iter().filter(|rule| rule["state"] != "inactive");
        raised.map(|rule| rule["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[track_caller]
    fn wait_for(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let log = || format!("{what}: raised {:?}\n{}", self.raised(), self.keeper.log());
        wait_until(log, &mut is_so);
    }
}

#[test]
fn in_a_real_prometheus() {
    let Some(mut server) = Server::start(Kind::MariaDb) else { return };
    let mut direct = Client::connect(&server.address(), &Options::default()).expect("the server is there");
    direct.run("CREATE DATABASE shop");
    direct.run("CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, a INT)");
    let http = free_port();
    let config = proxy::config(&server.address())
        .replace("address = \"off\"", &format!("address = \"127.0.0.1:{http}\""));
    let proxy = Proxy::start(&config, &[("shop", RULES)]);
    let Some(prometheus) = Prometheus::start(http) else { return };

    prometheus.wait_for("the rules are evaluated", || {
        let rules = prometheus.rules();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let written = fs::read_to_string("examples/prometheus-alerts.yml").expect("the rules are there");
    assert_eq!(prometheus.rules().len(), written.matches("- alert:").count(), "each is there");

    let mut client = proxy.client();
    let (begun, mut inserted) = (Instant::now(), 0_u64);
    while begun.elapsed() < AT_WORK {
        client.run("INSERT INTO shop.orders(a) VALUES (1), (2)");
        inserted += 2;
        if inserted.is_multiple_of(500) {
            assert_eq!(prometheus.raised(), Vec::<String>::new(), "of a proxy at work");
        }
    }
    prometheus.wait_for("its ids are counted", || {
        let found = prometheus.ask("query?query=rowstamp_table_ids_total").unwrap_or_default();
        found["result"][0]["value"][1].as_str() == Some(inserted.to_string().as_str())
    });
    assert_eq!(prometheus.raised(), Vec::<String>::new(), "of a proxy at work");

    proxy.write_rules("shop", "schema = 7\n");
    proxy.signal("HUP");
    prometheus.wait_for("a bad file is seen", || prometheus.raised() == ["RowstampReloadFailed"]);
    proxy.write_rules("shop", RULES);
    proxy.signal("HUP");
    prometheus.wait_for("the file is good again", || prometheus.raised().is_empty());

    server.kill();
    prometheus.wait_for("the server is away", || {
        let _ = Client::connect(&proxy.address(), &Options::default());
        let raised = prometheus.raised();
        ["RowstampNotReady", "RowstampBackendUnreachable"].iter().all(|name| raised.iter().any(|r| r == name))
    });
    let why = prometheus.ask("query?query=rowstamp_backend_connect_failures_total").unwrap_or_default();
    assert_eq!(why["result"][0]["metric"]["reason"], "refused", "{why}");
}
