//! The rights of a user, and the generators that each is for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Right {
    /// To draw ids.
    Take,
    /// To list generators, and to look at them and their ids.
    Read,
    /// To make generators.
    Create,
    /// To raise and pause generators. On all of them: every command of the console, users included.
    Admin,
}

impl Right {
    pub const ALL: [Right; 4] = [Right::Take, Right::Read, Right::Create, Right::Admin];

    pub fn word(self) -> &'static str {
        match self {
            Right::Take => "TAKE",
            Right::Read => "READ",
            Right::Create => "CREATE",
            Right::Admin => "ADMIN",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The generators that a right is for: `*.*`, `schema.*` or `schema.name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    All,
    Schema(String),
    One(String),
}

impl Scope {
    pub fn covers(&self, generator: &str) -> bool {
        match self {
            Scope::All => true,
            // A schema's name may have a dot, a generator's has none.
            Scope::Schema(schema) => generator.rsplit_once('.').is_some_and(|(of, _)| of == schema),
            Scope::One(name) => name == generator,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::All => f.write_str("*.*"),
            Scope::Schema(schema) => write!(f, "{schema}.*"),
            Scope::One(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no generators; write schema.name, schema.* or *.*")]
pub struct NoScope(String);

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Self, NoScope> {
        match text.rsplit_once('.') {
            Some(("*", "*")) => Ok(Scope::All),
            Some((schema, "*")) if !schema.is_empty() && !schema.contains('*') => {
                Ok(Scope::Schema(schema.to_owned()))
            }
            Some((schema, name)) if !schema.is_empty() && !name.is_empty() && !text.contains('*') => {
                Ok(Scope::One(text.to_owned()))
            }
            _ => Err(NoScope(text.chars().take(100).collect())),
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = NoScope;

    fn try_from(text: String) -> Result<Self, NoScope> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub right: Right,
    pub on: Scope,
    /// The LIMIT of TAKE: ids a second, of the fleet. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
    /// Fields of a later version.
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

impl Grant {
    pub fn new(right: Right, on: Scope, per_second: Option<u64>) -> Self {
        Grant { right, on, per_second, unknown: Map::new() }
    }

    /// The statement that gives it.
    pub(crate) fn statement(&self, to: &str) -> String {
        let limit = self.per_second.map_or_else(String::new, |limit| format!(" LIMIT {limit} PER SECOND"));
        format!("GRANT {} ON {} TO '{to}'{limit}", self.right, self.on)
    }
}

/// The grant that counts: if several grants of a right cover a generator, the one that names it most closely.
pub(super) fn closest<'a>(grants: &'a [Grant], right: Right, generator: &str) -> Option<&'a Grant> {
    let fits = grants.iter().filter(|grant| grant.right == right && grant.on.covers(generator));
    fits.max_by_key(|grant| match &grant.on {
        Scope::All => 0,
        Scope::Schema(_) => 1,
        Scope::One(_) => 2,
    })
}

#[cfg(test)]
mod tests {
    use super::{Grant, Right, Scope, closest};

    #[test]
    fn scopes() {
        for (text, covers, not) in [
            ("*.*", vec!["shop.orders", "blog.posts"], vec![]),
            (
                "shop.*",
                vec!["shop.orders", "shop.x"],
                vec!["shops.orders", "shop", "blog.shop", "shop.eu.orders"],
            ),
            ("shop.eu.*", vec!["shop.eu.orders"], vec!["shop.orders", "eu.orders"]),
            ("shop.orders", vec!["shop.orders"], vec!["shop.orders2", "shop.order", "SHOP.ORDERS"]),
        ] {
            let scope: Scope = text.parse().unwrap();
            assert_eq!(scope.to_string(), text);
            assert_eq!(serde_json::to_string(&scope).unwrap(), format!("{text:?}"));
            assert!(covers.iter().all(|name| scope.covers(name)), "{text}");
            assert!(!not.iter().any(|name| scope.covers(name)), "{text}");
        }
        for text in ["", "*", "shop", ".x", "shop.", "*.orders", "sh*.orders", "sh*.*", "shop.o*"] {
            assert!(text.parse::<Scope>().is_err(), "{text:?}");
            assert!(serde_json::from_str::<Scope>(&format!("{text:?}")).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_closest_grant_counts() {
        let grant = |on: &str, per_second| Grant::new(Right::Take, on.parse().unwrap(), per_second);
        let mut grants = vec![grant("*.*", None), grant("shop.orders", Some(5)), grant("shop.*", Some(7))];
        let limit = |grants: &[Grant], name| closest(grants, Right::Take, name).map(|grant| grant.per_second);
        for _ in 0..grants.len() {
            assert_eq!(limit(&grants, "shop.orders"), Some(Some(5)));
            assert_eq!(limit(&grants, "shop.items"), Some(Some(7)));
            assert_eq!(limit(&grants, "blog.posts"), Some(None));
            assert_eq!(closest(&grants, Right::Read, "shop.orders"), None);
            grants.rotate_left(1);
        }
    }

    #[test]
    fn statements() {
        let grant = Grant::new(Right::Take, "shop.*".parse().unwrap(), Some(9));
        assert_eq!(grant.statement("app"), "GRANT TAKE ON shop.* TO 'app' LIMIT 9 PER SECOND");
    }
}
