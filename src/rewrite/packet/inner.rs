//! A statement within a statement: what it comes to, and where its ids go.

use std::borrow::Cow;
use std::fmt::Display;

use super::{Halt, StatementPlace, Walk, refused};
use crate::rewrite::packet::hiding::Hidden;
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::{Database, Value, question};
use crate::rewrite::plan::{InsertPlan, PlanContext, PlanNeed, Planned, PreparedText, Protocol, Unreadable};
use crate::sql::dialect::Dialect;
use crate::sql::lex::{Lexer, Span};
use crate::sql::statement::dynamic::Literal;
use crate::table_name::TableName;

/// The changes that a text makes when it runs.
pub(super) struct Ran {
    pub(super) effects: Effects,
    pub(super) overlay: Vec<(TableName, Hidden)>,
    pub(super) views: Vec<TableName>,
}

/// The result of planning a text within a statement.
pub(super) enum Inner {
    /// The text passes, and does this when it runs.
    Passes(Box<Ran>),
    Fills(Box<InsertPlan>),
}

/// A text within a statement, read.
pub(super) struct Text<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) place: TextPlace<'a>,
}

pub(super) enum TextPlace<'a> {
    Literal(&'a Literal),
    /// The server evaluated this expression. Where the text must change, a string takes its place.
    Evaluated(Span),
}

impl Walk<'_> {
    /// The value of a user's variable or a plain expression; the server is asked.
    pub(super) fn value(&self, lexer: &Lexer<'_>, span: Span, place: StatementPlace) -> Result<Value, Halt> {
        self.ask(lexer, span, place, question)
    }

    pub(super) fn ask(
        &self,
        lexer: &Lexer<'_>,
        span: Span,
        place: StatementPlace,
        question: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<Value, Halt> {
        if place.nth > 0 {
            let name = span.of(lexer.text()).to_ascii_lowercase();
            if let Some((_, text)) = self.assigned.iter().rev().find(|(assigned, _)| *assigned == name) {
                return Ok(Value::Text(text.clone()));
            }
            return self.cut(
                "PREPARE or EXECUTE reads a user's variable after another statement of the packet; send PREPARE or EXECUTE \
                 separately",
            );
        }
        let question = question(span.of(lexer.text()));
        match self.context.session.value(&question) {
            Value::NotAsked => Err(Box::new(Planned::Needs(PlanNeed::Value { question }))),
            value => Ok(value),
        }
    }

    /// Plans a text as if it were prepared by itself.
    pub(super) fn inner(
        &self,
        text: &[u8],
        dialect: Dialect,
        database: &Database,
        place: StatementPlace,
    ) -> Result<Inner, Halt> {
        let Some(mut lexer) = Lexer::new(text, dialect) else {
            return refused("the text has 4 GiB or more; send less");
        };
        let context = PlanContext { dialect: &dialect, ..*self.context };
        let mut walk = Walk {
            schema: match database {
                Database::Is(schema) => Some(Cow::Borrowed(schema)),
                Database::None | Database::Unknown => None,
            },
            schema_is_known: *database != Database::Unknown,
            overlay: self.overlay.clone(),
            views: self.views.clone(),
            effects: Effects {
                ddl: self.effects.ddl,
                moves_ids: self.effects.moves_ids,
                opaque: self.effects.opaque,
                ..Effects::default()
            },
            ..Walk::new(text, &context, Protocol::Prepare)
        };
        walk.statement(&mut lexer, place.nth).map_err(|halt| Box::new(self.outside(*halt, text, place)))?;
        Ok(match walk.inserts.pop() {
            Some(insert) => Inner::Fills(Box::new(insert)),
            None => Inner::Passes(Box::new(Ran {
                effects: walk.effects,
                overlay: walk.overlay,
                views: walk.views,
            })),
        })
    }

    /// The result that ended the plan of a text, as it concerns the packet.
    fn outside(&self, planned: Planned, text: &[u8], place: StatementPlace) -> Planned {
        let (unreadable, stale) = match planned {
            Planned::Unreadable(unreadable) => (unreadable, None),
            Planned::Stale { table, unreadable } => (unreadable, Some(table)),
            other => return other,
        };
        let Planned::Unreadable(outer) = self.unreadable(place.start, "") else {
            return Planned::Refused(unreadable.refusal);
        };
        let inner = Some(unreadable.inner.unwrap_or_else(|| text.to_vec()));
        let unreadable = Unreadable { statement: outer.statement, inner, refusal: unreadable.refusal };
        match stale {
            Some(table) => Planned::Stale { table, unreadable },
            None => Planned::Unreadable(unreadable),
        }
    }

    /// Notes what a text that passes does when it runs. Session tracking reports the session's state after it.
    pub(super) fn runs(&mut self, ran: Ran) {
        let Effects {
            ddl,
            moves_ids,
            opaque,
            schema,
            sql_mode,
            charset,
            tracking,
            insert_id,
            temporary,
            routine,
            prepared_names: _,
            explains_report: _,
            hidden_insert: _,
            inserts_into: _,
            natively: _,
        } = ran.effects;
        self.effects.opaque |= opaque || schema.is_some() || sql_mode.is_some() || charset.is_some();
        self.effects.ddl |= ddl;
        self.effects.moves_ids |= moves_ids;
        self.effects.tracking |= tracking;
        self.effects.insert_id |= insert_id;
        self.effects.routine |= routine;
        self.effects.temporary.extend(temporary);
        self.overlay = ran.overlay;
        self.views = ran.views;
    }
}

/// Refuses a prefix around an EXECUTE that may change what its INSERT stores.
pub(super) fn check_around(insert: &InsertPlan, place: StatementPlace) -> Result<(), Halt> {
    if place.around.settings.ids && (insert.ids > 0 || !insert.id_params.is_empty() || insert.stage.is_some())
    {
        return refused(insert.target.at(
            "SET STATEMENT sets a variable that decides which ids the server generates (insert_id, auto_increment_increment, ...); \
             write the id itself, or leave the variable out",
        ));
    }
    Ok(())
}

/// Why EXECUTE cannot bind more parameters than its statement has: the server has more.
pub(super) fn too_many_params(params: impl Display) -> String {
    format!("EXECUTE binds more parameters than its statement has ({params}); leave the surplus out")
}

/// The plan's text as it is prepared.
pub(super) fn prepared(insert: &InsertPlan, text: &[u8]) -> Result<PreparedText, Halt> {
    insert.prepare(text).map_err(|refusal| Box::new(Planned::Refused(refusal)))
}

/// Rows that take an id: ids ascend with them.
pub(super) struct Order(Vec<u32>);

impl Order {
    pub(super) fn new(rows: impl Iterator<Item = u32>, taking: &[(u32, Span)]) -> Order {
        let mut rows: Vec<u32> = rows.chain(taking.iter().map(|&(row, _)| row)).collect();
        rows.sort_unstable();
        Order(rows)
    }

    /// Which of the statement's ids is this row's.
    pub(super) fn nth(&self, row: u32) -> u32 {
        u32::try_from(self.0.partition_point(|&other| other < row)).unwrap_or(u32::MAX)
    }
}

/// Ids in place of the client's parameters.
pub(super) fn taken_edits(taking: &[(u32, Span)], order: &Order) -> Vec<Edit> {
    let edit = |&(row, arg): &(u32, Span)| {
        let piece = Piece::Id(Id { nth: order.nth(row), row, comma: false, form: IdForm::Literal });
        Edit::over(arg, piece)
    };
    taking.iter().map(edit).collect()
}
