//! What a value written at the id's place means: none given, zero, an integer, or what only the server can tell.

use super::lex::{Lexer, Odd, Span, Token, TokenKind};
use super::name;

/// Longer literals may be cut or rounded by the server; they are not judged here.
const DIGITS_MAX: usize = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdValue {
    /// The column is not in the list, or the row is empty.
    Omitted,
    Null,
    /// `DEFAULT`, or `DEFAULT(id)`
    Default,
    /// `0`, `-0`, `'0'`
    Zero,
    /// What becomes 0 in an integer column: `0.4`, `'0.4'`, `FALSE`, `0x00`, `b'0'`
    ConvertedZero,
    /// The client's n-th `?`, counted from 0 over the statement.
    Placeholder(u32),
    /// Spelled as an integer: the value is in `Body::integers`.
    Integer,
    /// An integer once the server has converted it: `1.6`, `x'10'`, `TRUE`; the value is in `Body::integers`.
    Converted,
    /// A string that is not a number.
    Text,
    Expression,
}

/// An [`IdValue`], and the integer where it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    pub value: IdValue,
    pub integer: Option<i128>,
}

impl Classified {
    pub(super) fn plain(value: IdValue) -> Self {
        Classified { value, integer: None }
    }

    fn integer(n: i128) -> Self {
        match n {
            0 => Classified::plain(IdValue::Zero),
            _ => Classified { value: IdValue::Integer, integer: Some(n) },
        }
    }

    fn converted(n: i128) -> Self {
        match n {
            0 => Classified::plain(IdValue::ConvertedZero),
            _ => Classified { value: IdValue::Converted, integer: Some(n) },
        }
    }

    const EXPRESSION: Classified = Classified { value: IdValue::Expression, integer: None };
}

/// What a value of one token means. `params_before`: the statement's `?` in front of it.
pub(super) fn of_token(lexer: &Lexer<'_>, token: Token, params_before: u32) -> Classified {
    let bytes = token.span.of(lexer.text());
    match token.kind {
        // To MariaDB x'00' is a string and 0x00 a number; to MySQL both are numbers.
        TokenKind::Hex if lexer.dialect().is_mariadb() && !bytes.starts_with(b"0") => Classified::EXPRESSION,
        TokenKind::Word => of_word(bytes),
        TokenKind::BackslashN => Classified::plain(IdValue::Null),
        TokenKind::Placeholder => Classified::plain(IdValue::Placeholder(params_before)),
        TokenKind::Integer | TokenKind::Decimal => number(bytes, false).unwrap_or(Classified::EXPRESSION),
        TokenKind::String => of_string(bytes),
        TokenKind::Hex => radix(bytes, 16).unwrap_or(Classified::EXPRESSION),
        TokenKind::Bits => radix(bytes, 2).unwrap_or(Classified::EXPRESSION),
        _ => Classified::EXPRESSION,
    }
}

fn of_word(word: &[u8]) -> Classified {
    let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
    if is(b"NULL") {
        Classified::plain(IdValue::Null)
    } else if is(b"DEFAULT") {
        Classified::plain(IdValue::Default)
    } else if is(b"FALSE") {
        Classified::converted(0)
    } else if is(b"TRUE") {
        Classified::converted(1)
    } else {
        Classified::EXPRESSION
    }
}

/// Digits with at most one dot, rounded half away from zero as both servers do for DECIMAL and for strings.
fn number(bytes: &[u8], negative: bool) -> Option<Classified> {
    if bytes.len() > DIGITS_MAX {
        return None;
    }
    let mut parts = bytes.splitn(2, |&b| b == b'.');
    let (whole, fraction) = (parts.next()?, parts.next());
    if whole.is_empty() && fraction.is_none_or(<[u8]>::is_empty) {
        return None;
    }
    let n = integer(whole, 10)?;
    let Some(fraction) = fraction else {
        return Some(Classified::integer(if negative { -n } else { n }));
    };
    integer(fraction, 10)?;
    if negative {
        // Whether an unsigned column takes -0.4 for zero is the server's to say.
        return None;
    }
    let up = fraction.first().is_some_and(|&digit| digit >= b'5');
    Some(Classified::converted(n + i128::from(up)))
}

fn integer(digits: &[u8], radix: u32) -> Option<i128> {
    digits.iter().try_fold(0i128, |sum, &b| {
        let digit = char::from(b).to_digit(radix)?;
        sum.checked_mul(i128::from(radix))?.checked_add(i128::from(digit))
    })
}

/// A string in its quotes.
fn of_string(bytes: &[u8]) -> Classified {
    // Both servers pass over blanks in front of a number; behind one MariaDB notes that data were truncated (1265).
    let whole = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default().trim_ascii_start();
    let inner = whole.trim_ascii_end();
    let (negative, digits) = match inner {
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    match number(digits, negative) {
        // An id in its place would take the note away.
        Some(Classified { integer: None, .. }) if inner.len() < whole.len() => Classified::EXPRESSION,
        Some(classified) => classified,
        // Not for certain a string without a number: '7abc', '1e3', '', or bytes that need unescaping.
        None if !inner.first().is_some_and(u8::is_ascii_alphabetic) => Classified::EXPRESSION,
        None => Classified::plain(IdValue::Text),
    }
}

/// `0x1F`, `x'1F'`, `0b1`, `b'1'`: at most 8 bytes.
fn radix(bytes: &[u8], radix: u32) -> Option<Classified> {
    let digits = bytes.get(2..)?;
    let digits = digits.strip_suffix(b"'").unwrap_or(digits);
    let digits_max = if radix == 16 { 16 } else { 64 };
    if digits.is_empty() || digits.len() > digits_max {
        return None;
    }
    integer(digits, radix).map(Classified::converted)
}

/// What a value of several tokens means: a sign, parentheses around a constant, `DEFAULT(id)`. All else is an expression.
pub(super) fn of_span(
    lexer: &Lexer<'_>,
    span: Span,
    column: &str,
    params_before: u32,
) -> Result<Classified, Odd> {
    let mut lexer = lexer.over(span);
    let mut depth = 0usize;
    let mut token = lexer.next()?;
    while token.is_punct(b'(') {
        depth += 1;
        token = lexer.next()?;
    }
    let sign = match token.kind {
        TokenKind::Punct(sign @ (b'-' | b'+')) => Some(sign),
        _ => None,
    };
    let classified = if let Some(sign) = sign {
        let operand = lexer.next()?;
        match operand.kind {
            TokenKind::Integer | TokenKind::Decimal => {
                number(operand.span.of(lexer.text()), sign == b'-').unwrap_or(Classified::EXPRESSION)
            }
            _ => Classified::EXPRESSION,
        }
    } else if depth == 0 && lexer.is_word(token, "DEFAULT") {
        default_of(&mut lexer, column)?
    } else if lexer.is_word(token, "DEFAULT") {
        Classified::EXPRESSION
    } else {
        of_token(&lexer, token, params_before)
    };
    for _ in 0..depth {
        if !lexer.next()?.is_punct(b')') {
            return Ok(Classified::EXPRESSION);
        }
    }
    Ok(if lexer.next()?.kind == TokenKind::End { classified } else { Classified::EXPRESSION })
}

/// Behind `DEFAULT`: nothing, or the id's column in parentheses.
fn default_of(lexer: &mut Lexer<'_>, column: &str) -> Result<Classified, Odd> {
    let default = Classified::plain(IdValue::Default);
    if !lexer.eat_punct(b'(')? {
        return Ok(default);
    }
    let first = lexer.next()?;
    let named = name::path(lexer, first)?.and_then(|path| {
        name::decode(lexer.text(), path.last, lexer.dialect().charset)
            .map(|name| name::same_column(&name, column))
    });
    let closes = lexer.next()?.is_punct(b')');
    Ok(if named == Some(true) && closes { default } else { Classified::EXPRESSION })
}
