//! INSERT ... SELECT into a ruled table: the query's rows are numbered by the server, over a block
//! of ids.
//!
//! ```text
//! INSERT INTO t (`id`,a) WITH q(c) AS (<the query> LIMIT ..),
//!     r AS (SELECT c, LAST_INSERT_ID(LAST_INSERT_ID()+1) AS k FROM q LIMIT ..)
//! SELECT <the k-th id of the block>, c FROM r
//! ```
//!
//! `LAST_INSERT_ID(expr)` counts up from what the session has there, in the order of the query's
//! rows. A window function would not do: MariaDB numbers by the addresses of rows in memory
//! (measured, 10.11). `r` is complete before the first row is stored, so that a block that is too
//! small is an error while nothing has been written and no trigger has run; what LAST_INSERT_ID()
//! says then is how many rows there were. Triggers, and ON DUPLICATE KEY UPDATE, find in
//! LAST_INSERT_ID() what was there before the statement, since each row puts it back. In the dead
//! branch stands UUID_SHORT(), which has `binlog_format=MIXED` log rows: a replica may read them in
//! another order.

use crate::ids::range::block::{Spacing, Ticks};
use crate::mysql::column::ColumnDefinition;
use crate::rewrite::plan::edit::{Number, Numbers, Style, put_digits};
use crate::rewrite::plan::prepared_text::{HiddenParam, PARAMS_MAX, PreparedText};
use crate::rewrite::plan::refusal::Refusal;
use crate::rewrite::plan::target::Target;
use crate::rules::model::Explicit;

/// Rows that a statement is first taken to have, where its text does not show.
pub(in crate::rewrite) const ROWS_GUESSED: u32 = 16;
/// The same, where it cannot be run again.
pub(in crate::rewrite) const ROWS_GUESSED_ONCE: u32 = 256;
/// What a `LIMIT n` is believed.
pub(in crate::rewrite) const ROWS_BELIEVED_MAX: u64 = 10_000;

/// No limit at all, to both servers.
const NO_LIMIT: &[u8] = b" LIMIT 18446744073709551615";

/// The query of an INSERT ... SELECT, and how its rows are numbered.
#[allow(clippy::struct_excessive_bools)] // Independent findings, not states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectPlan {
    /// What goes into the column list, and where: the id, or where there is no list, all of it.
    pub(in crate::rewrite) list: Option<(u32, Box<str>)>,
    pub(in crate::rewrite) start: u32,
    pub(in crate::rewrite) end: u32,
    pub(in crate::rewrite) limit_at: Option<u32>,
    /// How many the query has.
    pub(in crate::rewrite) columns: u32,
    /// Which of the query's columns is the id.
    pub id_place: Option<u32>,
    /// NO_AUTO_VALUE_ON_ZERO
    pub(in crate::rewrite) zero_is_value: bool,
    /// The block to begin with.
    pub block: u32,
    /// The block may be too small.
    pub may_overrun: bool,
    /// It may be sent again after an overrun.
    pub is_repeatable: bool,
    /// Columns whose values may have more digits than their type shows, on this server.
    pub(in crate::rewrite) hidden_digits: HiddenDigits,
    /// The column list is written in the statement.
    pub(in crate::rewrite) is_listed: bool,
    /// Names in the query that may be a view's.
    pub(in crate::rewrite) names: Vec<String>,
    /// Rows come back, so an overrun comes too late: the rows are counted beforehand.
    pub returns_rows: bool,
    pub(in crate::rewrite) query_params: u32,
}

impl SelectPlan {
    /// The client's query by itself.
    pub fn query<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// How many rows it has, as a query in text protocol, with a single column of digits in
    /// hexadecimal.
    pub fn counting(&self, text: &[u8]) -> Vec<u8> {
        let mut out = b"WITH `rowstamp q`".to_vec();
        self.put_columns(&mut out, b"(", b")");
        self.put_query(text, &mut out);
        out.extend_from_slice(b") SELECT HEX(CONCAT(COUNT(*),'')) FROM `rowstamp q`");
        out
    }

    /// Appends the statement with its numbers.
    pub fn write(&self, text: &[u8], numbers: &Numbers, spacing: &Spacing, out: &mut Vec<u8>) {
        self.put(text, spacing, out, &mut |number, out| put_digits(out, numbers.get(number)));
    }

    /// As it is shown, `<...>` in place of its numbers.
    pub(in crate::rewrite) fn describe(&self, text: &[u8], target: &Target) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(text, &target.spacing, &mut out, &mut |number, out| {
            out.extend_from_slice(match number {
                Number::BeforeFirst => b"<LAST_INSERT_ID()>",
                Number::Last => b"<LAST_INSERT_ID() + rows>",
                Number::Sets => b"<LAST_INSERT_ID() afterwards>",
                Number::First => b"<id 1 of ",
            });
            if number == Number::First {
                out.extend_from_slice(target.rule.generator.to_string().as_bytes());
                out.push(b'>');
            }
        });
        out
    }

    /// The text to prepare: each number is a parameter of ours.
    pub fn prepare(
        &self,
        text: &[u8],
        spacing: &Spacing,
        client_params: u32,
    ) -> Result<PreparedText, Refusal> {
        let mut out = Vec::with_capacity(text.len() + 512);
        let mut hidden = Vec::new();
        self.put(text, spacing, &mut out, &mut |number, out| {
            out.push(b'?');
            hidden.push(number);
        });
        let no_room =
            || Refusal::new("65,535 placeholders leave no room for the id's own; prepare a smaller query");
        let client_params = u16::try_from(client_params).map_err(|_| no_room())?;
        if usize::from(client_params) + hidden.len() > PARAMS_MAX {
            return Err(no_room());
        }
        let at = |nth: usize| u16::try_from(self.query_params as usize + nth).map_err(|_| no_room());
        let hidden = hidden
            .iter()
            .enumerate()
            .map(|(nth, &number)| Ok(HiddenParam { index: at(nth)?, row: number as u32 }))
            .collect::<Result<_, _>>()?;
        Ok(PreparedText {
            text: out,
            hidden,
            client_params,
            id_params: Vec::new(),
            fixed_ids: 0,
            style: Style::Literal,
        })
    }

    fn put_columns(&self, out: &mut Vec<u8>, before: &[u8], after: &[u8]) {
        out.extend_from_slice(before);
        for nth in 0..self.columns {
            if nth > 0 {
                out.push(b',');
            }
            put_column(out, nth);
        }
        out.extend_from_slice(after);
    }

    /// ` AS (` and the query with its limit.
    fn put_query(&self, text: &[u8], out: &mut Vec<u8>) {
        let limit_at = self.limit_at.unwrap_or(self.end);
        out.extend_from_slice(b" AS (");
        out.extend_from_slice(text.get(self.start as usize..limit_at as usize).unwrap_or_default());
        if self.limit_at.is_some() {
            out.extend_from_slice(NO_LIMIT);
        }
        out.extend_from_slice(text.get(limit_at as usize..self.end as usize).unwrap_or_default());
    }

    fn put(
        &self,
        text: &[u8],
        spacing: &Spacing,
        out: &mut Vec<u8>,
        number: &mut dyn FnMut(Number, &mut Vec<u8>),
    ) {
        out.reserve(text.len() + 512);
        let mut from = 0;
        if let Some((at, list)) = &self.list {
            out.extend_from_slice(text.get(..*at as usize).unwrap_or_default());
            out.extend_from_slice(list.as_bytes());
            from = *at as usize;
        }
        out.extend_from_slice(text.get(from..self.start as usize).unwrap_or_default());
        out.extend_from_slice(b"WITH `rowstamp q`");
        self.put_columns(out, b"(", b")");
        self.put_query(text, out);
        out.extend_from_slice(b"),`rowstamp r` AS (");
        self.put_columns(out, b"SELECT ", b",");
        self.put_counter(out);
        out.extend_from_slice(b" AS `rowstamp k` FROM `rowstamp q`");
        out.extend_from_slice(NO_LIMIT);
        out.extend_from_slice(b") SELECT ");
        if self.id_place.is_none() {
            self.put_id(spacing, out, number);
        }
        for nth in 0..self.columns {
            if nth > 0 || self.id_place.is_none() {
                out.push(b',');
            }
            if self.id_place == Some(nth) {
                self.put_id(spacing, out, number);
            } else {
                put_column(out, nth);
            }
        }
        out.extend_from_slice(b" FROM `rowstamp r`");
        out.extend_from_slice(text.get(self.end as usize..).unwrap_or_default());
    }

    /// Counts the rows that take an id.
    fn put_counter(&self, out: &mut Vec<u8>) {
        const COUNT: &[u8] = b"LAST_INSERT_ID(LAST_INSERT_ID()+1)";
        let Some(place) = self.id_place else { return out.extend_from_slice(COUNT) };
        out.extend_from_slice(b"IF(");
        put_column(out, place);
        out.extend_from_slice(b" IS NULL");
        if !self.zero_is_value {
            out.extend_from_slice(b" OR ");
            put_column(out, place);
            out.extend_from_slice(b"=0");
        }
        out.push(b',');
        out.extend_from_slice(COUNT);
        out.extend_from_slice(b",NULL)");
    }

    /// The id of a row, or an error where there is none for it (1690).
    fn put_id(&self, spacing: &Spacing, out: &mut Vec<u8>, number: &mut dyn FnMut(Number, &mut Vec<u8>)) {
        use Number::{BeforeFirst, First, Last, Sets};
        use Piece::{Number as N, Text as T};
        const K: &[u8] = b"`rowstamp k`";
        let mut parts = |out: &mut Vec<u8>, pieces: &[Piece]| {
            for piece in pieces {
                match piece {
                    Piece::Text(piece) => out.extend_from_slice(piece),
                    Piece::Number(nth) => number(*nth, out),
                }
            }
        };
        if let Some(place) = self.id_place {
            out.extend_from_slice(b"IF(`rowstamp k` IS NULL,IF(LAST_INSERT_ID()<=");
            parts(out, &[N(Last), T(b",")]);
            put_column(out, place);
            out.extend_from_slice(b",18446744073709551615+LAST_INSERT_ID()+0*UUID_SHORT()),");
        }
        parts(
            out,
            &[
                T(b"IF("),
                T(K),
                T(b">"),
                N(BeforeFirst),
                T(b" AND "),
                T(K),
                T(b"<="),
                N(Last),
                T(b" AND ("),
                T(K),
                T(b">"),
                N(BeforeFirst),
                T(b"+1 OR LAST_INSERT_ID()<="),
                N(Last),
                T(b"),IF(LAST_INSERT_ID("),
                N(Sets),
                T(b"+0*"),
                T(K),
                T(b")="),
                N(Sets),
                T(b","),
                N(First),
                T(b"+("),
                T(K),
                T(b"-1-"),
                N(BeforeFirst),
                T(b")"),
            ],
        );
        if let Some(Ticks { ids, distance }) = spacing.ticks {
            // The numbers of whole ticks, and those within the last one.
            for (piece, number) in [(&b" DIV "[..], ids), (b"*", distance)] {
                out.extend_from_slice(piece);
                put_digits(out, number.get());
            }
            parts(out, &[T(b"+("), T(K), T(b"-1-"), N(BeforeFirst), T(b") MOD ")]);
            put_digits(out, ids.get());
        }
        out.push(b'*');
        put_digits(out, spacing.step.get());
        parts(out, &[T(b",NULL),18446744073709551615+"), T(K), T(b"+0*UUID_SHORT())")]);
        if self.id_place.is_some() {
            out.push(b')');
        }
    }

    /// Whether the query has another number of columns than the list before it, which the server is
    /// sure to refuse.
    pub fn fails_by_count(&self, columns: &[ColumnDefinition]) -> bool {
        self.is_listed && !columns.is_empty() && columns.len() != self.columns as usize
    }

    /// Whether it computes decimals: were it from a view, a division in that would not be seen.
    pub fn may_hide_digits_in_views(&self, columns: &[ColumnDefinition]) -> bool {
        columns.iter().any(|column| column.is_computed_decimal())
    }

    /// How many views there are of the names in the query, as digits in hexadecimal.
    pub fn views_named(&self) -> Vec<u8> {
        let mut out =
            b"SELECT HEX(CONCAT(COUNT(*),'')) FROM information_schema.views WHERE table_name IN ('".to_vec();
        for name in &self.names {
            // Digits mean the same in any character set and sql_mode.
            out.extend_from_slice(b"',CONVERT(x'");
            out.extend(name.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()));
            out.extend_from_slice(b"' USING utf8mb4),'");
        }
        out.extend_from_slice(b"')");
        out
    }

    /// What the columns of the query tell that its text does not.
    pub fn check_columns(&self, columns: &[ColumnDefinition], explicit: Explicit) -> Result<(), Refusal> {
        if columns.len() != self.columns as usize {
            return Err(Refusal::new(
                "the query has more or fewer columns than the INSERT, or they are not known (resultset_metadata); name the \
                 columns in both",
            ));
        }
        for (nth, &column) in (0..).zip(columns) {
            if column.is_hexadecimal_literal() {
                return Err(Refusal::new(
                    "the query selects a hexadecimal or bit literal, whose meaning depends on the column it is stored in; \
                     write a number or a string",
                ));
            }
            if self.hidden_digits.may_be_at(nth) && column.is_computed_decimal() {
                return Err(Refusal::new(
                    "the query stores the result of a division or of AVG, of which the server keeps more digits than it \
                     shows; write CAST(... AS DECIMAL(m,n)) or ROUND(..., n) around it",
                ));
            }
            if self.id_place == Some(nth) && !column.is_null() {
                if !column.is_integer() {
                    return Err(Refusal::new(
                        "what the query selects as id is no integer; CAST it AS SIGNED or UNSIGNED, or leave it out",
                    ));
                }
                if explicit == Explicit::Reject {
                    return Err(Refusal::new(
                        "the rule rejects ids that the query may bring; leave the id out or select NULL",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Where a division or AVG is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rewrite) enum HiddenDigits {
    Nowhere,
    /// In these columns, counted from 0.
    At(Vec<u32>),
    /// In any.
    Anywhere,
}

impl HiddenDigits {
    fn may_be_at(&self, column: u32) -> bool {
        match self {
            HiddenDigits::Nowhere => false,
            HiddenDigits::At(columns) => columns.contains(&column),
            HiddenDigits::Anywhere => true,
        }
    }
}

enum Piece {
    Text(&'static [u8]),
    Number(Number),
}

fn put_column(out: &mut Vec<u8>, nth: u32) {
    out.extend_from_slice(b"`rowstamp ");
    put_digits(out, u64::from(nth) + 1);
    out.push(b'`');
}
