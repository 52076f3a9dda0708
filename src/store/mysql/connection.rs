//! One connection to the primary. It is made again whenever a call failed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Params};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::place::{Candidate, Choice, LOOK_AGE_MAX, LOOK_VALID, PlaceRecord, choose};
use super::{CALL_DEADLINE, NO_SUCH_TABLE, Result};
use crate::role::{self, Role};
use crate::store::record::{decode, encode};
use crate::store::{Key, StoreError};
use crate::text_query::with_values;

/// The time limit for each server while none is in use.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit for the others while one is in use: one that hangs must not delay each call.
const TIMEOUT_OTHERS: Duration = Duration::from_millis(250);

/// Errors of the server that come before anything was written, or after it was rolled back: access denied (1044, 1045,
/// 1142, 1143), no such table or database (1146, 1049), table full (1114), lock wait timeout (1205), data too long (1406),
/// statement too long (1153). [`READ_ONLY`], [`DUPLICATE_KEY`] and [`DEADLOCK`] are such errors too, with answers of their own.
const NOT_DONE: [u16; 10] = [1044, 1045, 1049, 1114, 1142, 1143, 1146, 1153, 1205, 1406];
const READ_ONLY: [u16; 3] = [1290, 1792, 1836];
const DUPLICATE_KEY: u16 = 1062;
/// The server has undone the statement for another's, which has written the same records.
const DEADLOCK: u16 = 1213;
const NO_SUCH_DATABASE: u16 = 1049;

/// A server that may be the primary.
#[derive(Debug, Clone)]
pub struct Server {
    /// The server's address, as errors and the log show it.
    pub address: String,
    /// The ways to connect, in the order in which they are tried.
    pub ways: Vec<Opts>,
}

pub(super) struct Connection {
    servers: Vec<Server>,
    /// The store, as errors name it.
    pub(super) name: String,
    /// The table of records, quoted.
    own: String,
    /// Nothing is written: neither what a new store has, nor which server is the primary.
    pub(super) only_reads: bool,
    seat: Mutex<Option<Seat>>,
    at: AtomicUsize,
    /// The highest of a `primary` record that was seen.
    term: AtomicU64,
}

/// A connection to the server that was the primary when it was looked at.
struct Seat {
    nth: usize,
    conn: Conn,
    looked_at: Instant,
}

struct Found {
    nth: usize,
    conn: Conn,
    server: role::Server,
    /// The record `primary` with its revision. `None`: it is not there.
    record: Option<(u64, PlaceRecord)>,
    now: u64,
}

impl Connection {
    pub(super) fn new(servers: Vec<Server>, name: String, own: &str, only_reads: bool) -> Self {
        let (at, term) = (AtomicUsize::new(usize::MAX), AtomicU64::new(0));
        Connection { servers, name, own: own.to_owned(), only_reads, seat: Mutex::new(None), at, term }
    }

    pub(super) fn at(&self) -> usize {
        self.at.load(Ordering::Acquire)
    }

    /// True if another server may be the primary later.
    pub(super) fn may_move(&self) -> bool {
        self.servers.len() > 1
    }

    pub(super) fn away(&self, reason: String) -> StoreError {
        StoreError::Unavailable { store: self.name.clone(), reason }
    }

    /// One more connection to the server in use, and its number.
    pub(super) async fn another(&self) -> Result<(usize, Conn)> {
        let mut slot = self.seat.lock().await;
        let seat = self.take(&mut slot).await?;
        let nth = seat.nth;
        *slot = Some(seat);
        drop(slot);
        let server = self.servers.get(nth).ok_or_else(|| self.away("no server is configured".to_owned()))?;
        connect(server).await.map(|conn| (nth, conn)).map_err(|reason| self.away(reason))
    }

    /// The primary, looked at not long ago. A call that is dropped while it uses the connection leaves it to nobody.
    async fn take(&self, slot: &mut Option<Seat>) -> Result<Seat> {
        match slot.take() {
            Some(seat) if seat.looked_at.elapsed() < LOOK_AGE_MAX => Ok(seat),
            seat => self.look(seat).await,
        }
    }

    async fn look(&self, seat: Option<Seat>) -> Result<Seat> {
        let looked_at = Instant::now();
        let mut looks = JoinSet::new();
        let before = seat.as_ref().map(|seat| seat.nth);
        let limit = if before.is_some() { TIMEOUT_OTHERS } else { TIMEOUT };
        let mut in_use = seat.map(|seat| seat.conn);
        for (nth, server) in self.servers.iter().enumerate() {
            let (server, own) = (server.clone(), self.own.clone());
            let conn = if before == Some(nth) { in_use.take() } else { None };
            let limit = if conn.is_some() { TIMEOUT } else { limit };
            let reads_record = self.may_move();
            looks.spawn(async move {
                let asked =
                    timeout(limit, look_at(&server, conn, reads_record.then_some(own.as_str()))).await;
                (nth, asked.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))))
            });
        }
        let (mut writable, mut others) = (Vec::new(), Vec::new());
        while let Some(joined) = looks.join_next().await {
            let Ok((nth, asked)) = joined else { continue };
            let address = self.servers.get(nth).map_or("", |server| server.address.as_str());
            match asked {
                Ok((conn, server, record, now)) if server.role == Role::Writable => {
                    writable.push(Found { nth, conn, server, record, now });
                }
                Ok((_, server, ..)) => others.push(format!("{address} {}", server.role.as_str())),
                Err(reason) => others.push(format!("{address} {}: {reason}", Role::Away.as_str())),
            }
        }
        writable.sort_by_key(|found| found.nth);
        if writable.is_empty() {
            others.sort_unstable();
            return Err(self.away(format!(
                "{}; the store needs a primary, which can be written to and replicates from no other server",
                others.join(", ")
            )));
        }
        let seat = self.choose(writable, before, looked_at).await?;
        if self.at.swap(seat.nth, Ordering::AcqRel) != seat.nth && self.may_move() {
            let server = self.servers.get(seat.nth).map(|server| server.address.as_str());
            tracing::info!(server, "this server is the primary that has the store's table");
        }
        Ok(seat)
    }

    async fn choose(
        &self,
        mut writable: Vec<Found>,
        before: Option<usize>,
        looked_at: Instant,
    ) -> Result<Seat> {
        if !self.may_move() {
            let Found { nth, conn, .. } = writable.swap_remove(0);
            return Ok(Seat { nth, conn, looked_at });
        }
        let candidates: Vec<_> = writable
            .iter()
            .map(|found| Candidate {
                address: self.servers.get(found.nth).map(|server| server.address.clone()).unwrap_or_default(),
                identity: found.server.identity.clone(),
                record: found.record.as_ref().map(|(_, record)| record.clone()),
                now: found.now,
            })
            .collect();
        let seen = candidates.iter().filter_map(|one| Some(one.record.as_ref()?.term)).max().unwrap_or(0);
        let term = self.term.fetch_max(seen, Ordering::AcqRel).max(seen);
        let before = writable.iter().position(|found| Some(found.nth) == before);
        match choose(&candidates, before, term) {
            Choice::Use(nth) => {
                let Found { nth, conn, .. } = writable.swap_remove(nth);
                Ok(Seat { nth, conn, looked_at })
            }
            Choice::Claim(nth, record) => {
                let mut found = writable.swap_remove(nth);
                if !self.only_reads {
                    self.claim(&mut found, &record).await?;
                }
                let Found { nth, conn, .. } = found;
                Ok(Seat { nth, conn, looked_at })
            }
            Choice::Wait(nth, rest) => {
                let address = candidates.get(nth).map_or("", |one| one.address.as_str());
                Err(self.away(format!(
                    "{address} has just become the primary; Rowstamp uses it in {rest:.1?}, when all proxies have found it"
                )))
            }
            Choice::Nobody(reason) => Err(self.away(reason)),
        }
    }

    /// An error where the server is not to be used yet.
    async fn claim(&self, found: &mut Found, record: &PlaceRecord) -> Result<()> {
        let (own, name) = (&self.own, Key::primary());
        // If several find the same, one of them is first, and all others see that in their next look.
        let sql = match &found.record {
            Some((revision, _)) => format!(
                "UPDATE {own} SET value = ?, revision = revision + 1 WHERE name = '{name}' AND revision = {revision}"
            ),
            None => format!("INSERT INTO {own} (name, revision, value) VALUES ('{name}', 1, ?)"),
        };
        match found.conn.query_drop(with_values(&sql, (encode(record),))).await {
            // The table is made when this has found its place.
            Err(mysql_async::Error::Server(error)) if is_missing(error.code) && found.record.is_none() => {
                Ok(())
            }
            Ok(()) if record.at == 0 => Ok(()),
            Ok(()) => {
                tracing::warn!(
                    server = record.server,
                    term = record.term,
                    "another server is the primary now"
                );
                Err(self.away("another server has just become the primary".to_owned()))
            }
            Err(error) => Err(self.away(error.to_string())),
        }
    }

    /// A call that writes nothing.
    pub(super) async fn read<T>(
        &self,
        call: impl AsyncFnOnce(&mut Conn) -> Result<T, mysql_async::Error>,
    ) -> Result<T> {
        let answered = timeout(CALL_DEADLINE, async {
            let mut slot = self.seat.lock().await;
            let mut seat = self.take(&mut slot).await?;
            let answer = call(&mut seat.conn).await;
            let is_late = seat.looked_at.elapsed() > LOOK_VALID;
            // After another error the connection is of no use any more.
            if matches!(&answer, Ok(_) | Err(mysql_async::Error::Server(_))) {
                *slot = Some(seat);
            }
            if is_late {
                return Err(self
                    .away("the server answered too late: another server may be the primary now".to_owned()));
            }
            answer.map_err(|error| self.away(error.to_string()))
        });
        answered.await.unwrap_or_else(|_| Err(self.away(format!("no answer within {CALL_DEADLINE:?}"))))
    }

    /// One statement that writes: how many rows it has changed; `None` where it met a duplicate key. It is done where the server
    /// is still the primary after it.
    pub(super) async fn write(&self, key: &Key, sql: &str, params: Params) -> Result<Option<u64>> {
        let unknown = |reason: String| StoreError::UnknownOutcome {
            store: self.name.clone(),
            key: key.clone(),
            reason,
        };
        let Ok(mut slot) = timeout(CALL_DEADLINE, self.seat.lock()).await else {
            return Err(self.away("the connection is busy with earlier calls".to_owned()));
        };
        let mut seat = match timeout(CALL_DEADLINE, self.take(&mut slot)).await {
            Ok(seat) => seat?,
            Err(_) => return Err(self.away(format!("no connection within {CALL_DEADLINE:?}"))),
        };
        let written = timeout(CALL_DEADLINE, async {
            seat.conn.query_drop(with_values(sql, params)).await?;
            let rows = seat.conn.affected_rows();
            Ok((rows, role::ask(&mut seat.conn).await?.role))
        });
        match written.await {
            Ok(Ok((rows, Role::Writable))) if seat.looked_at.elapsed() < LOOK_VALID => {
                *slot = Some(seat);
                Ok(Some(rows))
            }
            Ok(Ok((_, Role::Writable))) => {
                Err(unknown("the server answered too late: another server may be the primary now".to_owned()))
            }
            Ok(Ok((_, role))) => Err(unknown(format!("the server {} now", role.as_str()))),
            Ok(Err(mysql_async::Error::Server(error))) if READ_ONLY.contains(&error.code) => {
                Err(self.away(error.to_string()))
            }
            Ok(Err(mysql_async::Error::Server(error))) => {
                *slot = Some(seat);
                match error.code {
                    DUPLICATE_KEY | DEADLOCK => Ok(None),
                    code if NOT_DONE.contains(&code) => Err(self.away(error.to_string())),
                    _ => Err(unknown(error.to_string())),
                }
            }
            Ok(Err(error)) => Err(unknown(error.to_string())),
            Err(_) => Err(unknown(format!("no answer within {CALL_DEADLINE:?}"))),
        }
    }
}

type Looked = (Conn, role::Server, Option<(u64, PlaceRecord)>, u64);

/// `own`: the table whose record `primary` is read.
async fn look_at(server: &Server, conn: Option<Conn>, own: Option<&str>) -> Result<Looked, String> {
    let mut conn = match conn {
        Some(conn) => conn,
        None => connect(server).await?,
    };
    let found = role::ask(&mut conn).await.map_err(|error| error.to_string())?;
    let Some(own) = own.filter(|_| found.role == Role::Writable) else { return Ok((conn, found, None, 0)) };
    let sql = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)";
    let now: Option<u64> = conn.query_first(sql).await.map_err(|error| error.to_string())?;
    let key = Key::primary();
    let sql = format!("SELECT revision, value FROM {own} WHERE name = '{key}'");
    let stands: Option<(u64, Vec<u8>)> = match conn.query_first(sql).await {
        Err(mysql_async::Error::Server(error)) if is_missing(error.code) => None,
        read => read.map_err(|error| error.to_string())?,
    };
    let record = stands.map(|(revision, value)| Ok((revision, decode(&key, &value)?))).transpose();
    let record = record.map_err(|error: StoreError| error.to_string())?;
    Ok((conn, found, record, now.unwrap_or(0)))
}

async fn connect(server: &Server) -> Result<Conn, String> {
    // Without autocommit reads would show old rows, and writes would wait for a COMMIT. A lock is waited for less long than
    // a call.
    let set = "SET autocommit = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 1";
    let mut reason = "no connection to the server is configured".to_owned();
    for way in &server.ways {
        match Conn::new(way.clone()).await {
            Ok(mut conn) => match conn.query_drop(set).await {
                Ok(()) => return Ok(conn),
                Err(error) => reason = error.to_string(),
            },
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

fn is_missing(code: u16) -> bool {
    [NO_SUCH_TABLE, NO_SUCH_DATABASE].contains(&code)
}
