//! Both vendors' command-line clients, PyMySQL and MySQL Connector/J, over every transport that they have.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::console::rig::{Console, TlsMode};
use crate::support::machine::{announce, find_program, sid_command, sid_root};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    MariaDb,
    MySql9,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Tls, Transport::Unix];

/// The clients that this machine has; the others are announced as skipped.
fn clients() -> Vec<Client> {
    let here = [
        (Client::MariaDb, find_program("mariadb").is_some()),
        (Client::MySql9, sid_root().join("usr/bin/mysql").exists()),
    ];
    let (here, absent): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, is_here)| *is_here);
    for (client, _) in absent {
        announce(&format!("SKIPPED: {client:?}'s client is not on this machine"));
    }
    here.into_iter().map(|(client, _)| client).collect()
}

fn command(client: Client, transport: Transport, console: &Console) -> Command {
    let mut words = match client {
        Client::MariaDb => vec!["mariadb".to_owned(), "--no-defaults".to_owned()],
        Client::MySql9 => {
            let mut words = sid_command("usr/bin/mysql");
            // The client of MySQL does its own commands, \G among them, only if its options say so.
            words.extend(["--no-defaults".to_owned(), "--commands".to_owned()]);
            words.push(format!("--plugin-dir={}/usr/lib/mysql/plugin", sid_root().display()));
            words
        }
    };
    words.push(match (client, transport) {
        (Client::MariaDb, Transport::Tls) => "--ssl".to_owned(),
        (Client::MariaDb, _) => "--skip-ssl".to_owned(),
        (Client::MySql9, Transport::Tls) => "--ssl-mode=REQUIRED".to_owned(),
        (Client::MySql9, _) => "--ssl-mode=DISABLED".to_owned(),
    });
    match transport {
        Transport::Unix => words.push(format!("--socket={}", console.socket.display())),
        _ => words.extend(["-h127.0.0.1".to_owned(), format!("-P{}", console.port)]),
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&both).into_owned();
    let no_news = |line: &&str| !line.contains("Using a password") && !line.trim().is_empty();
    text.lines().filter(no_news).collect::<Vec<_>>().join("\n")
}

fn run(client: Client, transport: Transport, console: &Console, arguments: &[&str]) -> String {
    text(&command(client, transport, console).args(arguments).output().unwrap())
}

#[test]
fn logins_over_every_transport() {
    for client in clients() {
        let console = Console::start();
        for transport in TRANSPORTS {
            let secure = if transport == Transport::Tls { "TLS" } else { "" };
            for (user, password) in [("dba", "s3crët"), ("guest", "look")] {
                let login = [&*format!("-u{user}"), &*format!("-p{password}"), "shop", "-BNe"];
                let select =
                    [&login[..], &["SELECT CURRENT_USER(), DATABASE(); SHOW STATUS LIKE 'Ssl_cipher'"]]
                        .concat();
                let expect = format!("{user}@%\tshop\nSsl_cipher\t{secure}");
                assert_eq!(run(client, transport, &console, &select), expect, "{client:?} {transport:?}");
            }
        }
        // Last, because logins after these have to wait.
        for (transport, login) in TRANSPORTS.into_iter().zip(["-unobody", "-uguest", "-udba"]) {
            let told = run(client, transport, &console, &[login, "-pwrong", "-BNe", "SELECT 1"]);
            assert!(told.contains("ERROR 1045 (28000)"), "{client:?} {transport:?}: {told}");
        }
        let told = run(client, Transport::Tcp, &console, &["-unobody2", "-BNe", "SELECT 1"]);
        assert!(told.contains("(using password: NO)"), "{client:?}: {told}");
    }
}

#[test]
fn tls_where_it_is_required() {
    for client in clients() {
        let console = Console::start_with(TlsMode::Required);
        let login = ["-udba", "-ps3crët", "-BNe", "SELECT 1"];
        assert_eq!(run(client, Transport::Tls, &console, &login), "1");
        assert!(run(client, Transport::Tcp, &console, &login).contains("ERROR 3159"));
        assert_eq!(run(client, Transport::Unix, &console, &login), "1");
    }
}

const DBA: [&str; 2] = ["-udba", "-ps3crët"];

/// Statements as a person types them, with what the client prints, as a table.
#[test]
fn what_a_person_types_and_reads() {
    let rules = "\
+-------------+--------+-------------+----------+-----------+------+-------------+--------+-------------------+
| table       | column | generator   | explicit | insert_id | mode | unavailable | tables | origin            |
+-------------+--------+-------------+----------+-----------+------+-------------+--------+-------------------+
| shop.items  | id     | shop.orders | advance  | session   | on   | refuse      |      1 | rules/shop.toml:7 |
| shop.orders | id     | shop.orders | advance  | session   | on   | refuse      |      1 | rules/shop.toml:7 |
+-------------+--------+-------------+----------+-----------+------+-------------+--------+-------------------+";
    let sessions = "\
+----+-------+------+----------------+----------+-------------------+-----+-------------+---------------+------------+-----------+---------+-----+----------+-----------+------------------------------------+------------------+
| id | state | user | client         | database | server_connection | tls | age_seconds | state_seconds | statements | rewritten | refused | ids | bytes_in | bytes_out | last_ruled                         | last_digest      |
+----+-------+------+----------------+----------+-------------------+-----+-------------+---------------+------------+-----------+---------+-----+----------+-----------+------------------------------------+------------------+
|  7 | idle  | app  | 10.0.0.5:50123 | shop     |                41 | yes |          61 |           2.5 |         20 |         5 |       1 |   9 |     4096 |     65536 | INSERT INTO orders(a) VALUES (...) | fedcba9876543210 |
+----+-------+------+----------------+----------+-------------------+-----+-------------+---------------+------------+-----------+---------+-----+----------+-----------+------------------------------------+------------------+";
    let explained = "\
+------------------------------------------+
| rewrite                                  |
+------------------------------------------+
| in shop:                                 |
| INSERT INTO orders (a) VALUES ('ä;', ?) |
+------------------------------------------+";
    for client in clients() {
        let console = Console::start();
        let typed = |statement: &str| {
            run(client, Transport::Tcp, &console, &[&DBA[..], &["--table", "-e", statement]].concat())
        };
        assert_eq!(typed("SHOW RULES"), rules, "{client:?}");
        assert_eq!(typed("show sessions;"), sessions, "{client:?}");
        let told = typed("EXPLAIN REWRITE IN shop INSERT INTO orders (a) VALUES ('ä;', ?)");
        // Clients count the width of what is not ASCII in their own ways.
        let plain = |text: &str| text.replace([' ', '-', '+'], "");
        assert_eq!(plain(&told), plain(explained), "{client:?}");
        assert!(
            typed("USE shop; EXPLAIN REWRITE INSERT INTO t VALUES (1)").contains("in shop:"),
            "{client:?}"
        );
        assert_eq!(typed("SHOW SLOTS LIKE 'x'"), "", "{client:?}");
        let generators = typed("SHOW GENERATORS\\G");
        assert!(
            generators.contains("issued_ids: 18446744073709551615") && generators.contains("node: NULL"),
            "{generators}"
        );
        assert!(typed("SHOW STATS").contains("rowstamp_ids_issued_total"), "{client:?}");
        for (statement, error) in [
            (
                "SHOW RULSE",
                "ERROR 1064 (42000) at line 1: the console does not know SHOW RULSE (did you mean SHOW RULES?); SHOW COMMANDS lists the commands",
            ),
            (
                "RAISE GENERATOR größe TO 7",
                "ERROR 1105 (HY000) at line 1: the rules have no generator größe; SHOW GENERATORS lists all",
            ),
            ("KILL 8", "ERROR 1105 (HY000) at line 1: there is no session 8; SHOW SESSIONS lists all"),
            (
                "SELECT * FROM orders",
                "ERROR 1235 (42000) at line 1: this is Rowstamp's console, which has no tables",
            ),
            (
                "INSERT INTO orders VALUES (1)",
                "ERROR 1064 (42000) at line 1: the console does not know INSERT",
            ),
        ] {
            let told = typed(statement);
            // With --table MariaDB's client repeats the statement first.
            assert!(told.contains(error), "{client:?} {statement}: {told}");
        }
        let reloaded = typed("RELOAD RULES DRY RUN");
        assert!(
            reloaded.contains("rules: 2, generators: 2; all would be active")
                && reloaded.contains("table shop.t is new"),
            "{reloaded}"
        );
        let raised = typed("RAISE GENERATOR shop.orders TO 20000");
        assert!(raised.contains("| shop.orders |        10001 |     20000 |"), "{raised}");
        for statement in ["PAUSE GENERATOR shop.orders", "RESUME GENERATOR shop.orders", "KILL 7", "DRAIN"] {
            assert!(!typed(statement).contains("ERROR"), "{statement}");
        }
        assert_eq!(
            console.done(),
            [
                "reload dry_run=true",
                "raise shop.orders 20000",
                "pause shop.orders true",
                "pause shop.orders false",
                "kill 7",
                "drain",
            ]
        );
        let look = |statement: &str| {
            run(client, Transport::Tcp, &console, &["-uguest", "-plook", "-BNe", statement])
        };
        assert!(look("SHOW RULES").starts_with("shop.items\tid"), "{client:?}");
        let denied = "ERROR 1227 (42000) at line 1: Access denied; DRAIN needs the right ADMIN ON *.*, which user guest does not have";
        assert!(look("DRAIN").contains(denied), "{client:?}");
        assert_eq!(console.done().len(), 6);
    }
}

/// The clients send HELP in quotes, and print it by its columns.
#[test]
fn help_as_the_clients_print_it() {
    for client in clients() {
        let console = Console::start();
        let mut child = command(client, Transport::Tcp, &console)
            .args(DBA)
            .arg("--force")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let typed = b"help raise generator\nhelp show\nhelp contents\nstatus\n";
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed).unwrap();
        let told = text(&child.wait_with_output().unwrap());
        for expect in [
            "Name: 'RAISE GENERATOR'",
            "RAISE GENERATOR schema.name TO number",
            "Needs ADMIN.",
            "SHOW SESSIONS",
            "help category: \"Contents\"",
            "Current user:\t\tdba@127.0.0.1",
        ] {
            assert!(told.contains(expect), "{client:?} {expect:?}: {told}");
        }
        assert!(!told.contains("ERROR"), "{client:?}: {told}");
    }
}

fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers")
}

/// A program of tests/drivers, which says "ok NAME: N checks" where all is well; skipped, loudly, where it is not installed,
/// or was before its `source` changed.
fn program(language: &str, (needs, source): (&str, Option<&str>), line: &[&str]) {
    let folder = drivers().join(language);
    let changed = |path: &str| folder.join(path).metadata().and_then(|metadata| metadata.modified()).ok();
    let lacks = match changed(needs) {
        None => "is not there",
        made if source.is_some_and(|source| changed(source) > made) => "is older than its source",
        Some(_) => "",
    };
    if !lacks.is_empty() {
        announce(&format!(
            "SKIPPED: tests/drivers/{language}/{needs} {lacks}: tests/drivers/run.sh installs it"
        ));
        return;
    }
    let console = Console::start();
    let output = Command::new(if line[0].starts_with('.') { folder.join(line[0]) } else { line[0].into() })
        .args(&line[1..])
        .current_dir(&folder)
        .env("ROWSTAMP_HOST", "127.0.0.1")
        .env("ROWSTAMP_PORT", console.port.to_string())
        .env("ROWSTAMP_USER", "dba")
        .env("ROWSTAMP_PASSWORD", "s3crët")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let told = text(&output);
    assert!(output.status.success() && told.lines().any(|line| line.starts_with("ok ")), "{told}");
    assert_eq!(console.done(), ["reload dry_run=true", "raise shop.orders 20000"]);
}

#[test]
fn pymysql() {
    program("python", (".venv/bin/python", None), &[".venv/bin/python", "console/main.py"]);
}

#[test]
fn connector_j() {
    program(
        "java",
        ("target/classes/drivers/Console.class", Some("src/main/java/drivers/Console.java")),
        &["java", "-cp", "target/classes:target/lib/*", "drivers.Console"],
    );
}
