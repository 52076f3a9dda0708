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
        let why = "INSERT ... SELECT and LOAD into tables with a rule, and expressions as ids, are refused while the server logs statements: \
                   a replica may number the rows differently";
        let remedy = "SET GLOBAL binlog_format = ROW (or MIXED)";
        found.push(Finding::warning(Code::BinlogStatement, Where::object("binlog_format"), why, remedy));
    }
    if let Some(variable) =
        ["super_read_only", "read_only", "innodb_read_only"].into_iter().find(|name| server.is_on(name))
    {
        let why = format!(
            "{variable} is set: the server accepts no INSERTs, and its data may be older than its primary's"
        );
        let remedy =
            "name the primary first in backend.address, or check again when the server accepts writes";
        found.push(Finding::warning(Code::ServerReadOnly, Where::object(variable), why, remedy));
    }
    if server.shares_connections {
        let why = "MySQL Router shares connections between sessions, and refuses LAST_INSERT_ID() in texts (error 3566): INSERT ... SELECT \
                   and LOAD into tables with a rule, expressions as ids, and ON DUPLICATE KEY UPDATE of one row without AUTO_INCREMENT are \
                   refused unless they are prepared";
        let remedy = "if applications need these statements, write connection_sharing = 0 in the Router's configuration";
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
    let why = format!(
        "the server does not offer {}: connections to the server are not compressed",
        wanted.join(" or ")
    );
    let remedy = "MariaDB offers zlib; in MySQL, set protocol_compression_algorithms; or write backend.compression = \"off\"";
    let place = Where::object("backend.compression");
    Some(Finding::warning(Code::CompressionUnoffered, place, why, remedy))
}

/// `holder`: the connection that holds a table's lock and is no proxy of the store, and its user and host where they are seen.
pub fn lock_held(table: Where, holder: Option<(u64, Option<&str>)>) -> Option<Finding> {
    let (connection, user) = holder?;
    let user = user.map(|user| format!(", of {user},")).unwrap_or_default();
    let why = format!(
        "connection {connection}{user} holds the table's lock, and is no proxy of this store: proxies with these rules do not start, or \
         refuse INSERTs"
    );
    let remedy = format!(
        "if that connection is a proxy's, stop the proxy, or let it use this store; else (any account can take a lock), KILL {connection} on the server"
    );
    Some(Finding::error(Code::LockHeld, table, why, remedy))
}

/// Compares the clocks as a proxy does when it starts.
fn clock(survey: &Survey<'_>) -> Option<Finding> {
    let (ours, theirs) = survey.facts.clocks?;
    let is_timestamp = |kind: &GeneratorKind| matches!(kind, GeneratorKind::Timestamp(_));
    survey.rules.generators().find(|spec| is_timestamp(&spec.kind))?;
    let apart = Duration::from_micros(ours.micros().abs_diff(theirs.micros()));
    (apart > APART_MAX).then(|| {
        let why = format!(
            "the clock of this machine says {ours}, and the backend's clock {theirs}: a proxy that starts here answers statements \
             that need timestamp ids with error 1467"
        );
        let remedy = "set the clock that is wrong; if the backend's clock is wrong, run rowstamp serve --trust-clock";
        Finding::error(Code::ClockApart, Where::object("UTC_TIMESTAMP()"), why, remedy)
    })
}
