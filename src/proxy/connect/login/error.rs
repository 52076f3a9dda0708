//! Why a login failed, and the error that the client gets.

use std::io;

use crate::mysql::auth::AuthError;
use crate::mysql::compressed::BadLevel;
use crate::mysql::error::Refusal;
use crate::mysql::reader::Malformed;
use crate::proxy::connect::backend::ConnectError;
use crate::proxy::connect::packet_io::{PAYLOAD_BYTES_MAX, ReadError};
use crate::proxy::rsa_key::NoKey;
use crate::schema::ConnectFailure;
use crate::sessions::Login;

/// Why a login ended without a session. The client has got an error packet, where one could be sent.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("the client went away during the login: {0}")]
    Client(io::Error),
    #[error("the server went away during the login: {0}")]
    Server(io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server's ERR packet was relayed.
    #[error("the server refused the login: {code} {message}")]
    ServerRefused { code: u16, message: String },
    #[error("the client's handshake: {0}")]
    ClientMalformed(Malformed),
    #[error("the server's handshake: {0}")]
    ServerMalformed(Malformed),
    #[error("the client's handshake: a packet has {0} bytes, more than {PAYLOAD_BYTES_MAX}")]
    TooBig(usize),
    #[error("the client's handshake: packets are out of order")]
    OutOfOrder,
    #[error("the client's handshake: {0}")]
    ZstdLevel(#[from] BadLevel),
    #[error("the client's TLS handshake failed: {0}")]
    ClientTls(io::Error),
    #[error("TLS to the server failed: {0}; check backend.tls")]
    ServerTls(io::Error),
    #[error(
        "the server does not offer TLS, and backend.tls.mode requires TLS; give the server a certificate, or change the mode"
    )]
    ServerWithoutTls,
    #[error("the client did not ask for TLS, and listen.tls.mode is \"required\"")]
    TlsRequired,
    #[error(
        "Rowstamp does not relay a login as {0:?} over a Unix socket: the server sees the OS user of Rowstamp there, and may ask for no \
         password; use another account, or TCP in backend.address"
    )]
    OsUser(String),
    #[error("the user already has limits.per_user connections")]
    TooManyOfUser,
    #[error("{0}")]
    Auth(#[from] AuthError),
    #[error(transparent)]
    OwnKey(#[from] NoKey),
    #[error("the login took longer than limits.handshake_timeout")]
    Timeout,
}

impl LoginError {
    /// The failure to connect, for an error that came before the server had greeted, or from TLS to it.
    pub(in crate::proxy) fn of_connection(&self) -> Option<ConnectFailure> {
        match self {
            LoginError::Server(_) | LoginError::ServerMalformed(_) => Some(ConnectFailure::Greeting),
            LoginError::ServerRefused { .. } => Some(ConnectFailure::Rejected),
            LoginError::ServerTls(_) => Some(ConnectFailure::Tls),
            _ => None,
        }
    }

    /// True if the server, or the way to it, is at fault.
    pub(in crate::proxy) fn is_of_server(&self) -> bool {
        matches!(self.outcome(), Login::Unreachable | Login::Backend)
    }

    /// The refusal that the client is sent; `None`: nothing is sent, or it was sent already. Addresses of the backend
    /// stay in the log: the reader of a refusal is not logged in.
    pub(in crate::proxy) fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            LoginError::Client(_) | LoginError::ServerRefused { .. } | LoginError::ClientTls(_) => {
                return None;
            }
            LoginError::Server(_) => {
                Refusal::BackendUnreachable("the server closed the connection during the login".into())
            }
            LoginError::Connect(_) => Refusal::BackendUnreachable("Rowstamp's log has the reason".into()),
            LoginError::ClientMalformed(error) => Refusal::BadHandshake(error.to_string()),
            LoginError::ServerMalformed(error) | LoginError::Auth(AuthError::Server(error)) => {
                Refusal::BackendMalformed(error.to_string())
            }
            LoginError::TooBig(_) => Refusal::FixedLimit(PAYLOAD_BYTES_MAX),
            LoginError::OutOfOrder => Refusal::PacketsOutOfOrder,
            LoginError::ZstdLevel(error) => Refusal::ZstdLevel(*error),
            LoginError::ServerTls(_) => Refusal::BackendTls("Rowstamp's log has the reason".into()),
            LoginError::ServerWithoutTls => Refusal::BackendTls("the server does not offer TLS".into()),
            LoginError::TlsRequired => Refusal::TlsRequired,
            LoginError::TooManyOfUser => Refusal::TooManyUserConnections,
            LoginError::OsUser(_) | LoginError::Auth(_) | LoginError::OwnKey(_) => {
                Refusal::AccessDenied(self.to_string())
            }
            LoginError::Timeout => Refusal::Timeout("limits.handshake_timeout"),
        })
    }

    /// [`LoginError::refusal`] for the proxy's own account, which is no stranger, and has no log to look into.
    pub(in crate::proxy) fn refusal_to_ourselves(&self) -> Option<Refusal> {
        match self {
            LoginError::Connect(error) => Some(Refusal::BackendUnreachable(error.reasons())),
            LoginError::ServerTls(error) => Some(Refusal::BackendTls(format!("{error}; check backend.tls"))),
            LoginError::ServerWithoutTls => Some(Refusal::BackendTls(self.to_string())),
            LoginError::ServerMalformed(error) => {
                let remedy = "name the address of a MySQL or MariaDB server";
                Some(Refusal::BackendMalformed(format!("{error}; {remedy}")))
            }
            other => other.refusal(),
        }
    }

    /// The outcome for the count of logins: who is to blame.
    pub(in crate::proxy) fn outcome(&self) -> Login {
        match self {
            LoginError::ServerRefused { .. } => Login::Denied,
            LoginError::Client(_) => Login::Gone,
            LoginError::TooManyOfUser => Login::PerUser,
            LoginError::TlsRequired | LoginError::ClientTls(_) => Login::Tls,
            LoginError::Timeout => Login::Timeout,
            LoginError::ClientMalformed(_)
            | LoginError::TooBig(_)
            | LoginError::OutOfOrder
            | LoginError::ZstdLevel(_) => Login::Malformed,
            LoginError::Connect(_) => Login::Unreachable,
            LoginError::Server(_)
            | LoginError::ServerMalformed(_)
            | LoginError::ServerTls(_)
            | LoginError::ServerWithoutTls
            | LoginError::Auth(AuthError::Server(_)) => Login::Backend,
            LoginError::OsUser(_) | LoginError::OwnKey(_) | LoginError::Auth(_) => Login::NotRelayed,
        }
    }

    pub(super) fn of_client(error: ReadError) -> Self {
        match error {
            ReadError::Ended => LoginError::Client(io::ErrorKind::UnexpectedEof.into()),
            ReadError::Io(error) => LoginError::Client(error),
            ReadError::TooBig(bytes) => LoginError::TooBig(bytes),
            ReadError::OutOfOrder { .. } => LoginError::OutOfOrder,
        }
    }

    pub(super) fn of_server(error: ReadError) -> Self {
        match error {
            ReadError::Ended => LoginError::Server(io::ErrorKind::UnexpectedEof.into()),
            ReadError::Io(error) => LoginError::Server(error),
            ReadError::TooBig(_) => LoginError::ServerMalformed(Malformed::Bad("length of a packet")),
            ReadError::OutOfOrder { .. } => LoginError::ServerMalformed(Malformed::Bad("packet number")),
        }
    }
}
