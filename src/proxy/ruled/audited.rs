//! What `log.audit` has of a session's statements.

use std::time::SystemTime;

use crate::audit;
use crate::ids::layout::Moment;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::statements::Source;
use crate::proxy::session::Session;
use crate::sql::dialect::Dialect;
use crate::sql::digest::{Digest, digest};

/// Of a text that is not known any more.
const UNKNOWN: &str = "unknown";

impl Session {
    /// [`Session::audit`] of what was prepared, read as it was then: in today's sql_mode a string
    /// of it may be a name.
    pub(in crate::proxy) fn audit_source(&self, source: Option<&Source>, inserts: &[InsertReply]) {
        let text = source.and_then(|source| Some((source.text.as_deref()?, source.dialect)));
        self.audit_as(text, inserts);
    }

    /// The statement is about to be sent with its ids. `text`: as the client wrote it, where it is
    /// known.
    pub(in crate::proxy) fn audit(&self, text: Option<&[u8]>, inserts: &[InsertReply]) {
        let dialect = self.relay.session.state().map(|state| state.dialect);
        self.audit_as(text.zip(dialect), inserts);
    }

    fn audit_as(&self, text: Option<(&[u8], Dialect)>, inserts: &[InsertReply]) {
        let audit = &self.shared.audit;
        if !audit.is_on() || inserts.is_empty() {
            return;
        }
        let unknown = || Digest { text: String::new(), hash: UNKNOWN.to_owned() };
        let digest = text.map_or_else(unknown, |(text, dialect)| digest(text, &dialect));
        let now = Moment::from(SystemTime::now()).to_string();
        let (who, client) = self.relay.here.who();
        let client = client.map(|client| client.to_string()).unwrap_or_default();
        for (target, ids) in inserts.iter().filter_map(InsertReply::taken) {
            let rule = &target.rule;
            let line = audit::Statement {
                time: &now,
                session: self.relay.here.id(),
                connection: who.connection,
                user: &who.user,
                client: &client,
                table: &format!("{}.{}", rule.schema, target.table),
                generator: &rule.generator.to_string(),
                digest: &digest.hash,
                first: ids.first,
                last: ids.last,
                step: ids.spacing.step.get(),
            };
            audit.note(&line, &digest.text);
        }
    }
}
