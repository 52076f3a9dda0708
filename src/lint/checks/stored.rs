//! The store: what it holds of the generators, and whether it can be relied on.

use std::collections::BTreeMap;

use crate::lint::finding::{Code, Finding, Where};
use crate::lint::store_facts::{Denied, StoreKind};
use crate::lint::survey::Survey;
use crate::rules::model::{GeneratorKind, GeneratorSpec};
use crate::schema::facts::ServerFacts;
use crate::store::{GeneratorRecord, SuspectRecord};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let store = survey.store;
    match &store.generators {
        Err(why) => {
            let remedy = match store.kind {
                StoreKind::Embedded => {
                    "run SHOW FINDINGS on the console of the proxy, or stop the proxy and check again"
                }
                StoreKind::Etcd | StoreKind::Mysql => {
                    "make the store reachable from this machine, and check again"
                }
            };
            let why = format!(
                "the bounds in the store were not read, and the ids in the tables are not compared with them: {why}"
            );
            found.push(Finding::note(Code::StoreUnread, Where::object("store"), why, remedy));
        }
        Ok(stored) => found.extend(survey.rules.generators().filter_map(|spec| {
            let record = stored.get(&spec.name.to_string())?;
            differs(spec, record)
        })),
    }
    if let Some(SuspectRecord { by, since, reason, .. }) = &store.suspect {
        let why = format!(
            "{by} suspects since {since} that the store holds older data than before ({reason}): no proxy issues ids"
        );
        let remedy = "rowstamp store raise --settle";
        found.push(Finding::error(Code::StoreSuspected, Where::object("store"), why, remedy));
    }
    found.extend(store.denied.as_ref().map(denied));
    if let Some(server) = &store.server {
        found.extend(replication(server));
        found.extend(durability(server));
    }
}

fn differs(spec: &GeneratorSpec, record: &GeneratorRecord) -> Option<Finding> {
    let place = Where::object(&spec.name).at(&spec.origin);
    let differs = |what: &str, stored: &str, written: &str| {
        let why = format!(
            "the store has the generator with {what} {stored}, but the rule says {written}: the generator is not opened"
        );
        let remedy = format!("write the {what} that the store has, or give the generator another name");
        Some(Finding::error(Code::GeneratorDiffers, place.clone(), why, remedy))
    };
    let kind = match &spec.kind {
        GeneratorKind::Sequence(_) => "sequence",
        GeneratorKind::Timestamp(_) => "timestamp",
    };
    if record.kind != kind {
        return differs("kind", &record.kind, kind);
    }
    let GeneratorKind::Timestamp(timestamp) = &spec.kind else { return None };
    let (stored, written) = (record.layout.as_deref()?, timestamp.layout.to_string());
    if stored == written { None } else { differs("layout", stored, &written) }
}

fn denied(denied: &Denied) -> Finding {
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for need in &denied.needs {
        tables.entry(&need.table).or_default().push(need.right);
    }
    let (user, host) = denied.account.rsplit_once('@').unwrap_or((&denied.account, "%"));
    let account = format!("'{user}'@'{host}'");
    let lacks = tables.iter().map(|(table, rights)| format!("{} on {table}", rights.join(", ")));
    let lacks = lacks.collect::<Vec<_>>().join("; ");
    let why = format!("the store's account {account} lacks {lacks}: Rowstamp cannot keep its bounds there");
    // A table that is not there is granted on with CREATE alone.
    let grants = tables.iter().map(|(table, rights)| {
        let all = ["CREATE", "SELECT", "INSERT", "UPDATE"];
        let rights = if rights.contains(&"CREATE") { all.join(", ") } else { rights.join(", ") };
        format!("GRANT {rights} ON {table} TO {account}")
    });
    Finding::error(Code::StoreDenied, Where::object("store"), why, grants.collect::<Vec<_>>().join("; "))
}

/// Bounds that a failover takes back are ids that come twice.
fn replication(server: &ServerFacts) -> Option<Finding> {
    let is_alone = !server.is_on("log_bin") && server.replicas == 0;
    if is_alone || server.is_cluster() || server.waits_for_replica() {
        return None;
    }
    let who = match server.replicas {
        0 => "the binary log of the store's server is on".to_owned(),
        1 => "1 replica is connected".to_owned(),
        n => format!("{n} replicas are connected"),
    };
    let is_enabled =
        ["master", "source"].iter().any(|role| server.is_on(&format!("rpl_semi_sync_{role}_enabled")));
    let why = if is_enabled {
        format!("{who}, and semi-synchronous replication is on but not active: no replica acknowledges")
    } else {
        format!("{who}, and a commit waits for no replica")
    };
    let why = format!(
        "{why}: after a failover to a replica that lacks the last bounds, Rowstamp may issue ids a second time"
    );
    let remedy = "switch on semi-synchronous replication, use etcd, or after each failover stop all proxies and run rowstamp \
                  store raise --settle";
    Some(Finding::warning(Code::StoreAsync, Where::object("store"), why, remedy))
}

fn durability(server: &ServerFacts) -> Option<Finding> {
    let flush = server.variable("innodb_flush_log_at_trx_commit");
    (flush != "1" && !flush.is_empty()).then(|| {
        let why = format!("innodb_flush_log_at_trx_commit = {flush}: in a crash, the store's server can lose bounds that it has confirmed");
        let remedy = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
        Finding::warning(Code::StoreNotDurable, Where::object("store"), why, remedy)
    })
}
