//! One generator, one table: what their keys mean, and what their types do not say is wrong.

use super::keys::{BatchKey, GeneratorKeys, Kind, Order, RulesFile, Table};
use super::model::{GeneratorKind, GeneratorName};
use super::template::{NAME_CHARS_MAX, is_plain, literal, words};
use super::timestamp;
use crate::ids::sequence::{Batch, SequenceSpec};
use crate::toml_file::{Finding, Findings, Source, join};

const OF_SEQUENCE: [&str; 8] = ["start", "step", "offset", "batch", "low_water", "max", "seed", "order"];
const OF_TIMESTAMP: [&str; 5] = ["layout", "node", "advance", "max_ahead", "max_forward"];

/// `None` where something is wrong, which `findings` then says.
pub(super) fn kind(
    source: &Source<RulesFile>,
    key: &str,
    name: &GeneratorName,
    generator: &GeneratorKeys,
    findings: &mut Findings,
) -> Option<GeneratorKind> {
    let of = |part: &str| join(key, part);
    if let Some(why) = no_name(&name.name) {
        findings.push(source.error(key, why));
    }
    let mut foreign = |parts: &[&str], text: &str| {
        let written = parts.iter().map(|part| of(part)).filter(|key| source.is_written(key));
        findings.extend(written.map(|key| source.error(&key, text)));
    };
    match generator.kind? {
        Kind::Timestamp if generator.order == Order::Global => {
            let text = "\"global\" is for sequences: ids of a timestamp generator ascend on each proxy, not over all \
                        proxies; remove order";
            findings.push(source.error(&of("order"), text));
            None
        }
        Kind::Timestamp => {
            foreign(&OF_SEQUENCE, "is a key of sequences, and this is a timestamp generator; remove it");
            timestamp::timestamp(source, key, generator, findings).map(GeneratorKind::Timestamp)
        }
        Kind::Sequence => {
            foreign(&OF_TIMESTAMP, "is a key of timestamp generators, and this is a sequence; remove it");
            sequence(source, key, generator, findings).map(GeneratorKind::Sequence)
        }
    }
}

fn sequence(
    source: &Source<RulesFile>,
    key: &str,
    generator: &GeneratorKeys,
    findings: &mut Findings,
) -> Option<SequenceSpec> {
    let of = |part: &str| join(key, part);
    if generator.order == Order::Global {
        let text = "\"global\" is not in this version of Rowstamp; write \"leased\"";
        findings.push(source.error(&of("order"), text));
    }
    let sequence = SequenceSpec {
        start: generator.start,
        step: generator.step,
        offset: generator.offset,
        batch: match generator.batch {
            BatchKey::Auto(_) => Batch::Auto,
            BatchKey::Ids(ids) => Batch::Fixed(ids),
        },
        low_water: generator.low_water,
        max: generator.max,
        seed: generator.seed,
    };
    if let Some(why) = no_id(&sequence) {
        let blamed = if generator.max.is_some() { "max" } else { "start" };
        findings.push(source.error(&of(blamed), why));
        return None;
    }
    Some(sequence)
}

/// Why no generator can be named so.
fn no_name(name: &str) -> Option<String> {
    if let Err(why) = words(name) {
        return Some(why);
    }
    let plain = literal(name);
    let is_wrong = name.is_empty() || plain.chars().count() > NAME_CHARS_MAX || !plain.chars().all(is_plain);
    is_wrong.then(|| "is not a valid name of a generator; write up to 64 letters, digits, _ and -".to_owned())
}

/// A table's header in a file.
pub(super) fn header(around: &str, name: &str) -> String {
    format!("[{}]", join(around, name))
}

/// Why a sequence has not even a first id.
fn no_id(sequence: &SequenceSpec) -> Option<String> {
    let (start, step) = (sequence.start, sequence.step.get());
    let max = sequence.max.unwrap_or(u64::MAX);
    let remainder = sequence.offset % step;
    // The way from `start` up to the next number with that remainder.
    let gap = (u128::from(remainder) + u128::from(step) - u128::from(start % step)) % u128::from(step);
    let first = u128::from(start) + gap;
    (first > u128::from(max)).then(|| {
        format!(
            "leaves no id: the first id by start = {start}, step and offset is {first}, above the last id, {max}; correct start, \
             step, offset or max"
        )
    })
}

/// The databases that a file is for; none where what it says of them is wrong.
pub(super) fn schemas<'a>(source: &'a Source<RulesFile>, findings: &mut Findings) -> Vec<&'a str> {
    let RulesFile { schema, schemas, .. } = &source.keys;
    let mut wrong = |key: &str, text: String| findings.push(source.error(key, text));
    let several = source.is_written("schemas");
    if schema.is_some() && several {
        wrong("schemas", "cannot be used together with schema; remove one of the two".to_owned());
        return Vec::new();
    }
    if !several && schema.is_none() {
        // An empty one is an error already.
        if !source.is_written("schema") {
            wrong(
                "schema",
                "is missing; write, for example, schema = \"shop\", or schemas = [\"shop_0\", \"shop_1\"]"
                    .to_owned(),
            );
        }
        return Vec::new();
    }
    if several && schemas.is_empty() {
        wrong(
            "schemas",
            "names no database; write, for example, schemas = [\"shop_0\", \"shop_1\"]".to_owned(),
        );
    }
    let mut found: Vec<&str> = Vec::new();
    for name in schema.iter().chain(schemas) {
        let key = if several { "schemas" } else { "schema" };
        if let Some(why) = not_meant(name, &["{", "}"]) {
            let remedy =
                "write names of databases, or patterns with * and ?: schemas = [\"shop_0\", \"crm_*\"]";
            wrong(
                key,
                format!("{name:?} has {why}, which has no meaning in the name of a database here; {remedy}"),
            );
        } else if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            wrong(key, format!("{name:?} is not a valid name of a database; write 1 to 64 characters"));
        } else if found.contains(&name.as_str()) {
            wrong(key, format!("{name:?} is there twice; keep one"));
        } else {
            found.push(name);
        }
    }
    found
}

/// The first sign in a name that would make it a pattern or a template, where neither is meant.
fn not_meant(name: &str, signs: &[&str]) -> Option<String> {
    signs.iter().find(|sign| name.contains(**sign)).map(|sign| format!("a {sign}"))
}

pub(super) fn table_errors(source: &Source<RulesFile>, key: &str, name: &str, table: &Table) -> Vec<Finding> {
    let mut found = Vec::new();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        found.push(source.error(key, "is not a valid name of a table; write 1 to 64 characters"));
    }
    if name.contains(['{', '}']) {
        let text = "has a { or }; write exact names, or patterns with * and ?, for example \"orders_0?\"";
        found.push(source.error(key, text));
    }
    let mut plain = |part: &str, value: &Option<String>, signs: &[&str], remedy: &str| {
        if let Some((value, why)) = value.as_ref().and_then(|value| Some((value, not_meant(value, signs)?))) {
            let text = format!("{value:?} has {why}, which has no meaning here; {remedy}");
            found.push(source.error(&join(key, part), text));
        }
    };
    plain("column", &table.column, &["*", "?", "{", "}"], "name the column, or write \"auto\"");
    let remedy = "name one generator for all tables of the pattern, or write \"{table}\" for a generator of each table";
    plain("generator", &table.generator, &["*", "?"], remedy);
    if let Some(Err(why)) = table.generator.as_deref().map(words) {
        found.push(source.error(&join(key, "generator"), why));
    }
    found
}
