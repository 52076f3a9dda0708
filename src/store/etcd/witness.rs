//! A check that the store still is what this proxy saw of it. A restored etcd looks like the old one: same cluster, same
//! members, smaller revision.
//!
//! * Every write of this proxy's writes its **witness** too, in the same transaction, which compares the witness's
//!   revision with the one that is known here. So a store that has lost any of our writes refuses the next one.
//! * The **highest revision** seen shows lost writes of others, as long as the store has not grown past it.
//! * A write of unknown outcome may move the witness: it is ours by its run and count.
//! * An operator who has raised all floors counts up `raised` in every witness: what stands is accepted again.

use serde_json::Map;

use crate::store::{FORMAT, WitnessRecord};

#[derive(Debug, Clone)]
pub(super) struct Witness {
    /// `mod_revision` as far as it is known; 0: not written yet.
    pub(super) revision: u64,
    pub(super) raised: u64,
    /// This process, unlike all others.
    run: String,
    /// Writes that were sent, and the last one whose outcome is known.
    sent: u64,
    known: u64,
}

/// The meaning of the witness in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sighting {
    /// The witness stands where we left it.
    Same,
    /// The witness stands elsewhere, rightly, and is known now: a write of ours of unknown outcome, or an operator's.
    Moved,
    /// Another process writes under this proxy's name.
    Foreign,
    /// Writes of ours are lost.
    Lost(String),
}

impl Witness {
    pub(super) fn new(run: String, revision: u64, raised: u64) -> Self {
        Witness { revision, raised, run, sent: 0, known: 0 }
    }

    /// Counts a write before it is sent: a deadline may cut the write off anywhere.
    pub(super) fn next(&mut self) -> WitnessRecord {
        self.sent += 1;
        self.record(self.sent)
    }

    /// A witness that confirms nothing: put where there is none, so that an operator's raise finds it.
    pub(super) fn placeholder(&self) -> WitnessRecord {
        self.record(0)
    }

    fn record(&self, count: u64) -> WitnessRecord {
        WitnessRecord { v: FORMAT, run: self.run.clone(), count, raised: self.raised, unknown: Map::new() }
    }

    /// The write that was sent last is done.
    pub(super) fn confirm(&mut self, revision: u64) {
        self.revision = revision;
        self.known = self.sent;
    }

    /// Accepts the witness in the store as it is.
    pub(super) fn adopt(&mut self, revision: u64, raised: u64) {
        self.revision = revision;
        self.raised = raised;
        self.known = self.sent;
    }

    /// `found`: the witness and its revision.
    pub(super) fn judge(&mut self, found: Option<(u64, &WitnessRecord)>) -> Sighting {
        let Some((revision, record)) = found else {
            return match self.revision {
                0 => Sighting::Same,
                _ => Sighting::Lost("the witness record of this proxy is missing".to_owned()),
            };
        };
        if record.raised > self.raised {
            self.adopt(revision, record.raised);
            return Sighting::Moved;
        }
        if revision == self.revision {
            return Sighting::Same;
        }
        if revision < self.revision {
            let was = self.revision;
            return Sighting::Lost(format!("the witness record's revision fell from {was} to {revision}"));
        }
        if record.run != self.run {
            return Sighting::Foreign;
        }
        if record.count <= self.known {
            return Sighting::Lost("an older write of this proxy is in place of its last one".to_owned());
        }
        self.adopt(revision, record.raised);
        Sighting::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::{Sighting, Witness};
    use crate::store::WitnessRecord;

    fn record(run: &str, count: u64, raised: u64) -> WitnessRecord {
        WitnessRecord { v: 1, run: run.to_owned(), count, raised, unknown: serde_json::Map::new() }
    }

    /// Checks the verdict of a process `a` that knows revision 10 and has two writes in doubt.
    #[track_caller]
    fn check(found: Option<&(u64, WitnessRecord)>, expect: &str, revision: u64) {
        let mut witness = Witness::new("a".to_owned(), 0, 1);
        witness.next();
        witness.confirm(10);
        witness.next();
        witness.next();
        let verdict = witness.judge(found.map(|(revision, record)| (*revision, record)));
        assert!(format!("{verdict:?}").contains(expect), "{found:?}: {verdict:?}");
        assert_eq!(witness.revision, revision, "{found:?}");
    }

    #[test]
    fn what_a_witness_says() {
        check(Some(&(10, record("a", 1, 1))), "Same", 10);
        check(Some(&(11, record("a", 2, 1))), "Moved", 11);
        check(Some(&(12, record("a", 3, 1))), "Moved", 12);
        check(Some(&(12, record("b", 3, 1))), "Foreign", 10);
        // Lost, whatever it says.
        check(None, "missing", 10);
        check(Some(&(9, record("a", 1, 1))), "fell from 10 to 9", 10);
        check(Some(&(9, record("a", 0, 1))), "fell from 10 to 9", 10);
        // A witness that we put in place of a lost one does not vouch for itself, though the store has grown.
        check(Some(&(12, record("a", 0, 1))), "an older write", 10);
        // Until an operator has raised the floors.
        check(Some(&(9, record("a", 0, 2))), "Moved", 9);
        check(Some(&(12, record("b", 0, 2))), "Moved", 12);
        let mut fresh = Witness::new("a".to_owned(), 0, 0);
        assert_eq!(fresh.judge(None), Sighting::Same);
    }
}
