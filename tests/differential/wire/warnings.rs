//! SHOW WARNINGS after what went by way of a stage: what the server said when the stage was filled comes first, under the
//! table's name.

use super::transcript::Exchange;

const SHOW: &[u8] = b"SHOW WARNINGS";
const STAGE: &[u8] = b"rowstamp stage";
/// The columns of the answer to SHOW WARNINGS.
const COLUMNS: usize = 3;

pub(crate) fn is_show(exchange: &Exchange) -> bool {
    exchange.text() == SHOW
}

/// True if `told` has the server's warnings from when the stage was `filled`, then those from when the rows
/// were `stored`, less the number that it `repeated`.
pub(crate) fn are_told(
    told: &[Vec<u8>],
    filled: &[Vec<u8>],
    (stored, repeated): (Option<&[Vec<u8>]>, u16),
) -> bool {
    let [head, first, end] = parts(filled);
    let [head, second, end] = stored.map_or([head, &[], end], parts);
    let [told_head, rows, told_end] = parts(told);
    told_head == head
        && told_end == end
        && rows.len() + usize::from(repeated) == first.len() + second.len()
        && rows.iter().zip(first).all(|(told, said)| is_renamed(told, said))
        && is_part(&rows[first.len()..], second)
}

/// True if `all` has these, in this order, and perhaps others.
fn is_part(rows: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut all = all.iter();
    rows.iter().all(|row| all.any(|one| one == row))
}

/// The packets before the rows, the rows, and the end.
fn parts(answer: &[Vec<u8>]) -> [&[Vec<u8>]; 3] {
    let has_eof =
        answer.get(COLUMNS + 1).is_some_and(|packet| packet.first() == Some(&0xFE) && packet.len() == 5);
    let is_only_end = answer.len() == COLUMNS + 2;
    let head = COLUMNS + 1 + usize::from(has_eof && !is_only_end);
    let (head, rest) = answer.split_at(head.min(answer.len()));
    let (rows, end) = rest.split_at(rest.len().saturating_sub(1));
    [head, rows, end]
}

/// True if a row is the server's own. If it names the stage: if level, code and the text after the name are.
fn is_renamed(told: &[u8], said: &[u8]) -> bool {
    let Some(first) = memchr::memmem::find(said, STAGE) else { return told == said };
    let last = memchr::memmem::rfind(said, STAGE).unwrap_or(first) + STAGE.len();
    // The message's length, before which level and code stand, is another.
    let message_at = 1 + usize::from(said[0]);
    let message_at = message_at + 1 + usize::from(said[message_at]);
    told.starts_with(&said[..message_at]) && told.ends_with(&said[last..])
}
