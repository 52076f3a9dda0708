//! Findings say what a control account may not see.

use crate::lint::rig::{Folder, Found, RULES, TABLE, client};
use crate::support::raw::Client;
use crate::support::{Kind, Server};

const ACCOUNT: &str = "user = 'looker'\npassword = ''";

struct Rig {
    kind: Kind,
    direct: Client,
    folder: Folder,
}

impl Rig {
    /// By an account that has these grants and no others.
    fn with(&mut self, grants: &[&str]) -> Found {
        self.direct
            .run("DROP USER IF EXISTS looker@'127.0.0.1'; CREATE USER looker@'127.0.0.1' IDENTIFIED BY ''");
        for grant in grants {
            self.direct.run(format!("GRANT {grant} TO looker@'127.0.0.1'"));
        }
        self.folder.check()
    }

    #[track_caller]
    fn differs(&mut self, code: &str, shows: &[&str], not: &[&str]) {
        let found = self.with(shows);
        assert!(found.has(code), "{} {code} {shows:?}: {:#}", self.kind.name(), found.0);
        let found = self.with(not);
        assert!(!found.has(code), "{} {code} {not:?}: {:#}", self.kind.name(), found.0);
    }
}

/// The rights that docs/accounts.md and docs/check.md list.
fn all(kind: Kind) -> Vec<&'static str> {
    let routines = match kind {
        Kind::MariaDb => "SELECT ON mysql.proc",
        Kind::MySql9 => "SHOW_ROUTINE ON *.*",
    };
    vec!["SELECT, SHOW VIEW, TRIGGER, EVENT ON shop.*", routines, "SELECT ON mysql.*"]
}

#[test]
fn what_the_account_may_not_see() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let mut direct = client(&server);
        direct.run(format!("CREATE DATABASE shop; USE shop; {TABLE} CREATE TABLE u (a INT)"));
        let folder = Folder::new(&server, ACCOUNT);
        folder.rules("shop", RULES);
        let mut rig = Rig { kind, direct, folder };
        let all = all(kind);
        let found = rig.with(&all);
        assert_eq!(found.0["findings"], serde_json::json!([]), "{}", kind.name());

        rig.direct.run("CREATE VIEW v AS SELECT id, a FROM t; CREATE PROCEDURE p() SELECT 1");
        let basic = ["SELECT, SHOW VIEW ON shop.*"];
        rig.differs("triggers-unseen", &basic, &all);
        rig.differs("events-unseen", &basic, &all);
        rig.differs("routines-unseen", &basic, &all);
        rig.differs("view-unseen", &["SELECT ON shop.*"], &basic);
        rig.differs("body-unseen", &["SELECT, SHOW VIEW, EXECUTE ON shop.*"], &all);
        rig.differs("highest-unread", &["INSERT ON shop.t"], &basic);
        // `serve` does not start with such an account.
        let denied = rig.with(&["INSERT ON shop.t"]).text("highest-unread");
        assert!(denied.starts_with("error") && denied.contains("GRANT SELECT ON `shop`.`t`"), "{denied}");
        rig.differs("column-missing", &["DELETE ON shop.t"], &basic);
        rig.differs("accounts-unseen", &all[..2], &all);
        rig.differs("schema-missing", &["USAGE ON *.*"], &basic);
        rig.differs("table-missing", &["SELECT ON shop.u"], &basic);
        others(&mut rig, &all);
        roles(&mut rig, &all);
        clock(&mut rig, &all);
    }
}

/// Grants of other accounts, of which each case has one.
fn others(rig: &mut Rig, all: &[&str]) {
    let temporary = "GRANT CREATE TEMPORARY TABLES ON `sh%`.* TO other";
    let id = "GRANT INSERT (a, id) ON shop.t TO other";
    let reads = "GRANT SELECT ON shop.t TO other";
    // MySQL asks for the right to what the update list assigns alone.
    let denied_on_mariadb = if rig.kind == Kind::MariaDb { &["account-denied"][..] } else { &[] };
    let role = "CREATE ROLE adds; GRANT INSERT (id) ON shop.t TO adds; GRANT adds TO other";
    for (grants, codes) in [
        (&["GRANT INSERT (a) ON shop.t TO other", temporary, reads][..], &["account-denied"][..]),
        (&[id, temporary, reads], &[]),
        (&["GRANT INSERT (a) ON shop.t TO other", temporary, reads, role], &[]),
        (&[id, temporary, reads, "GRANT UPDATE (a) ON shop.t TO other"], denied_on_mariadb),
        (&[id, reads], &["account-unstaged"]),
        (&[id, temporary], &["account-unstaged"]),
        (&["GRANT INSERT ON *.* TO other"], &["account-unstaged", "account-unstaged"]),
    ] {
        rig.direct.run("DROP ROLE IF EXISTS adds; DROP USER IF EXISTS other; CREATE USER other");
        for grant in grants {
            rig.direct.run(grant);
        }
        let found = rig.with(all);
        assert_eq!(found.codes(), codes, "{} {grants:?}: {:#}", rig.kind.name(), found.0);
        assert!(found.0.to_string().contains("'other'@'%'") != codes.is_empty(), "{:#}", found.0);
    }
    rig.direct.run("DROP USER other; DROP ROLE IF EXISTS adds");
}

/// Rights by a role count too.
fn roles(rig: &mut Rig, all: &[&str]) {
    rig.with(&[]);
    rig.direct.run("CREATE ROLE looks");
    for grant in all {
        rig.direct.run(format!("GRANT {grant} TO looks"));
    }
    rig.direct.run("GRANT looks TO looker@'127.0.0.1'");
    rig.direct.run(match rig.kind {
        Kind::MariaDb => "SET DEFAULT ROLE looks FOR looker@'127.0.0.1'",
        Kind::MySql9 => "SET DEFAULT ROLE looks TO looker@'127.0.0.1'",
    });
    let found = rig.folder.check();
    assert_eq!(found.0["findings"], serde_json::json!([]), "{}", rig.kind.name());
    rig.direct.run("DROP ROLE looks");
}

/// init_connect is for accounts that are not allowed everything.
fn clock(rig: &mut Rig, all: &[&str]) {
    rig.folder.rules("shop", &RULES.replace("'sequence'", "'timestamp'\nlayout = 'js-safe'"));
    assert!(!rig.with(all).has("clock-apart"), "{}", rig.kind.name());
    rig.direct.run("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() - 3600'");
    let found = rig.folder.check();
    assert!(found.text("clock-apart").starts_with("error"), "{}", rig.kind.name());
    // By sequences alone nobody notices.
    rig.folder.rules("shop", RULES);
    assert!(!rig.folder.check().has("clock-apart"), "{}", rig.kind.name());
}
