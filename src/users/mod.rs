//! The users of the console and the doors, and their rights: `[[admin.users]]` of rowstamp.toml, and the users of the
//! store, which are those of the whole fleet (docs/users.md).

mod change;
mod directory;
mod login;
mod quota;
mod record;
mod rights;
mod secret;
pub(crate) mod throttle;
mod turns;
mod usage;

use std::sync::Arc;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use self::change::{Change, ChangeKind, Changed};
pub use self::directory::{ChangeError, Directory};
pub(crate) use self::directory::{Charge, Roster, Unsure};
pub(crate) use self::login::Login;
pub(crate) use self::quota::OverQuota;
pub(crate) use self::record::user_of;
pub use self::rights::{Grant, Right, Scope};
pub use self::secret::Token;
pub(crate) use self::secret::without_tokens;
use self::secret::{Proven, Secret};
pub(crate) use self::usage::Usage;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// READ on all generators.
    #[default]
    Read,
    /// All rights on all generators.
    Write,
}

impl Role {
    fn rights(self) -> &'static [Right] {
        match self {
            Role::Read => &[Right::Read],
            Role::Write => &Right::ALL,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// rowstamp.toml, of this proxy.
    File,
    /// The store, whose users every proxy of the fleet knows.
    Store,
}

impl Home {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Home::File => "file",
            Home::Store => "store",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub home: Home,
    secrets: Vec<Secret>,
    grants: Vec<Grant>,
    pub(crate) usage: Usage,
}

/// Which secret of a user somebody has logged in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct By([u8; 32]);

impl User {
    /// One of `[[admin.users]]`.
    pub fn of_file(name: &str, password: Zeroizing<String>, role: Role) -> Self {
        let grant = |right: &Right| Grant::new(*right, Scope::All, None);
        User {
            name: name.to_owned(),
            home: Home::File,
            secrets: vec![Secret::Plain(password)],
            grants: role.rights().iter().map(grant).collect(),
            usage: Usage::default(),
        }
    }

    pub fn may(&self, right: Right, generator: &str) -> bool {
        self.grant(right, generator).is_some()
    }

    /// With all generators, also those that are not there yet.
    pub fn may_everywhere(&self, right: Right) -> bool {
        self.grants.iter().any(|grant| grant.right == right && grant.on == Scope::All)
    }

    /// The one that lets the user do so.
    pub(crate) fn grant(&self, right: Right, generator: &str) -> Option<&Grant> {
        rights::closest(&self.grants, right, generator)
    }

    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.secrets.iter().filter_map(|secret| match secret {
            Secret::Token(token) => Some(token),
            Secret::Plain(_) | Secret::Hash(_) => None,
        })
    }

    /// The SHA-256 of each, and what logs in by it.
    fn by_tokens(&self) -> impl Iterator<Item = ([u8; 32], By)> {
        self.secrets.iter().filter_map(|secret| match secret {
            Secret::Token(token) => Some((token.sha256, By(secret.mark()))),
            Secret::Plain(_) | Secret::Hash(_) => None,
        })
    }

    pub(crate) fn has_password(&self) -> bool {
        self.secrets.iter().any(|secret| !matches!(secret, Secret::Token(_)))
    }

    /// The password of a user of the file, in clear, as the logins of MySQL's clients need it. Empty: there is none.
    pub(crate) fn plain_password(&self) -> &str {
        let plain = self.secrets.iter().find_map(|secret| match secret {
            Secret::Plain(password) => Some(password.as_str()),
            Secret::Hash(_) | Secret::Token(_) => None,
        });
        plain.unwrap_or_default()
    }

    /// The mark of the only secret of a user of the file.
    pub(crate) fn by_password(&self) -> By {
        By(self.secrets.first().map_or([0; 32], Secret::mark))
    }

    /// The secret that was given, where it is known without the slow hash. All are looked at.
    fn known(&self, given: &[u8], proven: &Proven) -> Option<By> {
        let known = |secret: &&Secret| secret.is_known(given, proven);
        self.secrets.iter().filter(known).map(|secret| By(secret.mark())).next_back()
    }

    /// True if a login by this secret would still be let in.
    pub(crate) fn has(&self, by: By) -> bool {
        self.secrets.iter().any(|secret| By(secret.mark()) == by)
    }

    /// The user without tokens that have expired: the same `Arc` if there are none.
    fn without_expired(user: &Arc<User>, now: SystemTime) -> Arc<User> {
        let is_over = |secret: &Secret| matches!(secret, Secret::Token(token) if token.is_over(now));
        if !user.secrets.iter().any(is_over) {
            return user.clone();
        }
        let mut left = User::clone(user);
        left.secrets.retain(|secret| !is_over(secret));
        Arc::new(left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Right, Role, Scope, User};

    fn user(password: &str, role: Role) -> User {
        User::of_file("app", password.to_owned().into(), role)
    }

    #[test]
    fn roles_of_the_file() {
        let may = |role| Right::ALL.map(|right| user("x", role).may(right, "shop.orders"));
        assert_eq!((may(Role::Write), may(Role::Read)), ([true; 4], [false, true, false, false]));
        let everywhere = |role| Right::ALL.map(|right| user("x", role).may_everywhere(right));
        assert_eq!((everywhere(Role::Write), everywhere(Role::Read)), (may(Role::Write), may(Role::Read)));
    }

    #[test]
    fn a_login_holds_for_as_long_as_its_secret() {
        let (app, by) = (user("s3cret", Role::Write), user("s3cret", Role::Read).by_password());
        assert!(app.has(by) && !user("another", Role::Write).has(by));
        assert_eq!(app.plain_password(), "s3cret");
        assert!(!format!("{app:?}").contains("s3cret"));
    }

    #[test]
    fn a_right_on_one_is_none_on_all() {
        let mut app = user("x", Role::Read);
        app.grants[0].on = Scope::Schema("shop".to_owned());
        assert!(app.may(Right::Read, "shop.orders") && !app.may(Right::Read, "blog.posts"));
        assert!(!app.may_everywhere(Right::Read));
    }
}
