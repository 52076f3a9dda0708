use super::{DefaultSchema, Mentions};
use crate::rules::pattern;
use proptest::prelude::{Just, any, prop_assert, prop_oneof, proptest};

const NAMES: &[(&str, &str, bool)] = &[
    ("shop", "orders", true),
    ("shop", "order_item_*", true),
    ("shop", "*_log", true),
    ("shop", "a-b c", true),
    ("crm", "x*y", true),
    ("crm", "таблица", true),
    ("crm", "表t1", true),
    ("all", "*", true),
];

/// Letters: t a table, s a schema, d dynamic, u USE.
#[track_caller]
fn check(default: DefaultSchema<'_>, text: &str, expect: &str) {
    let mention = Mentions::new(NAMES.iter().copied()).in_text(text.as_bytes(), default);
    let flags = [(mention.table, 't'), (mention.schema, 's'), (mention.dynamic, 'd'), (mention.moves, 'u')];
    let found: String = flags.iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect();
    assert_eq!(found, expect, "{default:?} {text}");
}

#[test]
fn what_may_move() {
    for text in [
        "USE a",
        " use a",
        "SELECT 1; use a",
        "/* b */ use a",
        "-- b\nuse a",
        "/*!50000 use a */",
        "/*!use a */",
        "SET STATEMENT a=1 FOR USE a",
        "EXECUTE IMMEDIATE 'USE a'",
        "EXECUTE IMMEDIATE \" use a\"",
        "use`a`",
    ] {
        check(DefaultSchema::None, text, if text.contains("IMMEDIATE") { "du" } else { "u" });
    }
    for text in [
        "SELECT * FROM t1 USE INDEX (a)",
        "SELECT * FROM `t` use key ()",
        "CREATE PROCEDURE used(use_ INT)\nUSE a",
        "DO 'use a', \"use b\"",
    ] {
        check(DefaultSchema::None, text, "");
    }
}

#[test]
fn words() {
    let shop = DefaultSchema::Is("Shop");
    check(shop, "insert into orders values(1)", "t");
    check(shop, "INSERT INTO `ORDERS`(a) VALUES(1)", "t");
    check(shop, "INSERT INTO shop.orders VALUES(1)", "ts");
    check(shop, "/*!INSERT*/INTO/**/orders", "t");
    check(shop, "insert into orders2 values('order')", "");
    check(shop, "insert into my_orders values(1)", "");
    check(shop, "insert into order_item_7 values(1)", "t");
    check(shop, "insert into order_item values(1)", "");
    check(shop, "insert into audit_log values(1)", "t");
    check(shop, "insert into audit_log2 values(1)", "");
    check(shop, "insert into `a-b c` values(1)", "t");
    check(shop, "insert into crm.`x1y` values(1)", "ts");
    check(shop, "insert into x1y values(1)", "");
    check(shop, "PREPARE s FROM 'select 1'", "d");
    check(shop, "execute immediate @s", "d");
    check(shop, "use x", "u");
    check(shop, "", "");
    check(shop, "insert into order_\u{130}tem_7 values(1)", "t");
    check(shop, "execute \u{130}mmediate 'a'", "t");
    check(shop, "insert into bla\u{212a} values(1)", "");
}

#[test]
fn the_default_database() {
    check(DefaultSchema::Is("other"), "insert into orders values(1)", "");
    check(DefaultSchema::None, "insert into orders values(1)", "");
    check(DefaultSchema::Unknown, "insert into orders values(1)", "t");
    check(DefaultSchema::Is("other"), "insert into SHOP . orders values(1)", "ts");
    check(DefaultSchema::Is("all"), "insert into anything values(1)", "t");
    let others = ["all".to_owned()];
    check(DefaultSchema::OneOf(Some("other"), &others), "insert into anything values(1)", "t");
    check(DefaultSchema::OneOf(Some("shop"), &others[..0]), "insert into orders values(1)", "t");
    check(DefaultSchema::OneOf(None, &["other".to_owned()]), "insert into orders values(1)", "");
    check(DefaultSchema::Is("other"), "insert into `all`.x values(1)", "ts");
    check(DefaultSchema::Is("crm"), "insert into таблица values(1)", "t");
    check(DefaultSchema::Is("crm"), "insert into y values('ü')", "t");
    check(DefaultSchema::Is("crm"), "insert into y values('u')", "");
    check(DefaultSchema::Is("crm"), "insert into 表t1 values(1)", "t");
}

#[test]
fn calls() {
    let mentions = Mentions::new([]).and_draws(["orders", "таблица"]);
    let check = |text: &str, expect| {
        assert_eq!(mentions.in_text(text.as_bytes(), DefaultSchema::None).draws, expect, "{text}");
    };
    check("SELECT NextVal(`Orders`)", true);
    check("SELECT NEXT/**/VALUE FOR shop.orders", true);
    check("SELECT PREVIOUS VALUE FOR orders", true);
    check("SELECT ROWSTAMP_TAKE(orders, 5)", true);
    check("SELECT LASTVAL(таблица)", true);
    check("SELECT next FROM orders", false);
    check("SELECT value FROM orders", false);
    check("SELECT NEXTVAL(other)", false);
    assert!(mentions.has_draws() && !Mentions::new([]).has_draws());
}

#[test]
fn patterns_of_schemas() {
    let names = [("shop_*", "orders", true), ("crm", "t", true), ("*", "x_*", true)];
    let sees = |default, text: &str| Mentions::new(names).in_text(text.as_bytes(), default).table;
    let (shop, other) = (DefaultSchema::Is("Shop_7"), DefaultSchema::Is("other"));
    assert!(sees(shop, "insert into orders values()") && !sees(other, "insert into orders values()"));
    assert!(
        sees(other, "insert into shop_1.orders values()")
            && !sees(other, "insert into shops.orders values()")
    );
    assert!(
        sees(other, "insert into x_1 values()") && sees(DefaultSchema::None, "insert into `-`.x_1 values()")
    );
    assert!(!sees(shop, "insert into t values()") && sees(shop, "insert into crm.t values()"));
}

#[test]
fn without_names() {
    let mentions = Mentions::new([]);
    assert!(mentions.is_empty());
    let found = mentions.in_text(b"insert into t values(1)", DefaultSchema::Unknown);
    assert_eq!(found, super::Mention::default());
}

#[test]
fn more_schemas_than_bits() {
    let schemas: Vec<String> = (0..200).map(|n| format!("s{n}")).collect();
    let mentions = Mentions::new(schemas.iter().map(|schema| (schema.as_str(), "t", true)));
    for schema in &schemas {
        assert!(mentions.in_text(b"insert into t values()", DefaultSchema::Is(schema)).table, "{schema}");
    }
    assert!(!mentions.in_text(b"insert into t values()", DefaultSchema::Is("other")).table);
}

/// A name as a client may write it: quoted or not, in any letter case.
fn written(name: &str, quoted: bool, upper: &[bool]) -> String {
    let cased: String = name
        .chars()
        .zip(upper.iter().cycle())
        .map(|(c, upper)| if *upper && c.is_ascii() { c.to_ascii_uppercase() } else { c })
        .collect();
    if quoted { format!("`{}`", cased.replace('`', "``")) } else { cased }
}

proptest! {
    /// A name of a rule is never missed, however it is written and whatever is around it.
    #[test]
    fn a_name_that_is_there_is_seen(
        pattern in "[a-zé_$` *?-]{1,8}",
        filler in "[a-z0-9_$é`]{0,4}",
        upper in proptest::collection::vec(any::<bool>(), 1..9),
        quoted: bool,
        qualified: bool,
        around in prop_oneof![Just(""), Just(" "), Just("/**/"), Just("\n")],
    ) {
        let name = pattern.replace('*', &filler).replace('?', "q");
        let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
        proptest::prop_assume!(pattern::matches(&pattern, &name) && !name.is_empty() && (quoted || is_plain));
        let mentions = Mentions::new([("db", pattern.as_str(), true)]);
        let name = written(&name, quoted, &upper);
        let schema = if qualified { "DB." } else { "" };
        let text = format!("INSERT INTO{around} {schema}{name}{around} VALUES(1)");
        let default = if qualified { DefaultSchema::None } else { DefaultSchema::Is("db") };
        prop_assert!(mentions.in_text(text.as_bytes(), default).table, "{}", text);
    }
}
