//! The role of a server for those who write: the primary, or one that follows another. Sessions
//! (`schema::primary`) and a store in a table (`store::mysql`) ask in the same way, so that both
//! find the same server.

use std::collections::HashMap;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The server takes writes, and replicates from nobody that we know of.
    Writable,
    /// The server replicates from another, and takes writes from those who may.
    Replica,
    /// `read_only` is set; `super_read_only` sets it too.
    ReadOnly,
    Away,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Writable => "can be written to",
            Role::Replica => "is a replica",
            Role::ReadOnly => "is read_only",
            Role::Away => "does not answer",
        }
    }
}

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub role: Role,
    /// The identity of this server, whatever address it was reached at. All members of a Galera cluster or of a
    /// replication group have the same one: what is committed on one of them is on the others.
    pub identity: String,
}

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE LOWER(Variable_name) IN ('datadir', 'group_replication_group_name', \
                         'hostname', 'port', 'read_only', 'server_id')";
const STATUS: &str =
    "SHOW GLOBAL STATUS WHERE LOWER(Variable_name) IN ('slaves_running', 'wsrep_cluster_state_uuid')";

pub async fn ask(conn: &mut Conn) -> Result<Server, Error> {
    let mut told: HashMap<String, String> = HashMap::new();
    for sql in [VARIABLES, STATUS] {
        let rows: Vec<(String, String)> = conn.query(sql).await?;
        told.extend(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)));
    }
    let value = |name: &str| told.get(name).map_or("", String::as_str);
    // A number or a word; MariaDB 12 has more words for it.
    let is_read_only = !matches!(value("read_only").to_ascii_uppercase().as_str(), "" | "0" | "OFF");
    let role = if is_read_only {
        Role::ReadOnly
    } else if replicates(conn, value("slaves_running")).await? {
        Role::Replica
    } else {
        Role::Writable
    };
    let cluster = [value("wsrep_cluster_state_uuid"), value("group_replication_group_name")].concat();
    let identity = match cluster.as_str() {
        "" => ["hostname", "port", "datadir", "server_id"].map(value).join(" "),
        _ => cluster,
    };
    Ok(Server { role, identity })
}

/// True if the server replicates, as far as the account may see it: MariaDB counts its replication threads for
/// everybody, and MySQL shows them to an account with the REPLICATION CLIENT privilege.
async fn replicates(conn: &mut Conn, threads: &str) -> Result<bool, Error> {
    let is_mariadb = !threads.is_empty();
    if is_mariadb && threads != "0" {
        return Ok(true);
    }
    let sql = if is_mariadb { "SHOW ALL SLAVES STATUS" } else { "SHOW REPLICA STATUS" };
    match conn.query::<Row, _>(sql).await {
        Ok(rows) => Ok(rows.iter().any(is_running)),
        Err(Error::Server(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A promoted server may still have the settings of a replication whose threads are stopped. A
/// replication group's own channels are no replication from elsewhere.
fn is_running(row: &Row) -> bool {
    let text = |names: [&str; 2]| {
        let value = names.iter().find_map(|name| row.get_opt::<Option<String>, _>(*name));
        value.and_then(Result::ok).flatten().unwrap_or_default()
    };
    let is_of_group = text(["Channel_Name", "Channel_name"]).starts_with("group_replication_");
    let threads = [["Replica_IO_Running", "Slave_IO_Running"], ["Replica_SQL_Running", "Slave_SQL_Running"]];
    !is_of_group && threads.into_iter().any(|names| !text(names).eq_ignore_ascii_case("no"))
}
