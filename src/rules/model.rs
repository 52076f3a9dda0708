//! Rules as they act: immutable, shared by all sessions, swapped whole on a reload.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::block::Spacing;
use crate::ids::sequence::SequenceSpec;
use crate::ids::timestamp::TimestampSpec;
use crate::rules::pattern::is_pattern;
use crate::sql::name::same_column;

/// Two names of 64 characters of up to 4 bytes, and the dot between them.
const WRITTEN_BYTES_MAX: usize = 2 * 64 * 4 + 1;

/// The generator of all ids of the paths `api.compat = ["udf"]`, which name none.
pub const GENERATOR_OF_UDF: &str = "service.id";

/// A generator's identity in the store: `schema.name`, whatever file defines it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GeneratorName {
    pub schema: String,
    pub name: String,
}

impl GeneratorName {
    /// The names that `schema.name` may mean: schema and name may have dots of their own. A text that is too long means none.
    pub fn readings(written: &str) -> impl Iterator<Item = GeneratorName> {
        let written = if written.len() > WRITTEN_BYTES_MAX { "" } else { written };
        written.match_indices('.').map(|(at, _)| {
            let (schema, name) = written.split_at(at);
            let name = name.strip_prefix('.').unwrap_or_default();
            GeneratorName { schema: schema.to_owned(), name: name.to_owned() }
        })
    }
}

impl fmt::Display for GeneratorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// The place where a rule was written, for messages. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// What happens to ids that the client writes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Explicit {
    /// Stored as written.
    Keep,
    /// Stored as written; the generator continues above them.
    Advance,
    /// The statement fails with error 1235.
    Reject,
}

/// Where the id of a statement is visible.
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InsertId {
    /// In the OK packet and in `LAST_INSERT_ID()`.
    #[default]
    Session,
    /// Only in the OK packet.
    Packet,
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Ids are filled in.
    #[default]
    On,
    /// Rowstamp counts what it would do; the statement goes to the server as it came.
    Shadow,
    /// As if there were no rule; a pattern does not apply to the table.
    Off,
}

/// What happens to a statement for which there is no id.
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unavailable {
    /// The statement fails with error 1467.
    #[default]
    Refuse,
    /// The statement goes to the server as it came, and the AUTO_INCREMENT of the table numbers the rows.
    Native,
}

/// What happens if a generated id is in the table already (error 1062).
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collide {
    /// The error is logged and counted, and the generator continues above the table's ids.
    #[default]
    Raise,
    /// The error is logged and counted.
    Report,
}

/// A table's (or a pattern of tables') column and the generator that fills it.
///
/// In the files the schema may be a pattern, and the generator a template;
/// [`RuleSet::find`](super::RuleSet::find) gives the rule with those of one table in their place.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub schema: String,
    /// The pattern of schemas that it was written for. `None`: it names its schema.
    pub of_schemas: Option<String>,
    /// A name, or a pattern with `*` and `?`.
    pub table: String,
    pub column: String,
    pub generator: GeneratorName,
    /// The template of its tables' generators, if each generator is named after its table or its schema.
    pub made_from: Option<Arc<GeneratorSpec>>,
    pub explicit: Explicit,
    pub insert_id: InsertId,
    pub mode: Mode,
    pub unavailable: Unavailable,
    pub collide: Collide,
    pub origin: Origin,
}

impl Rule {
    /// A rule with these keys; the others have their defaults.
    pub fn new(
        (schema, table, column): (&str, &str, &str),
        generator: GeneratorName,
        explicit: Explicit,
        origin: Origin,
    ) -> Rule {
        Rule {
            schema: schema.to_owned(),
            of_schemas: None,
            table: table.to_owned(),
            column: column.to_owned(),
            generator,
            made_from: None,
            explicit,
            insert_id: InsertId::default(),
            mode: Mode::default(),
            unavailable: Unavailable::default(),
            collide: Collide::default(),
            origin,
        }
    }

    /// True if the rule is for all tables that match, and not for one that it names.
    pub fn is_pattern(&self) -> bool {
        self.of_schemas.is_some() || is_pattern(&self.table)
    }

    /// `schema.table`, as its file has them.
    pub fn written(&self) -> String {
        format!("{}.{}", self.of_schemas.as_ref().unwrap_or(&self.schema), self.table)
    }

    /// True if the generator of this name is that of the rule's tables, or may be that of one of them.
    pub fn draws_from(&self, name: &GeneratorName) -> bool {
        let schema = self.of_schemas.as_ref().unwrap_or(&self.schema);
        self.generator == *name
            || self.made_from.is_some() && self.generator.makes_for(schema, &self.table, name)
    }

    /// The generator of a rule that was found for a table, where it is made for the table.
    pub fn made(&self) -> Option<GeneratorSpec> {
        let from = self.made_from.as_deref()?;
        Some(GeneratorSpec { name: self.generator.clone(), ..from.clone() })
    }

    /// The rule for one table, named as the server compares its name.
    pub(super) fn of_table(&self, schema: &str, table: &str) -> Rule {
        let own = if self.of_schemas.is_some() { schema } else { &self.schema };
        Rule {
            schema: own.to_owned(),
            generator: if self.made_from.is_some() {
                self.generator.of_table(schema, table)
            } else {
                self.generator.clone()
            },
            ..self.clone()
        }
    }
}

/// A generator as its rules file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorSpec {
    pub name: GeneratorName,
    pub kind: GeneratorKind,
    /// Calls in SQL may draw from it.
    pub sql: bool,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GeneratorKind {
    Sequence(SequenceSpec),
    Timestamp(TimestampSpec),
}

impl GeneratorKind {
    pub fn spacing(&self) -> Spacing {
        match self {
            GeneratorKind::Sequence(sequence) => Spacing::by(sequence.step),
            GeneratorKind::Timestamp(timestamp) => timestamp.layout.spacing(),
        }
    }
}

/// A column of a live table, as far as a rewrite must know it.
#[allow(clippy::struct_excessive_bools)] // Independent facts of information_schema, not states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnShape {
    pub name: String,
    /// `information_schema.columns.data_type`, lower case: "bigint", "varchar".
    pub data_type: String,
    pub unsigned: bool,
    pub auto_increment: bool,
    /// GENERATED ALWAYS: an INSERT may only give it DEFAULT.
    pub generated: bool,
    /// Left out of an INSERT without a column list.
    pub invisible: bool,
    /// The column is in the primary key, alone or with others.
    pub in_primary_key: bool,
    /// NOT NULL, and without a default.
    pub needs_value: bool,
    /// A BEFORE INSERT trigger assigns it, as far as the control account may read its text.
    pub set_by_trigger: bool,
    /// MASKING POLICY (MySQL 9.7): who reads it may get another value, of another type.
    pub masked: bool,
}

impl ColumnShape {
    /// From what information_schema.columns has of it: `data_type`, `column_type` and `extra`. Its keys and its default are not among it.
    pub fn of(name: &str, data_type: &str, column_type: &str, extra: &str) -> Self {
        let extra = extra.to_ascii_uppercase();
        ColumnShape {
            name: name.to_owned(),
            data_type: data_type.to_ascii_lowercase(),
            unsigned: column_type.to_ascii_lowercase().contains("unsigned"),
            auto_increment: extra.contains("AUTO_INCREMENT"),
            // "DEFAULT_GENERATED" is an ordinary column with an expression as default.
            generated: extra.contains("VIRTUAL GENERATED") || extra.contains("STORED GENERATED"),
            invisible: extra.contains("INVISIBLE"),
            in_primary_key: false,
            needs_value: false,
            set_by_trigger: false,
            masked: extra.contains("MASKING POLICY"),
        }
    }

    /// True if ids can be stored in the column at all: in integers, exact numbers, floats, doubles, text and binary strings.
    pub fn holds_ids(&self) -> bool {
        self.highest().is_some()
            || matches!(self.data_type.as_str(), "decimal" | "float" | "double")
            || self.holds_text()
    }

    /// True if the column's values are compared letter by letter.
    pub fn holds_text(&self) -> bool {
        holds_text(&self.data_type)
    }

    /// The highest value; `None` for columns that are no integers. Source: MySQL manual, "Integer Types".
    pub fn highest(&self) -> Option<u64> {
        let bits = match self.data_type.as_str() {
            "tinyint" => 8,
            "smallint" => 16,
            "mediumint" => 24,
            "int" => 32,
            "bigint" => 64,
            _ => return None,
        };
        Some(u64::MAX >> (64 - bits + u32::from(!self.unsigned)))
    }
}

/// The columns of a live table, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    pub columns: Vec<ColumnShape>,
    /// A trigger that INSERT fires has LAST_INSERT_ID() in its text, as far as the control account may read it.
    pub shows_insert_id: bool,
    /// The table has a trigger that UPDATE fires, as far as the control account may see.
    pub fires_on_update: bool,
}

impl TableShape {
    /// The columns that an INSERT without a column list gives values to.
    pub fn visible(&self) -> impl Iterator<Item = &ColumnShape> {
        self.columns.iter().filter(|column| !column.invisible)
    }

    pub fn column(&self, name: &str) -> Option<&ColumnShape> {
        self.columns.iter().find(|column| same_column(&column.name, name))
    }
}

/// True if values of this type are compared letter by letter.
pub fn holds_text(data_type: &str) -> bool {
    ["char", "text", "binary", "blob"].iter().any(|kind| data_type.to_ascii_lowercase().ends_with(kind))
}

#[cfg(test)]
mod tests {
    use super::ColumnShape;

    #[track_caller]
    fn check(data_type: &str, column_type: &str, expect: Option<u64>) {
        assert_eq!(ColumnShape::of("id", data_type, column_type, "").highest(), expect, "{column_type}");
    }

    #[test]
    fn widest_ids() {
        check("tinyint", "tinyint(4)", Some(127));
        check("tinyint", "tinyint(3) unsigned", Some(255));
        check("int", "int(11)", Some(2_147_483_647));
        check("int", "int unsigned", Some(4_294_967_295));
        check("bigint", "bigint(20)", Some(9_223_372_036_854_775_807));
        check("bigint", "bigint unsigned", Some(u64::MAX));
        check("varchar", "varchar(20)", None);
    }

    /// Checks a text that MariaDB 10.11 or MySQL 9.7 has in `extra`.
    #[track_caller]
    fn check_extra(extra: &str, generated: bool, invisible: bool, masked: bool) {
        let column = ColumnShape::of("c", "int", "int", extra);
        let found = (column.generated, column.invisible, column.masked);
        assert_eq!(found, (generated, invisible, masked), "{extra}");
    }

    #[test]
    fn extras() {
        check_extra("", false, false, false);
        check_extra("VIRTUAL GENERATED", true, false, false);
        check_extra("STORED GENERATED, INVISIBLE", true, true, false);
        check_extra("VIRTUAL GENERATED INVISIBLE", true, true, false);
        check_extra("DEFAULT_GENERATED on update CURRENT_TIMESTAMP INVISIBLE", false, true, false);
        check_extra("MASKING POLICY INVISIBLE", false, true, true);
    }
}
