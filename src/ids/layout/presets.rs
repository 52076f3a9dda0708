//! Layouts of other generators, so that their ids can be read here and tables can go on with them.
//!
//! Some of them count 64 bits, of which the highest stays zero in a signed number: here their timestamps have one bit
//! fewer, and the same ids.

use std::num::NonZeroU64;

use super::{Field, Layout, Moment, Part};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    fields: &'static [Field],
    epoch: Moment,
    tick_micros: NonZeroU64,
    random_start: u64,
}

const TICK_1_MS: NonZeroU64 = micros(1_000);
const TWITTER_EPOCH: Moment = millis(1_288_834_974_657);
const SNOWFLAKE: &[Field] = &[timestamp(41), node(10), sequence(12)];

/// Sorted by name.
pub const PRESETS: [Preset; 15] = [
    // https://github.com/cockroachdb/cockroach, GenerateUniqueInt: no sequence, the next id takes the next tick.
    preset("cockroach", &[timestamp(48), node(15)], millis(1_420_070_400_000), micros(10)),
    // https://github.com/Ahoo-Wang/CosId, MillisecondSnowflakeId and CosId.COSID_EPOCH: 2019-12-25 in Shanghai.
    preset("cosid", SNOWFLAKE, millis(1_577_203_200_000), TICK_1_MS),
    // https://discord.com/developers/docs/reference#snowflakes: worker 5 and process 5 are the node.
    preset("discord", SNOWFLAKE, millis(1_420_070_400_000), TICK_1_MS),
    // https://instagram-engineering.com/sharding-ids-at-instagram-1cf5a71e5a5c: the shard is the node.
    preset("instagram", &[timestamp(40), node(13), sequence(10)], millis(1_314_220_021_721), TICK_1_MS),
    // CosId's SafeJavaScriptSnowflakeId: 53 bits, which a JavaScript number holds exactly.
    preset("js-safe", &[timestamp(41), node(3), sequence(9)], millis(1_577_203_200_000), TICK_1_MS),
    // https://github.com/Meituan-Dianping/Leaf, SnowflakeIDGenImpl: each millisecond starts below 100, at random.
    Preset { random_start: 100, ..preset("leaf", SNOWFLAKE, TWITTER_EPOCH, TICK_1_MS) },
    // https://github.com/mastodon/mastodon, lib/mastodon/snowflake.rb.
    preset("mastodon", &[timestamp(47), sequence(16)], millis(0), TICK_1_MS),
    // https://github.com/MyCATApache/Mycat-Server, IncrSequenceTimeHandler: datacenter 5 and worker 5 are the node.
    preset("mycat", SNOWFLAKE, TWITTER_EPOCH, TICK_1_MS),
    // https://docs.pingcap.com/tidb/stable/tso
    preset("pd-tso", &[timestamp(45), sequence(18)], millis(0), TICK_1_MS),
    // https://github.com/polardb/polardbx-sql, IdGenerator.
    preset("polardbx", SNOWFLAKE, millis(1_303_895_660_503), TICK_1_MS),
    // https://github.com/twitter-archive/snowflake/tree/snowflake-2010: datacenter 5 and worker 5 are the node.
    preset("snowflake", SNOWFLAKE, TWITTER_EPOCH, TICK_1_MS),
    // https://github.com/sony/sonyflake: from 2014-09-01.
    preset("sonyflake", &[timestamp(39), sequence(8), node(16)], millis(1_409_529_600_000), micros(10_000)),
    // https://github.com/f4b6a3/tsid-creator: 1,024 nodes, from 2020-01-01.
    preset("tsid", SNOWFLAKE, millis(1_577_836_800_000), TICK_1_MS),
    // https://github.com/baidu/uid-generator, DefaultUidGenerator: from 2016-05-20 in Shanghai; ran out in November 2024.
    preset(
        "uid-generator",
        &[timestamp(28), node(22), sequence(13)],
        millis(1_463_673_600_000),
        micros(1_000_000),
    ),
    // https://github.com/yitter/IdGenerator, by its defaults.
    preset("yitter", &[timestamp(51), node(6), sequence(6)], millis(1_582_136_402_000), TICK_1_MS),
];

/// The preset whose ids can be read, but that can make none: it ran out in November 2024.
const ENDED: &str = "uid-generator";

impl Preset {
    /// The presets that a generator can have, sorted by name.
    pub fn living() -> impl Iterator<Item = &'static Preset> {
        PRESETS.iter().filter(|preset| preset.name != ENDED)
    }

    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// # Panics
    /// Never: a test makes each of them.
    pub fn layout(&self) -> Layout {
        Layout::new(self.fields, self.epoch, self.tick_micros, self.random_start).expect("a sound preset")
    }
}

const fn preset(
    name: &'static str,
    fields: &'static [Field],
    epoch: Moment,
    tick_micros: NonZeroU64,
) -> Preset {
    Preset { name, fields, epoch, tick_micros, random_start: 0 }
}

const fn timestamp(bits: u32) -> Field {
    Field::new(Part::Timestamp, bits)
}

const fn node(bits: u32) -> Field {
    Field::new(Part::Node, bits)
}

const fn sequence(bits: u32) -> Field {
    Field::new(Part::Sequence, bits)
}

const fn millis(millis: u64) -> Moment {
    Moment::from_micros(millis * 1_000)
}

const fn micros(micros: u64) -> NonZeroU64 {
    NonZeroU64::new(micros).expect("a tick")
}

#[cfg(test)]
mod tests {
    use super::{PRESETS, Preset};
    use crate::ids::layout::{Field, Layout, Moment, Part};
    use std::num::NonZeroU64;

    /// The id's parts, and the id of its parts.
    #[track_caller]
    fn check_layout(layout: &Layout, id: u64, time: &str, node: Option<u64>, sequence: Option<u64>) {
        let parts = layout.decode(id).unwrap();
        assert_eq!((parts.time.to_string().as_str(), parts.node, parts.sequence), (time, node, sequence));
        assert_eq!(layout.compose(parts.ticks, node.unwrap_or(0), sequence.unwrap_or(0)), Some(id));
        assert_eq!(layout.tick_at(parts.time), parts.ticks);
    }

    #[track_caller]
    fn check(name: &str, id: u64, time: &str, node: Option<u64>, sequence: Option<u64>) {
        check_layout(&Preset::find(name).unwrap().layout(), id, time, node, sequence);
    }

    /// Ids that the projects' own pages show with their time, node or sequence.
    #[test]
    fn published_ids() {
        // https://en.wikipedia.org/wiki/Snowflake_ID: a tweet of 2022, machine 378, sequence 0.
        check("snowflake", 1_541_815_603_606_036_480, "2022-06-28T16:07:40.105Z", Some(378), Some(0));
        // https://discord.com/developers/docs/reference#snowflakes: 1462015105796 ms, worker 1, process 0, increment 7.
        check("discord", 175_928_847_299_117_063, "2016-04-30T11:18:25.796Z", Some(1 << 5), Some(7));
        // https://docs.pingcap.com/tidb/stable/tso, and pd-ctl's `tso` on https://docs.pingcap.com/tidb/stable/pd-control
        // (both in local time there).
        check("pd-tso", 443_852_055_297_916_932, "2023-08-27T18:33:41.687Z", None, Some(4));
        check("pd-tso", 395_181_938_313_123_110, "2017-10-08T21:50:59.507Z", None, Some(120_102));
        // https://docs.joinmastodon.org/methods/statuses/: created_at 2019-12-05T11:34:47.196Z, by the clock of the web
        // server; the id by the database's, 13 ms earlier.
        check("mastodon", 103_254_962_155_278_888, "2019-12-05T11:34:47.183Z", None, Some(53_800));
        // https://www.cockroachlabs.com/docs/v1.0/serial.html: three rows of one statement, on node 1.
        check("cockroach", 148_656_994_422_095_873, "2016-06-09T01:48:34.411040Z", Some(1), None);
        check("cockroach", 148_656_994_422_161_409, "2016-06-09T01:48:34.411060Z", Some(1), None);
        // README of tsid-creator: a run of ids, and the next millisecond's.
        check("tsid", 38_352_658_567_418_867, "2020-04-15T19:59:46.360Z", Some(421), Some(1011));
        check("tsid", 38_352_658_567_418_874, "2020-04-15T19:59:46.360Z", Some(421), Some(1018));
        check("tsid", 38_352_658_573_940_759, "2020-04-15T19:59:46.361Z", Some(989), Some(2071));
        // README of IdGenerator (yitter): "after one year".
        check("yitter", 129_053_495_681_099, "2021-02-18T10:20:03.094Z", Some(1), Some(11));
    }

    /// README of uid-generator, `parseUID`: 2017-01-19 12:15:46 in Shanghai, worker 4, sequence 9; by the bits and the
    /// epoch of its sample configuration (29, 21, 13; 2016-09-20), which differ from the defaults that the preset has.
    #[test]
    fn a_published_id_of_uid_generator() {
        let fields = [(Part::Timestamp, 29), (Part::Node, 21), (Part::Sequence, 13)];
        let fields = fields.map(|(part, bits)| Field::new(part, bits));
        let epoch = Moment::from_micros(1_474_300_800_000_000);
        let layout = Layout::new(&fields, epoch, NonZeroU64::new(1_000_000).unwrap(), 0).unwrap();
        check_layout(&layout, 180_363_646_902_239_241, "2017-01-19T04:15:46.000Z", Some(4), Some(9));
    }

    /// Ids that no page shows, by the expressions of the originals' own code.
    #[test]
    fn ids_by_the_originals_arithmetic() {
        // "Sharding & IDs at Instagram": 1387263000 << (64-41) | 1341 << (64-41-13) | 5001 % 1024, and our_epoch.
        let id = (1_387_263_000 << (64 - 41)) | (1341 << (64 - 41 - 13)) | (5001 % 1024);
        check("instagram", id, "2011-09-09T22:28:04.721Z", Some(1341), Some(905));
        let now_ms = 1_700_000_000_123_u64;
        let now = "2023-11-14T22:13:20.123Z";
        // SnowflakeIDGenImpl.get: ((timestamp - twepoch) << 22) | (workerId << 12) | sequence
        let snowflake = |epoch_ms: u64, node: u64| ((now_ms - epoch_ms) << 22) | (node << 12) | 0x63;
        check("leaf", snowflake(1_288_834_974_657, 1023), now, Some(1023), Some(99));
        // IdGenerator.nextId of PolarDB-X: the same with TWEPOCH.
        check("polardbx", snowflake(1_303_895_660_503, 7), now, Some(7), Some(99));
        // MillisecondSnowflakeId: epoch 1577203200000, bits 41, 10, 12; friendly id 20231115061320123-5-99.
        check("cosid", snowflake(1_577_203_200_000, 5), now, Some(5), Some(99));
        // IncrSequenceTimeHandler.IdWorker: datacenterId << 17 | workerId << 12
        let id = ((now_ms - 1_288_834_974_657) << 22) | (3 << 17) | (9 << 12) | 0x63;
        check("mycat", id, now, Some((3 << 5) | 9), Some(99));
        // SafeJavaScriptSnowflakeId.ofMillisecond: machine bits 10 - 7, sequence bits 12 - 3.
        let id = ((now_ms - 1_577_203_200_000) << 12) | (5 << 9) | 0x1F4;
        check("js-safe", id, now, Some(5), Some(500));
        assert!(id < 1 << 53);
        // sonyflake.go, toID: elapsedTime << 24 | sequence << 16 | machineID, in units of 10 ms.
        let id = (((now_ms - 1_409_529_600_000) / 10) << 24) | (200 << 16) | 0xFFFE;
        check("sonyflake", id, "2023-11-14T22:13:20.120Z", Some(0xFFFE), Some(200));
        // BitsAllocator.allocate: deltaSeconds << 35 | workerId << 13 | sequence
        let id = ((now_ms / 1000 - 1_463_673_600) << 35) | (4_194_303 << 13) | 8191;
        check("uid-generator", id, "2023-11-14T22:13:20.000Z", Some(4_194_303), Some(8191));
    }

    #[test]
    fn when_each_runs_out() {
        let found = PRESETS.map(|preset| (preset.name, preset.layout().end().to_string()));
        let expect = [
            ("cockroach", "2104-03-13T02:56:07.106560Z"),
            ("cosid", "2089-08-30T07:47:35.552Z"),
            ("discord", "2084-09-06T15:47:35.552Z"),
            ("instagram", "2046-06-27T17:00:49.497Z"),
            ("js-safe", "2089-08-30T07:47:35.552Z"),
            ("leaf", "2080-07-10T17:30:30.209Z"),
            ("mastodon", "6429-10-17T02:45:55.328Z"),
            ("mycat", "2080-07-10T17:30:30.209Z"),
            ("pd-tso", "3084-12-12T12:41:28.832Z"),
            ("polardbx", "2081-01-01T01:01:56.055Z"),
            ("snowflake", "2080-07-10T17:30:30.209Z"),
            ("sonyflake", "2188-11-16T03:28:58.880Z"),
            ("tsid", "2089-09-06T15:47:35.552Z"),
            ("uid-generator", "2024-11-20T13:24:16.000Z"),
            ("yitter", "73376-10-30T14:34:47.248Z"),
        ];
        for (found, expect) in found.iter().zip(expect) {
            assert_eq!((found.0, found.1.as_str()), expect);
        }
    }

    #[test]
    fn which_are_one_run_of_ids() {
        let runs = |contiguous: bool| {
            let presets = PRESETS.iter().filter(|preset| preset.layout().is_contiguous() == contiguous);
            presets.map(|preset| (preset.name, preset.layout().step().get())).collect::<Vec<_>>()
        };
        assert_eq!(
            runs(true),
            [("cockroach", 1 << 15), ("mastodon", 1), ("pd-tso", 1), ("sonyflake", 1 << 16)]
        );
        assert!(runs(false).iter().all(|(_, step)| *step == 1));
    }
}
