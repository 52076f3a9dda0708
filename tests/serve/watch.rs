//! `rules.watch`: rules that change by themselves.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::reload::rules;
use crate::rig::{Rig, code, each_with, insert_id, rows};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, Server, proxy};

const ACTIVE: &str = "rules.watch: the files are active";
const REFUSED: &str = "rules.watch: nothing is changed";
/// In which it would have been looked at several times.
const LOOKS: Duration = Duration::from_millis(4500);

impl Rig {
    fn count(&self, line: &str) -> usize {
        self.proxy.log().matches(line).count()
    }

    #[track_caller]
    fn wait_for(&self, line: &str, count: usize) {
        wait_for(&self.proxy, |log| log.matches(line).count() >= count);
        assert_eq!(self.count(line), count, "{}: {}", self.name(), self.proxy.log());
    }

    fn put_rules(&self, text: &str) {
        put(&self.proxy, text);
    }
}

#[track_caller]
fn wait_for(proxy: &Proxy, says: impl Fn(&str) -> bool) {
    wait_until(|| format!("the log does not say it:\n{}", proxy.log()), || says(&proxy.log()));
}

/// Writes the rules like a careful program: whole, by a rename.
fn put(proxy: &Proxy, text: &str) {
    let folder = proxy.dir().join("rules");
    fs::write(folder.join("next"), text).unwrap();
    fs::rename(folder.join("next"), folder.join("rules.toml")).unwrap();
}

#[test]
fn changed_rules_act_and_bad_ones_do_not() {
    let db = "watch_change";
    let [none, by_g, by_h] =
        [vec![], vec![("t", "id", "g")], vec![("t", "id", "h")]].map(|t| rules(db, "", &t));
    each_with(db, "", "", &none, |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 1364, "{}: no rule", rig.name());
        rig.put_rules(&by_g);
        rig.wait_for(ACTIVE, 1);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{}", rig.name());
        // The log says once what is wrong, with file and line, and the last good rules act.
        rig.put_rules(&by_g.replace("[generators.h]", "[generators.h"));
        rig.wait_for(REFUSED, 1);
        assert!(rig.proxy.log().contains("rules.toml:5"), "{}", rig.proxy.log());
        std::thread::sleep(LOOKS);
        assert_eq!((rig.count(REFUSED), rig.count(ACTIVE)), (1, 1), "{}", rig.proxy.log());
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 2, "{}", rig.name());
        rig.put_rules(&by_h);
        rig.wait_for(ACTIVE, 2);
        for told in [
            "table watch_change.t is new: column id",
            "table watch_change.t has changed: generator watch_change.g -> watch_change.h",
        ] {
            assert_eq!(rig.count(&format!("rules.watch: {told}")), 1, "{told}: {}", rig.proxy.log());
        }
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)"), 1_000_000_001, "{}", rig.name());
        // The watch does not read again what SIGHUP has read.
        rig.change(&by_g);
        std::thread::sleep(LOOKS);
        assert_eq!((rig.count(REFUSED), rig.count(ACTIVE)), (1, 2), "{}", rig.proxy.log());
    });
}

/// Every beginning of the file that is read would take a table its ids, or be an error.
#[test]
fn a_file_is_read_once_it_is_written() {
    let db = "watch_slow";
    let before = rules(db, "", &[("t", "id", "g")]);
    each_with(db, "", "", &before, |rig| {
        let after = rules(db, "", &[("u", "id", "g"), ("t", "id", "h")]);
        let is_written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (is_written, this) = (&is_written, &*rig);
            let inserts = scope.spawn(move || {
                let mut client = this.client();
                let mut ids = 0;
                while !is_written.load(Ordering::Relaxed) {
                    ids += 1;
                    let id = insert_id(&mut client, &format!("INSERT INTO t(a) VALUES({ids})"));
                    assert_eq!(id, ids, "{}: the rules from before act", this.name());
                }
            });
            let mut file = fs::File::create(this.proxy.dir().join("rules/rules.toml")).unwrap();
            for piece in after.as_bytes().chunks(2) {
                file.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }
            is_written.store(true, Ordering::Relaxed);
            inserts.join().unwrap();
        });
        let mut client = rig.client();
        rig.wait_for(ACTIVE, 1);
        assert_eq!(rig.count(REFUSED), 0, "{}", rig.proxy.log());
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(-1)"), 1_000_000_001, "{}", rig.name());
    });
}

/// The rules are mounted, and changed, like a Kubernetes ConfigMap.
#[test]
fn a_link_above_the_rules_is_swapped() {
    let db = "watch_link";
    each_with(db, "", "", &rules(db, "", &[]), |rig| {
        let folder = rig.proxy.dir().join("rules");
        for (version, of_t) in [("..1", vec![]), ("..2", vec![("t", "id", "g")])] {
            fs::create_dir(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("rules.toml"), rules(db, "", &of_t)).unwrap();
        }
        let link = |to: &str, at: &str| {
            symlink(to, folder.join("..next")).unwrap();
            fs::rename(folder.join("..next"), folder.join(at)).unwrap();
        };
        link("..1", "..data");
        link("..data/rules.toml", "rules.toml");
        rig.wait_for(ACTIVE, 1);
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 1364, "{}: no rule", rig.name());
        link("..2", "..data");
        rig.wait_for(ACTIVE, 2);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{}", rig.name());
        // A folder that is gone is no reason to serve without rules.
        fs::rename(&folder, rig.proxy.dir().join("gone")).unwrap();
        rig.wait_for(REFUSED, 1);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 2, "{}", rig.name());
    });
}

#[test]
fn nothing_is_watched_where_it_is_switched_off() {
    let db = "watch_off";
    each_with(db, "", "[rules]\nwatch = false\n", &rules(db, "", &[]), |rig| {
        rig.put_rules(&rules(db, "", &[("t", "id", "g")]));
        std::thread::sleep(LOOKS);
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 1364, "{}: no rule", rig.name());
        assert!(rig.proxy.reload().0, "{}", rig.proxy.log());
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "1");
        assert!(!rig.proxy.log().contains("rules.watch"), "{}", rig.proxy.log());
    });
}

/// Nobody has to send a SIGHUP for a backend that was away when the rules changed.
#[test]
fn rules_that_come_while_the_backend_is_away() {
    for kind in Kind::ALL {
        let Some(mut server) = Server::start(kind) else { continue };
        let mut direct = server.client();
        direct.run("CREATE DATABASE d");
        direct.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, a INT)");
        let rules_of = |tables: &[_]| rules("d", "", tables);
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules_of(&[]))]);
        server.kill();
        put(&proxy, &rules_of(&[("t", "id", "g")]));
        wait_for(&proxy, |log| log.contains(REFUSED));
        server.restart();
        wait_for(&proxy, |log| log.contains(ACTIVE));
        assert_eq!(insert_id(&mut proxy.client(), "INSERT INTO d.t(a) VALUES(1)"), 1, "{}", kind.name());
    }
}
