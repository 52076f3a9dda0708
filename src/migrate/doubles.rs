//! Finds the ids that are in more than one shard, by a merge of the shards' sorted ids. One page of each shard is in memory.

use std::collections::VecDeque;

/// How many ids are doubles, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubles {
    pub ids: u64,
    pub first: Vec<Double>,
    pub compared: u64,
}

/// An id that several rows have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Double {
    pub id: u64,
    /// The sources that hold it, by their place in the list.
    pub sources: Vec<usize>,
}

/// The number of doubles that are listed; all of them are counted.
const SHOWN_MAX: usize = 20;

/// Several ascending streams of ids, merged. Ask [`Merge::wanting`] for pages until it wants none.
#[derive(Debug)]
pub struct Merge {
    sources: Vec<Source>,
    found: Doubles,
}

#[derive(Debug, Default)]
struct Source {
    /// Ids and the rows that have each.
    page: VecDeque<(u64, u64)>,
    last: u64,
    has_ended: bool,
}

impl Merge {
    /// A merge of this number of sources. Only ids above `after` count.
    pub fn new(sources: usize, after: u64) -> Merge {
        let source = || Source { last: after, ..Source::default() };
        Merge { sources: (0..sources).map(|_| source()).collect(), found: Doubles::default() }
    }

    /// A source whose next page is needed, and the id that it begins after. `None`: all is compared.
    pub fn wanting(&mut self) -> Option<(usize, u64)> {
        loop {
            let empty = self.sources.iter().position(|source| source.page.is_empty() && !source.has_ended);
            if let Some(nth) = empty {
                return self.sources.get(nth).map(|source| (nth, source.last));
            }
            let lowest =
                self.sources.iter().filter_map(|source| source.page.front()).map(|(id, _)| *id).min()?;
            self.take(lowest);
        }
    }

    /// The page that was wanted, ascending; an empty one ends its source.
    pub fn give(&mut self, nth: usize, page: Vec<(u64, u64)>) {
        let Some(source) = self.sources.get_mut(nth) else { return };
        match page.last() {
            None => source.has_ended = true,
            Some((last, _)) => source.last = *last,
        }
        source.page = page.into();
    }

    pub fn found(self) -> Doubles {
        self.found
    }

    fn take(&mut self, id: u64) {
        let (mut rows, mut sources) = (0_u64, Vec::new());
        for (nth, source) in self.sources.iter_mut().enumerate() {
            while let Some((_, count)) = source.page.pop_front_if(|(front, _)| *front == id) {
                rows = rows.saturating_add(count);
                sources.push(nth);
            }
        }
        self.found.compared += 1;
        if rows > 1 {
            self.found.ids += 1;
            if self.found.first.len() < SHOWN_MAX {
                self.found.first.push(Double { id, sources });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Merge;
    use proptest::prelude::*;

    /// Pages of `size` ids, as a server gives them.
    fn doubles(shards: &[Vec<u64>], after: u64, size: usize) -> Vec<u64> {
        let mut merge = Merge::new(shards.len(), after);
        while let Some((nth, last)) = merge.wanting() {
            let mut page: Vec<(u64, u64)> = Vec::new();
            for id in shards[nth].iter().filter(|id| **id > last) {
                let is_full = page.len() == size;
                let is_same = page.last().is_some_and(|(same, _)| same == id);
                match page.last_mut().filter(|_| is_same) {
                    Some((_, count)) => *count += 1,
                    None if is_full => break,
                    None => page.push((*id, 1)),
                }
            }
            merge.give(nth, page);
        }
        merge.found().first.iter().map(|double| double.id).collect()
    }

    #[test]
    fn ids_in_two_shards() {
        let check = |shards: &[&[u64]], after, expect: &[u64]| {
            let shards: Vec<_> = shards.iter().map(|ids| ids.to_vec()).collect();
            for size in 1..4 {
                assert_eq!(doubles(&shards, after, size), expect, "{shards:?} by {size}");
            }
        };
        check(&[&[1, 2, 3]], 0, &[]);
        check(&[&[1, 2, 2, 3]], 0, &[2]);
        check(&[&[1, 3, 5], &[2, 4, 6]], 0, &[]);
        check(&[&[1, 3, 5, 9], &[3, 4, 9], &[9]], 0, &[3, 9]);
        check(&[&[1, 3, 5, 9], &[3, 4, 9], &[9]], 3, &[9]);
        check(&[&[], &[1], &[1]], 0, &[1]);
        check(&[], 0, &[]);
    }

    proptest! {
        #[test]
        fn as_counting_them_all_finds(mut shards in prop::collection::vec(prop::collection::vec(1..30_u64, 0..12), 0..4), size in 1..5_usize) {
            for ids in &mut shards {
                ids.sort_unstable();
            }
            let all: Vec<u64> = shards.concat();
            let mut expect: Vec<u64> = (1..30).filter(|id| all.iter().filter(|one| one == &id).count() > 1).collect();
            expect.truncate(20);
            prop_assert_eq!(doubles(&shards, 0, size), expect);
        }
    }
}
