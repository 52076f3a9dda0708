//! The trace that a refused statement leaves: a line in the log once an hour, and a row in SHOW REFUSED.

use std::time::SystemTime;

use crate::mysql::error::Refusal;
use crate::proxy::known::Known;
use crate::sessions::refused::RefusedStatement;
use crate::sql::dialect::Dialect;
use crate::sql::digest::{Digest, digest};

/// The message of a log line. The statement and the reason are fields of the line.
const REFUSED: &str =
    concat!("a statement was refused; what to write instead: ", crate::book::page!("refused"));
const NO_ID: &str = concat!(
    "a statement was refused, as there is no id; causes and remedies: ",
    crate::book::page!("errors")
);
const FORWARDED: &str =
    "a statement that cannot be rewritten went to the server as it came (rewrite.on_doubt = \"forward\")";

/// The command is refused for what it says, or for want of an id. `text`: `None`, for an execution. `statement`: what it
/// executes, by the client's id.
pub(crate) fn trace_refusal(known: &Known, text: Option<&[u8]>, statement: Option<u32>, refusal: &Refusal) {
    let (why, line) = match refusal {
        Refusal::Statement(why) | Refusal::NoRight(why) => (why, REFUSED),
        Refusal::NoId(why) => (why, NO_ID),
        _ => return,
    };
    let statement = statement.and_then(|id| known.statements.get(id)).filter(|_| text.is_none());
    let (text, dialect) = match statement.map(|statement| &statement.kept.source) {
        Some(source) => (source.text.as_deref(), source.dialect),
        None => (text, dialect_now(known)),
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
    let seen = text.map_or_else(Digest::unknown, |text| digest(text, dialect));
    let Digest { text: statement, hash: digest } = seen;
    let seen = RefusedStatement {
        digest: digest.clone(),
        statement: statement.clone(),
        why: why.to_owned(),
        count: 1,
        user: known.here.who().0.user,
        last: SystemTime::now(),
    };
    if let Some(count) = known.here.all().refused.note(seen) {
        tracing::warn!(statement, digest, count, why, "{line}");
    }
}
