//! Limits for a folder of rules: each generator and table is kept in memory, twice
//! while rules change, and looked at by each reload.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::keys::RulesFile;
use crate::toml_file::{FILE_BYTES_MAX, Finding, Findings, Source};

/// Generators of all files together; some 1.5 KB of memory each.
pub(super) const GENERATORS_MAX: usize = 20_000;
/// Rules of all files together; a pattern counts as one.
pub(super) const TABLES_MAX: usize = 50_000;

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    generators: usize,
    tables: usize,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.generators = self.generators.saturating_add(other.generators);
        self.tables = self.tables.saturating_add(other.tables);
    }

    fn excess(self, file: &Path, of_file: Count) -> Option<Finding> {
        let rows = [
            (
                "generators",
                self.generators,
                of_file.generators,
                GENERATORS_MAX,
                "let tables share generators",
            ),
            ("tables", self.tables, of_file.tables, TABLES_MAX, "write patterns of tables"),
        ];
        let (what, count, here, max, remedy) = rows.into_iter().find(|(_, count, _, max, _)| count > max)?;
        let text = format!(
            "too many {what}: {here} in this file, {count} with the files before it, and the maximum of a rules folder is {max}; \
             {remedy}, or let another proxy serve some of the tables"
        );
        Some(Finding::error(file, None, None, text))
    }
}

/// The files up to where there are too many generators or tables, by their headers: a file beyond
/// is not parsed, which takes many times its size.
pub(super) fn within(files: Vec<PathBuf>, findings: &mut Findings) -> Vec<PathBuf> {
    let mut all = Count::default();
    for file in &files {
        // The parser reports a file that cannot be read.
        let of_file = headers(file).unwrap_or_default();
        all.add(of_file);
        if let Some(finding) = all.excess(file, of_file) {
            findings.push(finding);
            return Vec::new();
        }
    }
    files
}

fn headers(file: &Path) -> std::io::Result<Count> {
    let mut count = Count::default();
    for line in BufReader::new(File::open(file)?.take(FILE_BYTES_MAX)).split(b'\n') {
        let line = line?;
        let line = line.trim_ascii();
        // A generator may have a table of its own in it.
        if line.ends_with(b".layout]") {
            continue;
        }
        count.generators += usize::from(line.starts_with(b"[generators"));
        count.tables += usize::from(line.starts_with(b"[tables"));
    }
    Ok(count)
}

/// Checks the limits in the parsed files: there are other ways to write a table than by its header.
pub(super) fn are_exceeded(sources: &[Source<RulesFile>], findings: &mut Findings) -> bool {
    let mut all = Count::default();
    for source in sources {
        let schemas = source.keys.schemas.len().max(1);
        let of_file = Count {
            generators: source.keys.generators.len().saturating_mul(schemas),
            tables: source.keys.tables.len().saturating_mul(schemas),
        };
        all.add(of_file);
        if let Some(finding) = all.excess(&source.file, of_file) {
            findings.push(finding);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use super::{GENERATORS_MAX, TABLES_MAX};
    use crate::rules::load;

    fn generators(count: usize) -> String {
        let mut text = "schema = \"shop\"\n".to_owned();
        for n in 0..count {
            write!(text, "[generators.g{n}]\nkind = \"sequence\"\n").unwrap();
        }
        text
    }

    #[track_caller]
    fn check(files: &[(&str, String)], expect: &str) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let said = load(folder.path()).map_or_else(|findings| findings.to_string(), |_| "fine".to_owned());
        assert!(said.contains(expect), "{expect}: {}", said.chars().take(500).collect::<String>());
    }

    #[test]
    fn a_folder_of_rules_has_limits() {
        check(&[("a.toml", generators(10_000))], "fine");
        let expect = format!(
            "a.toml: too many generators: 100000 in this file, 100000 with the files before it, and the maximum of a rules folder is {GENERATORS_MAX};"
        );
        check(&[("a.toml", generators(100_000))], &expect);
        let second = generators(1).replace("shop", "other");
        let expect = format!(
            "b.toml: too many generators: 1 in this file, {} with the files before it,",
            GENERATORS_MAX + 1
        );
        check(&[("a.toml", generators(GENERATORS_MAX)), ("b.toml", second)], &expect);
        // Without headers.
        let mut inline = "schema = \"shop\"\ntables = {".to_owned();
        for n in 0..=TABLES_MAX {
            write!(inline, "t{n}={{column=\"id\",generator=\"g\"}},").unwrap();
        }
        let inline = inline.trim_end_matches(',').to_owned() + "}\n[generators.g]\nkind = \"sequence\"\n";
        check(&[("a.toml", inline)], &format!("too many tables: {} in this file,", TABLES_MAX + 1));
        // A rule for each of several databases.
        let schemas: Vec<_> = (0..1_000).map(|n| format!("\"s{n}\"")).collect();
        let several = format!("schemas = [{}]\n", schemas.join(","));
        let of_many = generators(21).replace("schema = \"shop\"\n", &several);
        check(&[("a.toml", of_many)], "too many generators: 21000 in this file,");
    }
}
