//! The RSA key that clients without TLS encrypt their password with, where the server's own cannot
//! be theirs: the one of `listen.rsa_key`, or one that is made when the first client asks.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::mysql::auth::{KeyError, OwnKey};

/// The key of `listen.rsa_key`, which clients may have on disk.
#[derive(Clone)]
pub struct RsaKey(Arc<OwnKey>);

impl RsaKey {
    pub(super) fn key(&self) -> &OwnKey {
        &self.0
    }

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

/// No key could be made.
#[derive(Debug, thiserror::Error)]
#[error("no RSA key could be made")]
pub struct NoKey;

impl KeyCell {
    /// The key for a client that asks for one: the written one, or one that is made at the first request.
    pub(super) async fn shown(&self, written: Option<&RsaKey>) -> Result<Arc<OwnKey>, NoKey> {
        if let Some(RsaKey(key)) = written {
            return Ok(key.clone());
        }
        let made = self.0.get_or_try_init(|| async {
            let key = tokio::task::spawn_blocking(OwnKey::generate).await;
            key.map_err(|_| NoKey)?.map(Arc::new).map_err(|_| NoKey)
        });
        made.await.cloned()
    }
}
