//! Executions of prepared INSERTs into ruled tables: which parameters take an id is decided here, at each execution.

use std::sync::Arc;

use crate::mysql::bulk::Bulk;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected};
use crate::mysql::reader::Malformed;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Supplied};
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::outstanding::{Note, Purpose};
use crate::proxy::relay::{Arrived, Relay};
use crate::proxy::ruled::hidden::Execution;
use crate::proxy::ruled::progress::{Later, Packet, Progress, Shown, Slowly};
use crate::proxy::ruled::rehearsal::Bound;
use crate::proxy::ruled::verdict::{Lacking, Verdict, malformed, state_unknown};
use crate::proxy::session::Session;
use crate::rewrite::execution::Draft;
use crate::rewrite::meaning::Meaning;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::prepare::PreparedInsert;
use crate::table_name::TableName;
use crate::tables::Tables;

/// What becomes of an execution.
pub(in crate::proxy) enum Filled {
    /// Goes on as it came.
    Passes,
    /// With its ids, and what its answer is to be told by.
    Send(Vec<u8>, Note),
    /// INSERT ... SELECT, which goes its own way.
    Select(Arc<Kept>),
}

/// Why an execution is not sent.
pub(in crate::proxy) enum Unfilled {
    Needs(Need),
    Refused(Refusal),
    /// It can be read no more.
    Shown(Shown),
}

impl From<Refusal> for Unfilled {
    fn from(refusal: Refusal) -> Self {
        Unfilled::Refused(refusal)
    }
}

impl From<Lacking> for Unfilled {
    fn from(lacking: Lacking) -> Self {
        match lacking {
            Lacking::Needs(need) => Unfilled::Needs(need),
            Lacking::Refused(refusal) => Unfilled::Refused(refusal),
        }
    }
}

impl Session {
    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE of an INSERT that is kept.
    pub(in crate::proxy) fn execute(&mut self, arrived: Arrived) -> Progress {
        match self.hides_prepared(arrived) {
            Execution::Ruled => {}
            Execution::Passes => {
                self.pass_execution(arrived);
                return Progress::Done;
            }
            Execution::Needs(need) => return need.into(),
            Execution::Refused(refusal) => {
                self.refuse(arrived, &refusal);
                return Progress::Done;
            }
        }
        let payload = self.relay.payload(arrived).into_owned();
        let mut supplied = std::mem::take(&mut self.supplied);
        let tables = self.relay.session.tables.now();
        let filled = match arrived.command {
            Command::StmtBulkExecute => self.filled_bulk(&tables, arrived, &payload, &mut supplied),
            _ => self.filled(&tables, arrived, &payload, &mut supplied),
        };
        self.supplied = supplied;
        if tables.is_retired() {
            return Need::Rules { retired: tables }.into();
        }
        match filled {
            Err(Unfilled::Needs(need)) => return need.into(),
            Err(Unfilled::Refused(refusal)) => self.refuse(arrived, &refusal),
            Err(Unfilled::Shown(shown)) => return Progress::Slowly(Slowly::Show(shown)),
            Ok(Filled::Select(kept)) => match self.execution_of_select(arrived, kept, payload) {
                Ok(task) => return Progress::Slowly(Slowly::Select(Box::new(task))),
                Err(refusal) => self.refuse(arrived, &refusal),
            },
            Ok(Filled::Passes) => {
                self.forget_long_data(arrived);
                self.relay.translate_id();
                self.pass(arrived, false, Note::Nothing);
            }
            Ok(Filled::Send(payload, note)) if note.inserts().iter().any(InsertReply::is_late) => {
                let packet = Packet::Execution { payload, note };
                return Progress::Slowly(Slowly::Later(Box::new(Later { sets: None, packet, tables })));
            }
            Ok(Filled::Send(payload, note)) => self.send_execution(arrived, payload, note),
        }
        Progress::Done
    }

    pub(in crate::proxy) fn send_execution(&mut self, arrived: Arrived, mut payload: Vec<u8>, note: Note) {
        let server_id = arrived.statement.and_then(|id| self.relay.statements.translated(id));
        self.forget_long_data(arrived);
        if note.inserts().iter().any(InsertReply::sets_insert_id) {
            self.relay.session.take_owed_insert_id();
        }
        self.audit_execution(arrived, note.inserts());
        if let Some((id, place)) = server_id.zip(payload.get_mut(1..5)) {
            place.copy_from_slice(&id.to_le_bytes());
        }
        let nr_shift = self.relay.send_instead(&payload, arrived);
        self.relay.owe(arrived.command.reply_to(&payload), false, nr_shift, note);
    }

    /// What was sent ahead for this statement, if any, is dropped by the server.
    pub(in crate::proxy) fn reset_long_data(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let server_id = self.relay.statements.translated(id).unwrap_or(id);
        let reset = [&[Command::StmtReset as u8][..], &server_id.to_le_bytes()].concat();
        self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
    }

    /// The client sends the types of parameters once, also with an execution that the server never sees.
    pub(in crate::proxy) fn note_types(&mut self, arrived: Arrived) {
        let with_attributes = self.relay.has_attributes();
        let payload = self.relay.payload(arrived).into_owned();
        let id = arrived.statement;
        let Some(statement) = id.and_then(|id| self.relay.statements.get_mut(id)) else { return };
        let params = statement.params;
        let types = statement.types.as_deref();
        let sent = if arrived.command == Command::StmtBulkExecute {
            Bulk::parse(&payload, params, types).map(|bulk| bulk.types).ok()
        } else {
            let expected = Expected { params, types, long_data: &statement.long_data, with_attributes };
            Execute::parse(&payload, expected).map(|execute| execute.types(params)).ok()
        };
        if let Some(sent) = sent.filter(|sent| !sent.is_empty()) {
            statement.types = Some(sent);
        }
    }

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where that was something.
    pub(in crate::proxy) fn forget_long_data(&mut self, arrived: Arrived) -> Option<u32> {
        let id = arrived.statement?;
        let statement = self.relay.statements.get_mut(id)?;
        (!std::mem::take(&mut statement.long_data).is_empty()).then_some(id)
    }

    /// What is executed, by these rules and the columns that are.
    pub(in crate::proxy) fn kept_now(
        &mut self,
        tables: &Arc<Tables>,
        id: u32,
        supplied: &mut Supplied,
    ) -> Result<Arc<Kept>, Unfilled> {
        let statement = self.relay.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
        let (server_id, before) = (statement.server_id, statement.kept.clone());
        let kept = self.as_it_is_now(tables, before.clone(), supplied)?;
        if !Arc::ptr_eq(&kept, &before) && kept.server_text() != before.server_text() {
            // What its query needs to be asked first was asked when it was prepared.
            if kept.selects() {
                return Err(Unfilled::Refused(Refusal::Statement(
                    "the rules or the columns of the INSERT ... SELECT's table have changed since it was prepared; \
                     prepare it again"
                        .into(),
                )));
            }
            return Err(match server_id {
                Some(_) => Unfilled::Needs(Need::Prepared { id, kept }),
                None => Unfilled::Refused(Refusal::UnknownStatement(id)),
            });
        }
        if kept.prepared.is_some() && self.relay.session.state().is_none() {
            return Err(Unfilled::Refused(state_unknown()));
        }
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        statement.kept = kept.clone();
        Ok(kept)
    }

    /// The execution with its ids.
    fn filled(
        &mut self,
        tables: &Arc<Tables>,
        arrived: Arrived,
        payload: &[u8],
        supplied: &mut Supplied,
    ) -> Result<Filled, Unfilled> {
        let id = arrived.statement.ok_or_else(|| malformed(Malformed::Truncated("statement id")))?;
        let kept = self.kept_now(tables, id, supplied)?;
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
        self.with_ids(tables, prepared, execute.map_err(malformed)?, supplied)
    }

    fn with_ids(
        &self,
        tables: &Arc<Tables>,
        prepared: &PreparedInsert,
        execute: Execute<'_>,
        supplied: &mut Supplied,
    ) -> Result<Filled, Unfilled> {
        let target = &prepared.insert.target;
        let draft = Draft::new(prepared, &execute, self.meaning(prepared)?)?;
        let explicit = Explicit::expect(tables, target, 0, &draft.explicit);
        let found_rows = self.relay.found_rows();
        let note = |reply: Option<InsertReply>, explicit: Option<Explicit>| {
            Note::statements(reply.into_iter().collect(), explicit.into_iter().collect(), Effects::default())
        };
        if draft.ids == 0 {
            // An update still tells by what was added to its list.
            let tells = prepared.text.style == Style::OdkuLiteral;
            let reply = tells.then(|| InsertReply::new(&prepared.insert, None, found_rows, tables.clone()));
            return Ok(Filled::Send(execute.build(), note(reply, explicit)));
        }
        let range = match self.take(tables, target, draft.ids, supplied) {
            Ok(range) => range,
            Err(lacking) => {
                supplied.keep_expecting(explicit.into_iter().collect());
                return Err(lacking.into());
            }
        };
        let reply = InsertReply::new(&prepared.insert, Some(Ids::from(&range)), found_rows, tables.clone());
        let out = draft.write(execute, &range).ok_or_else(|| Refusal::NoId("the ids do not fit".into()))?;
        Ok(Filled::Send(out, note(Some(reply), explicit)))
    }

    /// The statement under the rules and columns of its table that are now. Where the server must have another text, it is
    /// prepared again under the client's id; where it has the right one, it prepares that again by itself if it must.
    fn as_it_is_now(
        &self,
        tables: &Arc<Tables>,
        kept: Arc<Kept>,
        supplied: &mut Supplied,
    ) -> Result<Arc<Kept>, Unfilled> {
        let source = &kept.source;
        let name = &source.table;
        let not_now = || Refusal::NoId(format!("table {name} cannot be looked up"));
        match tables.lookup(&name.schema, &name.table) {
            lookup if kept.is_current(&lookup) => return Ok(kept),
            // The server's word.
            Lookup::Missing => return Ok(kept),
            Lookup::Unknown if supplied.may_look() => {
                return Err(Unfilled::Needs(Need::Table { name: name.clone(), again: false }));
            }
            Lookup::Unknown | Lookup::PerhapsHidden => return Err(not_now().into()),
            Lookup::Away(why) => return Err(Refusal::NoId(why).into()),
            Lookup::Refused(why) | Lookup::ServerFirst(why) => {
                return Err(Refusal::Statement(why).into());
            }
            Lookup::Ruled(_) | Lookup::NotRuled => {}
        }
        // A rule has come for it, in a session that was asked nothing so far.
        if !self.relay.session.is_settled() {
            return Err(Unfilled::Needs(Need::State { must_ask: true }));
        }
        let is_as_then = self.relay.session.state().is_some_and(|now| {
            (source.reads_alike || now.dialect == source.dialect) && now.database == source.database
        });
        let Some(text) = source.text.as_deref().filter(|_| is_as_then) else {
            return Err(cannot_prepare_again(name, is_as_then).into());
        };
        let prepared = match self.judge(tables, Command::StmtPrepare, text, supplied) {
            Verdict::Prepare(kept) | Verdict::PrepareSelect(kept) => kept.prepared.clone(),
            Verdict::Pass(_) | Verdict::PassActing(_) | Verdict::PassKept(_) => None,
            Verdict::Refuse(refusal) => return Err(refusal.into()),
            Verdict::Show(shown) => return Err(Unfilled::Shown(shown)),
            Verdict::Needs(need) => return Err(Unfilled::Needs(need)),
            // None of a statement that is prepared in a session whose state is known.
            Verdict::Send(_) | Verdict::Select(_) | Verdict::Fail(_) => return Err(not_now().into()),
        };
        let now = Kept { source: source.clone(), prepared };
        Ok(Arc::new(now))
    }

    /// What values at the id's place mean to this execution.
    pub(in crate::proxy) fn meaning(&self, prepared: &PreparedInsert) -> Result<Meaning, Refusal> {
        let insert = &prepared.insert;
        let state = self.relay.session.state().ok_or_else(state_unknown)?;
        let meaning = Meaning::new(&state.dialect, insert.target.id_shape());
        if insert.zero_meant.is_some_and(|zero_was_value| zero_was_value != meaning.zero_is_value) {
            return Err(Refusal::Statement(
                "sql_mode's NO_AUTO_VALUE_ON_ZERO has changed since this was prepared, which decides what its zeros \
                 mean; prepare it again"
                    .into(),
            ));
        }
        if insert.strict_meant.is_some_and(|strictness| strictness != meaning.strictness()) {
            return Err(Refusal::Statement(
                "sql_mode's strictness has changed since this was prepared, which decides whether its id is an error; \
                 prepare it again"
                    .into(),
            ));
        }
        Ok(meaning)
    }
}

fn lost_long_data() -> Refusal {
    Refusal::Statement(
        "the rules have changed since a parameter was sent ahead; send it and execute again".to_owned(),
    )
}

impl Relay {
    /// The server has prepared a statement of the client's once more.
    pub(in crate::proxy) fn prepared_again(
        &mut self,
        id: u32,
        server_id: u32,
        kept: Arc<Kept>,
    ) -> Result<(), Refusal> {
        let Some(before) = self.statements.replace(id, server_id, kept) else { return Ok(()) };
        if let Some(old) = before.server_id {
            self.close(old);
        }
        if before.had_long_data { Err(lost_long_data()) } else { Ok(()) }
    }
}

fn cannot_prepare_again(name: &TableName, is_as_then: bool) -> Refusal {
    let why = if is_as_then {
        "its text was too long to be kept"
    } else {
        "under another default database, sql_mode or character set"
    };
    Refusal::Statement(format!(
        "the rules or the columns of {name} have changed since this was prepared, {why}; prepare it again"
    ))
}
