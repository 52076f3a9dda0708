//! The nodes as which proxies of the fleet make a timestamp generator's ids: `slots/SCHEMA.NAME/NODE` names a node's
//! owner, and counts for as long as that proxy lives (`proxies/ID`).
//!
//! Uniqueness does not hang on it: two proxies of one node would reserve ticks of one bound in turns, and so never the same.
//! But each would have to reserve after the other's ticks, and ids would run ahead of the clock without end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Map;

use super::fence::{Fence, KIND_TIMESTAMP, Subject};
use crate::ids::fence::slots;
use crate::ids::layout::Layout;
use crate::store::record::{change, decode, encode, fresh_token};
use crate::store::{FORMAT, GeneratorRecord, Key, Outcome, ProxyRecord, Store, StoreError, Versioned};

/// The number of a proxy in the node field of its ids, as a rule asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// The lowest that is free.
    Auto,
    /// Checked to fit the layout.
    Fixed(u64),
}

/// Each attempt lost a race.
const ATTEMPTS_MAX: u32 = 64;

/// Takes a node of the generator `schema.name` for `owner`: the one that the rule names, or its own from before, or the lowest
/// that no living proxy has.
pub(super) async fn claim(
    store: &dyn Store,
    name: &str,
    owner: &str,
    layout: &Layout,
    node: Node,
) -> Result<u64, StoreError> {
    for _ in 0..ATTEMPTS_MAX {
        let slots = slots(store, name).await?;
        let living = living(store).await?;
        let taken_by = |node: u64| {
            slots.get(&node).map(|slot| &slot.value.owner).filter(|by| *by != owner && living.contains(*by))
        };
        let node = match node {
            Node::Fixed(node) => match taken_by(node) {
                None => node,
                Some(by) => {
                    return Err(StoreError::NodeTaken { generator: name.to_owned(), node, by: by.clone() });
                }
            },
            Node::Auto => {
                let own = slots.iter().filter(|(_, slot)| slot.value.owner == owner).map(|(node, _)| *node);
                let all = (0..).take_while(|node| layout.check_node(*node).is_ok());
                let free =
                    own.chain(all).find(|node| layout.check_node(*node).is_ok() && taken_by(*node).is_none());
                free.ok_or_else(|| StoreError::NoNode { generator: name.to_owned(), living: living.len() })?
            }
        };
        if put(store, name, owner, layout, node, slots.get(&node)).await? {
            return Ok(node);
        }
    }
    Err(StoreError::Contended { record: Key::slots(name), attempts: ATTEMPTS_MAX })
}

/// Writes the owner into the node's slot. True if the node is ours now. `false`: another did, or this is not known.
async fn put(
    store: &dyn Store,
    name: &str,
    owner: &str,
    layout: &Layout,
    node: u64,
    stands: Option<&Versioned<GeneratorRecord>>,
) -> Result<bool, StoreError> {
    let record = match stands {
        Some(slot) if slot.value.owner == owner => return Ok(true),
        Some(slot) => GeneratorRecord { owner: owner.to_owned(), token: fresh_token(), ..slot.value.clone() },
        None => GeneratorRecord {
            v: FORMAT,
            kind: KIND_TIMESTAMP.to_owned(),
            // Tick 0 holds the id 0, which asks the server for an id.
            bound: 1,
            owner: owner.to_owned(),
            token: fresh_token(),
            layout: Some(layout.to_string()),
            moves: 0,
            unknown: Map::new(),
        },
    };
    let expected = stands.map(|slot| slot.revision);
    match store.compare_and_set(&Key::slot(name, node), expected, &encode(&record)).await {
        Ok(Outcome::Written(_)) => Ok(true),
        Ok(Outcome::Conflict(_)) | Err(StoreError::UnknownOutcome { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// No node issues ids of ticks below this one any more, nor does one that is yet to come. Returns which were below it, each with
/// where it stood; `None` for the generator itself, of which the nodes to come begin.
pub async fn raise_ticks(
    store: &Arc<dyn Store>,
    name: &str,
    owner: &str,
    layout: &Layout,
    tick: u64,
) -> Result<Vec<(Option<u64>, u64)>, StoreError> {
    let mut raised = Vec::new();
    let from = bound_at(&**store, &Key::generator(name)).await?;
    let subject = Subject::timestamp(name, layout.to_string());
    Fence::open_for(Arc::clone(store), subject, owner, tick).await?;
    if from < tick {
        raised.push((None, from));
    }
    for (node, slot) in slots(&**store, name).await? {
        if raise_slot(&**store, &Key::slot(name, node), tick).await? {
            raised.push((Some(node), slot.value.bound));
        }
    }
    Ok(raised)
}

async fn bound_at(store: &dyn Store, key: &Key) -> Result<u64, StoreError> {
    let found = store.load(key).await?;
    found.map_or(Ok(0), |found| Ok(decode::<GeneratorRecord>(key, &found.value)?.bound))
}

/// Raises a node's bound to a tick; the owner stays. `false`: the bound was not below the tick.
async fn raise_slot(store: &dyn Store, key: &Key, tick: u64) -> Result<bool, StoreError> {
    let raised = |slot: Option<GeneratorRecord>| {
        let slot = slot.filter(|slot| slot.bound < tick)?;
        Some(GeneratorRecord { bound: tick, token: fresh_token(), ..slot })
    };
    Ok(change(store, key, raised).await?.is_some())
}

/// A proxy that makes a generator's ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub proxy: String,
    /// `host:port` of its HTTP API, where it has one that other machines can reach.
    pub api: Option<String>,
}

/// The living proxies that hold a generator's nodes, by node.
pub async fn holders(store: &dyn Store, name: &str) -> Result<BTreeMap<u64, Holder>, StoreError> {
    let slots = slots(store, name).await?;
    let mut proxies = BTreeMap::new();
    for (key, found) in store.list(Key::PROXIES).await? {
        if let Some(proxy) = key.as_str().strip_prefix(Key::PROXIES) {
            // A record that cannot be read says no less about who lives.
            let record = decode::<ProxyRecord>(&key, &found.value).ok();
            proxies.insert(proxy.to_owned(), record.and_then(|record| record.api));
        }
    }
    let holder = |(node, slot): (u64, Versioned<GeneratorRecord>)| {
        let proxy = slot.value.owner;
        let api = proxies.get(&proxy)?.clone();
        Some((node, Holder { proxy, api }))
    };
    Ok(slots.into_iter().filter_map(holder).collect())
}

/// The proxies that live, by name. A store for one proxy knows none.
pub(super) async fn living(store: &dyn Store) -> Result<BTreeSet<String>, StoreError> {
    let proxies = store.list(Key::PROXIES).await?;
    Ok(proxies
        .iter()
        .filter_map(|(key, _)| key.as_str().strip_prefix(Key::PROXIES))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{Holder, Node, claim, holders};
    use crate::ids::layout::presets::Preset;
    use crate::ids::layout::{Field, Layout, Moment, Part};
    use crate::store::memory::{Faults, MemoryStore};
    use crate::store::record::{decode, encode};
    use crate::store::{GeneratorRecord, Key, StoreError};
    use std::num::NonZeroU64;
    use std::sync::Arc;

    const NAME: &str = "shop.events";

    async fn auto(store: &MemoryStore, owner: &str, layout: &Layout) -> Result<u64, StoreError> {
        claim(store, NAME, owner, layout, Node::Auto).await
    }

    fn lives(store: &MemoryStore, names: &[&str]) {
        for name in names {
            store.poke(&Key::proxy(name), b"{}");
        }
    }

    #[tokio::test]
    async fn the_lowest_that_no_living_proxy_has() {
        let layout = Preset::find("snowflake").unwrap().layout();
        let store = MemoryStore::new();
        lives(&store, &["p1", "p3"]);
        assert_eq!(auto(&store, "p1", &layout).await, Ok(0));
        assert_eq!(auto(&store, "p2", &layout).await, Ok(1));
        // p2 does not live.
        assert_eq!(auto(&store, "p3", &layout).await, Ok(1));
        assert_eq!(auto(&store, "p1", &layout).await, Ok(0), "its own again");
        assert_eq!(auto(&store, "p2", &layout).await, Ok(2));
    }

    #[tokio::test]
    async fn who_takes_a_node_over_begins_where_it_ended() {
        let layout = Preset::find("snowflake").unwrap().layout();
        let store = MemoryStore::new();
        assert_eq!(auto(&store, "p1", &layout).await, Ok(0));
        let key = Key::slot(NAME, 0);
        let slot: GeneratorRecord = decode(&key, &store.peek(&key).unwrap()).unwrap();
        store.poke(&key, &encode(&GeneratorRecord { bound: 500, moves: 2, ..slot }));
        assert_eq!(auto(&store, "p2", &layout).await, Ok(0));
        let slot: GeneratorRecord = decode(&key, &store.peek(&key).unwrap()).unwrap();
        assert_eq!((&*slot.owner, slot.bound, slot.moves), ("p2", 500, 2));
    }

    #[tokio::test]
    async fn a_number_is_for_one_living_proxy() {
        let layout = Preset::find("snowflake").unwrap().layout();
        let store = MemoryStore::new();
        lives(&store, &["p1", "p2"]);
        let fixed = async |owner, node| claim(&store, NAME, owner, &layout, Node::Fixed(node)).await;
        assert_eq!(fixed("p1", 7).await, Ok(7));
        assert_eq!(fixed("p1", 7).await, Ok(7));
        let taken = StoreError::NodeTaken { generator: NAME.to_owned(), node: 7, by: "p1".to_owned() };
        assert_eq!(fixed("p2", 7).await, Err(taken));
        assert_eq!(fixed("gone", 8).await, Ok(8));
        assert_eq!(fixed("p2", 8).await, Ok(8));
    }

    #[tokio::test]
    async fn whose_the_nodes_are_now() {
        let layout = Preset::find("snowflake").unwrap().layout();
        let store = MemoryStore::new();
        let proxy =
            |api: &str| format!(r#"{{"v":1,"address":"a","version":"0","since":"s","run":"r"{api}}}"#);
        store.poke(&Key::proxy("p1"), proxy("").as_bytes());
        store.poke(&Key::proxy("p2"), proxy(r#","api":"p2:3310""#).as_bytes());
        store.poke(&Key::proxy("p3"), br#"{"v":99}"#);
        for (owner, node) in [("p1", 0), ("gone", 5), ("p2", 7), ("p3", 8)] {
            claim(&store, NAME, owner, &layout, Node::Fixed(node)).await.unwrap();
        }
        claim(&store, "shop.others", "p2", &layout, Node::Fixed(9)).await.unwrap();
        let found = holders(&store, NAME).await.unwrap();
        let holder =
            |proxy: &str, api: Option<&str>| Holder { proxy: proxy.to_owned(), api: api.map(str::to_owned) };
        let expect = [(0, holder("p1", None)), (7, holder("p2", Some("p2:3310"))), (8, holder("p3", None))];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expect);
    }

    #[tokio::test]
    async fn more_proxies_than_nodes() {
        let fields =
            [Field::new(Part::Timestamp, 41), Field::new(Part::Node, 1), Field::new(Part::Sequence, 12)];
        let layout = Layout::new(&fields, Moment::from_micros(0), NonZeroU64::new(1000).unwrap(), 0).unwrap();
        let store = MemoryStore::new();
        lives(&store, &["p1", "p2", "p3"]);
        assert_eq!(auto(&store, "p1", &layout).await, Ok(0));
        assert_eq!(auto(&store, "p2", &layout).await, Ok(1));
        let none = StoreError::NoNode { generator: NAME.to_owned(), living: 3 };
        assert_eq!(auto(&store, "p3", &layout).await, Err(none));
    }

    /// Whatever is lost on the way, no two have one node.
    #[tokio::test]
    async fn races_and_lost_answers() {
        let layout = Preset::find("snowflake").unwrap().layout();
        for seed in 0..50 {
            let faults =
                Faults { lost_reply: 200, lost_request: 200, false_conflict: 200, ..Faults::default() };
            let store = Arc::new(MemoryStore::with_faults(seed, faults));
            lives(&store, &["p0", "p1", "p2", "p3", "p4"]);
            let mut claims = tokio::task::JoinSet::new();
            for nr in 0..5 {
                let (store, layout) = (Arc::clone(&store), layout.clone());
                claims.spawn(async move { auto(&store, &format!("p{nr}"), &layout).await.unwrap() });
            }
            let mut nodes = claims.join_all().await;
            nodes.sort_unstable();
            assert_eq!(nodes, [0, 1, 2, 3, 4], "seed {seed}");
        }
    }
}
