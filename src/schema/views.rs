//! The views of the backend.

use std::collections::BTreeMap;

use super::{Schema, SchemaError, text};

/// A view through which rows can be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewText {
    pub schema: String,
    pub name: String,
    /// The definition as information_schema writes it, every name between backticks. Empty if the account lacks SHOW VIEW.
    pub definition: String,
}

/// Statements that change which views there are, what they show, or what of them our account may
/// see. ALTER VIEW counts as one that creates; a role that is granted, on MySQL, as `Com_grant_roles`.
const CHANGING: [&str; 18] = [
    "Com_alter_db",
    "Com_alter_table",
    "Com_create_db",
    "Com_create_role",
    "Com_create_table",
    "Com_create_view",
    "Com_drop_db",
    "Com_drop_role",
    "Com_drop_table",
    "Com_drop_view",
    "Com_grant",
    "Com_grant_role",
    "Com_grant_roles",
    "Com_rename_table",
    "Com_revoke",
    "Com_revoke_all",
    "Com_revoke_role",
    "Com_revoke_roles",
];

/// The number of statements that change views and were begun on the server, by anybody, since it started. Another
/// server, or one that was started again, shows other counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewSigns {
    /// The server's place, from [`Primary::get`](super::Primary::get).
    server: usize,
    counts: BTreeMap<String, u64>,
}

#[cfg(test)]
impl ViewSigns {
    /// A server's that has begun so many of such statements.
    pub(crate) fn of_one(count: u64) -> Self {
        ViewSigns { server: 0, counts: [("Com_create_view".to_owned(), count)].into() }
    }
}

impl Schema {
    /// `None` where the server does not count them. It needs no right, and costs the server next to
    /// nothing, however many tables it has: the views themselves MariaDB reads from the folders of
    /// all schemas.
    pub async fn view_signs(&self) -> Result<Option<ViewSigns>, SchemaError> {
        let server = self.primary().get();
        let names = CHANGING.map(|name| format!("'{name}'")).join(", ");
        let sql = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({names})");
        let rows = self.rows(&sql, vec![]).await?;
        let counts: BTreeMap<_, _> =
            rows.iter().filter_map(|row| Some((text(row, 0)?, text(row, 1)?.parse().ok()?))).collect();
        Ok((!counts.is_empty()).then_some(ViewSigns { server, counts }))
    }

    /// The views of all schemas through which rows can be inserted.
    pub async fn views(&self) -> Result<Vec<ViewText>, SchemaError> {
        let sql = "SELECT table_schema, table_name, COALESCE(view_definition, '') FROM information_schema.views \
                   WHERE is_updatable = 'YES' AND table_schema NOT IN ('sys', 'mysql', 'performance_schema')";
        let rows = self.rows(sql, vec![]).await?;
        let view =
            |row| Some(ViewText { schema: text(row, 0)?, name: text(row, 1)?, definition: text(row, 2)? });
        Ok(rows.iter().filter_map(view).collect())
    }

    /// A view's definition; empty where the account lacks SHOW VIEW.
    pub async fn view_definition(&self, schema: &str, view: &str) -> Result<String, SchemaError> {
        let sql = "SELECT COALESCE(view_definition, '') FROM information_schema.views \
                   WHERE table_schema = ? AND table_name = ? \
                   ORDER BY table_name = CAST(? AS BINARY) AND table_schema = CAST(? AS BINARY) DESC";
        let names = [schema, view, view, schema].map(mysql_async::Value::from);
        let rows = self.rows(sql, names.into()).await?;
        Ok(rows.first().and_then(|row| text(row, 0)).unwrap_or_default())
    }
}
