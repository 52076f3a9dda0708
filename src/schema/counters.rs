//! The questions of a migration to the live server: which columns have AUTO_INCREMENT, how it counts, who is
//! connected, which ids are there.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};

use super::{BINDING_LOCK_SECONDS, Schema, SchemaError, TABLES_PER_QUERY, as_highest, number, text, within};
use crate::rules::model::ColumnShape;
use crate::sql::name::quoted;
use crate::text_query::with_values;

/// A column with AUTO_INCREMENT and its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    pub schema: String,
    pub table: String,
    pub column: ColumnShape,
    /// The column's type as CREATE TABLE writes it: `int(10) unsigned`.
    pub column_type: String,
    pub engine: String,
    /// The number of rows, as the engine estimates it.
    pub rows: u64,
    /// The id that it would hand out next, of an increment of 1.
    pub next: u64,
}

/// A column whose ids are asked for.
#[derive(Debug, Clone, Copy)]
pub struct IdColumn<'a> {
    pub schema: &'a str,
    pub table: &'a str,
    pub column: &'a str,
}

impl IdColumn<'_> {
    fn from(&self) -> String {
        format!("{}.{}", quoted(self.schema), quoted(self.table))
    }
}

/// Somebody who is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConnection {
    /// Ascends with each connection.
    pub id: u64,
    pub user: String,
    pub host: String,
    pub command: String,
}

/// Ids of a range of one column, by the remainder that they leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    /// Rows whose ids leave the remainder, and the highest of them.
    pub of_class: u64,
    pub highest_of_class: Option<u64>,
    /// The first and the last of the others.
    pub others: Option<(u64, u64)>,
}

/// A condition for a row of information_schema's privileges: the right is granted to this account itself.
const IS_OURS: &str = "grantee = CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''', \
                       SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')";

/// Triggers that an INSERT fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// One of them before the row is stored.
    pub before: bool,
    pub any: bool,
}

/// A BEFORE INSERT trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertTrigger {
    pub schema: String,
    pub table: String,
    pub name: String,
}

/// A query that reads all ids of a range may take its time: an index of a billion rows is read in
/// minutes.
const READING_TIMEOUT: Duration = Duration::from_hours(1);

const SYSTEM_SCHEMAS: &str = "'mysql', 'sys', 'performance_schema', 'information_schema'";

impl Schema {
    /// Rows of information_schema, by a query for which the server opens every table.
    pub(super) async fn slow_rows(&self, sql: &str) -> Result<Vec<Row>, SchemaError> {
        self.read(sql, vec![], self.timeout * 24).await
    }

    async fn read(&self, sql: &str, params: Vec<Value>, limit: Duration) -> Result<Vec<Row>, SchemaError> {
        let mut conn = self.looking(BINDING_LOCK_SECONDS).await?;
        within(limit, conn.query(with_values(sql, params))).await
    }

    /// The AUTO_INCREMENT columns of these schemas, or of all but the server's own where none is
    /// named; by name.
    pub async fn counters(&self, schemas: &[String]) -> Result<Vec<Counter>, SchemaError> {
        let places = vec!["?"; schemas.len()].join(", ");
        let which =
            if schemas.is_empty() { format!("NOT IN ({SYSTEM_SCHEMAS})") } else { format!("IN ({places})") };
        let sql = format!(
            "SELECT c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.extra, \
             COALESCE(t.engine, ''), COALESCE(t.table_rows, 0), COALESCE(t.auto_increment, 1), t.table_name AS joined \
             FROM information_schema.columns c JOIN information_schema.tables t \
             ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
             WHERE c.table_schema {which} AND c.extra LIKE '%auto_increment%' \
             AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2"
        );
        let params = schemas.iter().map(|schema| Value::from(schema.as_str())).collect();
        let rows = self.read(&sql, params, self.timeout * 12).await?;
        Ok(rows.iter().filter_map(counter).collect())
    }

    /// The highest id of each column, rows of open transactions included; one query for many.
    /// `None`: the table cannot be read (locked, or gone).
    pub async fn highest_ids(&self, columns: &[IdColumn<'_>]) -> Result<Vec<Option<u64>>, SchemaError> {
        let mut found = Vec::with_capacity(columns.len());
        for columns in columns.chunks(TABLES_PER_QUERY) {
            match self.highest_of_chunk(columns).await {
                Err(SchemaError::Query(mysql_async::Error::Server(_))) if columns.len() > 1 => {
                    for one in columns.chunks(1) {
                        found.extend(self.highest_of_chunk(one).await.unwrap_or_else(|_| vec![None]));
                    }
                }
                Err(SchemaError::Query(mysql_async::Error::Server(_))) => found.push(None),
                chunk => found.extend(chunk?),
            }
        }
        Ok(found)
    }

    async fn highest_of_chunk(&self, columns: &[IdColumn<'_>]) -> Result<Vec<Option<u64>>, SchemaError> {
        let one = |(nth, of): (usize, &IdColumn<'_>)| {
            let column = quoted(of.column);
            let highest = format!("COALESCE(CAST(CAST(CEILING(MAX({column})) AS DECIMAL(65)) AS CHAR), '0')");
            format!("SELECT {nth} AS nth, {highest} AS highest FROM {}", of.from())
        };
        let sql = columns.iter().enumerate().map(one).collect::<Vec<_>>().join(" UNION ALL ");
        let mut conn = self.looking(BINDING_LOCK_SECONDS).await?;
        let rows = within(self.timeout * 12, conn.query::<Row, _>(sql)).await?;
        let mut found = vec![None; columns.len()];
        for row in &rows {
            let nth = number(row, 0).and_then(|nth| usize::try_from(nth).ok());
            if let (Some(place), Some(digits)) = (nth.and_then(|nth| found.get_mut(nth)), text(row, 1)) {
                *place = Some(as_highest(&digits));
            }
        }
        Ok(found)
    }

    /// The server's global variables of these names, those that it knows.
    pub async fn globals(&self, names: &[&str]) -> Result<BTreeMap<String, String>, SchemaError> {
        let list = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})");
        let rows = self.read(&sql, vec![], self.timeout).await?;
        Ok(rows.iter().filter_map(|row| Some((text(row, 0)?.to_lowercase(), text(row, 1)?))).collect())
    }

    /// The text that `SHOW CREATE TABLE` prints in the usual sql_mode. `None`: there is no such table.
    pub async fn create_table(&self, schema: &str, table: &str) -> Result<Option<String>, SchemaError> {
        const NO_SUCH_TABLE: u16 = 1146;
        let mut conn = self.looking(BINDING_LOCK_SECONDS).await?;
        let name = IdColumn { schema, table, column: "" }.from();
        let work = async {
            conn.query_drop("SET sql_mode = '', sql_quote_show_create = 1").await?;
            conn.query_first::<Row, _>(format!("SHOW CREATE TABLE {name}")).await
        };
        match within(self.timeout, work).await {
            Ok(row) => Ok(row.and_then(|row| text(&row, 1))),
            Err(SchemaError::Query(mysql_async::Error::Server(error))) if error.code == NO_SUCH_TABLE => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The sessions that are connected. `None`: the account lacks PROCESS, and so sees only itself.
    pub async fn sessions(&self) -> Result<Option<Vec<ServerConnection>>, SchemaError> {
        let may = format!(
            "SELECT COUNT(*) FROM information_schema.user_privileges WHERE privilege_type = 'PROCESS' AND {IS_OURS}"
        );
        let rows = self.read(&may, vec![], self.timeout).await?;
        if rows.first().and_then(|row| number(row, 0)) == Some(0) {
            return Ok(None);
        }
        let rows = self.read("SHOW PROCESSLIST", vec![], self.timeout).await?;
        let session = |row| {
            let word = |at| text(row, at).unwrap_or_default();
            Some(ServerConnection { id: number(row, 0)?, user: word(1), host: word(2), command: word(4) })
        };
        Ok(Some(rows.iter().filter_map(session).collect()))
    }

    /// The BEFORE INSERT triggers of a schema, those that the account may see: it needs TRIGGER.
    pub async fn insert_triggers(&self, schema: &str) -> Result<Vec<InsertTrigger>, SchemaError> {
        let sql = "SELECT event_object_schema, event_object_table, trigger_name FROM information_schema.triggers \
                   WHERE event_object_schema = ? AND event_manipulation = 'INSERT' AND action_timing = 'BEFORE'";
        let rows = self.read(sql, vec![schema.into()], self.timeout).await?;
        let trigger =
            |row| Some(InsertTrigger { schema: text(row, 0)?, table: text(row, 1)?, name: text(row, 2)? });
        Ok(rows.iter().filter_map(trigger).collect())
    }

    /// Which triggers of a table an INSERT fires. `None`: the account may not see them, as far as its own
    /// grants tell (those of its roles are not looked at).
    pub async fn fired_by_insert(&self, schema: &str, table: &str) -> Result<Option<Fired>, SchemaError> {
        let may = |view: &str, of: &str| {
            format!(
                "(SELECT COUNT(*) FROM information_schema.{view}_privileges WHERE privilege_type = 'TRIGGER' AND {IS_OURS}{of})"
            )
        };
        let sql = format!(
            "SELECT COUNT(IF(action_timing = 'BEFORE', 1, NULL)), COUNT(*), {} + {} + {} FROM information_schema.triggers \
             WHERE event_object_schema = ? AND event_object_table = ? AND event_manipulation = 'INSERT'",
            may("user", ""),
            may("schema", " AND ? LIKE table_schema"),
            may("table", " AND table_schema = ? AND table_name = ?"),
        );
        let params = [schema, schema, table, schema, table].map(Into::into).to_vec();
        let rows = self.read(&sql, params, self.timeout).await?;
        let count = |at| rows.first().and_then(|row| number(row, at)).unwrap_or(0);
        let fired = Fired { before: count(0) > 0, any: count(1) > 0 };
        Ok((fired.any || count(2) > 0).then_some(fired))
    }

    pub async fn engine(&self, schema: &str, table: &str) -> Result<Option<String>, SchemaError> {
        let sql = "SELECT engine FROM information_schema.tables WHERE table_schema = ? AND table_name = ?";
        let rows = self.read(sql, vec![schema.into(), table.into()], self.timeout).await?;
        Ok(rows.first().and_then(|row| text(row, 0)))
    }

    /// Counts the ids above `after` up to `up_to` by whether they leave `remainder` when divided by
    /// `step`.
    pub async fn tally(
        &self,
        of: IdColumn<'_>,
        (after, up_to): (u64, u64),
        (step, remainder): (u64, u64),
    ) -> Result<Tally, SchemaError> {
        let (column, from) = (quoted(of.column), of.from());
        let is_ours = format!("{column} % {step} = {remainder}");
        let words = |what: &str| format!("CAST({what} AS CHAR)");
        let sql = format!(
            "SELECT {}, {}, {}, {}, {} FROM {from} WHERE {column} > {after} AND {column} <= {up_to}",
            words("COUNT(*)"),
            words(&format!("COALESCE(SUM({is_ours}), 0)")),
            words(&format!("MAX(IF({is_ours}, {column}, NULL))")),
            words(&format!("MIN(IF({is_ours}, NULL, {column}))")),
            words(&format!("MAX(IF({is_ours}, NULL, {column}))")),
        );
        let rows = self.read(&sql, vec![], READING_TIMEOUT).await?;
        let parsed = |at| rows.first().and_then(|row| text(row, at)).and_then(|digits| digits.parse().ok());
        Ok(Tally {
            rows: parsed(0).unwrap_or(0),
            of_class: parsed(1).unwrap_or(0),
            highest_of_class: parsed(2),
            others: parsed(3).zip(parsed(4)),
        })
    }

    /// True if a unique key of the column alone keeps rows with the same id out.
    pub async fn has_unique_key(&self, of: IdColumn<'_>) -> Result<bool, SchemaError> {
        let sql = "SELECT COUNT(*) FROM (SELECT index_name FROM information_schema.statistics \
                   WHERE table_schema = ? AND table_name = ? AND table_name = CAST(? AS BINARY) AND non_unique = 0 \
                   GROUP BY index_name HAVING COUNT(*) = 1 AND MAX(LOWER(column_name)) = LOWER(?)) AS of_the_column";
        let params = [of.schema, of.table, of.table, of.column].map(Value::from);
        let rows = self.read(sql, params.into(), self.timeout).await?;
        Ok(rows.first().and_then(|row| number(row, 0)).is_some_and(|keys| keys > 0))
    }

    /// The next ids above `after` up to `up_to` in their order, each with the number of rows that
    /// have it.
    pub async fn ids_after(
        &self,
        of: IdColumn<'_>,
        (after, up_to): (u64, u64),
        count_max: usize,
    ) -> Result<Vec<(u64, u64)>, SchemaError> {
        let (column, from) = (quoted(of.column), of.from());
        let sql = format!(
            "SELECT CAST({column} AS CHAR), COUNT(*) FROM {from} WHERE {column} > {after} AND {column} <= {up_to} \
             GROUP BY {column} ORDER BY {column} LIMIT {count_max}"
        );
        let rows = self.read(&sql, vec![], READING_TIMEOUT).await?;
        let id = |row| Some((text(row, 0)?.parse().ok()?, number(row, 1)?));
        Ok(rows.iter().filter_map(id).collect())
    }
}

fn counter(row: &Row) -> Option<Counter> {
    // MariaDB's information_schema joins names without their case, also where `t` and `T` are two
    // tables.
    if text(row, 1) != text(row, 9) {
        return None;
    }
    let column_type = text(row, 4)?;
    Some(Counter {
        schema: text(row, 0)?,
        table: text(row, 1)?,
        column: ColumnShape::of(&text(row, 2)?, &text(row, 3)?, &column_type, &text(row, 5)?),
        column_type,
        engine: text(row, 6)?,
        rows: number(row, 7).unwrap_or(0),
        next: number(row, 8).unwrap_or(1),
    })
}
