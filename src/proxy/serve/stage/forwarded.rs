//! A statement that cannot go by way of a stage, and goes on as it came: `rewrite.on_doubt` is
//! "forward", and its table keeps its AUTO_INCREMENT.

use super::Job;
use crate::mysql::command::Command;
use crate::proxy::decide::refusals::trace_forwarded;
use crate::proxy::decide::verdict::Task;
use crate::proxy::known::note::Note;
use crate::proxy::serve::session::{Session, Stop};
use crate::rewrite::plan::effects::Effects;

impl Session {
    /// Nothing of it has run yet. Of what is prepared the server has another text, and a file would have to
    /// be asked for twice.
    pub(super) fn may_forward(&self, job: &Job<'_>) -> bool {
        let is_plain = matches!(job.task, Task::Text(_)) && job.task.named().is_none();
        self.shared.forwards && is_plain && !job.stage.is_load() && job.insert.target.may_be_forwarded()
    }

    pub(super) async fn forward_staged(&mut self, job: &Job<'_>, why: &str) -> Result<(), Stop> {
        trace_forwarded(&self.relay.known, job.text, why);
        self.until(|relay| relay.up.is_clear()).await?;
        let nr_shift = self.relay.send_later(job.payload, self.relay.command_packets.into());
        let effects = Effects::forwarded(vec![job.insert.target.clone()]);
        let note = Note::statements(Vec::new(), Vec::new(), effects);
        self.relay.owe(Command::Query.reply(), true, nr_shift, note);
        Ok(())
    }
}
