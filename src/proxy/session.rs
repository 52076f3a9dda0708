//! One session: a logged-in client and its backend connection, until one of them ends.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::drain::Drain;
use super::lane::Lane;
use super::login::{LoggedIn, LoginContext, LoginError};
use super::named::Held;
use super::outstanding::{Note, Queue};
use super::proxy_protocol::Ends;
use super::pump::{Outcome, Timeout, Watchdog, poll_pump};
use super::relay::{DownState, Event, Framed, Relay, Side, UpState, Violation, err_packet};
use super::rights::{Allowed, Rights};
use super::seats::Seat;
use super::statements::{Again, Statements};
use super::stream::{Connection, Stream};
use super::tables::InForce;
use super::verifier::Verifier;
use super::view::View;
use super::{change_user, login};
use crate::audit::Audit;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::{Command, Reply};
use crate::mysql::compressed::FrameError;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{Whole, payload_of, whole_payload};
use crate::mysql::prepared::{LAST_PREPARED, statement_id};
use crate::mysql::response::Forms;
use crate::sessions::{Count, Here, Login, Sessions};
use crate::sql::dialect::{Server, ServerKind};

/// How long a peer may take to take its last bytes.
const GOODBYE: Duration = Duration::from_millis(500);

/// What all sessions of a proxy share.
#[derive(Clone)]
pub struct Shared {
    pub login: LoginContext,
    pub tables: Arc<InForce>,
    /// How long a ruled statement waits for its ids.
    pub id_deadline: Duration,
    pub verifier: Verifier,
    pub sessions: Arc<Sessions>,
    pub audit: Arc<Audit>,
    /// Who may insert into what, as far as that was seen.
    pub allowed: Arc<Allowed>,
    /// `true`: sessions end where nothing is lost by it.
    pub draining: watch::Receiver<bool>,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("protocol violation: {0}")]
    Violation(String),
    /// Oracle's asyncio driver leaves so: nothing is wrong for anybody.
    #[error("the client's COM_QUIT has packet number {0}, not 0")]
    Quit(u8),
    #[error("{side}: {error}")]
    Socket { side: &'static str, error: std::io::Error },
    #[error("the backend ended the connection while answers were outstanding")]
    BackendGone,
    #[error("a peer took nothing for limits.write_timeout")]
    Stalled,
}

/// How a session ended that nothing was wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Backend,
    Idle,
    Drained,
}

pub(super) struct Session {
    pub(super) relay: Relay,
    pub(super) shared: Shared,
    /// For the authentication of a COM_CHANGE_USER.
    pub(super) identity: change_user::Identity,
    /// A packet that waits for the user's variables that it reads its ids from.
    pub(super) held: Option<Held>,
    /// Among the user's connections.
    seat: Seat<Vec<u8>>,
}

/// Why [`Session::serve`] came back.
enum Served {
    Ended(End),
    /// The payload of a COM_CHANGE_USER: its exchange runs on the sockets themselves.
    ChangeUser(Zeroizing<Vec<u8>>),
}

/// Both ends; taken apart only while a COM_CHANGE_USER runs its exchange on them.
struct Sockets {
    client: Stream,
    server: Stream,
}

/// Logs a client in and serves it to its end.
pub async fn run(
    client: Stream,
    ends: Option<Ends>,
    shared: Shared,
    here: Here,
) -> Result<End, SessionError> {
    let logged_in = login::run(client, ends, &shared.login).await;
    here.all().note_login(logged_in.as_ref().err().map_or(Login::Accepted, LoginError::outcome));
    serve(logged_in?, shared, here).await
}

/// Serves a client that has logged in.
pub async fn serve(logged_in: LoggedIn, shared: Shared, here: Here) -> Result<End, SessionError> {
    here.is(logged_in.who());
    let (mut session, mut sockets) = Session::new(logged_in, shared, here);
    loop {
        match session.serve(&mut sockets).await {
            Ok(Served::ChangeUser(payload)) => sockets = session.change_user(sockets, payload).await?,
            Ok(Served::Ended(end)) => {
                let is_busy = !session.relay.outstanding.is_empty();
                sockets.close(is_busy).await;
                return Ok(end);
            }
            Err(error) => {
                sockets.close(true).await;
                return Err(error);
            }
        }
    }
}

/// A frame that could not be read; `None`: the socket failed.
fn frame_error(error: &std::io::Error) -> Option<&FrameError> {
    error.get_ref()?.downcast_ref()
}

impl Sockets {
    /// A peer that does not take its last bytes is not waited for. A server that is busy with a statement notices that nobody waits for
    /// it by the end of its socket alone: a TLS goodbye before that end would be bytes that it takes for a command.
    async fn close(&mut self, server_is_busy: bool) {
        let both = async {
            let _ = self.client.shutdown().await;
            if !server_is_busy {
                let _ = self.server.shutdown().await;
            }
        };
        let _ = tokio::time::timeout(GOODBYE, both).await;
    }
}

impl Session {
    fn new(login: LoggedIn, shared: Shared, here: Here) -> (Self, Sockets) {
        let has = |bit| login.capabilities.contains(bit);
        let metadata_flag = has(Capabilities::OPTIONAL_RESULTSET_METADATA);
        let forms = Forms {
            deprecate_eof: has(Capabilities::DEPRECATE_EOF),
            metadata_flag: metadata_flag || has(Capabilities::MARIADB_CACHE_METADATA),
            metadata_flag_in_prepare: metadata_flag,
            progress_reports: login.server_version.kind == crate::mysql::handshake::ServerKind::MariaDb
                && (has(Capabilities::MARIADB_PROGRESS) || has(Capabilities::PROGRESS_OLD)),
        };
        let (major, minor, patch) = login.server_version.number;
        let server = Server {
            kind: match login.server_version.kind {
                crate::mysql::handshake::ServerKind::MySql => ServerKind::MySql,
                crate::mysql::handshake::ServerKind::MariaDb => ServerKind::MariaDb,
            },
            version: u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(patch),
        };
        let multi_statements = has(Capabilities::MULTI_STATEMENTS);
        let relay = Relay {
            up: Lane::holding(&login.client_buffered),
            down: Lane::default(),
            up_state: UpState::Boundary,
            down_state: DownState::Boundary,
            outstanding: Queue::default(),
            view: View::new(
                shared.tables.clone(),
                server,
                multi_statements,
                login.status,
                login.database.as_deref(),
            ),
            statements: Statements::default(),
            rights: Rights::new((login.user, login.address_told), shared.allowed.clone()),
            capabilities: login.capabilities,
            forms,
            framed: Framed { client: login.client.is_compressed(), backend: login.server.is_compressed() },
            command_packets: 1,
            owes_last: false,
            strips_tracking: !login.client_wants_session_track,
            statement_bytes_max: shared.login.settings.limits.statement_bytes_max,
            select: None,
            prepares_what_sees_tracking: false,
            injection: Vec::new(),
            client_has_ended: false,
            here,
        };
        let identity =
            change_user::Identity { nonce: login.nonce, sides: login.sides, address: login.address };
        let sockets = Sockets { client: login.client, server: login.server };
        (Session { relay, shared, identity, held: None, seat: login.seat }, sockets)
    }

    async fn serve(&mut self, sockets: &mut Sockets) -> Result<Served, SessionError> {
        let limits = &self.shared.login.settings.limits;
        let mut watchdog = Watchdog::new(limits.idle_timeout, limits.write_timeout);
        let mut drain = Drain::new(&self.shared.draining);
        loop {
            let (relay, client, server) = (&mut self.relay, &mut sockets.client, &mut sockets.server);
            let pump = poll_fn(|cx| match poll_pump(cx, relay, client, server, &mut watchdog) {
                Poll::Pending if drain.has_begun(cx) && relay.is_idle() => Poll::Ready(None),
                polled => polled.map(Some),
            });
            let Some(outcome) = pump.await else { return Ok(Served::Ended(End::Drained)) };
            match outcome {
                Outcome::Event(Event::Command(Command::ChangeUser)) => {
                    return self.take_change_user().map(Served::ChangeUser);
                }
                Outcome::Event(event) => self.handle(event, &mut sockets.client).await?,
                Outcome::Closed(Side::Client) | Outcome::TimedOut(Timeout::Gone) => {
                    return Ok(Served::Ended(End::Client));
                }
                Outcome::Closed(Side::Backend) if self.relay.outstanding.is_empty() => {
                    return Ok(Served::Ended(End::Backend));
                }
                Outcome::Closed(Side::Backend) => return Err(SessionError::BackendGone),
                Outcome::Failed(side, error) if frame_error(&error).is_some() => {
                    if side == Side::Client {
                        self.say_goodbye(&mut sockets.client, &Refusal::Unpack, 1).await;
                    }
                    let whose = if side == Side::Client { "client" } else { "backend" };
                    return Err(SessionError::Violation(format!("the {whose}: {error}")));
                }
                Outcome::Failed(Side::Client, error) => {
                    return Err(SessionError::Socket { side: "client", error });
                }
                Outcome::Failed(Side::Backend, error) => {
                    return Err(SessionError::Socket { side: "backend", error });
                }
                Outcome::TimedOut(Timeout::Idle) => return Ok(Served::Ended(End::Idle)),
                Outcome::TimedOut(Timeout::Write) => return Err(SessionError::Stalled),
            }
        }
    }

    async fn handle(&mut self, event: Event, client: &mut Stream) -> Result<(), SessionError> {
        match event {
            Event::Command(command) => {
                self.command(command).await;
                Ok(())
            }
            Event::ReadViews => {
                self.relay.view.tables.now().know_views().await;
                Ok(())
            }
            Event::TooLong(command) => {
                self.too_long(command).await;
                Ok(())
            }
            Event::SmallestId(question) => {
                let smallest = self.smallest_id(&question).await;
                self.relay.settle_insert(smallest);
                Ok(())
            }
            Event::FollowExplicit => {
                self.follow_explicit().await;
                Ok(())
            }
            Event::Select => {
                self.go_on_with_select().await;
                Ok(())
            }
            Event::SelectStored => {
                self.follow_selected_ids().await;
                Ok(())
            }
            Event::Violation(violation) => {
                if let Violation::ClientPacketNr(packet_nr) = violation {
                    // Number 0, and to COM_QUIT too: so both servers answer (measured).
                    self.say_goodbye(client, &Refusal::PacketsOutOfOrder, 0).await;
                    if self.relay.up.window() == [1, 0, 0, packet_nr, Command::Quit as u8] {
                        return Err(SessionError::Quit(packet_nr));
                    }
                }
                Err(SessionError::Violation(violation.to_string()))
            }
        }
    }

    /// A command whose payload was read whole.
    async fn command(&mut self, command: Command) {
        let Whole::Is { window_bytes, packets } = whole_payload(self.relay.up.window()) else { return };
        self.relay.command_packets = (packets % 256).to_le_bytes().first().copied().unwrap_or(1);
        let counted = |count| self.relay.here.counted(count);
        let (rewritten, waited) = (counted(Count::Rewritten), counted(Count::WaitedNanos));
        let begun = Instant::now();
        self.treat(command, window_bytes, packets).await;
        let here = &self.relay.here;
        if here.counted(Count::Rewritten) > rewritten {
            let waited = Duration::from_nanos(here.counted(Count::WaitedNanos) - waited);
            here.all().rewriting.note(begun.elapsed().saturating_sub(waited));
        }
    }

    async fn treat(&mut self, command: Command, window_bytes: usize, packets: usize) {
        match command {
            _ if command.names_statement() && self.names_refused(window_bytes) => {
                self.refuse_unprepared(command, window_bytes, packets);
            }
            Command::Query | Command::StmtPrepare => self.statement(command, window_bytes, packets).await,
            // The server refuses each of them.
            Command::StmtExecute | Command::StmtBulkExecute if self.relay.view.locked().is_some() => {
                self.note_and_pass(command, window_bytes);
            }
            Command::StmtExecute | Command::StmtBulkExecute => {
                self.execute(command, window_bytes, packets).await;
            }
            _ => self.note_and_pass(command, window_bytes),
        }
    }

    fn names_refused(&self, window_bytes: usize) -> bool {
        let payload = payload_of(self.relay.up.window(), window_bytes);
        statement_id(&payload).is_ok_and(|id| self.relay.statements.is_refused(id))
    }

    /// Commands that pass as they are once the session has noted what they do.
    fn note_and_pass(&mut self, command: Command, window_bytes: usize) {
        let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
        if command.names_statement() {
            self.relay.translate_id();
        }
        match command {
            Command::StmtClose => {
                if let Ok(id) = statement_id(&payload) {
                    self.relay.statements.close(id);
                }
            }
            Command::StmtReset => {
                let id = statement_id(&payload).ok();
                if let Some(statement) = id.and_then(|id| self.relay.statements.get_mut(id)) {
                    statement.long_data.clear();
                    statement.again = Again::Fine;
                }
            }
            // COM_SET_OPTION: MYSQL_OPTION_MULTI_STATEMENTS_ON is 0, OFF is 1.
            Command::SetOption => match payload.get(1..3) {
                Some([0, 0]) => self.relay.view.set_multi_statements(true),
                Some([1, 0]) => self.relay.view.set_multi_statements(false),
                _ => {}
            },
            _ => {}
        }
        self.pass(command, window_bytes, false, Note::Nothing);
    }

    /// Lets a command through that was read whole.
    pub(super) fn pass(
        &mut self,
        command: Command,
        window_bytes: usize,
        may_change_session: bool,
        note: Note,
    ) {
        if command == Command::StmtPrepare {
            self.relay.statements.forget_last();
        }
        let reply = self.relay.reply_to(command);
        self.relay.owe(reply, may_change_session, 0, note);
        self.relay.up.accept(window_bytes);
    }

    /// Answers a command in place of the backend; nothing of it is sent.
    pub(super) fn refuse(&mut self, refusal: &Refusal, window_bytes: usize, packets: usize) {
        self.relay.up.skip(window_bytes);
        self.relay.answer(refusal, packets);
    }

    /// A statement that was refused when it was prepared, executed before the client knew.
    fn refuse_unprepared(&mut self, command: Command, window_bytes: usize, packets: usize) {
        self.relay.up.skip(window_bytes);
        if !matches!(command.reply(), Reply::None) {
            self.relay.answer(&Refusal::UnknownStatement(LAST_PREPARED), packets);
        }
    }

    fn take_change_user(&mut self) -> Result<Zeroizing<Vec<u8>>, SessionError> {
        match whole_payload(self.relay.up.window()) {
            Whole::Is { window_bytes, .. } if window_bytes == self.relay.up.window().len() => {
                let payload = payload_of(self.relay.up.window(), window_bytes).into_owned();
                self.relay.up.skip(window_bytes);
                Ok(Zeroizing::new(payload))
            }
            _ => Err(SessionError::Violation(Violation::BehindChangeUser.to_string())),
        }
    }

    async fn change_user(
        &mut self,
        sockets: Sockets,
        payload: Zeroizing<Vec<u8>>,
    ) -> Result<Sockets, SessionError> {
        let forms = (self.relay.capabilities, self.relay.strips_tracking);
        let mut streams = (sockets.client, sockets.server);
        streams.0.begin_answer();
        let (identity, seat) = (&mut self.identity, &self.seat);
        let answered = change_user::run(streams, payload, identity, forms, seat, &self.shared.login).await?;
        self.relay.starts_over();
        if let Some(changed) = answered.changed {
            if let Some(seat) = changed.seat {
                self.seat = seat;
            }
            self.relay.rights.changes(&changed.user);
            self.relay.here.changes(&changed.user, &changed.database);
            self.relay.view.starts_in(&changed.database);
            self.relay.view.take_status(changed.status);
        }
        self.relay.up = Lane::holding(&answered.client_buffered);
        Ok(Sockets { client: answered.client, server: answered.server })
    }

    async fn say_goodbye(&mut self, client: &mut Stream, refusal: &Refusal, packet_nr: usize) {
        if self.relay.outstanding.is_empty() && self.relay.down.is_clear() {
            client.begin_answer();
            let _ = client.write_all(&err_packet(refusal, packet_nr)).await;
        }
    }
}

impl Relay {
    /// The backend has told which of our ids is the smallest in the table.
    fn settle_insert(&mut self, smallest: Option<u64>) {
        if let Some(reply) = self.insert_reply() {
            reply.answered(smallest);
        }
    }
}

#[cfg(test)]
mod tests;
