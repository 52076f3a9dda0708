//! Packets of the login, read one by one and not a byte further. What follows the last one stays in
//! the socket. What follows an SSLRequest is for the TLS handshake.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::mysql::error::parse_err;
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};
use crate::proxy::connect::stream::Stream;

/// The most bytes of a payload before the login is done.
pub(in crate::proxy) const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// The time that a client that is turned away gets to read why.
const GOODBYE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub(in crate::proxy) enum ReadError {
    #[error("the connection ended")]
    Ended,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a packet of the login has {0} bytes; at most {PAYLOAD_BYTES_MAX} are allowed")]
    TooBig(usize),
    #[error("a packet has the number {found} instead of {expected}")]
    OutOfOrder { expected: u8, found: u8 },
}

/// The connection to one side of a login, packet by packet.
pub(in crate::proxy) struct PacketStream {
    /// `None` while a TLS handshake has it; if that fails, nothing can be said any more.
    pub(in crate::proxy) stream: Option<Stream>,
    /// The number of the next packet in either direction.
    packet_nr: u8,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    payload: Zeroizing<Vec<u8>>,
}

impl PacketStream {
    pub(in crate::proxy) fn new(stream: Stream) -> Self {
        PacketStream::resumed(stream, 0)
    }

    /// A stream in the middle of an exchange: the next packet in either direction has this number.
    pub(in crate::proxy) fn resumed(stream: Stream, packet_nr: u8) -> Self {
        PacketStream {
            stream: Some(stream),
            packet_nr,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            payload: Zeroizing::default(),
        }
    }

    /// The next packet's payload. May be dropped and called again: what was read is kept.
    pub(in crate::proxy) async fn read(&mut self) -> Result<Zeroizing<Vec<u8>>, ReadError> {
        let stream = self.stream.as_mut().ok_or(ReadError::Ended)?;
        while let Some(missing) = self.header.get_mut(self.header_bytes..).filter(|rest| !rest.is_empty()) {
            self.header_bytes += some(stream.read(missing).await?)?;
        }
        let header = Header::parse(&self.header).ok_or(ReadError::Ended)?;
        if header.packet_nr != self.packet_nr {
            return Err(ReadError::OutOfOrder { expected: self.packet_nr, found: header.packet_nr });
        }
        if header.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(ReadError::TooBig(header.payload_bytes));
        }
        // The room is reserved at once, so that no shorter copy of a password stays in memory when the buffer grows.
        let payload = &mut *self.payload;
        payload.reserve_exact(header.payload_bytes - payload.len());
        while payload.len() < header.payload_bytes {
            let mut limited = (&mut *stream).take((header.payload_bytes - payload.len()) as u64);
            some(limited.read_buf(payload).await?)?;
        }
        self.header_bytes = 0;
        self.packet_nr = self.packet_nr.wrapping_add(1);
        Ok(std::mem::take(&mut self.payload))
    }

    /// The payload of a packet that was out of order, if it is an error: MariaDB that has read a
    /// PROXY protocol header and does not let the client's host in says so before it is asked.
    pub(in crate::proxy) async fn last_word(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.packet_nr = Header::parse(&self.header)?.packet_nr;
        self.read().await.ok().filter(|payload| parse_err(payload).is_some())
    }

    pub(in crate::proxy) async fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.go_on_from(self.packet_nr);
        let mut packet = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + payload.len()));
        self.packet_nr = put_packets(&mut packet, self.packet_nr, payload);
        stream.write_all(&packet).await?;
        stream.flush().await
    }

    /// True if a packet was sent or received.
    pub(in crate::proxy) fn has_sent(&self) -> bool {
        self.packet_nr != 0
    }

    /// Says why and closes. What the client is still sending is read and dropped for a moment:
    /// closing on it would reset the connection, and the client would never read the answer.
    pub(in crate::proxy) async fn refuse(&mut self, payload: &[u8]) {
        let goodbye = async {
            self.write(payload).await?;
            let mut stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
            stream.shutdown().await?;
            let mut dropped = [0; 1024];
            while stream.read(&mut dropped).await? > 0 {}
            io::Result::Ok(())
        };
        // Either way it is over.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    /// The stream, and what was read from it that belongs to what follows the login.
    pub(in crate::proxy) fn take_parts(&mut self) -> Option<(Stream, Vec<u8>)> {
        let mut read = self.header.get(..self.header_bytes).unwrap_or_default().to_vec();
        read.append(&mut self.payload);
        self.stream.take().map(|stream| (stream, read))
    }
}

/// A read of nothing is the end.
fn some(bytes: usize) -> Result<usize, ReadError> {
    if bytes == 0 { Err(ReadError::Ended) } else { Ok(bytes) }
}
