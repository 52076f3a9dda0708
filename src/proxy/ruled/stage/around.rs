//! A prepared statement means what it meant when the client prepared it. So our texts of it are prepared
//! under the default database, sql_mode and character set of then, and run under those of now.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::Job;
use crate::mysql::error::Refusal;
use crate::proxy::known::answered::Answered;
use crate::proxy::known::session_state::State;
use crate::proxy::known::statements::Kept;
use crate::proxy::ruled::progress::{Around, Task};
use crate::proxy::ruled::verdict::{refused, state_unknown};
use crate::proxy::session::{Over, Question, Session, SessionError, Stop};
use crate::sql::name::quoted;

impl Around {
    /// `None`: all is as it was then.
    pub(super) fn new(kept: &Kept, now: &State) -> Result<Option<Around>, Refusal> {
        let source = &kept.source;
        let is = now.settings.as_deref().ok_or_else(state_unknown)?;
        // A rule came after it was prepared, where they are not known.
        let then = source.settings.as_deref().or(source.reads_as_in(now).then_some(is));
        let then = then.ok_or_else(has_changed)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if source.database != now.database {
            let go_to = |name: &Option<String>| {
                let text = format!("USE {}", quoted(name.as_ref().ok_or_else(has_changed)?));
                now.dialect.charset.written(&text).map(Cow::into_owned).ok_or_else(has_changed)
            };
            before.push(go_to(&source.database)?);
            after.push(go_to(&now.database)?);
        }
        before.extend(then.in_place_of(is, &is.results).map(Into::into));
        // In the character set that the names of databases are in.
        after.splice(..0, is.in_place_of(then, &is.results).map(Into::into));
        let is_as_then = before.is_empty();
        // The file is read while it runs, as the session is then.
        let stage = kept.prepared.as_ref().and_then(|prepared| prepared.insert.stage.as_ref());
        if !is_as_then && stage.is_some_and(|stage| stage.is_load()) {
            return Err(has_changed());
        }
        Ok((!is_as_then).then_some(Around { before, after }))
    }
}

fn has_changed() -> Refusal {
    refused(
        "the default database, sql_mode or character set has changed since it was prepared; prepare it again",
    )
}

fn queries(statements: &[Vec<u8>]) -> impl Iterator<Item = Question<'_>> {
    statements.iter().map(|sql| Question::Query(sql))
}

impl Task {
    pub(super) fn around(&self) -> Option<&Around> {
        match self {
            Task::Text { .. } => None,
            Task::Execute { around, .. } => around.as_ref(),
        }
    }
}

impl Session {
    /// Asks what the client's statement is a part of, as it was meant when it was prepared.
    pub(super) async fn ask_as_then(
        &mut self,
        job: &Job<'_>,
        question: Question<'_>,
    ) -> Result<Answered, Stop> {
        Ok(self.ask_all_as_then(job, &[], &[question]).await?.remove(0))
    }

    /// The same of several. `first` is asked before them, as the session is now.
    pub(super) async fn ask_all_as_then(
        &mut self,
        job: &Job<'_>,
        first: &[Question<'_>],
        questions: &[Question<'_>],
    ) -> Result<Vec<Answered>, Stop> {
        let Some(Around { before, after }) = job.task.around() else {
            return Ok(self.ask_all(&[first, questions].concat()).await?);
        };
        let before: Vec<_> = first.iter().copied().chain(queries(before)).collect();
        let mut answers = self.ask_all(&before).await?;
        let unset = answers.split_off(first.len()).into_iter().find_map(Result::err);
        // None of them, where they would mean something else.
        let questions = if unset.is_some() { &[] } else { questions };
        let after: Vec<_> = questions.iter().copied().chain(queries(after)).collect();
        let mut asked: VecDeque<_> = self.ask_all(&after).await?.into();
        answers.extend(asked.drain(..questions.len()));
        if let Some(Err(error)) = asked.into_iter().find(Result::is_err) {
            let why = format!("the server does not take back its session's settings: {}", error.text);
            return Err(Over::from(Err(SessionError::Violation(why))).into());
        }
        match unset {
            Some(error) => Err(Stop::Failed(error.payload)),
            None => Ok(answers),
        }
    }
}
