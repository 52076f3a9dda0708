//! Findings about everything that could not be checked because a right is missing.

use std::collections::BTreeSet;

use crate::lint::checks::grants::{Grants, dialect_server};
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::Survey;
use crate::schema::facts::Facts;
use crate::sql::dialect::ServerKind;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let facts = survey.facts;
    let grants = Grants::of(facts);
    let schemas: BTreeSet<&str> = survey.tables.iter().map(|live| live.table.schema.as_str()).collect();
    let mut unseen = |code, schema: &str, what: &str, right: String| {
        let why = format!(
            "the control account lacks the right to see the {what} of {schema}: Rowstamp cannot tell whether they insert into tables with a rule"
        );
        found.push(Finding::warning(code, Where::object(schema), why, right));
    };
    for schema in schemas {
        let grant = |right: &str| format!("GRANT {right} ON `{schema}`.* to the control account");
        if !grants.has("TRIGGER", schema, None) {
            unseen(Code::TriggersUnseen, schema, "triggers", grant("TRIGGER"));
        }
        if !grants.has("EVENT", schema, None) {
            unseen(Code::EventsUnseen, schema, "events", grant("EVENT"));
        }
        if let Some(right) = routines(facts, &grants) {
            unseen(Code::RoutinesUnseen, schema, "routines", format!("{right} to the control account"));
        }
    }
}

/// The grant that is missing to see every routine's text. Sources: MySQL manual, "The INFORMATION_SCHEMA ROUTINES Table";
/// MariaDB knowledge base, "Information Schema ROUTINES Table" and "SHOW CREATE ROUTINE".
fn routines(facts: &Facts, grants: &Grants) -> Option<&'static str> {
    let server = dialect_server(facts.server.variable("version"));
    match server.kind {
        ServerKind::MySql => {
            let sees = grants.has_globally("SHOW_ROUTINE") || grants.has_globally("SELECT");
            (!sees).then_some("GRANT SHOW_ROUTINE ON *.*")
        }
        ServerKind::MariaDb => {
            let sees =
                grants.has("SELECT", "mysql", Some("proc")) || grants.has_globally("SHOW CREATE ROUTINE");
            (!sees).then_some("GRANT SELECT ON mysql.proc")
        }
    }
}
