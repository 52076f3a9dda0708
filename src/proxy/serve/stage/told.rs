//! The server's answers while a statement goes by way of a stage, and the texts that the client gets.

use super::Facts;
use crate::mysql::error::Refusal;
use crate::proxy::decide::verdict::refused;
use crate::proxy::known::answered::{Answered, ServerError, text_of};
use crate::proxy::known::warned::replaced;
use crate::proxy::serve::session::Stop;
use crate::rewrite::plan::target::Target;

/// The facts that are asked for beforehand, if the server's way of logging allows that rows are numbered in the order
/// of a query.
pub(super) fn facts_of(answered: Answered, target: &Target) -> Result<Facts, Refusal> {
    let facts = answered.map_err(|error| not_answered(&error))?;
    let unreadable = || refused(target.at("Rowstamp cannot read the server's binlog_format; try again"));
    let facts = facts.row.as_deref().and_then(text_of).ok_or_else(unreadable)?;
    let mut facts = facts.split(',');
    let mut is_on = || matches!(facts.next(), Some("1" | "ON"));
    let is_logged = is_on() & is_on();
    if is_logged && facts.next().is_none_or(|format| format.eq_ignore_ascii_case("STATEMENT")) {
        return Err(refused(target.at(
            "with binlog_format = STATEMENT a replica may number the rows of INSERT ... SELECT, LOAD and expressions as ids \
             differently; SET binlog_format to ROW or MIXED",
        )));
    }
    let last_insert_id = facts.next_back().and_then(|id| id.parse().ok()).ok_or_else(unreadable)?;
    let increment = facts.next_back().and_then(|step| step.parse().ok()).ok_or_else(unreadable)?;
    let warns_of_zero_dates = facts.next_back() == Some("1");
    Ok(Facts { warns_of_zero_dates, increment, last_insert_id, unwarned: None })
}

/// Why there is no stage.
pub(super) fn not_made(error: ServerError, target: &Target) -> Stop {
    /// Access to the database, to the table, to a column is denied; XA.
    const DENIED: u16 = 1044;
    const DENIED_READING: [u16; 2] = [1142, 1143];
    const IN_XA: u16 = 4091;
    let (schema, table) = target.named();
    let by_way = "INSERT ... SELECT, LOAD and expressions as ids need a temporary table, ";
    let why = match error.code {
        DENIED => {
            format!("which the account may not create; GRANT CREATE TEMPORARY TABLES ON `{schema}`.* TO the account")
        }
        code if DENIED_READING.contains(&code) => {
            format!(
                "with columns that the account may not read; GRANT SELECT ON `{schema}`.`{table}` TO the account"
            )
        }
        IN_XA => "which MySQL does not allow in an XA transaction while xa_detach_on_prepare is ON; SET xa_detach_on_prepare = OFF, or \
                  insert outside of the transaction"
            .to_owned(),
        _ => return Stop::Failed(error.payload),
    };
    refused(target.at(format_args!("{by_way}{why}"))).into()
}

/// The stage's name.
pub(super) const STAGE: &[u8] = b"rowstamp stage";

/// The server's error, with the table's name where it has the stage's.
pub(super) fn with_table_name(error: &[u8], target: &Target) -> Vec<u8> {
    replaced(error, STAGE, target.named().1.as_bytes())
}

pub(super) fn not_answered(ServerError { code, text, .. }: &ServerError) -> Refusal {
    refused(format_args!("the server answered {code}, {text}; try again"))
}

pub(super) fn too_many() -> Refusal {
    Refusal::NoId("more than 4294967295 rows; insert fewer at a time".into())
}
