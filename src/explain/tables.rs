//! The meaning of names in `explain`: from the rules, the live tables where they can be read, and their
//! views.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::block::Spacing;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::RuleSet;
use crate::rules::column::Meant;
use crate::rules::model::{Mode, Rule, TableShape};
use crate::schema::{LiveTable, Schema, SchemaError};
use crate::table_name::{FoldedName, NameCase, TableName};
use crate::tables::view_targets::{ViewTargets, read_view_targets};

/// Columns of the live tables and what their views mean, read before anything is planned.
#[derive(Debug)]
pub struct LiveTables {
    /// The server's version as `SELECT VERSION()` shows it.
    pub(crate) version: String,
    case: NameCase,
    shapes: BTreeMap<FoldedName<'static>, Arc<TableShape>>,
    /// Matched by a pattern, without its column.
    passed: BTreeSet<FoldedName<'static>>,
    views: ViewTargets,
}

impl LiveTables {
    /// Every table of the ruled schemas that has a rule, and the views of these.
    pub(crate) async fn of(schema: &Schema, rules: &RuleSet) -> Result<LiveTables, SchemaError> {
        let case = schema.name_case().await?;
        let found = schema.ruled_tables(case, rules).await?;
        let passed =
            found.passed.iter().map(|(table, rule)| case.fold(&rule.schema, table).into_owned()).collect();
        let names: Vec<_> =
            found.tables.into_iter().map(|(table, rule)| TableName::new(&rule.schema, table)).collect();
        let live = schema.live_tables(case, &names).await?;
        let shape = |(name, live): (&TableName, Option<LiveTable>)| {
            Some((case.fold(&name.schema, &name.table).into_owned(), Arc::new(live?.shape)))
        };
        let shapes = names.iter().zip(live).filter_map(shape).collect();
        let version = schema.version().await?;
        let mut live = LiveTables { version, case, shapes, passed, views: ViewTargets::new() };
        let base = |schema: &str, table: &str| match ruled(rules, Some(&live), schema, table) {
            Lookup::NotRuled | Lookup::Missing => None,
            found => Some(found),
        };
        let views = read_view_targets(schema, case, base).await?;
        live.views = views;
        Ok(live)
    }
}

/// Names that may mean ruled tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) live: Option<&'a LiveTables>,
}

/// Stands for the default database of a session of which nobody knows it. No database has this
/// name.
pub(crate) const NO_DATABASE: &str = "\0";

impl Tables<'_> {
    pub(crate) fn case(&self) -> NameCase {
        self.live.map_or(NameCase::Sensitive, |live| live.case)
    }

    /// The meaning of a name in a statement. A table in shadow mode counts as if its rule were on.
    pub(crate) fn lookup(&self, schema: &str, table: &str) -> Lookup {
        lookup(self.rules, self.live, schema, table)
    }

    /// The databases in which the name is of a ruled table, or of a view of one.
    pub(crate) fn databases_of(&self, table: &str) -> Vec<&str> {
        let views = self.live.iter().flat_map(|live| live.views.keys()).map(FoldedName::schema);
        let live = self.live.iter().flat_map(|live| live.shapes.keys()).map(FoldedName::schema);
        let named =
            self.rules.rules().filter(|rule| rule.of_schemas.is_none()).map(|rule| rule.schema.as_str());
        let all: BTreeSet<&str> = named.chain(live).chain(views).collect();
        let is_ruled =
            |schema: &&str| !matches!(self.lookup(schema, table), Lookup::NotRuled | Lookup::Missing);
        all.into_iter().filter(is_ruled).collect()
    }

    /// True if the name is that of a table in shadow mode, or of a view of one.
    pub(crate) fn is_shadow(&self, schema: &str, table: &str) -> bool {
        let view = self.live.and_then(|live| live.views.get(&live.case.fold(schema, table)));
        let (schema, table) = view.map_or((schema, table), |view| (&view.table.schema, &view.table.table));
        self.rules.shadow(self.case(), schema, table).is_some()
    }
}

fn lookup(rules: &RuleSet, live: Option<&LiveTables>, schema: &str, table: &str) -> Lookup {
    let view = live.and_then(|live| live.views.get(&live.case.fold(schema, table)));
    view.map_or_else(|| ruled(rules, live, schema, table), |view| view.lookup.clone())
}

fn ruled(rules: &RuleSet, live: Option<&LiveTables>, schema: &str, table: &str) -> Lookup {
    let case = live.map_or(NameCase::Sensitive, |live| live.case);
    let rule = match rules.find(case, schema, table) {
        Ok(Some(rule)) if rule.mode == Mode::Shadow => {
            Arc::new(Rule { mode: Mode::On, ..Rule::clone(&rule) })
        }
        Ok(Some(rule)) if rule.mode == Mode::On => rule,
        Ok(_) => return Lookup::NotRuled,
        Err(two) if two.first.mode == Mode::Off && two.second.mode == Mode::Off => return Lookup::NotRuled,
        Err(ambiguous) => return Lookup::Refused(ambiguous.to_string()),
    };
    let name = case.fold(schema, table);
    if live.is_some_and(|live| live.passed.contains(&name)) {
        return Lookup::NotRuled;
    }
    let shape = live.and_then(|live| live.shapes.get(&name)).cloned();
    if live.is_some() && shape.is_none() {
        return Lookup::Missing;
    }
    let rule = match shape.as_ref().map(|shape| rule.meant(table, shape.columns.iter())) {
        Some(Meant::Fills(rule)) => rule,
        Some(Meant::Passes) => return Lookup::NotRuled,
        Some(Meant::Lacks(why)) => return Lookup::Refused(why),
        None if rule.is_auto() => {
            let why = format!(
                "column = \"auto\" of {schema}.{table} needs the table's columns on the server; write [backend.control]"
            );
            return Lookup::Refused(why);
        }
        None => rule,
    };
    let one_by_one = Spacing::by(NonZeroU64::MIN);
    let spacing = rules.generator_of(&rule).map_or(one_by_one, |spec| spec.kind.spacing());
    Lookup::Ruled(Arc::new(Target::new(rule, table, shape, spacing)))
}
