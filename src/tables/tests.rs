//! One version of the rules after the other, without a server: tables are known by their names
//! alone.

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ids::{BIGINT_MAX, Generator, ID_MAX, TakeError};
use crate::rewrite::plan::Lookup;
use crate::rules::RuleSet;
use crate::store::memory::{MemoryStore, Moment};
use crate::tables::change::Next;
use crate::tables::{InForce, Tables};

/// Generators `g`, with these keys, and `h`; all tables whose name begins with "t" draw from
/// `generator`.
fn rules(keys: &str, generator: &str) -> Arc<RuleSet> {
    let text = format!(
        "schema = \"s\"\n[generators.g]\nkind = \"sequence\"\nseed = \"none\"\nbatch = 100\n{keys}\n\
         [generators.h]\nkind = \"sequence\"\nseed = \"none\"\n\
         [tables.\"t*\"]\ncolumn = \"id\"\ngenerator = \"{generator}\"\n"
    );
    Arc::new(RuleSet::of_text(&text))
}

async fn opened(rules: Arc<RuleSet>) -> (InForce, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    (InForce::open(rules, None, store.clone(), None, "me".into(), false).await.unwrap(), store)
}

/// The generator of a table, which is looked up as a statement would.
async fn generator(tables: &Tables, table: &str) -> Generator {
    tables.fetch("s", table, false, None).await;
    let Lookup::Ruled(target) = tables.lookup("s", table) else { panic!("{table} is ruled") };
    tables.generator(&target).unwrap().clone()
}

async fn take(generator: &Generator, count: u64) -> Result<(u64, u64), TakeError> {
    let block = generator.take(NonZeroU64::new(count).unwrap(), Duration::from_secs(1)).await?;
    Ok((block.first(), block.last()))
}

/// A table that is made later may hold more than a signed BIGINT does; a call in SQL gives no more.
#[tokio::test]
async fn where_a_sequence_ends_whose_tables_are_not_there() {
    for (keys, end) in [("", ID_MAX), ("sql = true\n", BIGINT_MAX), ("max = 70\n", 70)] {
        let (in_force, _) = opened(rules(keys, "g")).await;
        let Generator::Sequence(g) = generator(&in_force.now(), "t1").await else { panic!("a sequence") };
        assert_eq!(g.max(), end, "{keys}");
    }
}

#[tokio::test]
async fn a_table_moves_above_all_that_was_taken() {
    let (in_force, _) = opened(rules("", "g")).await;
    let old = in_force.now();
    let g = generator(&old, "t1").await;
    assert_eq!(take(&g, 250).await, Ok((1, 250)));
    in_force.change(rules("", "h")).await.unwrap();
    assert!(old.is_retired());
    // A statement that is still under way: what it takes is never sent, and it assigns nothing.
    let late = take(&g, 500).await;
    old.fetch("s", "t2", false, None).await;
    assert!(matches!(old.lookup("s", "t2"), Lookup::Unknown));
    let now = in_force.after(&old, Duration::from_secs(1)).await.unwrap();
    let (first, last) = take(&generator(&now, "t1").await, 2).await.unwrap();
    assert!(first > 250, "{first} {late:?}");
    in_force.change(rules("", "g")).await.unwrap();
    let back = take(&generator(&in_force.now(), "t1").await, 1).await.unwrap();
    assert!(back.0 > last, "{back:?} behind {last}");
}

#[tokio::test]
async fn a_generator_whose_step_changes_goes_on_where_it_was() {
    let (in_force, _) = opened(rules("", "g")).await;
    let old = generator(&in_force.now(), "t").await;
    assert_eq!(take(&old, 7).await, Ok((1, 7)));
    in_force.change(rules("step = 5\noffset = 2", "g")).await.unwrap();
    assert!(matches!(take(&old, 1).await, Err(TakeError::Closed { .. })));
    let new = generator(&in_force.now(), "t").await;
    assert_eq!(take(&new, 3).await, Ok((12, 22)), "8 to 100 were handed back");
    in_force.change(rules("step = 3", "g")).await.unwrap();
    assert_eq!(take(&generator(&in_force.now(), "t").await, 2).await, Ok((27, 30)));
}

#[tokio::test]
async fn what_has_not_changed_is_kept() {
    let (in_force, store) = opened(rules("", "g")).await;
    let old = in_force.now();
    let g = generator(&old, "t").await;
    take(&g, 1).await.unwrap();
    let writes = store.writes();
    in_force.change(rules("", "g")).await.unwrap();
    assert!(g.is(&generator(&in_force.now(), "t").await));
    assert_eq!(store.writes(), writes);
    assert_eq!(in_force.generators().len(), 2);
}

#[tokio::test]
async fn a_change_that_fails_leaves_what_was() {
    let (in_force, store) = opened(rules("", "g")).await;
    let old = in_force.now();
    let g = generator(&old, "t").await;
    take(&g, 1).await.unwrap();
    store.set_away(true);
    assert!(in_force.change(rules("step = 5", "g")).await.is_err());
    assert!(!old.is_retired() && Arc::ptr_eq(&old, &in_force.now()));
    assert_eq!(take(&g, 1).await, Ok((2, 2)));
}

#[tokio::test]
async fn opening_generators_late_does_not_bring_back_the_rules_from_before_a_reload() {
    let store = Arc::new(MemoryStore::new());
    store.set_away(true);
    let in_force =
        InForce::open(rules("", "g"), None, store.clone(), None, "me".into(), false).await.unwrap();
    store.set_away(false);
    let next = rules("step = 5", "h");
    let held = in_force.changing.lock().await;
    let (mut reload, mut reopen) = (pin!(in_force.change(next.clone())), pin!(in_force.reopen()));
    // Both wait for their turn, the reload first.
    tokio::select! { biased; _ = &mut reload => panic!(), () = std::future::ready(()) => {} }
    tokio::select! { biased; _ = &mut reopen => panic!(), () = std::future::ready(()) => {} }
    drop(held);
    let (reloaded, reopened) = tokio::join!(reload, reopen);
    assert!(reloaded.is_ok() && reopened.is_ok());
    assert!(Arc::ptr_eq(&in_force.rules(), &next), "{:?}", in_force.rules());
}

/// etcd that has answered us may elect another leader the next moment.
#[tokio::test]
async fn tables_are_opened_once_the_store_answers_again() {
    let store = Arc::new(MemoryStore::new());
    store.set_away(true);
    let in_force =
        InForce::open(rules("", "g"), None, store.clone(), None, "me".into(), false).await.unwrap();
    let now = in_force.now();
    now.fetch("s", "t", false, None).await;
    let lookup = now.lookup("s", "t");
    assert!(matches!(&lookup, Lookup::Away(why) if why.contains("generator s.g is not open")), "{lookup:?}");
    in_force.reopen().await.unwrap();
    assert!(in_force.generators().is_empty(), "it is still away");
    store.set_away(false);
    in_force.reopen().await.unwrap();
    assert_eq!(take(&generator(&in_force.now(), "t").await, 2).await, Ok((1, 2)));
    let version = in_force.now();
    in_force.reopen().await.unwrap();
    assert!(Arc::ptr_eq(&version, &in_force.now()), "all are open");
}

/// Table t moves from g to h; that fails after the retirement as `fail` has it. The old rules go
/// on, or the new, and the next change succeeds.
#[track_caller]
fn check_handover(
    keys: &str,
    to: &str,
    is_assigned: bool,
    fail: impl Fn(&MemoryStore, &AtomicBool),
    goes_on: &str,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let panics = Arc::new(AtomicBool::default());
        let is_on = panics.clone();
        let store = Arc::new(MemoryStore::with_hook(move |_, moment, _| {
            let panics = moment == Moment::BeforeWrite && is_on.load(Ordering::SeqCst);
            assert!(!panics, "the store panics on purpose");
        }));
        let opened = InForce::open(rules("", "g"), None, store.clone(), None, "me".into(), false).await;
        let in_force = Arc::new(opened.unwrap());
        let old = in_force.now();
        let (_, last) = take(&generator(&old, "t").await, 7).await.unwrap();
        let mut next = Next::make(Some(&old), rules(keys, to), old.common.clone()).await.unwrap();
        if is_assigned {
            next.assigns("s", "t", 7);
        }
        fail(&store, &panics);
        let (changing, retired) = (in_force.clone(), old.clone());
        let changed = tokio::spawn(async move { changing.succeed(&retired, next).await }).await;
        assert!(!matches!(changed, Ok(Ok(()))), "it fails");
        assert!(old.is_retired());
        store.set_away(false);
        panics.store(false, Ordering::SeqCst);
        let now = in_force.after(&old, Duration::from_secs(1)).await.expect("a version is active");
        assert!(!now.is_retired());
        now.fetch("s", "t", false, None).await;
        let Lookup::Ruled(target) = now.lookup("s", "t") else { panic!("t is ruled") };
        assert_eq!(target.rule.generator.to_string(), format!("s.{goes_on}"));
        let (first, then) = take(&now.generator(&target).unwrap(), 1).await.unwrap();
        assert!(first > last, "{first}");
        in_force.change(rules("", "h")).await.unwrap();
        let (first, _) = take(&generator(&in_force.now(), "t").await, 1).await.unwrap();
        assert!(first > then, "{first} behind {then}");
    });
}

#[test]
fn a_change_that_fails_behind_the_retirement() {
    check_handover("", "h", true, |store, _| store.set_away(true), "g");
}

#[test]
fn a_change_that_panics_behind_the_retirement() {
    check_handover("", "h", true, |_, panics| panics.store(true, Ordering::SeqCst), "g");
    // Everything is assigned: a generator that is closed hands back what it has not issued.
    check_handover("step = 5", "g", false, |_, panics| panics.store(true, Ordering::SeqCst), "g");
}
