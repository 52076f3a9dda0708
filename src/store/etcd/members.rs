//! Which member is asked, and for how long.
//!
//! etcd-client's own balancer keeps choosing a member that is dead or hangs, and has no deadline. So each member has a
//! client of its own here. The one that answered last is asked; when it fails or takes too long its connection is
//! given up, and the next one is asked.
//!
//! A read is tried at every member. A write is sent once, to a member that has just answered a read: what came of it
//! is unknown where its answer is lost, unless it surely was not sent or was refused before it was looked at.

use std::error::Error as _;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, Error, GetOptions, Txn, TxnResponse};
use parking_lot::Mutex;
use tonic::{Code, ConnectError, Status};

use super::NotDone;

/// The time limit for one member. A disk that syncs slowly takes a tenth of it; a statement waits for the store for a
/// second by default, in which a second member must still have its turn.
const TIMEOUT_MIN: Duration = Duration::from_millis(400);
/// A store that is slow for everybody is waited for longer, up to this.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);
/// An answer that took so many times less than the timeout shows that it suffices.
const TIMEOUT_FACTOR: u32 = 4;
/// A member that answered so recently is trusted with a write.
const PROOF_AGE_MAX: Duration = Duration::from_secs(1);
/// etcd closes connections that are pinged more often than each 5 s.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Members {
    all: Vec<Member>,
    options: ConnectOptions,
    /// The member that is asked first.
    at: AtomicUsize,
    timeout: Mutex<Duration>,
    /// Any key that may be read: its read proves that a member answers.
    probe: String,
}

struct Member {
    endpoint: String,
    link: Mutex<Link>,
}

/// The connection, and when an answer came over it last.
#[derive(Default)]
struct Link {
    client: Option<Client>,
    answered_at: Option<Instant>,
}

/// Why a member gave no answer that helps.
struct Failure {
    endpoint: String,
    reason: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The request has not left this process.
    NotSent,
    /// etcd refuses the client, before it looks at the request.
    Refused,
    /// The request may have been carried out, or may yet be.
    Unknown,
    TimedOut,
}

impl Members {
    /// Connects to nobody yet.
    pub(super) fn new(endpoints: &[String], options: ConnectOptions, probe: String) -> Self {
        let options = options
            .with_connect_timeout(TIMEOUT_MAX)
            .with_keep_alive(KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT)
            .with_keep_alive_while_idle(false)
            // A member that is cut off from the others says so instead of keeping us waiting.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        let member = |endpoint: &String| Member { endpoint: endpoint.clone(), link: Mutex::default() };
        // Proxies of a fleet do not all lean on the first member.
        let at = rand::random::<u32>() as usize % endpoints.len().max(1);
        Members {
            all: endpoints.iter().map(member).collect(),
            options,
            at: AtomicUsize::new(at),
            timeout: Mutex::new(TIMEOUT_MIN),
            probe,
        }
    }

    /// Asks one member after the other until one answers. Only for what may be done twice.
    pub(super) async fn ask<T, F, Fut>(&self, call: F) -> Result<T, NotDone>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let mut failures = Vec::new();
        for member in self.in_turn() {
            match self.attempt(member, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failures.push(failure),
            }
        }
        Err(self.refusal(failures))
    }

    /// Sends a transaction that writes to one member, which has proved that it answers.
    pub(super) async fn tell(&self, txn: Txn) -> Result<TxnResponse, NotDone> {
        let mut failures = Vec::new();
        for _ in 0..self.all.len() {
            let Some(member) = self.proven().await? else { break };
            let send = |mut client: Client| {
                let txn = txn.clone();
                async move { client.txn(txn).await }
            };
            match self.attempt(member, send).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if matches!(failure.kind, Kind::NotSent | Kind::Refused) => {
                    failures.push(failure);
                }
                Err(Failure { endpoint, reason, .. }) => {
                    return Err(NotDone::Unknown(format!("{endpoint}: {reason}")));
                }
            }
        }
        Err(self.refusal(failures))
    }

    /// A member that has just answered.
    async fn proven(&self) -> Result<Option<&Member>, NotDone> {
        let is_proven = |member: &&Member| {
            let link = member.link.lock();
            link.client.is_some() && link.answered_at.is_some_and(|at| at.elapsed() < PROOF_AGE_MAX)
        };
        if let Some(member) = self.in_turn().next().filter(is_proven) {
            return Ok(Some(member));
        }
        self.ask(|mut client: Client| {
            let probe = self.probe.clone();
            async move { client.get(probe, Some(GetOptions::new().with_keys_only())).await }
        })
        .await?;
        Ok(self.in_turn().next())
    }

    fn in_turn(&self) -> impl Iterator<Item = &Member> {
        let at = self.at.load(Ordering::Relaxed);
        self.all.iter().cycle().skip(at).take(self.all.len())
    }

    async fn attempt<T, F, Fut>(&self, member: &Member, call: F) -> Result<T, Failure>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let limit = *self.timeout.lock();
        let begun = Instant::now();
        let leaving = Leaving { members: self, member, is_over: false };
        // Logging in is a call to etcd too; nothing that matters is sent before it is done.
        let answer = tokio::time::timeout(limit, async {
            let client = self.client(member).await.map_err(|error| (error, true))?;
            call(client).await.map_err(|error| (error, false))
        })
        .await;
        let failure = |kind, reason| Failure { endpoint: member.endpoint.clone(), reason, kind };
        match answer {
            Ok(Ok(answer)) => {
                leaving.stay();
                member.link.lock().answered_at = Some(Instant::now());
                *self.timeout.lock() = (begun.elapsed() * TIMEOUT_FACTOR).clamp(TIMEOUT_MIN, TIMEOUT_MAX);
                Ok(answer)
            }
            Ok(Err((error, before))) => {
                let (kind, reason) = judge(&error);
                let kind = if before && kind == Kind::Unknown { Kind::NotSent } else { kind };
                Err(failure(kind, reason))
            }
            Err(_) => Err(failure(Kind::TimedOut, format!("no answer within {limit:?}"))),
        }
    }

    async fn client(&self, member: &Member) -> Result<Client, Error> {
        if let Some(client) = member.link.lock().client.clone() {
            return Ok(client);
        }
        let client = Client::connect([&member.endpoint], Some(self.options.clone())).await?;
        member.link.lock().client = Some(client.clone());
        Ok(client)
    }

    /// The member's connection is given up, and the next member is asked first from now on.
    fn leave(&self, member: &Member) {
        *member.link.lock() = Link::default();
        let Some(at) = self.all.iter().position(|other| std::ptr::eq(other, member)) else { return };
        let next = (at + 1) % self.all.len();
        // If another call has left the member meanwhile, the next one is first already.
        let _ = self.at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The refusal after every member failed.
    fn refusal(&self, failures: Vec<Failure>) -> NotDone {
        if failures.iter().any(|failure| failure.kind == Kind::TimedOut) {
            let mut limit = self.timeout.lock();
            *limit = (*limit * 2).min(TIMEOUT_MAX);
        }
        let is_refused = failures.iter().any(|failure| failure.kind == Kind::Refused);
        let reasons: Vec<_> = failures
            .into_iter()
            .map(|Failure { endpoint, reason, .. }| format!("{endpoint}: {reason}"))
            .collect();
        let reason = reasons.join("; ");
        if is_refused { NotDone::Refused(reason) } else { NotDone::Unavailable(reason) }
    }
}

/// Leaves the member, also where the call's future is dropped: the caller had waited long enough.
struct Leaving<'a> {
    members: &'a Members,
    member: &'a Member,
    is_over: bool,
}

impl Leaving<'_> {
    fn stay(mut self) {
        self.is_over = true;
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.members.leave(self.member);
        }
    }
}

/// The meaning of an error for the request. Codes of <https://github.com/etcd-io/etcd/blob/main/api/v3rpc/rpctypes/error.go>.
/// RESOURCE_EXHAUSTED is not among the refused: "database space exceeded" is said of a transaction that was done
/// (`quotaApplierV3.Txn` applies it first).
fn judge(error: &Error) -> (Kind, String) {
    let status = match error {
        Error::GRpcStatus(status) => status,
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::EndpointError(_) => {
            return (Kind::NotSent, error.to_string());
        }
        other => return (Kind::Unknown, other.to_string()),
    };
    let reason = innermost(status);
    let kind = match status.code() {
        _ if is_unconnected(status) => Kind::NotSent,
        Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument => Kind::Refused,
        _ => Kind::Unknown,
    };
    (kind, reason)
}

/// True if there was no connection to send the request over.
fn is_unconnected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// etcd's own words; where there are none, the cause of the transport's.
fn innermost(status: &Status) -> String {
    let mut source = status.source();
    let mut text = status.message().to_owned();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}
