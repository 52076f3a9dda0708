//! The table that a statement inserts into.

use std::fmt::Display;
use std::sync::Arc;

use crate::ids::block::Spacing;
use crate::rules::model::{
    Collide, ColumnShape, Explicit, GeneratorSpec, InsertId, Rule, TableShape, Unavailable,
};
use crate::table_use::TableUse;

/// A ruled table as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub rule: Arc<Rule>,
    /// The table's own name: the rule's may be a pattern. Its schema is the rule's.
    pub table: String,
    /// `None`: there is no control account to read it with.
    pub shape: Option<Arc<TableShape>>,
    /// The spacing of the ids of one statement.
    pub spacing: Spacing,
    /// The statement names a view of the table; `shape` is the view's then.
    pub view: Option<Through>,
    /// The table's own: also of what goes through a view.
    pub usage: Arc<TableUse>,
}

/// A view through which rows go into a ruled table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub schema: String,
    pub name: String,
    /// The view's name for the id's column.
    pub column: String,
}

impl Target {
    /// The target of calls that draw ids for no table. Its name is one that no table of the rules has.
    pub fn of_generator(spec: &GeneratorSpec) -> Self {
        let (name, origin) = (spec.name.clone(), spec.origin.clone());
        let rule = Rule {
            insert_id: InsertId::Packet,
            collide: Collide::Report,
            ..Rule::new((&spec.name.schema, "", ""), name, Explicit::Keep, origin)
        };
        let table = format!("(generator {})", spec.name.name);
        Target::new(Arc::new(rule), &table, None, spec.kind.spacing())
    }

    pub fn new(rule: Arc<Rule>, table: &str, shape: Option<Arc<TableShape>>, spacing: Spacing) -> Self {
        Target { rule, table: table.to_owned(), shape, spacing, view: None, usage: Arc::default() }
    }

    /// The statement's name for the id's column.
    pub fn id_column(&self) -> &str {
        self.view.as_ref().map_or(&self.rule.column, |view| &view.column)
    }

    /// The id's column, where the table's columns are known.
    pub fn id_shape(&self) -> Option<&ColumnShape> {
        self.shape.as_deref()?.column(self.id_column())
    }

    /// True if the server numbers a row whose id is left out.
    pub fn keeps_auto_increment(&self) -> bool {
        self.id_shape().is_some_and(|id| id.auto_increment)
    }

    /// True if a statement that cannot be rewritten may go to the server as it came. Nobody looks then at the ids that the client
    /// has written.
    pub fn may_be_forwarded(&self) -> bool {
        self.keeps_auto_increment() && self.rule.explicit != Explicit::Reject
    }

    /// True if its rows go to the server without ids while no ids can be obtained.
    pub fn may_go_without(&self) -> bool {
        self.rule.unavailable == Unavailable::Native && self.keeps_auto_increment()
    }

    /// True if a trigger of the table may read LAST_INSERT_ID(), and so would see what a wrapper sets.
    pub fn shows_insert_id(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.shows_insert_id)
    }

    /// True if a trigger of the table may write another id than the statement has.
    pub fn trigger_writes_id(&self) -> bool {
        self.id_shape().is_some_and(|id| id.set_by_trigger)
    }

    /// True if an update of a row fires a trigger.
    pub fn fires_on_update(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.fires_on_update)
    }

    /// The highest id that its column holds.
    pub fn highest_id(&self) -> u64 {
        self.id_shape().and_then(ColumnShape::highest).unwrap_or(i64::MAX.unsigned_abs())
    }

    /// The client's own id as the column holds it, in the bits of a 64-bit number. What is out of
    /// range becomes the nearest in it, or is an error.
    pub fn stored_id(&self, written: i128) -> Option<u64> {
        let id = self.id_shape();
        let stored = match id.and_then(ColumnShape::highest).map(i128::from) {
            Some(highest) if id.is_some_and(|id| id.unsigned) => written.clamp(0, highest),
            Some(highest) => written.clamp(-highest - 1, highest),
            None => written,
        };
        u64::try_from(stored).ok().or_else(|| i64::try_from(stored).ok().map(i64::cast_unsigned))
    }

    /// Schema and name that the statement goes by: the view's, where it names one.
    pub fn named(&self) -> (&str, &str) {
        match &self.view {
            Some(view) => (&view.schema, &view.name),
            None => (&self.rule.schema, &self.table),
        }
    }

    /// A refusal of a statement, with the table or view in front that it names.
    pub fn at(&self, why: impl Display) -> String {
        let (schema, name) = self.named();
        format!("{schema}.{name}: {why}")
    }
}
