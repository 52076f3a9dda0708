//! Doors, which give ids without an INSERT.

use super::{PLAIN, RULES, folder, found, load_in};

/// With one user, without whom nobody could come in.
fn with(api: &str) -> String {
    format!("{PLAIN}admin.users = [{{ name = 'dba', password_file = 'password' }}]\n{api}\n")
}

#[test]
fn other_services_paths_that_nobody_gets() {
    let service = "schema = 'service'\n[generators.id]\nkind = 'timestamp'\nlayout = 'snowflake'\n";
    for (api, rules, expect) in [
        ("api.address = '127.0.0.1:0'\napi.compat = ['leaf', 'udf']", service, ""),
        ("api.address = '127.0.0.1:0'\napi.compat = ['leaf']", RULES, ""),
        (
            "api.address = '127.0.0.1:0'\napi.compat = ['udf']",
            RULES,
            "api.compat: \"udf\" gives ids of generator service.id, and the rules have none; write schema = \"service\" and [generators.id] \
             with kind = \"timestamp\" into a file of the rules",
        ),
        (
            "api.address = '127.0.0.1:0'\napi.compat = ['udf']",
            "schema = 'service'\n[generators.id]\nkind = 'sequence'\nseed = 'none'\n",
            "api.compat: \"udf\" gives ids of generator service.id, and it is a sequence, which has no workers; write ",
        ),
        ("api.compat = ['leaf']", RULES, "api.compat: has no effect, since api.address is \"off\""),
        ("api.compat = ['lea']", RULES, "api.compat[0]: "),
    ] {
        let folder = folder(&with(api), rules);
        let told = found(folder.path());
        let about: Vec<_> = told.iter().filter(|line| line.contains("api.")).collect();
        assert_eq!(about.len(), usize::from(!expect.is_empty()), "{api}: {told:?}");
        assert!(about.iter().all(|line| line.contains(expect)), "{api}: {told:?}");
    }
}

#[test]
fn passwords_that_cross_the_network_in_clear() {
    for (door, expect) in [
        (
            "resp.address = '0.0.0.0:6379'\nresp.tls.mode = 'disabled'",
            "resp.tls.mode: is \"disabled\", and other machines can connect to 0.0.0.0:6379",
        ),
        (
            "api.address = '10.0.0.5:3310'\napi.tls.mode = 'disabled'",
            "api.tls.mode: is \"disabled\", and other machines can connect to 10.0.0.5:3310",
        ),
        ("api.address = '10.0.0.5:3310'", ""),
        ("api.address = '127.0.0.2:3310'\napi.tls.mode = 'disabled'", ""),
        ("api.address = '[::1]:3310'\napi.tls.mode = 'disabled'", ""),
        ("resp.address = 'localhost:6379'\nresp.tls.mode = 'disabled'", ""),
        ("resp.address = 'unix:r.sock'\nresp.tls.mode = 'disabled'", ""),
        ("resp.tls.mode = 'disabled'", ""),
    ] {
        let folder = folder(&with(door), RULES);
        let told = found(folder.path());
        let about: Vec<_> = told.iter().filter(|line| line.contains("tls.mode")).collect();
        assert_eq!(about.len(), usize::from(!expect.is_empty()), "{door}: {told:?}");
        assert!(about.iter().all(|line| line.contains(expect)), "{door}: {told:?}");
    }
}

#[test]
fn where_others_find_the_api() {
    let host = super::super::act::host_name();
    for (api, expect) in [
        ("", None),
        ("api.address = '127.0.0.1:0'", None),
        ("api.address = 'unix:api.sock'", None),
        ("api.address = '127.0.0.2:3310'", None),
        ("api.address = '[::1]:3310'", None),
        ("api.address = 'localhost:3310'", None),
        ("api.address = '10.0.0.5:3310'", Some("10.0.0.5:3310".to_owned())),
        ("api.address = '[fd00::5]:3310'", Some("[fd00::5]:3310".to_owned())),
        ("api.address = '0.0.0.0:3310'", Some(format!("{host}:3310"))),
        ("api.address = '[::]:3310'", Some(format!("{host}:3310"))),
    ] {
        let folder = folder(&with(api), RULES);
        assert_eq!(load_in(folder.path()).unwrap().config.api_elsewhere(), expect, "{api}");
    }
}
