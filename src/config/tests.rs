mod doors;
mod each_key;
mod environment;
mod mistakes;
mod stores;
mod tls;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{LoadError, Loaded, StoreKind, load};
use crate::address::Address;
use crate::proxy::settings::{BackendTlsMode, ListenTlsMode, TlsIdentity};
use crate::toml_file::Environment;

const RULES: &str = "schema = 'shop'\n[generators.ids]\nkind = 'sequence'\n[tables.orders]\ncolumn = 'id'\n\
                     generator = 'ids'\n";
/// A configuration to which nothing is to be said.
const PLAIN: &str =
    "backend.address = 'db:3306'\nbackend.control = { user = 'r', password_env = 'SECRET' }\n";

/// A folder with rowstamp.toml, open to its owner only, and rules/shop.toml.
fn folder(config: &str, rules: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("rowstamp.toml", config);
    write("pem", &certificate());
    write("password", "canary\n");
    fs::create_dir(folder.path().join("rules")).unwrap();
    write("rules/shop.toml", rules);
    folder
}

/// A certificate and its key, in one file.
fn certificate() -> String {
    let made = rcgen::generate_simple_self_signed(["db.example".to_owned()]).unwrap();
    made.cert.pem() + &made.signing_key.serialize_pem()
}

fn load_in(folder: &Path) -> Result<Loaded, LoadError> {
    load(&folder.join("rowstamp.toml"), &Environment::of([("SECRET", "hush")]))
}

/// The findings, without the name of the folder.
fn found(folder: &Path) -> Vec<String> {
    let text = match load_in(folder) {
        Ok(loaded) => loaded.warnings.to_string(),
        Err(error) => error.to_string(),
    };
    without_folder(&text, folder)
}

fn without_folder(text: &str, folder: &Path) -> Vec<String> {
    text.lines().map(|line| line.replace(&format!("{}/", folder.display()), "")).collect()
}

#[track_caller]
fn check(config: &str, expect: &[&str]) {
    assert_eq!(found(folder(config, RULES).path()), expect, "{config}");
}

/// A line after a configuration to which nothing is to be said.
#[track_caller]
fn check_line(line: &str, expect: &[&str]) {
    check(&format!("{PLAIN}{line}"), expect);
}

fn loaded(line: &str) -> (TempDir, Loaded) {
    let folder = folder(&format!("{PLAIN}{line}"), RULES);
    let loaded = load_in(folder.path()).unwrap();
    (folder, loaded)
}

#[test]
fn defaults_act() {
    let (folder, Loaded { config, rules, warnings, .. }) = loaded("");
    let at = |name: &str| folder.path().join(name);
    assert_eq!((warnings.to_string(), rules.rules().len()), (String::new(), 1));
    let proxy = &config.proxy;
    assert_eq!(proxy.listen.to_string(), "127.0.0.1:3307");
    assert!(proxy.name.ends_with(":3307") && proxy.name.len() > ":3307".len(), "{}", proxy.name);
    assert_eq!((proxy.listen_tls.mode, proxy.listen_tls.identity.clone()), (ListenTlsMode::Preferred, None));
    assert_eq!(proxy.backend.addresses, [Address::Tcp { host: "db".into(), port: 3306 }]);
    assert_eq!(
        (proxy.backend.tls.mode, proxy.backend.connect_timeout),
        (BackendTlsMode::Preferred, Duration::from_secs(5))
    );
    assert_eq!((proxy.limits.connections_max, proxy.limits.statement_bytes_max), (10_000, 64 << 20));
    assert_eq!((proxy.state_path.clone(), config.rules.path), (at("rowstamp.state"), at("rules")));
    assert_eq!(config.store.kind, StoreKind::Embedded { path: at("rowstamp.redb") });
    assert_eq!(config.store.deadline, Duration::from_secs(1));
    let http = config.http.unwrap();
    assert_eq!((http.address.to_string(), http.is_written), ("127.0.0.1:3309".into(), false));
}

#[test]
fn where_the_status_is() {
    for (line, expect) in [
        ("", Some(("127.0.0.1:3309", false))),
        ("http.address = '127.0.0.1:3309'", Some(("127.0.0.1:3309", true))),
        ("http.address = '0.0.0.0:9999'", Some(("0.0.0.0:9999", true))),
        ("http.address = 'unix:http.sock'", Some(("unix:FOLDER/http.sock", true))),
        ("http.address = 'off'", None),
    ] {
        let (folder, Loaded { config, .. }) = loaded(line);
        let expect = expect.map(|(address, is_written)| {
            (address.replace("FOLDER", &folder.path().display().to_string()), is_written)
        });
        let found = config.http.map(|http| (http.address.to_string(), http.is_written));
        assert_eq!(found, expect, "{line}");
        // The listener's file is found without the rules and the passwords.
        fs::remove_dir_all(folder.path().join("rules")).unwrap();
        let address = super::http_address(&folder.path().join("rowstamp.toml")).unwrap();
        assert_eq!(address.map(|address| address.to_string()), expect.map(|(address, _)| address), "{line}");
    }
}

#[test]
fn what_is_written_acts() {
    let (folder, Loaded { config, .. }) = loaded(
        "backend.tls = { mode = 'verify_ca', ca = 'pem', cert = 'pem', key = 'pem' }\nproxy.name = 'p'\nhttp.address = 'off'\n\
         [listen]\naddress = 'unix:run/x.sock'\ntls = { mode = 'required', cert = 'pem', key = 'pem', ca = 'pem' }",
    );
    let pem = folder.path().join("pem");
    let identity = Some(TlsIdentity { cert: pem.clone(), key: pem.clone() });
    let proxy = &config.proxy;
    assert_eq!(proxy.listen, Address::Unix(folder.path().join("run/x.sock")));
    assert_eq!(&*proxy.name, "p");
    assert_eq!((&proxy.listen_tls.identity, &proxy.listen_tls.client_ca), (&identity, &Some(pem.clone())));
    assert_eq!((&proxy.backend.tls.identity, &proxy.backend.tls.ca), (&identity, &Some(pem)));
}

#[test]
fn defaults_that_are_written() {
    for accepted in [
        "admin.address = 'off'",
        "rewrite.on_doubt = 'forward'",
        "rules.watch = false",
        "store.prefix = '/rowstamp'",
        "listen.proxy_protocol = 'off'",
    ] {
        check_line(accepted, &[]);
    }
}

#[test]
fn what_must_go_together() {
    for (line, expect) in [
        (
            "listen.tls.cert = 'pem'",
            "listen.tls.key: is missing; name the PEM file of the certificate's private key",
        ),
        (
            "backend.tls.key = 'pem'",
            "backend.tls.cert: is missing; name the PEM file of the private key's certificate",
        ),
        (
            "backend.tls.mode = 'verify_identity'",
            "backend.tls.ca: is missing, and the mode verifies the server with it; name a file of CA certificates",
        ),
        (
            "listen.tls.ca = 'none'",
            "listen.tls.ca: none cannot be read: No such file or directory (os error 2); create the file, or correct the path",
        ),
        (
            "listen.proxy_protocol = 'optional'",
            "listen.proxy_protocol_from: is empty, so nobody may send a header; list the addresses of the load balancers",
        ),
        (
            "listen.proxy_protocol_from = ['10.0.0.0/8']",
            "listen.proxy_protocol_from: has no effect while listen.proxy_protocol is \"off\"; set that key to \"optional\" or \"required\", or remove this one",
        ),
        (
            "listen = { address = 'unix:s', proxy_protocol = 'required', proxy_protocol_from = ['::1', '10.0.0.0/8'] }",
            "listen.proxy_protocol: is for TCP, and listen.address is a Unix socket; write \"off\"",
        ),
    ] {
        check_line(line, &[&format!("error: rowstamp.toml:3: {expect}")]);
    }
}

/// The control account with these keys: its password, or what is found.
fn password(keys: &str, file_mode: u32) -> String {
    let folder = folder(&format!("backend.address = 'a:1'\nbackend.control = {{ {keys} }}"), RULES);
    let mode = fs::Permissions::from_mode(file_mode);
    fs::set_permissions(folder.path().join("password"), mode).unwrap();
    match load_in(folder.path()) {
        Ok(loaded) => loaded.config.control.unwrap().password.reveal().to_owned(),
        Err(_) => found(folder.path()).join("\n").replace("error: rowstamp.toml:2: backend.control", ""),
    }
}

#[test]
fn passwords() {
    for (keys, file_mode, expect) in [
        ("user = 'r', password = 'x'", 0o600, "x"),
        ("user = 'r', password = ''", 0o600, ""),
        ("user = 'r', password_env = 'SECRET'", 0o600, "hush"),
        ("user = 'r', password_file = 'password'", 0o600, "canary"),
        ("user = 'r', password_file = 'password'", 0o400, "canary"),
        (
            "user = 'r', password_file = 'password'",
            0o640,
            ".password_file: others than the owner may read or change password; run chmod 600 password",
        ),
        (
            "user = 'r', password_file = 'password'",
            0o604,
            ".password_file: others than the owner may read or change password; run chmod 600 password",
        ),
        (
            "user = 'r', password_file = 'rules'",
            0o600,
            ".password_file: rules is not a file of at most 4096 bytes; name a file that contains only the secret",
        ),
    ] {
        assert_eq!(password(keys, file_mode), expect, "{keys}");
    }
}

#[test]
fn rsa_keys() {
    use rsa::pkcs8::EncodePrivateKey;
    let short = rsa::RsaPrivateKey::new(&mut rand::rngs::OsRng, 1024).unwrap();
    let short = &*short.to_pkcs8_pem(rsa::pkcs8::LineEnding::LF).unwrap();
    for (pem, mode, expect) in [
        (
            "no key",
            0o600,
            "key.pem holds no RSA private key that can be read; use PEM with BEGIN PRIVATE KEY",
        ),
        (short, 0o600, "key.pem holds an RSA key of 1024 bits; use a key of 2048 to 4096 bits"),
        (short, 0o640, "others than the owner may read or change key.pem; run chmod 600 key.pem"),
    ] {
        let folder = folder("backend.address = 'a:1'\nlisten.rsa_key = 'key.pem'", RULES);
        fs::write(folder.path().join("key.pem"), pem).unwrap();
        fs::set_permissions(folder.path().join("key.pem"), fs::Permissions::from_mode(mode)).unwrap();
        let found = found(folder.path()).join("\n");
        assert!(found.contains(&format!("error: rowstamp.toml:2: listen.rsa_key: {expect}")), "{found}");
    }
}

#[test]
fn a_password_that_others_may_read_is_warned_of() {
    let folder =
        folder("backend.address = 'a:1'\nbackend.control = { user = 'r', password = 'canary' }", RULES);
    assert!(found(folder.path()).is_empty());
    let path = folder.path().join("rowstamp.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let warning = "warning: rowstamp.toml:2: backend.control.password: others than the owner may read the file; run chmod 600 rowstamp.toml";
    assert_eq!(found(folder.path()), [warning]);
    let loaded = load_in(folder.path()).unwrap();
    assert!(!format!("{loaded:?}").contains("canary"));
}

/// The console's address and users with these keys; or what is found.
fn console(keys: &str) -> String {
    let folder = folder(&format!("{PLAIN}{keys}"), RULES);
    let Ok(Loaded { config, .. }) = load_in(folder.path()) else { return found(folder.path()).join("\n") };
    let address = config.admin.address.map_or("off".to_owned(), |address| address.to_string());
    let address = address.replace(&format!("{}/", folder.path().display()), "");
    let users = config
        .admin
        .users
        .iter()
        .map(|user| format!(" {}:{}:{}", user.name, user.plain_password(), user.grants().len()));
    std::iter::once(address).chain(users).collect()
}

#[test]
fn who_may_log_in_to_the_console() {
    let found = |line: usize, text: &str| format!("error: rowstamp.toml:{line}: admin.{text}");
    let user = "[[admin.users]]\nname = 'dba'\n";
    for (keys, expect) in [
        ("", "off".to_owned()),
        ("admin.address = 'off'", "off".to_owned()),
        ("admin.users = [{ name = 'dba', password = 'x' }]", "127.0.0.1:3308 dba:x:1".to_owned()),
        (
            "admin.address = '[::1]:0'\nadmin.users = [{ name = 'dba', password_file = 'password', role = 'write' }]",
            "[::1]:0 dba:canary:4".to_owned(),
        ),
        (
            "admin.address = 'unix:admin.sock'\nadmin.users = [{ name = 'dba', password_env = 'SECRET' }]",
            "unix:admin.sock dba:hush:1".to_owned(),
        ),
        ("admin = { address = 'off', users = [{ name = 'a', password = 'b' }] }", "off a:b:1".to_owned()),
        (user, found(3, "users[0]: needs a password; write password_file, password_env or password")),
        (
            &format!("{user}password = ''"),
            found(
                5,
                "users[0].password: is an empty password, and anybody could log in with it; write a password",
            ),
        ),
        (
            &format!("{user}password = 'x'\n{user}password = 'y'"),
            found(7, "users[1].name: \"dba\" is already in line 4; remove one of the two"),
        ),
        (
            "admin.users = [{ password = 'x' }]",
            found(3, "users[0].name: is missing; write, for example, name = \"dba\""),
        ),
        (
            &format!("{user}password = 'x'\npassword_env = 'SECRET'"),
            found(
                3,
                "users[0]: has several passwords; write one of password_file, password_env and password",
            ),
        ),
    ] {
        assert_eq!(console(keys), expect, "{keys}");
    }
    assert!(console(&format!("{user}password = 'x'\nrole = 'admin'")).contains("admin.users[0].role: "));
}

#[test]
fn without_a_control_account() {
    let warning = "warning: rowstamp.toml: backend.control: is missing, so Rowstamp will refuse each INSERT without a \
                   column list into a table with a rule; add an account that may read information_schema and the tables with rules";
    check(
        "backend.address = 'a:1'",
        &[
            warning,
            "error: rules/shop.toml:2: generators.ids.seed: \"tables\" needs an account that can \
         read the tables' ids and counters; add [backend.control] to rowstamp.toml, or write seed = \"none\" and a start above all ids",
        ],
    );
    let unseeded = RULES.replace("'sequence'", "'sequence'\nseed = 'none'");
    assert_eq!(found(folder("backend.address = 'a:1'", &unseeded).path()), [warning]);
    let unruled = found(folder("backend.address = 'a:1'", "schema = 'shop'").path());
    assert_eq!(unruled, Vec::<String>::new());
}

#[test]
fn all_files_at_once() {
    let folder = folder("listen.adress = 'x'", "schema = 'shop'\nx = 1");
    let expect = [
        "error: rowstamp.toml:1: backend.address: is missing; write, for example, address = \"127.0.0.1:3306\"",
        "error: rowstamp.toml:1: listen.adress: unknown key; did you mean address?",
        "error: rules/shop.toml:2: x: unknown key; the keys here are: generators, schema, schemas, tables",
    ];
    assert_eq!(found(folder.path()), expect);
}

#[test]
fn no_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = load_in(folder.path()).unwrap_err();
    assert!(matches!(error, LoadError::NoFile(_)));
    assert!(error.to_string().contains(crate::book::page!("config")), "{error}");
}
