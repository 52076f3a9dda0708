//! Deciding what becomes of a statement: functions over what is known. Nothing here waits, sends or asks.

pub(super) mod drawn_execution;
pub(super) mod draws;
pub(super) mod execution;
pub(super) mod locked;
pub(super) mod masked;
pub(super) mod natively;
pub(super) mod params;
pub(super) mod refusals;
pub(super) mod rehearsal;
pub(super) mod set_id;
pub(super) mod spared;
pub(super) mod text;
pub(super) mod verdict;
