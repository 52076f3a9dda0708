//! The statements of one packet, one after the other, as the server will run them.

mod around;
mod cut;
mod dynamic;
mod execute;
mod hiding;
mod inner;
mod inside;
mod named;

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use self::around::Around;
use self::cut::{AFTER_OPAQUE, is_end};
use self::hiding::Hidden;
use super::insert::{Context, Unplanned};
use crate::rewrite::plan::edit::Edit;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::Database;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{
    InsertPlan, Lookup, Plan, PlanContext, PlanNeed, PlanRefusal, Planned, Protocol, Unreadable,
};
use crate::rules::model::Mode;
use crate::sql::dialect::Dialect;
use crate::sql::insert::{Head, Verb};
use crate::sql::lex::{Lexer, Odd, TokenKind};
use crate::sql::look::may_insert;
use crate::sql::name::{self, Path};
use crate::sql::statement::dynamic::{self as dynamic_sql, Dynamic};
use crate::sql::statement::for_statement::ModeSetting;
use crate::sql::statement::set::Settings;
use crate::sql::statement::{self, Statement};
use crate::table_name::TableName;

/// Plans `text`, one packet's statements. A caller with many texts that cannot matter looks
/// at them with [`crate::sql::look::glance`] first.
pub fn plan(text: &[u8], context: &PlanContext<'_>, protocol: Protocol) -> Planned {
    let Some(mut lexer) = Lexer::new(text, *context.dialect) else {
        return Planned::Refused(PlanRefusal::new("the statement has 4 GiB or more; send less at a time"));
    };
    let several = context.multi_statements && protocol == Protocol::Text;
    let mut walk = Walk { several, ..Walk::new(text, context, protocol) };
    for nth in 0.. {
        lexer.reset_params();
        match walk.statement(&mut lexer, nth) {
            Ok(true) if walk.is_blind(&lexer) => {
                return Planned::Cut(lexer.position() as usize);
            }
            Ok(true) => lexer.set_dialect(walk.dialect),
            Ok(false) => break,
            Err(planned) => return *planned,
        }
    }
    walk.finish()
}

/// True if `text`, the beginning of one statement that is too long to be read, is that of an INSERT
/// or REPLACE and holds its table's whole name. Then the planner leaves it untouched where no rule
/// concerns that table, whatever follows.
pub fn begins_insert(text: &[u8], dialect: &Dialect) -> bool {
    let Some(mut lexer) = Lexer::new(text, *dialect) else { return false };
    let Ok(Statement::Insert(verb)) = statement::classify(&mut lexer) else { return false };
    // The next token shows that the name does not continue. A last token may not be all of it: `/`
    // begins `/* x */.t`, too.
    matches!(Head::parse(&mut lexer, verb), Ok(Some(_)))
        && lexer.peek().is_ok_and(|next| next.kind != TokenKind::End && (next.span.end as usize) < text.len())
}

/// The result that ends the walk early.
type Halt = Box<Planned>;

fn refused<T>(why: impl Into<String>) -> Result<T, Halt> {
    Err(Box::new(Planned::Refused(PlanRefusal::new(why))))
}

/// The refusal of a statement of which this is not understood.
fn unread(what: impl Display) -> String {
    format!("cannot read this statement: {what}; rewrite that part")
}

struct Walk<'a> {
    context: &'a PlanContext<'a>,
    protocol: Protocol,
    /// True if another statement may follow a `;`.
    several: bool,
    /// The start of the present statement.
    start: u32,
    text: &'a [u8],
    /// The dialect, as the statements so far have left it.
    dialect: Dialect,
    schema: Option<Cow<'a, str>>,
    schema_is_known: bool,
    /// Names that temporary tables of this packet hide or no longer hide.
    overlay: Vec<(TableName, Hidden)>,
    /// Views that this packet makes. Whether they are of a ruled table is not known before they
    /// exist.
    views: Vec<TableName>,
    effects: Effects,
    /// [`Effects::explains_report`], as far as the walk has come.
    explained: bool,
    /// [`Plan::settled`]
    settled: Vec<Edit>,
    inserts: Vec<InsertPlan>,
    /// The end of the first INSERT whose `LAST_INSERT_ID()` is known only once the packet is
    /// answered.
    owes_from: Option<u32>,
    /// User's variables of ours that the packet needs so far.
    variables: u32,
    /// User's variables, in lower case, with the texts that SET gave them. Since then only USE,
    /// PREPARE and DEALLOCATE have followed.
    assigned: Vec<(Vec<u8>, String)>,
}

/// Which statement of the packet, and what stands before it in the same statement.
#[derive(Clone, Copy)]
struct StatementPlace {
    nth: usize,
    /// The start of the statement, its prefixes included.
    start: u32,
    around: Around,
    /// The number of prefixes that were read.
    depth: usize,
}

/// The meaning of a table's name here.
enum Resolved {
    NotRuled,
    /// A temporary table.
    Hidden,
    Ruled(Arc<Target>),
    /// Ruled, but not there.
    Missing,
    /// The server's error goes first, else this refusal.
    ServerFirst(String),
}

impl<'a> Walk<'a> {
    /// A walk over one statement, in the session's default database.
    fn new(text: &'a [u8], context: &'a PlanContext<'a>, protocol: Protocol) -> Self {
        Walk {
            context,
            protocol,
            several: false,
            start: 0,
            text,
            dialect: *context.dialect,
            schema: context.default_schema.map(Cow::Borrowed),
            schema_is_known: true,
            overlay: Vec::new(),
            views: Vec::new(),
            effects: Effects::default(),
            explained: true,
            settled: Vec::new(),
            inserts: Vec::new(),
            owes_from: None,
            variables: 0,
            assigned: Vec::new(),
        }
    }
}

impl Walk<'_> {
    fn finish(mut self) -> Planned {
        self.effects.explains_report = self.explained && memchr::memchr(b'(', self.text).is_none();
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        if let Some(from) = self.owes_from.filter(|_| self.reads_owed_id(end)) {
            return Planned::Cut(self.after_semicolon(from));
        }
        if self.inserts.is_empty() && self.settled.is_empty() {
            return Planned::Untouched(self.effects);
        }
        Planned::Rewrite(Plan { settled: self.settled, inserts: self.inserts, effects: self.effects })
    }

    /// One statement; whether another may follow.
    fn statement(&mut self, lexer: &mut Lexer<'_>, nth: usize) -> Result<bool, Halt> {
        let start = lexer.position();
        self.start = start;
        self.at(lexer, StatementPlace { nth, start, around: Around::default(), depth: 0 })
    }

    /// The statement that the lexer stands before: the packet's own, or the one that a prefix runs.
    fn at(&mut self, lexer: &mut Lexer<'_>, place: StatementPlace) -> Result<bool, Halt> {
        let start = place.start;
        let before = lexer.clone();
        let kind = match statement::classify(lexer) {
            Ok(kind) => kind,
            Err(odd) => return self.doubt(start, odd),
        };
        // Functions in it may do more.
        self.explained &= matches!(kind, Statement::Empty | Statement::Use(_) | Statement::Set(_));
        let mut is_routine = false;
        self.note_assigned(&kind, &before);
        match kind {
            Statement::Insert(verb) => return self.insert(lexer, verb, place),
            Statement::Explain => self.explained(&mut lexer.clone(), place)?,
            Statement::Analyze => return self.behind_prefix(lexer, place, Around::analyzed),
            Statement::For(settings) => {
                // MariaDB reports that the variable is set, but not that it is put back (measured
                // on 10.11). So the state is read again.
                self.effects.tracking |= settings.sql_mode != ModeSetting::Session;
                return self.behind_prefix(lexer, place, |around| around.with(settings));
            }
            Statement::Empty => {}
            Statement::Harmless => self.effects.moves_ids |= self.moves_ids(&before),
            // The server restores after SET STATEMENT what it has set.
            Statement::Use(_) | Statement::Set(_) if place.depth > 0 => self.effects.opaque = true,
            Statement::Use(schema) => self.use_schema(schema),
            Statement::Set(settings) => self.set(&settings),
            Statement::Ddl(changes) => self.ddl(&changes, place.nth),
            Statement::Routine => {
                self.effects.ddl = true;
                is_routine = true;
            }
            Statement::Opaque => {
                self.effects.opaque = true;
                self.effects.note_routine();
            }
            Statement::Dynamic(dynamic) => self.dynamic(lexer, dynamic, place)?,
            other => {
                if self.indirect_insert(lexer, &other, &before, place)? {
                    return Ok(false);
                }
            }
        }
        if !self.several {
            return Ok(false);
        }
        let skipped =
            if is_routine { statement::skip_routine(lexer) } else { lexer.skip_statement().map(Some) };
        match skipped {
            Ok(Some(more)) => Ok(more),
            Ok(None) => self.doubt(start, Odd { at: start, what: "the end of a routine" }),
            Err(odd) => self.doubt(start, odd),
        }
    }

    /// True if the rest cannot be cut into tokens. A statement before it may have changed sql_mode
    /// or the character set, and it holds bytes whose meaning depends on them.
    fn is_blind(&self, lexer: &Lexer<'_>) -> bool {
        let rest = self.text.get(lexer.position() as usize..).unwrap_or_default();
        self.effects.opaque
            && self.context.any_rules
            && rest.iter().any(|&b| b == b'\\' || b == b'"' || b >= 0x80)
            && may_insert(rest)
    }

    /// The text from `start` cannot be cut into statements. Where it may hold an INSERT under a
    /// rule, it is refused.
    fn doubt(&mut self, start: u32, odd: Odd) -> Result<bool, Halt> {
        let rest = self.text.get(start as usize..).unwrap_or_default();
        if self.context.any_rules && may_insert(rest) {
            return Err(Box::new(self.unreadable(start, odd)));
        }
        self.effects.opaque = true;
        Ok(false)
    }

    /// A single statement is shown to the server. Several are refused: where each begins depends on
    /// what cannot be read.
    fn unreadable(&self, start: u32, what: impl Display) -> Planned {
        self.server_first(start, PlanRefusal::new(unread(what)))
    }

    /// Like [`Walk::unreadable`], for a statement into this table.
    fn unreadable_into(&self, target: &Target, start: u32, what: impl Display) -> Planned {
        self.server_first(start, PlanRefusal::new(target.at(unread(what))))
    }

    fn server_first(&self, start: u32, refusal: PlanRefusal) -> Planned {
        if self.several && memchr::memchr(b';', self.text).is_some() {
            return Planned::Refused(refusal);
        }
        Planned::Unreadable(Unreadable { statement: start as usize..self.text.len(), inner: None, refusal })
    }

    /// Notes what a user's variable holds after this statement, where the text shows it.
    fn note_assigned(&mut self, kind: &Statement, before: &Lexer<'_>) {
        match kind {
            Statement::Set(_) => {
                let mut within = before.clone();
                let assigned =
                    within.next().and_then(|_| dynamic_sql::assigned_text(&mut within)).unwrap_or_default();
                let Some((name, text)) = assigned else { return self.assigned.clear() };
                self.assigned.push((name.of(self.text).to_ascii_lowercase(), text));
            }
            Statement::Empty
            | Statement::Use(_)
            | Statement::Dynamic(Dynamic::Prepare { .. } | Dynamic::Deallocate { .. }) => {}
            _ => self.assigned.clear(),
        }
    }

    fn use_schema(&mut self, schema: Option<String>) {
        self.schema_is_known = schema.is_some();
        self.effects.opaque |= schema.is_none();
        self.effects.schema.clone_from(&schema);
        self.schema = schema.map(Cow::Owned);
    }

    fn set(&mut self, settings: &Settings) {
        if let Some(sql_mode) = settings.sql_mode {
            self.dialect.sql_mode = sql_mode;
            self.effects.sql_mode = Some(sql_mode);
        }
        if let Some(charset) = settings.charset {
            self.dialect.charset = charset;
            self.effects.charset = Some(charset);
        }
        self.effects.tracking |= settings.tracking;
        self.effects.insert_id |= settings.insert_id;
        self.effects.opaque |= settings.opaque;
    }

    fn names(&self, path: Path) -> Option<TableName> {
        let table = name::decode(self.text, path.last, self.dialect.charset)?.into_owned();
        let schema = match path.qualifier {
            Some(token) => name::decode(self.text, token, self.dialect.charset)?.into_owned(),
            None => self.schema.as_deref()?.to_owned(),
        };
        Some(TableName { schema, table })
    }

    /// Looks a table up. `text` is what `path` points into.
    fn lookup(&self, text: &[u8], path: Path) -> Result<Resolved, Halt> {
        if !self.context.any_rules {
            return Ok(Resolved::NotRuled);
        }
        let needs = |need| Err(Box::new(Planned::Needs(need)));
        let Some(table) = name::decode(text, path.last, self.dialect.charset) else {
            return refused(
                "the table's name cannot be read in the client's character set; connect with utf8mb4",
            );
        };
        let schema = match path.qualifier {
            Some(token) => name::decode(text, token, self.dialect.charset),
            None if self.schema_is_known && !self.effects.opaque => match self.schema.as_deref() {
                Some(schema) => Some(Cow::Borrowed(schema)),
                // The server's own error, 1046.
                None => return Ok(Resolved::NotRuled),
            },
            None => {
                return self.cut(&format!(
                    "the database of table {table} depends on an earlier statement of the packet; send this statement separately"
                ));
            }
        };
        let Some(schema) = schema else {
            return refused(
                "the database's name cannot be read in the client's character set; connect with utf8mb4",
            );
        };
        match self.is_hidden(&schema, &table) {
            Hidden::No => {}
            Hidden::Yes => return Ok(Resolved::Hidden),
            Hidden::Perhaps => {
                return self.cut(&format!(
                    "{schema}.{table}: an earlier statement of the packet makes or renames a temporary table, which may hide this \
                     table; send this statement separately"
                ));
            }
        }
        let is_it = |view: &TableName| {
            name::same_column(&view.schema, &schema) && name::same_column(&view.table, &table)
        };
        if self.views.iter().any(is_it) {
            return self.cut(&format!(
                "{schema}.{table}: an earlier statement of the packet makes this view; send this statement separately"
            ));
        }
        let is_after_ddl = self.several && self.start > 0 && (self.effects.opaque || self.effects.ddl);
        match (self.context.tables)(&schema, &table) {
            // The table may be another one by then.
            Lookup::Refused(_) | Lookup::Away(_) if is_after_ddl => self.cut(AFTER_OPAQUE),
            Lookup::NotRuled => Ok(Resolved::NotRuled),
            Lookup::Ruled(target) if target.rule.mode != Mode::On => Ok(Resolved::NotRuled),
            Lookup::Ruled(target) => Ok(Resolved::Ruled(target)),
            Lookup::Missing => Ok(Resolved::Missing),
            Lookup::PerhapsHidden => needs(PlanNeed::Temporary(TableName::new(schema, table))),
            Lookup::Unknown => needs(PlanNeed::Table(TableName::new(schema, table))),
            Lookup::Refused(why) => refused(why),
            Lookup::Away(why) => Err(Box::new(Planned::Away(why))),
            Lookup::ServerFirst(why) => Ok(Resolved::ServerFirst(why)),
        }
    }

    fn insert_context<'a>(
        &self,
        statement: usize,
        target: &'a Arc<Target>,
        head: Head,
        table: &'a str,
    ) -> Context<'a> {
        Context {
            statement,
            target,
            dialect: self.dialect,
            protocol: self.protocol,
            head,
            table,
            cannot_update: self.context.cannot_update.iter().any(|name| name.is(target.named())),
            only_literals: self.protocol == Protocol::Text && !self.context.session.takes_last_insert_id(),
        }
    }

    fn insert(&mut self, lexer: &mut Lexer<'_>, verb: Verb, place: StatementPlace) -> Result<bool, Halt> {
        let StatementPlace { nth, start, .. } = place;
        if !self.context.any_rules && !self.several && self.protocol == Protocol::Text {
            return Ok(false);
        }
        let head = match Head::parse(lexer, verb) {
            Ok(Some(head)) => head,
            Ok(None) if self.context.any_rules => {
                return Err(Box::new(self.unreadable(start, "no table's name follows INSERT or REPLACE")));
            }
            Ok(None) => return self.skip(lexer, start),
            Err(odd) => return self.doubt(start, odd),
        };
        let resolved = self.lookup(self.text, head.table)?;
        let is_ruled = !matches!(resolved, Resolved::NotRuled | Resolved::Hidden);
        // Statements before it in the packet (DDL, or a text that cannot be read) may create its table, or change the columns.
        if is_ruled && (self.effects.opaque || self.effects.ddl || self.effects.moves_ids) {
            return self.cut(AFTER_OPAQUE);
        }
        let target = match resolved {
            Resolved::Ruled(target) => target,
            Resolved::NotRuled | Resolved::Hidden => {
                if matches!(resolved, Resolved::Hidden) {
                    self.note_hidden(head.table);
                }
                if self.protocol == Protocol::Prepare {
                    self.effects.inserts_into = self.names(head.table).map(Box::new);
                }
                return self.skip(lexer, start);
            }
            Resolved::Missing => {
                let name = self.names(head.table).map(|name| format!("{name}: ")).unwrap_or_default();
                let why = format!(
                    "{name}the control account does not see this table, or the table of this view; create the table, or GRANT SELECT \
                     on the table to the control account, and try again"
                );
                return Err(Box::new(self.server_first(start, PlanRefusal::new(why))));
            }
            Resolved::ServerFirst(why) => {
                return Err(Box::new(self.server_first(start, PlanRefusal::new(why))));
            }
        };
        let Some(table) = name::decode(self.text, head.table.last, self.dialect.charset) else {
            return Err(Box::new(self.unreadable_into(&target, start, "the table's name")));
        };
        let context = self.insert_context(nth, &target, head, &table);
        let mut ahead = lexer.clone();
        match place.around.plan_insert(&mut ahead, context, start) {
            Ok((plan, semicolon)) => {
                if plan.stage.is_some() {
                    Self::check_stage(&plan, place)?;
                    self.alone(ahead.position())?;
                }
                if semicolon && !self.several && !is_end(&mut ahead) {
                    let what = "text after the semicolon";
                    return Err(Box::new(self.unreadable_into(&target, start, what)));
                }
                *lexer = ahead;
                self.add(plan, start, lexer.position())?;
                Ok(semicolon && self.several)
            }
            Err(stop) => Err(Box::new(self.stopped(stop, &target, head.table, start))),
        }
    }

    fn stopped(&self, stop: Unplanned, target: &Target, table: Path, start: u32) -> Planned {
        match stop {
            Unplanned::Refused(why) => Planned::Refused(PlanRefusal::new(target.at(why))),
            Unplanned::Unreadable(what) => self.unreadable_into(target, start, what),
            Unplanned::Stale(why) => {
                let planned = self.server_first(start, PlanRefusal::new(target.at(why)));
                match (planned, self.names(table)) {
                    (Planned::Unreadable(unreadable), Some(table)) => Planned::Stale { table, unreadable },
                    (other, _) => other,
                }
            }
        }
    }

    /// Passes over the rest of a statement that is not rewritten.
    fn skip(&mut self, lexer: &mut Lexer<'_>, start: u32) -> Result<bool, Halt> {
        if !self.several {
            return Ok(false);
        }
        lexer.skip_statement().or_else(|odd| self.doubt(start, odd))
    }

    fn database(&self) -> Database {
        match &self.schema {
            _ if !self.schema_is_known || self.effects.opaque => Database::Unknown,
            Some(schema) => Database::Is(schema.clone().into_owned()),
            None => Database::None,
        }
    }
}
