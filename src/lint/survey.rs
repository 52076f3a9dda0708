//! The ruled tables that are there, each with its rule, generator and column: what most judges look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finding::Where;
use crate::ids::ID_MAX;
use crate::ids::sequence::Seed;
use crate::lint::store_facts::StoreFacts;
use crate::rules::RuleSet;
use crate::rules::column::Meant;
use crate::rules::model::{Collide, Explicit, GeneratorKind, GeneratorName, GeneratorSpec, Rule};
use crate::schema::facts::{ColumnFacts, Facts, Highest, TableFacts};
use crate::sql::name::{quoted, same_column};
use crate::table_name::{FoldedName, NameCase};

/// A base table with a rule of its own or of a pattern's.
pub(super) struct Live<'a> {
    /// The rule, with a column's name in place of "auto".
    pub(super) rule: Arc<Rule>,
    pub(super) spec: GeneratorSpec,
    pub(super) table: &'a TableFacts,
    /// `None`: there is no such column.
    pub(super) column: Option<&'a ColumnFacts>,
}

pub(super) struct Survey<'a> {
    pub(super) facts: &'a Facts,
    pub(super) rules: &'a RuleSet,
    pub(super) store: &'a StoreFacts,
    pub(super) tables: Vec<Live<'a>>,
    /// Base tables that a pattern matches and does not mean: they lack its column.
    pub(super) passed: Vec<(Arc<Rule>, &'a TableFacts)>,
    /// Places in `tables`, by schema and name as the server compares them.
    places: BTreeMap<FoldedName<'static>, usize>,
    /// The highest id in any of a generator's tables.
    highest: BTreeMap<GeneratorName, u64>,
}

fn key(case: NameCase, schema: &str, table: &str) -> FoldedName<'static> {
    case.fold(schema, table).into_owned()
}

impl<'a> Survey<'a> {
    pub(super) fn of(facts: &'a Facts, rules: &'a RuleSet, store: &'a StoreFacts) -> Self {
        let (mut tables, mut passed) = (Vec::new(), Vec::new());
        for table in facts.tables.iter().filter(|table| table.is_base()) {
            let Ok(Some(rule)) = rules.find(facts.case, &table.schema, &table.name) else { continue };
            let name = rule.generator.clone();
            let Some(spec) = rules.generator_of(&rule).map(|spec| GeneratorSpec { name, ..spec.clone() })
            else {
                continue;
            };
            let rule = match rule.meant(&table.name, table.shapes()) {
                Meant::Fills(rule) => rule,
                Meant::Lacks(_) => rule,
                Meant::Passes => {
                    passed.push((rule, table));
                    continue;
                }
            };
            let column = table.column(|name| same_column(name, &rule.column)).filter(|_| !rule.is_auto());
            tables.push(Live { rule, spec, table, column });
        }
        let places = tables
            .iter()
            .enumerate()
            .map(|(at, live)| (key(facts.case, &live.table.schema, &live.table.name), at))
            .collect();
        let mut highest: BTreeMap<GeneratorName, u64> = BTreeMap::new();
        for live in &tables {
            let of_all = highest.entry(live.spec.name.clone()).or_default();
            *of_all = (*of_all).max(live.highest().unwrap_or(0));
        }
        Survey { facts, rules, store, tables, passed, places, highest }
    }

    /// The ruled tables whose columns are there.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&Live<'a>, &'a ColumnFacts)> {
        self.tables.iter().filter_map(|live| Some((live, live.column?)))
    }

    /// The ruled table of this name, in whatever case the server takes it.
    pub(super) fn ruled(&self, schema: &str, table: &str) -> Option<&Live<'a>> {
        self.tables.get(*self.places.get(&key(self.facts.case, schema, table))?)
    }

    /// Below it every id of the sequence may have been issued; `None`: it is not in the store, or the store was not read.
    pub(super) fn bound(&self, live: &Live<'_>) -> Option<u64> {
        let stored = self.store.generators.as_ref().ok()?.get(&live.spec.name.to_string())?;
        (stored.kind == "sequence").then_some(stored.bound)
    }

    /// The first id that a sequence may still issue: above its bound, its start, and, with seed = "tables", its tables' ids.
    pub(super) fn next_id(&self, live: &Live<'_>) -> u64 {
        let GeneratorKind::Sequence(sequence) = &live.spec.kind else { return 0 };
        let highest = self.highest.get(&live.spec.name).copied().unwrap_or(0);
        let floor = if sequence.seed == Seed::Tables { highest.min(ID_MAX) + 1 } else { 0 };
        floor.max(sequence.start).max(self.bound(live).unwrap_or(0))
    }
}

impl Live<'_> {
    pub(super) fn highest(&self) -> Option<u64> {
        match self.table.highest {
            Highest::Id(id) => Some(id),
            Highest::Unread(_) | Highest::Denied(_) => None,
        }
    }

    /// True if a proxy raises the table's generator above ids of other writers that it finds in the table.
    pub(super) fn follows_table(&self) -> bool {
        let of_tables =
            matches!(&self.spec.kind, GeneratorKind::Sequence(sequence) if sequence.seed == Seed::Tables);
        let is_number = self.column.is_some_and(|column| column.shape.highest().is_some());
        of_tables && is_number && self.rule.collide == Collide::Raise && self.rule.explicit != Explicit::Keep
    }

    pub(super) fn place(&self) -> Where {
        Where::table(&self.table.schema, &self.table.name).at(&self.rule.origin)
    }

    pub(super) fn column_place(&self, column: &ColumnFacts) -> Where {
        self.place().column(&column.shape.name)
    }

    /// `` `schema`.`table` `` for a statement.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.table.schema), quoted(&self.table.name))
    }

    /// The remedy that makes the column BIGINT. An integer column is widened with all columns that foreign keys tie to it.
    pub(super) fn widen(&self, column: &ColumnFacts) -> String {
        if column.shape.highest().is_some() { self.step("widen") } else { self.modify(column, "BIGINT") }
    }

    /// The command that prints the statements of a step. The command knows all of a column's definition.
    pub(super) fn step(&self, step: &str) -> String {
        let (schema, table) = (&self.table.schema, &self.table.name);
        format!("rowstamp migrate sql --step {step} --table '{schema}.{table}' prints the statements")
    }

    /// The column as it would be made again with another type. Not all of its definition is known here.
    pub(super) fn modify(&self, column: &ColumnFacts, column_type: &str) -> String {
        let name = quoted(&column.shape.name);
        let null = if column.is_nullable { "" } else { " NOT NULL" };
        let counter = if column.shape.auto_increment { " AUTO_INCREMENT" } else { "" };
        format!(
            "ALTER TABLE {} MODIFY {name} {column_type}{null}{counter}, with its COMMENT and other attributes unchanged",
            self.quoted()
        )
    }
}
