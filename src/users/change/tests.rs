use std::time::{Duration, SystemTime};

use super::{Change, ChangeKind, Changed};
use crate::users::record::UserRecord;
use crate::users::rights::Right;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn change(user: &str, what: ChangeKind) -> Change {
    Change { user: user.to_owned(), what }
}

fn create(password: Option<&str>) -> ChangeKind {
    ChangeKind::Create { password: password.map(|text| text.to_owned().into()), if_not_exists: false }
}

fn grant(rights: &[Right], on: &str, per_second: Option<u64>) -> ChangeKind {
    ChangeKind::Grant { rights: rights.into(), on: on.parse().unwrap(), per_second }
}

fn revoke(rights: &[Right], on: &str) -> ChangeKind {
    ChangeKind::Revoke { rights: rights.into(), on: on.parse().unwrap() }
}

#[test]
fn what_is_refused_before_anything_is_read() {
    let app = |what| change("app", what);
    for (change, expect) in [
        (change("", create(None)), "\"\" is no name of a user"),
        (change("a b", create(None)), "\"a b\" is no name of a user"),
        (change("é", ChangeKind::Drop { if_exists: true }), "\"é\" is no name of a user"),
        (change(&"x".repeat(65), create(None)), "is no name of a user"),
        (app(create(Some(""))), "a password has 1 to 1024 bytes"),
        (app(ChangeKind::Password("x".repeat(1_025).into())), "a password has 1 to 1024 bytes"),
        (app(ChangeKind::Token { expires: Some(NOW) }), "the time after EXPIRES has passed"),
        (app(grant(&[Right::Take], "*.*", Some(0))), "a LIMIT is at least 1 id PER SECOND"),
        (
            app(grant(&[Right::Take, Right::Read], "*.*", Some(1))),
            "LIMIT is for the right TAKE alone; grant READ",
        ),
    ] {
        let refusal = change.check(NOW).unwrap_err().to_string();
        assert!(refusal.contains(expect), "{change:?}: {refusal}");
    }
    assert_eq!(change("app-1.x_$@Z", create(Some("x"))).check(NOW), Ok(()));
}

/// Each statement with the grants after it, or the refusal.
#[test]
fn from_statement_to_statement() {
    use Right::{Read, Take};
    let mut stands: Option<UserRecord> = None;
    for (what, expect) in [
        (ChangeKind::Password("x".to_owned().into()), Err("there is no user app; SHOW USERS lists all")),
        (ChangeKind::Drop { if_exists: false }, Err("there is no user app; SHOW USERS lists all")),
        (grant(&[Take], "*.*", None), Err("there is no user app; SHOW USERS lists all")),
        (create(Some("x")), Ok("")),
        (create(Some("x")), Err("user app exists already; ALTER USER")),
        (grant(&[Take, Read], "shop.*", None), Ok("TAKE shop.*, READ shop.*")),
        // In the place of the one before.
        (grant(&[Take], "shop.*", Some(9)), Ok("READ shop.*, TAKE shop.* 9")),
        (grant(&[Take], "shop.orders", None), Ok("READ shop.*, TAKE shop.* 9, TAKE shop.orders")),
        (revoke(&[Take], "*.*"), Err("user app has no TAKE right granted ON *.*; SHOW GRANTS FOR app")),
        (revoke(&[Read, Take], "shop.orders"), Err("user app has no READ right granted ON shop.orders")),
        (revoke(&[Take], "shop.*"), Ok("READ shop.*, TAKE shop.orders")),
        (revoke(&[Take], "shop.orders"), Ok("READ shop.*")),
        (
            ChangeKind::DropToken { id: "0a".to_owned() },
            Err("user app has no token 0a; SHOW TOKENS lists all"),
        ),
        (ChangeKind::Drop { if_exists: false }, Ok("dropped")),
    ] {
        let asked = change("app", what);
        let made = asked.of(stands.clone().filter(|record| !record.dropped), Some("hash"), NOW);
        let text = match made {
            Ok((record, Changed::Done)) => {
                let grant = |grant: &crate::users::Grant| {
                    let limit = grant.per_second.map_or_else(String::new, |limit| format!(" {limit}"));
                    format!("{} {}{limit}", grant.right, grant.on)
                };
                let grants: Vec<_> = record.grants.iter().map(grant).collect();
                let text = if record.dropped { "dropped".to_owned() } else { grants.join(", ") };
                stands = Some(record);
                Ok(text)
            }
            Ok(_) => panic!("{asked:?}"),
            Err(refusal) => Err(refusal.to_string()),
        };
        match (&text, expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text, expect, "{asked:?}"),
            (Err(text), Err(expect)) => assert!(text.starts_with(expect), "{asked:?}: {text}"),
            _ => panic!("{asked:?}: {text:?}"),
        }
    }
}

#[test]
fn with_if() {
    let made = |what, stands| change("app", what).of(stands, None, NOW).map(|(_, changed)| changed);
    let there = || Some(UserRecord { password: Some("old".to_owned()), ..UserRecord::new() });
    let create = || ChangeKind::Create { password: None, if_not_exists: true };
    assert!(matches!(made(create(), there()), Ok(Changed::Nothing)));
    assert!(matches!(made(create(), None), Ok(Changed::Done)));
    assert!(matches!(made(ChangeKind::Drop { if_exists: true }, None), Ok(Changed::Nothing)));
    assert!(matches!(made(ChangeKind::Drop { if_exists: true }, there()), Ok(Changed::Done)));
    let dropped = change("app", ChangeKind::Drop { if_exists: false }).of(there(), None, NOW).unwrap().0;
    assert_eq!((dropped.password, dropped.dropped), (None, true), "nothing of it stays");
}

#[test]
fn so_many_and_no_more() {
    let token = |expires| change("app", ChangeKind::Token { expires });
    let mut record = UserRecord::new();
    for _ in 0..100 {
        record = token(Some(NOW + Duration::from_secs(9))).of(Some(record), None, NOW).unwrap().0;
    }
    let full = token(None).of(Some(record.clone()), None, NOW).map(|_| ()).unwrap_err().to_string();
    assert!(full.contains("has 100 tokens, which is the most"), "{full}");
    // Tokens that have expired make room.
    let later = token(None).of(Some(record), None, NOW + Duration::from_secs(9)).unwrap().0;
    assert_eq!(later.tokens.len(), 1);
    let mut record = UserRecord::new();
    for nth in 0..1_000 {
        let asked = change("app", grant(&[Right::Read], &format!("shop.t{nth}"), None));
        record = asked.of(Some(record), None, NOW).unwrap().0;
    }
    let more = change("app", grant(&[Right::Read], "shop.more", None));
    assert!(more.of(Some(record), None, NOW).is_err_and(|full| full.to_string().contains("1000 grants")));
}
