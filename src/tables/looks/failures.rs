//! The meaning of a failed look for the statement that waits for it.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::name_of;
use crate::rewrite::plan::target::Target;
use crate::table_use::Unseen;
use crate::tables::{TableError, Tables};

const LOCKED: &str = "the table is locked (LOCK TABLES or DDL)";

impl Tables {
    /// `Ok`: a right is missing for good, or the server will tell the statement the same.
    pub(in crate::tables) fn note_failure(&self, target: &Target, error: &TableError) -> Result<(), Unseen> {
        warn_of_failure(target, error);
        let looks = &target.usage.looks;
        match error {
            TableError::Schema(error) if error.is_locked() => {
                Err(Unseen { is_locked: true, ..Unseen::new(LOCKED) })
            }
            TableError::Schema(error) if error.is_denied() || error.is_gone() => {
                looks.done.fetch_max(looks.due.load(Ordering::Acquire), Ordering::AcqRel);
                Ok(())
            }
            TableError::Unseen(unseen) => Err(unseen.clone()),
            TableError::Schema(_) => Err(Unseen::new("the server does not answer the control account")),
            TableError::Floor(error) => {
                if error.is_outage() && target.may_go_without() {
                    // Nobody waits for it until the generator was raised.
                    self.common.taken.of(&target.rule.generator).set_away(true);
                    looks.due.fetch_add(1, Ordering::AcqRel);
                }
                Err(Unseen::new(error.for_client()))
            }
            error => Err(Unseen::new(error.for_client())),
        }
    }
}

pub(in crate::tables) fn unseen_within(limit: Duration) -> Unseen {
    Unseen::new(format!("that takes more than {limit:?}"))
}

/// One line a failure, however long it lasts.
pub(super) fn warn_of_failure(target: &Target, error: &dyn Display) {
    if !target.usage.looks.is_failing.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            table = name_of(target), generator = %target.rule.generator, %error,
            "Rowstamp cannot read the table's highest id, or not raise the generator above it: plain INSERTs may get error 1062, and others \
             error 1467; it tries again each second"
        );
    }
}

pub(super) fn note_success(target: &Target) {
    target.usage.looks.is_failing.store(false, Ordering::Relaxed);
}
