//! The files of a rules folder -> the rules, or everything that is wrong with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::keys::RulesFile;
use super::limits;
use super::model::{Explicit, GeneratorKind, GeneratorName, GeneratorSpec, Origin, Rule};
use super::pattern;
use super::set::RuleSet;
use super::spec;
use crate::toml_file::{self, Finding, Findings, Severity, Source, join, nearest};

/// Patterns of one schema: each INSERT into a table that has no rule of its own tries them all.
const PATTERNS_MAX: usize = 1000;
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
        let text = "has no *.toml: no table gets ids; rules/README.md says what to write";
        let error = Finding::error(folder, None, None, text);
        findings.push(Finding { severity: Severity::Warning, ..error });
    }
    let files = limits::within(files, &mut findings);
    let read = files.iter().filter_map(|file| toml_file::read(file, &mut findings));
    let sources: Vec<Source<RulesFile>> = read.collect();
    link(&sources, findings)
}

/// Sorted, so that findings and ties come in the same order everywhere.
pub(super) fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot =
        |error: std::io::Error| format!("cannot be read: {error}; make the folder, or fix rules.path");
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
    for source in sources {
        link.generators_of(source);
    }
    for source in sources {
        link.tables_of(source);
    }
    link.patterns();
    link.unused();
    let Link { generators, rules, .. } = link;
    if findings.has_errors() {
        return Err(findings.sorted());
    }
    Ok((RuleSet::new(generators.into_values().filter_map(|one| one.spec), rules.into_values()), findings))
}

struct Link<'a> {
    generators: BTreeMap<GeneratorName, Defined>,
    /// By schema and table.
    rules: BTreeMap<(String, String), Rule>,
    findings: &'a mut Findings,
}

/// A generator's name is taken even where its definition is bad, so that its tables are not blamed
/// too.
struct Defined {
    spec: Option<GeneratorSpec>,
    origin: Origin,
    is_used: bool,
}

impl Link<'_> {
    fn generators_of(&mut self, source: &Source<RulesFile>) {
        let Some(schema) = &source.keys.schema else { return };
        for (name, generator) in &source.keys.generators {
            let key = join("generators", name);
            let origin = origin(source, &key);
            let kind = spec::kind(source, &key, name, generator, self.findings);
            let name = GeneratorName { schema: schema.clone(), name: name.clone() };
            if let Some(first) = self.generators.get(&name) {
                let first = &first.origin;
                let text = format!("{name} is defined at {first} already; rename one of them, or remove it");
                self.findings.push(source.error(&key, text));
                continue;
            }
            let spec = kind.map(|kind| GeneratorSpec { name: name.clone(), kind, origin: origin.clone() });
            self.generators.insert(name, Defined { spec, origin, is_used: false });
        }
    }

    fn tables_of(&mut self, source: &Source<RulesFile>) {
        let Some(schema) = &source.keys.schema else { return };
        for (name, table) in &source.keys.tables {
            let key = join("tables", name);
            self.findings.extend(spec::table_errors(source, &key, name, table));
            let (Some(column), Some(written)) = (&table.column, &table.generator) else { continue };
            let generator = generator_name(schema, written);
            self.use_generator(source, &key, &generator);
            let explicit = self.explicit(source, &key, table.explicit, &generator);
            let rule = Rule {
                schema: schema.clone(),
                table: name.clone(),
                column: column.clone(),
                generator,
                explicit,
                insert_id: table.insert_id,
                mode: table.mode,
                unavailable: table.unavailable,
                origin: origin(source, &key),
            };
            let place = (schema.clone(), name.clone());
            match self.rules.get(&place) {
                Some(first) => {
                    let first = &first.origin;
                    let text = format!("{schema}.{name} has a rule at {first} already; keep one of them");
                    self.findings.push(source.error(&key, text));
                }
                None => drop(self.rules.insert(place, rule)),
            }
        }
    }

    /// A sequence must learn of ids that it did not make. A timestamp generator has no use for
    /// them: an id ahead of its clock would take it along for ever.
    fn explicit(
        &mut self,
        source: &Source<RulesFile>,
        table_key: &str,
        written: Option<Explicit>,
        name: &GeneratorName,
    ) -> Explicit {
        let spec = self.generators.get(name).and_then(|defined| defined.spec.as_ref());
        let is_timestamp = spec.is_some_and(|spec| matches!(spec.kind, GeneratorKind::Timestamp(_)));
        if is_timestamp && written == Some(Explicit::Advance) {
            let text = format!(
                "\"advance\" is for sequences, and {name} is a timestamp generator; write \"keep\" or \"reject\""
            );
            self.findings.push(source.error(&join(table_key, "explicit"), text));
        }
        written.unwrap_or(if is_timestamp { Explicit::Keep } else { Explicit::Advance })
    }

    fn use_generator(&mut self, source: &Source<RulesFile>, table_key: &str, name: &GeneratorName) {
        if let Some(defined) = self.generators.get_mut(name) {
            defined.is_used = true;
            return;
        }
        let key = join(table_key, "generator");
        // As many as a person wrote: comparing each name with each would take for ever in a file
        // made to.
        let compared = self.generators.keys().take(NAMES_COMPARED_MAX);
        let known: Vec<String> = compared.map(ToString::to_string).collect();
        let text = match nearest(&name.to_string(), known.iter().map(String::as_str)) {
            Some(near) => format!("there is no generator {name}; did you mean {near}?"),
            None => format!("there is no generator {name}; define [generators.{}] for it", name.name),
        };
        self.findings.push(source.error(&key, text));
    }

    /// A pattern that lies within another one of its schema could never tell its tables from the
    /// other's.
    fn patterns(&mut self) {
        let mut by_schema: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
        for rule in self.rules.values().filter(|rule| pattern::is_pattern(&rule.table)) {
            by_schema.entry(&rule.schema).or_default().push(rule);
        }
        for (schema, rules) in by_schema {
            if let Some(one_too_many) = rules.get(PATTERNS_MAX) {
                let text = format!(
                    "schema {schema} has {} patterns, and {PATTERNS_MAX} are the most; name tables exactly, or by wider \
                     patterns",
                    rules.len()
                );
                self.findings.push(about(one_too_many, text));
                continue;
            }
            for narrow in &rules {
                let wider = rules
                    .iter()
                    .find(|wide| wide.table != narrow.table && pattern::covers(&wide.table, &narrow.table));
                if let Some(wide) = wider {
                    let text = format!(
                        "all its tables are matched by {:?} ({}) too; only an exact name beats a pattern",
                        wide.table, wide.origin
                    );
                    self.findings.push(about(narrow, text));
                }
            }
        }
    }

    fn unused(&mut self) {
        for (name, defined) in self.generators.iter().filter(|(_, defined)| !defined.is_used) {
            let Origin { file, line } = &defined.origin;
            let key = join("generators", &name.name);
            let error = Finding::error(file, Some(*line), Some(&key), "no table draws from it");
            self.findings.push(Finding { severity: Severity::Warning, ..error });
        }
    }
}

fn about(rule: &Rule, text: String) -> Finding {
    Finding::error(&rule.origin.file, Some(rule.origin.line), Some(&join("tables", &rule.table)), text)
}

fn origin(source: &Source<RulesFile>, key: &str) -> Origin {
    Origin { file: source.file.clone(), line: source.line(key) }
}

/// "name", or "schema.name", where the schema may have dots of its own.
fn generator_name(schema: &str, written: &str) -> GeneratorName {
    let (schema, name) = written.rsplit_once('.').unwrap_or((schema, written));
    GeneratorName { schema: schema.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
impl RuleSet {
    /// The rules of a file with this text.
    pub(crate) fn of_text(text: &str) -> RuleSet {
        let mut findings = Findings::default();
        let source = toml_file::parse(Path::new("rules.toml"), text, &mut findings);
        let (rules, _) = link(&[source.expect("it is TOML")], findings).expect("the rules are right");
        rules
    }
}

#[cfg(test)]
mod tests;
