//! Executions of prepared INSERTs into ruled tables: which parameters take an id is decided here, at each execution.

use std::sync::Arc;

use super::explicit::Explicit;
use super::hidden::Execution;
use super::inserts::{Ids, InsertReply};
use super::outstanding::{Note, Purpose};
use super::rehearsal::Bound;
use super::ruled::{Verdict, command_payload, state_unknown};
use super::session::Session;
use super::statements::{Again, Kept};
use super::tables::{Tables, id_shape};
use crate::mysql::bulk::Bulk;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::payload_of;
use crate::mysql::prepared::{Execute, Expected, statement_id};
use crate::mysql::reader::Malformed;
use crate::rewrite::effects::Effects;
use crate::rewrite::execution::Draft;
use crate::rewrite::meaning::Meaning;
use crate::rewrite::plan::{Lookup, Style, Unreadable};
use crate::rewrite::prepare::PreparedInsert;

/// What becomes of an execution.
pub(super) enum Filled {
    /// Goes on as it came.
    Passes,
    /// With its ids, and what its answer is to be told by.
    Send(Vec<u8>, Note),
    /// The server has another text than it should: this one is prepared first.
    PrepareFirst(u32, Arc<Kept>),
    /// INSERT ... SELECT, which goes its own way.
    Select(Arc<Kept>),
    /// A rule has come for it, in a session that was asked nothing so far: the command waits, and the state is asked for.
    StateFirst,
    /// The same, and a temporary table may hide the name: the command waits, and the server is asked.
    TemporaryFirst(String, String),
    /// The server's error from when it was prepared again.
    Failed(Vec<u8>),
    /// It can be read no more.
    Probe(Unreadable, Vec<u8>),
}

/// What the statement is by the rules and columns that are.
enum Now {
    /// The server has the right text.
    Is(Arc<Kept>),
    /// It must get this one.
    PreparedAs(Arc<Kept>),
    StateFirst,
    TemporaryFirst(String, String),
    Unreadable(Unreadable, Vec<u8>),
}

impl Session {
    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE of an INSERT that is kept.
    pub(super) async fn execute(&mut self, command: Command, window_bytes: usize, packets: usize) {
        let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
        match self.hides_prepared(&payload) {
            Execution::Ruled => {}
            Execution::Passes => return self.pass_execution(&payload, window_bytes),
            Execution::Asked => return,
            Execution::Refused(refusal) => {
                return self.refuse_execution(&payload, &refusal, window_bytes, packets);
            }
        }
        let filled = match command {
            Command::StmtBulkExecute => self.filled_bulk(&payload).await,
            _ => self.filled(&payload).await,
        };
        let Some(filled) = self.unless_first(filled) else { return };
        let server_id = statement_id(&payload).ok().and_then(|id| self.relay.statements.translated(id));
        match filled {
            Err(refusal) => self.refuse_execution(&payload, &refusal, window_bytes, packets),
            Ok(Filled::Select(kept)) => self.execute_select(kept, &payload, window_bytes, packets),
            Ok(Filled::Failed(error)) => {
                self.relay.up.skip(window_bytes);
                self.relay.answer_with(&error, packets);
                self.drop_execution(&payload);
            }
            Ok(Filled::Probe(unreadable, text)) => {
                self.probe(&unreadable, &text, window_bytes, packets);
                self.drop_execution(&payload);
            }
            Ok(Filled::PrepareFirst(..) | Filled::StateFirst | Filled::TemporaryFirst(..)) => {}
            Ok(Filled::Passes) => {
                self.forget_long_data(&payload);
                self.relay.translate_id();
                self.pass(command, window_bytes, false, Note::Nothing);
            }
            Ok(Filled::Send(mut payload, note)) => {
                self.forget_long_data(&payload);
                if note.inserts().iter().any(InsertReply::sets_insert_id) {
                    self.relay.view.take_owed_insert_id();
                }
                self.audit_execution(&payload, note.inserts());
                if let Some((id, place)) = server_id.zip(payload.get_mut(1..5)) {
                    place.copy_from_slice(&id.to_le_bytes());
                }
                let nr_shift = self.relay.send_instead(&payload, window_bytes, packets);
                self.relay.owe(command.reply_to(&payload), false, nr_shift, note);
            }
        }
    }

    /// Where something is to be asked or done first, that is begun: the execution stays where it is, and is looked at again when the
    /// server has answered.
    pub(super) fn unless_first(
        &mut self,
        filled: Result<Filled, Refusal>,
    ) -> Option<Result<Filled, Refusal>> {
        match filled {
            Ok(Filled::PrepareFirst(id, kept)) => self.prepare_again(id, kept),
            Ok(Filled::StateFirst) => self.relay.view.forget_state(),
            Ok(Filled::TemporaryFirst(schema, table)) => {
                return self.ask_temporary(&schema, &table, b"").err().map(Err);
            }
            filled => return Some(filled),
        }
        None
    }

    fn prepare_again(&mut self, id: u32, kept: Arc<Kept>) {
        let payload = command_payload(Command::StmtPrepare, kept.server_text().unwrap_or_default());
        self.relay.statements.displace_last();
        self.relay.send_own(Purpose::PrepareAgain(id, kept), Command::StmtPrepare.reply(), &payload);
    }

    /// The one way in which an execution is refused.
    pub(super) fn refuse_execution(
        &mut self,
        payload: &[u8],
        refusal: &Refusal,
        window_bytes: usize,
        packets: usize,
    ) {
        self.refuse(refusal, window_bytes, packets);
        self.drop_execution(payload);
    }

    /// The server does not see it: what was sent ahead for it goes with it, and the types of its parameters, which the client
    /// sends once, are kept for the next one.
    pub(super) fn drop_execution(&mut self, payload: &[u8]) {
        self.note_types(payload);
        let had_long_data = self.forget_long_data(payload);
        self.reset_long_data(had_long_data);
    }

    /// What was sent ahead for this statement, if any, is dropped by the server.
    pub(super) fn reset_long_data(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let server_id = self.relay.statements.translated(id).unwrap_or(id);
        let reset = [&[Command::StmtReset as u8][..], &server_id.to_le_bytes()].concat();
        self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
    }

    fn note_types(&mut self, payload: &[u8]) {
        let with_attributes = self.relay.has_attributes();
        let id = statement_id(payload).ok();
        let Some(statement) = id.and_then(|id| self.relay.statements.get_mut(id)) else { return };
        let params = statement.params;
        let types = statement.types.as_deref();
        let sent = if payload.first() == Some(&(Command::StmtBulkExecute as u8)) {
            Bulk::parse(payload, params, types).map(|bulk| bulk.types).ok()
        } else {
            let expected = Expected { params, types, long_data: &statement.long_data, with_attributes };
            Execute::parse(payload, expected).map(|execute| execute.types(params)).ok()
        };
        if let Some(sent) = sent.filter(|sent| !sent.is_empty()) {
            statement.types = Some(sent);
        }
    }

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where that was something.
    pub(super) fn forget_long_data(&mut self, execution: &[u8]) -> Option<u32> {
        let id = statement_id(execution).ok()?;
        let statement = self.relay.statements.get_mut(id)?;
        (!std::mem::take(&mut statement.long_data).is_empty()).then_some(id)
    }

    /// The execution with its ids, by the active rules.
    async fn filled(&mut self, payload: &[u8]) -> Result<Filled, Refusal> {
        let id = statement_id(payload).map_err(malformed)?;
        if let Some(error) = self.failed_again(id)? {
            return Ok(Filled::Failed(error));
        }
        let mut tables = self.relay.view.tables.now();
        loop {
            let filled = self.filled_by(&tables, payload).await;
            match self.superseding(&tables).await? {
                None => return filled,
                Some(next) => tables = next,
            }
        }
    }

    /// The server's error from when the statement was last prepared again.
    pub(super) fn failed_again(&mut self, id: u32) -> Result<Option<Vec<u8>>, Refusal> {
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        match std::mem::take(&mut statement.again) {
            Again::Fine => Ok(None),
            Again::Failed(error) => Ok(Some(error)),
            Again::LostLongData => Err(lost_long_data()),
        }
    }

    /// What is executed, by the rules and columns that are; or what is to be done first.
    pub(super) async fn kept_now(
        &mut self,
        tables: &Arc<Tables>,
        id: u32,
    ) -> Result<Result<Arc<Kept>, Filled>, Refusal> {
        let statement = self.relay.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
        let (server_id, kept) = (statement.server_id, statement.kept.clone());
        let kept = match self.as_it_is_now(tables, kept).await? {
            Now::Is(kept) => kept,
            Now::StateFirst => return Ok(Err(Filled::StateFirst)),
            Now::TemporaryFirst(schema, table) => return Ok(Err(Filled::TemporaryFirst(schema, table))),
            // What its query needs to be asked first was asked when it was prepared.
            Now::PreparedAs(kept) if kept.selects() => {
                return Err(Refusal::Statement(
                    "rowstamp: the rules or the columns of the INSERT ... SELECT's table have changed since it was prepared; \
                     prepare it again"
                        .into(),
                ));
            }
            Now::PreparedAs(kept) if server_id.is_some() => return Ok(Err(Filled::PrepareFirst(id, kept))),
            Now::PreparedAs(_) => return Err(Refusal::UnknownStatement(id)),
            Now::Unreadable(unreadable, text) => return Ok(Err(Filled::Probe(unreadable, text))),
        };
        if kept.prepared.is_some() && self.relay.view.state().is_none() {
            return Err(state_unknown());
        }
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        statement.kept = kept.clone();
        Ok(Ok(kept))
    }

    async fn filled_by(&mut self, tables: &Arc<Tables>, payload: &[u8]) -> Result<Filled, Refusal> {
        let id = statement_id(payload).map_err(malformed)?;
        let kept = match self.kept_now(tables, id).await? {
            Ok(kept) => kept,
            Err(filled) => return Ok(filled),
        };
        if kept.selects() {
            return Ok(Filled::Select(kept));
        }
        let with_attributes = self.relay.has_attributes();
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        let expected = Expected {
            params: statement.params,
            types: statement.types.as_deref(),
            long_data: &statement.long_data,
            with_attributes,
        };
        let execute = Execute::parse(payload, expected);
        if let Ok(execute) = &execute
            && statement.params > 0
            && !statement.types.as_ref().is_some_and(|types| execute.has_types(types, statement.params))
        {
            statement.types = Some(execute.types(statement.params));
        }
        let Some(prepared) = &kept.prepared else {
            if let Ok(execute) = &execute {
                self.rehearse_execution(tables, &kept, &Bound::One(execute));
            }
            // The types that the client left out went to the statement before it. What is wrong is the server's to say.
            let is_another = self.relay.statements.translated(id).is_some();
            return Ok(match execute {
                Ok(execute) if is_another => Filled::Send(execute.build(), Note::Nothing),
                _ => Filled::Passes,
            });
        };
        self.with_ids(tables, prepared, execute.map_err(malformed)?).await
    }

    async fn with_ids(
        &self,
        tables: &Arc<Tables>,
        prepared: &PreparedInsert,
        execute: Execute<'_>,
    ) -> Result<Filled, Refusal> {
        let draft = Draft::new(prepared, &execute, self.meaning(prepared)?)?;
        let explicit = Explicit::expect(tables, &prepared.insert.target, 0, &draft.explicit);
        let note = |reply: Option<InsertReply>| {
            Note::statements(reply.into_iter().collect(), explicit.into_iter().collect(), Effects::default())
        };
        let found_rows = self.relay.found_rows();
        if draft.ids == 0 {
            // An update still tells by what was added to its list.
            let tells = prepared.text.style == Style::OdkuLiteral;
            let reply = tells.then(|| InsertReply::new(&prepared.insert, None, found_rows, tables.clone()));
            return Ok(Filled::Send(execute.build(), note(reply)));
        }
        let range = self.take(tables, &prepared.insert.target, draft.ids).await?;
        let reply = InsertReply::new(&prepared.insert, Some(Ids::from(&range)), found_rows, tables.clone());
        let out = draft.write(execute, &range).ok_or_else(|| Refusal::NoId("the ids do not fit".into()))?;
        Ok(Filled::Send(out, note(Some(reply))))
    }

    /// The statement under the rules and columns of its table that are now. Where the server must have another text, it is
    /// prepared again under the client's id; where it has the right one, it prepares that again by itself if it must.
    async fn as_it_is_now(&self, tables: &Arc<Tables>, kept: Arc<Kept>) -> Result<Now, Refusal> {
        let source = &kept.source;
        let (schema, table) = (source.named.0.as_str(), source.named.1.as_str());
        let mut lookup = tables.lookup(schema, table);
        if let Lookup::Unknown = lookup {
            tables.fetch(schema, table, false).await;
            lookup = tables.lookup(schema, table);
        }
        match lookup {
            _ if kept.is_current(&lookup) => return Ok(Now::Is(kept)),
            // The server's word.
            Lookup::Missing => return Ok(Now::Is(kept)),
            Lookup::Unknown | Lookup::PerhapsHidden => {
                return Err(Refusal::NoId(format!("table {schema}.{table} cannot be looked up")));
            }
            Lookup::Away(why) => return Err(Refusal::NoId(why)),
            Lookup::Refused(why) | Lookup::ServerFirst(why) => {
                return Err(Refusal::Statement(format!("rowstamp: {why}")));
            }
            Lookup::Ruled(_) | Lookup::NotRuled => {}
        }
        if self.relay.view.is_untouched() {
            return Ok(Now::StateFirst);
        }
        let is_as_then = self.relay.view.state().is_some_and(|now| {
            (source.reads_alike || now.dialect == source.dialect) && now.database == source.database
        });
        let Some(text) = source.text.as_deref().filter(|_| is_as_then) else {
            return Err(cannot_prepare_again(schema, table, is_as_then));
        };
        let prepared = match self.judged_by(tables, Command::StmtPrepare, text).await {
            Verdict::Prepare(prepared) => Some(prepared),
            Verdict::Pass(_) => None,
            Verdict::Refuse(refusal) => return Err(refusal),
            Verdict::Probe(unreadable) => return Ok(Now::Unreadable(unreadable, text.to_vec())),
            // The rule has come since [`Session::hides_prepared`].
            Verdict::AskTemporary { schema, table } => return Ok(Now::TemporaryFirst(schema, table)),
            // None of a statement that is prepared in a session whose state is known.
            Verdict::Send(_)
            | Verdict::Select(_)
            | Verdict::Ask(_)
            | Verdict::AskRight(_)
            | Verdict::Fail(_) => {
                return Err(Refusal::NoId(format!("table {schema}.{table} cannot be looked up")));
            }
        };
        let now = Arc::new(Kept { source: source.clone(), prepared });
        Ok(if now.server_text() == kept.server_text() { Now::Is(now) } else { Now::PreparedAs(now) })
    }

    /// What values at the id's place mean to this execution.
    pub(super) fn meaning(&self, prepared: &PreparedInsert) -> Result<Meaning, Refusal> {
        let insert = &prepared.insert;
        let state = self.relay.view.state().ok_or_else(state_unknown)?;
        let meaning = Meaning::new(&state.dialect, id_shape(&insert.target));
        if insert.zero_meant.is_some_and(|zero_was_value| zero_was_value != meaning.zero_is_value) {
            return Err(Refusal::Statement(
                "rowstamp: sql_mode's NO_AUTO_VALUE_ON_ZERO has changed since this was prepared, which decides what its zeros \
                 mean; prepare it again"
                    .into(),
            ));
        }
        if insert.strict_meant.is_some_and(|strictness| strictness != meaning.strictness()) {
            return Err(Refusal::Statement(
                "rowstamp: sql_mode's strictness has changed since this was prepared, which decides whether its id is an error; \
                 prepare it again"
                    .into(),
            ));
        }
        Ok(meaning)
    }
}

pub(super) fn malformed(error: Malformed) -> Refusal {
    Refusal::Statement(format!("rowstamp: the execution's parameters cannot be read: {error}"))
}

fn lost_long_data() -> Refusal {
    Refusal::Statement(
        "rowstamp: the rules have changed since a parameter was sent ahead; send it and execute again"
            .to_owned(),
    )
}

fn cannot_prepare_again(schema: &str, table: &str, is_as_then: bool) -> Refusal {
    let why = if is_as_then {
        "its text was too long to be kept"
    } else {
        "under another default database, sql_mode or character set"
    };
    Refusal::Statement(format!(
        "rowstamp: the rules or the columns of {schema}.{table} have changed since this was prepared, {why}; prepare it again"
    ))
}
