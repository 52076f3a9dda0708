//! The holders of ruled tables' locks, for `check` and the console.

use crate::schema::Schema;
use crate::tables::locks::LockError;
use crate::tables::locks::line::{ANSWER_TIMEOUT, Line};
use crate::tables::locks::server::{self, Holder};

/// A table's lock that is held by a connection of none of the store's proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldByOther {
    pub table: String,
    /// On the backend.
    pub connection: u64,
    /// Its user and host, where the account may see them.
    pub user: Option<String>,
}

/// `tables`: the names that locks are named after. `store`: the store's name, if it has one yet.
pub async fn held_by_others(
    schema: &Schema,
    tables: &[String],
    store: Option<&str>,
) -> Result<Vec<HeldByOther>, LockError> {
    let mut line = Line::new(schema.own_connection(ANSWER_TIMEOUT).await?);
    let names: Vec<&str> = tables.iter().map(String::as_str).collect();
    let holders = server::look(&mut line, &names, store.unwrap_or_default()).await?;
    let mut held = Vec::new();
    for (table, holder) in tables.iter().zip(holders) {
        let Holder::Foreign { connection } = holder else { continue };
        let user = server::user_of(&mut line, connection).await;
        held.push(HeldByOther { table: table.clone(), connection, user });
    }
    Ok(held)
}
