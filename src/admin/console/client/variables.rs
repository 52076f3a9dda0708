//! The server variables that clients ask for when they connect. Clients decide by them, so most
//! have the value of a fresh MySQL 8.0. None can be set.

use crate::admin::console::answer::Value;
use crate::admin::console::{PACKET_BYTES_MAX, SERVER_VERSION};

/// A value, as the text that `SHOW VARIABLES` has, and those that have it.
const VARIABLES: [(&str, &str); 21] = [
    ("1", "auto_increment_increment auto_increment_offset autocommit"),
    (
        "utf8mb4",
        "character_set_client character_set_connection character_set_database character_set_results \
         character_set_server",
    ),
    ("utf8mb3", "character_set_system"),
    ("utf8mb4_general_ci", "collation_connection collation_database collation_server"),
    ("caching_sha2_password", "default_authentication_plugin"),
    ("", "default_storage_engine hostname init_connect socket"),
    ("OFF", "event_scheduler query_cache_type"),
    ("YES", "have_openssl have_ssl"),
    ("NO", "have_query_cache"),
    (
        "0",
        "identity last_insert_id log_bin lower_case_table_names max_execution_time offline_mode \
         performance_schema query_cache_size read_only session_track_schema sql_safe_updates super_read_only \
         transaction_read_only tx_read_only",
    ),
    ("28800", "interactive_timeout wait_timeout"),
    ("MIT OR Apache-2.0", "license"),
    ("16384", "net_buffer_length"),
    ("60", "net_read_timeout net_write_timeout"),
    ("10", "protocol_version"),
    ("STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "sql_mode"),
    ("18446744073709551615", "sql_select_limit"),
    ("UTC", "system_time_zone"),
    ("SYSTEM", "time_zone"),
    ("REPEATABLE-READ", "transaction_isolation tx_isolation"),
    ("Rowstamp console", "version_comment"),
];

/// In the order of their names.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let of_ours = [
        ("max_allowed_packet", PACKET_BYTES_MAX.to_string()),
        ("version", SERVER_VERSION.to_owned()),
        ("version_compile_machine", std::env::consts::ARCH.to_owned()),
        ("version_compile_os", "Linux".to_owned()),
    ];
    let of_value = |(value, names): &(&str, &'static str)| {
        let value = (*value).to_owned();
        names.split(' ').map(move |name| (name, value.clone()))
    };
    let mut all: Vec<_> = VARIABLES.iter().flat_map(of_value).collect();
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
