//! The facts, by a query or two for each schema, none for a single table but its highest id.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::{
    Accounts, Body, BodyKind, ColumnFacts, Facts, ForeignKey, Highest, Index, ServerFacts, TableFacts,
    ViewFacts,
};
use crate::ids::layout::Moment;
use crate::rules::RuleSet;
use crate::rules::column::Meant;
use crate::rules::model::{ColumnShape, Rule, holds_text};
use crate::schema::{Schema, SchemaError, TableKind, number, within};
use crate::table_name::{NameCase, TableName};
use crate::text_query::with_values;

/// Information_schema opens every table of a schema.
const QUERY_LIMIT: Duration = Duration::from_mins(2);
/// Up to here a table may be read whole for its highest id.
const ROWS_SCANNED_MAX: u64 = 100_000;
/// The server's own schemas.
const SYSTEM: &str = "('mysql', 'sys', 'information_schema', 'performance_schema')";

impl Facts {
    /// Reads all that concerns these rules. Nothing is written, and no table is locked.
    pub async fn read(schema: &Schema, rules: &RuleSet) -> Result<Facts, SchemaError> {
        let server = ServerFacts::read(schema).await?;
        let case = match server.variable("lower_case_table_names") {
            "0" => NameCase::Sensitive,
            _ => NameCase::Insensitive,
        };
        let before = Moment::from(SystemTime::now());
        let clocks = schema.clock().await.ok().map(|theirs| (before, theirs));
        let mut reader = Reader { conn: schema.conn().await?, case };
        // MySQL keeps counters for a day; MariaDB does not know the variable.
        let _ = reader.conn.query_drop("SET information_schema_stats_expiry = 0").await;
        let grants = reader.grants().await?;
        let accounts = Accounts::read(&mut reader.conn).await?;
        let schemas = reader.schemas().await?;
        let wanted: BTreeSet<&str> = rules.rules().map(|rule| rule.schema.as_str()).collect();
        let is_wanted = |name: &&String| {
            wanted.iter().any(|wanted| case.folded(wanted) == case.folded(name))
                || rules.is_meant_by_pattern(case, name)
        };
        let (mut tables, mut foreign_keys) = (Vec::new(), Vec::new());
        for name in schemas.iter().filter(is_wanted) {
            tables.extend(reader.tables(name).await?);
            foreign_keys.extend(reader.foreign_keys(name).await?);
        }
        let mut bodies = reader.triggers().await?;
        bodies.extend(reader.routines().await?);
        bodies.extend(reader.events().await?);
        let views = reader.views().await?;
        drop(reader);
        for table in tables.iter_mut().filter(|table| table.is_base()) {
            if let Ok(Some(rule)) = rules.find(case, &table.schema, &table.name)
                && let Meant::Fills(rule) = rule.meant(&table.name, table.shapes())
            {
                table.highest = highest(schema, table, &rule).await;
            }
        }
        Ok(Facts { server, case, clocks, grants, accounts, schemas, tables, foreign_keys, bodies, views })
    }
}

/// A query that takes too long is an error.
pub(super) async fn limited<T>(
    query: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, SchemaError> {
    within(QUERY_LIMIT, query).await
}

/// The highest id of a table. A large table in which no index gives it is left alone.
async fn highest(schema: &Schema, table: &TableFacts, rule: &Rule) -> Highest {
    let is_it = |name: &str| name.to_lowercase() == rule.column.to_lowercase();
    let Some(column) = table.column(is_it) else {
        return Highest::Unread("the table has no such column".to_owned());
    };
    let leads = |index: &Index| {
        index.is_ordered && index.columns.first().is_some_and(|first| first.as_deref().is_some_and(is_it))
    };
    let is_indexed = table.indexes.iter().any(leads) && !holds_text(&column.shape.data_type);
    let rows = table.rows.unwrap_or(u64::MAX);
    if !is_indexed && rows > ROWS_SCANNED_MAX {
        return Highest::Unread(format!(
            "no index gives it, and Rowstamp would have to read about {rows} rows"
        ));
    }
    match schema.highest_id(&table.schema, &table.name, &column.shape.name, None).await {
        Ok(id) => Highest::Id(id),
        Err(error) if error.is_denied() => Highest::Denied(error.to_string()),
        Err(error) => Highest::Unread(error.to_string()),
    }
}

/// One connection, whose queries follow each other.
struct Reader {
    conn: Conn,
    case: NameCase,
}

impl Reader {
    async fn rows(&mut self, sql: &str, params: &[&str]) -> Result<Vec<Row>, SchemaError> {
        let params: Vec<mysql_async::Value> = params.iter().map(|&text| text.into()).collect();
        if params.is_empty() {
            return limited(self.conn.query(sql)).await;
        }
        limited(self.conn.query(with_values(sql, params))).await
    }

    /// The grants of the account, and those of its active roles.
    async fn grants(&mut self) -> Result<Vec<String>, SchemaError> {
        let role = self.rows("SELECT CURRENT_ROLE()", &[]).await.ok();
        let role = role.and_then(|rows| text(rows.first()?, 0)).filter(|role| role.contains('@'));
        // MariaDB shows the role's by itself, and names it without a host.
        let sql = match role {
            Some(role) => format!("SHOW GRANTS FOR CURRENT_USER() USING {role}"),
            None => "SHOW GRANTS FOR CURRENT_USER()".to_owned(),
        };
        let rows = self.rows(&sql, &[]).await?;
        let mut grants: Vec<String> = rows.iter().filter_map(|row| text(row, 0)).collect();
        if let Ok(rows) = self.rows("SHOW GRANTS", &[]).await {
            grants.extend(rows.iter().filter_map(|row| text(row, 0)));
        }
        grants.sort();
        grants.dedup();
        Ok(grants)
    }

    async fn schemas(&mut self) -> Result<BTreeSet<String>, SchemaError> {
        let rows = self.rows("SELECT schema_name FROM information_schema.schemata", &[]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    async fn tables(&mut self, schema: &str) -> Result<Vec<TableFacts>, SchemaError> {
        let sql = "SELECT table_schema, table_name, table_type, table_rows, auto_increment \
                   FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name";
        let rows = self.rows(sql, &[schema]).await?;
        let mut tables: Vec<TableFacts> = rows.iter().filter_map(table).collect();
        tables.retain(|table| is_same(self.case, &table.schema, schema));
        let places: HashMap<String, usize> =
            tables.iter().enumerate().map(|(at, table)| (table.name.clone(), at)).collect();
        let case = self.case;
        let place = |row: &Row| {
            text(row, 1).filter(|of| is_same(case, of, schema))?;
            places.get(&text(row, 0)?).copied()
        };
        let sql = "SELECT table_name, table_schema, column_name, data_type, column_type, extra, is_nullable, \
                   character_maximum_length, numeric_precision, numeric_scale, column_default \
                   FROM information_schema.columns WHERE table_schema = ? ORDER BY table_name, ordinal_position";
        for row in self.rows(sql, &[schema]).await? {
            if let Some(table) = place(&row).and_then(|at| tables.get_mut(at)) {
                table.columns.extend(column(&row, 2));
            }
        }
        let sql = "SELECT table_name, table_schema, index_name, non_unique, index_type, column_name, sub_part \
                   FROM information_schema.statistics WHERE table_schema = ? \
                   ORDER BY table_name, index_name, seq_in_index";
        for row in self.rows(sql, &[schema]).await? {
            let Some(table) = place(&row).and_then(|at| tables.get_mut(at)) else { continue };
            let Some(name) = text(&row, 2) else { continue };
            let column = text(&row, 5).filter(|_| number(&row, 6).is_none());
            match table.indexes.iter_mut().find(|index| index.name == name) {
                Some(index) => index.columns.push(column),
                None => table.indexes.push(Index {
                    name,
                    is_unique: number(&row, 3) == Some(0),
                    is_ordered: text(&row, 4).is_some_and(|kind| kind.eq_ignore_ascii_case("BTREE")),
                    columns: vec![column],
                }),
            }
        }
        tables.iter_mut().for_each(mark_primary_key);
        Ok(tables)
    }

    async fn foreign_keys(&mut self, schema: &str) -> Result<Vec<ForeignKey>, SchemaError> {
        let sql = "SELECT k.constraint_name, k.table_schema, k.table_name, k.referenced_table_schema, \
                   k.referenced_table_name, k.referenced_column_name, c.column_name, c.data_type, c.column_type, c.extra, \
                   c.is_nullable, c.character_maximum_length, c.numeric_precision, c.numeric_scale, c.column_default, \
                   c.table_name AS joined FROM information_schema.key_column_usage k JOIN information_schema.columns c \
                   ON c.table_schema = k.table_schema AND c.table_name = k.table_name AND c.column_name = k.column_name \
                   WHERE k.referenced_table_schema = ? ORDER BY k.table_schema, k.table_name, k.constraint_name";
        let rows = self.rows(sql, &[schema]).await?;
        // The join too compares names without their case (see `is_same`). Only names that are spelled alike are one table's.
        let is_one = |row: &&Row| text(row, 2) == text(row, 15);
        let key = |row: &Row| {
            Some(ForeignKey {
                name: text(row, 0)?,
                schema: text(row, 1)?,
                table: text(row, 2)?,
                column: column(row, 6)?,
                to: (text(row, 3)?, text(row, 4)?, text(row, 5)?),
            })
        };
        let keys = rows.iter().filter(is_one).filter_map(key);
        Ok(keys.filter(|key| is_same(self.case, &key.to.0, schema)).collect())
    }

    async fn triggers(&mut self) -> Result<Vec<Body>, SchemaError> {
        let sql = format!(
            "SELECT trigger_schema, trigger_name, action_statement, sql_mode, event_object_schema, event_object_table, \
             action_timing, event_manipulation FROM information_schema.triggers WHERE trigger_schema NOT IN {SYSTEM}"
        );
        let rows = self.rows(&sql, &[]).await?;
        let trigger = |row: &Row| {
            let kind = BodyKind::Trigger {
                table: TableName::new(text(row, 4)?, text(row, 5)?),
                timing: text(row, 6)?,
                event: text(row, 7)?,
            };
            body(row, kind)
        };
        Ok(rows.iter().filter_map(trigger).collect())
    }

    async fn routines(&mut self) -> Result<Vec<Body>, SchemaError> {
        let sql = format!(
            "SELECT routine_schema, routine_name, routine_definition, sql_mode, routine_type, routine_body, \
             COALESCE(external_language, '') FROM information_schema.routines WHERE routine_schema NOT IN {SYSTEM}"
        );
        let rows = self.rows(&sql, &[]).await?;
        let routine = |row: &Row| {
            let kind = match text(row, 4)?.to_ascii_uppercase().as_str() {
                "PROCEDURE" => BodyKind::Procedure,
                "FUNCTION" => BodyKind::Function,
                "PACKAGE BODY" => BodyKind::Package,
                // A PACKAGE declares, and does nothing.
                _ => return None,
            };
            let is_sql = text(row, 5).is_none_or(|body| body.eq_ignore_ascii_case("SQL"))
                && text(row, 6).is_none_or(|lang| lang.is_empty() || lang.eq_ignore_ascii_case("SQL"));
            Some(Body { is_foreign: !is_sql, ..body(row, kind)? })
        };
        Ok(rows.iter().filter_map(routine).collect())
    }

    async fn events(&mut self) -> Result<Vec<Body>, SchemaError> {
        let sql = format!(
            "SELECT event_schema, event_name, event_definition, sql_mode FROM information_schema.events \
             WHERE event_schema NOT IN {SYSTEM}"
        );
        let rows = self.rows(&sql, &[]).await?;
        Ok(rows.iter().filter_map(|row| body(row, BodyKind::Event)).collect())
    }

    async fn views(&mut self) -> Result<Vec<ViewFacts>, SchemaError> {
        let sql = format!(
            "SELECT table_schema, table_name, COALESCE(view_definition, ''), is_updatable \
             FROM information_schema.views WHERE table_schema NOT IN {SYSTEM}"
        );
        let rows = self.rows(&sql, &[]).await?;
        let view = |row: &Row| {
            Some(ViewFacts {
                schema: text(row, 0)?,
                name: text(row, 1)?,
                definition: text(row, 2)?,
                is_updatable: text(row, 3)?.eq_ignore_ascii_case("YES"),
                columns: Vec::new(),
            })
        };
        let mut views: Vec<ViewFacts> = rows.iter().filter_map(view).collect();
        let places: HashMap<TableName, usize> = views
            .iter()
            .enumerate()
            .map(|(at, view)| (TableName::new(&view.schema, &view.name), at))
            .collect();
        let schemas: BTreeSet<String> = views.iter().map(|view| view.schema.clone()).collect();
        let sql = "SELECT table_schema, table_name, column_name FROM information_schema.columns \
                   WHERE table_schema = ? AND table_name IN \
                   (SELECT table_name FROM information_schema.views WHERE table_schema = ?) \
                   ORDER BY table_name, ordinal_position";
        for schema in schemas {
            for row in self.rows(sql, &[&schema, &schema]).await? {
                let (Some(of), Some(name)) = (text(&row, 0), text(&row, 1)) else { continue };
                if let Some(view) =
                    places.get(&TableName { schema: of, table: name }).and_then(|at| views.get_mut(*at))
                {
                    view.columns.extend(text(&row, 2));
                }
            }
        }
        Ok(views)
    }
}

/// MariaDB's information_schema compares names without their case, also where `s` and `S` are two
/// schemas.
fn is_same(case: NameCase, found: &str, wanted: &str) -> bool {
    case == NameCase::Insensitive || found == wanted
}

/// `None` for NULL. Bodies may hold bytes that are no UTF-8.
fn text(row: &Row, at: usize) -> Option<String> {
    let bytes = row.get_opt::<Option<Vec<u8>>, _>(at)?.ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn mark_primary_key(table: &mut TableFacts) {
    let key = table.indexes.iter().find(|index| index.name == "PRIMARY");
    for name in key.iter().flat_map(|key| &key.columns) {
        let mut columns = table.columns.iter_mut();
        if let Some(column) = columns.find(|column| name.as_ref() == Some(&column.shape.name)) {
            column.shape.in_primary_key = true;
        }
    }
}

fn table(row: &Row) -> Option<TableFacts> {
    Some(TableFacts {
        schema: text(row, 0)?,
        name: text(row, 1)?,
        kind: TableKind::of(&text(row, 2)?),
        columns: Vec::new(),
        indexes: Vec::new(),
        rows: number(row, 3),
        counter: number(row, 4),
        highest: Highest::Unread("it has no rule".to_owned()),
    })
}

/// Reads a column after `at` other columns of the row: name, type, and so on.
fn column(row: &Row, at: usize) -> Option<ColumnFacts> {
    let column_type = text(row, at + 2)?;
    // MariaDB writes a DEFAULT of NULL as the word.
    let default = text(row, at + 8).filter(|default| default != "NULL");
    Some(ColumnFacts {
        shape: ColumnShape::of(&text(row, at)?, &text(row, at + 1)?, &column_type, &text(row, at + 3)?),
        column_type,
        length: number(row, at + 5),
        digits: number(row, at + 6).zip(number(row, at + 7)),
        is_nullable: text(row, at + 4)?.eq_ignore_ascii_case("YES"),
        has_default: default.is_some(),
    })
}

/// Schema, name, text and sql_mode lead the row.
fn body(row: &Row, kind: BodyKind) -> Option<Body> {
    Some(Body {
        kind,
        schema: text(row, 0)?,
        name: text(row, 1)?,
        text: text(row, 2),
        sql_mode: text(row, 3).unwrap_or_default(),
        is_foreign: false,
    })
}
