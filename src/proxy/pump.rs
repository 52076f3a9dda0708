//! Moving a session's bytes: one task polls both sockets and both lanes, and comes back when the relay has an [`Event`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};

use super::relay::{Event, Relay, Side, Step, UpState};

/// Why the pump came back.
#[derive(Debug)]
pub(super) enum Outcome {
    Event(Event),
    /// A peer closed its end.
    Closed(Side),
    /// A peer's socket failed.
    Failed(Side, io::Error),
    /// Nothing was asked by the client for the idle timeout, or a peer took nothing for the write timeout.
    TimedOut(Timeout),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    Idle,
    Write,
}

/// When a session counts as dead.
#[derive(Debug)]
pub(super) struct Watchdog {
    idle: Duration,
    write: Duration,
    /// When bytes last moved.
    moved_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    pub(super) fn new(idle: Duration, write: Duration) -> Self {
        let now = Instant::now();
        Watchdog { idle, write, moved_at: now, timer: Box::pin(tokio::time::sleep_until(now + write)) }
    }

    /// Ready when the session is dead. The timer is only touched when it fires or must fire sooner, not at each packet.
    fn poll(&mut self, cx: &mut Context<'_>, moved: bool, limit: Option<Timeout>) -> Poll<Timeout> {
        if moved {
            self.moved_at = Instant::now();
        }
        let Some(limit) = limit else { return Poll::Pending };
        let after = match limit {
            Timeout::Idle => self.idle,
            Timeout::Write => self.write,
        };
        loop {
            let deadline = self.moved_at + after;
            if deadline < self.timer.deadline() {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(limit);
            }
            self.timer.as_mut().reset(deadline);
        }
    }
}

/// How a lane ended its turn.
enum Turn {
    /// Waits for its sockets.
    Waits,
    /// Waits for the other lane.
    Held,
    Out(Outcome),
}

/// Moves bytes until something needs the session. `C` is the client, `S` the backend.
pub(super) fn poll_pump<C, S>(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    client: &mut C,
    server: &mut S,
    watchdog: &mut Watchdog,
) -> Poll<Outcome>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut moved = 0;
    loop {
        let up = match poll_lane(cx, relay, Side::Client, (client, server), &mut moved) {
            Turn::Out(outcome) => return Poll::Ready(outcome),
            turn => turn,
        };
        let before = moved;
        if let Turn::Out(outcome) = poll_lane(cx, relay, Side::Backend, (server, client), &mut moved) {
            return Poll::Ready(outcome);
        }
        // What came down may have freed the upper lane, or left something to be sent there.
        let injects =
            !relay.injection.is_empty() && relay.up_state == UpState::Boundary && relay.up.is_clear();
        let again = moved != before && matches!(up, Turn::Held) || injects;
        if !again {
            break;
        }
    }
    let limit = if !relay.up.is_clear() || !relay.down.is_clear() {
        Some(Timeout::Write)
    } else {
        // The server may take as long as it likes for what it was asked; keepalive tells whether it is there.
        relay.outstanding.is_empty().then_some(Timeout::Idle)
    };
    watchdog.poll(cx, moved > 0, limit).map(Outcome::TimedOut)
}

/// Moves the lane of whoever `side` is: its bytes are read `from` it, and sent `to` the other.
fn poll_lane<R, W>(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    side: Side,
    (from, to): (&mut R, &mut W),
    moved: &mut usize,
) -> Turn
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let (step, lane) = match side {
            Side::Client => (relay.up_step(), &mut relay.up),
            Side::Backend => (relay.down_step(), &mut relay.down),
        };
        let wanted = match step {
            Step::Event(event) => return Turn::Out(Outcome::Event(event)),
            Step::SendFirst | Step::Hold if !lane.is_clear() => None,
            Step::Moved | Step::SendFirst => continue,
            Step::Hold => return Turn::Held,
            Step::More(wanted) => Some(wanted),
        };
        match lane.poll_send(cx, to, moved) {
            Poll::Pending => return Turn::Waits,
            Poll::Ready(Err(error)) => return Turn::Out(Outcome::Failed(side.other(), error)),
            Poll::Ready(Ok(())) => {}
        }
        let Some(wanted) = wanted else { continue };
        match lane.poll_fill(cx, from, wanted) {
            Poll::Pending => return Turn::Waits,
            Poll::Ready(Err(error)) => return Turn::Out(Outcome::Failed(side, error)),
            Poll::Ready(Ok(0)) => return Turn::Out(Outcome::Closed(side)),
            Poll::Ready(Ok(n)) => *moved += n,
        }
    }
}
