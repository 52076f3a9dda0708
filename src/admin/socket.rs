//! A client's connection to the console or to the HTTP server, whatever carries it.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::listener::Accepted;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) fn stream(client: Accepted) -> io::Result<Box<dyn Stream>> {
    Ok(match client {
        Accepted::Tcp(stream) => {
            // Without it an answer waits for the delayed ACK.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Accepted::Unix(stream) => Box::new(stream),
    })
}
