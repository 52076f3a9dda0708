//! A test's buffers in place of a socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One peer's socket: the session has one end, the test the other.
#[derive(Debug, Clone, Default)]
pub struct Wire(Arc<Mutex<BufferEnds>>);

#[derive(Debug, Default)]
pub(in crate::proxy) struct BufferEnds {
    pub(in crate::proxy) input: Vec<u8>,
    pub(in crate::proxy) output: Vec<u8>,
    /// So many bytes are taken by one write; 0: all.
    pub(in crate::proxy) takes: usize,
    /// The number of reads and writes.
    pub(in crate::proxy) moved: usize,
}

impl Wire {
    pub(in crate::proxy) fn ends(&self) -> MutexGuard<'_, BufferEnds> {
        self.0.lock()
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        if ends.input.is_empty() {
            return Poll::Pending;
        }
        let n = buf.remaining().min(ends.input.len());
        buf.put_slice(&ends.input[..n]);
        ends.input.drain(..n);
        ends.moved += 1;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.ends();
        let n = if ends.takes == 0 { buf.len() } else { buf.len().min(ends.takes) };
        ends.output.extend_from_slice(&buf[..n]);
        ends.moved += 1;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
