//! Checks that a value fits: its type, its words, its form, its range.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::values::{FORMATS, Format};

/// No key or word is longer; what is, is no slip of the finger and is not compared.
const NAME_BYTES_MAX: usize = 64;

/// The forms that a schema allows for one value: a word, a duration, a number, ...
pub(super) struct Forms<'a>(Vec<&'a Value>);

impl<'a> Forms<'a> {
    pub(super) fn of(schema: &'a Value) -> Self {
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
        Forms(match choices {
            Some(choices) => choices.iter().flat_map(|choice| Forms::of(choice).0).collect(),
            None => vec![schema],
        })
    }

    fn of_type(&self, kind: &str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().copied().filter(move |form| match form.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
            one => one.is_some_and(|one| one == kind),
        })
    }

    pub(super) fn table(&self) -> Option<&'a Value> {
        self.of_type("object").next()
    }

    pub(super) fn list_items(&self) -> Option<&'a Value> {
        self.of_type("array").next()?.get("items")
    }

    fn words(&self) -> impl Iterator<Item = &'a str> {
        self.of_type("string").flat_map(|form| {
            let list = form.get("enum").and_then(Value::as_array).into_iter().flatten();
            form.get("const").into_iter().chain(list).filter_map(Value::as_str)
        })
    }

    pub(super) fn has_word(&self, text: &str) -> bool {
        self.words().any(|word| word == text)
    }

    pub(super) fn has_text(&self) -> bool {
        self.of_type("string").next().is_some()
    }

    pub(super) fn has_number_or_boolean(&self) -> bool {
        self.number().is_some() || self.of_type("boolean").next().is_some()
    }

    /// A string that is more than a choice of words.
    fn text(&self) -> Option<&'a Value> {
        self.of_type("string").find(|form| form.get("const").or(form.get("enum")).is_none())
    }

    fn number(&self) -> Option<&'a Value> {
        self.of_type("integer").chain(self.of_type("number")).next()
    }

    /// All forms, as a message lists them.
    fn describe(&self) -> String {
        let mut all: Vec<String> = self.words().map(|word| format!("{word:?}")).collect();
        all.extend(self.text().map(|form| format_of(form).map_or("a string", |f| f.describe).to_owned()));
        all.extend(self.number().map(|form| match self.of_type("integer").next() {
            Some(_) => format!("a whole number{}", range_of(form)),
            None => format!("a number{}", range_of(form)),
        }));
        all.extend(self.of_type("boolean").next().map(|_| "true or false".to_owned()));
        all.extend(self.list_items().map(|_| "a list".to_owned()));
        all.extend(self.table().map(|_| "a table".to_owned()));
        let last = all.pop().unwrap_or_default();
        if all.is_empty() { last } else { format!("{} or {last}", all.join(", ")) }
    }
}

/// The values that a key's schema allows, in words.
pub fn describe(schema: &Value) -> String {
    Forms::of(schema).describe()
}

pub(super) fn check(value: &DeValue<'_>, forms: &Forms<'_>) -> Result<Value, String> {
    let mismatch =
        || format!("expected {}, found {}{}", forms.describe(), article(value), remedy(value, forms));
    match value {
        DeValue::String(text) => check_text(text, forms).unwrap_or_else(|| Err(mismatch())),
        DeValue::Integer(number) => check_integer(number, forms).ok_or_else(mismatch)?,
        DeValue::Float(number) => {
            let form = forms.of_type("number").next().ok_or_else(mismatch)?;
            let number: f64 = number.as_str().parse().map_err(|_| mismatch())?;
            in_range(form, number).then(|| Value::from(number)).ok_or_else(|| out_of_range(number, form))
        }
        DeValue::Boolean(yes) => {
            forms.of_type("boolean").next().map(|_| Value::from(*yes)).ok_or_else(mismatch)
        }
        // TOML's own times are written as the strings are.
        DeValue::Datetime(time) if forms.text().and_then(format_of).is_some_and(Format::is_time) => {
            check_text(&time.to_string(), forms).unwrap_or_else(|| Err(mismatch()))
        }
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => Err(mismatch()),
    }
}

/// For the end of an error; empty where what is expected says it all.
fn remedy(value: &DeValue<'_>, forms: &Forms<'_>) -> &'static str {
    match value {
        DeValue::String(text) if forms.has_number_or_boolean() => {
            let is_bare = matches!(
                DeValue::parse(text).map(Spanned::into_inner),
                Ok(DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_))
            );
            if is_bare { "; write it without quotes" } else { "" }
        }
        DeValue::String(_) if forms.list_items().is_some() => "; put it in brackets, [\"...\"]",
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) if forms.has_text() => {
            "; write it in quotes"
        }
        DeValue::Table(_) if forms.list_items().is_some() => "; write its header with two brackets, [[...]]",
        DeValue::Array(_) if forms.table().is_some() => "; write its header with one bracket, [...]",
        _ if forms.table().is_some() => "; write its keys under a header, [...], or as { key = value }",
        _ => "",
    }
}

fn check_text(text: &str, forms: &Forms<'_>) -> Option<Result<Value, String>> {
    if forms.words().any(|word| word == text) {
        return Some(Ok(Value::from(text)));
    }
    if let Some(form) = forms.text() {
        if text.is_empty() && form.get("minLength").is_some() {
            return Some(Err("must not be empty; write a value, or remove the key".to_owned()));
        }
        let checked = format_of(form).map_or(Ok(()), |format| (format.check)(text));
        return Some(checked.map(|()| Value::from(text)));
    }
    forms.words().next()?;
    let expected = forms.describe();
    let shown = if text.len() > NAME_BYTES_MAX { "the value".to_owned() } else { format!("{text:?}") };
    Some(Err(match nearest(text, forms.words()) {
        Some(near) => format!("{shown} is unknown; did you mean {near:?}? Known: {expected}"),
        None => format!("{shown} is unknown; write {expected}"),
    }))
}

fn check_integer(number: &DeInteger<'_>, forms: &Forms<'_>) -> Option<Result<Value, String>> {
    let form = forms.number()?;
    let (digits, radix) = (number.as_str(), number.radix());
    // Ids reach up to u64::MAX, beyond TOML's own integers.
    let unsigned = u64::from_str_radix(digits, radix);
    let Some(value) =
        unsigned.map(Value::from).or_else(|_| i64::from_str_radix(digits, radix).map(Value::from)).ok()
    else {
        return Some(Err(format!("is too large: write a number up to {}", u64::MAX)));
    };
    // The range's ends are small: that a float is inexact beyond 2^53 does not move a number over
    // them.
    let approximate = value.as_f64().unwrap_or(f64::INFINITY);
    Some(if in_range(form, approximate) { Ok(value) } else { Err(out_of_range(digits, form)) })
}

fn in_range(form: &Value, number: f64) -> bool {
    let limit = |key| form.get(key).and_then(Value::as_f64);
    number.is_finite()
        && limit("minimum").is_none_or(|min| number >= min)
        && limit("exclusiveMinimum").is_none_or(|min| number > min)
        && maximum(form).and_then(|max| max.as_f64()).is_none_or(|max| number <= max)
}

/// The form's own, or that of the type that it is read into.
fn maximum(form: &Value) -> Option<Value> {
    let of_type = match form.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(Value::from(u32::MAX)),
        _ => None,
    };
    form.get("maximum").cloned().or(of_type)
}

fn out_of_range(number: impl std::fmt::Display, form: &Value) -> String {
    format!("{number} is out of range: write a number{}", range_of(form))
}

fn range_of(form: &Value) -> String {
    let limit = |key| form.get(key).map(Value::to_string);
    let from = limit("minimum").map(|min| format!("from {min}"));
    let from = limit("exclusiveMinimum").map(|min| format!("above {min}")).or(from);
    let to = maximum(form).map(|max| format!("up to {max}"));
    [from, to].into_iter().flatten().fold(String::new(), |all, part| format!("{all} {part}"))
}

fn format_of(form: &Value) -> Option<&'static Format> {
    let name = form.get("format")?.as_str()?;
    FORMATS.iter().find(|format| format.name == name)
}

fn article(value: &DeValue<'_>) -> String {
    let name = value.type_str();
    if name.starts_with(['a', 'i']) { format!("an {name}") } else { format!("a {name}") }
}

/// The known name that this one was most likely meant to be.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let distances = known.map(|one| (strsim::damerau_levenshtein(&lower, &one.to_lowercase()), one));
    let slips_max = (lower.chars().count() / 3).max(1);
    distances.filter(|(slips, _)| *slips <= slips_max).min().map(|(_, one)| one)
}

/// For the end of an error; empty where no known name is near.
pub fn did_you_mean(name: &str, known: &[String]) -> String {
    let near = nearest(name, known.iter().map(String::as_str));
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}
