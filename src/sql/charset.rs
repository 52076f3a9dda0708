//! Finds where a character ends. Source of the byte ranges: the servers' strings/ctype-*.c.

use super::dialect::ClientCharset;

/// Bytes of the character at the start of `bytes`, whose first byte is 0x80 or above; `None` where
/// the server may see another end than we do.
pub(crate) fn char_bytes(charset: ClientCharset, bytes: &[u8]) -> Option<usize> {
    let &[lead, ref rest @ ..] = bytes else { return None };
    match charset {
        ClientCharset::Utf8 => utf8_bytes(bytes),
        ClientCharset::Latin1 | ClientCharset::OneByte(_) | ClientCharset::Safe => Some(1),
        ClientCharset::Gbk => {
            two((0x81..=0xFE).contains(&lead), rest, |b| matches!(b, 0x40..=0x7E | 0x80..=0xFE))
        }
        ClientCharset::Big5 => {
            two((0xA1..=0xF9).contains(&lead), rest, |b| matches!(b, 0x40..=0x7E | 0xA1..=0xFE))
        }
        ClientCharset::Sjis => {
            if matches!(lead, 0xA1..=0xDF) {
                return Some(1);
            }
            two(matches!(lead, 0x81..=0x9F | 0xE0..=0xFC), rest, |b| matches!(b, 0x40..=0x7E | 0x80..=0xFC))
        }
        ClientCharset::Gb18030 => gb18030_bytes(lead, rest),
        ClientCharset::Unknown => None,
    }
}

fn two(lead_fits: bool, rest: &[u8], trail_fits: fn(u8) -> bool) -> Option<usize> {
    (lead_fits && rest.first().is_some_and(|&b| trail_fits(b))).then_some(2)
}

fn gb18030_bytes(lead: u8, rest: &[u8]) -> Option<usize> {
    if !(0x81..=0xFE).contains(&lead) {
        return None;
    }
    match *rest {
        [0x40..=0x7E | 0x80..=0xFE, ..] => Some(2),
        [0x30..=0x39, 0x81..=0xFE, 0x30..=0x39, ..] => Some(4),
        _ => None,
    }
}

fn utf8_bytes(bytes: &[u8]) -> Option<usize> {
    let len = match bytes.first()? {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..len)?).is_ok().then_some(len)
}

/// True if the bytes of a string or comment may be skipped one by one: no character has a byte after its first that
/// looks like a quote, a backslash or another ASCII sign.
pub(super) fn skips_bytewise(charset: ClientCharset) -> bool {
    matches!(
        charset,
        ClientCharset::Utf8 | ClientCharset::Latin1 | ClientCharset::OneByte(_) | ClientCharset::Safe
    )
}
