//! What planning and splicing cost, through the calls that a session makes. The cases take turns in rounds of about
//! 0.1 ms, short enough that a busy machine spares most of them; the median of the rounds is shown beside the aim.

use std::fmt::Write;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rowstamp::ids::block::{IdBlock, Spacing};
use rowstamp::rewrite::plan::target::Target;
use rowstamp::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
use rowstamp::rewrite::planner::plan;
use rowstamp::rules::model::{
    Collide, ColumnShape, Explicit, GeneratorName, InsertId, Mode, Origin, Rule, TableShape, Unavailable,
};
use rowstamp::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};
use rowstamp::sql::look::glance;

const ROUNDS: usize = 501;
/// A case of milliseconds is run in every such round only.
const LONG_CASE_EVERY: usize = 25;

struct Case {
    name: &'static str,
    text: String,
    multi_statements: bool,
    ns_aim: f64,
    /// Calls in one round.
    calls: u32,
    ns: Vec<f64>,
}

fn main() {
    let target = Arc::new(target());
    let dialect = Dialect {
        server: Server::parse("10.11.19-MariaDB").expect("a version"),
        sql_mode: SqlMode::default(),
        charset: ClientCharset::Utf8,
    };
    let mut cases = cases();
    // `cargo bench --bench rewrite -- "1 row"` runs those whose name holds it.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    cases.retain(|case| wanted.is_empty() || wanted.iter().any(|part| case.name.contains(part.as_str())));
    let mut out = Vec::new();
    for round in 0..ROUNDS {
        for case in cases.iter_mut().filter(|case| case.ns_aim < 1e6 || round % LONG_CASE_EVERY == 0) {
            let start = Instant::now();
            for _ in 0..case.calls {
                black_box(run(black_box(&case.text), case.multi_statements, &dialect, &target, &mut out));
            }
            let elapsed_ns = start.elapsed().as_secs_f64() * 1e9;
            case.ns.push(elapsed_ns / f64::from(case.calls));
        }
    }
    for case in &mut cases {
        case.ns.sort_by(f64::total_cmp);
        let median = case.ns.get(case.ns.len() / 2).copied().unwrap_or_default();
        let verdict = if median <= case.ns_aim { "" } else { "  MISSED" };
        println!(
            "{:<36} {:>7} bytes {median:>12.1} ns  (aim {:>9.0} ns){verdict}",
            case.name,
            case.text.len(),
            case.ns_aim
        );
    }
}

/// What a session does with a COM_QUERY; `out` is its lane's room for packets of its own.
fn run(
    text: &str,
    multi_statements: bool,
    dialect: &Dialect,
    target: &Arc<Target>,
    out: &mut Vec<u8>,
) -> usize {
    if glance(text.as_bytes(), *dialect, true, multi_statements).is_harmless() {
        return 0;
    }
    let tables = |_: &str, table: &str| {
        if table == "orders" { Lookup::Ruled(Arc::clone(target)) } else { Lookup::NotRuled }
    };
    let view = PlanContext {
        dialect,
        multi_statements,
        insert_id_is_set: false,
        cannot_update: &[],
        default_schema: Some("shop"),
        any_rules: true,
        tables: &tables,
        id_names: &(),
        hidden: &|_, _| false,
        session: &rowstamp::rewrite::plan::prepared_names::Fresh,
    };
    match plan(text.as_bytes(), &view, Protocol::Text) {
        Planned::Rewrite(plan) => {
            let ids = plan.demands().map(|(_, ids)| u64::from(ids)).sum();
            let count = NonZeroU64::new(ids).expect("ids");
            let range = IdBlock::new(1_000_000, Spacing::by(NonZeroU64::MIN), count).expect("a block");
            out.clear();
            plan.splice_into(text.as_bytes(), &[range], out).expect("a splice");
            out.len()
        }
        Planned::Untouched(_) => 0,
        other => panic!("{other:?}"),
    }
}

fn cases() -> Vec<Case> {
    let case = |name, text: String, ns_aim, calls| Case {
        name,
        text,
        multi_statements: false,
        ns_aim,
        calls,
        ns: Vec::new(),
    };
    let select = "SELECT c FROM sbtest1 WHERE id=12345".to_owned();
    vec![
        case("no INSERT", select.clone(), 20.0, 5_000),
        Case { multi_statements: true, ..case("no INSERT, several allowed", select, 20.0, 5_000) },
        case("INSERT, no rule, 1,000 rows", insert("customers", 1_000, 84), 100.0, 1_000),
        case("INSERT, 1 row", insert("orders", 1, 140), 500.0, 200),
        case("INSERT, 1,000 rows", insert("orders", 1_000, 84), 100_000.0, 1),
        case("INSERT, 100,000 rows", insert("orders", 100_000, 20), 100_000_000.0, 1),
    ]
}

fn insert(table: &str, rows: usize, filler_bytes: usize) -> String {
    let mut text = format!("INSERT INTO {table} (k, c, pad) VALUES ");
    for row in 0..rows {
        let comma = if row == 0 { "" } else { ", " };
        write!(text, "{comma}({row}, '{}', NOW())", "x".repeat(filler_bytes)).expect("writing to a String");
    }
    text
}

fn target() -> Target {
    let column = |name: &str, data_type: &str| ColumnShape {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        unsigned: false,
        auto_increment: false,
        generated: false,
        invisible: false,
        in_primary_key: false,
        needs_value: false,
        set_by_trigger: false,
        masked: false,
    };
    let columns =
        vec![column("id", "bigint"), column("k", "int"), column("c", "char"), column("pad", "datetime")];
    Target {
        table: "orders".to_owned(),
        rule: Arc::new(Rule {
            of_schemas: None,
            made_from: None,
            schema: "shop".to_owned(),
            table: "orders".to_owned(),
            column: "id".to_owned(),
            generator: GeneratorName { schema: "shop".to_owned(), name: "orders".to_owned() },
            explicit: Explicit::Keep,
            insert_id: InsertId::Session,
            mode: Mode::On,
            unavailable: Unavailable::Refuse,
            collide: Collide::Raise,
            origin: Origin { file: PathBuf::new(), line: 1 },
        }),
        shape: Some(Arc::new(TableShape { columns, shows_insert_id: false, fires_on_update: false })),
        spacing: Spacing::by(NonZeroU64::MIN),
        view: None,
        usage: Arc::default(),
    }
}
