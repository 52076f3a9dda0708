//! A client's connection to the console, the HTTP server or a door, whatever carries it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::address::listener::Accepted;

/// The time that a client has to read an error that ends the connection.
const LINGER: Duration = Duration::from_millis(500);

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) fn stream(client: Accepted) -> io::Result<Box<dyn Stream>> {
    Ok(match client {
        Accepted::Tcp(stream) => {
            // Without it an answer waits for the delayed ACK.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Accepted::Unix(stream) => Box::new(stream),
    })
}

/// A lingering close: what the client still sends is read and dropped for a moment. Without that,
/// the connection would be reset, and what was written last might be lost.
pub(crate) async fn close(mut stream: impl Stream) {
    let lingering = async {
        stream.shutdown().await?;
        let mut dropped = [0; 4096];
        while stream.read(&mut dropped).await? > 0 {}
        io::Result::Ok(())
    };
    // Either way it is over.
    let _ = tokio::time::timeout(LINGER, lingering).await;
}
