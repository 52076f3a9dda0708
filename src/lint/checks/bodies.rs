//! Triggers, routines and events that do something with ids where no proxy sees it.

use crate::lint::checks::counters::are_apart;
use crate::lint::checks::grants::dialect_server;
use crate::lint::checks::views;
use crate::lint::finding::{Code, Finding, Severity, Where};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::GeneratorKind;
use crate::schema::facts::{Body, BodyKind};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};
use crate::sql::name::same_column;
use crate::sql::scan::{Inserted, Scan, scan};

/// The words for a text that was not read.
const UNKNOWN: &str = "Rowstamp cannot tell whether it inserts into tables with a rule";

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    if survey.tables.is_empty() {
        return;
    }
    let server = dialect_server(survey.facts.server.variable("version"));
    for body in &survey.facts.bodies {
        let sql_mode = SqlMode::parse(&body.sql_mode);
        let dialect = Dialect { server, sql_mode, charset: ClientCharset::Utf8 };
        let unread = |code, why: String, remedy: &str| {
            Finding::warning(code, Where::object(name_of(body)), format!("{}: {why}", kind(body)), remedy)
        };
        let Some(text) = &body.text else {
            let why = format!("the control account lacks the right to see the text: {UNKNOWN}");
            found.push(unread(
                Code::BodyUnseen,
                why,
                concat!(
                    "give the control account the right to see the text: ",
                    crate::book::page!("accounts")
                ),
            ));
            continue;
        };
        if body.is_foreign {
            let why = format!("the text is not written in SQL: {UNKNOWN}");
            found.push(unread(Code::BodyUnreadable, why, "look at the text yourself"));
            continue;
        }
        match scan(text, dialect) {
            Ok(scan) => of_scan(survey, body, &scan, found),
            Err(odd) => {
                let why = format!("Rowstamp cannot reliably read the text ({odd}): {UNKNOWN}");
                let remedy = "look at the text yourself, or rewrite that part";
                found.push(unread(Code::BodyUnreadable, why, remedy));
            }
        }
    }
}

fn name_of(body: &Body) -> String {
    format!("{}.{}", body.schema, body.name)
}

fn kind(body: &Body) -> String {
    match &body.kind {
        BodyKind::Procedure => "procedure".to_owned(),
        BodyKind::Function => "function".to_owned(),
        BodyKind::Event => "event".to_owned(),
        BodyKind::Package => "package".to_owned(),
        BodyKind::Trigger { table, timing, event } => format!("trigger {timing} {event} on {table}"),
    }
}

fn of_scan(survey: &Survey<'_>, body: &Body, scan: &Scan, found: &mut Vec<Finding>) {
    let target = |insert: &Inserted| {
        let schema = insert.schema.as_ref().unwrap_or(&body.schema);
        views::target(survey, schema, &insert.table)
    };
    let is_in_ruled_schema = || survey.tables.iter().any(|live| live.table.schema == body.schema);
    let mut ruled = None;
    for insert in &scan.inserts {
        let Some(live) = target(insert) else { continue };
        ruled = Some(live);
        found.push(inserts(survey, body, live, insert));
    }
    if let BodyKind::Trigger { table, timing, event } = &body.kind
        && let Some(live) = survey.ruled(&table.schema, &table.table)
    {
        let is_before = timing.eq_ignore_ascii_case("BEFORE") && event.eq_ignore_ascii_case("INSERT");
        if is_before && scan.sets_new.iter().any(|name| same_column(name, &live.rule.column)) {
            found.push(sets_id(body, live));
        }
        if scan.reads_insert_id && ruled.is_none() {
            found.push(reads(body, live));
        }
    } else if let (true, Some(live)) = (scan.reads_insert_id, ruled) {
        found.push(reads(body, live));
    } else if scan.reads_insert_id && scan.inserts.is_empty() && is_in_ruled_schema() {
        found.push(reads_callers(body));
    }
    if scan.is_dynamic {
        let why = format!(
            "{}: the text runs SQL that it builds at run time; Rowstamp cannot tell whether this SQL inserts into tables with a rule",
            kind(body)
        );
        let remedy = "look at the text yourself; its INSERTs into such tables must write the ids";
        found.push(Finding::note(Code::DynamicSql, Where::object(name_of(body)), why, remedy));
    }
}

fn place(body: &Body, live: &Live<'_>) -> Where {
    live.place().of(name_of(body))
}

fn inserts(survey: &Survey<'_>, body: &Body, live: &Live<'_>, insert: &Inserted) -> Finding {
    let id = &live.rule.column;
    let counter = live.column.is_some_and(|column| column.shape.auto_increment);
    let is_apart = counter && is_apart(survey, live);
    let is_error = insert.writes(id) == Some(false) && !is_apart;
    let which = match insert.writes(id) {
        Some(true) => format!("writes {id} itself: the generator does not know these ids"),
        None => format!("is without a column list: NULL or 0 for {id} gets no id from the generator"),
        Some(false) if is_apart => format!(
            "leaves {id} out: while the column is AUTO_INCREMENT, the row gets an id from the counter; the generator does not issue \
             the counter's ids"
        ),
        Some(false) if counter => format!(
            "leaves {id} out: the row gets an id from the AUTO_INCREMENT counter, and the generator issues the same id"
        ),
        Some(false) => format!("leaves {id} out: without AUTO_INCREMENT the INSERT fails, or stores 0"),
    };
    let why = format!("{}: Rowstamp does not see its INSERT, which {which}", kind(body));
    let remedy = format!(
        "move the INSERT to the application, or let the INSERT write a value for {id} that the generator does not issue"
    );
    let finding = Finding::warning(Code::BodyInserts, place(body, live), why, remedy);
    if is_error { Finding { severity: Severity::Error, ..finding } } else { finding }
}

/// In the midst of a migration the two share the numbers.
fn is_apart(survey: &Survey<'_>, live: &Live<'_>) -> bool {
    match &live.spec.kind {
        GeneratorKind::Sequence(sequence) => are_apart(sequence, &survey.facts.server),
        GeneratorKind::Timestamp(_) => false,
    }
}

fn sets_id(body: &Body, live: &Live<'_>) -> Finding {
    let why = format!(
        "{}: the trigger assigns NEW.{}: the row can get another id than the generator's, and without AUTO_INCREMENT the \
         application does not learn this id",
        kind(body),
        live.rule.column
    );
    let remedy = "remove the assignment; Rowstamp writes the id into the INSERT";
    Finding::warning(Code::TriggerSetsId, place(body, live), why, remedy)
}

fn reads(body: &Body, live: &Live<'_>) -> Finding {
    let why = format!(
        "{}: the text reads LAST_INSERT_ID(), whose value may be the id of this INSERT, or still an earlier id",
        kind(body)
    );
    let remedy = format!("read NEW.{}, or a variable that holds the id", live.rule.column);
    Finding::warning(Code::ReadsLastInsertId, place(body, live), why, remedy)
}

fn reads_callers(body: &Body) -> Finding {
    let why = format!(
        "{}: the text reads LAST_INSERT_ID() of an INSERT that its caller made; if that INSERT and the call come in one packet, \
         Rowstamp may refuse the packet",
        kind(body)
    );
    let remedy = "pass the id as a parameter, or send the call in a separate packet";
    Finding::note(Code::ReadsLastInsertId, Where::object(name_of(body)), why, remedy)
}
