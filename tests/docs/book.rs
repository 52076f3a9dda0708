//! README and the book in docs/: what a page names is there, on GitHub and in what mdBook builds; no page is long; and README's
//! first configuration is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rowstamp::book::PAGES;
use rowstamp::toml_file::Environment;

use super::page::{Block, Page};
use super::{at, files, read};

const SUMMARY: &str = "docs/SUMMARY.md";
const README_LINES_MAX: usize = 150;
const PAGE_LINES_MAX: usize = 300;
/// Pages beside the book, which GitHub alone shows.
const BESIDE: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "rules/README.md",
    "tests/drivers/README.md",
    "tests/suites/README.md",
];
/// Pages whose blocks of commands a test runs as they stand (tests/migrate).
const WALKED: [&str; 2] = ["docs/migrate.md", "docs/migrate-back.md"];
/// The languages of blocks with commands.
const SHELLS: [&str; 3] = ["console", "sh", "bash"];
/// The first line of those that no test runs.
const NOT_RUN: &str = "# not run";

fn book() -> BTreeMap<String, Page> {
    files("docs", ".md").into_iter().map(|path| (path.clone(), Page::parse(&read(&path)))).collect()
}

/// Each fault in a line: all are told at once.
#[track_caller]
fn none(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<_> = faults.into_iter().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `docs/design`, `../a.md` -> `docs/a.md`; `None`: it leads out of the repository.
fn joined(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// Why a link of the page leads nowhere. mdBook leaves links out of docs/ as they are, and they lead nowhere in what it builds.
fn fault(page: &str, link: &str, book: &BTreeMap<String, Page>) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let file = match path {
        "" => Some(PathBuf::from(page)),
        path => joined(Path::new(page).parent().unwrap(), path),
    };
    let Some(file) = file.filter(|file| at(file.to_str().unwrap()).exists()) else {
        return Some(format!("{page}: {link} is not there"));
    };
    if page.starts_with("docs/") && !file.starts_with("docs") {
        return Some(format!("{page}: {link} leads out of the book: write `{}`", file.display()));
    }
    anchor.filter(|anchor| !has(&file, anchor, book)).map(|_| format!("{page}: {link} has no such heading"))
}

fn has(file: &Path, anchor: &str, book: &BTreeMap<String, Page>) -> bool {
    let file = file.to_str().unwrap();
    book.get(file).map_or_else(|| Page::parse(&read(file)).has_anchor(anchor), |page| page.has_anchor(anchor))
}

#[test]
fn every_link_leads_somewhere() {
    let book = book();
    let beside = BESIDE.map(|path| (path.to_owned(), Page::parse(&read(path))));
    let pages = book.iter().chain(beside.iter().map(|one| (&one.0, &one.1)));
    none(pages.flat_map(|(path, page)| {
        page.links.iter().filter_map(|link| fault(path, link, &book)).collect::<Vec<_>>()
    }));
}

#[test]
fn links_are_followed() {
    let book = BTreeMap::from([("docs/check.md".to_owned(), Page::parse("# A\n## B c\n"))]);
    for (page, link, is_right) in [
        ("docs/check.md", "#b-c", true),
        ("docs/check.md", "#c", false),
        ("docs/check.md", "check.md", true),
        ("docs/check.md", "no.md", false),
        ("docs/check.md", "../README.md", false),
        ("docs/check.md", "../../x", false),
        ("docs/check.md", "https://example.com/x#y", true),
        ("README.md", "docs/check.md#b-c", true),
        ("README.md", "check.md", false),
    ] {
        assert_eq!(fault(page, link, &book).is_none(), is_right, "{page}: {link}");
    }
}

/// The files that ARCHITECTURE.md and docs/design name, from the root or from src, are there.
#[test]
fn the_files_that_the_design_names_are_there() {
    let mut missing = Vec::new();
    for page in files("docs/design", ".md").into_iter().chain(["ARCHITECTURE.md".to_owned()]) {
        for name in read(&page).split('`').skip(1).step_by(2) {
            let is_path =
                name.contains('/') && name.chars().all(|c| c.is_ascii_lowercase() || "/_.".contains(c));
            let begins = |folder: &str| at(folder).join(name.split('/').next().unwrap_or_default()).is_dir();
            let exists = |folder: &str| {
                ["", ".rs", "/mod.rs"].iter().any(|end| at(folder).join(format!("{name}{end}")).exists())
            };
            if is_path && (begins("src") || begins("")) && !exists("src") && !exists("") {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_summary_lists_each_page_once() {
    let listed: Vec<_> =
        Page::parse(&read(SUMMARY)).links.iter().map(|link| format!("docs/{link}")).collect();
    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let pages: BTreeSet<_> = files("docs", ".md").into_iter().filter(|path| path != SUMMARY).collect();
    none(once.symmetric_difference(&pages).map(|path| format!("{path} is in {SUMMARY} or in docs/ only")));
}

/// But for its part for developers.
#[test]
fn the_program_carries_the_pages_of_the_summary() {
    let links = Page::parse(&read(SUMMARY)).links;
    let of_users = links.iter().filter(|link| !link.starts_with("design/") && *link != "style.md");
    let listed: Vec<_> = of_users.map(|link| link.strip_suffix(".md").unwrap()).collect();
    let carried: Vec<_> = PAGES.iter().map(|page| page.name).collect();
    assert_eq!(carried, listed, "src/book.rs beside {SUMMARY}");
}

#[test]
fn pages_are_short() {
    let all = files("docs", ".md").into_iter().map(|path| (path, PAGE_LINES_MAX));
    let all = all.chain([("README.md".to_owned(), README_LINES_MAX)]);
    none(all.filter_map(|(path, lines_max)| {
        let lines = read(&path).lines().count();
        (lines > lines_max).then(|| format!("{path} has {lines} lines, {lines_max} at most"))
    }));
}

/// Pages have nothing that GitHub and mdBook would show differently: headings whose anchors differ, and HTML,
/// which GitHub takes out and mdBook warns of if it is not closed.
#[test]
fn pages_are_the_same_on_github_and_in_the_book() {
    none(book().iter().filter(|(path, _)| *path != SUMMARY).flat_map(|(path, page)| {
        let begins = read(path).starts_with("# ");
        let title = (!begins).then(|| format!("{path} does not begin with its title"));
        let is_odd = |text: &str| !text.is_ascii() || text.contains('{');
        let odd = page.headings.iter().filter(move |heading| is_odd(&heading.text));
        let odd = odd.map(move |heading| format!("{path}: the anchor of {:?} is in doubt", heading.text));
        let html = page.html.iter().filter(|html| !html.trim_start().starts_with("<!--"));
        let html = html.map(move |html| format!("{path}: {html} is taken for HTML: put it in `code`"));
        title.into_iter().chain(odd).chain(html).collect::<Vec<_>>()
    }));
}

#[test]
fn the_book_is_built_as_it_is_tested() {
    let settings: toml::Value = toml::from_str(&read("book.toml")).unwrap();
    let html = &settings["output"]["html"];
    for (found, expect, why) in [
        (&settings["book"]["src"], toml::Value::from("docs"), "the pages are there"),
        (&settings["build"]["create-missing"], false.into(), "a page that is missing is a fault"),
        (&html["smart-punctuation"], false.into(), "-- in a heading is part of its anchor"),
        (&html["definition-lists"], false.into(), "GitHub has none"),
    ] {
        assert_eq!(*found, expect, "book.toml: {why}");
    }
}

#[test]
fn commands_are_run_or_say_that_they_are_not() {
    let is_left = |block: &&Block| {
        let language = block.info.split_whitespace().next().unwrap_or_default();
        SHELLS.contains(&language) && !block.text.starts_with(NOT_RUN)
    };
    none(book().iter().filter(|(path, _)| !WALKED.contains(&path.as_str())).flat_map(|(path, page)| {
        let left = page.blocks.iter().filter(is_left);
        left.map(|block| {
            format!("{path}: no test runs this, and its first line is not {NOT_RUN}:\n{}", block.text)
        })
        .collect::<Vec<_>>()
    }));
}

/// README's blocks that begin so, as files.
fn readmes(begins: &str) -> Vec<String> {
    let blocks = Page::parse(&read("README.md")).blocks.into_iter().map(|block| block.text);
    blocks.filter(|text| text.trim_start().starts_with(begins)).collect()
}

#[test]
fn readmes_first_configuration_is_one() {
    let (files, rules) = (readmes("[listen]"), readmes("schema = "));
    assert_eq!((files.len(), rules.len()), (1, 1), "README has rowstamp.toml and rules/shop.toml");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rowstamp.toml");
    let password = folder.path().join("control.password");
    fs::write(&file, &files[0]).unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    fs::write(folder.path().join("rules/shop.toml"), &rules[0]).unwrap();
    fs::write(&password, "a secret\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let loaded = rowstamp::config::load(&file, &Environment::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("README's first configuration: {error}"));
    assert_eq!(loaded.warnings.to_string(), "");
    assert_eq!(loaded.rules.rules().len(), 1);
    assert!(loaded.config.control.is_some(), "the account reads columns and ids");
}
