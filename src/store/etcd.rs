//! The store of a fleet: etcd, one transaction for each compare-and-set.
//!
//! * **Linearizable only.** Every read asks the cluster's quorum (etcd's default), so that no member answers with what
//!   it last knew. A revision is etcd's `mod_revision`.
//! * **Members fail, the store goes on** (`members`). Deadlines are ours.
//! * **What is unknown is said to be unknown**: an error after a transaction was sent, unless etcd surely did not take
//!   it. The caller settles it by reading (`ids::fence`).
//! * **A store that went back is noticed** (`witness`, `guard`): from then on nobody writes.
//! * **One process has a proxy's name** (`name`), by a lease. Uniqueness never hangs on it.

mod guard;
mod keys;
mod marks;
mod members;
mod name;
mod operator;
mod watchdog;
mod witness;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use etcd_client::{Certificate, ConnectOptions, GetOptions, GetResponse, Identity, KeyValue, TlsOptions};
use tokio::sync::{Mutex, watch};
use zeroize::Zeroizing;

use self::keys::Keys;
use self::marks::{Marks, MarksFile};
use self::witness::Witness;
use super::record::{check_format, encode_format};
use super::{Json, Key, Outcome, Result, Revision, Store, Versioned, Write};
pub use crate::store::etcd::operator::{EtcdOperator, QUIET};

/// The time limit for the first answer: an election of a leader takes a few seconds.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
const OPEN_PAUSE: Duration = Duration::from_millis(200);
/// etcd refuses a transaction of more than 128 operations.
const RECORDS_PER_TRANSACTION: usize = 100;

pub struct EtcdSettings {
    /// `host:port` of each member.
    pub endpoints: Vec<String>,
    /// In front of all keys, with no `/` at its end.
    pub prefix: String,
    pub account: Option<Account>,
    pub tls: Option<EtcdTls>,
    /// `proxy.name`
    pub name: String,
    /// The address at which the proxy listens; for people.
    pub address: String,
    /// The address at which other machines reach its HTTP API.
    pub api: Option<String>,
    /// Folder of local marks.
    pub state_path: PathBuf,
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

pub struct EtcdStore(Arc<Inner>);

struct Inner {
    keys: Keys,
    name: String,
    address: String,
    api: Option<String>,
    /// This process, unlike all others.
    run: String,
    since: String,
    marks: MarksFile,
    /// Held across each write: the witness is in all of them.
    witness: Mutex<Witness>,
    /// The highest revision that was seen.
    seen: AtomicU64,
    /// Why nothing is written at present.
    suspect: ArcSwapOption<String>,
    era: AtomicU64,
    recalls: watch::Sender<u64>,
    /// The lease that our name is on; 0: none.
    lease: AtomicI64,
}

/// Why the members gave no answer.
#[derive(Debug)]
enum NotDone {
    Unavailable(String),
    /// A write may have been done, or may yet be.
    Unknown(String),
    /// A password or a right is missing.
    Refused(String),
}

impl EtcdStore {
    /// Connects, compares the store with what this proxy saw of it, takes the proxy's name and checks or writes the
    /// store's format. Needs a Tokio runtime, which it uses until it is dropped.
    pub async fn open(settings: EtcdSettings) -> Result<Self> {
        let (keys, name) = (Keys::of(&settings), settings.name);
        let (marks, left) = MarksFile::open(&settings.state_path, &keys.prefix, &name)?;
        let run = format!("{:032x}", rand::random::<u128>());
        let of_marks = |number: fn(&Marks) -> u64| left.as_ref().map_or(0, number);
        let inner = Arc::new(Inner {
            keys,
            name,
            address: settings.address,
            api: settings.api,
            since: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            marks,
            witness: Mutex::new(Witness::new(run.clone(), of_marks(|m| m.witness), of_marks(|m| m.raised))),
            run,
            seen: AtomicU64::new(of_marks(|m| m.revision)),
            suspect: ArcSwapOption::empty(),
            era: AtomicU64::new(of_marks(|m| m.raised)),
            recalls: watch::Sender::new(0),
            lease: AtomicI64::new(0),
        });
        let end = Instant::now() + OPEN_DEADLINE;
        while let Err(error) = inner.begin(left.as_ref()).await {
            if !error.passes() || Instant::now() > end {
                return Err(error);
            }
            tokio::time::sleep(OPEN_PAUSE).await;
        }
        watchdog::start(&inner);
        Ok(EtcdStore(inner))
    }
}

impl Inner {
    /// Does what comes before anything else, again if need be. `left`: the marks of an earlier process.
    async fn begin(&self, left: Option<&Marks>) -> Result<()> {
        self.recognise().await?;
        self.check_format().await?;
        self.take_name(left.map(|marks| marks.run.clone())).await?;
        self.sign().await
    }

    async fn check_format(&self) -> Result<()> {
        let key = Key::format();
        let found = match self.load(&key).await? {
            Some(found) => found,
            None => match self.keys.write(&key, 0, &encode_format()).await? {
                Outcome::Written(_) => return Ok(()),
                Outcome::Conflict(found) => found.ok_or_else(|| {
                    self.keys.silent("the record `format` was removed while Rowstamp wrote it")
                })?,
            },
        };
        check_format(&found.value)
    }

    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let mut found = self.get(self.keys.path(key).into_bytes(), GetOptions::new()).await?;
        Ok(found.take_kvs().pop().map(versioned))
    }

    async fn get(&self, from: Vec<u8>, options: GetOptions) -> Result<GetResponse> {
        let seen = self.seen();
        let answer = self.keys.get(from, options).await?;
        self.has_not_gone_back(seen, answer.header()).await?;
        Ok(answer)
    }
}

fn options(settings: &EtcdSettings) -> ConnectOptions {
    let mut options = ConnectOptions::new();
    if let Some(Account { user, password }) = &settings.account {
        options = options.with_user(user, password.as_str());
    }
    if let Some(EtcdTls { ca, identity }) = &settings.tls {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        if let Some((cert, key)) = identity {
            tls = tls.identity(Identity::from_pem(cert, key.as_slice()));
        }
        options = options.with_tls(tls);
    }
    options
}

/// etcd's revisions begin at 1; 0 is that of a key that is not there.
fn revision_of(kv: &KeyValue) -> u64 {
    kv.mod_revision().unsigned_abs()
}

/// The revision as etcd compares it; a revision that etcd never gave is at no record.
fn stands_at(expected: Option<Revision>) -> i64 {
    expected.map_or(0, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX))
}

fn versioned(kv: KeyValue) -> Versioned<Json> {
    let revision = Revision(revision_of(&kv));
    Versioned { revision, value: kv.into_key_value().1 }
}

#[async_trait]
impl Store for EtcdStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        self.0.load(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let mut pages = self.0.keys.pages(prefix);
        while let Some((from, options)) = pages.next() {
            pages.take(self.0.get(from, options).await?);
        }
        Ok(pages.all)
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        self.0.write(Some((key, stands_at(expected), value))).await
    }

    /// Each transaction writes all of its records or, where one is at another revision, none.
    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let mut written = Vec::with_capacity(writes.len());
        for writes in writes.chunks(RECORDS_PER_TRANSACTION) {
            let all: Vec<_> =
                writes.iter().map(|one| (&one.key, stands_at(one.expected), one.value.as_slice())).collect();
            let is_written = matches!(self.0.write_all(&all).await?, Outcome::Written(_));
            written.extend(writes.iter().map(|_| is_written));
        }
        Ok(written)
    }

    fn era(&self) -> u64 {
        self.0.era()
    }

    fn recalls(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.recalls.subscribe())
    }

    /// Gives the proxy's name free.
    async fn close(&self) {
        self.0.give_up_name().await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
