//! Counts of the statements into the tables whose rules are in shadow mode, by table and by what
//! would become of the statements.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::rewrite::plan::PREFIX;
use crate::sql::digest::Digest;
use crate::table_name::TableName;

pub const LOG_INTERVAL: std::time::Duration = std::time::Duration::from_mins(1);

/// Tables that are counted each by itself; without a control account any name may fit a pattern.
const TABLES_MAX: usize = 10_000;

/// Refusals of which the log has the text.
const REFUSALS_LOGGED_MAX: usize = 1_000;

/// The name for statements that name no table we know, such as EXECUTE of a text that was not seen.
const NO_NAME: (&str, &str) = ("", "(not known)");

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The statement would take so many ids; of INSERT ... SELECT only the server knows.
    Rewritten { ids: u64 },
    /// The client wrote every id itself, or a temporary table takes the rows.
    Passed,
    /// The statement would get an error, for this reason.
    Refused(String),
    /// The statement would be shown to the server, and refused for this where the server has no error of its
    /// own.
    ServerFirst(String),
    /// The outcome depends on something that was not known.
    Unknown(&'static str),
}

/// A table whose rule is in shadow mode, or was since the proxy began, and its statements by what
/// would have become of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShadowCount {
    pub schema: String,
    pub table: String,
    /// Ids would be filled in.
    pub rewritten: u64,
    /// The client wrote every id itself, or a temporary table takes the rows.
    pub passed: u64,
    /// Error 1235, or what stands for it.
    pub refused: u64,
    /// Shown to the server, and refused if it has no error of its own.
    pub server_first: u64,
    /// Cannot be said: the table's columns, or the statement's text, were not known.
    pub unknown: u64,
    /// Statements, out of all these, before which the server would be asked something.
    pub asked: u64,
    /// Ids that would have been taken, without those of INSERT ... SELECT.
    pub ids: u64,
}

impl ShadowCount {
    pub fn statements(&self) -> u64 {
        self.rewritten + self.passed + self.refused + self.server_first + self.unknown
    }
}

/// The counts that all versions of the rules share.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    tables: Mutex<BTreeMap<TableName, ShadowCount>>,
    /// Tables, each with the digest of a statement whose refusal the log has.
    logged: Mutex<BTreeSet<(String, String)>>,
}

impl Shadow {
    /// `name`: schema and table, where they are known. `asks`: the server would be asked something
    /// first.
    pub(crate) fn count(
        &self,
        name: Option<(&str, &str)>,
        outcome: &Outcome,
        asks: bool,
        digest: impl Fn() -> Digest,
    ) {
        let (schema, table) = name.unwrap_or(NO_NAME);
        self.add(TableName::new(schema, table), outcome, asks);
        if tracing::enabled!(tracing::Level::DEBUG) {
            let Digest { text, hash } = digest();
            let table = format!("{schema}.{table}");
            tracing::debug!(table, ?outcome, asks, digest = hash, statement = text, "shadow mode");
        }
        if let Outcome::Refused(why) | Outcome::ServerFirst(why) = outcome {
            self.log_refusal(&format!("{schema}.{table}"), why, digest());
        }
    }

    fn add(&self, name: TableName, outcome: &Outcome, asks: bool) {
        let mut tables = self.tables.lock();
        let has_room = tables.len() < TABLES_MAX || tables.contains_key(&name);
        let name = if has_room { name } else { TableName::new(name.schema, "(others)") };
        let counts = tables.entry(name).or_insert_with_key(|TableName { schema, table }| ShadowCount {
            schema: schema.clone(),
            table: table.clone(),
            ..ShadowCount::default()
        });
        match outcome {
            Outcome::Rewritten { ids } => {
                counts.rewritten += 1;
                counts.ids += ids;
            }
            Outcome::Passed => counts.passed += 1,
            Outcome::Refused(_) => counts.refused += 1,
            Outcome::ServerFirst(_) => counts.server_first += 1,
            Outcome::Unknown(_) => counts.unknown += 1,
        }
        counts.asked += u64::from(asks);
    }

    /// Each kind of refusal once, so that the log does not grow with the traffic.
    fn log_refusal(&self, table: &str, why: &str, digest: Digest) {
        let Digest { text, hash } = digest;
        let mut logged = self.logged.lock();
        if logged.len() >= REFUSALS_LOGGED_MAX || !logged.insert((table.to_owned(), hash.clone())) {
            return;
        }
        drop(logged);
        let why = why.strip_prefix(PREFIX).unwrap_or(why);
        tracing::info!(
            table,
            digest = hash,
            statement = text,
            why,
            "shadow mode: Rowstamp would refuse the statement"
        );
    }

    /// By schema and table.
    pub(crate) fn counted(&self) -> Vec<ShadowCount> {
        self.tables.lock().values().cloned().collect()
    }
}

/// Logs each table that had statements since the last time.
pub fn log(now: Vec<ShadowCount>, logged: &mut Vec<ShadowCount>) {
    for count in now.iter().filter(|count| !logged.contains(count)) {
        let ShadowCount { schema, table, rewritten, passed, refused, server_first, unknown, asked, ids } =
            count;
        let table = format!("{schema}.{table}");
        tracing::info!(
            table,
            rewritten,
            passed,
            refused,
            server_first,
            unknown,
            asked,
            ids,
            "shadow mode: the statements into the table so far, by outcome"
        );
    }
    *logged = now;
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Shadow, TABLES_MAX};
    use crate::sql::digest::Digest;

    #[test]
    fn statements_are_counted_by_table_and_outcome() {
        let shadow = Shadow::default();
        let digest = || Digest { text: "INSERT".into(), hash: "x".into() };
        let count = |name, outcome, asks| shadow.count(name, &outcome, asks, digest);
        let t = Some(("s", "t"));
        count(t, Outcome::Rewritten { ids: 3 }, false);
        count(t, Outcome::Rewritten { ids: 4 }, true);
        count(t, Outcome::Passed, false);
        count(t, Outcome::Refused("why".into()), false);
        count(t, Outcome::ServerFirst("why".into()), true);
        count(t, Outcome::Unknown("columns"), false);
        count(None, Outcome::Unknown("text"), true);
        let counted = shadow.counted();
        assert_eq!(counted.len(), 2);
        let [nameless, t] = counted.as_slice() else { panic!("{counted:?}") };
        assert_eq!((nameless.table.as_str(), nameless.unknown, nameless.asked), ("(not known)", 1, 1));
        assert_eq!((t.rewritten, t.passed, t.refused, t.server_first, t.unknown), (2, 1, 1, 1, 1));
        assert_eq!((t.asked, t.ids, t.statements()), (2, 7, 6));
        assert_eq!(shadow.logged.lock().len(), 1, "a refusal is logged once");
    }

    #[test]
    fn tables_have_a_limit() {
        let shadow = Shadow::default();
        let digest = || Digest { text: String::new(), hash: String::new() };
        for nth in 0..TABLES_MAX + 2 {
            shadow.count(Some(("s", &nth.to_string())), &Outcome::Passed, false, digest);
        }
        let counted = shadow.counted();
        assert_eq!(counted.len(), TABLES_MAX + 1);
        assert_eq!(counted.iter().find(|count| count.table == "(others)").unwrap().passed, 2);
    }
}
