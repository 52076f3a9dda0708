//! The store: what it holds of the generators, and whether it can be relied on.

use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::Survey;
use crate::rules::model::{GeneratorKind, GeneratorSpec};
use crate::schema::facts::ServerFacts;
use crate::store::{GeneratorRecord, SuspectRecord};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let store = survey.store;
    match &store.generators {
        Err(why) => {
            let remedy = "stop the proxy that has it open, or make it reachable from here, and check again";
            let why = format!("its bounds were not read, and the tables' ids are compared with none: {why}");
            found.push(Finding::note(Code::StoreUnread, Where::object("store"), why, remedy));
        }
        Ok(stored) => found.extend(survey.rules.generators().filter_map(|spec| {
            let record = stored.get(&spec.name.to_string())?;
            differs(spec, record)
        })),
    }
    if let Some(SuspectRecord { by, since, reason, .. }) = &store.suspect {
        let why =
            format!("{by} suspects since {since} that the store went back ({reason}): no proxy issues ids");
        let remedy = "rowstamp store raise --settle";
        found.push(Finding::error(Code::StoreSuspected, Where::object("store"), why, remedy));
    }
    if let Some(server) = &store.server {
        found.extend(replication(server));
        found.extend(durability(server));
    }
}

fn differs(spec: &GeneratorSpec, record: &GeneratorRecord) -> Option<Finding> {
    let place = Where::object(&spec.name).at(&spec.origin);
    let differs = |what: &str, stored: &str, written: &str| {
        let why =
            format!("the store has it with {what} {stored}, and the rule says {written}: it is not opened");
        let remedy = "write what the store has, or give the generator another name";
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

/// Bounds that a failover takes back are ids that come twice.
fn replication(server: &ServerFacts) -> Option<Finding> {
    let is_alone = !server.is_on("log_bin") && server.replicas == 0;
    if is_alone || server.is_cluster() || server.waits_for_replica() {
        return None;
    }
    let who = match server.replicas {
        0 => "its binary log is on".to_owned(),
        1 => "1 replica is connected".to_owned(),
        n => format!("{n} replicas are connected"),
    };
    let is_enabled =
        ["master", "source"].iter().any(|role| server.is_on(&format!("rpl_semi_sync_{role}_enabled")));
    let why = if is_enabled {
        format!("{who}, and semi-synchronous replication is on but not active: no replica acknowledges")
    } else {
        format!("{who}, and a commit waits for none")
    };
    let why = format!(
        "{why}: a failover to a replica that lacks the last bounds brings old ones back, and their ids twice"
    );
    let remedy = "switch semi-synchronous replication on, use etcd, or after each failover stop all proxies and run rowstamp \
                  store raise --settle";
    Some(Finding::warning(Code::StoreAsync, Where::object("store"), why, remedy))
}

fn durability(server: &ServerFacts) -> Option<Finding> {
    let flush = server.variable("innodb_flush_log_at_trx_commit");
    (flush != "1" && !flush.is_empty()).then(|| {
        let why = format!("innodb_flush_log_at_trx_commit = {flush}: a crash of the store's server may take back bounds that it answered");
        let remedy = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
        Finding::warning(Code::StoreNotDurable, Where::object("store"), why, remedy)
    })
}
