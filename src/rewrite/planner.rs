//! A packet's text to what it needs.

use crate::rewrite::packet;
pub use crate::rewrite::packet::begins_insert;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::Fresh;
use crate::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
use crate::sql::dialect::Dialect;
use crate::table_name::TableName;

/// Plans `text`, one packet's statements. A caller with many texts that cannot matter looks
/// at them with [`crate::sql::look::glance`] first.
pub fn plan(text: &[u8], context: &PlanContext<'_>, protocol: Protocol) -> Planned {
    let several = context.multi_statements && protocol == Protocol::Text;
    packet::plan_packet(text, context, protocol, several)
}

/// The table that a statement to be prepared inserts into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserts {
    /// Into nothing: it is no INSERT, or no table can have such a name.
    Nothing,
    Into(Box<TableName>),
    /// It cannot be read for certain.
    Unclear,
}

/// The table that a statement inserts into, whatever the rules say.
pub fn inserts_into(text: &[u8], dialect: &Dialect, database: Option<&str>) -> Inserts {
    let context = PlanContext {
        dialect,
        multi_statements: false,
        insert_id_is_set: false,
        cannot_update: &[],
        default_schema: database,
        any_rules: true,
        tables: &|_, _| Lookup::NotRuled,
        id_names: &(),
        hidden: &|_, _| false,
        session: &Fresh,
    };
    match plan(text, &context, Protocol::Prepare) {
        Planned::Untouched(Effects { inserts_into: Some(name), .. }) => Inserts::Into(name),
        Planned::Untouched(_) => Inserts::Nothing,
        _ => Inserts::Unclear,
    }
}
