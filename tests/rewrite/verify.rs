//! The second opinion: what it lets pass, what it catches, and what it cannot judge.

use std::num::NonZeroU64;

use rowstamp::ids::block::{IdBlock, Spacing};
use rowstamp::rewrite::plan::{Plan, Planned};
use rowstamp::rewrite::verify::{Opinion, Written, second_opinion};

use super::{FIRST_ID, Setting};

fn setting() -> Setting {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, a int, b int)");
    setting
}

fn planned(setting: &Setting, text: &str) -> Plan {
    match setting.plan(text) {
        Planned::Rewrite(plan) => plan,
        other => panic!("{text}: {other:?}"),
    }
}

/// The second parser's opinion of `after` in place of the text that the plan makes of `before`.
fn opinion(setting: &Setting, before: &str, after: &str) -> Opinion {
    let plan = planned(setting, before);
    let mut first = FIRST_ID;
    let blocks: Vec<IdBlock> = plan
        .demands()
        .map(|(_, ids)| {
            let count = NonZeroU64::new(u64::from(ids)).unwrap();
            let block = IdBlock::new(first, Spacing::by(NonZeroU64::MIN), count).unwrap();
            first = block.last() + 1;
            block
        })
        .collect();
    second_opinion(&plan, &setting.dialect, before.as_bytes(), after.as_bytes(), Written::Ids(&blocks))
}

#[test]
fn a_wrong_splice_is_caught() {
    for (before, after) in [
        // The id is missing, another one, in another place, of another column, twice.
        ("insert into t(a) values(1)", "insert into t(a) values(1)"),
        ("insert into t(a) values(1)", "insert into t(a,`id`) values(1,8)"),
        ("insert into t(a) values(1)", "insert into t(a,`id`) values(1,7)"),
        ("insert into t(a) values(1)", "insert into t(`id`,a) values(LAST_INSERT_ID(7),1)"),
        ("insert into t(a) values(1)", "insert into t(a,`id`) values(LAST_INSERT_ID(7),1)"),
        ("insert into t(a) values(1)", "insert into t(a,`b`) values(1,LAST_INSERT_ID(7))"),
        (
            "insert into t(a) values(1)",
            "insert into t(a,`id`,`id`) values(1,LAST_INSERT_ID(7),LAST_INSERT_ID(7))",
        ),
        // A row without, rows in another order.
        ("insert into t(a) values(1),(2)", "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)),(2,9)"),
        ("insert into t(a) values(1),(2)", "insert into t(a,`id`) values(1,8),(2,LAST_INSERT_ID(7))"),
        ("insert into t(a) values(1),(2)", "insert into t(a,`id`) values(1,LAST_INSERT_ID(7))"),
        ("insert into t(a) values(1),(2)", "insert into t(a,`id`) values(2,LAST_INSERT_ID(7)),(1,8)"),
        // More than the id has changed.
        ("insert into t(a) values('x')", "insert into t(a,`id`) values('y',LAST_INSERT_ID(7))"),
        ("insert into t(a) values('x')", "insert into t(a,`id`) values('x,LAST_INSERT_ID(7)')"),
        ("insert into t(a) values('x')", "insert into u(a,`id`) values('x',LAST_INSERT_ID(7))"),
        ("insert into t(a) values('x')", "insert into t(a,`id`) values('x',LAST_INSERT_ID(7)"),
        (
            "insert into t(a) values('x')",
            "insert into t(a,`id`) values('x',LAST_INSERT_ID(7)); delete from t",
        ),
        ("insert ignore into t(a) values('x')", "insert into t(a,`id`) values('x',7)"),
        // Values that the client wrote itself.
        (
            "insert into t(id,a) values(5,1),(null,2)",
            "insert into t(id,a) values(LAST_INSERT_ID(7),1),(null,2)",
        ),
        (
            "insert into t(id,a) values(5,1),(null,2)",
            "insert into t(id,a) values(5,1),(null,LAST_INSERT_ID(7))",
        ),
        (
            "insert into t(id,a) values(0,1),('0',2)",
            "insert into t(id,a) values(LAST_INSERT_ID(7),1),('0',2)",
        ),
        ("insert into t set a=1", "insert into t set a=LAST_INSERT_ID(7)"),
        ("insert into t set a=1", "insert into t set `id`=LAST_INSERT_ID(7),a=1"),
        ("insert into t set id=null,a=1", "insert into t set id=null,a=LAST_INSERT_ID(7)"),
        // A list that is not the table's.
        ("insert into t values(null,1,2)", "insert into t(`id`,`b`,`a`)values(LAST_INSERT_ID(7),1,2)"),
        ("insert into t values(null,1,2)", "insert into t values(null,LAST_INSERT_ID(7),2)"),
        // ON DUPLICATE KEY UPDATE.
        (
            "insert into t(a) values(1) on duplicate key update a=2",
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)) on duplicate key update a=2,`b`=LAST_INSERT_ID(`id`)",
        ),
        (
            "insert into t(a) values(1) on duplicate key update a=2",
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)) on duplicate key update a=LAST_INSERT_ID(7)",
        ),
    ] {
        let opinion = opinion(&setting(), before, after);
        assert!(matches!(opinion, Opinion::Differs(_)), "{before}\n{after}: {opinion:?}");
    }
}

#[test]
fn statements_of_a_packet_are_told_apart() {
    let mut setting = setting();
    setting.set("several", "on");
    let before = "insert into t(a) values(1); select 1; insert into t(a) values(2)";
    for (after, agrees) in [
        (
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)); select 1; insert into t(a,`id`) values(2,LAST_INSERT_ID(8))",
            true,
        ),
        (
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(8)); select 1; insert into t(a,`id`) values(2,LAST_INSERT_ID(7))",
            false,
        ),
        (
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)); select 2; insert into t(a,`id`) values(2,LAST_INSERT_ID(8))",
            false,
        ),
        ("insert into t(a,`id`) values(1,LAST_INSERT_ID(7)); select 1; insert into t(a) values(2)", false),
        (
            "insert into t(a,`id`) values(1,LAST_INSERT_ID(7)); insert into t(a,`id`) values(2,LAST_INSERT_ID(8))",
            false,
        ),
    ] {
        let opinion = opinion(&setting, before, after);
        assert_eq!(opinion == Opinion::Agrees, agrees, "{after}: {opinion:?}");
    }
}

#[test]
fn placeholders_of_ours_are_counted() {
    let mut setting = setting();
    setting.set("protocol", "prepare");
    for (before, after, agrees) in [
        (
            "insert into t(a) values(?),(?)",
            "insert into t(a,`id`) values(?,LAST_INSERT_ID(?)),(?,LAST_INSERT_ID()+1)",
            true,
        ),
        (
            "insert into t(a) values(?),(?)",
            "insert into t(a,`id`) values(?,LAST_INSERT_ID(?)),(?,LAST_INSERT_ID()+2)",
            false,
        ),
        ("insert into t(a) values(?),(?)", "insert into t(a,`id`) values(?,LAST_INSERT_ID(?)),(?,?)", false),
        ("insert into t(a) values(?),(?)", "insert into t(a,`id`) values(?,?),(?,LAST_INSERT_ID()+1)", false),
        ("insert into t(id,a) values(null,?)", "insert into t(id,a) values(LAST_INSERT_ID(?),?)", true),
        ("insert into t(id,a) values(null,?)", "insert into t(id,a) values(null,LAST_INSERT_ID(?))", false),
    ] {
        let plan = planned(&setting, before);
        let opinion = second_opinion(
            &plan,
            &setting.dialect,
            before.as_bytes(),
            after.as_bytes(),
            Written::Placeholders,
        );
        assert_eq!(opinion == Opinion::Agrees, agrees, "{after}: {opinion:?}");
    }
}

#[test]
fn what_it_reads_otherwise_than_the_server_is_not_judged() {
    for (mode, before) in [
        ("", "insert into t(a) values(1 /*!99999 ,2 */)"),
        ("", "insert into t partition (p0) (a) values(1)"),
        ("", "insert into t set a=2 end"),
        ("", "insert into t set a=+ returning +b"),
        ("", "insert into t set a=0x0returning b"),
        ("", "insert into t set a=+b+ returning@@sql_mode"),
        ("", "insert into t set a=-@@#b"),
        ("", "insert into t(a) values(@)"),
        ("", "insert into t(a,shop.1.id) values(1,default(t.id))"),
        ("", "insert into t(a, id) values(@, null)"),
        ("", "insert into t(a, id) values(@`x`, null)"),
        ("NO_BACKSLASH_ESCAPES", "insert into t(a) values('\\')"),
        ("ANSI_QUOTES", "insert into t(\"a\") values('\\'')"),
    ] {
        let mut setting = setting();
        setting.set("mode", mode);
        assert_eq!(opinion(&setting, before, before), Opinion::NotVerified, "{before}");
    }
    let mut ansi = setting();
    ansi.set("mode", "ANSI_QUOTES");
    let after = "insert into t(\"id\",a) values(LAST_INSERT_ID(7),'\"')";
    assert_eq!(opinion(&ansi, "insert into t(\"id\",a) values(null,'\"')", after), Opinion::Agrees);
}

/// A plan whose edits are not in the order of the text would write parts of it twice.
#[test]
fn edits_out_of_order_are_not_spliced() {
    let text = "insert into t(a) values(1);insert into t(a) values(2)";
    let mut setting = setting();
    setting.set("several", "on");
    let mut plan = planned(&setting, text);
    let ids = [7, 8].map(|id| IdBlock::new(id, Spacing::by(NonZeroU64::MIN), NonZeroU64::MIN).unwrap());
    assert!(plan.splice(text.as_bytes(), &ids).is_some());
    plan.inserts.swap(0, 1);
    assert_eq!(plan.splice(text.as_bytes(), &ids), None);
}

/// The columns' names are read for what they are.
#[test]
fn bytes_that_are_no_text() {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, größe int)");
    let before = b"insert into t values (null, 1) -- \xff\xfe";
    let Planned::Rewrite(plan) = setting.plan(before) else { panic!("a plan") };
    let ids = [IdBlock::new(7, Spacing::by(NonZeroU64::MIN), NonZeroU64::MIN).unwrap()];
    let after = plan.splice(before, &ids).unwrap();
    let opinion = |after: &[u8]| second_opinion(&plan, &setting.dialect, before, after, Written::Ids(&ids));
    assert_eq!(opinion(&after), Opinion::Agrees);
    let other = after.iter().map(|byte| if *byte == b'1' { b'2' } else { *byte }).collect::<Vec<_>>();
    assert!(matches!(opinion(&other), Opinion::Differs(_)));
}

/// Found by the fuzz targets `splice` and `prepared`: an alias got the columns' names in another character set.
#[test]
fn names_keep_their_bytes() {
    let mut setting = Setting::new();
    setting.set("table", "t(id bigint, größe int)");
    setting.set("server", "mysql 90704");
    setting.set("charset", "latin1");
    let before =
        b"insert into t(gr\xf6\xdfe) values(1) as new on duplicate key update gr\xf6\xdfe=new.gr\xf6\xdfe";
    let Planned::Rewrite(plan) = setting.plan(before) else { panic!("a plan") };
    let ids = [IdBlock::new(7, Spacing::by(NonZeroU64::MIN), NonZeroU64::MIN).unwrap()];
    let after = plan.splice(before, &ids).unwrap();
    let list = b" as new(gr\xf6\xdfe,rowstamp_id) on ";
    assert!(after.windows(list.len()).any(|part| part == list), "{}", after.escape_ascii());
    let opinion = second_opinion(&plan, &setting.dialect, before, &after, Written::Ids(&ids));
    assert_eq!(opinion, Opinion::Agrees);
}

/// The parser makes a tree of it that is as deep as it is long; who drops it recurses. A test's thread has 2 MiB.
#[test]
fn long_chains_are_not_judged() {
    for (value, expected) in [
        (vec!["1"; 140].join("+"), Opinion::Agrees),
        (vec!["1"; 100_000].join("+"), Opinion::NotVerified),
        (vec!["1"; 100_000].join(" DIV "), Opinion::NotVerified),
        (format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)), Opinion::NotVerified),
        (format!("({})", vec!["select 1,2"; 100_000].join(" union ")), Opinion::NotVerified),
        (vec!["f(1,2)"; 100_000].join("+"), Opinion::NotVerified),
        (format!("{}1", "not ".repeat(100_000)), Opinion::NotVerified),
        (format!("1{}", " is null".repeat(100_000)), Opinion::NotVerified),
    ] {
        let before = format!("insert into t(a) values({value})");
        let after = format!("insert into t(a,`id`) values({value},LAST_INSERT_ID(7))");
        assert_eq!(opinion(&setting(), &before, &after), expected, "{before:.80}");
    }
    let rows = vec!["(1)"; 100_000].join(",");
    assert!(setting().run(&format!("insert into t(a) values {rows}")).ends_with(",(1,100006)"));
}
