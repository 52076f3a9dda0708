//! Bytes to tokens with spans, tokens to the shape of a statement. Pure: no rules, no runtime, no clock.

pub mod dialect;
pub mod glance;
