//! The server variables that clients ask for when they connect. Clients decide by them, so most
//! have the value of a fresh MySQL 8.0. None can be set.

use crate::admin::console::answer::Value;
use crate::admin::console::{PACKET_BYTES_MAX, SERVER_VERSION};

/// All as text, as `SHOW VARIABLES` has them.
const VARIABLES: [(&str, &str); 50] = [
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("character_set_system", "utf8mb3"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_authentication_plugin", "caching_sha2_password"),
    ("default_storage_engine", ""),
    ("event_scheduler", "OFF"),
    ("have_openssl", "YES"),
    ("have_ssl", "YES"),
    ("have_query_cache", "NO"),
    ("hostname", ""),
    ("identity", "0"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("last_insert_id", "0"),
    ("license", "MIT OR Apache-2.0"),
    ("log_bin", "0"),
    ("lower_case_table_names", "0"),
    ("max_execution_time", "0"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "60"),
    ("net_write_timeout", "60"),
    ("offline_mode", "0"),
    ("performance_schema", "0"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "0"),
    ("session_track_schema", "0"),
    ("socket", ""),
    ("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
    ("sql_safe_updates", "0"),
    ("sql_select_limit", "18446744073709551615"),
    ("super_read_only", "0"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "0"),
    ("version_comment", "Rowstamp console"),
    ("wait_timeout", "28800"),
];

/// In the order of their names.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let of_ours = [
        ("max_allowed_packet", PACKET_BYTES_MAX.to_string()),
        ("version", SERVER_VERSION.to_owned()),
        ("version_compile_machine", std::env::consts::ARCH.to_owned()),
        ("version_compile_os", "Linux".to_owned()),
    ];
    let mut all: Vec<_> = VARIABLES.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    all.extend(of_ours);
    all.sort_unstable();
    all
}

/// The variable of this name, whatever its case. What looks like a number is one: drivers calculate
/// with `max_allowed_packet`.
pub(crate) fn value(name: &str) -> Option<Value> {
    let (_, text) = all().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(text.parse().map_or(Value::Text(text), Value::Unsigned))
}

#[cfg(test)]
mod tests {
    use super::{all, value};
    use crate::admin::console::answer::Value;

    #[test]
    fn values() {
        assert_eq!(value("MAX_allowed_packet"), Some(Value::Unsigned(1 << 20)));
        assert_eq!(value("time_zone"), Some(Value::Text("SYSTEM".into())));
        assert_eq!(value("init_connect"), Some(Value::Text(String::new())));
        assert_eq!(value("innodb_buffer_pool_size"), None);
        let names: Vec<_> = all().into_iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }
}
