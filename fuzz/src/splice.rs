//! Plan and splice, through the calls that a session makes for a COM_QUERY.

use std::num::NonZeroU64;
use std::sync::Mutex;

use rowstamp::ids::block::IdBlock;
use rowstamp::rewrite::plan::edit::Style;
use rowstamp::rewrite::plan::prepared_names::Fresh;
use rowstamp::rewrite::plan::stage::{Engine, Nulls, Numbering, Takes};
use rowstamp::rewrite::plan::{InsertPlan, Lookup, Plan, PlanContext, Planned, Protocol};
use rowstamp::rewrite::planner::{begins_insert, plan};
use rowstamp::rewrite::verify::{Opinion, Written, second_opinion};
use rowstamp::rules::model::{InsertId, Mode};
use rowstamp::sql::dialect::Dialect;
use rowstamp::sql::look::glance;

use crate::input::{self, Input, Ruled};
use crate::tamed::{self, Found, Id, contains};
use crate::tree::Packet;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let ruled = input::ruled(&mut input);
    let flags = input.byte();
    let text = input.rest();
    let multi_statements = flags & 1 == 1;
    let any_rules = flags & 2 == 0;
    let tables = |schema: &str, table: &str| input::lookup(&ruled.target, schema, table);
    let view = PlanContext {
        dialect: &dialect,
        multi_statements,
        insert_id_is_set: false,
        cannot_update: &[],
        default_schema: (flags & 4 == 0).then_some("shop"),
        any_rules,
        tables: &tables,
        id_names: &(),
        hidden: &|_, table| table == "hidden",
        session: &Fresh,
    };
    if flags & 8 != 0 {
        begins(text, view);
    }
    let planned = plan(text, &view, Protocol::Text);
    if !any_rules {
        assert!(matches!(planned, Planned::Untouched(_)), "without a rule nothing is refused");
    }
    if glance(text, dialect, true, multi_statements).is_harmless() {
        assert!(matches!(planned, Planned::Untouched(_)), "it was harmless at a glance");
    }
    match planned {
        Planned::Rewrite(plan) => rewritten(text, &plan, &dialect, &ruled, multi_statements),
        Planned::Unreadable(unreadable) | Planned::Stale { unreadable, .. } => {
            assert!(text.get(unreadable.statement).is_some(), "a statement of the text");
        }
        Planned::Refused(refusal) => assert!(refusal.to_string().starts_with("rowstamp: ")),
        _ => {}
    }
}

/// A statement that is too long to be read is judged by its beginning, where that names an INSERT's table: the table must be
/// the whole's, and where no rule concerns it, both are left alone; refused are both, too.
fn begins(text: &[u8], view: PlanContext<'_>) {
    let beginning = &text[..text.len() / 2];
    if !begins_insert(beginning, view.dialect) {
        return;
    }
    let asked = |text: &[u8]| {
        let names = Mutex::new(Vec::new());
        let tables = |schema: &str, table: &str| {
            names.lock().unwrap().push((schema.to_owned(), table.to_owned()));
            Lookup::NotRuled
        };
        let view = PlanContext { multi_statements: false, tables: &tables, hidden: &|_, _| false, ..view };
        let planned = plan(text, &view, Protocol::Text);
        // Refused where the name cannot be read.
        let passes = matches!(planned, Planned::Untouched(_));
        let names = names.into_inner().unwrap();
        assert!(passes || names.is_empty(), "its table has no rule");
        (names, passes)
    };
    assert_eq!(asked(beginning), asked(text), "the table");
}

fn rewritten(text: &[u8], plan: &Plan, dialect: &Dialect, ruled: &Ruled, several: bool) {
    assert!(!plan.inserts.is_empty());
    assert!(plan.inserts.iter().all(|insert| insert.target.rule.mode == Mode::On), "a rule that is not on");
    assert!(plan.inserts.windows(2).all(|two| two[0].statement < two[1].statement));
    if plan.staged().is_some() {
        return staged(text, plan, dialect, ruled);
    }
    let mut next = ruled.first_id;
    let block = |(insert, ids): (&InsertPlan, u32)| {
        let count = NonZeroU64::new(u64::from(ids)).expect("ids");
        let block = IdBlock::new(next, insert.target.spacing, count).expect("a block");
        // Sessions beside this one take some too.
        next = block.last() + insert.target.spacing.step.get() * 3;
        block
    };
    let blocks: Vec<_> = plan.demands().map(block).collect();
    let after = plan.splice(text, &blocks).expect("blocks as demanded");
    if !plan.has_edits() {
        assert_eq!(after, text);
    }
    let opinion = second_opinion(plan, dialect, text, &after, Written::Ids(&blocks));
    assert!(!matches!(opinion, Opinion::Differs(_)), "{opinion:?}: {}", after.escape_ascii());
    let variables = plan.variables(&blocks);
    if plan.inserts.iter().any(|insert| insert.is_named) || has_text(text, plan) {
        return;
    }
    assert_eq!(variables, None);
    let before = Packet::read(text, *dialect, several);
    let after = Packet::read(&after, *dialect, several);
    let found = tamed::compare(plan, &before, &after);
    let mut blocks = blocks.iter();
    for (insert, found) in plan.inserts.iter().zip(&found) {
        let block = if insert.ids > 0 { blocks.next() } else { None };
        as_taken(insert, found, block);
    }
}

/// Statements within strings have other rules for their quotes.
fn has_text(text: &[u8], plan: &Plan) -> bool {
    let upper = text.to_ascii_uppercase();
    plan.inserts.iter().any(|insert| insert.rows == 0)
        || contains(&upper, b"EXECUTE")
        || contains(&upper, b"PREPARE")
}

/// The ids are the block's, in the order of the rows, each once.
fn as_taken(insert: &InsertPlan, found: &Found, block: Option<&IdBlock>) {
    let taken: Vec<u64> =
        block.iter().flat_map(|block| (0..block.count()).filter_map(|k| block.nth(k))).collect();
    let wraps = matches!(insert.style, Style::Wrapped | Style::OdkuOne);
    let expected = taken.iter().enumerate().map(|(nth, &id)| Id::Number(id, wraps && nth == 0));
    assert!(
        expected.eq(found.iter().map(|(_, id)| match id {
            Id::Number(id, wrapped) => Id::Number(*id, *wrapped),
            _ => panic!("a placeholder of ours in a text"),
        })),
        "{found:?}, taken {taken:?}"
    );
    assert!(found.windows(2).all(|two| two[0].0 < two[1].0), "rows");
    assert!(u32::try_from(found.len()).is_ok_and(|ids| ids <= insert.rows));
    assert!(!(wraps && insert.target.rule.insert_id == InsertId::Packet), "LAST_INSERT_ID() shows it");
}

/// By way of a stage: the client's query, values or LOAD is in it as it was, and so are head and tail.
fn staged(text: &[u8], plan: &Plan, dialect: &Dialect, ruled: &Ruled) {
    let (insert, stage) = plan.staged().expect("a statement by way of a stage");
    let takes = if stage.brings_ids() { Takes::Some } else { Takes::All };
    let numbering = Numbering { base: 1, increment: 1, takes, first: Some(ruled.first_id), ids: 3 };
    let text = stage.named.as_ref().map_or(text, |named| &*named.text);
    let fill = stage.fill(text);
    let store = stage.store(text, &numbering, &insert.target.spacing);
    let filling = &stage.filling;
    assert!(filling.edits.windows(2).all(|two| two[0].0.end <= two[1].0.start), "the edits");
    let end = filling.end as usize;
    let begin = filling.edits.last().map_or(0, |(span, _)| span.end as usize);
    assert!(begin <= end && fill.ends_with(&text[begin..end]), "what fills the stage");
    for nulls in [Nulls::Anywhere, Nulls::AsInTable] {
        assert!(!Packet::read(&stage.create(text, nulls, Engine::InnoDb), *dialect, false).is_odd);
    }
    for out in [&fill, &store] {
        assert!(!Packet::read(out, *dialect, false).is_odd, "{}", out.escape_ascii());
    }
    // LOAD stores by a statement that is ours alone.
    if stage.is_load() {
        return;
    }
    let tail = &stage.tail;
    assert!((tail.start as usize, tail.end as usize) == (end, text.len()), "what follows the query");
    let mut follows = Vec::new();
    let mut from = end;
    for (span, column) in &tail.edits {
        assert!(from <= span.start as usize && span.start < span.end, "a name of the query's");
        assert!(column.starts_with(b"`rowstamp c") && column.ends_with(b"`"), "{}", column.escape_ascii());
        follows.extend_from_slice(&text[from..span.start as usize]);
        follows.extend_from_slice(column);
        from = span.end as usize;
    }
    follows.extend_from_slice(&text[from..]);
    assert!(store.ends_with(&follows), "what follows the query, with other names for its columns");
    let head = |text: &[u8]| {
        let packet = Packet::read(text, *dialect, false);
        let insert = packet.insert(&packet.statements[0]).expect("an INSERT");
        packet.piece(&insert.head).iter().map(|token| token.to_vec()).collect::<Vec<_>>()
    };
    head(&fill);
    assert_eq!(head(&store), head(text), "{}", store.escape_ascii());
}
