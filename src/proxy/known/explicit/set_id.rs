//! `insert_id`: a client says which id the server generates next, as mysqlbinlog does for each INSERT of a log. A
//! ruled INSERT takes its ids from there then, and not from its generator.

use std::num::NonZeroU64;

use crate::ids::block::{IdBlock, Spacing};
use crate::mysql::error::Refusal;
use crate::rewrite::plan::{InsertPlan, NewRows};

/// The query for `insert_id`, in hexadecimal digits, so that the answer does not depend on `character_set_results`.
pub(crate) const SET_ID_SQL: &[u8] =
    b"SELECT HEX(CONCAT_WS(',',@@insert_id,@@auto_increment_increment,@@auto_increment_offset,LAST_INSERT_ID())) LIMIT 1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SetId {
    #[default]
    Unset,
    /// The client has set it, or a routine may have. An INSERT may have used it since.
    MayBeSet,
    /// The server has it no longer: the present statement uses it.
    Taken(NextIds),
}

impl SetId {
    /// The session's state has been read.
    pub(crate) fn read(&mut self, is_set: bool) {
        if is_set {
            *self = SetId::MayBeSet;
        } else if *self == SetId::MayBeSet {
            *self = SetId::Unset;
        }
    }
}

/// The ids that the server would generate for the next statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextIds {
    /// 0: none is set.
    pub(crate) first: u64,
    increment: NonZeroU64,
    offset: u64,
}

impl NextIds {
    /// Reads the answer to [`SET_ID_SQL`]. The second value is `LAST_INSERT_ID()`.
    pub(crate) fn parse(answer: &str) -> Option<(Self, u64)> {
        let mut numbers = answer.split(',').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let (first, increment, offset, last_insert_id) = (next()?, next()?, next()?, next()?);
        Some((NextIds { first, increment: NonZeroU64::new(increment)?, offset }, last_insert_id))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.first > 0
    }

    fn spacing(&self) -> Spacing {
        Spacing::by(self.increment)
    }

    /// True if the server would continue with `first` + `increment`. The server rounds up each id but the first.
    fn is_regular(&self) -> bool {
        let increment = self.increment.get();
        increment == 1 || self.first % increment == self.offset % increment
    }

    pub(crate) fn block(&self, n: NonZeroU64) -> Result<IdBlock, Refusal> {
        IdBlock::new(self.first, self.spacing(), n).ok_or_else(|| {
            Refusal::NoId(format!(
                "insert_id is set, and the ids of {n} rows exceed 2^64-1; set a smaller insert_id"
            ))
        })
    }

    /// An id that none of the server's for so many rows is above.
    pub(crate) fn highest(&self, ids: u32) -> i128 {
        i128::from(self.first) + (i128::from(ids) - 1) * i128::from(self.increment.get())
    }

    /// True if a row writes an id above `first`. The server then continues with the table's counter.
    pub(crate) fn is_passed_by(&self, explicit: &[i128]) -> bool {
        explicit.iter().any(|&id| id > i128::from(self.first))
    }

    /// Why the ids of the statement would not be those that the server gives. `writes_each`: what the server has
    /// of the statement does not count up from the first.
    pub(crate) fn objection(
        &self,
        insert: &InsertPlan,
        (ids, explicit): (u32, &[i128]),
        writes_each: bool,
    ) -> Option<Refusal> {
        let why = if ids <= 1 {
            return None;
        } else if insert.new_rows != NewRows::All {
            "with IGNORE or ON DUPLICATE KEY UPDATE, each id depends on which rows before it are new"
        } else if self.is_passed_by(explicit) {
            "a row writes an id above insert_id, and the server then continues with the table's counter"
        } else if !self.is_regular() {
            "auto_increment_increment and auto_increment_offset do not number the rows evenly from insert_id"
        } else if !writes_each && self.spacing() != insert.target.spacing {
            "the prepared statement counts in the steps of the generator, not of auto_increment_increment"
        } else {
            return None;
        };
        let table = &insert.target.table;
        let otherwise = if insert.target.keeps_auto_increment() {
            "send the statement as text".to_owned()
        } else {
            format!("keep {table}'s AUTO_INCREMENT while a log is replayed")
        };
        Some(Refusal::Statement(insert.target.at(format_args!(
            "insert_id is set, and {why}; insert the rows one by one, write their ids, or {otherwise}"
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::{NextIds, SetId};

    #[test]
    fn what_the_server_answers() {
        let (next, last) = NextIds::parse("700,2,1,5").unwrap();
        assert_eq!((next.first, next.increment.get(), next.offset, last), (700, 2, 1, 5));
        assert!(next.is_set() && !NextIds::parse("0,1,1,0").unwrap().0.is_set());
        for broken in ["", "700", "700,0,1,5", "700,1,1", "x,1,1,1"] {
            assert_eq!(NextIds::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn where_the_server_counts_evenly() {
        for (answer, expect) in
            [("1003,1,1,0", true), ("1003,10,1,0", false), ("1001,10,1,0", true), ("6,3,3,0", true)]
        {
            assert_eq!(NextIds::parse(answer).unwrap().0.is_regular(), expect, "{answer}");
        }
    }

    #[test]
    fn what_is_taken_stays_unless_it_is_set_again() {
        let taken = SetId::Taken(NextIds::parse("7,1,1,0").unwrap().0);
        let mut now = taken;
        now.read(false);
        assert_eq!(now, taken);
        now.read(true);
        assert_eq!(now, SetId::MayBeSet);
        now.read(false);
        assert_eq!(now, SetId::Unset);
    }
}
