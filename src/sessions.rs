//! The sessions of a proxy: who they are, what they did, and how an operator ends them.
//!
//! A session's own numbers are written by its own task only, so that counting costs no more than an
//! addition; a reader adds them up.

pub mod last;
pub mod refused;

use std::array;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use self::last::{Last, LastDigest};
use crate::log_span::{Fields, LogSpan};
use crate::meter::Timing;
use crate::sql::dialect::Dialect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Texts, those that are prepared, and executions; and whatever is refused.
    Statements,
    /// `Statements` that got ids.
    Rewritten,
    /// `Rewritten` ones that the server answered with an error.
    Failed,
    Ids,
    BytesFromClient,
    BytesToClient,
    /// The time that the session's statements waited for ids.
    WaitedNanos,
    /// Refused by this proxy: it cannot be rewritten (1235).
    Unsupported,
    /// There was no id (1467).
    NoId,
    /// Longer than the limit (1153).
    TooLong,
    /// A command that is not relayed (1047).
    UnknownCommand,
    /// A packet that cannot be read (1835, 1210, 1295, and what has no word of its own).
    Malformed,
    /// The number of a statement that is not prepared (1243).
    UnknownStatement,
}

const COUNTS: usize = Count::UnknownStatement as usize + 1;

impl Count {
    /// Why something was refused, in a word for each.
    pub const REFUSED: [(Count, &'static str); 6] = [
        (Count::Unsupported, "unsupported"),
        (Count::NoId, "no_id"),
        (Count::TooLong, "too_long"),
        (Count::UnknownCommand, "unknown_command"),
        (Count::Malformed, "malformed"),
        (Count::UnknownStatement, "unknown_statement"),
    ];
}

/// Sums of [`Count`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted([u64; COUNTS]);

impl Counted {
    pub fn get(&self, count: Count) -> u64 {
        self.0.get(count as usize).copied().unwrap_or(0)
    }

    /// Statements and commands that this proxy refused.
    pub fn refused(&self) -> u64 {
        Count::REFUSED.iter().map(|(count, _)| self.get(*count)).sum()
    }

    fn add(&mut self, other: &Counted) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Login {
    Accepted,
    /// The server refused it: a wrong password, most often.
    Denied,
    /// The client went away.
    Gone,
    /// `limits.connections`
    Connections,
    PerAddress,
    PerUser,
    ProxyProtocol,
    Tls,
    Timeout,
    Malformed,
    /// The server could not be reached.
    Unreachable,
    /// The server ended the login.
    Backend,
    /// This proxy does not relay such a login.
    NotRelayed,
}

impl Login {
    /// Clients that this proxy turned away, in a word for each reason.
    pub const REFUSED: [(Login, &'static str); 10] = [
        (Login::Connections, "connections"),
        (Login::PerAddress, "per_address"),
        (Login::PerUser, "per_user"),
        (Login::ProxyProtocol, "proxy_protocol"),
        (Login::Tls, "tls"),
        (Login::Timeout, "timeout"),
        (Login::Malformed, "malformed"),
        (Login::Unreachable, "backend"),
        (Login::Backend, "backend"),
        (Login::NotRelayed, "denied"),
    ];
}

const LOGINS: usize = Login::NotRelayed as usize + 1;

/// The user who logged in. Empty before the login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    pub user: String,
    /// The default database of the login. A later USE does not show here.
    pub database: String,
    /// The server's id of its connection.
    pub connection: u32,
    /// The client's connection is TLS, whatever the server's is.
    pub is_tls: bool,
}

/// All sessions, those that ended in sums.
#[derive(Debug, Default)]
pub struct Sessions {
    all: Mutex<All>,
    /// So many connections have come: the last one's id.
    opened: AtomicU64,
    logins: [AtomicU64; LOGINS],
    /// From a command to what is sent in its place, the wait for ids aside.
    pub rewriting: Timing,
    /// From the arrival of a client's command to the end of its answer.
    pub answered: Timing,
    /// From when the command was sent to the server to the end of its answer.
    pub at_server: Timing,
    pub refused: refused::Refused,
}

/// Under one lock, so that sums never go down.
#[derive(Debug, Default)]
struct All {
    live: BTreeMap<u64, Arc<Entry>>,
    ended: Counted,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    since: Instant,
    who: Mutex<Who>,
    client: OnceLock<SocketAddr>,
    counts: [AtomicU64; COUNTS],
    is_busy: AtomicBool,
    /// Microseconds from `since` to the last command or the end of its answer.
    changed: AtomicU64,
    task: OnceLock<AbortHandle>,
    last: Mutex<Last>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub id: u64,
    pub age: Duration,
    /// `None`: it has not logged in yet.
    pub who: Option<Who>,
    /// `None`: a Unix socket.
    pub client: Option<SocketAddr>,
    /// The backend owes it an answer.
    pub is_busy: bool,
    /// Since the last command, or the end of its answer.
    pub in_state: Duration,
    pub counted: Counted,
}

/// A session's own place among all; it leaves when this is dropped.
#[derive(Debug)]
pub struct SessionHandle {
    all: Arc<Sessions>,
    entry: Arc<Entry>,
}

impl Sessions {
    /// A connection that has just come.
    pub fn enter(self: &Arc<Self>) -> SessionHandle {
        let id = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(Entry {
            id,
            since: Instant::now(),
            who: Mutex::default(),
            client: OnceLock::new(),
            counts: array::from_fn(|_| AtomicU64::new(0)),
            is_busy: AtomicBool::new(false),
            changed: AtomicU64::new(0),
            task: OnceLock::new(),
            last: Mutex::new(Last::None),
        });
        self.all.lock().live.insert(id, Arc::clone(&entry));
        SessionHandle { all: Arc::clone(self), entry }
    }

    /// The task that serves a connection: what KILL ends.
    pub fn serves(&self, id: u64, task: AbortHandle) {
        let entry = self.all.lock().live.get(&id).cloned();
        if let Some(entry) = entry {
            let _ = entry.task.set(task);
        }
    }

    /// Ends a session, whatever it does: both its connections are closed, and the server rolls
    /// back. `false`: there is none.
    pub fn kill(&self, id: u64) -> bool {
        let entry = self.all.lock().live.get(&id).cloned();
        let task = entry.as_ref().and_then(|entry| entry.task.get());
        task.inspect(|task| task.abort()).is_some()
    }

    pub fn note_login(&self, login: Login) {
        if let Some(count) = self.logins.get(login as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn logins(&self, login: Login) -> u64 {
        self.logins.get(login as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// By id.
    pub fn seen(&self) -> Vec<Seen> {
        let entries: Vec<_> = self.all.lock().live.values().cloned().collect();
        entries.iter().map(|entry| entry.seen()).collect()
    }

    /// The last statement that was given ids, of each session that has one, by the session's id.
    pub fn last_ruled(&self) -> Vec<(u64, LastDigest)> {
        let entries: Vec<_> = self.all.lock().live.values().cloned().collect();
        entries.iter().filter_map(|entry| Some((entry.id, entry.last.lock().digest()?))).collect()
    }

    /// The counts of all sessions, of those that ended too.
    pub fn counted(&self) -> Counted {
        let all = self.all.lock();
        let mut sum = all.ended;
        for entry in all.live.values() {
            sum.add(&entry.counted());
        }
        sum
    }

    /// Connections that came, those without a seat aside.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub fn open(&self) -> usize {
        self.all.lock().live.len()
    }
}

impl Entry {
    fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for (to, from) in counted.0.iter_mut().zip(&self.counts) {
            *to = from.load(Ordering::Relaxed);
        }
        counted
    }

    fn seen(&self) -> Seen {
        let (who, age) = (self.who.lock().clone(), self.since.elapsed());
        Seen {
            id: self.id,
            age,
            in_state: age.saturating_sub(Duration::from_micros(self.changed.load(Ordering::Relaxed))),
            who: (who != Who::default()).then_some(who),
            client: self.client.get().copied(),
            is_busy: self.is_busy.load(Ordering::Relaxed),
            counted: self.counted(),
        }
    }
}

impl LogSpan for Arc<Entry> {
    fn fields(&self) -> Fields {
        let mut fields = vec![("session", self.id.into())];
        fields.extend(self.client.get().map(|client| ("client", client.to_string().into())));
        let user = self.who.lock().user.clone();
        fields.extend((!user.is_empty()).then(|| ("user", user.into())));
        fields
    }
}

impl SessionHandle {
    pub fn id(&self) -> u64 {
        self.entry.id
    }

    /// The fields of the session's lines in the log.
    pub fn span(&self) -> impl LogSpan + use<> {
        Arc::clone(&self.entry)
    }

    pub fn all(&self) -> &Sessions {
        &self.all
    }

    pub fn is_of(&self, client: SocketAddr) {
        let _ = self.entry.client.set(client);
    }

    /// Sets the user, at the login.
    pub fn set_who(&self, who: Who) {
        *self.entry.who.lock() = who;
    }

    /// The address is `None` for a client of the Unix socket.
    pub fn who(&self) -> (Who, Option<SocketAddr>) {
        (self.entry.who.lock().clone(), self.entry.client.get().copied())
    }

    /// COM_CHANGE_USER: the connections are the same.
    pub fn changes(&self, user: &[u8], database: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut who = self.entry.who.lock();
        (who.user, who.database) = (text(user), text(database));
    }

    /// By the session's own task only.
    pub fn count(&self, count: Count, n: u64) {
        if let Some(sum) = self.entry.counts.get(count as usize)
            && n > 0
        {
            sum.store(sum.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }
    }

    pub fn counted(&self, count: Count) -> u64 {
        self.entry.counts.get(count as usize).map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// A command was sent at this moment, or its answer ended.
    pub fn changes_at(&self, at: Instant) {
        let micros = at.saturating_duration_since(self.entry.since).as_micros();
        self.entry.changed.store(u64::try_from(micros).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A statement is about to be sent with its ids. `table`: the first that it inserts into.
    pub fn ruled(&self, text: Option<(&[u8], Dialect)>, table: impl FnOnce() -> String) {
        self.entry.last.lock().note(text, table);
    }

    pub fn is_busy(&self, is_busy: bool) {
        self.entry.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        let mut all = self.all.all.lock();
        all.live.remove(&self.entry.id);
        all.ended.add(&self.entry.counted());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Count, Login, Sessions, Who};

    #[test]
    fn who_is_here_and_what_all_did() {
        let sessions = Arc::new(Sessions::default());
        let (first, second) = (sessions.enter(), sessions.enter());
        first.count(Count::Ids, 3);
        second.count(Count::Ids, 4);
        second.count(Count::NoId, 1);
        let who = Who { user: "app".into(), database: "shop".into(), connection: 7, is_tls: true };
        second.set_who(who.clone());
        second.is_busy(true);
        let seen = sessions.seen();
        assert_eq!(seen.iter().map(|seen| seen.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((seen[0].who.clone(), seen[1].who.clone()), (None, Some(who)));
        assert_eq!((seen[0].is_busy, seen[1].is_busy, sessions.open()), (false, true, 2));
        drop(second);
        first.count(Count::Ids, 1);
        let counted = sessions.counted();
        assert_eq!((counted.get(Count::Ids), counted.refused(), sessions.open()), (8, 1, 1));
        sessions.note_login(Login::Denied);
        assert_eq!([Login::Accepted, Login::Denied].map(|login| sessions.logins(login)), [0, 1]);
        assert_eq!(sessions.opened(), 2);
    }

    #[tokio::test]
    async fn a_session_is_killed_by_its_id() {
        let sessions = Arc::new(Sessions::default());
        let here = sessions.enter();
        let id = here.id();
        assert!(!sessions.kill(id), "it has no task yet");
        let task = tokio::spawn(async move {
            let _here = here;
            std::future::pending::<()>().await;
        });
        sessions.serves(id, task.abort_handle());
        assert!(sessions.kill(id) && !sessions.kill(id + 1));
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!((sessions.open(), sessions.kill(id)), (0, false));
    }
}
