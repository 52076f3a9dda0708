//! The plan of a packet: what it needs before it can go to the server.

pub mod edit;
pub mod effects;
pub mod prepared_names;
pub mod stage;
pub mod target;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::mysql::error;
use crate::rewrite::plan::edit::{Edit, Style};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::stage::Stage;
use crate::rewrite::plan::target::Target;
use crate::rules::model::InsertId;
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::statement::moves::IdNames;
use crate::table_name::TableName;

pub use crate::mysql::error::PREFIX;

/// The meaning of a name to the rules.
#[derive(Debug, Clone)]
pub enum Lookup {
    NotRuled,
    Ruled(Arc<Target>),
    /// Ruled, but the backend has no such table: it is asked to say so itself.
    Missing,
    /// Not known yet: the caller fetches it and plans again.
    Unknown,
    /// Ruled in a way that cannot be served: why, and what to write instead, without the prefix.
    Refused(String),
    /// Ruled, and not to be served just now: why (error 1467).
    Away(String),
    /// A temporary table of the session may hide it: the caller asks the server and plans again.
    PerhapsHidden,
    /// Like `Refused`, but the server may have an error of its own for it, which goes first.
    ServerFirst(String),
}

/// The session as the packet finds it.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    pub dialect: &'a Dialect,
    /// CLIENT_MULTI_STATEMENTS or COM_SET_OPTION.
    pub multi_statements: bool,
    pub default_schema: Option<&'a str>,
    /// The client may have set `insert_id`, which an INSERT uses up.
    pub insert_id_is_set: bool,
    /// Tables whose ids the account may not update, and so not tell by `id=LAST_INSERT_ID(id)`.
    pub cannot_update: &'a [TableName],
    /// True if there is any rule at all: without one nothing is ever refused.
    pub any_rules: bool,
    /// The lookup by schema and table, as the statement spells them. The callee decides about letter case.
    pub tables: &'a (dyn Fn(&str, &str) -> Lookup + Sync),
    pub id_names: &'a dyn IdNames,
    /// True if a temporary table of this session hides that name.
    pub hidden: &'a (dyn Fn(&str, &str) -> bool + Sync),
    /// Statements that PREPARE named, and values that the server was asked for.
    pub session: &'a (dyn prepared_names::SessionFacts + Sync),
}

impl<'a> PlanContext<'a> {
    /// One statement of a session that has done nothing yet, where there are rules.
    pub fn fresh(
        dialect: &'a Dialect,
        default_schema: Option<&'a str>,
        tables: &'a (dyn Fn(&str, &str) -> Lookup + Sync),
    ) -> Self {
        PlanContext {
            dialect,
            multi_statements: false,
            default_schema,
            insert_id_is_set: false,
            cannot_update: &[],
            any_rules: true,
            tables,
            id_names: &(),
            hidden: &|_, _| false,
            session: &prepared_names::Fresh,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// COM_QUERY
    Text,
    /// COM_STMT_PREPARE
    Prepare,
}

#[derive(Debug)]
pub enum Planned {
    /// Goes on as it came.
    Untouched(Effects),
    /// The caller finds this out and plans again.
    Needs(PlanNeed),
    /// The text goes to the server in two packets. What begins at this byte of the text is planned once
    /// what stands before it is answered.
    Cut(usize),
    /// The text does not fit the table's columns as cached: refresh them once and plan again; after
    /// that, as [`Planned::Unreadable`].
    Stale {
        table: TableName,
        unreadable: Unreadable,
    },
    Refused(PlanRefusal),
    /// [`Lookup::Away`]: there is no id for it now.
    Away(String),
    /// The server's COM_STMT_PREPARE is asked; its error goes back as it is, and if it has none,
    /// the refusal.
    Unreadable(Unreadable),
    /// The server's error packet to what it was asked: the statement fails with it.
    Fails(Vec<u8>),
    Rewrite(Plan),
}

/// A fact without which a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanNeed {
    /// The columns of this table ([`Lookup::Unknown`]).
    Table(TableName),
    /// The answer whether the session has a temporary table of this name ([`Lookup::PerhapsHidden`]); the
    /// server is asked on the session.
    Temporary(TableName),
    /// The server's answer to this query ([`prepared_names::SessionFacts::value`]).
    Value { question: Vec<u8> },
    /// The session's settings ([`prepared_names::SessionFacts::collation`]).
    Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Bytes of the packet's text that are the statement.
    pub statement: Range<usize>,
    /// The text of a PREPARE or EXECUTE IMMEDIATE, where that text is unreadable: the server is shown it alone.
    pub inner: Option<Vec<u8>>,
    /// The answer to the client, if the server can prepare it.
    pub refusal: PlanRefusal,
}

/// The plan of a packet that cannot go on as it came.
#[derive(Debug)]
pub struct Plan {
    /// Expressions that the server has evaluated already, as edits before all INSERTs. Evaluated a
    /// second time, they may give another value.
    pub(super) settled: Vec<Edit>,
    /// In the order of the text.
    pub inserts: Vec<InsertPlan>,
    pub effects: Effects,
}

/// One ruled INSERT or REPLACE.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
pub struct InsertPlan {
    /// Counted from 0 within the packet; the n-th statement's OK packet is the n-th of the
    /// response.
    pub statement: usize,
    pub target: Arc<Target>,
    /// The number of ids to take; 0 where the client wrote all of them itself, or decides at execution.
    pub ids: u32,
    pub rows: u32,
    /// Integers that the client wrote itself, in the order of the rows, for the rule's `explicit`.
    /// Values without a known integer (strings of a string column) are left out.
    pub explicit: Vec<i128>,
    pub last: LastId,
    pub updated_ids: UpdatedIds,
    pub style: Style,
    pub new_rows: NewRows,
    /// REPLACE: a row that is in the way is deleted.
    pub replaces: bool,
    /// The statement has the client's own `LAST_INSERT_ID(x)`. Where no id is generated, OK packet and
    /// function stay as the server has them.
    pub sets_last_id: bool,
    /// True if zero was a value (NO_AUTO_VALUE_ON_ZERO) when the meaning of its constants was
    /// decided; `None`: none of them is zero or DEFAULT. The server decides at each execution.
    pub zero_meant: Option<bool>,
    /// The strict modes under which the server refuses one of its values, which would become zero
    /// without them; `None`: there is no such value.
    pub strict_meant: Option<SqlMode>,
    /// Why one execution cannot have several sets of parameters (MariaDB's bulk); `None`: it can.
    pub one_set_only: Option<&'static str>,
    /// The statement names no columns: its values are for the table's columns, in their order.
    pub lists_none: bool,
    /// The answer is a result set, whose end has neither affected rows nor an id.
    pub returning: bool,
    /// INSERT ... SELECT: how many ids it takes shows when it runs.
    pub stage: Option<Box<Stage>>,
    pub(super) edits: Vec<Edit>,
    /// The client's `?` in the whole statement.
    pub(super) params: u32,
    pub(super) id_params: Vec<IdParam>,
    /// The ids go into user variables, the first of which has this number: [`Plan::variables`].
    pub(super) first_variable: Option<u32>,
    /// PREPARE: ids are taken when it is executed.
    pub is_named: bool,
    /// EXECUTE or EXECUTE IMMEDIATE: the server has another text of it, or is given the text of an expression's value.
    pub is_executed: bool,
}

/// The id of a statement's last row. Where no id is generated, the server reports that one, if the
/// column is AUTO_INCREMENT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastId {
    /// One of ours.
    Generated,
    Written(i128),
    /// The value that is bound to this `?` of the client's.
    Param(u16),
    /// No integer, or one of a query's.
    Unknown,
}

/// The effect of ON DUPLICATE KEY UPDATE on the ids of rows that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatedIds {
    /// The ids stay: there is no ON DUPLICATE KEY UPDATE, or it assigns no other id.
    Stay,
    /// An id of ours in the table no longer means a new row.
    Move,
}

/// Which rows of the statement become new ones, where it does not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewRows {
    All,
    /// IGNORE: some may be left out.
    SomeIgnored,
    /// ON DUPLICATE KEY UPDATE, with or without IGNORE: old rows may be updated in their place.
    SomeUpdated,
}

/// Why ON DUPLICATE KEY UPDATE of several rows cannot assign the id: which of the rows that then bear
/// an id of ours are new, nothing would tell.
pub(super) fn moves_ids(column: &str) -> String {
    format!(
        "ON DUPLICATE KEY UPDATE of several rows assigns {column}, and Rowstamp cannot tell new rows from old ones; leave \
         {column} out of its list, or insert the rows one by one"
    )
}

impl InsertPlan {
    /// True if its text must be changed: it need not where the client wrote every id itself.
    pub fn has_edits(&self) -> bool {
        !self.edits.is_empty()
    }

    /// True if an id that is in the table causes no error: the row is left out, or the other is deleted or updated.
    pub fn hides_collisions(&self) -> bool {
        self.replaces || self.new_rows != NewRows::All
    }

    /// True if it takes ids, or may take some when it is executed. PREPARE takes none.
    pub fn may_take_ids(&self) -> bool {
        !self.is_named && (self.ids > 0 || !self.id_params.is_empty() || self.stage.is_some())
    }

    /// True if an execution of it, whose last row ends up with `last`, needs its OK packet to report that id. The
    /// server itself reports the id of an AUTO_INCREMENT column.
    pub fn tells_written(&self, last: LastId) -> bool {
        let is_told_anyway = || self.target.keeps_auto_increment();
        matches!(last, LastId::Written(_)) && !self.is_named && !is_told_anyway()
    }

    /// True if it reports the updated row by an assignment of its id, which the client does not ask for.
    pub fn updates_id(&self) -> bool {
        matches!(self.style, Style::OdkuOne | Style::OdkuLiteral) && !self.sets_last_id
    }

    /// Why it cannot be run with so many rows and ids, if so.
    pub fn too_many_rows(&self, rows: u32, ids: u32) -> Option<String> {
        (self.updated_ids == UpdatedIds::Move && rows > 1 && ids > 0)
            .then(|| moves_ids(self.target.id_column()))
    }

    /// True if `LAST_INSERT_ID()` shows its id only once its answer has been seen.
    pub(super) fn owes_insert_id(&self) -> bool {
        let sets_itself = matches!(self.style, Style::Wrapped | Style::OdkuOne);
        self.ids > 0 && !sets_itself && self.target.rule.insert_id == InsertId::Session
    }

    /// True if both send the same text, and mean the same by it.
    pub(super) fn writes_as(&self, other: &InsertPlan) -> bool {
        self.ids == other.ids
            && self.style == other.style
            && self.explicit == other.explicit
            && self.edits == other.edits
            && self.id_params == other.id_params
            && self.stage == other.stage
    }
}

impl Plan {
    /// The INSERT ... SELECT, which is the packet's only statement then.
    pub fn staged(&self) -> Option<(&InsertPlan, &Stage)> {
        self.inserts.iter().find_map(|insert| Some((insert, insert.stage.as_deref()?)))
    }

    /// True if the server may number the rows as `insert_id` says: the packet is a single INSERT that runs as it is
    /// written. An INSERT of a query goes by way of a stage, which shows its highest id, unless rows may be left out.
    pub fn may_pass(&self) -> bool {
        let [insert] = &*self.inserts else { return false };
        let is_written = match &insert.stage {
            None => !insert.is_named && !insert.is_executed,
            Some(stage) => stage.named.is_none() && insert.new_rows != NewRows::All,
        };
        self.settled.is_empty() && is_written && insert.target.keeps_auto_increment()
    }

    /// True if the text must be changed at all: it need not where the client wrote every id itself.
    pub fn has_edits(&self) -> bool {
        !self.settled.is_empty() || self.inserts.iter().any(InsertPlan::has_edits)
    }

    /// The blocks that [`Plan::splice`] takes, and their lengths: one for each insert with `ids > 0`, in
    /// order.
    pub fn demands(&self) -> impl Iterator<Item = (&InsertPlan, u32)> {
        self.inserts.iter().filter(|insert| insert.ids > 0).map(|insert| (insert, insert.ids))
    }
}

/// Error 1235 (42000). Displays as "rowstamp: why; what to write instead".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRefusal(String);

impl PlanRefusal {
    /// "why; what to write instead". Never holds literals of the statement.
    pub fn new(why: impl Into<String>) -> Self {
        PlanRefusal(why.into())
    }
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl From<PlanRefusal> for error::Refusal {
    fn from(refusal: PlanRefusal) -> Self {
        error::Refusal::Statement(refusal.0)
    }
}

/// More placeholders the protocol cannot count.
pub const PARAMS_MAX: usize = 65_535;

/// The text that goes to the server in COM_STMT_PREPARE, and what its executions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedText {
    pub text: Vec<u8>,
    /// Our own parameters, ascending by index. Wrapped styles have one, for the first generated
    /// row; literals are one for each. Empty where the client wrote every id, or decides at
    /// execution.
    pub ours: Vec<OurParam>,
    /// The client's own parameters; the server counts these and ours.
    pub client_params: u16,
    /// The client's parameters that stand at the id's place, one a row at most, ascending.
    /// Each that is bound to NULL or to zero takes an id at execution.
    pub id_params: Vec<IdParam>,
    /// Ids that every execution takes.
    pub fixed_ids: u32,
    pub style: Style,
}

/// A parameter of ours among the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OurParam {
    /// Among the server's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0: ids ascend with the rows that take one.
    pub row: u32,
    /// The parameter is the whole value of the id's column, whose type the server expects then.
    pub is_whole: bool,
}

/// A parameter of the client's at the id's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdParam {
    /// Among the client's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0.
    pub row: u32,
}
