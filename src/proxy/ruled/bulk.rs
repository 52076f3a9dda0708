//! MariaDB's bulk executions of prepared INSERTs into ruled tables: each set of parameters gets ids of its own, out of one range.

use std::sync::Arc;

use crate::mysql::bulk::{Bulk, BulkError};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::Supplied;
use crate::proxy::relay::Arrived;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::ruled::execute::{Filled, Unfilled};
use crate::proxy::ruled::rehearsal::Bound;
use crate::proxy::session::Session;
use crate::rewrite::bulk::Draft;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::effects::Effects;
use crate::tables::Tables;

impl Session {
    /// The execution with its ids.
    pub(in crate::proxy) fn filled_bulk(
        &mut self,
        tables: &Arc<Tables>,
        arrived: Arrived,
        payload: &[u8],
        supplied: &mut Supplied,
    ) -> Result<Filled, Unfilled> {
        if !self.relay.capabilities.contains(Capabilities::MARIADB_STMT_BULK) {
            return Err(Refusal::UnsupportedPrepared.into());
        }
        let id = arrived.statement.ok_or(Refusal::WrongArguments)?;
        let kept = self.kept_now(tables, id, supplied)?;
        let is_another = self.relay.statements.translated(id).is_some();
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        let Some(prepared) = &kept.prepared else {
            let bulk = Bulk::parse(payload, statement.params, statement.types.as_deref());
            if let Ok(bulk) = &bulk {
                self.rehearse_execution(tables, &kept, &Bound::Bulk(bulk));
            }
            let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
            // The types that the client left out went to the statement before it. What is wrong is the server's to say.
            return Ok(match bulk {
                Ok(bulk) => {
                    let again = is_another.then(|| bulk.whole());
                    statement.types = Some(bulk.types);
                    again.map_or(Filled::Passes, |payload| Filled::Send(payload, Note::Nothing))
                }
                Err(_) => Filled::Passes,
            });
        };
        if prepared.insert.select.is_some() {
            let why = "MariaDB's bulk execution of an INSERT ... SELECT; execute it once for each set of parameters";
            return Err(Refusal::Statement(why.into()).into());
        }
        if !statement.long_data.is_empty() {
            return Err(Refusal::WrongArguments.into());
        }
        let params = prepared.text.client_params;
        let bulk = Bulk::parse(payload, params, statement.types.as_deref()).map_err(refusal_of)?;
        statement.types = Some(bulk.types.clone());
        let meaning = self.meaning(prepared)?;
        let draft = Draft::new(prepared, &bulk, meaning)?;
        if let Some(why) = prepared.insert.one_set_only.filter(|_| draft.sets > 1) {
            let why = format!("a bulk execution of several rows, and {why}; execute the rows one by one");
            return Err(Refusal::Statement(why).into());
        }
        let explicit = Explicit::expect(tables, &prepared.insert.target, 0, &draft.explicit);
        let kinds = draft.kinds()?;
        let too_many = || Refusal::NoId("too many rows; send fewer at a time".into());
        let range = match draft.ids().ok_or_else(too_many)? {
            0 => None,
            ids => match self.take(tables, &prepared.insert.target, ids, supplied) {
                Ok(range) => Some(range),
                Err(lacking) => {
                    supplied.keep_expecting(explicit.into_iter().collect());
                    return Err(lacking.into());
                }
            },
        };
        // An update of an explicit row still tells by what was added to its list.
        let tells = range.is_some() || prepared.text.style == Style::OdkuLiteral;
        let reply = tells.then(|| {
            let (ids, found_rows) = (range.as_ref().map(Ids::from), self.relay.found_rows());
            InsertReply::new(&prepared.insert, ids, found_rows, tables.clone()).in_bulk(draft.sets)
        });
        let out =
            draft.write(&kinds, range.as_ref()).ok_or_else(|| Refusal::NoId("the ids do not fit".into()))?;
        let (inserts, explicit) = (reply.into_iter().collect(), explicit.into_iter().collect());
        Ok(Filled::Send(out, Note::statements(inserts, explicit, Effects::default())))
    }
}

fn refusal_of(error: BulkError) -> Refusal {
    match error {
        BulkError::Unsupported => Refusal::UnsupportedPrepared,
        BulkError::Malformed(_) => Refusal::WrongArguments,
    }
}
