//! A generator's bound in the store, and the proof that no two ranges overlap.
//!
//! 1. A raise reads `bound` at a revision, and writes a higher one over that revision alone. So the raises of a record have
//!    one order, each begins where the last write ended, and what lies between its two bounds is its own.
//! 2. A raise is done, not done, or of unknown outcome. Each carries a fresh token, remembered before it is sent and
//!    forgotten only when the outcome is known; so a raise whose future was dropped is in doubt too. A doubt is settled by
//!    reading: our token stands there, and the range is ours; or it does not, and the range is burnt. Burnt even if the
//!    write arrives later: nobody looks for that token again.
//! 3. A hand-back lowers the bound, from the end of what we reserved to where we stopped for good, over a revision at
//!    which that end stands: a proxy that reserved since has handed all back, and nothing of it was issued. 1 holds for the next.
//!    One whose outcome is unknown may be done, and what it gave back may be another's up to that same end. So it is sent again only
//!    over the revision of the first time, and what stands at a later one is left as it is.
//! 4. A record that is gone, whose revision fell, or whose bound is below what we committed is of a store that went back:
//!    it is refused. Within an era 1 to 3 hold; an operator begins the next one above them all.

pub mod moves;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Map;

use crate::ids::fence::moves::{Issuers, Moves};
use crate::store::record::{decode, encode, fresh_token};
use crate::store::{
    FORMAT, GeneratorRecord, Json, Key, Outcome, Revision, Store, StoreError, Versioned, Write,
};

const KIND_SEQUENCE: &str = "sequence";
pub(super) const KIND_TIMESTAMP: &str = "timestamp";

/// Each attempt lost a race, or its answer; after so many the caller waits before it tries again.
const ATTEMPTS_MAX: u32 = 16;

/// Fewer sequences are read, and created, one by one.
const READ_TOGETHER_MIN: usize = 10;

/// The generator or node that a bound is of: a record that is of another kind, or counts by another layout, is refused.
pub(super) struct Subject {
    key: Key,
    kind: &'static str,
    layout: Option<String>,
    /// Generator and node, if the bound is that of one node; only the node's owner reserves.
    node: Option<(String, u64)>,
}

impl Subject {
    /// A sequence; its bound is an id.
    pub(super) fn sequence(name: &str) -> Self {
        Subject { key: Key::generator(name), kind: KIND_SEQUENCE, layout: None, node: None }
    }

    /// A timestamp generator, by which all of its nodes have one layout. Its bound is a tick below which none of them begins.
    pub(super) fn timestamp(name: &str, layout: String) -> Self {
        Subject { key: Key::generator(name), kind: KIND_TIMESTAMP, layout: Some(layout), node: None }
    }

    /// A node of a timestamp generator, whose bound is a tick.
    pub(super) fn node(name: &str, node: u64, layout: String) -> Self {
        let node_of = Some((name.to_owned(), node));
        Subject { key: Key::slot(name, node), kind: KIND_TIMESTAMP, layout: Some(layout), node: node_of }
    }
}

pub(super) struct Fence {
    store: Arc<dyn Store>,
    subject: Subject,
    owner: String,
    seen: Seen,
    /// The number of times that tables had been moved away from it when it was opened, or since by this proxy itself.
    moves: u64,
    doubt: Option<Doubt>,
    /// The bound that we committed last: what stands in the store is not below it.
    committed: u64,
    /// The store's era when all this was seen.
    era: u64,
}

struct Seen {
    revision: Revision,
    record: GeneratorRecord,
}

/// A raise or a hand-back whose outcome is not known. Its token shows later if the record in the store is ours.
#[derive(Clone)]
struct Doubt {
    token: String,
    from: u64,
    to: u64,
    /// The revision that it was to be written over.
    over: Revision,
}

/// The end of a raise, known to be so in the store in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raise {
    /// Ids from `from` up to below `to` are ours.
    Raised { from: u64, to: u64 },
    /// The caller's plan wanted nothing at this bound, so nothing was written.
    Declined { bound: u64 },
}

impl Fence {
    /// The record of the sequence `name`, created at `bound_min` or raised to it.
    pub(super) async fn open(
        store: Arc<dyn Store>,
        name: &str,
        owner: &str,
        bound_min: u64,
    ) -> Result<Self, StoreError> {
        Self::open_for(store, Subject::sequence(name), owner, bound_min).await
    }

    /// [`Fence::open`], without a question to the store if the record is among those that were read.
    pub(super) async fn open_by(
        read: &Records,
        store: Arc<dyn Store>,
        name: &str,
        owner: &str,
        bound_min: u64,
    ) -> Result<Self, StoreError> {
        let subject = Subject::sequence(name);
        match read.of(&*store, &subject)? {
            Some(seen) => Self::seen(store, subject, owner, bound_min, (seen, read.era)).await,
            None => Self::open_for(store, subject, owner, bound_min).await,
        }
    }

    /// The subject's record, created at `bound_min` or raised to it.
    pub(super) async fn open_for(
        store: Arc<dyn Store>,
        subject: Subject,
        owner: &str,
        bound_min: u64,
    ) -> Result<Self, StoreError> {
        let era = store.era();
        let seen = load_or_create(&*store, &subject, owner, bound_min).await?;
        Self::seen(store, subject, owner, bound_min, (seen, era)).await
    }

    async fn seen(
        store: Arc<dyn Store>,
        subject: Subject,
        owner: &str,
        bound_min: u64,
        (seen, era): (Seen, u64),
    ) -> Result<Self, StoreError> {
        let (owner, moves) = (owner.to_owned(), seen.record.moves);
        let mut fence = Fence { store, subject, owner, seen, moves, doubt: None, committed: 0, era };
        fence.raise_to(bound_min).await?;
        Ok(fence)
    }

    /// Raises the bound to `bound_min` where it is lower; takes no ids.
    async fn raise_to(&mut self, bound_min: u64) -> Result<(), StoreError> {
        self.raise(|bound| (bound < bound_min).then_some(bound_min)).await.map(|_| ())
    }

    pub(super) fn bound(&self) -> u64 {
        self.seen.record.bound
    }

    /// Raises the bound to what `plan` makes of the one that stands. An earlier raise that was in doubt and turns out to
    /// have been done is returned instead of a new one.
    pub(super) async fn raise(&mut self, plan: impl Fn(u64) -> Option<u64>) -> Result<Raise, StoreError> {
        let mut last_error = None;
        self.enter_era().await?;
        for _ in 0..ATTEMPTS_MAX {
            if let Some(raised) = self.settle_doubt().await? {
                return Ok(raised);
            }
            let from = self.bound();
            let Some(to) = plan(from) else { return Ok(Raise::Declined { bound: from }) };
            debug_assert!(to > from, "a plan raises");
            match self.write(from, to).await {
                Ok(Written::Ours) => {
                    self.committed = to;
                    return Ok(Raise::Raised { from, to });
                }
                Ok(Written::NotOurs) => {}
                Err(error @ StoreError::UnknownOutcome { .. }) => last_error = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last_error.unwrap_or_else(|| contended(&self.subject.key)))
    }

    /// Hands back the ids from `first` up to below `end`, if nobody reserved any above them since.
    pub(super) async fn hand_back(&mut self, first: u64, end: u64) -> Result<bool, StoreError> {
        let era = self.era;
        if self.store.era() != era {
            // Ids that were reserved before the store went back are nobody's.
            return Ok(false);
        }
        let (mut first, mut end) = (first, end);
        let sent_over = self.doubt.as_ref().filter(|doubt| doubt.to < doubt.from).map(|doubt| doubt.over);
        if let Some(Raise::Raised { from, to }) = self.settle_doubt().await? {
            // Reserved as we stopped: never used. Only with what adjoins is more than this last range given back.
            first = if from == end { first } else { from };
            end = to;
        }
        if self.era != era || sent_over.is_some_and(|over| self.seen.revision != over) {
            return Ok(false);
        }
        // If the answer is lost, the record stands as it was handed back.
        self.committed = self.committed.min(first);
        for _ in 0..if sent_over.is_some() { 1 } else { ATTEMPTS_MAX } {
            if self.bound() != end || first >= end {
                return Ok(false);
            }
            match self.write(end, first).await? {
                Written::Ours => {
                    self.committed = first;
                    return Ok(true);
                }
                Written::NotOurs => {}
            }
        }
        Ok(false)
    }

    /// The write that does what [`Fence::hand_back`] does, if the record stands as it was seen last; its outcome is in doubt from here on.
    /// `None`: there is nothing to hand back, or not so simply.
    pub(super) fn handing_back(&mut self, first: u64, end: u64) -> Option<Write> {
        if self.doubt.is_some() || self.store.era() != self.era || self.bound() != end || first >= end {
            return None;
        }
        self.committed = self.committed.min(first);
        let (owner, token) = (self.owner.clone(), fresh_token());
        let record = GeneratorRecord { bound: first, owner, token, ..self.seen.record.clone() };
        let over = self.seen.revision;
        let write = Write { key: self.subject.key.clone(), expected: Some(over), value: encode(&record) };
        self.doubt = Some(Doubt { token: record.token, from: end, to: first, over });
        Some(write)
    }

    pub(super) async fn refresh(&mut self) -> Result<(), StoreError> {
        let found = self.store.load(&self.subject.key).await?;
        self.accept(found)
    }

    /// Takes the record among those that were read, if it is a later one.
    pub(super) fn notice(&mut self, read: &Records) -> Result<(), StoreError> {
        let later = read.get(&self.subject.key).filter(|found| found.revision > self.seen.revision);
        match later {
            Some(later) if self.doubt.is_none() && self.era == read.era => self.accept(Some(later.clone())),
            _ => Ok(()),
        }
    }

    /// This proxy has moved a table away itself, and reserves nothing for it any more.
    pub(super) fn follow(&mut self, moves: &Moves) {
        self.moves = moves.after(&self.subject.key, self.moves).unwrap_or(self.moves);
    }

    /// If an operator has raised the floors, takes the store's record as it is: nothing of what we knew holds.
    async fn enter_era(&mut self) -> Result<(), StoreError> {
        let era = self.store.era();
        if era == self.era {
            return Ok(());
        }
        let Some(found) = self.store.load(&self.subject.key).await? else {
            let key = self.subject.key.clone();
            return Err(match &self.subject.node {
                // The node was taken after the copy of the store was made.
                Some((generator, node)) => StoreError::NodeGone { generator: generator.clone(), node: *node },
                None => StoreError::SteppedBack { key, reason: "the record is missing".to_owned() },
            });
        };
        let seen = read(&self.subject, &found)?;
        self.has_not_moved(&seen)?;
        self.seen = seen;
        (self.doubt, self.committed, self.era) = (None, 0, era);
        Ok(())
    }

    async fn settle_doubt(&mut self) -> Result<Option<Raise>, StoreError> {
        let Some(doubt) = self.doubt.clone() else { return Ok(None) };
        let found = self.store.load(&self.subject.key).await?;
        if self.store.era() != self.era {
            // The floors were raised meanwhile: what was in doubt is nobody's.
            self.enter_era().await?;
            return Ok(None);
        }
        self.accept(found)?;
        self.doubt = None;
        let Doubt { token, from, to, .. } = doubt;
        if self.seen.record.token != token {
            if from > to {
                return Ok(None);
            }
            tracing::info!(key = %self.subject.key, from, to, "skipped a range of ids: it is not known whether the store saved the range");
            return Ok(None);
        }
        self.committed = to;
        // A hand-back in doubt reserves nothing.
        Ok((from < to).then_some(Raise::Raised { from, to }))
    }

    async fn write(&mut self, from: u64, to: u64) -> Result<Written, StoreError> {
        let token = fresh_token();
        let record = GeneratorRecord {
            bound: to,
            owner: self.owner.clone(),
            token: token.clone(),
            ..self.seen.record.clone()
        };
        self.doubt = Some(Doubt { token: token.clone(), from, to, over: self.seen.revision });
        let outcome =
            self.store.compare_and_set(&self.subject.key, Some(self.seen.revision), &encode(&record)).await?;
        self.doubt = None;
        match outcome {
            Outcome::Written(revision) => {
                self.seen = Seen { revision, record };
                Ok(Written::Ours)
            }
            Outcome::Conflict(found) => {
                self.accept(found)?;
                // A client library that tries again by itself meets its own write.
                let ours = self.seen.record.token == token;
                Ok(if ours { Written::Ours } else { Written::NotOurs })
            }
        }
    }

    /// The store's record may only have gone forward: others raise above our bound, or hand back down to it.
    fn accept(&mut self, found: Option<Versioned<Json>>) -> Result<(), StoreError> {
        let back = |reason: String| Err(StoreError::SteppedBack { key: self.subject.key.clone(), reason });
        let Some(found) = found else { return back("the record is missing".to_owned()) };
        let seen = read(&self.subject, &found)?;
        if seen.revision < self.seen.revision {
            return back(format!("its revision fell from {} to {}", self.seen.revision.0, seen.revision.0));
        }
        if let Some((generator, node)) = &self.subject.node
            && seen.record.owner != self.owner
        {
            let (generator, to) = (generator.clone(), seen.record.owner);
            return Err(StoreError::NodeLost { generator, node: *node, to });
        }
        self.has_not_moved(&seen)?;
        if seen.record.bound < self.committed {
            return back(format!("its bound fell from {} to {}", self.committed, seen.record.bound));
        }
        self.seen = seen;
        Ok(())
    }

    fn has_not_moved(&self, seen: &Seen) -> Result<(), StoreError> {
        if seen.record.moves == self.moves {
            return Ok(());
        }
        Err(StoreError::TableMoved { key: self.subject.key.clone() })
    }
}

enum Written {
    Ours,
    NotOurs,
}

/// Raises the bound of a generator that nobody here has open; creates it if there is none. Returns the bound.
pub async fn raise_bound(
    store: Arc<dyn Store>,
    name: &str,
    owner: &str,
    bound_min: u64,
) -> Result<u64, StoreError> {
    Ok(Fence::open(store, name, owner, bound_min).await?.bound())
}

/// [`raise_bound`] of several.
pub(super) async fn raise_bounds(
    store: &Arc<dyn Store>,
    owner: &str,
    wanted: &[(String, u64)],
) -> Result<(), StoreError> {
    let read = Records::of_raised(&**store, owner, wanted).await?;
    for (name, bound) in wanted {
        Fence::open_by(&read, Arc::clone(store), name, owner, *bound).await?;
    }
    Ok(())
}

/// Records of generators that were read together. A generator that is opened by its record asks the store for nothing: if others have
/// raised the bound since, the first raise meets their revision, and reads it.
#[derive(Debug, Default)]
pub struct Records {
    found: HashMap<Key, Versioned<Json>>,
    /// The store's era before the records were read.
    era: u64,
}

impl Records {
    /// The sequences that are wanted, each with the bound at which it begins: those that the store has not are created, many at once. Those that the
    /// store did not say it wrote are missing here.
    pub async fn of_sequences(
        store: &dyn Store,
        owner: &str,
        wanted: &[(String, u64)],
    ) -> Result<Records, StoreError> {
        // A few are as soon read one by one as the store's are listed.
        if wanted.len() < READ_TOGETHER_MIN {
            return Ok(Records::default());
        }
        let there = Self::read(store).await?;
        let new = wanted.iter().map(|(name, bound)| (Subject::sequence(name), *bound));
        let new: Vec<Write> = new
            .filter(|(subject, _)| !there.found.contains_key(&subject.key))
            .map(|(subject, bound)| {
                let value = encode(&new_record(&subject, owner, bound));
                Write { key: subject.key, expected: None, value }
            })
            .collect();
        write_all(store, &new).await?;
        if new.is_empty() { Ok(there) } else { Self::read(store).await }
    }

    /// The sequences, many at once raised to these bounds, or created at them. A few, and those that the store did not say it wrote, are to
    /// be raised alone.
    pub async fn of_raised(
        store: &dyn Store,
        owner: &str,
        wanted: &[(String, u64)],
    ) -> Result<Records, StoreError> {
        let read = Self::of_sequences(store, owner, wanted).await?;
        let mut raised = Vec::new();
        for (name, bound) in wanted {
            let subject = Subject::sequence(name);
            if let Some(seen) = read.of(store, &subject)?
                && seen.record.bound < *bound
            {
                let (owner, token) = (owner.to_owned(), fresh_token());
                let record = GeneratorRecord { bound: *bound, owner, token, ..seen.record };
                raised.push(Write {
                    key: subject.key,
                    expected: Some(seen.revision),
                    value: encode(&record),
                });
            }
        }
        if raised.is_empty() {
            return Ok(read);
        }
        write_all(store, &raised).await?;
        Self::read(store).await
    }

    async fn read(store: &dyn Store) -> Result<Records, StoreError> {
        let era = store.era();
        Ok(Records { found: store.list(Key::GENERATORS).await?.into_iter().collect(), era })
    }

    fn get(&self, key: &Key) -> Option<&Versioned<Json>> {
        self.found.get(key).filter(|found| !is_of_leaf(found))
    }

    /// `None`: it is to be read alone.
    fn of(&self, store: &dyn Store, subject: &Subject) -> Result<Option<Seen>, StoreError> {
        let found = self.get(&subject.key).filter(|_| store.era() == self.era);
        found.map(|found| read(subject, found)).transpose()
    }
}

/// True for a row of Leaf's table. Lists have it by its tag alone, which may look like the name of another generator; so it is read by the
/// generator's name.
fn is_of_leaf(found: &Versioned<Json>) -> bool {
    decode(&Key::of(Key::GENERATORS), &found.value)
        .is_ok_and(|record: GeneratorRecord| record.token.is_empty())
}

/// For each whether it is known that it was written.
pub(super) async fn write_all(store: &dyn Store, writes: &[Write]) -> Result<Vec<bool>, StoreError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    match store.write_all(writes).await {
        Err(error @ StoreError::UnknownOutcome { .. }) => {
            tracing::warn!(records = writes.len(), %error, "it is not known whether the store wrote the records; Rowstamp reads them again");
            Ok(vec![false; writes.len()])
        }
        answer => answer,
    }
}

/// The bound of a generator; 0 if there is none.
pub async fn bound_of(store: &dyn Store, name: &str) -> Result<u64, StoreError> {
    let subject = Subject::sequence(name);
    store.load(&subject.key).await?.map_or(Ok(0), |found| Ok(read(&subject, &found)?.record.bound))
}

/// All ids of a generator, of whichever kind, are below it; 0 if there is none.
pub async fn issued_below(store: &dyn Store, name: &str) -> Result<u64, StoreError> {
    Issuers::read(store, &BTreeSet::from([name])).await?.issued_below(name)
}

async fn load_or_create(
    store: &dyn Store,
    subject: &Subject,
    owner: &str,
    bound: u64,
) -> Result<Seen, StoreError> {
    let key = &subject.key;
    let mut last_error = None;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(found) = store.load(key).await? {
            return read(subject, &found);
        }
        let record = new_record(subject, owner, bound);
        match store.compare_and_set(key, None, &encode(&record)).await {
            Ok(Outcome::Written(revision)) => return Ok(Seen { revision, record }),
            Ok(Outcome::Conflict(_)) => {}
            Err(error @ StoreError::UnknownOutcome { .. }) => last_error = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last_error.unwrap_or_else(|| contended(key)))
}

fn contended(key: &Key) -> StoreError {
    StoreError::Contended { record: key.to_string(), attempts: ATTEMPTS_MAX }
}

fn new_record(subject: &Subject, owner: &str, bound: u64) -> GeneratorRecord {
    GeneratorRecord {
        v: FORMAT,
        kind: subject.kind.to_owned(),
        bound,
        owner: owner.to_owned(),
        token: fresh_token(),
        layout: subject.layout.clone(),
        moves: 0,
        unknown: Map::new(),
    }
}

fn read(subject: &Subject, found: &Versioned<Json>) -> Result<Seen, StoreError> {
    let key = &subject.key;
    let record: GeneratorRecord = decode(key, &found.value)?;
    if record.kind != subject.kind {
        let (found, expected) = (record.kind, subject.kind.to_owned());
        return Err(StoreError::WrongKind { key: key.clone(), found, expected });
    }
    if record.layout != subject.layout {
        let text = |layout: Option<String>| layout.unwrap_or_else(|| "none".to_owned());
        let (found, expected) = (text(record.layout), text(subject.layout.clone()));
        return Err(StoreError::OtherLayout { key: key.clone(), found, expected });
    }
    Ok(Seen { revision: found.revision, record })
}

#[cfg(test)]
mod tests;

/// The record of each node of a generator, with what the node has reserved.
pub(in crate::ids) async fn slots(
    store: &dyn Store,
    name: &str,
) -> Result<BTreeMap<u64, Versioned<GeneratorRecord>>, StoreError> {
    let prefix = Key::slots(name);
    let mut slots = BTreeMap::new();
    for (key, found) in store.list(&prefix).await? {
        let node = key.as_str().strip_prefix(&prefix).and_then(|node| node.parse().ok());
        let Some(node) = node else { continue };
        slots.insert(node, Versioned { revision: found.revision, value: decode(&key, &found.value)? });
    }
    Ok(slots)
}
