//! The ids that are in the tables already.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};

use super::{Schema, SchemaError, number, text, within};
use crate::ids::block::{Spacing, Ticks};
use crate::rules::model::{ColumnShape, holds_text};
use crate::sql::name::quoted;
use crate::table_name::NameCase;
use crate::text_query::with_values;

/// Ids of a text column that are named one by one.
const TEXTS_MAX: u64 = 10_000;

/// Seconds that the query for the highest id of a table waits for the table's lock, when the table is assigned to its
/// generator. No other table is assigned meanwhile.
pub const BINDING_LOCK_SECONDS: u32 = 5;

/// Seconds that the query for the highest id of a table in use waits for the table's lock. Another session may hold
/// that lock for as long as it likes.
const USE_LOCK_SECONDS: u32 = 1;

/// Columns whose highest ids are read together. Where that fails, each is read alone.
pub const HIGHEST_PER_QUERY: usize = 250;

/// A column whose highest id is asked for, up to `id_max` where that is given.
#[derive(Debug, Clone, Copy)]
pub struct AskedHighest<'a> {
    pub schema: &'a str,
    pub table: &'a str,
    pub column: &'a ColumnShape,
    pub id_max: Option<u64>,
}

impl Schema {
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
        let mut conn = self.looking(lock_seconds).await?;
        let work = async {
            let data_type: Option<String> = conn
                .query_first(with_values(
                    "SELECT data_type FROM information_schema.columns \
                     WHERE table_schema = ? AND table_name = ? AND column_name = ?",
                    (schema, table, column),
                ))
                .await?;
            let data_type = data_type.unwrap_or_default();
            let highest: Option<Option<String>> =
                conn.query_first(highest_in((schema, table), (column, &data_type), id_max)).await?;
            let counter = counter_of(&mut conn, schema, table).await?;
            Ok::<u64, mysql_async::Error>(above(highest.flatten().as_deref(), counter, id_max))
        };
        match within(self.timeout * 12, work).await {
            Err(error) if error.waits_for_lock() => {
                Err(SchemaError::Locked { table: format!("{schema}.{table}") })
            }
            highest => highest,
        }
    }

    /// [`Schema::highest_id`] of a table whose highest id a session has read, by [`highest_query`]. LOCK TABLES of a
    /// session does not block reading the counter.
    pub async fn highest_id_above(
        &self,
        read: &str,
        schema: &str,
        table: &str,
        id_max: Option<u64>,
    ) -> Result<u64, SchemaError> {
        let mut conn = self.looking(BINDING_LOCK_SECONDS).await?;
        let counter = within(self.timeout, counter_of(&mut conn, schema, table)).await?;
        Ok(above(Some(read), counter, id_max))
    }

    /// [`Schema::highest_id`] of tables in use, [`HIGHEST_PER_QUERY`] at most. Waits a second for a table's lock.
    pub async fn highest_ids_in_use(
        &self,
        case: NameCase,
        asked: &[AskedHighest<'_>],
    ) -> Result<Vec<u64>, SchemaError> {
        self.highest_of(case, asked, USE_LOCK_SECONDS).await
    }

    /// True if an index begins with the column. Without one, the server looks at each row for the highest value.
    pub async fn index_begins_with(&self, of: AskedHighest<'_>) -> Result<bool, SchemaError> {
        let sql = "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? \
                   AND seq_in_index = 1 AND LOWER(column_name) = LOWER(?)";
        let mut conn = self.conn().await?;
        let values = (of.schema, of.table, &*of.column.name);
        let count: Option<u64> = within(self.timeout, conn.query_first(with_values(sql, values))).await?;
        Ok(count.is_some_and(|count| count > 0))
    }

    /// [`Schema::highest_id`] of several columns, in two queries for each `HIGHEST_PER_QUERY`.
    pub async fn highest_ids_of(
        &self,
        case: NameCase,
        asked: &[AskedHighest<'_>],
    ) -> Result<Vec<u64>, SchemaError> {
        let mut found = Vec::with_capacity(asked.len());
        for asked in asked.chunks(HIGHEST_PER_QUERY) {
            match self.highest_of(case, asked, BINDING_LOCK_SECONDS).await {
                Ok(highest) => found.extend(highest),
                // A table that is locked, or gone, or large and without an index.
                Err(SchemaError::Query(mysql_async::Error::Server(_)) | SchemaError::Timeout(_)) => {
                    for AskedHighest { schema, table, column, id_max } in asked {
                        found.push(self.highest_id(schema, table, &column.name, *id_max).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn highest_of(
        &self,
        case: NameCase,
        asked: &[AskedHighest<'_>],
        lock_seconds: u32,
    ) -> Result<Vec<u64>, SchemaError> {
        let highest = |(nth, of): (usize, &AskedHighest<'_>)| {
            let column = (of.column.name.as_str(), of.column.data_type.as_str());
            format!("SELECT {nth}, ({})", highest_in((of.schema, of.table), column, of.id_max))
        };
        let highest = asked.iter().enumerate().map(highest).collect::<Vec<_>>().join(" UNION ALL ");
        let mut by_schema: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for of in asked.iter().filter(|of| of.column.auto_increment) {
            by_schema.entry(of.schema).or_default().push(of.table);
        }
        let mut conn = self.looking(lock_seconds).await?;
        let work = async {
            let highest: Vec<Row> = conn.query(highest).await?;
            let mut counters = BTreeMap::new();
            for (schema, tables) in by_schema {
                let places = vec!["?"; tables.len()].join(", ");
                let sql = format!(
                    "SELECT table_schema, table_name, auto_increment FROM information_schema.tables \
                     WHERE table_schema = ? AND table_name IN ({places}) AND auto_increment IS NOT NULL"
                );
                let values: Vec<Value> = [schema].into_iter().chain(tables).map(Value::from).collect();
                let rows: Vec<Row> = conn.query(with_values(&sql, values)).await?;
                let counter = |row: &Row| {
                    let name = case.fold(&text(row, 0)?, &text(row, 1)?).into_owned();
                    Some((name, number(row, 2)?))
                };
                counters.extend(rows.iter().filter_map(counter));
            }
            let highest = highest.iter().filter_map(|row| Some((number(row, 0)?, text(row, 1))));
            Ok::<_, mysql_async::Error>((highest.collect::<BTreeMap<_, _>>(), counters))
        };
        let (highest, counters) = within(self.timeout * 12, work).await?;
        let of = |(nth, of): (u64, &AskedHighest<'_>)| {
            let counter = counters.get(&case.fold(of.schema, of.table)).copied();
            above(highest.get(&nth).and_then(Option::as_deref), counter, of.id_max)
        };
        Ok((0..).zip(asked).map(of).collect())
    }

    /// A connection that looks at ids: of open transactions too, for what they wrote may stay.
    pub(super) async fn looking(&self, lock_seconds: u32) -> Result<Conn, SchemaError> {
        let mut conn = self.conn().await?;
        let work = async {
            // MySQL keeps the counter for a day; MariaDB does not know the variable, and reads it
            // afresh.
            let _ = conn.query_drop("SET information_schema_stats_expiry = 0").await;
            conn.query_drop(format!("SET lock_wait_timeout = {lock_seconds}")).await?;
            // A look that the server cuts short would say nothing of the table. Each server knows one of them.
            let unlimited = conn.query_drop("SET max_statement_time = 0").await;
            if unlimited.is_err() {
                conn.query_drop("SET max_execution_time = 0").await?;
            }
            conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await
        };
        within(self.timeout, work).await?;
        Ok(conn)
    }

    /// The smallest of a statement's ids that is in the table, by [`smallest_query`], rows of open transactions included.
    pub async fn smallest_id(&self, query: &str) -> Result<Option<u64>, SchemaError> {
        let mut conn = self.conn().await?;
        let work = async {
            // Not for LOCK TABLES ... WRITE of the very session that waits for the answer.
            conn.query_drop("SET lock_wait_timeout = 1").await?;
            conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await?;
            let smallest: Option<Option<String>> = conn.query_first(query).await?;
            Ok::<Option<u64>, SchemaError>(smallest.flatten().and_then(|id| id.parse().ok()))
        };
        within(self.timeout, work).await
    }
}

/// The query for the smallest of a statement's ids that is in the table, as digits; NULL where none is. Ids of others may
/// lie between the statement's, of another step or node.
pub fn smallest_query(
    (schema, table): (&str, &str),
    column: &ColumnShape,
    (first, last, spacing): (u64, u64, &Spacing),
) -> String {
    let (name, from) = (quoted(&column.name), format!("{}.{}", quoted(schema), quoted(table)));
    if !holds_text(&column.data_type) {
        return format!(
            "SELECT CAST(CAST(MIN({name}) AS DECIMAL(65)) AS CHAR) FROM {from} WHERE {name} BETWEEN {first} AND {last}{} LIMIT 1",
            is_spaced(&name, first, spacing)
        );
    }
    if last - first < TEXTS_MAX {
        // The ids as a list of texts: an index of the text column can serve it.
        let ids = (0..).map_while(|k| first.checked_add(spacing.offset(k)?)).take_while(|id| *id <= last);
        let texts: Vec<_> = ids.map(|id| format!("'{id}'")).collect();
        return format!(
            "SELECT CAST(MIN(CAST({name} AS DECIMAL(65))) AS CHAR) FROM {from} WHERE {name} IN ({}) LIMIT 1",
            texts.join(",")
        );
    }
    let number = format!("CAST({name} AS DECIMAL(65))");
    format!(
        "SELECT CAST(MIN({number}) AS CHAR) FROM {from} WHERE {} AND {number} BETWEEN {first} AND {last}{} LIMIT 1",
        is_digits(&name),
        is_spaced(&number, first, spacing)
    )
}

/// A query of one value: the highest id of a column, by its name and type, as digits; NULL where
/// there is none.
fn highest_in(
    (schema, table): (&str, &str),
    (column, data_type): (&str, &str),
    id_max: Option<u64>,
) -> String {
    let (column, from) = (quoted(column), format!("{}.{}", quoted(schema), quoted(table)));
    if holds_text(data_type) {
        // Other texts than digits alone are never issued.
        let number = format!("CAST({column} AS DECIMAL(65))");
        return format!(
            "SELECT CAST(MAX({number}) AS CHAR) FROM {from} WHERE {} AND {number} <= {}",
            is_digits(&column),
            id_max.unwrap_or(i64::MAX.unsigned_abs())
        );
    }
    // DECIMAL and DOUBLE too give digits only.
    let up_to = id_max.map_or_else(String::new, |id| format!(" WHERE {column} <= {id}"));
    format!("SELECT CAST(CAST(CEILING(MAX({column})) AS DECIMAL(65)) AS CHAR) FROM {from}{up_to}")
}

/// The query for the highest id of a column, as digits; NULL where there is none. A session that has locked
/// the table runs it itself.
pub fn highest_query(schema: &str, table: &str, column: &ColumnShape, id_max: Option<u64>) -> String {
    highest_in((schema, table), (&column.name, &column.data_type), id_max) + " LIMIT 1"
}

/// The id that the AUTO_INCREMENT counter would hand out next.
async fn counter_of(conn: &mut Conn, schema: &str, table: &str) -> Result<Option<u64>, mysql_async::Error> {
    let counter: Option<Option<u64>> = conn
        .query_first(with_values(
            "SELECT auto_increment FROM information_schema.tables WHERE table_schema = ? AND table_name = ? \
             ORDER BY table_name = CAST(? AS BINARY) AND table_schema = CAST(? AS BINARY) DESC",
            (schema, table, table, schema),
        ))
        .await?;
    Ok(counter.flatten())
}

/// The highest id that may be in a table, from the highest id in the column, as digits, and the next id of the
/// AUTO_INCREMENT counter.
fn above(highest: Option<&str>, counter: Option<u64>, id_max: Option<u64>) -> u64 {
    let highest = highest.map_or(0, as_highest);
    let counter = counter.unwrap_or(1).saturating_sub(1);
    let counts = id_max.is_none_or(|id_max| counter <= id_max);
    if counts { highest.max(counter) } else { highest }
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
    // A number below the first is never subtracted from, in whatever order the server evaluates.
    format!(" AND IF({number}<{first},0,{is_one})")
}

/// Below zero is below every id that is issued; above 64 bits nothing is.
pub(super) fn as_highest(digits: &str) -> u64 {
    if digits.starts_with('-') { 0 } else { digits.parse().unwrap_or(u64::MAX) }
}

/// A condition for a text column: true if the value looks like an id of Rowstamp.
fn is_digits(column: &str) -> String {
    format!("CONVERT({column} USING utf8mb4) REGEXP '^[0-9]{{1,19}}$'")
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
