//! INSERT ... SELECT, LOAD, and an INSERT with an expression as id, into a ruled table, by way of a
//! stage: a temporary table with the columns that the statement fills, and a number.
//!
//! ```text
//! CREATE TEMPORARY TABLE s (nr ... AUTO_INCREMENT ...) SELECT a, b FROM t LIMIT 0
//! INSERT INTO s (a, b) <the client's query or values>, or LOAD DATA ... INTO TABLE s   fills it
//! INSERT INTO t (id, a, b) SELECT <id of nr>, a, b FROM s ORDER BY nr    stores its rows
//! ```
//!
//! The client's query, or its file, is not touched, so the server converts, refuses and orders its
//! rows as it does without a proxy. How many ids are needed is known before the rows are stored.
//!
//! In the dead branch of the id stands UUID_SHORT(), which has `binlog_format=MIXED` log rows: a
//! replica that ran the query again could number its rows in another order.

use crate::ids::block::{Spacing, Ticks};
use crate::rewrite::plan::target::Target;
use crate::sql::lex::Span;

/// The stage's name: no client's table has it.
pub const STAGE: &str = "`rowstamp stage`";
const NR: &[u8] = b"`rowstamp nr`";

/// Parts of a text, one after the other.
macro_rules! text {
    ($($part:expr),+ $(,)?) => { [$(&$part[..]),+].concat() };
}
pub(in crate::rewrite) use text;

/// The parts of the statements that go this way. Names are quoted, in the client's character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The schema that the stage is made in: that of the table, or of the view that the statement names.
    pub(in crate::rewrite) schema: Box<[u8]>,
    /// The table's name in the client's text.
    pub(in crate::rewrite) table: Span,
    pub filling: Filling,
    /// The statement that stores the rows, up to its query: INSERT INTO t (id, a, b).
    pub(in crate::rewrite) head: Box<[u8]>,
    /// The client's text after that query, with other names for the query's columns.
    pub tail: Filling,
    pub(in crate::rewrite) columns: Vec<Column>,
    /// Which of them is the id. `None`: the statement brings none.
    pub(in crate::rewrite) id_place: Option<usize>,
    /// NO_AUTO_VALUE_ON_ZERO
    pub(in crate::rewrite) zero_is_value: bool,
    /// The client's parameters within the query, which come before all others.
    pub query_params: u32,
    /// There are others.
    pub has_later_params: bool,
    pub kind: Kind,
    /// SQL's PREPARE, EXECUTE or EXECUTE IMMEDIATE has it.
    pub named: Option<Named>,
}

/// A text within a statement, which the stage's places are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub text: Box<[u8]>,
    /// The values that USING binds to its parameters, as they are written there.
    pub args: Vec<Box<[u8]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rewrite) struct Column {
    pub(in crate::rewrite) name: Box<[u8]>,
    /// The column's values go into the table. Those of a generated column are read and dropped.
    pub(in crate::rewrite) is_stored: bool,
    /// The column's type has zero dates.
    pub(in crate::rewrite) is_date: bool,
}

/// A part of the client's text, with other bytes in some places. From its beginning it is the statement that fills the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    pub start: u32,
    /// In the order of the text.
    pub edits: Vec<(Span, Box<[u8]>)>,
    /// The end of this part: of the client's query, values or LOAD, or of what follows them.
    pub end: u32,
}

impl Filling {
    pub(in crate::rewrite) fn of(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 256);
        let mut from = self.start as usize;
        for (span, bytes) in &self.edits {
            out.extend_from_slice(text.get(from..span.start as usize).unwrap_or_default());
            out.extend_from_slice(bytes);
            from = span.end as usize;
        }
        out.extend_from_slice(text.get(from..self.end as usize).unwrap_or_default());
        out
    }
}

/// The source of a stage's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// INSERT ... SELECT
    Query,
    /// An INSERT of values, with an expression as id.
    Values,
    Load {
        /// REPLACE: rows in the way are deleted. Else they may be why one is skipped.
        replaces: bool,
        /// Columns that are left out, may not be NULL and have no default get the type's own.
        leaves_defaults: bool,
        /// A line that is too short gives a column its default, and the stage has another one: MySQL
        /// copies none of a BIT column.
        loses_defaults: bool,
    },
}

impl Kind {
    /// The user's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Query => "INSERT ... SELECT",
            Kind::Values => "an INSERT with an expression as id",
            Kind::Load { .. } => "LOAD",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    InnoDb,
    /// For a table that is too wide for InnoDB.
    MyIsam,
}

/// Which columns of the stage may be NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// All: a trigger of the table may fill what it does not take as NULL.
    Anywhere,
    /// The columns that may be NULL in the table, and the id.
    AsInTable,
}

/// Which rows of the stage take ids, and how they are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// The lowest number in the stage, and the distance of two.
    pub base: u64,
    pub increment: u64,
    pub takes: Takes,
    /// The first id; `None`: the server numbers the rows.
    pub first: Option<u64>,
    pub ids: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    All,
    /// The query brings some.
    Some,
    None,
}

/// The facts known about a filled stage, from the answer to [`Stage::counting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brought {
    /// The lowest number.
    pub base: u64,
    /// Rows that take an id.
    pub takes: u64,
    /// The highest id among the others; `None`: there is none.
    pub highest: Option<i128>,
    /// The id that the last row brought. `None`: it takes one.
    pub last: Option<i128>,
}

impl Stage {
    /// True if the statement has values for the id.
    pub fn brings_ids(&self) -> bool {
        self.id_place.is_some()
    }

    /// The statement with no rows: what is wrong with its table or its columns, the server says of it.
    pub fn of_no_rows(&self) -> Vec<u8> {
        let nulls = vec!["NULL"; self.stored().count() + usize::from(!self.brings_ids())].join(",");
        let from = b" FROM (SELECT 1 AS `rowstamp 1`) AS `rowstamp 2` WHERE FALSE";
        text!(self.head, b"SELECT ", nulls.as_bytes(), from)
    }

    /// Puts a prefix that holds for the statement in front of it.
    pub(in crate::rewrite) fn put_before(&mut self, prefix: &[u8]) {
        self.head = [prefix, b" ", &*self.head].concat().into();
    }

    /// Makes the stage. The query's words are no part of it.
    pub fn create(&self, text: &[u8], nulls: Nulls, engine: Engine) -> Vec<u8> {
        let engine = match engine {
            Engine::InnoDb => "InnoDB",
            Engine::MyIsam => "MyISAM",
        };
        let number = text!(b" (", NR, b" BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=");
        let begin = text!(b"CREATE TEMPORARY TABLE ", self.name(), number, engine.as_bytes());
        // LOAD of nothing but variables.
        if self.columns.is_empty() {
            return begin;
        }
        let table = self.table.of(text);
        // The table has no other name, which LOCK TABLES would not know.
        let (columns, from) = match nulls {
            Nulls::Anywhere => {
                let columns: Vec<_> = self.columns.iter().map(|column| &*column.name).collect();
                // Columns of an outer join's inner table may be NULL.
                let one_row = b"(SELECT 1 AS `rowstamp 1`) AS `rowstamp 2`";
                (columns.join(&b','), text!(one_row, b" LEFT JOIN ", table, b" ON FALSE"))
            }
            Nulls::AsInTable => {
                let column = |(nth, Column { name, .. }): (usize, &Column)| {
                    let id = || text!(b"NULLIF(", name, b",", name, b") AS ", name);
                    if self.id_place == Some(nth) { id() } else { name.to_vec() }
                };
                let columns: Vec<_> = self.columns.iter().enumerate().map(column).collect();
                (columns.join(&b','), table.to_vec())
            }
        };
        text!(begin, b" SELECT ", columns, b" FROM ", from, b" LIMIT 0")
    }

    /// Puts the rows into the stage: the client's text, but for the table and what names it.
    pub fn fill(&self, text: &[u8]) -> Vec<u8> {
        self.filling.of(text)
    }

    pub fn is_load(&self) -> bool {
        matches!(self.kind, Kind::Load { .. })
    }

    /// True if [`Stage::counting`] has to be asked: the answer to an INSERT ... SELECT without ids has all counts.
    pub fn is_counted(&self) -> bool {
        self.brings_ids() || self.is_load()
    }

    /// The lowest number, how many rows take an id, and the highest id of the others, as digits in
    /// hexadecimal.
    pub fn counting(&self) -> Vec<u8> {
        let counted = self.id().map_or(b"*".to_vec(), |name| {
            let takes = self.takes(name);
            text!(b"IF(", takes, b",1,NULL)),MAX(IF(", takes, b",NULL,", name, b")")
        });
        let begin = b"SELECT HEX(CONCAT_WS(',',MIN(";
        text!(begin, NR, b"),COUNT(", counted, b"))) FROM ", self.name(), b" LIMIT 1")
    }

    /// The query for the id that the last row brought, as digits in hexadecimal; `-`, where it takes one.
    /// `None`: the statement brings no ids.
    pub fn last_id(&self) -> Option<Vec<u8>> {
        let name = self.id().filter(|_| !self.is_load())?;
        let last = text!(b"SELECT HEX(IF(", self.takes(name), b",'-',", name, b")) FROM ", self.name());
        Some(text!(last, b" ORDER BY ", NR, b" DESC LIMIT 1"))
    }

    /// The query for the number of zero dates in it, as digits in hexadecimal: where sql_mode has NO_ZERO_DATE, the server warns
    /// of each when it is stored, again. `None`: there is no column for them, or the statement sets sql_mode for itself.
    pub fn zero_dates(&self) -> Option<Vec<u8>> {
        let sets_mode = memchr::memmem::find(&self.head.to_ascii_lowercase(), b"sql_mode").is_some();
        let mut dates = self.dates().filter(|_| !sets_mode).peekable();
        dates.peek()?;
        let counts: Vec<_> = dates.map(|name| text!(b"+COUNT(IF(", name, b"+0=0,1,NULL))")).collect();
        Some(text!(b"SELECT HEX(CONCAT(0", counts.concat(), b")) FROM ", self.name(), b" LIMIT 1"))
    }

    /// The names of the columns that may have them.
    pub fn dates(&self) -> impl Iterator<Item = &[u8]> {
        self.stored().filter(|(_, column)| column.is_date).map(|(_, column)| &*column.name)
    }

    /// Stores the stage's rows, by a query of ours.
    pub fn store(&self, text: &[u8], numbering: &Numbering, spacing: &Spacing) -> Vec<u8> {
        let first = numbering.first.map(digits);
        self.storing(text, numbering, spacing, (first.as_deref(), &digits(numbering.ids)))
    }

    pub fn drop(&self) -> Vec<u8> {
        text!(b"DROP TEMPORARY TABLE ", self.name())
    }

    /// The statements as they are shown.
    pub(in crate::rewrite) fn describe(&self, text: &[u8], target: &Target) -> Vec<u8> {
        let text = self.named.as_ref().map_or(text, |named| &*named.text);
        let takes = if self.brings_ids() { Takes::Some } else { Takes::All };
        let numbering = Numbering { base: 1, increment: 1, takes, first: Some(0), ids: 0 };
        let nulls = if self.kind == Kind::Query { Nulls::Anywhere } else { Nulls::AsInTable };
        let first = format!("<id 1 of {}>", target.rule.generator);
        let stored = self.storing(text, &numbering, &target.spacing, (Some(first.as_bytes()), b"<ids>"));
        [self.create(text, nulls, Engine::InnoDb), self.fill(text), stored].join(&b'\n')
    }

    /// `first` and `ids`: the first id and how many there are, as they are to be written.
    fn storing(
        &self,
        text: &[u8],
        numbering: &Numbering,
        spacing: &Spacing,
        (first, ids): (Option<&[u8]>, &[u8]),
    ) -> Vec<u8> {
        let id = first.map_or(b"NULL".to_vec(), |first| id_of_row(numbering, spacing, first, ids));
        // If several columns fail, MySQL reports the first one. An id without a value is reported by a warning.
        let mut values: Vec<_> = self.id_place.is_none().then(|| id.clone()).into_iter().collect();
        // The names in ON DUPLICATE KEY UPDATE are the table's alone.
        let mut columns = NR.to_vec();
        for (nth, column) in self.stored() {
            let name = column_name(nth);
            columns.extend(text!(b",", column.name, b" AS ", name));
            let takes_some = self.id_place == Some(nth) && numbering.takes != Takes::None;
            let value = || text!(b"IF(", self.takes(&name), b",", id, b",", name, b")");
            values.push(if takes_some { value() } else { name });
        }
        if let Some(id) = self.id().filter(|_| numbering.takes == Takes::Some) {
            let takes = self.takes(id);
            let order = b" ORDER BY ";
            columns.extend(text!(
                b",ROW_NUMBER() OVER (PARTITION BY ",
                takes,
                order,
                NR,
                b") AS `rowstamp k`"
            ));
        }
        let from =
            text!(b" FROM (SELECT ", columns, b" FROM ", self.name(), b") AS `rowstamp s` ORDER BY ", NR);
        text!(self.head, b"SELECT ", values.join(&b','), from, self.tail.of(text))
    }

    fn id(&self) -> Option<&[u8]> {
        Some(&self.columns.get(self.id_place?)?.name)
    }

    fn stored(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| column.is_stored)
    }

    /// The condition under which a row takes an id, by its column of the id.
    fn takes(&self, name: &[u8]) -> Vec<u8> {
        let zero = if self.zero_is_value { Vec::new() } else { text!(b" OR ", name, b"=0") };
        text!(name, b" IS NULL", zero)
    }

    fn name(&self) -> Vec<u8> {
        stage_name(&self.schema)
    }
}

/// `schema`.`rowstamp stage`
pub(in crate::rewrite) fn stage_name(schema: &[u8]) -> Vec<u8> {
    [schema, b".", STAGE.as_bytes()].concat()
}

pub(in crate::rewrite) fn list(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_vec()).collect();
    text!(b"(", names.join(&b','), b")")
}

/// The id of a row that takes one, or an error where there is none for it (1690).
fn id_of_row(numbering: &Numbering, spacing: &Spacing, first: &[u8], ids: &[u8]) -> Vec<u8> {
    // Counted from 0.
    let nth = match (numbering.takes, numbering.increment) {
        (Takes::Some, _) => b"(`rowstamp k`-1)".to_vec(),
        (_, 1) => text!(b"(", NR, b"-", digits(numbering.base), b")"),
        (_, by) => text!(b"((", NR, b"-", digits(numbering.base), b") DIV ", digits(by), b")"),
    };
    let mut steps = nth.clone();
    if let Some(Ticks { ids, distance }) = spacing.ticks {
        // The numbers of whole ticks, and those within the last one.
        let (ids, distance) = (digits(ids.get()), digits(distance.get()));
        steps.extend(text!(b" DIV ", ids, b"*", distance, b"+", nth, b" MOD ", ids));
    }
    let id = text!(first, b"+", steps, b"*", digits(spacing.step.get()));
    text!(b"IF(", nth, b"<", ids, b",", id, b",18446744073709551615+", NR, b"+0*UUID_SHORT())")
}

/// The derived table's name for the column at this place.
pub(in crate::rewrite) fn column_name(nth: usize) -> Vec<u8> {
    text!(b"`rowstamp c", digits(nth as u64 + 1), b"`")
}

fn digits(number: u64) -> Vec<u8> {
    itoa::Buffer::new().format(number).into()
}
