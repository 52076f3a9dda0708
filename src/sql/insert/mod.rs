//! The shape of an INSERT or REPLACE, in two steps: the head up to the table's name, so that bodies
//! of other tables are never read; then the rest, with the id's place known.

pub mod body;
pub mod expression;
pub mod head;
mod quiet;
pub mod select;
pub mod tail;

pub use body::{Body, Form, Row, Wants};
pub use head::{Columns, Head, Source, Verb};
pub use quiet::stores_only;
pub use select::Query;
