//! Plan and ranges to bytes.

use super::plan::Plan;
use crate::ids::range::IdRange;

pub(super) fn splice(plan: &Plan, text: &[u8], ranges: &[IdRange]) -> Option<Vec<u8>> {
    let _ = (plan, ranges);
    Some(text.to_vec())
}
