//! Both vendors' command-line clients and mysql_async, over every pair of transports.

use std::process::Command;

use mysql_async::prelude::Queryable;
use rowstamp::proxy::settings::{BackendTlsMode, ListenTlsMode};

use super::proxy::Proxy;
use super::servers::{Kind, Server, mariadb_11_client, mysql_client};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Tls, Transport::Unix];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    MariaDb,
    MariaDb11,
    MySql9,
    MySqlAsync,
}

/// One line of values, or the error's code and text.
type Answer = Result<String, String>;

const SELECT: &str = "SELECT CURRENT_USER(), DATABASE(), VARIABLE_VALUE <> '' FROM \
    performance_schema.session_status WHERE VARIABLE_NAME = 'Ssl_cipher'";
const SELECT_MARIADB: &str = "SELECT CURRENT_USER(), DATABASE(), VARIABLE_VALUE <> '' FROM \
    information_schema.session_status WHERE VARIABLE_NAME = 'Ssl_cipher'";

fn log_in(client: Client, transport: Transport, proxy: &Proxy, login: (&str, &str), sql: &str) -> Answer {
    if client == Client::MySqlAsync {
        return by_mysql_async(transport, proxy, login, sql);
    }
    let (user, password) = login;
    let mut words = vec!["mariadb".to_owned(), "--no-defaults".to_owned()];
    if client == Client::MySql9 {
        words = mysql_client().unwrap();
        words.push("--get-server-public-key".to_owned());
    }
    if client == Client::MariaDb11 {
        words = mariadb_11_client().unwrap();
        // MariaDB 11 takes a certificate that nobody signed only from the server, which signs it with the password.
        words.push("--disable-ssl-verify-server-cert".to_owned());
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    match transport {
        Transport::Unix => drop(command.arg(format!("--socket={}", proxy.socket.display()))),
        _ => drop(command.args(["-h127.0.0.1", &format!("-P{}", proxy.port)])),
    }
    match (client, transport) {
        (Client::MySql9, Transport::Tls) => {
            // The name is not in the certificate for MySQL's client, which knows no IP addresses there.
            command.arg("--ssl-mode=VERIFY_CA").arg(format!("--ssl-ca={}", proxy.certificate().display()));
        }
        (Client::MySql9, _) => drop(command.arg("--ssl-mode=DISABLED")),
        (_, Transport::Tls) => drop(command.arg("--ssl")),
        _ => drop(command.arg("--skip-ssl")),
    }
    let output =
        command.args([&format!("-u{user}"), &format!("-p{password}"), "d", "-BNe", sql]).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().filter(|line| line.contains("ERROR")).collect())
}

fn by_mysql_async(transport: Transport, proxy: &Proxy, (user, password): (&str, &str), sql: &str) -> Answer {
    let mut options = mysql_async::OptsBuilder::default()
        .user(Some(user))
        .pass(Some(password))
        .db_name(Some("d"))
        .ip_or_hostname("127.0.0.1")
        .tcp_port(proxy.port)
        .prefer_socket(false);
    match transport {
        Transport::Unix => options = options.socket(Some(proxy.socket.to_string_lossy())),
        Transport::Tls => {
            let ssl = mysql_async::SslOpts::default()
                .with_root_certs(vec![proxy.certificate().into()])
                .with_danger_tls_hostname_override(Some("localhost"));
            options = options.ssl_opts(ssl);
        }
        Transport::Tcp => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connected = mysql_async::Conn::new(options).await;
        let mut conn = connected.map_err(|error| error.to_string())?;
        let row: Option<(String, String, i64)> =
            conn.query_first(sql).await.map_err(|error| error.to_string())?;
        let (user, database, tls) = row.unwrap();
        // A failed goodbye is the next login's to notice.
        let _ = conn.disconnect().await;
        Ok(format!("{user}\t{database}\t{tls}"))
    })
}

/// Each of `users` twice by each client over each pair of transports, then with a wrong password; returns what differs
/// from a login and from 1045. `forget` makes the server forget what it cached.
fn matrix(
    server: &Server,
    users: &[&str],
    clients: &[Client],
    sql: &str,
    forget: Option<&str>,
) -> (usize, Vec<String>) {
    let (mut logins, mut wrong) = (0, Vec::new());
    let backends = [
        (Transport::Tcp, BackendTlsMode::Disabled),
        (Transport::Unix, BackendTlsMode::Disabled),
        (Transport::Tls, BackendTlsMode::Required),
        (Transport::Tcp, BackendTlsMode::AsClient),
    ];
    for (to_server, tls) in backends {
        let backend = match to_server {
            Transport::Unix => format!("unix:{}", server.socket.display()),
            _ => format!("127.0.0.1:{}", server.port),
        };
        let proxy = Proxy::start(&backend, ListenTlsMode::Preferred, tls);
        for to_client in TRANSPORTS {
            for (client, user) in
                clients.iter().flat_map(|client| users.iter().map(move |user| (*client, *user)))
            {
                if let Some(forget) = forget {
                    assert!(server.sql(forget).status.success());
                }
                let has_tls = match tls {
                    BackendTlsMode::AsClient => to_client == Transport::Tls,
                    _ => to_server == Transport::Tls,
                };
                let expect = format!("{user}@%\td\t{}", u8::from(has_tls));
                for nth in ["first", "second"] {
                    let answer = log_in(client, to_client, &proxy, (user, "secret"), sql);
                    logins += 1;
                    if answer.as_ref() != Ok(&expect) {
                        wrong.push(format!(
                            "{client:?} {to_client:?}-{to_server:?} ({tls:?}) {user} {nth}: {answer:?}"
                        ));
                    }
                }
                let refused = log_in(client, to_client, &proxy, (user, "wrong"), sql);
                if !refused.as_ref().is_err_and(|text| text.contains("1045")) {
                    wrong.push(format!(
                        "{client:?} {to_client:?}-{to_server:?} {user} wrong password: {refused:?}"
                    ));
                }
            }
        }
    }
    (logins, wrong)
}

fn clients() -> Vec<Client> {
    let mut clients = vec![Client::MariaDb, Client::MySqlAsync];
    if mysql_client().is_some() {
        clients.push(Client::MySql9);
    }
    clients
}

#[test]
fn mariadb() {
    let Some(server) = Server::start(Kind::MariaDb) else { return };
    let made = server.sql(
        "CREATE DATABASE d; CREATE USER native IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO native; \
         CREATE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('secret'); GRANT ALL ON *.* TO ed",
    );
    assert!(made.status.success(), "{made:?}");
    let (logins, wrong) = matrix(&server, &["native"], &clients(), SELECT_MARIADB, None);
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
    // Only MariaDB's own client has this plugin.
    let (logins, wrong) = matrix(&server, &["ed"], &[Client::MariaDb], SELECT_MARIADB, None);
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
}

#[test]
fn mariadb_11() {
    let Some(server) = Server::start(Kind::MariaDb11) else { return };
    let made = server.sql(
        "CREATE DATABASE d; CREATE USER native IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO native; \
         CREATE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('secret'); GRANT ALL ON *.* TO ed; \
         CREATE USER parsec IDENTIFIED VIA parsec USING PASSWORD('secret'); GRANT ALL ON *.* TO parsec",
    );
    assert!(made.status.success(), "{made:?}");
    let (logins, wrong) = matrix(&server, &["native"], &clients(), SELECT_MARIADB, None);
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
    let users = ["native", "ed", "parsec"];
    let (logins, wrong) = matrix(&server, &users, &[Client::MariaDb11], SELECT_MARIADB, None);
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
}

#[test]
fn mysql9() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    let made = server.sql(
        "CREATE DATABASE d; CREATE USER sha2 IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO sha2; \
         CREATE USER sha256 IDENTIFIED WITH sha256_password BY 'secret'; GRANT ALL ON *.* TO sha256",
    );
    assert!(made.status.success(), "{made:?}");
    let (logins, wrong) = matrix(&server, &["sha2"], &clients(), SELECT, Some("FLUSH PRIVILEGES"));
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
    // mysql_async does not have this plugin.
    let command_line: Vec<Client> =
        clients().into_iter().filter(|client| *client != Client::MySqlAsync).collect();
    let (logins, wrong) = matrix(&server, &["sha256"], &command_line, SELECT, None);
    assert_eq!((logins > 0, &wrong[..]), (true, &[][..]), "{} of {logins}", wrong.len());
}
