//! The proxies, nodes and generators of the store, as operators see them.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use crate::admin::{DeskError, Kind, ProxyRow, SlotRow, StoredRow};
use crate::ids::layout::Layout;
use crate::store::record::decode;
use crate::store::{GeneratorRecord, Key, ProxyRecord, Store};

pub(super) async fn proxies(store: &dyn Store, own: &str) -> Result<Vec<ProxyRow>, DeskError> {
    let found: Vec<(String, ProxyRecord)> = records(store, Key::PROXIES).await?;
    let row = |(name, record): (String, ProxyRecord)| ProxyRow {
        is_self: name == own,
        address: record.address,
        version: record.version,
        since: record.since,
        name,
    };
    Ok(found.into_iter().map(row).collect())
}

pub(super) async fn slots(store: &dyn Store) -> Result<Vec<SlotRow>, DeskError> {
    let living: BTreeSet<_> =
        records::<ProxyRecord>(store, Key::PROXIES).await?.into_iter().map(|(name, _)| name).collect();
    let found: Vec<(String, GeneratorRecord)> = records(store, Key::SLOTS).await?;
    let row = |(slot, record): (String, GeneratorRecord)| {
        let (generator, node) = slot.split_once('/')?;
        let layout = record.layout.as_deref().and_then(|layout| layout.parse::<Layout>().ok());
        let reserved = layout.map_or_else(String::new, |layout| layout.time_of(record.bound).to_string());
        Some(SlotRow {
            generator: generator.to_owned(),
            node: node.parse().ok()?,
            is_live: living.contains(&record.owner),
            owner: record.owner,
            reserved,
        })
    };
    let mut rows: Vec<_> = found.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| (&a.generator, a.node).cmp(&(&b.generator, b.node)));
    Ok(rows)
}

pub(super) async fn generators(store: &dyn Store) -> Result<Vec<StoredRow>, DeskError> {
    let found: Vec<(String, GeneratorRecord)> = records(store, Key::GENERATORS).await?;
    let row = |(generator, record): (String, GeneratorRecord)| {
        let is_timestamp = record.kind == "timestamp";
        let kind = if is_timestamp { Kind::Timestamp } else { Kind::Sequence };
        StoredRow { generator, kind, bound: (!is_timestamp).then_some(record.bound) }
    };
    Ok(found.into_iter().map(row).collect())
}

/// Each with its name: what follows `prefix` in its key.
async fn records<T: DeserializeOwned>(
    store: &dyn Store,
    prefix: &str,
) -> Result<Vec<(String, T)>, DeskError> {
    let found = store.list(prefix).await.map_err(|error| DeskError::Failed(error.to_string()))?;
    let mut records = Vec::with_capacity(found.len());
    for (key, value) in found {
        let record = decode(&key, &value.value).map_err(|error| DeskError::Failed(error.to_string()))?;
        records.push((key.as_str().strip_prefix(prefix).unwrap_or_default().to_owned(), record));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::{generators, proxies, slots};
    use crate::store::Key;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn who_lives_and_which_nodes_are_whose() {
        let store = MemoryStore::new();
        let proxy = br#"{"v":1,"address":"127.0.0.1:3307","version":"0.1.0","since":"2026-11-22T10:00:00.000Z","run":"r"}"#;
        store.poke(&Key::proxy("a"), proxy);
        let slot =
            |owner: &str| format!(r#"{{"v":1,"kind":"timestamp","bound":7,"owner":"{owner}","token":"t"}}"#);
        store.poke(&Key::slot("s.g", 10), slot("a").as_bytes());
        store.poke(&Key::slot("s.g", 9), slot("gone").as_bytes());
        let found = proxies(&store, "a").await.unwrap();
        assert_eq!(
            found.iter().map(|row| (row.name.as_str(), row.is_self)).collect::<Vec<_>>(),
            [("a", true)]
        );
        let found = slots(&store).await.unwrap();
        let told: Vec<_> = found.iter().map(|row| (row.node, row.owner.as_str(), row.is_live)).collect();
        assert_eq!(told, [(9, "gone", false), (10, "a", true)]);
        let record = |kind: &str| format!(r#"{{"v":1,"kind":"{kind}","bound":7,"owner":"a","token":"t"}}"#);
        store.poke(&Key::generator("s.g"), record("timestamp").as_bytes());
        store.poke(&Key::generator("s.h"), record("sequence").as_bytes());
        let found = generators(&store).await.unwrap();
        let told: Vec<_> = found.iter().map(|row| (row.generator.as_str(), row.bound)).collect();
        assert_eq!(told, [("s.g", None), ("s.h", Some(7))]);
        store.poke(&Key::proxy("b"), b"{");
        assert!(proxies(&store, "a").await.unwrap_err().to_string().contains("proxies/b"));
    }
}
