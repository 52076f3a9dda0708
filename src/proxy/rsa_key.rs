//! The RSA key that clients without TLS encrypt their password with, where the server's own cannot be theirs: the one of
//! `listen.rsa_key`, or one that is made when the first client asks.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::login::{LoginContext, LoginError};
use crate::mysql::auth::{KeyError, OwnKey};

/// The key of `listen.rsa_key`, which clients may have on disk.
#[derive(Clone)]
pub struct RsaKey(Arc<OwnKey>);

impl RsaKey {
    /// From a private key in PEM form.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        OwnKey::from_pem(pem).map(|key| RsaKey(Arc::new(key)))
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey")
    }
}

impl PartialEq for RsaKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.packet() == other.0.packet()
    }
}

impl Eq for RsaKey {}

/// The key that is made: while the process lives it stays the same.
#[derive(Default)]
pub struct KeyCell(OnceCell<Arc<OwnKey>>);

impl KeyCell {
    async fn get(&self) -> Result<Arc<OwnKey>, LoginError> {
        let made = self.0.get_or_try_init(|| async {
            let key = tokio::task::spawn_blocking(OwnKey::generate).await;
            key.map_err(|_| LoginError::OwnKey)?.map(Arc::new).map_err(|_| LoginError::OwnKey)
        });
        made.await.cloned()
    }
}

impl LoginContext {
    /// What a client is shown that asks for a key.
    pub(super) async fn shown_key(&self) -> Result<Arc<OwnKey>, LoginError> {
        match &self.settings.rsa_key {
            Some(RsaKey(key)) => Ok(key.clone()),
            None => self.own_key.get().await,
        }
    }

    /// What a client may have on disk.
    pub(super) fn pinned_key(&self) -> Option<&OwnKey> {
        self.settings.rsa_key.as_ref().map(|RsaKey(key)| &**key)
    }
}
