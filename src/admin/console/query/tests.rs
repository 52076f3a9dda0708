//! Queries of the console's tables, and their answers.

use super::{Asked, compare, of_select, of_show};
use crate::admin::console::answer::{Column, Table, Type, Value, printed};
use crate::admin::console::command::ShowKind;
use crate::admin::console::failure::Failure;
use proptest::prelude::proptest;

fn table() -> Table {
    let columns = vec![
        Column::text("generator"),
        Column::text("state"),
        Column::new("issued", Type::Unsigned),
        Column::new("rate", Type::Real),
    ];
    let row = |name: &str, state: &str, issued: u64, rate: Value| {
        vec![name.into(), state.into(), issued.into(), rate]
    };
    let rows = vec![
        row("shop.a", "open", 9, Value::Real(1.5)),
        row("shop.b", "stopped", 100, Value::Null),
        row("blog.C", "open", 20, Value::Real(0.0)),
    ];
    Table { columns, rows }
}

fn shown(asked: Result<Asked, Failure>) -> String {
    match asked.and_then(|asked| asked.answer(table())) {
        Ok(table) => table.rows.iter().map(|row| printed(row)).collect::<Vec<_>>().join(" "),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn clauses_of_a_show() {
    for (clauses, expect) in [
        ("WHERE state = 'OPEN'", "shop.a|open|9|1.5 blog.C|open|20|0"),
        ("WHERE issued > 9 ORDER BY issued", "blog.C|open|20|0 shop.b|stopped|100|NULL"),
        ("WHERE issued >= '20' AND NOT state LIKE 'st%'", "blog.C|open|20|0"),
        (
            "WHERE rate IS NULL OR rate = 1.5 ORDER BY generator DESC",
            "shop.b|stopped|100|NULL shop.a|open|9|1.5",
        ),
        ("WHERE NOT (rate > 1)", "blog.C|open|20|0"),
        ("WHERE generator IN ('blog.c', 'x')", "blog.C|open|20|0"),
        ("WHERE generator NOT IN ('blog.c', NULL)", ""),
        ("WHERE issued BETWEEN 9 AND 20 LIMIT 1", "shop.a|open|9|1.5"),
        ("WHERE issued NOT BETWEEN 9 AND 20", "shop.b|stopped|100|NULL"),
        ("WHERE rate > -1 ORDER BY rate", "blog.C|open|20|0 shop.a|open|9|1.5"),
        ("ORDER BY rate, issued LIMIT 2", "shop.b|stopped|100|NULL blog.C|open|20|0"),
        ("ORDER BY 3 DESC LIMIT 1 OFFSET 1", "blog.C|open|20|0"),
        ("ORDER BY 3 DESC LIMIT 1, 1", "blog.C|open|20|0"),
    ] {
        assert_eq!(shown(of_show(ShowKind::Generators, clauses)), expect, "{clauses}");
    }
}

/// A DOUBLE holds 53 bits.
#[test]
fn ids_are_compared_with_texts_digit_by_digit() {
    let (id, before) = (Value::from(9_007_199_254_740_993_u64), Value::from("9007199254740992"));
    assert!(compare(&id, &before).is_gt() && compare(&before, &id).is_lt());
}

#[test]
fn selects() {
    for (statement, expect) in [
        ("SELECT * FROM generators LIMIT 1", "shop.a|open|9|1.5"),
        (
            "select generator, ISSUED as n from rowstamp.Generators order by n desc",
            "shop.b|100 blog.C|20 shop.a|9",
        ),
        ("SELECT g.state FROM generators AS g WHERE g.issued=9", "open"),
        ("SELECT COUNT(*) FROM `generators` WHERE state='open'", "2"),
        ("SELECT count(*) AS n, COUNT(*) FROM generators", "3|3"),
        ("SELECT COUNT(*) FROM generators LIMIT 1, 5", ""),
        (
            "/* ApplicationName=DBeaver */ SELECT x.* FROM ROWSTAMP.generators x LIMIT 0, 1",
            "shop.a|open|9|1.5",
        ),
        ("SELECT rowstamp.generators.state, generators.issued FROM generators LIMIT 1", "open|9"),
    ] {
        let asked = of_select(statement).unwrap_or_else(|| panic!("{statement}"));
        assert_eq!(shown(asked), expect, "{statement}");
    }
    for other in
        ["SELECT 1", "SELECT * FROM shop.generators", "SELECT * FROM nothing", "SHOW GENERATORS", "SELECT"]
    {
        assert!(of_select(other).is_none(), "{other}");
    }
}

#[test]
fn what_is_not_taken_is_said() {
    for (statement, expect) in [
        (
            "SELECT nothing FROM generators",
            "no column nothing; the columns are generator, state, issued, rate",
        ),
        ("SELECT * FROM generators WHERE x = 1", "no column x"),
        ("SELECT issued + 1 FROM generators", "do not support calculations"),
        ("SELECT UPPER(state) FROM generators", "do not support calculations"),
        ("SELECT state, COUNT(*) FROM generators", "do not support COUNT(*) together with columns"),
        ("SELECT state FROM generators GROUP BY state", "do not support GROUP BY"),
        ("SELECT DISTINCT state FROM generators", "do not support DISTINCT"),
        ("SELECT * FROM generators WHERE issued + 1 = 2", "do not support calculations and functions"),
        ("SELECT * FROM generators WHERE state REGEXP 'o'", "do not support this form of a condition"),
        ("SELECT * FROM generators LIMIT 'x'", "do not support a LIMIT that is not a whole number"),
        ("SELECT other.state FROM generators", "no column other.state"),
        ("SELECT generators.state FROM generators g", "no column generators.state"),
        ("SELECT o.* FROM generators g", "no column o.*"),
        ("SELECT * FROM generators PARTITION (p0)", "do not support one of these clauses"),
        ("SELECT * FROM generators USE INDEX (i)", "do not support one of these clauses"),
        ("SELECT * FROM generators ORDER BY state NULLS LAST", "do not support one of these clauses"),
        ("SELECT SQL_CALC_FOUND_ROWS * FROM generators", "do not support one of these clauses"),
        ("SELECT COUNT(DISTINCT *) FROM generators", "do not support calculations"),
        ("SELECT COUNT(*) FROM generators ORDER BY x", "no column x"),
    ] {
        let said = shown(of_select(statement).unwrap_or_else(|| panic!("{statement}")));
        assert!(said.contains(expect), "{statement}: {said}");
    }
    let many = format!("WHERE {}issued = 20", "issued = 1 OR ".repeat(500));
    assert_eq!(shown(of_show(ShowKind::Generators, &many)), "blog.C|open|20|0");
    let deep = format!("WHERE {}issued = 1{}", "NOT (".repeat(20), ")".repeat(20));
    assert!(shown(of_show(ShowKind::Generators, &deep)).contains("nested so deep"));
    let all = vec!["*"; 2_000].join(",");
    let said = shown(of_select(&format!("SELECT {all} FROM generators")).unwrap());
    assert!(said.contains("so many columns"), "{said}");
}

proptest! {
    #[test]
    fn any_clauses(clauses: String) {
        let _ = of_show(ShowKind::Generators, &clauses).and_then(|asked| asked.answer(table()));
    }
}
