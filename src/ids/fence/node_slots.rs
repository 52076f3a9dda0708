//! The records of a timestamp generator's nodes.

use std::collections::BTreeMap;

use crate::store::record::decode;
use crate::store::{GeneratorRecord, Key, Store, StoreError, Versioned};

/// The record of each node of a generator, with what the node has reserved.
pub(in crate::ids) async fn slots(
    store: &dyn Store,
    name: &str,
) -> Result<BTreeMap<u64, Versioned<GeneratorRecord>>, StoreError> {
    let prefix = Key::slots(name);
    let mut slots = BTreeMap::new();
    for (key, found) in store.list(&prefix).await? {
        let node = key.as_str().strip_prefix(&prefix).and_then(|node| node.parse().ok());
        let Some(node) = node else { continue };
        slots.insert(node, Versioned { revision: found.revision, value: decode(&key, &found.value)? });
    }
    Ok(slots)
}
