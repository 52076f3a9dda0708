//! The bit fields of a timestamp id: where they lie, what they mean, and when they run out. Pure: without a clock.
//!
//! A layout is written as a list of fields, the highest first. An id is their sum: the ticks since the epoch, the node,
//! the number within the tick, and bits that are always the same. Ids of one node ascend because the timestamp lies
//! above the sequence, wherever the node lies; they are positive in a signed BIGINT because no field reaches bit 63.

mod moment;
mod numbering;
pub mod presets;
mod text;

use std::fmt;
use std::num::NonZeroU64;

use super::block::{Spacing, Ticks};

pub use moment::Moment;
pub use numbering::Numbering;

/// A BIGINT without its sign.
pub const BITS_MAX: u32 = 63;
/// Fewer ids in a second would be borrowed from the future all the time.
const PER_SECOND_MIN: u64 = 1_000;
/// The longest tick. A longer one would show too little of the time when an id was made.
const TICK_MICROS_MAX: u64 = 60_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Ticks since the epoch.
    Timestamp,
    /// Which proxy made the id.
    Node,
    /// Which of the tick's ids it is.
    Sequence,
    /// Always this.
    Constant(u64),
    /// Always zero.
    Padding,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Timestamp => "timestamp",
            Part::Node => "node",
            Part::Sequence => "sequence",
            Part::Constant(_) => "constant",
            Part::Padding => "padding",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub part: Part,
    pub bits: u32,
    /// The field's lowest bit; `None`: right above the field that is next in the list, and the last one at bit 0.
    pub shift: Option<u32>,
}

impl Field {
    pub const fn new(part: Part, bits: u32) -> Self {
        Field { part, bits, shift: None }
    }
}

/// A fault of a layout, and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("there is no timestamp among the fields; add a timestamp, for example of 41 bits")]
    NoTimestamp,
    #[error("{part} is there twice; remove one of them")]
    Twice { index: usize, part: Part },
    #[error("{part} has no bits; give the field bits, or remove it")]
    NoBits { index: usize, part: Part },
    #[error(
        "{part} makes the id {top} bits long, and a signed BIGINT holds {BITS_MAX}; shorten the fields by {}",
        top - BITS_MAX
    )]
    TooWide { index: usize, part: Part, top: u32 },
    #[error("{part} and {other} use the same bits; change one shift, or remove all shifts")]
    Overlap { index: usize, part: Part, other: Part },
    #[error("{value} does not fit into the constant with bits = {bits}; write at most {}", mask(*bits))]
    ConstantTooLarge { index: usize, value: u64, bits: u32 },
    #[error(
        "the sequence is above the timestamp, so ids would not ascend; write the sequence below the timestamp"
    )]
    SequenceAbove { index: usize },
    #[error(
        "leaves too few ids: {per_second} a second, and {PER_SECOND_MIN} is the minimum; give the sequence more bits, or \
         write a shorter tick"
    )]
    TooFew { per_second: u64 },
    #[error("a tick of {micros} us is too long; write at most \"1m\"")]
    LongTick { micros: u64 },
    #[error("random_start = {start} is too high for a sequence with bits = {bits}; write at most {}", mask(*bits))]
    RandomStart { index: usize, start: u64, bits: u32 },
    #[error("random_start needs a sequence field; remove random_start")]
    NothingToStart,
}

impl LayoutError {
    /// The field to blame, by its place in the list.
    pub fn field(&self) -> Option<usize> {
        match *self {
            LayoutError::Twice { index, .. }
            | LayoutError::NoBits { index, .. }
            | LayoutError::TooWide { index, .. }
            | LayoutError::Overlap { index, .. }
            | LayoutError::ConstantTooLarge { index, .. }
            | LayoutError::SequenceAbove { index }
            | LayoutError::RandomStart { index, .. } => Some(index),
            LayoutError::NoTimestamp
            | LayoutError::TooFew { .. }
            | LayoutError::LongTick { .. }
            | LayoutError::NothingToStart => None,
        }
    }
}

/// A node that a layout has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error(
        "does not fit into the layout's node with bits = {bits}; write a number up to {}, or give the node more bits",
        mask(*bits)
    )]
    TooNarrow { bits: u32 },
    #[error(
        "does not fit: the layout has no node, so only one proxy may use it; write 0, or a layout with a node"
    )]
    NoNode,
}

/// Why a number is no id of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("is above {}, the largest signed BIGINT", i64::MAX)]
    TooLarge,
    #[error("does not match the zero or constant bits of this layout; the id was made with another layout")]
    Foreign,
}

/// Some bits of an id; none: a field that is not there, and always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    shift: u32,
    bits: u32,
}

impl Span {
    const NONE: Span = Span { shift: 0, bits: 0 };

    fn max(self) -> u64 {
        mask(self.bits)
    }

    fn of(self, id: u64) -> u64 {
        id.checked_shr(self.shift).unwrap_or(0) & self.max()
    }

    /// `value` is at most the span's maximum.
    fn put(self, value: u64) -> u64 {
        value << self.shift
    }

    fn all(self) -> u64 {
        self.put(self.max())
    }
}

const fn mask(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

/// An id taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Since the epoch.
    pub ticks: u64,
    /// When its tick began. Ids borrow from later ticks, so it may be ahead of the clock that they were made by.
    pub time: Moment,
    /// `None`: the layout has no such field.
    pub node: Option<u64>,
    pub sequence: Option<u64>,
}

/// A layout that can act: no two fields share a bit, and none is too wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    timestamp: Span,
    node: Option<Span>,
    /// `None`: each tick holds one id.
    sequence: Option<Span>,
    constant: u64,
    epoch: Moment,
    tick_micros: NonZeroU64,
    random_start: u64,
}

impl Layout {
    /// `fields` from high to low. `random_start` above 0: the sequence of each tick starts at random below it.
    pub fn new(
        fields: &[Field],
        epoch: Moment,
        tick_micros: NonZeroU64,
        random_start: u64,
    ) -> Result<Self, LayoutError> {
        let mut layout = Layout {
            timestamp: Span::NONE,
            node: None,
            sequence: None,
            constant: 0,
            epoch,
            tick_micros,
            random_start,
        };
        let mut taken: Vec<(Part, Span)> = Vec::new();
        let mut below = 0;
        for (index, &Field { part, bits, shift }) in fields.iter().enumerate().rev() {
            let shift = shift.unwrap_or(below);
            below = shift.saturating_add(bits);
            if bits == 0 {
                return Err(LayoutError::NoBits { index, part });
            }
            if below > BITS_MAX {
                return Err(LayoutError::TooWide { index, part, top: below });
            }
            let span = Span { shift, bits };
            if let Some((other, _)) = taken.iter().find(|(_, other)| other.all() & span.all() != 0) {
                return Err(LayoutError::Overlap { index, part, other: *other });
            }
            taken.push((part, span));
            if !layout.add(part, span) {
                return Err(LayoutError::Twice { index, part });
            }
            match part {
                Part::Constant(value) if value > span.max() => {
                    return Err(LayoutError::ConstantTooLarge { index, value, bits });
                }
                Part::Constant(value) => layout.constant |= span.put(value),
                Part::Sequence if random_start > span.max() => {
                    return Err(LayoutError::RandomStart { index, start: random_start, bits });
                }
                _ => {}
            }
        }
        layout.check(fields)?;
        Ok(layout)
    }

    /// Adds a part. True if it was not there yet; there may be several constants.
    fn add(&mut self, part: Part, span: Span) -> bool {
        match part {
            Part::Timestamp => std::mem::replace(&mut self.timestamp, span) == Span::NONE,
            Part::Node => self.node.replace(span).is_none(),
            Part::Sequence => self.sequence.replace(span).is_none(),
            Part::Constant(_) | Part::Padding => true,
        }
    }

    fn check(&self, fields: &[Field]) -> Result<(), LayoutError> {
        if self.timestamp == Span::NONE {
            return Err(LayoutError::NoTimestamp);
        }
        if self.sequence.is_some_and(|sequence| sequence.shift > self.timestamp.shift) {
            let index = fields.iter().position(|field| field.part == Part::Sequence).unwrap_or(0);
            return Err(LayoutError::SequenceAbove { index });
        }
        if self.sequence.is_none() && self.random_start > 0 {
            return Err(LayoutError::NothingToStart);
        }
        let micros = self.tick_micros.get();
        if micros > TICK_MICROS_MAX {
            return Err(LayoutError::LongTick { micros });
        }
        let per_second = u128::from(self.per_tick().get()) * 1_000_000 / u128::from(micros);
        match u64::try_from(per_second) {
            Ok(per_second) if per_second < PER_SECOND_MIN => Err(LayoutError::TooFew { per_second }),
            _ => Ok(()),
        }
    }

    /// Checks that ids of this node can be distinguished from those of others.
    pub fn check_node(&self, node: u64) -> Result<(), NodeError> {
        match self.node {
            Some(span) if node > span.max() => Err(NodeError::TooNarrow { bits: span.bits }),
            None if node > 0 => Err(NodeError::NoNode),
            _ => Ok(()),
        }
    }

    /// The id of these parts; `None` where one of them does not fit.
    pub fn compose(&self, ticks: u64, node: u64, sequence: u64) -> Option<u64> {
        let fits = ticks <= self.timestamp.max()
            && self.check_node(node).is_ok()
            && sequence <= self.sequence.unwrap_or(Span::NONE).max();
        fits.then(|| {
            self.timestamp.put(ticks)
                | self.node.unwrap_or(Span::NONE).put(node)
                | self.sequence.unwrap_or(Span::NONE).put(sequence)
                | self.constant
        })
    }

    pub fn decode(&self, id: u64) -> Result<Parts, DecodeError> {
        if id > i64::MAX.unsigned_abs() {
            return Err(DecodeError::TooLarge);
        }
        let ticks = self.timestamp.of(id);
        let (node, sequence) = (self.node.map(|span| span.of(id)), self.sequence.map(|span| span.of(id)));
        // If the id's parts make another id, it has bits that are no part of this layout.
        if self.compose(ticks, node.unwrap_or(0), sequence.unwrap_or(0)) != Some(id) {
            return Err(DecodeError::Foreign);
        }
        Ok(Parts { ticks, time: self.time_of(ticks), node, sequence })
    }

    /// The node that an id would be of, whatever its other bits are.
    pub fn node_of(&self, id: u64) -> u64 {
        self.node.map_or(0, |node| node.of(id))
    }

    /// True if ids of different nodes lie apart, whatever their times are: then the highest of all says nothing of the others.
    pub fn is_by_node(&self) -> bool {
        self.node.is_some_and(|node| node.shift > self.timestamp.shift)
    }

    /// Ids of one tick and node.
    pub fn per_tick(&self) -> NonZeroU64 {
        // At most 2^62, since the timestamp has a bit too.
        NonZeroU64::MIN.saturating_add(self.sequence.unwrap_or(Span::NONE).max())
    }

    pub fn epoch(&self) -> Moment {
        self.epoch
    }

    pub fn tick_micros(&self) -> NonZeroU64 {
        self.tick_micros
    }

    /// Above 0: each tick's sequence starts at random below it.
    pub fn random_start(&self) -> u64 {
        self.random_start
    }

    pub fn last_tick(&self) -> u64 {
        self.timestamp.max()
    }

    /// The tick of a moment; 0 before the epoch. It may be later than [`Self::last_tick`].
    pub fn tick_at(&self, moment: Moment) -> u64 {
        moment.micros().saturating_sub(self.epoch.micros()) / self.tick_micros
    }

    /// When a tick begins.
    pub fn time_of(&self, tick: u64) -> Moment {
        Moment::from_micros(self.epoch.micros().saturating_add(tick.saturating_mul(self.tick_micros.get())))
    }

    /// When the layout runs out: from then on it has no ids.
    pub fn end(&self) -> Moment {
        self.time_of(self.last_tick().saturating_add(1))
    }

    /// Distance of the ids within a tick.
    pub fn step(&self) -> NonZeroU64 {
        let lowest = self.sequence.unwrap_or(self.timestamp);
        NonZeroU64::MIN.saturating_add(1).saturating_pow(lowest.shift)
    }

    pub fn spacing(&self) -> Spacing {
        let distance = NonZeroU64::MIN.saturating_add(1).saturating_pow(self.timestamp.shift);
        let ticks = Ticks { ids: self.per_tick(), distance };
        Spacing { step: self.step(), ticks: (!self.is_contiguous()).then_some(ticks) }
    }

    /// True if the last id of a tick and the first of the next are as far apart as any two neighbours: then all ids of a
    /// node are one ascending run.
    pub fn is_contiguous(&self) -> bool {
        self.sequence.is_none_or(|sequence| sequence.shift + sequence.bits == self.timestamp.shift)
    }
}

#[cfg(test)]
mod tests;
