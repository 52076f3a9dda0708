//! Several files, and patterns that clash.

use super::*;

fn with_patterns(names: &[&str]) -> String {
    let tables = names.iter().map(|name| format!("[tables.'{name}']\ncolumn = 'id'\ngenerator = 'ids'\n"));
    shop("", "") + "\n" + &tables.collect::<String>()
}

#[test]
fn patterns_that_clash() {
    check(&[&with_patterns(&["order_*", "*_log", "orders_?"])], "");
    check(
        &[&with_patterns(&["order_*", "order_items_*"])],
        "error: a.toml:12: tables.\"order_items_*\": all tables of this pattern match \"order_*\" (a.toml:9) too, and only an \
         exact name beats a pattern; remove one pattern",
    );
    let names: Vec<_> = (0..1001).map(|k| format!("{k:04}_*")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    check(
        &[&with_patterns(&names)],
        "error: a.toml:3009: tables.\"1000_*\": schema shop has 1001 patterns, and 1000 is the maximum; write exact names, or \
         wider patterns",
    );
}

fn several(schema: &str, table: &str) -> String {
    format!(
        "{schema}\n[generators.ids]\nkind = 'sequence'\n[tables.orders]\ncolumn = 'id'\ngenerator = 'ids'\n{table}"
    )
}

#[test]
fn a_file_for_several_schemas() {
    let file = several("schemas = ['a', 'b']", "[tables.'x_*']\ncolumn = 'auto'\ngenerator = 'c.all'");
    let shared = "schema = 'c'\n[generators.all]\nkind = 'sequence'";
    check(&[&file, shared], "");
    let rules = RuleSet::of_texts(&[&file, shared]);
    let names: Vec<_> = rules.generators().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, ["a.ids", "b.ids", "c.all"]);
    let of = |schema, table| {
        rules.find(NameCase::Sensitive, schema, table).unwrap().map(|rule| rule.generator.to_string())
    };
    assert_eq!((of("a", "orders"), of("b", "orders")), (Some("a.ids".into()), Some("b.ids".into())));
    assert_eq!((of("b", "x_1"), of("c", "x_1")), (Some("c.all".into()), None));
}

#[test]
fn what_is_wrong_with_several_schemas_is_said_once() {
    for (schemas, expect) in [
        (
            "schemas = ['a', 'b']\nschema = 'a'",
            "schemas: cannot be used together with schema; remove one of the two",
        ),
        (
            "",
            "schema: is missing; write, for example, schema = \"shop\", or schemas = [\"shop_0\", \"shop_1\"]",
        ),
        (
            "schemas = []",
            "schemas: names no database; write, for example, schemas = [\"shop_0\", \"shop_1\"]",
        ),
        ("schemas = ['a', 'a']", "schemas: \"a\" is there twice; keep one"),
        ("schemas = ['a', '']", "schemas: \"\" is not a valid name of a database; write 1 to 64 characters"),
    ] {
        check(&[&several(schemas, "")], &format!("error: a.toml:1: {expect}"));
    }
    for (schema, sign) in [("shop_{0..15}", "a {"), ("${SHOP}", "a {"), ("a}", "a }")] {
        let text = format!(
            "error: a.toml:1: schema: {schema:?} has {sign}, which has no meaning in the name of a database here; write names of databases, \
             or patterns with * and ?: schemas = [\"shop_0\", \"crm_*\"]"
        );
        check(&[&several(&format!("schema = '{schema}'"), "")], &text);
    }
    let wrong =
        several("schemas = ['a', 'b']", "explicit = 'advance'").replace("'ids'\nexplicit", "'idz'\nexplicit");
    check(
        &[&wrong],
        "warning: a.toml:2: generators.ids: no table uses this generator; name it in the rule of a table, or remove it\n\
         error: a.toml:6: tables.orders.generator: there is no generator a.idz; did you mean a.ids?",
    );
}

#[test]
fn patterns_where_none_is_meant() {
    check_table(
        "[tables.'a_{0..9}']\ncolumn = 'id'\ngenerator = 'ids'",
        "error: a.toml:8: tables.\"a_{0..9}\": has a { or }; write exact names, or patterns with * and ?, for example \
         \"orders_0?\"",
    );
    check_table(
        "[tables.a]\ncolumn = 'id_*'\ngenerator = 'ids'",
        "error: a.toml:9: tables.a.column: \"id_*\" has a *, which has no meaning here; name the column, or write \"auto\"",
    );
    for (generator, why) in [
        ("{tabel}", "has \"{tabel}\", which has no meaning here; write \"{schema}\" or \"{table}\""),
        ("${IDS}", "has a ${, but rules files cannot use variables; write the name itself"),
        (
            "id*",
            "\"id*\" has a *, which has no meaning here; name one generator for all tables of the pattern, or write \"{table}\" for a \
             generator of each table",
        ),
    ] {
        let found = found(&[&shop("", &format!("[tables.a]\ncolumn = 'id'\ngenerator = '{generator}'"))]);
        let expect = format!("error: a.toml:10: tables.a.generator: {why}");
        assert!(found.lines().any(|line| line == expect), "{found}");
    }
    let wrong = shop("", "").replace("generators.ids", "generators.'{tabel}'").replace("'ids'", "'{table}'");
    let why = "error: a.toml:2: generators.{tabel}: has {tabel}, which has no meaning here; write {schema} or {table}";
    check_has(&wrong, why);
}

/// One of the findings ends so, quotes apart.
#[track_caller]
fn check_has(file: &str, expect: &str) {
    let found = found(&[file]);
    assert!(found.lines().any(|line| line.replace('"', "").ends_with(expect)), "{found}");
}

/// The generator of a table, and of what kind it is; "-" where no rule is for the table.
#[track_caller]
fn generator_of(files: &[&str], schema: &str, table: &str) -> String {
    let rules = RuleSet::of_texts(files);
    let Some(rule) = rules.find(NameCase::Sensitive, schema, table).unwrap() else { return "-".to_owned() };
    assert_eq!(rule.schema, schema);
    match rules.generator_of(&rule).unwrap().kind {
        GeneratorKind::Sequence(_) => rule.generator.to_string(),
        GeneratorKind::Timestamp(_) => format!("{} of time", rule.generator),
    }
}

#[test]
fn a_file_for_a_pattern_of_schemas() {
    let file = several("schema = 'shop_*'", "[tables.'x_*']\ncolumn = 'auto'\ngenerator = '{table}'");
    check(&[&file], "");
    for (schema, table, expect) in [
        ("shop_1", "orders", "shop_1.ids"),
        ("shop_2", "orders", "shop_2.ids"),
        ("shop_1", "x_7", "shop_1.x_7"),
        ("shop_1", "x_a b", "shop_1.x_a_b"),
        ("shop", "orders", "-"),
        ("other", "x_1", "-"),
    ] {
        assert_eq!(generator_of(&[&file], schema, table), expect, "{schema}.{table}");
    }
    // Not the server's own, and a file that names the schema has the say.
    let all = several("schema = '*'", "[tables.'*']\ncolumn = 'auto'\ngenerator = 'all.{table}'");
    let own = several("schema = 'own'", "[tables.'*']\ncolumn = 'auto'\ngenerator = '{schema}.{table}'");
    for (schema, table, expect) in [
        ("mysql", "user", "-"),
        ("sys", "orders", "-"),
        ("a", "t", "all.t"),
        ("b", "t", "all.t"),
        ("a", "orders", "a.ids"),
        ("own", "t", "own.t"),
        ("own", "orders", "own.ids"),
    ] {
        assert_eq!(generator_of(&[&all, &own], schema, table), expect, "{schema}.{table}");
    }
}

#[test]
fn generators_that_are_named_after_tables() {
    let time = "kind = 'timestamp'\nlayout = 'snowflake'\n";
    let table = |name: &str, generator: &str| {
        format!("[tables.'{name}']\ncolumn = 'auto'\ngenerator = '{generator}'\n")
    };
    let all = table("*", "{table}");
    let wordpress = format!("schema = 'wp'\n{all}");
    assert_eq!(generator_of(&[&wordpress], "wp", "wp_posts"), "wp.wp_posts");
    let defined = format!("schema = 'wp'\n[generators.'{{table}}']\n{time}{all}");
    assert_eq!(generator_of(&[&defined], "wp", "wp_posts"), "wp.wp_posts of time");
    // A generator that is defined by its name keeps that definition. A template must only be of the same kind.
    let same = format!("{wordpress}[generators.wp_posts]\nkind = 'sequence'\nstart = 7\n");
    check(
        &[&same],
        "warning: a.toml:5: generators.wp_posts: no table uses this generator; name it in the rule of a table, or remove it",
    );
    let other = format!("{wordpress}[generators.events]\n{time}");
    let text = "tables.*.generator: would give a table the generator wp.events, which is defined at a.toml:5 with the other kind; write a rule for that \
                table alone, or rename the generator";
    check_has(&other, text);
    check(&[&(other + &table("events", "events"))], "");
    // A template that is defined must be the one that a rule names: the defaults of another one are not meant.
    let misspelt = format!("schema = 'wp'\n[generators.'{{table}}_ids']\nkind = 'sequence'\n{all}");
    check_has(&misspelt, "there is no generator wp.{table}; define [generators.{table}] for it");
    let long = format!("schema = 'wp'\n{}", table("*", &format!("{}_{{table}}", "x".repeat(60))));
    let rule = RuleSet::of_texts(&[&long]).find(NameCase::Sensitive, "wp", "orders").unwrap().unwrap();
    assert!(rule.generator.is_too_long(), "{}", rule.generator);
}

#[test]
fn patterns_of_schemas_that_clash() {
    let file = |schema: &str, table: &str| {
        format!("schema = '{schema}'\n[tables.'{table}']\ncolumn = 'id'\ngenerator = '{{table}}'\n")
    };
    check(&[&file("shop_*", "a*"), &file("*_1", "*b")], "");
    check(
        &[&file("shop_*", "a*"), &file("shop_1*", "ab*")],
        "error: b.toml:2: tables.\"ab*\": all tables of this pattern match \"a*\" of \"shop_*\" (a.toml:2) too, and only an exact name \
         beats a pattern; remove one pattern",
    );
    check(&[&file("shop_*", "a*"), &file("shop_1", "ab*")], "");
    let rules = RuleSet::of_texts(&[&file("shop_*", "a*"), &file("*_1", "a*")]);
    let two = rules.find(NameCase::Sensitive, "shop_1", "ab").unwrap_err().to_string();
    assert!(two.contains("\"*_1.a*\"") && two.contains("\"shop_*.a*\""), "{two}");
    assert!(rules.find(NameCase::Sensitive, "shop_2", "ab").unwrap().is_some());
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
    assert!(load(&folder.path().join("none")).unwrap_err().to_string().contains("create the folder"));
}
