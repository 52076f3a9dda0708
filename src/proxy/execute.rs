//! Executions of prepared INSERTs into ruled tables: which parameters take an id is decided here, at each execution.

use std::sync::Arc;

use super::hidden::Execution;
use super::inserts::{Ids, InsertReply};
use super::outstanding::{Note, Purpose};
use super::ruled::{Verdict, state_unknown};
use super::session::Session;
use super::statements::PreparedInsert;
use super::tables::id_shape;
use super::upstream::payload_of;
use crate::ids::range::IdRange;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, Param, id_bytes, statement_id};
use crate::rewrite::meaning::{Bound, Meaning};
use crate::rewrite::plan::{Lookup, Style};
use crate::rules::model::Explicit;

/// Where an id goes: in place of a parameter of the client's, or as one of ours.
enum Place {
    Client(u16),
    Hidden(u16),
}

/// By row, and the ids that the client wrote or bound itself.
type Places = (Vec<(u32, Place)>, Vec<i128>);

impl Session {
    /// COM_STMT_EXECUTE of a ruled statement.
    pub(super) async fn execute(&mut self, window_bytes: usize, packets: usize) {
        let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
        match self.hides_prepared(&payload) {
            Execution::Ruled => {}
            Execution::Passes => return self.pass_execution(&payload, window_bytes),
            Execution::Asked => return,
            Execution::Refused(refusal) => return self.refuse(&refusal, window_bytes, packets),
        }
        if self.executes_select(&payload) {
            return self.execute_select(payload, window_bytes, packets).await;
        }
        let filled = self.filled(&payload).await;
        match filled {
            Err(refusal) => self.refuse_execution(&payload, &refusal, window_bytes, packets),
            Ok((payload, reply)) => {
                self.forget_long_data(&payload);
                if reply.as_ref().is_some_and(InsertReply::sets_insert_id) {
                    self.relay.view.take_owed_insert_id();
                }
                let nr_shift = self.relay.send_instead(&payload, window_bytes, packets);
                let inserts = reply.into_iter().collect();
                let note = Note::Statements { inserts, effects: Arc::default() };
                self.relay.owe(Command::StmtExecute.reply(), false, nr_shift, note);
            }
        }
    }

    /// What was sent ahead for it goes with it: the server does not see an execution that is refused.
    pub(super) fn refuse_execution(
        &mut self,
        payload: &[u8],
        refusal: &Refusal,
        window_bytes: usize,
        packets: usize,
    ) {
        let had_long_data = self.forget_long_data(payload);
        self.refuse(refusal, window_bytes, packets);
        if let Some(id) = had_long_data {
            let reset = [&[Command::StmtReset as u8][..], &id.to_le_bytes()].concat();
            self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
        }
    }

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where that was something.
    pub(super) fn forget_long_data(&mut self, execution: &[u8]) -> Option<u32> {
        let id = statement_id(execution).ok()?;
        let statement = self.relay.statements.get_mut(id)?;
        (!std::mem::take(&mut statement.long_data).is_empty()).then_some(id)
    }

    /// The execution with its ids.
    async fn filled(&mut self, payload: &[u8]) -> Result<(Vec<u8>, Option<InsertReply>), Refusal> {
        let malformed = |error| {
            Refusal::Statement(format!("rowstamp: the execution's parameters cannot be read: {error}"))
        };
        let id = statement_id(payload).map_err(malformed)?;
        let prepared = self.prepared_now(id).await?;
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        let params = prepared.text.client_params;
        let expected = Expected {
            params,
            types: statement.types.as_deref(),
            long_data: &statement.long_data,
            with_attributes: self.relay.capabilities.contains(Capabilities::QUERY_ATTRIBUTES),
        };
        let mut execute = Execute::parse(payload, expected).map_err(malformed)?;
        if params > 0 {
            statement.types = Some(execute.types(params));
        }
        let (places, explicit) = self.places(&prepared, &execute)?;
        self.follow_explicit(&prepared.insert.target, &explicit).await?;
        let taken = places.iter().filter(|(_, place)| matches!(place, Place::Client(_))).count();
        let ids = prepared.text.fixed_ids + u32::try_from(taken).unwrap_or(u32::MAX);
        let found_rows = self.relay.found_rows();
        if ids == 0 {
            // An update still tells by what was added to its list.
            let tells = prepared.text.style == Style::OdkuLiteral;
            let reply = tells.then(|| InsertReply::new(&prepared.insert, None, found_rows));
            return Ok((execute.build(), reply));
        }
        let range = self.take(&prepared.insert.target, ids).await?;
        let reply = InsertReply::new(&prepared.insert, Some(Ids::from(&range)), found_rows);
        let bytes = bytes_of(&range);
        let do_not_fit = || Refusal::NoId("the ids do not fit".into());
        let mut hidden = Vec::new();
        for (nth, (_, place)) in places.iter().enumerate() {
            let id = bytes.get(nth).map(Param::id).ok_or_else(do_not_fit)?;
            match *place {
                Place::Client(at) => *execute.params.get_mut(usize::from(at)).ok_or_else(do_not_fit)? = id,
                Place::Hidden(at) => hidden.push((usize::from(at), id)),
            }
        }
        // Ascending, so that each index is right when it is its turn.
        for (at, id) in hidden {
            execute.params.insert(at.min(execute.params.len()), id);
        }
        Ok((execute.build(), Some(reply)))
    }

    /// What is executed, as its table is now.
    pub(super) async fn prepared_now(&mut self, id: u32) -> Result<Arc<PreparedInsert>, Refusal> {
        if self.relay.view.state().is_none() {
            return Err(state_unknown());
        }
        let statement = self.relay.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
        let prepared = self.as_it_is_now(statement.prepared.clone()).await?;
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        statement.prepared = prepared.clone();
        Ok(prepared)
    }

    /// The statement under the columns that its table has now: the server prepares it again by itself where they have
    /// changed, and its ids must still stand where they stood.
    pub(super) async fn as_it_is_now(
        &self,
        prepared: Arc<PreparedInsert>,
    ) -> Result<Arc<PreparedInsert>, Refusal> {
        let target = &prepared.insert.target;
        let (schema, table) = target.named();
        let tables = &self.relay.view.tables;
        let mut lookup = tables.lookup(schema, table);
        if let Lookup::Unknown = lookup {
            tables.fetch(schema, table, false).await;
            lookup = tables.lookup(schema, table);
        }
        match lookup {
            Lookup::Ruled(now) if Arc::ptr_eq(&now, target) || now == *target => return Ok(prepared),
            // The server's word.
            Lookup::Missing | Lookup::NotRuled => return Ok(prepared),
            Lookup::Unknown | Lookup::PerhapsHidden => {
                return Err(Refusal::NoId(format!("table {schema}.{table} cannot be looked up")));
            }
            Lookup::Refused(why) | Lookup::ServerFirst(why) => {
                return Err(Refusal::Statement(format!("rowstamp: {why}")));
            }
            Lookup::Ruled(_) => {}
        }
        match self.judge(Command::StmtPrepare, &prepared.source).await {
            Verdict::Prepare(now)
                if now.text == prepared.text && now.insert.target.named() == (schema, table) =>
            {
                Ok(now)
            }
            _ => Err(Refusal::Statement(format!(
                "rowstamp: the columns of {schema}.{table} have changed since this was prepared; prepare it again"
            ))),
        }
    }

    /// Where ids go, in the order of their rows, and the ids that the client wrote or bound itself.
    fn places(&self, prepared: &PreparedInsert, execute: &Execute<'_>) -> Result<Places, Refusal> {
        let meaning = self.meaning(prepared)?;
        let hidden = prepared.text.hidden.iter().map(|hidden| (hidden.row, Place::Hidden(hidden.index)));
        let mut places: Vec<_> = hidden.collect();
        let mut explicit = prepared.insert.explicit.clone();
        for place in &prepared.text.id_params {
            match bound_to_id(meaning, prepared, execute.params.get(usize::from(place.index)))? {
                Bound::Takes => places.push((place.row, Place::Client(place.index))),
                Bound::Explicit(value) => explicit.extend(value),
            }
        }
        places.sort_by_key(|(row, _)| *row);
        Ok((places, explicit))
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
        Ok(meaning)
    }
}

/// What a parameter at the id's place asks for; an error where it does not show that, or where the rule does not have it.
pub(super) fn bound_to_id(
    meaning: Meaning,
    prepared: &PreparedInsert,
    param: Option<&Param<'_>>,
) -> Result<Bound, Refusal> {
    let target = &prepared.insert.target;
    let bound = param.and_then(|param| meaning.bound(param)).ok_or_else(|| {
        Refusal::Statement(format!(
            "rowstamp: what is bound to {} does not show whether it is zero; bind an integer or NULL",
            target.id_column()
        ))
    })?;
    if matches!(bound, Bound::Explicit(_)) && target.rule.explicit == Explicit::Reject {
        return Err(Refusal::Statement(format!(
            "rowstamp: the rule of {}.{} rejects ids that the client writes; bind NULL to {}",
            target.rule.schema, target.table, target.rule.column
        )));
    }
    Ok(bound)
}

fn bytes_of(range: &IdRange) -> Vec<[u8; 8]> {
    (0..range.count()).filter_map(|k| range.nth(k)).map(id_bytes).collect()
}
