//! Changes of a user of the store, by the console's statements.

use std::fmt;
use std::time::SystemTime;

use zeroize::Zeroizing;

use super::record::{TokenRecord, UserRecord};
use super::rights::{Grant, Right, Scope};
use super::secret::{PASSWORD_BYTES_MAX, Token};

const NAME_BYTES_MAX: usize = 64;
const TOKENS_MAX: usize = 100;
const GRANTS_MAX: usize = 1_000;

/// A change as the console reads it. Its text, for the log and `log.audit`, has no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    pub user: String,
    pub what: ChangeKind,
}

#[derive(Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Create { password: Option<Zeroizing<String>>, if_not_exists: bool },
    Password(Zeroizing<String>),
    Drop { if_exists: bool },
    Token { expires: Option<SystemTime> },
    DropToken { id: String },
    Grant { rights: Vec<Right>, on: Scope, per_second: Option<u64> },
    Revoke { rights: Vec<Right>, on: Scope },
}

pub enum Changed {
    /// The store has it.
    Done,
    /// There was nothing to change.
    Nothing,
    /// The text is shown this once.
    Token { token: Token, text: Zeroizing<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefused {
    #[error("there is no user {0}; SHOW USERS lists all")]
    NoUser(String),
    #[error("user {0} exists already; ALTER USER gives another password, and GRANT gives rights")]
    Exists(String),
    #[error(
        "user {0} is in rowstamp.toml (admin.users), which says the password and the role; change the file, and reload it"
    )]
    OfFile(String),
    #[error(
        "{0:?} is no name of a user; use 1 to {NAME_BYTES_MAX} of the letters A to Z and a to z, digits, and _ - . $ @"
    )]
    Name(String),
    #[error("a password has 1 to {PASSWORD_BYTES_MAX} bytes")]
    Password,
    #[error("user {user} has no token {id}; SHOW TOKENS lists all")]
    NoToken { user: String, id: String },
    #[error("user {0} has {TOKENS_MAX} tokens, which is the most; DROP TOKEN removes one")]
    TooManyTokens(String),
    #[error("the time after EXPIRES has passed")]
    Expired,
    #[error("user {0} has {GRANTS_MAX} grants, which is the most; a grant on schema.* replaces many")]
    TooManyGrants(String),
    #[error(
        "user {user} has no {right} right granted ON {on}; SHOW GRANTS FOR {user} lists what was granted"
    )]
    NotGranted { user: String, right: Right, on: Scope },
    #[error("LIMIT is for the right TAKE alone; grant {0} in a statement of its own")]
    LimitOf(Right),
    #[error("a LIMIT is at least 1 id PER SECOND")]
    NoLimit,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = &self.user;
        let words = |rights: &[Right]| rights.iter().map(|right| right.word()).collect::<Vec<_>>().join(", ");
        match &self.what {
            ChangeKind::Create { .. } => write!(f, "CREATE USER '{user}'"),
            ChangeKind::Password(_) => write!(f, "ALTER USER '{user}'"),
            ChangeKind::Drop { .. } => write!(f, "DROP USER '{user}'"),
            ChangeKind::Token { expires: None } => write!(f, "CREATE TOKEN FOR '{user}'"),
            ChangeKind::Token { expires: Some(end) } => {
                write!(f, "CREATE TOKEN FOR '{user}' EXPIRES '{}'", humantime::format_rfc3339_seconds(*end))
            }
            ChangeKind::DropToken { id } => write!(f, "DROP TOKEN {id:?} FOR '{user}'"),
            ChangeKind::Grant { rights, on, per_second } => {
                write!(f, "GRANT {} ON {on} TO '{user}'", words(rights))?;
                per_second.map_or(Ok(()), |limit| write!(f, " LIMIT {limit} PER SECOND"))
            }
            ChangeKind::Revoke { rights, on } => write!(f, "REVOKE {} ON {on} FROM '{user}'", words(rights)),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Change {
    /// Finds mistakes that show without the store.
    pub(super) fn check(&self, now: SystemTime) -> Result<(), ChangeRefused> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.$@".contains(c);
        if self.user.is_empty() || self.user.len() > NAME_BYTES_MAX || !self.user.chars().all(is_name) {
            return Err(ChangeRefused::Name(self.user.chars().take(100).collect()));
        }
        let is_password = |password: &str| (1..=PASSWORD_BYTES_MAX).contains(&password.len());
        match &self.what {
            ChangeKind::Create { password: Some(password), .. } | ChangeKind::Password(password)
                if !is_password(password) =>
            {
                Err(ChangeRefused::Password)
            }
            ChangeKind::Token { expires: Some(end) } if *end <= now => Err(ChangeRefused::Expired),
            ChangeKind::Grant { per_second: Some(0), .. } => Err(ChangeRefused::NoLimit),
            ChangeKind::Grant { rights, per_second: Some(_), .. } => {
                let other = rights.iter().find(|right| **right != Right::Take);
                other.map_or(Ok(()), |right| Err(ChangeRefused::LimitOf(*right)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn password(&self) -> Option<&Zeroizing<String>> {
        match &self.what {
            ChangeKind::Create { password, .. } => password.as_ref(),
            ChangeKind::Password(password) => Some(password),
            _ => None,
        }
    }

    /// The record after the change, and the answer. `stands`: the user, who has not been dropped. `hash`: of
    /// [`Change::password`].
    pub(super) fn of(
        &self,
        stands: Option<UserRecord>,
        hash: Option<&str>,
        now: SystemTime,
    ) -> Result<(UserRecord, Changed), ChangeRefused> {
        let name = || self.user.clone();
        let there = stands.ok_or_else(|| ChangeRefused::NoUser(name()));
        let mut record = match (&self.what, there) {
            (ChangeKind::Create { if_not_exists: true, .. }, Ok(record)) => {
                return Ok((record, Changed::Nothing));
            }
            (ChangeKind::Create { if_not_exists: false, .. }, Ok(_)) => {
                return Err(ChangeRefused::Exists(name()));
            }
            (ChangeKind::Drop { if_exists: true }, Err(_)) => {
                return Ok((UserRecord::new(), Changed::Nothing));
            }
            (ChangeKind::Create { .. }, Err(_)) => UserRecord::new(),
            (_, there) => there?,
        };
        match &self.what {
            ChangeKind::Create { .. } | ChangeKind::Password(_) => record.password = hash.map(str::to_owned),
            ChangeKind::Drop { .. } => record = UserRecord { dropped: true, ..UserRecord::new() },
            ChangeKind::Token { expires } => {
                // Expired tokens make room.
                record.tokens.retain(|token| token.token().is_none_or(|token| !token.is_over(now)));
                if record.tokens.len() >= TOKENS_MAX {
                    return Err(ChangeRefused::TooManyTokens(name()));
                }
                let (token, text) = Token::fresh(now, *expires);
                record.tokens.push(TokenRecord::of(&token));
                return Ok((record, Changed::Token { token, text }));
            }
            ChangeKind::DropToken { id } => {
                let before = record.tokens.len();
                let is_other = |token: &TokenRecord| token.token().is_none_or(|token| token.id() != *id);
                record.tokens.retain(is_other);
                if record.tokens.len() == before {
                    let id = id.chars().take(100).collect();
                    return Err(ChangeRefused::NoToken { user: name(), id });
                }
            }
            ChangeKind::Grant { rights, on, per_second } => {
                for &right in rights {
                    record.grants.retain(|grant| grant.right != right || grant.on != *on);
                    record.grants.push(Grant::new(right, on.clone(), *per_second));
                }
                if record.grants.len() > GRANTS_MAX {
                    return Err(ChangeRefused::TooManyGrants(name()));
                }
            }
            ChangeKind::Revoke { rights, on } => {
                for &right in rights {
                    let is_it = |grant: &Grant| grant.right == right && grant.on == *on;
                    if !record.grants.iter().any(is_it) {
                        return Err(ChangeRefused::NotGranted { user: name(), right, on: on.clone() });
                    }
                    record.grants.retain(|grant| !is_it(grant));
                }
            }
        }
        Ok((record, Changed::Done))
    }
}

#[cfg(test)]
mod tests;
