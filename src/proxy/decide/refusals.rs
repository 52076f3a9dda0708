//! The trace that a refused statement leaves: a line in the log once an hour, and a row in SHOW REFUSED.

use std::time::SystemTime;

use crate::mysql::error::Refusal;
use crate::proxy::known::Known;
use crate::sessions::refused::RefusedStatement;
use crate::sql::dialect::Dialect;
use crate::sql::digest::digest;

/// Shown of a statement whose text is not known any more.
const UNKNOWN: &str = "unknown";

/// The message of a log line. The statement and the reason are fields of the line.
const REFUSED: &str =
    concat!("a statement was refused; what to write instead: ", crate::book::page!("refused"));
const NO_ID: &str = concat!(
    "a statement was refused, as there is no id; causes and remedies: ",
    crate::book::page!("errors")
);
const FORWARDED: &str =
    "a statement that cannot be rewritten went to the server as it came (rewrite.on_doubt = \"forward\")";

/// A command that is refused: its text, or the statement that it executes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traced<'a> {
    Text(&'a [u8]),
    /// The statement, by the client's id.
    Execution(Option<u32>),
}

/// The command is refused for what it says, or for want of an id.
pub(crate) fn trace_refusal(known: &Known, of: Traced<'_>, refusal: &Refusal) {
    let (why, line) = match refusal {
        Refusal::Statement(why) | Refusal::NoRight(why) => (why, REFUSED),
        Refusal::NoId(why) => (why, NO_ID),
        _ => return,
    };
    let (text, dialect) = match of {
        Traced::Text(text) => (Some(text), dialect_now(known)),
        Traced::Execution(id) => match id.and_then(|id| known.statements.get(id)) {
            Some(statement) => (statement.kept.source.text.as_deref(), statement.kept.source.dialect),
            None => (None, dialect_now(known)),
        },
    };
    trace(known, text, &dialect, why, line);
}

/// A text goes on as it came, and would have been refused.
pub(crate) fn trace_forwarded(known: &Known, text: &[u8], why: &str) {
    let why = format!("went to the server as it came; {why}");
    trace(known, Some(text), &dialect_now(known), &why, FORWARDED);
}

fn dialect_now(known: &Known) -> Dialect {
    let session = &known.session;
    session.state().map_or_else(|| session.presumed_dialect(), |state| state.dialect)
}

fn trace(known: &Known, text: Option<&[u8]>, dialect: &Dialect, why: &str, line: &str) {
    let (digest, statement) = match text {
        Some(text) => {
            let digest = digest(text, dialect);
            (digest.hash, digest.text)
        }
        None => (UNKNOWN.to_owned(), String::new()),
    };
    let (who, client) = known.here.who();
    let seen = RefusedStatement {
        digest: digest.clone(),
        statement: statement.clone(),
        why: why.to_owned(),
        count: 1,
        user: who.user.clone(),
        last: SystemTime::now(),
    };
    if let Some(count) = known.here.all().refused.note(seen) {
        let client = client.map(|client| client.to_string()).unwrap_or_default();
        let session = known.here.id();
        tracing::warn!(statement, digest, count, user = who.user, client, session, why, "{line}");
    }
}
