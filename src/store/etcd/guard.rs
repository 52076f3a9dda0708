//! Writes that notice a store that went back in time.
//!
//! Each transaction compares, beside its own record, that `suspect` is not there and that the witness stands where it
//! was left, and writes the witness again. A proxy that finds the witness elsewhere, or the store's revision lower than
//! it was, writes `suspect`: from then on every proxy's writes are refused, until an operator has raised the floors.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use etcd_client::{
    Client, Compare, CompareOp, KeyValue, ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use serde::de::DeserializeOwned;
use serde_json::Map;

use super::marks::Marks;
use super::witness::{Sighting, Witness};
use super::{Inner, Result, revision_of, versioned};
use crate::store::record::{decode, encode};
use crate::store::{FORMAT, Key, Outcome, ProxyRecord, Revision, StoreError, SuspectRecord, WitnessRecord};

/// Each attempt but the last found the witness moved by a write of ours that was in doubt.
const ATTEMPTS_MAX: u32 = 3;

/// The records beside the generators' records, all of one revision.
pub(super) struct Beside {
    pub(super) witness: Option<(u64, WitnessRecord)>,
    pub(super) suspect: Option<SuspectRecord>,
    pub(super) holder: Option<(u64, ProxyRecord)>,
    /// The store's revision fell: why it is suspected.
    pub(super) lost: Option<String>,
}

impl Inner {
    pub(super) fn era(&self) -> u64 {
        self.era.load(Ordering::Acquire)
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// One write, guarded: of a record at the revision `stands` (0: none), or `None` of the witness alone.
    pub(super) async fn write(&self, record: Option<(&Key, i64, &[u8])>) -> Result<Outcome> {
        self.write_all(record.as_slice()).await
    }

    /// Writes several records, all or none. If one has another revision, the conflict has the last record as it stands.
    pub(super) async fn write_all(&self, records: &[(&Key, i64, &[u8])]) -> Result<Outcome> {
        let own = Key::witness(&self.name);
        let key = records.first().map_or(&own, |(key, ..)| key);
        // Deadlines cut a write off anywhere: the witness knows of it before it is sent.
        let mut witness = self.witness.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            if let Some(reason) = self.suspect.load_full() {
                return Err(self.suspicious(&reason));
            }
            let known = i64::try_from(witness.revision).unwrap_or(i64::MAX);
            let mut compares = vec![
                Compare::version(self.keys.path(&Key::suspect()), CompareOp::Equal, 0),
                Compare::mod_revision(self.keys.path(&own), CompareOp::Equal, known),
            ];
            let mut puts = vec![TxnOp::put(self.keys.path(&own), encode(&witness.next()), None)];
            let mut gets = self.gets_beside();
            for (key, stands, value) in records {
                compares.push(Compare::mod_revision(self.keys.path(key), CompareOp::Equal, *stands));
                puts.push(TxnOp::put(self.keys.path(key), *value, None));
            }
            gets.extend(records.last().map(|(key, ..)| TxnOp::get(self.keys.path(key), None)));
            let seen = self.seen();
            let txn = Txn::new().when(compares).and_then(puts).or_else(gets);
            let answer =
                self.keys.members.tell(txn).await.map_err(|refusal| self.keys.error(Some(key), refusal))?;
            // A write that was done in a store that lost others' counts for nothing.
            if self.fallen(seen, revision_in(answer.header())).is_some() {
                return Err(self.judge_anew(&mut witness).await);
            }
            if answer.succeeded() {
                let revision = revision_in(answer.header());
                witness.confirm(revision);
                self.marks.save(self.marks(&witness)).await;
                return Ok(Outcome::Written(Revision(revision)));
            }
            let mut found = found(&answer);
            let stands = records.last().and_then(|_| found.pop()).flatten();
            let beside = self.beside(found)?;
            match self.compare(&mut witness, &beside).await? {
                Sighting::Same => return Ok(Outcome::Conflict(stands.map(versioned))),
                Sighting::Moved => {}
                Sighting::Foreign | Sighting::Lost(_) => return Err(self.taken(beside.holder)),
            }
        }
        Err(self.keys.silent("the witness record of this proxy keeps changing"))
    }

    /// Writes the witness again, by this process. From here on the store can be distinguished from an older copy of it.
    pub(super) async fn sign(&self) -> Result<()> {
        match self.write(None).await {
            Err(StoreError::UnknownOutcome { .. }) => self.write(None).await.map(drop),
            done => done.map(drop),
        }
    }

    /// Reads the records beside the generators' records.
    pub(super) async fn look(&self) -> Result<Beside> {
        let read = |mut client: Client| {
            let txn = Txn::new().and_then(self.gets_beside());
            async move { client.txn(txn).await }
        };
        let seen = self.seen();
        let answer = self.keys.members.ask(read).await.map_err(|refusal| self.keys.error(None, refusal))?;
        let (mut beside, revision) = (self.beside(found(&answer))?, revision_in(answer.header()));
        // An operator's raise settles a lower revision too.
        if beside.witness.as_ref().is_some_and(|(_, witness)| witness.raised > self.era()) {
            self.seen.store(revision, Ordering::Release);
        } else {
            beside.lost = self.fallen(seen, revision);
        }
        Ok(beside)
    }

    /// At the start: the store is what our marks say, or it is suspected.
    pub(super) async fn recognise(&self) -> Result<()> {
        let beside = self.look().await?;
        let mut witness = self.witness.lock().await;
        if witness.revision == 0
            && let Some((revision, found)) = &beside.witness
        {
            // No marks: nothing is known that it could be compared with.
            witness.adopt(*revision, found.raised);
            self.era.store(found.raised, Ordering::Release);
        }
        if let Sighting::Foreign = self.compare(&mut witness, &beside).await?
            && let Some((revision, found)) = &beside.witness
        {
            // An earlier process wrote it, and could not mark it.
            witness.adopt(*revision, found.raised);
        }
        Ok(())
    }

    /// The witness against what stands. An error: the store is suspected, by somebody else or from here on.
    pub(super) async fn compare(&self, witness: &mut Witness, beside: &Beside) -> Result<Sighting> {
        if let Some(suspect) = &beside.suspect {
            if beside.witness.is_none() && witness.revision != 0 {
                self.put_placeholder(witness).await;
            }
            let SuspectRecord { by, since, reason, .. } = suspect;
            return Err(self.halt(format!("{reason} (noticed by {by}, {since})")));
        }
        let stands = beside.witness.as_ref().map(|(revision, record)| (*revision, record));
        let mut verdict = match &beside.lost {
            Some(reason) => Sighting::Lost(reason.clone()),
            None => witness.judge(stands),
        };
        if let Sighting::Lost(reason) = verdict {
            return Err(self.raise_alarm(witness, reason).await);
        }
        let is_ours = |(_, holder): &(u64, ProxyRecord)| holder.run == self.run;
        if verdict == Sighting::Foreign
            && beside.holder.as_ref().is_some_and(is_ours)
            && let Some((revision, record)) = stands
        {
            // Another process wrote under our name, and has lost the name to us.
            witness.adopt(revision, record.raised);
            verdict = Sighting::Moved;
        }
        self.era.store(witness.raised, Ordering::Release);
        if verdict != Sighting::Foreign && self.suspect.swap(None).is_some() {
            tracing::info!("the store is no longer suspected: ids are reserved again");
            self.recalls.send_modify(|count| *count += 1);
        }
        Ok(verdict)
    }

    /// A revision never falls; one that was asked for after `seen` was seen is not below it.
    pub(super) async fn has_not_gone_back(&self, seen: u64, header: Option<&ResponseHeader>) -> Result<()> {
        if self.fallen(seen, revision_in(header)).is_none() {
            return Ok(());
        }
        let mut witness = self.witness.lock().await;
        Err(self.judge_anew(&mut witness).await)
    }

    /// The store's revision fell. It went back, or an operator has raised all floors since: the witness shows which.
    /// The answer counts for nothing either way, since what was known when it was asked for may be of the era before.
    async fn judge_anew(&self, witness: &mut Witness) -> StoreError {
        let judged = match self.look().await {
            Ok(beside) => self.compare(witness, &beside).await,
            Err(error) => Err(error),
        };
        match judged {
            Ok(_) => self.keys.silent("an operator has just settled the store"),
            Err(error) => error,
        }
    }

    fn fallen(&self, seen: u64, revision: u64) -> Option<String> {
        if revision >= seen {
            self.seen.fetch_max(revision, Ordering::AcqRel);
            return None;
        }
        Some(format!("its revision fell from {seen} to {revision}"))
    }

    /// The store went back: nothing is written from here on, and `suspect` is written for the other proxies. If
    /// that fails now, it is done when the watchdog finds the loss again.
    async fn raise_alarm(&self, witness: &Witness, reason: String) -> StoreError {
        let file = self.marks.path().display();
        let reason = format!("{reason} (according to {file})");
        let record = SuspectRecord {
            v: FORMAT,
            by: self.name.clone(),
            since: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            reason: reason.clone(),
            unknown: Map::new(),
        };
        let error = self.halt(reason);
        let suspect = self.keys.path(&Key::suspect());
        let txn = Txn::new()
            .when([Compare::version(suspect.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(suspect, encode(&record), None)]);
        if let Err(refusal) = self.keys.members.tell(txn).await {
            tracing::warn!(
                ?refusal,
                "could not tell the other proxies that the store has older data; trying again"
            );
        }
        self.put_placeholder(witness).await;
        error
    }

    /// An operator's raise goes to the witnesses that are there.
    async fn put_placeholder(&self, witness: &Witness) {
        let own = Key::witness(&self.name);
        if let Err(error) = self.keys.write(&own, 0, &encode(&witness.placeholder())).await {
            tracing::debug!(%error, "could not write the lost witness record again yet");
        }
    }

    /// Nothing is written from here on, and what is reserved is given up.
    fn halt(&self, reason: String) -> StoreError {
        let error = self.suspicious(&reason);
        if self.suspect.swap(Some(Arc::new(reason))).is_none() {
            tracing::error!("{error}");
            self.recalls.send_modify(|count| *count += 1);
        }
        error
    }

    fn suspicious(&self, reason: &str) -> StoreError {
        StoreError::Suspect { store: self.keys.store.clone(), reason: reason.to_owned() }
    }

    pub(super) fn taken(&self, holder: Option<(u64, ProxyRecord)>) -> StoreError {
        let (address, since) = match holder {
            Some((_, holder)) => (holder.address, holder.since),
            None => ("an unknown address".to_owned(), "an unknown time".to_owned()),
        };
        StoreError::NameTaken { name: self.name.clone(), address, since }
    }

    pub(super) fn marks(&self, witness: &Witness) -> Marks {
        Marks {
            v: FORMAT,
            prefix: self.keys.prefix.clone(),
            name: self.name.clone(),
            run: self.run.clone(),
            witness: witness.revision,
            raised: witness.raised,
            revision: self.seen(),
        }
    }

    fn gets_beside(&self) -> Vec<TxnOp> {
        let keys = [Key::witness(&self.name), Key::suspect(), Key::proxy(&self.name)];
        keys.iter().map(|key| TxnOp::get(self.keys.path(key), None)).collect()
    }

    /// Reads the answers to [`Self::gets_beside`].
    fn beside(&self, found: Vec<Option<KeyValue>>) -> Result<Beside> {
        let mut found = found.into_iter();
        let mut next = || found.next().flatten();
        Ok(Beside {
            witness: record(&Key::witness(&self.name), next())?,
            suspect: record(&Key::suspect(), next())?.map(|(_, suspect)| suspect),
            holder: record(&Key::proxy(&self.name), next())?,
            lost: None,
        })
    }
}

fn record<T: DeserializeOwned>(key: &Key, kv: Option<KeyValue>) -> Result<Option<(u64, T)>> {
    kv.map(|kv| Ok((revision_of(&kv), decode(key, kv.value())?))).transpose()
}

fn found(answer: &TxnResponse) -> Vec<Option<KeyValue>> {
    let one = |answer| match answer {
        TxnOpResponse::Get(mut found) => found.take_kvs().pop(),
        _ => None,
    };
    answer.op_responses().into_iter().map(one).collect()
}

fn revision_in(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, ResponseHeader::revision).unsigned_abs()
}
