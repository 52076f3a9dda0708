//! Executions that there are no ids for, in tables whose rule has the server number the rows then.

use crate::mysql::error::Refusal;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::natively::native_execution;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::{Arrived, Violation};
use crate::proxy::serve::progress::Progress;
use crate::proxy::serve::session::{Going, Session};

impl Session {
    /// A command that there are no ids for, and whose table's rule has the server number the rows. What the
    /// server has of a prepared statement counts up from an id of ours: the client's text is prepared
    /// for this execution.
    pub(super) async fn execute_natively(&mut self, arrived: Arrived, why: String) -> Going<Progress> {
        let tables = self.shared.tables.now();
        let native = self.decide(&tables, arrived, |known, by, payload| native_execution(known, by, payload));
        let Some((text, mut execution, note)) = native else {
            return Ok(self.refuse(arrived, &Refusal::NoId(why)));
        };
        let answer = match self.ask(Question::PrepareAndKeep(&text)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(self.fail(arrived, &error.payload)),
        };
        let ok = PrepareOk::parse(&answer.first, self.relay.forms).map_err(Violation::Backend)?;
        if let Some(place) = execution.get_mut(1..5) {
            place.copy_from_slice(&ok.statement_id.to_le_bytes());
        }
        self.until(|relay| relay.up.is_clear()).await?;
        let nr_shift = self.relay.send_instead(&execution, arrived);
        self.relay.owe(arrived.command.reply_to(&execution), false, nr_shift, note);
        self.relay.close(ok.statement_id);
        Ok(Progress::Done)
    }
}
