//! Numbers as the servers read them from digits: exact decimals, rounded half away from zero, and
//! doubles, rounded to even.

/// Digits in all; servers cut decimals at 65 places or more.
const DIGITS_MAX: usize = 60;
/// The most digits before the dot, without leading zeros: they fit an `i128`.
const WHOLE_DIGITS_MAX: u32 = 38;
const EXPONENT_MAX: i32 = 30;
/// A float up to this fits an `i128`, and is far above any column.
const FLOAT_MAX: f64 = 1e38;

/// An exact number before it is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    whole: i128,
    fraction: Fraction,
    /// Without dot and exponent.
    spelled_as_integer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Fraction {
    None,
    BelowHalf,
    HalfOrMore,
}

impl Decimal {
    /// `12`, `1.5`, `.5`, `1.`, with a sign where `signed`, with an exponent where one stands.
    /// `None`: not such a number, or a longer one than is looked at.
    pub fn parse(bytes: &[u8], signed: bool) -> Option<Decimal> {
        let (negative, digits) = match bytes {
            [sign @ (b'-' | b'+'), digits @ ..] if signed => (*sign == b'-', digits),
            digits => (false, digits),
        };
        let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (digits.get(..at)?, exponent(digits.get(at + 1..)?)?),
            None => (digits, 0),
        };
        let mut parts = mantissa.splitn(2, |&byte| byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next());
        let fraction_digits = fraction.unwrap_or_default();
        let all = whole.iter().chain(fraction_digits);
        let count = whole.len() + fraction_digits.len();
        if count == 0 || count > DIGITS_MAX || !all.clone().all(u8::is_ascii_digit) {
            return None;
        }
        let spelled_as_integer = fraction.is_none() && mantissa.len() == digits.len();
        // The dot, moved by the exponent.
        let dot = i64::try_from(whole.len()).ok()? + i64::from(exponent);
        let mut decimal = Decimal { negative, whole: 0, fraction: Fraction::None, spelled_as_integer };
        for (at, byte) in (0i64..).zip(all) {
            let digit = i128::from(byte - b'0');
            if at < dot {
                decimal.whole = decimal.whole.checked_mul(10)?.checked_add(digit)?;
            } else if at == dot && digit >= 5 {
                decimal.fraction = Fraction::HalfOrMore;
            } else if digit > 0 && decimal.fraction == Fraction::None {
                decimal.fraction = Fraction::BelowHalf;
            }
        }
        let missing = u32::try_from(dot - i64::try_from(count).ok()?).unwrap_or(0);
        decimal.whole = decimal.whole.checked_mul(10i128.checked_pow(missing)?)?;
        (decimal.whole.checked_ilog10().unwrap_or(0) < WHOLE_DIGITS_MAX).then_some(decimal)
    }

    pub fn rounded(self) -> i128 {
        let whole = self.whole + i128::from(self.fraction == Fraction::HalfOrMore);
        if self.negative { -whole } else { whole }
    }

    /// Below zero, and zero once it is rounded: out of the range of unsigned columns, but only
    /// where it is no string.
    pub fn rounds_to_minus_zero(self) -> bool {
        self.negative && self.fraction != Fraction::None && self.rounded() == 0
    }

    pub fn is_integer(self) -> bool {
        self.spelled_as_integer
    }

    #[must_use]
    pub fn negated(self) -> Decimal {
        Decimal { negative: !self.negative, ..self }
    }
}

/// The length in bytes of the number that a text begins with. `None`: it begins with none.
pub fn prefix(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let start = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let whole = digits(start);
    let dot = start + whole;
    let fraction = if text.get(dot) == Some(&b'.') { digits(dot + 1) } else { 0 };
    match (whole, fraction) {
        (0, 0) => None,
        (_, 0) => Some(dot),
        (_, fraction) => Some(dot + 1 + fraction),
    }
}

/// `None`: a number beyond all, or none.
pub fn rounded_float(value: f64) -> Option<i128> {
    let rounded = value.round_ties_even();
    // In range, and whole.
    #[allow(clippy::cast_possible_truncation)]
    (rounded.abs() < FLOAT_MAX).then_some(rounded as i128)
}

fn exponent(bytes: &[u8]) -> Option<i32> {
    let digits = bytes.strip_prefix(b"-").or_else(|| bytes.strip_prefix(b"+")).unwrap_or(bytes);
    let is_number = (1..=3).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let value: i32 = is_number.then(|| std::str::from_utf8(bytes).ok()?.parse().ok()).flatten()?;
    (value.abs() <= EXPONENT_MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{Decimal, prefix, rounded_float};

    #[test]
    fn numbers_that_texts_begin_with() {
        let rows = [("7abc", 1), ("-0.4x", 4), ("0x10", 1), ("+.5.5", 3), ("12.", 2), ("12..", 2)];
        for (text, expect) in rows {
            assert_eq!(prefix(text.as_bytes()), Some(expect), "{text}");
        }
        for text in ["", "-", ".", "-.", "x7", "- 7", "--7"] {
            assert_eq!(prefix(text.as_bytes()), None, "{text}");
        }
    }

    #[track_caller]
    fn check(text: &str, expect: Option<i128>) {
        assert_eq!(Decimal::parse(text.as_bytes(), true).map(Decimal::rounded), expect, "{text}");
    }

    #[test]
    fn decimals_are_rounded_half_away_from_zero() {
        check("0", Some(0));
        check("0012", Some(12));
        check("1.", Some(1));
        check(".5", Some(1));
        check("0.49999999999999999999999999999999999999", Some(0));
        check("-0.5", Some(-1));
        check("+2.5", Some(3));
        check("1e2", Some(100));
        check("5e-1", Some(1));
        check("4.9e-1", Some(0));
        check("1.25e1", Some(13));
        check("0e0", Some(0));
        check(".", None);
        check("", None);
        check("1e", None);
        check("1e99", None);
        check("1.2.3", None);
        check("--1", None);
        check("1e--1", None);
        check(&"9".repeat(39), None);
        check(&"0".repeat(60), Some(0));
        check(&"0".repeat(61), None);
        assert_eq!(Decimal::parse(b"-1", false), None);
        let minus = |text: &str| Decimal::parse(text.as_bytes(), true).unwrap().rounds_to_minus_zero();
        assert_eq!([minus("-0.4"), minus("-0.0"), minus("0.4"), minus("-0.5")], [true, false, false, false]);
    }

    #[test]
    fn doubles_are_rounded_to_even() {
        let rounded = [0.5, 1.5, 2.5, -0.5, -0.4, 1e18].map(|value| rounded_float(value).unwrap());
        assert_eq!(rounded, [0, 2, 2, 0, 0, 1_000_000_000_000_000_000]);
        assert_eq!([rounded_float(f64::NAN), rounded_float(1e39)], [None, None]);
    }
}
