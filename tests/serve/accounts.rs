//! Users of the store: made on the console, known to all proxies of the store, asked at each door.

use std::fs;
use std::process::Command;

use crate::console::typed_as;
use crate::fleet::hasty;
use crate::http::get;
use crate::in_table;
use crate::resp::client::{GENERATORS, Redis, alone, config, port, request};
use crate::rig::{INSERT, code, each_with, execute, insert_id, make, message, prepare, rows, rules, server};
use crate::support::etcd::Version;
use crate::support::machine::{announce, find_program, sid_command, sid_root};
use crate::support::raw::{Client, Options};
use crate::support::servers::free_port;
use crate::support::wait::wait_until;
use crate::support::{Etcd, Kind, Proxy};

const PASSWORD: &str = "c4nary-of-app";
const STRANGER: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// By a user of the file that may do everything; nothing but OK.
#[track_caller]
fn done(proxy: &Proxy, statement: &str) {
    assert_eq!(typed_as("c4nary-1", proxy, statement), "", "{statement}");
}

fn create(proxy: &Proxy) {
    done(proxy, &format!("CREATE USER app IDENTIFIED BY '{PASSWORD}'"));
}

/// A token of app's, and its id.
fn token(proxy: &Proxy) -> (String, String) {
    let row = typed_as("c4nary-1", proxy, "CREATE TOKEN FOR app");
    let [user, token, id, expires] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
    assert_eq!((user, expires), ("app", "NULL"));
    (token.to_owned(), id.to_owned())
}

fn logged_in(port: u16, secret: &str) -> Redis {
    let mut redis = Redis::stranger(port);
    assert_eq!(redis.ask(&format!("AUTH app {secret}")), "+OK");
    redis
}

fn denied(right: &str, generator: &str) -> String {
    format!("-NOPERM user app has no {right} right on generator \"{generator}\"")
}

/// In a file, in etcd, and in a table: each change is felt by connections that are open, and a restart forgets nothing.
#[test]
fn in_each_kind_of_store() {
    let rules = format!("{GENERATORS}[generators.items]\nkind = \"sequence\"\n");
    let run = |proxy: &mut Proxy| {
        create(proxy);
        let (token, id) = token(proxy);
        let [mut by_password, mut by_token] = [PASSWORD, &token].map(|secret| logged_in(port(proxy), secret));
        let orders = "INCR shop.orders";
        assert_eq!(by_password.ask(orders), denied("TAKE", "shop.orders"));
        assert_eq!(by_password.ask("GET shop.orders"), denied("READ", "shop.orders"));
        assert_eq!(by_password.ask("ROWSTAMP.LIST"), "*0");
        done(proxy, "GRANT TAKE, READ ON shop.orders TO app");
        assert_eq!((by_password.ask(orders), by_token.ask(orders)), (":1".into(), ":2".into()));
        assert_eq!(by_token.ask("INCR shop.items"), denied("TAKE", "shop.items"));
        assert_eq!(by_token.ask("ROWSTAMP.LIST"), "*1 $11 shop.orders");
        done(proxy, "GRANT TAKE ON shop.* TO app");
        assert_eq!(by_token.ask("INCR shop.items"), ":1");
        assert_eq!(by_token.ask("GET shop.items"), denied("READ", "shop.items"));
        done(proxy, "REVOKE TAKE ON shop.orders FROM app");
        done(proxy, "REVOKE TAKE ON shop.* FROM app");
        for redis in [&mut by_password, &mut by_token] {
            assert_eq!(redis.ask(orders), denied("TAKE", "shop.orders"));
        }
        done(proxy, "GRANT TAKE ON *.* TO app");
        done(proxy, "ALTER USER app IDENTIFIED BY 'c4nary-another'");
        assert_eq!((by_password.ask(orders), by_token.ask(orders)), (STRANGER.into(), ":3".into()));
        assert_eq!(Redis::stranger(port(proxy)).ask(&format!("AUTH app {PASSWORD}")), WRONG);
        proxy.restart();
        // Ids that were reserved at the end of a process may be a gap.
        let mut by_token = logged_in(port(proxy), &token);
        assert!(by_token.id(orders) > 3);
        let shown = typed_as("c4nary-1", proxy, "SHOW GRANTS FOR app");
        assert!(shown.contains("GRANT READ ON shop.orders TO 'app'"), "{shown}");
        assert!(typed_as("c4nary-1", proxy, "SHOW TOKENS").starts_with(&format!("app\t{id}\t20")));
        done(proxy, &format!("DROP TOKEN {id} FOR app"));
        assert_eq!(by_token.ask(orders), STRANGER);
        let mut by_password = logged_in(port(proxy), "c4nary-another");
        assert!(by_password.id(orders) > 4);
        done(proxy, "DROP USER app");
        assert_eq!(by_password.ask(orders), STRANGER);
        // Another of that name has no right of the first one's.
        create(proxy);
        assert_eq!(logged_in(port(proxy), PASSWORD).ask(orders), denied("TAKE", "shop.orders"));
    };
    run(&mut alone(&config(), &rules));
    let Some(server) = server(Kind::MariaDb) else { return };
    let in_table = in_table::config(server, "p1", "accounts.bounds");
    server.client().run("CREATE DATABASE accounts");
    run(&mut Proxy::start(&format!("{in_table}{}", config()), &[("rules", &rules)]));
    if let Some(etcd) = Etcd::start(Version::ALL[0], 1) {
        run(&mut Proxy::start(&format!("{}{}", hasty(server, &etcd, "p1"), config()), &[("rules", &rules)]));
    }
}

/// Each error names the culprit and the remedy, and changes nothing.
#[test]
fn what_cannot_be_done() {
    let proxy = alone(&config(), GENERATORS);
    create(&proxy);
    for (statement, expect) in [
        ("CREATE USER app", "user app exists already; ALTER USER gives another password"),
        (
            "CREATE USER look",
            "user look is in rowstamp.toml (admin.users), which says the password and the role",
        ),
        ("GRANT TAKE ON *.* TO look", "user look is in rowstamp.toml (admin.users)"),
        ("GRANT TAKE ON *.* TO apps", "there is no user apps; SHOW USERS lists all"),
        ("REVOKE TAKE ON *.* FROM app", "user app has no TAKE right granted ON *.*; SHOW GRANTS FOR app"),
        ("GRANT READ ON *.* TO app LIMIT 5 PER SECOND", "LIMIT is for the right TAKE alone"),
        ("GRANT TAKE ON orders TO app", "found orders, expected schema.name, schema.* or *.*"),
        ("CREATE TOKEN FOR app EXPIRES '2020-01-01'", "the time after EXPIRES has passed"),
        ("CREATE USER app2 IDENTIFIED BY ''", "a password has 1 to 1024 bytes"),
    ] {
        let told = typed_as("c4nary-1", &proxy, statement);
        assert!(told.contains("ERROR 1") && told.contains(expect), "{statement}: {told}");
    }
    assert_eq!(
        typed_as("c4nary-1", &proxy, "SELECT user, home FROM users"),
        "app\tstore\ndba\trowstamp.toml\nlook\trowstamp.toml"
    );
}

/// A LIMIT refuses what is above it, and what is refused draws nothing.
#[test]
fn quotas() {
    let proxy = alone(&config(), GENERATORS);
    create(&proxy);
    done(&proxy, "GRANT TAKE ON shop.* TO app LIMIT 10 PER SECOND");
    let mut redis = logged_in(port(&proxy), PASSWORD);
    assert_eq!(
        redis.ask("INCRBY shop.orders 11"),
        "-ERR QUOTA user app may draw 10 ids a second of generator shop.orders (LIMIT); ask for at most 10 at once"
    );
    // However slow this machine is, so many do not fit.
    let one = request(&["INCR", "shop.orders"]);
    redis.send(&one.repeat(2_000));
    let answers: Vec<_> = (0..2_000).map(|_| redis.answer().unwrap()).collect();
    let ids: Vec<_> = answers.iter().filter(|answer| answer.starts_with(':')).cloned().collect();
    assert!((10..2_000).contains(&ids.len()), "{}", ids.len());
    assert_eq!(ids, (1..=ids.len()).map(|id| format!(":{id}")).collect::<Vec<_>>(), "no id is lost");
    let refused = answers.iter().find(|answer| !answer.starts_with(':')).unwrap();
    let expect = "-ERR QUOTA user app may draw 10 ids a second of generator shop.orders (LIMIT), and has drawn them; try again in 0.";
    assert!(refused.starts_with(expect), "{refused}");
    wait_until(|| "its time has passed".to_owned(), || redis.ask("INCRBY shop.orders 10").starts_with(':'));
    done(&proxy, "GRANT TAKE ON shop.* TO app");
    assert!(redis.ask("INCRBY shop.orders 5000").starts_with(':'), "the limit is no more");
}

/// Calls in SQL are asked about too, where a user of ours has the name that the session has at the server. INSERTs are the
/// server's to allow.
#[test]
fn calls_in_sql() {
    const DB: &str = "accounts_sql";
    let rules = rules(DB).replace("kind = \"sequence\"", "kind = \"sequence\"\nsql = true");
    each_with(DB, "", &config(), &rules, |rig| {
        let name = rig.name();
        rig.direct().run("CREATE USER app");
        rig.direct().run(format!("GRANT ALL ON {DB}.* TO app"));
        let client = |user: &str| {
            let options =
                Options { user: user.to_owned(), database: Some(DB.to_owned()), ..Options::default() };
            Client::connect(&rig.proxy.address(), &options).unwrap()
        };
        let (mut app, mut root) = (client("app"), client("root"));
        let next = "SELECT NEXTVAL(g)";
        assert_eq!(rows(&mut app, next), "1", "{name}: no user of ours has the name");
        let prepared = prepare(&mut app, next);
        create(&rig.proxy);
        for sql in
            [next, "DO NEXTVAL(g)", "INSERT INTO u VALUES (NEXTVAL(g), 1)", "SELECT ROWSTAMP_TAKE(g, 5)"]
        {
            assert_eq!(code(&mut app, sql), 1142, "{name}: {sql}");
            let expect =
                format!("user app has no TAKE right on generator {DB}.g; GRANT on the console gives it");
            let told = message(&mut app, sql);
            assert!(told.contains(&expect), "{name}: {told}");
        }
        assert_eq!(execute(&mut app, prepared.id, &[]), 1142, "{name}");
        assert_eq!(rows(&mut app, "SELECT LASTVAL(g)"), "1", "{name}: its own");
        assert_eq!(rows(&mut root, next), "2", "{name}: nothing was drawn");
        assert_eq!(insert_id(&mut app, INSERT), 3, "{name}");
        done(&rig.proxy, &format!("GRANT TAKE ON {DB}.g TO app LIMIT 5 PER SECOND"));
        assert_eq!((rows(&mut app, next), execute(&mut app, prepared.id, &[])), ("4".into(), 0), "{name}");
        let six = "SELECT ROWSTAMP_TAKE(g, 6)";
        assert_eq!(code(&mut app, six), 1467, "{name}");
        let told = message(&mut app, six);
        assert!(told.contains("(LIMIT); ask for at most 5 at once"), "{name}: {told}");
        assert_eq!(rows(&mut root, "SELECT NEXTVAL(g)"), "6", "{name}: nothing was drawn");
        done(&rig.proxy, "DROP USER app");
        assert_eq!(code(&mut app, "SELECT ROWSTAMP_TAKE(g, 100)"), 0, "{name}: the server decides again");
    });
}

/// All proxies learn a change at one of them. The users that they know stay while the store does not answer.
#[test]
fn a_fleet() {
    const DB: &str = "accounts_fleet";
    let Some(server) = server(Kind::MariaDb) else { return };
    make(server, DB, "");
    let Some(etcd) = Etcd::start(Version::ALL[0], 1) else { return };
    let rules = rules(DB);
    let start = |name: &str| {
        let config = format!("{}{}[users]\nstale_max = \"10m\"\n", hasty(server, &etcd, name), config());
        Proxy::start(&config, &[("rules", &rules)])
    };
    let (first, second, mut hasty) = (start("p1"), start("p2"), start("p3"));
    create(&first);
    done(&first, &format!("GRANT TAKE ON {DB}.* TO app"));
    let (line, login) = (format!("INCR {DB}.g"), format!("AUTH app {PASSWORD}"));
    let knows = |proxy: &Proxy| {
        let port = port(proxy);
        wait_until(|| proxy.log(), || Redis::stranger(port).ask(&login) == "+OK");
        logged_in(port, PASSWORD)
    };
    let mut clients = [knows(&first), knows(&second), knows(&hasty)];
    for client in &mut clients {
        wait_until(|| "the grant".to_owned(), || client.ask(&line).starts_with(':'));
    }
    done(&second, &format!("REVOKE TAKE ON {DB}.* FROM app"));
    for client in &mut clients {
        wait_until(|| "the revoke".to_owned(), || client.ask(&line).starts_with("-NOPERM"));
    }
    done(&first, &format!("GRANT TAKE ON {DB}.* TO app"));
    for client in &mut clients {
        wait_until(|| "the grant".to_owned(), || client.ask(&line).starts_with(':'));
    }
    // Before now a pause of this machine would have ended its logins.
    let file = hasty.dir().join("rowstamp.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("stale_max = \"10m\"", "stale_max = \"1s\"")).unwrap();
    assert!(hasty.reload().0);
    etcd.signal(0, "STOP");
    // Users that are known stay, and what needs the store fails.
    let told = typed_as("c4nary-1", &first, "CREATE USER other");
    assert!(told.contains("ERROR ") && told.contains("is not available"), "{told}");
    assert!(clients[0].ask(&line).starts_with(':'));
    assert_eq!(logged_in(port(&second), PASSWORD).ask("PING"), "+PONG");
    // A proxy that has not read the users for too long calls no password wrong.
    let unknown =
        "-TRYAGAIN the users of the store are not known at present, since the store does not answer";
    wait_until(|| hasty.log(), || Redis::stranger(port(&hasty)).ask(&login) == unknown);
    assert_eq!((clients[2].ask(&line), Redis::of(&hasty).ask("PING")), (STRANGER.into(), "+PONG".into()));
    let version = typed_as("c4nary-1", &hasty, "SHOW VERSION");
    assert!(version.contains("check users\tthe users of the store cannot log in"), "{version}");
    // The same at a start.
    hasty.restart();
    assert_eq!(Redis::stranger(port(&hasty)).ask(&login), unknown);
    etcd.signal(0, "CONT");
    wait_until(|| hasty.log(), || Redis::stranger(port(&hasty)).ask(&login) == "+OK");
    done(&first, "DROP USER app");
    for client in &mut clients[..2] {
        wait_until(|| "the end".to_owned(), || client.ask(&line) == STRANGER);
    }
}

/// A client that comes while one process takes over from another is never told that its password is wrong.
#[test]
fn while_a_process_takes_over() {
    let mut proxy = alone(&config(), GENERATORS);
    create(&proxy);
    let port = port(&proxy);
    for _ in 0..3 {
        let before = proxy.take_over();
        loop {
            let mut redis = Redis::stranger(port);
            redis.send(&request(&["AUTH", "app", PASSWORD]));
            match redis.answer() {
                Some(answer) if answer == "+OK" && !before.is_running() => break,
                Some(answer) => assert!(answer == "+OK" || answer.starts_with("-TRYAGAIN "), "{answer}"),
                None => {}
            }
        }
    }
}

/// The command-line clients of both vendors, as a user of the store: it sends its password, so over TLS or the Unix socket alone.
#[test]
fn at_the_console() {
    let tcp = alone(&config(), GENERATORS);
    let unix = alone(
        &config().replace("[admin]\naddress = \"127.0.0.1:0\"", "[admin]\naddress = \"unix:admin.sock\""),
        GENERATORS,
    );
    let socket = format!("--socket={}", unix.dir().join("admin.sock").display());
    // The users of the proxy with the socket are made by a client over that socket.
    let as_dba = |statement: &str| {
        let output = Command::new("mariadb")
            .args(["--no-defaults", &socket, "-udba", "-pc4nary-1", "-e", statement])
            .output();
        assert!(output.unwrap().status.success(), "{statement}");
    };
    create(&tcp);
    as_dba(&format!("CREATE USER app IDENTIFIED BY '{PASSWORD}'"));
    let (secret, _) = token(&tcp);
    let port = format!("-P{}", crate::console::port(&tcp));
    let mut clients = vec![(vec!["mariadb".to_owned()], ["--ssl", "--skip-ssl"])];
    if sid_root().join("usr/bin/mysql").exists() {
        let mut words = sid_command("usr/bin/mysql");
        words.extend(["--no-defaults".to_owned()]);
        words.push(format!("--plugin-dir={}/usr/lib/mysql/plugin", sid_root().display()));
        clients.push((words, ["--ssl-mode=REQUIRED", "--ssl-mode=DISABLED"]));
    } else {
        announce("SKIPPED: accounts: the client of MySQL is not on this machine");
    }
    assert!(find_program("mariadb").is_some());
    for (words, [tls, plain]) in clients {
        let run = |password: &str, arguments: &[&str], statement: &str| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            if words.len() == 1 {
                command.arg("--no-defaults");
            }
            let output = command.args(arguments).args(["-uapp", &format!("-p{password}"), "-BNe", statement]);
            let output = output.output().unwrap();
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            let lines = text.lines().filter(|line| !line.contains("on the command line"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let over_tls = ["-h127.0.0.1", &port, tls];
        for password in [PASSWORD, &secret] {
            assert_eq!(run(password, &over_tls, "SELECT CURRENT_USER()"), "app@%", "{words:?}");
        }
        assert_eq!(run(PASSWORD, &[&socket], "SELECT CURRENT_USER()"), "app@%", "{words:?}");
        let denied = run(PASSWORD, &over_tls, "SHOW RULES");
        assert!(
            denied.contains("SHOW RULES needs the right READ ON *.*, which user app does not have"),
            "{denied}"
        );
        let denied = run(PASSWORD, &["-h127.0.0.1", &port, plain], "SELECT 1");
        assert!(
            denied.contains("a user of the store logs in over TLS or the Unix socket"),
            "{words:?}: {denied}"
        );
        // Tries that come too soon after one another are not looked at: each client waits for its turn.
        let wrong = || run("c4nary-wrong", &over_tls, "SELECT 1");
        wait_until(wrong, || {
            wrong().contains("Access denied for user 'app' to the console (using password: YES)")
        });
        wait_until(wrong, || run(PASSWORD, &over_tls, "SELECT 1") == "1");
    }
}

/// Neither where changes are noted, nor anywhere else: each proxy's log and audit file are looked at by [`Proxy`] itself.
#[test]
fn what_was_changed_is_noted_and_no_secret_is_told() {
    let http = free_port();
    let mut proxy =
        alone(&format!("{}[log]\nlevel = \"trace\"\naudit = \"audit.log\"\n", config()), GENERATORS);
    let file = proxy.dir().join("rowstamp.toml");
    let text = fs::read_to_string(&file).unwrap();
    let with_http = format!("[http]\naddress = \"127.0.0.1:{http}\"");
    fs::write(&file, text.replace("[http]\naddress = \"off\"", &with_http)).unwrap();
    proxy.restart();
    create(&proxy);
    let (token, _) = token(&proxy);
    done(&proxy, "GRANT TAKE ON shop.* TO app LIMIT 9 PER SECOND");
    assert_eq!(logged_in(port(&proxy), &token).ask("INCR shop.orders"), ":1");
    // People make this mistake: the token itself in the place of its id.
    done(&proxy, &format!("DROP TOKEN {token} FOR app"));
    assert_eq!(typed_as("c4nary-1", &proxy, "SHOW TOKENS"), "");
    // Or where a name is meant.
    for statement in [
        format!("GRANT TAKE ON shop.* TO {token}"),
        format!("GRANT TAKE ON shop.{token} TO app"),
        format!("REVOKE TAKE ON shop.* FROM '{token}'"),
        format!("CREATE TOKEN FOR `{token}`"),
        format!("DROP TOKEN 0123456789ab FOR {token}"),
        format!("DROP USER {token}"),
        format!("RAISE GENERATOR {token} TO 9"),
    ] {
        let told = typed_as("c4nary-1", &proxy, &statement);
        assert!(told.contains("found a token, expected"), "{statement}: {told}");
    }
    assert_eq!(Redis::stranger(port(&proxy)).ask(&format!("AUTH {token} x")), WRONG);
    let at_console = format!("-P{}", crate::console::port(&proxy));
    let line = ["--no-defaults", "--skip-ssl", "-h127.0.0.1", &at_console, &format!("-u{token}"), "-px"];
    assert!(!Command::new("mariadb").args(line).output().unwrap().status.success());
    assert!(typed_as("c4nary-1", &proxy, "DROP USER nobody").contains("there is no user nobody"));
    let noted = || fs::read_to_string(proxy.dir().join("audit.log")).unwrap_or_default();
    wait_until(noted, || noted().contains("DROP USER"));
    for expect in [
        r#""user":"dba","client":"127.0.0.1","change":"CREATE USER 'app'"}"#,
        r#""change":"CREATE TOKEN FOR 'app'"}"#,
        r#""change":"GRANT TAKE ON shop.* TO 'app' LIMIT 9 PER SECOND"}"#,
        r#""change":"DROP USER 'nobody'","error":"there is no user nobody; SHOW USERS lists all"}"#,
        r#""door":"resp","connection":"#,
    ] {
        assert!(noted().contains(expect), "{expect}: {}", noted());
    }
    let mut told = noted() + &proxy.log();
    for shown in ["USERS", "GRANTS", "TOKENS", "STATS", "CONFIG", "VERSION", "GENERATORS"] {
        told += &typed_as("c4nary-1", &proxy, &format!("SHOW {shown}"));
    }
    for page in ["/metrics", "/status.json"] {
        told += &get(http, page).unwrap().1;
    }
    for secret in ["c4nary", &token[..20], "argon2"] {
        let line = told.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
