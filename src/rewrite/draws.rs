//! Drawn ids in place of the calls that draw them, in the client's own bytes.

use crate::rewrite::plan::PlanRefusal;
use crate::rewrite::plan::edit::put_digits;
use crate::sql::charset::char_bytes;
use crate::sql::dialect::ClientCharset;
use crate::sql::draws::{Call, CallForm, CallPlace, Draws, TAKEN_MAX};
use crate::sql::lex::{Span, is_name_byte};

/// The value in place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallValue {
    /// The server's own: it stays.
    Left,
    Id(u64),
    /// The session has drawn none yet.
    Null,
    /// A parameter of ours, bound at each execution.
    Param,
}

impl CallValue {
    pub fn id(self) -> Option<u64> {
        if let CallValue::Id(id) = self { Some(id) } else { None }
    }
}

/// More are cut off, as the server does with the text of a column.
const NAME_CHARS_MAX: usize = 255;

/// Why a call draws no id, and what to write instead; `None`: it draws.
pub fn refusal(call: &Call, generator: &str) -> Option<PlanRefusal> {
    if call.form == CallForm::Take(None) {
        return Some(PlanRefusal::new(format!(
            "the number of ids for ROWSTAMP_TAKE is not written as a number from 1 to {TAKEN_MAX}; write the number"
        )));
    }
    let CallPlace::Several(what) = call.place else { return None };
    let form = match call.form {
        CallForm::Next => format!("NEXTVAL({generator})"),
        CallForm::Previous => format!("LASTVAL({generator})"),
        CallForm::Take(_) => format!("ROWSTAMP_TAKE({generator}, n)"),
    };
    Some(PlanRefusal::new(format!(
        "{form} is in {what}; run SET @id = {form} first, and write @id in its place"
    )))
}

/// The text with `values`, one for each of its calls. `None`: they are not of this text.
pub fn write(text: &[u8], draws: &Draws, values: &[CallValue], charset: ClientCharset) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + 80 * draws.calls.len());
    let mut from = 0;
    let mut put_up_to = |out: &mut Vec<u8>, up_to: u32, then: u32| {
        out.extend_from_slice(text.get(from..up_to as usize)?);
        from = then as usize;
        Some(())
    };
    let mut unnamed = draws.unnamed.iter().peekable();
    let ours = draws.calls.iter().zip(values).filter(|(_, value)| **value != CallValue::Left);
    let is_drawn = |span: &Span| {
        let mut within = ours.clone();
        within.any(|(call, _)| span.start <= call.span.start && call.span.end <= span.end)
    };
    for (call, value) in ours.clone() {
        while let Some(column) = unnamed.next_if(|column| column.end <= call.span.start) {
            if is_drawn(column) {
                put_up_to(&mut out, column.end, column.end)?;
                put_name(&mut out, column.of(text), charset)?;
            }
        }
        put_up_to(&mut out, call.span.start, call.span.end)?;
        // The version of a comment that is code would go on: `/*!500007`.
        if out.last().is_some_and(u8::is_ascii_digit) {
            out.push(b' ');
        }
        put_value(&mut out, call, *value);
        // `7FROM` and `7.` would be other tokens.
        if text.get(call.span.end as usize).is_some_and(|&byte| is_name_byte(byte) || byte == b'.') {
            out.push(b' ');
        }
    }
    for column in unnamed.filter(|column| is_drawn(column)) {
        put_up_to(&mut out, column.end, column.end)?;
        put_name(&mut out, column.of(text), charset)?;
    }
    out.extend_from_slice(text.get(from..)?);
    Some(out)
}

/// Writes the value. In a select list it is an expression of the type that MariaDB gives to the call, a BIGINT that may
/// be NULL and is 20 characters wide (measured on 10.11): a literal's type depends on its digits.
fn put_value(out: &mut Vec<u8>, call: &Call, value: CallValue) {
    let in_list = matches!(call.place, CallPlace::Once { in_list: true, .. });
    if in_list {
        out.extend_from_slice(b"CASE WHEN 1 THEN ");
    }
    match value {
        CallValue::Left => {}
        CallValue::Id(id) => put_digits(out, id),
        CallValue::Param => out.push(b'?'),
        CallValue::Null => out.extend_from_slice(b"NULL"),
    }
    if in_list {
        out.extend_from_slice(b" WHEN 0 THEN 9223372036854775807 END");
    }
}

/// A column's own text as its name.
fn put_name(out: &mut Vec<u8>, text: &[u8], charset: ClientCharset) -> Option<()> {
    // No name has a zero byte, and what follows two minus signs and a blank is a comment.
    if text.contains(&0) || text.ends_with(b"--") {
        return None;
    }
    out.extend_from_slice(b" AS `");
    let mut rest = text;
    for _ in 0..NAME_CHARS_MAX {
        let bytes = match rest.first() {
            None => break,
            Some(0..0x80) => 1,
            Some(_) => char_bytes(charset, rest)?,
        };
        let (character, after) = rest.split_at_checked(bytes)?;
        if character == b"`" {
            out.push(b'`');
        }
        out.extend_from_slice(character);
        rest = after;
    }
    out.push(b'`');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{CallValue, write};
    use crate::sql::dialect::Dialect;
    use crate::sql::draws::find;
    use crate::sql::lex::Lexer;

    /// Ids 7, 8, 9; `-` leaves a call, `0` makes it NULL.
    #[track_caller]
    fn check(text: &str, values: &str, expect: &str) {
        let dialect = Dialect::MARIADB;
        let (draws, _) = find(Lexer::new(text.as_bytes(), dialect).unwrap(), false).unwrap();
        let value = |letter: char| match letter {
            '-' => CallValue::Left,
            '?' => CallValue::Param,
            '0' => CallValue::Null,
            digit => CallValue::Id(u64::from(digit.to_digit(10).unwrap())),
        };
        let values: Vec<_> = values.chars().map(value).collect();
        assert_eq!(values.len(), draws.calls.len(), "{text}");
        let written = write(text.as_bytes(), &draws, &values, dialect.charset).unwrap();
        let typed = |n: &str| format!("CASE WHEN 1 THEN {n} WHEN 0 THEN 9223372036854775807 END");
        let expect = expect
            .replace("{7}", &typed("7"))
            .replace("{8}", &typed("8"))
            .replace("{0}", &typed("NULL"))
            .replace("{?}", &typed("?"));
        assert_eq!(String::from_utf8(written).unwrap(), expect, "{text}");
    }

    #[test]
    fn ids_in_place_of_calls() {
        check("SELECT NEXTVAL(g)", "7", "SELECT {7} AS `NEXTVAL(g)`");
        check("SELECT NEXTVAL(`g`)+1 , 2", "7", "SELECT {7}+1 AS `NEXTVAL(``g``)+1` , 2");
        check(
            "SELECT NEXTVAL(g) a, LASTVAL(g)FROM dual",
            "70",
            "SELECT {7} a, {0}  AS `LASTVAL(g)`FROM dual",
        );
        check("SELECT NEXTVAL(g) FROM dual", "7", "SELECT {7} AS `NEXTVAL(g)` FROM dual");
        check("SELECT NEXTVAL(h), NEXTVAL(g)", "-8", "SELECT NEXTVAL(h), {8} AS `NEXTVAL(g)`");
        check("SELECT (SELECT NEXTVAL(g)), 'é'", "7", "SELECT (SELECT {7}) AS `(SELECT NEXTVAL(g))`, 'é'");
        check("INSERT INTO t VALUES(NEXTVAL(g),LASTVAL(g))", "70", "INSERT INTO t VALUES(7,NULL)");
        check("SET @a=NEXT VALUE FOR g,@b=NEXTVAL(g)", "78", "SET @a=7,@b=8");
        check("SELECT ?, NEXTVAL(g)", "?", "SELECT ?, {?} AS `NEXTVAL(g)`");
        check("INSERT INTO t VALUES(NEXTVAL(g),?)", "?", "INSERT INTO t VALUES(?,?)");
        check("DO NEXTVAL(g).5", "7", "DO 7 .5");
        check("UPDATE t SET a=NEXTVAL(g)WHERE b=1 LIMIT 1", "7", "UPDATE t SET a=7 WHERE b=1 LIMIT 1");
    }

    #[test]
    fn a_long_column_has_the_beginning_of_its_text_as_name() {
        let sum = "+1".repeat(200);
        let name = &format!("NEXTVAL(g){sum}")[..255];
        check(&format!("SELECT NEXTVAL(g){sum}"), "7", &format!("SELECT {{7}}{sum} AS `{name}`"));
    }
}
