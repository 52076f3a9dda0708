//! The columns of a server's SHOW statements and of its information_schema. The console has no tables, so the results
//! have columns and, but for a few, no rows. Drivers and GUIs look columns up by these names. Sources: MySQL manual,
//! "SHOW Statements", "INFORMATION_SCHEMA Tables".

/// A SHOW statement that names no object: its words, its columns, and the row that there is all the
/// same, if there is one.
pub(crate) type Shown = (&'static str, &'static str, Option<&'static str>);

pub(crate) fn names(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(", ")
}

/// The columns of a table of information_schema, for `SELECT *`; `None` where they are not known
/// here.
pub(crate) fn columns(table: &str) -> Option<impl Iterator<Item = &'static str>> {
    TABLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(table)).map(|(_, columns)| names(columns))
}

const CHARSET_COLUMNS: &str = "Charset, Description, Default collation, Maxlen";
const ROUTINE_COLUMNS: &str = "Db, Name, Type, Definer, Modified, Created, Security_type, Comment, character_set_client, \
     collation_connection, Database Collation";
const INDEX_COLUMNS: &str = "Table, Non_unique, Key_name, Seq_in_index, Column_name, Collation, Cardinality, Sub_part, \
     Packed, Null, Index_type, Comment, Index_comment, Visible, Expression";
const COLUMN_COLUMNS: &str = "Field, Type, Null, Key, Default, Extra";
const WARNING_COLUMNS: &str = "Level, Code, Message";
const BINLOG_COLUMNS: &str = "File, Position, Binlog_Do_DB, Binlog_Ignore_DB, Executed_Gtid_Set";
const CHARSET: &str = "utf8mb4, UTF-8 Unicode, utf8mb4_general_ci, 4";
const COLLATION: &str = "utf8mb4_general_ci, utf8mb4, 45, Yes, Yes, 1, PAD SPACE";

pub(crate) const SHOWN: [Shown; 28] = [
    ("BINARY LOG STATUS", BINLOG_COLUMNS, None),
    ("BINARY LOGS", "Log_name, File_size, Encrypted", None),
    ("CHARACTER SET", CHARSET_COLUMNS, Some(CHARSET)),
    ("CHARSET", CHARSET_COLUMNS, Some(CHARSET)),
    ("COLLATION", "Collation, Charset, Id, Default, Compiled, Sortlen, Pad_attribute", Some(COLLATION)),
    ("COLUMNS", COLUMN_COLUMNS, None),
    ("COUNT", "@@session.warning_count", None),
    ("ENGINES", "Engine, Support, Comment, Transactions, XA, Savepoints", None),
    ("ERRORS", WARNING_COLUMNS, None),
    (
        "EVENTS",
        "Db, Name, Definer, Time zone, Type, Execute at, Interval value, Interval field, Starts, \
         Ends, Status, Originator, character_set_client, collation_connection, Database Collation",
        None,
    ),
    ("FIELDS", COLUMN_COLUMNS, None),
    ("FUNCTION STATUS", ROUTINE_COLUMNS, None),
    ("INDEX", INDEX_COLUMNS, None),
    ("INDEXES", INDEX_COLUMNS, None),
    ("KEYS", INDEX_COLUMNS, None),
    ("MASTER LOGS", "Log_name, File_size, Encrypted", None),
    ("MASTER STATUS", BINLOG_COLUMNS, None),
    ("OPEN TABLES", "Database, Table, In_use, Name_locked", None),
    ("PLUGINS", "Name, Status, Type, Library, License", None),
    ("PRIVILEGES", "Privilege, Context, Comment", None),
    ("PROCEDURE STATUS", ROUTINE_COLUMNS, None),
    ("PROFILES", "Query_ID, Duration, Query", None),
    ("REPLICA STATUS", "Replica_IO_State", None),
    ("REPLICAS", "Server_Id, Host, Port, Source_Id, Replica_UUID", None),
    ("SLAVE STATUS", "Slave_IO_State", None),
    (
        "TABLE STATUS",
        "Name, Engine, Version, Row_format, Rows, Avg_row_length, Data_length, Max_data_length, \
         Index_length, Data_free, Auto_increment, Create_time, Update_time, Check_time, Collation, \
         Checksum, Create_options, Comment",
        None,
    ),
    (
        "TRIGGERS",
        "Trigger, Event, Table, Statement, Timing, Created, sql_mode, Definer, \
         character_set_client, collation_connection, Database Collation",
        None,
    ),
    ("WARNINGS", WARNING_COLUMNS, None),
];

/// The tables of information_schema, each with its columns.
const TABLES: [(&str, &str); 14] = [
    ("CHARACTER_SETS", "CHARACTER_SET_NAME, DEFAULT_COLLATE_NAME, DESCRIPTION, MAXLEN"),
    ("CHECK_CONSTRAINTS", "CONSTRAINT_CATALOG, CONSTRAINT_SCHEMA, CONSTRAINT_NAME, CHECK_CLAUSE"),
    ("COLLATIONS", "COLLATION_NAME, CHARACTER_SET_NAME, ID, IS_DEFAULT, IS_COMPILED, SORTLEN, PAD_ATTRIBUTE"),
    (
        "COLUMNS",
        "TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, \
         IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, \
         NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, \
         COLUMN_TYPE, COLUMN_KEY, EXTRA, PRIVILEGES, COLUMN_COMMENT, GENERATION_EXPRESSION, SRS_ID",
    ),
    ("ENGINES", "ENGINE, SUPPORT, COMMENT, TRANSACTIONS, XA, SAVEPOINTS"),
    (
        "EVENTS",
        "EVENT_CATALOG, EVENT_SCHEMA, EVENT_NAME, DEFINER, TIME_ZONE, EVENT_BODY, \
         EVENT_DEFINITION, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD, SQL_MODE, \
         STARTS, ENDS, STATUS, ON_COMPLETION, CREATED, LAST_ALTERED, LAST_EXECUTED, EVENT_COMMENT, \
         ORIGINATOR, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION",
    ),
    (
        "KEY_COLUMN_USAGE",
        "CONSTRAINT_CATALOG, CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_CATALOG, TABLE_SCHEMA, \
         TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, POSITION_IN_UNIQUE_CONSTRAINT, \
         REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME",
    ),
    (
        "ROUTINES",
        "SPECIFIC_NAME, ROUTINE_CATALOG, ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE, DATA_TYPE, \
         CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, \
         DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, DTD_IDENTIFIER, ROUTINE_BODY, \
         ROUTINE_DEFINITION, EXTERNAL_NAME, EXTERNAL_LANGUAGE, PARAMETER_STYLE, IS_DETERMINISTIC, \
         SQL_DATA_ACCESS, SQL_PATH, SECURITY_TYPE, CREATED, LAST_ALTERED, SQL_MODE, \
         ROUTINE_COMMENT, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION",
    ),
    (
        "SCHEMATA",
        "CATALOG_NAME, SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME, SQL_PATH, \
         DEFAULT_ENCRYPTION",
    ),
    (
        "STATISTICS",
        "TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, NON_UNIQUE, INDEX_SCHEMA, INDEX_NAME, \
         SEQ_IN_INDEX, COLUMN_NAME, COLLATION, CARDINALITY, SUB_PART, PACKED, NULLABLE, \
         INDEX_TYPE, COMMENT, INDEX_COMMENT, IS_VISIBLE, EXPRESSION",
    ),
    (
        "TABLES",
        "TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, VERSION, ROW_FORMAT, \
         TABLE_ROWS, AVG_ROW_LENGTH, DATA_LENGTH, MAX_DATA_LENGTH, INDEX_LENGTH, DATA_FREE, \
         AUTO_INCREMENT, CREATE_TIME, UPDATE_TIME, CHECK_TIME, TABLE_COLLATION, CHECKSUM, \
         CREATE_OPTIONS, TABLE_COMMENT",
    ),
    (
        "TABLE_CONSTRAINTS",
        "CONSTRAINT_CATALOG, CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, \
         CONSTRAINT_TYPE, ENFORCED",
    ),
    (
        "TRIGGERS",
        "TRIGGER_CATALOG, TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_CATALOG, \
         EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_CONDITION, \
         ACTION_STATEMENT, ACTION_ORIENTATION, ACTION_TIMING, ACTION_REFERENCE_OLD_TABLE, \
         ACTION_REFERENCE_NEW_TABLE, ACTION_REFERENCE_OLD_ROW, ACTION_REFERENCE_NEW_ROW, CREATED, \
         SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION",
    ),
    (
        "VIEWS",
        "TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, CHECK_OPTION, IS_UPDATABLE, \
         DEFINER, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION",
    ),
];

#[cfg(test)]
mod tests {
    use super::{SHOWN, TABLES, columns, names};

    #[test]
    fn rows_fit_their_columns() {
        for (words, columns, row) in SHOWN {
            assert!(row.is_none_or(|row| names(row).count() == names(columns).count()), "{words}");
        }
        assert!(SHOWN.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn tables() {
        assert!(TABLES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(columns("schemata").map(Iterator::count), Some(6));
        assert!(columns("no_such").is_none());
    }
}
