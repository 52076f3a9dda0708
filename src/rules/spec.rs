//! One generator, one table: what their keys mean, and what their types do not say is wrong.

use super::keys::{BatchKey, Generator, Kind, Order, RulesFile, SeedKey, Table};
use super::model::{GeneratorKind, Unavailable};
use super::timestamp;
use crate::ids::sequence::{Batch, Seed, SequenceSpec};
use crate::toml_file::{Finding, Findings, Source, join};

/// MySQL manual, "Identifier Length Limits".
const NAME_CHARS_MAX: usize = 64;

const OF_SEQUENCE: [&str; 8] = ["start", "step", "offset", "batch", "low_water", "max", "seed", "order"];
const OF_TIMESTAMP: [&str; 5] = ["layout", "node", "advance", "max_ahead", "max_forward"];

/// `None` where something is wrong, which `findings` then says.
pub(super) fn kind(
    source: &Source<RulesFile>,
    key: &str,
    name: &str,
    generator: &Generator,
    findings: &mut Findings,
) -> Option<GeneratorKind> {
    let of = |part: &str| join(key, part);
    let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        let text = "is no name for a generator; write up to 64 letters, digits, _ and -";
        findings.push(source.error(key, text));
    }
    let mut foreign = |parts: &[&str], text: &str| {
        let written = parts.iter().map(|part| of(part)).filter(|key| source.is_written(key));
        findings.extend(written.map(|key| source.error(&key, text)));
    };
    match generator.kind? {
        Kind::Timestamp if generator.order == Order::Global => {
            let text = "\"global\" is for sequences: ids of a timestamp generator ascend on each proxy, not over all of \
                        them; remove it";
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
    generator: &Generator,
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
        seed: match generator.seed {
            SeedKey::Tables => Seed::Tables,
            SeedKey::None => Seed::None,
        },
    };
    if let Some(why) = no_id(&sequence) {
        let blamed = if generator.max.is_some() { "max" } else { "start" };
        findings.push(source.error(&of(blamed), why));
        return None;
    }
    Some(sequence)
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
        format!("leaves no id: the first from start = {start} by step and offset is {first}, above {max}")
    })
}

pub(super) fn table_errors(source: &Source<RulesFile>, key: &str, name: &str, table: &Table) -> Vec<Finding> {
    let of = |part: &str| join(key, part);
    let rows = [
        (
            name.is_empty() || name.chars().count() > NAME_CHARS_MAX,
            key.to_owned(),
            "is no name of a table; write 1 to 64 characters",
        ),
        (
            table.unavailable == Unavailable::Native,
            of("unavailable"),
            "\"native\" is not in this version of Rowstamp; write \"refuse\"",
        ),
    ];
    rows.into_iter()
        .filter(|(is_wrong, ..)| *is_wrong)
        .map(|(_, key, text)| source.error(&key, text))
        .collect()
}
