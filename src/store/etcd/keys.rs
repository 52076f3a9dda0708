//! The records as keys of etcd, read and written as they are: whether the store went back is asked by `guard`.

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, GetResponse, ResponseHeader, Txn, TxnOp, TxnOpResponse,
};

use super::members::Members;
use super::{EtcdSettings, NotDone, Result, options, versioned};
use crate::store::{Json, Key, Outcome, Revision, StoreError, Versioned};

/// Keys that one answer holds at most: an answer of more than 4 MiB is refused by the client.
pub(super) const PAGE_KEYS: u16 = 500;

pub(super) struct Keys {
    pub(super) members: Members,
    /// Ends with `/`.
    pub(super) prefix: String,
    /// The store, as errors name it.
    pub(super) store: String,
}

impl Keys {
    /// Connects with the first call. Needs a Tokio runtime.
    pub(super) fn of(settings: &EtcdSettings) -> Self {
        let prefix = format!("{}/", settings.prefix);
        let probe = format!("{prefix}{}", Key::format());
        Keys {
            members: Members::new(&settings.endpoints, options(settings), probe),
            prefix,
            store: format!("etcd at {}", settings.endpoints.join(", ")),
        }
    }

    pub(super) fn path(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    pub(super) async fn get(&self, from: Vec<u8>, options: GetOptions) -> Result<GetResponse> {
        let get = |mut client: Client| {
            let (from, options) = (from.clone(), options.clone());
            async move { client.get(from, Some(options)).await }
        };
        self.members.ask(get).await.map_err(|refusal| self.error(None, refusal))
    }

    /// All records whose keys start with `prefix`, to be had page by page.
    pub(super) fn pages(&self, prefix: &str) -> Pages<'_> {
        let from = format!("{}{prefix}", self.prefix);
        let end = end_of(&from);
        Pages { keys: self, next: Some(from.into_bytes()), end, revision: 0, all: Vec::new() }
    }

    /// A record written where it stands at this revision (0: nowhere), whatever else stands.
    pub(super) async fn write(&self, key: &Key, stands: i64, value: &[u8]) -> Result<Outcome> {
        let path = self.path(key);
        self.change(key, stands, TxnOp::put(path, value, None)).await
    }

    /// A record removed where it stands at this revision.
    pub(super) async fn remove(&self, key: &Key, stands: i64) -> Result<Outcome> {
        let path = self.path(key);
        self.change(key, stands, TxnOp::delete(path, None)).await
    }

    async fn change(&self, key: &Key, stands: i64, change: TxnOp) -> Result<Outcome> {
        let path = self.path(key);
        let txn = Txn::new()
            .when([Compare::mod_revision(path.clone(), CompareOp::Equal, stands)])
            .and_then([change])
            .or_else([TxnOp::get(path, None)]);
        let answer = self.members.tell(txn).await.map_err(|refusal| self.error(Some(key), refusal))?;
        if answer.succeeded() {
            let revision = answer.header().map_or(0, ResponseHeader::revision).unsigned_abs();
            return Ok(Outcome::Written(Revision(revision)));
        }
        let found = answer.op_responses().into_iter().find_map(|answer| match answer {
            TxnOpResponse::Get(mut found) => found.take_kvs().pop(),
            _ => None,
        });
        Ok(Outcome::Conflict(found.map(versioned)))
    }

    pub(super) fn error(&self, written: Option<&Key>, refusal: NotDone) -> StoreError {
        let store = self.store.clone();
        match (refusal, written) {
            (NotDone::Refused(reason), _) => StoreError::Refused { store, reason },
            (NotDone::Unknown(reason), Some(key)) => {
                StoreError::UnknownOutcome { store, key: key.clone(), reason }
            }
            (NotDone::Unknown(reason) | NotDone::Unavailable(reason), _) => {
                StoreError::Unavailable { store, reason }
            }
        }
    }

    pub(super) fn silent(&self, reason: &str) -> StoreError {
        StoreError::Unavailable { store: self.store.clone(), reason: reason.to_owned() }
    }
}

pub(super) struct Pages<'a> {
    keys: &'a Keys,
    next: Option<Vec<u8>>,
    end: Vec<u8>,
    /// All pages are of the first one's; 0: not known yet.
    revision: i64,
    pub(super) all: Vec<(Key, Versioned<Json>)>,
}

impl Pages<'_> {
    /// The next question: the key from which on it asks, and its options.
    pub(super) fn next(&mut self) -> Option<(Vec<u8>, GetOptions)> {
        let options = GetOptions::new()
            .with_range(self.end.clone())
            .with_limit(PAGE_KEYS.into())
            .with_revision(self.revision);
        Some((self.next.take()?, options))
    }

    pub(super) fn take(&mut self, mut page: GetResponse) {
        if self.revision == 0 {
            self.revision = page.header().map_or(0, ResponseHeader::revision);
        }
        for kv in page.take_kvs() {
            let path = String::from_utf8_lossy(kv.key()).into_owned();
            let key = path.strip_prefix(&self.keys.prefix).unwrap_or(&path).to_owned();
            self.all.push((Key(key), versioned(kv)));
        }
        if page.more() {
            let last = self.all.last().map(|(key, _)| self.keys.path(key)).unwrap_or_default();
            // The next key in order.
            self.next = Some([last.as_bytes(), b"\0"].concat());
        }
    }
}

/// The first key after all that start with `prefix`; no byte of UTF-8 is the last there is.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
