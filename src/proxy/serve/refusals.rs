//! The trace that a refused statement leaves: a line in the log once an hour, and a row in SHOW REFUSED.

use std::time::SystemTime;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::known::Known;
use crate::proxy::relay::command::Arrived;
use crate::proxy::serve::session::Session;
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

impl Session {
    /// The command is refused for what it says, or for want of an id.
    pub(super) fn trace(&self, arrived: &Arrived, payload: &[u8], refusal: &Refusal) {
        let (why, line) = match refusal {
            Refusal::Statement(why) | Refusal::NoRight(why) => (why, REFUSED),
            Refusal::NoId(why) => (why, NO_ID),
            _ => return,
        };
        let known = &self.relay.known;
        if matches!(arrived.command, Command::Query | Command::StmtPrepare) {
            return trace(known, Some(arrived.text(payload)), &dialect_now(known), why, line);
        }
        let statement = arrived.statement.and_then(|id| known.statements.get(id));
        match statement.map(|statement| &statement.kept.source) {
            Some(source) => trace(known, source.text.as_deref(), &source.dialect, why, line),
            None => trace(known, None, &dialect_now(known), why, line),
        }
    }

    /// A text goes on as it came, and would have been refused.
    pub(super) fn trace_forwarded(&self, text: &[u8], why: &str) {
        let (known, why) = (&self.relay.known, format!("went to the server as it came; {why}"));
        trace(known, Some(text), &dialect_now(known), &why, FORWARDED);
    }
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
