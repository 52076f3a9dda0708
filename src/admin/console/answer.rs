//! The answer to a statement, before it is written for a client.

use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// OK, and a text that says what was done.
    Done(&'static str),
    /// OK, and this is the default database.
    Use(String),
    Table(Table),
}

/// The type of a column. Clients align numbers to the right and calculate with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    /// BIGINT UNSIGNED
    Unsigned,
    /// DOUBLE
    Real,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Text(String),
    Unsigned(u64),
    Real(f64),
}

/// Each row has as many values as there are columns, each of its column's type or NULL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Rows,
}

pub(crate) type Rows = Vec<Vec<Value>>;

impl Column {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, kind: Type) -> Self {
        Column { name: name.into(), kind }
    }

    pub(crate) fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Column::new(name, Type::Text)
    }
}

pub(crate) fn texts(names: impl IntoIterator<Item = &'static str>) -> Vec<Column> {
    names.into_iter().map(Column::text).collect()
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Unsigned(number)
    }
}

impl From<f64> for Value {
    /// Infinity and NaN have no form that clients can read.
    fn from(number: f64) -> Self {
        if number.is_finite() { Value::Real(number) } else { Value::Null }
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Value::from(if is { "yes" } else { "no" })
    }
}

impl<T> From<Option<T>> for Value
where
    Value: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Value::from)
    }
}

impl Value {
    /// True if both are alike as texts, by [`is_like`].
    pub(crate) fn is_like(&self, pattern: &Value) -> bool {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Unsigned(n) => n.to_string(),
            Value::Real(n) => n.to_string(),
            Value::Null => String::new(),
        };
        is_like(&text(self), &parts(&text(pattern).to_lowercase()))
    }
}

impl Table {
    pub(crate) fn empty(columns: Vec<Column>) -> Self {
        Table { columns, rows: Vec::new() }
    }

    pub(crate) fn keep_like(&mut self, column: usize, pattern: &str) {
        // Once for all rows: a pattern may be as long as a statement.
        let pattern = parts(&pattern.to_lowercase());
        self.rows.retain(|row| matches!(row.get(column), Some(Value::Text(text)) if is_like(text, &pattern)));
    }

    /// Keeps the rows whose first column is one of these, whatever their case.
    pub(crate) fn keep_names(&mut self, names: &[String]) {
        let is_named = |text: &String| names.iter().any(|name| name.eq_ignore_ascii_case(text));
        self.rows.retain(|row| matches!(row.first(), Some(Value::Text(text)) if is_named(text)));
    }
}

/// LIKE under a collation without case: `%` is any text, `_` one character, and `\` in front of either makes it mean
/// itself. Source: MySQL manual, "String Comparison Functions and Operators".
fn is_like(text: &str, pattern: &[Part]) -> bool {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    // If a character does not fit, the search continues after the last `%`, one character of the text later.
    let (mut at, mut part_at, mut retry) = (0, 0, None);
    while let Some(character) = text.get(at) {
        match pattern.get(part_at) {
            Some(Part::Any) => {
                part_at += 1;
                retry = Some((at, part_at));
            }
            Some(Part::One) => (at, part_at) = (at + 1, part_at + 1),
            Some(Part::Is(wanted)) if wanted == character => (at, part_at) = (at + 1, part_at + 1),
            _ => {
                let Some((text_at, behind)) = retry else { return false };
                retry = Some((text_at + 1, behind));
                (at, part_at) = (text_at + 1, behind);
            }
        }
    }
    pattern.get(part_at..).unwrap_or_default().iter().all(|part| matches!(part, Part::Any))
}

enum Part {
    Any,
    One,
    Is(char),
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        parts.push(match character {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => Part::Is(characters.next().unwrap_or('\\')),
            other => Part::Is(other),
        });
    }
    parts
}

/// By the first column; rows of one name stay in their order.
pub(crate) fn sorted(mut rows: Rows) -> Rows {
    let name = |row: &Vec<Value>| match row.first() {
        Some(Value::Text(name)) => name.clone(),
        _ => String::new(),
    };
    rows.sort_by_cached_key(name);
    rows
}

#[cfg(test)]
pub(crate) fn printed(row: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => text.clone(),
        Value::Unsigned(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
    };
    row.iter().map(text).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::{Column, Table, Value, parts};
    use proptest::prelude::proptest;

    fn is_like(text: &str, pattern: &str) -> bool {
        super::is_like(text, &parts(&pattern.to_lowercase()))
    }

    #[test]
    fn patterns() {
        for (text, pattern, expect) in [
            ("shop.orders", "shop.%", true),
            ("shop.orders", "SHOP.ORDERS", true),
            ("shop.orders", "shop", false),
            ("shop.orders", "%orders", true),
            ("shop.orders", "%order", false),
            ("shop.orders", "%o%r%", true),
            ("shop.orders", "shop_orders", true),
            ("shop.orders", r"shop\_orders", false),
            ("shop_orders", r"shop\_orders", true),
            ("100%", r"100\%", true),
            ("1000", r"100\%", false),
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("é", "_", true),
            ("a", r"a\", false),
        ] {
            assert_eq!(is_like(text, pattern), expect, "{text:?} like {pattern:?}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_of_its_own_text_fits(text: String) {
            let escaped = text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
            assert!(is_like(&text, &escaped) && is_like(&text, "%"));
            assert!(is_like(&text, &format!("%{escaped}%")));
        }

        #[test]
        fn many_wildcards_take_no_time(tail in "[ab]{0,4}") {
            assert!(!is_like(&"a".repeat(2_000), &format!("{}c{tail}", "%a".repeat(500))));
        }
    }

    #[test]
    fn rows_are_kept_by_their_first_column() {
        let rows = || ["Ssl_cipher", "Uptime"].map(|name| vec![Value::from(name), Value::Null]).to_vec();
        let table = || Table { columns: vec![Column::text("a"), Column::text("b")], rows: rows() };
        let (mut like, mut named) = (table(), table());
        like.keep_like(0, "ssl%");
        named.keep_names(&["ssl_cipher".to_owned(), "other".to_owned()]);
        assert_eq!((&like.rows, &named.rows), (&rows()[..1].to_vec(), &rows()[..1].to_vec()));
    }

    #[test]
    fn values() {
        assert_eq!(Value::from(f64::INFINITY), Value::Null);
        assert_eq!(Value::from(Some(3_u64)), Value::Unsigned(3));
        assert_eq!(Value::from(None::<u64>), Value::Null);
        assert_eq!(Value::from(true), Value::Text("yes".into()));
    }
}
