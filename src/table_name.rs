//! The name of a table in its schema, as it is written, and as a server compares it.

use std::borrow::Cow;
use std::fmt;

/// Schema and name of a table or a view, as a statement, a rule or the server writes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    pub schema: String,
    pub table: String,
}

impl TableName {
    pub fn new(schema: impl Into<String>, table: impl Into<String>) -> Self {
        TableName { schema: schema.into(), table: table.into() }
    }

    pub fn is(&self, (schema, table): (&str, &str)) -> bool {
        self.schema == schema && self.table == table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// A [`TableName`] as the server compares it. Only [`NameCase::fold`] makes one, so that no map by
/// name is asked for a name that was not folded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoldedName<'a> {
    schema: Cow<'a, str>,
    table: Cow<'a, str>,
}

impl FoldedName<'_> {
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    pub fn into_owned(self) -> FoldedName<'static> {
        FoldedName { schema: self.schema.into_owned().into(), table: self.table.into_owned().into() }
    }
}

impl fmt::Display for FoldedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// The way in which the server compares names of schemas and tables: `lower_case_table_names`, 0 or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCase {
    Sensitive,
    Insensitive,
}

impl NameCase {
    /// A name as it is compared. Called for each INSERT: allocates nothing for names in lower case
    /// or compared as they are.
    pub fn folded(self, name: &str) -> Cow<'_, str> {
        let is_folded =
            |c: char| if c.is_ascii() { !c.is_ascii_uppercase() } else { c.to_lowercase().eq([c]) };
        match self {
            NameCase::Insensitive if !name.chars().all(is_folded) => Cow::Owned(name.to_lowercase()),
            NameCase::Sensitive | NameCase::Insensitive => Cow::Borrowed(name),
        }
    }

    pub fn is_same(self, name: &TableName, schema: &str, table: &str) -> bool {
        self.folded(&name.schema) == self.folded(schema) && self.folded(&name.table) == self.folded(table)
    }

    /// Like [`NameCase::folded`], for both names.
    pub fn fold<'a>(self, schema: &'a str, table: &'a str) -> FoldedName<'a> {
        FoldedName { schema: self.folded(schema), table: self.folded(table) }
    }
}
