//! A plan in words, for `rowstamp explain`.

use std::convert::Infallible;
use std::fmt::Write;

use super::splice::{put_edits, put_separator};
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Style};
use crate::rewrite::plan::stage::Stage;
use crate::rewrite::plan::{InsertPlan, Plan, PlanNeed, Planned};

/// The text that would be sent, with `<id 1 of shop.orders>` in place of ids, or why none would be sent.
pub fn describe(text: &[u8], planned: &Planned) -> String {
    match planned {
        Planned::Untouched(_) => "sent unchanged: no INSERT into a table with a rule\n".to_owned(),
        Planned::Needs(need) => needed(need),
        Planned::Cut(at) => format!("sent in two packets; the second begins at byte {at}\n"),
        Planned::Stale { table, unreadable } => {
            format!("does not fit the known columns of {table}\n{}\n", unreadable.refusal)
        }
        Planned::Fails(_) => "fails with the server's error\n".to_owned(),
        Planned::Away(why) => format!("no id at this time (1467)\n{why}\n"),
        Planned::Refused(refusal) => format!("refused (1235)\n{refusal}\n"),
        Planned::Unreadable(unreadable) => {
            format!(
                "shown to the server, and refused (1235) if the server has no error for it\n{}\n",
                unreadable.refusal
            )
        }
        Planned::Rewrite(plan) => rewritten(text, plan),
    }
}

fn needed(need: &PlanNeed) -> String {
    match need {
        PlanNeed::Table(name) => format!("Rowstamp must know the columns of {name} first\n"),
        PlanNeed::Temporary(name) => {
            format!("Rowstamp asks the server whether a temporary table hides {name}\n")
        }
        PlanNeed::Settings => "Rowstamp reads the session's settings again\n".to_owned(),
        PlanNeed::Value { question } => {
            format!("Rowstamp asks the server first: {}\n", String::from_utf8_lossy(question))
        }
    }
}

fn rewritten(text: &[u8], plan: &Plan) -> String {
    if let Some((insert, stage)) = plan.staged() {
        return staged(text, insert, stage);
    }
    let mut out = sample(text, plan);
    out.push('\n');
    for insert in &plan.inserts {
        let rule = &insert.target.rule;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "statement {}: {}.{}.{}, rows: {}, ids of {}: {}; {}",
            insert.statement + 1,
            rule.schema,
            rule.table,
            rule.column,
            insert.rows,
            rule.generator,
            insert.ids,
            style(insert)
        );
    }
    out
}

/// INSERT ... SELECT.
fn staged(text: &[u8], insert: &InsertPlan, stage: &Stage) -> String {
    let rule = &insert.target.rule;
    let sent = stage.describe(text, &insert.target);
    format!(
        "{}\nstatement {}: {}.{}.{}, through a temporary table: one id of {} for each row{}\n",
        String::from_utf8_lossy(&sent),
        insert.statement + 1,
        rule.schema,
        rule.table,
        rule.column,
        rule.generator,
        if stage.brings_ids() { " without an id" } else { "" }
    )
}

fn style(insert: &InsertPlan) -> &'static str {
    match insert.style {
        _ if insert.is_named => "decided at EXECUTE",
        _ if insert.ids == 0 && insert.id_params.is_empty() => "the client wrote every id",
        _ if insert.ids == 0 => "decided at each execution",
        Style::Wrapped => "LAST_INSERT_ID() and the OK packet hold the first",
        Style::Literal => "Rowstamp puts the first into the OK packet, then into LAST_INSERT_ID()",
        Style::OdkuOne | Style::OdkuLiteral => {
            "LAST_INSERT_ID() and the OK packet hold the id of the inserted or updated row"
        }
        Style::OdkuNative => "the server reports the id, by its AUTO_INCREMENT",
    }
}

/// The text with a name in place of each id.
fn sample(text: &[u8], plan: &Plan) -> String {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut from = 0usize;
    for insert in &plan.inserts {
        let put = |out: &mut Vec<u8>, _: &Edit, Id { nth, comma, form, .. }| {
            let id = format!("<id {} of {}>", nth + 1, insert.target.rule.generator);
            put_separator(out, comma);
            let piece = match form {
                IdForm::Wrapper => format!("LAST_INSERT_ID({id})"),
                IdForm::Literal | IdForm::AfterWrapper | IdForm::Variable => id,
                IdForm::Warned => format!("'{id}x'"),
            };
            out.extend_from_slice(piece.as_bytes());
            Ok::<_, Infallible>(())
        };
        let Ok(end) = put_edits(insert, text, from, &mut out, put);
        from = end.unwrap_or(text.len());
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    String::from_utf8_lossy(&out).into_owned()
}
