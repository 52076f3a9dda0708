//! The tables that are written, and what their ids are made by.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const DATABASE: &str = "chaos";

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) generator: &'static str,
    pub(crate) ids: Ids,
    /// The most rows of a statement.
    pub(crate) rows_max: usize,
    /// At each proxy.
    pub(crate) writers: usize,
    /// A writer's pause between two statements; `None`: as the plan's ids want it.
    pub(crate) pause: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// One store write reserves so many.
    Sequence { batch: u64 },
    /// The layout `snowflake`. Each proxy is a node, with a bound of its own: a tick.
    Timestamp,
}

/// The place of an id in the reserved ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whose bound it is; a sequence has one for all.
    pub(crate) node: u64,
    /// The id or tick that the bound counts.
    pub(crate) at: u64,
}

/// Milliseconds of tick 0.
const EPOCH_MILLIS: u64 = 1_288_834_974_657;
const NODE_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;

/// One reserves seldom and loses much by a kill. One asks the store many times a second, and has next to nothing in
/// reserve when the store is away. One follows clocks, which the faults put wrong.
pub(crate) const TABLES: [Table; 3] = [
    Table {
        name: "t",
        generator: "g",
        ids: Ids::Sequence { batch: 20_000 },
        rows_max: 500,
        writers: 2,
        pause: None,
    },
    Table {
        name: "s",
        generator: "h",
        ids: Ids::Sequence { batch: 20 },
        rows_max: 10,
        writers: 2,
        pause: Some(Duration::from_millis(20)),
    },
    Table { name: "k", generator: "i", ids: Ids::Timestamp, rows_max: 500, writers: 1, pause: None },
];

impl Ids {
    pub(crate) fn place(self, id: u64) -> Place {
        match self {
            Ids::Sequence { .. } => Place { node: 0, at: id },
            Ids::Timestamp => Place {
                node: (id >> SEQUENCE_BITS) & ((1 << NODE_BITS) - 1),
                at: id >> (NODE_BITS + SEQUENCE_BITS),
            },
        }
    }

    /// When an id was made, by itself.
    pub(crate) fn time(self, id: u64) -> Option<SystemTime> {
        let since = Duration::from_millis(self.place(id).at + EPOCH_MILLIS);
        (self == Ids::Timestamp).then_some(UNIX_EPOCH + since)
    }
}

impl Table {
    /// The id is no key of its own: one that came twice shows as two rows instead of an error.
    pub(crate) fn create(&self) -> String {
        format!(
            "CREATE TABLE {} (token BIGINT NOT NULL, id BIGINT NOT NULL, PRIMARY KEY (id, token))",
            self.path()
        )
    }

    pub(crate) fn path(&self) -> String {
        format!("{DATABASE}.{}", self.name)
    }

    /// So many rows after a fault show that its INSERTs work. Where the store is asked all the time, they are
    /// more than two ranges hold.
    pub(crate) fn rows_that_prove(&self) -> u64 {
        let rows_max = self.rows_max as u64;
        match self.ids {
            Ids::Sequence { batch } if self.pause.is_some() => 2 * (batch + rows_max) + rows_max,
            _ => 1,
        }
    }

    /// The key of its bound in etcd. If there are several, the node comes after it.
    pub(crate) fn keys(&self) -> String {
        match self.ids {
            Ids::Sequence { .. } => format!("/rowstamp/generators/{DATABASE}.{}", self.generator),
            Ids::Timestamp => format!("/rowstamp/slots/{DATABASE}.{}/", self.generator),
        }
    }

    /// The node whose bound has this key, if it is one of this table's.
    pub(crate) fn node_of(&self, key: &str) -> Option<u64> {
        let rest = key.strip_prefix(&self.keys())?;
        match self.ids {
            Ids::Sequence { .. } => rest.is_empty().then_some(0),
            Ids::Timestamp => rest.parse().ok(),
        }
    }
}

pub(crate) fn rules() -> String {
    let mut text = format!("schema = \"{DATABASE}\"\n");
    for Table { name, generator, ids, .. } in &TABLES {
        let kind = match ids {
            Ids::Sequence { batch } => format!("kind = \"sequence\"\nbatch = {batch}"),
            Ids::Timestamp => "kind = \"timestamp\"\nlayout = \"snowflake\"\nnode = \"auto\"".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[generators.{generator}]\n{kind}\n[tables.{name}]\ncolumn = \"id\"\ngenerator = \"{generator}\"\n"
        );
    }
    text
}

#[test]
fn an_id_of_a_timestamp_is_placed_by_its_node() {
    let id = (99 << 22) | (3 << 12) | 4_095;
    assert_eq!(Ids::Timestamp.place(id), Place { node: 3, at: 99 });
    assert_eq!(Ids::Sequence { batch: 1 }.place(id), Place { node: 0, at: id });
}
