//! An INSERT whose id from the generator was in the table already (error 1062) is sent again with new ids. The client does not see the
//! error; with AUTO_INCREMENT there is none.
//!
//! Nothing is done twice: the server has stored nothing of the statement (it had one row, or InnoDB has rolled it back), and it can
//! have had no other effect (no trigger, variable, or function but the server's own). Only the last command that was sent is
//! sent again, so that no later one runs before it.

use std::time::Duration;

use tokio::time::timeout;

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::parse_err;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::mysql::prepared::statement_id;
use crate::mysql::reader::Reader;
use crate::proxy::serve::session::Session;
use crate::rewrite::plan::target::Target;
use crate::rules::model::ColumnShape;
use crate::schema::{Schema, SchemaError, smallest_query};
use crate::sql::insert::stores_only;

/// The client waits for its error so long at most.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Engines that store nothing of a row that is a duplicate, and nothing elsewhere.
const ENGINES: [&str; 4] = ["InnoDB", "MyISAM", "Aria", "MEMORY"];

impl Session {
    /// The answer at the front of the server's lane may be such an error. `may_put_back`: no command of the client's stands at the front
    /// of its lane to be decided.
    pub(super) async fn collided(&mut self, may_put_back: bool) {
        let window = self.relay.answer_window();
        let end = Header::parse(window).map_or(0, Header::packet_bytes);
        let error = window.get(HEADER_BYTES..end).and_then(parse_err);
        let Some(reply) = self.relay.insert_reply() else { return };
        reply.was_looked_at = true;
        let Some(id) = error.and_then(|(_, text)| reply.collided(&text)) else { return };
        let (target, rows, may_be) = (reply.target.clone(), reply.rows, reply.may_be_sent_again());
        let tables = self.shared.tables.clone();
        let schema = tables.schema();
        let is_there = match schema {
            Some(schema) => timeout(LOOK_MAX, is_there(schema, &target, id)).await.unwrap_or(None),
            None => None,
        };
        if is_there == Some(false) {
            // Another key's duplicate, in whose value the number is.
            return;
        }
        tables.collided(&target, id);
        let Some(schema) = schema.filter(|_| may_be && may_put_back && self.relay.may_send_again()) else {
            return;
        };
        if is_there.is_none() || target.view.is_some() || !self.stores_only() {
            return;
        }
        let does_nothing_else = timeout(LOOK_MAX, does_nothing_else(schema, &target, rows)).await;
        if matches!(does_nothing_else, Ok(Ok(true))) {
            self.relay.take_back();
        }
    }

    /// True if the text of the statement can do nothing but store its rows.
    fn stores_only(&self) -> bool {
        let Some(kept) = self.relay.kept() else { return false };
        let payload = payload_of(kept, kept.len());
        if Reader::new(&payload).peek() == Some(Command::Query as u8) {
            let Some(state) = self.relay.known.session.state() else { return false };
            let text =
                text_at(&payload, self.relay.known.has_attributes()).ok().and_then(|at| payload.get(at..));
            return text.is_some_and(|text| stores_only(text, state.dialect));
        }
        let statement = statement_id(&payload).ok().and_then(|id| self.relay.known.statements.get(id));
        let source = statement.map(|statement| &statement.kept.source);
        source
            .is_some_and(|source| source.text.as_ref().is_some_and(|text| stores_only(text, source.dialect)))
    }
}

/// True if the id is in the table, in a row of an open transaction too. `None`: that cannot be read.
async fn is_there(schema: &Schema, target: &Target, id: u64) -> Option<bool> {
    let column = ColumnShape { name: target.rule.column.clone(), ..target.id_shape()?.clone() };
    let query = smallest_query((&target.rule.schema, &target.table), &column, (id, id, &target.spacing));
    schema.smallest_id(&query).await.ok().map(|found| found.is_some())
}

/// True if the server has stored nothing of such a statement that failed, and run nothing else for it.
async fn does_nothing_else(schema: &Schema, target: &Target, rows: u32) -> Result<bool, SchemaError> {
    let (name, table) = (&target.rule.schema, &target.table);
    let engine = schema.engine(name, table).await?.unwrap_or_default();
    let engines = if rows > 1 { &ENGINES[..1] } else { &ENGINES[..] };
    let stores_nothing = engines.iter().any(|known| engine.eq_ignore_ascii_case(known));
    Ok(stores_nothing && schema.fired_by_insert(name, table).await?.is_some_and(|fired| !fired.any))
}
