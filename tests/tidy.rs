//! The house: imports go the way that ARCHITECTURE.md draws, what is pure stays so, comments say their subject first, nothing is left for later.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Who may import whom. The longest row name that a module's path starts with counts; a module may always import from
/// itself, its parent's row excepted only where it has a row of its own.
const MAY_IMPORT: [(&str, &[&str]); 34] = [
    ("address", &[]),
    ("meter", &[]),
    ("role", &[]),
    ("table_name", &[]),
    ("table_use", &["meter"]),
    ("text_query", &[]),
    ("book", &[]),
    ("log_span", &[]),
    ("audit", &[]),
    ("mysql", &[]),
    ("sql", &["table_name"]),
    ("ids::block", &[]),
    ("ids::layout", &["ids::block"]),
    ("toml_file", &["address"]),
    ("store", &["meter", "role", "text_query", "book", "log_span"]),
    ("users", &["address", "store"]),
    ("ids", &["store"]),
    ("rules", &["table_name", "book", "sql", "toml_file", "ids"]),
    ("rewrite", &["table_name", "table_use", "mysql", "sql", "ids::block", "rules"]),
    (
        "schema",
        &[
            "address",
            "meter",
            "role",
            "table_name",
            "text_query",
            "sql",
            "ids::block",
            "ids::layout",
            "rules",
        ],
    ),
    ("lint", &["table_name", "book", "sql", "toml_file", "store", "users", "ids", "rules", "schema"]),
    ("migrate", &["table_name", "book", "sql", "toml_file", "ids", "rules", "schema"]),
    ("sessions", &["meter", "sql", "log_span"]),
    (
        "tables",
        &["meter", "table_name", "table_use", "book", "sql", "store", "ids", "rules", "rewrite", "schema"],
    ),
    (
        "proxy",
        &[
            "address",
            "table_name",
            "table_use",
            "text_query",
            "book",
            "log_span",
            "audit",
            "mysql",
            "sql",
            "store",
            "ids",
            "rules",
            "rewrite",
            "schema",
            "sessions",
            "tables",
            "users",
        ],
    ),
    ("takeover", &["table_use", "ids", "rewrite", "tables"]),
    ("doors", &["address", "audit", "book", "ids", "rules", "tables", "toml_file", "users"]),
    ("admin", &["address", "mysql", "sessions", "users"]),
    ("config", &["address", "book", "users", "toml_file", "ids", "rules", "proxy", "admin"]),
    ("opened", &["address", "log_span", "store", "rules", "schema", "lint", "tables", "proxy", "config"]),
    ("querylog", &[]),
    (
        "explain",
        &["table_name", "sql", "ids::block", "rules", "rewrite", "schema", "tables", "proxy", "querylog"],
    ),
    (
        "daemon",
        &[
            "address",
            "meter",
            "log_span",
            "audit",
            "users",
            "doors",
            "toml_file",
            "store",
            "ids",
            "rules",
            "schema",
            "lint",
            "sessions",
            "tables",
            "proxy",
            "takeover",
            "admin",
            "config",
            "opened",
            "explain",
        ],
    ),
    (
        "cli",
        &[
            "address",
            "role",
            "table_name",
            "book",
            "sql",
            "toml_file",
            "store",
            "ids",
            "rules",
            "schema",
            "lint",
            "migrate",
            "tables",
            "proxy",
            "admin",
            "config",
            "opened",
            "querylog",
            "explain",
            "daemon",
        ],
    ),
];

/// Words of code that is not finished, or does not run.
const LEFT_OVER: [&str; 6] = ["todo!", "unimplemented!", "#[ignore", "FIXME", "XXX", "dbg!"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below the folder, by their paths from the crate's root.
fn rust_files(folder: &str) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // Programs of tests/drivers build in folders of their own.
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
            }
        }
    }
    files
}

/// `src/ids/block.rs` -> `ids::block`, `src/rules/mod.rs` -> `rules`; `None` for lib.rs and main.rs.
fn module_of(file: &Path) -> Option<String> {
    let path = file.strip_prefix("src").unwrap().with_extension("");
    let parts: Vec<_> =
        path.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "mod").collect();
    (!["lib", "main"].contains(&parts[0])).then(|| parts.join("::"))
}

fn starts_with(path: &str, row: &str) -> bool {
    path.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn row_of(path: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    MAY_IMPORT.iter().filter(|(row, _)| starts_with(path, row)).max_by_key(|(row, _)| row.len())
}

/// The text without comments: what they name is no import.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// `a::{b, c::{d}}` -> `a::b`, `a::c::d`; anything else as it is, up to its first character that is no part of a path.
fn expand(prefix: &str, text: &str, found: &mut Vec<String>) {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    if !text[end..].starts_with('{') || !(path.is_empty() || path.ends_with("::")) {
        found.push(path);
        return;
    }
    let (mut depth, mut start) = (0, end + 1);
    for (at, c) in text[end..].char_indices().map(|(at, c)| (end + at, c)) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if (depth == 1 && c == ',') || depth == 0 {
            let part = text[start..at].trim();
            if !part.is_empty() {
                expand(&path, part, found);
            }
            start = at + 1;
        }
        if depth == 0 {
            return;
        }
    }
}

/// Paths within the crate that the text names, without `crate::`.
fn imports(module: &str, text: &str) -> Vec<String> {
    // Tests stand at the end of a file, in a module of their own.
    let code = code(text);
    let (body, tests) = code.split_once("\nmod tests {").unwrap_or((&code, ""));
    let of_tests = imports_of(&format!("{module}::tests"), tests);
    imports_of(module, body).into_iter().chain(of_tests).collect()
}

fn imports_of(module: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").filter(|(at, _)| !code[..*at].ends_with('$')) {
        expand("", &code[at + "crate::".len()..], &mut found);
    }
    // `super` leads out of a row only from its topmost modules.
    for (at, _) in code.match_indices("super::") {
        let steps = code[at..].split("super::").take_while(|part| part.is_empty()).count();
        let parts: Vec<_> = module.split("::").collect();
        let outer = parts.len().checked_sub(steps).map_or(&[][..], |n| &parts[..n]);
        let prefix: String = outer.iter().flat_map(|part| [*part, "::"]).collect();
        if !code[..at].ends_with("super::") {
            expand(&prefix, code[at..].trim_start_matches("super::"), &mut found);
        }
    }
    found
}

/// The modules of `src` and their code, without tests.
fn modules() -> BTreeMap<String, String> {
    let is_test = |module: &str| module.split("::").any(|part| part == "tests" || part.ends_with("_tests"));
    let body = |text: &str| {
        let code = code(text);
        code.split_once("\nmod tests {").map_or(code.clone(), |(body, _)| body.to_owned())
    };
    let files = rust_files("src");
    let modules = files.iter().filter_map(|(file, text)| Some((module_of(file)?, body(text))));
    modules.filter(|(module, _)| !is_test(module)).collect()
}

/// Which modules of `src` each uses, by its imports and by the methods that it calls on `self`. A module that a path leads into is the
/// longest one that the path names.
fn dependencies(modules: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let found = |module: &str, text: &str| {
        let paths = imports_of(module, text).into_iter();
        paths
            .filter_map(|path| {
                let parts: Vec<_> = path.split("::").collect();
                let prefixes = (1..=parts.len()).rev().map(|n| parts[..n].join("::"));
                prefixes.into_iter().find(|prefix| modules.contains_key(prefix))
            })
            .filter(|path| path != module)
            .collect()
    };
    let mut all: BTreeMap<String, BTreeSet<String>> =
        modules.iter().map(|(module, text)| (module.clone(), found(module, text))).collect();
    for (from, to) in calls(modules) {
        all.entry(from).or_default().insert(to);
    }
    all
}

/// The inherent implementations of a text: the type's name, and what stands in the braces.
fn impls(text: &str) -> Vec<(&str, &str)> {
    let blocks = text.split("\nimpl").skip(1).filter_map(|block| block.split_once('{'));
    let named = blocks.filter(|(head, _)| !head.contains(" for ")).filter_map(|(head, body)| {
        let of = if head.starts_with('<') { head.split_once("> ")?.1 } else { head.trim_start() };
        let end = of.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(of.len());
        let body = if body.starts_with('}') { "" } else { body.split("\n}").next()? };
        Some((&of[..end], body))
    });
    named.collect()
}

/// Who calls whom by `self.method(..)`, where a type is implemented in several modules.
fn calls(modules: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    // The methods of each type, and for each method the modules that have one of this name.
    let mut methods: BTreeMap<(String, &str), BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    let homes = homes(modules);
    for (module, text) in modules {
        for (of, body) in impls(text) {
            let of_type = methods.entry((home(&homes, module, of), of)).or_default();
            for name in body.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()) {
                of_type.entry(name).or_default().insert(module);
            }
        }
    }
    let mut found = BTreeSet::new();
    for (from, text) in modules {
        for (of, body) in impls(text) {
            let of_type = &methods[&(home(&homes, from, of), of)];
            // A call may be on a line of its own.
            let body: String = body.split_whitespace().collect::<String>().replace("Self::", "self.");
            for name in body.split("self.").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0)) {
                let others = of_type.get(name).filter(|all| !all.contains(&**from)).into_iter().flatten();
                found.extend(others.map(|to| (from.clone(), (*to).to_owned())));
            }
        }
    }
    found
}

/// The modules that define a type of each name.
fn homes(modules: &BTreeMap<String, String>) -> BTreeMap<&str, Vec<&str>> {
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, text) in modules {
        for line in text.lines().filter(|line| !line.starts_with(' ')) {
            let mut words = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .skip_while(|word| *word != "struct" && *word != "enum");
            if let Some(name) = words.nth(1) {
                homes.entry(name).or_default().push(module);
            }
        }
    }
    homes
}

/// The module that defines a type which `module` names: the one nearest to it.
fn home(homes: &BTreeMap<&str, Vec<&str>>, module: &str, of: &str) -> String {
    let shared = |other: &str| module.split("::").zip(other.split("::")).take_while(|(a, b)| a == b).count();
    let all = homes.get(of).into_iter().flatten();
    all.max_by_key(|home| (shared(home), **home == module)).map(|home| (*home).to_owned()).unwrap_or_default()
}

/// A room of the proxy, or another module as a whole: a type's methods stand together there.
fn room(module: &str) -> String {
    let parts: Vec<_> = module.split("::").collect();
    parts[..parts.len().min(if parts[0] == "proxy" { 2 } else { 1 })].join("::")
}

#[test]
fn the_methods_of_a_type_stand_in_its_room() {
    let modules = modules();
    let homes = homes(&modules);
    let mut bad = Vec::new();
    for (module, text) in &modules {
        for (of, _) in impls(text) {
            let home = home(&homes, module, of);
            if room(&home) != room(module) {
                bad.push(format!("{module} implements {of}, which is of {home}"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn methods_and_those_who_call_them_are_found() {
    let modules: BTreeMap<String, String> = [
        ("a::b", "pub(super) struct Big<'a> {}\n\nimpl<'a> Big<'a> {\n    fn one(&self) {\n        self\n            .two()\n    }\n}\n"),
        ("a::b::c", "use super::Big;\n\nimpl Big<'_> {\n    fn two(&self) {\n        self.three.one();\n        Self::four()\n    }\n}\n"),
        ("a::b::e", "use super::Big;\n\nimpl Big<'_> {}\n\nimpl<T> Big<'_> {\n    fn four() {}\n}\n\nfn two() {}\n"),
        ("a::d", "struct Bigger;\nenum Big {}\n\nimpl Big {\n    fn two(&self) {\n        self.two()\n    }\n}\n\nimpl Clone for Big {\n}\n"),
    ]
    .into_iter()
    .map(|(module, text)| (module.to_owned(), text.to_owned()))
    .collect();
    let homes = homes(&modules);
    let found: Vec<_> = modules
        .iter()
        .flat_map(|(module, text)| {
            impls(text).into_iter().map(|(of, _)| home(&homes, module, of)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found, ["a::b", "a::b", "a::b", "a::b", "a::d"]);
    let found: Vec<_> = calls(&modules).into_iter().collect();
    let expect = [("a::b", "a::b::c"), ("a::b::c", "a::b::e")];
    assert_eq!(found, expect.map(|(from, to)| (from.to_owned(), to.to_owned())));
}

/// The module's imports that the table does not allow.
fn forbidden(module: &str, text: &str) -> Vec<String> {
    let Some((row, allowed)) = row_of(module) else {
        return vec![format!("module {module} has no row in the table: say who may import it")];
    };
    let may = |path: &str| {
        let Some((target, _)) = row_of(path) else { return true };
        target == row || allowed.contains(target)
            // A row of the table may be part of a module that is allowed as a whole.
            || allowed.iter().any(|one| starts_with(target, one))
            || starts_with(target, row)
    };
    let mut bad: Vec<_> = imports(module, text).into_iter().filter(|path| !may(path)).collect();
    bad.sort();
    bad.dedup();
    bad.into_iter()
        .map(|path| format!("{module} imports {path}, and may import of {allowed:?} only"))
        .collect()
}

#[test]
fn imports_go_down_only() {
    let files = rust_files("src");
    let modules = files.iter().filter_map(|(file, text)| Some((module_of(file)?, text)));
    let bad: Vec<_> = modules.flat_map(|(module, text)| forbidden(&module, text)).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn what_may_be_imported_is_imported() {
    let mut unused: BTreeSet<_> =
        MAY_IMPORT.iter().flat_map(|(row, allowed)| allowed.iter().map(move |one| (*row, *one))).collect();
    for (file, text) in rust_files("src") {
        let Some(module) = module_of(&file) else { continue };
        let Some((row, _)) = row_of(&module) else { continue };
        let targets = imports(&module, &text);
        unused.retain(|(of, one)| of != row || !targets.iter().any(|target| starts_with(target, one)));
    }
    assert!(unused.is_empty(), "nobody uses these permissions, module and what it may import: {unused:?}");
}

/// The entries of one folder, files and folders, that lead back to themselves by what they use. What a folder's `mod.rs`, or the file
/// of its name, says for all of them does not count.
fn circles(dependencies: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    // For each folder: who imports whom of its entries.
    let mut folders: BTreeMap<Vec<&str>, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (module, targets) in dependencies {
        let from: Vec<_> = module.split("::").collect();
        for target in targets {
            let to: Vec<_> = target.split("::").collect();
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                folders.entry(from[..shared].to_vec()).or_default().entry(a).or_default().insert(b);
            }
        }
    }
    let mut found = BTreeSet::new();
    for (folder, imports) in folders {
        for start in imports.keys() {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(one) = next.pop() {
                next.extend(imports.get(one).into_iter().flatten().filter(|to| reached.insert(**to)));
            }
            if reached.contains(start) {
                found.insert([&folder[..], &[start]].concat().join("::"));
            }
        }
    }
    found
}

#[test]
fn no_files_of_a_folder_import_each_other_in_a_circle() {
    let found = circles(&dependencies(&modules()));
    assert!(found.is_empty(), "these lead back to themselves: {found:?}");
}

#[test]
fn circles_are_found() {
    let dependencies = |lines: &[(&str, &str)]| {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in lines {
            all.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        all
    };
    for (lines, expect) in [
        (&[("a::b", "a::c"), ("a::c", "a::d")][..], ""),
        (&[("a::b", "a::c"), ("a::c", "a::b")], "a::b a::c"),
        (&[("a::b", "a::c::x"), ("a::c::y", "a::b")], "a::b a::c"),
        (&[("a::b", "a"), ("a", "a::b")], ""),
        (&[("a::b", "c"), ("c", "d::e"), ("d", "a::x")], "a c d"),
    ] {
        let found: Vec<_> = circles(&dependencies(lines)).into_iter().collect();
        assert_eq!(found.join(" "), expect, "{lines:?}");
    }
}

#[test]
fn the_architecture_draws_the_same_table() {
    let mut meant = "| module | may import |\n|---|---|\n".to_owned();
    for (row, allowed) in MAY_IMPORT {
        let allowed = if allowed.is_empty() { "nothing of ours".to_owned() } else { allowed.join(", ") };
        meant += &["| `", row, "` | ", &allowed, " |\n"].concat();
    }
    assert_eq!(drawn("imports"), meant);
}

/// The arrows that say all of the table: what a module uses by way of another one is left out, and so are the rows of a module's parts.
fn picture() -> String {
    let uses: BTreeMap<&str, &[&str]> = MAY_IMPORT.into_iter().collect();
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(one) = next.pop() {
            next.extend(
                uses.get(one).into_iter().flat_map(|used| used.iter()).filter(|used| seen.insert(**used)),
            );
        }
        seen.iter().any(|seen| starts_with(to, seen))
    };
    let mut lines = vec!["```mermaid".to_owned(), "flowchart TD".to_owned()];
    for (row, allowed) in MAY_IMPORT.iter().rev().filter(|(row, _)| !row.contains("::")) {
        let is_direct =
            |one: &&&str| !allowed.iter().any(|by| by != *one && (reaches(by, one) || starts_with(one, by)));
        let direct: Vec<_> = allowed.iter().filter(is_direct).map(|one| one.replace("::", "_")).collect();
        if !direct.is_empty() {
            lines.push(format!("    {} --> {}", row.replace("::", "_"), direct.join(" & ")));
        }
    }
    lines.push("```\n".to_owned());
    lines.join("\n")
}

#[test]
fn the_architecture_has_the_picture_of_the_table() {
    assert_eq!(drawn("picture"), picture());
}

/// The text of ARCHITECTURE.md between two marks.
fn drawn(mark: &str) -> String {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- {mark}: begin -->\n")).unwrap();
    rest.split_once(&format!("<!-- {mark}: end -->")).unwrap().0.to_owned()
}

/// Who uses whom of the proxy's rooms; what a room uses by way of another one is left out.
fn rooms() -> String {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let room =
        |module: &str| module.strip_prefix("proxy::").map(|rest| rest.split("::").next().unwrap().to_owned());
    for (from, targets) in dependencies(&modules()) {
        let Some(from) = room(&from) else { continue };
        let targets = targets.iter().filter_map(|to| room(to)).filter(|to| *to != from);
        uses.entry(from.clone()).or_default().extend(targets);
    }
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(one) = next.pop() {
            next.extend(
                uses.get(one).into_iter().flatten().map(String::as_str).filter(|used| seen.insert(*used)),
            );
        }
        seen.contains(to)
    };
    let mut lines = vec!["```mermaid".to_owned(), "flowchart TD".to_owned()];
    for (room, used) in &uses {
        let is_direct = |one: &&String| !used.iter().any(|by| by != *one && reaches(by, one));
        let direct: Vec<&str> = used.iter().filter(is_direct).map(String::as_str).collect();
        if !direct.is_empty() {
            lines.push(format!("    {room} --> {}", direct.join(" & ")));
        }
    }
    lines.push("```\n".to_owned());
    lines.join("\n")
}

#[test]
fn the_architecture_has_the_picture_of_the_proxys_rooms() {
    assert_eq!(drawn("rooms"), rooms());
}

#[test]
fn the_tests_that_the_invariants_name_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, invariants) = text.split_once("## Invariants").unwrap();
    let is_test = |name: &&str| {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        name.matches('_').count() >= 3 && name.bytes().all(is_plain)
    };
    let named: Vec<&str> = invariants.split('`').skip(1).step_by(2).filter(is_test).collect();
    let code: String = ["src", "tests"].iter().flat_map(|folder| rust_files(folder).into_values()).collect();
    let cases = fs::read_to_string(root().join("tests/differential/coverage.txt")).unwrap();
    let exists = |name: &str| {
        code.contains(&format!("fn {name}(")) || cases.split_whitespace().any(|case| case == name)
    };
    let missing: Vec<&&str> = named.iter().filter(|name| !exists(name)).collect();
    assert!(named.len() > 50 && missing.is_empty(), "of {} tests: {missing:?}", named.len());
}

#[test]
fn the_table_is_read_as_it_is_meant() {
    for (module, text, expect) in [
        ("schema::facts", "use crate::ids::block::IdBlock;", 0),
        ("schema::facts", "use crate::ids::sequence::Seed;", 1),
        ("schema", "use crate::{ids::{block::IdBlock, sequence}, address};", 1),
        ("ids::block", "use crate::store::Store;", 1),
        ("ids::block", "use super::sequence::Seed;", 1),
        ("ids::sequence", "use super::block::IdBlock;", 0),
        ("ids", "use crate::rules::model::Rule;", 1),
        ("rules::load", "use super::set::RuleSet; fn f() -> crate::proxy::settings::Settings {}", 1),
        ("rules::load", "// crate::proxy is above\nuse crate::ids::block;", 0),
        ("rewrite", "use crate::ids::sequence;\nuse crate::ids::block;", 1),
        ("rewrite::plan", "pub use super::super::proxy::X;", 1),
        ("proxy::pump", "use crate::config::Config;", 1),
        ("proxy::pump", "use crate::cli::x;", 1),
        ("sql::lex::tests", "use super::super::edit; use super::lex;", 0),
        ("config", "use crate::cli::x;", 1),
        ("ids::block", "mod x;\nmod tests {\n use super::IdBlock; use super::super::sequence::Seed; }", 1),
        ("newcomer", "", 1),
        ("proxy::x", "macro_rules! m { () => { $crate::config::x } }", 0),
    ] {
        assert_eq!(forbidden(module, text).len(), expect, "{module}: {text}");
    }
}

/// Modules that know no runtime, clock, disk or log by themselves, and the others than these that they may use: what they are
/// handed by these may act.
const PURE: [(&str, &[&str]); 14] = [
    ("table_name", &[]),
    ("text_query", &[]),
    ("mysql", &[]),
    ("sql", &[]),
    ("ids::block", &[]),
    ("ids::layout", &[]),
    ("ids::slots", &[]),
    ("ids::sequence", &[]),
    ("rules", &["toml_file", "ids"]),
    ("rewrite", &["table_use"]),
    ("lint", &["book", "ids", "schema", "store", "toml_file", "users"]),
    ("migrate", &["book", "ids", "schema"]),
    ("proxy::decide", &["proxy::verifier", "sessions", "tables", "users"]),
    ("proxy::known", &["sessions", "tables"]),
];

/// Parts of them that are not pure: the files of the rules are read and watched, and a login's encryption draws.
const NOT_PURE: [&str; 4] = ["rules::load", "rules::limits", "rules::watch", "mysql::auth"];

/// Words of code that waits, or reads a clock or a file, or writes a line of the log.
const IMPURE: [&str; 16] = [
    "tokio",
    "async ",
    "Instant::now",
    "elapsed()",
    "SystemTime::now",
    "boottime",
    "clock_gettime",
    "thread::",
    "rand::",
    "fastrand",
    "std::fs",
    "File::",
    "TcpStream",
    "std::env",
    "println!",
    "tracing::",
];

#[test]
fn what_is_pure_touches_nothing() {
    let is_pure = |module: &str| {
        !NOT_PURE.iter().any(|row| starts_with(module, row))
            && PURE.iter().any(|(row, _)| starts_with(module, row))
    };
    let all = modules();
    let uses = dependencies(&all);
    let mut found = Vec::new();
    for (row, handed) in PURE {
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        for (module, text) in all.iter().filter(|(module, _)| starts_with(module, row) && is_pure(module)) {
            found.extend(
                IMPURE.iter().filter(|word| text.contains(**word)).map(|word| format!("{module} has {word}")),
            );
            for other in uses[module].iter().filter(|other| !is_pure(other) && !starts_with(other, row)) {
                match handed.iter().find(|one| starts_with(other, one)) {
                    Some(one) => drop(needed.insert(one)),
                    None => found.push(format!("{module} uses {other}")),
                }
            }
        }
        let needless = handed.iter().filter(|one| !needed.contains(**one));
        found.extend(needless.map(|one| format!("{row} has no use for {one}, or is no module")));
        if !all.keys().any(|module| starts_with(module, row)) {
            found.push(format!("{row} is no module"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Numbers of a peer's, and the byte by which a payload tells its kind, are read where every read is checked and named.
#[test]
fn numbers_of_a_peer_are_read_by_the_reader() {
    let words = [
        "from_le_bytes",
        "from_be_bytes",
        "swap_bytes",
        "payload.first()",
        "packet.first()",
        "payload.split_first()",
        ".get(HEADER_BYTES)",
    ];
    let by_hand = |text: &str| words.iter().any(|word| text.contains(word));
    let found: Vec<_> =
        modules().into_iter().filter(|(_, text)| by_hand(text)).map(|(module, _)| module).collect();
    // The reader gives the PROXY protocol's length, in another order; the verifier's number is a digest's.
    assert_eq!(
        found,
        ["mysql::packet", "mysql::reader", "proxy::connect::proxy_protocol", "proxy::verifier"]
    );
}

/// Error packets get their codes and SQL states from one place. Held: no number follows `err_payload(`, no SQL state is written out, and no
/// code is named by the console's library. Codes of the server's that are only compared may stand anywhere.
#[test]
fn errors_have_their_codes_from_one_place() {
    let after =
        |text: &str, mark: &str, is_by_hand: fn(&str) -> bool| text.split(mark).skip(1).any(is_by_hand);
    let number = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let state = |rest: &str| {
        let state = rest.split('"').next().unwrap_or_default();
        state.len() == 5 && state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    let by_hand = |text: &str| {
        let codes = ["err_payload(", "ErrorKind::from("].iter().any(|mark| after(text, mark, number));
        codes || text.contains("ErrorKind::ER_") || after(text, "*b\"", state)
    };
    let found: Vec<_> =
        modules().into_iter().filter(|(_, text)| by_hand(text)).map(|(module, _)| module).collect();
    // An error of the server's that gets a remedy keeps its SQL state.
    assert_eq!(found, ["mysql::error", "proxy::known::rights"]);
}

/// The words that docs/words.md and ARCHITECTURE.md define: "control account" as `ControlAccount`.
fn glossary() -> BTreeSet<String> {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (book, page) = (read("docs/words.md"), read("ARCHITECTURE.md"));
    let (_, words) = page.split_once("## Words\n").unwrap();
    let (words, _) = words.split_once("\n## ").unwrap();
    let listed = words.split('·').filter_map(|word| word.split_once(" (").map(|(word, _)| word));
    let rows =
        book.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).map(|(word, _)| word);
    let first_up = |word: &str| word[..1].to_uppercase() + &word[1..];
    listed.chain(rows).map(|word| word.split_whitespace().map(first_up).collect()).collect()
}

/// The types that a text defines, each with true if other files may use it.
fn types(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let is_own = |line: &&str| !line.starts_with([' ', '/']);
    text.lines().filter(is_own).filter_map(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let after = words.skip_while(|word| !["struct", "enum", "trait", "type"].contains(word));
        after.skip(1).find(|word| !word.is_empty()).map(|name| (name, line.starts_with("pub")))
    })
}

/// A word of the glossary is one type, and so is a name that other files of a module can see. Where something is like it, another word says what differs:
/// `StoreKeys`, `ClusterNode`.
#[test]
fn one_name_is_one_type() {
    let glossary = glossary();
    assert!(["Range", "Block", "Session", "ControlAccount"].iter().all(|word| glossary.contains(*word)));
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let modules = modules();
    for (module, text) in &modules {
        let top = module.split("::").next().unwrap();
        for (name, is_seen) in types(text) {
            if glossary.contains(name) {
                found.entry(("the glossary", name)).or_default().push(module);
            }
            if is_seen {
                found.entry((top, name)).or_default().push(module);
            }
        }
    }
    assert!(found.contains_key(&("the glossary", "Layout")), "{found:?}");
    found.retain(|_, modules| modules.len() > 1);
    assert!(found.is_empty(), "one name, several types: {found:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    let here = Path::new(file!()).file_name().unwrap();
    let files = ["src", "tests", "fuzz/src"].into_iter().flat_map(rust_files);
    let others = files.filter(|(file, _)| file.file_name() != Some(here));
    let left: Vec<_> = others
        .flat_map(|(file, text)| {
            let words = LEFT_OVER.iter().filter(move |word| text.contains(**word));
            words.map(|word| format!("{} says {word}", file.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// How many lines of comments begin with a word that leaves their subject to the name below ("Whether", ...), how many
/// comments begin with a pronoun ("It", ...), and how many use the word that should be "after". Those of `src` that are left are shown to users, or tell of a
/// clock. A count may only fall.
const FRAGMENTS: [(&str, usize, usize, usize); 2] = [("src", 23, 5, 1), ("tests", 0, 0, 0)];

/// The lines of the text's comments, without their marks; true: a comment begins there.
fn comments(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut is_within = false;
    text.lines().filter_map(move |line| {
        let comment = line.trim_start().strip_prefix("//");
        let begins = !std::mem::replace(&mut is_within, comment.is_some());
        comment.map(|comment| (begins, comment.trim_start_matches(['/', '!']).trim_start()))
    })
}

#[test]
fn comments_say_their_subject_first() {
    let is_word = |c: char| c.is_alphanumeric();
    for (folder, fragments, pronouns, behind) in FRAGMENTS {
        let (mut found, mut places) = ([0; 3], Vec::new());
        for (file, text) in rust_files(folder) {
            for (begins, comment) in comments(&text) {
                let first = comment.split(|c| !is_word(c)).next().unwrap_or_default();
                let is_fragment = ["What", "Whether", "Of", "As", "Where"].contains(&first);
                let is_behind =
                    comment.split(|c| !is_word(c)).any(|word| word.eq_ignore_ascii_case("behind"));
                let is_pronoun = begins && ["It", "They", "Its", "Their", "That", "Those"].contains(&first);
                let faults = [is_fragment, is_pronoun, is_behind];
                for (count, fault) in found.iter_mut().zip(faults) {
                    *count += usize::from(fault);
                }
                if faults.contains(&true) {
                    places.push(format!("{}: {comment}", file.display()));
                }
            }
        }
        assert_eq!(
            found,
            [fragments, pronouns, behind],
            "{folder}: say the subject first, and \"after\". If the count has fallen, write it into FRAGMENTS.\n{}",
            places.join("\n")
        );
    }
}

/// Modules of the campaigns: they may measure.
fn is_campaign(file: &Path) -> bool {
    let text = fs::read_to_string(root().join("tests/campaigns.rs")).unwrap();
    let modules: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    let folder = file.strip_prefix("tests").ok().and_then(|rest| rest.iter().next()?.to_str());
    folder.is_some_and(|folder| folder != "support" && modules.contains(&folder))
}

/// Lines of the text that demand that something took no longer than so long, in a test whose clock is not paused. `NEVER` is no such
/// demand.
fn clocked(text: &str) -> Vec<&str> {
    let mut paused = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.contains("test]") || line.contains("test(") {
            paused = line.contains("start_paused = true");
        }
        let is_bounded = |time: &str| {
            let (_, rest) = line.split_once(time)?;
            let rest = rest.trim_start().trim_start_matches("()").trim_start();
            let (_, limit) = rest.split_once('<').filter(|(before, _)| before.is_empty())?;
            Some(!limit.trim_start_matches('=').trim_start().starts_with("NEVER"))
        };
        let times = ["elapsed()", "took", "longest", "waited"];
        let of_duration =
            ["< Duration::", "<= Duration::", "< SECOND", "<= SECOND"].iter().any(|it| line.contains(it));
        if line.contains("assert")
            && !paused
            && (of_duration || times.iter().any(|time| is_bounded(time) == Some(true)))
        {
            found.push(line);
        }
    }
    found
}

#[test]
fn no_clock_decides() {
    let here = Path::new(file!()).file_name().unwrap();
    let files = ["src", "tests"].into_iter().flat_map(rust_files);
    let files = files.filter(|(file, _)| file.file_name() != Some(here) && !is_campaign(file));
    let found: Vec<_> = files
        .flat_map(|(file, text)| {
            clocked(&text)
                .into_iter()
                .map(|line| format!("{}: {}", file.display(), line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        found.is_empty(),
        "how long it took is a matter of the machine: wait for the event (support/wait), count, or measure in a campaign:\n{}",
        found.join("\n")
    );
}

#[test]
fn clocks_that_decide_are_found() {
    for (line, expect) in [
        ("assert!(begun.elapsed() < Duration::from_secs(2));", 1),
        ("assert!(took <= SOON, \"{took:?}\");", 1),
        ("assert!(*shortest < Duration::from_millis(450));", 1),
        ("assert!(begun.elapsed() < NEVER);", 0),
        ("assert!(begun.elapsed() > Duration::from_secs(2));", 0),
        ("while begun.elapsed() < Duration::from_secs(2) {", 0),
        ("#[tokio::test(start_paused = true)]\nassert!(begun.elapsed() < Duration::from_secs(2));", 0),
        (
            "#[tokio::test(start_paused = true)]\n#[test]\nassert!(begun.elapsed() < Duration::from_secs(2));",
            1,
        ),
    ] {
        assert_eq!(clocked(line).len(), expect, "{line}");
    }
}

/// The names in a `[dependencies]` of Cargo.toml, or of a package in Cargo.lock.
fn listed(text: &str, from: &str, until: &str, name_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (_, rest) = text.split_once(from).unwrap();
    let (list, _) = rest.split_once(until).unwrap();
    let mut names: Vec<_> = list.lines().filter_map(name_of).collect();
    names.sort();
    names
}

/// `fuzz/` has a Cargo.lock of its own: `cargo metadata --manifest-path fuzz/Cargo.toml` writes what is new into it.
#[test]
fn the_fuzz_targets_are_locked_to_the_same_dependencies() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let of_manifest = |line: &str| {
        let (name, _) = line.split_once(" = ")?;
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_').then(|| name.to_owned())
    };
    let of_lock = |line: &str| line.trim().strip_prefix('"')?.split(['"', ' ']).next().map(str::to_owned);
    let wanted = listed(&read("Cargo.toml"), "\n[dependencies]\n", "\n[", of_manifest);
    let locked = listed(&read("fuzz/Cargo.lock"), "name = \"rowstamp\"\n", "\n]", of_lock);
    assert_eq!(locked, wanted);
}
