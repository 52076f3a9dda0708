//! The statements that an INSERT ... SELECT becomes, see `rewrite/plan/stage`: a temporary table is made,
//! filled by the client's query, and stored. Each text is compared with its form, and the client's part of it
//! with the client's text.

use super::answers::NO_INDEX_USED;
use super::transcript::Exchange;

pub(crate) const STAGE: &[u8] = b".`rowstamp stage`";
const END: &[u8] = b") AS `rowstamp s` ORDER BY `rowstamp nr`";
const NO_ID: &[u8] = b",18446744073709551615+`rowstamp nr`+0*UUID_SHORT())";

/// First and last of the ids that a stage is stored with; `None`: there are none.
pub(crate) type Run = Option<(u64, u64)>;

/// True if `sent` fills a stage with the query of `asked`.
pub(crate) fn fills(asked: &[u8], sent: &[u8]) -> bool {
    let is_it = || {
        let stage = find(sent, STAGE)?;
        // Before the quoted name of its schema.
        let schema = sent[..stage].strip_suffix(b"`")?;
        let head = schema.iter().rposition(|byte| *byte == b'`')?;
        let rest = sent[stage + STAGE.len()..].trim_ascii_start();
        let first = rest.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
        if first.eq_ignore_ascii_case(b"SET") {
            return Some(asked.starts_with(&sent[..head]) && has_words_of(asked, rest));
        }
        let list = find(&sent[stage..], b") ")? + stage;
        let query = sent.get(list + 2..)?;
        let rest = asked.strip_prefix(&sent[..head])?;
        let is_table = !rest.trim_ascii_start().to_ascii_uppercase().starts_with(b"IGNORE");
        Some(is_table && !query.is_empty() && find(rest, query).is_some())
    };
    is_it() == Some(true)
}

/// True if all words of `part` are in `text`, in their order.
fn has_words_of(mut text: &[u8], part: &[u8]) -> bool {
    part.split(|byte| !byte.is_ascii_alphanumeric()).all(|word| {
        let found = find(text, word);
        text = found.map_or(&[], |at| &text[at + word.len()..]);
        found.is_some()
    })
}

/// The ids that `sent` stores a stage with in place of `asked`; `None`: it does not, or differs by more.
pub(crate) fn stores(asked: &[u8], sent: &[u8]) -> Option<Run> {
    let (begin, run) = stored(sent)?;
    let end = find(sent, END)? + END.len();
    let (head, tail) = (&sent[..begin], &sent[end..]);
    let query = before_tail(asked, tail)?;
    // The id is the first of a list, or all of the list is the proxy's.
    let listed = find(head, b"(`").and_then(|at| {
        let comma = find(&head[at..], b"`,")? + at + 2;
        Some([&head[..=at], &head[comma..]].concat())
    });
    let unlisted = head.strip_suffix(b") ").and_then(|head| {
        let open = head.windows(2).rposition(|two| two == b"(`")?;
        Some(head[..open].to_vec())
    });
    let heads = [Some(head.to_vec()), listed, unlisted];
    heads.into_iter().flatten().find(|head| query.starts_with(head)).map(|_| run)
}

/// `asked` without what follows its query. Names of the query's columns may be the stage's in `tail`.
fn before_tail<'a>(mut asked: &'a [u8], mut tail: &[u8]) -> Option<&'a [u8]> {
    const COLUMN: &[u8] = b"`rowstamp c";
    while let Some(at) = memchr::memmem::rfind(tail, COLUMN) {
        let (_, rest) = digits(&tail[at + COLUMN.len()..]);
        asked = before_name(asked.strip_suffix(rest.strip_prefix(b"`")?)?)?;
        tail = &tail[..at];
    }
    asked.strip_suffix(tail)
}

/// `text` without the name that ends it, and what qualifies that.
fn before_name(text: &[u8]) -> Option<&[u8]> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'`');
    let name = text.iter().rev().take_while(|byte| is_of_name(byte)).count();
    let rest = &text[..text.len() - name];
    match rest.trim_ascii_end().strip_suffix(b".") {
        Some(qualifier) => before_name(qualifier.trim_ascii_end()),
        None => (name > 0).then_some(rest),
    }
}

/// The place where the query begins that reads a stage, and the ids in it.
pub(crate) fn stored(sent: &[u8]) -> Option<(usize, Run)> {
    let begin = [&b"SELECT `rowstamp c1`"[..], b"SELECT IF(`rowstamp c1`", b"SELECT IF(("]
        .iter()
        .filter_map(|begin| find(sent, begin))
        .min()?;
    let middle = &sent[begin..find(sent, END)? + END.len()];
    (find(middle, STAGE).is_some() && middle.starts_with(b"SELECT ")).then_some(())?;
    let Some(no_id) = find(middle, NO_ID) else { return Some((begin, None)) };
    let step_at = middle[..no_id].iter().rposition(|byte| *byte == b'*')?;
    let step = number(&middle[step_at + 1..no_id])?;
    // `IF(<nth><ids,first+<nth>*step`
    let less = find(middle, b"<")?;
    let (ids, rest) = digits(&middle[less + 1..]);
    let (first, _) = digits(rest.strip_prefix(b",")?);
    let (ids, first) = (number(ids)?, number(first)?);
    Some((begin, ids.checked_sub(1).map(|others| (first, first + others * step))))
}

/// The statement that fills a stage, by its OK packet.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Filled {
    /// The client's OK packet counts them with those of the statement that stores the stage.
    pub(crate) warnings: i32,
    pub(crate) no_index_used: bool,
    /// The OK packet tells of no records.
    pub(crate) is_one: bool,
}

pub(crate) fn filled(sent: &Exchange) -> Filled {
    match sent.answer.last().map(Vec::as_slice) {
        Some([0x00, rest @ ..]) => {
            let skip = |rest: &[u8]| match rest.first() {
                Some(0xFC) => 3,
                Some(0xFD) => 4,
                Some(0xFE) => 9,
                _ => 1,
            };
            let rows = skip(rest);
            let id = rows + skip(rest.get(rows..).unwrap_or_default());
            match rest.get(id..id + 4) {
                Some(&[status, _, low, high]) => Filled {
                    warnings: u16::from_le_bytes([low, high]).into(),
                    no_index_used: u16::from(status) & NO_INDEX_USED != 0,
                    is_one: find(rest, b"Records: ").is_none(),
                },
                _ => Filled::default(),
            }
        }
        _ => Filled::default(),
    }
}

/// How many zero dates the stage has, of which the server warns again when they are stored: digits in hexadecimal.
pub(crate) fn zero_dates(sent: &Exchange) -> Option<u16> {
    if !sent.text().starts_with(b"SELECT HEX(CONCAT(0+COUNT(") {
        return None;
    }
    let row = sent.answer.iter().find_map(|packet| match &packet[..] {
        [length, text @ ..] if text.len() == usize::from(*length) && text.starts_with(b"3") => Some(text),
        _ => None,
    })?;
    let digits: Vec<u8> = row.iter().skip(1).step_by(2).copied().collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// True if the client was told this error, with the table's name in place of the stage's.
pub(crate) fn is_told(told: &[u8], error: &[u8]) -> bool {
    const NAME: &[u8] = b"rowstamp stage";
    let Some(at) = find(error, NAME) else { return told == error };
    told.starts_with(&error[..at]) && told.ends_with(&error[at + NAME.len()..])
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

#[test]
fn the_forms_of_a_stage() {
    let asked = b"insert ignore t (a) select a from s returning id";
    assert!(fills(asked, b"insert ignore `d`.`rowstamp stage` (`a`) select a from s"));
    assert!(!fills(asked, b"insert ignore `d`.`rowstamp stage` (`a`) select b from s"));
    assert!(!fills(asked, b"insert `d`.`rowstamp stage` (`a`) select a from s"));
    let sent = |id: &str| {
        format!(
            "insert ignore t (`id`,a) SELECT {id},`rowstamp c1` FROM (SELECT `rowstamp nr`,`a` AS `rowstamp c1` FROM \
             `d`.`rowstamp stage`) AS `rowstamp s` ORDER BY `rowstamp nr` returning id"
        )
    };
    let id =
        "IF((`rowstamp nr`-4)<16,1000+(`rowstamp nr`-4)*2,18446744073709551615+`rowstamp nr`+0*UUID_SHORT())";
    let stored = |sent: &str| stores(asked, sent.as_bytes());
    assert_eq!(stored(&sent(id)), Some(Some((1000, 1030))));
    assert_eq!(stored(&sent(id).replace("<16", "<0")), Some(None));
    assert_eq!(stored(&sent(id).replace("returning", "Returning")), None);
    assert_eq!(stored(&sent(id).replace("ignore", "")), None);
    assert_eq!(stored(&sent("7")), None);
    assert!(is_told(b"for column `d`.`t`.`a`", b"for column `d`.`rowstamp stage`.`a`"));
    assert!(!is_told(b"for column `d`.`t`.`b`", b"for column `d`.`rowstamp stage`.`a`"));
}
