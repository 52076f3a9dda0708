//! A rules file as it is written. The JSON schema and the reference are made from these types and their comments.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::model::{Collide, Explicit, InsertId, Mode, Unavailable};
use crate::ids::layout::presets::Preset;
use crate::ids::sequence::Seed;
use crate::toml_file::{Interval, UtcTime};

/// A rules file: which tables of one or several databases get ids, and from which generators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RulesFile {
    /// The database of this file's tables and generators, or a pattern of databases, with `*` and `?` as in names of tables. This key
    /// or `schemas` is required.
    #[schemars(example = &"shop", length(min = 1))]
    pub schema: Option<String>,
    /// Several databases, or patterns: the file applies to each of them. Each database has its own generators; "schema.name" names a
    /// generator of another file, which all databases share.
    #[schemars(example = ["shop_0", "shop_1"])]
    pub schemas: Vec<String>,
    /// By name. A name has letters, digits, `_` and `-`. With "{table}" in the name, each table that uses it gets its own generator.
    pub generators: BTreeMap<String, GeneratorKeys>,
    /// By name; `*` stands for any number of characters, `?` for one. An exact name beats a pattern.
    pub tables: BTreeMap<String, Table>,
}

/// Where ids come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["kind"]))]
pub struct GeneratorKeys {
    /// "sequence": 1, 2, 3, ...; "timestamp": time, node and a number within the tick.
    #[schemars(example = &"sequence")]
    pub kind: Option<Kind>,
    /// sequence: the first id; with seed = "tables" only if the tables have no higher ids.
    #[schemars(range(min = 1))]
    pub start: u64,
    /// sequence: the distance from one id to the next.
    pub step: NonZeroU64,
    /// sequence: the remainder of each id when divided by step.
    pub offset: u64,
    /// sequence: how many ids one write to the store reserves; "auto": the demand of 10 minutes.
    pub batch: BatchKey,
    /// sequence: when this share of a batch is left, the next batch is reserved.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub low_water: f64,
    /// sequence: the last id; default: the highest value that all columns of the generator can hold; for BIGINT UNSIGNED 2^64 - 2^48 - 1.
    #[schemars(example = 2_147_483_647, range(min = 1))]
    pub max: Option<u64>,
    /// sequence: where a new sequence starts; "tables": above MAX(id) and the AUTO_INCREMENT counter of each of its tables; "none":
    /// at start.
    pub seed: Seed,
    /// sequence: "leased": each proxy has its own ranges of ids. ("global", ids that ascend over all proxies, is not in this version.)
    pub order: Order,
    /// true: applications can draw ids by calls in their SQL: NEXTVAL(name), NEXT VALUE FOR name, ROWSTAMP_TAKE(name, n).
    pub sql: bool,
    /// timestamp, required: which bits of an id are the time, the node and the sequence; the name of a preset, or a table (see above).
    #[schemars(example = &"snowflake")]
    pub layout: Option<LayoutKey>,
    /// timestamp: the node in the ids of this proxy; "auto": the lowest free node.
    pub node: NodeKey,
    /// timestamp: how far ahead time is reserved; for so long the store may be away; 1s to 1day.
    pub advance: Interval,
    /// timestamp: how far ids may run ahead of the clock if a tick has no room for them; default: no limit.
    #[schemars(example = &"10s")]
    pub max_ahead: Option<Interval>,
    /// timestamp: if the clock leaps forward by more than this, ids do not follow the clock.
    pub max_forward: Interval,
}

impl Default for GeneratorKeys {
    fn default() -> Self {
        GeneratorKeys {
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
    /// Time, node and a number within the tick, in one number.
    Timestamp,
}

/// The word "auto", for a key that is otherwise a number.
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
    Preset(#[schemars(schema_with = "presets")] String),
    Table(LayoutTable),
}

fn presets(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = Preset::living().map(|preset| preset.name).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// A layout of your own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["epoch", "fields"]))]
pub struct LayoutTable {
    /// Where the time of the ids begins: a time in UTC, or milliseconds since 1970.
    #[schemars(example = &"2026-01-01T00:00:00Z")]
    pub epoch: Option<EpochKey>,
    /// How long ids have the same timestamp: a whole number of microseconds.
    pub tick: Interval,
    /// The fields, from the highest bits to the lowest.
    #[schemars(example = fields_of_snowflake())]
    pub fields: Vec<FieldKey>,
}

fn fields_of_snowflake() -> serde_json::Value {
    serde_json::json!([
        { "field": "timestamp", "bits": 41 }, { "field": "node", "bits": 10 }, { "field": "sequence", "bits": 12 }
    ])
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
    /// The lowest bit of the field; default: right above the next field of the list.
    #[schemars(range(max = 62))]
    pub shift: Option<u32>,
    /// constant: the value.
    pub value: Option<u64>,
    /// sequence: each tick starts at a random number below this one.
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
    /// The number of the id within its tick.
    Sequence,
    /// A constant value.
    Constant,
    /// Always zero.
    Padding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each proxy has its own ranges: ids are unique, and ascend on each proxy.
    Leased,
    /// Ids ascend over all proxies (not in this version).
    Global,
}

/// The rule of a table, or of all tables that a pattern matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["column", "generator"]))]
pub struct Table {
    /// The id column; "auto": the table's AUTO_INCREMENT column, or, if it has none, the integer column that is its primary key.
    #[schemars(example = &"id", length(min = 1))]
    pub column: Option<String>,
    /// "name" in the schema of this file, or "schema.name"; "{table}" or "{schema}.{table}": one generator for each table.
    #[schemars(example = &"orders", length(min = 1))]
    pub generator: Option<String>,
    /// What happens to ids that the client writes itself. "keep", the default for a timestamp generator: they are stored; "advance",
    /// the default for a sequence: they are stored, and the generator continues above them; "reject": the statement is refused.
    #[schemars(example = &"advance")]
    pub explicit: Option<Explicit>,
    /// Where the new id is visible: "session": in the answer to the client and in LAST_INSERT_ID(); "packet": only in the answer.
    pub insert_id: InsertId,
    /// "on": tables get ids; "shadow": Rowstamp counts and logs what it would do, and every statement goes to the server as it came; "off": as
    /// if there were no rule.
    pub mode: Mode,
    /// What happens if there is no id (the store is away, or a clock or a lock is lost): "refuse": the statement fails with error 1467; "native":
    /// the server numbers the rows, if the table still has AUTO_INCREMENT.
    pub unavailable: Unavailable,
    /// What happens if a generated id is in the table already (error 1062), because other clients insert without Rowstamp. "raise": log and count the error,
    /// continue above the table's ids, and send a plain INSERT again with a new id. Rowstamp also reads the highest id of a table in use, once a second and
    /// after statements that may set ids; "report": log and count the error, and the client gets the error.
    pub collide: Collide,
}
