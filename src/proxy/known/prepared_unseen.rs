//! Texts of SQL's PREPARE that passed as no rule could concern them.

use std::sync::{Arc, Weak};

use crate::rules::mentions::DefaultSchema;
use crate::tables::Tables;

/// Texts of SQL's PREPARE that passed as no rule could concern them. A later rule may concern one;
/// then its name is to be prepared again.
#[derive(Debug, Default)]
pub(crate) struct PreparedUnseen {
    texts: Vec<u8>,
    /// Some were not kept.
    is_full: bool,
    /// The rules that the last of them passed under.
    under: Weak<Tables>,
}

/// Texts of a session are kept up to so many bytes.
const UNSEEN_BYTES_MAX: usize = 64 * 1024;

impl PreparedUnseen {
    pub(crate) fn note(&mut self, text: &[u8], tables: &Arc<Tables>) {
        self.under = Arc::downgrade(tables);
        if self.texts.len() + text.len() > UNSEEN_BYTES_MAX {
            self.is_full = true;
        } else {
            self.texts.extend_from_slice(text);
            self.texts.push(b'\n');
        }
    }

    /// True if one of the texts may name a table that has a rule by now.
    pub(crate) fn may_run(&self, tables: &Arc<Tables>) -> bool {
        let is_known = self.texts.is_empty() && !self.is_full;
        if is_known || std::ptr::eq(self.under.as_ptr(), Arc::as_ptr(tables)) {
            return false;
        }
        self.is_full || tables.mention(&self.texts, DefaultSchema::Unknown).table
    }
}
