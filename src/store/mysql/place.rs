//! Which of several servers the table is used on: the primary, as sessions find it (`role`), and never two of them.
//!
//! A server that replicates from another, or is read_only, is not used, even by an account that may write on it. If
//! only one server can be written to, it is the primary. If there are several (a server that was down during a failover
//! comes back as it was), the table decides: the record `primary` names the server that it was claimed for, and counts
//! the claims. A proxy that finds only one server that can be written to, and another one's name in its table, claims
//! it with a higher count. A server of a lower count was the primary before. If they do not decide, no server is used.
//!
//! A proxy looks at all servers once in [`LOOK_AGE_MAX`], and what it was answered longer than [`LOOK_VALID`] after a look counts
//! for nothing. So nobody writes on the server of before any more when [`CLAIM_AGE_MIN`] has passed since a claim, which is when the
//! claimed one is used. What no look shows: a primary that is cut off from some proxies and not from others, and is not made
//! read_only (docs/design/decisions.md, "The store in a table").

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CALL_DEADLINE;
use crate::store::FORMAT;

pub(super) const LOOK_AGE_MAX: Duration = Duration::from_secs(1);
pub(super) const LOOK_VALID: Duration = LOOK_AGE_MAX.saturating_add(CALL_DEADLINE);
const CLAIM_AGE_MIN: Duration = LOOK_VALID.saturating_add(Duration::from_secs(1));

/// `primary`: for which server the table was claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlaceRecord {
    pub(super) v: u64,
    /// The number of times that the table was claimed.
    pub(super) term: u64,
    /// The server, as `role` identifies it.
    pub(super) server: String,
    /// The time of the claim by that server's clock, in microseconds; 0: there was no other server before.
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

/// A server that can be written to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) address: String,
    pub(super) identity: String,
    pub(super) record: Option<PlaceRecord>,
    /// The server's clock, in microseconds.
    pub(super) now: u64,
}

/// The decision on the candidate of this number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Choice {
    Use(usize),
    /// Claim it by this record.
    Claim(usize, PlaceRecord),
    /// Wait for this time: the claim is so recent that another proxy may not know of it yet.
    Wait(usize, Duration),
    /// None is to be used, and why.
    Nobody(String),
}

/// `before`: the candidate that was used last. `term`: the highest that was ever seen.
pub(super) fn choose(candidates: &[Candidate], before: Option<usize>, term: u64) -> Choice {
    let term_of = |candidate: &Candidate| candidate.record.as_ref().map_or(0, |record| record.term);
    let highest = candidates.iter().map(term_of).max().unwrap_or(0).max(term);
    let all: Vec<_> = candidates.iter().enumerate().collect();
    let named: Vec<_> =
        all.iter().copied().filter(|(_, one)| is_named(one) && term_of(one) == highest).collect();
    let found = if are_one(&named) {
        named
    } else if are_one(&all) && !all.iter().any(|(_, one)| is_named(one)) {
        all
    } else {
        return Choice::Nobody(nobody(candidates));
    };
    let stays = found.iter().find(|(nth, _)| Some(*nth) == before);
    let Some((nth, one)) = stays.or(found.first()).copied() else {
        return Choice::Nobody(nobody(candidates));
    };
    let claim = |at: u64| {
        let unknown = one.record.as_ref().map(|record| record.unknown.clone()).unwrap_or_default();
        Choice::Claim(
            nth,
            PlaceRecord { v: FORMAT, term: highest + 1, server: one.identity.clone(), at, unknown },
        )
    };
    match &one.record {
        Some(record) if !is_named(one) || record.at > one.now => claim(one.now),
        Some(record) => {
            let age = Duration::from_micros(one.now - record.at);
            match CLAIM_AGE_MIN.checked_sub(age) {
                Some(rest) if record.at != 0 && !rest.is_zero() => Choice::Wait(nth, rest),
                _ => Choice::Use(nth),
            }
        }
        // If another server was known, its table had a record.
        None => claim(if highest == 0 { 0 } else { one.now }),
    }
}

fn is_named(candidate: &Candidate) -> bool {
    candidate.record.as_ref().is_some_and(|record| record.server == candidate.identity)
}

/// One server may be reached at two addresses, and a cluster at many.
fn are_one(found: &[(usize, &Candidate)]) -> bool {
    match found {
        [(_, first), rest @ ..] => rest.iter().all(|(_, other)| other.identity == first.identity),
        [] => false,
    }
}

fn nobody(candidates: &[Candidate]) -> String {
    let addresses: Vec<_> = candidates.iter().map(|one| one.address.as_str()).collect();
    match addresses.as_slice() {
        [one] => format!(
            "{one} can be written to, and was the primary before another server; the later primary does not answer or cannot be \
             written to; start the later primary again, or make {one} its replica"
        ),
        several => format!(
            "{} can be written to, and none of them replicates from another, so Rowstamp does not know the primary; SET GLOBAL \
             read_only = 1 on the others",
            several.join(" and ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Choice, PlaceRecord, choose};

    const NOW: u64 = 1_000_000_000;

    type Row<'a> = (&'a str, Option<(u64, &'a str, u64)>);

    /// A candidate of this identity. Its record has this term and server, and was claimed so many seconds ago; 0: as the first one.
    fn candidate((identity, record): Row<'_>) -> Candidate {
        let record = record.map(|(term, server, seconds)| PlaceRecord {
            v: 1,
            term,
            server: server.to_owned(),
            at: if seconds == 0 { 0 } else { NOW - seconds * 1_000_000 },
            unknown: serde_json::Map::new(),
        });
        Candidate { address: format!("at {identity}"), identity: identity.to_owned(), record, now: NOW }
    }

    #[track_caller]
    fn check(rows: &[Row<'_>], before: Option<usize>, term: u64, expect: &str) {
        let candidates: Vec<_> = rows.iter().copied().map(candidate).collect();
        let said = match choose(&candidates, before, term) {
            Choice::Use(nth) => format!("use {nth}"),
            Choice::Wait(nth, rest) => format!("wait {}s for {nth}", rest.as_secs()),
            Choice::Claim(nth, record) => {
                let when = if record.at == 0 { "first" } else { "now" };
                format!("claim {nth} as {} {} {when}", record.term, record.server)
            }
            Choice::Nobody(why) => why,
        };
        assert!(said.starts_with(expect), "{rows:?}: {said}");
    }

    #[test]
    fn which_server_is_used() {
        // The only one.
        check(&[("a", None)], None, 0, "claim 0 as 1 a first");
        check(&[("a", Some((1, "a", 0)))], None, 0, "use 0");
        check(&[("a", Some((2, "a", 9)))], None, 2, "use 0");
        check(&[("a", Some((2, "a", 3)))], None, 2, "wait 1s for 0");
        // The server was promoted: its record names the one before.
        check(&[("b", Some((1, "a", 0)))], Some(0), 1, "claim 0 as 2 b now");
        // The server lacks the last claim, or the record.
        check(&[("c", Some((1, "a", 0)))], None, 2, "claim 0 as 3 c now");
        check(&[("c", None)], None, 2, "claim 0 as 3 c now");
        // The one before comes back.
        let (old, new) = (("a", Some((1, "a", 0))), ("b", Some((2, "b", 9))));
        check(&[old, new], None, 0, "use 1");
        check(&[old, new], Some(0), 1, "use 1");
        check(&[old], None, 2, "at a can be written to, and was the primary before");
        // A replica that was promoted while the one before can still be written to.
        check(&[("a", Some((1, "a", 0))), ("b", Some((1, "a", 0)))], Some(1), 1, "use 0");
        // Nobody knows.
        check(&[("a", None), ("b", None)], Some(0), 0, "at a and at b can be written to");
        check(&[("a", Some((1, "a", 0))), ("b", Some((1, "b", 0)))], Some(0), 1, "at a and at b");
        check(&[("b", Some((1, "a", 0))), ("c", Some((1, "a", 0)))], None, 1, "at b and at c");
        // Two addresses of one server, or of one cluster.
        check(&[("a", Some((1, "a", 0))), ("a", Some((1, "a", 0)))], None, 1, "use 0");
        check(&[("a", Some((1, "a", 0))), ("a", Some((1, "a", 0)))], Some(1), 1, "use 1");
        check(&[("a", None), ("a", None)], Some(1), 0, "claim 1 as 1 a first");
    }
}
