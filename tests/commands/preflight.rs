//! `serve` starts with what `check` passes, and `check` finds what would stop `serve` on this machine.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{RULES, run};
use crate::support::Proxy;

const PLAIN: &str = "backend.address = 'db:3306'\n";

fn rcgen() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["proxy.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A folder with rules, certificates and what stands in the way of a proxy.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("rules")).unwrap();
    fs::write(at("rules/shop.toml"), RULES).unwrap();
    let ((cert, key), (_, other)) = (rcgen(), rcgen());
    for (name, text) in
        [("cert", &*cert), ("key", &key), ("other", &other), ("text", "no PEM"), ("empty", "")]
    {
        fs::write(at(name), text).unwrap();
    }
    fs::create_dir(at("open")).unwrap();
    fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(at("broken")).unwrap();
    fs::write(at("broken/tls.pem"), "no PEM").unwrap();
    folder
}

/// Exit code, and all that is said, without the folder's name.
fn said(folder: &Path, command: &str) -> (Option<i32>, String) {
    let output = run(folder, &[command]);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text.replace(&format!("{}/", folder.display()), ""))
}

#[test]
fn what_would_stop_serve_is_found() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let listens =
        "Address already in use (os error 98); stop the program that listens there, or write another address";
    for (keys, key, expect) in [
        (format!("listen.address = '{taken}'"), "listen.address", format!("Rowstamp cannot listen on {taken}: {listens}")),
        (format!("http.address = '{taken}'"), "http.address", format!("Rowstamp cannot listen on {taken}: {listens}")),
        (
            format!("admin = {{ address = '{taken}', users = [{{ name = 'a', password = 'b' }}] }}"),
            "admin.address",
            format!("Rowstamp cannot listen on {taken}: {listens}"),
        ),
        (
            "listen.address = '192.0.2.1:3307'".into(),
            "listen.address",
            "Rowstamp cannot listen on 192.0.2.1:3307: Cannot assign requested address (os error 99); correct the address".into(),
        ),
        (
            "listen.address = 'unix:none/s'".into(),
            "listen.address",
            "Rowstamp cannot listen on unix:none/s: No such file or directory (os error 2); correct the address".into(),
        ),
        (
            "http.address = 'unix:text'".into(),
            "http.address",
            "Rowstamp cannot listen on unix:text: address in use; stop the program that listens there, or write another address".into(),
        ),
        (
            "store.path = 'none/ids.redb'".into(),
            "store.path",
            "the folder none is not there; make it, or correct the path".into(),
        ),
        ("store.path = 'text/ids.redb'".into(), "store.path", "text is no folder; correct the path".into()),
        (
            "store.path = 'empty'".into(),
            "store.path",
            "empty in the store is damaged: the file is empty; restore the store, and do the steps of `rowstamp book restore` before \
             proxies start"
                .into(),
        ),
        (
            "store.path = 'open/ids.redb'".into(),
            "store.path",
            "everybody can write to the folder open; run chmod o-w open".into(),
        ),
        ("state.path = 'open'".into(), "state.path", "everybody can write to the folder open; run chmod o-w open".into()),
        ("state.path = 'text'".into(), "state.path", "text is no folder; correct the path".into()),
        (
            "state.path = 'broken'".into(),
            "state.path",
            "listen.tls.cert = \"broken/tls.pem\" holds no certificate; a PEM file with BEGIN CERTIFICATE is needed; or remove the file: \
             `serve` makes a new one"
                .into(),
        ),
        (
            "log.audit = 'none/audit.log'".into(),
            "log.audit",
            "the folder none is not there; make it, or correct the path".into(),
        ),
        (
            "log.audit = 'rules'".into(),
            "log.audit",
            "rules cannot be written: it is a folder; name another file".into(),
        ),
        (
            "listen.tls = { cert = 'cert', key = 'other' }".into(),
            "listen.tls.key",
            "other is not the key of the certificate in cert; name the key of that certificate".into(),
        ),
        (
            "listen.tls = { cert = 'text', key = 'key' }".into(),
            "listen.tls.cert",
            "text holds no certificate; a PEM file with BEGIN CERTIFICATE is needed".into(),
        ),
        (
            "backend.tls = { mode = 'verify_ca', ca = 'text' }".into(),
            "backend.tls.ca",
            "text holds no certificate; a PEM file with BEGIN CERTIFICATE is needed".into(),
        ),
    ] {
        let any = |address: &str, default: &str| {
            if keys.contains(address) { String::new() } else { format!("{address} = '{default}'\n") }
        };
        let config = format!(
            "{PLAIN}{}{}{keys}\n",
            any("listen.address", "127.0.0.1:0"),
            any("http.address", "off")
        );
        // TOML has one table of a name, and these are written as keys.
        fs::write(folder.path().join("rowstamp.toml"), &config).unwrap();
        let line = config.lines().count();
        let (code, text) = said(folder.path(), "check");
        let found = format!("error: rowstamp.toml:{line}: {key}: {expect}\n");
        assert!(code == Some(1) && text.contains(&found), "{keys}: {code:?}: {text}\nnot {found}");
        let (code, text) = said(folder.path(), "serve");
        assert!(matches!(code, Some(1 | 2)), "{keys}: serve: {code:?}: {text}");
    }
}

/// The volume of a container may have such a mode, and nobody in the container may change it.
#[test]
fn a_folder_that_others_can_write_to_is_allowed_by_its_key() {
    let config = format!(
        "{PLAIN}listen.address = '127.0.0.1:0'\nhttp.address = 'off'\nstate.path = 'open/state'\nstore.path = 'open/ids.redb'\n"
    );
    let mut proxy = Proxy::written(&config, &[("shop", RULES)]);
    let open = proxy.dir().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let (code, text) = said(proxy.dir(), "check");
    for (key, what) in
        [("state.path", "the folder above it open and replace the folder"), ("store.path", "the folder open")]
    {
        let expect = format!("{key}: everybody can write to {what}; run chmod o-w open\n");
        assert!(code == Some(1) && text.contains(&expect), "{text}\nnot {expect}");
    }
    fs::write(proxy.dir().join("rowstamp.toml"), format!("{config}state.others_may_write = true\n")).unwrap();
    let (code, text) = said(proxy.dir(), "check");
    assert_eq!(code, Some(0), "{text}");
    proxy.restart();
    assert!(proxy.log().contains("everybody can write to the folder"), "{}", proxy.log());
}

#[test]
fn two_addresses_are_two() {
    let folder = folder();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("{PLAIN}listen.address = '{free}'\nhttp.address = '{free}'\n");
    fs::write(folder.path().join("rowstamp.toml"), config).unwrap();
    let (code, text) = said(folder.path(), "check");
    let expect = format!(
        "error: rowstamp.toml:3: http.address: listen.address has the same address, {free}; write another address"
    );
    assert!(code == Some(1) && text.contains(&expect), "{text}");
}

/// Metrics are done without where the port that they have by default is another's. Clients would not find the proxy on another
/// port than theirs.
#[test]
fn a_default_port_that_is_taken_is_an_error_for_clients_only() {
    let folder = folder();
    fs::write(folder.path().join("rowstamp.toml"), PLAIN).unwrap();
    // Who has them before us is as good.
    let _taken = [TcpListener::bind("127.0.0.1:3307"), TcpListener::bind("127.0.0.1:3309")];
    let (code, text) = said(folder.path(), "check");
    assert_eq!(code, Some(1), "{text}");
    let remedy =
        "Address already in use (os error 98); stop the program that listens there, or write another address";
    for expect in [
        format!(
            "error: rowstamp.toml:1: listen.address: Rowstamp cannot listen on 127.0.0.1:3307: {remedy}\n"
        ),
        format!(
            "warning: rowstamp.toml:1: http.address: Rowstamp cannot listen on 127.0.0.1:3309: {remedy}; until then there are no metrics\n"
        ),
    ] {
        assert!(text.contains(&expect), "{text}\nnot {expect}");
    }
    let (code, text) = said(folder.path(), "serve");
    let expect = "cannot listen on 127.0.0.1:3307: Address already in use (os error 98); stop the program that listens there, or set another listen.address";
    assert!(code == Some(1) && text.contains(expect), "{text}");
}

/// The addresses and the store of a proxy that runs are in use by itself: `ExecReload` of the unit checks first.
#[test]
fn what_passes_starts_and_passes_while_it_runs() {
    let config =
        format!("{PLAIN}listen.address = '127.0.0.1:0'\nhttp.address = 'off'\nlog.audit = 'audit.log'\n");
    let mut proxy = Proxy::written(&config, &[("shop", RULES)]);
    assert_eq!(said(proxy.dir(), "check").0, Some(0));
    assert!(!proxy.dir().join("rowstamp.redb").exists(), "nothing is made");
    proxy.restart();
    let fixed = config.replace("127.0.0.1:0", &proxy.address());
    fs::write(proxy.dir().join("rowstamp.toml"), &fixed).unwrap();
    let (code, text) = said(proxy.dir(), "check");
    assert_eq!(code, Some(0), "{text}");
    proxy.stop();
    assert_eq!(said(proxy.dir(), "check").0, Some(0));
}
