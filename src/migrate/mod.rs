//! Moving tables off AUTO_INCREMENT, and back: what is proposed, what is printed, what is judged. Pure: what the servers and
//! the store say is read by `schema` and by the commands (`cli/migrate`).
//!
//! [`survey`] is a table as it stands, [`databases`] which databases are shards, [`rules_file`] writes the rules, [`proposed`] is what the rules would be, [`interleave`] is how the server's counter and the
//! generator share the numbers, [`definition`], [`family`] (what foreign keys tie together) and [`steps`] are
//! the statements to print, [`doubles`] finds an id that is
//! in two shards, [`verdict`] says what a step's facts prove. docs/migrate-back.md has the argument that no id comes twice.

pub mod databases;
pub mod definition;
pub mod doubles;
pub mod family;
pub mod interleave;
pub mod proposed;
pub mod rules_file;
pub mod steps;
pub mod survey;
pub mod verdict;
