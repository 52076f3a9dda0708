//! What a packet needs before it can go to the server.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::effects::Effects;
use super::packet;
use super::prepare::PreparedText;
use super::select::SelectPlan;
use crate::ids::range::block::{IdBlock, Spacing};
use crate::rules::model::{InsertId, Rule, TableShape};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};

/// A ruled table as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub rule: Arc<Rule>,
    /// The table's own name: the rule's may be a pattern. Its schema is the rule's.
    pub table: String,
    /// `None`: there is no control account to read it with.
    pub shape: Option<Arc<TableShape>>,
    /// How the ids of one statement lie.
    pub spacing: Spacing,
    /// The statement names a view of the table; `shape` is the view's then.
    pub view: Option<Through>,
}

/// A view through which rows go into a ruled table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub schema: String,
    pub name: String,
    /// What it calls the id's column.
    pub column: String,
}

impl Target {
    /// What the statement calls the id's column.
    pub fn id_column(&self) -> &str {
        self.view.as_ref().map_or(&self.rule.column, |view| &view.column)
    }

    /// Schema and name that the statement goes by: the view's, where it names one.
    pub fn named(&self) -> (&str, &str) {
        match &self.view {
            Some(view) => (&view.schema, &view.name),
            None => (&self.rule.schema, &self.table),
        }
    }
}

/// What a name means to the rules.
#[derive(Debug, Clone)]
pub enum Lookup {
    NotRuled,
    Ruled(Arc<Target>),
    /// Ruled, but the backend has no such table: it is asked to say so itself.
    Missing,
    /// Not known yet: the caller fetches it and plans again.
    Unknown,
    /// Ruled in a way that cannot be served: why, and what to write instead, without "rowstamp: ".
    Refused(String),
    /// Ruled, and not to be served just now: why (error 1467).
    Away(String),
    /// A temporary table of the session may hide it: the caller asks the server and plans again.
    PerhapsHidden,
    /// As `Refused`, but the server may have an error of its own for it, which goes first.
    ServerFirst(String),
}

/// The session as the packet finds it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub dialect: &'a Dialect,
    /// CLIENT_MULTI_STATEMENTS or COM_SET_OPTION.
    pub multi_statements: bool,
    pub default_schema: Option<&'a str>,
    /// Whether there is any rule at all: without one nothing is ever refused.
    pub any_rules: bool,
    /// By schema and table, as the statement spells them; letter case is the callee's business.
    pub tables: &'a (dyn Fn(&str, &str) -> Lookup + Sync),
    /// Whether a temporary table of this session hides that name.
    pub hidden: &'a (dyn Fn(&str, &str) -> bool + Sync),
    /// Statements that PREPARE named, and values that the server was asked for.
    pub session: &'a (dyn super::named::Session + Sync),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// COM_QUERY
    Text,
    /// COM_STMT_PREPARE
    Prepare,
}

/// Error 1235 (42000). Displays as "rowstamp: why; what to write instead".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// "why; what to write instead". Never holds literals of the statement.
    pub fn new(why: impl Into<String>) -> Self {
        Refusal(why.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rowstamp: {}", self.0)
    }
}

#[derive(Debug)]
pub enum Planned {
    /// Goes on as it came.
    Untouched(Effects),
    /// The caller finds this out and plans again.
    Needs(Need),
    /// The text does not fit the table's columns as cached: refresh them once and plan again; after that, as
    /// [`Planned::Unreadable`].
    Stale {
        schema: String,
        table: String,
        unreadable: Unreadable,
    },
    Refused(Refusal),
    /// [`Lookup::Away`]: there is no id for it now.
    Away(String),
    /// The server's COM_STMT_PREPARE is asked; its error goes back as it is, and if it has none, the refusal.
    Unreadable(Unreadable),
    /// The server's error packet to what it was asked: the statement fails with it.
    Fails(Vec<u8>),
    Rewrite(Plan),
}

/// What a plan cannot be made without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The columns of this table ([`Lookup::Unknown`]).
    Table { schema: String, table: String },
    /// Whether the session has a temporary table of this name ([`Lookup::PerhapsHidden`]); the server is asked on the session.
    Temporary { schema: String, table: String },
    /// The server's answer to this query ([`super::named::Session::value`]).
    Value { question: Vec<u8> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Bytes of the packet's text that are the statement.
    pub statement: Range<usize>,
    /// What is shown to the server in their place: a text within the statement.
    pub inner: Option<Vec<u8>>,
    /// What to answer where the server can prepare it.
    pub refusal: Refusal,
}

/// How the ids are written, and so what the OK packet and LAST_INSERT_ID() hold afterwards (ARCHITECTURE.md, "The insert id").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `LAST_INSERT_ID(first)` in the first generated row: OK packet and function are right.
    Wrapped,
    /// Literals: the OK packet is to be patched, and `last_insert_id` set later.
    Literal,
    /// ON DUPLICATE KEY UPDATE of one row, wrapped, with `id=LAST_INSERT_ID(id)` in its list: 1 affected row is the
    /// inserted one, 2 mean that the OK packet has the updated row's id; otherwise send 0.
    OdkuOne,
    /// The same with a literal in place of the wrapper, where that would show or where rows may be ignored:
    /// `last_insert_id` is set later, where the row was inserted.
    OdkuLiteral,
    /// ON DUPLICATE KEY UPDATE of one row into an AUTO_INCREMENT column: a literal, and the OK packet is native.
    OdkuNative,
}

/// What a packet needs that cannot go on as it came.
#[derive(Debug)]
pub struct Plan {
    /// What the server has evaluated already, before all INSERTs: a second time it may come out otherwise.
    pub(super) settled: Vec<Edit>,
    /// In the order of the text.
    pub inserts: Vec<InsertPlan>,
    pub effects: Effects,
}

/// One ruled INSERT or REPLACE.
#[derive(Debug)]
pub struct InsertPlan {
    /// Counted from 0 within the packet; the n-th statement's OK packet is the n-th of the response.
    pub statement: usize,
    pub target: Arc<Target>,
    /// How many ids to take; 0 where the client wrote all of them itself, or decides at execution.
    pub ids: u32,
    pub rows: u32,
    /// Integers that the client wrote itself, in the order of the rows, for the rule's `explicit`. Values without a
    /// known integer (strings of a string column) are left out.
    pub explicit: Vec<i128>,
    pub style: Style,
    pub new_rows: NewRows,
    /// The client's own `LAST_INSERT_ID(x)` is in it: where no id is generated, OK packet and function are the server's.
    pub sets_last_id: bool,
    /// Whether zero was a value (NO_AUTO_VALUE_ON_ZERO) when the meaning of its constants was decided; `None`: none of them
    /// is zero or DEFAULT. The server decides at each execution.
    pub zero_meant: Option<bool>,
    /// What of sql_mode made a value the server's to refuse, which without that would become zero; `None`: there is none.
    pub strict_meant: Option<SqlMode>,
    /// Why several sets of parameters in one execution would not do as single ones do.
    pub one_set_only: Option<&'static str>,
    /// Answers with a result set, whose end tells neither affected rows nor an id.
    pub returning: bool,
    /// INSERT ... SELECT: how many ids it takes shows when it runs.
    pub select: Option<Box<SelectPlan>>,
    pub(super) edits: Vec<Edit>,
    /// The client's `?` in the whole statement.
    pub(super) params: u32,
    pub(super) id_params: Vec<super::prepare::IdParam>,
    /// Its ids go into user's variables, the first of which has this number: [`Plan::variables`].
    pub(super) first_variable: Option<u32>,
    /// PREPARE: ids are taken when it is executed.
    pub is_named: bool,
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

/// A number in the text of an INSERT ... SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Number {
    /// What LAST_INSERT_ID() says before the statement: the rows are counted from there.
    BeforeFirst = 0,
    /// That, and the length of the block.
    Last = 1,
    /// What each row sets LAST_INSERT_ID() to.
    Sets = 2,
    /// The block's first id.
    First = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    pub before_first: u64,
    pub last: u64,
    pub sets: u64,
    pub first: u64,
}

impl Numbers {
    pub fn get(&self, number: Number) -> u64 {
        match number {
            Number::BeforeFirst => self.before_first,
            Number::Last => self.last,
            Number::Sets => self.sets,
            Number::First => self.first,
        }
    }

    /// Of a parameter of ours, by its [`Number`].
    pub fn of_param(&self, number: u32) -> u64 {
        match number {
            0 => self.before_first,
            1 => self.last,
            2 => self.sets,
            _ => self.first,
        }
    }
}

/// Bytes `start..end` of the text give way to `piece`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The client's `?` in front of it.
    pub(super) params_before: u32,
    pub(super) piece: Piece,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// As it is, in the client's character set.
    Text(Box<[u8]>),
    /// The id's column, quoted, in the client's character set, between these.
    Column { before: &'static str, after: &'static str, charset: ClientCharset },
    /// The list of the visible columns, and after them the id's.
    AllColumns { with_id: bool, charset: ClientCharset },
    /// The n-th id of the statement; prepared, the one of its row.
    Id { nth: u32, row: u32, comma: bool, form: IdForm },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdForm {
    /// `7`; prepared: a parameter of its own.
    Literal,
    /// `'7x'`, of which the server warns that it is truncated, or which is an error to it, as what the client wrote; prepared:
    /// `CONCAT(?,'x')`.
    Warned,
    /// `LAST_INSERT_ID(7)`
    Wrapper,
    /// `8`; prepared: so much behind what the wrapper of the same statement set.
    BehindWrapper,
    /// A user's variable of ours that holds it.
    Variable,
}

/// What `text`, one packet's statements, needs. A caller with many texts that cannot matter looks at them with
/// [`crate::sql::glance::glance`] first.
pub fn plan(text: &[u8], view: &View<'_>, protocol: Protocol) -> Planned {
    let several = view.multi_statements && protocol == Protocol::Text;
    packet::plan(text, view, protocol, several)
}

/// What a statement is that is to be prepared, as far as it inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserts {
    /// It does not, or names no table that there could be.
    Nothing,
    /// By schema and table.
    Into(Box<(String, String)>),
    /// It cannot be read for certain.
    Unclear,
}

/// What a statement inserts into, whatever the rules say.
pub fn inserts_into(text: &[u8], dialect: &Dialect, database: Option<&str>) -> Inserts {
    let view = View {
        dialect,
        multi_statements: false,
        default_schema: database,
        any_rules: true,
        tables: &|_, _| Lookup::NotRuled,
        hidden: &|_, _| false,
        session: &super::named::Fresh,
    };
    match plan(text, &view, Protocol::Prepare) {
        Planned::Untouched(Effects { inserts_into: Some(name), .. }) => Inserts::Into(name),
        Planned::Untouched(_) => Inserts::Nothing,
        _ => Inserts::Unclear,
    }
}

/// Whether `text`, the beginning of one statement that is too long to be read, tells by itself into which table it inserts:
/// then [`plan`] leaves it untouched where no rule concerns that table, whatever follows.
pub fn begins_insert(text: &[u8], dialect: &Dialect) -> bool {
    packet::begins_insert(text, dialect)
}

impl InsertPlan {
    /// Whether its text must be changed: it need not where the client wrote every id itself.
    pub fn has_edits(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Whether `LAST_INSERT_ID()` shows its id only once its answer has been seen.
    pub(super) fn owes_insert_id(&self) -> bool {
        let sets_itself = matches!(self.style, Style::Wrapped | Style::OdkuOne);
        self.ids > 0 && !sets_itself && self.target.rule.insert_id == InsertId::Session
    }

    /// Whether both send the same text, and mean the same by it.
    pub(super) fn writes_as(&self, other: &InsertPlan) -> bool {
        self.ids == other.ids
            && self.style == other.style
            && self.explicit == other.explicit
            && self.edits == other.edits
            && self.id_params == other.id_params
            && self.select == other.select
    }
}

impl Plan {
    /// The INSERT ... SELECT, which is the packet's only statement then.
    pub fn select(&self) -> Option<(&InsertPlan, &SelectPlan)> {
        self.inserts.iter().find_map(|insert| Some((insert, insert.select.as_deref()?)))
    }

    /// Whether the text must be changed at all: it need not where the client wrote every id itself.
    pub fn has_edits(&self) -> bool {
        !self.settled.is_empty() || self.inserts.iter().any(InsertPlan::has_edits)
    }

    /// How many ranges [`Plan::splice`] takes, and how long: one for each insert with `ids > 0`, in order.
    pub fn demands(&self) -> impl Iterator<Item = (&InsertPlan, u32)> {
        self.inserts.iter().filter(|insert| insert.ids > 0).map(|insert| (insert, insert.ids))
    }

    /// Sets the user's variables that the packet reads its ids from: to be run, and to succeed, before the packet is sent.
    /// `None`: it needs none.
    pub fn variables(&self, ranges: &[IdBlock]) -> Option<String> {
        super::splice::variables(self, ranges)
    }

    /// Appends the packet's text with its ids. `None` where `ranges` do not match [`Plan::demands`]; then `out` holds a part.
    pub fn splice_into(&self, text: &[u8], ranges: &[IdBlock], out: &mut Vec<u8>) -> Option<()> {
        super::splice::splice(self, text, ranges, out)
    }

    /// [`Plan::splice_into`] a text of its own.
    pub fn splice(&self, text: &[u8], ranges: &[IdBlock]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.splice_into(text, ranges, &mut out)?;
        Some(out)
    }

    /// The text to prepare. Only of a plan made for [`Protocol::Prepare`], which holds one insert.
    pub fn prepare(&self, text: &[u8]) -> Result<PreparedText, Refusal> {
        if let Some((insert, select)) = self.select() {
            return select.prepare(text, &insert.target.spacing, insert.params);
        }
        super::prepare::prepare(self, text)
    }
}
