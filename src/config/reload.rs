//! Which keys of a configuration that is read again act at once, and which wait for a restart.

use super::Config;

/// When a key that was changed takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// With the reload, for open sessions too.
    Reload,
    /// With the reload, for connections that are made after it.
    NewConnections,
    /// With a restart only.
    Restart,
}

impl Effect {
    /// The words of the console and the book for this effect.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Reload => "at once",
            Effect::NewConnections => "for new connections",
            Effect::Restart => "after a restart",
        }
    }
}

/// Keys of [`Effect::Restart`]; `*`: all that begin so, but for those that [`ACTS`] names.
const WAITS: [&str; 17] = [
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
    "state.others_may_write",
    "log.format",
    "admin.address",
    "http.address",
    "resp.address",
    "api.address",
];
const ACTS: [&str; 1] = ["store.deadline"];
/// Keys of [`Effect::Reload`]. Sessions share what these say, or do not look at it: the others are in `Shared`, which a session
/// keeps as it was when its client came.
const AT_ONCE: [&str; 8] = [
    "admin.users*",
    "api.compat",
    "limits.drain_timeout",
    "log.audit",
    "log.level",
    "rules.path",
    "rules.watch",
    "users.stale_max",
];

/// The effect of a key, for example "limits.connections".
pub fn effect(key: &str) -> Effect {
    let is = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == pattern,
    };
    if WAITS.into_iter().any(is) && !ACTS.contains(&key) {
        Effect::Restart
    } else if AT_ONCE.into_iter().any(is) {
        Effect::Reload
    } else {
        Effect::NewConnections
    }
}

/// True if a changed key takes effect without a restart.
pub fn acts_on_reload(key: &str) -> bool {
    effect(key) != Effect::Restart
}

/// The configuration after a reload, and the keys whose change waits for a restart: these
/// keep their old values.
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
    keep!("state.others_may_write", others_may_write);
    let at = |config: &Config| config.http.as_ref().map(|http| http.address.clone());
    if at(&acting) != at(old) {
        waiting.push("http.address");
    }
    acting.http.clone_from(&old.http);
    keep!("admin.address", admin.address);
    keep!("resp.address", resp.address);
    keep!("api.address", api.address);
    acting.admin.is_written = old.admin.is_written;
    keep!("log.format", log.format);
    (acting, waiting)
}

#[cfg(test)]
mod tests {
    use super::{Effect, acts_on_reload, effect, reloaded};
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
        for (key, expect) in [
            ("limits.connections", Effect::NewConnections),
            ("limits.drain_timeout", Effect::Reload),
            ("store.deadline", Effect::NewConnections),
            ("store.path", Effect::Restart),
            ("store.tls.ca", Effect::Restart),
            ("listen.address", Effect::Restart),
            ("listen.tls.cert", Effect::NewConnections),
            ("listen.rsa_key", Effect::NewConnections),
            ("backend.control.user", Effect::Restart),
            ("admin.users", Effect::Reload),
            ("admin.users[0].role", Effect::Reload),
            ("rewrite.verify", Effect::NewConnections),
            ("resp.address", Effect::Restart),
            ("resp.tls.cert", Effect::NewConnections),
            ("api.address", Effect::Restart),
            ("api.tls.mode", Effect::NewConnections),
            ("api.compat", Effect::Reload),
            ("log.level", Effect::Reload),
            ("log.format", Effect::Restart),
        ] {
            assert_eq!(effect(key), expect, "{key}");
            assert_eq!(acts_on_reload(key), expect != Effect::Restart, "{key}");
        }
    }

    #[test]
    fn what_acts_and_what_waits() {
        let server = "[backend]\naddress = \"127.0.0.1:3306\"\n";
        let more = |keys: &str, waiting: &[&str], acts: fn(&Config) -> bool| {
            check(&format!("{server}{keys}"), waiting, acts);
        };
        more("", &[], |_| true);
        check("[backend]\naddress = \"127.0.0.1:3307\"\n", &["backend.address"], |new| {
            new.proxy.backend.addresses[0].to_string() == "127.0.0.1:3306"
        });
        more("[limits]\nconnections = 7\n", &[], |new| new.proxy.limits.connections_max == 7);
        more("[rules]\npath = \"others\"\n", &[], |new| new.rules.path.ends_with("others"));
        let store = "[store]\ndeadline = \"2s\"\npath = \"x.redb\"\n";
        more(store, &["store.*"], |new| new.store.deadline.as_secs() == 2);
        more("[http]\naddress = \"off\"\n", &["http.address"], |new| new.http.is_some());
        more("[http]\naddress = \"127.0.0.1:3309\"\n", &[], |new| new.http.is_some());
        // The default name hangs on the address.
        let listen = "[listen]\naddress = \"127.0.0.1:1\"\n[listen.tls]\nmode = \"required\"\n";
        more(listen, &["listen.address", "proxy.name"], |new| {
            new.proxy.listen_tls.mode == crate::proxy::settings::ListenTlsMode::Required
        });
        // The console's address comes with its first user.
        let users = "[[admin.users]]\nname = \"dba\"\npassword = \"x\"\n";
        more(users, &["admin.address"], |new| new.admin.address.is_none() && new.admin.users.len() == 1);
    }
}
