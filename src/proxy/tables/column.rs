//! What the column of a rule holds.

use crate::rewrite::plan::Target;
use crate::rules::model::{ColumnShape, TableShape};
use crate::sql::name::same_column;

pub(super) fn column<'a>(shape: &'a TableShape, name: &str) -> Option<&'a ColumnShape> {
    shape.columns.iter().find(|column| same_column(&column.name, name))
}

/// The highest id that the target's column holds.
pub(in crate::proxy) fn highest_of(target: &Target) -> u64 {
    id_shape(target).and_then(highest).unwrap_or(i64::MAX.unsigned_abs())
}

/// The target's column, where its table is known.
pub(in crate::proxy) fn id_shape(target: &Target) -> Option<&ColumnShape> {
    target.shape.as_deref().and_then(|shape| column(shape, target.id_column()))
}

/// `None` for columns that are no integers. Source: MySQL manual, "Integer Types".
pub(super) fn highest(column: &ColumnShape) -> Option<u64> {
    let bits = match column.data_type.as_str() {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" => 32,
        "bigint" => 64,
        _ => return None,
    };
    Some(u64::MAX >> (64 - bits + u32::from(!column.unsigned)))
}

#[cfg(test)]
mod tests {
    use super::highest;
    use crate::rules::model::ColumnShape;

    #[track_caller]
    fn check(data_type: &str, unsigned: bool, expect: Option<u64>) {
        let column = ColumnShape {
            name: "id".into(),
            data_type: data_type.into(),
            unsigned,
            auto_increment: false,
            generated: false,
            invisible: false,
        };
        assert_eq!(highest(&column), expect);
    }

    #[test]
    fn widest_ids() {
        check("tinyint", false, Some(127));
        check("tinyint", true, Some(255));
        check("int", false, Some(2_147_483_647));
        check("int", true, Some(4_294_967_295));
        check("bigint", false, Some(9_223_372_036_854_775_807));
        check("bigint", true, Some(u64::MAX));
        check("varchar", false, None);
    }
}
