//! Checks that the column is there and can hold ids at all, and what a writer past the proxy would leave in it.

use crate::lint::finding::{Code, Finding};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::Unavailable;
use crate::schema::facts::ColumnFacts;
use crate::sql::name::quoted;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    for live in &survey.tables {
        let Some(column) = live.column else {
            found.push(missing(live));
            continue;
        };
        found.extend(kind(live, column));
        found.extend(default(live, column));
        found.extend(native(live, column));
    }
}

fn missing(live: &Live<'_>) -> Finding {
    let names: Vec<&str> = live.table.columns.iter().map(|column| column.shape.name.as_str()).collect();
    let counter = live.table.columns.iter().find(|column| column.shape.auto_increment);
    if names.is_empty() {
        let why = "the control account sees no column of the table, probably because it lacks SELECT: the table's INSERTs are refused";
        let remedy = format!("GRANT SELECT ON {}.* to the control account", quoted(&live.table.schema));
        return Finding::error(Code::ColumnMissing, live.place(), why, remedy);
    }
    if live.rule.is_auto() {
        let why = "the table has no AUTO_INCREMENT column, and no primary key that is one integer: its INSERTs are refused";
        let remedy = format!("write the column's name in the rule; the table has {}", names.join(", "));
        return Finding::error(Code::ColumnMissing, live.place(), why, remedy);
    }
    let why = format!(
        "the table has no column {}, or the control account does not see it: its INSERTs are refused",
        live.rule.column
    );
    let remedy = match counter {
        Some(counter) => format!("write column = {:?}, the AUTO_INCREMENT column", counter.shape.name),
        None => format!(
            "correct the rule's column (the account sees {}), or GRANT SELECT on the table to the control account",
            names.join(", ")
        ),
    };
    Finding::error(Code::ColumnMissing, live.place().column(&live.rule.column), why, remedy)
}

/// The server is to number rows that there are no ids for.
fn native(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    if live.rule.unavailable == Unavailable::Refuse || column.shape.auto_increment {
        return None;
    }
    let why = "unavailable = \"native\" lets the server number rows while there are no ids, but the column is not AUTO_INCREMENT: \
               such INSERTs are refused (1467)";
    let remedy = "keep AUTO_INCREMENT on the column, or write unavailable = \"refuse\"";
    Some(Finding::error(Code::NativeWithoutCounter, live.column_place(column), why, remedy))
}

fn kind(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    let place = live.column_place(column);
    let (shape, written) = (&column.shape, &column.column_type);
    if shape.generated {
        let why = "the column is GENERATED: the server accepts no value for it";
        let remedy = "name the column that stores the ids, or make this column an ordinary one";
        return Some(Finding::error(Code::ColumnGenerated, place, why, remedy));
    }
    if shape.highest().is_some() {
        return None;
    }
    let remedy = live.widen(column);
    let data_type = shape.data_type.as_str();
    if shape.holds_text() || matches!(data_type, "decimal" | "double") {
        let cost = match data_type {
            "double" => "rounds ids above 2^53",
            "decimal" => "costs more than an integer to compare and to index",
            _ => "sorts them as text, and each start reads the whole table for the highest id",
        };
        let why = format!("{written} holds ids, but {cost}");
        return Some(Finding::warning(Code::ColumnNotInteger, place, why, remedy));
    }
    let cost = match data_type {
        "float" => "rounds ids above 16777216: the table's INSERTs are refused",
        _ => "cannot hold ids",
    };
    Some(Finding::error(Code::ColumnType, place, format!("{written} {cost}"), remedy))
}

/// Past the proxy, an INSERT without the id.
fn default(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    if column.shape.auto_increment || column.shape.generated || !(column.is_nullable || column.has_default) {
        return None;
    }
    let what = if column.has_default { "the column's DEFAULT" } else { "NULL" };
    let why =
        format!("a direct INSERT (not through Rowstamp) without the id stores {what}, and gets no error");
    let bare = ColumnFacts { is_nullable: false, ..column.clone() };
    let remedy = format!("{}, but without a DEFAULT", live.modify(&bare, &column.column_type));
    Some(Finding::warning(Code::ColumnDefault, live.column_place(column), why, remedy))
}
