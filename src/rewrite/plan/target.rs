//! The table that a statement inserts into.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::ids::range::Spacing;
use crate::meter::Counter;
use crate::rules::model::{
    Collide, ColumnShape, Explicit, GeneratorSpec, InsertId, Rule, TableShape, Unavailable,
};

/// The ids that were taken for a table since the process began. Any two compare as equal: whatever was counted, a
/// table is the same.
#[derive(Debug, Default)]
pub struct Filled {
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
    /// The last look: when it began, from which its age counts, and when it ended. `None`: it failed.
    pub looked_at: Mutex<Option<(Instant, Instant)>>,
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

impl Filled {
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
    pub fn of_another(&self) -> Filled {
        Filled { counted: Arc::clone(&self.counted), looks: Looks::default() }
    }

    /// Statements and ids.
    pub fn get(&self) -> (u64, u64) {
        self.counted.taken.get().map_or((0, 0), |counters| {
            let [statements, ids] = &**counters;
            (statements.get(), ids.get())
        })
    }
}

impl PartialEq for Filled {
    fn eq(&self, _: &Filled) -> bool {
        true
    }
}

impl Eq for Filled {}

/// A ruled table as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub rule: Arc<Rule>,
    /// The table's own name: the rule's may be a pattern. Its schema is the rule's.
    pub table: String,
    /// `None`: there is no control account to read it with.
    pub shape: Option<Arc<TableShape>>,
    /// The spacing of the ids of one statement.
    pub spacing: Spacing,
    /// The statement names a view of the table; `shape` is the view's then.
    pub view: Option<Through>,
    /// The table's own: also of what goes through a view.
    pub filled: Arc<Filled>,
}

/// A view through which rows go into a ruled table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub schema: String,
    pub name: String,
    /// The view's name for the id's column.
    pub column: String,
}

impl Target {
    /// Ids that were taken before may have been found in the table.
    pub fn was_looked_at_since(&self, moment: Instant) -> bool {
        self.filled.looks.looked_at.lock().is_some_and(|(_, ended)| ended > moment)
    }

    /// The target of calls that draw ids for no table. Its name is one that no table of the rules has.
    pub fn of_generator(spec: &GeneratorSpec) -> Self {
        let (name, origin) = (spec.name.clone(), spec.origin.clone());
        let rule = Rule {
            insert_id: InsertId::Packet,
            collide: Collide::Report,
            ..Rule::new((&spec.name.schema, "", ""), name, Explicit::Keep, origin)
        };
        let table = format!("(generator {})", spec.name.name);
        Target::new(Arc::new(rule), &table, None, spec.kind.spacing())
    }

    pub fn new(rule: Arc<Rule>, table: &str, shape: Option<Arc<TableShape>>, spacing: Spacing) -> Self {
        Target { rule, table: table.to_owned(), shape, spacing, view: None, filled: Arc::default() }
    }

    /// The statement's name for the id's column.
    pub fn id_column(&self) -> &str {
        self.view.as_ref().map_or(&self.rule.column, |view| &view.column)
    }

    /// The id's column, where the table's columns are known.
    pub fn id_shape(&self) -> Option<&ColumnShape> {
        self.shape.as_deref()?.column(self.id_column())
    }

    /// True if the server numbers a row whose id is left out.
    pub fn keeps_auto_increment(&self) -> bool {
        self.id_shape().is_some_and(|id| id.auto_increment)
    }

    /// True if a statement that cannot be rewritten may go to the server as it came. Nobody looks then at the ids that the client
    /// has written.
    pub fn may_be_forwarded(&self) -> bool {
        self.keeps_auto_increment() && self.rule.explicit != Explicit::Reject
    }

    /// True if its rows go to the server without ids while no ids can be obtained.
    pub fn may_go_without(&self) -> bool {
        self.rule.unavailable == Unavailable::Native && self.keeps_auto_increment()
    }

    /// True if a trigger of the table may read LAST_INSERT_ID(), and so would see what a wrapper sets.
    pub fn shows_insert_id(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.shows_insert_id)
    }

    /// True if a trigger of the table may write another id than the statement has.
    pub fn trigger_writes_id(&self) -> bool {
        self.id_shape().is_some_and(|id| id.set_by_trigger)
    }

    /// True if an update of a row fires a trigger.
    pub fn fires_on_update(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.fires_on_update)
    }

    /// The highest id that its column holds.
    pub fn highest_id(&self) -> u64 {
        self.id_shape().and_then(ColumnShape::highest).unwrap_or(i64::MAX.unsigned_abs())
    }

    /// The client's own id as the column holds it, in the bits of a 64-bit number. What is out of
    /// range becomes the nearest in it, or is an error.
    pub fn stored_id(&self, written: i128) -> Option<u64> {
        let id = self.id_shape();
        let stored = match id.and_then(ColumnShape::highest).map(i128::from) {
            Some(highest) if id.is_some_and(|id| id.unsigned) => written.clamp(0, highest),
            Some(highest) => written.clamp(-highest - 1, highest),
            None => written,
        };
        u64::try_from(stored).ok().or_else(|| i64::try_from(stored).ok().map(i64::cast_unsigned))
    }

    /// Schema and name that the statement goes by: the view's, where it names one.
    pub fn named(&self) -> (&str, &str) {
        match &self.view {
            Some(view) => (&view.schema, &view.name),
            None => (&self.rule.schema, &self.table),
        }
    }

    /// A refusal of a statement, with the table or view in front that it names.
    pub fn at(&self, why: impl Display) -> String {
        let (schema, name) = self.named();
        format!("{schema}.{name}: {why}")
    }
}
