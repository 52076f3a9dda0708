//! Executions of prepared INSERTs into ruled tables. Which parameters take an id is decided at each
//! execution.

use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::packets_of;
use crate::mysql::reader::Malformed;
use crate::proxy::decide::params::{Params, too_many_sets};
use crate::proxy::decide::verdict::{Verdict, malformed, refused, state_unknown};
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Supplied, Unsent};
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::outstanding::{Note, Purpose};
use crate::proxy::relay::{Arrived, Ready};
use crate::proxy::serve::progress::{Later, Packet, Progress};
use crate::proxy::serve::session::Session;
use crate::rewrite::meaning::Meaning;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::{LastId, Lookup, UpdatedIds};
use crate::rewrite::prepare::PreparedInsert;
use crate::rewrite::{bulk, execution};
use crate::table_name::TableName;
use crate::tables::Tables;

/// What becomes of an execution.
pub(in crate::proxy) enum Filled {
    /// Goes on as it came.
    Passes,
    /// With its ids, and what its answer needs.
    Send(Vec<u8>, Note),
    /// It goes by way of a stage.
    Stage(Arc<Kept>),
}

/// What an execution takes, and what it brings itself.
struct Taking<'a> {
    ids: u32,
    /// Sets of parameters.
    sets: u32,
    explicit: &'a [i128],
    last: LastId,
}

impl Session {
    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE of an INSERT that is kept.
    pub(in crate::proxy) fn execute(&mut self, arrived: Arrived) -> Progress {
        match self.is_masked(arrived) {
            Ok(false) => {}
            Ok(true) => {
                let effects = arrived.statement.and_then(|id| self.relay.known.statements.effects(id));
                return self.pass(arrived, true, effects.map_or(Note::Nothing, Note::effects));
            }
            Err(unsent) => return self.unsent(arrived, unsent),
        }
        if let Some(progress) = self.execute_forwarded(arrived) {
            return progress;
        }
        let payload = self.relay.payload(arrived).into_owned();
        let mut supplied = std::mem::take(&mut self.relay.known.supplied);
        let tables = self.shared.tables.now();
        let filled = self.filled(&tables, arrived, &payload, &mut supplied);
        self.relay.known.supplied = supplied;
        if tables.is_retired() {
            return Progress::Needs(Need::Rules { retired: tables });
        }
        match filled {
            Err(unsent) => self.unsent(arrived, unsent),
            Ok(Filled::Stage(kept)) => match self.staged_execution(arrived, kept, &payload) {
                Ok(task) => Progress::Stage(Box::new(task)),
                Err(refusal) => self.refuse(arrived, &refusal),
            },
            Ok(Filled::Passes) => {
                self.forget_long_data(arrived);
                self.relay.translate_id();
                self.pass(arrived, false, Note::Nothing)
            }
            Ok(Filled::Send(payload, note))
                if packets_of(payload.len()) > 1 || note.inserts().iter().any(InsertReply::is_late) =>
            {
                let packet = Packet::Execution { payload, note };
                Progress::Later(Box::new(Later { sets: None, packet, tables }))
            }
            Ok(Filled::Send(payload, note)) => self.send_execution(arrived, (payload, None), note),
        }
    }

    /// Answers a command that is not sent, or says what is left to do for it.
    pub(in crate::proxy) fn unsent(&mut self, arrived: Arrived, unsent: Unsent) -> Progress {
        match unsent {
            Unsent::Needs(need) => Progress::Needs(need),
            Unsent::Unreadable(shown) => Progress::Show(shown),
            Unsent::Refused(refusal) => self.refuse(arrived, &refusal),
            Unsent::WithoutIds(why) => Progress::Natively(why),
            Unsent::Failed(error) => self.fail(arrived, &error),
        }
    }

    pub(in crate::proxy) fn send_execution(
        &mut self,
        arrived: Arrived,
        (mut payload, ready): (Vec<u8>, Option<Ready>),
        note: Note,
    ) -> Progress {
        // Parameters that were sent ahead (COM_STMT_SEND_LONG_DATA) cannot be sent again.
        let has_all = self.forget_long_data(arrived).is_none();
        self.relay.keep(arrived, if has_all { note.inserts() } else { &[] });
        if note.inserts().iter().any(InsertReply::sets_insert_id) {
            self.relay.known.session.owed_insert_id = None;
        }
        self.spend_set_id(note.inserts());
        let statement = arrived.statement.and_then(|id| self.relay.known.statements.get(id));
        self.audit_source(statement.map(|statement| &*statement.kept.source), note.inserts());
        self.audit_drawn();
        self.put_server_id(arrived, &mut payload);
        let nr_shift = match ready {
            Some(ready) => self.relay.send_ready(ready, arrived),
            None => self.relay.send_instead(&payload, arrived),
        };
        self.relay.owe(arrived.command.reply_to(&payload), note.moves_ids(), nr_shift, note);
        Progress::Done
    }

    /// Writes the server's statement id over the client's, where they differ.
    pub(in crate::proxy) fn put_server_id(&self, arrived: Arrived, payload: &mut [u8]) {
        let server_id = arrived.statement.and_then(|id| self.relay.known.statements.translated(id));
        if let Some((id, place)) = server_id.zip(payload.get_mut(1..5)) {
            place.copy_from_slice(&id.to_le_bytes());
        }
    }

    /// What was sent ahead for this statement, if any, is dropped by the server.
    pub(in crate::proxy) fn reset_long_data(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let server_id = self.relay.known.statements.translated(id).unwrap_or(id);
        let reset = [&[Command::StmtReset as u8][..], &server_id.to_le_bytes()].concat();
        self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
    }

    /// The client sends the types of parameters once, also with an execution that the server never
    /// sees.
    pub(in crate::proxy) fn note_types(&mut self, arrived: Arrived) {
        let with_attributes = self.relay.known.has_attributes();
        let payload = self.relay.payload(arrived).into_owned();
        let Some(statement) = arrived.statement.and_then(|id| self.relay.known.statements.get_mut(id)) else {
            return;
        };
        let expected = statement.expected(with_attributes);
        let types =
            Params::parse(arrived.command, &payload, expected).map(|params| params.new_types(expected));
        if let Ok(Some(types)) = types {
            statement.types = Some(types);
        }
    }

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where
    /// that was something.
    pub(in crate::proxy) fn forget_long_data(&mut self, arrived: Arrived) -> Option<u32> {
        let id = arrived.statement?;
        let statement = self.relay.known.statements.get_mut(id)?;
        statement.forget_long_data().then_some(id)
    }

    /// What is executed, under these rules and the present columns of its table.
    fn kept_now(
        &mut self,
        tables: &Arc<Tables>,
        id: u32,
        supplied: &mut Supplied,
    ) -> Result<Arc<Kept>, Unsent> {
        let statement = self.relay.known.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
        let (server_id, before) = (statement.server_id, statement.kept.clone());
        let kept = self.as_it_is_now(tables, before.clone(), supplied)?;
        if !Arc::ptr_eq(&kept, &before) && kept.server_text() != before.server_text() {
            server_id.ok_or(Refusal::UnknownStatement(id))?;
            return Err(Need::Prepared { id, kept }.into());
        }
        if kept.prepared.is_some() && self.relay.known.session.state().is_none() {
            return Err(state_unknown().into());
        }
        let statement = self.relay.known.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
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
    ) -> Result<Filled, Unsent> {
        let is_bulk = arrived.command == Command::StmtBulkExecute;
        if is_bulk && !self.relay.known.capabilities.contains(Capabilities::MARIADB_STMT_BULK) {
            return Err(Refusal::UnsupportedPrepared.into());
        }
        let id = arrived.statement.ok_or_else(|| {
            if is_bulk { Refusal::WrongArguments } else { malformed(Malformed::Truncated("statement id")) }
        })?;
        let kept = self.kept_now(tables, id, supplied)?;
        if kept.is_staged() {
            return match (self.relay.known.session.set_id, &kept.prepared) {
                // As MariaDB answers, which takes rows of values only.
                _ if is_bulk && kept.is_of_query() => Err(Refusal::UnsupportedPrepared.into()),
                (SetId::MayBeSet, Some(prepared)) => {
                    Err(Need::SetId { taken_for: Some(prepared.insert.target.clone()) }.into())
                }
                _ if self.relay.known.session.state().is_some_and(|state| state.settings.is_none()) => {
                    Err(Need::State { must_ask: true }.into())
                }
                _ => Ok(Filled::Stage(kept)),
            };
        }
        let with_attributes = self.relay.known.has_attributes();
        let statement = self.relay.known.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        if is_bulk && kept.prepared.is_some() && !statement.long_data.is_empty() {
            return Err(Refusal::WrongArguments.into());
        }
        let expected = statement.expected(with_attributes);
        let params = Params::parse(arrived.command, payload, expected);
        if let Ok(Some(types)) = params.as_ref().map(|params| params.new_types(expected)) {
            statement.types = Some(types);
        }
        if let Some(prepared) = &kept.prepared {
            let params = params?;
            if self.relay.known.session.presumed_dialect().is_mariadb() {
                params.refuse_unread(&prepared.insert.target)?;
            }
            return self.with_ids(tables, prepared, params, supplied);
        }
        // What is wrong is the server's to say.
        let Ok(params) = params else { return Ok(Filled::Passes) };
        self.rehearse_execution(tables, &kept, &params);
        // The types that the client left out went to the statement before it.
        let is_another = self.relay.known.statements.translated(id).is_some();
        Ok(if is_another { Filled::Send(params.build(), Note::Nothing) } else { Filled::Passes })
    }

    fn with_ids(
        &self,
        tables: &Arc<Tables>,
        prepared: &PreparedInsert,
        params: Params<'_>,
        supplied: &mut Supplied,
    ) -> Result<Filled, Unsent> {
        let meaning = self.meaning(prepared)?;
        if let Some(why) = &supplied.without_ids {
            return Err(Unsent::WithoutIds(why.clone()));
        }
        let mut take = |taking: Taking<'_>| self.take_for(tables, prepared, &taking, supplied);
        let (filled, note) = match params {
            Params::One(execute) => {
                let draft = execution::Draft::new(prepared, &execute, meaning)?;
                let (ids, last) = (draft.ids, draft.last);
                let (range, note) = take(Taking { ids, sets: 1, explicit: &draft.explicit, last })?;
                match range {
                    Some(range) => (draft.write(execute, &range), note),
                    None => (Some(execute.build()), note),
                }
            }
            Params::Bulk(bulk) => {
                let draft = bulk::Draft::new(prepared, &bulk, meaning)?;
                if let Some(why) = too_many_sets(&prepared.insert, draft.sets) {
                    return Err(refused(why).into());
                }
                let kinds = draft.kinds()?;
                let too_many = || Refusal::NoId("too many rows; send fewer at a time".into());
                let ids = draft.ids().ok_or_else(too_many)?;
                let (sets, last) = (draft.sets, draft.last);
                let (range, note) = take(Taking { ids, sets, explicit: &draft.explicit, last })?;
                (draft.write(&kinds, range.as_ref()), note)
            }
        };
        let payload = filled.ok_or_else(|| Refusal::NoId("the ids do not fit".into()))?;
        Ok(Filled::Send(payload, note))
    }

    /// The ids of an execution, and what its answer needs.
    fn take_for(
        &self,
        tables: &Arc<Tables>,
        prepared: &PreparedInsert,
        &Taking { ids, sets, explicit, last }: &Taking<'_>,
        supplied: &mut Supplied,
    ) -> Result<(Option<IdBlock>, Note), Unsent> {
        let insert = &prepared.insert;
        if let Some(why) = insert.too_many_rows(insert.rows.saturating_mul(sets), ids) {
            return Err(refused(insert.target.at(why)).into());
        }
        let target = &insert.target;
        if ids > 0 && self.relay.known.session.set_id == SetId::MayBeSet {
            return Err(Need::SetId { taken_for: Some(target.clone()) }.into());
        }
        let explicit = self.expect(tables, (insert, target), (ids, explicit), false)?;
        let range = match ids {
            0 => None,
            ids => match self.take_ids(tables, (insert, target), ids, supplied) {
                Ok(range) => Some(range),
                Err(unsent) => {
                    supplied.keep_expecting(explicit);
                    return Err(unsent);
                }
            },
        };
        // An update of an explicit row reports the id by what was added to its list.
        let tells = range.is_some() || insert.style == Style::OdkuLiteral || insert.tells_written(last);
        let reply = tells.then(|| {
            let facts = (self.relay.known.found_rows(), self.relay.known.session.set_id);
            InsertReply::new((insert, last), range.as_ref().map(Ids::from), facts, tables.clone())
                .in_bulk(sets)
        });
        let (inserts, explicit) = (reply.into_iter().collect(), explicit.into_iter().collect());
        let effects = Effects { moves_ids: insert.updated_ids == UpdatedIds::Move, ..Effects::default() };
        Ok((range, Note::statements(inserts, explicit, effects)))
    }

    /// The statement under these rules and the present columns of its table. Where the server needs
    /// another text, that is prepared under the client's id.
    fn as_it_is_now(
        &self,
        tables: &Arc<Tables>,
        kept: Arc<Kept>,
        supplied: &mut Supplied,
    ) -> Result<Arc<Kept>, Unsent> {
        let source = &kept.source;
        let name = &source.table;
        let not_now =
            || Unsent::from(Refusal::NoId(format!("Rowstamp cannot look up table {name}; try again")));
        match supplied.lookup(tables, &name.schema, &name.table) {
            lookup if kept.is_current(&lookup) => {
                let insert = kept.prepared.as_ref().map(|prepared| &prepared.insert);
                return match supplied.outdated(tables, insert.into_iter()) {
                    Some(need) => Err(need.into()),
                    None => Ok(kept),
                };
            }
            // The server's word.
            Lookup::Missing => return Ok(kept),
            Lookup::Unknown if supplied.may_look() => {
                supplied.begin_looking(tables, self.relay.outstanding.is_empty());
                return Err(Need::Table { name: name.clone(), again: false }.into());
            }
            Lookup::Unknown | Lookup::PerhapsHidden => return Err(not_now()),
            Lookup::Away(why) => return Err(Refusal::NoId(why).into()),
            Lookup::Refused(why) | Lookup::ServerFirst(why) => return Err(refused(why).into()),
            Lookup::Ruled(_) | Lookup::NotRuled => {}
        }
        // A rule has come for it, in a session that was asked nothing so far.
        if !self.relay.known.session.is_settled() {
            return Err(Need::State { must_ask: true }.into());
        }
        let is_as_then = self.relay.known.session.state().is_some_and(|now| source.reads_as_in(now));
        let Some(text) = source.text.as_deref().filter(|_| is_as_then) else {
            return Err(cannot_prepare_again(name, is_as_then).into());
        };
        let prepared = match self.judge(tables, Command::StmtPrepare, text, supplied) {
            Ok(Verdict::Prepare(kept)) => kept.prepared.clone(),
            Ok(Verdict::Pass(_) | Verdict::PassActing(_)) => None,
            // None of a statement that is prepared in a session whose state is known.
            Ok(Verdict::Send(_) | Verdict::Stage(_) | Verdict::Cut(_)) | Err(Unsent::Failed(_)) => {
                return Err(not_now());
            }
            Err(unsent) => return Err(unsent),
        };
        Ok(Arc::new(Kept { source: source.clone(), prepared }))
    }

    /// What values at the id's place mean to this execution.
    pub(in crate::proxy) fn meaning(&self, prepared: &PreparedInsert) -> Result<Meaning, Refusal> {
        let insert = &prepared.insert;
        let state = self.relay.known.session.state().ok_or_else(state_unknown)?;
        let meaning = Meaning::new(&state.dialect, insert.target.id_shape());
        if insert.zero_meant.is_some_and(|zero_was_value| zero_was_value != meaning.zero_is_value) {
            return Err(refused(insert.target.at(
                "NO_AUTO_VALUE_ON_ZERO was set or unset since the statement was prepared, and decides what zero and DEFAULT mean as id; \
                 prepare the statement again",
            )));
        }
        if insert.strict_meant.is_some_and(|strictness| strictness != meaning.strictness()) {
            return Err(refused(insert.target.at(
                "the strictness of sql_mode has changed since the statement was prepared, and decides whether a value for the id is an \
                 error; prepare the statement again",
            )));
        }
        Ok(meaning)
    }
}

fn cannot_prepare_again(name: &TableName, is_as_then: bool) -> Refusal {
    let why = if is_as_then {
        "Rowstamp has not kept the statement's text"
    } else {
        "the default database, sql_mode or character set too"
    };
    refused(format_args!(
        "{name}: the table's rule or columns have changed since the statement was prepared, and {why}; prepare the statement again"
    ))
}
