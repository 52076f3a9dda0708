//! The query logs of MySQL and MariaDB, general and slow, read entry by entry.

pub mod entry;
mod general;
mod lines;
pub mod log;
mod slow;

#[cfg(test)]
mod tests;
