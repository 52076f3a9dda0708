//! Two proxies on one etcd: what `seed` raises holds for both, and `verify` knows the ids of both.

use std::collections::BTreeSet;
use std::path::Path;

use crate::migrate::bench::Bench;
use crate::support::etcd::Version;
use crate::support::raw::Client;
use crate::support::{Etcd, Kind, Proxy, Server, proxy};

const BATCH: u64 = 100;

fn rules(mode: &str) -> String {
    format!(
        "schema = \"s\"\n[generators.t]\nkind = \"sequence\"\nstep = 2\nbatch = {BATCH}\n\
         [tables.t]\ncolumn = \"id\"\ngenerator = \"t\"\nmode = \"{mode}\"\n"
    )
}

fn insert(client: &mut Client) -> u64 {
    client.run("INSERT INTO s.t (a) VALUES (1)")[0].ok().unwrap().insert_id
}

/// Inserts by all of them in turn; the ids that the first two, who use proxies, were told.
fn all_insert(clients: &mut [Client; 3], rounds: usize) -> [Vec<u64>; 2] {
    let mut told = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (client, ids) in clients.iter_mut().zip(&mut told) {
            ids.push(insert(client));
        }
        assert_eq!(insert(&mut clients[2]) % 2, 1, "the counter's are odd");
    }
    told
}

#[test]
fn two_proxies_obey_what_is_seeded() {
    for kind in Kind::ALL {
        let (Some(server), Some(other)) = (Server::start(kind), Server::start(kind)) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
        for server in [&server, &other] {
            let mut root = server.client();
            root.run("CREATE DATABASE s");
            root.run("CREATE TABLE s.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)");
        }
        other.client().run("INSERT INTO s.t VALUES (70000, 1)");
        let start = |name: &str| {
            let store = format!("[store]\nkind = \"etcd\"\nendpoints = {}\n", etcd.endpoints_toml());
            let config = format!("{}{store}[proxy]\nname = \"{name}\"\n", proxy::config(&server.address()));
            Proxy::start(&config, &[("s", &rules("off"))])
        };
        let proxies = [start("p1"), start("p2")];
        let (bench, folders) = (Bench::new(&server), [proxies[0].dir(), proxies[1].dir()]);
        let both = format!("--shard {} --shard {}", server.address(), other.address());
        let mut direct = server.client();
        insert(&mut direct);
        bench.check(folders[0], "rowstamp migrate sql --step interleave | mysql", 0, &[]);
        direct.quit().unwrap();

        // The rules come on in both; neither has seen the other server.
        bench.check(folders[0], &format!("rowstamp migrate seed {both}"), 0, &["to 70001\n"]);
        for proxy in &proxies {
            proxy.write_rules("s", &rules("on"));
            assert!(proxy.reload().0, "{}", proxy.log());
        }
        let mut clients = [proxies[0].client(), proxies[1].client(), server.client()];
        let told = all_insert(&mut clients, 150);
        let distinct: BTreeSet<u64> = told.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), 300, "{}: none is double", kind.name());
        assert!(
            distinct.iter().all(|id| *id > 70_000 && id % 2 == 0),
            "{}: {:?}",
            kind.name(),
            distinct.first()
        );
        for folder in folders {
            verify(
                &bench,
                folder,
                "--step on",
                0,
                &["300 rows with id % 2 = 0, all below the generator's committed bound"],
            );
        }

        // Raised while both serve: they use up what they have, and go on above.
        other.client().run("INSERT INTO s.t VALUES (500000, 1)");
        let expect = ["raised from ", " to 500001", "p1, p2 may have reserved ids of s.t below"];
        let text = bench.check(folders[1], &format!("rowstamp migrate seed {both}"), 0, &expect);
        let (_, from) = text.split_once("raised from ").unwrap();
        let reserved: u64 = from.split(' ').next().unwrap().parse().unwrap();
        for ids in all_insert(&mut clients, 400) {
            let begins = ids.iter().position(|id| *id > 500_000).expect("its reserve ends");
            let (before, behind) = ids.split_at(begins);
            assert!(before.iter().all(|id| *id < reserved), "{}: {before:?} of {reserved}", kind.name());
            assert!(behind.iter().all(|id| *id > 500_000), "{}", kind.name());
            assert!(before.len() <= 2 * usize::try_from(BATCH).unwrap(), "{}: {}", kind.name(), before.len());
        }

        // All have moved: who writes past the proxies is found, and what both proxies issued is not.
        let highest: u64 = clients[2].run("SELECT MAX(id) FROM s.t")[0].cell(0, 0).unwrap().parse().unwrap();
        let [_, _, mut direct] = clients;
        let mut clients = [proxies[0].client(), proxies[1].client()];
        let above =
            (0..300).map(|nth: usize| insert(&mut clients[nth % 2])).filter(|id| *id > highest).count();
        assert!(above > 0);
        let moved = format!("--step moved --since-id {highest}");
        let all = format!("all {above} rows above {highest} have ids of the generator (");
        for folder in folders {
            verify(&bench, folder, &moved, 0, &[&all, "all below the generator's committed bound"]);
        }
        assert_eq!(insert(&mut direct) % 2, 1);
        verify(&bench, folders[1], &moved, 1, &["1 row above", "a client writes past the proxy"]);
    }
}

#[track_caller]
fn verify(bench: &Bench, folder: &Path, more: &str, code: i32, expect: &[&str]) {
    bench.check(folder, &format!("rowstamp migrate verify {more}"), code, expect);
}
