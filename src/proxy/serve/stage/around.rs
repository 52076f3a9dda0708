//! A prepared statement means what it meant when the client prepared it. So what fills the stage and
//! what stores its rows is prepared under the default database, sql_mode, character set and collation of
//! then, and run under those of now. All else that is asked of it, names in it, runs under those of then.

use std::borrow::Cow;

use super::{Job, lost};
use crate::mysql::error::Refusal;
use crate::proxy::decide::verdict::{refused, state_unknown};
use crate::proxy::known::answered::Answered;
use crate::proxy::known::session_state::State;
use crate::proxy::known::statements::Kept;
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::progress::{Around, Task};
use crate::proxy::serve::session::{Over, Session, SessionError, Stop};
use crate::rewrite::plan::stage::STAGE;
use crate::rewrite::plan::target::Target;
use crate::sql::name::quoted;

impl Around {
    /// `None`: all is as it was then.
    pub(super) fn new(kept: &Kept, now: &State) -> Result<Option<Around>, Refusal> {
        let source = &kept.source;
        let is = now.settings.as_deref().ok_or_else(state_unknown)?;
        // A rule came after it was prepared: they are not known, and the collation is taken to be the same.
        let then = source.settings.as_deref().or(source.reads_as_in(now).then_some(is));
        let insert = &kept.prepared.as_ref().ok_or_else(lost)?.insert;
        let has_changed = || has_changed(&insert.target);
        let then = then.ok_or_else(has_changed)?;
        let (set, unset) = (then.in_place_of(is, &is.results), is.in_place_of(then, &is.results));
        if source.database == now.database && set.is_none() {
            return Ok(None);
        }
        // The file is read while it runs, as the session is then.
        if insert.stage.as_ref().is_some_and(|stage| stage.is_load()) {
            return Err(has_changed());
        }
        let written =
            |text: String| now.dialect.charset.written(&text).map(Cow::into_owned).ok_or_else(has_changed);
        let go_to = |name: &Option<String>| {
            let name = name.as_ref().filter(|_| source.database != now.database);
            name.map(|name| written(format!("USE {}", quoted(name)))).transpose()
        };
        let (there, back) = (go_to(&source.database)?, go_to(&now.database)?);
        if there.is_some() != back.is_some() {
            return Err(has_changed());
        }
        let drop = written(format!("DROP TEMPORARY TABLE {}.{STAGE}", quoted(insert.target.named().0)))?;
        // Names of databases are in the present character set.
        let before = there.into_iter().chain(set.map(Into::into)).collect();
        let after = unset.map(Into::into).into_iter().chain(back.clone()).collect();
        Ok(Some(Around { before, after, back, drop }))
    }
}

fn has_changed(target: &Target) -> Refusal {
    refused(target.at(
        "the default database, sql_mode, character set or collation has changed since the statement was prepared; prepare the \
         statement again",
    ))
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
        let Some(Around { before, after, back, .. }) = job.task.around() else {
            return Ok(self.ask_all(&[first, questions].concat()).await?);
        };
        // Nothing is moved that cannot be moved back: the database may be gone.
        if let Some(back) = back
            && self.ask(Question::Query(back)).await?.is_err()
        {
            return Err(has_changed(&job.insert.target).into());
        }
        let before: Vec<_> = first.iter().copied().chain(queries(before)).collect();
        let mut answers = self.ask_all(&before).await?;
        let is_then = answers.split_off(first.len()).iter().all(Result::is_ok);
        if is_then {
            answers.extend(self.ask_all(questions).await?);
            if answers.iter().skip(first.len()).any(Result::is_err) {
                // What is asked next takes them away.
                self.relay.known.session.warned = self.warned(&job.insert.target).await?.map(Box::new);
            }
        }
        let after: Vec<_> = queries(after).collect();
        if let Some(Err(error)) = self.ask_all(&after).await?.into_iter().find(Result::is_err) {
            let why = format!("the server does not restore the session's settings: {}", error.text);
            return Err(Over::from(Err(SessionError::Violation(why))).into());
        }
        if is_then { Ok(answers) } else { Err(has_changed(&job.insert.target).into()) }
    }
}
