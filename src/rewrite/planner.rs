//! A packet's text to what it needs.

/// What `text`, one packet's statements, needs. A caller with many texts that cannot matter looks at them with
/// [`crate::sql::glance::glance`] first.
pub fn plan(text: &[u8], view: &View<'_>, protocol: Protocol) -> Planned {
    let several = view.multi_statements && protocol == Protocol::Text;
    packet::plan(text, view, protocol, several)
}

/// What a statement is that is to be prepared, as far as it inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserts {
    /// It does not, or names no table that there could be.
    Nothing,
    Into(Box<TableName>),
    /// It cannot be read for certain.
    Unclear,
}

/// What a statement inserts into, whatever the rules say.
pub fn inserts_into(text: &[u8], dialect: &Dialect, database: Option<&str>) -> Inserts {
    let view = View {
        dialect,
        multi_statements: false,
        default_schema: database,
        any_rules: true,
        tables: &|_, _| Lookup::NotRuled,
        hidden: &|_, _| false,
        session: &Fresh,
    };
    match plan(text, &view, Protocol::Prepare) {
        Planned::Untouched(Effects { inserts_into: Some(name), .. }) => Inserts::Into(name),
        Planned::Untouched(_) => Inserts::Nothing,
        _ => Inserts::Unclear,
    }
}

/// Whether `text`, the beginning of one statement that is too long to be read, tells by itself into which table it inserts:
/// then [`plan`] leaves it untouched where no rule concerns that table, whatever follows.
pub fn begins_insert(text: &[u8], dialect: &Dialect) -> bool {
    packet::begins_insert(text, dialect)
}
use crate::rewrite::packet;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::Planned;
use crate::rewrite::plan::Protocol;
use crate::rewrite::plan::View;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::named::Fresh;
use crate::sql::dialect::Dialect;
use crate::table_name::TableName;
