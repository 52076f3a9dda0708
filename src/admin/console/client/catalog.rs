//! What SHOW statements of a server have: the console has no tables, so it is the columns of empty results. Drivers and GUIs look
//! columns up by these names.
//! Source: MySQL manual, "SHOW Statements".

/// SHOW statements that name no object: their words, their columns, and the rows that there are in spite of all.
pub(crate) struct Shown {
    pub(crate) words: &'static [&'static str],
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: &'static [&'static [&'static str]],
}

const fn none(words: &'static [&'static str], columns: &'static [&'static str]) -> Shown {
    Shown { words, columns, rows: &[] }
}

const CHARSET_COLUMNS: &[&str] = &["Charset", "Description", "Default collation", "Maxlen"];
const CHARSETS: &[&[&str]] = &[&["utf8mb4", "UTF-8 Unicode", "utf8mb4_general_ci", "4"]];
const ROUTINE_COLUMNS: &[&str] = &[
    "Db",
    "Name",
    "Type",
    "Definer",
    "Modified",
    "Created",
    "Security_type",
    "Comment",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];
const INDEX_COLUMNS: &[&str] = &[
    "Table",
    "Non_unique",
    "Key_name",
    "Seq_in_index",
    "Column_name",
    "Collation",
    "Cardinality",
    "Sub_part",
    "Packed",
    "Null",
    "Index_type",
    "Comment",
    "Index_comment",
    "Visible",
    "Expression",
];
const COLUMN_COLUMNS: &[&str] = &["Field", "Type", "Null", "Key", "Default", "Extra"];
const WARNING_COLUMNS: &[&str] = &["Level", "Code", "Message"];
const BINLOG_COLUMNS: &[&str] =
    &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"];

pub(crate) const SHOWN: [Shown; 28] = [
    none(&["BINARY", "LOG", "STATUS"], BINLOG_COLUMNS),
    none(&["BINARY", "LOGS"], &["Log_name", "File_size", "Encrypted"]),
    Shown { words: &["CHARACTER", "SET"], columns: CHARSET_COLUMNS, rows: CHARSETS },
    Shown { words: &["CHARSET"], columns: CHARSET_COLUMNS, rows: CHARSETS },
    Shown {
        words: &["COLLATION"],
        columns: &["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute"],
        rows: &[&["utf8mb4_general_ci", "utf8mb4", "45", "Yes", "Yes", "1", "PAD SPACE"]],
    },
    none(&["COLUMNS"], COLUMN_COLUMNS),
    none(&["COUNT"], &["@@session.warning_count"]),
    none(&["ENGINES"], &["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"]),
    none(&["ERRORS"], WARNING_COLUMNS),
    none(
        &["EVENTS"],
        &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "Execute at",
            "Interval value",
            "Interval field",
            "Starts",
            "Ends",
            "Status",
            "Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    none(&["FIELDS"], COLUMN_COLUMNS),
    none(&["FUNCTION", "STATUS"], ROUTINE_COLUMNS),
    none(&["INDEX"], INDEX_COLUMNS),
    none(&["INDEXES"], INDEX_COLUMNS),
    none(&["KEYS"], INDEX_COLUMNS),
    none(&["MASTER", "LOGS"], &["Log_name", "File_size", "Encrypted"]),
    none(&["MASTER", "STATUS"], BINLOG_COLUMNS),
    none(&["OPEN", "TABLES"], &["Database", "Table", "In_use", "Name_locked"]),
    none(&["PLUGINS"], &["Name", "Status", "Type", "Library", "License"]),
    none(&["PRIVILEGES"], &["Privilege", "Context", "Comment"]),
    none(&["PROCEDURE", "STATUS"], ROUTINE_COLUMNS),
    none(&["PROFILES"], &["Query_ID", "Duration", "Query"]),
    none(&["REPLICA", "STATUS"], &["Replica_IO_State"]),
    none(&["REPLICAS"], &["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"]),
    none(&["SLAVE", "STATUS"], &["Slave_IO_State"]),
    none(
        &["TABLE", "STATUS"],
        &[
            "Name",
            "Engine",
            "Version",
            "Row_format",
            "Rows",
            "Avg_row_length",
            "Data_length",
            "Max_data_length",
            "Index_length",
            "Data_free",
            "Auto_increment",
            "Create_time",
            "Update_time",
            "Check_time",
            "Collation",
            "Checksum",
            "Create_options",
            "Comment",
        ],
    ),
    none(
        &["TRIGGERS"],
        &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    none(&["WARNINGS"], WARNING_COLUMNS),
];

#[cfg(test)]
mod tests {
    use super::SHOWN;

    #[test]
    fn rows_fit_their_columns() {
        for shown in &SHOWN {
            assert!(shown.rows.iter().all(|row| row.len() == shown.columns.len()), "{:?}", shown.words);
        }
        assert!(SHOWN.is_sorted_by(|a, b| a.words < b.words));
    }
}
