//! The environment of the process: whole keys (`ROWSTAMP_BACKEND__ADDRESS`), and `${NAME}` in values.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// In front of the variables that are keys.
const PREFIX: &str = "ROWSTAMP_";
/// Between a section's name and a key's: a single `_` is part of either.
const DOT: &str = "__";
/// Begins the place of a variable in a value; after one more `$` it is these two characters.
const OPEN: &str = "${";

/// The variables of a process, as they were when it was made.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    pub fn of_process() -> Environment {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Environment(std::env::vars_os().filter_map(named).collect())
    }

    /// An environment of these variables alone.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.into());
        Environment(variables.into_iter().map(owned).collect())
    }

    #[must_use]
    pub fn without_keys(mut self) -> Environment {
        self.0.retain(|name, _| path_of(name).is_none());
        self
    }

    /// True if any variable is a key.
    pub fn has_keys(&self) -> bool {
        self.keys().next().is_some()
    }

    /// Each variable that is meant for a key: its name, its text, and the key's full name.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, Option<&str>, String)> {
        self.0.iter().filter_map(|(name, text)| Some((name.as_str(), text.to_str(), path_of(name)?)))
    }

    /// The text of a variable, or why there is none; the remedy is the caller's.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        let value = self.0.get(name).ok_or_else(|| format!("the environment has no {name}"))?;
        value.to_str().ok_or_else(|| format!("{name} in the environment is not UTF-8"))
    }

    /// The text with its variables in place. An error holds nothing of it: it may be a password.
    pub(super) fn filled_in(&self, text: &str) -> Result<String, String> {
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once(OPEN) {
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str(OPEN);
                rest = behind;
                continue;
            }
            let named = behind.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, behind)) = named else {
                return Err(
                    "has ${ without the name of a variable and } after it; write ${NAME}, or $${ for the two characters ${".to_owned()
                );
            };
            let value = self.text(name).map_err(|why| {
                format!("{why}, which ${{{name}}} stands for; set it for this process, or write $${{{name}}} for the text itself")
            })?;
            filled.push_str(before);
            filled.push_str(value);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// True if the text has a place for a variable.
pub(super) fn has_places(text: &str) -> bool {
    text.contains(OPEN)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `ROWSTAMP_BACKEND__ADDRESS` -> "backend.address"; `None`: it is no key, as ROWSTAMP_CONFIG is none.
fn path_of(variable: &str) -> Option<String> {
    let (section, _) = variable.strip_prefix(PREFIX)?.split_once(DOT)?;
    let is_key = !section.is_empty();
    is_key.then(|| variable.strip_prefix(PREFIX).unwrap_or_default().to_lowercase().replace(DOT, "."))
}

/// "backend.address" -> `ROWSTAMP_BACKEND__ADDRESS`
pub fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.to_uppercase().replace('.', DOT))
}

#[cfg(test)]
mod tests {
    use super::{Environment, path_of, variable_of};

    #[test]
    fn which_variables_are_keys() {
        for (variable, expect) in [
            ("ROWSTAMP_BACKEND__ADDRESS", Some("backend.address")),
            ("ROWSTAMP_BACKEND__CONTROL__PASSWORD_FILE", Some("backend.control.password_file")),
            ("ROWSTAMP_CONFIG", None),
            ("ROWSTAMP_RANDOM_SEED", None),
            ("ROWSTAMP___X", None),
            ("ROWSTAMP__BACKEND__ADDRESS", Some("_backend.address")),
            ("BACKEND__ADDRESS", None),
        ] {
            assert_eq!(path_of(variable).as_deref(), expect, "{variable}");
        }
        assert_eq!(variable_of("store.tls.ca"), "ROWSTAMP_STORE__TLS__CA");
    }

    #[test]
    fn variables_in_values() {
        let environment = Environment::of([("A", "x"), ("B_2", "${A}")]);
        for (text, expect) in [
            ("", Ok("")),
            ("$A {A} a$$b", Ok("$A {A} a$$b")),
            ("${A}", Ok("x")),
            ("<${A}${B_2}>", Ok("<x${A}>")),
            ("$${A} $$${A}", Ok("${A} $${A}")),
            ("${", Err("has ${ without")),
            ("${}", Err("has ${ without")),
            ("${A-b}", Err("has ${ without")),
            ("${2}", Err("has ${ without")),
            ("secret${NONE}", Err("the environment has no NONE, which ${NONE} stands for")),
        ] {
            match (environment.filled_in(text), expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{text}"),
                (Err(found), Err(expect)) => {
                    assert!(found.starts_with(expect) && !found.contains("secret"), "{text}: {found}");
                }
                (found, expect) => panic!("{text}: {found:?}, not {expect:?}"),
            }
        }
    }
}
