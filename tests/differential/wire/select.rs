//! The form of an INSERT ... SELECT, see `rewrite/plan/select` and docs/design/inserts.md: the client's query stands in it whole, its
//! rows are counted and numbered around it. What is around is compared with the form, the rest with the client's text.

use super::edits::{Ids, Known, ids_in};
use super::tokens::READINGS;

const BEGIN: &[u8] = b"WITH `rowstamp q`(";
const NO_LIMIT: &[u8] = b" LIMIT 18446744073709551615";
const MIDDLE: &[u8] = b"),`rowstamp r` AS (SELECT ";
const END: &[u8] = b" FROM `rowstamp r`";
/// `#`: a number, or a parameter of ours.
const COUNT: &str = "LAST_INSERT_ID(LAST_INSERT_ID()+1)";
const ID: &str = "IF(`rowstamp k`># AND `rowstamp k`<=# AND (`rowstamp k`>#+1 OR LAST_INSERT_ID()<=#),\
    IF(LAST_INSERT_ID(#+0*`rowstamp k`)=#,#+(`rowstamp k`-1-#)*#,NULL),18446744073709551615+`rowstamp k`+0*UUID_SHORT())";

/// The numbers in it, in their order; of those that are parameters, only that they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) numbers: Vec<Option<u64>>,
    pub(crate) hidden: Vec<u16>,
}

impl Selected {
    /// First and last of the block of ids. `bound`: what is bound to the parameters.
    pub(crate) fn block(&self, bound: &[u64]) -> Option<(u64, u64)> {
        let mut bound = bound.iter().copied();
        let numbers: Option<Vec<u64>> =
            self.numbers.iter().map(|number| number.or_else(|| bound.next())).collect();
        let numbers = numbers?;
        let [.., last_k, _, _, first, before, step] = numbers[..] else { return None };
        let rows = last_k.checked_sub(before)?.checked_sub(1)?;
        Some((first, first + rows * step))
    }
}

/// What is around the client's text, if `sent` is of this form; `None`: it is not, or differs by more.
pub(crate) fn selected(asked: &[u8], sent: &[u8], known: Known<'_>) -> Option<Selected> {
    let begin = find(sent, BEGIN)?;
    let middle = find(sent, MIDDLE)?;
    let end = find(sent, END)?;
    let (head, names) = (&sent[..begin], sent.get(begin + BEGIN.len()..middle)?);
    let query_at = find(names, b") AS (")? + b") AS (".len();
    let (query, tail) = (&names[query_at..], &sent[end + END.len()..]);
    let columns = names[..query_at].split(|byte| *byte == b',').count();
    let listed = (1..=columns).map(|nth| format!("`rowstamp {nth}`")).collect::<Vec<_>>().join(",");
    let mut rest = Rest(sent.get(middle + MIDDLE.len()..end)?, Vec::new());
    (names[..query_at].strip_suffix(b") AS (")? == listed.as_bytes()).then_some(())?;
    rest.form(&listed)?;
    rest.form(",")?;
    let counted = rest.counted()?;
    rest.form(" AS `rowstamp k` FROM `rowstamp q`")?;
    rest.form(std::str::from_utf8(NO_LIMIT).ok()?)?;
    rest.form(") SELECT ")?;
    let mut given = 0;
    // In front of the client's columns, or in place of one.
    let begin = usize::from(counted != Counted::All);
    for nth in begin..=columns {
        if nth > begin {
            rest.form(",")?;
        }
        given += usize::from(rest.column(nth, counted)?);
    }
    (rest.0.is_empty() && given == 1).then_some(())?;
    let without_limit =
        find(query, NO_LIMIT).map(|at| [&query[..at], &query[at + NO_LIMIT.len()..]].concat());
    let ids = [Some(query.to_vec()), without_limit].into_iter().flatten().find_map(|query| {
        let whole = [head, &query, tail].concat();
        if whole == asked { Some(Ids::default()) } else { ids_in(asked, &whole, known) }
    })?;
    (ids == Ids::default()).then_some(())?;
    let before = READINGS[0].tokens(query).iter().filter(|token| token.is_punct(b'?')).count();
    let hidden = rest.1.iter().filter(|number| number.is_none()).enumerate();
    let hidden = hidden.filter_map(|(nth, _)| u16::try_from(before + nth).ok()).collect();
    Some(Selected { numbers: rest.1, hidden })
}

/// The rows that take an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    All,
    /// Those that bring none, in that column of the query's.
    WithoutId {
        place: usize,
    },
}

/// What is not yet compared, and the numbers found.
struct Rest<'a>(&'a [u8], Vec<Option<u64>>);

impl Rest<'_> {
    /// Takes what the form says.
    fn form(&mut self, form: &str) -> Option<()> {
        let (rest, count) = (self.0, self.1.len());
        for part in form.split_inclusive('#') {
            let text = part.strip_suffix('#');
            let stripped = self.0.strip_prefix(text.unwrap_or(part).as_bytes());
            if stripped.map(|stripped| self.0 = stripped).is_none()
                || text.is_some() && self.number().is_none()
            {
                self.0 = rest;
                self.1.truncate(count);
                return None;
            }
        }
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        if let Some(rest) = self.0.strip_prefix(b"?") {
            (self.0, ()) = (rest, self.1.push(None));
            return Some(());
        }
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.0[..length]).ok()?.parse().ok()?;
        self.1.push(Some(number));
        self.0 = &self.0[length..];
        Some(())
    }

    fn counted(&mut self) -> Option<Counted> {
        if self.form(COUNT).is_some() {
            return Some(Counted::All);
        }
        self.form("IF(`rowstamp #` IS NULL")?;
        let place = self.1.pop()??;
        if self.form(&format!(" OR `rowstamp {place}`=0,{COUNT},NULL)")).is_none() {
            self.form(&format!(",{COUNT},NULL)"))?;
        }
        Some(Counted::WithoutId { place: usize::try_from(place).ok()? })
    }

    /// One of the columns selected. Whether it was the id's: in front of the others, or in place of the client's.
    fn column(&mut self, nth: usize, counted: Counted) -> Option<bool> {
        match counted {
            Counted::All if nth == 0 => self.form(ID).map(|()| true),
            Counted::WithoutId { place } if place == nth => {
                self.form(&format!(
                    "IF(`rowstamp k` IS NULL,IF(LAST_INSERT_ID()<=#,`rowstamp {nth}`,\
                     18446744073709551615+LAST_INSERT_ID()+0*UUID_SHORT()),{ID})"
                ))?;
                Some(true)
            }
            _ => self.form(&format!("`rowstamp {nth}`")).map(|()| false),
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}
