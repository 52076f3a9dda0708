use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use super::EmbeddedStore;
use crate::store::{Key, Outcome, Store, StoreError, conformance};

fn refusal(path: &Path) -> StoreError {
    EmbeddedStore::open(path).err().expect("the store must not open")
}

async fn create(store: &EmbeddedStore, key: &Key, value: &[u8]) {
    assert!(matches!(store.compare_and_set(key, None, value).await, Ok(Outcome::Written(_))));
}

#[tokio::test]
async fn it_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&EmbeddedStore::open(&folder.path().join("s.redb")).unwrap()).await;
}

#[tokio::test]
async fn what_was_answered_is_there_after_the_next_opening_and_revisions_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    let key = Key::generator("a.b");
    let store = EmbeddedStore::open(&path).unwrap();
    create(&store, &key, b"1").await;
    let before = store.load(&key).await.unwrap().unwrap();
    drop(store);
    let store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(store.load(&key).await.unwrap().unwrap(), before);
    let Ok(Outcome::Written(later)) = store.compare_and_set(&key, Some(before.revision), b"2").await else {
        panic!("the revision must stand")
    };
    assert!(later > before.revision);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no half-made file is left");
}

#[test]
fn a_second_opening_names_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    let first = EmbeddedStore::open(&path).unwrap();
    let error = refusal(&path);
    assert_eq!(error, StoreError::InUse { path: path.clone() });
    assert!(
        error.to_string().contains("s.redb is in use by another Rowstamp process; stop that process"),
        "{error}"
    );
    drop(first);
    EmbeddedStore::open(&path).unwrap();
}

#[test]
fn of_many_that_create_one_file_one_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    let start = std::sync::Barrier::new(8);
    let kept = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                match EmbeddedStore::open(&path) {
                    Ok(store) => kept.lock().push(store),
                    Err(error) => assert_eq!(error, StoreError::InUse { path: path.clone() }),
                }
            });
        }
    });
    assert_eq!(kept.lock().len(), 1);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let absent = refusal(&folder.path().join("none/s.redb")).to_string();
    assert!(absent.contains("/none does not exist; create the folder, or correct store.path"), "{absent}");
    let dir = refusal(folder.path()).to_string();
    assert!(dir.contains("store.path names a folder"), "{dir}");
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, content: Vec<u8>| {
        let path = folder.path().join(name);
        fs::write(&path, &content).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(fs::read(&path).unwrap() == content, "{name} was changed");
    };
    check("empty", Vec::new());
    check("text", b"[store]\nkind = \"embedded\"\n".to_vec());
    check("zeros", vec![0; 1 << 20]);
    let good = folder.path().join("good");
    drop(EmbeddedStore::open(&good).unwrap());
    let good = fs::read(&good).unwrap();
    check("cut", good[..4096].to_vec());
    let mut headless = good.clone();
    headless[..4096].fill(0xff);
    check("headless", headless);
}

#[test]
fn damage_anywhere_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    drop(EmbeddedStore::open(&path).unwrap());
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(4099) {
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&good).unwrap();
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[0xa5; 64]).unwrap();
        drop(file);
        drop(EmbeddedStore::open(&path));
    }
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    let store = EmbeddedStore::open(&path).unwrap();
    let stands = store.load(&Key::format()).await.unwrap().unwrap();
    store.compare_and_set(&Key::format(), Some(stands.revision), b"2").await.unwrap();
    drop(store);
    assert_eq!(refusal(&path), StoreError::NewerFormat { place: "format".to_owned(), found: 2, known: 1 });
}

#[tokio::test]
async fn a_failed_or_panicking_transaction_is_followed_by_a_fresh_opening() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(&folder.path().join("s.redb")).unwrap());
    let key = Key::generator("a.b");
    create(&store, &key, b"1").await;
    let failed: Result<(), _> = store.run(None, |_| Err(redb::StorageError::PreviousIo.into())).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })), "{failed:?}");
    assert_eq!(store.load(&key).await.unwrap().unwrap().value, b"1");
    let panicked: Result<(), _> = store.run(Some(&key), |_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::UnknownOutcome { .. })), "{panicked:?}");
    assert_eq!(store.load(&key).await.unwrap().unwrap().value, b"1");
    assert!(matches!(refusal(&folder.path().join("s.redb")), StoreError::InUse { .. }));
}
