//! Layouts that run out: told while there is time to choose another.

use std::time::Duration;

use super::RuleSet;
use super::model::GeneratorKind;
use crate::ids::layout::Moment;
use crate::toml_file::{Finding, join};

/// A layout must last so long from now on.
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
