//! Writes of users: a change, and the record `users`, by which other proxies notice it.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde_json::Map;
use zeroize::Zeroizing;

use super::{Directory, LIST_AGE_MAX};
use crate::store::record::{change, encode, fresh_token};
use crate::store::{FORMAT, Key, Outcome, StoreError};
use crate::users::change::{Change, ChangeKind, ChangeRefused, Changed};
use crate::users::record::{ChangesRecord, UserRecord};
use crate::users::secret;
use crate::users::turns::Asker;

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 64;

/// Why a change was not made, or is not known everywhere.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error(
        "{0}; the change is written, and other proxies read it within {LIST_AGE_MAX:?} of the store's return"
    )]
    Untold(StoreError),
    #[error(
        "{0}; nobody knows whether the change was made: look by SHOW USERS, SHOW GRANTS and SHOW TOKENS when the store answers"
    )]
    Unknown(String),
    #[error("the password could not be hashed; look at the memory of this machine, and try again")]
    Hash,
}

impl Directory {
    /// Makes a change in the store. It acts here when this returns, and on other proxies at their next look.
    pub async fn change(&self, change: &Change) -> Result<Changed, ChangeError> {
        change.check(SystemTime::now())?;
        if self.known.lock().of_file.iter().any(|user| user.name == change.user) {
            return Err(ChangeRefused::OfFile(change.user.clone()).into());
        }
        let hash = match change.password() {
            Some(password) => Some(self.hash(password.as_bytes().to_vec().into()).await?),
            None => None,
        };
        let _turn = self.turn.lock().await;
        let changed = self.write(change, hash.as_deref()).await;
        if matches!(changed, Err(ChangeError::Store(_))) {
            return changed;
        }
        // Also if nothing had to be changed: the proxy that made the change may have ended before it wrote `users`.
        self.is_untold.store(true, Ordering::Relaxed);
        let told = self.tell().await;
        self.look_in_turn().await;
        match (changed, told) {
            (Ok(Changed::Done | Changed::Nothing), Err(error)) => Err(ChangeError::Untold(error)),
            // A token is shown this once, and is good as soon as the users are read.
            (changed, _) => changed,
        }
    }

    async fn hash(&self, password: Zeroizing<Vec<u8>>) -> Result<String, ChangeError> {
        let (turn, cost) = (self.hashes.next(Asker::Admin).await, self.cost);
        let hashed = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            secret::hash(&password, cost)
        });
        hashed.await.ok().flatten().ok_or(ChangeError::Hash)
    }

    async fn write(&self, change: &Change, hash: Option<&str>) -> Result<Changed, ChangeError> {
        let mut sent = Vec::new();
        let written = self.try_to_write(change, hash, &mut sent).await;
        written.map_err(|error| if sent.is_empty() { error } else { ChangeError::Unknown(error.to_string()) })
    }

    /// `sent`: writes of which nobody knows whether they were done, by their marks.
    async fn try_to_write(
        &self,
        change: &Change,
        hash: Option<&str>,
        sent: &mut Vec<(String, Changed)>,
    ) -> Result<Changed, ChangeError> {
        let key = Key::user(&change.user);
        for _ in 0..ATTEMPTS_MAX {
            let found = self.store.load(&key).await?;
            let revision = found.as_ref().map(|found| found.revision);
            let stands = match found.map(|found| UserRecord::read(&key, &found.value)).transpose() {
                // Nothing of it is needed: so a user whose record is damaged can be made again.
                Err(StoreError::Corrupt { .. }) if matches!(change.what, ChangeKind::Drop { .. }) => {
                    Some(UserRecord::new())
                }
                stands => stands?,
            };
            let is_it =
                |(mark, _): &(String, Changed)| stands.as_ref().is_some_and(|record| record.change == *mark);
            if let Some(done) = sent.iter().position(is_it) {
                return Ok(sent.swap_remove(done).1);
            }
            let stands = stands.filter(|record| !record.dropped);
            let (record, changed) = change.of(stands, hash, SystemTime::now())?;
            if matches!(changed, Changed::Nothing) {
                return Ok(changed);
            }
            let mark = fresh_token();
            let json = encode(&UserRecord { change: mark.clone(), ..record });
            match self.store.compare_and_set(&key, revision, &json).await {
                Ok(Outcome::Written(_)) => return Ok(changed),
                Ok(Outcome::Conflict(_)) => {}
                Err(StoreError::UnknownOutcome { .. }) => sent.push((mark, changed)),
                Err(error) => return Err(error.into()),
            }
        }
        let record = key.to_string();
        Err(StoreError::Contended { record, attempts: ATTEMPTS_MAX }.into())
    }

    /// Has every proxy read the users again.
    pub(super) async fn tell(&self) -> Result<(), StoreError> {
        let key = Key::user_changes();
        let counted = change(&*self.store, &key, |record: Option<ChangesRecord>| {
            let record = record.unwrap_or_else(|| ChangesRecord { v: FORMAT, count: 0, unknown: Map::new() });
            Some(ChangesRecord { count: record.count.saturating_add(1), ..record })
        });
        counted.await?;
        self.is_untold.store(false, Ordering::Relaxed);
        Ok(())
    }
}
