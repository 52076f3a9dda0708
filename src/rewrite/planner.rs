//! A packet's text to what it needs.

pub use crate::rewrite::packet::{begins_insert, plan};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
use crate::sql::dialect::Dialect;
use crate::table_name::TableName;

/// The table that a statement to be prepared inserts into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserts {
    /// Into nothing: it is no INSERT, or no table can have such a name.
    Nothing,
    Into(Box<TableName>),
    /// The statement cannot be read for certain.
    Unclear,
}

/// The table that a statement inserts into, whatever the rules say.
pub fn inserts_into(text: &[u8], dialect: &Dialect, database: Option<&str>) -> Inserts {
    let context = PlanContext::fresh(dialect, database, &|_, _| Lookup::NotRuled);
    match plan(text, &context, Protocol::Prepare) {
        Planned::Untouched(Effects { inserts_into: Some(name), .. }) => Inserts::Into(name),
        Planned::Untouched(_) => Inserts::Nothing,
        _ => Inserts::Unclear,
    }
}
