//! The records as JSON. Fields that this version does not know are kept, so that two versions work on one store.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FORMAT, Json, Key, Outcome, Result, Store, StoreError};

/// `generators/SCHEMA.NAME`, and `slots/SCHEMA.NAME/NODE` of a timestamp generator's nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorRecord {
    pub v: u64,
    pub kind: String,
    /// Every id below may have been issued, none at or above has. For a timestamp generator's node: every tick.
    pub bound: u64,
    /// The proxy that wrote last: for people only, except in the record of a node, which this proxy owns.
    pub owner: String,
    /// New with each write: a proxy that does not know whether its write was done finds it here or not.
    pub token: String,
    /// For a timestamp generator: all that its ids depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The number of times that a table was moved away from it: a proxy that opened it before that reserves no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moves: u64,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `bindings/SCHEMA.TABLE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BindingRecord {
    pub v: u64,
    /// `schema.generator`
    pub generator: String,
    /// The generator's ids for this table are above it.
    pub floor: u64,
    /// The generator that issued for the table before, until the floor is known to be above all that it issued. A proxy that finds it here
    /// looks at that generator again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `proxies/ID`, on a lease: who serves under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProxyRecord {
    pub v: u64,
    pub address: String,
    /// The version of Rowstamp that the proxy runs.
    pub version: String,
    /// When it started.
    pub since: String,
    /// Which process, unlike all others.
    pub run: String,
    /// `host:port` of its HTTP API, where it has one that other machines can reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `witness/ID`: written with each write of a proxy's, so that its revision shows whether the store still has them all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WitnessRecord {
    pub v: u64,
    /// The process that wrote it.
    pub run: String,
    /// Which of its writes, from 1; 0: none.
    pub count: u64,
    /// Grows each time that an operator has raised all floors: in every witness, before `suspect` is removed.
    pub raised: u64,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `identity`: made once. Proxies on the same store know each other by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdentityRecord {
    pub v: u64,
    pub id: String,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `moved`: an operator has moved the bounds to another store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedRecord {
    pub v: u64,
    /// For people, and to know it by when the same move is made again. Empty: they came back.
    pub to: String,
    pub since: String,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `suspect`: while it stands, nothing is issued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuspectRecord {
    pub v: u64,
    /// The proxy that noticed.
    pub by: String,
    pub since: String,
    pub reason: String,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// Reads a record. A version is read before the rest, since a newer one may have other fields.
pub fn decode<T: DeserializeOwned>(key: &Key, json: &[u8]) -> Result<T> {
    let damaged =
        |e: serde_json::Error| StoreError::Corrupt { place: key.to_string(), reason: e.to_string() };
    let Version { v } = serde_json::from_slice(json).map_err(damaged)?;
    check_version(key, v)?;
    serde_json::from_slice(json).map_err(damaged)
}

/// # Panics
/// Never: strings, numbers and maps with string keys always serialize.
pub fn encode<T: Serialize>(record: &T) -> Json {
    serde_json::to_vec(record).expect("strings, numbers and maps with string keys serialize")
}

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 64;

/// Reads a record and writes what `change` makes of it, again where somebody else wrote it in between. `change` gets `None` where
/// there is no record. Returns the record as it was written; `None` where `change` wanted nothing of it, as it does, too, where
/// an attempt whose outcome was not known had written it after all.
pub async fn change<T: DeserializeOwned + Serialize>(
    store: &dyn Store,
    key: &Key,
    change: impl Fn(Option<T>) -> Option<T>,
) -> Result<Option<T>> {
    for _ in 0..ATTEMPTS_MAX {
        let found = store.load(key).await?;
        let revision = found.as_ref().map(|found| found.revision);
        let record = found.map(|found| decode(key, &found.value)).transpose()?;
        let Some(next) = change(record) else { return Ok(None) };
        match store.compare_and_set(key, revision, &encode(&next)).await {
            Ok(Outcome::Written(_)) => return Ok(Some(next)),
            Ok(Outcome::Conflict(_)) | Err(StoreError::UnknownOutcome { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended { record: key.to_string(), attempts: ATTEMPTS_MAX })
}

/// The name of the store, made now if nobody has asked for it before.
pub async fn identity(store: &dyn Store) -> Result<String> {
    identity_or(store, &fresh_token()).await
}

/// Like [`identity`], but a store that has no name, or has lost it, gets `name`.
pub async fn identity_or(store: &dyn Store, name: &str) -> Result<String> {
    let key = Key::identity();
    loop {
        if let Some(found) = store.load(&key).await? {
            return decode::<IdentityRecord>(&key, &found.value).map(|record| record.id);
        }
        let record = IdentityRecord { v: FORMAT, id: name.to_owned(), unknown: Map::new() };
        match store.compare_and_set(&key, None, &encode(&record)).await {
            // Also where another proxy was first, or nobody knows: what is read next counts.
            Ok(_) | Err(StoreError::UnknownOutcome { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives the store another name: proxies that knew it by the one before are another store's from here on, and get no table's
/// lock beside one that knows the new name (`tables/locks`).
pub async fn rename(store: &dyn Store) -> Result<()> {
    let (key, name) = (Key::identity(), fresh_token());
    let renamed = change(store, &key, |record: Option<IdentityRecord>| {
        let record =
            record.unwrap_or_else(|| IdentityRecord { v: FORMAT, id: String::new(), unknown: Map::new() });
        (record.id != name).then(|| IdentityRecord { id: name.clone(), ..record })
    });
    renamed.await.map(drop)
}

/// An error where the bounds were moved elsewhere.
pub async fn has_not_moved(store: &dyn Store) -> Result<()> {
    match moved(store).await? {
        Some(MovedRecord { to, since, .. }) => Err(StoreError::Moved { to, since }),
        None => Ok(()),
    }
}

/// The move of the bounds to another store. `None`: they live here, as after a move back.
pub async fn moved(store: &dyn Store) -> Result<Option<MovedRecord>> {
    let key = Key::moved();
    let found = store.load(&key).await?.map(|found| decode::<MovedRecord>(&key, &found.value)).transpose()?;
    Ok(found.filter(|moved| !moved.to.is_empty()))
}

/// Says that the bounds live in `to` from here on; empty: here.
pub async fn move_to(store: &dyn Store, to: &str) -> Result<()> {
    let key = Key::moved();
    let moved = change(store, &key, |record: Option<MovedRecord>| {
        let nowhere =
            || MovedRecord { v: FORMAT, to: String::new(), since: String::new(), unknown: Map::new() };
        let record = record.unwrap_or_else(nowhere);
        let since = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        (record.to != to).then(|| MovedRecord { to: to.to_owned(), since, ..record })
    });
    moved.await.map(drop)
}

/// The `token` of one write of a generator's record. No other write has the same 128 random bits.
pub fn fresh_token() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// The record `format`: a bare number.
pub fn encode_format() -> Json {
    FORMAT.to_string().into_bytes()
}

pub fn check_format(json: &[u8]) -> Result<()> {
    let key = Key::format();
    let found = serde_json::from_slice(json)
        .map_err(|e| StoreError::Corrupt { place: key.to_string(), reason: e.to_string() })?;
    check_version(&key, found)
}

fn check_version(key: &Key, found: u64) -> Result<()> {
    if found > FORMAT {
        return Err(StoreError::NewerFormat { place: key.to_string(), found, known: FORMAT });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{GeneratorRecord, check_format, decode, encode, encode_format};
    use crate::store::{Key, StoreError};

    fn read(json: &str) -> Result<GeneratorRecord, StoreError> {
        decode(&Key::generator("shop.orders"), json.as_bytes())
    }

    #[test]
    fn what_a_newer_version_added_survives_a_rewrite() {
        let mut record =
            read(r#"{"v":1,"kind":"sequence","bound":7,"owner":"a","token":"t","later":[1,2],"x":null}"#)
                .unwrap();
        record.bound = 9_223_372_036_854_775_808;
        let text = String::from_utf8(encode(&record)).unwrap();
        assert_eq!(
            text,
            r#"{"v":1,"kind":"sequence","bound":9223372036854775808,"owner":"a","token":"t","later":[1,2],"x":null}"#
        );
    }

    #[test]
    fn damaged_and_newer_records_are_told_apart() {
        let kind = |json: &str| match read(json) {
            Err(StoreError::Corrupt { place, .. }) => format!("damaged {place}"),
            Err(StoreError::NewerFormat { place, found, known }) => format!("{place} {found} > {known}"),
            other => format!("{other:?}"),
        };
        assert_eq!(kind(r#"{"v":2,"bounds":[]}"#), "generators/shop.orders 2 > 1");
        for text in ["", "{", "[]", "{}", r#"{"v":1}"#, r#"{"v":1,"kind":"sequence","bound":-1}"#, "\u{0}"] {
            assert_eq!(kind(text), "damaged generators/shop.orders", "{text:?}");
        }
        assert_eq!(check_format(&encode_format()), Ok(()));
        assert!(matches!(check_format(b"2"), Err(StoreError::NewerFormat { found: 2, .. })));
        assert!(matches!(check_format(b"one"), Err(StoreError::Corrupt { .. })));
    }
}
