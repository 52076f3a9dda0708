//! A timestamp generator's keys: the layout of its ids, and how it keeps time.

use std::num::NonZeroU64;
use std::time::Duration;

use super::RuleSet;
use super::keys::{EpochKey, FieldKey, FieldKind, GeneratorKeys, LayoutKey, LayoutTable, NodeKey, RulesFile};
use super::model::GeneratorKind;
use crate::ids::layout::presets::Preset;
use crate::ids::layout::{Field, Layout, LayoutError, Moment, Part};
use crate::ids::nodes::Node;
use crate::ids::timestamp::TimestampSpec;
use crate::toml_file::{Finding, Findings, Source, join};

const ADVANCE_MIN: Duration = Duration::from_secs(1);
const ADVANCE_MAX: Duration = Duration::from_hours(24);

/// `None` where something is wrong, which `findings` then says.
pub(super) fn timestamp(
    source: &Source<RulesFile>,
    key: &str,
    generator: &GeneratorKeys,
    findings: &mut Findings,
) -> Option<TimestampSpec> {
    let layout = layout(source, &join(key, "layout"), generator.layout.as_ref(), findings);
    let advance = generator.advance.0;
    if !(ADVANCE_MIN..=ADVANCE_MAX).contains(&advance) {
        findings
            .push(source.error(&join(key, "advance"), "is out of range: write a duration from 1s to 1day"));
    }
    let layout = layout?;
    let node = match generator.node {
        NodeKey::Auto(_) => Node::Auto,
        NodeKey::Node(node) => Node::Fixed(u64::from(node)),
    };
    if let Node::Fixed(number) = node
        && let Err(error) = layout.check_node(number)
    {
        findings.push(source.error(&join(key, "node"), format!("{number} {error}")));
        return None;
    }
    let max_ahead = generator.max_ahead.map(|ahead| ahead.0);
    Some(TimestampSpec { layout, node, advance, max_ahead, max_forward: generator.max_forward.0 })
}

fn layout(
    source: &Source<RulesFile>,
    key: &str,
    written: Option<&LayoutKey>,
    findings: &mut Findings,
) -> Option<Layout> {
    match written {
        Some(LayoutKey::Preset(name)) => Preset::find(name.as_str()).map(Preset::layout),
        Some(LayoutKey::Table(table)) => own_layout(source, key, table, findings),
        // A value that does not fit has its error already.
        None if source.is_written(key) => None,
        None => {
            let text = "is missing; write, for example, layout = \"snowflake\"";
            findings.push(source.error(key, text));
            None
        }
    }
}

fn own_layout(
    source: &Source<RulesFile>,
    key: &str,
    table: &LayoutTable,
    findings: &mut Findings,
) -> Option<Layout> {
    let of_field = |index: usize| format!("{}[{index}]", join(key, "fields"));
    let errors = findings.count(crate::toml_file::Severity::Error);
    let tick = tick_micros(table.tick.0);
    if tick.is_none() {
        findings.push(
            source.error(
                &join(key, "tick"),
                "is not a whole number of microseconds; write, for example, \"1ms\"",
            ),
        );
    }
    let mut fields = Vec::new();
    let mut random_start = 0;
    for (index, written) in table.fields.iter().enumerate() {
        match field(written) {
            Ok(field) => fields.extend(field),
            Err((part, text)) => findings.push(source.error(&join(&of_field(index), part), text)),
        }
        random_start = random_start.max(written.random_start.unwrap_or(0));
    }
    let epoch = match table.epoch? {
        EpochKey::Millis(millis) => millis.saturating_mul(1000),
        EpochKey::Utc(utc) => utc.micros(),
    };
    // A field that could not be read would make the others look wrong.
    if findings.count(crate::toml_file::Severity::Error) > errors || fields.len() < table.fields.len() {
        return None;
    }
    match Layout::new(&fields, Moment::from_micros(epoch), tick?, random_start) {
        Ok(layout) => Some(layout),
        Err(error) => {
            let blamed = match (&error, error.field()) {
                (LayoutError::LongTick { .. }, _) => join(key, "tick"),
                (_, Some(index)) => of_field(index),
                (_, None) => join(key, "fields"),
            };
            findings.push(source.error(&blamed, error));
            None
        }
    }
}

fn tick_micros(tick: Duration) -> Option<NonZeroU64> {
    let is_whole = tick.subsec_nanos().is_multiple_of(1000);
    NonZeroU64::new(u64::try_from(tick.as_micros()).ok()?).filter(|_| is_whole)
}

/// `None`: a key is missing, which is reported already. An error: the key that is wrong, and why.
fn field(written: &FieldKey) -> Result<Option<Field>, (&'static str, &'static str)> {
    let (Some(kind), Some(bits)) = (written.field, written.bits) else { return Ok(None) };
    let part = match (kind, written.value) {
        (FieldKind::Constant, Some(value)) => Part::Constant(value),
        (FieldKind::Constant, None) => return Err(("value", "is missing; write the value of the constant")),
        (_, Some(_)) => {
            return Err(("value", "is a key of constants; remove it, or write field = \"constant\""));
        }
        (FieldKind::Timestamp, None) => Part::Timestamp,
        (FieldKind::Node, None) => Part::Node,
        (FieldKind::Sequence, None) => Part::Sequence,
        (FieldKind::Padding, None) => Part::Padding,
    };
    if written.random_start.is_some() && part != Part::Sequence {
        return Err(("random_start", "is a key of the sequence field; remove it, or move it to that field"));
    }
    Ok(Some(Field { part, bits, shift: written.shift }))
}

/// A layout must last so long from now on: there is to be time to choose another.
const LIFE_MIN: Duration = Duration::from_hours(5 * 8766);

/// Generators that have no ids at `now`, or soon will have none.
pub fn short_lived(rules: &RuleSet, now: Moment) -> Vec<Finding> {
    let errors = rules.specs().filter_map(|generator| {
        let GeneratorKind::Timestamp(timestamp) = &generator.kind else { return None };
        let layout = &timestamp.layout;
        let (epoch, end) = (layout.epoch(), layout.end());
        let left = Duration::from_micros(end.micros().saturating_sub(now.micros()));
        let text = if epoch > now {
            format!("its epoch, {epoch}, is in the future; write an epoch in the past")
        } else if left < LIFE_MIN {
            let when = if left.is_zero() { "ended on" } else { "will end on" };
            format!(
                "{when} {end}, and a layout must last for 5 more years; write a layout of your own with a later epoch or a \
                 longer timestamp"
            )
        } else {
            return None;
        };
        let key = join(&join("generators", &generator.name.name), "layout");
        Some(Finding::error(&generator.origin.file, Some(generator.origin.line), Some(&key), text))
    });
    errors.collect()
}
