//! One session: a logged-in client, its connection to the server, and what is known of both.

use std::sync::Arc;
use std::time::Instant;

use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::payload_of;
use crate::proxy::connect::change_user;
use crate::proxy::connect::login::{LoggedIn, LoginError};
use crate::proxy::connect::seats::Seat;
use crate::proxy::connect::stream::Stream;
use crate::proxy::decide::Basis;
use crate::proxy::known::Known;
use crate::proxy::known::need::Supplied;
use crate::proxy::known::rights::Rights;
use crate::proxy::known::session_state::SessionState;
use crate::proxy::known::statements::Statements;
use crate::proxy::relay::command::Arrived;
use crate::proxy::relay::pump::Watchdog;
use crate::proxy::relay::{Framed, Relay};
use crate::proxy::serve::drain::Drain;
use crate::proxy::shared::Shared;
use crate::sessions::SessionHandle;
use crate::sql::dialect::{Server, ServerKind};
use crate::tables::Tables;

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

/// The end of a session in which nothing was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Backend,
    Idle,
    Drained,
}

pub(in crate::proxy) struct Session {
    pub(in crate::proxy) relay: Relay,
    pub(in crate::proxy) shared: Shared,
    pub(in crate::proxy) client: Stream,
    pub(in crate::proxy) server: Stream,
    pub(super) watchdog: Watchdog,
    pub(super) drain: Drain,
    /// The nonce and the backend's address, for a later COM_CHANGE_USER.
    pub(in crate::proxy) identity: change_user::Identity,
    /// The session's place among the connections of its user.
    pub(in crate::proxy) seat: Seat<Vec<u8>>,
}

/// The session is over, and the client's present command ends with it.
#[derive(Debug)]
pub(in crate::proxy) struct Over {
    pub(in crate::proxy) how: Result<End, SessionError>,
    /// The error that the client gets last, and the number of the packet.
    pub(in crate::proxy) last_word: Option<(Refusal, usize)>,
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

/// The result of a wait. [`Over`]: the session has ended meanwhile.
pub(in crate::proxy) type Going<T> = Result<T, Over>;

/// The facts that a command is decided by, besides what the session knows.
pub(super) fn basis<'a>(
    tables: &'a Arc<Tables>,
    shared: &'a Shared,
    command: Command,
    statement: Option<u32>,
    is_first: bool,
) -> Basis<'a> {
    let (verifier, users) = (&shared.verifier, shared.users.as_deref());
    Basis {
        tables,
        verifier,
        clock: Instant::now,
        users,
        forwards: shared.forwards,
        command,
        statement,
        is_first,
    }
}

impl Session {
    pub(in crate::proxy) fn new(login: LoggedIn, shared: Shared, here: SessionHandle) -> Self {
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
            may_have_locked: false,
            capabilities: login.capabilities,
            here,
        };
        let limits = &shared.login.settings.limits;
        let framed = Framed { client: login.client.is_compressed(), backend: login.server.is_compressed() };
        let relay = Relay::new(
            known,
            shared.tables.clone(),
            (forms, framed),
            !login.client_wants_session_track,
            limits.statement_bytes_max,
            &login.client_buffered,
        );
        let identity =
            change_user::Identity { nonce: login.nonce, sides: login.sides, address: login.address };
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

    /// Asks what is to become of the command at the front of the client's window.
    pub(super) fn with_basis<T>(
        &mut self,
        tables: &Arc<Tables>,
        arrived: &Arrived,
        decide: impl FnOnce(&mut Known, Basis<'_>, &[u8]) -> T,
    ) -> T {
        let Session { relay, shared, .. } = self;
        let (known, window, is_first) = relay.front();
        let by = basis(tables, shared, arrived.command, arrived.statement, is_first);
        decide(known, by, &payload_of(window, arrived.window_bytes))
    }
}
