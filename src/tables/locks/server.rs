//! The questions to the server about tables' locks.
//!
//! A table has three user-level locks, all of one connection. The first keeps other stores off: its
//! name is the table's alone. The second, named after the table and the store, shows proxies of the
//! same store that they may share the first. The third shows them that its connection has waited
//! out [`GRACE`](crate::tables::locks::GRACE).

use mysql_async::prelude::{FromRow, Queryable};
use sha2::{Digest, Sha256};

use crate::tables::locks::LockError;
use crate::tables::locks::line::Line;

/// Tables that are asked for by one statement, which has some 150 KB then.
pub(super) const TABLES_PER_QUERY: usize = 250;

/// The number of tables whose locks' holders one query returns, as one text.
const LOCKS_PER_TEXT: usize = 500;

/// The holder of a table's lock. `Own` is the connection that asked, `Peer` one of the same store's proxies, `Foreign` any other.
/// `Nobody` holds a lock that was another's and is free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Own { own: u64, settled: bool },
    Peer { connection: u64, settled: bool },
    Nobody,
    Foreign { connection: u64 },
}

impl Holder {
    pub(super) fn connection(self) -> Option<u64> {
        match self {
            Holder::Own { own: connection, .. }
            | Holder::Peer { connection, .. }
            | Holder::Foreign { connection } => Some(connection),
            Holder::Nobody => None,
        }
    }

    /// True if its connection has waited out the grace time.
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Holder::Own { settled: true, .. } | Holder::Peer { settled: true, .. })
    }

    /// True if this proxy may issue ids for the table.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Holder::Own { .. } | Holder::Peer { .. })
    }
}

/// Takes the locks that are free, and returns the holder of each, in the order of `tables`.
pub(super) async fn take(line: &mut Line, tables: &[&str], store: &str) -> Result<Vec<Holder>, LockError> {
    type Row = (Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>, u64);
    let rows: Vec<Row> = of_each(line, tables, |table| taking(table, store)).await?;
    Ok(rows.into_iter().map(|(_, _, lock, badge, settled, own)| holder(lock, badge, settled, own)).collect())
}

/// Returns the holder of each lock, and takes none.
pub(super) async fn look(line: &mut Line, tables: &[&str], store: &str) -> Result<Vec<Holder>, LockError> {
    type Row = (Option<u64>, Option<u64>, Option<u64>, u64);
    let looking = |table: &str| {
        let [lock, badge, settled] = names(table, store);
        format!("IS_USED_LOCK('{lock}'),IS_USED_LOCK('{badge}'),IS_USED_LOCK('{settled}'),CONNECTION_ID()")
    };
    let rows: Vec<Row> = of_each(line, tables, looking).await?;
    Ok(rows.into_iter().map(|(lock, badge, settled, own)| holder(lock, badge, settled, own)).collect())
}

/// Which connection holds each table's first lock, by numbers in one text: proxies of one store ask
/// this of each other's locks many times a second.
pub(super) async fn used(line: &mut Line, tables: &[&str]) -> Result<Vec<Option<u64>>, LockError> {
    let mut found = Vec::with_capacity(tables.len());
    for chunk in tables.chunks(LOCKS_PER_TEXT) {
        let locks = chunk.iter().map(|table| format!("COALESCE(IS_USED_LOCK('{}'),0)", lock_name(table)));
        let sql = format!("SELECT CONCAT_WS(',',{})", locks.collect::<Vec<_>>().join(","));
        let table = chunk.first().copied().unwrap_or_default();
        let text: Option<String> = line.ask(table, async |conn| conn.query_first(sql).await).await?;
        let text = text.unwrap_or_default();
        let numbers = text.split(',').map(|number| number.parse().ok().filter(|number| *number > 0));
        let before = found.len();
        found.extend(numbers);
        if found.len() - before != chunk.len() {
            return Err(LockError::Answer { table: table.to_owned() });
        }
    }
    Ok(found)
}

fn holder(lock: Option<u64>, badge: Option<u64>, settled: Option<u64>, own: u64) -> Holder {
    match lock {
        None => Holder::Nobody,
        Some(lock) if lock == own => Holder::Own { own, settled: settled == Some(own) },
        Some(connection) if badge == lock => Holder::Peer { connection, settled: settled == lock },
        Some(connection) => Holder::Foreign { connection },
    }
}

/// Both servers evaluate the columns of a row in their order. A lock that is taken twice must be
/// given up twice.
fn taking(table: &str, store: &str) -> String {
    let [lock, badge, settled] = names(table, store);
    let (is_locked, has_badge) = (is_own(&lock), is_own(&badge));
    format!(
        "IF({is_locked},1,GET_LOCK('{lock}',0)),IF({is_locked},IF({has_badge},1,GET_LOCK('{badge}',0)),0),\
         IS_USED_LOCK('{lock}'),IS_USED_LOCK('{badge}'),IS_USED_LOCK('{settled}'),CONNECTION_ID()"
    )
}

fn is_own(lock: &str) -> String {
    format!("IS_USED_LOCK('{lock}')=CONNECTION_ID()")
}

/// The connection has held the locks of these tables for the grace time: proxies of the same store
/// need not wait.
pub(super) async fn settle(line: &mut Line, tables: &[&str], store: &str) -> Result<(), LockError> {
    let settling = |table: &str| {
        let [lock, _, settled] = names(table, store);
        format!("IF({},IF({},1,GET_LOCK('{settled}',0)),0)", is_own(&lock), is_own(&settled))
    };
    of_each::<Option<u64>>(line, tables, settling).await.map(drop)
}

/// Gives a table's locks up. The first one goes last: while there is a badge there is a lock.
pub(super) async fn release(line: &mut Line, table: &str, store: &str) -> Result<(), LockError> {
    let [lock, badge, settled] = names(table, store);
    let sql = format!("SELECT RELEASE_LOCK('{settled}'),RELEASE_LOCK('{badge}'),RELEASE_LOCK('{lock}')");
    line.ask(table, async |conn| conn.query_drop(sql).await).await
}

/// The user and host of a connection's session, if the account may see them.
pub(super) async fn user_of(line: &mut Line, connection: u64) -> Option<String> {
    let sql = format!("SELECT USER, HOST FROM information_schema.PROCESSLIST WHERE ID={connection}");
    let found: Option<(String, String)> =
        line.ask("", async |conn| conn.query_first(sql).await).await.ok()?;
    found.map(|(user, host)| format!("{user:?} from {host:?}"))
}

/// Checks that the connection lives, and with it its locks.
pub(super) async fn lives(line: &mut Line) -> Result<(), LockError> {
    line.ask("", async |conn| conn.ping().await).await
}

/// A row for each table.
async fn of_each<T: FromRow + Send + 'static>(
    line: &mut Line,
    tables: &[&str],
    columns: impl Fn(&str) -> String,
) -> Result<Vec<T>, LockError> {
    let mut rows = Vec::with_capacity(tables.len());
    for chunk in tables.chunks(TABLES_PER_QUERY) {
        let selects: Vec<String> = chunk.iter().map(|table| format!("SELECT {}", columns(table))).collect();
        let table = chunk.first().copied().unwrap_or_default();
        let found: Vec<T> =
            line.ask(table, async |conn| conn.query(selects.join(" UNION ALL ")).await).await?;
        if found.len() != chunk.len() {
            return Err(LockError::Answer { table: table.to_owned() });
        }
        rows.extend(found);
    }
    Ok(rows)
}

/// The names of a table's three locks, each of at most 64 characters. The first one is the same in every version of Rowstamp.
fn names(table: &str, store: &str) -> [String; 3] {
    [lock_name(table), digest(&[table, store, "shared"]), digest(&[table, store, "settled"])]
}

fn lock_name(table: &str) -> String {
    digest(&[table])
}

fn digest(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\0"));
    let half = digest.iter().take(16).fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
    format!("rowstamp.{half:032x}")
}

#[cfg(test)]
mod tests {
    use super::{Holder, holder};

    #[test]
    fn who_holds_a_lock() {
        for (lock, badge, settled, expected) in [
            (None, None, None, Holder::Nobody),
            (Some(7), Some(7), None, Holder::Own { own: 7, settled: false }),
            (Some(7), Some(7), Some(7), Holder::Own { own: 7, settled: true }),
            (Some(8), Some(8), None, Holder::Peer { connection: 8, settled: false }),
            (Some(8), Some(8), Some(8), Holder::Peer { connection: 8, settled: true }),
            // Somebody else has taken a name of ours.
            (Some(8), Some(8), Some(9), Holder::Peer { connection: 8, settled: false }),
            (Some(8), None, None, Holder::Foreign { connection: 8 }),
            (Some(8), Some(9), Some(8), Holder::Foreign { connection: 8 }),
            (Some(8), Some(7), Some(7), Holder::Foreign { connection: 8 }),
        ] {
            assert_eq!(holder(lock, badge, settled, 7), expected, "{lock:?} {badge:?} {settled:?}");
        }
    }
}
