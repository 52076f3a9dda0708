use std::fs;
use std::path::Path;

use super::{link, load};
use crate::rules::model::{Explicit, NameCase};
use crate::toml_file::{self, Findings};

/// What is found in files a.toml, b.toml, ..., a line each.
fn found(files: &[&str]) -> Vec<String> {
    let mut findings = Findings::default();
    let names = ["a.toml", "b.toml", "c.toml"];
    let read = names
        .iter()
        .zip(files)
        .filter_map(|(name, text)| toml_file::parse(Path::new(name), text, &mut findings));
    let sources: Vec<_> = read.collect();
    let findings = match link(&sources, findings) {
        Ok((_, warnings)) => warnings,
        Err(all) => all,
    };
    findings.to_string().lines().map(str::to_owned).collect()
}

#[track_caller]
fn check(files: &[&str], expect: &[&str]) {
    assert_eq!(found(files), expect, "{:.1000}", files.join("\n---\n"));
}

/// One sequence and the table that draws from it, with a line added to each.
fn shop(generator: &str, table: &str) -> String {
    format!(
        "schema = 'shop'\n[generators.ids]\nkind = 'sequence'\n{generator}\n[tables.orders]\ncolumn = 'id'\n\
         generator = 'ids'\n{table}"
    )
}

#[track_caller]
fn check_generator(line: &str, expect: &[&str]) {
    check(&[&shop(line, "")], expect);
}

#[track_caller]
fn check_table(line: &str, expect: &[&str]) {
    check(&[&shop("", line)], expect);
}

#[test]
fn generators() {
    for good in [
        "start = 1",
        "step = 3",
        "offset = 7",
        "batch = 'auto'",
        "batch = 1",
        "low_water = 1",
        "max = 18446744073709551615",
        "max = 1",
        "seed = 'none'",
        "order = 'leased'",
        "start = 8\nstep = 10\noffset = 3\nmax = 13",
        "start = 18446744073709551615\nstep = 18446744073709551615",
    ] {
        check_generator(good, &[]);
    }
    check_generator(
        "start = 0",
        &["error: a.toml:4: generators.ids.start: 0 is out of range: write a number from 1"],
    );
    check_generator(
        "step = 0",
        &["error: a.toml:4: generators.ids.step: 0 is out of range: write a number from 1"],
    );
    check_generator(
        "batch = 0",
        &["error: a.toml:4: generators.ids.batch: 0 is out of range: write a number from 1"],
    );
    check_generator(
        "batch = 'many'",
        &[
            "error: a.toml:4: generators.ids.batch: \"many\" is unknown; write \"auto\" or a whole number from 1",
        ],
    );
    check_generator(
        "low_water = 0",
        &["error: a.toml:4: generators.ids.low_water: 0 is out of range: write a number above 0 up to 1"],
    );
    check_generator(
        "low_water = 1.01",
        &["error: a.toml:4: generators.ids.low_water: 1.01 is out of range: write a number above 0 up to 1"],
    );
    check_generator(
        "start = 8\nstep = 10\noffset = 3\nmax = 12",
        &[
            "error: a.toml:7: generators.ids.max: leaves no id: the first from start = 8 by step and offset is 13, above 12",
        ],
    );
    check_generator(
        "start = 18446744073709551615\nstep = 2\noffset = 0",
        &[
            "error: a.toml:4: generators.ids.start: leaves no id: the first from start = 18446744073709551615 by step and \
           offset is 18446744073709551616, above 18446744073709551615",
        ],
    );
    check_generator(
        "node = 3",
        &[
            "error: a.toml:4: generators.ids.node: is a key of timestamp generators, and this is a sequence; remove it",
        ],
    );
    check_generator(
        "layout = 'snowflake'\nadvance = '1m'",
        &[
            "error: a.toml:4: generators.ids.layout: is a key of timestamp generators, and this is a sequence; remove it",
            "error: a.toml:5: generators.ids.advance: is a key of timestamp generators, and this is a sequence; remove it",
        ],
    );
    check_generator(
        "order = 'global'",
        &[
            "error: a.toml:4: generators.ids.order: \"global\" is not in this version of Rowstamp; write \"leased\"",
        ],
    );
}

#[test]
fn a_bad_generator_is_no_fault_of_its_tables() {
    let timestamp = shop("", "").replace("'sequence'", "'timestamp'");
    check(
        &[&timestamp],
        &[
            "error: a.toml:3: generators.ids.kind: \"timestamp\" is not in this version of Rowstamp; write \"sequence\"",
        ],
    );
    check(
        &[&shop("", "").replace("kind = 'sequence'", "")],
        &["error: a.toml:2: generators.ids.kind: is missing; write, say, kind = \"sequence\""],
    );
}

#[test]
fn names_of_generators() {
    let text = shop("", "").replace("generators.ids", "generators.'a.b'").replace("'ids'", "'a.b'");
    check(
        &[&text],
        &[
            "error: a.toml:2: generators.\"a.b\": is no name for a generator; write up to 64 letters, digits, _ and -",
            "warning: a.toml:2: generators.\"a.b\": no table draws from it",
            "error: a.toml:7: tables.orders.generator: there is no generator a.b; define [generators.b] for it",
        ],
    );
}

#[test]
fn tables() {
    for good in [
        "explicit = 'keep'",
        "explicit = 'advance'",
        "explicit = 'reject'",
        "insert_id = 'packet'",
        "mode = 'off'",
        "unavailable = 'refuse'",
    ] {
        check_table(good, &[]);
    }
    check_table(
        "mode = 'shadow'",
        &[
            "error: a.toml:8: tables.orders.mode: \"shadow\" is not in this version of Rowstamp; write \"on\" or \"off\"",
        ],
    );
    check_table(
        "unavailable = 'native'",
        &[
            "error: a.toml:8: tables.orders.unavailable: \"native\" is not in this version of Rowstamp; write \"refuse\"",
        ],
    );
    check_table(
        "explict = 'keep'",
        &["error: a.toml:8: tables.orders.explict: unknown key; did you mean explicit?"],
    );
    check_table(
        "[tables.'']\ncolumn = 'id'\ngenerator = 'ids'",
        &["error: a.toml:8: tables.\"\": is no name of a table; write 1 to 64 characters"],
    );
    check(
        &["schema = ''\n[tables.x]"],
        &[
            "error: a.toml:1: schema: must not be empty",
            "error: a.toml:2: tables.x.column: is missing; write, say, column = \"id\"",
            "error: a.toml:2: tables.x.generator: is missing; write, say, generator = \"orders\"",
        ],
    );
}

#[test]
fn names_over_all_files() {
    let good = shop("", "");
    check(
        &[&good, &good],
        &[
            "error: b.toml:2: generators.ids: shop.ids is defined at a.toml:2 already; rename one of them, or remove it",
            "error: b.toml:5: tables.orders: shop.orders has a rule at a.toml:5 already; keep one of them",
        ],
    );
    let crm = "schema = 'crm'\n[tables.x]\ncolumn = 'id'\ngenerator = 'shop.ids'";
    check(&[crm, &good], &[]);
    check(
        &[&crm.replace("shop.ids", "ids"), &good],
        &[
            "error: a.toml:4: tables.x.generator: there is no generator crm.ids; define [generators.ids] for it",
        ],
    );
    check(
        &[&crm.replace("shop.ids", "shop.idz"), &good],
        &["error: a.toml:4: tables.x.generator: there is no generator shop.idz; did you mean shop.ids?"],
    );
    check(
        &["schema = 'crm'\n[generators.g]\nkind = 'sequence'"],
        &["warning: a.toml:2: generators.g: no table draws from it"],
    );
}

fn with_patterns(names: &[&str]) -> String {
    let tables = names.iter().map(|name| format!("[tables.'{name}']\ncolumn = 'id'\ngenerator = 'ids'\n"));
    shop("", "") + "\n" + &tables.collect::<String>()
}

#[test]
fn patterns_that_clash() {
    check(&[&with_patterns(&["order_*", "*_log", "orders_?"])], &[]);
    check(
        &[&with_patterns(&["order_*", "order_items_*"])],
        &[
            "error: a.toml:12: tables.\"order_items_*\": all its tables are matched by \"order_*\" (a.toml:9) too; only an exact \
         name beats a pattern",
        ],
    );
    let names: Vec<_> = (0..1001).map(|k| format!("{k:04}_*")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    check(
        &[&with_patterns(&names)],
        &[
            "error: a.toml:3009: tables.\"1000_*\": schema shop has 1001 patterns, and 1000 are the most; name tables exactly, or by \
         wider patterns",
        ],
    );
}

#[test]
fn a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for not_read in [".hidden.toml", "a.toml~", ".#a.toml", "#a.toml#", "a.toml.bak", "README.md"] {
        write(not_read, "no toml");
    }
    let (rules, warnings) = load(folder.path()).unwrap();
    assert!(rules.is_empty() && warnings.to_string().contains("has no *.toml"), "{warnings}");
    write("b.toml", &shop("", "explicit = 'reject'"));
    write("a.toml", "schema = 'crm'\n[tables.x]\ncolumn = 'id'\ngenerator = 'shop.ids'");
    let (rules, warnings) = load(folder.path()).unwrap();
    assert_eq!((rules.rules().len(), rules.generators().len(), warnings.to_string()), (2, 1, String::new()));
    let find = |schema, table| rules.find(NameCase::Sensitive, schema, table).unwrap().unwrap();
    assert_eq!(
        (find("crm", "x").explicit, find("shop", "orders").explicit),
        (Explicit::Advance, Explicit::Reject)
    );
    let generator = &find("crm", "x").generator;
    assert_eq!(rules.rules().filter(|rule| rule.generator == *generator).count(), 2);
    assert_eq!(
        find("shop", "orders").origin.to_string(),
        format!("{}:5", folder.path().join("b.toml").display())
    );
}

#[test]
fn a_bad_file_leaves_the_others_findings() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "schema = shop").unwrap();
    fs::write(folder.path().join("b.toml"), shop("step = 0", "")).unwrap();
    let found = load(folder.path()).unwrap_err().to_string();
    assert_eq!(found.lines().count(), 2, "{found}");
    assert!(load(&folder.path().join("none")).unwrap_err().to_string().contains("make the folder"));
}
