//! Ids of a timestamp generator, taken apart one by one.

use std::collections::BTreeMap;

use super::{Lines, Outcome, have_ids};
use crate::ids::layout::Layout;

/// The tick that each node of a timestamp generator has committed: the node issued no id of a tick at or above it.
pub type Ticks = BTreeMap<u64, u64>;

/// The facts that the ids of a table show.
#[derive(Debug, Clone)]
pub struct Decoded {
    layout: Layout,
    rows: u64,
    /// Rows whose ids were compared with the ticks that the nodes have reserved.
    compared: u64,
    /// The first id each that is none of the layout's, of a node that never reserved, of a tick that was not reserved.
    foreign: First,
    unknown_node: First,
    unreserved: First,
}

#[derive(Debug, Clone, Copy, Default)]
struct First {
    rows: u64,
    id: u64,
}

impl First {
    fn count(&mut self, id: u64, rows: u64) {
        if self.rows == 0 {
            self.id = id;
        }
        self.rows += rows;
    }
}

impl Decoded {
    pub fn new(layout: Layout) -> Decoded {
        let none = First::default();
        Decoded { layout, rows: 0, compared: 0, foreign: none, unknown_node: none, unreserved: none }
    }

    /// An id and the number of rows that have it. `ticks` were read after it; `None`: the store cannot be read.
    pub fn add(&mut self, id: u64, rows: u64, ticks: Option<&Ticks>) {
        self.rows += rows;
        let Ok(parts) = self.layout.decode(id) else {
            self.foreign.count(id, rows);
            return;
        };
        let Some(ticks) = ticks else { return };
        self.compared += rows;
        match ticks.get(&parts.node.unwrap_or(0)) {
            None => self.unknown_node.count(id, rows),
            Some(end) if parts.ticks >= *end => self.unreserved.count(id, rows),
            Some(_) => {}
        }
    }

    pub(super) fn lines(&self, lines: &mut Lines, is_on: bool) {
        if !is_on || self.rows == 0 {
            return;
        }
        let wrong = [
            (&self.foreign, "outside the generator's layout"),
            (&self.unknown_node, "with a node that never reserved any time"),
            (&self.unreserved, "with a time that no node has reserved"),
        ];
        let before = lines.lines.len();
        for (first, what) in wrong.into_iter().filter(|(first, _)| first.rows > 0) {
            let rows = have_ids(first.rows, "");
            let text = format!("{rows} {what} (first: {}): another writer made such ids", first.id);
            lines.push(Outcome::Finding, text);
        }
        if lines.lines.len() > before {
            return;
        }
        let rows = have_ids(self.rows, "");
        if self.compared == self.rows {
            lines.push(
                Outcome::Proved,
                format!("{rows} with a time that the generator's nodes have reserved"),
            );
        } else {
            lines.push(
                Outcome::Open,
                format!("{rows} of the generator's layout: the store cannot be read, so the times that nodes have reserved are not known"),
            );
        }
    }
}
