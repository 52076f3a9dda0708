//! One session: a logged-in client and its backend connection, until one of them ends.
//!
//! `pump` moves bytes until something needs the session. A command that a rule may concern is decided at once
//! (`command`), as far as everything is known; what is not known is found out (`supply`), by questions to the server among
//! others (`ask`), while answers to what was sent before go on to the client.

mod ask;
mod command;
mod supply;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::drain::Drain;
use super::lane::Lane;
use super::login::{LoggedIn, LoginContext, LoginError};
use super::need::Supplied;
use super::outstanding::Queue;
use super::proxy_protocol::Ends;
use super::pump::Watchdog;
use super::relay::{Arrived, DownState, Event, Framed, Relay, UpState, Violation, err_packet};
use super::rights::{Allowed, Rights};
use super::seats::Seat;
use super::statements::Statements;
use super::stream::{Connection, Stream};
use super::tables::InForce;
use super::verifier::Verifier;
use super::view::View;
use super::{change_user, login};
use crate::audit::Audit;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::response::Forms;
use crate::sessions::{Here, Login, Sessions};
use crate::sql::dialect::{Server, ServerKind};

pub(super) use ask::Question;
pub(super) use command::{Progress, Slowly};
pub(super) use supply::Stop;

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
    client: Stream,
    server: Stream,
    watchdog: Watchdog,
    drain: Drain,
    /// What was found out for the client's present command.
    pub(super) supplied: Supplied,
    /// For the authentication of a COM_CHANGE_USER.
    identity: change_user::Identity,
    /// Among the user's connections.
    seat: Seat<Vec<u8>>,
}

/// The session is over, and nothing of the client's present command is gone on with.
#[derive(Debug)]
pub(super) struct Over {
    how: Result<End, SessionError>,
    /// The last that the client is told, and the number of the packet.
    last_word: Option<(Refusal, usize)>,
}

impl From<Result<End, SessionError>> for Over {
    fn from(how: Result<End, SessionError>) -> Self {
        Over { how, last_word: None }
    }
}

/// What comes of waiting, while the session goes on.
pub(super) type Going<T> = Result<T, Over>;

/// Why [`Session::go_on`] came back.
enum Served {
    Over(Over),
    /// The payload of a COM_CHANGE_USER: its exchange runs on the sockets themselves.
    ChangeUser(Zeroizing<Vec<u8>>),
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
    let mut session = Session::new(logged_in, shared, here);
    loop {
        match session.go_on().await {
            Served::Over(over) => {
                session.close(&over).await;
                return over.how;
            }
            Served::ChangeUser(payload) => {
                session.client.begin_answer();
                let streams = (session.client, session.server);
                let forms = (session.relay.capabilities, session.relay.strips_tracking);
                let (identity, context) = (&mut session.identity, &session.shared.login);
                let answered =
                    change_user::run(streams, payload, identity, forms, &session.seat, context).await?;
                (session.client, session.server) = (answered.client, answered.server);
                session.starts_over(answered.changed, &answered.client_buffered);
            }
        }
    }
}

impl Session {
    fn new(login: LoggedIn, shared: Shared, here: Here) -> Self {
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
            holds_client: false,
            answers: Vec::new(),
            overrun: None,
            prepares_what_sees_tracking: false,
            injection: Vec::new(),
            client_has_ended: false,
            here,
        };
        let identity =
            change_user::Identity { nonce: login.nonce, sides: login.sides, address: login.address };
        let limits = &shared.login.settings.limits;
        Session {
            client: login.client,
            server: login.server,
            watchdog: Watchdog::new(limits.idle_timeout, limits.write_timeout),
            drain: Drain::new(&shared.draining),
            supplied: Supplied::default(),
            relay,
            shared,
            identity,
            seat: login.seat,
        }
    }

    /// Serves the client until its session is over, or another user's.
    async fn go_on(&mut self) -> Served {
        loop {
            match self.pump().await {
                Ok(Event::Command(arrived)) if arrived.command == Command::ChangeUser => {
                    return self.take_change_user(arrived);
                }
                Ok(event) => {
                    if let Err(over) = self.handle(event).await {
                        return Served::Over(over);
                    }
                }
                Err(over) => return Served::Over(over),
            }
        }
    }

    fn take_change_user(&mut self, arrived: Arrived) -> Served {
        if arrived.window_bytes != self.relay.up.window().len() {
            return Served::Over(Violation::BehindChangeUser.into());
        }
        let payload = self.relay.payload(arrived).into_owned();
        self.relay.up.skip(arrived.window_bytes);
        Served::ChangeUser(Zeroizing::new(payload))
    }

    /// The server has answered a COM_CHANGE_USER.
    fn starts_over(&mut self, changed: Option<change_user::Changed>, client_buffered: &[u8]) {
        self.relay.starts_over();
        if let Some(changed) = changed {
            if let Some(seat) = changed.seat {
                self.seat = seat;
            }
            self.relay.rights.changes(&changed.user);
            self.relay.here.changes(&changed.user, &changed.database);
            self.relay.view.starts_in(&changed.database);
            self.relay.view.take_status(changed.status);
        }
        self.relay.up = Lane::holding(client_buffered);
    }

    /// A peer that does not take its last bytes is not waited for. A server that is busy with a statement notices that nobody waits for
    /// it by the end of its socket alone: a TLS goodbye before that end would be bytes that it takes for a command.
    async fn close(&mut self, over: &Over) {
        let is_idle = self.relay.outstanding.is_empty();
        if let Some((refusal, packet_nr)) =
            over.last_word.as_ref().filter(|_| is_idle && self.relay.down.is_clear())
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
#[cfg(test)]
pub(super) use tests::Wire;
