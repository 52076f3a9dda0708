//! The state of a timestamp generator.

use std::time::Duration;

use crate::ids::errors::Held;
use crate::ids::layout::Moment;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
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
    /// Requests whose ids are several runs.
    pub in_several_runs: u64,
    /// Which node it is.
    pub node: u64,
    /// The store's last error, until it answers again.
    pub trouble: Option<String>,
    /// Why it issues nothing yet: the clock.
    pub held: Option<Held>,
}
