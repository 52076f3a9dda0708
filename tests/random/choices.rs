//! Decisions by chance that can be made again: a statement is a list of small numbers.
//!
//! A generator that takes all its decisions from here is a function from such a list to a statement. An exhausted list
//! goes on with zeros, and zero is always the plainest alternative: so a statement shrinks by shrinking its list,
//! whatever the grammar is.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// One alternative of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Production {
    pub(crate) name: &'static str,
    pub(crate) weight: u32,
    /// Bits of `when`, all of which must be true of the statement's surroundings.
    pub(crate) when: u32,
}

/// `group!(NAME, "group": "first" 10, "second" 5 when MYSQL, ...)`; the first is the plainest and always possible.
macro_rules! group {
    ($id:ident, $group:literal: $($name:literal $weight:literal $(when $when:expr)?),+ $(,)?) => {
        pub(crate) const $id: crate::random::choices::Group = crate::random::choices::Group {
            name: $group,
            productions: &[$(crate::random::choices::Production {
                name: $name,
                weight: $weight,
                when: 0 $(| $when)?,
            }),+],
        };
    };
}
pub(crate) use group;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) productions: &'static [Production],
}

#[derive(Debug, Clone)]
pub(crate) struct Choices {
    source: Source,
    made: Vec<u32>,
    /// (group, production), as they were chosen.
    drawn: Vec<(&'static str, &'static str)>,
}

#[derive(Debug, Clone)]
enum Source {
    Chance(Box<StdRng>),
    Replay(std::vec::IntoIter<u32>),
}

impl Choices {
    pub(crate) fn by_chance(seed: u64) -> Choices {
        Choices::new(Source::Chance(Box::new(StdRng::seed_from_u64(seed))))
    }

    pub(crate) fn replay(made: Vec<u32>) -> Choices {
        Choices::new(Source::Replay(made.into_iter()))
    }

    fn new(source: Source) -> Choices {
        Choices { source, made: Vec::new(), drawn: Vec::new() }
    }

    /// A production's index; `when` are the bits that are true here.
    pub(crate) fn pick(&mut self, group: &Group, when: u32) -> &'static str {
        let possible = |production: &Production| production.when & !when == 0;
        let index = match &mut self.source {
            Source::Chance(rng) => {
                let weights = group.productions.iter().map(|p| if possible(p) { p.weight } else { 0 });
                let mut at = rng.gen_range(0..weights.clone().sum::<u32>());
                weights
                    .clone()
                    .position(|weight| match at.checked_sub(weight) {
                        Some(rest) => {
                            at = rest;
                            false
                        }
                        None => true,
                    })
                    .unwrap_or(0)
            }
            Source::Replay(made) => usize::try_from(made.next().unwrap_or(0)).unwrap_or(0),
        };
        let index = if group.productions.get(index).is_some_and(possible) { index } else { 0 };
        self.made.push(u32::try_from(index).expect("groups are small"));
        let name = group.productions[index].name;
        self.drawn.push((group.name, name));
        name
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        let number = match &mut self.source {
            Source::Chance(rng) => rng.gen_range(0..end),
            Source::Replay(made) => made.next().unwrap_or(0) % end,
        };
        self.made.push(number);
        number
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        // Zero, the plainest, is no.
        self.below(n) == n - 1
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(u32::try_from(all.len()).expect("a short list")) as usize]
    }

    pub(crate) fn drawn(&self) -> &[(&'static str, &'static str)] {
        &self.drawn
    }

    pub(crate) fn into_parts(self) -> (Vec<u32>, Vec<(&'static str, &'static str)>) {
        (self.made, self.drawn)
    }
}

#[test]
fn what_was_made_by_chance_is_made_again() {
    group!(ANY, "any": "a" 1, "b" 3, "c" 1 when 2);
    let mut first = Choices::by_chance(7);
    let drawn: Vec<_> = (0..50).map(|_| (first.pick(&ANY, 0), first.below(9))).collect();
    assert!(drawn.iter().any(|(name, _)| *name == "b") && drawn.iter().all(|(name, _)| *name != "c"));
    let (made, _) = first.into_parts();
    let mut again = Choices::replay(made);
    assert!(drawn.iter().all(|one| *one == (again.pick(&ANY, 0), again.below(9))));
    assert_eq!((again.pick(&ANY, 2), again.below(9), again.one_in(2)), ("a", 0, false));
}
