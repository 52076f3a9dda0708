//! Waiting in the middle of a command: for the server's answer to a question of ours, or for
//! anything else. Meanwhile the client's commands stay where they are, answers to earlier ones go
//! on to it, and timeouts, drain and KILL act as ever.
//!
//! An answer to an earlier command may itself need something before it goes on to the client: the
//! smallest of the statement's ids, the id of a row that ON DUPLICATE KEY UPDATE has updated, or
//! the generator past an id that the client wrote.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::ids::generator::Advanced;
use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::compressed::FrameError;
use crate::mysql::error::Refusal;
use crate::mysql::ok::OkPacket;
use crate::mysql::packet::{Whole, payload_of, whole_payload};
use crate::proxy::known::answered::{Answered, digits, lock_probe, number_of, says_locked};
use crate::proxy::known::inserts::{Ids, Smallest, SmallestId};
use crate::proxy::known::warned::Warned;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::pump::{Pumped, Timeout, poll_pump};
use crate::proxy::relay::{Event, Relay, Side, Violation};
use crate::proxy::serve::session::{End, Going, Over, Session, SessionError};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::model::ColumnShape;
use crate::schema::smallest_query;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Going<T>> + Send + 'a>>;

impl Session {
    /// Moves bytes until something needs the session.
    pub(super) async fn pump(&mut self) -> Going<Event> {
        poll_fn(|cx| self.poll_pump(cx)).await
    }

    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Poll<Going<Event>> {
        let Session { relay, client, server, watchdog, drain, .. } = self;
        match poll_pump(cx, relay, (client, server), watchdog) {
            Poll::Pending if drain.has_begun(cx) && relay.is_idle() => {
                Poll::Ready(Err(Ok(End::Drained).into()))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Pumped::Event(event)) => Poll::Ready(Ok(event)),
            Poll::Ready(outcome) => Poll::Ready(Err(self.over(outcome))),
        }
    }

    #[cold]
    fn over(&self, outcome: Pumped) -> Over {
        let how = match outcome {
            Pumped::Closed(Side::Client) | Pumped::TimedOut(Timeout::Gone) => Ok(End::Client),
            Pumped::Closed(Side::Backend) if self.relay.has_answered_all() => Ok(End::Backend),
            Pumped::Failed(side, error) if is_frame_error(&error) => {
                let whose = if side == Side::Client { "client" } else { "backend" };
                let how = Err(SessionError::Violation(format!("the {whose}: {error}")));
                let last_word = (side == Side::Client).then_some((Refusal::Unpack, 1));
                return Over { how, last_word };
            }
            Pumped::Failed(Side::Client, error) => Err(SessionError::Socket { side: "client", error }),
            Pumped::Failed(Side::Backend, error) => Err(SessionError::Socket { side: "backend", error }),
            Pumped::TimedOut(Timeout::Idle) => Ok(End::Idle),
            Pumped::TimedOut(Timeout::Write) => Err(SessionError::Stalled),
            Pumped::Closed(Side::Backend) | Pumped::Event(_) => Err(SessionError::BackendGone),
        };
        how.into()
    }

    /// Asks the server before the client's present command.
    pub(super) async fn ask(&mut self, question: Question<'_>) -> Going<Answered> {
        let mut answers = self.ask_all(&[question]).await?;
        Ok(answers.remove(0))
    }

    /// Asks several questions at once; the answers come in their order.
    pub(super) async fn ask_all(&mut self, questions: &[Question<'_>]) -> Going<Vec<Answered>> {
        self.until(Relay::may_ask).await?;
        for question in questions {
            self.relay.send_question(question);
        }
        self.until(|relay| relay.answers.len() == questions.len()).await?;
        let answers = std::mem::take(&mut self.relay.answers);
        for (question, answer) in questions.iter().zip(&answers) {
            if let (Question::Prepare(_), Ok(answer)) = (question, answer) {
                self.relay.close_own(&answer.first);
            }
        }
        Ok(answers)
    }

    /// Asks the server although the answer to the client's command is not sent: it was taken out of its lane.
    pub(super) async fn ask_within(&mut self, question: Question<'_>) -> Going<Answered> {
        self.until(Relay::has_sent_all).await?;
        self.relay.send_question_within(&question);
        self.until(|relay| !relay.answers.is_empty()).await?;
        Ok(self.relay.answers.remove(0))
    }

    /// Relays both ways until `is_so`. The client's next command stays in its lane meanwhile.
    pub(super) async fn until(&mut self, is_so: impl Fn(&Relay) -> bool) -> Going<()> {
        let held = std::mem::replace(&mut self.relay.holds_client, true);
        while !is_so(&self.relay) {
            let next = poll_fn(|cx| match self.poll_pump(cx) {
                Poll::Pending if is_so(&self.relay) => Poll::Ready(Ok(None)),
                polled => polled.map_ok(Some),
            });
            if let Some(event) = next.await? {
                self.handle_answer(event).await?;
            }
        }
        self.relay.holds_client = held;
        Ok(())
    }

    /// Relays both ways until the future is ready. The future borrows nothing of the session, which the relaying changes.
    pub(super) async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Going<T> {
        let mut future = pin!(future);
        let held = std::mem::replace(&mut self.relay.holds_client, true);
        let out = loop {
            let next = poll_fn(|cx| match future.as_mut().poll(cx) {
                Poll::Ready(out) => Poll::Ready(Ok(Err(out))),
                Poll::Pending => self.poll_pump(cx).map_ok(Ok),
            });
            let event = match next.await? {
                Ok(event) => event,
                Err(out) => break out,
            };
            // Both go on: the future may hold a lock that the other one waits for.
            let mut handled = pin!(self.handle_answer(event));
            let mut out = None;
            poll_fn(|cx| {
                if out.is_none()
                    && let Poll::Ready(ready) = future.as_mut().poll(cx)
                {
                    out = Some(ready);
                }
                handled.as_mut().poll(cx)
            })
            .await?;
            if let Some(out) = out {
                break out;
            }
        };
        self.relay.holds_client = held;
        Ok(out)
    }

    /// Does what an answer of the server's needs before it goes to the client.
    pub(super) async fn handle_answer(&mut self, event: Event) -> Going<()> {
        match event {
            Event::SmallestId(question) => {
                let smallest = self.smallest_id(&question).await?;
                if let Some(reply) = self.relay.insert_reply() {
                    reply.smallest = smallest;
                }
            }
            Event::UpdatedId => self.updated_id().await?,
            Event::FollowExplicit => self.follow_explicit().await,
            // The session decides the client's next command, which stands at the front of the lane: nothing can be put in front of it.
            Event::Collided => self.collided(false).await,
            Event::Violation(violation) => return Err(self.violated(&violation)),
            // While the session waits the client's commands stay where they are.
            Event::Command(_) | Event::TooLong(_) => return Err(self.violated(&Violation::OutOfTurn)),
        }
        Ok(())
    }

    fn violated(&self, violation: &Violation) -> Over {
        let how = Err(SessionError::Violation(violation.to_string()));
        let Violation::ClientPacketNr(packet_nr) = *violation else { return how.into() };
        let is_quit = self.relay.window() == [1, 0, 0, packet_nr, Command::Quit as u8];
        let how = if is_quit { Err(SessionError::Quit(packet_nr)) } else { how };
        // Number 0, and to COM_QUIT too: so both servers answer (measured).
        Over { how, last_word: Some((Refusal::PacketsOutOfOrder, 0)) }
    }

    /// True if the client's present text, or what it executes, reads what the statement before it has left.
    pub(super) fn reads_counts(&self, command: Command) -> bool {
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            return false;
        }
        let window = self.relay.window();
        let Whole::Is { window_bytes, .. } = whole_payload(window) else { return false };
        let payload = payload_of(window, window_bytes);
        let has_attributes = command == Command::Query && self.relay.known.has_attributes();
        let text = text_at(&payload, has_attributes).ok().and_then(|at| payload.get(at..));
        let session = &self.relay.known.session;
        let back = session.sql_prepared.looks_back(text.unwrap_or_default(), session.dialect());
        !back.may_read_insert_id()
    }

    /// Asked on the control connection, which sees the rows of this session's open transaction at READ UNCOMMITTED.
    async fn smallest_id(&mut self, question: &SmallestId) -> Going<Smallest> {
        let target = &question.target;
        let Some(schema) = self.shared.tables.schema() else { return Ok(Smallest::Unknown) };
        // The column of the table, also if the statement names a view.
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
    async fn updated_id(&mut self) -> Going<()> {
        let told = self.ask_before_answer(None, b"SELECT HEX(LAST_INSERT_ID()) LIMIT 1").await?;
        if let Some(reply) = self.relay.insert_reply() {
            let id = told.and_then(|row| number_of(&row));
            reply.smallest = id.map_or(Smallest::Unknown, Smallest::Id);
        }
        Ok(())
    }

    /// The smallest of a statement's ids in a table that the session has locked.
    async fn smallest_in_locked(&mut self, target: &Target, query: &str) -> Going<Smallest> {
        // If another session has locked the table, this session would wait for that one.
        if !self.relay.known.may_have_locked {
            return Ok(Smallest::Unknown);
        }
        let is_last = self.relay.is_last_answer();
        let Some(query) = self.relay.known.session.written(query).filter(|_| is_last) else {
            return Ok(Smallest::Unknown);
        };
        let probe = self.relay.known.session.written(&lock_probe(target.rule.schema.as_str(), &target.table));
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
            let answer = self.relay.hold_answer();
            let ok = OkPacket::parse(answer.payload(), self.relay.known.capabilities);
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
            self.relay.put_answer_back(answer);
            Ok(told.and_then(|answer| answer.row))
        })
    }

    /// The server has stored the present result's ids: later ones of the generator are above them.
    async fn follow_explicit(&mut self) {
        let Some(explicit) = self.relay.explicit() else { return };
        explicit.is_followed = true;
        let (target, ids) = (explicit.target.clone(), explicit.ids.clone());
        self.follow(&target, &ids).await;
    }

    /// `ids`: the highest first. By the active rules: the generators of earlier ones may be closed.
    async fn follow(&mut self, target: &Target, ids: &[u64]) {
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

impl From<Violation> for Over {
    fn from(violation: Violation) -> Self {
        Err(SessionError::Violation(violation.to_string())).into()
    }
}

/// True if a frame could not be read. Otherwise the socket failed.
fn is_frame_error(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<FrameError>)
}
