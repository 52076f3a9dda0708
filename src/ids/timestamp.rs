//! The timestamp generator: ids of the time, the node and a number within the tick, each below a time that the store has
//! committed.
//!
//! The bound in the store is a tick: ids of ticks below it may have been issued. `counter` hands out the numbers of the
//! ticks that are reserved, `ticker` moves them along with the clock, `renew` reserves the next ticks before the clock or
//! the takers reach the bound. What a tick does not hold is taken from the next: takers never wait for the clock, but
//! where `max_ahead` says so. Two proofs make uniqueness: times reserved by different terms and proxies never overlap
//! (`fence`), and no number is handed out twice (`counter`).
//!
//! The clock decides where ids are, never whether they are unique: one that goes back is waited for by borrowing, one
//! that leaps is not followed (`clock`), and one that is wrong at the start is below the bound or above it.

pub mod check;
pub mod clock;
mod counter;
mod renew;
mod ticker;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Watch};
use counter::Counter;
use parking_lot::Mutex;
use renew::Reserve;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::ids::block::{IdBlock, RUN_MAX};
use crate::ids::errors::{Held, OpenError, STORE_TIMEOUT, TakeError};
use crate::ids::fence::moves::Moves;
use crate::ids::fence::{Fence, Subject};
use crate::ids::layout::{Layout, Moment, Numbering};
use crate::ids::nodes::{self, Node};
use crate::ids::refill;
use crate::store::{Store, StoreError};

pub struct Timestamp {
    counter: Counter,
    numbering: Numbering,
    node: u64,
    name: String,
    spec: TimestampSpec,
    clock: Arc<dyn Clock>,
    /// Held across each raise until its ticks are installed, so that they are installed in their order.
    fence: tokio::sync::Mutex<Fence>,
    renewer: Arc<Notify>,
    ticker: Arc<Notify>,
    /// Notified for all who wait, when there may be more ids.
    more: Notify,
    state: Mutex<State>,
}

struct State {
    watch: Watch,
    /// The machine's clock as it was read last, whether its leap is followed or not.
    wall: Moment,
    reserve: Reserve,
    is_awake: bool,
    is_closed: bool,
    /// The store's last error, until it answers again.
    trouble: Option<StoreError>,
    /// The tick whose start was drawn, and where that was.
    started: (u64, u64),
    /// The limit that was published last, the sleep aside.
    limit: u64,
    /// Ids of ticks below it are not issued, wherever the clock is.
    floor: u64,
    /// Nothing is issued or reserved before the clock is found right.
    held: Option<Held>,
}

/// The result for a request that could not be served at once.
enum Attempt {
    Numbers(u64),
    Wait,
    Ended,
    Closed,
    Held(Held),
}

impl Timestamp {
    /// Opens the generator `schema.name` for `owner`, as the node that its spec says. Its ids are above `floor`, above
    /// all that this node ever reserved, and not before the clock. A layout that is not the one that the generator was
    /// created with is refused. Reserves nothing yet. Needs a Tokio runtime, which it uses until it is closed or dropped.
    pub async fn open(
        store: Arc<dyn Store>,
        name: &str,
        owner: &str,
        spec: TimestampSpec,
        floor: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Timestamp>, OpenError> {
        let wrong = |reason: String| OpenError::Spec { generator: name.to_owned(), reason };
        let failed = |error: StoreError| OpenError::Store { generator: name.to_owned(), error };
        let layout = &spec.layout;
        // All nodes must have one layout, or one node's ids could be another's of before.
        let shared = Subject::timestamp(name, layout.to_string());
        let shared = Fence::open_for(store.clone(), shared, owner, 0).await.map_err(failed)?;
        let node = nodes::claim(&*store, name, owner, layout, spec.node).await.map_err(failed)?;
        let numbering = layout.numbering(node).map_err(|error| wrong(format!("node {node} {error}")))?;
        // Tick 0 holds the id 0, which asks the server for an id.
        let tick_min = numbering.tick_above(floor).map(|tick| tick.max(1));
        let tick_min = tick_min.ok_or_else(|| {
            wrong(format!("the layout has no id above {floor}, which a table has; choose another layout"))
        })?;
        let subject = Subject::node(name, node, layout.to_string());
        let tick_min = tick_min.max(shared.bound());
        let fence = Fence::open_for(store, subject, owner, tick_min).await.map_err(failed)?;
        let first = clock.read();
        let (renewer, ticker) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let generator = Arc::new(Timestamp {
            counter: Counter::new(),
            numbering,
            node,
            name: name.to_owned(),
            clock,
            fence: tokio::sync::Mutex::new(fence),
            renewer: Arc::clone(&renewer),
            ticker: Arc::clone(&ticker),
            more: Notify::new(),
            state: Mutex::new(State {
                watch: Watch::new(first, spec.max_forward),
                wall: first.wall,
                reserve: Reserve::new(&spec),
                is_awake: false,
                is_closed: false,
                trouble: None,
                started: (0, 0),
                limit: 0,
                floor: 0,
                held: None,
            }),
            spec,
        });
        refill::start(&generator, renewer);
        ticker::start(&generator, &ticker);
        Ok(generator)
    }

    /// `schema.name`
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn spec(&self) -> &TimestampSpec {
        &self.spec
    }

    /// The node field of its ids.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// `n` ids, if they are reserved already.
    #[inline]
    pub fn try_take(&self, n: NonZeroU64) -> Option<IdBlock> {
        match self.counter.take_run(&self.numbering, n) {
            Some(first) => Some(self.run(first, n)),
            None => self.try_take_slowly(n),
        }
    }

    #[cold]
    fn try_take_slowly(&self, n: NonZeroU64) -> Option<IdBlock> {
        if n.get() > RUN_MAX {
            return None;
        }
        if let Some(first) = self.counter.take(&self.numbering, n) {
            return Some(self.run(first, n));
        }
        match self.attempt(n) {
            Attempt::Numbers(first) => Some(self.run(first, n)),
            Attempt::Wait | Attempt::Ended | Attempt::Closed | Attempt::Held(_) => None,
        }
    }

    /// `n` ids, waiting up to `deadline` for the store, and for the clock where `max_ahead` says so.
    pub async fn take(&self, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError> {
        match self.try_take(n) {
            Some(block) => Ok(block),
            None => self.take_slowly(n, deadline).await,
        }
    }

    #[cold]
    async fn take_slowly(&self, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError> {
        let generator = self.name.clone();
        if n.get() > RUN_MAX {
            return Err(TakeError::TooMany { generator, wanted: n.get(), most: RUN_MAX });
        }
        let until = Instant::now() + deadline;
        let _waiting = Waiting::new(self, n);
        loop {
            // Heard from here on: what is installed after the attempt is not missed.
            let mut more = std::pin::pin!(self.more.notified());
            more.as_mut().enable();
            match self.attempt(n) {
                Attempt::Numbers(first) => return Ok(self.run(first, n)),
                Attempt::Ended => {
                    let end = self.spec.layout.end();
                    return Err(TakeError::EndOfLife { generator, end, wanted: n.get() });
                }
                Attempt::Closed => return Err(TakeError::Closed { generator }),
                Attempt::Held(held) => return Err(TakeError::Clock { generator, held }),
                Attempt::Wait => {}
            }
            if timeout_at(until, more).await.is_err() {
                return Err(self.too_late(n, deadline));
            }
        }
    }

    #[inline]
    fn run(&self, first: u64, n: NonZeroU64) -> IdBlock {
        IdBlock::proved(self.numbering.id(first), self.numbering.spacing(), n)
    }

    /// Takes ids after a look at the clock; `n` is at most [`RUN_MAX`]. [`Attempt::Wait`]: the renewer is notified.
    fn attempt(&self, n: NonZeroU64) -> Attempt {
        let mut state = self.state.lock();
        if state.is_closed {
            return Attempt::Closed;
        }
        if let Some(held) = state.held {
            return Attempt::Held(held);
        }
        self.look_in(&mut state);
        if let Some(first) = self.counter.take(&self.numbering, n) {
            return Attempt::Numbers(first);
        }
        if self.numbering.place(self.counter.next(), n).is_none() {
            return Attempt::Ended;
        }
        self.renewer.notify_one();
        Attempt::Wait
    }

    fn too_late(&self, n: NonZeroU64, waited: Duration) -> TakeError {
        let generator = self.name.clone();
        let state = self.state.lock();
        if let Some(max_ahead) = self.spec.max_ahead
            && let Some((_, end)) = self.numbering.place(self.counter.next(), n)
            && end <= self.numbering.first_of(state.reserve.end())
        {
            return TakeError::Ahead { generator, max_ahead, waited };
        }
        let reason = match &state.trouble {
            Some(error) => error.to_string(),
            None => "no answer yet".to_owned(),
        };
        TakeError::StoreAway { generator, waited, reason }
    }

    /// Reads the clock, and moves the ids along with it.
    fn look(&self) {
        self.look_in(&mut self.state.lock());
    }

    fn look_in(&self, state: &mut State) {
        let reading = self.clock.read();
        let leapt_before = state.watch.leap().is_some();
        let time = state.watch.see(reading);
        state.wall = reading.wall;
        match state.watch.leap() {
            Some(leap) if !leapt_before => tracing::error!(
                generator = %self.name, ?leap, max_forward = ?self.spec.max_forward,
                "the clock leapt forward and ids do not follow it: correct the clock, or restart if it is right"
            ),
            None if leapt_before => tracing::info!(generator = %self.name, "ids follow the clock again"),
            _ => {}
        }
        if state.is_closed || state.held.is_some() {
            return;
        }
        let tick = self.spec.layout.tick_at(time);
        if state.reserve.is_due(tick, self.numbering.tick_of(self.counter.next())) {
            self.renewer.notify_one();
        }
        self.publish(state, tick);
        if !state.is_awake {
            state.is_awake = true;
            self.ticker.notify_one();
        }
    }

    fn publish(&self, state: &mut State, tick: u64) {
        // Ticks before the start may be somebody else's, wherever the clock is.
        let now = tick.max(state.reserve.start()).max(state.floor);
        if state.started.0 != now {
            let start = match self.spec.layout.random_start() {
                0 => 0,
                below => fastrand::u64(0..below),
            };
            state.started = (now, self.numbering.start_of(now, start));
        }
        let reserved = self.numbering.first_of(state.reserve.end());
        let limit = match state.reserve.ahead() {
            // The tick that is, and so many more.
            Some(ticks) => reserved.min(self.numbering.first_of(now.saturating_add(ticks).saturating_add(1))),
            None => reserved,
        };
        self.counter.publish(state.started.1, limit);
        // Only then: each who waits looks at the clock itself, and must not wake itself by it.
        if limit > std::mem::replace(&mut state.limit, limit) {
            self.more.notify_waiters();
        }
    }

    fn tick(&self) -> Duration {
        Duration::from_micros(self.spec.layout.tick_micros().get())
    }

    /// Changes with every id, and with the clock.
    fn position(&self) -> u64 {
        self.counter.next()
    }

    /// No ids without a look at the clock from here on; `false`, and nothing changed, if there was a taker since `seen`.
    fn sleep(&self, seen: u64) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed && (self.counter.next() != seen || state.reserve.is_waited_for()) {
            return false;
        }
        self.counter.shut();
        state.is_awake = false;
        true
    }

    /// The last id that this node's layout has.
    pub fn id_max(&self) -> u64 {
        self.numbering.last_id()
    }

    /// Ids issued here from now on are above `floor`.
    pub fn raise_floor(&self, floor: u64) -> Result<(), TakeError> {
        let tick = self.numbering.tick_above(floor).ok_or_else(|| {
            let (generator, end) = (self.name.clone(), self.spec.layout.end());
            TakeError::NoneAbove { generator, floor, end }
        })?;
        let mut state = self.state.lock();
        state.floor = state.floor.max(tick);
        let ahead = self.spec.layout.time_of(state.floor).micros().saturating_sub(state.wall.micros());
        let ahead = Duration::from_micros(ahead);
        if ahead > self.spec.max_forward {
            tracing::warn!(
                generator = %self.name, floor, ?ahead,
                "a table has an id with a future time: ids continue above this id, ahead of the clock"
            );
        }
        self.look_in(&mut state);
        Ok(())
    }

    /// Notes that this proxy has moved a table away from the generator.
    pub async fn follow(&self, moves: &Moves) {
        self.fence.lock().await.follow(moves);
    }

    /// True if its node is not its own any more, or a table moved away while this proxy was not there: no more time can be
    /// reserved here.
    pub fn is_lost(&self) -> bool {
        self.state.lock().trouble.as_ref().is_some_and(StoreError::needs_reopening)
    }

    /// Gives up the time that is reserved here and not issued: the store is found to have gone back, and may have given it to
    /// others.
    pub fn give_up_reserve(&self) {
        let mut state = self.state.lock();
        state.reserve.give_up();
        self.look_in(&mut state);
    }

    /// Issues nothing any more. Time that was reserved and not issued is lost: a later start begins after it.
    pub fn burn(&self) {
        self.shut_down();
    }

    /// The first tick of which no id was issued here.
    fn shut_down(&self) -> Option<u64> {
        let stood = self.counter.park();
        let mut state = self.state.lock();
        state.is_closed = true;
        // A publication that was under way opened it again, to no avail: the counter is parked.
        self.counter.shut();
        self.more.notify_waiters();
        self.renewer.notify_one();
        self.ticker.notify_one();
        stood.map(|stood| self.numbering.tick_from(stood))
    }

    /// Issues nothing any more, and hands the ticks that were reserved and not used back to the store, so that the next
    /// start need not run ahead of the clock. False: the store did not answer.
    pub async fn close(&self) -> bool {
        let unused = self.shut_down();
        let handing = timeout(STORE_TIMEOUT, async {
            let mut fence = self.fence.lock().await;
            // After the raise that was under way: ticks before its start may be somebody else's.
            let (start, end) = {
                let state = self.state.lock();
                (state.reserve.start(), state.reserve.end())
            };
            match unused.map(|first| first.max(start)) {
                Some(first) if first < end => fence.hand_back(first, end).await,
                _ => Ok(false),
            }
        });
        match handing.await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(generator = %self.name, %error, "could not return unused time to the store");
                !error.passes()
            }
            Err(_) => {
                tracing::warn!(generator = %self.name, "could not return unused time to the store: the store takes too long");
                false
            }
        }
    }

    pub fn stats(&self) -> TimestampStats {
        let state = self.state.lock();
        let layout = &self.spec.layout;
        let position = layout.time_of(self.numbering.tick_of(self.counter.next().min(self.numbering.end())));
        let now = state.wall.micros();
        TimestampStats {
            position,
            ahead: Duration::from_micros(position.micros().saturating_sub(now)),
            reserved: layout.time_of(state.reserve.end()),
            leap: state.watch.leap(),
            epoch: layout.time_of(0),
            end: layout.end(),
            node: self.node,
            trouble: state.trouble.as_ref().map(ToString::to_string),
            held: state.held,
        }
    }
}

impl Drop for Timestamp {
    /// The tasks see that the generator is gone.
    fn drop(&mut self) {
        self.renewer.notify_one();
        self.ticker.notify_one();
    }
}

/// Ids that somebody waits for; also where the future is dropped.
struct Waiting<'a> {
    generator: &'a Timestamp,
    count: u64,
}

impl<'a> Waiting<'a> {
    fn new(generator: &'a Timestamp, n: NonZeroU64) -> Self {
        generator.state.lock().reserve.wait_for(n.get());
        Waiting { generator, count: n.get() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.generator.state.lock().reserve.wait_no_more(self.count);
    }
}

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampStats {
    /// The time of the next id, at the earliest.
    pub position: Moment,
    /// The time by which `position` is ahead of the clock: ids were borrowed from later ticks, or the clock went back.
    pub ahead: Duration,
    /// Up to there the store knows that ids may be issued.
    pub reserved: Moment,
    /// The wall clock leapt by so much and is not followed.
    pub leap: Option<Duration>,
    /// When the layout's time begins.
    pub epoch: Moment,
    /// When the layout runs out.
    pub end: Moment,
    pub node: u64,
    /// The store's last error, until it answers again.
    pub trouble: Option<String>,
    /// Why it issues nothing yet: the clock.
    pub held: Option<Held>,
}

/// A timestamp generator as its rule describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampSpec {
    pub layout: Layout,
    pub node: Node,
    /// The time that is reserved ahead, and so how long the store may be away.
    pub advance: Duration,
    /// The limit for how far ids that a tick has no room for may run ahead; `None`: as far as it takes.
    pub max_ahead: Option<Duration>,
    /// A leap of the clock against the monotonic clock that is not followed.
    pub max_forward: Duration,
}
