//! A limit for reading and writing, from the first poll that waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How long a peer may keep us waiting.
pub(crate) struct Patience {
    limit: Duration,
    end: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Patience { limit, end: None }
    }

    /// What came of asking; an error where it has been waited for too long.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.end = None;
            return polled;
        }
        let limit = self.limit;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        ready!(end.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}
