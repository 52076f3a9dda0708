//! A line of the log as one JSON object, flat: `ts`, `level`, `msg`, and what belongs to the message under its own name.

use std::fmt;
use std::time::SystemTime;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::log_span;

pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let fields = Fields::of(event).with_spans(event);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        write!(out, "{{\"ts\":\"{now}\",\"level\":\"{level}\",\"msg\":{}", Value::from(fields.message))?;
        // A library's line gets its module's name, which says what the message is about.
        let target = event.metadata().target();
        if !target.starts_with("rowstamp") {
            write!(out, ",\"from\":{}", Value::from(target))?;
        }
        for (name, value) in fields.others {
            write!(out, ",{}:{value}", Value::from(name))?;
        }
        writeln!(out, "}}")
    }
}

/// The fields of the spans that an event is in, without those that the event has itself.
pub(super) fn of_spans(event: &Event<'_>) -> impl Iterator<Item = (&'static str, Value)> {
    log_span::fields().into_iter().filter(|(name, _)| event.fields().all(|field| field.name() != *name))
}

/// The message and the fields of an event.
#[derive(Default)]
pub(super) struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    pub(super) fn of(event: &Event<'_>) -> Fields {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }

    /// The fields of its spans come last.
    pub(super) fn with_spans(mut self, event: &Event<'_>) -> Fields {
        self.others.extend(of_spans(event));
        self
    }

    /// A message of so many characters, of the whole.
    pub(super) fn cut(&self, characters_max: usize) -> Fields {
        Fields { message: self.text().chars().take(characters_max).collect(), others: Vec::new() }
    }

    /// One line for people.
    pub(super) fn text(&self) -> String {
        let of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let others = self.others.iter().map(|(name, value)| format!(", {name} {}", of(value)));
        self.message.clone() + &others.collect::<String>()
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", value) => self.message = value.to_string(),
            (name, value) => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    /// Also of what is to be written as it displays itself.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}
