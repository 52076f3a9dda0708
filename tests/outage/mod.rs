//! An outage as clients of a load balancer see it. HAProxy stands in front of two proxies, and asks each for
//! `/readyz` (docs/load-balancers.md). The proxies use a MariaDB primary and its replica, and etcd. Readers
//! run SELECTs all the time, on sessions that they keep and on new ones. Then one after the other: etcd is
//! frozen, a table is used up, the primary is switched, a proxy is killed.
//!
//! While etcd is frozen and after a table is used up nothing may be seen: no session ends, no connection is refused, and
//! HAProxy marks no proxy down. Where a session's server or proxy dies, the session ends; its SELECT must have its answer on the
//! next one.
//!
//! `ROWSTAMP_OUTAGE_SECONDS` says how long etcd is frozen (tests/outage.sh: 60).
//!
//! * [`balancer`] is HAProxy.
//! * [`readers`] has who runs SELECTs, and what became of them.

mod balancer;
mod readers;

use std::thread;
use std::time::{Duration, Instant};

use crate::failover::pair::Pair;
use crate::support::etcd::Version;
use crate::support::machine::free_port;
use crate::support::raw::Client;
use crate::support::servers::announce;
use crate::support::told;
use crate::support::wait::wait_until;
use crate::support::{Etcd, Proxy, proxy};
use balancer::Balancer;
use readers::{Readers, Seen};

const RULES: &str = r#"
schema = "drill"

[generators.ruled]
kind = "sequence"
batch = 100

[generators.tiny]
kind = "sequence"
batch = 10

[tables.ruled]
column = "id"
generator = "ruled"

[tables.tiny]
column = "id"
generator = "tiny"
"#;

/// Several looks of HAProxy's.
const LOOKS: Duration = Duration::from_secs(3);
const NO_ID: u16 = 1467;

struct Member {
    proxy: Proxy,
    http: u16,
}

fn member(name: &str, pair: &Pair, etcd: &Etcd) -> Member {
    let (port, http) = (free_port(), free_port());
    let both = format!("[\"{}\", \"{}\"]", pair.primary.address(), pair.replica.address());
    let config = proxy::config("BACKENDS")
        .replace("\"BACKENDS\"", &both)
        .replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))
        .replace("address = \"off\"", &format!("address = \"127.0.0.1:{http}\""));
    let store = format!(
        "[store]\nkind = \"etcd\"\nendpoints = {}\n\n[proxy]\nname = \"{name}\"\n",
        etcd.endpoints_toml()
    );
    Member { proxy: Proxy::start(&(config + &store), &[("rules", RULES)]), http }
}

/// The error of an INSERT into `table` through the load balancer; 0 where there is none.
fn insert(client: &mut Client, table: &str) -> u16 {
    let outcomes = client.query(format!("INSERT INTO drill.{table} (token) VALUES (1)"));
    outcomes.map_or(u16::MAX, |outcomes| outcomes[0].err().map_or(0, |error| error.code))
}

/// Until rows get ids again, on new sessions.
#[track_caller]
fn wait_for_ids(balancer: &Balancer, when: &str) -> Duration {
    let begun = Instant::now();
    wait_until(
        || format!("{when}: no INSERT succeeds"),
        || balancer.client().is_some_and(|mut client| insert(&mut client, "ruled") == 0),
    );
    begun.elapsed()
}

/// Nothing was seen of it.
#[track_caller]
fn check_quiet(what: &str, seen: &Seen, balancer: &Balancer) {
    announce(&format!("{what}: {seen}"));
    assert_eq!((seen.broken, seen.refused, seen.lost), (0, 0, 0), "{what}: {seen}");
    assert!(seen.answered > 100, "{what}: {seen}");
    assert_eq!(balancer.marked_down(), 0, "{what}: HAProxy has marked a proxy down");
}

/// Sessions ended, and no SELECT was lost.
#[track_caller]
fn check_none_lost(what: &str, seen: &Seen) {
    announce(&format!("{what}: {seen}"));
    assert_eq!(seen.lost, 0, "{what}: {seen}");
    assert!(seen.broken > 0, "{what}: no session ended, so nothing was tried: {seen}");
    assert!(seen.answered > 100, "{what}: {seen}");
}

#[test]
fn an_outage_loses_no_select() {
    let Some(mut pair) = Pair::start() else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    if !Balancer::is_here() {
        return;
    }
    let frozen = Duration::from_secs(told::number("ROWSTAMP_OUTAGE_SECONDS").unwrap_or(5));
    let mut direct = pair.primary.client();
    direct.run("CREATE TABLE drill.tiny (id TINYINT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)");
    direct.run("INSERT INTO drill.tiny VALUES (100, 1)");
    let mut members = [member("p1", &pair, &etcd), member("p2", &pair, &etcd)];
    let balancer = Balancer::start(&members.each_ref().map(|member| (member.proxy.port, member.http)));
    // A proxy that has issued nothing yet has nothing in reserve.
    for member in &members {
        assert_eq!(insert(&mut member.proxy.client(), "ruled"), 0);
    }
    thread::sleep(LOOKS);
    let readers = Readers::start(&balancer.address());
    thread::sleep(LOOKS);
    check_quiet("before", &readers.take(), &balancer);

    etcd.signal(0, "STOP");
    let begun = Instant::now();
    let mut client = balancer.client().expect("a session");
    let (mut stored, mut refused) = (0, 0);
    while begun.elapsed() < frozen {
        match insert(&mut client, "ruled") {
            0 => stored += 1,
            NO_ID => refused += 1,
            code => panic!("etcd frozen: error {code}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(stored > 0 && refused > 0, "of the reserve {stored}, then {refused} refused");
    check_quiet(&format!("etcd frozen for {frozen:?}"), &readers.take(), &balancer);
    etcd.signal(0, "CONT");
    let back = wait_for_ids(&balancer, "etcd is back");
    announce(&format!("INSERTs succeed {back:?} after etcd is back"));

    wait_until(|| "the table is not used up".to_owned(), || insert(&mut client, "tiny") == NO_ID);
    thread::sleep(LOOKS);
    check_quiet("a table used up", &readers.take(), &balancer);

    // A planned switch: nobody writes, the replica has everything.
    pair.primary.client().run("SET GLOBAL read_only = 1");
    pair.wait_until_replicated();
    pair.promote();
    pair.primary.kill();
    let back = wait_for_ids(&balancer, "the primary is switched");
    announce(&format!("INSERTs succeed {back:?} after the primary is switched"));
    thread::sleep(LOOKS);
    check_none_lost("the primary switched", &readers.take());

    let [first, _] = &mut members;
    first.proxy.kill();
    thread::sleep(LOOKS);
    check_none_lost("a proxy killed", &readers.take());
    assert!(balancer.marked_down() > 0, "HAProxy has not seen that the proxy is gone");
    wait_for_ids(&balancer, "a proxy killed");
    first.proxy.restart();
    balancer.wait_until_all_up();
    check_back(&readers.take());

    let rows = pair.replica.client().run("SELECT COUNT(*) FROM drill.ruled WHERE id = 0");
    assert_eq!(rows[0].cell(0, 0).as_deref(), Some("0"));
}

/// A proxy that comes back disturbs nobody.
#[track_caller]
fn check_back(seen: &Seen) {
    announce(&format!("the proxy is back: {seen}"));
    assert_eq!((seen.broken, seen.lost), (0, 0), "{seen}");
}
