//! The server's counter and a generator share the numbers while both kinds of writers live: the counter has the odd ones.
//!
//! If k servers take writes (a ring, or Galera), the n-th of them counts by k from n, and by 2k from 2n - 1 meanwhile: its
//! ids are odd, and no two servers share one. The generator has the even ones: step = 2, offset = 0.
//!
//! Source: MySQL manual, "Replication Source Options and Variables", auto_increment_increment and auto_increment_offset.

use std::collections::BTreeMap;

use crate::ids::sequence::SequenceSpec;

/// auto_increment_increment and auto_increment_offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Increments {
    pub increment: u64,
    pub offset: u64,
}

/// The way in which a server counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    pub flavour: Flavour,
    pub increments: Increments,
    /// Galera sets both variables by itself (wsrep_auto_increment_control).
    pub is_galeras: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    MariaDb,
    MySql,
}

/// The variables that [`Counting::of`] must know.
pub const VARIABLES: [&str; 5] = [
    "version",
    "auto_increment_increment",
    "auto_increment_offset",
    "wsrep_on",
    "wsrep_auto_increment_control",
];

impl Counting {
    /// Takes the facts from the server's global variables.
    pub fn of(globals: &BTreeMap<String, String>) -> Counting {
        let word = |name: &str| globals.get(name).map_or("", String::as_str);
        let number = |name: &str| word(name).parse().unwrap_or(1).max(1);
        let is_on = |name: &str| word(name).eq_ignore_ascii_case("on");
        let is_mariadb = word("version").to_ascii_lowercase().contains("mariadb");
        Counting {
            flavour: if is_mariadb { Flavour::MariaDb } else { Flavour::MySql },
            increments: Increments {
                increment: number("auto_increment_increment"),
                offset: number("auto_increment_offset"),
            },
            is_galeras: is_on("wsrep_on") && is_on("wsrep_auto_increment_control"),
        }
    }
}

impl Increments {
    /// True if all ids that the counter hands out are odd. The servers ignore an offset above the increment.
    pub fn are_odd(self) -> bool {
        self.increment.is_multiple_of(2) && !self.offset.is_multiple_of(2) && self.offset <= self.increment
    }
}

/// Which of the servers that take writes one is; alone, the first of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// From 1 up to `of`.
    pub nth: u64,
    pub of: u64,
}

impl Seat {
    /// The server's increments while both kinds of writers live.
    pub fn odd(self) -> Increments {
        let (increment, offset) = (self.of.saturating_mul(2), self.nth.saturating_mul(2).saturating_sub(1));
        Increments { increment, offset }
    }

    /// The server's increments at other times.
    pub fn whole(self) -> Increments {
        Increments { increment: self.of, offset: self.nth }
    }

    /// True if a server with these increments can have this seat.
    pub fn is_of(self, found: Increments) -> bool {
        // With an increment of 1 the servers ignore the offset.
        found == self.odd() || found == self.whole() || (self.of == 1 && found.increment == 1)
    }
}

/// True if all ids that the generator issues are even.
pub fn is_even(spec: &SequenceSpec) -> bool {
    spec.step.get().is_multiple_of(2) && spec.offset.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::{Counting, Flavour, Increments, Seat, is_even};
    use crate::ids::sequence::SequenceSpec;
    use std::collections::BTreeMap;
    use std::num::NonZeroU64;

    #[test]
    fn ids_that_are_odd() {
        let are_odd = |increment, offset| Increments { increment, offset }.are_odd();
        assert!(are_odd(2, 1) && are_odd(6, 3) && are_odd(4, 3));
        // The servers ignore an offset above the increment.
        assert!(!are_odd(1, 1) && !are_odd(2, 3) && !are_odd(2, 2) && !are_odd(3, 1));
    }

    /// The classes of no two servers meet, and none is even; of one seat, the numbers that it counts by.
    #[test]
    fn no_two_servers_share_a_class() {
        for of in 1..=9 {
            let all: Vec<_> = (1..=of).map(|nth| Seat { nth, of }.odd()).collect();
            assert!(all.iter().all(|one| one.are_odd()), "{all:?}");
            for id in 1..200 {
                let count = all.iter().filter(|one| id % one.increment == one.offset % one.increment).count();
                assert!(if id % 2 == 1 { count == 1 } else { count == 0 }, "{id} of {of}");
            }
        }
        let seat = |nth, of, (increment, offset)| Seat { nth, of }.is_of(Increments { increment, offset });
        assert!(
            seat(1, 1, (1, 1))
                && seat(1, 1, (1, 7))
                && seat(1, 1, (2, 1))
                && seat(2, 2, (2, 2))
                && seat(2, 2, (4, 3))
        );
        assert!(!seat(1, 1, (2, 2)) && !seat(1, 1, (4, 1)) && !seat(2, 2, (2, 1)) && !seat(1, 2, (1, 1)));
    }

    #[test]
    fn what_the_variables_say() {
        let of = |rows: &[(&str, &str)]| {
            let own = rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Counting::of(&own.collect::<BTreeMap<_, _>>())
        };
        let plain =
            of(&[("version", "9.4.0"), ("auto_increment_increment", "2"), ("auto_increment_offset", "1")]);
        assert_eq!(
            (plain.flavour, plain.increments.are_odd(), plain.is_galeras),
            (Flavour::MySql, true, false)
        );
        let galera =
            of(&[("version", "10.11.6-MariaDB"), ("wsrep_on", "ON"), ("wsrep_auto_increment_control", "ON")]);
        assert_eq!(
            (galera.flavour, galera.increments.increment, galera.is_galeras),
            (Flavour::MariaDb, 1, true)
        );
    }

    #[test]
    fn even_generators() {
        let of = |step, offset| SequenceSpec {
            step: NonZeroU64::new(step).unwrap(),
            offset,
            ..SequenceSpec::default()
        };
        assert!(is_even(&of(2, 0)) && is_even(&of(4, 2)));
        assert!(!is_even(&of(1, 0)) && !is_even(&of(2, 1)) && !is_even(&of(3, 0)));
    }
}
