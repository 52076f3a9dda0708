//! A connection whose packets travel in frames (`mysql/compressed`), over whatever carries it. What
//! is read and written here is packets.
//!
//! Frame numbers begin at 0 with each command and go on through its answer. Commands are seen in
//! the bytes (`turns`), on their way in from a client, on their way out to a server. Where an
//! answer begins is for the caller to say ([`Compressed::begin_answer`]): only who follows answers
//! knows.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::mysql::compressed::turns::{Begins, Turns};
use crate::mysql::compressed::{Agreed, BODY_BYTES_MAX, Packing, Unpacker, pack};
use crate::mysql::packet::Header;
use crate::proxy::connect::stream::Stream;

/// One read of the peer's frames fetches at most this.
const READ_BYTES: usize = 16 * 1024;
/// The most bytes of packets in one frame of ours: a thread is busy with it for a millisecond.
const FRAME_PLAIN_BYTES: usize = 64 * 1024;
/// The bytes that the first frame takes of a packet that is too long for one.
const FIRST_PLAIN_BYTES: usize = 16 * 1024;
/// A longer frame keeps its thread so long that other sessions are to go to another one.
const LONG_PLAIN_BYTES: usize = 256 * 1024;

/// The side that the peer is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Client,
    Server,
}

#[derive(Debug)]
pub struct Compressed {
    pub(super) stream: Stream,
    peer: Peer,
    turns: Turns,
    unpacker: Unpacker,
    /// Frames as they were read, from `taken` on.
    read: Vec<u8>,
    taken: usize,
    packing: Packing,
    /// The number of the next frame of ours.
    frame_nr: u8,
    /// Packets for a client that are in no frame yet. The last one may not be whole.
    plain: Vec<u8>,
    /// Frames of ours, from `sent` on. While any are on their way no more is taken.
    unsent: Vec<u8>,
    sent: usize,
}

impl Compressed {
    /// `read`: what was read of the first frame already.
    pub fn new(stream: Stream, peer: Peer, agreed: Agreed, read: Vec<u8>) -> Self {
        Compressed {
            stream,
            peer,
            turns: Turns::default(),
            unpacker: Unpacker::new(agreed.reads),
            read,
            taken: 0,
            packing: agreed.writes,
            frame_nr: 0,
            plain: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
        }
    }

    /// The bytes written from here on answer the client's next command.
    pub fn begin_answer(&mut self) {
        self.seal();
        self.frame_nr = self.turns.answer();
    }

    /// The server has asked the client for a file.
    pub fn begin_file(&mut self) {
        self.turns.expect_file();
        if self.peer == Peer::Server {
            self.frame_nr = self.unpacker.frame_nr().wrapping_add(1);
        }
    }

    /// The next frame is one packet of an exchange whose packets have frames of their own.
    pub fn go_on_from(&mut self, packet_nr: u8) {
        self.seal();
        self.frame_nr = packet_nr;
    }

    /// Puts the client's packets that are whole into frames. A packet is in one frame, or, too long
    /// for it, in two: as servers write them, and Connector/Python looks no further (measured,
    /// 26.10).
    fn seal(&mut self) {
        let plain = std::mem::take(&mut self.plain);
        let (mut start, mut end) = (0, 0);
        while let Some(header) = plain.get(end..).and_then(Header::parse) {
            let next = end + header.packet_bytes();
            if next > plain.len() {
                break;
            }
            if next - start > FRAME_PLAIN_BYTES {
                self.frame(plain.get(start..end));
                start = end;
            }
            if next - start > BODY_BYTES_MAX {
                self.frame(plain.get(start..start + FIRST_PLAIN_BYTES));
                start += FIRST_PLAIN_BYTES;
            }
            end = next;
        }
        self.frame(plain.get(start..end));
        self.plain = plain;
        self.plain.drain(..end);
    }

    fn frame(&mut self, plain: Option<&[u8]>) {
        let Some(plain) = plain.filter(|plain| !plain.is_empty()) else { return };
        let mut pack = || pack(plain, self.frame_nr, self.packing, &mut self.unsent);
        if plain.len() > LONG_PLAIN_BYTES && has_other_threads() {
            tokio::task::block_in_place(pack);
        } else {
            pack();
        }
        self.frame_nr = self.frame_nr.wrapping_add(1);
    }

    /// The number of bytes that go into the next frame for a server, which gets its number here.
    fn next_frame(&mut self, bytes: &[u8]) -> usize {
        let bytes = bytes.get(..FRAME_PLAIN_BYTES).unwrap_or(bytes);
        match self.turns.begins(bytes) {
            Some(Begins::Command) => self.frame_nr = 0,
            Some(Begins::Exchange) => self.frame_nr = self.unpacker.frame_nr().wrapping_add(1),
            None => {}
        }
        // A server does not look for a second command after the first of a frame.
        self.turns.follow(bytes, 0)
    }

    /// Sends what is packed. `Ready` when nothing is left.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.unsent.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += n;
        }
        self.unsent.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Reads frames. `Ready(0)` is the peer's end.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.resize(READ_BYTES, 0);
        self.taken = 0;
        let mut room = ReadBuf::new(&mut self.read);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        let filled = room.filled().len();
        self.read.truncate(filled);
        if polled.is_pending() && self.unpacker.is_between_frames() {
            // A session that waits keeps no buffers.
            self.read = Vec::new();
            if self.unsent.is_empty() && self.plain.is_empty() {
                (self.unsent, self.plain) = (Vec::new(), Vec::new());
            }
        }
        ready!(polled)?;
        Poll::Ready(Ok(filled))
    }
}

impl AsyncRead for Compressed {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let frames = this.read.get(this.taken..).unwrap_or_default();
            if !frames.is_empty() || this.unpacker.may_give() {
                let room = buf.initialize_unfilled();
                let unpacked = this.unpacker.unpack(frames, room);
                let unpacked = unpacked.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                this.taken += unpacked.taken;
                if unpacked.given > 0 {
                    let given = room.get(..unpacked.given).unwrap_or_default();
                    if this.peer == Peer::Client {
                        let frame_nr = this.unpacker.frame_nr();
                        if this.turns.is_in_file() {
                            // The answer goes on after it.
                            this.frame_nr = frame_nr.wrapping_add(1);
                        }
                        follow_all(&mut this.turns, given, frame_nr);
                    }
                    buf.advance(unpacked.given);
                    return Poll::Ready(Ok(()));
                }
                if this.taken < this.read.len() {
                    continue;
                }
            }
            if ready!(this.poll_frames(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// True if a thread that blocks here blocks nobody else.
fn has_other_threads() -> bool {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread)
}

fn follow_all(turns: &mut Turns, mut bytes: &[u8], frame_nr: u8) {
    while !bytes.is_empty() {
        let followed = turns.follow(bytes, frame_nr);
        bytes = bytes.get(followed..).unwrap_or_default();
    }
}

impl AsyncWrite for Compressed {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_unsent(cx))?;
        let bytes = match this.peer {
            Peer::Client => {
                let bytes = bytes.get(..FRAME_PLAIN_BYTES).unwrap_or(bytes);
                this.plain.extend_from_slice(bytes);
                return Poll::Ready(Ok(bytes.len()));
            }
            Peer::Server => {
                let n = this.next_frame(bytes);
                bytes.get(..n).unwrap_or(bytes)
            }
        };
        this.frame(Some(bytes));
        // Bytes that do not go now go with the next write, or the flush.
        match this.poll_unsent(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[][..], |slice| slice))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.seal();
        ready!(this.poll_unsent(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.seal();
        ready!(this.poll_unsent(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}
