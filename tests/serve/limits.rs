//! limits.*: how many connections there may be, and how long each may be silent.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::rig::{code, each_with, insert_id, rows, rules};
use crate::support::raw::{Client, Options};
use crate::support::wait::NEVER;

fn refused(rig: &crate::rig::Rig, user: &str) -> String {
    let options = Options { user: user.into(), ..Options::default() };
    let error = Client::connect(&rig.proxy.address(), &options).err().expect("refused");
    error.to_string()
}

/// Seats are given back a moment after the client has gone.
fn connects_soon(rig: &crate::rig::Rig) {
    rig.wait_until("the seat is not given back", || {
        Client::connect(&rig.proxy.address(), &Options::default()).is_ok()
    });
}

#[test]
fn connections_in_all() {
    each_with("limits_all", "", "[limits]\nconnections = 2\n", &rules("limits_all"), |rig| {
        let (mut first, second) = (rig.client(), rig.client());
        let said = refused(rig, "root");
        assert!(said.contains("1040") && said.contains("limits.connections"), "{}: {said}", rig.name());
        assert!(insert_id(&mut first, "INSERT INTO t(a) VALUES(1)") > 0);
        drop(second);
        connects_soon(rig);
    });
}

#[test]
fn connections_of_an_address() {
    each_with("limits_address", "", "[limits]\nper_address = 1\n", &rules("limits_address"), |rig| {
        let first = rig.client();
        let said = refused(rig, "root");
        assert!(said.contains("1040") && said.contains("limits.per_address"), "{}: {said}", rig.name());
        drop(first);
        connects_soon(rig);
    });
}

#[test]
fn a_changed_user_takes_the_seat_along() {
    let sql = "CREATE USER limits_change IDENTIFIED BY '';";
    each_with("limits_change", sql, "[limits]\nper_user = 1\n", &rules("limits_change"), |rig| {
        let mut changing = rig.client();
        changing.change_user("root", "").unwrap();
        changing.change_user("limits_change", "").unwrap();
        // The old user's seat is free a moment after the client has its answer.
        let options = Options { database: Some(rig.db.clone()), ..Options::default() };
        let end = Instant::now() + NEVER;
        let root = loop {
            match Client::connect(&rig.proxy.address(), &options) {
                Ok(root) => break root,
                Err(error) => assert!(Instant::now() < end, "{}: {error}", rig.name()),
            }
        };
        // The one seat of root is taken again.
        let said = changing.change_user("root", "").unwrap_err().to_string();
        assert!(said.contains("1203"), "{}: {said}", rig.name());
        drop(root);
    });
}

#[test]
fn connections_of_a_user() {
    let sql = "CREATE USER limits_other IDENTIFIED BY '';";
    each_with("limits_user", sql, "[limits]\nper_user = 1\n", &rules("limits_user"), |rig| {
        let first = rig.client();
        assert!(refused(rig, "root").contains("1203"), "{}", rig.name());
        let other = Options { user: "limits_other".into(), ..Options::default() };
        assert!(Client::connect(&rig.proxy.address(), &other).is_ok(), "{}", rig.name());
        drop(first);
        connects_soon(rig);
    });
}

#[test]
fn an_idle_session_ends_but_not_one_that_waits_for_the_server() {
    each_with("limits_idle", "", "[limits]\nidle_timeout = \"1s\"\n", &rules("limits_idle"), |rig| {
        let mut client = rig.client();
        let since = Instant::now();
        assert_eq!(rows(&mut client, "SELECT SLEEP(2)"), "0", "{}", rig.name());
        assert!(client.is_closed(), "{}: idle", rig.name());
        // The second begins with the answer.
        assert!(since.elapsed() > Duration::from_millis(2_900), "{}", rig.name());
    });
}

#[test]
fn a_login_that_does_not_come() {
    each_with("limits_login", "", "[limits]\nhandshake_timeout = \"1s\"\n", &rules("limits_login"), |rig| {
        let mut silent = TcpStream::connect(rig.proxy.address()).unwrap();
        silent.set_read_timeout(Some(NEVER)).unwrap();
        let mut said = Vec::new();
        silent.read_to_end(&mut said).unwrap();
        // A greeting, then 1159.
        assert!(said.windows(2).any(|w| w == 1159u16.to_le_bytes()), "{}: {said:?}", rig.name());
    });
}

#[test]
fn a_client_that_stops_reading_ends_alone() {
    each_with("limits_write", "", "[limits]\nwrite_timeout = \"1s\"\n", &rules("limits_write"), |rig| {
        let mut slow = rig.client();
        let id = slow.connection_id;
        // 60 MB: more than the sockets' buffers take.
        slow.send_command(3, b"SELECT REPEAT('x', 20000000), REPEAT('y', 20000000), REPEAT('z', 20000000)")
            .unwrap();
        let mut other = rig.client();
        let end = Instant::now() + NEVER;
        let listed = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id={id}");
        while rows(&mut other, &listed) == "1" {
            assert_eq!(code(&mut other, "INSERT INTO t(a) VALUES(NULL)"), 0, "{}", rig.name());
            assert!(Instant::now() < end, "{}: the backend's session goes on", rig.name());
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

/// The server's net_write_timeout does the same.
#[test]
fn a_client_that_sends_but_never_reads_ends_too() {
    each_with("limits_send", "", "[limits]\nwrite_timeout = \"1s\"\n", &rules("limits_send"), |rig| {
        let mut greedy = rig.client();
        let id = greedy.connection_id;
        greedy.send_command(3, b"SELECT REPEAT('x', 30000000), REPEAT('y', 30000000)").unwrap();
        let mut other = rig.client();
        let end = Instant::now() + NEVER;
        let listed = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id={id}");
        while rows(&mut other, &listed) == "1" {
            // A ping now and then; it fails once the session is over.
            let _ = greedy.write_bytes(&[1, 0, 0, 0, 0x0E]);
            assert!(Instant::now() < end, "{}: the session goes on", rig.name());
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}
