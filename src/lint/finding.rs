//! A finding: its code, how bad it is, where, why, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::rules::model::Origin;
use crate::toml_file;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Statements will fail, or ids may come twice.
    Error,
    /// It works now, or mostly.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Codes, their text, and what each means. The order is that of docs/check.md.
macro_rules! codes {
    ($($name:ident $text:literal $meaning:literal,)*) => {
        /// What kind of finding it is: words that stay the same from version to version.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }

            /// As docs/check.md has it.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $meaning,)*
                }
            }
        }
    };
}

codes! {
    File "file" "a file is wrong: its syntax, a key, a value; `object` is the key",
    SchemaMissing "schema-missing" "the server has no such database, or the control account does not see it",
    TableMissing "table-missing" "a rule's table is not there",
    NameCase "name-case" "the server tells letter case apart, and the rule spells the table otherwise",
    NotATable "not-a-table" "a rule names a view or a SEQUENCE",
    TableAmbiguous "table-ambiguous" "two rules claim one table: its INSERTs are refused",
    RulesDifferInCase "rules-differ-in-case" "two rules differ only in letter case, which this server does not tell apart",
    PatternUnmatched "pattern-unmatched" "a pattern matches no table",
    PatternPasses "pattern-passes" "tables that a pattern matches have no such column, or one of a type that is not for ids: it does not mean them",
    ColumnMissing "column-missing" "the table has no such column",
    ColumnGenerated "column-generated" "the column is GENERATED: nothing can be stored in it",
    ColumnType "column-type" "the column's type holds no ids: FLOAT, dates, ENUM and their like",
    ColumnNotInteger "column-not-integer" "DECIMAL, DOUBLE or text: it works, slowly or up to fewer digits",
    ColumnTooNarrow "column-too-narrow" "the generator's ids do not fit the column, now or before the layout's end",
    ColumnNearlyFull "column-nearly-full" "a sequence has used up four fifths of what the column holds",
    JsUnsafe "js-unsafe" "ids above 2^53-1, which JavaScript rounds",
    ColumnSigned "column-signed" "a signed column narrower than BIGINT: UNSIGNED doubles it",
    ColumnsDiffer "columns-differ" "columns of one generator differ in width or sign: the narrowest ends the sequence for all",
    ColumnNotUnique "column-not-unique" "no unique key on the column alone: an id that comes twice goes unnoticed",
    ColumnNotIndexed "column-not-indexed" "no index begins with the column: each start reads the whole table for MAX(id)",
    ColumnDefault "column-default" "NULL or a DEFAULT is what a writer past the proxy stores",
    ForeignKeyType "foreign-key-type" "a foreign key's column is narrower than the id, or of another sign",
    StartBelowTable "start-below-table" "seed = \"none\", and the first id is not above those in the table",
    RowsAboveBound "rows-above-bound" "rows lie above what the generator has reserved: somebody else wrote them",
    KeepAboveBound "keep-above-bound" "the same, where explicit = \"keep\" lets clients write such ids: the sequence will meet them",
    IdsAhead "ids-ahead" "the table holds ids ahead of the clock, above which a timestamp generator must begin",
    HighestUnread "highest-unread" "the highest id in the table was not read",
    AutoIncrementKept "auto-increment-kept" "the column is AUTO_INCREMENT still: a writer past the proxy takes ids of its counter",
    NativeWithoutCounter "native-without-counter" "unavailable = \"native\", and the column is not AUTO_INCREMENT: INSERTs are refused all the same",
    StepDiffers "step-differs" "the sequence and the AUTO_INCREMENT counter give the same ids: their steps do not interleave",
    DriverStep "driver-step" "drivers that count the ids of several rows do so by auto_increment_increment, which is not the generator's step",
    StrayZero "stray-zero" "no AUTO_INCREMENT and no strict sql_mode: a writer past the proxy stores 0",
    BodyInserts "body-inserts" "a trigger, routine or event inserts into a ruled table past the proxy",
    TriggerSetsId "trigger-sets-id" "a BEFORE INSERT trigger assigns the id",
    ReadsLastInsertId "reads-last-insert-id" "a trigger, routine or event reads LAST_INSERT_ID() of an INSERT that it did not make, or made past the proxy",
    DynamicSql "dynamic-sql" "a routine or event runs what it puts together itself: unseen",
    BodyUnreadable "body-unreadable" "the text of a trigger, routine or event cannot be read for certain",
    BodyUnseen "body-unseen" "the control account may not see the text of a routine",
    ViewRefused "view-refused" "INSERTs through a view of a ruled table are refused: it hides the id, or joins",
    ViewUnseen "view-unseen" "the control account may not see a view's definition: INSERTs through it are refused",
    TriggersUnseen "triggers-unseen" "the control account lacks TRIGGER: triggers are not looked at",
    RoutinesUnseen "routines-unseen" "the control account may not see all routines: they are not looked at",
    EventsUnseen "events-unseen" "the control account lacks EVENT: events are not looked at",
    AccountDenied "account-denied" "an account may insert into the table, but not write the id's column, as Rowstamp does: its INSERTs fail with error 1143",
    AccountUnstaged "account-unstaged" "an account may insert, but lacks CREATE TEMPORARY TABLES or SELECT: its INSERT ... SELECT, LOAD and expressions as ids are refused",
    AccountsUnseen "accounts-unseen" "the control account sees no other account's grants: those are not looked at",
    BinlogStatement "binlog-statement" "binlog_format = STATEMENT: INSERT ... SELECT and LOAD into ruled tables are refused",
    ConnectionsShared "connections-shared" "the backend is MySQL Router with connection_sharing: some INSERTs are refused",
    LockHeld "lock-held" "another store's proxy, or somebody else, holds a table's lock: INSERTs are refused",
    ServerReadOnly "server-read-only" "the server takes no writes",
    CompressionUnoffered "compression-unoffered" "backend.compression names what the server does not offer: nothing is compressed",
    ClockApart "clock-apart" "this machine's clock and the server's are apart: timestamp ids are held back",
    StoreAsync "store-async" "the store's server replicates asynchronously: a failover may bring back old bounds",
    StoreNotDurable "store-not-durable" "the store's server may lose commits in a crash",
    StoreUnread "store-unread" "the store's bounds could not be read, so nothing is compared with them",
    StoreSuspected "store-suspected" "the store is suspected to have gone back: no ids are issued",
    GeneratorDiffers "generator-differs" "the store knows the generator as of another kind or layout",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where it is; what does not apply is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Where {
    /// As `schema.table`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// A routine, trigger, event, view or foreign key as `schema.name`; a generator; a variable of the server's; a key of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Where the rule is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Counts from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Where {
    pub fn table(schema: &str, table: &str) -> Self {
        Where { table: Some(format!("{schema}.{table}")), ..Where::default() }
    }

    pub fn object(object: impl fmt::Display) -> Self {
        Where { object: Some(object.to_string()), ..Where::default() }
    }

    #[must_use]
    pub fn column(self, column: &str) -> Self {
        Where { column: Some(column.to_owned()), ..self }
    }

    #[must_use]
    pub fn of(self, object: impl fmt::Display) -> Self {
        Where { object: Some(object.to_string()), ..self }
    }

    #[must_use]
    pub fn at(self, origin: &Origin) -> Self {
        Where { file: Some(origin.file.clone()), line: Some(origin.line), ..self }
    }
}

/// Ordered as findings are shown: by table (what concerns none comes last), the worst first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    #[serde(rename = "where")]
    pub place: Where,
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    pub fn error(code: Code, place: Where, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { code, severity: Severity::Error, place, why: why.into(), remedy: remedy.into() }
    }

    pub fn warning(code: Code, place: Where, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { severity: Severity::Warning, ..Finding::error(code, place, why, remedy) }
    }

    pub fn note(code: Code, place: Where, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { severity: Severity::Note, ..Finding::error(code, place, why, remedy) }
    }

    fn key(&self) -> impl Ord + '_ {
        let table = &self.place.table;
        (table.is_none(), table, self.severity, self.code, &self.place, &self.why, &self.remedy)
    }
}

impl PartialOrd for Finding {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finding {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Of a file that people write. Its text is "why; remedy", by the house's habit.
impl From<&toml_file::Finding> for Finding {
    fn from(finding: &toml_file::Finding) -> Self {
        let (why, remedy) = finding.text.split_once("; ").unwrap_or((&finding.text, ""));
        let file = Some(Path::new(&finding.file).to_owned());
        let place = Where { file, line: finding.line, object: finding.key.clone(), ..Where::default() };
        let severity = match finding.severity {
            toml_file::Severity::Error => Severity::Error,
            toml_file::Severity::Warning => Severity::Warning,
        };
        Finding { severity, ..Finding::error(Code::File, place, why, remedy) }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_are_written_as_they_are_serialized() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
