//! One direction of a session: bytes from one peer on their way to the other.
//!
//! ```text
//! bytes   ......[ accepted | not yet understood ]......
//!               start      ready                end
//! out     ours: replaced or injected packets, sent once `accepted` is empty
//! ```
//!
//! The parser of the lane moves `ready`: [`Lane::accept`] lets bytes through as they are,
//! [`Lane::skip`] drops them, [`Lane::out`] takes what is sent in their place. Order is kept
//! because bytes are only understood while `out` is empty, and `out` is only filled while nothing
//! accepted waits.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::mysql::packet::{HEADER_BYTES, Header, packets_of, put_packets};
use crate::tables::locks::SendBy;

/// What a lane holds without having been asked for more. One read fetches at most this.
pub(in crate::proxy) const LANE_BYTES: usize = 16 * 1024;

/// Buffers that a thread keeps for lanes that will read.
const SPARE_MAX: usize = 64;

thread_local! {
    /// Of this thread, each [`LANE_BYTES`] long. A lane that waits with nothing in it has none of
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
pub(in crate::proxy) struct Lane {
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
    /// What waits is not to be sent any more from then on.
    send_by: Option<SendBy>,
}

impl Lane {
    /// A lane that already holds bytes: they were read together with the login.
    pub(in crate::proxy) fn holding(bytes: &[u8]) -> Self {
        let mut lane = Lane { bytes: vec![0; LANE_BYTES.max(bytes.len())], ..Lane::default() };
        lane.bytes.splice(..bytes.len(), bytes.iter().copied());
        lane.end = bytes.len();
        lane
    }

    /// What is not yet understood.
    pub(in crate::proxy) fn window(&self) -> &[u8] {
        self.bytes.get(self.ready..self.end).unwrap_or_default()
    }

    pub(in crate::proxy) fn window_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.ready..self.end).unwrap_or_default()
    }

    /// Gives the packet at the front of the window another number.
    pub(in crate::proxy) fn renumber(&mut self, packet_nr: u8) {
        if let Some(place) = self.window_mut().get_mut(HEADER_BYTES - 1) {
            *place = packet_nr;
        }
    }

    /// Lets the next `n` bytes through as they are, or as many of them as are there; returns how
    /// many.
    pub(in crate::proxy) fn accept(&mut self, n: usize) -> usize {
        debug_assert!(self.out.is_empty(), "accepted bytes would overtake ours");
        let n = n.min(self.end - self.ready);
        self.ready += n;
        n
    }

    /// Drops the next `n` bytes, or as many of them as are there; returns how many.
    pub(in crate::proxy) fn skip(&mut self, n: usize) -> usize {
        debug_assert!(self.is_clear(), "skipped bytes would cut what was accepted");
        let n = n.min(self.end - self.ready);
        self.skip_replaced(n);
        n
    }

    /// Drops the next `n` bytes and sends what `write` makes of them, a payload, as packets
    /// numbered from 0; returns how many those are. `None`, and nothing done, where `write` makes
    /// nothing of them.
    pub(in crate::proxy) fn replace(
        &mut self,
        n: usize,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> Option<usize> {
        debug_assert!(self.is_clear(), "a replaced packet would cut what was accepted");
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        let window = self.bytes.get(self.ready..(self.ready + n).min(self.end)).unwrap_or_default();
        if write(window, &mut self.out).is_none() {
            self.out.clear();
            return None;
        }
        let header = Header { payload_bytes: self.out.len() - HEADER_BYTES, packet_nr: 0 };
        let packets = packets_of(header.payload_bytes);
        if let (1, Some(place)) = (packets, self.out.get_mut(..HEADER_BYTES)) {
            place.copy_from_slice(&header.bytes());
        } else {
            let payload = self.out.split_off(HEADER_BYTES);
            self.out.clear();
            put_packets(&mut self.out, 0, &payload);
        }
        self.skip_replaced(n);
        Some(packets)
    }

    fn skip_replaced(&mut self, n: usize) {
        self.ready += n.min(self.end - self.ready);
        self.start = self.ready;
    }

    /// Where packets of our own go.
    pub(in crate::proxy) fn out(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.start == self.ready, "our bytes would overtake accepted ones");
        &mut self.out
    }

    /// Whether bytes of our own wait: nothing may be accepted after them before they are sent.
    pub(in crate::proxy) fn holds_ours(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether nothing waits to be sent: only then may packets be skipped, replaced or injected.
    pub(in crate::proxy) fn is_clear(&self) -> bool {
        self.start == self.ready && self.out.is_empty()
    }

    /// The bytes that wait here, or come next, hold ids. After `limit` another proxy may issue the
    /// same ids.
    pub(in crate::proxy) fn send_by(&mut self, limit: SendBy) {
        self.send_by = Some(limit);
    }

    /// Asked right before what waits is sent: whether it comes too late, because the process stood
    /// still.
    pub(in crate::proxy) fn is_too_late(&mut self) -> bool {
        self.send_by.take().is_some_and(SendBy::is_over)
    }

    /// The receiver is gone: what waits is dropped from now on, so that the sender may come to its
    /// end and what the receiver said before it went is still read.
    pub(in crate::proxy) fn become_sink(&mut self) {
        self.is_sink = true;
    }

    /// Sends all that waits. `Ready` when nothing is left; `sent` is raised by what went out.
    pub(in crate::proxy) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        if self.is_clear() && !self.unflushed {
            return Poll::Ready(Ok(()));
        }
        if self.is_sink {
            self.start = self.ready;
            self.out.clear();
            self.out_sent = 0;
            return Poll::Ready(Ok(()));
        }
        while let Some(waiting) = self.bytes.get(self.start..self.ready).filter(|w| !w.is_empty()) {
            let n = ready!(Pin::new(&mut *to).poll_write(cx, waiting))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.start += n;
            self.unflushed = true;
            *sent += n;
        }
        while let Some(waiting) = self.out.get(self.out_sent..).filter(|w| !w.is_empty()) {
            let n = ready!(Pin::new(&mut *to).poll_write(cx, waiting))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out_sent += n;
            self.unflushed = true;
            *sent += n;
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
    pub(in crate::proxy) fn poll_fill<R: AsyncRead + Unpin>(
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
    pub(in crate::proxy) fn poll_fill_ahead<R: AsyncRead + Unpin>(
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
mod tests {
    use super::{LANE_BYTES, Lane, ROOMY_FILLS_MAX, SendBy};
    use crate::mysql::packet::{PAYLOAD_BYTES_MAX, put_packets};
    use crate::tables::locks::boottime;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn send(lane: &mut Lane, to: &mut Vec<u8>) {
        let mut sent = 0;
        let done = lane.poll_send(&mut Context::from_waker(Waker::noop()), to, &mut sent);
        assert!(matches!(done, Poll::Ready(Ok(()))));
    }

    fn fill(lane: &mut Lane, mut from: &[u8], wanted: usize) -> usize {
        match lane.poll_fill(&mut Context::from_waker(Waker::noop()), &mut from, wanted) {
            Poll::Ready(Ok(n)) => n,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepted_skipped_and_ours_keep_their_order() {
        let (mut lane, mut to) = (Lane::holding(b"abcdef"), Vec::new());
        assert_eq!(lane.accept(2), 2);
        send(&mut lane, &mut to);
        assert_eq!(lane.skip(1), 1);
        lane.out().extend_from_slice(b"XY");
        send(&mut lane, &mut to);
        assert_eq!(lane.window(), b"def");
        assert_eq!(lane.accept(9), 3);
        send(&mut lane, &mut to);
        assert_eq!(to, b"abXYdef");
    }

    #[test]
    fn what_comes_too_late() {
        let later = SendBy::Boottime(boottime() + Duration::from_mins(1));
        for (limit, too_late) in
            [(SendBy::AnyTime, false), (later, false), (SendBy::Boottime(boottime()), true)]
        {
            let mut lane = Lane::default();
            lane.send_by(limit);
            assert_eq!(lane.is_too_late(), too_late, "{limit:?}");
            assert!(!lane.is_too_late(), "what is sent after it has no ids, or a limit of its own");
        }
    }

    #[test]
    fn a_big_packet_grows_the_lane_as_it_comes_and_gives_it_back() {
        let big = vec![7; 1_000_000];
        let (mut lane, mut at) = (Lane::default(), 0);
        while at < big.len() {
            at += fill(&mut lane, &big[at..], big.len());
            assert!(lane.bytes.len() <= (2 * at).max(LANE_BYTES), "{} for {at}", lane.bytes.len());
        }
        assert_eq!(lane.window(), big);
        lane.skip(big.len());
        for _ in 0..ROOMY_FILLS_MAX + 2 {
            fill(&mut lane, b"x", 0);
            assert_eq!(lane.window(), b"x");
            lane.skip(1);
        }
        assert_eq!(lane.bytes.len(), LANE_BYTES);
    }

    #[test]
    fn big_packets_in_a_row_keep_their_room() {
        let big = vec![7; 10 * LANE_BYTES];
        let mut lane = Lane::default();
        for nth in 0..3 * ROOMY_FILLS_MAX {
            let mut at = fill(&mut lane, &big, 0);
            assert!(nth == 0 || lane.bytes.len() >= big.len(), "the {nth}th begins in {}", lane.bytes.len());
            while at < big.len() {
                at += fill(&mut lane, &big[at..], big.len());
            }
            lane.skip(big.len());
        }
    }

    #[test]
    fn a_replaced_payload_is_as_many_packets_as_it_needs() {
        for len in [1, 300, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1] {
            let (mut lane, mut to, mut expect) = (Lane::holding(b"abcdef"), Vec::new(), Vec::new());
            let packets = lane.replace(4, |window, out| {
                assert_eq!(window, b"abcd");
                out.resize(out.len() + len, 7);
                Some(())
            });
            put_packets(&mut expect, 0, &vec![7; len]);
            send(&mut lane, &mut to);
            assert!(to == expect && packets == Some(1 + len / PAYLOAD_BYTES_MAX), "{len}");
            assert_eq!(lane.window(), b"ef");
        }
        let mut lane = Lane::holding(b"ab");
        assert_eq!(lane.replace(1, |_, out| out.pop().map(|_| ()).filter(|()| false)), None);
        assert!(lane.is_clear() && lane.window() == b"ab");
    }

    #[test]
    fn a_window_at_the_end_moves_to_the_front() {
        let mut lane = Lane::default();
        fill(&mut lane, &vec![1; LANE_BYTES], 0);
        lane.skip(LANE_BYTES - 3);
        assert_eq!(fill(&mut lane, b"yz", 5), 2);
        assert_eq!(lane.window(), [1, 1, 1, b'y', b'z']);
    }

    #[test]
    fn a_lane_that_waits_has_no_buffer() {
        let mut lane = Lane::default();
        let wait = |lane: &mut Lane| {
            let (mut never, _other_end) = tokio::io::duplex(1);
            let polled = lane.poll_fill(&mut Context::from_waker(Waker::noop()), &mut never, 5);
            assert!(polled.is_pending());
        };
        wait(&mut lane);
        assert_eq!(lane.bytes.capacity(), 0);
        fill(&mut lane, b"abc", 5);
        assert_eq!(lane.bytes.len(), LANE_BYTES);
        wait(&mut lane);
        assert_eq!(lane.window(), b"abc", "it waits for more of a packet");
        lane.skip(3);
        wait(&mut lane);
        assert_eq!((lane.bytes.capacity(), lane.window()), (0, &b""[..]));
        fill(&mut lane, b"de", 5);
        assert_eq!(lane.window(), b"de");
    }
}
