//! The looks at the locks, which renew the lease.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::tables::locks::server::{self, Holder};
use crate::tables::locks::{
    CHECK_INTERVAL, GRACE, Held, Inner, LEASE, Lease, LockError, RETRY_INTERVAL, Sharing, boottime,
};

impl Inner {
    /// One look at all locks, which renews the lease.
    async fn look(&self) {
        let mut held = self.held.lock().await;
        if held.tables.is_empty() || held.lapsed {
            return;
        }
        let begun = boottime();
        match self.see(&mut held).await {
            Ok(found) => {
                if self.away.swap(None).is_some() {
                    self.note_refusals();
                    tracing::info!("Rowstamp holds its locks on the tables again");
                }
                self.take_note(&mut held, found, begun).await;
            }
            Err(error) => {
                let reason = "Rowstamp cannot check its locks on the tables";
                if boottime() >= self.lease.load().until
                    && self.away.swap(Some(Arc::new(format!("{reason}; the proxy's log has more")))).is_none()
                {
                    self.note_refusals();
                    tracing::error!(
                        "{reason}: {error}; Rowstamp refuses statements into tables with a rule until it holds the locks again"
                    );
                }
            }
        }
    }

    /// The holder of each table's lock, in the order of the tables.
    async fn see(&self, held: &mut Held) -> Result<Vec<Holder>, LockError> {
        let tables: Vec<(String, Holder)> =
            held.tables.iter().map(|(table, holder)| (table.clone(), *holder)).collect();
        let stays = self.stays(held, &tables).await;
        let asked = tables.iter().zip(&stays).filter(|(_, stays)| !**stays);
        let asked: Vec<&str> = asked.map(|((table, _), _)| table.as_str()).collect();
        let found = self.ask_twice(held, &asked).await?;
        if held.is_new && asked.len() < tables.len() {
            // The locks that stayed were on connections that are gone meanwhile.
            let all: Vec<&str> = tables.iter().map(|(table, _)| table.as_str()).collect();
            return self.ask(held, &all).await;
        }
        let mut found = found.into_iter();
        let now = tables.iter().zip(stays).map(
            |((_, holder), stays)| {
                if stays { Some(*holder) } else { found.next() }
            },
        );
        Ok(now.map(|holder| holder.unwrap_or(Holder::Nobody)).collect())
    }

    /// For each table, true if its lock is held as it was. A connection of ours holds its locks while it
    /// lives. A peer that still has a table's lock still shares it: the peer gives up the badge, which
    /// shows that, in the same statement.
    async fn stays(&self, held: &mut Held, tables: &[(String, Holder)]) -> Vec<bool> {
        let is_same = held.server == self.schema.primary().get() && !held.is_new && held.lines.is_open();
        if !is_same || !held.lines.live().await {
            return vec![false; tables.len()];
        }
        let peers = tables.iter().filter(|(_, holder)| matches!(holder, Holder::Peer { .. }));
        let peers: Vec<&str> = peers.map(|(table, _)| table.as_str()).collect();
        // If the server does not answer this, the later question about all these tables returns the error.
        let mut used = held.lines.used(&peers).await.unwrap_or_default().into_iter();
        let stays = tables.iter().map(|(_, holder)| match holder {
            Holder::Own { .. } => true,
            Holder::Peer { connection, .. } => used.next().flatten() == Some(*connection),
            Holder::Nobody | Holder::Foreign { .. } => false,
        });
        stays.collect()
    }

    /// Asks again after a moment if a lock is not ours: a proxy needs a moment to take a table's three locks.
    async fn ask_twice(&self, held: &mut Held, tables: &[&str]) -> Result<Vec<Holder>, LockError> {
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.ask(held, tables).await?;
        if found.iter().all(|holder| holder.is_ours()) {
            return Ok(found);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
        self.ask(held, tables).await
    }

    async fn take_note(&self, held: &mut Held, found: Vec<Holder>, begun: Duration) {
        // By the time of the answer: the look itself may have taken so long that another store had
        // the locks meanwhile.
        let was_seen = {
            let lease = self.lease.load();
            lease.server == held.server && boottime() < lease.until
        };
        let has_stayed = !std::mem::take(&mut held.is_new);
        // Connections of one server have other numbers each, until it starts again: then this one's
        // has ended too.
        let is_same = |old: Holder, new: Holder| has_stayed && old.connection() == new.connection();
        let lapsed: Vec<Holder> = held
            .tables
            .values()
            .zip(&found)
            .filter(|(old, new)| new.is_ours() && !(old.is_ours() && (was_seen || is_same(**old, **new))))
            .map(|(old, _)| *old)
            .collect();
        let has_lapsed = !lapsed.is_empty();
        // One process at a time has the file open: a peer is the one before, whose locks end with it
        // after a takeover.
        let was_handed = has_stayed
            && matches!(self.sharing, Sharing::File(_))
            && lapsed.iter().all(|old| matches!(old, Holder::Peer { .. }));
        for (holder, new) in held.tables.values_mut().zip(found) {
            *holder = new;
        }
        if has_lapsed {
            // Before a table that was lost counts as held.
            self.lease.store(Arc::default());
        }
        self.tell_lost(held).await;
        if has_lapsed {
            if was_handed {
                tracing::info!(
                    "the process before this one has given up its locks on the tables: Rowstamp issues ids after it has read their \
                     highest ids"
                );
            } else {
                tracing::warn!(
                    "Rowstamp did not see its locks on the tables for a while: it issues ids again after it has read their highest ids"
                );
            }
            held.lapsed = true;
            held.from = Some(Instant::now() + GRACE);
            self.lapses.send_modify(|lapses| *lapses += 1);
            return;
        }
        self.lease.store(Arc::new(Lease { server: held.server, until: begun + LEASE }));
        self.looked.send_replace(());
        self.settle(held).await;
    }

    /// Tables that another store's proxy has got the lock of.
    async fn tell_lost(&self, held: &mut Held) {
        let before = self.lost.load_full();
        let mut lost = BTreeMap::new();
        let tables = held.tables.iter().filter(|(_, holder)| !holder.is_ours());
        let tables: Vec<_> = tables.map(|(table, holder)| (table.clone(), *holder)).collect();
        for (table, holder) in tables {
            let why = if let Some(why) = before.get(&table) {
                why.clone()
            } else {
                let error = self.held_by(held, &table, holder.connection().unwrap_or_default()).await;
                tracing::error!("{error}; Rowstamp refuses statements into the table until it has the lock");
                format!(
                    "table {table} is held by another Rowstamp, which has another store; the proxy's log has more"
                )
            };
            lost.insert(table, why);
        }
        for table in before.keys().filter(|table| !lost.contains_key(*table)) {
            tracing::info!(table, "Rowstamp holds the table's lock again");
        }
        if lost.len() != before.len() || lost.keys().ne(before.keys()) {
            self.lost.store(Arc::new(lost));
            self.note_refusals();
        }
    }

    /// A statement that sees a renewed lease must see the flag, so it is set before. Only a look calls this: it has `held` locked.
    fn note_refusals(&self) {
        let refuses = self.away.load().is_some() || !self.lost.load().is_empty();
        self.refuses.store(refuses, Ordering::Release);
    }

    /// Shows the store's other proxies which tables need no grace time any more. Takes no more tables at a time than
    /// leave the next look its time.
    async fn settle(&self, held: &mut Held) {
        if held.from.is_some_and(|from| Instant::now() < from) || !held.lines.is_open() {
            return;
        }
        let Held { store: Some(store), lines, tables, .. } = held else { return };
        let is_due = |holder: &Holder| matches!(holder, Holder::Own { settled: false, .. });
        let due = tables.iter_mut().filter(|(_, holder)| is_due(holder)).take(server::TABLES_PER_QUERY);
        let (names, holders): (Vec<&str>, Vec<&mut Holder>) =
            due.map(|(table, holder)| (table.as_str(), holder)).unzip();
        if names.is_empty() {
            return;
        }
        match lines.settle(&names, store).await {
            Ok(()) => {
                for holder in holders {
                    if let Holder::Own { settled, .. } = holder {
                        *settled = true;
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%error, "Rowstamp could not tell other proxies that its locks need no more grace time");
            }
        }
    }
}

/// Ends with the proxy: it holds the locks only weakly.
pub(super) async fn look_on(inner: Weak<Inner>, wanted: Arc<Notify>) {
    loop {
        let _ = tokio::time::timeout(CHECK_INTERVAL, wanted.notified()).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.look().await;
    }
}
