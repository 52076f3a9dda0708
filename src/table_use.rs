//! The use of a ruled table: the ids that were taken for it, and the looks at its highest id. `tables` keeps it for as long
//! as the process runs, whatever rules are active; a plan has it in its target, and reads none of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::meter::Counter;

/// The ids that were taken for a table since the process began. Any two compare as equal: whatever was counted, a
/// table is the same.
#[derive(Debug, Default)]
pub struct TableUse {
    counted: Arc<Counted>,
    pub looks: Looks,
}

#[derive(Debug, Default)]
struct Counted {
    /// Statements and ids. Two kilobytes: not for tables that nobody inserts into.
    taken: OnceLock<Box<[Counter; 2]>>,
    overtaken: AtomicU64,
}

/// The looks at the table's highest id (`tables/looks`).
#[derive(Debug, Default)]
pub struct Looks {
    /// Held while the table is looked at: others that wait for the same look find that it is done.
    pub looking: tokio::sync::Mutex<()>,
    /// The number of statements that may give rows other ids, as seen before the last look.
    pub moves: AtomicU64,
    /// True if statements have taken ids for the table since the background looked at it.
    pub is_used: AtomicBool,
    /// When the last look began, from which its age counts. `None`: it failed.
    pub looked_at: Mutex<Option<Instant>>,
    /// Grows with each look that ends well.
    pub ended: AtomicU64,
    /// The number of times that an id has collided, the server has numbered rows, or a generator could not be raised: each
    /// time it is to be raised above the table's ids.
    pub due: AtomicU64,
    /// The value of `due` when the generator was raised last.
    pub done: AtomicU64,
    /// When it was logged last that ids came into the table without the generator.
    pub told: Mutex<Option<Instant>>,
    /// The last look failed: statements that hide no collision get ids meanwhile.
    pub is_failing: AtomicBool,
    /// The last look for a statement that hides collisions, if it failed: when it began, and why.
    pub failed: Mutex<Option<(Instant, Unseen)>>,
    /// The generator was raised above this id, and when.
    pub above: Mutex<Option<(u64, Instant)>>,
    /// When the server numbered rows last.
    pub native_at: Mutex<Option<Instant>>,
    /// True if an index begins with the id: without one, a look takes a look at each row. Unset where that is not known.
    pub has_index: Mutex<Option<bool>>,
}

/// Why the highest id of a table is not known, for the client whose statement needs it.
#[derive(Debug, Clone)]
pub struct Unseen {
    pub why: String,
    /// A session that waits for the lock, or whose transaction uses the table, can read the id.
    pub is_locked: bool,
}

impl Unseen {
    pub fn new(why: impl Into<String>) -> Self {
        Unseen { why: why.into(), is_locked: false }
    }
}

impl TableUse {
    /// A statement that took so many ids.
    pub fn note(&self, ids: u64) {
        let [statements, taken] = &**self.counted.taken.get_or_init(Box::default);
        statements.add(1);
        taken.add(ids);
        if !self.looks.is_used.load(Ordering::Relaxed) {
            self.looks.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// The number of times that ids came into the table without the generator, and it was raised above them.
    pub fn overtaken(&self) -> u64 {
        self.counted.overtaken.load(Ordering::Relaxed)
    }

    pub fn note_overtaken(&self) {
        self.counted.overtaken.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of this table for another one, which counts as this one but has looks of its own.
    #[must_use]
    pub fn of_another(&self) -> TableUse {
        TableUse { counted: Arc::clone(&self.counted), looks: Looks::default() }
    }

    /// Statements and ids.
    pub fn get(&self) -> (u64, u64) {
        self.counted.taken.get().map_or((0, 0), |counters| {
            let [statements, ids] = &**counters;
            (statements.get(), ids.get())
        })
    }
}

impl PartialEq for TableUse {
    fn eq(&self, _: &TableUse) -> bool {
        true
    }
}

impl Eq for TableUse {}
