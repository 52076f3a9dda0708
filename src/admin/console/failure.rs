//! Why a statement was not done: the text that the client reads, and MySQL's code for it.

use opensrv_mysql::ErrorKind;

use super::syntax::SyntaxError;
use super::tokens::Unclosed;
use crate::admin::desk::DeskError;
use crate::mysql::error::{self, Refusal};
use crate::users::Right;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The error's text begins as MySQL's own text does.
    #[error(
        "Access denied; {what} needs the right {right} ON {on}, which user {user} does not have; GRANT gives it, or role = \"write\" of \
         a user in admin.users"
    )]
    NoRight { what: String, right: Right, on: String, user: String },
    #[error("Access denied; your user, or its password or token, has changed: log in again")]
    Gone,
    #[error(
        "Access denied; {0} needs ADMIN, and whether you still have it is not known, since the store does not answer; try again when it \
         does, or as a user of admin.users"
    )]
    Uncertain(String),
    #[error("Unknown system variable '{0}'")]
    UnknownVariable(String),
    #[error("there is no column {column}; the columns are {known}")]
    UnknownColumn { column: String, known: String },
    #[error("Table '{0}' doesn't exist")]
    UnknownTable(String),
    #[error("{0}")]
    Unsupported(String),
    #[error(
        "this connection has too many prepared statements ({0}), or their texts are too long; close some"
    )]
    TooManyPrepared(usize),
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<Unclosed> for Failure {
    fn from(unclosed: Unclosed) -> Self {
        Failure::Syntax(unclosed.into())
    }
}

impl Failure {
    pub(super) fn kind(&self) -> ErrorKind {
        ErrorKind::from(match self {
            Failure::Syntax(SyntaxError::KillQuery) | Failure::Unsupported(_) => error::NOT_SUPPORTED_YET,
            Failure::Syntax(_) => error::PARSE_ERROR,
            Failure::NoRight { .. } | Failure::Gone | Failure::Uncertain(_) => error::NO_PRIVILEGE,
            Failure::UnknownVariable(_) => error::UNKNOWN_VARIABLE,
            Failure::UnknownColumn { .. } => error::BAD_FIELD,
            Failure::UnknownTable(_) => error::NO_SUCH_TABLE,
            Failure::TooManyPrepared(_) => error::TOO_MANY_PREPARED,
            Failure::Desk(_) => error::UNKNOWN_ERROR,
            Failure::Refused(refusal) => refusal.code().0,
        })
    }
}
