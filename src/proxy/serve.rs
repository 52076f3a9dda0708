//! Serving a client: what it sends is decided, sent on and answered, until its session is over.
//!
//! `pump` moves bytes until something needs the session. A command that a rule may concern is
//! decided at once (`command`, `statement`) where all is known that it depends on, and what was
//! decided is sent or answered (`send`). What is not known is found out (`supply`), by questions to
//! the server among others (`ask`). Answers to earlier commands go on to the client meanwhile.

mod again;
mod ask;
mod audited;
mod command;
mod drain;
mod draw;
mod lock_tables;
mod progress;
mod refusals;
mod send;
pub mod session;
mod set_id;
mod stage;
mod statement;
mod supply;

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use zeroize::Zeroizing;

use crate::mysql::command::Command;
use crate::proxy::connect::change_user;
use crate::proxy::connect::login::{self, LoggedIn, LoginError};
use crate::proxy::connect::proxy_protocol::Ends;
use crate::proxy::connect::stream::Stream;
use crate::proxy::relay::command::{Handled, TakenOut};
use crate::proxy::relay::{Event, Violation, err_packet};
use crate::proxy::serve::session::{End, Going, Over, Session, SessionError};
use crate::proxy::shared::Shared;
use crate::sessions::{Login, SessionHandle};

/// The time in which a peer must take its last bytes.
const GOODBYE: Duration = Duration::from_millis(500);

/// Logs a client in and serves it to its end.
pub async fn run(
    client: Stream,
    ends: Option<Ends>,
    shared: Shared,
    here: SessionHandle,
) -> Result<End, SessionError> {
    let logged_in = login::run(client, ends, &shared.login).await;
    here.all().note_login(logged_in.as_ref().err().map_or(Login::Accepted, LoginError::outcome));
    serve(logged_in?, shared, here).await
}

pub async fn serve(logged_in: LoggedIn, shared: Shared, here: SessionHandle) -> Result<End, SessionError> {
    here.set_who(logged_in.who());
    let mut session = Session::new(logged_in, shared, here);
    loop {
        let (payload, taken) = match session.serve_commands().await {
            Ok(change_user) => change_user,
            Err(over) => {
                session.close(&over).await;
                return over.how;
            }
        };
        session.client.begin_answer();
        let streams = (session.client, session.server);
        let forms = (session.relay.known.capabilities, session.relay.strips_tracking);
        let (identity, context) = (&mut session.identity, &session.shared.login);
        let answered = change_user::run(streams, payload, identity, forms, &session.seat, context).await?;
        (session.client, session.server) = (answered.client, answered.server);
        session.starts_over(answered.changed, taken, &answered.client_buffered);
    }
}

impl Session {
    /// Serves the client until its session is over, or another user's. Returns the
    /// COM_CHANGE_USER and its payload: the exchange that answers it runs on the sockets themselves.
    async fn serve_commands(&mut self) -> Going<(Zeroizing<Vec<u8>>, TakenOut)> {
        loop {
            match self.pump().await? {
                Event::Command(arrived) if arrived.command == Command::ChangeUser => {
                    if arrived.window_bytes != self.relay.window().len() {
                        return Err(Violation::BehindChangeUser.into());
                    }
                    let payload = self.relay.payload(&arrived).into_owned();
                    return Ok((Zeroizing::new(payload), self.relay.take_out(arrived)));
                }
                event => self.handle(event).await?,
            }
        }
    }

    /// The server has answered a COM_CHANGE_USER.
    fn starts_over(
        &mut self,
        changed: Option<change_user::Changed>,
        taken: TakenOut,
        client_buffered: &[u8],
    ) -> Handled {
        let handled = self.relay.begins_again(taken, client_buffered);
        if let Some(changed) = changed {
            if let Some(seat) = changed.seat {
                self.seat = seat;
            }
            self.relay.known.rights.changes(&changed.user);
            self.relay.known.here.changes(&changed.user, &changed.database);
            self.relay.known.session.starts_in(&changed.database);
            self.relay.known.session.status = changed.status;
        }
        handled
    }

    /// A peer that does not take its last bytes is not waited for. A server that is busy with a
    /// statement learns that its client is gone by the end of the socket alone: it would take a TLS
    /// goodbye for a command.
    async fn close(&mut self, over: &Over) {
        let is_idle = self.relay.has_answered_all();
        if let Some((refusal, packet_nr)) =
            over.last_word.as_ref().filter(|_| is_idle && self.relay.has_told_all())
        {
            self.client.begin_answer();
            let _ = self.client.write_all(&err_packet(refusal, *packet_nr)).await;
        }
        let both = async {
            let _ = self.client.shutdown().await;
            if is_idle && over.how.is_ok() {
                let _ = self.server.shutdown().await;
            }
        };
        let _ = tokio::time::timeout(GOODBYE, both).await;
    }
}

#[cfg(test)]
mod tests;
