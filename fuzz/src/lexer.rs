//! The lexer and what looks at bytes without it: tokens in order, nothing but blanks and comments between them, and all
//! ways of reading on agree.

use rowstamp::sql::dialect::{ClientCharset, Dialect, SqlMode};
use rowstamp::sql::lex::{Lexer, Odd, Token, TokenKind};
use rowstamp::sql::look::{Glance, glance};
use rowstamp::sql::statement::{self, Statement};
use rowstamp::sql::{hint, name, value};

use crate::gap;
use crate::input::{self, Input};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let cut = usize::from(input.byte());
    let text = input.rest();
    tokens(text, dialect);
    statements(text, dialect);
    glances(text, dialect, cut);
    for mariadb in [false, true] {
        value::of_text(text, mariadb);
    }
    hint::variables(text);
}

/// All tokens up to the end or to what is odd.
fn tokens(text: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    let (mut end, mut params, mut in_code) = (0, 0, false);
    loop {
        let start = lexer.position() as usize;
        assert_eq!(start, end, "the cursor stands behind the last token");
        let peeked = lexer.peek();
        let token = lexer.next();
        assert_eq!(peeked, token, "peek");
        let token = match token {
            Ok(token) => token,
            Err(odd) => return at_odd(text, odd, start),
        };
        let span = token.span.range();
        assert!(end <= span.start && span.start <= span.end && span.end <= text.len(), "{token:?}");
        let gap = &text[end..span.start];
        assert!(gap::is_gap(gap, &mut in_code), "{}", gap.escape_ascii());
        assert_eq!(lexer.position() as usize, span.end);
        params += u32::from(token.kind == TokenKind::Placeholder);
        assert_eq!(lexer.params(), params);
        if let Some(hint) = lexer.hint() {
            let hint = hint.of(text);
            assert!(hint.starts_with(b"/*+") && hint.ends_with(b"*/") && hint.len() >= 5);
        }
        if token.kind == TokenKind::End {
            assert_eq!(span, text.len()..text.len());
            assert_eq!(lexer.next(), Ok(token), "the end comes again");
            return;
        }
        assert!(!span.is_empty(), "{token:?}");
        spelled(text, token, dialect);
        end = span.end;
    }
}

fn at_odd(text: &[u8], odd: Odd, from: usize) {
    assert!((from..=text.len()).contains(&(odd.at as usize)), "{odd:?}");
    assert!(!odd.what.is_empty());
}

/// Whether a token's bytes are of its kind.
fn spelled(text: &[u8], token: Token, dialect: Dialect) {
    let bytes = token.span.of(text);
    let quoted = |quote: u8| bytes.len() >= 2 && bytes[0] == quote && bytes.ends_with(&[quote]);
    let within = |from: usize| &bytes[from..bytes.len() - usize::from(bytes.ends_with(b"'"))];
    let ansi = dialect.sql_mode.contains(SqlMode::ANSI_QUOTES);
    let fits = match token.kind {
        TokenKind::Word => !bytes.iter().any(|byte| b" \t\r\n'\"`();,.?=#@".contains(byte)),
        TokenKind::QuotedName => quoted(b'`') || ansi && quoted(b'"'),
        TokenKind::String => quoted(b'\'') || !ansi && quoted(b'"'),
        TokenKind::NationalString => {
            matches!(bytes[0], b'n' | b'N') && bytes.len() >= 3 && bytes[1] == b'\'' && bytes.ends_with(b"'")
        }
        TokenKind::Integer => bytes.iter().all(u8::is_ascii_digit),
        TokenKind::Decimal => {
            let dots = bytes.split(|byte| *byte == b'.').count() - 1;
            bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') && dots == 1
        }
        TokenKind::Float => std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<f64>().is_ok()),
        TokenKind::Hex => within(2).iter().all(u8::is_ascii_hexdigit),
        TokenKind::Bits => within(2).iter().all(|byte| matches!(byte, b'0' | b'1')),
        TokenKind::Placeholder => bytes == b"?",
        TokenKind::Assign => bytes == b":=",
        TokenKind::BackslashN => bytes == b"\\N" && dialect.is_mariadb(),
        TokenKind::DotDot => bytes == b".." && dialect.is_mariadb(),
        TokenKind::Punct(byte) => bytes == [byte] && byte.is_ascii_punctuation(),
        TokenKind::End => bytes.is_empty(),
    };
    assert!(fits, "{token:?}: {}", bytes.escape_ascii());
    let Some(name) = name::decode(text, token, dialect.charset) else { return };
    assert!(name::same_column(&name, &name));
    if dialect.charset == ClientCharset::Utf8 && !name.is_empty() {
        let quoted = name::quoted(&name);
        let mut lexer = Lexer::new(quoted.as_bytes(), dialect).expect("shorter than 4 GiB");
        let Ok(token) = lexer.next() else { return };
        assert_eq!(name::decode(quoted.as_bytes(), token, dialect.charset).as_deref(), Some(&*name));
    }
}

/// What the readers of whole statements leave, and that a `;` is found in the same place on each way.
fn statements(text: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    loop {
        let start = lexer.position() as usize;
        let mut reader = lexer.clone();
        let kind = statement::classify(&mut reader);
        let stands = reader.position() as usize;
        assert!((start..=text.len()).contains(&stands));
        let kind = kind.map_err(|odd| at_odd(text, odd, start)).ok();
        if matches!(kind, Some(Statement::Routine)) {
            let mut body = lexer.clone();
            if let Ok(Some(true)) = statement::skip_routine(&mut body) {
                assert_eq!(text[body.position() as usize - 1], b';');
            }
        }
        let plain = first_semicolon(lexer.clone());
        let has_semicolon = text[start..].contains(&b';');
        match (lexer.skip_statement(), plain) {
            (skipped, _) if !has_semicolon => {
                assert_eq!(skipped, Ok(false));
                assert_eq!(lexer.position() as usize, text.len());
                return;
            }
            (Ok(true), Ok(Some(at))) => assert_eq!(lexer.position() as usize, at),
            (Ok(false), Ok(None)) => return,
            (Err(skipped), Err(read)) => {
                assert_eq!(skipped, read);
                return;
            }
            other => panic!("skip_statement and next differ: {other:?}"),
        }
    }
}

/// Behind the first `;`, read token after token.
fn first_semicolon(mut lexer: Lexer<'_>) -> Result<Option<usize>, Odd> {
    loop {
        match lexer.next()?.kind {
            TokenKind::Punct(b';') => return Ok(Some(lexer.position() as usize)),
            TokenKind::End => return Ok(None),
            _ => {}
        }
    }
}

/// What a first look says of a beginning holds for the whole; and the reader of statements says nothing else.
fn glances(text: &[u8], dialect: Dialect, cut: usize) {
    let beginning = &text[..cut.min(text.len())];
    for several in [false, true] {
        let whole = glance(text, dialect, true, several);
        assert_ne!(whole, Glance::Unclear, "all of it is there");
        match glance(beginning, dialect, false, several) {
            harmless @ Glance::Harmless(_) => assert_eq!(whole, harmless),
            Glance::Read if !several => assert_eq!(whole, Glance::Read),
            Glance::Read | Glance::Unclear => {}
        }
    }
    if !glance(text, dialect, true, false).is_harmless() {
        return;
    }
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    if let Ok(kind) = statement::classify(&mut lexer) {
        assert_eq!(kind, Statement::Harmless);
    }
}
