//! Against real clusters, of Debian's etcd and of the sid root's.

mod guard;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::guard::NEVER;
use super::keys::PAGE_KEYS;
use super::{Account, EtcdSettings, EtcdStore, EtcdTls};
use crate::store::conformance::{self, written};
use crate::store::{Key, Outcome, Revision, Store, StoreError};

// Shared with the tests of tests/.
#[allow(dead_code, unreachable_pub, clippy::missing_panics_doc, clippy::indexing_slicing)]
#[path = "../../../tests/support/etcd.rs"]
mod cluster;
#[allow(dead_code, unreachable_pub, clippy::missing_panics_doc, clippy::indexing_slicing)]
#[path = "../../../tests/support/keeper.rs"]
mod keeper;
#[allow(dead_code, unreachable_pub, clippy::missing_panics_doc, clippy::indexing_slicing)]
#[path = "../../../tests/support/machine.rs"]
mod machine;
pub(crate) use cluster::{Certificates, Etcd, Version};

/// A proxy `name` whose state folder goes with the cluster.
fn settings(etcd: &Etcd, name: &str) -> EtcdSettings {
    EtcdSettings {
        endpoints: etcd.endpoints(),
        prefix: "/rowstamp".to_owned(),
        account: None,
        tls: None,
        name: name.to_owned(),
        address: "127.0.0.1:3307".to_owned(),
        api: None,
        state_path: etcd.folder_named(&format!("state-{name}")),
    }
}

pub(crate) async fn open(etcd: &Etcd, name: &str) -> EtcdStore {
    EtcdStore::open(settings(etcd, name)).await.unwrap()
}

#[tokio::test]
async fn it_is_a_store() {
    for version in Version::ALL {
        let Some(etcd) = Etcd::start(version, 1) else { continue };
        conformance::all(&open(&etcd, "p1").await).await;
    }
}

#[tokio::test]
async fn keys_and_format_are_what_is_documented() {
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let store = open(&etcd, "p1").await;
    written(&store, &Key::generator("shop.orders"), None, b"{}").await;
    let keys = |text: String| text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(etcd.ctl(0, &["get", "--prefix", "--keys-only", ""])),
        "/rowstamp/format /rowstamp/generators/shop.orders /rowstamp/proxies/p1 /rowstamp/witness/p1"
    );
    assert_eq!(etcd.ctl(0, &["get", "/rowstamp/format"]), "/rowstamp/format\n1\n");
    // Another fleet on the same etcd.
    let other = EtcdSettings { prefix: "/rowstamp2".to_owned(), ..settings(&etcd, "p2") };
    let other = EtcdStore::open(other).await.unwrap();
    assert_eq!(other.list("").await.unwrap().len(), 3);
    assert_eq!(store.list("").await.unwrap().len(), 4);

    etcd.ctl(0, &["put", "/rowstamp/format", "2"]);
    let refused = EtcdStore::open(settings(&etcd, "p3")).await.err();
    assert!(matches!(refused, Some(StoreError::NewerFormat { found: 2, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    const KEYS: usize = 2 * PAGE_KEYS as usize + 1;
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let store = Arc::new(open(&etcd, "p1").await);
    let key = |n: usize| Key::binding(&format!("shop.t{n:05}"));
    let mut writes = JoinSet::new();
    for first in 0..10 {
        let store = Arc::clone(&store);
        writes.spawn(async move {
            for n in (first..KEYS).step_by(10) {
                written(&*store, &key(n), None, b"x").await;
            }
        });
    }
    writes.join_all().await;
    let found = store.list(Key::BINDINGS).await.unwrap();
    assert_eq!(found.len(), KEYS);
    assert!(found.iter().enumerate().all(|(n, (found, _))| *found == key(n)));
}

#[tokio::test]
async fn a_store_that_was_away_comes_back() {
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let store = open(&etcd, "p1").await;
    let key = Key::generator("shop.orders");
    let first = written(&store, &key, None, b"1").await;
    for how in ["killed", "stopped"] {
        match how {
            "killed" => etcd.kill(0),
            _ => etcd.signal(0, "STOP"),
        }
        // The request may have been sent where the member was stopped within its last second of proof.
        let refused = store.compare_and_set(&key, Some(first), b"2").await.unwrap_err();
        let is_unknown = matches!(refused, StoreError::UnknownOutcome { .. });
        assert!(matches!(refused, StoreError::Unavailable { .. }) || is_unknown, "{how}: {refused:?}");
        let refused = store.load(&key).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{how}: {refused:?}");
        match how {
            "killed" => {
                etcd.restart(0);
                etcd.wait_until_healthy();
            }
            _ => etcd.signal(0, "CONT"),
        }
        let back = Instant::now();
        while let Err(error) = store.load(&key).await {
            assert!(back.elapsed() < NEVER, "{how}: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(store.load(&key).await.unwrap().unwrap().revision >= first);
}

/// Nothing was sent to a port where nobody listens: so the outcome of a write is known.
#[tokio::test]
async fn a_write_that_was_not_sent_is_not_in_doubt() {
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let store = open(&etcd, "p1").await;
    let key = Key::generator("shop.orders");
    etcd.kill(0);
    // Notices that the connection is gone; a write might have been sent over it.
    assert!(store.load(&key).await.is_err());
    for _ in 0..3 {
        let refused = store.compare_and_set(&key, None, b"1").await.unwrap_err();
        let StoreError::Unavailable { reason, .. } = &refused else { panic!("{refused:?}") };
        assert!(reason.contains("refused"), "{reason}");
    }
}

#[tokio::test]
async fn a_member_that_fell_behind_gives_no_stale_answer() {
    for version in Version::ALL {
        let Some(etcd) = Etcd::start(version, 3) else { continue };
        let (all, key) = (open(&etcd, "p1").await, Key::generator("shop.orders"));
        let mut stands = written(&all, &key, None, b"0").await;
        for behind in 0..3 {
            let one = open_at(&etcd, behind).await;
            assert_eq!(one.load(&key).await.unwrap().unwrap().revision, stands);
            etcd.signal(behind, "STOP");
            stands = written_somehow(&all, &key, stands, format!("{behind}").as_bytes()).await;
            etcd.signal(behind, "CONT");
            // An answer, if there is one, has the write that was answered before the question.
            let answer = timeout(NEVER, async {
                loop {
                    if let Ok(found) = one.load(&key).await {
                        return found;
                    }
                }
            });
            assert_eq!(answer.await.unwrap().unwrap().revision, stands, "member {behind}, {version:?}");
        }
        // Without a quorum there is no answer at all.
        let one = open_at(&etcd, 0).await;
        etcd.signal(1, "STOP");
        etcd.signal(2, "STOP");
        let answer = one.load(&key).await;
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
    }
}

async fn open_at(etcd: &Etcd, member: usize) -> EtcdStore {
    let endpoints = vec![etcd.endpoints()[member].clone()];
    let name = format!("at-{member}-{}", rand::random::<u32>());
    EtcdStore::open(EtcdSettings { endpoints, ..settings(etcd, &name) }).await.unwrap()
}

/// A write while a leader may have to be elected, its doubts settled by reading.
async fn written_somehow(store: &EtcdStore, key: &Key, from: Revision, value: &[u8]) -> Revision {
    let end = Instant::now() + NEVER;
    loop {
        match store.compare_and_set(key, Some(from), value).await {
            Ok(Outcome::Written(revision)) => return revision,
            Ok(Outcome::Conflict(Some(found))) if found.value == value => return found.revision,
            Ok(Outcome::Conflict(found)) => panic!("{key} stands at {found:?}"),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test]
async fn tls_and_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let (certificates, tls) = certificates(folder.path());
    for version in Version::ALL {
        let Some(etcd) = Etcd::start_with(version, 1, Some(&certificates)) else { continue };
        for line in [
            "user add root:secret",
            "user grant-role root root",
            "role add rowstamp",
            "role grant-permission rowstamp --prefix=true readwrite /rowstamp/",
            "user add rowstamp:Pass:word",
            "user grant-role rowstamp rowstamp",
            "auth enable",
        ] {
            etcd.ctl(0, &line.split(' ').collect::<Vec<_>>());
        }
        let with = |user: &str, password: &str, prefix: &str| EtcdSettings {
            prefix: prefix.to_owned(),
            account: Some(Account { user: user.to_owned(), password: password.to_owned().into() }),
            tls: Some(tls()),
            ..settings(&etcd, "p1")
        };
        let store = EtcdStore::open(with("rowstamp", "Pass:word", "/rowstamp")).await.unwrap();
        conformance::all(&store).await;
        store.close().await;
        drop(store);
        // The store that was dropped leaves its folder when its last task has ended.
        let refusal = async |settings: &dyn Fn() -> EtcdSettings| {
            for _ in 0..6_000 {
                match EtcdStore::open(settings()).await {
                    Ok(_) => panic!("it opens"),
                    Err(error) if error.to_string().contains("another Rowstamp process uses the folder") => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    Err(error) => return error.to_string(),
                }
            }
            panic!("the folder stays in use")
        };
        for (password, prefix, why) in [
            ("wrong", "/rowstamp", "authentication failed"),
            ("Pass:word", "/elsewhere", "permission denied"),
        ] {
            let text = refusal(&|| with("rowstamp", password, prefix)).await;
            assert!(text.contains("refuses requests of Rowstamp") && text.contains(why), "{text}");
        }
        // Nobody at all, a server that is not who it should be, and no TLS.
        let nobody = || EtcdSettings { account: None, ..with("", "", "/rowstamp") };
        assert!(refusal(&nobody).await.contains("refuses requests of Rowstamp"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_who_it_should_be_gets_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let (certificates, _) = certificates(folder.path());
    let other = tempfile::tempdir().unwrap();
    let (_, of_others) = self::certificates(other.path());
    let Some(etcd) = Etcd::start_with(Version::Debian, 1, Some(&certificates)) else { return };
    let account = Account { user: "rowstamp".to_owned(), password: "secret".to_owned().into() };
    let settings = EtcdSettings { account: Some(account), tls: Some(of_others()), ..settings(&etcd, "p1") };
    let error = EtcdStore::open(settings).await.err().unwrap().to_string();
    assert!(error.contains("certificate"), "{error}");
}

/// A CA, and one certificate by it that serves the cluster and its clients.
fn certificates(folder: &Path) -> (Certificates, impl Fn() -> EtcdTls) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::new(params, ca_key);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap();
    let (ca, cert, key) = (ca.pem(), cert.pem(), key.serialize_pem());
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = Certificates {
        ca: write("ca.pem", &ca),
        cert: write("cert.pem", &cert),
        key: write("key.pem", &key),
    };
    let tls = move || EtcdTls {
        ca: ca.clone().into_bytes(),
        identity: Some((cert.clone().into_bytes(), key.clone().into_bytes().into())),
    };
    (files, tls)
}
