//! The checks that every store must pass, whatever it is made of.

use super::{Key, Outcome, Revision, Store, Versioned, Write};

/// Runs every check on an empty store.
pub(crate) async fn all(store: &dyn Store) {
    a_record_is_created_once(store).await;
    a_write_needs_the_revision_that_stands(store).await;
    a_list_holds_its_prefix_only(store).await;
    of_many_writers_one_wins_each_round(store).await;
    many_are_written_and_none_at_another_revision(store).await;
}

pub(super) async fn written(store: &dyn Store, key: &Key, from: Option<Revision>, value: &[u8]) -> Revision {
    match store.compare_and_set(key, from, value).await.unwrap() {
        Outcome::Written(revision) => revision,
        Outcome::Conflict(found) => panic!("{key} stands at {found:?}, not at {from:?}"),
    }
}

async fn refused(
    store: &dyn Store,
    key: &Key,
    expected: Option<Revision>,
    stands: Option<(Revision, &[u8])>,
) {
    let outcome = store.compare_and_set(key, expected, b"never").await.unwrap();
    let stands = stands.map(|(revision, value)| Versioned { revision, value: value.to_vec() });
    assert_eq!(outcome, Outcome::Conflict(stands.clone()));
    assert_eq!(store.load(key).await.unwrap(), stands);
}

async fn a_record_is_created_once(store: &dyn Store) {
    let key = Key::generator("made.once");
    assert_eq!(store.load(&key).await.unwrap(), None);
    refused(store, &key, Some(Revision(1)), None).await;
    let first = written(store, &key, None, b"1").await;
    refused(store, &key, None, Some((first, b"1"))).await;
}

async fn a_write_needs_the_revision_that_stands(store: &dyn Store) {
    let (key, other) = (Key::generator("compare.a"), Key::generator("compare.b"));
    let first = written(store, &key, None, b"1").await;
    let elsewhere = written(store, &other, None, b"1").await;
    let second = written(store, &key, Some(first), b"2").await;
    assert_ne!(first, second);
    refused(store, &key, Some(first), Some((second, b"2"))).await;
    refused(store, &other, Some(second), Some((elsewhere, b"1"))).await;
    // A write of the same bytes is a write too: an old revision must not come back to life.
    let third = written(store, &key, Some(second), b"1").await;
    refused(store, &key, Some(first), Some((third, b"1"))).await;
    refused(store, &key, Some(second), Some((third, b"1"))).await;
    let empty = written(store, &key, Some(third), b"").await;
    assert_eq!(store.load(&key).await.unwrap(), Some(Versioned { revision: empty, value: Vec::new() }));
}

async fn a_list_holds_its_prefix_only(store: &dyn Store) {
    for (name, value) in [("list.b", "2"), ("list.a", "1"), ("list.\u{e9}", "3")] {
        written(store, &Key::binding(name), None, value.as_bytes()).await;
    }
    let keys = |found: Vec<(Key, Versioned<Vec<u8>>)>| {
        found.into_iter().map(|(key, _)| key.as_str().to_owned()).collect::<Vec<_>>()
    };
    let found = store.list(Key::BINDINGS).await.unwrap();
    assert_eq!(found[0].1, store.load(&Key::binding("list.a")).await.unwrap().unwrap());
    assert_eq!(keys(found), ["bindings/list.a", "bindings/list.b", "bindings/list.\u{e9}"]);
    assert_eq!(keys(store.list("bindings/list.b").await.unwrap()), ["bindings/list.b"]);
    assert_eq!(keys(store.list("nothing/").await.unwrap()), [""; 0]);
}

/// Eight writers count one record up; a write that overtakes another's compare would lose a count.
async fn of_many_writers_one_wins_each_round(store: &dyn Store) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 10;
    let key = Key::generator("race.one");
    written(store, &key, None, b"0").await;
    let writer = async || {
        for _ in 0..ROUNDS {
            loop {
                let seen = store.load(&key).await.unwrap().unwrap();
                let count: u64 = std::str::from_utf8(&seen.value).unwrap().parse().unwrap();
                tokio::task::yield_now().await;
                let next = (count + 1).to_string();
                let outcome =
                    store.compare_and_set(&key, Some(seen.revision), next.as_bytes()).await.unwrap();
                if matches!(outcome, Outcome::Written(_)) {
                    break;
                }
            }
        }
    };
    tokio::join!(writer(), writer(), writer(), writer(), writer(), writer(), writer(), writer());
    let end = store.load(&key).await.unwrap().unwrap();
    assert_eq!(end.value, (WRITERS * ROUNDS).to_string().into_bytes());
}

async fn many_are_written_and_none_at_another_revision(store: &dyn Store) {
    // More than etcd or a server takes at once.
    const MANY: usize = 1_050;
    let there = Key::binding("many.0050");
    let stands = written(store, &there, None, b"first").await;
    let write = |name: &str, expected, value: &[u8]| Write {
        key: Key::binding(name),
        expected,
        value: value.to_vec(),
    };
    let all: Vec<Write> =
        (0..MANY).map(|nth| write(&format!("many.{nth:04}"), None, nth.to_string().as_bytes())).collect();
    for written in [store.write_all(&all).await.unwrap(), store.write_all(&all).await.unwrap()] {
        assert_eq!(written.len(), all.len());
        for (one, written) in all.iter().zip(written) {
            let found = store.load(&one.key).await.unwrap();
            assert!(!written || found.as_ref().is_some_and(|found| found.value == one.value), "{}", one.key);
        }
    }
    let found = store.load(&there).await.unwrap();
    assert_eq!(found, Some(Versioned { revision: stands, value: b"first".to_vec() }));
    let fresh = ["fresh.0", "fresh.1", "fresh.2"].map(|name| write(name, None, b"x"));
    assert_eq!(store.write_all(&fresh).await.unwrap(), [true; 3]);
    assert_eq!(store.write_all(&fresh).await.unwrap(), [false; 3]);
    // Records that were made so are written again like any other.
    let mut next = Vec::new();
    for Write { key, .. } in &fresh {
        let revision = store.load(key).await.unwrap().unwrap().revision;
        let revision = written(store, key, Some(revision), b"y").await;
        refused(store, key, None, Some((revision, b"y"))).await;
        next.push(Write { key: key.clone(), expected: Some(revision), value: key.to_string().into_bytes() });
    }
    // Old records with a new one.
    next.push(write("fresh.3", None, b"bindings/fresh.3"));
    assert_eq!(store.write_all(&next).await.unwrap(), [true; 4]);
    for (nth, one) in next.iter_mut().enumerate() {
        let found = store.load(&one.key).await.unwrap().unwrap();
        assert_eq!(found.value, one.key.to_string().into_bytes());
        assert_ne!(Some(found.revision), one.expected);
        // From here on the first is written at another revision than it is at.
        if nth > 0 {
            one.expected = Some(found.revision);
        }
        one.value = b"z".to_vec();
    }
    let done = store.write_all(&next).await.unwrap();
    assert!(!done.first().unwrap());
    for (nth, (one, done)) in next.iter().zip(&done).enumerate() {
        let found = store.load(&one.key).await.unwrap().unwrap();
        let is_new = found.value == b"z";
        assert!(is_new != (Some(found.revision) == one.expected) || nth == 0, "{}", one.key);
        assert!(!done || is_new, "{}", one.key);
        assert!(nth > 0 || !is_new, "{}", one.key);
    }
}
