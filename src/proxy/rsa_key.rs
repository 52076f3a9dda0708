//! The RSA key that clients without TLS encrypt their password with, where the server's own cannot
//! be theirs: the one of `listen.rsa_key`, or one that is made when the first client asks.

use std::sync::Arc;

use tokio::sync::OnceCell;

/// The key of `listen.rsa_key`, which clients may have on disk, or the one that is made.
pub use crate::mysql::auth::OwnKey as RsaKey;

/// The key that is made: while the process lives it stays the same.
#[derive(Default)]
pub struct KeyCell(OnceCell<Arc<RsaKey>>);

#[derive(Debug, thiserror::Error)]
#[error("no RSA key could be made")]
pub struct NoKey;

impl KeyCell {
    /// The key for a client that asks for one: the written one, or one that is made at the first request.
    pub(super) async fn shown(&self, written: Option<&Arc<RsaKey>>) -> Result<Arc<RsaKey>, NoKey> {
        if let Some(key) = written {
            return Ok(key.clone());
        }
        let made = self.0.get_or_try_init(|| async {
            let key = tokio::task::spawn_blocking(RsaKey::generate).await;
            key.map_err(|_| NoKey)?.map(Arc::new).map_err(|_| NoKey)
        });
        made.await.cloned()
    }
}
