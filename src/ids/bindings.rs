//! Tables bound to generators (signatures; the body follows).

use crate::store::{Store, StoreError};

/// What a table's generator must do before it issues for the table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the generator's ids must be above the floor before it issues for the table"]
pub struct Bound {
    /// Ids for the table must be above it: pass it to `Sequence::open` or `raise_floor`.
    pub floor: u64,
    /// The generator that the table was bound to before, if another.
    pub moved_from: Option<String>,
}

pub async fn bind(
    _store: &dyn Store,
    _table: &str,
    _generator: &str,
    _owner: &str,
    floor_of_table: u64,
) -> Result<Bound, StoreError> {
    Ok(Bound { floor: floor_of_table, moved_from: None })
}
