//! The operators' views and commands while a proxy runs: the console (a MySQL-protocol port) and the HTTP server, both
//! over [`Desk`].
//!
//! Neither knows the proxy: `daemon` makes a desk of the parts that run, and tests make one of their
//! own.

pub mod console;
mod desk;
#[cfg(test)]
pub(crate) mod fake;
pub mod http;
pub mod metrics;
pub mod status;

#[cfg(test)]
use crate::users;

pub use desk::{
    About, BackendRow, Check, ConfigRow, Desk, DeskError, DoorRow, EventRow, FindingRow, GeneratorRow,
    GeneratorState, Kind, LastRow, Metric, MetricKind, ProxyRow, Raised, Readiness, RefusedRow, Reload,
    RuleRow, Sample, SessionRow, SessionState, SlotRow, StoredRow, Timing, Unit,
};
