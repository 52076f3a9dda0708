//! An INSERT through a view is one into the table that it selects from.

use std::sync::Arc;

use super::{TableError, Tables};
use crate::rewrite::plan::{Lookup, Target, Through};
use crate::rules::model::{ColumnShape, TableShape};
use crate::schema::{LiveTable, TableKind};
use crate::sql::name::same_column;
use crate::sql::view::Definition;

/// Views of views of views.
const STEPS_MAX: usize = 32;

/// What lies behind a view.
enum Behind {
    Base {
        schema: String,
        live: LiveTable,
        /// For each column of the view the table's own.
        columns: Vec<Option<String>>,
    },
    /// The backend has no such table: it says so itself.
    Missing,
    /// Not followed, for this reason.
    Unclear(&'static str),
}

impl Tables {
    /// Notes what rows get that are inserted through this view.
    pub(super) async fn through(&self, schema: &str, view: &str, ddl: u64) -> Result<(), TableError> {
        let lookup = match self.live_table(schema, view).await? {
            Some(live) if live.kind == TableKind::View => {
                match self.behind(schema, view, &live.shape).await? {
                    Behind::Base { schema: base_schema, live: base, columns } => {
                        let view = (schema, view, &live.shape);
                        self.target(view, (&base_schema, base), &columns, ddl).await?
                    }
                    Behind::Missing => Lookup::Missing,
                    Behind::Unclear(why) => Lookup::ServerFirst(format!(
                        "{schema}.{view} is a view that may insert into a ruled table, and {why}; INSERT into the table itself"
                    )),
                }
            }
            // It was one when the views were read.
            Some(_) => Lookup::NotRuled,
            None => Lookup::Missing,
        };
        self.put(schema, view, lookup, ddl, false);
        Ok(())
    }

    /// Follows a view to its table.
    async fn behind(&self, schema: &str, view: &str, shape: &TableShape) -> Result<Behind, TableError> {
        let Some(live) = &self.backend.schema else { return Ok(Behind::Missing) };
        let mut columns: Vec<Option<String>> =
            shape.columns.iter().map(|column| Some(column.name.clone())).collect();
        let (mut at, mut names) = ((schema.to_owned(), view.to_owned()), shape.clone());
        for _ in 0..STEPS_MAX {
            let text = live.view_definition(&at.0, &at.1).await?;
            if text.is_empty() {
                return Ok(Behind::Unclear("the control account may not see its definition (SHOW VIEW)"));
            }
            let Some(definition) = Definition::parse(&text) else {
                return Ok(Behind::Unclear("it is not one of a single table"));
            };
            if definition.columns.len() != names.columns.len() {
                return Ok(Behind::Unclear("its columns are not those of its definition"));
            }
            for column in &mut columns {
                let place = column
                    .as_ref()
                    .and_then(|name| names.columns.iter().position(|c| same_column(&c.name, name)));
                *column = place.and_then(|place| definition.columns.get(place)?.clone());
            }
            let Some(from) = self.live_table(&definition.from.0, &definition.from.1).await? else {
                return Ok(Behind::Missing);
            };
            match from.kind {
                TableKind::Base => {
                    return Ok(Behind::Base { schema: definition.from.0, live: from, columns });
                }
                TableKind::View => (at, names) = (definition.from, from.shape),
                TableKind::Other => return Ok(Behind::Unclear("it selects from what is no table")),
            }
        }
        Ok(Behind::Unclear("it is a view of too many views"))
    }

    async fn target(
        &self,
        (schema, name, shape): (&str, &str, &TableShape),
        (base_schema, base): (&str, LiveTable),
        columns: &[Option<String>],
        ddl: u64,
    ) -> Result<Lookup, TableError> {
        let rule = match self.rules.acting(self.backend.case, base_schema, &base.name) {
            Ok(Some(rule)) => rule.clone(),
            Ok(None) => return Ok(Lookup::NotRuled),
            Err(ambiguous) => return Ok(Lookup::Refused(ambiguous.to_string())),
        };
        let table = base.name.clone();
        let target = match self.read_base(&rule, &table, Some(base), ddl).await? {
            Lookup::Ruled(target) => target,
            other => return Ok(other),
        };
        let is_id =
            |column: &Option<String>| column.as_ref().is_some_and(|column| same_column(column, &rule.column));
        let mut ids = (0..).zip(columns).filter(|(_, column)| is_id(column));
        let (Some((place, _)), None) = (ids.next(), ids.next()) else {
            return Ok(Lookup::ServerFirst(format!(
                "{schema}.{name} is a view of {base_schema}.{table} that does not show column {} just once; INSERT into \
                 {base_schema}.{table}",
                rule.column
            )));
        };
        let id =
            target.shape.iter().flat_map(|shape| &shape.columns).find(|c| same_column(&c.name, &rule.column));
        let Some((shown, id)) = shape.columns.get(place).zip(id) else { return Ok(Lookup::Missing) };
        let column = shown.name.clone();
        let mut shape = shape.clone();
        if let Some(shown) = shape.columns.get_mut(place) {
            *shown = ColumnShape { name: column.clone(), invisible: false, ..id.clone() };
        }
        let view = Some(Through { schema: schema.to_owned(), name: name.to_owned(), column });
        Ok(Lookup::Ruled(Arc::new(Target { shape: Some(Arc::new(shape)), view, ..Target::clone(&target) })))
    }
}
