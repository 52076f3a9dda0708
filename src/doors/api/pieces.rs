//! The body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// hyper copies a piece into the buffer of its connection, and never makes that smaller.
const PIECE_BYTES: usize = 8 << 10;

/// A body that is given to hyper in pieces, so that a connection does not keep the memory of a long answer.
pub(super) struct Pieces(pub(super) Bytes);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.0.len().min(PIECE_BYTES);
        let piece = self.0.split_to(bytes);
        Poll::Ready((bytes > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.0.len()).unwrap_or(u64::MAX))
    }
}
