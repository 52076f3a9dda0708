//! The statements that GUIs and drivers send when they connect, from their public sources: each statement
//! with the repository and file that has it. None may fail. If the program goes by an answer, the answer has
//! the columns that it looks for.

use crate::console::raw::Raw;
use crate::console::rig::Console;

/// A statement, and columns that its answer must have; none: an OK is enough.
type Opening = (&'static str, &'static [&'static str]);

/// github.com/dbeaver/dbeaver, plugins/org.jkiss.dbeaver.ext.mysql/src/org/jkiss/dbeaver/ext/mysql: model/MySQLDataSource.java
/// (initialize, CatalogCache), MySQLUtils.java (determineCurrentDatabase), model/MySQLCatalog.java (tables of the tree),
/// model/session/MySQLSessionManager.java. It connects by Connector/J, whose own opening is below.
const DBEAVER: [Opening; 13] = [
    ("SHOW ENGINES", &["Engine", "Support", "Comment"]),
    ("SHOW CHARSET", &["Charset", "Description", "Default collation", "Maxlen"]),
    ("SHOW COLLATION", &["Collation", "Charset", "Id", "Default", "Compiled"]),
    ("SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server", &[]),
    ("SHOW PLUGINS", &["Name", "Status", "Type"]),
    ("SHOW VARIABLES LIKE 'lower_case_table_names'", &["Variable_name", "Value"]),
    ("show databases", &["Database"]),
    (
        "SELECT * FROM information_schema.TABLES t\nWHERE\n\tt.TABLE_SCHEMA = 'information_schema'\n\tAND t.TABLE_NAME = \
         'CHECK_CONSTRAINTS'",
        &["TABLE_NAME", "TABLE_TYPE"],
    ),
    ("SELECT DATABASE()", &["DATABASE()"]),
    ("SELECT * FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='shop'", &["DEFAULT_CHARACTER_SET_NAME"]),
    ("SHOW FULL TABLES FROM `shop`", &["Tables_in_shop", "Table_type"]),
    (
        "SELECT * FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA='shop' ORDER BY ROUTINE_NAME",
        &["ROUTINE_NAME"],
    ),
    ("SHOW FULL PROCESSLIST", &["id", "user"]),
];

/// github.com/mysql/mysql-workbench: library/cdbc/src/driver_manager.cpp (getConnection), backend/wbprivate/sqlide/wb_sql_editor_form.cpp
/// (init_connection, create_connection, and the session variables that it asks for, by modules/db.mysql.sqlparser/src/
/// mysql_sql_specifics.cpp, query_variable), wb_sql_editor_tree_controller.cpp; github.com/mysql/mysql-connector-cpp,
/// jdbc/driver/mysql_connection.cpp and mysql_metadata.cpp (getSchemata), by which it connects.
const WORKBENCH: [Opening; 27] = [
    ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", &[]),
    ("SELECT current_user()", &["current_user()"]),
    ("SET CHARACTER SET utf8", &[]),
    ("SET NAMES utf8", &[]),
    ("SET SQL_SAFE_UPDATES=1", &[]),
    ("SHOW SESSION VARIABLES LIKE 'sql_mode'", &["Variable_name", "Value"]),
    ("SELECT CONNECTION_ID()", &["CONNECTION_ID()"]),
    ("show character set where charset = 'utf8mb4'", &["Charset"]),
    ("SET NAMES 'utf8mb4'", &[]),
    ("USE `shop`", &[]),
    ("SHOW SESSION STATUS LIKE 'Ssl_cipher'", &["Variable_name", "Value"]),
    ("SHOW SESSION VARIABLES LIKE 'lower_case_table_names'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'version_comment'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'version'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'version_compile_os'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'offline_mode'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'wait_timeout'", &["Value"]),
    ("SHOW SESSION VARIABLES LIKE 'interactive_timeout'", &["Value"]),
    ("SET @@SESSION.wait_timeout=610", &[]),
    ("SELECT DATABASE()", &[]),
    ("SHOW DATABASES", &["Database"]),
    ("SHOW FULL TABLES FROM `shop`", &["Tables_in_shop"]),
    ("SHOW PROCEDURE STATUS WHERE Db='shop'", &["Name"]),
    ("SHOW FUNCTION STATUS WHERE Db='shop'", &["Name"]),
    ("show engines", &["Engine"]),
    ("show collation", &["Collation"]),
    ("show variables", &["Variable_name", "Value"]),
];

/// github.com/mysql/mysql-connector-j: src/main/core-impl/java/com/mysql/cj/NativeSession.java (loadServerVariables),
/// NativeCharsetSettings.java, src/main/user-impl/java/com/mysql/cj/jdbc/ConnectionImpl.java. tests/console/clients.rs has the driver
/// itself too.
const CONNECTOR_J: [Opening; 4] = [
    (
        "/* mysql-connector-j-9.0.0 (Revision: 1) */SELECT  @@session.auto_increment_increment AS auto_increment_increment, \
         @@character_set_client AS character_set_client, @@character_set_connection AS character_set_connection, \
         @@character_set_results AS character_set_results, @@character_set_server AS character_set_server, \
         @@collation_server AS collation_server, @@collation_connection AS collation_connection, @@init_connect AS init_connect, \
         @@interactive_timeout AS interactive_timeout, @@license AS license, @@lower_case_table_names AS lower_case_table_names, \
         @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout, \
         @@performance_schema AS performance_schema, @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, \
         @@time_zone AS time_zone, @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout",
        &["auto_increment_increment", "max_allowed_packet", "wait_timeout"],
    ),
    ("SET character_set_results = NULL", &[]),
    ("SET autocommit=1", &[]),
    ("/* ping */ SELECT 1", &[]),
];

/// github.com/blackbeam/mysql_async, src/conn/mod.rs (read_settings, read_max_allowed_packet); github.com/go-sql-driver/mysql,
/// connector.go; github.com/mariadb-corporation/mariadb-connector-j, src/main/java/org/mariadb/jdbc/client/impl/StandardClient.java;
/// github.com/mysql/mysql-server, client/mysql.cc.
const OTHERS: [Opening; 8] = [
    ("SELECT @@max_allowed_packet,@@wait_timeout", &["@@max_allowed_packet"]),
    ("SELECT @@max_allowed_packet", &["@@max_allowed_packet"]),
    ("SELECT @@socket", &["@@socket"]),
    ("select @@max_allowed_packet, @@system_time_zone, @@time_zone, @@auto_increment_increment", &[]),
    ("select @@version_comment limit 1", &["@@version_comment"]),
    ("select DATABASE(), USER() limit 1", &[]),
    ("SHOW WARNINGS", &["Level", "Code", "Message"]),
    // GUIs open a table like this: their name in a comment, an alias, the first rows.
    ("/* a GUI */ SELECT x.* FROM rowstamp.generators x LIMIT 0, 200", &["generator", "state"]),
];

/// The columns' names, or none for an OK; panics at an error.
fn columns(raw: &mut Raw, statement: &str) -> Vec<String> {
    raw.command(0x03, statement.as_bytes());
    let (_, first) = raw.read().unwrap();
    assert_ne!(first[0], 0xFF, "{statement}: {}", String::from_utf8_lossy(&first[9..]));
    let mut names = Vec::new();
    for _ in 0..first[0] {
        let (_, definition) = raw.read().unwrap();
        let mut rest = &definition[..];
        // Catalogue, schema, table, original table, name.
        for nth in 0..5 {
            let (text, behind) = rest[1..].split_at(usize::from(rest[0]));
            if nth == 4 {
                names.push(String::from_utf8_lossy(text).into_owned());
            }
            rest = behind;
        }
    }
    // An EOF packet comes after the columns and one after the rows.
    let mut eofs = if first[0] == 0 { 2 } else { 0 };
    while eofs < 2 {
        let (_, packet) = raw.read().unwrap();
        assert_ne!(packet[0], 0xFF, "{statement}");
        eofs += usize::from(packet[0] == 0xFE && packet.len() < 9);
    }
    names
}

#[test]
fn clients_that_connect_get_answers() {
    let console = Console::start();
    for (program, openings) in [
        ("DBeaver", &DBEAVER[..]),
        ("MySQL Workbench", &WORKBENCH),
        ("Connector/J", &CONNECTOR_J),
        ("others", &OTHERS),
    ] {
        let mut raw = Raw::logged_in(console.port, 0);
        for (statement, expect) in openings {
            let found = columns(&mut raw, statement);
            let missing: Vec<_> =
                expect.iter().filter(|name| !found.iter().any(|one| one == *name)).collect();
            assert!(missing.is_empty(), "{program}: {statement}: {missing:?} is not among {found:?}");
        }
    }
}
