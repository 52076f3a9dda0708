//! Keys from the environment, and variables in values.

use super::{PLAIN, RULES, folder, without_folder};
use crate::address::Address;
use crate::config::{LoadError, Loaded, StoreKind, load};
use crate::toml_file::Environment;

/// Loads the text with these variables; an error has the findings.
fn with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Vec<String>> {
    let folder = folder(text, RULES);
    let variables = variables.iter().copied().chain([("SECRET", "hush")]);
    load(&folder.path().join("rowstamp.toml"), &Environment::of(variables))
        .map_err(|error| without_folder(&error.to_string(), folder.path()))
}

#[test]
fn every_kind_of_value() {
    let loaded = with(
        "backend.address = 'other:1'\nlimits.connections = 'not read'\n[store]\nkind = 'embedded'",
        &[
            ("ROWSTAMP_BACKEND__ADDRESS", "db1:3306, db2:3306"),
            ("ROWSTAMP_BACKEND__CONTROL__USER", "r"),
            ("ROWSTAMP_BACKEND__CONTROL__PASSWORD", "${NOT_A_PLACE}, 7"),
            ("ROWSTAMP_LIMITS__CONNECTIONS", "77"),
            ("ROWSTAMP_LIMITS__IDLE_TIMEOUT", "3m"),
            ("ROWSTAMP_RULES__WATCH", "false"),
            ("ROWSTAMP_STORE__KIND", "etcd"),
            ("ROWSTAMP_STORE__ENDPOINTS", "[\"e1:2379\", \"e2:2379\"]"),
            ("ROWSTAMP_ADMIN__USERS", "[{ name = 'dba', password = 'x', role = 'write' }]"),
            ("ROWSTAMP_LISTEN__PROXY_PROTOCOL", "optional"),
            ("ROWSTAMP_LISTEN__PROXY_PROTOCOL_FROM", "10.0.0.0/8"),
            // Neither of these names has two underscores after a section's name.
            ("ROWSTAMP_CONFIG", "elsewhere"),
            ("ROWSTAMP_RANDOM_SEED", "1"),
        ],
    );
    let Loaded { config, warnings, .. } = loaded.unwrap();
    let addresses: Vec<_> = config.proxy.backend.addresses.iter().map(Address::to_string).collect();
    assert_eq!(addresses, ["db1:3306", "db2:3306"]);
    let control = config.control.unwrap();
    assert_eq!((&*control.user, control.password.reveal()), ("r", "${NOT_A_PLACE}, 7"));
    assert_eq!((config.proxy.limits.connections_max, config.rules.watch), (77, false));
    assert_eq!(config.proxy.limits.idle_timeout.as_secs(), 180);
    let StoreKind::Etcd(etcd) = config.store.kind else { panic!("{:?}", config.store) };
    assert_eq!(etcd.endpoints, ["e1:2379", "e2:2379"]);
    assert_eq!((config.admin.users.len(), config.proxy.listen_proxy.from.len()), (1, 1));
    assert_eq!(warnings.to_string(), "");
}

#[test]
fn what_is_wrong_with_a_variable() {
    for (written, expect) in [
        (
            "ROWSTAMP_BACKEND__ADRESS=x",
            "names no key of rowstamp.toml; did you mean ROWSTAMP_BACKEND__ADDRESS?",
        ),
        (
            "ROWSTAMP_backend__address=x",
            "names no key of rowstamp.toml; did you mean ROWSTAMP_BACKEND__ADDRESS?",
        ),
        (
            "ROWSTAMP_SOMETHING__WHOLLY__ELSE=x",
            "names no key of rowstamp.toml; `rowstamp --help` lists the variables of all keys",
        ),
        (
            "ROWSTAMP_LISTEN__TLS=x",
            "names a table; set one of its keys, for example ROWSTAMP_LISTEN__TLS__CA",
        ),
        (
            "ROWSTAMP_BACKEND__ADDRESS=db",
            "backend.address: \"db\" has no port: write host:port, or unix:/path for a Unix socket",
        ),
        (
            "ROWSTAMP_BACKEND__ADDRESS=a:1,db",
            "backend.address[1]: \"db\" has no port: write host:port, or unix:/path for a Unix socket",
        ),
        (
            "ROWSTAMP_LIMITS__CONNECTIONS=many",
            "limits.connections: expected a whole number from 1 up to 4294967295, found a string",
        ),
        (
            "ROWSTAMP_LIMITS__CONNECTIONS=0",
            "limits.connections: 0 is out of range: write a number from 1 up to 4294967295",
        ),
        ("ROWSTAMP_RULES__WATCH=no", "rules.watch: expected true or false, found a string"),
        (
            "ROWSTAMP_ADMIN__USERS=dba",
            "is not a list; write the list as in TOML, [{ name = \"dba\", role = \"read\" }]",
        ),
        (
            "ROWSTAMP_ADMIN__USERS=[{ nmae = 'dba', password = 'x' }]",
            "admin.users[0].name: is missing; set ROWSTAMP_ADMIN__USERS",
        ),
        ("ROWSTAMP_LOG__LEVEL=inof", "log.level: \"inof\" is unknown; did you mean \"info\"? Known: "),
        // A table that the file has not got.
        (
            "ROWSTAMP_LISTEN__TLS__CERT=pem",
            "listen.tls.key: is missing; name the PEM file of the certificate's private key",
        ),
        (
            "ROWSTAMP_STORE__TLS__CA=pem",
            "store.tls: is only for kind = \"etcd\"; write that kind, or remove the key",
        ),
    ] {
        let (variable, text) = written.split_once('=').unwrap();
        let found = with(PLAIN, &[(variable, text)]).unwrap_err().join("\n");
        assert!(found.contains(&format!("error: ${variable}: {expect}")), "{variable}: {found}");
    }
    let missing = with("backend.address = 'a:1'", &[("ROWSTAMP_BACKEND__CONTROL__PASSWORD", "x")]);
    assert_eq!(
        missing.unwrap_err()[0],
        "error: $ROWSTAMP_BACKEND__CONTROL__PASSWORD: backend.control.user: is missing; set ROWSTAMP_BACKEND__CONTROL__USER"
    );
}

#[test]
fn variables_in_values() {
    let variables =
        [("HOST", "db"), ("PORT", "3307"), ("MAX", "5"), ("WATCH", "false"), ("BOTH", "a:1, b:2")];
    let loaded = with(
        "proxy.name = '$${HOST} ${HOST}'\nlimits.connections = '${MAX}'\nrules.watch = '${WATCH}'\n\
         backend = { address = ['${HOST}:${PORT}'], control = { user = 'r', password = '${SECRET}' } }\n\
         store = { kind = 'etcd', endpoints = '${BOTH}' }",
        &variables,
    );
    let Loaded { config, .. } = loaded.unwrap();
    assert_eq!(config.proxy.backend.addresses[0].to_string(), "db:3307");
    assert_eq!((config.proxy.limits.connections_max, config.rules.watch), (5, false));
    assert_eq!((&*config.proxy.name, config.control.unwrap().password.reveal()), ("${HOST} db", "hush"));
    let StoreKind::Etcd(etcd) = config.store.kind else { panic!("{:?}", config.store) };
    assert_eq!(etcd.endpoints, ["a:1", "b:2"]);

    for (line, expect) in [
        (
            "proxy.name = '${NONE}'",
            "proxy.name: the environment has no NONE, which ${NONE} stands for; set it for this process, or write $${NONE} for \
             the text itself",
        ),
        (
            "proxy.name = 'a ${'",
            "proxy.name: has ${ without the name of a variable and } after it; write ${NAME}, or $${ for the two characters ${",
        ),
        (
            "limits.connections = '${HOST}'",
            "limits.connections: expected a whole number from 1 up to 4294967295, found a string",
        ),
        (
            "http.address = '${HOST}'",
            "http.address: \"db\" has no port: write host:port, or unix:/path for a Unix socket",
        ),
        (
            "listen.proxy_protocol_from = '${BOTH}'",
            "listen.proxy_protocol_from[0]: is not a network: write a network such as \
             \"10.0.0.0/8\", or one address",
        ),
    ] {
        let found = with(&format!("{PLAIN}{line}"), &variables).unwrap_err().join("\n");
        assert!(found.contains(&format!("error: rowstamp.toml:3: {expect}")), "{line}: {found}");
    }
}

/// A password that only a variable has is not in a file that others may read.
#[test]
fn whose_password_others_may_read() {
    use std::os::unix::fs::PermissionsExt;
    for (keys, is_warned_of) in [("password = 'x'", true), ("password = '${SECRET}'", false), ("", false)] {
        let folder =
            folder(&format!("backend = {{ address = 'a:1', control = {{ user = 'r', {keys} }} }}"), RULES);
        let file = folder.path().join("rowstamp.toml");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let key = ("ROWSTAMP_BACKEND__CONTROL__PASSWORD", "x");
        let variables = [("SECRET", "hush")].into_iter().chain(keys.is_empty().then_some(key));
        let warnings = load(&file, &Environment::of(variables)).unwrap().warnings.to_string();
        let is_told = warnings.contains("others than the owner may read the file");
        assert_eq!(is_told, is_warned_of, "{keys}: {warnings}");
    }
}

#[test]
fn another_configuration_has_none_of_the_keys() {
    let environment = Environment::of([("ROWSTAMP_PROXY__NAME", "x"), ("SECRET", "hush")]).without_keys();
    let folder = folder(&format!("{PLAIN}proxy.name = '${{SECRET}}'"), RULES);
    let loaded = load(&folder.path().join("rowstamp.toml"), &environment).unwrap();
    assert_eq!(loaded.config.proxy.name, "hush");
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Environment::of([("ROWSTAMP_BACKEND__ADDRESS", "a:1")]);
    let error = load(&folder.path().join("rowstamp.toml"), &keys).unwrap_err();
    assert!(matches!(error, LoadError::NoFile(_)), "{error}");
}
