//! Prepared INSERTs, through the calls that a session makes: the text with parameters of ours, then executions whose
//! packets are read by another decoder than the proxy's, before and after.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use rowstamp::ids::block::IdBlock;
use rowstamp::mysql::bulk::Bulk;
use rowstamp::mysql::prepared::{Execute, Expected, ParamType};
use rowstamp::rewrite::plan::edit::Style;
use rowstamp::rewrite::plan::prepared_names::Fresh;
use rowstamp::rewrite::plan::{Plan, PlanContext, Planned, Protocol};
use rowstamp::rewrite::planner::plan;
use rowstamp::rewrite::prepare::PreparedInsert;
use rowstamp::rewrite::verify::{Opinion, Written, second_opinion};
use rowstamp::rewrite::{bulk, execution, meaning::Meaning};
use rowstamp::rules::model::Explicit;
use rowstamp::sql::dialect::Dialect;
use rowstamp::sql::name;

use crate::binary::{self, Value};
use crate::input::{self, Input, Ruled};
use crate::tamed::{self, Id};
use crate::tree::Packet;

/// Bytes that are taken for what is bound.
const BOUND_BYTES: usize = 32;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let ruled = input::ruled(&mut input);
    let flags = input.byte();
    let mut bound = Input::new(input.bytes(BOUND_BYTES));
    let text = input.rest();
    let tables = |schema: &str, table: &str| input::lookup(&ruled.target, schema, table);
    let view = PlanContext {
        dialect: &dialect,
        multi_statements: flags & 1 == 1,
        insert_id_is_set: false,
        cannot_update: &[],
        default_schema: Some("shop"),
        any_rules: true,
        tables: &tables,
        id_names: &(),
        hidden: &|_, _| false,
        session: &Fresh,
    };
    let Planned::Rewrite(mut plan) = plan(text, &view, Protocol::Prepare) else { return };
    let Ok(prepared) = plan.prepare(text) else { return };
    let after = prepared.text.as_slice();
    let opinion = second_opinion(&plan, &dialect, text, after, Written::Placeholders);
    assert!(!matches!(opinion, Opinion::Differs(_)), "{opinion:?}: {}", after.escape_ascii());
    if plan.staged().is_some() {
        assert_eq!(after, text, "it is executed in other texts");
        return;
    }
    placeholders(text, after, &plan, &prepared, dialect);
    let [_] = plan.inserts.as_slice() else { panic!("one INSERT is prepared") };
    let insert = plan.inserts.remove(0);
    let prepared = PreparedInsert { insert, text: prepared };
    our_params(&prepared);
    let meaning = meaning(&dialect, &ruled);
    let run = Run { prepared: &prepared, meaning, ruled: &ruled };
    if flags & 2 == 0 { run.executions(&mut bound, flags) } else { run.bulk(&mut bound, flags) }
}

fn meaning(dialect: &Dialect, ruled: &Ruled) -> Meaning {
    let column = ruled.target.id_column();
    let shape = ruled.target.shape.as_deref();
    Meaning::new(
        dialect,
        shape.and_then(|shape| shape.columns.iter().find(|one| name::same_column(&one.name, column))),
    )
}

/// Our parameters stand in the text where the plan says, and all others are the client's.
fn placeholders(
    text: &[u8],
    after: &[u8],
    plan: &Plan,
    prepared: &rowstamp::rewrite::plan::PreparedText,
    dialect: Dialect,
) {
    let before = Packet::read(text, dialect, false);
    let after = Packet::read(after, dialect, false);
    let count = |packet: &Packet<'_>| packet.params(packet.statements[0].tokens.clone());
    assert_eq!(count(&before), usize::from(prepared.client_params), "the client's parameters");
    assert_eq!(count(&after), count(&before) + prepared.ours.len(), "all parameters");
    assert!(prepared.ours.windows(2).all(|two| two[0].index < two[1].index), "our parameters ascend");
    assert!(prepared.id_params.windows(2).all(|two| two[0].index < two[1].index), "parameters of the id");
    let found = tamed::compare(plan, &before, &after);
    let insert = &plan.inserts[0];
    assert_eq!(prepared.fixed_ids, insert.ids);
    let wraps = matches!(insert.style, Style::Wrapped | Style::OdkuOne);
    let expected = (0..u64::from(insert.ids)).map(|nth| match nth {
        _ if !wraps => Id::Param(false),
        0 => Id::Param(true),
        nth => Id::Behind(insert.target.spacing.offset(nth).expect("near ids")),
    });
    assert!(
        expected.eq(found[0].iter().map(|(_, id)| match id {
            Id::Number(id, wrapped) => Id::Number(*id, *wrapped),
            Id::Param(wrapped) => Id::Param(*wrapped),
            Id::Behind(n) => Id::Behind(*n),
        })),
        "{:?}",
        found[0]
    );
    let rows: Vec<u32> = prepared.ours.iter().map(|ours| ours.row).collect();
    let of_params = found[0].iter().filter(|(_, id)| matches!(id, Id::Param(_)));
    assert!(of_params.map(|&(row, _)| u32::try_from(row).unwrap()).eq(rows), "rows of our parameters");
}

/// What COM_STMT_SEND_LONG_DATA and the answer to COM_STMT_PREPARE go by.
fn our_params(prepared: &PreparedInsert) {
    let client = prepared.text.client_params;
    let all = client + u16::try_from(prepared.text.ours.len()).expect("fewer than 65,536");
    let shown: Vec<u16> = (0..all).filter(|&at| prepared.client_param(at).is_some()).collect();
    let moved: Vec<u16> = (0..client).map(|at| prepared.server_param(at)).collect();
    assert_eq!(shown, moved, "where the client's parameters stand among the server's");
}

struct Run<'a> {
    prepared: &'a PreparedInsert,
    meaning: Meaning,
    ruled: &'a Ruled,
}

impl Run<'_> {
    fn block(&self, ids: u32) -> Option<IdBlock> {
        IdBlock::new(self.ruled.first_id, self.ruled.target.spacing, NonZeroU64::new(u64::from(ids))?)
    }

    fn is_unsigned(&self) -> bool {
        self.ruled.target.id_shape().is_some_and(|id| id.unsigned)
    }

    /// Two executions: the second may leave out its types.
    fn executions(&self, bound: &mut Input<'_>, flags: u8) {
        let params = self.prepared.text.client_params;
        let with_attributes = flags & 4 != 0;
        let mut types: Option<Vec<ParamType>> = None;
        for nth in 0..2 {
            let mut values = binary::values(bound, usize::from(params), true);
            let sends_types = nth == 0 || flags & 8 == 0;
            if let (false, Some(types)) = (sends_types, &types) {
                binary::retype(&mut values, types);
            }
            let attributes = if with_attributes && flags & 16 != 0 && (sends_types || params == 0) {
                binary::values(bound, 1 + usize::from(flags >> 6), false)
            } else {
                Vec::new()
            };
            let long_data: BTreeSet<u16> = binary::long_data(&values);
            let mut payload = binary::execute(&values, &attributes, sends_types, with_attributes);
            if flags & 32 != 0 {
                binary::damage(&mut payload, bound);
            }
            let expected =
                Expected { params, types: types.as_deref(), long_data: &long_data, with_attributes };
            let Ok(execute) = Execute::parse(&payload, expected) else {
                assert!(flags & 32 != 0, "an execution as clients send it");
                return;
            };
            let known = types.clone();
            types = Some(execute.types(params));
            let plain = execute.build();
            let Ok(draft) = execution::ExecutionDraft::new(self.prepared, &execute, self.meaning) else {
                continue;
            };
            let out = if let Some(block) = self.block(draft.ids) {
                draft.write(execute, &block).expect("as many ids as it takes")
            } else {
                assert_eq!(draft.ids, 0);
                plain
            };
            if flags & 32 != 0 {
                // Whatever it was, it can be read again.
                self.reads(&out, &long_data, with_attributes);
                continue;
            }
            let sent = if sends_types { None } else { known };
            let before =
                binary::decode(&payload, usize::from(params), &long_data, with_attributes, sent.as_deref());
            self.compare(&before, &out, &long_data, with_attributes, draft.ids);
        }
    }

    fn all_params(&self) -> usize {
        usize::from(self.prepared.text.client_params) + self.prepared.text.ours.len()
    }

    /// The parameters that were sent ahead, by the server's numbers.
    fn moved(&self, long_data: &BTreeSet<u16>) -> BTreeSet<u16> {
        long_data.iter().map(|&at| self.prepared.server_param(at)).collect()
    }

    fn reads(&self, out: &[u8], long_data: &BTreeSet<u16>, with_attributes: bool) {
        let moved = self.moved(long_data);
        let params = u16::try_from(self.all_params()).expect("fewer than 65,536");
        let expected = Expected { params, types: None, long_data: &moved, with_attributes };
        Execute::parse(out, expected).expect("what was made of an execution");
    }

    /// What was decoded from the client's packet is in `out`, with the ids in their places.
    fn compare(
        &self,
        before: &[Value],
        out: &[u8],
        long_data: &BTreeSet<u16>,
        with_attributes: bool,
        ids: u32,
    ) {
        let moved = self.moved(long_data);
        let after = binary::decode(out, self.all_params(), &moved, with_attributes, None);
        let block = self.block(ids);
        let mut next = Rows::new(self.prepared, block.as_ref());
        let text = &self.prepared.text;
        assert_eq!(after.len(), before.len() + if ids > 0 { text.ours.len() } else { 0 }, "parameters");
        let mut client = before.iter().enumerate();
        for (at, is) in after.iter().enumerate() {
            let place = u16::try_from(at).expect("fewer than 65,536");
            if let Some(ours) = text.ours.iter().find(|ours| ours.index == place) {
                let sent = is.id(ours.is_whole && self.is_unsigned());
                assert_eq!(sent, Some(next.id(ours.row)), "a parameter of ours");
                continue;
            }
            let (param, was) = client.next().expect("a parameter of the client's");
            let id = text.id_params.iter().find(|id| usize::from(id.index) == param);
            if is != was {
                let id = id.expect("a parameter at the id's place");
                assert!(was.may_take(), "{was:?} gave way to an id");
                let sent = is.id(self.is_unsigned());
                assert_eq!(sent, Some(next.id(id.row)), "a parameter at the id's place");
            } else if id.is_some() {
                assert!(!was.must_take(), "{was:?} has stayed");
                assert_ne!(self.ruled.target.rule.explicit, Explicit::Reject);
            }
        }
        assert_eq!(client.next(), None, "a parameter of the client's is gone");
        next.all_taken(self.prepared);
    }

    fn bulk(&self, bound: &mut Input<'_>, flags: u8) {
        let params = usize::from(self.prepared.text.client_params);
        let sets = 1 + usize::from(bound.below(3));
        let first = binary::values(bound, params, false);
        let types: Vec<ParamType> = first.iter().map(Value::kind).collect();
        let mut all = vec![first];
        for _ in 1..sets {
            let mut values = binary::values(bound, params, false);
            binary::retype(&mut values, &types);
            all.push(values);
        }
        let sends_types = flags & 8 == 0;
        let mut payload = binary::bulk(&all, &types, sends_types, bound);
        if flags & 32 != 0 {
            binary::damage(&mut payload, bound);
        }
        let count = self.prepared.text.client_params;
        let Ok(parsed) = Bulk::parse(&payload, count, Some(&types)) else {
            assert!(flags & 32 != 0 || params == 0, "a bulk execution as clients send it");
            return;
        };
        let Ok(draft) = bulk::BulkDraft::new(self.prepared, &parsed, self.meaning) else { return };
        let (Ok(kinds), Some(ids)) = (draft.kinds(), draft.ids()) else { return };
        let Some(out) = draft.write(&kinds, self.block(ids).as_ref()) else {
            let fits = |&id: &i128| u64::try_from(id).is_ok() || i64::try_from(id).is_ok();
            assert!(!draft.explicit.iter().all(fits), "as many ids as it takes");
            return;
        };
        if flags & 32 != 0 {
            return;
        }
        assert_eq!(draft.sets as usize, sets, "sets");
        self.compare_sets(&binary::decode_bulk(&payload, params, &types), &out, ids);
    }

    fn compare_sets(&self, before: &[Vec<Value>], out: &[u8], ids: u32) {
        let text = &self.prepared.text;
        let after = binary::decode_bulk(out, self.all_params(), &[]);
        assert_eq!(before.len(), after.len(), "sets");
        let block = self.block(ids);
        let mut taken = 0u64;
        for (was, is) in before.iter().zip(&after) {
            let first = taken;
            let mut client = was.iter().enumerate();
            for (at, is) in is.iter().enumerate() {
                let next = block.as_ref().and_then(|block| block.nth(taken));
                if text.ours.iter().any(|ours| usize::from(ours.index) == at) {
                    assert_eq!(is.id(true), next, "a parameter of ours");
                    assert!(next.is_some());
                    taken += 1;
                    continue;
                }
                let (param, was) = client.next().expect("a parameter of the client's");
                if is.same_value(was) || is.number().is_some_and(|n| was.rounds_to(n)) {
                    continue;
                }
                assert!(
                    text.id_params.iter().any(|id| usize::from(id.index) == param),
                    "{was:?} became {is:?}"
                );
                if was.is_default() && is.number() == Some(0) {
                    continue;
                }
                assert!(was.may_take(), "{was:?} gave way to an id");
                assert_eq!(is.number(), next.map(i128::from), "a parameter at the id's place");
                taken += 1;
            }
            assert_eq!(client.next(), None, "a parameter of the client's is gone");
            taken = taken.max(first + u64::from(text.fixed_ids));
        }
        assert_eq!(taken, u64::from(ids), "ids");
    }
}

/// The ids of an execution: they ascend with the rows, whatever the order of the parameters.
struct Rows<'a> {
    /// The rows that have a parameter of ours.
    ours: Vec<u32>,
    block: Option<&'a IdBlock>,
    seen: BTreeSet<u32>,
}

impl<'a> Rows<'a> {
    fn new(prepared: &PreparedInsert, block: Option<&'a IdBlock>) -> Self {
        let ours = prepared.text.ours.iter().map(|ours| ours.row);
        Rows { ours: ours.collect(), block, seen: BTreeSet::new() }
    }

    /// Of this row.
    fn id(&mut self, row: u32) -> u64 {
        assert!(self.seen.insert(row), "a row has two ids");
        let block = self.block.expect("ids");
        // Rows stand in the order of their parameters.
        let nth = self.seen.len() as u64 - 1;
        assert!(self.seen.last() == Some(&row), "ids ascend with the rows");
        block.nth(nth).expect("as many ids as rows that take one")
    }

    fn all_taken(&self, prepared: &PreparedInsert) {
        assert!(self.ours.iter().all(|row| self.seen.contains(row)), "a row without its id");
        let wraps = matches!(prepared.text.style, Style::Wrapped | Style::OdkuOne);
        let ids = self.block.map_or(0, IdBlock::count);
        // Behind a wrapper rows count up by themselves.
        assert!(wraps || ids == self.seen.len() as u64, "ids and rows");
    }
}
