//! Looks after the store while nobody asks it anything: whether it went back, whether somebody noticed that it did, and
//! whether the proxy's name is still its own. It reads, and keeps a lease; an idle proxy writes nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;
use super::guard::Beside;
use super::witness::Sighting;
use crate::log_span;
use crate::store::{Result, StoreError};

/// The lease of a name outlives two rounds that fail. How soon an idle proxy gives up its reserve after another noticed
/// that the store went back.
const INTERVAL: Duration = Duration::from_secs(2);

/// Ends with the store.
pub(super) fn start(inner: &Arc<Inner>) {
    let inner = Arc::downgrade(inner);
    log_span::spawn(async move {
        while let Err(end) = log_span::spawn(run(inner.clone())).await {
            if !end.is_panic() {
                return; // The runtime ends.
            }
            tracing::error!(error = %end, "the task that watches etcd panicked; starting it again");
        }
    });
}

async fn run(inner: Weak<Inner>) {
    let mut name = Name::Ours;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        match inner.tend(name).await {
            Ok(now) => name = now,
            Err(error) => tracing::debug!(%error, "could not check etcd"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Ours,
    Another,
}

impl Inner {
    async fn tend(&self, before: Name) -> Result<Name> {
        // The lease first: what follows may find that the store is suspected.
        if self.is_named() && !self.keep_name().await? {
            tracing::warn!(name = %self.name, "the lease of this proxy's name has expired; taking the name again");
        }
        // A write under way looks by itself, and what it moves is not judged here meanwhile.
        let Ok(mut witness) = self.witness.try_lock() else { return Ok(before) };
        let beside = self.look().await?;
        let name = self.tend_name(&beside, before).await?;
        match self.compare(&mut witness, &beside).await {
            Ok(Sighting::Moved) => {
                let marks = self.marks(&witness);
                self.marks.save(marks).await;
            }
            Ok(_) | Err(StoreError::Suspect { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(name)
    }

    async fn tend_name(&self, beside: &Beside, before: Name) -> Result<Name> {
        match &beside.holder {
            Some((_, holder)) if holder.run == self.run => {
                if before == Name::Another {
                    tracing::info!(name = %self.name, "this proxy has its name again");
                }
                Ok(Name::Ours)
            }
            Some((_, holder)) => {
                if before == Name::Ours {
                    let (address, since) = (&holder.address, &holder.since);
                    tracing::error!(
                        name = %self.name, address, since,
                        "another Rowstamp process has taken this proxy's name: this proxy issues its reserved ids, then none; give each proxy its own proxy.name"
                    );
                }
                Ok(Name::Another)
            }
            None if self.is_named() => {
                self.put_name(0).await?;
                Ok(before)
            }
            None => Ok(before),
        }
    }
}
