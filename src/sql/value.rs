//! The meaning of a value written at the id's place: none given, zero, an integer, or a value that only the server can tell.

use self::number::{Decimal, rounded_float};
use super::dialect::{Dialect, SqlMode};
use super::lex::{Lexer, Odd, Span, Token, TokenKind};
use super::name;

pub mod number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdValue {
    /// The column is not in the list, or the row is empty.
    Omitted,
    Null,
    /// `DEFAULT`, or `DEFAULT(id)`
    Default,
    /// `0`, `-0`, `'0'`
    Zero,
    /// A value that becomes 0 in an integer column: `0.4`, `'0.4'`, `0e0`, `FALSE`, `0x00`, `b'0'`
    ConvertedZero,
    /// A value that rounds to zero from below, `-0.4`: zero in a signed column, out of range in an unsigned one.
    MinusZero,
    /// The client's n-th `?`, counted from 0 over the statement.
    Placeholder(u32),
    /// Spelled as an integer: the value is in `Body::integers`.
    Integer,
    /// An integer once the server has converted it: `1.6`, `1e3`, `0x10`, `TRUE`,
    /// `DATE'2020-01-31'`; the value is in `Body::integers`.
    Converted,
    /// A string that does not begin with a number: `''`, `'abc'`. An integer column takes it for 0,
    /// with warning 1366.
    Text,
    /// A string that begins with a number which rounds to zero, and goes on: `'0abc'`. An integer
    /// column takes it for 0, with warning 1265.
    TruncatedZero,
    /// A string that begins with a number above zero, and goes on: `'7abc'`. An integer column takes the number, with
    /// warning 1265; the value is in `Body::integers`.
    Truncated,
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

/// A constant, without the sign before it.
#[derive(Debug, Clone, Copy)]
enum Constant {
    Null,
    Decimal(Decimal),
    Float(f64),
    /// A number that is not spelled as one: `TRUE`, `0x1F`.
    Number(i128),
    /// Anything else, which a sign would make an expression.
    Other(Classified),
}

impl Constant {
    const EXPRESSION: Constant = Constant::Other(Classified::EXPRESSION);

    fn plain(value: IdValue) -> Constant {
        Constant::Other(Classified::plain(value))
    }

    fn negated(self) -> Constant {
        match self {
            Constant::Null => Constant::Null,
            Constant::Decimal(decimal) => Constant::Decimal(decimal.negated()),
            Constant::Float(value) => Constant::Float(-value),
            Constant::Number(n) => Constant::Number(-n),
            Constant::Other(_) => Constant::EXPRESSION,
        }
    }

    fn classified(self) -> Classified {
        match self {
            Constant::Null => Classified::plain(IdValue::Null),
            Constant::Decimal(decimal) if decimal.rounds_to_minus_zero() => {
                Classified::plain(IdValue::MinusZero)
            }
            Constant::Decimal(decimal) => of_decimal(decimal),
            Constant::Float(value) => {
                rounded_float(value).map_or(Classified::EXPRESSION, Classified::converted)
            }
            Constant::Number(n) => Classified::converted(n),
            Constant::Other(classified) => classified,
        }
    }
}

fn of_decimal(decimal: Decimal) -> Classified {
    match decimal.rounded() {
        n if decimal.is_integer() => Classified::integer(n),
        n => Classified::converted(n),
    }
}

/// The meaning of a value of one token. `params_before`: the statement's `?` in front of it.
pub(super) fn of_token(lexer: &Lexer<'_>, token: Token, params_before: u32) -> Classified {
    constant(lexer, token, params_before).classified()
}

fn constant(lexer: &Lexer<'_>, token: Token, params_before: u32) -> Constant {
    let bytes = token.span.of(lexer.text());
    let number = |n: Option<i128>| n.map_or(Constant::EXPRESSION, Constant::Number);
    match token.kind {
        // To MariaDB x'30' is a string and 0x30 a number; to MySQL both are numbers.
        TokenKind::Hex if lexer.dialect().is_mariadb() && !bytes.starts_with(b"0") => {
            let text = hex_string(bytes).unwrap_or_default();
            Constant::Other(of_text(&text, true))
        }
        TokenKind::Word => of_word(bytes),
        TokenKind::BackslashN => Constant::Null,
        TokenKind::Placeholder => Constant::plain(IdValue::Placeholder(params_before)),
        TokenKind::Integer | TokenKind::Decimal => {
            Decimal::parse(bytes, false).map_or(Constant::EXPRESSION, Constant::Decimal)
        }
        TokenKind::Float => {
            let value = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
            value.map_or(Constant::EXPRESSION, Constant::Float)
        }
        TokenKind::String => string(lexer, content(bytes)),
        // MySQL warns that N'' will be utf8mb4 one day; an id in its place would take the warning
        // away.
        TokenKind::NationalString if lexer.dialect().is_mariadb() => {
            string(lexer, content(bytes.get(1..).unwrap_or_default()))
        }
        TokenKind::Hex => number(radix(bytes, 16)),
        TokenKind::Bits => number(radix(bytes, 2)),
        _ => Constant::EXPRESSION,
    }
}

/// A string of this content.
fn string(lexer: &Lexer<'_>, content: &[u8]) -> Constant {
    let Dialect { sql_mode, .. } = lexer.dialect();
    if content.is_empty() && sql_mode.contains(SqlMode::EMPTY_STRING_IS_NULL) {
        return Constant::EXPRESSION;
    }
    Constant::Other(of_text(content, lexer.dialect().is_mariadb()))
}

fn of_word(word: &[u8]) -> Constant {
    let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
    if is(b"NULL") {
        Constant::Null
    } else if is(b"DEFAULT") {
        Constant::plain(IdValue::Default)
    } else if is(b"FALSE") {
        Constant::Number(0)
    } else if is(b"TRUE") {
        Constant::Number(1)
    } else {
        Constant::EXPRESSION
    }
}

fn digits(digits: &[u8], radix: u32) -> Option<i128> {
    digits.iter().try_fold(0i128, |sum, &b| {
        let digit = char::from(b).to_digit(radix)?;
        sum.checked_mul(i128::from(radix))?.checked_add(i128::from(digit))
    })
}

/// Between a string's quotes, as it is written.
fn content(quoted: &[u8]) -> &[u8] {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

/// The content of `x'...'`.
fn hex_string(bytes: &[u8]) -> Option<Vec<u8>> {
    let pairs = content(bytes.get(1..)?).chunks_exact(2);
    pairs.map(|pair| u8::try_from(digits(pair, 16)?).ok()).collect()
}

/// The content of a string that is to become an integer. Both servers pass over blanks and tabs
/// before a number, MariaDB over line ends too; after one it notes that data were truncated (1265).
pub fn of_text(content: &[u8], mariadb: bool) -> Classified {
    let start = content.iter().position(|&byte| byte != b' ' && byte != b'\t').unwrap_or(content.len());
    let whole = content.get(start..).unwrap_or_default();
    let end = whole.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
    let inner = whole.get(..end).unwrap_or_default();
    match Decimal::parse(inner, true).map(of_decimal) {
        // An id in its place would take the note away.
        Some(Classified { integer: None, .. }) if mariadb && inner.len() < whole.len() => {
            Classified::EXPRESSION
        }
        Some(classified) => classified,
        None => of_no_number(inner),
    }
}

/// Text that is not a number as a whole. Its beginning decides the value. If it begins with no letter, and has
/// bytes that may need unescaping, it counts as an expression.
fn of_no_number(inner: &[u8]) -> Classified {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'\'' | b'"');
    match inner.first() {
        None => return Classified::plain(IdValue::Text),
        Some(byte) if byte.is_ascii_alphabetic() => return Classified::plain(IdValue::Text),
        Some(_) if !inner.iter().all(|byte| is_plain(byte) || *byte == b' ') => {
            return Classified::EXPRESSION;
        }
        Some(_) => {}
    }
    let Some(len) = number::prefix(inner) else { return Classified::plain(IdValue::Text) };
    let (begins, rest) = inner.split_at(len);
    // MySQL takes '1e' for 1 without a warning, MariaDB with one.
    if matches!(rest.first(), Some(b'e' | b'E')) {
        return Classified::EXPRESSION;
    }
    match Decimal::parse(begins, true).map(Decimal::rounded) {
        Some(0) => Classified::plain(IdValue::TruncatedZero),
        Some(n) if n > 0 => Classified { value: IdValue::Truncated, integer: Some(n) },
        _ => Classified::EXPRESSION,
    }
}

/// `0x1F`, `x'1F'`, `0b1`, `b'1'`: at most 8 bytes.
fn radix(bytes: &[u8], radix: u32) -> Option<i128> {
    let written = bytes.get(2..)?;
    let written = written.strip_suffix(b"'").unwrap_or(written);
    let digits_max = if radix == 16 { 16 } else { 64 };
    (!written.is_empty() && written.len() <= digits_max).then(|| digits(written, radix)).flatten()
}

/// The meaning of a value of several tokens: signs, parentheses around a constant, strings in pieces or with a
/// character set, `DATE'...'`, `DEFAULT(id)`. Everything else is an expression.
pub(crate) fn of_span(
    lexer: &Lexer<'_>,
    span: Span,
    column: &str,
    params_before: u32,
) -> Result<Classified, Odd> {
    let mut lexer = lexer.over(span);
    let first = lexer.next()?;
    if lexer.is_word(first, "DEFAULT") {
        let default = default_of(&mut lexer, column)?;
        return Ok(if lexer.next()?.kind == TokenKind::End { default } else { Classified::EXPRESSION });
    }
    // Outermost first: an opening parenthesis, or a sign.
    let mut around = Vec::new();
    let mut token = first;
    while let TokenKind::Punct(sign @ (b'(' | b'-' | b'+')) = token.kind {
        around.push(sign);
        token = lexer.next()?;
    }
    if lexer.is_word(token, "DEFAULT") {
        return Ok(Classified::EXPRESSION);
    }
    let mut value = of_words(&mut lexer, token, params_before)?;
    for sign in around.into_iter().rev() {
        value = match sign {
            b'-' => value.negated(),
            b'+' if matches!(value, Constant::Other(_)) => Constant::EXPRESSION,
            b'(' if !lexer.eat_punct(b')')? => Constant::EXPRESSION,
            _ => value,
        };
    }
    Ok(if lexer.next()?.kind == TokenKind::End { value.classified() } else { Classified::EXPRESSION })
}

/// A constant of one or more words, whose first is `token`.
fn of_words(lexer: &mut Lexer<'_>, token: Token, params_before: u32) -> Result<Constant, Odd> {
    let next = lexer.peek()?;
    if next.kind != TokenKind::String {
        return Ok(constant(lexer, token, params_before));
    }
    let text = content(next.span.of(lexer.text())).to_vec();
    match token.kind {
        // Adjacent strings are one.
        TokenKind::String => {
            let mut all = content(token.span.of(lexer.text())).to_vec();
            while lexer.peek()?.kind == TokenKind::String {
                let piece = lexer.next()?;
                all.extend_from_slice(content(piece.span.of(lexer.text())));
            }
            Ok(string(lexer, &all))
        }
        TokenKind::Word if is_introducer(token.span.of(lexer.text()), lexer.dialect().is_mariadb()) => {
            lexer.next()?;
            Ok(string(lexer, &text))
        }
        TokenKind::Word if lexer.is_word(token, "DATE") => {
            lexer.next()?;
            Ok(date(&text).map_or(Constant::EXPRESSION, |n| Constant::Other(Classified::converted(n))))
        }
        _ => Ok(Constant::EXPRESSION),
    }
}

/// A character set that has ASCII's digits. MySQL warns of `_utf8`, and an id in its place would
/// take the warning away.
fn is_introducer(word: &[u8], mariadb: bool) -> bool {
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    [&b"_utf8mb4"[..], b"_latin1", b"_ascii", b"_binary"].into_iter().any(is)
        || mariadb && (is(b"_utf8") || is(b"_utf8mb3"))
}

/// `2020-01-31` is 20200131 to an integer column. That there is such a day is the server's to say.
fn date(text: &[u8]) -> Option<i128> {
    let is_date = text.len() == 10
        && text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let all: Vec<u8> = text.iter().copied().filter(u8::is_ascii_digit).collect();
    digits(&all, 10).filter(|&n| is_date && n > 10_000)
}

/// After `DEFAULT`: nothing, or the id's column in parentheses.
fn default_of(lexer: &mut Lexer<'_>, column: &str) -> Result<Classified, Odd> {
    let default = Classified::plain(IdValue::Default);
    if !lexer.eat_punct(b'(')? {
        return Ok(default);
    }
    let first = lexer.next()?;
    let charset = lexer.dialect().charset;
    let is_id = name::path(lexer, first)?
        .and_then(|path| name::names_column(lexer.text(), path.last, charset, column))
        .unwrap_or(false);
    let closes = lexer.next()?.is_punct(b')');
    Ok(if is_id && closes { default } else { Classified::EXPRESSION })
}
