//! SHOW WARNINGS after what went by way of a stage.

use super::told::STAGE;
use crate::proxy::decide::staged::lost;
use crate::proxy::known::answered::Table;
use crate::proxy::known::warned::Warned;
use crate::proxy::relay::Arrived;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::progress::Progress;
use crate::proxy::serve::session::{Going, Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::sql::look::shows_warnings;

const SHOW: &[u8] = b"SHOW WARNINGS";

impl Session {
    /// The warnings that the server shows right after the stage was filled, or could not be filled.
    pub(super) async fn warned(&mut self, target: &Target) -> Going<Option<Warned>> {
        let table = target.named().1.as_bytes();
        Ok(self.ask_table().await?.map(|filling| Warned::new(filling, STAGE, table)))
    }

    async fn ask_table(&mut self) -> Going<Option<Table>> {
        let answered = self.ask(Question::Table(SHOW)).await?;
        Ok(answered.ok().and_then(|answer| answer.table))
    }

    /// The client's SHOW WARNINGS, which the server could answer in part only.
    pub(in crate::proxy::serve) async fn show_warnings(&mut self, arrived: Arrived) -> Going<Progress> {
        let payload = self.relay.payload(arrived).into_owned();
        self.relay.up.skip(arrived.window_bytes);
        match self.shown_warnings(arrived.text(&payload)).await {
            Ok(packets) => self.relay.answer_with_table(&packets, arrived.packets),
            Err(Stop::Over(over)) => return Err(over),
            Err(Stop::Refused(refusal)) => self.relay.answer(&refusal, arrived.packets),
            Err(Stop::Failed(error)) => self.relay.answer_with(&error, arrived.packets),
        }
        self.relay.known.forget_supplied();
        Ok(Progress::Done)
    }

    async fn shown_warnings(&mut self, text: &[u8]) -> Result<Vec<Vec<u8>>, Stop> {
        let dialect = self.relay.known.session.dialect();
        let shown = shows_warnings(text, dialect).ok_or_else(lost)?;
        let is_stored = self.relay.known.session.warned.as_ref().is_some_and(|warned| warned.is_stored);
        let storing = if is_stored { self.ask_table().await? } else { None };
        let warned = self.relay.known.session.warned.as_ref().ok_or_else(lost)?;
        Ok(warned.shown(storing.as_ref(), shown))
    }
}
