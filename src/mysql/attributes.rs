//! Query attributes: what a COM_QUERY carries in front of its text where CLIENT_QUERY_ATTRIBUTES is negotiated.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html>; measured on 9.7: which types carry a length.

use super::prepared::read_value;
use super::reader::{Malformed, Reader};

/// The bytes between the command byte and the text of a query without attributes: no attribute, one set.
pub const NONE: [u8; 2] = [0, 1];

/// The offset of a COM_QUERY's text in its payload. `negotiated`: CLIENT_QUERY_ATTRIBUTES.
///
/// The server reads some malformed prefixes all the same, as a value that is longer than the packet; these are errors here, for
/// a text that begins elsewhere than we think would be another statement.
pub fn text_at(payload: &[u8], negotiated: bool) -> Result<usize, Malformed> {
    if !negotiated {
        return Ok(1);
    }
    if let [_, 0, 1, ..] = payload {
        return Ok(1 + NONE.len());
    }
    let mut r = Reader::new(payload);
    r.u8("command")?;
    let count = r.lenenc("number of query attributes")?;
    if r.lenenc("number of attribute sets")? != 1 {
        return Err(Malformed::Bad("number of attribute sets"));
    }
    if count > 0 {
        skip(&mut r, count)?;
    }
    Ok(r.position())
}

fn skip(r: &mut Reader<'_>, count: u64) -> Result<(), Malformed> {
    let count = usize::try_from(count).map_err(|_| Malformed::Truncated("query attributes"))?;
    let nulls = r.bytes(count.div_ceil(8), "null bitmap")?;
    if r.u8("flag for attribute types")? != 1 {
        return Err(Malformed::Bad("flag for attribute types"));
    }
    let mut types = Vec::new();
    for _ in 0..count {
        types.push(r.u8("attribute type")?);
        r.u8("attribute flags")?;
        r.lenenc_bytes("attribute name")?;
    }
    for (index, kind) in types.into_iter().enumerate() {
        let is_null = nulls.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
        if !is_null {
            read_value(r, kind)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Malformed, text_at};
    use proptest::prelude::proptest;

    /// MySQL Connector/J 26.10 to MySQL 9.7.4: a string and a NULL.
    const CAPTURED: &[u8] = b"\x03\x02\x01\x02\x01\xfe\x00\x01a\x06\x00\x01b\x02hiSELECT 1";
    /// A string and a NULL BIGINT.
    const TWO: &[u8] = b"\x03\x02\x01\x02\x01\xfe\x00\x01a\x08\x00\x02bc\x02hiSELECT 1";

    #[test]
    fn where_the_text_begins() {
        assert_eq!(text_at(b"\x03SELECT 1", false), Ok(1));
        assert_eq!(text_at(b"\x03\x00\x01SELECT 1", true), Ok(3));
        assert_eq!(text_at(b"\x03\x00\x01", true), Ok(3));
        assert_eq!((text_at(CAPTURED, true), text_at(TWO, true)), (Ok(16), Ok(TWO.len() - 8)));
        for bad in [&b"\x03\x00\x02x"[..], b"\x03\xfb\x01x", b"\x03\x01\x01\x00\x00x"] {
            assert!(matches!(text_at(bad, true), Err(Malformed::Bad(_))), "{bad:?}");
        }
    }

    #[test]
    fn cut_anywhere_more_is_needed() {
        for end in 0..TWO.len() - 8 {
            assert!(matches!(text_at(&TWO[..end], true), Err(Malformed::Truncated(_))), "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            if let Ok(at) = text_at(&payload, true) {
                assert!(at <= payload.len() && at > 2);
            }
        }
    }
}
