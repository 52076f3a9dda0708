//! Moving a session's bytes: one task polls both sockets and both lanes, and comes back when the relay has an [`Event`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::proxy::connect::stream::Stream;
use crate::proxy::relay::{Event, Relay, Side, Step, UpState};
use crate::sessions::Count;

/// A session that ends rather than send what it has.
const TOO_LATE: &str =
    "a statement was not sent: the process was frozen, and another Rowstamp may have issued the same ids";

/// Why the pump came back.
#[derive(Debug)]
pub(crate) enum Pumped {
    Event(Event),
    Closed(Side),
    Failed(Side, io::Error),
    /// Nothing was asked by the client for the idle timeout, or a peer took nothing for the write timeout.
    TimedOut(Timeout),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeout {
    Idle,
    Write,
    /// The client is gone, and the server has said nothing for the write timeout.
    Gone,
}

#[derive(Debug, Default, Clone, Copy)]
struct Moved {
    from_client: usize,
    to_client: usize,
    from_server: usize,
    to_server: usize,
}

impl Moved {
    fn all(self) -> usize {
        self.from_client + self.to_client + self.from_server + self.to_server
    }
}

/// When a session counts as dead.
#[derive(Debug)]
pub(crate) struct Watchdog {
    idle: Duration,
    write: Duration,
    moved_at: Instant,
    /// Since when something waits that the client does not take, whatever else it sends.
    client_owes: Option<Instant>,
    /// Since when something waits that the server does not take. One that still sends is busy, and no more.
    server_owes: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    pub(crate) fn new(idle: Duration, write: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + write));
        Watchdog { idle, write, moved_at: now, client_owes: None, server_owes: None, timer }
    }

    /// Ready when the session is dead.
    fn poll(&mut self, cx: &mut Context<'_>, moved: Moved, relay: &Relay) -> Poll<Timeout> {
        let (for_client, for_server) = (relay.down.owes(), relay.up.owes());
        if moved.all() > 0 || for_client || for_server {
            let now = Instant::now();
            if moved.all() > 0 {
                self.moved_at = now;
            }
            owe(&mut self.client_owes, for_client, moved.to_client > 0, now);
            owe(&mut self.server_owes, for_server, moved.to_server + moved.from_server > 0, now);
        }
        let (limit, deadline) = match (self.client_owes, self.server_owes) {
            (None, None) if relay.outstanding.is_empty() => (Timeout::Idle, self.moved_at + self.idle),
            (None, None) if relay.client_has_ended => (Timeout::Gone, self.moved_at + self.write),
            // The server may take as long as it likes to answer. Keepalive shows whether it is there.
            (None, None) => return Poll::Pending,
            (Some(since), None) | (None, Some(since)) => (Timeout::Write, since + self.write),
            (Some(a), Some(b)) => (Timeout::Write, a.min(b) + self.write),
        };
        self.poll_timer(cx, deadline).map(|()| limit)
    }

    /// The timer is only touched when it fires or must fire sooner, not at each packet.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            if deadline < self.timer.deadline() {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
    }
}

/// `waits`: something is there to be taken; `moves`: some of it was taken just now.
fn owe(since: &mut Option<Instant>, waits: bool, moves: bool, now: Instant) {
    *since = match *since {
        _ if !waits => None,
        Some(then) if !moves => Some(then),
        _ => Some(now),
    };
}

enum Turn {
    /// Waits for its sockets.
    Waits,
    /// Waits for the other lane.
    Held,
    Out(Pumped),
}

/// Moves bytes until something needs the session.
pub(crate) fn poll_pump(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    (client, server): (&mut Stream, &mut Stream),
    watchdog: &mut Watchdog,
) -> Poll<Pumped> {
    let mut moved = Moved::default();
    let turned = turn(cx, relay, (client, server), &mut moved);
    relay.known.here.count(Count::BytesFromClient, moved.from_client as u64);
    relay.known.here.count(Count::BytesToClient, moved.to_client as u64);
    relay.known.here.is_busy(!relay.outstanding.is_empty());
    match turned {
        Some(outcome) => Poll::Ready(outcome),
        None => watchdog.poll(cx, moved, relay).map(Pumped::TimedOut),
    }
}

/// Both lanes as far as they go. `None`: they wait for their sockets.
fn turn(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    (client, server): (&mut Stream, &mut Stream),
    moved: &mut Moved,
) -> Option<Pumped> {
    loop {
        let up = match poll_lane(cx, relay, Side::Client, (client, server), moved) {
            Turn::Out(outcome) => return Some(outcome),
            turn => turn,
        };
        let before = moved.all();
        if let Turn::Out(outcome) = poll_lane(cx, relay, Side::Backend, (server, client), moved) {
            return Some(outcome);
        }
        // Bytes that came down may have freed the upper lane, or left something to be sent there.
        let injects =
            !relay.injection.is_empty() && relay.up_state == UpState::Boundary && relay.up.is_clear();
        let again = moved.all() != before && matches!(up, Turn::Held) || injects;
        if !again {
            return None;
        }
    }
}

/// Moves the lane of `side`: its bytes are read `from` it, and sent `to` the other.
fn poll_lane(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    side: Side,
    (from, to): (&mut Stream, &mut Stream),
    moved: &mut Moved,
) -> Turn {
    loop {
        let step = if side == Side::Client { relay.up_step() } else { relay.down_step() };
        let (lane, read, sent) = match side {
            Side::Client => (&mut relay.up, &mut moved.from_client, &mut moved.to_server),
            Side::Backend => (&mut relay.down, &mut moved.from_server, &mut moved.to_client),
        };
        let wanted = match step {
            Step::Event(event) => return Turn::Out(Pumped::Event(event)),
            Step::SendFirst | Step::Hold if lane.owes() => None,
            Step::Moved | Step::SendFirst => continue,
            Step::BeginAnswer => {
                to.begin_answer();
                continue;
            }
            Step::BeginFile => {
                from.begin_file();
                to.begin_file();
                continue;
            }
            Step::Hold if side == Side::Backend || relay.client_has_ended => return Turn::Held,
            // Read on all the same: else nobody would notice that the client is gone.
            Step::Hold => match lane.poll_fill_ahead(cx, from) {
                Poll::Pending => return Turn::Held,
                Poll::Ready(Err(error)) => return Turn::Out(Pumped::Failed(side, error)),
                Poll::Ready(Ok(n)) => {
                    *read += n;
                    relay.client_has_ended = n == 0;
                    continue;
                }
            },
            Step::More(wanted) => Some(wanted),
        };
        if side == Side::Client && lane.is_too_late() {
            return Turn::Out(Pumped::Failed(Side::Backend, io::Error::other(TOO_LATE)));
        }
        match lane.poll_send(cx, to, sent) {
            Poll::Pending => return Turn::Waits,
            // A server that refuses a packet (1153) says so and closes while the rest of it is
            // under way. What it said is still to be read; its end is found there.
            Poll::Ready(Err(_)) if side == Side::Client => {
                lane.become_sink();
                continue;
            }
            Poll::Ready(Err(error)) => return Turn::Out(Pumped::Failed(side.other(), error)),
            Poll::Ready(Ok(())) => {}
        }
        let Some(wanted) = wanted else { continue };
        match lane.poll_fill(cx, from, wanted) {
            Poll::Pending => return Turn::Waits,
            Poll::Ready(Err(error)) => return Turn::Out(Pumped::Failed(side, error)),
            Poll::Ready(Ok(0)) => return Turn::Out(Pumped::Closed(side)),
            Poll::Ready(Ok(n)) => *read += n,
        }
    }
}
