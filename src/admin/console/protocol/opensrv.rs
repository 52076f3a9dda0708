//! The adapter between a client's connection and opensrv-mysql 0.7.0, the library that serves the
//! console's commands. [`OnePacketReader`] is what the library reads from, [`Writer`] what it
//! writes to.
//!
//! # What is wrong in the library
//!
//! **1. It reads freed memory if two packets come in one read.** `PacketReader::next_async` returns
//! a packet that it borrows from its buffer, by `slice::from_raw_parts`, so that the compiler does
//! not see it. If the buffer holds more than that packet, even if it is one byte of a second one,
//! the reader puts a copy of the rest in the buffer's place. So the buffer is freed while the
//! packet is still to be parsed. Two COM_PINGs in one write suffice:
//!
//! ```text
//! 01 00 00 00 0e  01 00 00 00 0e
//! ```
//!
//! The command is then parsed from whatever the allocator has put there. Measured, with reads that
//! give what is there: of 3,000 queries in one write (tests/console, `pipeline`) the first one was
//! answered with an OK in place of its row. Every client that pipelines writes so.
//!
//! GreptimeDB found it (github.com/databendlabs/opensrv/issues/66), and Databend too, whose pull
//! request 16893 has Valgrind's report. Pull request 67 fixes it. The repository has the fix since
//! September 2024, and its tags from v0.8.0 on. crates.io has nothing after 0.7.0 (November 2026).
//!
//! **2. It panics** in three cases: if what comes after the login does not fit the buffer that it
//! is moved to, if a long payload's packets are not numbered in turn (`ff ff ff 00 ... 00 00 00
//! 05`), and if a command has the number 255 (`01 00 00 ff 0e`: it adds one).
//!
//! **3. It ends the connection** without an error if a text is not UTF-8 (`03 00 00 00 03 ff fe`),
//! or if a statement is executed that was not prepared.
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
//! Against 1 and 2: it cuts the client's bytes into packets, and no read of the library's gets
//! bytes of two. The library reads only while its buffer has no whole packet, so the buffer never
//! has more than one. `no_two_packets_reach_the_library_at_once` tests that, however the client's
//! bytes are split and joined. A packet that is too long, or whose number is not 0, ends the
//! connection after its error.
//!
//! Against 3, 4 and 5: each command goes through [`filter`]. A refused one reaches the library as
//! an empty query, and the shim answers that with the error.
//!
//! Against 6: the login is ours (`login`). The library gets a dummy login of no user, and its
//! greeting and its answer, which are all that it writes up to its second flush, are dropped.
//!
//! # What can be deleted
//!
//! If a release has pull request 67: point 1 of this page and its test. The reader stays, since the
//! repository (v0.10.0 and after, January 2026) still has points 2 to 6. [`filter`] needs whole
//! packets, each after the command before it was carried out, and what gives these one by one is
//! this reader.
//!
//! If the library hands its login and the commands that it does not know to the shim: this file and
//! `commands`.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::{TimeoutReader, TimeoutWriter};

use crate::admin::console::PACKET_BYTES_MAX;
use crate::admin::console::protocol::commands::{SharedState, filter};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};

/// The library flushes at the end of its greeting, and of its answer to the login.
const FLUSHES_OF_LOGIN: u8 = 2;

/// A client's packets, cut so that a read gives bytes of one packet only.
pub(crate) struct OnePacketReader<R> {
    client: Pin<Box<TimeoutReader<R>>>,
    state: SharedState,
    /// The part of the client's next packet that has come.
    incoming: Vec<u8>,
    /// The packet for the library, and how much of it was read.
    outgoing: Cursor<Vec<u8>>,
    has_ended: bool,
}

impl<R: AsyncRead> OnePacketReader<R> {
    /// The first packet is the dummy login, with what the client can do.
    pub(crate) fn new(client: R, state: SharedState, capabilities: Capabilities, idle: Duration) -> Self {
        let mut client = TimeoutReader::new(client);
        client.set_timeout(Some(idle));
        OnePacketReader {
            client: Box::pin(client),
            state,
            incoming: Vec::new(),
            outgoing: Cursor::new(login(capabilities)),
            has_ended: false,
        }
    }

    /// The number of bytes that the incoming packet lacks: first of its header, then of its payload.
    fn missing_bytes(&self) -> Result<usize, Refusal> {
        let Some(header) = Header::parse(&self.incoming) else {
            return Ok(HEADER_BYTES - self.incoming.len());
        };
        if header.packet_nr != 0 {
            return Err(Refusal::PacketsOutOfOrder);
        }
        if header.payload_bytes > PACKET_BYTES_MAX {
            return Err(Refusal::FixedLimit(PACKET_BYTES_MAX));
        }
        Ok(header.packet_bytes() - self.incoming.len())
    }

    fn finish_packet(&mut self) {
        let payload = self.incoming.split_off(HEADER_BYTES);
        self.incoming.clear();
        let filtered = filter(payload, &mut self.state.lock());
        match filtered {
            Ok(Some(payload)) => self.outgoing = packet(0, &payload),
            Ok(None) => {}
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.state.lock().refusal = Some(refusal);
        self.outgoing = packet(0, &[Command::Query as u8]);
    }
}

fn packet(packet_nr: u8, payload: &[u8]) -> Cursor<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    put_packets(&mut out, packet_nr, payload);
    Cursor::new(out)
}

/// The dummy login, a HandshakeResponse41 without a user: the library says OK to any.
fn login(capabilities: Capabilities) -> Vec<u8> {
    // Servers put the length in front of an OK's text for every client, and MariaDB's takes it for
    // malformed without. The library does so only with session tracking, which changes nothing
    // else.
    let asked = (Capabilities::DEPRECATE_EOF & capabilities) | Capabilities::SESSION_TRACK;
    let bits = asked | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    let mut payload = bits.base().to_le_bytes().to_vec();
    payload.resize(34, 0);
    packet(1, &payload).into_inner()
}

impl<R: AsyncRead> AsyncRead for OnePacketReader<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let reader = self.get_mut();
        loop {
            let filled = buf.filled().len();
            ready!(Pin::new(&mut reader.outgoing).poll_read(cx, buf))?;
            if buf.filled().len() > filled || buf.remaining() == 0 || reader.has_ended {
                return Poll::Ready(Ok(()));
            }
            // A long packet is not kept while the client is idle.
            reader.outgoing = Cursor::default();
            match reader.missing_bytes() {
                Ok(0) => reader.finish_packet(),
                Ok(missing) => {
                    let mut piece = [0; 4096];
                    let mut piece = ReadBuf::new(&mut piece);
                    let mut piece = piece.take(missing);
                    ready!(reader.client.as_mut().poll_read(cx, &mut piece))?;
                    // The client has gone. In the middle of a packet too, nobody is there to read
                    // an error.
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

/// The library's packets to the client, without those of its login.
pub(crate) struct Writer<W> {
    client: Pin<Box<TimeoutWriter<W>>>,
    muted_flushes: u8,
}

impl<W: AsyncWrite> Writer<W> {
    pub(crate) fn new(client: W, timeout: Duration) -> Self {
        let mut client = TimeoutWriter::new(client);
        client.set_timeout(Some(timeout));
        Writer { client: Box::pin(client), muted_flushes: FLUSHES_OF_LOGIN }
    }
}

impl<W: AsyncWrite> AsyncWrite for Writer<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let writer = self.get_mut();
        if writer.muted_flushes > 0 {
            return Poll::Ready(Ok(bytes.len()));
        }
        writer.client.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writer = self.get_mut();
        if let Some(fewer) = writer.muted_flushes.checked_sub(1) {
            writer.muted_flushes = fewer;
            return Poll::Ready(Ok(()));
        }
        writer.client.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().client.as_mut().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
