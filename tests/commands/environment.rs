//! The environment of a command says its file, its keys, and where its progress is reported.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use super::RULES;
use crate::support::Proxy;

#[test]
fn which_file_is_read_and_what_the_environment_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    fs::write(folder.path().join("rules/shop.toml"), RULES).unwrap();
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowstamp"));
        let output = command
            .current_dir(folder.path())
            .args(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let address = ("ROWSTAMP_BACKEND__ADDRESS", "db:3306");
    // On no fixed port: another process may have it.
    let listen = ("ROWSTAMP_LISTEN__ADDRESS", "127.0.0.1:0");
    // No file: the variables are the configuration, but not in the place of a file that was named.
    let fine = "2 rules for 1 table and 1 pattern, 1 generator\n";
    for (arguments, variables, exit, expect) in [
        (&["check"][..], &[address, listen][..], 0, fine),
        (
            &["check"],
            &[("ROWSTAMP_BACKEND__ADDRESS", "db")],
            1,
            "error: $ROWSTAMP_BACKEND__ADDRESS: backend.address: \"db\" has no port",
        ),
        (
            &["check"],
            &[("ROWSTAMP_BACKEND__ADDRES", "db:1")],
            1,
            "error: $ROWSTAMP_BACKEND__ADDRES: names no key of rowstamp.toml; did you mean ROWSTAMP_BACKEND__ADDRESS?",
        ),
        (&["check"], &[("ROWSTAMP_CONTROL_PASSWORD", "x")], 2, "ROWSTAMP_BACKEND__ADDRESS first"),
        (&["check", "-c", "other.toml"], &[address], 2, "error: other.toml: there is no such file"),
        (
            &["check"],
            &[address, ("ROWSTAMP_CONFIG", "other.toml")],
            2,
            "error: other.toml: there is no such file",
        ),
    ] {
        let (code, text) = said(arguments, variables);
        assert!(code == exit && text.contains(expect), "{arguments:?} {variables:?}: {code}: {text}");
    }
    fs::write(folder.path().join("named.toml"), "backend.address = '${HOST}:3306'\nlimits.connections = 0\n")
        .unwrap();
    for (arguments, variables, exit, expect) in [
        (
            &["check", "-c", "named.toml"][..],
            &[][..],
            1,
            "error: named.toml:1: backend.address: the environment has no HOST, which ${HOST} stands for",
        ),
        (
            &["check"],
            &[("ROWSTAMP_CONFIG", "named.toml"), ("HOST", "db")],
            1,
            "error: named.toml:2: limits.connections: 0 is out of range",
        ),
        (
            &["check", "-c", "named.toml"],
            &[listen, ("HOST", "db"), ("ROWSTAMP_LIMITS__CONNECTIONS", "9"), ("ROWSTAMP_CONFIG", "none")],
            0,
            fine,
        ),
    ] {
        let (code, text) = said(arguments, variables);
        assert!(code == exit && text.contains(expect), "{arguments:?} {variables:?}: {code}: {text}");
    }
}

/// A reload sees the same environment, and systemd's `Type=notify` is told of each step (sd_notify(3)).
#[test]
fn keys_stay_over_a_reload_and_the_service_manager_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let told = || {
        let mut bytes = [0; 1024];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_owned()).unwrap()
    };
    let under =
        ["env", &format!("NOTIFY_SOCKET={}", path.display()), "ROWSTAMP_HTTP__ADDRESS=off", "HOST=127.0.0.1"];
    let under = under.map(str::to_owned).to_vec();
    let config = "listen.address = '${HOST}:0'\nbackend.address = 'db:3306'\nhttp.address = '127.0.0.1:1'\n";
    let mut proxy = Proxy::start_under(under, config, &[("shop", RULES)]);
    let listening = format!("READY=1\nSTATUS=listening on 127.0.0.1:{}\n", proxy.port);
    assert_eq!(told(), listening);
    let (is_in_force, log) = proxy.reload();
    assert!(is_in_force && !log.contains("has changed"), "{log}");
    let reloading = told();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(told(), listening);
    proxy.stop();
    assert_eq!(told(), "STOPPING=1\nSTATUS=SIGTERM\n");
}
