use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use super::{HttpSettings, ListenError, listen, site};
use crate::address::Address;
use crate::address::listener::Listener;
use crate::address::socket::Stream;
use crate::admin::desk::ProxyRow;
use crate::admin::fake::FakeDesk;
use crate::admin::status::{BusyUser, Counted, Status, TableStatus, Timed};

/// A server for a desk, on a free port of this machine.
struct Rig {
    port: u16,
    task: JoinHandle<()>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn rig(desk: FakeDesk) -> Rig {
    let address: Address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&address).await.unwrap();
    let port = listener.address().rsplit_once(':').unwrap().1.parse().unwrap();
    let task = tokio::spawn(async move { site::run(listener, &address, Arc::new(desk)).await });
    Rig { port, task }
}

impl Rig {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Head and body of the answer.
    async fn ask(&self, request: &str) -> (String, String) {
        talk(self.connect().await, request).await
    }

    async fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
    }
}

async fn talk(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

fn status_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or("")
}

#[tokio::test]
async fn what_is_at_which_path() {
    let rig = rig(FakeDesk::default()).await;
    for (path, status, kind, has) in [
        ("/", "200", "text/html; charset=utf-8", "<title>"),
        ("/?x=1", "200", "text/html; charset=utf-8", "<title>"),
        ("/page.js", "200", "text/javascript; charset=utf-8", "status.json"),
        ("/plots.js", "200", "text/javascript; charset=utf-8", "svg"),
        ("/page.css", "200", "text/css; charset=utf-8", "prefers-color-scheme"),
        (
            "/metrics",
            "200",
            "text/plain; version=0.0.4; charset=utf-8",
            "rowstamp_ids_issued_total{generator=\"shop.orders\"} 1234.0",
        ),
        ("/healthz", "200", "text/plain; charset=utf-8", "ok\n"),
        ("/readyz", "200", "application/json", "{\"ready\":true,"),
        ("/status.json", "200", "application/json", "\"name\":\"db1:3307\""),
        ("/nowhere", "404", "text/plain; charset=utf-8", "there is no /nowhere; the paths are /"),
        ("/metrics/", "404", "text/plain; charset=utf-8", "there is no /metrics/"),
    ] {
        let (head, body) = rig.get(path).await;
        assert_eq!(status_of(&head), status, "{path}: {head}");
        assert!(head.contains(&format!("\r\ncontent-type: {kind}\r\n")), "{path}: {head}");
        assert!(body.contains(has), "{path}: {body}");
        for guard in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(head.contains(guard), "{path}: {head}");
        }
        assert!(!head.contains("access-control"), "{path}: {head}");
    }
}

#[tokio::test]
async fn what_is_not_answered() {
    let rig = rig(FakeDesk::default()).await;
    let end = "Connection: close\r\n\r\n";
    let long = "x".repeat(20_000);
    let many = "X: y\r\n".repeat(100);
    for (request, status, has) in [
        (format!("POST /metrics HTTP/1.1\r\nHost: localhost\r\n{end}"), "405", "GET and HEAD only"),
        (format!("DELETE / HTTP/1.1\r\nHost: localhost\r\n{end}"), "405", "GET and HEAD only"),
        (format!("GET /status.json HTTP/1.1\r\nHost: evil.example\r\n{end}"), "421", "loopback address"),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n{end}abc"), "413", "no body"),
        (
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{end}0\r\n\r\n"),
            "413",
            "no body",
        ),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n{end}"), "431", ""),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}{end}"), "431", ""),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n{end}"), "", ""),
        ("nonsense\r\n\r\n".to_owned(), "400", ""),
    ] {
        let (head, body) = rig.ask(&request).await;
        let shown: String = request.chars().take(60).collect();
        if status.is_empty() {
            assert!(status_of(&head).starts_with('4'), "{shown}: {head}");
        } else {
            assert_eq!(status_of(&head), status, "{shown}: {head}");
        }
        assert!(body.contains(has), "{shown}: {body}");
        assert!(status != "405" || head.contains("\r\nallow: GET, HEAD\r\n"), "{head}");
    }
    // A HEAD has no body, and the next request on the connection is served too.
    let two = format!("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n{end}")
        .replace("Host: a", "Host: [::1]");
    let (head, rest) = rig.ask(&two).await;
    assert!(
        status_of(&head) == "200" && rest.starts_with("HTTP/1.1 200") && rest.ends_with("ok\n"),
        "{head}\n{rest}"
    );
}

#[tokio::test]
async fn a_store_that_is_away_shows() {
    let rig = rig(FakeDesk { is_away: true, ..FakeDesk::default() }).await;
    let checks = serde_json::json!([{"name": "listener", "needed": true},
        {"name": "store", "needed": false, "trouble": "the store did not answer the last request"}]);
    for (path, status) in [("/readyz", "200"), ("/readyz?strict", "503"), ("/readyz?a=b&strict=1", "503")] {
        let (head, body) = rig.get(path).await;
        assert_eq!(status_of(&head), status, "{path}");
        let told: Value = serde_json::from_str(&body).unwrap();
        let expected = serde_json::json!({"ready": status == "200", "degraded": true, "checks": checks});
        assert_eq!(told, expected, "{path}");
    }
    assert_eq!(status_of(&rig.get("/healthz").await.0), "200", "the process serves");
    let status: Status = serde_json::from_str(&rig.get("/status.json").await.1).unwrap();
    assert!(status.ready && status.degraded && status.fleet.proxies.is_empty());
    assert_eq!(
        status.fleet.trouble.as_deref(),
        Some("the store (etcd) is not available: connection refused")
    );
}

#[tokio::test]
async fn a_proxy_that_drains_takes_no_clients() {
    let rig = rig(FakeDesk { is_draining: true, is_away: true, ..FakeDesk::default() }).await;
    for path in ["/readyz", "/readyz?strict"] {
        let (head, body) = rig.get(path).await;
        assert_eq!(status_of(&head), "503", "{path}");
        assert!(body.starts_with("{\"ready\":false,\"degraded\":false,"), "{body}");
    }
}

#[tokio::test]
async fn the_status_is_that_of_the_desk() {
    let rig = rig(FakeDesk::default()).await;
    let status: Status = serde_json::from_str(&rig.get("/status.json").await.1).unwrap();
    assert_eq!((status.format, status.ready, status.about.store.as_str()), (1, true, "etcd"));
    assert_eq!((status.sessions.login, status.sessions.idle, status.sessions.busy), (0, 1, 0));
    let [events, orders] = &status.generators[..] else { panic!("{:?}", status.generators) };
    assert_eq!((&*events.name, &*events.kind, &*events.state), ("shop.events", "timestamp", "open"));
    assert_eq!((events.node, events.bound.clone(), events.headroom_ids.clone()), (Some(3), None, None));
    assert_eq!(
        (&*orders.name, orders.bound.as_deref(), orders.reserved_ids),
        ("shop.orders", Some("10001"), Some(8766))
    );
    assert_eq!(orders.max, Some(i64::MAX.to_string()));
    assert_eq!(orders.headroom_ids, Some((i64::MAX - 10_000).to_string()));
    assert_eq!((status.fleet.proxies.len(), status.fleet.proxies[0].is_self), (1, true));
    assert!(status.now > 1e9);
}

#[tokio::test]
async fn prometheus_gets_what_it_asks_for() {
    let rig = rig(FakeDesk::default()).await;
    let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5\r\n\
                   Accept: text/plain;q=0.1\r\nConnection: close\r\n\r\n";
    let (head, body) = rig.ask(request).await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[tokio::test]
async fn who_holds_all_connections_keeps_nobody_out_for_good() {
    let rig = rig(FakeDesk::default()).await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(rig.connect().await);
    }
    // Renewed all the while, by one who has more of them than there are places.
    for _ in 0..150 {
        silent.push(rig.connect().await);
    }
    for _ in 0..20 {
        let answer = tokio::time::timeout(Duration::from_secs(2), rig.get("/healthz")).await;
        assert_eq!(status_of(&answer.expect("an answer").0), "200");
        silent.push(rig.connect().await);
    }
}

fn settings(address: &str, is_written: bool) -> HttpSettings {
    HttpSettings { address: address.parse().unwrap(), is_written }
}

async fn serve_fake(settings: &HttpSettings, waits: bool) -> Result<JoinSet<()>, ListenError> {
    Ok(listen(settings, waits).await?.serve(Arc::new(FakeDesk::default())))
}

async fn answers(address: &Address) -> bool {
    let (host, stream): (_, Option<Box<dyn Stream>>) = match address {
        Address::Tcp { host, port } => match TcpStream::connect((host.as_str(), *port)).await {
            Ok(stream) => ("localhost", Some(Box::new(stream))),
            Err(_) => ("", None),
        },
        Address::Unix(path) => match UnixStream::connect(path).await {
            Ok(stream) => ("anything", Some(Box::new(stream))),
            Err(_) => ("", None),
        },
    };
    let Some(stream) = stream else { return false };
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    status_of(&talk(stream, &request).await.0) == "200"
}

async fn answers_in_time(address: &Address) -> bool {
    for _ in 0..1200 {
        if answers(address).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test]
async fn an_address_that_is_taken() {
    for (is_written, waits) in [(true, true), (false, false), (false, true)] {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = settings(&taken.local_addr().unwrap().to_string(), is_written);
        let http = serve_fake(&settings, waits).await.unwrap();
        drop(taken);
        assert!(answers_in_time(&settings.address).await, "{settings:?} {waits}");
        drop(http);
        assert!(!answers(&settings.address).await, "the address is given up with it");
    }
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = serve_fake(&settings(&address, true), false).await.unwrap_err().to_string();
    let remedy = "stop the program that listens there, set another address, or write \"off\"";
    assert!(error.starts_with(&format!("http.address {address}: ")) && error.ends_with(remedy), "{error}");
}

#[tokio::test]
async fn a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let settings = settings(&format!("unix:{}", path.display()), true);
    let first = serve_fake(&settings, false).await.unwrap();
    assert!(answers(&settings.address).await);
    let error = serve_fake(&settings, false).await.unwrap_err().to_string();
    assert!(error.contains("stop the program that listens there"), "{error}");
    let second = serve_fake(&settings, true).await.unwrap();
    drop(first);
    assert!(answers_in_time(&settings.address).await, "the second has its place");
    drop(second);
    while path.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A process that was killed leaves its socket file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let third = serve_fake(&settings, false).await.unwrap();
    assert!(answers(&settings.address).await);
    drop(third);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = include_str!("../page/index.html");
    let others = [("/", page), ("/page.css", include_str!("../page/page.css"))];
    for (name, text) in site::SCRIPTS.into_iter().chain(others) {
        // The name of a namespace, which nobody fetches.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http:", "https:", "//cdn", "@import", "innerHTML", "eval("] {
            assert!(!text.contains(foreign), "{name} has {foreign}");
        }
    }
    // Each script that another one imports is served.
    for (name, text) in site::SCRIPTS {
        for import in text.lines().filter_map(|line| line.strip_prefix("import ")?.split('"').nth(1)) {
            let path = import.strip_prefix('.').unwrap();
            assert!(site::SCRIPTS.iter().any(|(served, _)| *served == path), "{name} imports {import}");
        }
    }
    // The policy forbids them, so they would do nothing.
    for inline in ["style=", "<style", "<script>", "onclick", "javascript:"] {
        assert!(!page.contains(inline), "index.html has {inline}");
    }
}

/// The paths of a JSON value's fields: `a.b`, of the elements of a list `a[].b`, of a map's own
/// keys `a.*`.
fn paths(at: &str, value: &Value, all: &mut BTreeSet<String>) {
    const MAPS: [&str; 6] = ["statements", "refused", "traffic", "store", "tables", "doors[].outcomes"];
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if MAPS.contains(&at) { "*" } else { name.as_str() };
                let path = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
                paths(&path, value, all);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for value in values {
                paths(&format!("{at}[]"), value, all);
            }
        }
        _ => drop(all.insert(at.to_owned())),
    }
}

#[tokio::test]
async fn the_shape_of_the_status_is_documented() {
    let rig = rig(FakeDesk { is_away: true, ..FakeDesk::default() }).await;
    let mut status: Status = serde_json::from_str(&rig.get("/status.json").await.1).unwrap();
    // Entries that the fake desk has none of.
    for counted in [&mut status.statements, &mut status.refused, &mut status.traffic] {
        counted.insert("x".into(), Counted::default());
    }
    status.store.insert("x".into(), Timed::default());
    status.tables.insert("x".into(), TableStatus::default());
    status.users.busiest.push(BusyUser::default());
    status.fleet.proxies.push(ProxyRow {
        name: "x".into(),
        address: "x".into(),
        version: "x".into(),
        since: "x".into(),
        is_self: false,
    });
    let mut all = BTreeSet::new();
    paths("", &serde_json::to_value(&status).unwrap(), &mut all);
    assert!(all.contains("fleet.proxies[].self") && all.contains("generators[].headroom_ids"), "{all:?}");
    let text = include_str!("../../../docs/metrics.md");
    let (_, rest) = text.split_once("<!-- status: begin -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- status: end -->").unwrap();
    let told: BTreeSet<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|line| line.split(" | ").next().unwrap().split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    assert_eq!(told, all);
}
