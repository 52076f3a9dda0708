//! The live tables, read through the control account: columns, the ids that are already there,
//! names.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use self::account::Account;
use crate::ids::layout::Moment;
use crate::ids::range::block::{Spacing, Ticks};
use crate::rules::column::Meant;
use crate::rules::model::{ColumnShape, Rule, TableShape};
use crate::rules::{Ambiguous, RuleSet};
use crate::table_name::{NameCase, TableName};
use crate::text_query::with_values;

mod account;
mod counters;
pub mod facts;
mod keys;
mod primary;

pub use account::{Control, Primary, Way};
pub use counters::{Counter, IdColumn, InsertTrigger, Session, Tally};
pub use keys::WholeKey;

/// What a name is to the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTable {
    pub kind: TableKind,
    /// As the backend spells it.
    pub name: String,
    pub shape: TableShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    Base,
    View,
    /// MariaDB's SEQUENCE, a system view.
    Other,
}

impl TableKind {
    /// `name`: as information_schema.tables has it.
    fn of(name: &str) -> TableKind {
        match name {
            "BASE TABLE" | "SYSTEM VERSIONED" => TableKind::Base,
            "VIEW" => TableKind::View,
            _ => TableKind::Other,
        }
    }
}

/// The backend's tables that have rules.
#[derive(Debug, Default)]
pub struct RuledTables {
    /// Each with its rule, which names a column ([`Rule::meant`]).
    pub tables: Vec<(String, Arc<Rule>)>,
    /// Matched by a pattern, without its column.
    pub passed: Vec<(String, Arc<Rule>)>,
    pub ambiguous: Vec<Ambiguous>,
}

/// A view through which rows can be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewText {
    pub schema: String,
    pub name: String,
    /// As information_schema writes it, every name between backticks; empty where the account lacks
    /// SHOW VIEW.
    pub definition: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "the control account {user:?} cannot connect: {error}; check [backend.control] and the account's rights"
    )]
    Connect { user: String, error: String },
    #[error("the control account's query failed: {0}")]
    Query(#[from] mysql_async::Error),
    #[error("the backend did not answer the control account within {0:?}")]
    Timeout(Duration),
    #[error(
        "{table} is locked, and new to its generator, so that its highest id must be read first: UNLOCK TABLES, or wait for \
         its DDL, and try again"
    )]
    Locked { table: String },
}

/// The control account, and its connections.
#[derive(Debug, Clone)]
pub struct Schema {
    account: Account,
    timeout: Duration,
}

/// Tables that are read by one query.
const TABLES_PER_QUERY: usize = 32;

/// Ids of a text column that are named one by one.
const TEXTS_MAX: u64 = 10_000;

/// ER_LOCK_WAIT_TIMEOUT
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// How long the highest id of a table that is bound waits for the table's lock, while no other
/// table is bound.
const BINDING_LOCK_SECONDS: u32 = 5;

/// One query of the control account takes at most so long.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

impl Schema {
    /// Connects once, so that a wrong password shows at the start. Needs a Tokio runtime, which it
    /// uses until it is dropped.
    pub async fn connect(control: &Control) -> Result<Schema, SchemaError> {
        let account = Account::open(control, QUERY_TIMEOUT).await?;
        primary::watch(account.inner()).await;
        Ok(Schema { account, timeout: QUERY_TIMEOUT })
    }

    async fn conn(&self) -> Result<Conn, SchemaError> {
        self.own_connection(self.timeout).await
    }

    /// A connection of one's own: for locks, which belong to their connection.
    pub async fn own_connection(&self, limit: Duration) -> Result<Conn, SchemaError> {
        self.account.connection(limit).await
    }

    /// Which of the backend's addresses is connected to first.
    pub fn primary(&self) -> &Primary {
        self.account.primary()
    }

    async fn rows(&self, sql: &str, params: Vec<mysql_async::Value>) -> Result<Vec<Row>, SchemaError> {
        let mut conn = self.conn().await?;
        within(self.timeout, conn.query(with_values(sql, params))).await
    }

    /// `lower_case_table_names`
    pub async fn name_case(&self) -> Result<NameCase, SchemaError> {
        let rows = self.rows("SELECT @@lower_case_table_names", vec![]).await?;
        let folds = rows.first().and_then(|row| number(row, 0));
        Ok(if folds == Some(0) { NameCase::Sensitive } else { NameCase::Insensitive })
    }

    /// As `SELECT VERSION()` shows it.
    pub async fn version(&self) -> Result<String, SchemaError> {
        let rows = self.rows("SELECT VERSION()", vec![]).await?;
        Ok(rows.first().and_then(|row| text(row, 0)).unwrap_or_default())
    }

    /// Accounts that MySQL lets in over a Unix socket where an OS user of another name connects, by
    /// their names. MariaDB has none.
    pub async fn socket_users(&self, os_user: &str) -> Result<Vec<String>, SchemaError> {
        if self.version().await?.contains("MariaDB") {
            return Ok(Vec::new());
        }
        let sql = "SELECT DISTINCT user FROM mysql.user WHERE plugin = 'auth_socket' AND authentication_string = ? ORDER BY user";
        let rows = self.rows(sql, vec![os_user.into()]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    /// What time the server has.
    pub async fn clock(&self) -> Result<Moment, SchemaError> {
        let sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        let rows = self.rows(sql, vec![]).await?;
        let micros = rows.first().and_then(|row| number(row, 0));
        Ok(Moment::from_micros(micros.unwrap_or_default()))
    }

    /// The base tables of a schema, by name.
    pub async fn tables(&self, schema: &str) -> Result<Vec<String>, SchemaError> {
        let sql = "SELECT table_name FROM information_schema.tables \
                   WHERE table_schema = ? AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY table_name";
        let rows = self.rows(sql, vec![schema.into()]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    /// Each table of the backend that has a rule, by schema and name.
    pub async fn ruled_tables(&self, case: NameCase, rules: &RuleSet) -> Result<RuledTables, SchemaError> {
        let schemas: BTreeSet<&str> = rules.rules().map(|rule| rule.schema.as_str()).collect();
        let mut found = RuledTables::default();
        let mut unclear = Vec::new();
        for schema in schemas {
            for table in self.tables(schema).await? {
                match rules.find(case, schema, &table) {
                    Ok(Some(rule)) if rule.hangs_on_columns() => unclear.push((table, rule.clone())),
                    Ok(Some(rule)) => found.tables.push((table, rule.clone())),
                    Ok(None) => {}
                    Err(ambiguous) => found.ambiguous.push(ambiguous),
                }
            }
        }
        let names: Vec<_> = unclear.iter().map(|(table, rule)| TableName::new(&rule.schema, table)).collect();
        for ((table, rule), live) in unclear.into_iter().zip(self.live_tables(case, &names).await?) {
            // One that is gone meanwhile has no columns.
            let columns = live.map(|live| live.shape.columns).unwrap_or_default();
            match rule.meant(&table, columns.iter()) {
                Meant::Fills(rule) => found.tables.push((table, rule)),
                Meant::Passes => found.passed.push((table, rule)),
                // Whoever looks at its columns says so.
                Meant::Lacks(_) => found.tables.push((table, rule)),
            }
        }
        Ok(found)
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

    /// The columns of a table or view in their order; `None` where there is none of this name.
    pub async fn shape(&self, schema: &str, table: &str) -> Result<Option<TableShape>, SchemaError> {
        Ok(self.table(NameCase::Sensitive, schema, table).await?.map(|live| live.shape))
    }

    /// What a name stands for, and its columns in their order; `None` where there is nothing of it.
    pub async fn table(
        &self,
        case: NameCase,
        schema: &str,
        table: &str,
    ) -> Result<Option<LiveTable>, SchemaError> {
        let found = self.live_tables(case, &[TableName::new(schema, table)]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// [`Schema::table`] of several, in one query for each `TABLES_PER_QUERY`.
    pub async fn live_tables(
        &self,
        case: NameCase,
        names: &[TableName],
    ) -> Result<Vec<Option<LiveTable>>, SchemaError> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(TABLES_PER_QUERY) {
            // Both names in both conditions: MariaDB opens one table for each, and no folder is
            // read.
            let one = |nth: usize| {
                format!(
                    "SELECT c.column_name, c.data_type, c.column_type, c.extra, t.table_name, t.table_type, {nth} AS nth, \
                     c.ordinal_position AS place, t.table_schema, c.table_schema AS schema_of_column, \
                     c.table_name AS table_of_column, c.column_key FROM information_schema.tables t JOIN information_schema.columns c \
                     ON c.table_schema = t.table_schema AND c.table_name = t.table_name \
                     WHERE t.table_schema = ? AND t.table_name = ? AND c.table_schema = ? AND c.table_name = ?"
                )
            };
            let sql = (0..names.len()).map(one).collect::<Vec<_>>().join(" UNION ALL ");
            let params = names.iter().flat_map(|TableName { schema, table }| [schema, table, schema, table]);
            let mut rows = self.rows(&sql, params.map(mysql_async::Value::from).collect()).await?;
            rows.sort_by_key(|row| (number(row, 6), number(row, 7)));
            found.extend((0u64..).zip(names).map(|(nth, name)| {
                let rows = rows.iter().filter(|row| number(row, 6) == Some(nth));
                live_table(case, name, &rows.collect::<Vec<_>>())
            }));
        }
        Ok(found)
    }

    /// The highest id that may be in the table: max(MAX(column), AUTO_INCREMENT counter - 1). 0
    /// where there is none.
    pub async fn highest_id(
        &self,
        schema: &str,
        table: &str,
        column: &str,
        id_max: Option<u64>,
    ) -> Result<u64, SchemaError> {
        self.highest_id_within(BINDING_LOCK_SECONDS, schema, table, column, id_max).await
    }

    /// [`Schema::highest_id`] that waits so long for the table's lock.
    pub async fn highest_id_within(
        &self,
        lock_seconds: u32,
        schema: &str,
        table: &str,
        column: &str,
        id_max: Option<u64>,
    ) -> Result<u64, SchemaError> {
        let mut conn = self.conn().await?;
        let work = async {
            // MySQL keeps the counter for a day; MariaDB does not know the variable, and reads it
            // afresh.
            let _ = conn.query_drop("SET information_schema_stats_expiry = 0").await;
            conn.query_drop(format!("SET lock_wait_timeout = {lock_seconds}")).await?;
            let _ = conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await;
            let data_type: Option<String> = conn
                .query_first(with_values(
                    "SELECT data_type FROM information_schema.columns \
                     WHERE table_schema = ? AND table_name = ? AND column_name = ?",
                    (schema, table, column),
                ))
                .await?;
            let (column, from) = (quoted(column), format!("{}.{}", quoted(schema), quoted(table)));
            let sql = if holds_text(&data_type.unwrap_or_default()) {
                // Other texts than digits alone are never issued.
                let number = format!("CAST({column} AS DECIMAL(65))");
                format!(
                    "SELECT CAST(MAX({number}) AS CHAR) FROM {from} WHERE {} AND {number} <= {}",
                    is_digits(&column),
                    id_max.unwrap_or(i64::MAX.unsigned_abs())
                )
            } else {
                // Of DECIMAL and DOUBLE too no more than digits.
                let up_to = id_max.map_or_else(String::new, |id| format!(" WHERE {column} <= {id}"));
                format!("SELECT CAST(CAST(CEILING(MAX({column})) AS DECIMAL(65)) AS CHAR) FROM {from}{up_to}")
            };
            let highest: Option<Option<String>> = conn.query_first(sql).await?;
            let counter: Option<Option<u64>> = conn
                .query_first(with_values(
                    "SELECT auto_increment FROM information_schema.tables WHERE table_schema = ? AND table_name = ? \
                     ORDER BY table_name = CAST(? AS BINARY) AND table_schema = CAST(? AS BINARY) DESC",
                    (schema, table, table, schema),
                ))
                .await?;
            let highest = highest.flatten().map_or(0, |digits| as_highest(&digits));
            let counter = counter.flatten().unwrap_or(1).saturating_sub(1);
            let counts = id_max.is_none_or(|id_max| counter <= id_max);
            Ok::<u64, SchemaError>(if counts { highest.max(counter) } else { highest })
        };
        match within(self.timeout * 12, work).await {
            Err(SchemaError::Query(mysql_async::Error::Server(error))) if error.code == LOCK_WAIT_TIMEOUT => {
                Err(SchemaError::Locked { table: format!("{schema}.{table}") })
            }
            highest => highest,
        }
    }

    /// The highest id that is in an integer column, rows of open transactions included; 0 where
    /// there is none.
    pub async fn highest_stored(&self, schema: &str, table: &str, column: &str) -> Result<u64, SchemaError> {
        let mut conn = self.conn().await?;
        let work = async {
            conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await?;
            let (column, schema, table) = (quoted(column), quoted(schema), quoted(table));
            let sql = format!("SELECT CAST(MAX({column}) AS CHAR) FROM {schema}.{table}");
            let highest: Option<Option<String>> = conn.query_first(sql).await?;
            Ok::<u64, SchemaError>(highest.flatten().and_then(|id| id.parse().ok()).unwrap_or(0))
        };
        within(self.timeout, work).await
    }

    /// The smallest of a statement's ids that is in the table, rows of open transactions included.
    /// Between them may lie others', of another step or node.
    pub async fn smallest_id(
        &self,
        (schema, table): (&str, &str),
        column: &ColumnShape,
        (first, last, spacing): (u64, u64, &Spacing),
    ) -> Result<Option<u64>, SchemaError> {
        let mut conn = self.conn().await?;
        let work = async {
            // Not for LOCK TABLES ... WRITE of the very session that waits for the answer.
            conn.query_drop("SET lock_wait_timeout = 1").await?;
            conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await?;
            let (name, from) = (quoted(&column.name), format!("{}.{}", quoted(schema), quoted(table)));
            let sql = if !holds_text(&column.data_type) {
                format!(
                    "SELECT CAST(CAST(MIN({name}) AS DECIMAL(65)) AS CHAR) FROM {from} WHERE {name} BETWEEN {first} AND {last}{}",
                    is_spaced(&name, first, spacing)
                )
            } else if last - first < TEXTS_MAX {
                // By an index, if there is one.
                let ids =
                    (0..).map_while(|k| first.checked_add(spacing.offset(k)?)).take_while(|id| *id <= last);
                let texts: Vec<_> = ids.map(|id| format!("'{id}'")).collect();
                format!(
                    "SELECT CAST(MIN(CAST({name} AS DECIMAL(65))) AS CHAR) FROM {from} WHERE {name} IN ({})",
                    texts.join(",")
                )
            } else {
                let number = format!("CAST({name} AS DECIMAL(65))");
                format!(
                    "SELECT CAST(MIN({number}) AS CHAR) FROM {from} WHERE {} AND {number} BETWEEN {first} AND {last}{}",
                    is_digits(&name),
                    is_spaced(&number, first, spacing)
                )
            };
            let smallest: Option<Option<String>> = conn.query_first(sql).await?;
            Ok::<Option<u64>, SchemaError>(smallest.flatten().and_then(|id| id.parse().ok()))
        };
        within(self.timeout, work).await
    }
}

/// The answer, unless it takes longer.
async fn within<T, E>(limit: Duration, answer: impl Future<Output = Result<T, E>>) -> Result<T, SchemaError>
where
    SchemaError: From<E>,
{
    Ok(tokio::time::timeout(limit, answer).await.map_err(|_| SchemaError::Timeout(limit))??)
}

/// For a WHERE, after a condition that it lies between the first id and the last: whether a number
/// is one of the ids.
fn is_spaced(number: &str, first: u64, spacing: &Spacing) -> String {
    let step = spacing.step;
    let above = format!("({number}-{first})");
    let is_one = match spacing.ticks {
        None if step == NonZeroU64::MIN => return String::new(),
        None => format!("{above} MOD {step}=0"),
        Some(Ticks { ids, distance }) => {
            format!("{above} MOD {distance} MOD {step}=0 AND {above} MOD {distance} DIV {step}<{ids}")
        }
    };
    // What is below the first is never subtracted from, in whatever order the server looks.
    format!(" AND IF({number}<{first},0,{is_one})")
}

/// Below zero is below every id that is issued; above 64 bits nothing is.
fn as_highest(digits: &str) -> u64 {
    if digits.starts_with('-') { 0 } else { digits.parse().unwrap_or(u64::MAX) }
}

/// Whether a column's values are compared letter by letter.
fn holds_text(data_type: &str) -> bool {
    ["char", "text", "binary", "blob"].iter().any(|kind| data_type.to_ascii_lowercase().ends_with(kind))
}

/// Of a text column: whether the value is what an id of ours looks like.
fn is_digits(column: &str) -> String {
    format!("CONVERT({column} USING utf8mb4) REGEXP '^[0-9]{{1,19}}$'")
}

fn text(row: &Row, at: usize) -> Option<String> {
    row.get_opt::<String, _>(at)?.ok()
}

fn number(row: &Row, at: usize) -> Option<u64> {
    row.get_opt::<u64, _>(at)?.ok()
}

fn column(row: &Row) -> Option<ColumnShape> {
    let text = |at| text(row, at);
    let in_primary_key = text(11).is_some_and(|key| key == "PRI");
    Some(ColumnShape { in_primary_key, ..ColumnShape::of(&text(0)?, &text(1)?, &text(2)?, &text(3)?) })
}

fn live_table(case: NameCase, TableName { schema, table }: &TableName, rows: &[&Row]) -> Option<LiveTable> {
    // MariaDB's information_schema compares names without their case, also where `t` and `T` are
    // two tables.
    let is_it = |row: &&Row| {
        let is = |at: usize, name: &String| text(row, at).as_ref() == Some(name);
        case == NameCase::Insensitive || is(4, table) && is(10, table) && is(8, schema) && is(9, schema)
    };
    let rows: Vec<&Row> = rows.iter().copied().filter(is_it).collect();
    let columns: Vec<ColumnShape> = rows.iter().copied().filter_map(column).collect();
    let first = rows.first()?;
    let (kind, name) = (TableKind::of(text(first, 5).as_deref().unwrap_or_default()), text(first, 4)?);
    Some(LiveTable { kind, name, shape: TableShape { columns } })
}

/// An identifier between backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::as_highest;

    #[test]
    fn the_highest_id_of_a_column() {
        for (digits, expect) in
            [("8", 8), ("-3", 0), ("-99999999999999999999999", 0), ("99999999999999999999999", u64::MAX)]
        {
            assert_eq!(as_highest(digits), expect, "{digits}");
        }
    }
}
