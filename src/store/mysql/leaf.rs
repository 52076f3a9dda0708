//! Meituan Leaf's `leaf_alloc`: `biz_tag`, `max_id` and `step` of a segment. Ids below `max_id` may have been issued, none
//! at or above it has (SegmentIDGenServiceImpl: a segment's ids end before `max_id`): that is a bound.
//!
//! Rowstamp and Leaf may work on one tag at once: each raise is an UPDATE that names the `max_id` it found. There is no
//! column for a token, so a raise whose answer was lost is always given up. A revision is `max_id` itself; it would stand
//! twice if ids were handed back, which is therefore refused.

use serde_json::Map;

use super::Connection;
use crate::store::record::{decode, encode};
use crate::store::{FORMAT, GeneratorRecord, Json, Key, Result, Revision, StoreError, Versioned};
use crate::text_query::with_values;

use mysql_async::prelude::Queryable;

/// The number of ids that Leaf reserves at a time from a tag that Rowstamp has made; Leaf adapts it by itself.
const STEP: u32 = 1000;

/// The tag of `schema.generator`: what follows the dot.
pub(super) fn tag(generator: &str) -> &str {
    generator.split_once('.').map_or(generator, |(_, name)| name)
}

pub(super) struct Leaf {
    /// Quoted.
    table: String,
}

impl Leaf {
    pub(super) fn new(table: String) -> Self {
        Leaf { table }
    }

    pub(super) async fn check(&self, connection: &Connection) -> Result<()> {
        let sql = format!("SELECT biz_tag, max_id, step FROM {} LIMIT 0", self.table);
        connection.read(async |conn| conn.query_drop(sql).await).await
    }

    pub(super) async fn load(&self, connection: &Connection, tag: &str) -> Result<Option<Versioned<Json>>> {
        let sql = format!("SELECT max_id FROM {} WHERE biz_tag = ?", self.table);
        let found: Option<u64> =
            connection.read(async |conn| conn.query_first(with_values(&sql, (tag,))).await).await?;
        Ok(found.map(record))
    }

    pub(super) async fn list(
        &self,
        connection: &Connection,
        prefix: &str,
    ) -> Result<Vec<(Key, Versioned<Json>)>> {
        let sql = format!("SELECT biz_tag, max_id FROM {} ORDER BY biz_tag", self.table);
        let rows: Vec<(String, u64)> = connection.read(async |conn| conn.query(sql).await).await?;
        let keys = rows.into_iter().map(|(tag, max_id)| (Key::generator(&tag), record(max_id)));
        Ok(keys.filter(|(key, _)| key.as_str().starts_with(prefix)).collect())
    }

    /// The new revision; `None` where the expected one does not stand.
    pub(super) async fn set(
        &self,
        connection: &Connection,
        key: &Key,
        tag: &str,
        expected: Option<Revision>,
        value: &[u8],
    ) -> Result<Option<Revision>> {
        let wanted: GeneratorRecord = decode(key, value)?;
        if wanted.kind != KIND {
            return Err(StoreError::WrongKind {
                key: key.clone(),
                found: KIND.to_owned(),
                expected: wanted.kind,
            });
        }
        let bound = wanted.bound;
        if expected.is_some_and(|Revision(max_id)| bound <= max_id) {
            return Err(connection.away("unused ids cannot be returned to leaf_alloc".to_owned()));
        }
        let rows = if let Some(Revision(max_id)) = expected {
            let sql = format!("UPDATE {} SET max_id = ? WHERE biz_tag = ? AND max_id = ?", self.table);
            connection.write(key, &sql, (bound, tag, max_id).into()).await?.filter(|&rows| rows == 1)
        } else {
            let sql = format!("INSERT INTO {} (biz_tag, max_id, step) VALUES (?, ?, ?)", self.table);
            connection.write(key, &sql, (tag, bound, STEP).into()).await?
        };
        Ok(rows.map(|_| Revision(bound)))
    }
}

const KIND: &str = "sequence";

fn record(max_id: u64) -> Versioned<Json> {
    let record = GeneratorRecord {
        v: FORMAT,
        kind: KIND.to_owned(),
        bound: max_id,
        owner: String::new(),
        token: String::new(),
        layout: None,
        moves: 0,
        unknown: Map::new(),
    };
    Versioned { revision: Revision(max_id), value: encode(&record) }
}
