//! Foreign keys whole, as they are made again: for steps that must take them away meanwhile.

use std::collections::HashMap;

use mysql_async::Row;

use super::{Schema, SchemaError, text};
use crate::table_name::TableName;

/// A foreign key with all its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeKey {
    pub name: String,
    pub child: TableName,
    pub parent: TableName,
    /// The child's columns, each with the parent's that it refers to.
    pub columns: Vec<(String, String)>,
    /// The rule as the server writes it: CASCADE, SET NULL, NO ACTION, RESTRICT. Empty if the account does not see
    /// it: MariaDB wants another right than SELECT.
    pub on_delete: String,
    pub on_update: String,
}

impl Schema {
    /// Every foreign key that the account sees.
    pub async fn whole_keys(&self) -> Result<Vec<WholeKey>, SchemaError> {
        // Two queries and no join: MariaDB opens every table for each.
        let rules = "SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule \
                     FROM information_schema.referential_constraints";
        let mut by_key: HashMap<[String; 3], [String; 2]> = HashMap::new();
        for row in self.slow_rows(rules).await? {
            if let [Some(schema), Some(table), Some(name), Some(delete), Some(update)] = texts(&row) {
                by_key.insert([schema, table, name], [delete, update]);
            }
        }
        let columns = "SELECT table_schema, table_name, constraint_name, referenced_table_schema, referenced_table_name, \
                       column_name, referenced_column_name FROM information_schema.key_column_usage \
                       WHERE referenced_table_name IS NOT NULL \
                       ORDER BY table_schema, table_name, constraint_name, ordinal_position";
        let mut keys: Vec<WholeKey> = Vec::new();
        for row in self.slow_rows(columns).await? {
            let [
                Some(schema),
                Some(table),
                Some(name),
                Some(to_schema),
                Some(to_table),
                Some(from),
                Some(to),
            ] = texts(&row)
            else {
                continue;
            };
            let child = TableName { schema, table };
            if let Some(last) = keys.last_mut().filter(|last| last.name == name && last.child == child) {
                last.columns.push((from, to));
                continue;
            }
            let place = [child.schema.clone(), child.table.clone(), name.clone()];
            let [on_delete, on_update] = by_key.remove(&place).unwrap_or_default();
            let parent = TableName { schema: to_schema, table: to_table };
            keys.push(WholeKey { name, child, parent, columns: vec![(from, to)], on_delete, on_update });
        }
        Ok(keys)
    }
}

fn texts<const N: usize>(row: &Row) -> [Option<String>; N] {
    std::array::from_fn(|at| text(row, at))
}
