//! The statements that a LOAD becomes: the client's own statement, and its file, go into a stage, and an
//! INSERT ... SELECT of ours stores it. The client gets the counts of both in the form of a LOAD's answer.

use super::answers::as_load;
use super::stage::{Run, STAGE, find, stored};
use super::transcript::Exchange;

/// The LOAD that filled a stage, as the server answered it.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    /// The packet that asked for a file, if there was one.
    request: Option<Vec<u8>>,
    /// `Records: 3  Deleted: 0  Skipped: 0  Warnings: 0`
    numbers: Vec<u64>,
}

pub(crate) fn is_load(text: &[u8]) -> bool {
    let text = text[prefix(text).len()..].trim_ascii_start();
    text.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"LOAD"))
}

/// `SET STATEMENT ... FOR`
fn prefix(text: &[u8]) -> &[u8] {
    let is_set = text.starts_with(b"SET STATEMENT ");
    let end = find(text, b" FOR LOAD").filter(|_| is_set).map_or(0, |at| at + b" FOR".len());
    &text[..end]
}

/// True if the client was asked for a file before it was answered.
pub(crate) fn asks_first(answer: &[Vec<u8>]) -> bool {
    matches!(answer, [request, _] if request.first() == Some(&0xFB))
}

/// True if `sent` is the client's LOAD, whose text is `theirs`, with the stage's name. It has a column list
/// where the client's had none. The table's name before a column, and PARTITION, may be gone.
pub(crate) fn fills(theirs: &[u8], asked: &Exchange, sent: &Exchange) -> bool {
    let ours = sent.text();
    let is_it = || {
        let stage = find(ours, STAGE)?;
        let schema = ours[..stage].strip_suffix(b"`")?;
        let head = schema.iter().rposition(|byte| *byte == b'`')?;
        let mut rest = theirs.strip_prefix(&ours[..head])?;
        let tail = &ours[stage + STAGE.len()..];
        let mut before = 0;
        for word in tail.split(|byte| !byte.is_ascii_alphanumeric()) {
            // The word is in a list of ours.
            let is_quoted = before > 0 && tail[before - 1] == b'`';
            before += word.len() + 1;
            match find(rest, word) {
                Some(at) => rest = &rest[at + word.len()..],
                None if is_quoted => {}
                None => return None,
            }
        }
        Some(asked.sent[1..] == sent.sent[1..])
    };
    is_load(theirs) && is_it() == Some(true)
}

/// The ids that `sent` stores the stage of a LOAD with, and whether it replaces rows.
pub(crate) fn stores(asked: &[u8], sent: &[u8]) -> Option<(Run, bool)> {
    if !is_load(asked) {
        return None;
    }
    let upper = asked.to_ascii_uppercase();
    let has = |word: &[u8]| find(&upper, word).is_some();
    // In front of INTO: not the IGNORE of lines.
    let into = find(&upper, b"INTO TABLE")?;
    let before = &upper[..into];
    let (replaces, ignores) = (find(before, b"REPLACE").is_some(), find(before, b"IGNORE").is_some());
    let head: &[u8] = match () {
        () if replaces => b"REPLACE INTO ",
        () if ignores || has(b" LOCAL ") => b"INSERT IGNORE INTO ",
        () => b"INSERT INTO ",
    };
    let (begin, run) = stored(sent)?;
    let is_it =
        sent.strip_prefix(prefix(asked)).is_some_and(|sent| sent.trim_ascii_start().starts_with(head))
            && find(&sent[..begin], b"`)").or(find(&sent[..begin], b"(`")).is_some();
    (is_it && sent.ends_with(b" ORDER BY `rowstamp nr`")).then_some((run, replaces))
}

impl Filled {
    pub(crate) fn of(sent: &Exchange) -> Option<Filled> {
        let (last, first) = sent.answer.split_last()?;
        let info = find(last, b"Records: ")?;
        let text = String::from_utf8_lossy(&last[info..]).into_owned();
        let numbers = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Some(Filled { request: first.first().cloned(), numbers })
    }

    /// The answer that the client must get. `answer` is the server's when the rows were stored.
    pub(crate) fn told(&self, answer: &[Vec<u8>], replaces: bool) -> Vec<Vec<u8>> {
        let &[records, _, skipped, ..] = &self.numbers[..] else { return Vec::new() };
        let stored = answer.iter().map(|packet| as_load(packet, (records, skipped), replaces));
        self.request.iter().cloned().chain(stored).collect()
    }
}
