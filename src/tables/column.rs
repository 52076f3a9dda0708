//! What the column of a rule holds.

use crate::rewrite::plan::target::Target;
use crate::rules::model::{ColumnShape, TableShape};
use crate::sql::name::same_column;

pub(super) fn column<'a>(shape: &'a TableShape, name: &str) -> Option<&'a ColumnShape> {
    shape.columns.iter().find(|column| same_column(&column.name, name))
}

/// The highest id that the target's column holds.
pub(crate) fn highest_of(target: &Target) -> u64 {
    id_shape(target).and_then(ColumnShape::highest).unwrap_or(i64::MAX.unsigned_abs())
}

/// The target's column, where its table is known.
pub(crate) fn id_shape(target: &Target) -> Option<&ColumnShape> {
    target.shape.as_deref().and_then(|shape| column(shape, target.id_column()))
}
