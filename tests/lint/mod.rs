//! `rowstamp check --online --json` on real servers: for each code schemas that show it, and schemas that nearly do.

mod accounts;
mod rig;
mod rows;
mod servers;
mod text;
