//! An INSERT whose id from the generator was in the table already (error 1062), sent once more with new ids: the client does not see
//! the error, as it would not with AUTO_INCREMENT.
//!
//! Nothing is done twice: the server has stored nothing of the statement (it had one row, or the table's engine takes a failed
//! statement back), and nothing else can have acted (no trigger, variable, or function but the server's own). Only the last
//! command that was sent is sent again, so that no later one runs before it.

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::parse_err;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::mysql::prepared::statement_id;
use crate::proxy::session::Session;
use crate::sql::insert::stores_only;

impl Session {
    /// The answer at the front of the server's lane is such an error. The client gets it where its statement cannot be sent again.
    pub(in crate::proxy) async fn send_again(&mut self) {
        let error = self.relay.down.window().get(HEADER_BYTES..).unwrap_or_default();
        let bytes = Header::parse(self.relay.down.window()).map_or(0, |header| header.payload_bytes);
        let text = parse_err(error.get(..bytes).unwrap_or(error)).map(|(_, text)| text);
        let reply = self.relay.outstanding.insert_reply();
        let collided = reply.and_then(|reply| {
            Some((reply.target.clone(), reply.has_several_rows(), reply.collided(text.as_deref()?)?))
        });
        let Some((target, has_several, id)) = collided else { return self.relay.pass_collision() };
        if !self.stores_only() {
            return self.relay.pass_collision();
        }
        let tables = self.relay.session.tables.clone();
        let Some(schema) = tables.schema() else { return self.relay.pass_collision() };
        let (name, table) = (&target.rule.schema, &target.table);
        let is_taken_back = !has_several || schema.is_transactional(name, table).await.unwrap_or(false);
        let fires_nothing =
            async { matches!(schema.fired_by_insert(name, table).await, Ok(Some(fired)) if !fired.any) };
        if !is_taken_back || !fires_nothing.await {
            return self.relay.pass_collision();
        }
        tables.collided(&target, id);
        self.relay.take_back();
    }

    /// Whether the text of the statement can do nothing but store its rows.
    fn stores_only(&self) -> bool {
        let Some(kept) = self.relay.kept() else { return false };
        let payload = payload_of(kept, kept.len());
        if payload.first() == Some(&(Command::Query as u8)) {
            let Some(state) = self.relay.session.state() else { return false };
            let text = text_at(&payload, self.relay.has_attributes()).ok().and_then(|at| payload.get(at..));
            return text.is_some_and(|text| stores_only(text, state.dialect));
        }
        let statement = statement_id(&payload).ok().and_then(|id| self.relay.statements.get(id));
        let source = statement.map(|statement| &statement.kept.source);
        source
            .is_some_and(|source| source.text.as_ref().is_some_and(|text| stores_only(text, source.dialect)))
    }
}
