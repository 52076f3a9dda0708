//! Rules that change by SIGHUP while sessions live.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, each_with, insert_id, rows};
use crate::support::raw::{Client, Options};
use crate::support::wait::NEVER;
use crate::support::{Proxy, proxy};

/// Rules of `db` with generators `g` (from 1) and `h` (from 1,000,000,001), and these tables.
pub(crate) fn rules(db: &str, keys: &str, tables: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\n{keys}\n[generators.h]\nkind = \"sequence\"\nstart = 1000000001\n"
    );
    for (table, column, generator) in tables {
        let table = format!("[tables.{table}]\ncolumn = \"{column}\"\ngenerator = \"{generator}\"\n");
        text.push_str(&table);
    }
    text
}

/// Stops the writers also where the test fails: the scope waits for them.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Rig {
    #[track_caller]
    pub(crate) fn change(&self, rules: &str) {
        self.proxy.write_rules("rules", rules);
        let (is_in_force, log) = self.proxy.reload();
        assert!(is_in_force, "{}: {log}", self.name());
    }
}

/// A misspelt table would get no ids, and nobody would know.
#[test]
fn a_table_that_is_not_there_is_in_the_log_once() {
    let db = "reload_missing";
    let one = rules(db, "", &[("t", "id", "g"), ("no_such", "id", "g")]);
    each_with(db, "", "", &one, |rig| {
        let told = |rig: &Rig, table: &str| {
            let log = rig.proxy.log();
            log.lines()
                .filter(|line| line.contains("a rule's table is not there") && line.contains(table))
                .count()
        };
        assert_eq!(told(rig, "reload_missing.no_such"), 1, "{}: {}", rig.name(), rig.proxy.log());
        assert_eq!(told(rig, "reload_missing.t "), 0, "{}", rig.name());
        rig.change(&rules(
            db,
            "step = 2",
            &[("t", "id", "g"), ("no_such", "id", "g"), ("neither", "id", "g")],
        ));
        assert_eq!(told(rig, "reload_missing.no_such"), 1, "{}: {}", rig.name(), rig.proxy.log());
        assert_eq!(told(rig, "reload_missing.neither"), 1, "{}: {}", rig.name(), rig.proxy.log());
    });
}

#[test]
fn rules_come_change_and_go() {
    let none = rules("reload_text", "", &[]);
    each_with("reload_text", "ALTER TABLE u ADD PRIMARY KEY(id);", "", &none, |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 1364, "{}: no rule", rig.name());
        client.run("INSERT INTO t VALUES(70,1)");
        rig.change(&rules("reload_text", "", &[("t", "id", "g")]));
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 71, "{}", rig.name());
        // Another generator, one that starts below: above all that the first may have issued.
        rig.change(&rules("reload_text", "", &[("t", "id", "h")]));
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)"), 1_000_000_001, "{}", rig.name());
        rig.change(&rules("reload_text", "", &[("t", "id", "g")]));
        let back = insert_id(&mut client, "INSERT INTO t(a) VALUES(4)");
        assert!(back > 1_000_000_001, "{}: {back}", rig.name());
        // A step: what was reserved is handed back, so that ids go on without a gap.
        rig.change(&rules("reload_text", "step = 10\noffset = 3", &[("t", "id", "g")]));
        assert_eq!(
            insert_id(&mut client, "INSERT INTO t(a) VALUES(5),(6)"),
            (back + 1..back + 11).find(|id| id % 10 == 3).unwrap(),
            "{}",
            rig.name()
        );
        assert_eq!(rows(&mut client, "SELECT MAX(id)-MIN(id) FROM t WHERE a>4"), "10", "{}", rig.name());
        // Another column of another table.
        rig.change(&rules("reload_text", "", &[("u", "a", "g")]));
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(7)"), 1364, "{}: no rule", rig.name());
        let other = insert_id(&mut client, "INSERT INTO u(id) VALUES(1)");
        assert_eq!(rows(&mut client, "SELECT a FROM u"), other.to_string(), "{}", rig.name());
        rig.change(&rules("reload_text", "", &[("u", "id", "g")]));
        assert_eq!(insert_id(&mut client, "INSERT INTO u(a) VALUES(9)"), other + 1, "{}", rig.name());
    });
}

#[test]
fn a_bad_file_changes_nothing() {
    let good = rules("reload_bad", "", &[("t", "id", "g")]);
    each_with("reload_bad", "", "", &good, |rig| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (stop, this) = (&stop, &*rig);
            let stopping = Stop(stop);
            let writer = scope.spawn(move || {
                let mut client = this.client();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    assert_eq!(
                        code(&mut client, format!("INSERT INTO t(a) VALUES({count})")),
                        0,
                        "{}",
                        this.name()
                    );
                }
                count
            });
            let two = "schema = \"reload_bad\"\n[generators.g]\nkind = \"sequence\"\nstepp = 2\n\n[tables.t]\ncolumn = 1\n";
            for (bad, expect) in [
                (two, &["rules.toml:4: generators.g.stepp", "rules.toml:7: tables.t.column"][..]),
                ("schema = ", &["rules.toml:1"]),
                (&good.replace("[generators.h]", "[generators.h"), &["rules.toml:5"]),
                (
                    &rules("reload_bad", "", &[("t", "id", "x")]),
                    &["rules.toml:10: tables.t.generator", "no generator"],
                ),
                // Only the tables tell this: an INT column holds no id so high.
                (
                    &rules("reload_bad", "start = 3000000000", &[("t", "a", "g")]),
                    &["rules.toml:2: ", "no id from start = 3000000000"],
                ),
            ] {
                this.proxy.write_rules("rules", bad);
                let (is_in_force, log) = this.proxy.reload();
                assert!(!is_in_force, "{}: {log}", this.name());
                for part in expect {
                    assert!(log.contains(part), "{}: {part} in {log}", this.name());
                }
            }
            std::fs::write(this.proxy.dir().join("rowstamp.toml"), "[listen]\nadress = 1\n").unwrap();
            let (is_in_force, log) = this.proxy.reload();
            assert!(!is_in_force && log.contains("rowstamp.toml:2: listen.adress"), "{log}");
            drop(stopping);
            let count = writer.join().unwrap();
            let mut client = this.client();
            assert_eq!(rows(&mut client, "SELECT COUNT(*)-MAX(id), COUNT(*) FROM t"), format!("0,{count}"));
        });
    });
}

#[test]
fn settings_of_later_sessions() {
    let rules = rules("reload_settings", "", &[("t", "id", "g")]);
    each_with("reload_settings", "", "", &rules, |rig| {
        let write = |more: &str| {
            let config = format!("{}{more}", proxy::config(&rig.server.address()));
            std::fs::write(rig.proxy.dir().join("rowstamp.toml"), config).unwrap();
        };
        let mut before = rig.client();
        write(
            "[limits]\nconnections = 1\nstatement_bytes = \"2KiB\"\n[log]\nlevel = \"debug\"\n[store]\npath = \"other\"\n",
        );
        let (is_in_force, log) = rig.proxy.reload();
        assert!(is_in_force && log.contains("store.* has changed"), "{log}");
        assert!(Client::connect(&rig.proxy.address(), &Options::default()).is_err(), "{}", rig.name());
        let too_long = format!("INSERT INTO t(a) VALUES(1)/*{}*/", "x".repeat(100_000));
        assert_eq!(code(&mut before, &too_long), 0, "{}: the limits that it began with", rig.name());
        before.quit().unwrap();
        let end = Instant::now() + NEVER;
        let mut after = loop {
            match Client::connect(
                &rig.proxy.address(),
                &Options { database: Some(rig.db.clone()), ..Options::default() },
            ) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        };
        assert_eq!(code(&mut after, &too_long), 1153, "{}", rig.name());
        after.quit().unwrap();
        assert!(rig.proxy.log().contains("DEBUG"), "{}", rig.name());
        assert!(!rig.proxy.dir().join("other").exists());
    });
}

#[test]
fn a_lock_is_given_up_with_its_rule() {
    let rules_of_t = rules("reload_lock", "", &[("t", "id", "g")]);
    each_with("reload_lock", "", "", &rules_of_t, |rig| {
        assert_eq!(code(&mut rig.client(), "INSERT INTO t(a) VALUES(1)"), 0);
        rig.change(&rules("reload_lock", "", &[]));
        rig.wait_until("its lock is not given up", || rig.proxy.log().contains("its lock is given up"));
        // Now it is another proxy's.
        let other = Proxy::start(&proxy::config(&rig.server.address()), &[("rules", &rules_of_t)]);
        assert!(
            insert_id(&mut other.client(), "INSERT INTO reload_lock.t(a) VALUES(2)") > 1,
            "{}",
            rig.name()
        );
        rig.proxy.write_rules("rules", &rules_of_t);
        let (is_in_force, log) = rig.proxy.reload();
        assert!(!is_in_force && log.contains("held by another Rowstamp"), "{}: {log}", rig.name());
    });
}

/// Also one that was asked for again and again.
#[test]
fn a_lock_that_was_lost_is_given_up_once() {
    let both = rules("reload_relock", "", &[("t", "id", "g"), ("u", "id", "g")]);
    let of_t = rules("reload_relock", "", &[("t", "id", "g")]);
    let of_u = rules("reload_relock", "", &[("u", "id", "g")]);
    each_with("reload_relock", "ALTER TABLE u ADD PRIMARY KEY(id);", "", &both, |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 0);
        let name = |table| format!("CONCAT('rowstamp.',LEFT(SHA2('reload_relock.{table}',256),32))");
        let holder = rows(&mut direct, &format!("SELECT IS_USED_LOCK({})", name("u")));
        let other_holder = rows(&mut direct, &format!("SELECT IS_USED_LOCK({})", name("t")));
        assert_eq!(holder, other_holder, "{}: one connection has both", rig.name());
        direct.run(format!("KILL {holder}"));
        assert_eq!(rows(&mut direct, &format!("SELECT GET_LOCK({},5)", name("u"))), "1", "{}", rig.name());
        let wait = |what: &str, is: &mut dyn FnMut() -> bool| {
            rig.wait_until(what, is);
        };
        wait("lost", &mut || code(&mut client, "INSERT INTO u(a) VALUES(2)") == 1467);
        // Only the lock of `u` is lost, and it is asked for again and again.
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(2)"), 0, "{}", rig.name());
        std::thread::sleep(Duration::from_secs(2));
        direct.run(format!("DO RELEASE_LOCK({})", name("u")));
        wait("held again", &mut || code(&mut client, "INSERT INTO u(a) VALUES(3)") == 0);
        rig.change(&of_u);
        wait("given up", &mut || rig.proxy.log().contains("its lock is given up"));
        let other = Proxy::start(&proxy::config(&rig.server.address()), &[("rules", &of_t)]);
        wait("another proxy's", &mut || {
            code(&mut other.client(), "INSERT INTO reload_relock.t(a) VALUES(4)") == 0
        });
    });
}
