//! An INSERT ... SELECT that the client has prepared.

use std::collections::{BTreeMap, BTreeSet};

use super::Job;
use crate::mysql::attributes;
use crate::mysql::bulk::Bulk;
use crate::mysql::command::{Command, command_payload};
use crate::mysql::prepared::{Execute, Expected};
use crate::mysql::reader::put_lenenc_bytes;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::staged::lost;
use crate::proxy::decide::verdict::{Task, malformed};
use crate::proxy::known::answered::ServerError;
use crate::proxy::relay::Violation;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Over, Session, Stop};

impl Session {
    /// COM_QUERY of a text of ours.
    pub(super) fn query(&self, text: &[u8]) -> Vec<u8> {
        let attributes: &[u8] = if self.relay.known.has_attributes() { &attributes::NONE } else { &[] };
        command_payload(Command::Query, &[attributes, text].concat())
    }

    /// Prepares a text of ours, to be run once with a part of the client's parameters: its id, and
    /// the payload of its execution.
    pub(super) async fn prepare_ours(
        &mut self,
        job: &Job<'_>,
        text: &[u8],
        part: Part,
    ) -> Result<Result<(u32, Vec<u8>), ServerError>, Stop> {
        let Task::Execute { kept, types, long_data, is_bulk, .. } = job.task else {
            return Err(lost().into());
        };
        let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
        let client_params = prepared.text.client_params;
        let sent_ahead: BTreeSet<u16> = long_data.keys().copied().collect();
        let with_attributes = self.relay.known.has_attributes();
        let expected = Expected {
            params: client_params,
            types: types.as_deref(),
            long_data: &sent_ahead,
            with_attributes,
        };
        if *is_bulk && matches!(part, Part::Query) {
            let bulk = Bulk::parse(job.payload, client_params, types.as_deref()).map_err(|_| lost())?;
            return Ok(self.prepare_kept(job, text).await?.map(|id| (id, bulk.whole_of(id))));
        }
        let execute =
            if *is_bulk { None } else { Some(Execute::parse(job.payload, expected).map_err(malformed)?) };
        let values: BTreeMap<u16, Vec<u8>> = long_data.iter().map(|(&at, data)| (at, lenenc(data))).collect();
        let in_query = usize::try_from(job.stage.query_params).unwrap_or_default();
        let own = usize::from(client_params);
        // A bulk execution has none but those of its rows.
        let params =
            execute.iter().flat_map(|execute| &execute.params).enumerate().filter(|(at, _)| match part {
                // Attributes follow the statement's own.
                Part::Query => !(in_query..own).contains(at),
                Part::Tail => (in_query..own).contains(at),
            });
        let params = params.map(|(at, param)| {
            let value = u16::try_from(at).ok().and_then(|at| values.get(&at));
            value.map_or(*param, |value| param.with_text(value))
        });
        let params: Vec<_> = params.collect();
        Ok(self.prepare_kept(job, text).await?.map(|id| {
            let head = Execute::head(id, with_attributes && !params.is_empty());
            (id, Execute::new(&head, params, with_attributes).build())
        }))
    }

    /// The server's id of what it has prepared.
    async fn prepare_kept(&mut self, job: &Job<'_>, text: &[u8]) -> Result<Result<u32, ServerError>, Stop> {
        let answered = match self.ask_as_then(job, Question::PrepareAndKeep(text)).await? {
            Ok(answered) => answered,
            Err(error) => return Ok(Err(error)),
        };
        let ok = PrepareOk::parse(&answered.first, self.relay.forms).map_err(Violation::Backend);
        Ok(Ok(ok.map_err(Over::from)?.statement_id))
    }
}

/// Which of the client's parameters.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Query,
    /// The parameters after the query.
    Tail,
}

fn lenenc(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 9);
    put_lenenc_bytes(&mut out, bytes);
    out
}
