//! etcd for an operator: no proxy's name is taken, no witness is written, and what is written is written also while the
//! store is suspected.
//!
//! A store that went back is settled in this order: `suspect` stands, so that no proxy issues; it has stood for
//! [`QUIET`], so that each proxy that lives has given up its reserve; the floors are raised; `raised` is counted up in
//! every witness, so that proxies take the store as it is; `suspect` goes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use etcd_client::{GetOptions, GetResponse};
use serde_json::Map;

use crate::store::etcd::keys::Keys;
use crate::store::etcd::{EtcdSettings, stands_at, versioned};
use crate::store::record::{change, check_format, decode, encode, encode_format};
use crate::store::{
    FORMAT, Json, Key, Outcome, Result, Revision, Store, StoreError, SuspectRecord, Versioned, WitnessRecord,
};

/// Longer than a proxy's lease, which it keeps and then looks for `suspect`: who still lives after it has seen it.
pub const QUIET: Duration = Duration::from_secs(8);

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 16;

/// A command is not given up half way where etcd is slow for a while.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

pub struct EtcdOperator(Keys);

/// Makes a call again while it was surely not done.
async fn insist<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answered = call().await;
        if !matches!(answered, Err(StoreError::Unavailable { .. })) || Instant::now() > deadline {
            return answered;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl EtcdOperator {
    /// To read a store that may be new: nothing is written. Of the settings `name`, `address` and `state_path` mean nothing here.
    /// Needs a Tokio runtime.
    pub async fn look(settings: &EtcdSettings) -> Result<Self> {
        let operator = EtcdOperator(Keys::of(settings));
        operator.has_format().await?;
        Ok(operator)
    }

    /// Like [`Self::look`], but a new store gets its format, since records may follow.
    pub async fn open(settings: &EtcdSettings) -> Result<Self> {
        let operator = EtcdOperator(Keys::of(settings));
        if !operator.has_format().await? {
            operator.0.write(&Key::format(), 0, &encode_format()).await?;
            // Somebody else may have been first.
            operator.has_format().await?;
        }
        Ok(operator)
    }

    /// True if the store has a format. A newer one than ours, or one that cannot be read, is an error.
    async fn has_format(&self) -> Result<bool> {
        let found = self.load(&Key::format()).await?;
        found.map_or(Ok(false), |found| check_format(&found.value).map(|()| true))
    }

    /// From here on no proxy writes; each gives up its reserve when it sees it. Why the store is suspected: somebody may
    /// have noticed before.
    pub async fn suspect(&self, by: &str, reason: &str) -> Result<SuspectRecord> {
        let key = Key::suspect();
        let record = SuspectRecord {
            v: FORMAT,
            by: by.to_owned(),
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            reason: reason.to_owned(),
            unknown: Map::new(),
        };
        for _ in 0..ATTEMPTS_MAX {
            match self.compare_and_set(&key, None, &encode(&record)).await {
                Ok(Outcome::Written(_)) => return Ok(record),
                Ok(Outcome::Conflict(Some(found))) => return decode(&key, &found.value),
                Ok(Outcome::Conflict(None)) | Err(StoreError::UnknownOutcome { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.contended(&key))
    }

    /// The floors are raised: every proxy takes the store as it stands, and goes on.
    pub async fn acquit(&self) -> Result<()> {
        // A copy may lack what an earlier settling counted: the time is above that too.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut raised = since.as_secs();
        let witnesses = self.list(Key::WITNESSES).await?;
        for (key, found) in &witnesses {
            raised = raised.max(decode::<WitnessRecord>(key, &found.value)?.raised + 1);
        }
        for (key, _) in &witnesses {
            let counted = change(self, key, |witness: Option<WitnessRecord>| {
                let witness = witness.filter(|witness| witness.raised < raised)?;
                Some(WitnessRecord { raised, ..witness })
            });
            counted.await?;
        }
        let key = Key::suspect();
        for _ in 0..ATTEMPTS_MAX {
            let Some(found) = self.load(&key).await? else { return Ok(()) };
            match self.0.remove(&key, stands_at(Some(found.revision))).await {
                Ok(_) | Err(StoreError::UnknownOutcome { .. }) => {}
                // The load of the next turn waits until it answers.
                Err(StoreError::Unavailable { .. }) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
        Err(self.contended(&key))
    }

    async fn get(&self, from: Vec<u8>, options: GetOptions) -> Result<GetResponse> {
        insist(|| self.0.get(from.clone(), options.clone())).await
    }

    fn contended(&self, key: &Key) -> StoreError {
        self.0.silent(&format!("{key} could not be written in {ATTEMPTS_MAX} attempts"))
    }
}

#[async_trait]
impl Store for EtcdOperator {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let mut found = self.get(self.0.path(key).into_bytes(), GetOptions::new()).await?;
        Ok(found.take_kvs().pop().map(versioned))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let mut pages = self.0.pages(prefix);
        while let Some((from, options)) = pages.next() {
            pages.take(self.get(from, options).await?);
        }
        Ok(pages.all)
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        insist(|| self.0.write(key, stands_at(expected), value)).await
    }
}
