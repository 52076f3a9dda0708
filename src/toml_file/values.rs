//! Values that TOML has no type for: durations, sizes, addresses, secrets.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::address::Address;

/// A `format` of the JSON schemas, and what it accepts.
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) describe: &'static str,
    pub(super) check: fn(&str) -> Result<(), String>,
}

impl Format {
    pub(super) fn is_time(&self) -> bool {
        self.name == UTC_TIME
    }
}

const UTC_TIME: &str = "utc-time";

const fn format<T: FromStr<Err = String>>(name: &'static str, describe: &'static str) -> Format {
    Format { name, describe, check: |text| text.parse::<T>().map(drop) }
}

pub(super) const FORMATS: [Format; 6] = [
    format::<UtcTime>(UTC_TIME, "a time such as \"2026-01-01T00:00:00Z\""),
    format::<Interval>("duration", "a duration such as \"3s\" or \"10m\""),
    format::<ByteSize>("size", "a size such as \"64MiB\""),
    format::<AddressText>("address", "an address, \"host:port\" or \"unix:/path\""),
    format::<Network>("network", "an address or a network such as \"10.0.0.0/8\""),
    format::<OrOff>("address-or-off", "an address, \"host:port\" or \"unix:/path\", or \"off\""),
];

/// A string type of a named format: read and written by `FromStr` and `Display`.
macro_rules! string_of_format {
    ($type:ty, $name:literal, $format:literal) => {
        impl TryFrom<String> for $type {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format })
            }
            fn inline_schema() -> bool {
                true
            }
        }
    };
}

/// A duration above zero, as operators write it: "3s", "10m", "8h".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interval(pub Duration);

string_of_format!(Interval, "Interval", "duration");

impl Interval {
    pub const fn from_secs(secs: u64) -> Self {
        Interval(Duration::from_secs(secs))
    }
}

impl std::str::FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => Err("must be longer than 0: write, for example, \"3s\"".to_owned()),
            Ok(duration) => Ok(Interval(duration)),
            Err(error) => {
                Err(format!("is not a duration ({error}): write, for example, \"3s\", \"10m\" or \"8h\""))
            }
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// A point in time, in UTC: "2026-01-01T00:00:00Z". A local time would mean another moment on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UtcTime {
    micros: u64,
}

string_of_format!(UtcTime, "UtcTime", "utc-time");

impl UtcTime {
    /// Since 1970.
    pub fn micros(self) -> u64 {
        self.micros
    }
}

impl std::str::FromStr for UtcTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let since_1970 = humantime::parse_rfc3339(text)
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .filter(|since| since.subsec_nanos().is_multiple_of(1000));
        let micros = since_1970.and_then(|since| u64::try_from(since.as_micros()).ok());
        micros.map(|micros| UtcTime { micros }).ok_or_else(|| {
            "is not a UTC time from 1970 on, with microseconds at most: write, for example, \"2026-01-01T00:00:00Z\""
                .to_owned()
        })
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_micros(std::time::UNIX_EPOCH + Duration::from_micros(self.micros)).fmt(f)
    }
}

/// A number of bytes with its unit: "64MiB".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

string_of_format!(ByteSize, "ByteSize", "size");

/// Largest first, so that a size is written with the largest unit that it is a multiple of.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number_of = |(unit, bytes): &(&str, u64)| {
            let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(*bytes).filter(|bytes| *bytes > 0)
        };
        let size = UNITS.iter().find_map(number_of).map(ByteSize);
        size.ok_or_else(|| {
            "is not a size: write a whole number above 0 and B, KiB, MiB or GiB, as in \"64MiB\"".into()
        })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, bytes) =
            UNITS.iter().find(|(_, bytes)| self.0.is_multiple_of(*bytes)).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

/// An [`Address`] in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressText(pub Address);

string_of_format!(AddressText, "AddressText", "address");

impl std::str::FromStr for AddressText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(AddressText).map_err(|error: crate::address::AddressError| error.to_string())
    }
}

impl fmt::Display for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An [`Address`] to listen on, or "off".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OrOff {
    #[default]
    Off,
    At(Address),
}

string_of_format!(OrOff, "OrOff", "address-or-off");

impl std::str::FromStr for OrOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(OrOff::Off),
            address => address.parse::<AddressText>().map(|place| OrOff::At(place.0)),
        }
    }
}

impl fmt::Display for OrOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrOff::Off => f.write_str("off"),
            OrOff::At(address) => address.fmt(f),
        }
    }
}

/// A network: "10.0.0.0/8"; or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(pub IpNet);

string_of_format!(Network, "Network", "network");

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        network.map(Network).ok_or_else(|| {
            "is not a network: write a network such as \"10.0.0.0/8\", or one address".to_owned()
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

/// A password. Its `Debug` shows nothing of it, so that no log does.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Secret(text)
    }

    /// The password in clear, for a login alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// Needed for the defaults in the JSON schema, none of which is a secret.
impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("...")
    }
}
