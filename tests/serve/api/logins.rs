//! Who may come in, and what they may: passwords, tokens, rights, limits, TLS.

use std::process::Command;

use super::client::{Http, basic, config, dba, port};
use crate::console::typed_as;
use crate::resp::client::{GENERATORS, alone};
use crate::support::Proxy;
use crate::support::wait::wait_until;

#[track_caller]
fn done(proxy: &Proxy, statement: &str) {
    assert_eq!(typed_as("c4nary-1", proxy, statement), "", "{statement}");
}

#[test]
fn who_may_what() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let asked = |login: &str, method: &str, path: &str| {
        let answer = Http::new(port, login).ask(method, path, "");
        (answer.status, if answer.status == 200 { String::new() } else { answer.code() })
    };
    let (one, ids) = ("/v1/generators/shop.orders", "/v1/generators/shop.orders/ids");
    let look = basic("look", "c4nary-2");
    for (method, path, of_reader) in [
        ("GET", "/v1/generators", (200, "")),
        ("GET", one, (200, "")),
        ("POST", ids, (403, "no_right")),
        ("GET", &format!("{ids}/1"), (404, "no_fields")),
    ] {
        assert_eq!(asked("", method, path), (401, "no_login".into()), "{path}");
        assert_eq!(asked("Bearer rst_x", method, path), (401, "wrong_login".into()), "{path}");
        assert_eq!(asked(&look, method, path), (of_reader.0, of_reader.1.to_owned()), "{path}");
    }
    let mut http = Http::new(port, &basic("dba", "c4nary-2"));
    let wrong = http.draw("shop.orders", "");
    assert_eq!((wrong.status, &*wrong.code()), (401, "wrong_login"));
    let offered = wrong.header("www-authenticate").unwrap();
    assert!(offered.contains("Bearer ") && offered.contains("Basic "), "{offered}");
    // After it the right one has to wait.
    let soon = Http::dba(port).draw("shop.orders", "");
    assert_eq!((soon.status, &*soon.code(), soon.header("retry-after")), (429, "slow_down", Some("1")));
    let mut right = Http::dba(port);
    wait_until(|| "the wait is over".to_owned(), || right.draw("shop.orders", "").status == 200);
    assert_eq!(right.draw("shop.orders", "").id(), 2, "nothing was drawn before");
}

/// However many wrong passwords come from its address, who is logged in goes on.
#[test]
fn wrong_passwords_of_others_end_nothing_that_works() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let mut http = Http::dba(port);
    assert_eq!(http.draw("shop.orders", "").id(), 1);
    for nth in 0..12 {
        Http::new(port, &basic(&format!("nobody{nth}"), "x")).draw("shop.orders", "");
    }
    assert_eq!(Http::dba(port).draw("shop.orders", "").code(), "slow_down", "a new connection has to wait");
    assert_eq!(http.draw("shop.orders", "").id(), 2);
    // Another password on that connection is another try.
    let request = http.request("GET", "/v1/generators", "").replace(&dba(), &basic("dba", "c4nary-2"));
    http.send(request.as_bytes());
    assert_eq!(http.answer().unwrap().code(), "slow_down");
    assert_eq!(http.draw("shop.orders", "").id(), 3);
}

/// A refused request leaves the connection as it was: the next one on it is answered, also where the body came late.
#[test]
fn what_follows_an_error_is_answered() {
    let proxy = alone(&config(), GENERATORS);
    let mut http = Http::dba(port(&proxy));
    let good = http.request("POST", "/v1/generators/shop.orders/ids", "{}");
    for (nth, (head, status)) in [
        (good.replace(&dba(), "Bearer rst_old"), 401),
        (good.replace("/ids", "/idx"), 404),
        (good.replace("POST", "PUT"), 405),
        (good.replace("POST", "GET").replace("/ids", ""), 200),
    ]
    .into_iter()
    .enumerate()
    {
        let (head, body) = head.split_at(head.len() - 2);
        http.send(head.as_bytes());
        std::thread::yield_now();
        http.send(body.as_bytes());
        let answer = http.answer().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{head}");
        assert_eq!(http.draw("shop.orders", "{}").id(), nth as u64 + 1, "{head}");
    }
    // A client that sends no more waits for its answer all the same.
    http.send(http.request("POST", "/v1/generators/shop.orders/ids", "{\"count\": 10000000}").as_bytes());
    http.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(http.answer().unwrap().id(), 5);
    assert!(http.answer().is_none());
}

#[test]
fn no_hint_names_what_the_user_may_not_see() {
    let other = GENERATORS.replace("shop", "shap");
    let text = crate::support::proxy::config("127.0.0.1:1")
        .replace("[backend.control]\nuser = \"root\"\npassword = \"\"\n", "");
    let proxy = Proxy::start(&format!("{text}{}", config()), &[("shop", GENERATORS), ("shap", &other)]);
    done(&proxy, "CREATE USER app IDENTIFIED BY 'c4nary-of-app'");
    done(&proxy, "GRANT TAKE ON shop.* TO app");
    let mut http = Http::new(port(&proxy), &basic("app", "c4nary-of-app"));
    let told = |http: &mut Http, name| http.draw(name, "").json()["detail"].as_str().unwrap().to_owned();
    assert!(told(&mut http, "shop.order").ends_with("; did you mean shop.orders?"));
    done(&proxy, "REVOKE TAKE ON shop.* FROM app");
    done(&proxy, "GRANT TAKE ON shop.order TO app");
    assert_eq!(told(&mut http, "shop.order"), "the rules have no generator \"shop.order\"");
}

/// Each change is felt by connections that are open.
#[test]
fn tokens_rights_and_quotas() {
    let proxy = alone(&config(), GENERATORS);
    done(&proxy, "CREATE USER app IDENTIFIED BY 'c4nary-of-app'");
    let token = |more: &str| {
        let row = typed_as("c4nary-1", &proxy, &format!("CREATE TOKEN FOR app{more}"));
        let [_, token, id, _] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        (token.to_owned(), id.to_owned())
    };
    let ((text, id), port) = (token(""), port(&proxy));
    let logins = [format!("Bearer {text}"), basic("app", "c4nary-of-app"), basic("app", &text)];
    let mut clients = logins.map(|login| Http::new(port, &login));
    for http in &mut clients {
        let denied = http.draw("shop.orders", "");
        assert_eq!((denied.status, &*denied.code()), (403, "no_right"));
        let detail = "user app has no TAKE right on generator \"shop.orders\"";
        assert_eq!(denied.json()["detail"], detail);
        assert_eq!(http.get("/v1/generators").body, "{\"generators\":[]}\n");
        assert_eq!(http.get("/v1/generators/shop.orders").code(), "no_right");
    }
    done(&proxy, "GRANT TAKE ON shop.* TO app LIMIT 10 PER SECOND");
    let over = clients[0].draw("shop.orders", "{\"count\": 11}");
    assert_eq!((over.status, &*over.code(), over.header("retry-after")), (400, "too_many", None));
    assert_eq!(clients[0].draw("shop.orders", "{\"count\": 10}").id(), 1);
    let over = clients[1].draw("shop.orders", "{\"count\": 10}");
    // On a machine that stood still for a second, there are ids again.
    if over.status != 200 {
        assert_eq!((over.status, &*over.code(), over.header("retry-after")), (429, "over_quota", Some("1")));
    }
    done(&proxy, "GRANT TAKE ON shop.* TO app");
    for http in &mut clients {
        assert_eq!(http.draw("shop.orders", "{\"count\": 500}").status, 200);
    }
    // A request whose body comes after the right has gone.
    let request = clients[0].request("POST", "/v1/generators/shop.orders/ids", "{\"count\": 1}");
    let (head, body) = request.split_at(request.len() - 5);
    clients[0].send(head.as_bytes());
    done(&proxy, "REVOKE TAKE ON shop.* FROM app");
    clients[0].send(body.as_bytes());
    assert_eq!(clients[0].answer().unwrap().code(), "no_right");
    for http in &mut clients {
        assert_eq!(http.draw("shop.orders", "").code(), "no_right");
    }
    done(&proxy, "GRANT TAKE ON shop.orders TO app");
    done(&proxy, &format!("DROP TOKEN {id} FOR app"));
    let codes: Vec<_> = clients.iter_mut().map(|http| http.draw("shop.orders", "").status).collect();
    assert_eq!(codes, [401, 200, 401], "only the password is right");
    let (short, _) = token(" EXPIRES '2099-01-01'");
    assert_eq!(Http::new(port, &format!("Bearer {short}")).draw("shop.orders", "").status, 200);
    done(&proxy, "DROP USER app");
    assert_eq!(Http::new(port, &format!("Bearer {short}")).draw("shop.orders", "").code(), "wrong_login");
}

/// Who does not say in time who it is, is sent away, whatever it talks of.
#[test]
fn strangers_and_limits() {
    let limits = "[limits]\nhandshake_timeout = \"3s\"\nconnections = 2\n";
    let proxy = alone(&format!("{}{limits}", config()), GENERATORS);
    let port = port(&proxy);
    let (mut silent, mut talks) = (Http::new(port, ""), Http::new(port, ""));
    let mut half = Http::new(port, "");
    half.send(b"GET /v1/openapi.json HTTP/1.1\r\n");
    assert_eq!(talks.get("/v1/openapi.json").status, 200);
    assert_eq!(talks.get("/v1/generators").status, 401);
    let (mut one, mut two) = (Http::dba(port), Http::dba(port));
    assert_eq!((one.draw("shop.orders", "").id(), two.draw("shop.orders", "").id()), (1, 2));
    let full = Http::dba(port).draw("shop.orders", "");
    assert_eq!((full.status, &*full.code(), full.header("connection")), (503, "unavailable", Some("close")));
    for stranger in [&mut silent, &mut talks, &mut half] {
        assert!(stranger.answer().is_none());
    }
    assert_eq!(one.draw("shop.orders", "").id(), 3, "who has logged in stays");
    drop(two);
    wait_until(|| "there is room again".to_owned(), || Http::dba(port).draw("shop.orders", "").status == 200);
}

#[test]
fn tls_and_plain_on_one_port() {
    for (mode, plain, tls) in
        [("preferred", true, true), ("required", false, true), ("disabled", true, false)]
    {
        let proxy = alone(&format!("{}[api.tls]\nmode = \"{mode}\"\n", config()), GENERATORS);
        let port = port(&proxy);
        let certificate = proxy.dir().join("rowstamp.state/tls.pem");
        let curl = |scheme: &str, flags: &[&str]| {
            let output = Command::new("curl")
                .args(["-sS", "-u", "dba:c4nary-1", "-X", "POST"])
                .args(flags)
                .arg(format!("{scheme}://127.0.0.1:{port}/v1/generators/shop.orders/ids"))
                .output()
                .expect("curl");
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        let told = curl("http", &[]);
        let expect = if plain {
            "\"first\":"
        } else {
            "this port needs TLS (api.tls.mode = \\\"required\\\"); use https"
        };
        assert!(told.contains(expect), "{mode}: {told}");
        for flags in [&["--cacert", certificate.to_str().unwrap()][..], &["--insecure"]] {
            let told = curl("https", flags);
            assert_eq!(told.contains("\"first\":"), tls, "{mode} {flags:?}: {told}");
        }
    }
}
