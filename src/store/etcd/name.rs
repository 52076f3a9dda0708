//! A proxy's name in the store: `proxies/ID` on a lease, so that two live proxies of one name are distinguished.
//!
//! The lease decides nothing about ids. A process that lost it (paused, cut off) takes its name again if nobody else
//! has; one that lost its name to another writes nothing more, since the other's witness stands in its way (`guard`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etcd_client::{Client, Compare, CompareOp, Error, PutOptions, Txn, TxnOp};
use serde_json::Map;

use super::guard::Beside;
use super::{Inner, NotDone, Result};
use crate::store::record::encode;
use crate::store::{FORMAT, Key, ProxyRecord, StoreError};

/// A proxy that was killed and left no marks holds its name for so long.
pub(super) const LEASE_SECONDS: i64 = 6;
/// The time that a start waits for a name that may be a dead process's: etcd looks for ended leases twice a second.
const NAME_DEADLINE: Duration = Duration::from_secs(9);
const NAME_PAUSE: Duration = Duration::from_millis(300);
const RELEASE_DEADLINE: Duration = Duration::from_secs(1);

impl Inner {
    /// Claims the name when the proxy starts. `earlier` is the process that last used our state folder; it
    /// has ended, or the folder would be locked.
    pub(super) async fn take_name(&self, earlier: Option<String>) -> Result<()> {
        let end = Instant::now() + NAME_DEADLINE;
        loop {
            let beside = self.look().await;
            let holder = match beside {
                Ok(Beside { holder, .. }) => holder,
                Err(StoreError::Unavailable { .. }) if Instant::now() < end => {
                    tokio::time::sleep(NAME_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let stands = match &holder {
                None => Some(0),
                Some((revision, holder))
                    if holder.run == self.run || Some(&holder.run) == earlier.as_ref() =>
                {
                    Some(*revision)
                }
                Some(_) => None,
            };
            if let Some(stands) = stands
                && self.put_name(stands).await?
            {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(self.taken(holder));
            }
            tokio::time::sleep(NAME_PAUSE).await;
        }
    }

    /// Our name on a fresh lease, where it stands at this revision (0: nowhere). `false`: not so, or not known.
    pub(super) async fn put_name(&self, stands: u64) -> Result<bool> {
        let grant = |client: Client| async move { client.lease_client().grant(LEASE_SECONDS, None).await };
        let lease =
            self.keys.members.ask(grant).await.map_err(|refusal| self.keys.error(None, refusal))?.id();
        self.lease.store(lease, Ordering::Release);
        let record = ProxyRecord {
            v: FORMAT,
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.since.clone(),
            run: self.run.clone(),
            api: self.api.clone(),
            unknown: Map::new(),
        };
        let path = self.keys.path(&Key::proxy(&self.name));
        let stands = i64::try_from(stands).unwrap_or(i64::MAX);
        let txn = Txn::new()
            .when([Compare::mod_revision(path.clone(), CompareOp::Equal, stands)])
            .and_then([TxnOp::put(path, encode(&record), Some(PutOptions::new().with_lease(lease)))]);
        match self.keys.members.tell(txn).await {
            Ok(answer) => Ok(answer.succeeded()),
            Err(NotDone::Unknown(_)) => Ok(false),
            Err(refusal) => Err(self.keys.error(None, refusal)),
        }
    }

    /// True if a name is wanted: from the start to a clean end.
    pub(super) fn is_named(&self) -> bool {
        self.lease.load(Ordering::Acquire) != 0
    }

    /// Keeps the lease. `false`: it has run out.
    pub(super) async fn keep_name(&self) -> Result<bool> {
        let lease = self.lease.load(Ordering::Acquire);
        let keep = |client: Client| async move {
            match client.lease_client().keep_alive(lease).await {
                Ok(_) => Ok(true),
                Err(Error::LeaseKeepAliveError(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.keys.members.ask(keep).await.map_err(|refusal| self.keys.error(None, refusal))
    }

    /// The name is free at once, not only when the lease runs out.
    pub(super) async fn give_up_name(&self) {
        let lease = self.lease.swap(0, Ordering::AcqRel);
        let revoke = |client: Client| async move { client.lease_client().revoke(lease).await };
        if lease != 0 && tokio::time::timeout(RELEASE_DEADLINE, self.keys.members.ask(revoke)).await.is_err()
        {
            tracing::debug!(lease, "the proxy's name stays in use until its lease expires");
        }
    }
}
