//! A packet before and after its ids went in: the tokens of both are laid side by side, and whatever is not an id, its
//! column's name or what docs/design/inserts.md ("The insert id") adds for it must be the client's, blanks and comments included.

use std::ops::Range;

use rowstamp::rewrite::plan::edit::Style;
use rowstamp::rewrite::plan::{InsertPlan, Plan};
use rowstamp::sql::name;

use crate::tree::{Body, Insert, Packet, Piece, Run};

/// What stands for an id.
#[derive(Debug, PartialEq, Eq)]
pub enum Id {
    /// The id, and whether it is wrapped.
    Number(u64, bool),
    /// A `?` of ours, and whether it is wrapped.
    Param(bool),
    /// `LAST_INSERT_ID()+n`
    Behind(u64),
}

/// The ids of one INSERT in the order of its rows, each with the number of its row.
pub type Found = Vec<(usize, Id)>;

struct Sides<'p, 'a> {
    before: &'p Packet<'a>,
    after: &'p Packet<'a>,
    /// Tokens that are the same on both sides.
    pairs: Vec<(usize, usize)>,
}

/// The ids of each of the plan's INSERTs; panics where more than the ids differ.
pub fn compare(plan: &Plan, before: &Packet<'_>, after: &Packet<'_>) -> Vec<Found> {
    // What cannot be read, and holds no INSERT of ours, may follow.
    assert_eq!(before.is_odd, after.is_odd, "whether it can be read");
    assert_eq!(before.statements.len(), after.statements.len(), "statements");
    let mut sides = Sides { before, after, pairs: Vec::new() };
    let mut found = Vec::new();
    for (nth, (old, new)) in before.statements.iter().zip(&after.statements).enumerate() {
        match plan.inserts.iter().find(|insert| insert.statement == nth) {
            Some(insert) => found.push(sides.insert(insert, old, new)),
            None => sides.same(old.tokens.clone(), new.tokens.clone()),
        }
    }
    assert_eq!(found.len(), plan.inserts.len(), "INSERTs of the plan");
    sides.gaps();
    found
}

impl Sides<'_, '_> {
    fn same(&mut self, old: Range<usize>, new: Range<usize>) {
        assert_eq!(old.len(), new.len(), "tokens");
        for (old, new) in old.zip(new) {
            assert_eq!(self.before.tokens[old].kind, self.after.tokens[new].kind);
            assert_eq!(self.before.bytes(old), self.after.bytes(new), "a token has changed");
            self.pairs.push((old, new));
        }
    }

    /// Between tokens that follow each other on both sides, and around all of them.
    fn gaps(&mut self) {
        self.pairs.sort_unstable();
        let start = |packet: &Packet<'_>, token: usize| packet.tokens[token].span.start as usize;
        let end = |packet: &Packet<'_>, token: usize| packet.tokens[token].span.end as usize;
        let (before, after) = (self.before, self.after);
        for two in self.pairs.windows(2) {
            let ((old, new), (old_next, new_next)) = (two[0], two[1]);
            assert!(new < new_next, "tokens have changed places");
            if (old_next, new_next) == (old + 1, new + 1) {
                let was = &before.text[end(before, old)..start(before, old_next)];
                let is = &after.text[end(after, new)..start(after, new_next)];
                assert_eq!(was, is, "blanks or comments have changed");
            }
        }
        let Some(&(old, new)) = self.pairs.first() else { return };
        assert_eq!(before.text[..start(before, old)], after.text[..start(after, new)]);
        let Some(&(old, new)) = self.pairs.last() else { return };
        assert_eq!(before.text[end(before, old)..], after.text[end(after, new)..]);
    }

    fn insert(&mut self, plan: &InsertPlan, old_run: &Run, new_run: &Run) -> Found {
        let old = self.before.insert(old_run).expect("a ruled INSERT that can be read");
        let new = self.after.insert(new_run).expect("an INSERT with its ids that can be read");
        self.same(old_run.tokens.start..old.head.start, new_run.tokens.start..new.head.start);
        self.same(old.head.clone(), new.head.clone());
        let mut found = Found::new();
        let added = match (&old.body, &new.body) {
            (Body::Rows(old_word, old_rows), Body::Rows(new_word, new_rows)) => {
                let has_values = old_rows.iter().any(|row| !row.values.is_empty());
                let place = self.columns(plan, &old, &new, has_values);
                self.same(*old_word..*old_word + 1, *new_word..*new_word + 1);
                assert_eq!(old_rows.len(), new_rows.len(), "rows");
                for (nth, (old, new)) in old_rows.iter().zip(new_rows).enumerate() {
                    self.same(old.start..old.open + 1, new.start..new.open + 1);
                    let added = self.row(nth, (&old.values, &new.values), place, plan, &mut found);
                    assert_eq!(added, place.is_none() && plan.ids > 0);
                    self.same(old.close..old.close + 1, new.close..new.close + 1);
                    let is_last = nth + 1 == old_rows.len();
                    self.same(old.close + 1..old.close + 1 + usize::from(!is_last), {
                        new.close + 1..new.close + 1 + usize::from(!is_last)
                    });
                }
                place.is_none() && plan.ids > 0
            }
            (Body::Set(old_word, old_all), Body::Set(new_word, new_all)) => {
                self.same(*old_word..*old_word + 1, *new_word..*new_word + 1);
                self.assignments(plan, old_all, new_all, &mut found)
            }
            _ => panic!("another form"),
        };
        self.tail(plan, &old, &new, added);
        self.same(old.tail.end..old_run.tokens.end, new.tail.end..new_run.tokens.end);
        found
    }

    /// The id's place in each row; `None`: it was added behind the last value.
    fn columns(&mut self, plan: &InsertPlan, old: &Insert, new: &Insert, has_values: bool) -> Option<usize> {
        let target = &plan.target;
        let column = target.id_column();
        let shown = |packet: &Packet<'_>, pieces: &[Piece]| -> Vec<String> {
            let name = |piece: &Piece| String::from_utf8_lossy(&packet.piece(piece).concat()).into_owned();
            pieces.iter().map(name).collect()
        };
        let visible: Vec<&str> = target
            .shape
            .iter()
            .flat_map(|shape| shape.visible())
            .map(|column| column.name.as_str())
            .collect();
        let takes = plan.ids > 0;
        match (&old.columns, &new.columns) {
            (Some((old_open, old_names, old_close)), Some((new_open, new_names, new_close))) => {
                let is_id = |piece: &Piece| self.before.names(piece.end - 1, column);
                let place = old_names.iter().position(is_id);
                let kept = old_names.len();
                self.same(*old_open..*old_open + 1, *new_open..*new_open + 1);
                for (old, new) in old_names.iter().zip(new_names) {
                    self.same(old.clone(), new.clone());
                    if old.end < *old_close {
                        self.same(old.end..old.end + 1, new.end..new.end + 1);
                    }
                }
                self.same(*old_close..*old_close + 1, *new_close..*new_close + 1);
                if place.is_none() && takes {
                    assert_eq!(new_names.len(), kept + 1, "columns");
                    assert_eq!(ascii(shown(self.after, &new_names[kept..])), ascii([name::quoted(column)]));
                } else {
                    assert_eq!(new_names.len(), kept, "columns");
                }
                place
            }
            (None, Some((_, new_names, _))) => {
                let place = visible.iter().position(|name| name::same_column(name, column));
                let place = place.filter(|_| has_values);
                let mut expected: Vec<String> = if has_values {
                    visible.iter().map(|name| name::quoted(name)).collect()
                } else {
                    Vec::new()
                };
                if place.is_none() && takes {
                    expected.push(name::quoted(column));
                }
                assert_eq!(ascii(shown(self.after, new_names)), ascii(expected), "the added list");
                place
            }
            (None, None) => {
                assert!(!takes && !has_values, "a list of columns is missing");
                None
            }
            (Some(_), None) => panic!("the list of columns is gone"),
        }
    }

    /// Whether an id was added behind the row's values.
    fn row(
        &mut self,
        nth: usize,
        (old, new): (&[Piece], &[Piece]),
        place: Option<usize>,
        plan: &InsertPlan,
        found: &mut Found,
    ) -> bool {
        assert!(old.len() == new.len() || old.len() + 1 == new.len(), "values of a row");
        for (at, (old_value, new_value)) in old.iter().zip(new).enumerate() {
            if place == Some(at) {
                self.value(nth, old_value, new_value, plan, found);
            } else {
                self.same(old_value.clone(), new_value.clone());
            }
            if at + 1 < old.len() {
                self.same(old_value.end..old_value.end + 1, new_value.end..new_value.end + 1);
            }
        }
        let Some(added) = new.get(old.len()) else { return false };
        found.push((nth, self.id(added).expect("an id behind the values")));
        true
    }

    /// The value at the id's place.
    fn value(&mut self, nth: usize, old: &Piece, new: &Piece, plan: &InsertPlan, found: &mut Found) {
        let (was, is) = (self.before.piece(old), self.after.piece(new));
        let null = |word: &[u8]| word.eq_ignore_ascii_case(b"NULL") || word == b"\\N";
        let must_take = matches!(was.as_slice(), [word] if null(word));
        let must_keep = match was.as_slice() {
            [word] => {
                word.len() < 19 && word.iter().all(u8::is_ascii_digit) && word.iter().any(|b| *b > b'0')
            }
            _ => false,
        };
        if was == is {
            assert!(!must_take, "NULL has stayed");
            return self.same(old.clone(), new.clone());
        }
        assert!(!must_keep, "the client's own id is gone");
        let is_default = was[0].eq_ignore_ascii_case(b"DEFAULT");
        if is_default && is == [b"0"] && plan.zero_meant == Some(true) {
            return;
        }
        let id = self.id(new).unwrap_or_else(|| panic!("no id: {}", is.concat().escape_ascii()));
        found.push((nth, id));
    }

    /// What the piece says, if that is an id.
    fn id(&self, piece: &Piece) -> Option<Id> {
        let words = self.after.piece(piece);
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
        Some(match words.as_slice() {
            [b"LAST_INSERT_ID", b"(", b"?", b")"] => Id::Param(true),
            // Of which the server warns, or which it refuses, as it would what the client wrote.
            [b"?"] | [b"CONCAT", b"(", b"?", b",", b"'x'", b")"] => Id::Param(false),
            [text] if text.starts_with(b"'") => {
                Id::Number(number(text.get(1..)?.strip_suffix(b"x'")?)?, false)
            }
            [b"LAST_INSERT_ID", b"(", digits, b")"] => Id::Number(number(digits)?, true),
            [b"LAST_INSERT_ID", b"(", b")", b"+", digits] => Id::Behind(number(digits)?),
            [digits] => Id::Number(number(digits)?, false),
            _ => return None,
        })
    }

    /// SET; whether the id's assignment was added.
    fn assignments(&mut self, plan: &InsertPlan, old: &[Piece], new: &[Piece], found: &mut Found) -> bool {
        let is_id = |packet: &Packet<'_>, piece: &Piece| {
            let equals = packet.equals_of(piece);
            packet.names(equals - 1, plan.target.id_column())
        };
        for (old, new) in old.iter().zip(new) {
            if is_id(self.before, old) {
                let (old_equals, new_equals) = (self.before.equals_of(old), self.after.equals_of(new));
                self.same(old.start..old_equals + 1, new.start..new_equals + 1);
                self.value(0, &(old_equals + 1..old.end), &(new_equals + 1..new.end), plan, found);
            } else {
                self.same(old.clone(), new.clone());
            }
        }
        for (old_next, new_next) in old.iter().skip(1).zip(&new[1..]) {
            self.same(old_next.start - 1..old_next.start, new_next.start - 1..new_next.start);
        }
        let Some(added) = new.get(old.len()) else { return false };
        assert_eq!(new.len(), old.len() + 1, "assignments");
        let column = name::quoted(plan.target.id_column());
        let equals = self.after.equals_of(added);
        assert_eq!(self.after.piece(&(added.start..equals + 1)).concat(), format!("{column}=").as_bytes());
        found.push((0, self.id(&(equals + 1..added.end)).expect("an id behind the assignments")));
        true
    }

    /// The alias's list gets a name, ON DUPLICATE KEY UPDATE an assignment.
    fn tail(&mut self, plan: &InsertPlan, old: &Insert, new: &Insert, added: bool) {
        let (from, to) = (old.tail.start, old.tail.end);
        // Where something is added, and what.
        let mut adds: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        if added && self.before.is_word(from, "AS") {
            self.alias(old, new, &mut adds);
        }
        let old_len: usize = adds.iter().map(|(_, words)| words.len()).sum::<usize>() + old.tail.len();
        if new.tail.len() > old_len {
            assert!(matches!(plan.style, Style::OdkuOne | Style::OdkuLiteral), "something was added");
            let (_, end) = self.before.assignments(self.behind_update(from, to));
            let column = name::quoted(plan.target.id_column());
            let qualified = new.tail.len() - old_len == 9;
            let mut words = vec![b",".to_vec(), column.clone().into_bytes(), b"=".to_vec()];
            words.extend([b"LAST_INSERT_ID".to_vec(), b"(".to_vec()]);
            if qualified {
                assert!(self.before.is_word(from, "AS"), "a qualified name");
                words.extend([name::quoted(&self.table(old)).into_bytes(), b".".to_vec()]);
            }
            words.extend([column.into_bytes(), b")".to_vec()]);
            adds.push((end, words));
        }
        let (mut old_at, mut new_at) = (from, new.tail.start);
        for (at, words) in adds {
            let len = at - old_at;
            self.same(old_at..at, new_at..new_at + len);
            new_at += len;
            assert_eq!(self.after.piece(&(new_at..new_at + words.len())), words, "what was added");
            new_at += words.len();
            old_at = at;
        }
        self.same(old_at..to, new_at..new.tail.end);
    }

    /// The table's own name as the statement spells it.
    fn table(&self, insert: &Insert) -> String {
        let head = insert.head.clone();
        let is_part = |&at: &usize| !self.before.is_word(at, "PARTITION");
        let last = head.skip(1).take_while(is_part).last().expect("a table");
        let bytes = self.before.bytes(last);
        let text = String::from_utf8_lossy(bytes).into_owned();
        match bytes[0] {
            quote @ (b'`' | b'"') => {
                let quote = char::from(quote);
                let inner = &text[1..text.len() - 1];
                inner.replace(&format!("{quote}{quote}"), &quote.to_string())
            }
            _ => text,
        }
    }

    fn alias(&self, old: &Insert, new: &Insert, adds: &mut Vec<(usize, Vec<Vec<u8>>)>) {
        let from = old.tail.start;
        let has_list = self.before.is_sign(from + 2, b'(');
        let listed = old.columns.as_ref().filter(|(_, names, _)| !names.is_empty());
        let close = |packet: &Packet<'_>, from: usize| {
            (from..packet.tokens.len()).find(|&at| packet.is_sign(at, b')'))
        };
        let name_of_ours = || {
            let close = close(self.after, new.tail.start).expect("a list of names");
            let name = self.after.bytes(close - 1).to_vec();
            assert!(name.starts_with(b"rowstamp_id"));
            assert!(!contains(&self.before.text.to_ascii_lowercase(), &name), "a name that is in use");
            name
        };
        if has_list {
            let close = close(self.before, from).expect("the end of the alias's list");
            adds.push((close, vec![b",".to_vec(), name_of_ours()]));
        } else if let Some((_, names, _)) = listed {
            let mut words = vec![b"(".to_vec()];
            for piece in names {
                words.extend([self.before.bytes(piece.end - 1).to_vec(), b",".to_vec()]);
            }
            words.extend([name_of_ours(), b")".to_vec()]);
            adds.push((from + 2, words));
        }
    }

    /// Behind ON DUPLICATE KEY UPDATE.
    fn behind_update(&self, from: usize, to: usize) -> usize {
        let on =
            (from..to).find(|&at| self.before.is_word(at, "ON") && self.before.is_word(at + 1, "DUPLICATE"));
        on.expect("ON DUPLICATE KEY UPDATE") + 4
    }
}

pub fn contains(text: &[u8], piece: &[u8]) -> bool {
    text.windows(piece.len().max(1)).any(|window| window == piece)
}

/// The rest is written in the client's character set, which is not known here.
fn ascii(names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().map(|name| name.chars().filter(char::is_ascii).collect()).collect()
}
