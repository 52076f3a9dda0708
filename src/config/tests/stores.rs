//! Stores, which keep the bounds.

use super::{PLAIN, RULES, check_line, found, loaded};
use crate::config::{Account, Etcd, EtcdTls, Loaded, Mysql, StoreKind};
use crate::proxy::settings::TlsIdentity;
use crate::toml_file::Secret;

const NO_MEMBER: &str = "\"ENDPOINT\" is not the address of an etcd member; write host:port, http://host:port or https://host:port";

/// The one error in this line after a configuration to which nothing is to be said.
#[track_caller]
fn check(line: &str, key: &str, text: &str) {
    check_line(line, &[&format!("error: rowstamp.toml:3: {key}: {text}")]);
}

#[test]
fn stores() {
    let (folder, Loaded { config, .. }) = loaded(
        "[store]\nkind = 'etcd'\nendpoints = ['e1:2379', '[::1]:2379']\nprefix = '/fleet/'\nuser = 'r'\npassword_env = 'SECRET'\n\
         tls = { ca = 'pem', cert = 'pem', key = 'pem' }",
    );
    let pem = folder.path().join("pem");
    let etcd = Etcd {
        endpoints: vec!["e1:2379".into(), "[::1]:2379".into()],
        prefix: "/fleet".into(),
        account: Some(Account { user: "r".into(), password: Secret::new("hush".into()) }),
        tls: Some(EtcdTls { ca: pem.clone(), identity: Some(TlsIdentity { cert: pem.clone(), key: pem }) }),
    };
    assert_eq!(config.store.kind, StoreKind::Etcd(etcd));
    let plain = loaded("[store]\nkind = 'etcd'\nendpoints = ['e1:2379']\ntls = { mode = 'disabled' }").1;
    let StoreKind::Etcd(etcd) = plain.config.store.kind else { panic!("{:?}", plain.config.store) };
    assert_eq!((etcd.account, etcd.tls, &*etcd.prefix), (None, None, "/rowstamp"));

    let missing = "is missing; write etcd's members, for example endpoints = [\"127.0.0.1:2379\"]";
    check("store.kind = 'etcd'", "store.endpoints", missing);
    let (folder, Loaded { config, .. }) = loaded(
        "[store]\nkind = 'etcd'\nendpoints = ['https://e1:2379', 'e2:2379', 'https://[::1]:2379/']\ntls = { ca = 'pem' }",
    );
    let StoreKind::Etcd(etcd) = config.store.kind else { panic!("{:?}", config.store) };
    assert_eq!(etcd.endpoints, ["e1:2379", "e2:2379", "[::1]:2379"]);
    drop(folder);
    let plain = loaded("store = { kind = 'etcd', endpoints = ['http://e1:2379', 'http://e2:2379/'] }").1;
    let StoreKind::Etcd(etcd) = plain.config.store.kind else { panic!("{:?}", plain.config.store) };
    assert_eq!(etcd.endpoints, ["e1:2379", "e2:2379"]);
    for (endpoint, text) in [
        (
            "https://e1:2379",
            "\"https://e1:2379\" has TLS, which needs [store.tls] with ca; add [store.tls], or write http://",
        ),
        ("ftp://e1:2379", NO_MEMBER),
        ("e1:2379/v3", NO_MEMBER),
        ("http://e1", NO_MEMBER),
        ("http://", NO_MEMBER),
        ("unix:/run/etcd", NO_MEMBER),
    ] {
        let text = text.replace("ENDPOINT", endpoint);
        let config = format!("store.endpoints = ['{endpoint}']\nstore.kind = 'etcd'");
        check(&config, "store.endpoints", &text);
    }
    check(
        "store = { kind = 'etcd', endpoints = ['http://e1:2379'], tls = { ca = 'pem' } }",
        "store.endpoints",
        "\"http://e1:2379\" is without TLS, and [store.tls] demands TLS; write https://, or mode = \"disabled\" in [store.tls]",
    );
    let no_account = "an address contains no user and no password; remove them from the address (accounts have their own keys)";
    let account = "store.endpoints = ['http://etcd:secret@e1:2379']\nstore.kind = 'etcd'";
    check(account, "store.endpoints", no_account);
    let etcd = "[store]\nkind = 'etcd'\nendpoints = ['e1:2379']\n";
    for (keys, key, text) in [
        ("path = 'x'", "store.path", "is only for kind = \"embedded\"; write that kind, or remove the key"),
        ("table = 'x'", "store.table", "is only for kind = \"mysql\"; write that kind, or remove the key"),
        ("password = ''", "store.user", "is missing; write the name of the user whose password this is"),
        (
            "user = 'r'",
            "store",
            "needs a password; write password_file, password_env or password (\"\" for none)",
        ),
        (
            "tls = {}",
            "store.tls.ca",
            "is missing; name a file of CA certificates that verify etcd's certificate",
        ),
        (
            "tls = { mode = 'required', ca = 'pem' }",
            "store.tls.mode",
            "\"required\" is unknown; write \"disabled\" or \"verify_identity\"",
        ),
    ] {
        let found = found(super::folder(&format!("{PLAIN}{etcd}{keys}"), RULES).path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(&format!(": {key}: {text}")), "{found:?}");
    }
}

#[test]
fn keys_of_another_kind_and_a_table() {
    for (keys, key, kinds) in [
        ("store.endpoints = ['a:1']", "store.endpoints", "\"etcd\""),
        ("store.prefix = '/x'", "store.prefix", "\"etcd\""),
        ("store.user = 'x'", "store.user", "\"etcd\" or \"mysql\""),
        ("store.password_env = 'x'", "store.password_env", "\"etcd\" or \"mysql\""),
        ("store.tls = {}", "store.tls", "\"etcd\""),
        ("store.table = 'leaf_alloc'", "store.table", "\"mysql\""),
        ("store.address = 'a:1'", "store.address", "\"mysql\""),
    ] {
        check(keys, key, &format!("is only for kind = {kinds}; write that kind, or remove the key"));
    }
    let missing = "error: rowstamp.toml:2: store.user: is missing, and the store's table needs an account; add [backend.control] or this key";
    let found = found(super::folder("backend.address = 'db:3306'\nstore.kind = 'mysql'", RULES).path());
    assert!(found.iter().any(|line| line == missing), "{found:?}");
    let mysql = loaded(
        "[store]\nkind = 'mysql'\ntable = 'ids.bounds'\naddress = 'other:3306'\nuser = 'r'\npassword_env = 'SECRET'",
    );
    let expect = Mysql {
        table: "ids.bounds".into(),
        address: Some("other:3306".parse().unwrap()),
        account: Some(Account { user: "r".into(), password: Secret::new("hush".into()) }),
    };
    assert_eq!(mysql.1.config.store.kind, StoreKind::Mysql(expect));
}
