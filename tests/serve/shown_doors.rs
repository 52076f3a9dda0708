//! Doors and users as operators see them: the console, metrics, `/status.json`, `rowstamp status`, `/readyz` and `rowstamp check`.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::api::client as api;
use crate::console::typed_as;
use crate::http::{get, samples, status};
use crate::resp::client::{GENERATORS, Redis, USERS, alone, port_of};
use crate::rig::{Rig, code, make, server};
use crate::support::raw::{Client, Options};
use crate::support::servers::free_port;
use crate::support::wait::wait_until;
use crate::support::{CANARY, Kind, Proxy, proxy};

const USER: &str = "shown_labels";
const PASSWORD: &str = "c4nary-9";

fn typed(proxy: &Proxy, statement: &str) -> String {
    typed_as("c4nary-1", proxy, statement)
}

/// Both doors, the console, and metrics at the port.
fn config(server: &str, http: u16) -> String {
    let text = proxy::config(server)
        .replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{http}\""));
    format!(
        "{text}[resp]\naddress = \"127.0.0.1:0\"\n[api]\naddress = \"127.0.0.1:0\"\ncompat = [\"leaf\"]\ntls.mode = \"disabled\"\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{USERS}"
    )
}

fn rowstamp(proxy: &Proxy, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowstamp"));
    let output = command.args(args).arg("--config").arg(proxy.dir().join("rowstamp.toml")).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Requests of every fate, by every way on which a user is asked for.
fn draw(rig: &Rig, redis: &mut Redis, http: &mut api::Http) {
    let db = &rig.db;
    assert_eq!(redis.ask(&format!("INCRBY {db}.g 60")), ":60");
    for (line, expect) in [("g 101", "-ERR QUOTA"), ("other 1", "-NOPERM"), ("g 0", "-ERR")] {
        let told = redis.ask(&format!("INCRBY {db}.{line}"));
        assert!(told.starts_with(expect), "{line}: {told}");
    }
    assert_eq!(http.draw(&format!("{db}.g"), r#"{"count":5}"#).status, 200);
    assert_eq!(
        api::Http::new(api::port(&rig.proxy), &api::basic(USER, "c4nary-no")).get("/v1/generators").status,
        401
    );
    let options = Options { user: USER.to_owned(), database: Some(db.clone()), ..Options::default() };
    let mut sql = Client::connect(&rig.proxy.address(), &options).unwrap();
    assert_eq!(code(&mut sql, "DO NEXTVAL(g)"), 0, "{}", rig.name());
    assert_eq!(code(&mut sql, "DO NEXTVAL(other)"), 1142, "{}", rig.name());
}

#[test]
fn operators_see_doors_and_users() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let (db, http) = ("shown_doors", free_port());
        make(server, db, &format!("CREATE USER {USER}; GRANT ALL ON {db}.* TO {USER};"));
        let rules = format!(
            "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\nsql = true\n[generators.other]\nkind = \"sequence\"\nsql = true\n"
        );
        let proxy = Proxy::start(&config(&server.address(), http), &[("rules", &rules)]);
        let mut rig = Rig { kind, server, proxy, db: db.to_owned() };
        for statement in [
            &format!("CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'"),
            &format!("GRANT TAKE ON {db}.g TO {USER} LIMIT 100 PER SECOND"),
            &format!("GRANT TAKE ON {db}.gone TO {USER}"),
        ] {
            assert_eq!(typed(&rig.proxy, statement), "", "{statement}");
        }
        let mut redis = Redis::stranger(port_of(&rig.proxy, "the Redis protocol"));
        assert_eq!(redis.ask(&format!("AUTH {USER} {PASSWORD}")), "+OK");
        let mut client = api::Http::new(api::port(&rig.proxy), &api::basic(USER, PASSWORD));
        draw(&rig, &mut redis, &mut client);
        check_console(&rig);
        check_http(&rig, http);
        // A GRANT does not start the user's counters again.
        typed(&rig.proxy, &format!("GRANT READ ON {db}.* TO {USER}"));
        check_users(&rig, 3);
        let findings = typed(&rig.proxy, "SHOW FINDINGS");
        assert!(findings.contains("grant-unmatched\tuser shown_labels"), "{findings}");
        assert!(!findings.contains("nobody-draws"), "{findings}");
        check_command(&mut rig);
    }
}

/// Ids of the user, as the console shows them. The call in SQL drew one id, or two where the rules were read while it was decided.
#[track_caller]
fn check_users(rig: &Rig, grants: u32) -> f64 {
    let told = typed(&rig.proxy, &format!("SHOW USERS LIKE '{USER}'"));
    let fields: Vec<_> = told.split('\t').collect();
    let [name, home, password, tokens, granted, ids, denied, over_quota] = fields[..] else {
        panic!("{told}")
    };
    assert_eq!([name, home, password, tokens], [USER, "store", "yes", "0"], "{told}");
    assert_eq!([granted, denied, over_quota], [&grants.to_string(), "2", "1"], "{told}");
    let ids = ids.parse().unwrap();
    assert!([66.0, 67.0].contains(&ids), "{told}");
    ids
}

fn check_console(rig: &Rig) {
    let [redis, http] = ["the Redis protocol", "the HTTP API"].map(|door| port_of(&rig.proxy, door));
    let expect = format!(
        "resp\tRedis protocol\t127.0.0.1:{redis}\tyes\tpreferred\t\t1\t60\t1\t1\t1\t1\t0\t0\n\
         api\tHTTP\t127.0.0.1:{http}\tyes\tdisabled\tleaf\t1\t5\t1\t0\t0\t0\t0\t1"
    );
    assert_eq!(typed(&rig.proxy, "SHOW DOORS"), expect, "{}", rig.name());
    assert_eq!(typed(&rig.proxy, "SELECT door FROM doors WHERE over_quota > 0"), "resp");
    check_users(rig, 2);
}

fn check_http(rig: &Rig, port: u16) {
    let ids = check_users(rig, 2);
    let found = samples(&get(port, "/metrics").unwrap().1);
    for (series, expect) in [
        ("rowstamp_door_ids_total{door=\"resp\"}", 60.0),
        ("rowstamp_door_ids_total{door=\"api\"}", 5.0),
        ("rowstamp_door_connections{door=\"resp\"}", 1.0),
        ("rowstamp_door_requests_total{door=\"resp\",outcome=\"wrong\"}", 1.0),
        ("rowstamp_door_logins_refused_total{door=\"api\"}", 1.0),
        ("rowstamp_users{home=\"file\"}", 2.0),
        ("rowstamp_users{home=\"store\"}", 1.0),
        ("rowstamp_user_ids_total{user=\"shown_labels\"}", ids),
        ("rowstamp_user_requests_refused_total{user=\"shown_labels\",reason=\"denied\"}", 2.0),
        ("rowstamp_user_requests_refused_total{user=\"shown_labels\",reason=\"over_quota\"}", 1.0),
        ("rowstamp_check_passed{check=\"doors\"}", 1.0),
    ] {
        assert_eq!(found.get(series), Some(&expect), "{}: {series}", rig.name());
    }
    assert!(found.contains_key("rowstamp_users_age_seconds"));
    assert!(!found.keys().any(|series| series.contains("user=\"dba\"")), "dba has asked for no ids");
    let told = status(port).unwrap();
    let [resp, api] = [0, 1].map(|nth| &told["doors"][nth]);
    assert_eq!((&resp["open"], &resp["outcomes"]["denied"]), (&true.into(), &1.into()), "{told:#}");
    assert_eq!((&resp["ids"]["total"], &resp["requests"]["total"]), (&60.0.into(), &4.0.into()), "{told:#}");
    assert_eq!((&api["compat"][0], &api["logins_refused"]), (&"leaf".into(), &1.into()), "{told:#}");
    let users = &told["users"];
    assert_eq!((&users["file"], &users["store"]), (&2.into(), &1.into()), "{told:#}");
    let busy = &users["busiest"][0];
    assert_eq!((&busy["user"], &busy["denied"]), (&USER.into(), &2.into()), "{told:#}");
    assert_eq!(users["busiest"].as_array().map(Vec::len), Some(1), "{told:#}");
    assert_eq!((&busy["ids"]["total"], &busy["over_quota"]), (&ids.into(), &1.into()), "{told:#}");
    assert!(!told.to_string().contains(CANARY), "{told:#}");
}

fn check_command(rig: &mut Rig) {
    let screen = rowstamp(&rig.proxy, &["status"]);
    assert!(
        screen.contains("\nRedis protocol  127.0.0.1:") && screen.contains("\nshown_labels "),
        "{screen}"
    );
    rig.proxy.stop();
    let checked = rowstamp(&rig.proxy, &["check", "--online"]);
    for expect in [
        "\ndoors: Redis protocol at 127.0.0.1:0 (TLS preferred), HTTP at 127.0.0.1:0 (TLS disabled, compat leaf)\n",
        "\nusers: 2 of rowstamp.toml, 1 of the store\n",
        "grant-unmatched",
        "the user has TAKE on shown_doors.gone, and the rules have no such generator",
    ] {
        assert!(checked.contains(expect), "{}: {expect}\n{checked}", rig.name());
    }
    let offline = rowstamp(&rig.proxy, &["check"]);
    assert!(offline.ends_with("\nusers: 2 of rowstamp.toml\n"), "{offline}");
}

/// A process takes over, and its new door's address is another program's.
#[test]
fn a_door_that_does_not_open_is_told() {
    let http = free_port();
    let config = "[admin]\naddress = \"127.0.0.1:0\"\n".to_owned() + USERS;
    let mut proxy = alone(&config, GENERATORS);
    // A port that the system gives to nobody.
    let taken = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let address = taken.local_addr().unwrap();
    let file = proxy.dir().join("rowstamp.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{http}\""));
    std::fs::write(&file, format!("{text}[resp]\naddress = \"{address}\"\n")).unwrap();
    let _before = proxy.take_over();
    let ready = || -> Option<Value> { serde_json::from_str(&get(http, "/readyz")?.1).ok() };
    let why = format!("resp.address: nobody can connect to {address} yet; the log says why");
    let trouble = || {
        let checks = ready()?["checks"].as_array()?.clone();
        Some(checks.iter().find(|check| check["name"] == "doors")?["trouble"].clone())
    };
    wait_until(|| format!("{:?}", ready()), || trouble() == Some(why.as_str().into()));
    let told = ready().unwrap();
    assert_eq!((&told["ready"], &told["degraded"]), (&true.into(), &true.into()), "{told:#}");
    assert!(typed(&proxy, "SHOW DOORS").starts_with(&format!("resp\tRedis protocol\t{address}\tno\t")));
    let logged = "until then there is no Redis protocol";
    wait_until(|| proxy.log(), || proxy.log().contains(logged));
    drop(taken);
    wait_until(|| format!("{:?}", ready()), || trouble() == Some(Value::Null));
    assert_eq!(Redis::at(address.port()).ask("PING"), "+PONG");
    assert_eq!(typed(&proxy, "SELECT door, open FROM doors WHERE address IS NOT NULL"), "resp\tyes");
}
