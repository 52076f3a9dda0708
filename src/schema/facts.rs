//! The live server as a DBA looks at it before its rules are switched on: tables, columns, keys,
//! ids, what inserts by itself.
//!
//! Plain data, read by [`Facts::read`]; `lint` judges it.

mod accounts;
mod read;
mod server;

use std::collections::BTreeSet;

use super::TableKind;
use crate::ids::layout::Moment;
use crate::rules::model::ColumnShape;
use crate::table_name::{NameCase, TableName};

pub use accounts::{Accounts, PUBLIC, Privilege, Scope};
pub use server::ServerFacts;

/// All that is read of the backend for a version of the rules.
#[derive(Debug, Clone)]
pub struct Facts {
    pub server: ServerFacts,
    pub case: NameCase,
    /// This machine's clock, and what the backend's said then.
    pub clocks: Option<(Moment, Moment)>,
    /// SHOW GRANTS of the control account, a line each.
    pub grants: Vec<String>,
    /// The rights of all accounts that the control account sees.
    pub accounts: Accounts,
    /// The schemas that the account sees.
    pub schemas: BTreeSet<String>,
    /// The tables of the ruled schemas.
    pub tables: Vec<TableFacts>,
    /// The foreign keys that lead to tables of the ruled schemas.
    pub foreign_keys: Vec<ForeignKey>,
    /// The bodies in all schemas that the account sees, except in the server's own.
    pub bodies: Vec<Body>,
    /// The views in all schemas that the account sees, except in the server's own.
    pub views: Vec<ViewFacts>,
}

/// A table, view or sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct TableFacts {
    pub schema: String,
    pub name: String,
    pub kind: TableKind,
    pub columns: Vec<ColumnFacts>,
    pub indexes: Vec<Index>,
    /// An estimate of the server's.
    pub rows: Option<u64>,
    /// The next AUTO_INCREMENT.
    pub counter: Option<u64>,
    pub highest: Highest,
}

/// The highest id that may be in a table: max(MAX(id), AUTO_INCREMENT counter - 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Highest {
    /// 0: there is none.
    Id(u64),
    /// Why it was not read.
    Unread(String),
    /// The account may not read it.
    Denied(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFacts {
    pub shape: ColumnShape,
    /// The column's type as the server writes it: "int(10) unsigned".
    pub column_type: String,
    /// The length of a text column, in characters or bytes.
    pub length: Option<u64>,
    /// The digits of a DECIMAL column, and the number of those after the decimal point.
    pub digits: Option<(u64, u64)>,
    pub is_nullable: bool,
    /// An INSERT that leaves it out is no error, for there is a DEFAULT, which is not NULL.
    pub has_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub name: String,
    pub is_unique: bool,
    /// A highest value is found by it: a B-tree.
    pub is_ordered: bool,
    /// In their order; `None`: an expression, or the beginning of a column.
    pub columns: Vec<Option<String>>,
}

/// One column of a foreign key.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignKey {
    pub name: String,
    pub schema: String,
    pub table: String,
    pub column: ColumnFacts,
    /// Schema, table and column.
    pub to: (String, String, String),
}

/// The kinds of code that the server runs by itself. `Package` is MariaDB's PACKAGE BODY. A trigger's `timing` is BEFORE or AFTER, its
/// `event` INSERT, UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyKind {
    Procedure,
    Function,
    Event,
    Package,
    Trigger { table: TableName, timing: String, event: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    pub kind: BodyKind,
    pub schema: String,
    pub name: String,
    /// `None`: the account may not see it.
    pub text: Option<String>,
    /// The `sql_mode` under which the body was made.
    pub sql_mode: String,
    /// Written in another language than SQL.
    pub is_foreign: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewFacts {
    pub schema: String,
    pub name: String,
    /// The definition as information_schema writes it. Empty if the account lacks SHOW VIEW.
    pub definition: String,
    /// The server takes INSERTs through it, or other changes.
    pub is_updatable: bool,
    pub columns: Vec<String>,
}

impl TableFacts {
    pub fn column(&self, is_it: impl Fn(&str) -> bool) -> Option<&ColumnFacts> {
        self.columns.iter().find(|column| is_it(&column.shape.name))
    }

    pub fn shapes(&self) -> impl Iterator<Item = &ColumnShape> + Clone {
        self.columns.iter().map(|column| &column.shape)
    }

    pub fn is_base(&self) -> bool {
        self.kind == TableKind::Base
    }
}
