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
    /// Statements work now, or in most cases.
    Warning,
    /// For information.
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
        /// The kind of the finding. Codes stay the same from version to version.
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

            /// The meaning of the code, as in docs/check.md.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $meaning,)*
                }
            }
        }
    };
}

codes! {
    File "file" "a file has an error in its syntax, in a key or in a value; `object` is the key",
    SchemaMissing "schema-missing" "the server has no such database, or the control account does not see it",
    TableMissing "table-missing" "the server has no such table, or the control account does not see it",
    NameCase "name-case" "the names of the table and of the rule differ in letter case, and this server distinguishes letter case",
    NotATable "not-a-table" "a rule names a view or a SEQUENCE",
    TableAmbiguous "table-ambiguous" "two rules match one table: INSERTs into the table are refused",
    RulesDifferInCase "rules-differ-in-case" "the tables of two rules differ only in letter case, and this server ignores letter case",
    PatternUnmatched "pattern-unmatched" "a pattern matches no table",
    PatternPasses "pattern-passes" "tables that a pattern matches lack the rule's column, or the type of the column cannot hold ids: the rule gives no ids to them",
    ColumnMissing "column-missing" "the table lacks the rule's column, or the control account does not see the table's columns",
    ColumnGenerated "column-generated" "the column is GENERATED: the server accepts no value for it",
    ColumnType "column-type" "the type of the column cannot hold ids: FLOAT, dates, ENUM and similar types",
    ColumnNotInteger "column-not-integer" "the column is DECIMAL, DOUBLE or text: ids work, but more slowly or with fewer digits",
    ColumnTooNarrow "column-too-narrow" "the generator's ids do not fit the column, now or before the layout's end",
    ColumnNearlyFull "column-nearly-full" "a sequence has used four fifths of the ids that the column or `max` allows",
    JsUnsafe "js-unsafe" "the generator's ids are above 2^53-1, or will be: JavaScript rounds such ids",
    ColumnSigned "column-signed" "the column is signed and narrower than BIGINT: UNSIGNED doubles the number of ids",
    ColumnsDiffer "columns-differ" "the columns of one sequence differ in width or sign: the sequence ends at the limit of the narrowest column",
    ColumnNotUnique "column-not-unique" "no unique key is on this column alone: the server accepts the same id twice",
    ColumnNotIndexed "column-not-indexed" "no index begins with the column: each start reads the whole table for MAX(id)",
    ColumnDefault "column-default" "the column is nullable or has a DEFAULT: a direct INSERT without the id stores that value, and gets no error",
    ForeignKeyType "foreign-key-type" "a foreign key's column is narrower than the id column, or differs from it in sign",
    StartBelowTable "start-below-table" "seed = \"none\", and the first id of the generator is not above the ids in the table",
    RowsAboveBound "rows-above-bound" "the table holds ids at or above the generator's bound: the generator does not know these ids",
    KeepAboveBound "keep-above-bound" "the table holds ids at or above the generator's bound, and explicit = \"keep\" lets clients write such ids: the sequence will issue the same ids",
    IdsAhead "ids-ahead" "the table holds ids ahead of the clock; a timestamp generator must begin above them",
    HighestUnread "highest-unread" "the highest id in the table was not read",
    AutoIncrementKept "auto-increment-kept" "the column is still AUTO_INCREMENT: a direct INSERT takes its id from the counter",
    NativeWithoutCounter "native-without-counter" "unavailable = \"native\", but the column is not AUTO_INCREMENT: INSERTs are refused while there are no ids",
    StepDiffers "step-differs" "the sequence and the AUTO_INCREMENT counter can give the same id: their steps do not interleave",
    DriverStep "driver-step" "auto_increment_increment is not the generator's step: drivers that compute the ids of several rows from it report wrong ids",
    StrayZero "stray-zero" "the column is not AUTO_INCREMENT, and the sql_mode is not strict: a direct INSERT without the id stores 0",
    BodyInserts "body-inserts" "a trigger, routine or event inserts into a table with a rule: Rowstamp does not see that INSERT",
    TriggerSetsId "trigger-sets-id" "a BEFORE INSERT trigger assigns the id",
    ReadsLastInsertId "reads-last-insert-id" "a trigger, routine or event reads LAST_INSERT_ID() of an INSERT that it did not make, or that Rowstamp does not see",
    DynamicSql "dynamic-sql" "a routine or event runs SQL that it builds at run time: Rowstamp cannot check this SQL",
    BodyUnreadable "body-unreadable" "Rowstamp cannot reliably read the text of a trigger, routine or event",
    BodyUnseen "body-unseen" "the control account lacks the right to see the text of a routine",
    ViewRefused "view-refused" "a view of a table with a rule hides the id column, shows it twice, or joins tables: INSERTs through the view are refused",
    ViewUnseen "view-unseen" "the control account lacks the right to see a view's definition: INSERTs through the view are refused",
    TriggersUnseen "triggers-unseen" "the control account lacks TRIGGER: triggers are not checked",
    RoutinesUnseen "routines-unseen" "the control account lacks the right to see all routines: routines that it does not see are not checked",
    EventsUnseen "events-unseen" "the control account lacks EVENT: events are not checked",
    AccountDenied "account-denied" "an account can insert into the table, but cannot write the id column, as Rowstamp does: its INSERTs fail with error 1143",
    AccountUnstaged "account-unstaged" "an account can insert, but lacks CREATE TEMPORARY TABLES or SELECT: its INSERT ... SELECT, LOAD and expressions as ids are refused",
    AccountsUnseen "accounts-unseen" "the control account does not see the grants of other accounts: those grants are not checked",
    BinlogStatement "binlog-statement" "binlog_format = STATEMENT: INSERT ... SELECT and LOAD into tables with a rule are refused",
    ConnectionsShared "connections-shared" "the backend is MySQL Router with connection_sharing: some INSERTs are refused",
    LockHeld "lock-held" "a proxy with another store, or another client, holds a table's lock: INSERTs are refused",
    ServerReadOnly "server-read-only" "the server is read-only",
    CompressionUnoffered "compression-unoffered" "the server offers no algorithm of backend.compression: connections to the server are not compressed",
    ClockApart "clock-apart" "the clocks of this machine and of the server differ: INSERTs that need timestamp ids get error 1467",
    StoreAsync "store-async" "the store's server replicates asynchronously: after a failover the store can have old bounds",
    StoreNotDurable "store-not-durable" "the store's server can lose commits in a crash",
    StoreDenied "store-denied" "the account of a store in a table lacks rights on the table: the proxy cannot keep its bounds there",
    StoreUnread "store-unread" "the bounds in the store could not be read: the ids in the tables are not compared with them",
    StoreSuspected "store-suspected" "the store may hold older data than before, as after a restore: no ids are issued",
    UserUnreadable "user-unreadable" "the record of a user in the store cannot be read: the user has no rights, and cannot log in",
    UserTwice "user-twice" "rowstamp.toml and the store have a user of the same name",
    GrantUnmatched "grant-unmatched" "a user has rights on generators that the rules do not have",
    NobodyDraws "nobody-draws" "`resp.address` or `api.address` is on, and no user may draw ids there",
    GeneratorDiffers "generator-differs" "the store has the generator with another kind or layout than the rules",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The place of the finding. Fields that do not apply are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Where {
    /// As `schema.table`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// A routine, trigger, event or view as `schema.name`; a foreign key; a generator; a database; a variable of the server; the store; `user NAME`; `users`; a key of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The file of the rule or of the key.
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

/// Sorted by table, then by severity, the most severe first. Findings that concern no table come last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    #[serde(rename = "where")]
    pub place: Where,
    pub why: String,
    /// What to write or do instead; can be empty.
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

/// Takes over a finding about a file that people write. Its text is "why; remedy", by the house's habit.
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
