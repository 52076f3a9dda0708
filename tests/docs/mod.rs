//! The texts about Rowstamp agree with the code: examples, schemas, references, alert rules, the dashboard.
//!
//! `ROWSTAMP_UPDATE=1 cargo test --test library docs::` writes what of it is generated.

mod book;
mod cli_page;
mod codes;
mod config;
mod config_page;
mod dashboard;
mod errors_page;
mod page;
mod proof;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(at(path)).unwrap()
}

/// All files below the folder whose names end so, by their paths from the crate's root, in order.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, ending));
        } else if path.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A text of the code as a cell of a table: what Markdown would take for its own is escaped, code in it is left alone.
fn cell(text: &str) -> String {
    let escaped = |(n, part): (usize, &str)| match n % 2 {
        0 => part.replace('*', "\\*").replace('<', "\\<"),
        _ => part.to_owned(),
    };
    let parts: Vec<_> = text.split('`').enumerate().map(escaped).collect();
    parts.join("`").replace('|', "\\|").replace('\n', " ")
}

/// The file is as generated; with `ROWSTAMP_UPDATE` set it is written first.
#[track_caller]
fn check_generated(path: &str, expect: &str) {
    if std::env::var_os("ROWSTAMP_UPDATE").is_some() {
        fs::write(at(path), expect).unwrap();
    }
    let found = fs::read_to_string(at(path)).unwrap_or_default();
    assert!(
        found == expect,
        "{path} is not what the code says: run ROWSTAMP_UPDATE=1 cargo test --test library docs::"
    );
}

/// The same for the part of a page that stands between the comments `name: begin` and `name: end`.
#[track_caller]
fn check_part(path: &str, name: &str, expect: &str) {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"));
    let text = read(path);
    let (head, rest) = text.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    check_generated(path, &format!("{head}{begin}{expect}{end}{tail}"));
}
