//! Stores that were put back from a copy, and proxies of one name.

use std::time::{Duration, Instant};

use super::{Etcd, EtcdSettings, EtcdStore, Version, open, settings, written};
use crate::store::{Key, Outcome, Revision, Store, StoreError};

/// A result that has not come within this time never comes.
pub(super) const NEVER: Duration = Duration::from_mins(1);

async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + NEVER;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Another machine's proxy of the same name.
async fn open_elsewhere(etcd: &Etcd, name: &str) -> Result<EtcdStore, StoreError> {
    let state_path = etcd.folder_named(&format!("elsewhere-{name}"));
    EtcdStore::open(EtcdSettings { state_path, ..settings(etcd, name) }).await
}

async fn is_suspect(store: &EtcdStore, key: &Key) -> bool {
    match store.compare_and_set(key, Some(Revision(1)), b"never").await {
        Err(StoreError::Suspect { .. }) => true,
        Ok(Outcome::Conflict(_))
        | Err(StoreError::Unavailable { .. } | StoreError::UnknownOutcome { .. }) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn of_two_proxies_of_one_name_the_second_is_refused() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (first, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
    let refused = open_elsewhere(&etcd, "p1").await.err().unwrap();
    assert!(matches!(&refused, StoreError::NameTaken { name, .. } if name == "p1"), "{refused}");
    assert!(refused.to_string().contains("127.0.0.1:3307"), "{refused}");
    written(&first, &key, None, b"1").await;
    let same_folder = EtcdStore::open(settings(&etcd, "p1")).await.err().unwrap();
    assert!(same_folder.to_string().contains("another Rowstamp process uses the folder"), "{same_folder}");
    // A clean end frees the name, and not only when the lease runs out.
    first.close().await;
    assert_eq!(etcd.ctl(0, &["get", "/rowstamp/proxies/p1"]), "");
    let _second = open_elsewhere(&etcd, "p1").await.unwrap();
}

#[tokio::test]
async fn a_proxy_that_was_killed_has_its_name_again_at_once() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    // If a key went with its lease and came again, it would have another `create_revision`.
    let created = || {
        let json = etcd.ctl(0, &["get", "/rowstamp/proxies/p1", "--write-out=json"]);
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["kvs"][0]["create_revision"].clone()
    };
    drop(open(&etcd, "p1").await);
    let before = created();
    let _again = open(&etcd, "p1").await;
    assert!(before.is_u64() && created() == before, "{before} {}", created());
    // Without its marks the lease is waited for.
    drop(open(&etcd, "p2").await);
    let _again = open_elsewhere(&etcd, "p2").await.unwrap();
}

fn revoke_all_leases(etcd: &Etcd) {
    for lease in etcd.ctl(0, &["lease", "list"]).lines().skip(1) {
        etcd.ctl(0, &["lease", "revoke", lease]);
    }
}

#[tokio::test]
async fn a_lease_that_is_lost_is_no_loss() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (store, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
    revoke_all_leases(&etcd);
    assert_eq!(etcd.ctl(0, &["get", "/rowstamp/proxies/p1"]), "");
    let stands = written(&store, &key, None, b"1").await;
    soon("the name is taken again", async || etcd.ctl(0, &["get", "/rowstamp/proxies/p1"]).contains("3307"))
        .await;
    written(&store, &key, Some(stands), b"2").await;
}

#[tokio::test]
async fn who_lost_its_name_to_another_writes_no_more() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (first, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
    let stands = written(&first, &key, None, b"1").await;
    // The first takes its name again where it comes before the second.
    let second = loop {
        revoke_all_leases(&etcd);
        if let Ok(second) = open_elsewhere(&etcd, "p1").await {
            break second;
        }
    };
    let stands = written(&second, &key, Some(stands), b"2").await;
    let refused = first.compare_and_set(&key, Some(stands), b"3").await;
    assert!(matches!(refused, Err(StoreError::NameTaken { .. })), "{refused:?}");
    second.close().await;
    drop(second);
    soon("the name is its own again", async || {
        matches!(first.compare_and_set(&key, Some(stands), b"4").await, Ok(Outcome::Written(_)))
    })
    .await;
}

#[tokio::test]
async fn a_store_that_was_put_back_is_noticed_and_stops_all() {
    for version in Version::ALL {
        let Some(mut etcd) = Etcd::start(version, 3) else { continue };
        let (p1, p2) = (open(&etcd, "p1").await, open(&etcd, "p2").await);
        let key = Key::generator("shop.orders");
        let stands = written(&p1, &key, None, b"{\"v\":1,\"bound\":10}").await;
        let copy = etcd.snapshot();
        written(&p1, &key, Some(stands), b"{\"v\":1,\"bound\":20}").await;
        let recalls = p2.recalls().unwrap();
        etcd.restore(&copy);
        // p2 has lost nothing of its own; somebody noticed, or it saw a later revision itself.
        soon("p1 notices", async || is_suspect(&p1, &key).await).await;
        soon("p2 is told", async || is_suspect(&p2, &key).await).await;
        soon("p2 gives up its reserve", async || recalls.has_changed().unwrap()).await;
        let refused = EtcdStore::open(settings(&etcd, "p3")).await.err().unwrap();
        assert!(
            matches!(&refused, StoreError::Suspect { reason, .. } if reason.contains("noticed by p")),
            "{refused}"
        );
        // A loss that nobody has settled is noticed again.
        etcd.ctl(0, &["del", "/rowstamp/suspect"]);
        soon("it is noticed again", async || {
            etcd.ctl(0, &["get", "/rowstamp/suspect"]).contains("noticed") || is_suspect(&p1, &key).await
        })
        .await;
        etcd.raise(&[("shop.orders", 100)]);
        for store in [&p1, &p2] {
            soon("it goes on", async || {
                let Ok(Some(found)) = store.load(&key).await else { return false };
                matches!(
                    store.compare_and_set(&key, Some(found.revision), &found.value).await,
                    Ok(Outcome::Written(_))
                )
            })
            .await;
            assert_eq!(store.era(), 1);
        }
    }
}

/// Nobody runs while the copy is put back: the marks in the state folder tell.
#[tokio::test]
async fn a_store_that_was_put_back_is_noticed_at_the_start() {
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (p1, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
    let copy = etcd.snapshot();
    written(&p1, &key, None, b"1").await;
    p1.close().await;
    drop(p1);
    etcd.restore(&copy);
    // A newcomer sees nothing, and may even carry the store past what was seen.
    let newcomer = open(&etcd, "p9").await;
    let mut stands = written(&newcomer, &key, None, b"1").await;
    for _ in 0..20 {
        stands = written(&newcomer, &key, Some(stands), b"1").await;
    }
    let refused = EtcdStore::open(settings(&etcd, "p1")).await.err().unwrap();
    assert!(
        matches!(&refused, StoreError::Suspect { reason, .. } if reason.contains("witness")),
        "{refused}"
    );
    // The proxy's transaction finds it, before its watchdog has looked.
    let told = newcomer.compare_and_set(&key, Some(stands), b"1").await;
    assert!(matches!(told, Err(StoreError::Suspect { .. })), "{told:?}");
}

#[tokio::test]
async fn an_idle_proxy_writes_nothing() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let _idle = open(&etcd, "p1").await;
    let revision = || {
        let json = etcd.ctl(0, &["get", "/rowstamp/format", "--write-out=json"]);
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["header"]["revision"].clone()
    };
    let before = revision();
    // Two rounds of the watchdog, and more than the lease.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(revision(), before);
    assert!(etcd.ctl(0, &["get", "/rowstamp/proxies/p1"]).contains("3307"), "the lease is kept");
}

/// A store whose data is gone is one that went back.
#[tokio::test]
async fn an_emptied_store_is_noticed() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let (p1, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
    etcd.ctl(0, &["del", "--prefix", "/rowstamp/"]);
    soon("it is noticed", async || is_suspect(&p1, &key).await).await;
    assert!(
        etcd.ctl(0, &["get", "/rowstamp/suspect"]).contains("the witness record of this proxy is missing")
    );
}
