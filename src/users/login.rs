//! A password or a token, and who may come in by it.

use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::directory::{Directory, StoreUsers};
use super::throttle::{Throttle, Tried};
use super::turns::{Asker, Turn};
use super::{By, Home, Roster, Secret, User, secret};

/// A user who is logged in, and the secret that was given.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: Arc<User>,
    pub(crate) by: By,
}

impl Login {
    /// The login as `roster` has it now. `None`: the user, or the secret, is no more.
    pub(crate) fn as_of(&self, roster: &Roster) -> Option<Login> {
        let user = roster.get(&self.user.name).filter(|user| user.has(self.by))?;
        Some(Login { user: user.clone(), by: self.by })
    }
}

impl Directory {
    /// The login of a user with this name and this password or token. Wrong ones take as long whatever is wrong with
    /// them, and the first one that is right as long as they do.
    pub(crate) async fn log_in(
        self: &Arc<Self>,
        throttle: &Arc<Throttle>,
        from: Option<IpAddr>,
        name: &[u8],
        given: &[u8],
    ) -> Tried<Login> {
        if let Some(verdict) = self.quick_login(throttle, from, name, given) {
            return verdict;
        }
        let first = self.hashes.first(Asker::Client(from)).await;
        // The one before may have been the same, or wrong.
        if let Some(verdict) = self.quick_login(throttle, from, name, given) {
            return verdict;
        }
        let turn = first.turn().await;
        // A try with the same password from another network may have ended meanwhile.
        match self.quick_login(throttle, from, name, given) {
            Some(verdict) => verdict,
            None => self.slow_login(throttle, from, (name, given), turn).await,
        }
    }

    /// The verdict, if it is known without a slow hash.
    fn quick_login(
        &self,
        throttle: &Throttle,
        from: Option<IpAddr>,
        name: &[u8],
        given: &[u8],
    ) -> Option<Tried<Login>> {
        let now = Instant::now();
        // First, and the same for right passwords: the time that a try takes must reveal nothing either.
        if let Some(wait) = throttle.wait(from, name, now) {
            return Some(Tried::Wait(wait));
        }
        let login = self.known_login(name, given);
        if login.is_none() && self.may_be_unknown(name) {
            // Nothing that could be calculated would say more.
            return Some(Tried::Unsure);
        }
        (login.is_some() || given.is_empty()).then(|| throttle.attempt(from, name, now, || login))
    }

    /// The login of the user with this token. Nobody guesses a token, so there is no wait after a wrong one, and the
    /// first one costs no more than the next.
    pub(crate) fn log_in_by_token(&self, given: &[u8]) -> Tried<Login> {
        let roster = self.roster();
        let sha256 = Sha256::digest(given).into();
        match roster.with_token(&sha256) {
            Some(login) => Tried::Right(login.clone()),
            None if roster.store != StoreUsers::Known => Tried::Unsure,
            None => Tried::Wrong,
        }
    }

    /// True if a user of the store has this name, or may have it.
    pub(crate) fn may_be_of_store(&self, name: &[u8]) -> bool {
        self.user(name).is_none_or(|user| user.home == Home::Store)
    }

    fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        std::str::from_utf8(name).ok().and_then(|name| self.roster().get(name).cloned())
    }

    fn may_be_unknown(&self, name: &[u8]) -> bool {
        let roster = self.roster();
        let is_there = std::str::from_utf8(name).is_ok_and(|name| roster.get(name).is_some());
        roster.store != StoreUsers::Known && !is_there
    }

    fn known_login(&self, name: &[u8], given: &[u8]) -> Option<Login> {
        let user = self.user(name)?;
        let by = user.known(given, &self.proven)?;
        Some(Login { user, by })
    }

    /// Runs to its end, also if the client has gone: each try counts.
    async fn slow_login(
        self: &Arc<Self>,
        throttle: &Arc<Throttle>,
        from: Option<IpAddr>,
        (name, given): (&[u8], &[u8]),
        turn: Turn,
    ) -> Tried<Login> {
        let (directory, throttle) = (self.clone(), throttle.clone());
        let (name, given) = (name.to_vec(), Zeroizing::new(given.to_vec()));
        let tried = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let login = directory.hashed_login(&name, &given);
            throttle.attempt(from, &name, Instant::now(), || login)
        });
        // The task panicked: nobody knows its answer.
        tried.await.unwrap_or(Tried::Unsure)
    }

    /// Takes the same time if nobody has the name.
    fn hashed_login(&self, name: &[u8], given: &[u8]) -> Option<Login> {
        let user = self.user(name);
        let hash = user.iter().flat_map(|user| &user.secrets).find_map(|secret| match secret {
            Secret::Hash(hash) => Some((By(secret.mark()), hash)),
            Secret::Plain(_) | Secret::Token(_) => None,
        });
        let Some((by, hash)) = hash else {
            secret::waste(given, self.cost);
            return None;
        };
        if !secret::is_right(hash, given) {
            return None;
        }
        self.proven.note(hash, given);
        Some(Login { user: user.clone()?, by })
    }
}
