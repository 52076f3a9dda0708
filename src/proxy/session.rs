//! One session: a logged-in client, its connection to the server, and what is known of both.
//! `serve` serves it. By `ask` a command asks the server a question, and waits for the answer.

mod ask;
pub(super) mod drain;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::relay::{DownState, Framed, Relay, UpState};
use super::verifier::Verifier;
use crate::audit::Audit;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::proxy::connect::change_user;
use crate::proxy::connect::login::{LoggedIn, LoginContext, LoginError};
use crate::proxy::connect::seats::Seat;
use crate::proxy::connect::stream::Stream;
use crate::proxy::known::Known;
use crate::proxy::known::need::Supplied;
use crate::proxy::known::rights::{Allowed, Rights};
use crate::proxy::known::session_state::SessionState;
use crate::proxy::known::statements::Statements;
use crate::proxy::relay::again::Again;
use crate::proxy::relay::lane::Lane;
use crate::proxy::relay::outstanding::Queue;
use crate::proxy::relay::pump::Watchdog;
use crate::proxy::session::drain::Drain;
use crate::proxy::settings::Verify;
use crate::sessions::{Here, Sessions};
use crate::sql::dialect::{Server, ServerKind};
use crate::tables::InForce;
use crate::users::Directory;

pub(super) use ask::Question;

/// What all sessions of a proxy share.
#[derive(Clone)]
pub struct Shared {
    pub login: LoginContext,
    pub tables: Arc<InForce>,
    /// How long a ruled statement waits for its ids.
    pub id_deadline: Duration,
    pub verifier: Verifier,
    /// What cannot be rewritten goes on as it came, where the table keeps its AUTO_INCREMENT.
    pub forwards: bool,
    pub sessions: Arc<Sessions>,
    pub audit: Arc<Audit>,
    /// Who may insert into what, as far as that was seen.
    pub allowed: Arc<Allowed>,
    /// Who may draw ids by calls. `None`: all who may log in to the server.
    pub users: Option<Arc<Directory>>,
    /// `true`: sessions end where nothing is lost by it.
    pub draining: watch::Receiver<bool>,
}

impl Shared {
    /// Nobody is there yet, and nothing is noted.
    pub fn new(
        login: LoginContext,
        tables: Arc<InForce>,
        id_deadline: Duration,
        verify: Verify,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Shared {
            login,
            tables,
            id_deadline,
            verifier: Verifier::new(verify),
            forwards: false,
            sessions: Arc::default(),
            audit: Arc::default(),
            allowed: Arc::default(),
            users: None,
            draining,
        }
    }
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
    #[error("the backend closed the connection before all commands were answered")]
    BackendGone,
    #[error("the client or the backend read no data for limits.write_timeout")]
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
    pub(super) client: Stream,
    pub(super) server: Stream,
    watchdog: Watchdog,
    drain: Drain,
    /// For the authentication of a COM_CHANGE_USER.
    pub(super) identity: change_user::Identity,
    /// Among the user's connections.
    pub(super) seat: Seat<Vec<u8>>,
}

/// The session is over, and the client's present command ends with it.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) how: Result<End, SessionError>,
    /// The error that the client gets last, and the number of the packet.
    pub(super) last_word: Option<(Refusal, usize)>,
}

impl From<Result<End, SessionError>> for Over {
    fn from(how: Result<End, SessionError>) -> Self {
        Over { how, last_word: None }
    }
}

/// Why a command goes no further.
pub(in crate::proxy) enum Stop {
    Over(Over),
    Refused(Refusal),
    /// The server's error packet.
    Failed(Vec<u8>),
}

impl From<Over> for Stop {
    fn from(over: Over) -> Self {
        Stop::Over(over)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

/// What comes of waiting, while the session goes on.
pub(super) type Going<T> = Result<T, Over>;

impl Session {
    pub(super) fn new(login: LoggedIn, shared: Shared, here: Here) -> Self {
        let has = |bit| login.capabilities.contains(bit);
        let forms = login.forms();
        let (major, minor, patch) = login.server_version.number;
        let server = Server {
            kind: if login.server_version.is_mariadb { ServerKind::MariaDb } else { ServerKind::MySql },
            version: u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(patch),
        };
        let multi_statements = has(Capabilities::MULTI_STATEMENTS);
        let known = Known {
            session: SessionState::new(
                server,
                shared.tables.name_case(),
                multi_statements,
                login.status,
                login.database.as_deref(),
            ),
            statements: Statements::default(),
            rights: Rights::new((login.user, login.forwarded_address), shared.allowed.clone()),
            supplied: Supplied::default(),
            capabilities: login.capabilities,
            here,
        };
        let relay = Relay {
            up: Lane::holding(&login.client_buffered),
            down: Lane::default(),
            up_state: UpState::Boundary,
            down_state: DownState::Boundary,
            outstanding: Queue::default(),
            known,
            tables: shared.tables.clone(),
            forms,
            framed: Framed { client: login.client.is_compressed(), backend: login.server.is_compressed() },
            command_packets: 1,
            came: None,
            drawn: None,
            owes_last: false,
            strips_tracking: !login.client_wants_session_track,
            statement_bytes_max: shared.login.settings.limits.statement_bytes_max,
            holds_client: false,
            parts: None,
            answers: Vec::new(),
            prepares_what_sees_tracking: false,
            injection: Vec::new(),
            may_have_locked: false,
            again: Again::default(),
            client_has_ended: false,
        };
        let identity =
            change_user::Identity { nonce: login.nonce, sides: login.sides, address: login.address };
        let limits = &shared.login.settings.limits;
        Session {
            client: login.client,
            server: login.server,
            watchdog: Watchdog::new(limits.idle_timeout, limits.write_timeout),
            drain: Drain::new(&shared.draining),
            relay,
            shared,
            identity,
            seat: login.seat,
        }
    }
}
