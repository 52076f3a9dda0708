//! Statements of the forms.

use crate::support::raw::Param;
use crate::values::columns::Column;
use crate::values::forms::{Bound, Form, Made, Shape};

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) setup: Vec<String>,
    pub(crate) sql: String,
    /// None: by text. Else what is bound, execution by execution.
    pub(crate) executions: Option<Vec<Vec<Param>>>,
    pub(crate) in_pieces: bool,
}

/// All that makes a statement of a form, but for its number and its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) ignore: bool,
    pub(crate) table: &'static str,
    pub(crate) shape: Shape,
    pub(crate) is_prepared: bool,
}

impl Cell {
    /// True if a statement of the form goes by way of a stage.
    pub(crate) fn is_staged(self, form: &Form) -> bool {
        self.shape != Shape::Values || matches!(form.made, Made::Query { .. })
    }

    /// `k` is the statement's number, which its rows have in the column of that name.
    pub(crate) fn statement(self, form: &Form, k: usize, columns: &[&Column]) -> Statement {
        let names =
            |columns: &[&Column]| columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",");
        let ids = if self.shape == Shape::Values { "id,k" } else { "k" };
        let (columns_text, rows) = match &form.made {
            Made::Query { columns, text } => (format!("k,{columns}"), text.replace("{k}", &k.to_string())),
            Made::Expression { text, .. } => {
                (format!("{ids},{}", names(columns)), self.shape.rows(k, text, columns.len()))
            }
        };
        let ignore = if self.ignore { "IGNORE " } else { "" };
        let sql = format!("INSERT {ignore}INTO {} ({columns_text}) {rows}", self.table);
        let executions = match &form.bound {
            Some(bound) => Some(parameters(bound, self.shape, columns.len())),
            None => self.is_prepared.then(|| vec![Vec::new()]),
        };
        let in_pieces = form.bound.as_ref().is_some_and(|bound| bound.in_pieces);
        Statement { setup: form.setup.clone(), sql, executions, in_pieces }
    }
}

/// The same value for each placeholder.
fn parameters(bound: &Bound, shape: Shape, columns: usize) -> Vec<Vec<Param>> {
    let placeholders = match shape {
        Shape::Values | Shape::Union => 2 * columns,
        Shape::Derived => 1,
        Shape::Select | Shape::Rows | Shape::Grouped => columns,
    };
    bound.executions.iter().map(|value| vec![value.clone(); placeholders]).collect()
}
