//! The files of a rules folder -> the rules, or everything that is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod clash;

use super::keys::RulesFile;
use super::model::{Explicit, GeneratorKind, GeneratorName, GeneratorSpec, Origin, Rule};
use super::pattern::is_pattern;
use super::set::RuleSet;
use super::template::{self, words};
use super::{limits, spec};
use crate::ids::sequence::SequenceSpec;
use crate::toml_file::{self, Finding, Findings, Severity, Source, join, nearest};

/// Generators that a misspelt name is compared with.
const NAMES_COMPARED_MAX: usize = 100;

/// Reads every `*.toml` of the folder but hidden ones; the rules and what is to be warned of, or
/// all that is wrong.
pub fn load(folder: &Path) -> Result<(RuleSet, Findings), Findings> {
    let mut findings = Findings::default();
    let files = files_of(folder).unwrap_or_else(|why| {
        findings.push(Finding::error(folder, None, None, why));
        Vec::new()
    });
    if files.is_empty() && !findings.has_errors() {
        let text = concat!(
            "has no *.toml file, so no table gets ids; write a rules file: ",
            crate::book::page!("rules")
        );
        let error = Finding::error(folder, None, None, text);
        findings.push(Finding { severity: Severity::Warning, ..error });
    }
    let files = limits::within(files, &mut findings);
    let read = files.iter().filter_map(|file| toml_file::read(file, None, &mut findings));
    let sources: Vec<Source<RulesFile>> = read.collect();
    link(&sources, findings)
}

/// Sorted, so that findings and ties come in the same order everywhere.
pub(super) fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot =
        |error: std::io::Error| format!("cannot be read: {error}; create the folder, or correct rules.path");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The files together: names that must be there once, names that must be there at all.
pub(super) fn link(
    sources: &[Source<RulesFile>],
    mut findings: Findings,
) -> Result<(RuleSet, Findings), Findings> {
    if limits::are_exceeded(sources, &mut findings) {
        return Err(findings.sorted());
    }
    let mut link = Link { generators: BTreeMap::new(), rules: BTreeMap::new(), findings: &mut findings };
    let schemas: Vec<_> = sources.iter().map(|source| spec::schemas(source, link.findings)).collect();
    for (source, schemas) in sources.iter().zip(&schemas) {
        link.generators_of(source, schemas);
    }
    for (source, schemas) in sources.iter().zip(&schemas) {
        link.tables_of(source, schemas);
    }
    let found = clash::patterns(link.rules.values());
    link.findings.extend(found);
    let found = clash::kinds(&link);
    link.findings.extend(found);
    link.unused();
    let Link { generators, rules, .. } = link;
    if findings.has_errors() {
        return Err(findings.sorted());
    }
    let specs = generators.into_values().filter_map(|one| one.spec).map(Arc::unwrap_or_clone);
    Ok((RuleSet::new(specs, rules.into_values()), findings))
}

struct Link<'a> {
    generators: BTreeMap<GeneratorKey, Defined>,
    /// By schema and table, as they are written.
    rules: BTreeMap<(String, String), Rule>,
    findings: &'a mut Findings,
}

/// A generator's name, and the pattern of schemas whose files mean it: by a name of each schema's own another pattern's
/// files mean others.
type GeneratorKey = (GeneratorName, Option<String>);

/// A generator's name is taken even where its definition is bad, so that its tables are not blamed
/// too.
struct Defined {
    spec: Option<Arc<GeneratorSpec>>,
    origin: Origin,
    is_used: bool,
}

impl Link<'_> {
    fn generators_of(&mut self, source: &Source<RulesFile>, schemas: &[&str]) {
        for (name, generator) in &source.keys.generators {
            let key = join("generators", name);
            let origin = origin(source, &key);
            for (nth, schema) in schemas.iter().enumerate() {
                let place = place_of(schema, name, false);
                let name = place.0.clone();
                let mut ignored = Findings::default();
                // An error for one schema is an error for all: the log has it once.
                let findings = if nth == 0 { &mut *self.findings } else { &mut ignored };
                let kind = spec::kind(source, &key, &name, generator, findings);
                if let Some(first) = self.generators.get(&place) {
                    let first = &first.origin;
                    let text = format!("{name} is defined at {first} already; rename or remove one of them");
                    self.findings.push(source.error(&key, text));
                    continue;
                }
                let sql = generator.sql;
                let is_template =
                    [&name.schema, &name.name].iter().any(|part| template::literal(part) != **part);
                if sql && is_template && nth == 0 {
                    let text = format!(
                        "{name} stands for several generators, and calls in SQL cannot name these; define a generator with one name, or remove sql"
                    );
                    self.findings.push(source.error(&join(&key, "sql"), text));
                }
                let spec =
                    kind.map(|kind| Arc::new(GeneratorSpec { name, kind, sql, origin: origin.clone() }));
                self.generators.insert(place, Defined { spec, origin: origin.clone(), is_used: sql });
            }
        }
    }

    fn tables_of(&mut self, source: &Source<RulesFile>, schemas: &[&str]) {
        for (name, table) in &source.keys.tables {
            let key = join("tables", name);
            self.findings.extend(spec::table_errors(source, &key, name, table));
            let Some(written) = table.generator.as_ref().filter(|written| words(written).is_ok()) else {
                continue;
            };
            for (nth, schema) in schemas.iter().enumerate() {
                let place = place_of(schema, written, true);
                if !self.is_made_of_defaults(source, &place, &key) {
                    // An error for one schema is an error for all: the log has it once.
                    // A wildcard was reported above.
                    let is_told = nth == 0 && !written.contains(['*', '?']);
                    self.use_generator(source, &key, &place, is_told);
                }
                let Some(column) = &table.column else { continue };
                let explicit = self.explicit(source, (&key, nth == 0), table.explicit, &place);
                let made_from = self.generators.get(&place).and_then(|defined| defined.spec.clone());
                let rule = Rule {
                    schema: (*schema).to_owned(),
                    of_schemas: is_pattern(schema).then(|| (*schema).to_owned()),
                    table: name.clone(),
                    column: column.clone(),
                    made_from: made_from.filter(|_| place.0.is_template()),
                    generator: place.0,
                    explicit,
                    insert_id: table.insert_id,
                    mode: table.mode,
                    unavailable: table.unavailable,
                    collide: table.collide,
                    origin: origin(source, &key),
                };
                let place = (rule.schema.clone(), name.clone());
                match self.rules.get(&place) {
                    Some(first) => {
                        let first = &first.origin;
                        let text = format!("{schema}.{name} has a rule at {first} already; keep one rule");
                        self.findings.push(source.error(&key, text));
                    }
                    None => drop(self.rules.insert(place, rule)),
                }
            }
        }
    }

    /// True if the generator is a template that nobody defines: it stands for sequences with the defaults. If the file
    /// defines another template, the defaults are not meant.
    fn is_made_of_defaults(
        &mut self,
        source: &Source<RulesFile>,
        place: &GeneratorKey,
        table_key: &str,
    ) -> bool {
        let defines = |name: &String| words(name) == Ok(true);
        let name = &place.0;
        let is_defined = self.generators.contains_key(place) || source.keys.generators.keys().any(defines);
        if is_defined || !(name.name.contains(template::TABLE) || name.name.contains(template::SCHEMA)) {
            return false;
        }
        let origin = origin(source, table_key);
        let kind = GeneratorKind::Sequence(SequenceSpec::default());
        let spec =
            Some(Arc::new(GeneratorSpec { name: name.clone(), kind, sql: false, origin: origin.clone() }));
        self.generators.insert(place.clone(), Defined { spec, origin, is_used: true });
        true
    }

    /// A sequence must learn of ids that it did not make. A timestamp generator has no use for
    /// them: an id ahead of its clock would take it along for ever.
    fn explicit(
        &mut self,
        source: &Source<RulesFile>,
        (table_key, is_told): (&str, bool),
        written: Option<Explicit>,
        place: &GeneratorKey,
    ) -> Explicit {
        let name = &place.0;
        let spec = self.generators.get(place).and_then(|defined| defined.spec.as_ref());
        let is_timestamp = spec.is_some_and(|spec| matches!(spec.kind, GeneratorKind::Timestamp(_)));
        if is_told && is_timestamp && written == Some(Explicit::Advance) {
            let text = format!(
                "\"advance\" is for sequences, and {name} is a timestamp generator; write \"keep\" or \"reject\""
            );
            self.findings.push(source.error(&join(table_key, "explicit"), text));
        }
        written.unwrap_or(if is_timestamp { Explicit::Keep } else { Explicit::Advance })
    }

    /// `is_told`: a generator that is not there is an error.
    fn use_generator(
        &mut self,
        source: &Source<RulesFile>,
        table_key: &str,
        place: &GeneratorKey,
        is_told: bool,
    ) {
        if let Some(defined) = self.generators.get_mut(place) {
            defined.is_used = true;
            return;
        }
        if !is_told {
            return;
        }
        let (name, key) = (&place.0, join(table_key, "generator"));
        // Compares only as many names as a person writes: comparing each name with each would take for ever in a file
        // made for that.
        let compared = self.generators.keys().take(NAMES_COMPARED_MAX);
        let known: Vec<String> = compared.map(|(name, _)| name.to_string()).collect();
        let text = match nearest(&name.to_string(), known.iter().map(String::as_str)) {
            Some(near) => format!("there is no generator {name}; did you mean {near}?"),
            None => format!(
                "there is no generator {name}; define {} for it",
                spec::header("generators", &name.name)
            ),
        };
        self.findings.push(source.error(&key, text));
    }

    fn unused(&mut self) {
        // A generator that the file defines for several schemas is drawn from in each of them, or in none.
        let mut told = BTreeSet::new();
        for ((name, _), defined) in self.generators.iter().filter(|(_, defined)| !defined.is_used) {
            let Origin { file, line } = &defined.origin;
            if !told.insert((file, line)) {
                continue;
            }
            let key = join("generators", &name.name);
            let error = Finding::error(file, Some(*line), Some(&key), UNUSED);
            self.findings.push(Finding { severity: Severity::Warning, ..error });
        }
    }
}

const UNUSED: &str = "no table uses this generator; name it in the rule of a table, or remove it";

/// True if the finding says that no table uses a generator. While a door is open, such a generator may still be of use.
pub fn is_of_unused(finding: &Finding) -> bool {
    finding.text == UNUSED
}

fn about(rule: &Rule, text: String) -> Finding {
    Finding::error(&rule.origin.file, Some(rule.origin.line), Some(&join("tables", &rule.table)), text)
}

fn origin(source: &Source<RulesFile>, key: &str) -> Origin {
    Origin { file: source.file.clone(), line: source.line(key) }
}

/// The generator that a file for `schema` calls so: "name", or where `is_whole` "schema.name", where the schema may have dots of its own. A name
/// without a schema is of the table's own, which a pattern of schemas does not tell yet.
fn place_of(schema: &str, written: &str, is_whole: bool) -> GeneratorKey {
    let is_wide = is_pattern(schema);
    let own = if is_wide { template::SCHEMA } else { schema };
    let (of, name) = written
        .rsplit_once('.')
        .filter(|(of, _)| is_whole || *of == template::SCHEMA)
        .unwrap_or((own, written));
    let name = GeneratorName { schema: of.to_owned(), name: name.to_owned() };
    let name = if is_wide { name } else { name.of_schema(schema) };
    let is_of_each = name.schema.contains(template::SCHEMA);
    (name, is_of_each.then(|| schema.to_owned()))
}

#[cfg(test)]
impl RuleSet {
    pub(crate) fn of_text(text: &str) -> RuleSet {
        RuleSet::of_texts(&[text])
    }

    pub(crate) fn of_texts(texts: &[&str]) -> RuleSet {
        let mut findings = Findings::default();
        let mut parse = |text: &&str| toml_file::parse(Path::new("rules.toml"), text, None, &mut findings);
        let sources: Vec<_> = texts.iter().map(|text| parse(text).expect("it is TOML")).collect();
        let (rules, _) = link(&sources, findings).expect("the rules are right");
        rules
    }
}

#[cfg(test)]
mod tests;
