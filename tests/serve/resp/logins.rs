//! Who may come in, and what they may: passwords, roles, reloads, TLS.

use std::io::Write;
use std::process::Command;

use super::client::{GENERATORS, Redis, USERS, alone, config, port, request};
use crate::support::wait::wait_until;

const DENIED: &str = "-NOPERM user look has no TAKE right on generator \"shop.orders\"";
const STRANGER: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

#[test]
fn who_may_what() {
    let proxy = alone(&config(), GENERATORS);
    let port = port(&proxy);
    let mut redis = Redis::stranger(port);
    for line in ["INCR shop.orders", "GET shop.orders", "PING", "CLUSTER SLOTS", "COMMAND", "ROWSTAMP.LIST"] {
        assert_eq!(redis.ask(line), STRANGER, "{line}");
    }
    assert!(
        redis
            .ask("HELLO 3")
            .starts_with("-NOAUTH HELLO must be called with the client already authenticated")
    );
    assert_eq!(redis.ask("AUTH c4nary-1"), WRONG, "there is no user of the name default");
    assert!(redis.ask("HELLO 3 AUTH look c4nary-2 SETNAME x").starts_with("%7 "));
    for line in ["INCR shop.orders", "INCRBY shop.orders 5", "ROWSTAMP.TAKE shop.orders 5"] {
        assert_eq!(redis.ask(line), DENIED, "{line}");
    }
    assert_eq!(
        (redis.ask("GET shop.orders"), redis.ask("ROWSTAMP.LIST")),
        ("_".into(), "*1 $11 shop.orders".into())
    );
    // A wrong password changes nothing, and after it the right one has to wait.
    let tries = ["AUTH dba c4nary-2", "AUTH dba c4nary-1", "CLIENT GETNAME", "INCR shop.orders"];
    let bytes = tries.map(|line| request(&line.split(' ').collect::<Vec<_>>())).concat();
    redis.send(&bytes);
    let waits = "-WRONGPASS the last password was wrong; try again in 1 s";
    for expect in [WRONG, waits, "$1 x", DENIED] {
        assert_eq!(redis.answer().as_deref(), Some(expect));
    }
    let mut other = Redis::stranger(port);
    wait_until(|| "the wait is over".to_owned(), || other.ask("AUTH dba c4nary-1") == "+OK");
    assert_eq!(other.ask("INCR shop.orders"), ":1", "nothing was drawn before");
}

/// Open connections feel it at their next command.
#[test]
fn a_reload_that_removes_a_user_or_changes_its_password_ends_its_logins() {
    let proxy = alone(&config(), GENERATORS);
    let (file, port) = (proxy.dir().join("rowstamp.toml"), port(&proxy));
    let text = std::fs::read_to_string(&file).unwrap();
    let reload = |users: &str| {
        std::fs::write(&file, text.replace(USERS, users)).unwrap();
        let (is_active, log) = proxy.reload();
        assert!(is_active, "{log}");
    };
    let mut dba = Redis::at(port);
    let mut look = Redis::stranger(port);
    assert_eq!(look.ask("AUTH look c4nary-2"), "+OK");
    // The same users: nothing ends.
    reload(&format!("{USERS}\n"));
    assert_eq!((dba.ask("INCR shop.orders"), look.ask("PING")), (":1".into(), "+PONG".into()));
    reload(&USERS.replace("c4nary-2", "c4nary-3"));
    assert_eq!((dba.ask("INCR shop.orders"), look.ask("PING")), (":2".into(), STRANGER.into()));
    assert_eq!(look.ask("AUTH look c4nary-3"), "+OK");
    // A role that is taken away.
    reload(&USERS.replace("role = \"write\"", "role = \"read\""));
    assert!(dba.ask("INCR shop.orders").starts_with("-NOPERM user dba "));
    reload(&USERS.replace("look", "dba2"));
    assert_eq!((dba.ask("INCR shop.orders"), look.ask("PING")), (":3".into(), STRANGER.into()));
    // Requests that are sent at once are decided as one batch. Each batch looks again.
    reload(&USERS.replace("\"dba\"", "\"gone\""));
    dba.send(&[request(&["INCR", "shop.orders"]), request(&["INCR", "shop.orders"])].concat());
    assert_eq!((dba.answer(), dba.answer()), (Some(STRANGER.into()), Some(STRANGER.into())));
}

#[test]
fn tls_and_plain_on_one_port() {
    let cli = |port: u16, flags: &[&str]| {
        let output = Command::new("redis-cli")
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "--user",
                "dba",
                "--pass",
                "c4nary-1",
                "--no-auth-warning",
            ])
            .args(flags)
            .args(["INCR", "shop.orders"])
            .output()
            .expect("redis-cli of the package redis-tools");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (mode, plain, tls) in
        [("preferred", true, true), ("required", false, true), ("disabled", true, false)]
    {
        let proxy = alone(&format!("{}[resp.tls]\nmode = \"{mode}\"\n", config()), GENERATORS);
        let port = port(&proxy);
        let certificate = proxy.dir().join("rowstamp.state/tls.pem");
        let certificate = certificate.to_str().unwrap();
        let mut next = 1..;
        for (is_served, flags) in [
            (plain, &[][..]),
            (tls, &["--tls", "--cacert", certificate][..]),
            (tls, &["--tls", "--insecure", "-3"][..]),
        ] {
            let told = cli(port, flags);
            if is_served {
                assert!(told.contains(&next.next().unwrap().to_string()), "{mode} {flags:?}: {told}");
            } else if flags.is_empty() {
                assert!(
                    told.contains("this port needs TLS (resp.tls.mode = \"required\")"),
                    "{mode}: {told}"
                );
            } else {
                assert!(told.contains("Could not connect"), "{mode} {flags:?}: {told}");
            }
        }
    }
}

/// Who has not logged in takes no place of those who have.
#[test]
fn no_more_clients_than_limits_connections() {
    let proxy = alone(&format!("{}[limits]\nconnections = 2\n", config()), GENERATORS);
    let port = port(&proxy);
    let _strangers: Vec<Redis> = (0..20).map(|_| Redis::stranger(port)).collect();
    let (mut one, two) = (Redis::at(port), Redis::at(port));
    let mut third = Redis::stranger(port);
    assert_eq!(third.ask("AUTH dba c4nary-1"), "-ERR max number of clients reached");
    assert_eq!(third.answer(), None);
    drop(two);
    wait_until(
        || "there is room again".to_owned(),
        || {
            let mut next = Redis::stranger(port);
            next.send(&request(&["AUTH", "dba", "c4nary-1"]));
            next.answer().as_deref() == Some("+OK")
        },
    );
    assert_eq!(one.ask("INCR shop.orders"), ":1");
}

/// Who says nothing, and who never stops to talk.
#[test]
fn who_does_not_log_in_is_sent_away() {
    let proxy = alone(&format!("{}[limits]\nhandshake_timeout = \"1s\"\n", config()), GENERATORS);
    let mut silent = Redis::stranger(port(&proxy));
    let mut redis = Redis::stranger(port(&proxy));
    let pings = request(&["PING"]).repeat(1000);
    let stream = redis.stream().try_clone().unwrap();
    let talking = std::thread::spawn(move || while (&stream).write_all(&pings).is_ok() {});
    let mut last = String::new();
    while let Some(answer) = redis.answer() {
        last = answer;
    }
    talking.join().unwrap();
    assert!(last == STRANGER || last.ends_with("no login within limits.handshake_timeout"), "{last}");
    assert_eq!(silent.answer(), None, "before a byte has come it is not known whether it is TLS");
}

/// `serve` starts what `check` passes: the certificate of a door counts only where the door is open.
#[test]
fn a_door_that_is_off_needs_no_certificate() {
    for (address, is_fine) in [("off", true), ("127.0.0.1:0", false)] {
        let text = crate::support::proxy::config("127.0.0.1:1")
            .replace("[backend.control]\nuser = \"root\"\npassword = \"\"\n", "")
            .replace("[backend]\n", "[listen.tls]\nmode = \"disabled\"\n[backend]\n");
        let config = format!("{text}{}", config().replacen("127.0.0.1:0", address, 1));
        let mut proxy = crate::support::Proxy::written(&config, &[("rules", GENERATORS)]);
        std::fs::create_dir(proxy.dir().join("rowstamp.state")).unwrap();
        std::fs::write(proxy.dir().join("rowstamp.state/tls.pem"), "no PEM").unwrap();
        let check = Command::new(crate::support::proxy::binary())
            .args(["check", "--config"])
            .arg(proxy.dir().join("rowstamp.toml"))
            .output()
            .unwrap();
        let told = String::from_utf8([check.stdout, check.stderr].concat()).unwrap();
        let started = proxy.try_start();
        assert_eq!(
            (check.status.success(), started.is_ok()),
            (is_fine, is_fine),
            "{address}: {told} {started:?}"
        );
        for text in [told, started.err().unwrap_or_default()] {
            assert!(is_fine || text.contains("resp.tls.cert = \""), "{address}: {text}");
        }
    }
}
