//! Who may do what: `[[admin.users]]` of rowstamp.toml, at the console and at the doors.

pub(crate) mod throttle;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// SHOW, SELECT, EXPLAIN REWRITE, HELP and RELOAD RULES DRY RUN.
    #[default]
    Read,
    /// All commands: also RELOAD RULES, RAISE, PAUSE, RESUME, KILL and DRAIN.
    Write,
}

/// What a door asks about before it does something with a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To draw ids.
    Take,
    /// To list generators, and to look at them and their ids.
    Read,
}

impl Right {
    /// As errors say it.
    pub fn word(self) -> &'static str {
        match self {
            Right::Take => "TAKE",
            Right::Read => "READ",
        }
    }
}

#[derive(Clone)]
pub struct User {
    pub name: String,
    pub password: Zeroizing<String>,
    pub role: Role,
}

impl User {
    /// Of every generator.
    pub fn may(&self, right: Right) -> bool {
        right == Right::Read || self.role == Role::Write
    }

    /// Takes the same time whatever the answer is. An empty password is never right.
    pub(crate) fn has_password(&self, password: &[u8]) -> bool {
        let [own, given] = [self.password.as_bytes(), password].map(Sha256::digest);
        bool::from(own.ct_eq(&given)) && !self.password.is_empty()
    }

    /// Whether who logged in as this user has been logged in by what `other` says too.
    pub(crate) fn is_still(&self, other: &User) -> bool {
        self.name == other.name && self.has_password(other.password.as_bytes())
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Right, Role, User};

    fn user(password: &str, role: Role) -> User {
        User { name: "app".to_owned(), password: password.to_owned().into(), role }
    }

    #[test]
    fn passwords() {
        let app = user("s3cret", Role::Write);
        for (password, is_right) in [("s3cret", true), ("s3cre", false), ("s3cret2", false), ("", false)] {
            assert_eq!(app.has_password(password.as_bytes()), is_right, "{password:?}");
            assert_eq!(app.is_still(&user(password, Role::Read)), is_right, "{password:?}");
        }
        assert!(!user("", Role::Write).has_password(b""));
        assert!(!app.is_still(&User { name: "other".to_owned(), ..app.clone() }));
    }

    #[test]
    fn rights() {
        let may = |role| [Right::Take, Right::Read].map(|right| user("x", role).may(right));
        assert_eq!((may(Role::Write), may(Role::Read)), ([true, true], [false, true]));
    }
}
