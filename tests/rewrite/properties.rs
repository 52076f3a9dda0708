//! Statements put together by chance: a second parser's trees differ by the id alone; no bytes make the planner panic.

use std::num::NonZeroU64;

use proptest::prelude::*;
use rowstamp::ids::block::{IdBlock, Spacing};
use rowstamp::rewrite::plan::Planned;
use sqlparser::ast::{Expr, Insert, SetExpr, Statement};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;

use super::{FIRST_ID, Setting};

/// Values that both parsers read; none of them names the id.
const VALUES: &[&str] = &[
    "1",
    "-2",
    "3.5",
    "'a'",
    "'it''s'",
    "'a\\'b'",
    "\"q\"",
    "NULL",
    "DEFAULT",
    "NOW()",
    "a + 1",
    "(1 + (2 * 3))",
    "'(,);'",
    "'NULL'",
    "CONCAT('a', ',', 'b')",
    "0x1F",
    "TRUE",
    "(SELECT MAX(x) FROM y)",
    "CASE WHEN 1 THEN 2 ELSE 3 END",
    "/* ) */ 4",
    "@v",
];
const NO_IDS: &[&str] = &["NULL", "0", "'0'", "DEFAULT", "FALSE", "(NULL)", " /* c */ NULL /* d */ "];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(VALUES)
}

fn rows() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    (1usize..4).prop_flat_map(|columns| prop::collection::vec(prop::collection::vec(value(), columns), 1..5))
}

fn spliced(text: &str) -> Option<String> {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, a int, b int, c int)");
    let Planned::Rewrite(plan) = setting.plan(text) else { return None };
    let ranges: Vec<_> = plan
        .demands()
        .map(|(_, ids)| {
            IdBlock::new(FIRST_ID, Spacing::by(NonZeroU64::MIN), NonZeroU64::new(u64::from(ids)).unwrap())
                .unwrap()
        })
        .collect();
    Some(String::from_utf8(plan.splice(text.as_bytes(), &ranges).unwrap()).unwrap())
}

fn tree(text: &str) -> Option<Insert> {
    let mut statements = Parser::parse_sql(&MySqlDialect {}, text).ok()?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Insert(insert)), true) => Some(insert),
        _ => None,
    }
}

fn rows_of(insert: &mut Insert) -> Vec<&mut Vec<Expr>> {
    match insert.source.as_mut().unwrap().body.as_mut() {
        SetExpr::Values(values) => values.rows.iter_mut().map(|row| &mut row.content).collect(),
        other => panic!("{other}"),
    }
}

/// Takes the values at `place` out of all rows.
fn take_ids(insert: &mut Insert, place: usize) -> Vec<String> {
    rows_of(insert).into_iter().map(|row| row.remove(place).to_string()).collect()
}

fn is_nth_id(nth: usize, value: &str) -> bool {
    let id = (FIRST_ID + nth as u64).to_string();
    value == id || nth == 0 && value == format!("LAST_INSERT_ID({id})")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_added_id_is_all_that_changes(rows in rows(), ignore: bool, odku: bool) {
        let columns = ["a", "b", "c"][..rows[0].len()].join(", ");
        let values: Vec<_> = rows.iter().map(|row| format!("({})", row.join(", "))).collect();
        let text = format!(
            "INSERT {}INTO t ({columns}) VALUES {}{}",
            if ignore { "IGNORE " } else { "" },
            values.join(", "),
            if odku && rows.len() > 1 { " ON DUPLICATE KEY UPDATE a = 1" } else { "" },
        );
        let after = spliced(&text).expect(&text);
        let (Some(before), Some(mut after_tree)) = (tree(&text), tree(&after)) else {
            return Err(TestCaseError::reject("the second parser cannot read it"));
        };
        prop_assert_eq!(after_tree.columns.pop().unwrap().to_string(), "`id`");
        for (nth, id) in take_ids(&mut after_tree, rows[0].len()).iter().enumerate() {
            prop_assert!(is_nth_id(nth, id), "{}", after);
        }
        prop_assert_eq!(before, after_tree, "{}", after);
    }

    #[test]
    fn a_replaced_id_is_all_that_changes(rows in rows(), ids in prop::collection::vec(prop::sample::select(NO_IDS), 5), place in 0usize..4) {
        let place = place.min(rows[0].len());
        let mut columns = vec!["a", "b", "c"];
        columns.truncate(rows[0].len());
        columns.insert(place, "id");
        let values: Vec<_> = rows.iter().zip(&ids).map(|(row, id)| {
            let mut row = row.clone();
            row.insert(place, id);
            format!("({})", row.join(","))
        }).collect();
        let text = format!("INSERT INTO t ({}) VALUES {}", columns.join(","), values.join(","));
        let after = spliced(&text).expect(&text);
        let (Some(mut before), Some(mut after_tree)) = (tree(&text), tree(&after)) else {
            return Err(TestCaseError::reject("the second parser cannot read it"));
        };
        take_ids(&mut before, place);
        for (nth, id) in take_ids(&mut after_tree, place).iter().enumerate() {
            prop_assert!(is_nth_id(nth, id), "{}", after);
        }
        prop_assert_eq!(before, after_tree, "{}", after);
    }

    #[test]
    fn any_text_behind_a_head_ends(
        tail in "[-'\"`\\\\/*!M#?@:.;(),=0-9abeid \n]{0,60}",
        head in prop::sample::select(&["insert into t", "insert into t(a) values", "replace t set ", "", "set ", "insert into t values(1) on duplicate key update "][..]),
        several: bool,
        prepare: bool,
    ) {
        let mut setting = Setting::new();
        setting.set("table", "t(id bigint, a int)");
        setting.set("several", if several { "on" } else { "off" });
        setting.set("protocol", if prepare { "prepare" } else { "text" });
        setting.run(&format!("{head}{tail}"));
    }
}

#[test]
fn parentheses_as_deep_as_one_likes() {
    let text = format!("insert into t(a) values({}1{})", "(".repeat(100_000), ")".repeat(100_000));
    assert!(spliced(&text).unwrap().ends_with(",LAST_INSERT_ID(7))"));
    let text = format!("insert into t(id) values({}0{})", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(spliced(&text).unwrap(), "insert into t(id) values(LAST_INSERT_ID(7))");
    assert!(spliced(&"(".repeat(100_000)).is_none());
    assert!(spliced(&format!("insert into t(a) values({}", "/*".repeat(100_000))).is_none());
}

#[test]
fn a_hundred_thousand_rows() {
    let text = format!("insert into t(a) values {}", vec!["(1)"; 100_000].join(","));
    let after = spliced(&text).unwrap();
    assert!(after.starts_with("insert into t(a,`id`) values (1,LAST_INSERT_ID(7)),(1,8),"));
    assert!(after.ends_with(",(1,100006)"));
}

#[test]
fn placeholders_leave_room_for_one_or_are_refused() {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, a int)");
    setting.set("protocol", "prepare");
    let text = |n: usize| format!("insert into t(a) values {}", vec!["(?)"; n].join(","));
    assert!(setting.run(&text(65_534)).starts_with("ours 1:0 => "));
    assert_eq!(setting.run(&text(65_535)), "=> refused");
    assert_eq!(setting.run(&text(65_536)), "=> unreadable", "the server says 1390");
}

/// Counters of what stands in a row do not run over (found by the fuzz target `prepared`).
#[test]
fn a_sign_many_times() {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, a int)");
    for sign in ["@", ".", "+", "-", "(", ")", "!", ",", ";", "?", "'", "`", "/*", "0"] {
        for text in [
            "insert into t(a) values({})",
            "insert into t(a) values(1) returning {}a",
            "insert into t(a) values(1) on duplicate key update a={}a",
        ] {
            let _ = setting.plan(text.replace("{}", &sign.repeat(70_000)));
        }
    }
}
