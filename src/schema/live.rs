//! The tables, views and sequences that the backend has under a name, and which of its tables have rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mysql_async::{Row, Value};

use super::{Schema, SchemaError, number, text};
use crate::rules::column::Meant;
use crate::rules::model::{ColumnShape, Rule, TableShape};
use crate::rules::pattern::is_pattern;
use crate::rules::{Ambiguous, RuleSet};
use crate::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};
use crate::sql::name::same_column;
use crate::sql::scan::scan;
use crate::table_name::{FoldedName, NameCase, TableName};

/// The table, view or sequence that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTable {
    pub kind: TableKind,
    /// The name as the backend spells it.
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
    pub(super) fn of(name: &str) -> TableKind {
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

/// Names with a rule, whatever they are to the backend.
#[derive(Debug, Default)]
pub struct RuledNames {
    pub names: Vec<(TableName, Arc<Rule>)>,
    pub ambiguous: Vec<Ambiguous>,
}

/// The number of tables that one query reads. Such a query takes only a moment, so that a caller which reports its
/// progress has something to report.
pub const TABLES_PER_READING: usize = 250;

/// Up to so many tables of a schema are asked for one by one.
///
/// MariaDB finds a table's columns by the table's file where the query compares both names with
/// constants, and nothing else: of a list of names, or of a join, it reads the schema's folder,
/// and for a join over two names the folders of all schemas. A folder of 10,000 tables takes it
/// some 10 ms, a query's arm of its own some 0.2 ms, a name of a list 0.03 ms.
const ONE_BY_ONE_MAX: usize = 16;

/// `place` is 0 for the table itself, which leads its columns.
const OF_TABLES: &str = "SELECT table_schema, table_name, 0 AS place, table_type, NULL AS column_name, NULL AS data_type, \
                         NULL AS column_type, NULL AS extra, NULL AS column_key, NULL AS needs_value FROM information_schema.tables";
const OF_COLUMNS: &str = "SELECT table_schema, table_name, ordinal_position, NULL, column_name, data_type, column_type, extra, \
                          column_key, is_nullable = 'NO' AND column_default IS NULL FROM information_schema.columns";

/// Triggers that INSERT fires and that may read the insert id, or write the row's; places from [`TRIGGERS_PLACE`]. Of those that UPDATE
/// fires no more than that they are there; places from [`UPDATE_TRIGGERS_PLACE`].
const OF_TRIGGERS: &str = "SELECT event_object_schema, event_object_table, IF(event_manipulation = 'INSERT', 65536, 131072) \
                           + 2 * action_order + (action_timing = 'BEFORE'), NULL, IF(event_manipulation = 'INSERT', action_statement, NULL), \
                           action_timing, NULL, NULL, NULL, NULL FROM information_schema.triggers";
const IF_OF_IDS: &str = "(event_manipulation = 'UPDATE' OR event_manipulation = 'INSERT' AND (LOWER(action_statement) LIKE '%last\\_insert\\_id%' \
                         OR action_timing = 'BEFORE' AND LOWER(action_statement) LIKE '%new%.%'))";
/// After all columns: a table has at most 4,096.
const TRIGGERS_PLACE: u64 = 65_536;
const UPDATE_TRIGGERS_PLACE: u64 = 131_072;

/// Which server and sql_mode a trigger's text is for changes nothing of the names that it assigns, but for names in double quotes.
const OF_BODIES: Dialect = Dialect {
    server: Server { kind: ServerKind::MySql, version: 90_000 },
    sql_mode: SqlMode::NONE,
    charset: ClientCharset::Utf8,
};

impl Schema {
    /// Each name that has a rule, by schema and name: of patterns those that fit a name of the
    /// backend's, of exact names all.
    pub async fn ruled_names(&self, case: NameCase, rules: &RuleSet) -> Result<RuledNames, SchemaError> {
        let is_of_one = |rule: &&Arc<Rule>| rule.of_schemas.is_none();
        let mut by_schema: BTreeMap<String, bool> = BTreeMap::new();
        for rule in rules.rules().filter(is_of_one) {
            *by_schema.entry(rule.schema.clone()).or_default() |= is_pattern(&rule.table);
        }
        let written: HashMap<String, String> =
            by_schema.keys().map(|name| (case.folded(name).into_owned(), name.clone())).collect();
        for schema in self.meant_schemas(case, rules).await? {
            by_schema.insert(written.get(&*case.folded(&schema)).unwrap_or(&schema).clone(), true);
        }
        let mut found = RuledNames::default();
        for (schema, has_pattern) in &by_schema {
            let exact = rules.rules().filter(is_of_one);
            let exact = exact.filter(|rule| rule.schema == *schema && !is_pattern(&rule.table));
            let mut names: Vec<String> = exact.map(|rule| rule.table.clone()).collect();
            if *has_pattern {
                names.extend(self.names_in(schema).await?);
            }
            names.sort_unstable();
            let mut seen = BTreeSet::new();
            for table in names.into_iter().filter(|table| seen.insert(case.folded(table).into_owned())) {
                match rules.find(case, schema, &table) {
                    Ok(Some(rule)) => found.names.push((TableName::new(schema, table), rule)),
                    Ok(None) => {}
                    Err(ambiguous) => found.ambiguous.push(ambiguous),
                }
            }
        }
        Ok(found)
    }

    /// The schemas of the server that are meant by patterns of schemas, and that the account sees.
    async fn meant_schemas(&self, case: NameCase, rules: &RuleSet) -> Result<Vec<String>, SchemaError> {
        if !rules.rules().any(|rule| rule.of_schemas.is_some()) {
            return Ok(Vec::new());
        }
        let names = self.schemas().await?;
        Ok(names.into_iter().filter(|name| rules.is_meant_by_pattern(case, name)).collect())
    }

    /// The schemas that the server lets the control account see: it hides the others.
    pub async fn schemas(&self) -> Result<Vec<String>, SchemaError> {
        let rows = self.rows("SELECT schema_name FROM information_schema.schemata", vec![]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    /// The tables and views of a schema. MariaDB reads a folder for them, and opens no file.
    async fn names_in(&self, schema: &str) -> Result<Vec<String>, SchemaError> {
        let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = ?";
        let rows = self.rows(sql, vec![schema.into()]).await?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }

    /// The base tables that have a rule, by schema and name. A view of that name, or a name without a table, is left out.
    pub async fn ruled_tables(&self, case: NameCase, rules: &RuleSet) -> Result<RuledTables, SchemaError> {
        let RuledNames { names, ambiguous } = self.ruled_names(case, rules).await?;
        let mut found = RuledTables { ambiguous, ..RuledTables::default() };
        let (asked, of_each): (Vec<_>, Vec<_>) = names.into_iter().unzip();
        for (rule, live) in of_each.into_iter().zip(self.live_tables(case, &asked).await?) {
            let Some(live) = live.filter(|live| live.kind == TableKind::Base) else { continue };
            // Only the table's columns show the meaning of such a rule for the table.
            if !(rule.is_auto() || rule.is_pattern()) {
                found.tables.push((live.name, rule));
                continue;
            }
            match rule.meant(&live.name, live.shape.columns.iter()) {
                Meant::Fills(rule) => found.tables.push((live.name, rule)),
                Meant::Passes => found.passed.push((live.name, rule)),
                // A rule whose column is not there counts as the table's rule: those who read the columns report the lack.
                Meant::Lacks(_) => found.tables.push((live.name, rule)),
            }
        }
        Ok(found)
    }

    /// The columns of a table or view in their order; `None` where there is none of this name.
    pub async fn shape(&self, schema: &str, table: &str) -> Result<Option<TableShape>, SchemaError> {
        Ok(self.table(NameCase::Sensitive, schema, table).await?.map(|live| live.shape))
    }

    /// The table that a name stands for, and its columns in their order. `None`: there is nothing of that name.
    pub async fn table(
        &self,
        case: NameCase,
        schema: &str,
        table: &str,
    ) -> Result<Option<LiveTable>, SchemaError> {
        let found = self.live_tables(case, &[TableName::new(schema, table)]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// [`Schema::table`] of several, in one query for each [`TABLES_PER_READING`] of a schema.
    pub async fn live_tables(
        &self,
        case: NameCase,
        names: &[TableName],
    ) -> Result<Vec<Option<LiveTable>>, SchemaError> {
        let mut by_schema: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for name in names {
            by_schema.entry(&name.schema).or_default().insert(&name.table);
        }
        let mut found = Found::new();
        for (schema, tables) in by_schema {
            let tables: Vec<&str> = tables.into_iter().collect();
            for tables in tables.chunks(TABLES_PER_READING) {
                let (sql, values) = reading(schema, tables);
                take_rows(case, &self.rows(&sql, values).await?, &mut found);
            }
        }
        Ok(names.iter().map(|name| live_table(found.get(&case.fold(&name.schema, &name.table))?)).collect())
    }
}

/// By name: the rows of a table and of its columns, by their place. One of `t` and `T` may be found
/// by the other's name too.
type Found = BTreeMap<FoldedName<'static>, BTreeMap<u64, Row>>;

/// The query for the kinds of these tables of a schema and for their columns, and its values.
fn reading(schema: &str, tables: &[&str]) -> (String, Vec<Value>) {
    let mut arms = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    for (of, prefix, also) in [
        (OF_TABLES, "table", String::new()),
        (OF_COLUMNS, "table", String::new()),
        (OF_TRIGGERS, "event_object", format!(" AND {IF_OF_IDS}")),
    ] {
        let schema_is = format!("{prefix}_schema = ?");
        let table_is = format!("{}_{}", prefix, if prefix == "table" { "name" } else { "table" });
        if tables.len() > ONE_BY_ONE_MAX {
            let places = vec!["?"; tables.len()].join(", ");
            arms.push(format!("{of} WHERE {schema_is} AND {table_is} IN ({places}){also}"));
            values.push(schema.into());
            values.extend(tables.iter().map(|&table| Value::from(table)));
            continue;
        }
        for &table in tables {
            arms.push(format!("{of} WHERE {schema_is} AND {table_is} = ?{also}"));
            values.extend([Value::from(schema), table.into()]);
        }
    }
    (arms.join(" UNION ALL "), values)
}

/// MariaDB's information_schema compares names without their case, also where `t` and `T` are two
/// tables.
fn take_rows(case: NameCase, rows: &[Row], found: &mut Found) {
    for row in rows {
        if let (Some(schema), Some(table), Some(place)) = (text(row, 0), text(row, 1), number(row, 2)) {
            found.entry(case.fold(&schema, &table).into_owned()).or_default().insert(place, row.clone());
        }
    }
}

fn live_table(rows: &BTreeMap<u64, Row>) -> Option<LiveTable> {
    let table = rows.get(&0)?;
    let mut columns: Vec<ColumnShape> =
        rows.range(1..TRIGGERS_PLACE).filter_map(|(_, row)| column(row)).collect();
    let mut shows_insert_id = false;
    for (_, trigger) in rows.range(TRIGGERS_PLACE..UPDATE_TRIGGERS_PLACE) {
        let Some(body) = text(trigger, 4) else { continue };
        shows_insert_id |= body.to_ascii_lowercase().contains("last_insert_id");
        if text(trigger, 5).is_some_and(|timing| timing.eq_ignore_ascii_case("BEFORE")) {
            // A trigger that cannot be read is left out, as one that the account may not see.
            let scan = scan(&body, OF_BODIES).unwrap_or_default();
            for column in &mut columns {
                column.set_by_trigger |= scan.sets_new.iter().any(|name| same_column(name, &column.name));
            }
        }
    }
    let kind = TableKind::of(text(table, 3).as_deref().unwrap_or_default());
    let fires_on_update = rows.range(UPDATE_TRIGGERS_PLACE..).next().is_some();
    // A name without columns has gone meanwhile.
    (!columns.is_empty()).then_some(LiveTable {
        kind,
        name: text(table, 1)?,
        shape: TableShape { columns, shows_insert_id, fires_on_update },
    })
}

fn column(row: &Row) -> Option<ColumnShape> {
    let text = |at| text(row, at);
    let in_primary_key = text(8).is_some_and(|key| key == "PRI");
    let shape = ColumnShape::of(&text(4)?, &text(5)?, &text(6)?, &text(7)?);
    let needs_value = number(row, 9) == Some(1) && !shape.auto_increment && !shape.generated;
    Some(ColumnShape { in_primary_key, needs_value, ..shape })
}
