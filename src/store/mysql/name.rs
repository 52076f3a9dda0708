//! A proxy's name: a lock of the server's that a connection of ours holds (GET_LOCK), so that two live proxies of one name
//! are distinguished, and a record beside it for people and for the others. It decides nothing about ids.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Map;
use tokio::time::{sleep, timeout};

use super::{CALL_DEADLINE, Inner, Result};
use crate::log_span;
use crate::store::record::{decode, encode};
use crate::store::{FORMAT, Key, ProxyRecord, StoreError};
use crate::text_query::with_values;

/// The time that a start waits for a name whose holder may just be ending.
const NAME_SECONDS: u64 = 3;
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A proxy that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub name: String,
    /// The address at which it listens.
    pub address: String,
    /// The address at which other machines reach its HTTP API.
    pub api: Option<String>,
}

impl Inner {
    /// The condition that a proxy of this record's name lives, for a WHERE over records.
    pub(super) fn is_live(&self) -> String {
        format!("IS_USED_LOCK({}) IS NOT NULL", self.lock_of("name"))
    }

    /// The lock of a proxy's record, whose key is this expression: a name of at most 64 characters. MySQL 9.6 and later have no SHA1().
    fn lock_of(&self, key: &str) -> String {
        let place = self.own.replace('\\', "\\\\").replace('\'', "''");
        format!("CONCAT('rowstamp ', LEFT(SHA2(CONCAT('{place}/', {key}), 256), 40))")
    }

    pub(super) async fn take_name(self: &Arc<Self>, proxy: &Proxy) -> Result<Holder> {
        let key = Key::proxy(&proxy.name);
        let Some(conn) = self.lock_name(&key, NAME_SECONDS).await? else {
            return Err(self.taken(&key, proxy).await);
        };
        let record = ProxyRecord {
            v: FORMAT,
            address: proxy.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            run: format!("{:032x}", rand::random::<u128>()),
            api: proxy.api.clone(),
            unknown: Map::new(),
        };
        let stands = self.load_own(&key).await?.map(|found| found.revision);
        // The lock is ours, so nobody else writes it.
        self.set_own(&key, stands, &encode(&record)).await?;
        let keeper = log_span::spawn(keep(Arc::downgrade(self), key, record, conn));
        Ok(Holder { keeper: keeper.abort_handle() })
    }

    /// A connection that holds the name, and the server that it is to; `None`: another does.
    async fn lock_name(&self, key: &Key, seconds: u64) -> Result<Option<(usize, Conn)>> {
        let taken = timeout(CALL_DEADLINE + Duration::from_secs(seconds), async {
            let (at, mut conn) = self.connection.another().await?;
            let sql = format!("SELECT GET_LOCK({}, ?)", self.lock_of("?"));
            let got: Result<Option<Option<u8>>, _> =
                conn.query_first(with_values(&sql, (key.as_str().as_bytes(), seconds))).await;
            let got = got.map_err(|error| self.connection.away(error.to_string()))?;
            Ok((got.flatten() == Some(1)).then_some((at, conn)))
        });
        taken.await.unwrap_or_else(|_| Err(self.connection.away("no answer to GET_LOCK".to_owned())))
    }

    async fn taken(&self, key: &Key, proxy: &Proxy) -> StoreError {
        let found = self.load_own(key).await.ok().flatten();
        let record: Option<ProxyRecord> = found.and_then(|found| decode(key, &found.value).ok());
        let (address, since) = record.map_or_else(
            || ("an unknown address".to_owned(), "an unknown time".to_owned()),
            |record| (record.address, record.since),
        );
        StoreError::NameTaken { name: proxy.name.clone(), address, since }
    }
}

/// Holds the name as long as it lives.
pub(super) struct Holder {
    keeper: tokio::task::AbortHandle,
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The task owns the connection, and the server frees the lock with it.
        self.keeper.abort();
    }
}

/// A connection that broke has lost the lock, and on another server it says nothing: it is taken again. A server that was
/// promoted may lack the record.
async fn keep(store: Weak<Inner>, key: Key, record: ProxyRecord, held: (usize, Conn)) {
    let mut held = Some(held);
    loop {
        sleep(LOOK_INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        // This look also finds out which server is the primary now.
        let stands = store.load_own(&key).await;
        if let Some((at, conn)) = &mut held
            && *at == store.connection.at()
            && let Ok(Ok(())) = timeout(CALL_DEADLINE, conn.query_drop("DO 1")).await
        {
            continue;
        }
        held = None;
        match store.lock_name(&key, 0).await {
            Ok(Some(conn)) => {
                held = Some(conn);
                if let Ok(None) = stands
                    && let Err(error) = store.set_own(&key, None, &encode(&record)).await
                {
                    tracing::debug!(%key, %error, "could not write the proxy's record again");
                }
            }
            Ok(None) => {
                tracing::error!(%key, "another Rowstamp process has taken this proxy's name; give each proxy its own proxy.name");
            }
            Err(error) => tracing::debug!(%key, %error, "could not take the proxy's name again"),
        }
    }
}
