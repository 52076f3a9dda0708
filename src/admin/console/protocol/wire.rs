//! Packets of the login. They are read one at a time and not a byte further, since TLS begins after
//! one of them.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::address::socket::Stream;
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};

/// The largest payload of a packet before the login is done.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "a packet of {0} bytes before the end of the login; at most {PAYLOAD_BYTES_MAX} bytes are allowed"
    )]
    TooBig(usize),
    #[error("packet number {found} instead of {expected}")]
    OutOfOrder { expected: u8, found: u8 },
}

pub(crate) struct Wire {
    pub(crate) stream: Box<dyn Stream>,
    /// The number of the next packet in either direction.
    pub(crate) packet_nr: u8,
}

impl Wire {
    pub(crate) async fn read(&mut self) -> Result<Zeroizing<Vec<u8>>, WireError> {
        let mut bytes = [0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes).await?;
        let header = Header::parse(&bytes).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if header.packet_nr != self.packet_nr {
            return Err(WireError::OutOfOrder { expected: self.packet_nr, found: header.packet_nr });
        }
        if header.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(WireError::TooBig(header.payload_bytes));
        }
        let mut payload = Zeroizing::new(vec![0; header.payload_bytes]);
        self.stream.read_exact(&mut payload).await?;
        self.packet_nr = self.packet_nr.wrapping_add(1);
        Ok(payload)
    }

    pub(crate) async fn write(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let mut packet = Vec::with_capacity(HEADER_BYTES + payload.len());
        self.packet_nr = put_packets(&mut packet, self.packet_nr, payload);
        self.stream.write_all(&packet).await?;
        Ok(self.stream.flush().await?)
    }
}
