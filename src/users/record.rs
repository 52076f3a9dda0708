//! `users/NAME` as JSON, and `users`, which is written after each of them.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rights::Grant;
use super::secret::{Secret, Token, hex, unhex};
use super::{Home, Usage, User};
use crate::store::record::decode;
use crate::store::{FORMAT, Key, StoreError};

/// A user, or one that was dropped: records are never removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct UserRecord {
    pub(super) v: u64,
    /// argon2id, as the PHC string format has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) password: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tokens: Vec<TokenRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) grants: Vec<Grant>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dropped: bool,
    /// Fresh with each write: a proxy that does not know whether its write was done finds it here or not.
    pub(super) change: String,
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    /// 64 hexadecimal digits.
    pub(super) sha256: String,
    /// RFC 3339, as `expires`.
    pub(super) made: String,
    /// Missing: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

/// `users`: its revision shows that a user was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ChangesRecord {
    pub(super) v: u64,
    /// The number of changes that there were, at least.
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

impl UserRecord {
    pub(super) fn new() -> Self {
        UserRecord { v: FORMAT, ..UserRecord::default() }
    }

    /// An error has nothing of what is written there, which may be a password's hash.
    pub(super) fn read(key: &Key, json: &[u8]) -> Result<Self, StoreError> {
        decode(key, json).map_err(|error| match (error, serde_json::from_slice::<UserRecord>(json)) {
            (StoreError::Corrupt { place, .. }, Err(at)) => {
                let reason = format!(
                    "line {}, column {} of the record is not as a user has it",
                    at.line(),
                    at.column()
                );
                StoreError::Corrupt { place, reason }
            }
            (error, _) => error,
        })
    }

    /// `None`: it was dropped.
    pub(super) fn user(&self, name: &str) -> Option<User> {
        if self.dropped {
            return None;
        }
        let password = self.password.iter().map(|hash| Secret::Hash(hash.clone()));
        let tokens = self.tokens.iter().filter_map(TokenRecord::token).map(Secret::Token);
        let secrets = password.chain(tokens).collect();
        let (name, grants) = (name.to_owned(), self.grants.clone());
        Some(User { name, home: Home::Store, secrets, grants, usage: Usage::default() })
    }
}

/// The user of a record of the store, by name. `None`: the user was dropped, or the record is not a user's.
pub(crate) fn user_of(key: &Key, json: &[u8]) -> Option<(String, Result<User, StoreError>)> {
    let name = key.as_str().strip_prefix(Key::USERS)?;
    let user = UserRecord::read(key, json).map(|record| record.user(name)).transpose()?;
    Some((name.to_owned(), user))
}

impl TokenRecord {
    pub(super) fn of(token: &Token) -> Self {
        let text = |at: SystemTime| humantime::format_rfc3339_seconds(at).to_string();
        let (made, expires) = (text(token.made), token.expires.map(text));
        TokenRecord { sha256: hex(&token.sha256).to_string(), made, expires, unknown: Map::new() }
    }

    /// `None`: it cannot be read, and lets nobody in.
    pub(super) fn token(&self) -> Option<Token> {
        let time = |text: &str| humantime::parse_rfc3339(text).ok();
        let expires = match &self.expires {
            Some(text) => Some(time(text)?),
            None => None,
        };
        Some(Token { sha256: unhex(&self.sha256)?, made: time(&self.made)?, expires })
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenRecord, UserRecord};
    use crate::store::Key;
    use crate::store::record::{decode, encode};
    use crate::users::Right;
    use crate::users::secret::Token;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_record_as_it_is_written() {
        let text = concat!(
            r#"{"v":1,"password":"$argon2id$x","tokens":[{"sha256":"00","made":"2026-01-01T00:00:00Z","for":"x"}],"#,
            r#""grants":[{"right":"TAKE","on":"shop.*","per_second":9,"until":"x"},{"right":"READ","on":"*.*"}],"change":"c","later":[1]}"#
        );
        let record: UserRecord = decode(&Key::user("app"), text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(encode(&record)).unwrap(), text);
        let user = record.user("app").unwrap();
        assert_eq!(user.tokens().count(), 0, "one that cannot be read lets nobody in");
        assert!(user.has_password() && user.may(Right::Take, "shop.x") && !user.may(Right::Take, "blog.x"));
        assert!(UserRecord { dropped: true, ..record }.user("app").is_none());
    }

    #[test]
    fn tokens() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        for expires in [None, Some(now + Duration::from_secs(7))] {
            let (token, _) = Token::fresh(now, expires);
            assert!(TokenRecord::of(&token).token() == Some(token));
        }
        let good = TokenRecord::of(&Token::fresh(now, None).0);
        assert!(TokenRecord { expires: Some("soon".to_owned()), ..good }.token().is_none());
    }
}
