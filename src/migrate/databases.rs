//! The databases that one rules file is for. Databases with the same tables whose names differ in a number are shards.
//! If two shards had the same id, nobody could find a row by it, so all tables of one name draw from one generator.

use std::collections::{BTreeMap, BTreeSet};

use super::survey::Surveyed;
use crate::rules::{RuleSet, pattern};
use crate::sql::name::same_column;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Databases {
    One(String),
    /// All that are called like this: of those that the server has, the shards and no other one.
    Like(String),
    /// Shards that no pattern distinguishes from other databases.
    Each(Vec<String>),
}

impl Databases {
    /// The names or patterns as the rules have them.
    pub fn names(&self) -> &[String] {
        match self {
            Databases::One(name) | Databases::Like(name) => std::slice::from_ref(name),
            Databases::Each(names) => names,
        }
    }
}

/// Tables whose rules are in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'a> {
    pub databases: Databases,
    /// The schema of their generators' names.
    pub generators_of: String,
    /// Each name once, also where several databases have it.
    pub tables: Vec<&'a Surveyed>,
    /// Each table of each database.
    pub all: Vec<&'a Surveyed>,
}

impl Group<'_> {
    pub fn is_of_shards(&self) -> bool {
        !matches!(self.databases, Databases::One(_))
    }
}

/// The tables by database; those of shards together. `on_server`: all databases that the account sees.
pub fn groups<'a>(tables: &'a [Surveyed], on_server: &[String], rules: &RuleSet) -> Vec<Group<'a>> {
    let mut by_schema: BTreeMap<&str, Vec<&Surveyed>> = BTreeMap::new();
    for table in tables {
        by_schema.entry(&table.schema).or_default().push(table);
    }
    let mut by_base: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for schema in by_schema.keys() {
        if let Some(base) = without_number(schema) {
            by_base.entry(base).or_default().push(schema);
        }
    }
    let mut groups = Vec::new();
    for (base, schemas) in by_base {
        let found = shards(base, &schemas, &by_schema, on_server, rules);
        if found.is_some() {
            by_schema.retain(|schema, _| !schemas.contains(schema));
        }
        groups.extend(found);
    }
    groups.extend(by_schema.into_iter().map(|(schema, tables)| Group {
        databases: Databases::One(schema.to_owned()),
        generators_of: schema.to_owned(),
        all: tables.clone(),
        tables,
    }));
    groups
}

/// The part of a name before its number: `shop_` of `shop_07`. `None`: the name has no number, or nothing before it.
pub(super) fn without_number(name: &str) -> Option<&str> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (base.len() < name.len() && !base.is_empty()).then_some(base)
}

/// `None`: they are no shards, or some have rules of their own already.
fn shards<'a>(
    base: &str,
    schemas: &[&str],
    by_schema: &BTreeMap<&str, Vec<&'a Surveyed>>,
    on_server: &[String],
    rules: &RuleSet,
) -> Option<Group<'a>> {
    let is_named =
        |schema: &str| rules.rules().any(|rule| rule.of_schemas.is_none() && rule.schema == schema);
    if schemas.len() < 2 || base.contains(['*', '?', '{', '}']) || schemas.iter().any(|name| is_named(name)) {
        return None;
    }
    let all: Vec<&Surveyed> =
        schemas.iter().filter_map(|schema| by_schema.get(schema)).flatten().copied().collect();
    if !schemas.iter().all(|schema| are_alike(schema, &all)) {
        return None;
    }
    let mut by_name: BTreeMap<&str, &Surveyed> = BTreeMap::new();
    for table in &all {
        let first = by_name.entry(&table.table).or_insert(table);
        if !same_column(&first.column, &table.column) {
            return None;
        }
        // A rule would be for all tables of the name.
        if !table.is_free() {
            *first = table;
        }
    }
    let databases = if is_exact(base, schemas, on_server) {
        Databases::Like(format!("{base}*"))
    } else {
        Databases::Each(schemas.iter().map(|schema| (*schema).to_owned()).collect())
    };
    let tables = by_name.into_values().collect();
    Some(Group { databases, generators_of: schema_of_generators(base, on_server)?, tables, all })
}

/// True if at least half of a database's tables are in another database too. The tables of a family count as one.
fn are_alike(schema: &str, all: &[&Surveyed]) -> bool {
    let kind = |table: &Surveyed| {
        (without_number(&table.table).unwrap_or(&table.table).to_owned(), table.column.to_lowercase())
    };
    let (own, others): (Vec<&Surveyed>, Vec<&Surveyed>) =
        all.iter().copied().partition(|table| table.schema == schema);
    let own: BTreeSet<_> = own.into_iter().map(kind).collect();
    let others: BTreeSet<_> = others.into_iter().map(kind).collect();
    own.intersection(&others).count() * 2 >= own.len()
}

fn is_exact(base: &str, schemas: &[&str], on_server: &[String]) -> bool {
    let pattern = format!("{base}*");
    let mut meant = on_server.iter().filter(|name| pattern::matches(&pattern, name));
    meant.all(|name| schemas.contains(&name.as_str()) || crate::rules::is_of_the_server(name))
}

/// A database that is not there: the file of one that is there has generators of its own.
fn schema_of_generators(base: &str, on_server: &[String]) -> Option<String> {
    let name = base.trim_end_matches(|c: char| !c.is_alphanumeric());
    let wanted = [name.to_owned(), format!("{name}_ids")];
    let is_free =
        |wanted: &String| !on_server.iter().any(|name| name.to_lowercase() == wanted.to_lowercase());
    wanted.into_iter().find(|wanted| !wanted.is_empty() && is_free(wanted))
}

#[cfg(test)]
mod tests {
    use super::{Databases, groups};
    use crate::migrate::survey::{Ruled, Surveyed};
    use crate::rules::RuleSet;

    fn table(name: &str) -> Surveyed {
        let (schema, rest) = name.split_once('.').unwrap();
        let (table, column) = rest.split_once('.').unwrap_or((rest, "id"));
        Surveyed {
            schema: schema.into(),
            table: table.into(),
            column: column.into(),
            column_type: "bigint".into(),
            rows_approximate: 0,
            max_id: Some(0),
            counter: 1,
            left: None,
            left_percent: None,
            rule: Ruled::None,
            findings: Vec::new(),
        }
    }

    /// `SCHEMA.TABLE` or `SCHEMA.TABLE.COLUMN`; what becomes of them: `DATABASES -> GENERATORS: TABLES`.
    #[track_caller]
    fn check(tables: &[&str], more_databases: &[&str], rules: &str, expect: &[&str]) {
        let tables: Vec<_> = tables.iter().map(|name| table(name)).collect();
        let schemas = tables.iter().map(|table| table.schema.clone());
        let on_server: Vec<String> = schemas.chain(more_databases.iter().map(ToString::to_string)).collect();
        let rules = if rules.is_empty() { RuleSet::default() } else { RuleSet::of_text(rules) };
        let groups = groups(&tables, &on_server, &rules);
        let found = groups.iter().map(|group| {
            let databases = match &group.databases {
                Databases::One(name) | Databases::Like(name) => name.clone(),
                Databases::Each(names) => format!("{names:?}"),
            };
            let tables: Vec<_> = group.tables.iter().map(|table| table.table.as_str()).collect();
            format!("{databases} -> {}: {}", group.generators_of, tables.join(" "))
        });
        assert_eq!(found.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn which_databases_are_shards() {
        let four = ["shop_1.orders", "shop_1.items", "shop_02.orders", "shop_02.items"];
        check(&four, &["other"], "", &["shop_* -> shop: items orders"]);
        check(&four, &["shop"], "", &["shop_* -> shop_ids: items orders"]);
        check(&four, &["shop_old"], "", &["[\"shop_02\", \"shop_1\"] -> shop: items orders"]);
        check(&["s1.t", "s2.t"], &["sys"], "", &["s* -> s: t"]);
        // Numbered throughout, and one has a table that the others lack.
        let numbered = ["d0.o_0", "d0.o_1", "d0.x", "d1.o_2", "d1.o_3", "crm.o_1"];
        check(&numbered, &[], "", &["d* -> d: o_0 o_1 o_2 o_3 x", "crm -> crm: o_1"]);
    }

    #[test]
    fn which_are_not() {
        let apart = ["shop_1 -> shop_1: a", "shop_2 -> shop_2: a"];
        check(&["shop_1.a", "shop_2.a.no"], &[], "", &apart);
        check(&["shop_1.a"], &["shop_2"], "", &apart[..1]);
        check(&["app1.a", "app2.b"], &[], "", &["app1 -> app1: a", "app2 -> app2: b"]);
        check(&["a.t", "b.t", "1.t", "2.t"], &[], "", &["1 -> 1: t", "2 -> 2: t", "a -> a: t", "b -> b: t"]);
        let own = "schema = 'shop_2'\n[generators.g]\nkind = 'sequence'\n[tables.b]\ncolumn = 'id'\ngenerator = 'g'\n";
        check(&["shop_1.a", "shop_2.a"], &[], own, &apart);
        check(&["shop_1.a", "shop_2.a"], &["shop", "shop_ids"], "", &apart);
    }
}
