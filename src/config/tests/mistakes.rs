//! The mistakes of a newcomer: each is reported with its file, line, key, reason and remedy. `mistakes.txt` has them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{PLAIN, RULES, folder, found};

/// The least number of cases. It shows if the file is not read in full.
const CASES_MIN: usize = 80;

#[test]
fn what_a_newcomer_is_told() {
    let cases: Vec<&str> = include_str!("mistakes.txt").split("\n## ").skip(1).collect();
    assert!(cases.len() >= CASES_MIN, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let (name, lines) = case.split_once('\n').unwrap();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
        let (expect, written): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.starts_with("> "));
        let written = written.join("\n") + "\n";
        let (text, rules) = match name.split(':').next() {
            // Without an account rules have errors of their own.
            Some("alone") => (written, "schema = 'shop'".to_owned()),
            Some("rules") => (PLAIN.to_owned(), written),
            _ => (format!("{PLAIN}{written}"), RULES.to_owned()),
        };
        let folder = folder(&text, &rules);
        let open = folder.path().join("open");
        fs::write(&open, "canary").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        let found = found(folder.path());
        let expect: Vec<&str> = expect.iter().filter_map(|line| line.strip_prefix("> ")).collect();
        if found != expect {
            wrong.push(format!(
                "## {name}\n{text}found\n  {}\nnot\n  {}",
                found.join("\n  "),
                expect.join("\n  ")
            ));
        }
        assert!(!found.join("\n").contains("canary"), "{name}: a password is shown");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
