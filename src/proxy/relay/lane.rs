//! One direction of a session: bytes from one peer on their way to the other.
//!
//! ```text
//! bytes   ......[ accepted | not yet understood ]......
//!               start      ready                end
//! out     ours: replaced or injected packets, sent once `accepted` is empty
//! ```
//!
//! The parser of the lane moves `ready`: [`Lane::accept`] lets bytes through as they are,
//! [`Lane::skip`] drops them, [`Lane::out`] takes what is sent in their place. Order is kept in
//! whatever order these are called, since of `accepted` and `out` one is empty at any time: where
//! both would wait, the accepted bytes are copied to `out`. Callers wait, so that this is rare.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::mysql::packet::{HEADER_BYTES, Header, first_of_payload, packets_of, put_packets};
use crate::mysql::response::is_plain_row;
use crate::proxy::relay::outstanding::Numbers;
use crate::tables::locks::SendBy;

/// The bytes that a lane holds without having been asked for more. One read fetches at most this.
pub(crate) const LANE_BYTES: usize = 16 * 1024;

/// Buffers that a thread keeps for lanes that will read.
const SPARE_MAX: usize = 64;

thread_local! {
    /// The spare buffers of this thread, each [`LANE_BYTES`] long. A lane that waits with nothing in it has none of
    /// its own: most sessions are idle, and to borrow one is cheaper than to allocate it.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn borrow_spare() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; LANE_BYTES])
}

fn give_back(buffer: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        }
    });
}

/// Room that big statements have taken is given back after so many small ones: bulk inserts come in
/// rows.
const ROOMY_FILLS_MAX: u8 = 8;

#[derive(Debug, Default)]
pub(crate) struct Lane {
    bytes: Vec<u8>,
    start: usize,
    ready: usize,
    end: usize,
    out: Vec<u8>,
    out_sent: usize,
    /// Fills of an empty lane in a row, none of which took more than [`LANE_BYTES`] of the room
    /// that there was.
    roomy_fills: u8,
    /// Written since the last flush: a TLS stream keeps bytes until it is flushed.
    unflushed: bool,
    /// Nobody takes its bytes any more.
    is_sink: bool,
    /// The bytes that wait are not to be sent any more from then on.
    send_by: Option<SendBy>,
}

impl Lane {
    /// A lane that already holds bytes: they were read together with the login.
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let mut lane = Lane { bytes: vec![0; LANE_BYTES.max(bytes.len())], ..Lane::default() };
        lane.bytes.splice(..bytes.len(), bytes.iter().copied());
        lane.end = bytes.len();
        lane
    }

    /// The bytes that are not yet understood.
    pub(crate) fn window(&self) -> &[u8] {
        self.bytes.get(self.ready..self.end).unwrap_or_default()
    }

    pub(crate) fn window_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.ready..self.end).unwrap_or_default()
    }

    /// Gives the packet at the front of the window another number.
    pub(crate) fn renumber(&mut self, packet_nr: u8) {
        if let Some(place) = self.window_mut().get_mut(HEADER_BYTES - 1) {
            *place = packet_nr;
        }
    }

    /// Lets the next `n` bytes through as they are, or as many of them as are there; returns how
    /// many.
    pub(crate) fn accept(&mut self, n: usize) -> usize {
        let n = n.min(self.end - self.ready);
        self.ready += n;
        if !self.out.is_empty() {
            self.queue_accepted();
        }
        n
    }

    /// Puts accepted bytes that wait after ours, which keeps their order: of the two, one is empty at any time.
    #[inline]
    fn queue_accepted(&mut self) {
        if self.start == self.ready {
            return;
        }
        self.out.extend_from_slice(self.bytes.get(self.start..self.ready).unwrap_or_default());
        self.start = self.ready;
    }

    /// Lets rows through, each a whole packet, under these numbers; returns how many there were. It ends before a packet that
    /// may be something else, or is not all there.
    pub(crate) fn accept_rows(&mut self, numbers: &mut Numbers) -> usize {
        let (mut at, mut rows) = (0, 0);
        let window = self.window_mut();
        while let Some(header) = window.get(at..).and_then(Header::parse)
            && let Some(first) = window.get(at..).and_then(first_of_payload)
        {
            let end = at + header.packet_bytes();
            if !is_plain_row(header.payload_bytes, first) || window.len() < end {
                break;
            }
            let Some(nr) = numbers.take(header.packet_nr) else { break };
            if let Some(place) = window.get_mut(at + HEADER_BYTES - 1) {
                *place = nr;
            }
            (at, rows) = (end, rows + 1);
        }
        self.accept(at);
        rows
    }

    /// Drops the next `n` bytes, or as many of them as are there; returns how many.
    pub(crate) fn skip(&mut self, n: usize) -> usize {
        self.queue_accepted();
        let n = n.min(self.end - self.ready);
        self.ready += n;
        self.start = self.ready;
        n
    }

    /// Drops the next `n` bytes and sends what `write` makes of them, a payload, as packets
    /// numbered from 0; returns how many those are. `None`, and nothing done, where `write` makes
    /// nothing of them.
    pub(crate) fn replace(
        &mut self,
        n: usize,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> Option<usize> {
        self.queue_accepted();
        let from = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        let window = self.bytes.get(self.ready..(self.ready + n).min(self.end)).unwrap_or_default();
        if write(window, &mut self.out).is_none() {
            self.out.truncate(from);
            return None;
        }
        let header = Header { payload_bytes: self.out.len() - from - HEADER_BYTES, packet_nr: 0 };
        let packets = packets_of(header.payload_bytes);
        if let (1, Some(place)) = (packets, self.out.get_mut(from..from + HEADER_BYTES)) {
            place.copy_from_slice(&header.bytes());
        } else {
            let payload = self.out.split_off(from + HEADER_BYTES);
            self.out.truncate(from);
            put_packets(&mut self.out, 0, &payload);
        }
        self.skip(n);
        Some(packets)
    }

    /// Puts `bytes` at the front of the window, in place of its next `n` bytes.
    pub(crate) fn put_back(&mut self, n: usize, bytes: Vec<u8>) {
        if self.start == self.end && bytes.len() <= LANE_BYTES {
            // A buffer of another size would not be given back.
            self.make_room(bytes.len());
            (self.start, self.ready, self.end) = (0, 0, bytes.len());
            if let Some(place) = self.bytes.get_mut(..bytes.len()) {
                place.copy_from_slice(&bytes);
            }
            return;
        }
        let end = (self.ready + n).min(self.end);
        self.end = self.end - (end - self.ready) + bytes.len();
        self.bytes.splice(self.ready..end, bytes);
    }

    /// The buffer for packets of our own.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        self.queue_accepted();
        &mut self.out
    }

    /// Sends `bytes`, without a copy if nothing of ours waits.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        match self.out() {
            out if out.is_empty() => *out = bytes,
            out => out.extend_from_slice(&bytes),
        }
    }

    /// True if bytes of our own wait. Bytes that are accepted after them are copied, so they are sent first.
    pub(crate) fn holds_ours(&self) -> bool {
        !self.out.is_empty()
    }

    /// True if nothing waits to be sent.
    pub(crate) fn is_clear(&self) -> bool {
        self.start == self.ready && self.out.is_empty()
    }

    /// True if [`Lane::poll_send`] has something to do: a TLS stream may hold bytes that the lane does not any more.
    pub(crate) fn owes(&self) -> bool {
        !self.is_clear() || self.unflushed
    }

    /// The bytes that wait here, or come next, hold ids. After `limit` another proxy may issue the
    /// same ids.
    pub(crate) fn send_by(&mut self, limit: SendBy) {
        self.send_by = Some(limit);
    }

    /// Asked right before what waits is sent: whether it comes too late, because the process stood
    /// still.
    pub(crate) fn is_too_late(&mut self) -> bool {
        self.send_by.take().is_some_and(SendBy::is_over)
    }

    /// The receiver is gone: what waits is dropped from now on, so that the sender may come to its
    /// end and what the receiver said before it went is still read.
    pub(crate) fn become_sink(&mut self) {
        self.is_sink = true;
    }

    /// Sends all that waits. `Ready` when nothing is left; `sent` is raised by what went out.
    pub(crate) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        if !self.owes() {
            return Poll::Ready(Ok(()));
        }
        if self.is_sink {
            self.start = self.ready;
            self.out.clear();
            self.out_sent = 0;
            self.unflushed = false;
            return Poll::Ready(Ok(()));
        }
        let accepted = (&self.bytes, &mut self.start, self.ready);
        let ours = (&self.out, &mut self.out_sent, self.out.len());
        for (bytes, start, end) in [accepted, ours] {
            while let Some(waiting) = bytes.get(*start..end).filter(|waiting| !waiting.is_empty()) {
                let n = ready!(Pin::new(&mut *to).poll_write(cx, waiting))?;
                if n == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                *start += n;
                self.unflushed = true;
                *sent += n;
            }
        }
        if self.out_sent > 0 {
            // Bulk inserts come in rows: its room stays while statements are big.
            let is_too_big = self.out.capacity() > LANE_BYTES && self.out.len() < self.out.capacity() / 4;
            self.out.clear();
            self.out_sent = 0;
            if is_too_big {
                self.out.shrink_to(LANE_BYTES);
            }
        }
        if self.unflushed {
            ready!(Pin::new(to).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once; `Ready(0)` is the peer's end. `wanted` bytes of window fit in afterwards,
    /// however many there are already.
    pub(crate) fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        wanted: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(wanted);
        let room = self.bytes.get_mut(self.end..).unwrap_or_default();
        let mut buf = ReadBuf::new(room);
        let Poll::Ready(read) = Pin::new(from).poll_read(cx, &mut buf) else {
            if self.start == self.end && self.bytes.len() == LANE_BYTES {
                (self.start, self.ready, self.end) = (0, 0, 0);
                give_back(std::mem::take(&mut self.bytes));
            }
            return Poll::Pending;
        };
        read?;
        let n = buf.filled().len();
        self.end += n;
        Poll::Ready(Ok(n))
    }

    /// [`Lane::poll_fill`] while nothing of the window can be understood yet; not more than a lane
    /// holds anyhow.
    pub(crate) fn poll_fill_ahead<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
    ) -> Poll<io::Result<usize>> {
        if self.end - self.start >= LANE_BYTES { Poll::Pending } else { self.poll_fill(cx, from, 0) }
    }

    fn make_room(&mut self, wanted: usize) {
        if self.bytes.is_empty() {
            self.bytes = borrow_spare();
        }
        let held = self.end - self.start;
        let size = LANE_BYTES.max(wanted.saturating_add(self.ready - self.start));
        if held == 0 {
            let took_room = self.end > LANE_BYTES;
            (self.start, self.ready, self.end) = (0, 0, 0);
            self.roomy_fills = if took_room || self.bytes.len() <= size { 0 } else { self.roomy_fills + 1 };
            if self.roomy_fills > ROOMY_FILLS_MAX {
                self.bytes.truncate(size);
                self.bytes.shrink_to_fit();
                self.roomy_fills = 0;
            }
        } else if self.start > 0 && (self.start + size > self.bytes.len() || self.end == self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.ready, self.end, self.start) = (self.ready - self.start, held, 0);
        }
        if self.bytes.len() < size {
            // Doubling, so that a payload that is announced big costs memory only as it comes.
            let step = size.min((self.bytes.len() * 2).max(LANE_BYTES)).max(held + 1);
            if self.end == self.bytes.len() {
                self.bytes.resize(step, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
