//! The store of a fleet: etcd, one transaction for each compare-and-set.
//!
//! * **Linearizable only.** Every read asks the cluster's quorum (etcd's default), so that no member answers with what
//!   it last knew. A revision is etcd's `mod_revision`.
//! * **Members fail, the store goes on** ([`members`]). Deadlines are ours.
//! * **What is unknown is said to be unknown**: an error after a transaction was sent, unless etcd surely did not take
//!   it. Whoever asked settles it by reading (`ids::fence`).

mod members;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, GetResponse, Identity, KeyValue,
    TlsOptions, Txn, TxnOp, TxnOpResponse,
};
use zeroize::Zeroizing;

use self::members::Members;
use super::record::{check_format, encode_format};
use super::{Json, Key, Outcome, Revision, Store, StoreError, Versioned};

/// How long the first answer may take: an election of a leader takes a few seconds.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
const OPEN_PAUSE: Duration = Duration::from_millis(200);

/// Keys that one answer holds at most: an answer of more than 4 MiB is refused by the client.
const PAGE_KEYS: u16 = 500;

pub struct EtcdSettings {
    /// `host:port` of each member.
    pub endpoints: Vec<String>,
    /// In front of all keys, with no `/` at its end.
    pub prefix: String,
    pub account: Option<Account>,
    pub tls: Option<EtcdTls>,
}

pub struct Account {
    pub user: String,
    pub password: Zeroizing<String>,
}

/// PEM texts. The server is always verified, by its certificate and its name.
pub struct EtcdTls {
    pub ca: Vec<u8>,
    /// Our certificate and its private key.
    pub identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

pub struct EtcdStore {
    members: Members,
    /// Ends with `/`.
    prefix: String,
    name: String,
}

/// Why the members gave no answer.
#[derive(Debug)]
enum Refusal {
    Unavailable(String),
    /// A write may have been done, or may yet be.
    Unknown(String),
    /// A password or a right is missing.
    Refused(String),
}

impl EtcdStore {
    /// Connects, and checks or writes the store's format.
    pub async fn open(settings: EtcdSettings) -> Result<Self, StoreError> {
        let prefix = format!("{}/", settings.prefix);
        let name = format!("etcd at {}", settings.endpoints.join(", "));
        let probe = format!("{prefix}{}", Key::format());
        let members = Members::new(&settings.endpoints, options(settings.account, settings.tls), probe);
        let store = EtcdStore { members, prefix, name };
        let end = Instant::now() + OPEN_DEADLINE;
        loop {
            match store.settle_format().await {
                Err(StoreError::Unavailable { .. } | StoreError::UnknownOutcome { .. })
                    if Instant::now() < end =>
                {
                    tokio::time::sleep(OPEN_PAUSE).await;
                }
                settled => return settled.map(|()| store),
            }
        }
    }

    async fn settle_format(&self) -> Result<(), StoreError> {
        let key = Key::format();
        let found = match self.load(&key).await? {
            Some(found) => found,
            None => match self.compare_and_set(&key, None, &encode_format()).await? {
                Outcome::Written(_) => return Ok(()),
                Outcome::Conflict(found) => found.ok_or_else(|| self.silent("the format came and went"))?,
            },
        };
        check_format(&found.value)
    }

    fn path(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn get(&self, from: Vec<u8>, options: GetOptions) -> Result<GetResponse, StoreError> {
        let get = |mut client: Client| {
            let (from, options) = (from.clone(), options.clone());
            async move { client.get(from, Some(options)).await }
        };
        self.members.ask(get).await.map_err(|refusal| self.error(None, refusal))
    }

    fn error(&self, written: Option<&Key>, refusal: Refusal) -> StoreError {
        let store = self.name.clone();
        match (refusal, written) {
            (Refusal::Refused(reason), _) => StoreError::Refused { store, reason },
            (Refusal::Unknown(reason), Some(key)) => {
                StoreError::UnknownOutcome { store, key: key.clone(), reason }
            }
            (Refusal::Unknown(reason) | Refusal::Unavailable(reason), _) => {
                StoreError::Unavailable { store, reason }
            }
        }
    }

    fn silent(&self, reason: &str) -> StoreError {
        StoreError::Unavailable { store: self.name.clone(), reason: reason.to_owned() }
    }
}

fn options(account: Option<Account>, tls: Option<EtcdTls>) -> ConnectOptions {
    let mut options = ConnectOptions::new();
    if let Some(Account { user, password }) = account {
        options = options.with_user(user, password.as_str());
    }
    if let Some(EtcdTls { ca, identity }) = tls {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        if let Some((cert, key)) = identity {
            tls = tls.identity(Identity::from_pem(cert, key.as_slice()));
        }
        options = options.with_tls(tls);
    }
    options
}

/// The first key behind all that start with `prefix`; no byte of UTF-8 is the last there is.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// etcd's revisions begin at 1; 0 is that of a key that is not there.
fn revision_of(kv: &KeyValue) -> Revision {
    Revision(kv.mod_revision().unsigned_abs())
}

fn versioned(kv: KeyValue) -> Versioned<Json> {
    let revision = revision_of(&kv);
    Versioned { revision, value: kv.into_key_value().1 }
}

#[async_trait]
impl Store for EtcdStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>, StoreError> {
        let mut found = self.get(self.path(key).into_bytes(), GetOptions::new()).await?;
        Ok(found.take_kvs().pop().map(versioned))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>, StoreError> {
        let from = format!("{}{prefix}", self.prefix);
        let end = end_of(&from);
        let (mut from, mut all, mut revision) = (from.into_bytes(), Vec::new(), 0);
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_limit(PAGE_KEYS.into())
                .with_revision(revision);
            let mut page = self.get(from, options).await?;
            // All pages are of the first one's revision.
            revision = page.header().map_or(0, etcd_client::ResponseHeader::revision).max(revision);
            for kv in page.take_kvs() {
                let path = String::from_utf8_lossy(kv.key()).into_owned();
                let key = path.strip_prefix(&self.prefix).unwrap_or(&path).to_owned();
                all.push((Key(key), versioned(kv)));
            }
            if !page.more() {
                return Ok(all);
            }
            from = all.last().map(|(key, _)| self.path(key)).unwrap_or_default().into_bytes();
            // The next key in order.
            from.push(0);
        }
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<Revision>,
        value: &[u8],
    ) -> Result<Outcome, StoreError> {
        let path = self.path(key);
        let Ok(stands) = i64::try_from(expected.map_or(0, |revision| revision.0)) else {
            // etcd never gave such a revision.
            return Ok(Outcome::Conflict(self.load(key).await?));
        };
        let txn = Txn::new()
            .when([Compare::mod_revision(path.clone(), CompareOp::Equal, stands)])
            .and_then([TxnOp::put(path.clone(), value, None)])
            .or_else([TxnOp::get(path, None)]);
        let answer = self.members.tell(txn).await.map_err(|refusal| self.error(Some(key), refusal))?;
        if answer.succeeded() {
            let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            return Ok(Outcome::Written(Revision(revision.unsigned_abs())));
        }
        match answer.op_responses().pop() {
            Some(TxnOpResponse::Get(mut found)) => {
                Ok(Outcome::Conflict(found.take_kvs().pop().map(versioned)))
            }
            _ => Err(self.silent("its answer to a transaction has another form")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
