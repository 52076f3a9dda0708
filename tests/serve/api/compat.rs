//! The paths of other id services.

use serde_json::{Value, json};

use super::client::{Answer, Http, basic, config, dba, port};
use crate::console::typed_as;
use crate::fleet::hasty;
use crate::resp::client::alone;
use crate::rig::server;
use crate::support::etcd::Version;
use crate::support::wait::wait_until;
use crate::support::{Etcd, Kind, Proxy};

const SHOP: &str = "schema = \"shop\"\n[generators.orders]\nkind = \"sequence\"\n[generators.parts]\nkind = \"sequence\"\n\
                    [generators.events]\nkind = \"timestamp\"\nlayout = \"leaf\"\nnode = 39\n";
const CRM: &str = "schema = \"crm\"\n[generators.orders]\nkind = \"sequence\"\nstart = 500\n[generators.parts]\nkind = \"timestamp\"\nlayout = \"tsid\"\n";

/// The rules of the service as the first worker of its third datacenter.
const SERVICE: &str =
    "schema = \"service\"\n[generators.id]\nkind = \"timestamp\"\nlayout = \"snowflake\"\nnode = 64\n";

fn compat(services: &str) -> String {
    config().replace("[api]\n", &format!("[api]\ncompat = {services}\n"))
}

fn leaf() -> (Proxy, Http) {
    let proxy = alone(&compat("[\"leaf\"]"), SHOP);
    proxy.write_rules("crm", CRM);
    let (is_active, log) = proxy.reload();
    assert!(is_active, "{log}");
    let http = Http::dba(port(&proxy));
    (proxy, http)
}

#[track_caller]
fn text_id(answer: &Answer) -> u64 {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain;charset=UTF-8")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.body.parse().unwrap_or_else(|_| panic!("{answer:?}"))
}

#[test]
fn leaf_gives_ids_as_text() {
    let (_proxy, mut http) = leaf();
    for (method, path, expect) in [
        ("GET", "/api/segment/get/shop.orders", 1),
        ("GET", "/api/segment/get/crm.orders", 500),
        ("POST", "/api/segment/get/shop.orders", 2),
        // Only one generator of this kind has this name.
        ("GET", "/api/segment/get/parts", 1),
        ("GET", "/api/segment/get/parts", 2),
    ] {
        assert_eq!(text_id(&http.ask(method, path, "")), expect, "{path}");
    }
    assert_eq!(http.draw("shop.parts", "").id(), 3, "they are the ids of the generator");
    let id = text_id(&http.get("/api/snowflake/get/events"));
    assert!(text_id(&http.get("/api/snowflake/get/shop.events")) > id);
    let fields = http.get(&format!("/decodeSnowflakeId?snowflakeId={id}")).json();
    assert_eq!(fields["workerId"], "39", "{fields}");
    let own = http.get(&format!("/v1/generators/shop.events/ids/{id}")).json();
    assert_eq!(fields["sequenceId"], own["sequence"].to_string(), "{fields} {own}");
    let time = own["time"].as_str().unwrap().replace('T', " ").replace('Z', "");
    assert!(fields["timestamp"].as_str().unwrap().ends_with(&format!("({time})")), "{fields} {own}");
    let wrong = http.get("/decodeSnowflakeId?snowflakeId=x");
    assert_eq!((wrong.status, wrong.json()["errorMsg"].is_string()), (200, true), "{wrong:?}");
}

#[test]
fn what_leaf_refuses() {
    let (proxy, mut http) = leaf();
    for (path, status, code, detail) in [
        (
            "/api/segment/get/orders",
            400,
            "several_generators",
            "several generators are called \"orders\"; write the whole name of one, as crm.orders, shop.orders",
        ),
        (
            "/api/segment/get/events",
            404,
            "no_generator",
            "user dba has the TAKE right on no sequence that is called \"events\"",
        ),
        ("/api/segment/get/shop.events", 404, "no_generator", "user dba has the TAKE right on no sequence"),
        (
            "/api/snowflake/get/shop.orders",
            404,
            "no_generator",
            "user dba has the TAKE right on no timestamp generator",
        ),
        (
            "/api/segment/get/x",
            404,
            "no_generator",
            "user dba has the TAKE right on no sequence that is called \"x\"",
        ),
        ("/api/segment/get/", 404, "no_path", "there is no \"/api/segment/get/\"; the paths of Leaf are "),
        ("/api/segment/get/a/b", 404, "no_path", "there is no \"/api/segment/get/a/b\""),
        ("/api/segment/get/%ff", 400, "bad_request", "Invalid UTF-8"),
        ("/decodeSnowflakeId", 400, "bad_request", "write the id into the query"),
        ("/decodeSnowflakeId?snowflakeid=7", 400, "bad_request", "write the id into the query"),
        (
            "/service/id",
            404,
            "no_path",
            "there is no \"/service/id\", since api.compat does not have \"udf\"",
        ),
    ] {
        let answer = http.get(path);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{path}");
        let told = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(told.contains(detail), "{path}: {told}");
    }
    for login in ["", "Bearer rst_x"] {
        for path in
            ["/api/segment/get/shop.orders", "/api/snowflake/get/events", "/decodeSnowflakeId?snowflakeId=7"]
        {
            assert_eq!(Http::new(port(&proxy), login).get(path).status, 401, "{path}");
        }
    }
    let mut look = Http::new(port(&proxy), &basic("look", "c4nary-2"));
    assert_eq!(look.get("/api/segment/get/shop.orders").code(), "no_generator", "who may not draw");
    assert_eq!(look.get("/api/segment/get/nothing").code(), "no_generator");
    assert_eq!(typed_as("c4nary-1", &proxy, "SELECT denied FROM users WHERE user = 'look'"), "1");
    let options = http.ask("OPTIONS", "/api/segment/get/shop.orders", "");
    assert_eq!(
        (options.status, &*options.code(), options.header("allow")),
        (405, "no_method", Some("GET,HEAD,POST"))
    );
    assert_eq!(text_id(&http.get("/api/segment/get/shop.orders")), 1, "nothing was drawn before");
    let long = http.ask("POST", "/api/segment/get/shop.orders", &" ".repeat(5000));
    assert_eq!((long.status, &*long.code()), (413, "too_large"));
}

#[track_caller]
fn result(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let envelope = answer.json();
    assert_eq!(envelope["id"].as_str().map(str::len), Some(36), "{envelope}");
    assert_eq!((&envelope["code"], &envelope["message"]), (&json!("200"), &json!("OK")));
    assert_eq!(envelope["error"], Value::Null);
    envelope["result"].clone()
}

#[track_caller]
fn ids(result: &Value) -> Vec<u64> {
    let all = if result.is_array() { result.as_array().unwrap().clone() } else { vec![result.clone()] };
    all.iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect()
}

fn node(id: u64) -> u64 {
    id >> 12 & 0x3FF
}

#[test]
fn udf_gives_ids_in_its_envelope() {
    let proxy = alone(&compat("[\"udf\", \"leaf\"]"), SERVICE);
    let mut http = Http::dba(port(&proxy));
    let mut last = 0;
    for (path, count) in
        [("", 1), ("/64", 1), ("/2/0", 1), ("/batch/3", 3), ("/batch/64/5", 5), ("/batch/2/0/5000", 5000)]
    {
        let drawn = ids(&result(&http.get(&format!("/service/id{path}"))));
        assert_eq!(drawn.len(), count, "{path}");
        assert!(drawn.is_sorted_by(|a, b| a < b) && drawn[0] > last, "{path}: {drawn:?}");
        assert!(drawn.iter().all(|id| node(*id) == 64), "{path}: {drawn:?}");
        last = *drawn.last().unwrap();
    }
    let fields = result(&http.get(&format!("/service/id/reverse/{last}")));
    let expect = |name: &str, value: u64| assert_eq!(fields[name], value, "{name}: {fields}");
    expect("timestamp", (last >> 22) + 1_288_834_974_657);
    expect("dwId", 64);
    expect("datacenterId", 2);
    expect("workerId", 0);
    expect("sequence", last & 0xFFF);
    let head = http.ask("HEAD", "/service/id", "");
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[test]
fn what_udf_refuses() {
    let proxy = alone(&compat("[\"udf\"]"), SERVICE);
    let port = port(&proxy);
    let mut http = Http::dba(port);
    let trouble = |answer: &Answer| {
        assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
        let envelope = answer.json();
        assert_eq!(envelope["code"], answer.status.to_string(), "{answer:?}");
        assert_eq!(envelope["result"], Value::Null);
        let error = &envelope["error"];
        assert!(error["date"].as_str().unwrap().ends_with("+0000"), "{error}");
        let (kind, message) = (error["type"].as_str().unwrap(), error["message"].as_str().unwrap());
        (answer.status, format!("{kind}: {message}"))
    };
    for (method, path, status, expect) in [
        ("GET", "/service/id/1024", 400, "bad_worker: dwId is \"1024\"; write a whole number from 0 to 1023"),
        (
            "GET",
            "/service/id/32/0",
            400,
            "bad_worker: datacenterId is \"32\"; write a whole number from 0 to 31",
        ),
        ("GET", "/service/id/0/x", 400, "bad_worker: workerId is \"x\"; write a whole number from 0 to 31"),
        (
            "GET",
            "/service/id/batch/0",
            400,
            "bad_count: count is \"0\"; write a whole number from 1 to 10000",
        ),
        ("GET", "/service/id/batch/64/-1", 400, "bad_count: count is \"-1\"; write "),
        ("GET", "/service/id/batch/x", 400, "bad_count: count is \"x\""),
        ("GET", "/service/id/batch/10001", 400, "bad_count: count is \"10001\"; write "),
        ("GET", "/service/id/batch", 400, "bad_count: count is \"\"; write "),
        (
            "GET",
            "/service/id/1/2/3",
            404,
            "no_path: there is no \"/service/id/1/2/3\"; the paths are /service/id",
        ),
        (
            "GET",
            "/service/id/7",
            404,
            "no_worker: no proxy is worker 7; 64 is this proxy; ask for one of these, or without a worker",
        ),
        ("GET", "/service/id/reverse/x", 400, "bad_id: \"x\" is not an id"),
        ("POST", "/service/id", 405, "no_method: there is no POST here; use GET"),
    ] {
        let answer = http.ask(method, path, "");
        let (found, told) = trouble(&answer);
        assert_eq!(found, status, "{path}: {told}");
        assert!(told.starts_with(expect), "{path}: {told}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{path}");
    }
    let long = http.ask("POST", "/service/id", &" ".repeat(5000));
    let (found, told) = trouble(&long);
    assert_eq!((found, told.starts_with("too_large: ")), (413, true), "{told}");
    let stranger = Http::new(port, "").get("/service/id");
    assert!(trouble(&stranger).1.starts_with("no_login: "), "{stranger:?}");
    assert!(stranger.header("www-authenticate").is_some());
    let mut look = Http::new(port, &basic("look", "c4nary-2"));
    for path in ["/service/id", "/service/id/64", "/service/id/batch/3", "/service/id/batch/64/3"] {
        assert!(trouble(&look.get(path)).1.starts_with("no_right: "), "{path}");
    }
    // The rules have no such generator, or one without workers.
    for (rules, path, expect) in [
        ("", "/service/id", "no_generator: the rules have no generator \"service.id\""),
        ("", "/service/id/64", "no_generator: the rules have no generator \"service.id\""),
        (
            "[generators.id]\nkind = \"sequence\"\n",
            "/service/id/64",
            "bad_worker: generator service.id is a sequence, and its ids are of no node; ask without one",
        ),
    ] {
        let proxy = alone(&compat("[\"udf\"]"), &format!("schema = \"service\"\n{rules}"));
        let answer = Http::dba(super::client::port(&proxy)).get(path);
        assert!(trouble(&answer).1.starts_with(expect), "{answer:?}");
    }
}

/// Also for connections that are open.
#[test]
fn a_reload_says_whose_paths_are_answered() {
    let proxy = alone(&compat("[]"), SHOP);
    let mut http = Http::dba(port(&proxy));
    let path = "/api/segment/get/orders";
    let off = http.get(path);
    assert_eq!((off.status, &*off.code()), (404, "no_path"));
    let detail = off.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("api.compat does not have \"leaf\""), "{detail}");
    let file = proxy.dir().join("rowstamp.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    for (services, status) in [("[\"leaf\"]", 200), ("[]", 404)] {
        std::fs::write(&file, written.replace("compat = []", &format!("compat = {services}"))).unwrap();
        assert!(proxy.reload().0);
        assert_eq!(http.get(path).status, status, "{services}");
    }
}

fn member(etcd: &Etcd, name: &str) -> Proxy {
    let config = format!("{}{}", hasty(server(Kind::MariaDb).unwrap(), etcd, name), compat("[\"udf\"]"));
    Proxy::start(&config, &[("rules", &SERVICE.replace("node = 64\n", ""))])
}

/// Writes the records of a proxy on another machine, which is worker 9.
fn elsewhere(etcd: &Etcd) {
    let put = |key: &str, record: Value| {
        etcd.ctl(0, &["put", &format!("/rowstamp/{key}"), &record.to_string()]);
    };
    put(
        "proxies/p9",
        json!({"v": 1, "address": "10.0.0.9:3307", "version": "", "since": "", "run": "r", "api": "10.0.0.9:3310"}),
    );
    put("slots/service.id/9", json!({"v": 1, "kind": "timestamp", "bound": 1, "owner": "p9", "token": "t"}));
}

#[test]
fn a_worker_that_is_another_proxy_is_found_there() {
    if server(Kind::MariaDb).is_none() {
        return;
    }
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (first, second) = (member(&etcd, "p1"), member(&etcd, "p2"));
    elsewhere(&etcd);
    let (first, second) = (port(&first), port(&second));
    let ask = |port: u16, path: &str| Http::new(port, &dba()).get(path);
    let error = |answer: &Answer| {
        let error = answer.json()["error"].clone();
        let (kind, message) = (error["type"].as_str().unwrap(), error["message"].as_str().unwrap());
        (answer.status, format!("{kind}: {message}"))
    };
    for (port, path, own) in [(first, "/service/id/0", 0), (second, "/service/id/batch/0/1/3", 1)] {
        assert!(ids(&result(&ask(port, path))).iter().all(|id| node(*id) == own), "{path}");
    }
    for (path, expect, location) in [
        (
            "/service/id/1",
            "worker 1 is proxy p2, which has no api.address that other machines can reach; ask without a worker",
            None,
        ),
        (
            "/service/id/9",
            "worker 9 is proxy p9; ask at 10.0.0.9:3310",
            Some("http://10.0.0.9:3310/service/id/9"),
        ),
        (
            "/service/id/batch/0/9/3",
            "worker 9 is proxy p9; ask at 10.0.0.9:3310",
            Some("http://10.0.0.9:3310/service/id/batch/0/9/3"),
        ),
    ] {
        let other = ask(first, path);
        assert_eq!(error(&other), (421, format!("other_worker: {expect}")), "{path}");
        assert_eq!(other.header("location"), location, "{path}");
    }
    let nobody = "no_worker: no proxy is worker 7; 0 is this proxy, 1 is p2, 9 is p9; ask for one of these, or without a worker";
    assert_eq!(error(&ask(first, "/service/id/7")), (404, nobody.to_owned()));
    etcd.kill(0);
    let away = || ask(first, "/service/id/1");
    wait_until(|| format!("what was read is too old: {:?}", away()), || away().status == 503);
    let away = away();
    let expect = "unavailable: this proxy is worker 0, and who is worker 1 cannot be read from the store now; try again";
    assert_eq!((error(&away).1.as_str(), away.header("retry-after")), (expect, Some("1")));
}

/// Like the ids of the port's own paths.
#[test]
fn ids_of_a_worker_are_counted_and_noted() {
    let audit = "[log]\naudit = \"audit.log\"\n";
    let proxy = alone(&format!("{}{audit}", compat("[\"udf\"]")), SERVICE);
    for statement in [
        "CREATE USER app IDENTIFIED BY 'c4nary-of-app'",
        "GRANT TAKE ON service.* TO app LIMIT 10 PER SECOND",
    ] {
        assert_eq!(typed_as("c4nary-1", &proxy, statement), "", "{statement}");
    }
    let mut http = Http::new(port(&proxy), &basic("app", "c4nary-of-app"));
    let drawn = ids(&result(&http.get("/service/id/batch/64/10")));
    let above = http.get("/service/id/batch/64/11");
    assert_eq!((above.status, &above.json()["error"]["type"]), (400, &json!("too_many")), "{above:?}");
    let over = http.get("/service/id/batch/64/10");
    // On a machine that stood still for a second, there are ids again.
    if over.status != 200 {
        assert_eq!((over.status, &over.json()["error"]["type"]), (429, &json!("over_quota")), "{over:?}");
        assert_eq!(over.header("retry-after"), Some("1"));
    }
    let file = proxy.dir().join("audit.log");
    let noted = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_until(|| format!("the ids are noted: {}", noted()), || noted().contains("service.id"));
    let noted = noted();
    let line: Value =
        serde_json::from_str(noted.lines().find(|line| line.contains("service.id")).unwrap()).unwrap();
    let expect =
        [("door", json!("api")), ("user", json!("app")), ("first", json!(drawn[0])), ("count", json!(10))];
    for (name, expect) in expect {
        assert_eq!(line[name], expect, "{name}: {line}");
    }
}
