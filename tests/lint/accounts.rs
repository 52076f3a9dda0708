//! What a control account may not see is said.

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

/// What the README grants.
fn all(kind: Kind) -> Vec<&'static str> {
    let routines = match kind {
        Kind::MariaDb => "SELECT ON mysql.proc",
        Kind::MySql9 => "SHOW_ROUTINE ON *.*",
    };
    vec!["SELECT, SHOW VIEW, TRIGGER, EVENT ON shop.*", routines]
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
        rig.differs("schema-missing", &["USAGE ON *.*"], &basic);
        rig.differs("table-missing", &["SELECT ON shop.u"], &basic);
        roles(&mut rig, &all);
        clock(&mut rig, &all);
    }
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
