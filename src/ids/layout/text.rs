//! A layout as it is kept in the store: everything that ids depend on, in one line. Two layouts with the same text make the
//! same ids.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use super::{Layout, Moment, Span};

const NAMES: [&str; 3] = ["timestamp", "node", "sequence"];

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, span) in NAMES.into_iter().zip([Some(self.timestamp), self.node, self.sequence]) {
            if let Some(Span { shift, bits }) = span {
                write!(f, "{name} {bits} << {shift}, ")?;
            }
        }
        if self.constant != 0 {
            write!(f, "constant {:#x}, ", self.constant)?;
        }
        write!(f, "epoch {}, tick {} us", self.epoch, self.tick_micros)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no layout")]
pub struct NoLayout;

/// The text does not say where the sequence starts, and no id depends on that.
impl FromStr for Layout {
    type Err = NoLayout;

    fn from_str(text: &str) -> Result<Self, NoLayout> {
        let mut spans = [None; NAMES.len()];
        let (mut constant, mut epoch, mut tick) = (0, None, None);
        for part in text.split(", ") {
            let (name, value) = part.split_once(' ').ok_or(NoLayout)?;
            match name {
                "constant" => {
                    let digits = value.strip_prefix("0x").ok_or(NoLayout)?;
                    constant = u64::from_str_radix(digits, 16).map_err(|_| NoLayout)?;
                }
                "epoch" => epoch = Some(moment(value).ok_or(NoLayout)?),
                "tick" => tick = Some(value.strip_suffix(" us").ok_or(NoLayout)?),
                _ => {
                    let place = NAMES.iter().zip(&mut spans).find(|(known, _)| **known == name);
                    *place.ok_or(NoLayout)?.1 = Some(span(value).ok_or(NoLayout)?);
                }
            }
        }
        let [Some(timestamp), node, sequence] = spans else { return Err(NoLayout) };
        let tick_micros: NonZeroU64 = tick.and_then(|tick| tick.parse().ok()).ok_or(NoLayout)?;
        let epoch = epoch.ok_or(NoLayout)?;
        Ok(Layout { timestamp, node, sequence, constant, epoch, tick_micros, random_start: 0 })
    }
}

fn span(text: &str) -> Option<Span> {
    let (bits, shift) = text.split_once(" << ")?;
    let (bits, shift): (u32, u32) = (bits.parse().ok()?, shift.parse().ok()?);
    let fits = bits > 0 && shift.checked_add(bits)? <= super::BITS_MAX;
    fits.then_some(Span { shift, bits })
}

fn moment(text: &str) -> Option<Moment> {
    let since_1970 = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Moment::from_micros(u64::try_from(since_1970.as_micros()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Layout, NoLayout};
    use crate::ids::layout::presets::PRESETS;
    use crate::ids::layout::{Field, Moment, Part};
    use std::num::NonZeroU64;

    #[test]
    fn what_is_written_is_read() {
        for preset in PRESETS {
            let layout = preset.layout();
            let text = layout.to_string();
            let read: Layout = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.numbering(0).unwrap(), layout.numbering(0).unwrap(), "{text}");
        }
        let fields = [
            Field::new(Part::Constant(5), 3),
            Field::new(Part::Timestamp, 40),
            Field::new(Part::Sequence, 20),
        ];
        let tick = NonZeroU64::new(1000).unwrap();
        let layout = Layout::new(&fields, Moment::from_micros(1_420_070_400_000_123), tick, 0).unwrap();
        assert_eq!(layout.to_string().parse(), Ok(layout));
    }

    #[test]
    fn other_texts() {
        for text in [
            "",
            "snowflake",
            "timestamp 41 << 22",
            "timestamp 41 << 23, epoch 2010-11-04T01:42:54.657Z, tick 1000 us",
            "timestamp 41 << 22, epoch 2010-11-04, tick 1000 us",
            "timestamp 41 << 22, epoch 2010-11-04T01:42:54.657Z, tick 0 us",
            "timestamp 41 << 22, colour 3 << 1, epoch 2010-11-04T01:42:54.657Z, tick 1 us",
        ] {
            assert_eq!(text.parse::<Layout>(), Err(NoLayout), "{text}");
        }
    }
}
