//! The commands as an operator meets them: what they print where, and how they end.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::Proxy;

const GOOD: &str = "backend.address = 'db:3306'\n";
const RULES: &str = "schema = 'shop'\n[generators.ids]\nkind = 'sequence'\nseed = 'none'\n\
                     [tables.orders]\ncolumn = 'id'\ngenerator = 'ids'\n[tables.'items_*']\ncolumn = 'id'\ngenerator = 'ids'\n";

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowstamp")).current_dir(folder).args(args).output().unwrap()
}

/// Runs in a folder with these two files; exit code, what it prints, and what it says on stderr.
#[track_caller]
fn check(config: Option<&str>, args: &[&str], expect: (i32, &str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    fs::write(folder.path().join("rules/shop.toml"), RULES).unwrap();
    if let Some(config) = config {
        fs::write(folder.path().join("rowstamp.toml"), config).unwrap();
    }
    let output = run(folder.path(), args);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(expect.0), "{args:?}: {stdout}{stderr}");
    for (found, wanted) in [(stdout, expect.1), (stderr, expect.2)] {
        let fits = if wanted.is_empty() { found.is_empty() } else { found.contains(wanted) };
        assert!(fits, "{args:?}: {wanted:?} is not what is in {found:?}");
    }
}

#[test]
fn exit_codes() {
    let bad = "backend.adress = 'x'";
    let summary = "0 errors, 1 warning\n2 rules for 1 table and 1 pattern, 1 generator\n";
    check(Some(GOOD), &["check"], (0, summary, ""));
    check(Some(GOOD), &["check", "--config", "rowstamp.toml"], (0, summary, ""));
    check(
        Some(bad),
        &["check"],
        (1, "error: rowstamp.toml:1: backend.adress: unknown key; did you mean address?\n", ""),
    );
    check(
        Some(bad),
        &["serve"],
        (2, "", "error: rowstamp.toml:1: backend.adress: unknown key; did you mean address?\n"),
    );
    check(
        None,
        &["check"],
        (2, "", "error: rowstamp.toml: there is no such file; write one (examples/rowstamp.toml"),
    );
    check(None, &["serve"], (2, "", "error: rowstamp.toml: there is no such file"));
    check(
        Some(GOOD),
        &["check", "--config", "other.toml"],
        (2, "", "error: other.toml: there is no such file"),
    );
    check(Some(GOOD), &["chek"], (2, "", "a similar subcommand exists: 'check'"));
    check(Some(GOOD), &["check", "--online"], (2, "", "unexpected argument"));
    check(Some(GOOD), &[], (2, "", "Usage: rowstamp"));
    check(None, &["--version"], (0, concat!("rowstamp ", env!("CARGO_PKG_VERSION"), "\n"), ""));
    check(None, &["--help"], (0, "check", ""));
}

#[test]
fn explain_gives_the_second_opinion_where_it_is_asked_for() {
    let insert = &["explain", "--database", "shop", "insert into orders(a) values(1)"][..];
    let partitioned =
        &["explain", "--database", "shop", "insert into orders partition(p0) (a) values(1)"][..];
    let always = format!("{GOOD}rewrite.verify = 'always'\n");
    let note = "the tables' columns are not known";
    check(Some(GOOD), insert, (0, "LAST_INSERT_ID() and the OK packet hold the first\n\n", note));
    check(Some(&always), insert, (0, "hold the first\nrewrite.verify: the second parser agrees\n", note));
    check(Some(&always), partitioned, (0, "rewrite.verify: the second parser cannot judge it\n", note));
    check(Some("rewrite.verify = 'often'\n"), &["check"], (1, "rewrite.verify", ""));
}

#[test]
fn a_hangup_reads_the_files_again_and_a_termination_ends_it() {
    let mut proxy = Proxy::start("listen.address = '127.0.0.1:0'\nbackend.address = '127.0.0.1:1'\n", &[]);
    let (is_in_force, log) = proxy.reload();
    assert!(is_in_force, "{log}");
    fs::remove_file(proxy.dir().join("rowstamp.toml")).unwrap();
    let (is_in_force, log) = proxy.reload();
    assert!(!is_in_force && log.contains("there is no such file"), "{log}");
    proxy.stop();
}
