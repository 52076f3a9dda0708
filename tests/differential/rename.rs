//! Generated ids become names, so that two runs compare whatever numbers they were given.
//!
//! A number counts as generated if it lies from `FIRST_ID` to below `SERVERS_OWN_FIRST_ID` and the case does
//! not write it itself. An id that the server gave without the proxy keeps its number and fits nothing. Ids
//! get their names (`#1`, `#2`) by first appearance in the tables, where they are read in ascending order: a
//! run that gave ids in another order, or to other rows, gets other names. A number that never was in a table
//! (a burned id that a function still shows, arithmetic on ids) is named apart (`~1`), so that it does not
//! shift all others.

use std::collections::{BTreeMap, BTreeSet};

use crate::differential::run::{FIRST_ID, SERVERS_OWN_FIRST_ID};

#[derive(Debug, Default)]
pub(crate) struct Renamer {
    explicit: BTreeSet<u128>,
    in_tables: BTreeMap<u128, usize>,
    elsewhere: BTreeMap<u128, usize>,
}

impl Renamer {
    pub(crate) fn new(case_text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(case_text);
        let explicit = parts(&text).filter_map(|(_, number)| number).collect();
        Renamer { explicit, ..Renamer::default() }
    }

    /// Names the ids of a table, read in its order; the new ones, as they came.
    pub(crate) fn see_table(&mut self, text: &str) -> Vec<u128> {
        let mut new = Vec::new();
        for number in parts(text).filter_map(|(_, number)| number) {
            if self.is_generated(number) && !self.in_tables.contains_key(&number) {
                self.in_tables.insert(number, self.in_tables.len() + 1);
                new.push(number);
            }
        }
        new
    }

    pub(crate) fn rename(&mut self, text: &str) -> String {
        let mut renamed = String::new();
        for (part, number) in parts(text) {
            match number.filter(|number| self.is_generated(*number)) {
                Some(number) => renamed.push_str(&self.name(number)),
                None => renamed.push_str(part),
            }
        }
        renamed
    }

    /// True if the ids seen in tables are one run without gaps.
    pub(crate) fn ids_in_tables_adjoin(&self) -> bool {
        let mut ids = self.in_tables.keys();
        let mut last = ids.next().copied();
        ids.all(|id| last.replace(*id).is_some_and(|before| before + 1 == *id))
    }

    fn name(&mut self, number: u128) -> String {
        if let Some(name) = self.in_tables.get(&number) {
            return format!("#{name}");
        }
        let next = self.elsewhere.len() + 1;
        format!("~{}", self.elsewhere.entry(number).or_insert(next))
    }

    fn is_generated(&self, number: u128) -> bool {
        let generated = u128::from(FIRST_ID)..u128::from(SERVERS_OWN_FIRST_ID);
        generated.contains(&number) && !self.explicit.contains(&number)
    }
}

/// The text cut into runs of digits (with their value, if it has one) and what lies between.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<u128>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_number = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        // No server writes an id with leading zeros: that is a bit string or a date.
        let is_id = is_number && !part.starts_with('0');
        Some((part, is_id.then(|| part.parse().ok()).flatten()))
    })
}

#[test]
fn ids_are_named_by_their_first_place_in_a_table() {
    let mut renamer = Renamer::new(b"INSERT 2000000");
    assert_eq!(
        renamer.see_table("(5, 'x')(1000007, 'a')(1000009, 'b')(2000000, 'c')"),
        [1_000_007, 1_000_009]
    );
    let text = "Duplicate 1000009, 1000007; burned 1000008, again 1000008 and 2000000 and 5";
    assert_eq!(renamer.rename(text), "Duplicate #2, #1; burned ~1, again ~1 and 2000000 and 5");
    assert_eq!(renamer.rename("12000001"), "12000001", "the server's own");
    assert_eq!(Renamer::new(b"b'01000001'").rename("1000001, 01000001"), "~1, 01000001");
    assert!(!renamer.ids_in_tables_adjoin());
    assert!(renamer.see_table("(1000008)").len() == 1 && renamer.ids_in_tables_adjoin());
}
