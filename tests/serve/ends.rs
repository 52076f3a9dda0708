//! How sessions end: by either peer, by the protocol, by a drain.

use std::time::{Duration, Instant};

use crate::rig::{Rig, code, each, each_with, insert_id, rows, rules};
use crate::support::raw::{Client, Options};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Kind, Proxy, Server, proxy};

fn soon(what: &str, is_so: impl FnMut() -> bool) {
    wait_until(|| what.to_owned(), is_so);
}

#[test]
fn packets_out_of_order_end_the_session() {
    each("ends_order", "", |rig| {
        let mut client = rig.client();
        client.run("SELECT 1");
        client.write_bytes(&[1, 0, 0, 1, 0x0E]).unwrap();
        assert_eq!(code_of_packet_0(&mut client), 1156, "{}", rig.name());
        assert!(client.is_closed());
        soon("the log says so", || rig.proxy.log().contains("protocol violation"));
    });
}

/// Returns the code of an error in a packet of number 0, as the servers send it.
fn code_of_packet_0(client: &mut Client) -> u16 {
    client.begin_response(0);
    crate::rig::code_of(&client.read_outcomes(false).unwrap())
}

/// Oracle's asyncio driver does so.
#[test]
fn a_quit_out_of_order_is_answered_as_by_the_server_and_no_warning() {
    let debug = "[log]\nlevel = \"debug\"\n";
    each_with("ends_quit", "", debug, &rules("ends_quit"), |rig| {
        let mut codes = Vec::new();
        for mut client in [rig.direct(), rig.client()] {
            client.run("SELECT 1");
            client.write_bytes(&[1, 0, 0, 3, 0x01]).unwrap();
            codes.push(code_of_packet_0(&mut client));
            assert!(client.is_closed());
        }
        assert_eq!(codes, [1156, 1156], "{}", rig.name());
        let said = || {
            rig.proxy
                .log()
                .lines()
                .find(|line| line.contains("COM_QUIT has packet number 3"))
                .map(str::to_owned)
        };
        soon("the log says so", || said().is_some());
        assert!(said().unwrap().contains(" DEBUG "), "{}", rig.proxy.log());
    });
}

#[test]
fn a_client_that_goes_takes_its_backend_session_along() {
    each("ends_client", "", |rig| {
        let mut direct = rig.direct();
        let mut client = rig.client();
        client.run("BEGIN");
        client.run("INSERT INTO t(a) VALUES(1)");
        let listed =
            format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id={}", client.connection_id);
        assert_eq!(rows(&mut direct, &listed), "1");
        client.send_command(3, b"SELECT SLEEP(1)").unwrap();
        drop(client);
        soon("the backend's session ends", || rows(&mut direct, &listed) == "0");
        assert_eq!(rows(&mut direct, "SELECT COUNT(*) FROM t"), "0");
    });
}

#[test]
fn a_server_that_goes_leaves_no_made_up_answer() {
    for kind in Kind::ALL {
        let Some(mut server) = Server::start(kind) else { continue };
        crate::rig::make(&server, "ends_server", "");
        let config = proxy::config(&server.address());
        let proxy = Proxy::start(&config, &[("rules", &rules("ends_server"))]);
        let (mut busy, mut idle) = (proxy.client(), proxy.client());
        busy.run("INSERT INTO ends_server.t(a) VALUES(1)");
        busy.send_command(3, b"SELECT SLEEP(100)").unwrap();
        server.kill();
        let error = busy.read_packet().expect_err("no packet");
        assert!(
            matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset),
            "{}: {error}",
            kind.name()
        );
        assert!(idle.is_closed());
        let refused = Client::connect(&proxy.address(), &Options::default()).err().unwrap().to_string();
        assert!(refused.contains("1053"), "{}: {refused}", kind.name());
        server.restart();
        let mut again = proxy.client();
        // The locks come back by themselves.
        soon("ruled statements are served again", || {
            code(&mut again, "INSERT INTO ends_server.t(a) VALUES(NULL)") == 0
        });
    }
}

fn is_refused(rig: &Rig) -> bool {
    Client::connect(&rig.proxy.address(), &Options::default()).is_err()
}

#[test]
fn a_drain_waits_for_transactions_alone() {
    each("ends_drain", "", |rig| {
        let (mut idle, mut open, mut off) = (rig.client(), rig.client(), rig.client());
        // Without autocommit, all status bits are 0 between transactions.
        off.run("SET autocommit=0");
        off.run("INSERT INTO t(a) VALUES(1)");
        off.run("COMMIT");
        let mut reset = rig.client();
        reset.run("BEGIN");
        reset.run("SELECT * FROM t");
        reset.reset().unwrap();
        open.run("BEGIN");
        open.run("INSERT INTO t(a) VALUES(2)");
        rig.proxy.signal("TERM");
        // The transaction that is open may last for 30 s: who waits with it is not closed when this is read.
        assert!(idle.is_closed() && off.is_closed() && reset.is_closed(), "{}", rig.name());
        soon("new clients are refused", || is_refused(rig));
        open.run("INSERT INTO t(a) VALUES(3)");
        open.run("COMMIT");
        assert!(open.is_closed());
        soon("the proxy ends", || !rig.proxy.is_running());
        assert_eq!(rows(&mut rig.direct(), "SELECT COUNT(*) FROM t"), "3", "{}", rig.name());
    });
}

#[test]
fn a_drain_ends_at_its_timeout_and_at_a_second_signal() {
    let config = "[limits]\ndrain_timeout = \"1s\"\n";
    each_with("ends_timeout", "", config, &rules("ends_timeout"), |rig| {
        let mut open = rig.client();
        open.run("BEGIN");
        open.run("SELECT * FROM t");
        let since = Instant::now();
        rig.proxy.signal("TERM");
        soon("the proxy ends", || !rig.proxy.is_running());
        assert!(since.elapsed() > Duration::from_millis(900), "{}", rig.name());
        assert!(open.is_closed());
    });
    each("ends_second", "", |rig| {
        let mut open = rig.client();
        open.run("BEGIN");
        open.run("SELECT * FROM t");
        rig.proxy.signal("TERM");
        soon("it drains", || rig.proxy.log().contains("draining"));
        rig.proxy.signal("TERM");
        soon("the proxy ends", || !rig.proxy.is_running());
    });
}

#[test]
fn by_unix_sockets_on_both_sides() {
    for kind in Kind::ALL {
        let Some(server) = crate::rig::server(kind) else { continue };
        crate::rig::make(server, "ends_unix", "");
        // Not root: a proxy that root runs refuses root's login on a socket.
        // The server might not ask for the password.
        let config = proxy::config(&format!("unix:{}", server.socket.display()));
        let proxy = Proxy::start(&config, &[("rules", &rules("ends_unix"))]);
        server.client().run("CREATE USER IF NOT EXISTS ends_unix IDENTIFIED BY ''; ");
        server.client().run("GRANT ALL ON *.* TO ends_unix");
        let options = Options { user: "ends_unix".into(), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        assert_eq!(insert_id(&mut client, "INSERT INTO ends_unix.t(a) VALUES(1)"), 1, "{}", kind.name());
    }
}

/// MySQL lets an account in by the name of the OS user alone where it says so; MariaDB by the same name only.
#[test]
fn accounts_that_the_proxys_own_os_user_may_use() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    let mut direct = server.client();
    let own = String::from_utf8(rowstamp::proxy::connect::backend::os_user().unwrap()).unwrap();
    direct.run("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'");
    direct.run(format!("CREATE USER ends_sneak IDENTIFIED WITH auth_socket AS '{own}'"));
    direct.run("CREATE USER ends_stranger IDENTIFIED WITH auth_socket AS 'nobody_else'");
    direct.run("CREATE DATABASE ends_sockets");
    direct.run("CREATE TABLE ends_sockets.t (id BIGINT PRIMARY KEY, a INT)");
    let config = proxy::config(&format!("unix:{}", server.socket.display()));
    let proxy = Proxy::start(&config, &[("rules", &rules("ends_sockets"))]);
    let login = |user: &str| {
        let options = Options { user: user.into(), ..Options::default() };
        Client::connect(&proxy.address(), &options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(login("ends_sneak").contains("1045"), "{}", login("ends_sneak"));
    assert!(login("ends_stranger").contains("1698") || login("ends_stranger").contains("1045"));
    assert!(
        proxy.log().contains("accepts ends_sneak over the Unix socket without a password"),
        "{}",
        proxy.log()
    );
    // One that comes later.
    direct.run(format!("CREATE USER ends_late IDENTIFIED WITH auth_socket AS '{own}'"));
    let end = Instant::now() + NEVER;
    while !login("ends_late").contains("1045") {
        assert!(Instant::now() < end, "{}", proxy.log());
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A pipe that nobody writes to is read as a file on a disk that hangs.
#[test]
fn a_reload_that_hangs_keeps_neither_statements_nor_the_process() {
    each("ends_hung", "", |rig| {
        let (pipe, config) = (rig.proxy.dir().join("pipe.pem"), rig.proxy.dir().join("rowstamp.toml"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text + "\n[listen.tls]\ncert = \"pipe.pem\"\nkey = \"pipe.pem\"\n").unwrap();
        rig.proxy.signal("HUP");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(code(&mut rig.client(), "INSERT INTO t(a) VALUES(1)"), 0, "{}", rig.name());
        rig.proxy.stop();
        assert!(!rig.proxy.last_log().contains("SIGHUP:"), "{}: {}", rig.name(), rig.proxy.last_log());
    });
}
