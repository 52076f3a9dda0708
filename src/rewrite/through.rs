//! An INSERT through a view is one into the table that the view selects from. The view's columns
//! are mapped to the table's here, one definition after the other. The caller reads the
//! definitions.

use std::sync::Arc;

use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::{Target, Through};
use crate::rules::model::{ColumnShape, TableShape};
use crate::sql::name::same_column;
use crate::sql::statement::view::Definition;
use crate::table_name::TableName;

/// Views of views of views.
pub const STEPS_MAX: usize = 32;

/// The reason for not following a view whose table is too far away.
pub const TOO_MANY: &str = "there are too many views between this view and the table";

/// A view on the way to its table.
#[derive(Debug)]
pub struct ViewChain {
    /// For each column of the view, the column that it comes from, as far as was followed.
    columns: Vec<Option<String>>,
    /// The columns of the view whose definition comes next.
    names: TableShape,
}

impl ViewChain {
    pub fn new(view: &TableShape) -> ViewChain {
        let columns = view.columns.iter().map(|column| Some(column.name.clone())).collect();
        ViewChain { columns, names: view.clone() }
    }

    /// Takes the definition of the view that was come to: what it selects from, or why it is not
    /// followed.
    pub fn step(&mut self, definition: &str) -> Result<TableName, &'static str> {
        if definition.is_empty() {
            return Err("the control account may not see the view's definition (GRANT SHOW VIEW)");
        }
        let definition =
            Definition::parse(definition).ok_or("the view does not select from a single table")?;
        if definition.columns.len() != self.names.columns.len() {
            return Err("the view's columns are not those of its definition");
        }
        for column in &mut self.columns {
            let place = column
                .as_ref()
                .and_then(|name| self.names.columns.iter().position(|c| same_column(&c.name, name)));
            *column = place.and_then(|place| definition.columns.get(place)?.clone());
        }
        Ok(definition.from)
    }

    /// The view selects from a view again: `view`.
    pub fn goes_on(&mut self, view: TableShape) {
        self.names = view;
    }

    /// The view selects from `base`, a ruled table. Returns what the view's own name means.
    pub fn ends(self, (schema, name, shape): (&str, &str, &TableShape), base: &Target) -> Lookup {
        let rule = &base.rule;
        let is_id =
            |column: &Option<String>| column.as_ref().is_some_and(|column| same_column(column, &rule.column));
        let mut ids = (0..).zip(&self.columns).filter(|(_, column)| is_id(column));
        let (Some((place, _)), None) = (ids.next(), ids.next()) else {
            let (base_schema, table) = (&rule.schema, &base.table);
            return Lookup::ServerFirst(format!(
                "{schema}.{name}: this view of {base_schema}.{table} does not show column {} exactly once; INSERT into \
                 {base_schema}.{table}",
                rule.column
            ));
        };
        let id = base.shape.as_deref().and_then(|shape| shape.column(&rule.column));
        let Some((shown, id)) = shape.columns.get(place).zip(id) else { return Lookup::Missing };
        let column = shown.name.clone();
        let mut shape = TableShape {
            shows_insert_id: base.shows_insert_id(),
            fires_on_update: base.fires_on_update(),
            ..shape.clone()
        };
        if let Some(shown) = shape.columns.get_mut(place) {
            *shown = ColumnShape { name: column.clone(), invisible: false, ..id.clone() };
        }
        let view = Some(Through { schema: schema.to_owned(), name: name.to_owned(), column });
        Lookup::Ruled(Arc::new(Target { shape: Some(Arc::new(shape)), view, ..base.clone() }))
    }
}

/// The meaning of a view that may or may not insert into a ruled table.
pub fn unclear((schema, name): (&str, &str), why: &str) -> Lookup {
    Lookup::ServerFirst(format!(
        "{schema}.{name}: this view may insert into a table with a rule, and {why}; INSERT into the table itself"
    ))
}
