//! Conditions that may be true where a production is drawn, as bits.

pub(crate) const MARIADB: u32 = 1;
pub(crate) const MYSQL: u32 = 1 << 1;
pub(crate) const ANSI: u32 = 1 << 2;
pub(crate) const NOT_ANSI: u32 = 1 << 3;
/// A backslash in a string escapes.
pub(crate) const ESCAPES: u32 = 1 << 4;
pub(crate) const NO_ESCAPES: u32 = 1 << 5;
/// The statement has parameters: the judge writes them into its text by looking for `?` outside of plain quotes.
pub(crate) const PARAMS: u32 = 1 << 6;
pub(crate) const NO_PARAMS: u32 = 1 << 7;
/// LAST_INSERT_ID() shows the same by definition: nothing failed or updated since it was set.
pub(crate) const KNOWN: u32 = 1 << 8;
/// The id is a number in every variant of the table.
pub(crate) const NUMBER_ID: u32 = 1 << 9;
pub(crate) const HAS_INT: u32 = 1 << 10;
pub(crate) const LISTED: u32 = 1 << 11;
pub(crate) const PARTITIONED: u32 = 1 << 12;
/// An INSERT by itself, in no packet with others and in no other statement.
pub(crate) const ALONE: u32 = 1 << 13;
pub(crate) const RULED: u32 = 1 << 14;
pub(crate) const ONE_ROW: u32 = 1 << 15;
/// Rows of values that may have an alias.
pub(crate) const PLAIN_ROWS: u32 = 1 << 16;
pub(crate) const ALIASED: u32 = 1 << 17;
pub(crate) const INSERT: u32 = 1 << 18;
pub(crate) const MULTI: u32 = 1 << 20;
pub(crate) const ID_GIVEN: u32 = 1 << 21;
/// Columns may read the value that the same row gives to another.
pub(crate) const HAS_EARLIER: u32 = 1 << 22;
/// The column is for another row's id.
pub(crate) const PARENT: u32 = 1 << 23;
pub(crate) const HAS_PARENT: u32 = 1 << 24;
