use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{ChangeError, Directory, LIST_AGE_MAX, StoreUsers};
use crate::store::memory::{Faults, MemoryStore, Moment};
use crate::store::record::encode;
use crate::store::{Key, Outcome, Store, StoreError};
use crate::users::change::{Change, ChangeKind, ChangeRefused, Changed};
use crate::users::rights::{Right, Scope};
use crate::users::throttle::{Throttle, Tried};
use crate::users::turns::Asker;
use crate::users::{Home, Login, Role, User};

fn change(user: &str, what: ChangeKind) -> Change {
    Change { user: user.to_owned(), what }
}

fn create(user: &str) -> Change {
    change(user, ChangeKind::Create { password: Some("s3cret".to_owned().into()), if_not_exists: false })
}

fn grant(user: &str, right: Right, on: &str) -> Change {
    change(user, ChangeKind::Grant { rights: vec![right], on: on.parse().unwrap(), per_second: None })
}

fn revoke(user: &str, right: Right, on: &str) -> Change {
    change(user, ChangeKind::Revoke { rights: vec![right], on: on.parse().unwrap() })
}

/// Each of a proxy of its own, on one store.
fn fleet<const N: usize>(store: &Arc<MemoryStore>) -> [Arc<Directory>; N] {
    std::array::from_fn(|_| Arc::new(Directory::new(store.clone(), &[], Duration::from_mins(10))))
}

/// By a throttle of its own: what was wrong before does not count.
async fn log_in(directory: &Arc<Directory>, name: &str, given: &str) -> Tried<Login> {
    directory.log_in(&Arc::default(), None, name.as_bytes(), given.as_bytes()).await
}

/// The users that a directory's roster has, as text.
fn known(directory: &Directory) -> Vec<String> {
    let text = |user: &Arc<User>| {
        let grants: Vec<_> =
            user.grants().iter().map(|grant| format!("{} {}", grant.right, grant.on)).collect();
        format!("{}: {}", user.name, grants.join(", "))
    };
    directory.roster().users().map(text).collect()
}

#[tokio::test]
async fn what_one_proxy_changes_the_others_know_after_a_look() {
    let store = Arc::new(MemoryStore::new());
    let [here, there] = fleet(&store);
    there.look().await;
    for (change, expect) in [
        (create("app"), "app: "),
        (grant("app", Right::Take, "shop.*"), "app: TAKE shop.*"),
        (revoke("app", Right::Take, "shop.*"), "app: "),
    ] {
        here.change(&change).await.unwrap();
        assert_eq!(known(&here), [expect], "{change:?}");
        there.look().await;
        assert_eq!(known(&there), [expect], "{change:?}");
    }
    there.change(&change("app", ChangeKind::Drop { if_exists: false })).await.unwrap();
    here.look().await;
    assert_eq!((known(&here), known(&there)), (vec![], vec![]));
    // Another of the same name has nothing of the first one.
    here.change(&create("app")).await.unwrap();
    assert_eq!(known(&here), ["app: "]);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_has_changed_nothing_is_read_but_one_record() {
    let [here] = fleet(&Arc::new(MemoryStore::new()));
    here.change(&create("app")).await.unwrap();
    let (roster, listed) = (here.roster(), here.known.lock().listed);
    tokio::time::advance(LIST_AGE_MAX / 2).await;
    here.look().await;
    assert!(Arc::ptr_eq(&roster, &here.roster()), "clients are not looked at again");
    assert_eq!(here.known.lock().listed, listed);
    tokio::time::advance(LIST_AGE_MAX / 2).await;
    here.look().await;
    assert_ne!(here.known.lock().listed, listed);
}

/// A proxy that ended between its two writes has not written `users`.
#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_tells_of_is_found() {
    let store = Arc::new(MemoryStore::new());
    let [here] = fleet(&store);
    here.look().await;
    let record = create("app").of(None, Some("$argon2id$x"), SystemTime::now()).unwrap().0;
    let written = store.compare_and_set(&Key::user("app"), None, &encode(&record)).await;
    assert!(matches!(written, Ok(Outcome::Written(_))));
    here.look().await;
    assert_eq!(known(&here), [""; 0]);
    tokio::time::advance(LIST_AGE_MAX).await;
    here.look().await;
    assert_eq!(known(&here), ["app: "]);
}

/// The change was written, and the store was away before `users` was. The same request again, at any proxy, writes it.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_asked_for_again_is_told() {
    for again_at in [0, 1] {
        // Away as soon as the user's record is written.
        let store = Arc::new(MemoryStore::with_hook(|store, moment, key| {
            if moment == Moment::AfterWrite && *key == Key::user("app") {
                store.set_away(true);
            }
        }));
        let [first, second, third] = fleet(&store);
        let fleet = [&first, &second];
        let untold = first.change(&create("app")).await;
        assert!(matches!(untold, Err(ChangeError::Untold(_))), "{:?}", untold.err());
        store.set_away(false);
        let again = fleet[again_at].change(&create("app")).await;
        assert!(matches!(again, Err(ChangeError::Refused(ChangeRefused::Exists(_)))));
        third.look().await;
        assert_eq!(known(&third), ["app: "], "{again_at}");
        let drop_user = change("app", ChangeKind::Drop { if_exists: true });
        assert!(matches!(first.change(&drop_user).await, Err(ChangeError::Untold(_))));
        store.set_away(false);
        assert!(matches!(fleet[again_at].change(&drop_user).await, Ok(Changed::Nothing)));
        third.look().await;
        assert_eq!(known(&third), [""; 0], "{again_at}");
        // A token that was made is shown.
        first.change(&create("app")).await.map(|_| ()).unwrap_err();
        store.set_away(false);
        let token = first.change(&change("app", ChangeKind::Token { expires: None })).await;
        let Ok(Changed::Token { text, .. }) = token else { panic!("{:?}", token.err()) };
        // The proxy that wrote a change writes `users` at its next look, even without another request.
        store.set_away(false);
        first.look().await;
        third.look().await;
        assert!(matches!(log_in(&third, "app", &text).await, Tried::Right(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away() {
    let store = Arc::new(MemoryStore::new());
    let [here, late] = fleet(&store);
    let dba = Arc::new(User::of_file("dba", "x".to_owned().into(), Role::Write));
    here.set_file(std::slice::from_ref(&dba), Duration::from_mins(10));
    here.change(&create("app")).await.unwrap();
    let app = here.roster().get("app").unwrap().clone();
    store.set_away(true);
    late.look().await;
    assert_eq!(late.roster().store, StoreUsers::NotYet);
    assert!(late.of_sql(b"app").is_err() && late.of_sql(b"nobody").is_err());
    for (minutes, expect) in [(0, StoreUsers::Known), (9, StoreUsers::Known), (2, StoreUsers::Stale)] {
        tokio::time::advance(Duration::from_mins(minutes)).await;
        here.look().await;
        let roster = here.roster();
        let is_known = expect == StoreUsers::Known;
        assert_eq!((roster.store, roster.get("app").is_some()), (expect, is_known), "after {minutes} min");
        assert!(roster.get("dba").is_some(), "the file's are always known");
        assert_eq!(here.of_sql(b"app").is_ok(), is_known);
        assert_eq!(here.of_sql(b"nobody"), Ok(None));
        // The store's user may do nothing that only ADMIN may do once the last look is too old.
        assert_eq!(here.is_current_for(&app), minutes == 0);
        assert!(here.is_current_for(&dba));
    }
    let error = here.change(&create("other")).await.err().unwrap();
    assert!(matches!(error, ChangeError::Store(StoreError::Unavailable { .. })), "{error}");
    store.set_away(false);
    here.look().await;
    assert_eq!(known(&here), ["app: ", "dba: TAKE *.*, READ *.*, CREATE *.*, ADMIN *.*"]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_a_user_who_may_do_nothing() {
    let store = Arc::new(MemoryStore::new());
    let [here] = fleet(&store);
    let damaged = br#"{"v":1,"grants":[{"right":"FLY","on":"*.*"}],"change":"c"}"#;
    store.compare_and_set(&Key::user("bad"), None, damaged).await.unwrap();
    here.change(&create("app")).await.unwrap();
    assert_eq!(known(&here), ["app: ", "bad: "]);
    assert!(here.of_sql(b"bad").is_ok_and(|user| user.is_some()), "calls in SQL are not open to it");
    let error = here.change(&grant("bad", Right::Read, "*.*")).await.err().unwrap().to_string();
    assert!(error.contains("users/bad in the store is damaged: line 1, column "), "{error}");
    assert!(!error.contains("FLY"), "it may be a password's hash: {error}");
    // A user that was dropped can be made again.
    here.change(&change("bad", ChangeKind::Drop { if_exists: false })).await.unwrap();
    here.change(&create("bad")).await.unwrap();
    here.change(&grant("bad", Right::Read, "*.*")).await.unwrap();
    assert_eq!(known(&here), ["app: ", "bad: READ *.*"]);
}

#[tokio::test]
async fn users_of_the_file_are_the_files() {
    let [here] = fleet(&Arc::new(MemoryStore::new()));
    here.change(&create("app")).await.unwrap();
    let own = Arc::new(User::of_file("app", "x".to_owned().into(), Role::Read));
    here.set_file(&[own], Duration::MAX);
    assert_eq!(known(&here), ["app: READ *.*"]);
    let refused = here.change(&grant("app", Right::Take, "*.*")).await;
    assert!(matches!(refused, Err(ChangeError::Refused(ChangeRefused::OfFile(name))) if name == "app"));
    here.set_file(&[], Duration::MAX);
    assert_eq!(known(&here), ["app: "]);
}

/// A count goes by the name: whatever becomes of users, no count falls.
#[tokio::test(start_paused = true)]
async fn what_users_have_drawn_is_counted_on() {
    let store = Arc::new(MemoryStore::new());
    let [here] = fleet(&store);
    let dba = |password: &str| Arc::new(User::of_file("dba", password.to_owned().into(), Role::Write));
    here.set_file(&[dba("x")], Duration::from_mins(1));
    let make = async || {
        here.change(&create("app")).await.unwrap();
        here.change(&grant("app", Right::Take, "shop.*")).await.unwrap();
    };
    make().await;
    let draw = |n: u64| {
        for name in ["app", "dba"] {
            let user = here.roster().get(name).unwrap().clone();
            let grant = user.grant(Right::Take, "shop.x").unwrap();
            here.charge(&user, grant, ("shop.x", n), tokio::time::Instant::now()).unwrap().keep();
            drop(here.charge(&user, grant, ("shop.x", 100), tokio::time::Instant::now()).unwrap());
        }
    };
    let drawn = || -> Vec<_> {
        here.usage().into_iter().map(|(name, usage)| format!("{name} {}", usage.ids())).collect()
    };
    assert_eq!(drawn(), [""; 0]);
    draw(7);
    here.change(&grant("app", Right::Read, "*.*")).await.unwrap();
    here.change(&create("other")).await.unwrap();
    here.set_file(&[dba("y")], Duration::from_mins(1));
    draw(1);
    assert_eq!(drawn(), ["app 8", "dba 8"]);
    here.change(&change("app", ChangeKind::Drop { if_exists: false })).await.unwrap();
    assert_eq!(drawn(), ["app 8", "dba 8"], "it is dropped");
    make().await;
    draw(1);
    assert_eq!(drawn(), ["app 9", "dba 9"], "it was made again");
    store.set_away(true);
    tokio::time::advance(Duration::from_secs(61)).await;
    here.look().await;
    assert_eq!(
        (known(&here), drawn().len(), here.count(Home::Store)),
        (vec!["dba: TAKE *.*, READ *.*, CREATE *.*, ADMIN *.*".to_owned()], 2, 2)
    );
}

#[tokio::test]
async fn logins() {
    let store = Arc::new(MemoryStore::new());
    let [here, late] = fleet(&store);
    let dba = Arc::new(User::of_file("dba", "look".to_owned().into(), Role::Write));
    here.set_file(&[dba], Duration::MAX);
    here.change(&create("app")).await.unwrap();
    let made = here.change(&change("app", ChangeKind::Token { expires: None })).await;
    let Ok(Changed::Token { token, text }) = made else { panic!("no token") };
    here.change(&create("other")).await.unwrap();
    let is_right = async |name: &str, given: &str| match log_in(&here, name, given).await {
        Tried::Right(login) => login.user.name == name,
        Tried::Wrong => false,
        other => panic!("{other:?}"),
    };
    // Twice: first by the slow hash, then as it is remembered.
    for _ in 0..2 {
        for (name, given, expect) in [
            ("app", "s3cret", true),
            ("app", "s3cre", false),
            ("app", "", false),
            ("app", text.as_str(), true),
            ("other", text.as_str(), false),
            ("other", "s3cret", true),
            ("dba", "look", true),
            ("dba", "s3cret", false),
            ("nobody", "s3cret", false),
            ("", "", false),
        ] {
            assert_eq!(is_right(name, given).await, expect, "{name} {given}");
        }
    }
    // The record in the store has no password and no token.
    let json = String::from_utf8(store.load(&Key::user("app")).await.unwrap().unwrap().value).unwrap();
    assert!(!json.contains("s3cret") && !json.contains(text.as_str()), "{json}");
    let Tried::Right(login) = log_in(&here, "app", &text).await else { panic!("no login") };
    here.change(&change("app", ChangeKind::Password("another".to_owned().into()))).await.unwrap();
    assert!(login.as_of(&here.roster()).is_some(), "it came by the token");
    assert!(!is_right("app", "s3cret").await && is_right("app", "another").await);
    here.change(&change("app", ChangeKind::DropToken { id: token.id() })).await.unwrap();
    assert!(login.as_of(&here.roster()).is_none() && !is_right("app", &text).await);
    // A proxy that has not read the store yet cannot say that a password is wrong.
    assert!(matches!(log_in(&late, "app", "another").await, Tried::Unsure));
}

/// A login that is given up leaves its hash to be made, and no other hash is made beside it: each takes 19 MiB.
#[test]
fn hashes_of_logins_that_are_given_up_are_made_one_at_a_time() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let [here] = fleet(&Arc::new(MemoryStore::new()));
        here.change(&create("app")).await.unwrap();
        for name in ["app", "nobody"] {
            // The one thread that could make it is kept busy.
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let throttle = Arc::new(Throttle::default());
            let mut given_up = Box::pin(here.log_in(&throttle, None, name.as_bytes(), b"wrong"));
            assert!(is_pending(given_up.as_mut()).await, "{name}");
            drop(given_up);
            assert!(here.hashes.is_taken(), "{name}");
            drop(go);
            let _ = busy.await;
            drop(here.hashes.next(Asker::Admin).await);
            // The try that was dropped was one like any other.
            assert!(throttle.wait(None, name.as_bytes(), tokio::time::Instant::now()).is_some(), "{name}");
        }
    });
}

/// Polls once; whether it is not done.
async fn is_pending<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_token_ends_at_its_time() {
    let [here] = fleet(&Arc::new(MemoryStore::new()));
    here.change(&change("app", ChangeKind::Create { password: None, if_not_exists: false })).await.unwrap();
    // The store has whole seconds, and so has this time.
    let expires = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 200);
    let made = here.change(&change("app", ChangeKind::Token { expires: Some(expires) })).await;
    let Ok(Changed::Token { text, .. }) = made else { panic!("no token") };
    let Tried::Right(login) = log_in(&here, "app", &text).await else { panic!("no login") };
    let at = |time| login.as_of(&here.known.lock().roster(time)).is_some();
    assert_eq!([at(expires - Duration::from_secs(1)), at(expires)], [true, false]);
}

/// Two proxies change users at once, on a store that loses requests and answers. What was answered with OK is so, and what was
/// refused is not.
#[tokio::test(start_paused = true)]
async fn changes_on_a_store_that_fails() {
    for seed in 0..100 {
        let faults = Faults {
            lost_reply: 200,
            lost_request: 200,
            late_request: 200,
            false_conflict: 100,
            delay: 300,
            delay_max: Duration::from_millis(40),
            ..Faults::default()
        };
        let store = Arc::new(MemoryStore::with_faults(seed, faults));
        let fleet: [_; 2] = fleet(&store);
        let mut random = StdRng::seed_from_u64(seed);
        let mut model: BTreeMap<String, Vec<(Right, Scope)>> = BTreeMap::new();
        for _ in 0..60 {
            let name = ["a", "b", "c"][random.gen_range(0..3)];
            let right = Right::ALL[random.gen_range(0..4)];
            let on = ["*.*", "shop.*", "shop.orders"][random.gen_range(0..3)];
            let what = random.gen_range(0..5);
            let asked = match what {
                0 => change(name, ChangeKind::Create { password: None, if_not_exists: false }),
                1 => change(name, ChangeKind::Drop { if_exists: false }),
                2 | 3 => grant(name, right, on),
                _ => revoke(name, right, on),
            };
            let held = (right, on.parse::<Scope>().unwrap());
            let is_possible = match (what, model.get(name)) {
                (0, stands) => stands.is_none(),
                (1..=3, stands) => stands.is_some(),
                (_, stands) => stands.is_some_and(|grants| grants.contains(&held)),
            };
            let changed = fleet[random.gen_range(0..2)].change(&asked).await;
            match &changed {
                Ok(_) => assert!(is_possible, "seed {seed}: {asked:?}"),
                Err(ChangeError::Refused(_)) => assert!(!is_possible, "seed {seed}: {asked:?}"),
                Err(error) => panic!("seed {seed}: {asked:?}: {error}"),
            }
            if changed.is_ok() {
                match what {
                    0 => drop(model.insert(name.to_owned(), Vec::new())),
                    1 => drop(model.remove(name)),
                    2 | 3 => {
                        let grants = model.get_mut(name).unwrap();
                        grants.retain(|grant| *grant != held);
                        grants.push(held);
                    }
                    _ => model.get_mut(name).unwrap().retain(|grant| *grant != held),
                }
            }
        }
        let expect: Vec<String> = model
            .iter()
            .map(|(name, grants)| {
                let grants: Vec<_> = grants.iter().map(|(right, on)| format!("{right} {on}")).collect();
                format!("{name}: {}", grants.join(", "))
            })
            .collect();
        for directory in &fleet {
            directory.look().await;
            assert_eq!(known(directory), expect, "seed {seed}");
        }
    }
}
