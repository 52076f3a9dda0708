//! The server's own settings, as far as ids depend on them.

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable;

use super::super::{Schema, SchemaError};
use super::read::limited;

/// Global variables that are asked for; each server has some of them.
const VARIABLES: [&str; 17] = [
    "auto_increment_increment",
    "auto_increment_offset",
    "binlog_format",
    "group_replication_group_name",
    "innodb_flush_log_at_trx_commit",
    "innodb_read_only",
    "log_bin",
    "lower_case_table_names",
    "protocol_compression_algorithms",
    "read_only",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
    "sql_mode",
    "super_read_only",
    "version",
    "wsrep_cluster_address",
    "wsrep_on",
];

const STATUS: [&str; 3] = ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status", "slaves_connected"];

/// "The system variable cannot be set when connection sharing is enabled".
const NOT_SET_WHILE_SHARED: u16 = 1766;

/// Variables and status by their names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    pub variables: BTreeMap<String, String>,
    /// The number of replicas that are connected, as far as the account sees them.
    pub replicas: u64,
    /// The server is MySQL Router, and sessions share its connections (`connection_sharing`).
    pub shares_connections: bool,
}

impl ServerFacts {
    pub async fn read(schema: &Schema) -> Result<ServerFacts, SchemaError> {
        let mut conn = schema.conn().await?;
        let quoted = |names: &[&str]| format!("'{}'", names.join("','"));
        let show = |what: &str, names: &[&str]| {
            format!("SHOW GLOBAL {what} WHERE LOWER(Variable_name) IN ({})", quoted(names))
        };
        let mut variables = BTreeMap::new();
        for sql in [show("VARIABLES", &VARIABLES), show("STATUS", &STATUS)] {
            let rows: Vec<(String, String)> = limited(conn.query(sql)).await?;
            variables.extend(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)));
        }
        // The account sees other users' threads only if it has PROCESS.
        let dumps = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
        let seen: Option<u64> = limited(conn.query_first(dumps)).await.ok().flatten();
        let told = variables.get("slaves_connected").and_then(|n| n.parse().ok()).unwrap_or(0);
        // The Router lets nobody set how it learns of a session's state.
        let set = limited(conn.query_drop("SET SESSION session_track_state_change = ON")).await;
        let shares_connections = matches!(set, Err(SchemaError::Query(mysql_async::Error::Server(error))) if error.code == NOT_SET_WHILE_SHARED);
        Ok(ServerFacts { variables, replicas: seen.unwrap_or(0).max(told), shares_connections })
    }

    /// Empty where the server has no such variable.
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// ON, or a number other than 0.
    pub fn is_on(&self, name: &str) -> bool {
        !matches!(self.variable(name).to_ascii_uppercase().as_str(), "" | "OFF" | "0")
    }

    /// MariaDB always offers zlib, and has no variable for it.
    pub fn offers_compression(&self, algorithm: &str) -> bool {
        let offered = self.variables.get("protocol_compression_algorithms").map_or("zlib", String::as_str);
        offered.split(',').any(|one| one.trim().eq_ignore_ascii_case(algorithm))
    }

    /// 1 where it is not known.
    pub fn number(&self, name: &str) -> u64 {
        self.variable(name).parse().unwrap_or(1)
    }

    /// True if a wrong value is an error. If not, the server stores another value in its place.
    pub fn is_strict(&self) -> bool {
        let mode = self.variable("sql_mode").to_ascii_uppercase();
        ["STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"].iter().any(|strict| mode.contains(strict))
    }

    /// Galera, or group replication: what is committed is on more than one server.
    pub fn is_cluster(&self) -> bool {
        self.is_on("wsrep_on") && !self.variable("wsrep_cluster_address").is_empty()
            || !self.variable("group_replication_group_name").is_empty()
    }

    /// A commit is answered when a replica has it.
    pub fn waits_for_replica(&self) -> bool {
        let is_on = |what: &str| {
            ["master", "source"].iter().any(|role| self.is_on(&format!("rpl_semi_sync_{role}_{what}")))
        };
        is_on("enabled") && is_on("status")
    }
}
