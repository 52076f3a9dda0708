//! An INSERT through a view is one into the table that it selects from.

use crate::rewrite::plan::Lookup;
use crate::rewrite::through::{STEPS_MAX, TOO_MANY, ViewChain, unclear};
use crate::rules::model::TableShape;
use crate::schema::{LiveTable, TableKind};
use crate::table_name::TableName;
use crate::tables::{TableError, Tables};

/// The table that a view leads to.
enum Behind {
    /// A base table, by this chain of views.
    Base { schema: String, live: LiveTable, chain: ViewChain },
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
                    Behind::Base { schema: base_schema, live: base, chain } => {
                        let view = (schema, view, &live.shape);
                        self.target(view, (&base_schema, base), chain, ddl).await?
                    }
                    Behind::Missing => Lookup::Missing,
                    Behind::Unclear(why) => unclear((schema, view), why),
                }
            }
            // The name was that of a view when the views were read.
            Some(_) => Lookup::NotRuled,
            None => Lookup::Missing,
        };
        self.put(schema, view, lookup, ddl, false);
        Ok(())
    }

    async fn behind(&self, schema: &str, view: &str, shape: &TableShape) -> Result<Behind, TableError> {
        let Some(live) = &self.common.schema else { return Ok(Behind::Missing) };
        let mut chain = ViewChain::new(shape);
        let mut at = TableName::new(schema, view);
        for _ in 0..STEPS_MAX {
            let from = match chain.step(&live.view_definition(&at.schema, &at.table).await?) {
                Ok(from) => from,
                Err(why) => return Ok(Behind::Unclear(why)),
            };
            let Some(found) = self.live_table(&from.schema, &from.table).await? else {
                return Ok(Behind::Missing);
            };
            match found.kind {
                TableKind::Base => return Ok(Behind::Base { schema: from.schema, live: found, chain }),
                TableKind::View => {
                    chain.goes_on(found.shape);
                    at = from;
                }
                TableKind::Other => {
                    return Ok(Behind::Unclear("the view selects from something that is not a table"));
                }
            }
        }
        Ok(Behind::Unclear(TOO_MANY))
    }

    async fn target(
        &self,
        view: (&str, &str, &TableShape),
        (base_schema, base): (&str, LiveTable),
        chain: ViewChain,
        ddl: u64,
    ) -> Result<Lookup, TableError> {
        let rule = match self.rules.acting(self.common.case, base_schema, &base.name) {
            Ok(Some(rule)) => rule.clone(),
            Ok(None) => return Ok(Lookup::NotRuled),
            Err(ambiguous) => return Ok(Lookup::Refused(ambiguous.to_string())),
        };
        let table = base.name.clone();
        Ok(match self.read_base(&rule, &table, Some(base), ddl, None).await? {
            Lookup::Ruled(target) => chain.ends(view, &target),
            other => other,
        })
    }
}
