//! The timestamp generator as a rule describes it.

use std::time::Duration;

use crate::ids::layout::Layout;
use crate::ids::nodes::Node;

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
