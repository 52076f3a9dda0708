//! The lines of a session's statements in `log.audit`, and the last statement in SHOW SESSIONS.

use std::time::SystemTime;

use crate::audit;
use crate::ids::layout::Moment;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::statements::Source;
use crate::proxy::serve::session::Session;
use crate::rewrite::plan::target::Target;
use crate::sql::dialect::Dialect;
use crate::sql::digest::{Digest, digest};

impl Session {
    /// [`Session::audit`] of what was prepared, read as it was then: in today's sql_mode a string of it may be a name.
    pub(super) fn audit_source(&self, source: Option<&Source>, inserts: &[InsertReply]) {
        let text = source.and_then(|source| Some((source.text.as_deref()?, source.dialect)));
        self.audit_as(text, inserts);
    }

    /// The statement is about to be sent with its ids. `text`: as the client wrote it, where it is known.
    pub(super) fn audit(&self, text: Option<&[u8]>, inserts: &[InsertReply]) {
        let dialect = self.relay.known.session.state().map(|state| state.dialect);
        self.audit_as(text.zip(dialect), inserts);
    }

    fn audit_as(&self, text: Option<(&[u8], Dialect)>, inserts: &[InsertReply]) {
        let Some(first) = inserts.first() else { return };
        self.relay.known.here.ruled(text, || format!("{}.{}", first.target.rule.schema, first.target.table));
        if !self.shared.audit.is_on() {
            return;
        }
        // With calls in it the text in the lane is not the client's.
        let drawn = self.relay.drawn.as_ref().and_then(|drawn| drawn.digest.clone());
        let written = || text.map_or_else(Digest::unknown, |(text, dialect)| digest(text, &dialect));
        let digest = drawn.unwrap_or_else(written);
        for (target, ids) in inserts.iter().filter_map(InsertReply::taken) {
            let table = format!("{}.{}", target.rule.schema, target.table);
            self.note_ids(&digest, &table, target, (ids.first, ids.last));
        }
    }

    /// The statement is about to be sent with the ids that its calls have drawn.
    pub(super) fn audit_drawn(&self) {
        let Some(drawn) = self.relay.drawn.as_ref().filter(|_| self.shared.audit.is_on()) else { return };
        let Some(digest) = &drawn.digest else { return };
        for taken in &drawn.taken {
            self.note_ids(digest, "", &taken.target, (taken.first, taken.last));
        }
    }

    /// `table`: that the ids are put into; empty where they were drawn by calls.
    fn note_ids(&self, digest: &Digest, table: &str, target: &Target, (first, last): (u64, u64)) {
        let now = Moment::from(SystemTime::now()).to_string();
        let (who, client) = self.relay.known.here.who();
        let client = client.map(|client| client.to_string()).unwrap_or_default();
        let line = audit::Statement {
            time: &now,
            session: self.relay.known.here.id(),
            connection: who.connection,
            user: &who.user,
            client: &client,
            table,
            generator: &target.rule.generator.to_string(),
            digest: &digest.hash,
            first,
            last,
            step: target.spacing.step.get(),
        };
        self.shared.audit.note(&line, &digest.text);
    }
}
