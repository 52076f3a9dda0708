//! Calls that draw ids: all that changes in a text is their places, and the names of columns that had none; and what is
//! written holds no call any more that was drawn for.

use rowstamp::rewrite::draws::{CallValue, write};
use rowstamp::sql::dialect::{ClientCharset, Dialect};
use rowstamp::sql::draws::{Call, CallPlace, Draws, find, may_be_in};
use rowstamp::sql::lex::{Lexer, TokenKind};

use crate::input::{self, Input};

/// The first id: no input writes it.
const FIRST_ID: u64 = 7_000_000_000_001;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let (several, left) = (input.byte() & 1 == 1, input.byte());
    let text = input.rest();
    let Ok((draws, cut)) = find(Lexer::new(text, dialect).expect("shorter than 4 GiB"), several) else {
        return;
    };
    if let Some(cut) = cut {
        assert!(several && text[cut as usize - 1] == b';', "cut behind a statement");
    }
    if draws.calls.is_empty() {
        return;
    }
    assert!(may_be_in(text), "the first look sees each call");
    assert!(draws.calls.windows(2).all(|two| two[0].span.end <= two[1].span.start), "in the text's order");
    // Calls of the server's own, and ids of the others.
    let value = |nth: usize| match left >> (nth % 8) & 1 {
        1 => CallValue::Left,
        _ if nth % 5 == 4 => CallValue::Null,
        _ => CallValue::Id(FIRST_ID + nth as u64),
    };
    let values: Vec<_> = (0..draws.calls.len()).map(value).collect();
    let Some(after) = write(text, &draws, &values, dialect.charset) else {
        let is_any_a_name = dialect.charset == ClientCharset::Latin1
            && !text.contains(&0)
            && !draws.unnamed.iter().any(|column| column.of(text).ends_with(b"--"));
        assert!(!is_any_a_name, "each byte is a character");
        return;
    };
    let is_one_byte =
        matches!(dialect.charset, ClientCharset::Latin1 | ClientCharset::Safe | ClientCharset::OneByte(_));
    // Where characters of several bytes end, the lexer alone knows.
    let is_plain = is_one_byte || dialect.charset == ClientCharset::Utf8 || text.is_ascii();
    if several || !is_plain {
        return;
    }
    assert_eq!(tokens(&after, dialect), expected(text, &draws, &values, dialect), "{}", after.escape_ascii());
    let (again, _) =
        find(Lexer::new(&after, dialect).expect("shorter than 4 GiB"), false).expect("it was read");
    let kept = values.iter().filter(|value| **value == CallValue::Left).count();
    assert_eq!(again.calls.len(), kept, "{}", after.escape_ascii());
}

/// The statement's tokens, each by its bytes.
fn tokens(text: &[u8], dialect: Dialect) -> Vec<Vec<u8>> {
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    let mut found = Vec::new();
    loop {
        let token = lexer.next().expect("what was read is read again");
        if matches!(token.kind, TokenKind::End | TokenKind::Punct(b';')) {
            return found;
        }
        found.push(token.span.of(text).to_vec());
    }
}

/// Those of the client's, with what stands for each call.
fn expected(text: &[u8], draws: &Draws, values: &[CallValue], dialect: Dialect) -> Vec<Vec<u8>> {
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    let served = || draws.calls.iter().zip(values).filter(|(_, value)| **value != CallValue::Left);
    let mut ended = draws
        .unnamed
        .iter()
        .filter(|column| served().any(|(call, _)| column.range().contains(&(call.span.start as usize))))
        .peekable();
    let mut found = Vec::new();
    loop {
        let token = lexer.next().expect("it was read");
        let ends = matches!(token.kind, TokenKind::End | TokenKind::Punct(b';'));
        while ended.next_if(|column| ends || column.end <= token.span.start).is_some() {
            found.push(b"AS".to_vec());
            found.push(Vec::new());
        }
        if ends {
            break;
        }
        match served().find(|(call, _)| call.span.range().contains(&(token.span.start as usize))) {
            Some((call, value)) if call.span.start == token.span.start => put(&mut found, call, *value),
            Some(_) => {}
            None => found.push(token.span.of(text).to_vec()),
        }
    }
    // Names, in their order.
    let mut columns = draws
        .unnamed
        .iter()
        .filter(|column| served().any(|(call, _)| column.range().contains(&(call.span.start as usize))));
    for name in found.iter_mut().filter(|token| token.is_empty()) {
        *name = quoted(columns.next().expect("a column").of(text), dialect);
    }
    found
}

fn put(found: &mut Vec<Vec<u8>>, call: &Call, value: CallValue) {
    let digits = match value {
        CallValue::Id(id) => id.to_string(),
        _ => "NULL".to_owned(),
    };
    let in_list = matches!(call.place, CallPlace::Once { in_list: true, .. });
    let words = if in_list {
        format!("CASE WHEN 1 THEN {digits} WHEN 0 THEN 9223372036854775807 END")
    } else {
        digits
    };
    found.extend(words.split(' ').map(|word| word.as_bytes().to_vec()));
}

/// A column's text as its name.
fn quoted(text: &[u8], dialect: Dialect) -> Vec<u8> {
    let characters: Vec<Vec<u8>> = match std::str::from_utf8(text) {
        Ok(text) if dialect.charset == ClientCharset::Utf8 => {
            text.chars().map(|c| c.to_string().into_bytes()).collect()
        }
        _ => text.iter().map(|byte| vec![*byte]).collect(),
    };
    let mut name = vec![b'`'];
    for character in characters.into_iter().take(255) {
        name.extend(std::iter::repeat_n(b'`', usize::from(character == b"`")));
        name.extend(character);
    }
    name.push(b'`');
    name
}
