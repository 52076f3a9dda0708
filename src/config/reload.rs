//! Which keys of a configuration that is read again act at once, and which wait for a restart.

use super::Config;

/// Keys that act after a restart only; `*`: all that begin so, but for those that [`ACTS`] names.
const WAITS: [&str; 14] = [
    "listen.address",
    "listen.proxy_protocol",
    "listen.proxy_protocol_from",
    "listen.compression",
    "backend.address",
    "backend.send_proxy",
    "backend.compression",
    "backend.control.*",
    "store.*",
    "proxy.name",
    "state.path",
    "log.format",
    "admin.address",
    "http.address",
];
const ACTS: [&str; 1] = ["store.deadline"];

/// Whether a key, as "limits.connections", acts while the process goes on.
pub fn acts_on_reload(key: &str) -> bool {
    let is = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == pattern,
    };
    ACTS.contains(&key) || !WAITS.into_iter().any(is)
}

/// What acts of `new` while the process goes on, and the keys whose change waits for a restart:
/// they keep their values.
pub fn reloaded(old: &Config, new: Config) -> (Config, Vec<&'static str>) {
    let mut waiting = Vec::new();
    let mut acting = new;
    macro_rules! keep {
        ($key:literal, $($field:ident).+) => {
            if acting.$($field).+ != old.$($field).+ {
                waiting.push($key);
                acting.$($field).+.clone_from(&old.$($field).+);
            }
        };
    }
    keep!("listen.address", proxy.listen);
    acting.proxy.listen_is_written = old.proxy.listen_is_written;
    keep!("listen.proxy_protocol", proxy.listen_proxy.mode);
    keep!("listen.proxy_protocol_from", proxy.listen_proxy.from);
    keep!("listen.compression", proxy.listen_compression);
    keep!("backend.address", proxy.backend.addresses);
    keep!("backend.send_proxy", proxy.backend.send_proxy);
    keep!("backend.compression", proxy.backend.compression);
    keep!("backend.control", control);
    keep!("store.*", store.kind);
    keep!("proxy.name", proxy.name);
    keep!("state.path", proxy.state_path);
    let at = |config: &Config| config.http.as_ref().map(|http| http.address.clone());
    if at(&acting) != at(old) {
        waiting.push("http.address");
    }
    acting.http.clone_from(&old.http);
    keep!("admin.address", admin.address);
    acting.admin.is_written = old.admin.is_written;
    keep!("log.format", log.format);
    (acting, waiting)
}

#[cfg(test)]
mod tests {
    use super::reloaded;
    use crate::config::Config;
    use std::fs;

    fn config(folder: &std::path::Path, text: &str) -> Config {
        let file = folder.join("rowstamp.toml");
        fs::write(&file, text).unwrap();
        crate::config::load(&file, &crate::toml_file::Environment::default()).unwrap().config
    }

    /// `text` in place of a configuration that says nothing but where the server is.
    fn check(text: &str, waiting: &[&str], acts: impl Fn(&Config) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("rules")).unwrap();
        fs::create_dir(folder.path().join("others")).unwrap();
        let old = config(folder.path(), "[backend]\naddress = \"127.0.0.1:3306\"\n");
        let (acting, waits) = reloaded(&old, config(folder.path(), text));
        assert_eq!(waits, waiting, "{text}");
        assert!(acts(&acting), "{text}: {acting:?}");
    }

    #[test]
    fn keys_that_act() {
        for (key, acts) in [
            ("limits.connections", true),
            ("store.deadline", true),
            ("store.path", false),
            ("store.tls.ca", false),
            ("listen.address", false),
            ("listen.tls.cert", true),
            ("listen.rsa_key", true),
            ("backend.control.user", false),
        ] {
            assert_eq!(super::acts_on_reload(key), acts, "{key}");
        }
    }

    #[test]
    fn what_acts_and_what_waits() {
        let server = "[backend]\naddress = \"127.0.0.1:3306\"\n";
        check(server, &[], |_| true);
        check("[backend]\naddress = \"127.0.0.1:3307\"\n", &["backend.address"], |new| {
            new.proxy.backend.addresses[0].to_string() == "127.0.0.1:3306"
        });
        check(&format!("{server}[limits]\nconnections = 7\n"), &[], |new| {
            new.proxy.limits.connections_max == 7
        });
        check(&format!("{server}[rules]\npath = \"others\"\n"), &[], |new| {
            new.rules.path.ends_with("others")
        });
        check(&format!("{server}[store]\ndeadline = \"2s\"\npath = \"x.redb\"\n"), &["store.*"], |new| {
            new.store.deadline.as_secs() == 2
        });
        check(&format!("{server}[http]\naddress = \"off\"\n"), &["http.address"], |new| new.http.is_some());
        check(&format!("{server}[http]\naddress = \"127.0.0.1:3309\"\n"), &[], |new| new.http.is_some());
        // The default name hangs on the address.
        let text =
            format!("{server}[listen]\naddress = \"127.0.0.1:1\"\n[listen.tls]\nmode = \"required\"\n");
        check(&text, &["listen.address", "proxy.name"], |new| {
            new.proxy.listen_tls.mode == crate::proxy::settings::ListenTlsMode::Required
        });
        // The console's address comes with its first user.
        let text = format!("{server}[[admin.users]]\nname = \"dba\"\npassword = \"x\"\n");
        check(&text, &["admin.address"], |new| new.admin.address.is_none() && new.admin.users.len() == 1);
    }
}
