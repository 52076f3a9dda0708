//! How the ids of a statement are written: ARCHITECTURE.md, "The insert id".

use super::{Draft, Planning, Rows, refused};
use crate::rewrite::plan::Style;
use crate::rules::model::InsertId;
use crate::sql::insert::Body;
use crate::sql::insert::body::AssignsId;
use crate::sql::insert::expression::Traits;

impl Draft<'_> {
    fn is_auto_increment(&self) -> bool {
        self.id.is_some_and(|id| id.auto_increment)
    }

    /// ARCHITECTURE.md, "The insert id".
    pub(super) fn choose_style(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
        let returning = body.tail.returning.unwrap_or_default();
        let in_odku = body.tail.odku.map(|odku| odku.traits).unwrap_or_default();
        let mut all = body.traits;
        all.add(returning);
        all.add(in_odku);
        let packet_only = self.context.target.rule.insert_id == InsertId::Packet || self.meaning.is_text;
        if self.ids == 0 && self.id_params.is_empty() {
            self.style = Style::Literal;
            return Ok(());
        }
        if all.sets_last_id {
            return refused("the statement sets LAST_INSERT_ID(x) itself; set it in a statement of its own");
        }
        if let Some(odku) = body.tail.odku.filter(|_| rows.rows.len() == 1 && !self.context.head.ignore) {
            self.style = self.odku_style(odku.assigns_id, packet_only, all, body.later)?;
            return Ok(());
        }
        let several = rows.rows.len() > 1;
        if several && body.tail.odku.is_some_and(|odku| odku.assigns_id == AssignsId::Idiom) {
            return refused(
                "LAST_INSERT_ID(id) in ON DUPLICATE KEY UPDATE of several rows; insert them one by one",
            );
        }
        let shows = all.reads_last_id || returning.loud || body.later.loud || several && body.traits.loud;
        let literal = packet_only
            || shows
            || self.context.head.ignore
            || body.tail.odku.is_some()
            || !self.id_params.is_empty();
        if literal && body.tail.returning.is_some() {
            // Its rows come without an OK packet, so there is nothing to tell the client's id by.
            return refused(
                "RETURNING with IGNORE, ON DUPLICATE KEY UPDATE, LAST_INSERT_ID() or a placeholder for the id; \
                            leave the id out and RETURNING plain columns",
            );
        }
        self.style = if literal { Style::Literal } else { Style::Wrapped };
        Ok(())
    }

    fn odku_style(
        &mut self,
        assigns: AssignsId,
        packet_only: bool,
        all: Traits,
        later: Traits,
    ) -> Planning<Style> {
        let column = self.context.target.id_column();
        if self.is_auto_increment() {
            return Ok(Style::OdkuNative);
        }
        if packet_only {
            return Ok(Style::Literal);
        }
        if !self.id_params.is_empty() {
            return refused(format!(
                "a placeholder for {column} with ON DUPLICATE KEY UPDATE; leave {column} out"
            ));
        }
        if all.reads_last_id || all.loud || later.loud {
            return refused(
                "ON DUPLICATE KEY UPDATE with functions, subqueries or LAST_INSERT_ID() that may read the insert id; compute \
                 the values beforehand",
            );
        }
        match assigns {
            AssignsId::No => self.odku_appends = true,
            AssignsId::Idiom => {}
            AssignsId::Otherwise => {
                return refused(format!(
                    "ON DUPLICATE KEY UPDATE assigns {column}; leave that out, or write {column}=LAST_INSERT_ID({column})"
                ));
            }
        }
        Ok(Style::OdkuOne)
    }
}
