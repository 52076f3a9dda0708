//! A rules file as it is written. The JSON schema and the reference are made from these types and their comments.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::model::{Collide, Explicit, InsertId, Mode, Unavailable};
use crate::ids::layout::presets::Preset;
use crate::ids::sequence::Seed;
use crate::toml_file::{Interval, UtcTime};

/// A rules file: which tables of one schema, or of several alike, are filled, and by which generators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RulesFile {
    /// The database of this file's tables and generators, or a pattern of databases, with `*` and `?` as in names of tables. It or
    /// `schemas` is required.
    #[schemars(example = &"shop", length(min = 1))]
    pub schema: Option<String>,
    /// Several databases, or patterns: the file stands for one like it for each, with generators of its own. A generator of another file, by
    /// "schema.name", is one for all.
    #[schemars(example = ["shop_0", "shop_1"])]
    pub schemas: Vec<String>,
    /// By name. Names are made of letters, digits, `_` and `-`. "{table}" in one makes it one for each table that draws from it.
    pub generators: BTreeMap<String, Generator>,
    /// By name; `*` stands for any run of characters, `?` for one. An exact name beats a pattern.
    pub tables: BTreeMap<String, Table>,
}

/// Where ids come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["kind"]))]
pub struct Generator {
    /// "sequence": 1, 2, 3, ...; "timestamp": time, node and a number within the tick.
    #[schemars(example = &"sequence")]
    pub kind: Option<Kind>,
    /// sequence: the first id, where nothing else says more.
    #[schemars(range(min = 1))]
    pub start: u64,
    /// sequence: distance from one id to the next.
    pub step: NonZeroU64,
    /// sequence: ids leave this remainder when divided by step.
    pub offset: u64,
    /// sequence: ids that one store write reserves; "auto": 10 minutes of demand.
    pub batch: BatchKey,
    /// sequence: the next batch is reserved when this share of one is left.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub low_water: f64,
    /// sequence: the last id; default: the most that all its columns hold; of BIGINT UNSIGNED 2^64 - 2^48 - 1.
    #[schemars(example = 2_147_483_647, range(min = 1))]
    pub max: Option<u64>,
    /// sequence: where it starts when it is first created; "tables": above MAX(id) and the AUTO_INCREMENT counter of each of
    /// its tables; "none": at start.
    pub seed: Seed,
    /// sequence: "leased": each proxy has ranges of its own ("global", ascending over all proxies: not in this version).
    pub order: Order,
    /// Applications draw ids from it by calls in their SQL: NEXTVAL(name), NEXT VALUE FOR name, ROWSTAMP_TAKE(name, n).
    pub sql: bool,
    /// timestamp, required: where the fields of an id lie; a preset's name, or a table of your own (see above).
    #[schemars(example = &"snowflake")]
    pub layout: Option<LayoutKey>,
    /// timestamp: what stands in the node field of this proxy's ids, or "auto": the lowest that is free.
    pub node: NodeKey,
    /// timestamp: how far ahead time is reserved, and so how long the store may be away; 1s to 1day.
    pub advance: Interval,
    /// timestamp: how far ids that a tick has no room for may run ahead of the clock; default: as far as it takes.
    #[schemars(example = &"10s")]
    pub max_ahead: Option<Interval>,
    /// timestamp: a leap of the clock that is not followed.
    pub max_forward: Interval,
}

impl Default for Generator {
    fn default() -> Self {
        Generator {
            kind: None,
            start: 1,
            step: NonZeroU64::MIN,
            offset: 0,
            batch: BatchKey::Auto(Auto::Auto),
            low_water: 0.5,
            max: None,
            seed: Seed::Tables,
            order: Order::Leased,
            sql: false,
            layout: None,
            node: NodeKey::Auto(Auto::Auto),
            advance: Interval::from_secs(60),
            max_ahead: None,
            max_forward: Interval::from_secs(60 * 60),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// 1, 2, 3, ...
    Sequence,
    /// Time, node and a number within the tick in one number.
    Timestamp,
}

/// The one word of a key that is else a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchKey {
    Auto(Auto),
    Ids(NonZeroU64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeKey {
    Auto(Auto),
    Node(u32),
}

/// The fields of a timestamp id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LayoutKey {
    Preset(PresetName),
    Table(LayoutTable),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetName(String);

impl PresetName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for PresetName {
    fn schema_name() -> Cow<'static, str> {
        "PresetName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Preset::living().map(|preset| preset.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
    fn inline_schema() -> bool {
        true
    }
}

/// A layout of one's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["epoch", "fields"]))]
pub struct LayoutTable {
    /// Where time begins, in UTC, or in milliseconds since 1970.
    #[schemars(example = &"2026-01-01T00:00:00Z")]
    pub epoch: Option<EpochKey>,
    /// How long ids have the same timestamp, in whole microseconds.
    pub tick: Interval,
    /// From high to low.
    pub fields: Vec<FieldKey>,
}

impl Default for LayoutTable {
    fn default() -> Self {
        LayoutTable { epoch: None, tick: Interval(Duration::from_millis(1)), fields: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EpochKey {
    Millis(u64),
    Utc(UtcTime),
}

/// Some bits of an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["field", "bits"]))]
pub struct FieldKey {
    #[schemars(example = &"timestamp")]
    pub field: Option<FieldKind>,
    #[schemars(example = 41, range(min = 1, max = 63))]
    pub bits: Option<u32>,
    /// Its lowest bit; default: right above the next field of the list.
    #[schemars(range(max = 62))]
    pub shift: Option<u32>,
    /// constant: what it always is.
    pub value: Option<u64>,
    /// sequence: each tick starts at random below it.
    #[schemars(range(min = 1))]
    pub random_start: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Ticks since the epoch.
    Timestamp,
    /// Which proxy made the id.
    Node,
    /// Which of the tick's ids it is.
    Sequence,
    /// Always the same.
    Constant,
    /// Always zero.
    Padding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each proxy has its own ranges: unique, and ascending on each proxy.
    Leased,
    /// Ascending over all proxies (not in this version).
    Global,
}

/// A table's column, or that of all tables that a pattern matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["column", "generator"]))]
pub struct Table {
    /// The column that is filled; "auto": the table's AUTO_INCREMENT column, else the one integer that is its primary key.
    #[schemars(example = &"id", length(min = 1))]
    pub column: Option<String>,
    /// "name" in this file's schema, or "schema.name"; for patterns a template, "{table}" or "{schema}.{table}": a generator for each table.
    #[schemars(example = &"orders", length(min = 1))]
    pub generator: Option<String>,
    /// Ids that the client writes itself: "keep", the default for a timestamp generator, stores them; "advance", the default for
    /// a sequence, also goes on above them; "reject" refuses them.
    #[schemars(example = &"advance")]
    pub explicit: Option<Explicit>,
    /// Who learns the id: "session": the client and LAST_INSERT_ID(); "packet": the client only.
    pub insert_id: InsertId,
    /// "on"; "shadow": what would become of each statement is counted and logged, and all go on as they came; "off": as if the rule were not there.
    pub mode: Mode,
    /// What happens when there is no id to be had (the store is away, a clock or a lock is lost): "refuse" with 1467, or "native": the server numbers the rows, where the table keeps its AUTO_INCREMENT.
    pub unavailable: Unavailable,
    /// When a generated id is in the table already, because somebody inserts past Rowstamp (error 1062, which the client gets): "raise", log
    /// and count it and go on above the table's ids, once a second at most; "report", log and count it.
    pub collide: Collide,
}
