//! The server's settings that ids and INSERTs depend on.

use std::time::Duration;

use crate::ids::timestamp::check::APART_MAX;
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::Survey;
use crate::rules::model::GeneratorKind;
use crate::schema::facts::ServerFacts;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    if survey.rules.is_empty() {
        return;
    }
    let server = &survey.facts.server;
    if server.is_on("log_bin") && server.variable("binlog_format").eq_ignore_ascii_case("STATEMENT") {
        let why = "INSERT ... SELECT and LOAD into ruled tables, and expressions as ids, are refused while statements are logged: a replica \
                   may number the rows differently";
        let remedy = "SET GLOBAL binlog_format = ROW (or MIXED)";
        found.push(Finding::warning(Code::BinlogStatement, Where::object("binlog_format"), why, remedy));
    }
    if let Some(variable) =
        ["super_read_only", "read_only", "innodb_read_only"].into_iter().find(|name| server.is_on(name))
    {
        let why = format!(
            "{variable} is set: the server takes no INSERTs, and what was read of it may lag behind its primary"
        );
        let remedy = "name the primary first in backend.address, or check again when it takes writes";
        found.push(Finding::warning(Code::ServerReadOnly, Where::object(variable), why, remedy));
    }
    if server.shares_connections {
        let why = "sessions share connections behind MySQL Router, which refuses LAST_INSERT_ID() in texts (error 3566): INSERT ... SELECT \
                   and LOAD into ruled tables, expressions as ids, and ON DUPLICATE KEY UPDATE of one row without AUTO_INCREMENT, are refused unless they are prepared";
        let remedy = "connection_sharing = 0 in the Router's configuration, if applications need these";
        found.push(Finding::warning(
            Code::ConnectionsShared,
            Where::object("connection_sharing"),
            why,
            remedy,
        ));
    }
    found.extend(clock(survey));
}

/// `wanted`: the algorithms that `backend.compression` names.
pub fn compression(server: &ServerFacts, wanted: &[&str]) -> Option<Finding> {
    if wanted.is_empty() || wanted.iter().any(|algorithm| server.offers_compression(algorithm)) {
        return None;
    }
    let why =
        format!("the server does not offer {}: connections to it are not compressed", wanted.join(" or "));
    let remedy = "MariaDB has zlib; for MySQL set protocol_compression_algorithms; or set backend.compression = \"off\"";
    let place = Where::object("backend.compression");
    Some(Finding::warning(Code::CompressionUnoffered, place, why, remedy))
}

/// `holder`: the connection that holds a table's lock and is no proxy of the store, and its user and host where they are seen.
pub fn lock_held(table: Where, holder: Option<(u64, Option<&str>)>) -> Option<Finding> {
    let (connection, user) = holder?;
    let user = user.map(|user| format!(", of {user},")).unwrap_or_default();
    let why = format!(
        "connection {connection}{user} holds the lock that keeps other stores' proxies off, and is no proxy of this store: proxies with \
         these rules do not start, or refuse INSERTs"
    );
    let remedy = format!(
        "stop that proxy, or let it share this store; if it is no proxy (any account may take a lock), KILL {connection} on the server"
    );
    Some(Finding::error(Code::LockHeld, table, why, remedy))
}

/// As a start compares them.
fn clock(survey: &Survey<'_>) -> Option<Finding> {
    let (ours, theirs) = survey.facts.clocks?;
    let is_timestamp = |kind: &GeneratorKind| matches!(kind, GeneratorKind::Timestamp(_));
    survey.rules.generators().find(|spec| is_timestamp(&spec.kind))?;
    let apart = Duration::from_micros(ours.micros().abs_diff(theirs.micros()));
    (apart > APART_MAX).then(|| {
        let why = format!(
            "this machine says {ours}, and the backend {theirs}: a proxy that starts here answers statements that need \
             timestamp ids with 1467"
        );
        let remedy = "set the clock that is wrong; where it is the backend's, rowstamp serve --trust-clock";
        Finding::error(Code::ClockApart, Where::object("UTC_TIMESTAMP()"), why, remedy)
    })
}
