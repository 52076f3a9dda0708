//! Clients that have the RSA key on disk with which they encrypt their password over a plain connection.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rowstamp::proxy::rsa_key::RsaKey;
use rowstamp::proxy::settings::{BackendTlsMode, ListenTlsMode};

use super::proxy::Proxy;
use super::servers::{Kind, Server, mysql_client};

/// By TCP without TLS; the user, or the error.
fn log_in(proxy: &Proxy, user: &str, password: &str, key: Option<&Path>) -> Result<String, String> {
    let words = mysql_client().unwrap();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["-h127.0.0.1", &format!("-P{}", proxy.port), "--ssl-mode=DISABLED"]);
    command.args([&format!("-u{user}"), &format!("-p{password}"), "-BNe", "SELECT CURRENT_USER()"]);
    command.arg(match key {
        Some(key) => format!("--server-public-key-path={}", key.display()),
        None => "--get-server-public-key".to_owned(),
    });
    let output = command.output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().filter(|line| line.contains("ERROR")).collect())
}

/// A key of openssl's in both forms, for whoever is not the server.
fn another_key(folder: &Path) -> (PathBuf, PathBuf) {
    let (private, public) = (folder.join("another.pem"), folder.join("another.pub"));
    let run =
        |words: &[&str]| assert!(Command::new("openssl").args(words).output().unwrap().status.success());
    run(&["genrsa", "-out", private.to_str().unwrap(), "2048"]);
    run(&["rsa", "-in", private.to_str().unwrap(), "-pubout", "-out", public.to_str().unwrap()]);
    (private, public)
}

#[test]
fn a_pinned_key() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    let made = server.sql(
        "CREATE USER sha2 IDENTIFIED BY 'secret'; \
         CREATE USER sha256 IDENTIFIED WITH sha256_password BY 'secret'",
    );
    assert!(made.status.success(), "{made:?}");
    let folder = tempfile::tempdir().unwrap();
    let (another, another_public) = another_key(folder.path());
    let (servers, servers_public) = (server.data("private_key.pem"), server.data("public_key.pem"));
    let tcp = format!("127.0.0.1:{}", server.port);
    let unix = format!("unix:{}", server.socket.display());

    // Whose key the client has, whose key the proxy has, and what becomes of it.
    let rows = |backend: &str, tls, key: Option<&Path>, users: &[&str], expect: [bool; 3]| {
        let proxy = Proxy::start_with(backend, ListenTlsMode::Preferred, tls, |context| {
            let key =
                key.map(|path| Arc::new(RsaKey::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap()));
            Arc::make_mut(&mut context.settings).rsa_key = key;
        });
        for user in users {
            for (has, works) in [Some(&*servers_public), Some(&*another_public), None].into_iter().zip(expect)
            {
                assert!(server.sql("FLUSH PRIVILEGES").status.success());
                let answer = log_in(&proxy, user, "secret", has);
                let what = format!("{user} to {backend} {tls:?}, client {has:?}, proxy {key:?}: {answer:?}");
                assert_eq!(answer.is_ok(), works, "{what}");
                match answer {
                    Ok(name) => assert_eq!(name, format!("{user}@%")),
                    // 1045 comes from the server or the proxy, 2061 from the client itself.
                    Err(said) => assert!(said.contains("1045") || said.contains("2061"), "{what}"),
                }
                assert!(log_in(&proxy, user, "wrong", has).unwrap_err().contains("ERROR"));
            }
        }
    };
    let both = ["sha2", "sha256"];
    // Like sides: it is the server's exchange, whatever the proxy has.
    for key in [None, Some(&*another)] {
        rows(&tcp, BackendTlsMode::Disabled, key, &both, [true, false, true]);
    }
    // sha256_password does not trust Unix sockets: another like pair.
    rows(&unix, BackendTlsMode::Disabled, Some(&another), &["sha256"], [true, false, true]);
    for backend in
        [(&tcp, BackendTlsMode::Preferred, &both[..]), (&unix, BackendTlsMode::Preferred, &both[..1])]
    {
        let (backend, tls, users) = backend;
        rows(backend, tls, None, users, [false, false, true]);
        rows(backend, tls, Some(&servers), users, [true, false, true]);
        rows(backend, tls, Some(&another), users, [false, true, true]);
    }
    let proxy = Proxy::start(&tcp, ListenTlsMode::Preferred, BackendTlsMode::Preferred);
    assert!(server.sql("FLUSH PRIVILEGES").status.success());
    let said = log_in(&proxy, "sha2", "secret", Some(&servers_public)).unwrap_err();
    assert!(said.contains("listen.rsa_key"), "{said}");
}
