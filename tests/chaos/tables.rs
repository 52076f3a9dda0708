//! The tables that are written, and what their ids are made by.

use std::fmt::Write;
use std::time::Duration;

pub(crate) const DATABASE: &str = "chaos";

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) generator: &'static str,
    pub(crate) ids: Ids,
    /// The most rows of a statement.
    pub(crate) rows_max: usize,
    /// At each proxy.
    pub(crate) writers: usize,
    /// Of a writer's, between two statements; `None`: as the plan's ids want it.
    pub(crate) pause: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// One store write reserves so many.
    Sequence { batch: u64 },
}

/// One reserves seldom and loses much by a kill. The other asks the store many times a second, and has next to nothing in
/// reserve when the store is away.
pub(crate) const TABLES: [Table; 2] = [
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
];

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

    /// So many rows behind a fault show that its INSERTs work: where the store is asked all the time, more than two ranges hold.
    pub(crate) fn rows_that_prove(&self) -> u64 {
        let Ids::Sequence { batch } = self.ids;
        let rows_max = self.rows_max as u64;
        if self.pause.is_some() { 2 * (batch + rows_max) + rows_max } else { 1 }
    }

    /// Where its bound is in etcd.
    pub(crate) fn key(&self) -> String {
        format!("/rowstamp/generators/{DATABASE}.{}", self.generator)
    }
}

pub(crate) fn rules() -> String {
    let mut text = format!("schema = \"{DATABASE}\"\n");
    for Table { name, generator, ids, .. } in &TABLES {
        let Ids::Sequence { batch } = ids;
        let _ = write!(
            text,
            "[generators.{generator}]\nkind = \"sequence\"\nbatch = {batch}\n\
             [tables.{name}]\ncolumn = \"id\"\ngenerator = \"{generator}\"\n"
        );
    }
    text
}
