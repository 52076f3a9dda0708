//! Several files, and patterns that clash.

use super::*;

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
