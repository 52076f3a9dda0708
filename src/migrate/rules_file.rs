//! A rules file with what is missing appended. What people wrote stays: their comments, their order, their values.

use std::collections::BTreeMap;
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value, value};

use super::databases::{Databases, Group, without_number};
use super::survey::{Surveyed, Wanted};
use crate::rules::model::GeneratorName;
use crate::rules::{RuleSet, pattern};

/// A rule that is proposed, and its generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// Or a pattern of shards.
    pub table: String,
    pub tables: usize,
    pub column: String,
    pub generator: String,
    /// True if the generator is new too.
    pub makes_generator: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WriteError {
    #[error("{file} is not valid TOML: {why}; fix the file first (`rowstamp check` says where)")]
    Toml { file: String, why: String },
    #[error(
        "{file} is of schema {found}, and the new rules are of {wanted}: rename the file, and run the command again"
    )]
    OtherSchema { file: String, found: String, wanted: String },
    #[error("{file}: {key} is not a TOML table; fix the file first (`rowstamp check` says where)")]
    NoTable { file: String, key: &'static str },
}

const HEAD: &str = concat!(
    "# Written by `rowstamp migrate plan --write`. You may edit this file: the next run adds missing tables and changes nothing\n\
     # else. mode = \"off\" is as if the rule were not there. When to remove mode = \"off\": ",
    crate::book::page!("migrate"),
    "\n\n"
);

/// The file's name in the rules' folder.
pub fn file_name(schema: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    format!("{}.toml", schema.chars().map(plain).collect::<String>())
}

#[derive(Debug, Clone)]
pub struct Part<'a> {
    pub databases: &'a Databases,
    /// Whose generators the rules draw from.
    pub generators_of: &'a str,
    pub has_rules: bool,
    pub has_generators: bool,
}

/// Rules for the free tables of a group. Each gets a generator of its own, but for the shards of a family, which share
/// one: if two shards had the same id, nobody could find a row by it.
pub fn additions(group: &Group<'_>, rules: &RuleSet) -> Vec<Addition> {
    let (tables, schema) = (&group.tables, &*group.generators_of);
    let mut found: Vec<Addition> = Vec::new();
    // By the family's name and column: its generator.
    let mut families: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let free: Vec<&Surveyed> = tables.iter().copied().filter(|table| table.is_free()).collect();
    for table in &free {
        let family = family_of(table, &free);
        let shared = family.and_then(|base| families.get(&(base, table.column.as_str())).cloned());
        let (generator, is_first) = match shared {
            Some(generator) => (generator, false),
            None => (unused_name(family.unwrap_or(&table.table), schema, &found, rules), true),
        };
        if let Some(base) = family {
            families.entry((base, &table.column)).or_insert_with(|| generator.clone());
        }
        let name = match family {
            // A digit each, unless that would match a table of no family.
            Some(base) if is_exact(base, table, tables) => {
                let digits = table.table.len() - base.len();
                format!("{base}{}", "?".repeat(digits))
            }
            _ => table.table.clone(),
        };
        if let Some(of_pattern) = found.iter_mut().find(|one| one.table == name && one.generator == generator)
        {
            of_pattern.tables += 1;
            continue;
        }
        let made = GeneratorName { schema: schema.to_owned(), name: generator.clone() };
        found.push(Addition {
            table: name,
            tables: 1,
            column: table.column.clone(),
            makes_generator: is_first && rules.generator(&made).is_none(),
            generator,
        });
    }
    if group.is_of_shards() {
        for one in &mut found {
            let is_of_it = |table: &&&Surveyed| table.is_free() && pattern::matches(&one.table, &table.table);
            one.tables = group.all.iter().filter(is_of_it).count();
        }
    }
    found
}

/// The part of a shard's name before its number: `orders_` of `orders_07`. `None`: the name has no number, or no other table
/// is of its family.
fn family_of<'a>(table: &'a Surveyed, all: &[&Surveyed]) -> Option<&'a str> {
    let base = without_number(&table.table)?;
    let is_of_it = |other: &&&Surveyed| {
        without_number(&other.table) == Some(base)
            && (&other.column, &other.column_type) == (&table.column, &table.column_type)
    };
    (all.iter().filter(is_of_it).count() > 1).then_some(base)
}

/// True if wildcards in place of the digits match the family alone: no other table has as many characters after the same
/// beginning.
fn is_exact(base: &str, table: &Surveyed, all: &[&Surveyed]) -> bool {
    let digits = table.table.len() - base.len();
    all.iter()
        .filter(|other| other.table.strip_prefix(base).is_some_and(|rest| rest.chars().count() == digits))
        .all(|other| {
            without_number(&other.table) == Some(base) && other.is_free() && other.column == table.column
        })
}

/// A name for a generator that no rule has yet, of letters, digits, `_` and `-`, as the rules demand.
fn unused_name(table: &str, schema: &str, found: &[Addition], rules: &RuleSet) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    // Room for a number after it.
    let base: String = table.trim_end_matches('_').chars().map(plain).take(56).collect();
    let base = if base.is_empty() { "ids".to_owned() } else { base };
    let mut name = base.clone();
    let mut nth = 1;
    while is_taken(rules, schema, &name) || found.iter().any(|one| one.generator == name) {
        nth += 1;
        name = format!("{base}_{nth}");
    }
    name
}

/// A generator that no rule uses is as good as a new one.
fn is_taken(rules: &RuleSet, schema: &str, name: &str) -> bool {
    rules.rules().any(|rule| rule.generator.schema == schema && rule.generator.name == name)
}

/// The file's new text; `old` is what it holds, where it is there.
pub fn text(
    file: &Path,
    old: Option<&str>,
    part: &Part<'_>,
    additions: &[Addition],
    wanted: &Wanted,
) -> Result<String, WriteError> {
    let name = || file.display().to_string();
    let (key, databases) = written(part.databases);
    let mut document: DocumentMut = match old {
        None => format!("{HEAD}{key} = {}\n", databases.to_string().trim()).parse(),
        Some(old) => old.parse(),
    }
    .map_err(|error: toml_edit::TomlError| WriteError::Toml {
        file: name(),
        why: error.message().to_owned(),
    })?;
    if document.is_empty() {
        document.insert(key, databases);
    } else {
        let found = names(&document);
        if found != part.databases.names() {
            let told = |names: &[String]| {
                names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
            };
            let (found, wanted) = (told(&found), told(part.databases.names()));
            return Err(WriteError::OtherSchema { file: name(), found, wanted });
        }
    }
    for one in additions {
        if part.has_generators && one.makes_generator {
            put(&mut document, "generators", &one.generator, generator(wanted))
                .ok_or_else(|| WriteError::NoTable { file: name(), key: "generators" })?;
        }
        if part.has_rules {
            put(&mut document, "tables", &one.table, rule(one, part))
                .ok_or_else(|| WriteError::NoTable { file: name(), key: "tables" })?;
        }
    }
    Ok(document.to_string())
}

/// The key that says which databases a file is for, and its value.
fn written(databases: &Databases) -> (&'static str, Item) {
    match databases {
        Databases::One(name) | Databases::Like(name) => ("schema", value(name)),
        Databases::Each(names) => ("schemas", value(names.iter().collect::<Array>())),
    }
}

/// The databases, or patterns of them, that a file is for.
fn names(document: &DocumentMut) -> Vec<String> {
    let one = document.get("schema").and_then(Item::as_str);
    let more = document.get("schemas").and_then(Item::as_array).into_iter().flatten();
    one.into_iter().chain(more.filter_map(Value::as_str)).map(str::to_owned).collect()
}

/// `None`: what stands there is no table.
fn put(document: &mut DocumentMut, key: &'static str, name: &str, entry: Table) -> Option<()> {
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let around: &mut dyn TableLike =
        document.entry(key).or_insert(Item::Table(implicit)).as_table_like_mut()?;
    if !around.contains_key(name) {
        around.insert(name, Item::Table(entry));
    }
    Some(())
}

fn generator(wanted: &Wanted) -> Table {
    let mut table = Table::new();
    match wanted {
        Wanted::Sequence { is_even } => {
            table.insert("kind", value("sequence"));
            if *is_even {
                table.insert("step", value(2));
                table.insert("offset", value(0));
            }
        }
        Wanted::Timestamp { layout, .. } => {
            table.insert("kind", value("timestamp"));
            table.insert("layout", value(layout.as_str()));
        }
    }
    table
}

fn rule(addition: &Addition, part: &Part<'_>) -> Table {
    let mut table = Table::new();
    let generator = match part.databases {
        Databases::One(name) if name == part.generators_of => addition.generator.clone(),
        _ => format!("{}.{}", part.generators_of, addition.generator),
    };
    table.insert("column", value(addition.column.as_str()));
    table.insert("generator", value(generator));
    table.insert("mode", value("off"));
    table
}

#[cfg(test)]
mod tests {
    use super::{Addition, HEAD, Part, WriteError, file_name, text};
    use crate::migrate::databases::Databases;
    use crate::migrate::survey::Wanted;
    use crate::rules::RuleSet;
    use crate::rules::keys::RulesFile;
    use crate::toml_file::{Findings, parse};
    use std::path::Path;

    const EVEN: Wanted = Wanted::Sequence { is_even: true };

    fn addition(table: &str, makes_generator: bool) -> Addition {
        Addition {
            table: table.into(),
            tables: 1,
            column: "id".into(),
            generator: "g".to_owned() + &table[..1],
            makes_generator,
        }
    }

    fn written(old: Option<&str>, additions: &[Addition], wanted: &Wanted) -> Result<String, WriteError> {
        let shop = Databases::One("shop".into());
        let part = Part { databases: &shop, generators_of: "shop", has_rules: true, has_generators: true };
        text(Path::new("rules/shop.toml"), old, &part, additions, wanted)
    }

    #[track_caller]
    fn check(old: Option<&str>, additions: &[Addition], wanted: &Wanted, expect: &str) {
        let found = written(old, additions, wanted).unwrap();
        assert_eq!(found, expect);
        let mut findings = Findings::default();
        assert!(
            parse::<RulesFile>(Path::new("shop.toml"), &found, None, &mut findings).is_some()
                && !findings.has_errors(),
            "{findings}"
        );
        assert_eq!(written(Some(&found), &[], wanted).unwrap(), found, "run again");
    }

    #[test]
    fn a_new_file() {
        let rules = "schema = \"shop\"\n\n[generators.go]\nkind = \"sequence\"\nstep = 2\noffset = 0\n\n\
                     [tables.orders]\ncolumn = \"id\"\ngenerator = \"go\"\nmode = \"off\"\n";
        check(None, &[addition("orders", true)], &EVEN, &format!("{HEAD}{rules}"));
        let rules = "schema = \"shop\"\n\n[generators.go]\nkind = \"timestamp\"\nlayout = \"tsid\"\n\n\
                     [tables.\"or\u{20}ders\"]\ncolumn = \"id\"\ngenerator = \"go\"\nmode = \"off\"\n";
        let tsid = Wanted::Timestamp { layout: "tsid".into(), last: 7 };
        check(None, &[addition("or ders", true)], &tsid, &format!("{HEAD}{rules}"));
    }

    #[test]
    fn what_people_wrote_stays() {
        let old = "# ours\nschema = \"shop\" # the shop\n\n[tables.orders] # first\ngenerator   = \"x\"\ncolumn = 'id'\n\n\
                   # numbers\n[generators]\nx.kind = \"sequence\"\n";
        let expect = "# ours\nschema = \"shop\" # the shop\n\n[tables.orders] # first\ngenerator   = \"x\"\ncolumn = 'id'\n\n\
                      [tables.items]\ncolumn = \"id\"\ngenerator = \"gi\"\nmode = \"off\"\n\n\
                      # numbers\n[generators]\nx.kind = \"sequence\"\n\n\
                      [generators.gi]\nkind = \"sequence\"\nstep = 2\noffset = 0\n";
        // A table that is there is left as it is.
        check(Some(old), &[addition("items", true), addition("orders", false)], &EVEN, expect);
        check(Some(""), &[], &EVEN, "schema = \"shop\"\n");
        let inline = "schema = \"shop\"\ntables = { a = { column = \"id\", generator = \"x\" } }\ngenerators.x = { kind = \"sequence\" }\n";
        let found = written(Some(inline), &[addition("b", false)], &EVEN).unwrap();
        assert!(
            found.contains("a = { column = \"id\", generator = \"x\" }") && found.contains("mode = \"off\""),
            "{found}"
        );
    }

    /// Rules and generators in files of their own.
    #[test]
    fn files_of_shards() {
        let ids = Databases::One("ids".into());
        for (databases, line) in [
            (Databases::Like("shop_*".into()), "schema = \"shop_*\"\n"),
            (Databases::Each(vec!["a".into(), "b".into()]), "schemas = [\"a\", \"b\"]\n"),
        ] {
            let write = |old: Option<&str>, databases, has_rules, table: &str| {
                let part = Part { databases, generators_of: "ids", has_rules, has_generators: !has_rules };
                text(Path::new("x.toml"), old, &part, &[addition(table, true)], &EVEN)
            };
            let rules = write(None, &databases, true, "orders").unwrap();
            let rule = "\n[tables.orders]\ncolumn = \"id\"\ngenerator = \"ids.go\"\nmode = \"off\"\n";
            assert_eq!(rules, format!("{HEAD}{line}{rule}"));
            let more = write(Some(&rules), &databases, true, "items").unwrap();
            assert_eq!(more, format!("{rules}{}", rule.replace("orders", "items").replace("go", "gi")));
            let generators = write(None, &ids, false, "orders").unwrap();
            let generator = "\n[generators.go]\nkind = \"sequence\"\nstep = 2\noffset = 0\n";
            assert_eq!(generators, format!("{HEAD}schema = \"ids\"\n{generator}"));
            RuleSet::of_texts(&[&rules, &generators]);
            let error = write(Some(&rules), &ids, false, "orders").unwrap_err().to_string();
            assert!(error.contains("and the new rules are of \"ids\""), "{error}");
        }
    }

    #[test]
    fn what_is_refused() {
        let other = written(Some("schema = \"crm\"\n"), &[], &EVEN).unwrap_err().to_string();
        assert!(other.contains("rules/shop.toml is of schema \"crm\""), "{other}");
        let broken = written(Some("schema = "), &[], &EVEN).unwrap_err();
        assert!(matches!(broken, WriteError::Toml { .. }), "{broken}");
        let number =
            written(Some("schema = \"shop\"\ntables = 7\n"), &[addition("a", false)], &EVEN).unwrap_err();
        assert!(matches!(number, WriteError::NoTable { key: "tables", .. }), "{number}");
    }

    #[test]
    fn names_of_files() {
        assert_eq!(file_name("shop"), "shop.toml");
        assert_eq!(file_name("../a b"), "___a_b.toml");
    }
}
