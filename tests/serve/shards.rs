//! Shards: two servers, a proxy in front of each, and one store.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::fleet::{config, eight_writers, rules};
use crate::rig::{make, rows, server};
use crate::support::etcd::{Etcd, Version};
use crate::support::proxy::binary;
use crate::support::{Kind, Proxy, Server};

const DB: &str = "shards";

fn ids(server: &Server) -> BTreeSet<u64> {
    let all = rows(&mut server.client(), &format!("SELECT id FROM {DB}.t"));
    all.split(|c: char| !c.is_ascii_digit()).filter_map(|id| id.parse().ok()).collect()
}

/// A command over both servers, in the folder of a proxy.
#[track_caller]
fn migrate(proxy: &Proxy, command: &str, shards: [&Server; 2], expect: &str) {
    let mut line = Command::new(binary());
    line.current_dir(proxy.dir()).args(["migrate", command]);
    for server in shards {
        line.args(["--shard", &server.address()]);
    }
    let output = line.output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && text.contains(expect), "{command}: {text}");
}

/// Follows docs/topologies.md: there are rows before, and a proxy is killed while both write.
#[test]
fn no_id_is_in_two_shards() {
    let (Some(a), Some(b)) = (server(Kind::MariaDb), server(Kind::MySql9)) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(a, DB, "INSERT INTO t VALUES (41, 0)");
    make(b, DB, "INSERT INTO t VALUES (900, 0)");
    let written = |server, name| Proxy::written(&config(server, &etcd, name), &[("rules", &rules(DB, 50))]);
    let mut proxies = [written(a, "pa"), written(b, "pb")];
    migrate(&proxies[0], "seed", [a, b], "shards.g is created at 901");
    for proxy in &mut proxies {
        proxy.try_start().unwrap();
    }
    let (told, _) = eight_writers(&mut proxies, DB, |proxies, ports| {
        for nth in [0, 1] {
            proxies[nth].kill();
            proxies[nth].restart();
            ports[nth].store(proxies[nth].port, Ordering::Relaxed);
        }
    });
    let (in_a, in_b) = (ids(a), ids(b));
    assert!(in_a.is_disjoint(&in_b), "{:?}", in_a.intersection(&in_b));
    let own: BTreeSet<_> = told.into_iter().collect();
    assert!(own.iter().all(|id| in_a.contains(id) != in_b.contains(id)), "each id is in one shard");
    assert!(own.intersection(&in_a).count() > 100 && own.intersection(&in_b).count() > 100, "both write");
    assert!(*own.first().unwrap() > 900, "above the ids of both shards");
    migrate(&proxies[1], "verify", [a, b], "none is double");
}
