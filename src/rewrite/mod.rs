//! Shape and rule to plan; plan and block to bytes or parameters. Pure: no runtime, no clock, no
//! disk.
//!
//! [`planner::plan`] says what a packet needs; the caller takes the ids and calls
//! [`plan::Plan::splice`], or prepares the statement with [`plan::Plan::prepare`] and decides at
//! each execution.

pub mod bulk;
pub mod draws;
pub mod execution;
mod insert;
pub mod meaning;
mod packet;
pub mod plan;
pub mod planner;
pub mod prepare;
pub mod render;
mod splice;
pub mod through;
pub mod verify;
