//! The style in which the ids of a statement are written: docs/design/inserts.md, "The insert id".

use super::{Draft, InSets, Planning, Rows, refused};
use crate::rewrite::meaning::ColumnClass;
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::{UpdatedIds, moves_ids};
use crate::rules::model::InsertId;
use crate::sql::insert::Body;
use crate::sql::insert::body::{AssignsId, Odku};

impl Draft<'_> {
    pub(super) fn choose_style(&mut self, rows: &Rows<'_>, body: &Body) -> Planning<()> {
        self.plan.style = Style::Literal;
        if body.tail.odku.is_some_and(|odku| odku.assigns_id == AssignsId::Otherwise) {
            self.plan.updated_ids = UpdatedIds::Move;
        }
        if self.plan.ids == 0 && self.plan.id_params.is_empty() {
            return Ok(());
        }
        let returning = body.tail.returning.unwrap_or_default();
        let odku = body.tail.odku;
        let mut all = body.traits;
        all.add(returning);
        all.add(odku.map(|odku| odku.traits).unwrap_or_default());
        self.plan.sets_last_id = all.sets_last_id || odku.is_some_and(|odku| odku.calls_last_id);
        let packet_only = self.context.target.rule.insert_id == InsertId::Packet
            || self.meaning.column == ColumnClass::Text;
        let several = rows.rows.len() > 1;
        self.in_sets = if all.loud { InSets::Loud } else { InSets::AsOne };
        if let Some(odku) = odku {
            if odku.assigns_id == AssignsId::Otherwise {
                // The values bound to the id may all be the client's own.
                let column = self.context.target.id_column();
                if several && self.plan.ids > 0 {
                    return refused(moves_ids(column));
                }
                if body.traits.sets_last_id {
                    return refused(format!(
                        "a value has LAST_INSERT_ID(expr), and ON DUPLICATE KEY UPDATE assigns {column}; leave {column} out of its \
                         list, or write the value without LAST_INSERT_ID"
                    ));
                }
            }
            // A LAST_INSERT_ID(x) among the values takes the OK packet's place for itself.
            if !several && !body.traits.sets_last_id && !packet_only {
                return self.odku_style(odku, body);
            }
        }
        let shows = all.reads_last_id
            || all.sets_last_id
            || returning.loud
            || body.later.loud
            || several && body.traits.loud;
        let literal = self.context.only_literals
            || self.context.target.shows_insert_id()
            || self.context.target.trigger_writes_id()
            || packet_only
            || shows
            || self.context.head.ignore
            || odku.is_some()
            || !self.plan.id_params.is_empty()
            || !self.warned.is_empty();
        self.plan.style = if literal { Style::Literal } else { Style::Wrapped };
        Ok(())
    }

    /// Why one execution must not have several sets of parameters, where that is so: a wrapper acts
    /// for each of them.
    pub(super) fn one_set_only(&self) -> Option<&'static str> {
        let has_wrapper = matches!(self.plan.style, Style::Wrapped | Style::OdkuOne | Style::OdkuLiteral);
        match self.in_sets {
            // The first row of another set is none of the statement's first.
            _ if self.plan.strict_meant.is_some() => {
                Some("the statement has a value for the id that is no number, or out of range")
            }
            InSets::Loud if has_wrapper => {
                Some("a function or subquery of the statement may read LAST_INSERT_ID()")
            }
            InSets::Loud | InSets::AsOne => None,
        }
    }

    /// One row, whose id the OK packet and the function are to show.
    fn odku_style(&mut self, odku: Odku, body: &Body) -> Planning<()> {
        let returning = body.tail.returning;
        if self.id.is_some_and(|id| id.auto_increment) {
            if returning.is_some() && odku.assigns_id == AssignsId::Otherwise {
                let column = self.context.target.id_column();
                return refused(format!(
                    "RETURNING cannot tell the id if ON DUPLICATE KEY UPDATE assigns {column}; leave {column} out of the assignments"
                ));
            }
            self.plan.style = Style::OdkuNative;
            return Ok(());
        }
        if self.context.only_literals {
            // Error 3566 would be its answer.
            return refused(
                "ON DUPLICATE KEY UPDATE needs LAST_INSERT_ID() if the table has no AUTO_INCREMENT or Rowstamp does not know its columns, \
                 and MySQL Router refuses LAST_INSERT_ID() if sessions share connections (connection_sharing); prepare the statement, or \
                 let the table keep its AUTO_INCREMENT",
            );
        }
        if odku.traits.sets_last_id && !odku.calls_last_id {
            return refused(
                "ON DUPLICATE KEY UPDATE has LAST_INSERT_ID(expr) inside of a larger expression, which the server may not \
                 evaluate; assign LAST_INSERT_ID(expr) by itself",
            );
        }
        if self.context.cannot_update && !odku.calls_last_id {
            self.plan.style = Style::Literal;
            return Ok(());
        }
        // The client's own call reports the updated row's id as ours would.
        self.odku_appends = !odku.calls_last_id;
        let mut shows = odku.traits;
        shows.add(body.traits);
        if let Some(returning) = returning {
            if self.odku_appends && (returning.loud || returning.reads_last_id) {
                return refused(
                    "RETURNING may read LAST_INSERT_ID(), which ON DUPLICATE KEY UPDATE has set to the updated row by then; read \
                     LAST_INSERT_ID() in a separate statement",
                );
            }
            shows.add(returning);
        }
        let wraps = odku.assigns_id != AssignsId::Otherwise
            && !self.context.head.ignore
            && self.plan.id_params.is_empty()
            && self.warned.is_empty()
            && !(shows.loud || shows.reads_last_id || shows.sets_last_id);
        self.plan.style = if wraps { Style::OdkuOne } else { Style::OdkuLiteral };
        Ok(())
    }
}
