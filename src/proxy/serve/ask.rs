//! Waiting in the middle of a command: for the server's answer to a question of ours, or for
//! anything else. Meanwhile the client's commands stay where they are, answers to earlier ones go
//! on to it, and timeouts, drain and KILL act as ever.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use crate::mysql::command::Command;
use crate::mysql::compressed::FrameError;
use crate::mysql::error::Refusal;
use crate::proxy::known::answered::Answered;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::pump::{Outcome, Timeout, poll_pump};
use crate::proxy::relay::{Event, Relay, Side, Violation};
use crate::proxy::serve::session::{End, Going, Over, Session, SessionError};

impl Session {
    /// Moves bytes until something needs the session.
    pub(in crate::proxy) async fn pump(&mut self) -> Going<Event> {
        poll_fn(|cx| self.poll_pump(cx)).await
    }

    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Poll<Going<Event>> {
        let Session { relay, client, server, watchdog, drain, .. } = self;
        match poll_pump(cx, relay, client, server, watchdog) {
            Poll::Pending if drain.has_begun(cx) && relay.is_idle() => {
                Poll::Ready(Err(Ok(End::Drained).into()))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Outcome::Event(event)) => Poll::Ready(Ok(event)),
            Poll::Ready(outcome) => Poll::Ready(Err(self.over(outcome))),
        }
    }

    #[cold]
    fn over(&self, outcome: Outcome) -> Over {
        let how = match outcome {
            Outcome::Closed(Side::Client) | Outcome::TimedOut(Timeout::Gone) => Ok(End::Client),
            Outcome::Closed(Side::Backend) if self.relay.outstanding.is_empty() => Ok(End::Backend),
            Outcome::Failed(side, error) if is_frame_error(&error) => {
                let whose = if side == Side::Client { "client" } else { "backend" };
                let how = Err(SessionError::Violation(format!("the {whose}: {error}")));
                let last_word = (side == Side::Client).then_some((Refusal::Unpack, 1));
                return Over { how, last_word };
            }
            Outcome::Failed(Side::Client, error) => Err(SessionError::Socket { side: "client", error }),
            Outcome::Failed(Side::Backend, error) => Err(SessionError::Socket { side: "backend", error }),
            Outcome::TimedOut(Timeout::Idle) => Ok(End::Idle),
            Outcome::TimedOut(Timeout::Write) => Err(SessionError::Stalled),
            Outcome::Closed(Side::Backend) | Outcome::Event(_) => Err(SessionError::BackendGone),
        };
        how.into()
    }

    /// Asks the server before the client's present command.
    pub(in crate::proxy) async fn ask(&mut self, question: Question<'_>) -> Going<Answered> {
        let mut answers = self.ask_all(&[question]).await?;
        Ok(answers.remove(0))
    }

    /// Asks several questions at once; the answers come in their order.
    pub(in crate::proxy) async fn ask_all(&mut self, questions: &[Question<'_>]) -> Going<Vec<Answered>> {
        self.until(|relay| relay.up.is_clear() && relay.injection.is_empty()).await?;
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
    pub(in crate::proxy) async fn ask_within(&mut self, question: Question<'_>) -> Going<Answered> {
        self.until(|relay| relay.up.is_clear()).await?;
        self.relay.send_question(&question);
        self.relay.outstanding.answer_last_first();
        self.until(|relay| !relay.answers.is_empty()).await?;
        Ok(self.relay.answers.remove(0))
    }

    /// Goes on until `is_so`.
    pub(in crate::proxy) async fn until(&mut self, is_so: impl Fn(&Relay) -> bool) -> Going<()> {
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

    /// Goes on until the future is ready. It borrows nothing of the session.
    pub(in crate::proxy) async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Going<T> {
        let mut future = pin!(future);
        self.relay.holds_client = true;
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
        self.relay.holds_client = false;
        Ok(out)
    }

    /// What an answer of the server's needs before it goes on.
    pub(in crate::proxy) async fn handle_answer(&mut self, event: Event) -> Going<()> {
        match event {
            Event::SmallestId(question) => {
                let smallest = self.smallest_id(&question).await?;
                if let Some(reply) = self.relay.outstanding.insert_reply() {
                    reply.answered(smallest);
                }
            }
            Event::UpdatedId => self.updated_id().await?,
            Event::FollowExplicit => self.follow_explicit().await,
            // The session decides the client's next command, which stands at the front of the lane: nothing can be put in front of it.
            Event::Collided => self.collided(false).await,
            Event::Violation(violation) => return Err(self.violated(&violation)),
            // While the session waits the client's commands stay where they are.
            Event::Command(_) | Event::TooLong(_) => {}
        }
        Ok(())
    }

    fn violated(&self, violation: &Violation) -> Over {
        let how = Err(SessionError::Violation(violation.to_string()));
        let Violation::ClientPacketNr(packet_nr) = *violation else { return how.into() };
        let is_quit = self.relay.up.window() == [1, 0, 0, packet_nr, Command::Quit as u8];
        let how = if is_quit { Err(SessionError::Quit(packet_nr)) } else { how };
        // Number 0, and to COM_QUIT too: so both servers answer (measured).
        Over { how, last_word: Some((Refusal::PacketsOutOfOrder, 0)) }
    }
}

impl From<Violation> for Over {
    fn from(violation: Violation) -> Self {
        Err(SessionError::Violation(violation.to_string())).into()
    }
}

/// Whether a frame could not be read; else the socket failed.
fn is_frame_error(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<FrameError>)
}
