use std::num::NonZeroU64;

use proptest::prelude::*;

use super::presets::PRESETS;
use super::{DecodeError, Field, Layout, LayoutError, Moment, NodeError, Part};

/// "timestamp 41, node 10 << 12" and so on; a constant is written "constant=5 3".
fn fields(text: &str) -> Vec<Field> {
    let field = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let part = match words[0].split_once('=') {
            Some((_, value)) => Part::Constant(value.parse().unwrap()),
            None => match words[0] {
                "timestamp" => Part::Timestamp,
                "node" => Part::Node,
                "sequence" => Part::Sequence,
                _ => Part::Padding,
            },
        };
        let shift = words.get(3).map(|shift| shift.parse().unwrap());
        Field { part, bits: words[1].parse().unwrap(), shift }
    };
    text.split(',').filter(|text| !text.trim().is_empty()).map(field).collect()
}

fn layout(text: &str, tick_micros: u64, random_start: u64) -> Result<Layout, LayoutError> {
    let tick = NonZeroU64::new(tick_micros).unwrap();
    Layout::new(&fields(text), Moment::from_micros(0), tick, random_start)
}

#[track_caller]
fn check(text: &str, expect: Result<&str, &str>) {
    check_ticking(text, 1000, 0, expect);
}

#[track_caller]
fn check_ticking(text: &str, tick_micros: u64, random_start: u64, expect: Result<&str, &str>) {
    let found = layout(text, tick_micros, random_start);
    let found = found.map(|layout| layout.to_string()).map_err(|error| error.to_string());
    assert_eq!(found.as_deref().map_err(String::as_str), expect, "{text}");
}

#[test]
fn sound_layouts() {
    let end = "epoch 1970-01-01T00:00:00.000Z, tick 1000 us";
    for (text, expect) in [
        ("timestamp 41, node 10, sequence 12", "timestamp 41 << 22, node 10 << 12, sequence 12 << 0, "),
        ("node 10, timestamp 41, sequence 12", "timestamp 41 << 12, node 10 << 53, sequence 12 << 0, "),
        ("timestamp 41, sequence 12, node 10", "timestamp 41 << 22, node 10 << 0, sequence 12 << 10, "),
        (
            "padding 1, timestamp 40, constant=5 3, sequence 4",
            "timestamp 40 << 7, sequence 4 << 0, constant 0x50, ",
        ),
        ("sequence 12 << 0, timestamp 41 << 22", "timestamp 41 << 22, sequence 12 << 0, "),
        ("timestamp 41 << 22, sequence 12", "timestamp 41 << 22, sequence 12 << 0, "),
        ("timestamp 63", "timestamp 63 << 0, "),
    ] {
        check(text, Ok(&[expect, end].concat()));
    }
}

#[test]
fn unsound_layouts_name_the_culprit_and_the_remedy() {
    for (text, expect) in [
        ("", "there is no timestamp among the fields; add a timestamp, for example of 41 bits"),
        (
            "node 10, sequence 12",
            "there is no timestamp among the fields; add a timestamp, for example of 41 bits",
        ),
        ("timestamp 41, node 10, node 12", "node is there twice; remove one of them"),
        ("timestamp 41, node 0, sequence 12", "node has no bits; give the field bits, or remove it"),
        (
            "timestamp 42, node 10, sequence 12",
            "timestamp makes the id 64 bits long, and a signed BIGINT holds 63; shorten the fields by 1",
        ),
        (
            "timestamp 41 << 4294967295, sequence 12",
            "timestamp makes the id 4294967295 bits long, and a signed BIGINT holds 63; shorten the fields by 4294967232",
        ),
        (
            "timestamp 41 << 20, node 10, sequence 12",
            "timestamp and node use the same bits; change one shift, or remove all shifts",
        ),
        (
            "padding 8 << 4, timestamp 41 << 22, sequence 12",
            "padding and sequence use the same bits; change one shift, or remove all shifts",
        ),
        (
            "timestamp 41, constant=8 3, sequence 12",
            "8 does not fit into the constant with bits = 3; write at most 7",
        ),
        (
            "sequence 12, timestamp 41",
            "the sequence is above the timestamp, so ids would not ascend; write the sequence below the timestamp",
        ),
    ] {
        check(text, Err(expect));
    }
    let too_few = "leaves too few ids: 999 a second, and 1000 is the minimum; give the sequence more bits, or write a shorter tick";
    check_ticking("timestamp 48", 1001, 0, Err(too_few));
    check_ticking("timestamp 41, sequence 9", 1_000_000, 0, Err(&too_few.replace("999", "512")));
    check_ticking(
        "timestamp 41, sequence 20",
        60_000_001,
        0,
        Err("a tick of 60000001 us is too long; write at most \"1m\""),
    );
    check_ticking(
        "timestamp 41, sequence 3",
        1000,
        8,
        Err("random_start = 8 is too high for a sequence with bits = 3; write at most 7"),
    );
    check_ticking("timestamp 41", 1000, 8, Err("random_start needs a sequence field; remove random_start"));
}

#[test]
fn an_error_points_to_its_field() {
    let field = |text: &str| layout(text, 1000, 0).unwrap_err().field();
    assert_eq!(field("timestamp 41, node 10, node 12"), Some(1));
    assert_eq!(field("timestamp 42, node 10, sequence 12"), Some(0));
    assert_eq!(field("node 1, sequence 12, timestamp 41"), Some(1));
    assert_eq!(field("node 1"), None);
}

#[test]
fn nodes_that_fit() {
    let layout_of = |text| layout(text, 1000, 0).unwrap();
    let three = layout_of("timestamp 41, node 3, sequence 12");
    assert_eq!((three.check_node(0), three.check_node(7)), (Ok(()), Ok(())));
    assert_eq!(three.check_node(8), Err(NodeError::TooNarrow { bits: 3 }));
    let none = layout_of("timestamp 41, sequence 12");
    assert_eq!((none.check_node(0), none.check_node(1)), (Ok(()), Err(NodeError::NoNode)));
    assert_eq!(
        three.check_node(8).unwrap_err().to_string(),
        "does not fit into the layout's node with bits = 3; write a number up to 7, or give the node more bits"
    );
}

#[test]
fn ids_that_are_not_of_the_layout() {
    let layout = layout("padding 2, timestamp 41, constant=5 3, sequence 12", 1000, 0).unwrap();
    let id = layout.compose(1, 0, 2).unwrap();
    assert_eq!(id, (1 << 15) | (5 << 12) | 2);
    assert_eq!(layout.decode(id).map(|parts| (parts.ticks, parts.sequence)), Ok((1, Some(2))));
    for foreign in [0, id ^ (1 << 12), id | (1 << 56), i64::MAX.unsigned_abs()] {
        assert_eq!(layout.decode(foreign), Err(DecodeError::Foreign), "{foreign:#x}");
    }
    assert_eq!(layout.decode(1 << 63), Err(DecodeError::TooLarge));
    assert_eq!(layout.compose(1 << 41, 0, 0), None);
    assert_eq!(layout.compose(0, 1, 0), None);
    assert_eq!(layout.compose(0, 0, 1 << 12), None);
}

#[test]
fn ticks_and_moments() {
    let fields = fields("timestamp 10, sequence 20");
    let epoch = Moment::from_micros(5_000_000);
    let layout = Layout::new(&fields, epoch, NonZeroU64::new(10_000).unwrap(), 0).unwrap();
    for (micros, tick) in
        [(0, 0), (5_000_000, 0), (5_009_999, 0), (5_010_000, 1), (u64::MAX, (u64::MAX - 5_000_000) / 10_000)]
    {
        assert_eq!(layout.tick_at(Moment::from_micros(micros)), tick);
    }
    assert_eq!(layout.time_of(3), Moment::from_micros(5_030_000));
    assert_eq!((layout.last_tick(), layout.end()), (1023, Moment::from_micros(5_000_000 + 1024 * 10_000)));
    assert_eq!(layout.per_tick().get(), 1 << 20);
}

proptest! {
    #[test]
    fn what_is_composed_comes_apart_again(which in 0..PRESETS.len(), a: u64, b: u64, c: u64) {
        let layout = PRESETS[which].layout();
        let ticks = a & layout.last_tick();
        let node = (0..64).map(|bits| b >> bits).find(|node| layout.check_node(*node).is_ok()).unwrap_or(0);
        let sequence = c % layout.per_tick();
        let id = layout.compose(ticks, node, sequence).unwrap();
        let parts = layout.decode(id).unwrap();
        prop_assert_eq!((parts.ticks, parts.node.unwrap_or(0), parts.sequence.unwrap_or(0)), (ticks, node, sequence));
        prop_assert!(id <= i64::MAX.unsigned_abs());
    }

    /// Whatever somebody writes: an error, or a layout whose ids come apart again.
    #[test]
    fn any_layout(parts in proptest::collection::vec((0..5_u8, 0..70_u32, proptest::option::of(0..70_u32), any::<u64>()), 0..6), id: u64) {
        let fields: Vec<_> = parts.into_iter().map(|(part, bits, shift, value)| {
            let part = match part {
                0 => Part::Timestamp,
                1 => Part::Node,
                2 => Part::Sequence,
                3 => Part::Constant(value >> 60),
                _ => Part::Padding,
            };
            Field { part, bits, shift }
        }).collect();
        if let Ok(layout) = Layout::new(&fields, Moment::default(), NonZeroU64::MIN, 0)
            && let Ok(parts) = layout.decode(id)
        {
            let again = layout.compose(parts.ticks, parts.node.unwrap_or(0), parts.sequence.unwrap_or(0));
            prop_assert_eq!(again, Some(id));
        }
    }
}
