//! The question whether the session's user may insert into a ruled table.

use std::borrow::Cow;
use std::sync::Arc;

use crate::proxy::session::{Going, Question, Session};
use crate::rewrite::plan::target::Target;
use crate::sql::name::quoted;

impl Session {
    /// Asks the server whether the user may insert into it.
    pub(in crate::proxy) async fn ask_right(&mut self, target: Arc<Target>) -> Going<()> {
        let (schema, name) = target.named();
        let sql = format!(
            "INSERT INTO {}.{} ({}) VALUES (NULL)",
            quoted(schema),
            quoted(name),
            quoted(target.id_column())
        );
        let state = self.relay.session.state();
        let sql = state.and_then(|state| state.dialect.charset.written(&sql)).map(Cow::into_owned);
        let Some(sql) = sql else {
            self.relay.rights.unsure(&target);
            return Ok(());
        };
        let answered = self.ask(Question::Prepare(&sql)).await?;
        self.relay.rights.answered(&target, answered);
        Ok(())
    }
}
