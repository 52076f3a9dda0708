//! The adapter between a client's connection and opensrv-mysql 0.7.0, the library that serves the
//! console's commands. [`OnePacketReader`] is what the library reads from, [`Writer`] what it writes to.
//!
//! # What is wrong in the library
//!
//! **1. It reads freed memory where two packets come in one read.** `PacketReader::next_async` borrows
//! the packet that it returns from its buffer, by `slice::from_raw_parts`, so that the compiler does not
//! see it. Where the buffer holds more than that packet, even the first byte of a second one, it puts a
//! copy of the rest in the buffer's place: the buffer is freed while the packet is still to be parsed.
//! Two COM_PINGs in one write suffice:
//!
//! ```text
//! 01 00 00 00 0e  01 00 00 00 0e
//! ```
//!
//! The command is then parsed from whatever the allocator has put there: it may be another one, or text
//! that is not UTF-8, at which the library ends the connection. Every client that pipelines does this.
//! Known as github.com/databendlabs/opensrv/issues/66, seen by GreptimeDB and by Databend (its pull
//! request 16893 has Valgrind's report). Pull request 67 has the fix, in the repository since September
//! 2024 and in its tags from v0.8.0 on. crates.io had nothing after 0.7.0 in 2026.
//!
//! **2. It panics** where a packet behind the login does not fit the buffer that it is moved to, a long
//! payload's packets are not numbered in turn (`ff ff ff 00 ... 00 00 00 05`), or a command has the
//! number 255 (`01 00 00 ff 0e`: it adds one).
//!
//! **3. It ends the connection** where a text is not UTF-8 (`03 00 00 00 03 ff fe`), and where a statement
//! is executed that was not prepared, in place of an error.
//!
//! **4. It says OK to every command that it cannot parse.** A client that sends COM_CHANGE_USER
//! (`01 00 00 00 11`), or an empty packet, takes that for done.
//!
//! **5. It answers `SELECT @@max_allowed_packet` and `USE` by itself**, the first with 67108864.
//!
//! **6. Its login** knows one plugin, has the same salt for all connections, and cannot be skipped.
//!
//! # What the adapter does about it
//!
//! Against 1 and 2: it reads the client's bytes into packets, and a read of the library's never gives a
//! byte of a second one. The library reads only when its buffer has no whole packet, so the buffer never
//! has more than one. That is what `no_two_packets_reach_the_library_at_once` tests, for any way in
//! which the client's bytes are split and joined. A packet that is numbered or longer than a command may
//! be ends the connection after its error.
//!
//! Against 3, 4 and 5: each command goes through [`filter`]. One that is refused reaches the library as
//! an empty query, and the error lies ready for the answer to it.
//!
//! Against 6: the login is ours (`login`). The library is given one of a form, of nobody, and what it
//! answers to that goes to nobody: its first two flushes.
//!
//! # What can be deleted
//!
//! With a release that has pull request 67: of the reader's duty only that of 1, and of this page as
//! much. The reader stays, since the repository of January 2026 still has 2 (but for the login's), 3, 4,
//! 5 and 6: [`filter`] needs whole packets, one at a time, each after the one before was carried out.
//! With a library that hands unknown commands and its login to the shim, this file and `commands` go.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admin::console::PACKET_BYTES_MAX;
use crate::admin::console::protocol::commands::{COM_QUERY, SharedState, filter, lock};
use crate::admin::console::protocol::timeout::Timeout;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};

/// The library flushes at the end of its greeting, and of its answer to the login.
const FLUSHES_OF_LOGIN: u8 = 2;

/// What a client sends, so that a read gives bytes of one packet only.
pub(crate) struct OnePacketReader<R> {
    client: R,
    state: SharedState,
    idle: Timeout,
    /// As much as has come of the client's next packet.
    incoming: Vec<u8>,
    /// The packet for the library, from where it goes on reading.
    outgoing: Cursor<Vec<u8>>,
    has_ended: bool,
}

impl<R> OnePacketReader<R> {
    /// The first packet is the login of a form, with what the client can do.
    pub(crate) fn new(client: R, state: SharedState, capabilities: Capabilities, idle: Duration) -> Self {
        OnePacketReader {
            client,
            state,
            idle: Timeout::new(idle),
            incoming: Vec::new(),
            outgoing: Cursor::new(login(capabilities)),
            has_ended: false,
        }
    }

    /// How many bytes the incoming packet lacks: first of its header, then of its payload.
    fn missing_bytes(&self) -> Result<usize, Refusal> {
        let Some(header) = Header::parse(&self.incoming) else {
            return Ok(HEADER_BYTES - self.incoming.len());
        };
        if header.packet_nr != 0 {
            return Err(Refusal::PacketsOutOfOrder);
        }
        if header.payload_bytes > PACKET_BYTES_MAX {
            return Err(Refusal::PacketTooBig { bytes_max: PACKET_BYTES_MAX });
        }
        Ok(header.packet_bytes() - self.incoming.len())
    }

    /// The incoming packet is whole.
    fn finish_packet(&mut self) {
        let payload = self.incoming.split_off(HEADER_BYTES);
        self.incoming.clear();
        let filtered = filter(payload, &mut lock(&self.state));
        match filtered {
            Ok(Some(payload)) => self.outgoing = packet(0, &payload),
            Ok(None) => {}
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        lock(&self.state).refusal = Some(refusal);
        self.outgoing = packet(0, &[COM_QUERY]);
    }
}

fn packet(packet_nr: u8, payload: &[u8]) -> Cursor<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    put_packets(&mut out, packet_nr, payload);
    Cursor::new(out)
}

/// HandshakeResponse41, of nobody: the shim has no use for a name, and the library says OK to any.
fn login(capabilities: Capabilities) -> Vec<u8> {
    // Servers put the length in front of an OK's text for every client, and MariaDB's takes it for
    // malformed without. The library does so only with session tracking, which changes nothing else.
    let form = (Capabilities::DEPRECATE_EOF & capabilities) | Capabilities::SESSION_TRACK;
    let bits = form | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    let mut payload = bits.base().to_le_bytes().to_vec();
    payload.resize(34, 0);
    packet(1, &payload).into_inner()
}

impl<R: AsyncRead + Unpin> AsyncRead for OnePacketReader<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let reader = self.get_mut();
        loop {
            let filled = buf.filled().len();
            ready!(Pin::new(&mut reader.outgoing).poll_read(cx, buf))?;
            if buf.filled().len() > filled || buf.remaining() == 0 || reader.has_ended {
                return Poll::Ready(Ok(()));
            }
            // It was read whole; a long one is not kept while the client is idle.
            reader.outgoing = Cursor::default();
            match reader.missing_bytes() {
                Ok(0) => reader.finish_packet(),
                Ok(missing) => {
                    let mut piece = [0; 4096];
                    let mut piece = ReadBuf::new(&mut piece);
                    let mut piece = piece.take(missing);
                    let polled = Pin::new(&mut reader.client).poll_read(cx, &mut piece);
                    ready!(reader.idle.poll(cx, polled))?;
                    // At the end, in the middle of a packet or not, nobody is there to be told.
                    reader.has_ended = piece.filled().is_empty();
                    reader.incoming.extend_from_slice(piece.filled());
                }
                // No packet can follow this one.
                Err(refusal) => {
                    reader.has_ended = true;
                    reader.refuse(refusal);
                }
            }
        }
    }
}

/// What the library writes, its login left out.
pub(crate) struct Writer<W> {
    client: W,
    timeout: Timeout,
    muted_flushes: u8,
}

impl<W> Writer<W> {
    pub(crate) fn new(client: W, timeout: Duration) -> Self {
        Writer { client, timeout: Timeout::new(timeout), muted_flushes: FLUSHES_OF_LOGIN }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Writer<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let writer = self.get_mut();
        if writer.muted_flushes > 0 {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut writer.client).poll_write(cx, bytes);
        writer.timeout.poll(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writer = self.get_mut();
        if let Some(fewer) = writer.muted_flushes.checked_sub(1) {
            writer.muted_flushes = fewer;
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut writer.client).poll_flush(cx);
        writer.timeout.poll(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
