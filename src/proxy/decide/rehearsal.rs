//! Statements into tables in shadow mode. They pass as those of any table without a rule do. They
//! are also planned a second time, with the table ruled, and what would have become of them is
//! counted. Nothing here can wait, ask, fail or change what is sent.

use parking_lot::Mutex;

use crate::mysql::command::Command;
use crate::proxy::decide::Basis;
use crate::proxy::decide::params::{Params, meaning, not_staged_in_bulk, too_many_sets};
use crate::proxy::known::Known;
use crate::proxy::known::sql_prepared::SqlPrepared;
use crate::proxy::known::statements::Kept;
use crate::proxy::known::temporary::Hidden;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::{self, Value};
use crate::rewrite::plan::{self, InsertPlan, Lookup, Plan, PlanNeed, Planned, Protocol};
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::{bulk, execution, planner};
use crate::sql::dialect::Dialect;
use crate::sql::digest::{Digest, digest};
use crate::table_name::TableName;
use crate::tables::Tables;
use crate::tables::shadow::counts::Outcome;

/// The statements that SQL's PREPARE would have sent, and the server's answers to the session.
struct RehearsedSession<'a> {
    prepared: &'a SqlPrepared,
    session: &'a SqlPrepared,
}

impl prepared_names::SessionFacts for RehearsedSession<'_> {
    fn prepared(&self, name: &str) -> prepared_names::NameMeaning {
        self.prepared.prepared(name)
    }

    fn value(&self, question: &[u8]) -> Value {
        self.session.value(question)
    }
}

/// The plan of a statement that goes to the server as it came: only its outcome is counted.
struct Rehearsed {
    planned: Planned,
    /// Tables in shadow mode that it looked at, in this order.
    tables: Vec<LookedAt>,
    /// True if the server would first be asked whether a temporary table hides one of them.
    asks: bool,
    /// The last table with a rule that it looked at is on: what stopped the plan there is not shadow mode's to count.
    ends_at_active: bool,
}

/// A table in shadow mode.
struct LookedAt {
    /// The table's name in the statement: maybe a view's.
    named: TableName,
    table: TableName,
}

/// Counts what would become of a statement that continues. Returns the effects that it would have on later ones.
pub(crate) fn rehearse(known: &Known, by: Basis<'_>, text: &[u8]) -> Option<Effects> {
    let tables = by.tables;
    let state = known.session.state().filter(|_| tables.rehearses())?;
    let protocol = if by.command == Command::Query { Protocol::Text } else { Protocol::Prepare };
    let rehearsed = rehearsed(known, by, text, (&state.dialect, state.database.as_deref()), protocol);
    let digest = || digest(text, &state.dialect);
    let count = |name: (&str, &str), outcome| {
        tables.count_shadow(Some(name), &outcome, rehearsed.asks, &digest);
    };
    match &rehearsed.planned {
        Planned::Rewrite(plan) => {
            // A statement that SQL's PREPARE names is counted when it is executed.
            for insert in plan.inserts.iter().filter(|insert| !insert.is_named) {
                let Some(name) = rehearsed.table_of(insert) else { continue };
                if protocol == Protocol::Text {
                    count(name, outcome_of(insert));
                } else if let Err(why) = plan.prepare(text) {
                    count(name, Outcome::Refused(why.to_string()));
                }
            }
        }
        Planned::Untouched(effects) if protocol == Protocol::Text && effects.prepared_names.is_empty() => {
            for looked_at in &rehearsed.tables {
                count(parts(&looked_at.table), Outcome::Passed);
            }
        }
        Planned::Untouched(_) => {}
        &Planned::Cut(at) => {
            let (first, later) = text.split_at_checked(at).filter(|(first, _)| !first.is_empty())?;
            let before = rehearse(known, by, first);
            return rehearse(known, by, later).or(before);
        }
        planned => rehearsed.count_stopped(tables, planned, &digest),
    }
    match rehearsed.planned {
        Planned::Untouched(effects) | Planned::Rewrite(Plan { effects, .. }) => Some(effects),
        _ => None,
    }
}

/// A statement that is too long to be read passes where no rule concerns its table, and would not with one.
pub(crate) fn rehearse_too_long(known: &Known, by: Basis<'_>, beginning: &[u8]) {
    let tables = by.tables;
    let Some(state) = known.session.state().filter(|_| tables.rehearses()) else { return };
    let read_in = (&state.dialect, state.database.as_deref());
    let rehearsed = rehearsed(known, by, beginning, read_in, Protocol::Text);
    let Some(name) = rehearsed.tables.first().map(|first| parts(&first.table)) else { return };
    let why =
        "the statement is longer than limits.statement_bytes; raise the limit, or send fewer rows at a time";
    let nothing = || Digest { text: String::new(), hash: "too-long".to_owned() };
    let outcome = Outcome::Refused(why.to_owned());
    tables.count_shadow(Some(name), &outcome, false, &nothing);
}

/// Counts what would become of an execution of an INSERT that the server has as it came.
pub(crate) fn rehearse_execution(known: &Known, by: Basis<'_>, kept: &Kept, params: &Params<'_>) {
    // The INSERT passed while no rule named its table; a rule has come since.
    if known.session.is_untouched() {
        return;
    }
    let tables = by.tables;
    let source = &kept.source;
    let Some(name) =
        tables.shadowed(&source.table.schema, &source.table.table).filter(|_| !tables.is_retired())
    else {
        return;
    };
    let name = Some(parts(&name));
    let Some(text) = &source.text else {
        let nothing = || Digest { text: String::new(), hash: "not-kept".to_owned() };
        let outcome = Outcome::Unknown("the statement's text");
        return tables.count_shadow(name, &outcome, false, &nothing);
    };
    let read_in = (&source.dialect, source.database.as_deref());
    let rehearsed = rehearsed(known, by, text, read_in, Protocol::Prepare);
    let digest = || digest(text, &source.dialect);
    let asks = rehearsed.asks;
    let outcome = match rehearsed.planned {
        Planned::Rewrite(plan) => {
            match plan.prepare(text).map(|text| (plan.inserts.into_iter().next(), text)) {
                Ok((Some(insert), text)) => execution_of(known, &PreparedInsert { insert, text }, params),
                Ok((None, _)) => Outcome::Passed,
                Err(why) => Outcome::Refused(why.to_string()),
            }
        }
        Planned::Untouched(_) => Outcome::Passed,
        ref planned => return rehearsed.count_stopped(tables, planned, &digest),
    };
    tables.count_shadow(name, &outcome, asks, &digest);
}

fn execution_of(known: &Known, prepared: &PreparedInsert, params: &Params<'_>) -> Outcome {
    let is_staged = prepared.insert.stage.is_some();
    let meaning = match meaning(known, prepared) {
        Ok(meaning) => meaning,
        Err(why) => return Outcome::Refused(why.to_string()),
    };
    let ids = match params {
        Params::One(_) if is_staged => return Outcome::Rewritten { ids: 0 },
        Params::Bulk(bulk) if is_staged => {
            return match not_staged_in_bulk(&prepared.insert, bulk) {
                Ok(None) => Outcome::Rewritten { ids: 0 },
                Ok(Some(why)) => Outcome::Refused(why),
                Err(why) => Outcome::Refused(why.to_string()),
            };
        }
        Params::One(execute) => {
            execution::ExecutionDraft::new(prepared, execute, meaning).map(|draft| draft.ids)
        }
        Params::Bulk(bulk) => match bulk::BulkDraft::new(prepared, bulk, meaning) {
            Ok(draft) => match too_many_sets(&prepared.insert, draft.sets) {
                Some(why) => return Outcome::Refused(why),
                None => Ok(draft.ids().unwrap_or(u32::MAX)),
            },
            Err(why) => Err(why),
        },
    };
    match ids {
        Ok(0) => Outcome::Passed,
        Ok(ids) => Outcome::Rewritten { ids: ids.into() },
        Err(why) => Outcome::Refused(why.to_string()),
    }
}

fn rehearsed(
    known: &Known,
    by: Basis<'_>,
    text: &[u8],
    (dialect, database): (&Dialect, Option<&str>),
    protocol: Protocol,
) -> Rehearsed {
    let session = &known.session;
    let looked_at = Mutex::new((Vec::new(), false, false));
    let lookup = |schema: &str, table: &str| {
        let rehearsed = by.tables.rehearsed(schema, table, (by.clock)());
        let mut looked_at = looked_at.lock();
        let shadowed = by.tables.shadowed(schema, table);
        if shadowed.is_some() || !matches!(rehearsed, Lookup::NotRuled) {
            looked_at.2 = shadowed.is_none();
        }
        if let Some(found) = shadowed {
            looked_at.0.push(LookedAt { named: TableName::new(schema, table), table: found });
            // Counted as if it hid nothing, which is what the server would say of most.
            looked_at.1 |= session.temporary.hidden(schema, table) == Hidden::Unsure;
        }
        rehearsed
    };
    let rehearsed =
        RehearsedSession { prepared: &session.rehearsed_prepared, session: &session.sql_prepared };
    let planned = planner::plan(
        text,
        &plan::PlanContext {
            multi_statements: session.multi_statements && protocol == Protocol::Text,
            hidden: &|schema, table| session.temporary.hidden(schema, table) == Hidden::Yes,
            session: &rehearsed,
            ..plan::PlanContext::fresh(dialect, database, &lookup)
        },
        protocol,
    );
    let (tables, asks, ends_at_active) = looked_at.into_inner();
    Rehearsed { planned, tables, asks, ends_at_active }
}

impl Rehearsed {
    /// The table in shadow mode that the INSERT goes into.
    fn table_of(&self, insert: &InsertPlan) -> Option<(&str, &str)> {
        let (schema, table) = insert.target.named();
        let is_it = |looked_at: &&LookedAt| {
            let named = &looked_at.named;
            named.schema.eq_ignore_ascii_case(schema) && named.table.eq_ignore_ascii_case(table)
        };
        self.tables.iter().find(is_it).map(|looked_at| parts(&looked_at.table))
    }

    /// Counts a plan of its own that came to no end.
    fn count_stopped(&self, tables: &Tables, planned: &Planned, digest: &dyn Fn() -> Digest) {
        let last = self.tables.last().map(|last| parts(&last.table));
        let mut asks = self.asks;
        let (name, outcome) = match planned {
            // The statement went to the server as it came, by rewrite.on_doubt.
            Planned::Refused(_) | Planned::Unreadable(_) | Planned::Stale { .. } if self.ends_at_active => {
                return;
            }
            Planned::Refused(why) => (last, Outcome::Refused(why.to_string())),
            Planned::Unreadable(why) | Planned::Stale { unreadable: why, .. } => {
                (last, Outcome::ServerFirst(why.refusal.to_string()))
            }
            Planned::Needs(PlanNeed::Table(name)) => {
                (Some(parts(name)), Outcome::Unknown("the table's columns"))
            }
            Planned::Needs(PlanNeed::Value { .. }) => {
                asks = true;
                (None, Outcome::Unknown("a text in a user's variable"))
            }
            // Only tables with rules that are on can be away or asked about, and then the statement
            // does not go on. Settings are taken to be the same.
            Planned::Away(_)
            | Planned::Fails(_)
            | Planned::Needs(PlanNeed::Temporary(_) | PlanNeed::Settings)
            | Planned::Untouched(_)
            | Planned::Cut(_)
            | Planned::Rewrite(_) => return,
        };
        tables.count_shadow(name, &outcome, asks, digest);
    }
}

fn parts(name: &TableName) -> (&str, &str) {
    (&name.schema, &name.table)
}

fn outcome_of(insert: &InsertPlan) -> Outcome {
    match insert.stage {
        Some(_) => Outcome::Rewritten { ids: 0 },
        None if insert.ids == 0 && !insert.has_edits() => Outcome::Passed,
        None => Outcome::Rewritten { ids: insert.ids.into() },
    }
}
