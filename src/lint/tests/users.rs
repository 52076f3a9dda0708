//! Users and their rights.

use std::sync::Arc;

use super::{Case, Code, Severity};
use crate::lint::{Access, Finding, StoreFacts, StoreKind, findings};
use crate::rules::RuleSet;
use crate::store::{Key, Revision, Versioned};
use crate::users::{Role, User};

/// Users in the store, each with its record, beside one user of rowstamp.toml with this role.
struct Users {
    of_store: Vec<(&'static str, &'static str)>,
    of_file: Role,
    doors: Vec<String>,
    /// The mode of the rule whose table has the only generator.
    mode: &'static str,
}

impl Users {
    fn new(of_store: &[(&'static str, &'static str)]) -> Self {
        let doors = vec!["127.0.0.1:6379".to_owned()];
        Users { of_store: of_store.to_vec(), of_file: Role::Write, doors, mode: "on" }
    }

    fn found(&self) -> Vec<Finding> {
        let records = self.of_store.iter().map(|(name, json)| {
            let json = format!("{{\"change\":\"c\",{json}}}");
            let json = if json.contains("\"v\"") { json } else { json.replacen('{', "{\"v\":1,", 1) };
            (Key::user(name), Versioned { revision: Revision(1), value: json.into_bytes() })
        });
        let store = StoreFacts::of(StoreKind::Etcd, &records.collect::<Vec<_>>());
        let dba = User::of_file("dba", "x".to_owned().into(), self.of_file);
        let access = Access { users: [Arc::new(dba)].into(), doors: self.doors.clone() };
        let case = Case::new().more_rules(&format!("mode = '{}'\n", self.mode));
        findings(&case.facts, &RuleSet::of_text(&case.rules), &store, Some(&access))
    }

    #[track_caller]
    fn check(&self, code: Code, expect: Option<(Severity, &str)>) {
        let all = self.found();
        let found = all.iter().find(|finding| finding.code == code);
        assert_eq!(found.map(|one| one.severity), expect.map(|(severity, _)| severity), "{code}: {all:#?}");
        if let (Some(found), Some((_, expect))) = (found, expect) {
            let text = format!(
                "{}: {}\n{}",
                found.place.object.clone().unwrap_or_default(),
                found.why,
                found.remedy
            );
            assert!(text.contains(expect) && !text.contains("c4nary"), "{text}");
        }
    }
}

/// With one right, and a password to come in by.
macro_rules! granted {
    ($right:literal, $on:literal) => {
        concat!(r#""password":"$argon2id$x","grants":[{"right":""#, $right, r#"","on":""#, $on, r#""}]"#)
    };
}

#[test]
fn records_that_cannot_be_read() {
    for (json, expect) in [
        (
            r#""grants":"c4nary""#,
            "user app: the record in the store cannot be read, so the user has no rights and cannot log in: line 1, column 37 of the record is \
             not as a user has it\nDROP USER app on the console, and make the user again",
        ),
        (
            r#""v":2"#,
            "users/app has format 2, and this version of Rowstamp reads formats up to 1; run the version that wrote",
        ),
    ] {
        Users::new(&[("app", json)]).check(Code::UserUnreadable, Some((Severity::Error, expect)));
    }
    Users::new(&[("app", granted!("TAKE", "shop.g"))]).check(Code::UserUnreadable, None);
}

#[test]
fn users_of_both() {
    let users = Users::new(&[("dba", granted!("TAKE", "shop.g"))]);
    users.check(Code::UserTwice, Some((Severity::Warning, "give the user of [[admin.users]] another name")));
    Users::new(&[("app", granted!("TAKE", "shop.g"))]).check(Code::UserTwice, None);
    Users::new(&[("dba", r#""dropped":true"#)]).check(Code::UserTwice, None);
}

#[test]
fn rights_on_what_is_not_there() {
    for (grant, expect) in [
        (
            granted!("TAKE", "shop.h"),
            "user app: the user has TAKE on shop.h, and the rules have no such generator\n\
             if shop.g is meant, GRANT the rights on it, and REVOKE those on shop.h",
        ),
        (
            granted!("READ", "shops.*"),
            "the user has READ on shops.*, and the rules have no generator of shops\nREVOKE the rights, unless",
        ),
        (granted!("READ", "blog.posts"), "no such generator\nREVOKE the rights, unless"),
        (
            r#""grants":[{"right":"TAKE","on":"shop.h"},{"right":"READ","on":"shop.h"},{"right":"CREATE","on":"shop.h"}]"#,
            "the user has TAKE, READ on shop.h",
        ),
    ] {
        Users::new(&[("app", grant)]).check(Code::GrantUnmatched, Some((Severity::Note, expect)));
    }
    for grant in [
        granted!("TAKE", "shop.g"),
        granted!("TAKE", "shop.*"),
        granted!("READ", "*.*"),
        granted!("CREATE", "shop.h"),
    ] {
        Users::new(&[("app", grant)]).check(Code::GrantUnmatched, None);
    }
}

#[test]
fn doors_at_which_nobody_draws() {
    let lone =
        |of_store: &[(&'static str, &'static str)]| Users { of_file: Role::Read, ..Users::new(of_store) };
    let says = "clients that connect to 127.0.0.1:6379 get none\nwrite a user with role = \"write\" into [[admin.users]]";
    for of_store in [
        &[][..],
        &[("app", granted!("READ", "*.*"))],
        &[("app", granted!("TAKE", "shop.h"))],
        // Without a password or a token.
        &[("app", r#""grants":[{"right":"TAKE","on":"*.*"}]"#)],
    ] {
        lone(of_store).check(Code::NobodyDraws, Some((Severity::Warning, says)));
    }
    lone(&[("app", granted!("TAKE", "shop.*"))]).check(Code::NobodyDraws, None);
    Users::new(&[]).check(Code::NobodyDraws, None);
    Users { doors: Vec::new(), ..lone(&[]) }.check(Code::NobodyDraws, None);
    // There is nothing to draw from: no user is missing.
    Users { mode: "shadow", ..lone(&[]) }.check(Code::NobodyDraws, None);
}
