//! A prepared statement means what it meant when the client prepared it. So what fills the stage and
//! what stores its rows is prepared under the default database, sql_mode, character set and collation of
//! then, and run under those of now. All else that is asked of it, names in it, runs under those of then.

use super::Job;
use crate::proxy::decide::staged::has_changed;
use crate::proxy::decide::verdict::Around;
use crate::proxy::known::answered::Answered;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Over, Session, SessionError, Stop};

fn queries(statements: &[Vec<u8>]) -> impl Iterator<Item = Question<'_>> {
    statements.iter().map(|sql| Question::Query(sql))
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

    /// Asks several questions as [`Session::ask_as_then`] does. `first` is asked before them, as the session is now.
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
                // The next question takes the warnings away.
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
