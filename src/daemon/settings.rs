//! rowstamp.toml as it acts, key by key.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::admin::ConfigRow;
use crate::config::keys::ConfigFile;
use crate::config::reload::{Effect, effect};

/// Stands in place of a secret.
const HIDDEN: &str = "***";

/// By key. `began`: the file at the start, by which keys act that wait for a restart; `now`: as it
/// was read last.
pub(crate) fn rows(began: &ConfigFile, now: &ConfigFile) -> Vec<ConfigRow> {
    let (defaults, began) = (flat(&ConfigFile::default()), flat(began));
    let of = |rows: &BTreeMap<String, String>, key: &str| rows.get(key).cloned().unwrap_or_default();
    let row = |(key, value): (String, String)| {
        let effect = effect(&key);
        let value = if effect == Effect::Restart { of(&began, &key) } else { value };
        ConfigRow { default: of(&defaults, &key), takes_effect: effect.as_str(), key, value }
    };
    flat(now).into_iter().map(row).collect()
}

pub(crate) fn differing(old: &ConfigFile, new: &ConfigFile) -> Vec<String> {
    let (old, new) = (secrets_told_apart(old), secrets_told_apart(new));
    let all: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    all.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn flat(file: &ConfigFile) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    // A ConfigFile always serializes.
    walk("", &serde_json::to_value(file).unwrap_or_default(), &mut rows);
    rows
}

/// [`flat`], where a changed secret is another value. For comparing only.
fn secrets_told_apart(file: &ConfigFile) -> BTreeMap<String, String> {
    let mut rows = flat(file);
    let control = file.backend.control.as_ref().and_then(|control| control.password.as_ref());
    let secrets = [("store.password", file.store.password.as_ref()), ("backend.control.password", control)];
    for (key, secret) in secrets {
        rows.extend(secret.map(|secret| (key.to_owned(), secret.reveal().to_owned())));
    }
    for password in file.admin.users.iter().filter_map(|user| user.password.as_ref()) {
        *rows.entry("admin.users".to_owned()).or_default() += password.reveal();
    }
    rows
}

fn walk(key: &str, value: &Value, rows: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                walk(&key, value, rows);
            }
        }
        value => drop(rows.insert(key.to_owned(), text(key, value))),
    }
}

fn text(key: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        _ if key.rsplit('.').next() == Some("password") => HIDDEN.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(|value| text(key, value)).collect::<Vec<_>>().join(", "),
        // A user of the console: who, and what they may.
        Value::Object(fields) => {
            let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            format!("{} ({})", field("name"), field("role"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{differing, rows};
    use crate::config::keys::ConfigFile;

    fn file(text: &str) -> ConfigFile {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_key_and_no_secret() {
        let written = file(
            "[backend]\naddress = [\"a:1\", \"b:2\"]\n[backend.control]\nuser = \"r\"\npassword = \"s3cret\"\n\
             [[admin.users]]\nname = \"dba\"\nrole = \"write\"\npassword = \"s3cret\"\n[limits]\nidle_timeout = \"90s\"\n",
        );
        let later = file("[backend]\naddress = \"c:1\"\n[limits]\nidle_timeout = \"90s\"\n");
        let value =
            |key: &str| rows(&written, &later).into_iter().find(|row| row.key == key).map(|row| row.value);
        assert_eq!(value("backend.address").as_deref(), Some("a:1, b:2"), "it waits for a restart");
        let rows = rows(&written, &written);
        let row = |key: &str| {
            let row = rows.iter().find(|row| row.key == key);
            row.map_or(("?", "?", "?"), |row| (row.value.as_str(), row.default.as_str(), row.takes_effect))
        };
        assert_eq!(row("backend.address"), ("a:1, b:2", "", "after a restart"));
        assert_eq!(row("backend.control.password"), ("***", "", "after a restart"));
        assert_eq!(row("admin.users"), ("dba (write)", "", "at once"));
        assert_eq!(row("limits.idle_timeout"), ("1m 30s", "8h", "for new connections"));
        assert_eq!(row("store.deadline"), ("1s", "1s", "for new connections"));
        assert!(rows.iter().all(|row| !format!("{row:?}").contains("s3cret")));
        assert!(rows.is_sorted_by(|a, b| a.key < b.key));
    }

    #[test]
    fn what_differs() {
        let a = file("[backend]\naddress = \"a:1\"\n[store]\npassword = \"x\"\n");
        let b = file("[backend]\naddress = \"a:1\"\n[store]\npassword = \"y\"\n[log]\nlevel = \"debug\"\n");
        assert_eq!(differing(&a, &b), ["log.level", "store.password"]);
        assert!(differing(&a, &a).is_empty());
        let users =
            |password: &str| file(&format!("[[admin.users]]\nname = \"dba\"\npassword = \"{password}\"\n"));
        assert_eq!(differing(&users("x"), &users("y")), ["admin.users"]);
    }
}
