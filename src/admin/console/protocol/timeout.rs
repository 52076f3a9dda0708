//! A limit for one read or one write, counted from the first poll that waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) struct Timeout {
    limit: Duration,
    end: Option<Pin<Box<Sleep>>>,
}

impl Timeout {
    pub(crate) fn new(limit: Duration) -> Self {
        Timeout { limit, end: None }
    }

    /// Passes on what a poll gave; an error where it has waited for longer than the limit.
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
