//! What opensrv-mysql 0.7.0 says to a client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;

use crate::admin::console::patience::Patience;

/// Each of opensrv-mysql's answers ends with one: to its greeting, and to its login.
const FLUSHES_OF_LOGIN: u8 = 2;

/// What goes to the client: all but opensrv-mysql's own login.
pub(super) struct Voice<W> {
    client: W,
    patience: Patience,
    muted_flushes: u8,
}

impl<W> Voice<W> {
    pub(super) fn new(client: W, write_timeout: Duration) -> Self {
        Voice { client, patience: Patience::new(write_timeout), muted_flushes: FLUSHES_OF_LOGIN }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Voice<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let voice = self.get_mut();
        if voice.muted_flushes > 0 {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut voice.client).poll_write(cx, bytes);
        voice.patience.poll(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let voice = self.get_mut();
        if let Some(fewer) = voice.muted_flushes.checked_sub(1) {
            voice.muted_flushes = fewer;
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut voice.client).poll_flush(cx);
        voice.patience.poll(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::Voice;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn who_is_deaf_is_left() {
        let (near, _far) = tokio::io::duplex(16);
        let mut voice = Voice::new(near, SOON);
        voice.flush().await.unwrap();
        voice.flush().await.unwrap();
        let deaf = voice.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(deaf.kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_is_said_before_the_second_flush_is_not_heard() {
        let mut heard = Vec::new();
        let mut voice = Voice::new(&mut heard, SOON);
        for word in ["greeting", "OK", "answer"] {
            voice.write_all(word.as_bytes()).await.unwrap();
            voice.flush().await.unwrap();
        }
        assert_eq!(heard, b"answer");
    }
}
