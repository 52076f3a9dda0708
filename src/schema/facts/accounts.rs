//! The grants of all accounts, as far as the control account sees them: which account may do what with ruled tables.
//!
//! Source: MySQL manual, "The INFORMATION_SCHEMA COLUMN_PRIVILEGES Table" and its like. Without SELECT on the schema `mysql` an account
//! sees its own grants there (measured on MariaDB 10.11 and MySQL 9.7).

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::read::limited;
use crate::schema::SchemaError;

/// The privileges that an INSERT may need.
const PRIVILEGES: &str = "('INSERT', 'SELECT', 'UPDATE', 'CREATE TEMPORARY TABLES')";
/// MariaDB's role that all accounts have.
pub const PUBLIC: &str = "'PUBLIC'@''";

/// Accounts and roles as the server writes them: `'app'@'%'`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    pub rights: BTreeMap<String, Vec<Privilege>>,
    /// The roles that are granted to each. Whether they are active shows in a session only.
    pub roles: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// Words in upper case, as in "CREATE TEMPORARY TABLES".
    pub name: String,
    pub on: Scope,
}

/// The place that a privilege is for. `Schema` is a pattern with `_` and `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    Schema(String),
    Table { schema: String, table: String },
    Column { schema: String, table: String, column: String },
}

impl Accounts {
    pub(super) async fn read(conn: &mut Conn) -> Result<Accounts, SchemaError> {
        let mut accounts = Accounts::default();
        for (view, columns) in [
            ("user_privileges", ""),
            ("schema_privileges", ", table_schema"),
            ("table_privileges", ", table_schema, table_name"),
            ("column_privileges", ", table_schema, table_name, column_name"),
        ] {
            let sql = format!(
                "SELECT grantee, privilege_type{columns} FROM information_schema.{view} WHERE privilege_type IN {PRIVILEGES}"
            );
            let rows: Vec<Row> = limited(conn.query(sql)).await?;
            for (grantee, privilege) in rows.iter().filter_map(privilege) {
                accounts.rights.entry(grantee).or_default().push(privilege);
            }
        }
        accounts.roles = roles(conn).await;
        Ok(accounts)
    }
}

fn privilege(row: &Row) -> Option<(String, Privilege)> {
    let text = |at| row.get_opt::<String, _>(at)?.ok();
    let on = match (text(2), text(3), text(4)) {
        (None, ..) => Scope::All,
        (Some(schema), None, _) => Scope::Schema(schema),
        (Some(schema), Some(table), None) => Scope::Table { schema, table },
        (Some(schema), Some(table), Some(column)) => Scope::Column { schema, table, column },
    };
    Some((text(0)?, Privilege { name: text(1)?.to_uppercase(), on }))
}

/// Each server has one of the tables. None where the account may not read it.
async fn roles(conn: &mut Conn) -> BTreeMap<String, BTreeSet<String>> {
    let queries = [
        "SELECT CONCAT('''', to_user, '''@''', to_host, ''''), CONCAT('''', from_user, '''@''', from_host, '''') \
         FROM mysql.role_edges",
        "SELECT CONCAT('''', user, '''@''', host, ''''), CONCAT('''', role, '''@''''') FROM mysql.roles_mapping",
    ];
    let mut roles: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sql in queries {
        let rows: Vec<(String, String)> = limited(conn.query(sql)).await.unwrap_or_default();
        for (member, role) in rows {
            roles.entry(member).or_default().insert(role);
        }
    }
    roles
}
