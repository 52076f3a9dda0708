//! Executions of prepared INSERTs into ruled tables: which parameters take an id is decided here, at each execution.

use std::sync::Arc;

use super::inserts::{Ids, InsertReply};
use super::outstanding::{Note, Purpose};
use super::ruled::{Verdict, state_unknown};
use super::session::Session;
use super::statements::PreparedInsert;
use super::tables::is_textual;
use super::upstream::payload_of;
use crate::ids::range::IdRange;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, Param, Scalar, id_bytes, statement_id};
use crate::rewrite::plan::{Lookup, Style};
use crate::rules::model::Explicit;
use crate::sql::dialect::SqlMode;

/// What is bound to the id's place of a row.
enum Place {
    /// NULL or zero: takes an id.
    Takes,
    /// The client's own.
    Explicit(Option<i128>),
}

impl Session {
    /// COM_STMT_EXECUTE of a ruled statement.
    pub(super) async fn execute(&mut self, window_bytes: usize, packets: usize) {
        let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
        let filled = self.filled(&payload).await;
        let had_long_data = self.forget_long_data(&payload);
        match filled {
            Err(refusal) => {
                self.refuse(&refusal, window_bytes, packets);
                if let Some(id) = had_long_data {
                    let reset = [&[Command::StmtReset as u8][..], &id.to_le_bytes()].concat();
                    self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
                }
            }
            Ok((payload, reply)) => {
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

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where that was something: the
    /// server does not see an execution that is refused.
    fn forget_long_data(&mut self, execution: &[u8]) -> Option<u32> {
        let id = statement_id(execution).ok()?;
        let statement = self.relay.statements.get_mut(id)?;
        (!std::mem::take(&mut statement.long_data).is_empty()).then_some(id)
    }

    /// The execution with its ids.
    async fn filled(&mut self, payload: &[u8]) -> Result<(Vec<u8>, Option<InsertReply>), Refusal> {
        let malformed = |error| {
            Refusal::Statement(format!("rowstamp: the execution's parameters cannot be read: {error}"))
        };
        if self.relay.view.state().is_none() {
            return Err(state_unknown());
        }
        let id = statement_id(payload).map_err(malformed)?;
        let statement = self.relay.statements.get(id).ok_or(Refusal::UnknownStatement(id))?;
        let prepared = self.as_it_is_now(statement.prepared.clone()).await?;
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        statement.prepared = prepared.clone();
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
        let (taking, explicit) = self.places(&prepared, &execute)?;
        self.follow_explicit(&prepared.insert.target, &explicit).await?;
        let ids = prepared.text.fixed_ids + u32::try_from(taking.len()).unwrap_or(u32::MAX);
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
        let id = |nth: usize| bytes.get(nth).map(Param::id).ok_or(Refusal::NoId("the ids do not fit".into()));
        for (nth, &param) in taking.iter().enumerate() {
            if let Some(place) = execute.params.get_mut(usize::from(param)) {
                *place = id(nth)?;
            }
        }
        // Ascending, so that each index is right when it is its turn.
        for hidden in &prepared.text.hidden {
            let nth = usize::try_from(hidden.nth).unwrap_or(usize::MAX);
            let at = usize::from(hidden.index).min(execute.params.len());
            execute.params.insert(at, id(nth)?);
        }
        Ok((execute.build(), Some(reply)))
    }

    /// The statement under the columns that its table has now: the server prepares it again by itself where they have
    /// changed, and its ids must still stand where they stood.
    async fn as_it_is_now(&self, prepared: Arc<PreparedInsert>) -> Result<Arc<PreparedInsert>, Refusal> {
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
            Lookup::Unknown => {
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

    /// The client's parameters that take an id, in the order of their rows, and the ids that it bound itself.
    fn places(
        &self,
        prepared: &PreparedInsert,
        execute: &Execute<'_>,
    ) -> Result<(Vec<u16>, Vec<i128>), Refusal> {
        let mut taking = Vec::new();
        let mut explicit = prepared.insert.explicit.clone();
        let zero_is_a_value = self
            .relay
            .view
            .state()
            .is_some_and(|state| state.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO));
        let is_textual = is_textual(&prepared.insert.target);
        for place in &prepared.text.id_params {
            let param = execute.params.get(usize::from(place.index)).copied();
            match place_of(param, zero_is_a_value, is_textual)? {
                Place::Takes => taking.push(place.index),
                Place::Explicit(_) if prepared.insert.target.rule.explicit == Explicit::Reject => {
                    let rule = &prepared.insert.target.rule;
                    return Err(Refusal::Statement(format!(
                        "rowstamp: the rule of {}.{} rejects ids that the client writes; bind NULL to {}",
                        rule.schema, prepared.insert.target.table, rule.column
                    )));
                }
                Place::Explicit(value) => explicit.extend(value),
            }
        }
        Ok((taking, explicit))
    }
}

/// `is_textual`: the column holds strings, so that any of them is an id.
fn place_of(param: Option<Param<'_>>, zero_is_a_value: bool, is_textual: bool) -> Result<Place, Refusal> {
    let doubt = || {
        Refusal::Statement(
            "rowstamp: what is bound to the id is neither NULL nor an integer; bind one of them".into(),
        )
    };
    let scalar = param.and_then(|param| param.scalar().ok()).ok_or_else(doubt)?;
    let value = match scalar {
        Scalar::Null => return Ok(Place::Takes),
        Scalar::Integer(value) => value,
        // Exact: an integer below 2^53.
        #[allow(clippy::cast_possible_truncation)]
        Scalar::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => value as i128,
        // A decimal or a string that is an integer; what else the server would make of it is the server's to say.
        Scalar::Text(text) => {
            match std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()) {
                Some(value) => value,
                None if is_textual => return Ok(Place::Explicit(None)),
                None => return Err(doubt()),
            }
        }
        Scalar::Float(_) | Scalar::Other => return Err(doubt()),
    };
    Ok(if value == 0 && !zero_is_a_value { Place::Takes } else { Place::Explicit(Some(value)) })
}

fn bytes_of(range: &IdRange) -> Vec<[u8; 8]> {
    (0..range.count()).filter_map(|k| range.nth(k)).map(id_bytes).collect()
}
