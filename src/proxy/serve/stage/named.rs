//! Statements that go by way of a stage, by SQL's PREPARE, EXECUTE and EXECUTE IMMEDIATE.

use crate::mysql::command::Command;
use crate::proxy::decide::staged::lost;
use crate::proxy::decide::verdict::{Task, state_unknown};
use crate::proxy::known::answered::Answered;
use crate::proxy::known::note::Note;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Going, Session, Stop};
use crate::rewrite::plan::Plan;
use crate::rewrite::plan::stage::Named;
use crate::sql::statement::dynamic::escape;

impl Session {
    /// PREPARE: the server judges the client's text, and then has another one by that name.
    pub(super) async fn prepare_named(
        &mut self,
        (before, text): (&[u8], &[u8]),
        plan: Plan,
    ) -> Result<(), Stop> {
        let (_, stage) = plan.staged().ok_or_else(lost)?;
        let named = stage.named.as_ref().ok_or_else(lost)?;
        let judged = self.ask(Question::Prepare(&named.text)).await?;
        let sent = match judged {
            Ok(_) => plan.splice(text, &[]).ok_or_else(lost)?,
            // The server says what is wrong with it, and forgets what had this name.
            Err(_) => text.to_vec(),
        };
        self.until(|relay| relay.up.is_clear()).await?;
        let nr_shift = self.relay.send_later(&[before, &sent].concat(), self.relay.command_packets.into());
        let note = Note::statements(Vec::new(), Vec::new(), plan.effects);
        self.relay.owe(Command::Query.reply(), false, nr_shift, note);
        Ok(())
    }

    /// Runs a text of ours with what USING binds.
    pub(super) async fn run_named(&mut self, text: &[u8], named: &Named) -> Result<Answered, Stop> {
        let sql_mode = self.relay.known.session.state().ok_or_else(state_unknown)?.dialect.sql_mode;
        let prepare = [b"PREPARE `rowstamp fill` FROM '", &*escape(text, b'\'', sql_mode), b"'"].concat();
        if let Err(error) = self.ask(Question::Query(&prepare)).await? {
            return Ok(Err(error));
        }
        let using: &[u8] = if named.args.is_empty() { b"" } else { b" USING " };
        let execute = [b"EXECUTE `rowstamp fill`", using, &*named.args.join(&b',')].concat();
        Ok(self.ask(Question::Query(&execute)).await?)
    }

    /// Drops what [`Session::run_named`] has prepared.
    pub(super) async fn forget_named(&mut self, task: &Task) -> Going<()> {
        if task.named().is_some() {
            let _ = self.ask(Question::Query(b"DEALLOCATE PREPARE `rowstamp fill`")).await?;
        }
        Ok(())
    }
}
