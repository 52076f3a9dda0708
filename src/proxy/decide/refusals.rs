//! The trace that a refused statement leaves: a line in the log once an hour, and a row in SHOW REFUSED.

use std::borrow::Cow;
use std::time::SystemTime;

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::relay::Arrived;
use crate::proxy::serve::session::Session;
use crate::sessions::refused::RefusedStatement;
use crate::sql::dialect::Dialect;
use crate::sql::digest::digest;

/// Shown of a statement whose text is not known any more.
const UNKNOWN: &str = "unknown";

/// What a line says after the statement and the reason.
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
    pub(in crate::proxy) fn trace_refusal(&self, arrived: Arrived, payload: &[u8], refusal: &Refusal) {
        let (why, line) = match refusal {
            Refusal::Statement(why) | Refusal::NoRight(why) => (why, REFUSED),
            Refusal::NoId(why) => (why, NO_ID),
            _ => return,
        };
        let source =
            arrived.statement.and_then(|id| self.relay.known.statements.get(id)).map(|of| &of.kept.source);
        let (text, dialect) = match (arrived.command, source) {
            (Command::Query, _) => {
                let at = text_at(payload, self.relay.known.has_attributes()).unwrap_or(payload.len());
                (payload.get(at..).map(Cow::Borrowed), self.dialect_now())
            }
            (Command::StmtPrepare, _) => (payload.get(1..).map(Cow::Borrowed), self.dialect_now()),
            (_, Some(source)) => {
                (source.text.as_deref().map(|text| Cow::Owned(text.to_vec())), source.dialect)
            }
            (_, None) => (None, self.dialect_now()),
        };
        self.trace(text.as_deref(), &dialect, why, line);
    }

    /// A text goes on as it came, and would have been refused.
    pub(in crate::proxy) fn trace_forwarded(&self, text: &[u8], why: &str) {
        let why = format!("went to the server as it came; {why}");
        self.trace(Some(text), &self.dialect_now(), &why, FORWARDED);
    }

    fn dialect_now(&self) -> Dialect {
        let session = &self.relay.known.session;
        session.state().map_or_else(|| session.presumed_dialect(), |state| state.dialect)
    }

    fn trace(&self, text: Option<&[u8]>, dialect: &Dialect, why: &str, line: &str) {
        let (digest, statement) = match text {
            Some(text) => {
                let digest = digest(text, dialect);
                (digest.hash, digest.text)
            }
            None => (UNKNOWN.to_owned(), String::new()),
        };
        let (who, client) = self.relay.known.here.who();
        let seen = RefusedStatement {
            digest: digest.clone(),
            statement: statement.clone(),
            why: why.to_owned(),
            count: 1,
            user: who.user.clone(),
            last: SystemTime::now(),
        };
        if let Some(count) = self.relay.known.here.all().refused.note(seen) {
            let client = client.map(|client| client.to_string()).unwrap_or_default();
            let session = self.relay.known.here.id();
            tracing::warn!(statement, digest, count, user = who.user, client, session, why, "{line}");
        }
    }
}
