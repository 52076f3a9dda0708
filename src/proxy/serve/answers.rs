//! Ids once the server has stored them: the smallest of a statement's, those that a client wrote itself, which the generator goes past, and of a row that
//! ON DUPLICATE KEY UPDATE has updated, where the server's answer does not tell it.

use std::pin::Pin;
use std::sync::Arc;

use crate::ids::generator::Advanced;
use crate::mysql::ok::OkPacket;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::proxy::known::answered::{digits, number_of, says_locked};
use crate::proxy::known::inserts::{Ids, Smallest, SmallestId};
use crate::proxy::known::warned::Warned;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Going, Session};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::model::ColumnShape;
use crate::schema::smallest_query;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Going<T>> + Send + 'a>>;

impl Session {
    /// Asked on the control connection, which sees the rows of this session's open transaction at
    /// READ UNCOMMITTED.
    pub(super) async fn smallest_id(&mut self, question: &SmallestId) -> Going<Smallest> {
        let target = &question.target;
        let Some(schema) = self.shared.tables.schema() else { return Ok(Smallest::Unknown) };
        // Of the table, also where the statement names a view.
        let Some(column) = target.id_shape() else { return Ok(Smallest::Unknown) };
        let column = ColumnShape { name: target.rule.column.clone(), ..column.clone() };
        let table = (target.rule.schema.as_str(), target.table.as_str());
        let Ids { first, last, spacing } = question.ids;
        let query = smallest_query(table, &column, (first, last, &spacing));
        let error = match schema.smallest_id(&query).await {
            Ok(smallest) => return Ok(smallest.map_or(Smallest::None, Smallest::Id)),
            Err(error) => error,
        };
        // Perhaps this session itself has locked the table: it has stored rows in it.
        let mut smallest = Smallest::Unknown;
        if error.waits_for_lock() && !column.masked {
            smallest = self.smallest_in_locked(target, &query).await?;
        }
        if smallest == Smallest::Unknown {
            tracing::warn!(%error, "cannot read the insert id of a statement with IGNORE or ON DUPLICATE KEY UPDATE");
        }
        Ok(smallest)
    }

    /// The id of the updated row, which `LAST_INSERT_ID(id)` has left in the session. A trigger of the table makes the server
    /// forget it for its answer.
    pub(in crate::proxy) async fn updated_id(&mut self) -> Going<()> {
        let told = self.ask_before_answer(None, b"SELECT HEX(LAST_INSERT_ID()) LIMIT 1").await?;
        if let Some(reply) = self.relay.outstanding.insert_reply() {
            let id = told.and_then(|row| number_of(&row));
            reply.answered(id.map_or(Smallest::Unknown, Smallest::Id));
        }
        Ok(())
    }

    /// The smallest of a statement's ids in a table that the session has locked.
    pub(in crate::proxy) async fn smallest_in_locked(
        &mut self,
        target: &Target,
        query: &str,
    ) -> Going<Smallest> {
        // Where another session has locked the table, this one would wait for that one.
        if !self.relay.known.may_have_locked {
            return Ok(Smallest::Unknown);
        }
        let window = self.relay.down.window();
        let ok =
            OkPacket::parse(window.get(HEADER_BYTES..).unwrap_or_default(), self.relay.known.capabilities);
        let is_last = ok.is_ok_and(|ok| self.relay.outstanding.ends_here(&ok));
        let Some(query) = self.written(query).filter(|_| is_last) else { return Ok(Smallest::Unknown) };
        let probe = self.lock_probe(target.rule.schema.as_str(), &target.table);
        let row = self.ask_before_answer(probe.as_deref(), &query).await?;
        Ok(row.map_or(Smallest::Unknown, |row| match digits(&row).parse() {
            Ok(0) | Err(_) => Smallest::None,
            Ok(id) => Smallest::Id(id),
        }))
    }

    /// Asks the session a question while the answer to the client's command waits; returns the first row. The question resets the
    /// warnings, so they are kept. `probe`: the question is asked only if this says that the session has locked tables.
    fn ask_before_answer<'a>(
        &'a mut self,
        probe: Option<&'a [u8]>,
        question: &'a [u8],
    ) -> Boxed<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let window = self.relay.down.window();
            let bytes = Header::parse(window).map_or(0, Header::packet_bytes);
            let answer = window.get(..bytes).unwrap_or_default().to_vec();
            self.relay.down.skip(bytes);
            let ok = OkPacket::parse(
                answer.get(HEADER_BYTES..).unwrap_or_default(),
                self.relay.known.capabilities,
            );
            if ok.is_ok_and(|ok| ok.warnings > 0) {
                let shown = self.ask_within(Question::Table(b"SHOW WARNINGS")).await?.ok();
                let shown = shown.and_then(|answer| answer.table);
                self.relay.known.session.warned = shown.map(|shown| Box::new(Warned::new(shown, b"", b"")));
            }
            let probed = match probe {
                Some(probe) => Some(self.ask_within(Question::Prepare(probe)).await?),
                None => None,
            };
            if let Some(Ok(prepared)) = &probed {
                self.relay.close_own(&prepared.first);
            }
            let is_to_ask = probed.is_none_or(|probed| says_locked(&probed));
            let told = if is_to_ask { self.ask_within(Question::Query(question)).await?.ok() } else { None };
            self.relay.down.put_back(0, answer);
            Ok(told.and_then(|answer| answer.row))
        })
    }

    /// The server has stored the present result's ids: later ones of the generator are above them.
    pub(in crate::proxy) async fn follow_explicit(&mut self) {
        let Some(explicit) = self.relay.outstanding.explicit() else { return };
        explicit.is_followed = true;
        let (target, ids) = (explicit.target.clone(), explicit.ids.clone());
        self.follow(&target, &ids).await;
    }

    /// `ids`: the highest first. By the active rules: the generators of earlier ones may be closed.
    pub(in crate::proxy) async fn follow(&mut self, target: &Target, ids: &[u64]) {
        let table = || format!("{}.{}", target.rule.schema, target.table);
        for &id in ids {
            match self.advance_past(target, id).await {
                // All others lie below it.
                Ok(Advanced::Past) => return,
                Ok(Advanced::Elsewhere) => {}
                Ok(Advanced::TooFar) => tracing::warn!(
                    table = table(),
                    generator = %target.rule.generator,
                    "a client wrote an id more than 1e9 above the generator's bound: the id is stored, and the generator stays below \
                     the id"
                ),
                Err(error) => {
                    tracing::warn!(
                        table = table(),
                        id,
                        error,
                        "a client wrote this id, and the generator could not be raised above the id: if the generator issues the id, the \
                         server answers 1062; raise the generator (rowstamp store raise)"
                    );
                    return;
                }
            }
        }
    }

    async fn advance_past(&mut self, target: &Target, id: u64) -> Result<Advanced, String> {
        let limit = self.shared.id_deadline;
        let mut tables = self.shared.tables.now();
        loop {
            let now = match tables.lookup(&target.rule.schema, &target.table) {
                Lookup::Ruled(now) => now,
                _ => Arc::new(target.clone()),
            };
            let advanced = tables.advance_past(&now, id, limit).await;
            if !tables.is_retired() {
                return advanced.map_err(|error| error.to_string());
            }
            let next = self.shared.tables.after(&tables, limit).await;
            tables = next.ok_or("the rules are being changed")?;
        }
    }
}
