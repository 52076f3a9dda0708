//! The table that a statement inserts into.

use std::sync::Arc;

use crate::ids::range::block::Spacing;
use crate::rules::model::{ColumnShape, Rule, TableShape};

/// A ruled table as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub rule: Arc<Rule>,
    /// The table's own name: the rule's may be a pattern. Its schema is the rule's.
    pub table: String,
    /// `None`: there is no control account to read it with.
    pub shape: Option<Arc<TableShape>>,
    /// How the ids of one statement lie.
    pub spacing: Spacing,
    /// The statement names a view of the table; `shape` is the view's then.
    pub view: Option<Through>,
}

/// A view through which rows go into a ruled table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub schema: String,
    pub name: String,
    /// What it calls the id's column.
    pub column: String,
}

impl Target {
    /// What the statement calls the id's column.
    pub fn id_column(&self) -> &str {
        self.view.as_ref().map_or(&self.rule.column, |view| &view.column)
    }

    /// The id's column, where the table's columns are known.
    pub fn id_shape(&self) -> Option<&ColumnShape> {
        self.shape.as_deref()?.column(self.id_column())
    }

    /// The highest id that its column holds.
    pub fn highest_id(&self) -> u64 {
        self.id_shape().and_then(ColumnShape::highest).unwrap_or(i64::MAX.unsigned_abs())
    }

    /// Schema and name that the statement goes by: the view's, where it names one.
    pub fn named(&self) -> (&str, &str) {
        match &self.view {
            Some(view) => (&view.schema, &view.name),
            None => (&self.rule.schema, &self.table),
        }
    }
}
