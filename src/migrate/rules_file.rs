//! A rules file with what is missing appended. What people wrote stays: their comments, their order, their values.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::survey::{Surveyed, Wanted};
use crate::rules::RuleSet;
use crate::rules::model::GeneratorName;

/// What is put into one schema's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    pub table: String,
    pub column: String,
    pub generator: String,
    /// Whether the generator is new too.
    pub makes_generator: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WriteError {
    #[error("{file} cannot be read as TOML: {why}; fix it first (`rowstamp check` says where)")]
    Toml { file: String, why: String },
    #[error(
        "{file} is of schema {found:?}, and the new rules are of {wanted:?}: rename that file, and run this again"
    )]
    OtherSchema { file: String, found: String, wanted: String },
    #[error("{file}: {key} is no table; fix it first (`rowstamp check` says where)")]
    NoTable { file: String, key: &'static str },
}

const HEAD: &str = "# Written by `rowstamp migrate plan --write`, and yours to edit: run again, it adds tables that are missing and changes\n\
                    # nothing else. mode = \"off\" is as if the rule were not there; docs/migrate.md says when to remove it.\n\n";

/// The file's name in the rules' folder.
pub fn file_name(schema: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    format!("{}.toml", schema.chars().map(plain).collect::<String>())
}

/// A rule for each table of one schema that is free: each gets a generator of its own.
pub fn additions(tables: &[&Surveyed], rules: &RuleSet) -> Vec<Addition> {
    let mut found: Vec<Addition> = Vec::new();
    for table in tables.iter().filter(|table| table.is_free()) {
        let base = generator_name(&table.table);
        let mut generator = base.clone();
        let mut nth = 1;
        while is_taken(rules, &table.schema, &generator) || found.iter().any(|one| one.generator == generator)
        {
            nth += 1;
            generator = format!("{base}_{nth}");
        }
        let name = GeneratorName { schema: table.schema.clone(), name: generator.clone() };
        found.push(Addition {
            table: table.table.clone(),
            column: table.column.clone(),
            makes_generator: rules.generator(&name).is_none(),
            generator,
        });
    }
    found
}

/// A generator that no rule uses is as good as a new one.
fn is_taken(rules: &RuleSet, schema: &str, name: &str) -> bool {
    rules.rules().any(|rule| rule.generator.schema == schema && rule.generator.name == name)
}

/// Of letters, digits, `_` and `-`, as the rules demand.
fn generator_name(table: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    // Room for a number after it.
    let name: String = table.chars().map(plain).take(56).collect();
    if name.is_empty() { "ids".to_owned() } else { name }
}

/// The file's new text; `old` is what it holds, where it is there.
pub fn text(
    file: &Path,
    old: Option<&str>,
    schema: &str,
    additions: &[Addition],
    wanted: &Wanted,
) -> Result<String, WriteError> {
    let name = || file.display().to_string();
    let mut document: DocumentMut = match old {
        None => format!("{HEAD}schema = {}\n", value(schema).to_string().trim()).parse(),
        Some(old) => old.parse(),
    }
    .map_err(|error: toml_edit::TomlError| WriteError::Toml {
        file: name(),
        why: error.message().to_owned(),
    })?;
    match document.get("schema").map(Item::as_str) {
        Some(Some(found)) if found == schema => {}
        None if document.is_empty() => drop(document.insert("schema", value(schema))),
        found => {
            let found = found.flatten().unwrap_or_default().to_owned();
            return Err(WriteError::OtherSchema { file: name(), found, wanted: schema.to_owned() });
        }
    }
    for one in additions {
        if one.makes_generator {
            put(&mut document, "generators", &one.generator, generator(wanted))
                .ok_or_else(|| WriteError::NoTable { file: name(), key: "generators" })?;
        }
        put(&mut document, "tables", &one.table, rule(one))
            .ok_or_else(|| WriteError::NoTable { file: name(), key: "tables" })?;
    }
    Ok(document.to_string())
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

fn rule(addition: &Addition) -> Table {
    let mut table = Table::new();
    table.insert("column", value(addition.column.as_str()));
    table.insert("generator", value(addition.generator.as_str()));
    table.insert("mode", value("off"));
    table
}

#[cfg(test)]
mod tests {
    use super::{Addition, HEAD, WriteError, file_name, text};
    use crate::migrate::survey::Wanted;
    use crate::rules::keys::RulesFile;
    use crate::toml_file::{Findings, parse};
    use std::path::Path;

    const EVEN: Wanted = Wanted::Sequence { is_even: true };

    fn addition(table: &str, makes_generator: bool) -> Addition {
        Addition {
            table: table.into(),
            column: "id".into(),
            generator: "g".to_owned() + &table[..1],
            makes_generator,
        }
    }

    fn written(old: Option<&str>, additions: &[Addition], wanted: &Wanted) -> Result<String, WriteError> {
        text(Path::new("rules/shop.toml"), old, "shop", additions, wanted)
    }

    #[track_caller]
    fn check(old: Option<&str>, additions: &[Addition], wanted: &Wanted, expect: &str) {
        let found = written(old, additions, wanted).unwrap();
        assert_eq!(found, expect);
        let mut findings = Findings::default();
        assert!(
            parse::<RulesFile>(Path::new("shop.toml"), &found, &mut findings).is_some()
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
