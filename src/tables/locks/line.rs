//! A connection that is asked one question after the other. After an answer that did not come in
//! time, or that nobody waited for, it is of no more use: what comes next would be taken for the
//! answer to another question.

use std::time::Duration;

use mysql_async::Conn;

use crate::tables::locks::LockError;

/// The time limit for one answer of the server.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Line<C = Conn>(Option<C>);

impl<C> Line<C> {
    pub(super) fn new(conn: C) -> Self {
        Line(Some(conn))
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Asks about this table. The connection is closed unless its whole answer has come, an error of the
    /// server's too.
    pub(super) async fn ask<T>(
        &mut self,
        table: &str,
        question: impl AsyncFnOnce(&mut C) -> mysql_async::Result<T>,
    ) -> Result<T, LockError> {
        let table = || table.to_owned();
        let mut conn = self.0.take().ok_or_else(|| LockError::Timeout { table: table() })?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, question(&mut conn)).await;
        let answer = answer.map_err(|_| LockError::Timeout { table: table() })?;
        if matches!(answer, Ok(_) | Err(mysql_async::Error::Server(_))) {
            self.0 = Some(conn);
        }
        answer.map_err(|error| LockError::Query { table: table(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_TIMEOUT, Line, LockError};
    use mysql_async::{DriverError, Error, ServerError};
    use std::future::pending;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_is_not_asked_again() {
        let answers = async |answer: Result<u8, Error>| {
            let mut line = Line::new(7);
            let asked = line.ask("t", async move |conn: &mut u8| answer.map(|sum| sum + *conn)).await;
            (asked.ok(), line.is_open())
        };
        assert_eq!(answers(Ok(1)).await, (Some(8), true));
        let refused = ServerError { code: 1213, message: String::new(), state: String::new() };
        assert_eq!(answers(Err(refused.into())).await, (None, true));
        assert_eq!(answers(Err(DriverError::ConnectionClosed.into())).await, (None, false));
        // Too late, and given up by who asked.
        for waits in [2 * ANSWER_TIMEOUT, ANSWER_TIMEOUT / 2] {
            let mut line = Line::new(());
            let asked = line.ask("t", async |&mut ()| pending::<mysql_async::Result<()>>().await);
            let asked = tokio::time::timeout(waits, asked).await;
            assert!(matches!(asked, Err(_) | Ok(Err(LockError::Timeout { .. }))));
            assert!(!line.is_open(), "{waits:?}");
            assert!(line.ask("t", async |&mut ()| Ok(())).await.is_err(), "{waits:?}");
        }
    }
}
