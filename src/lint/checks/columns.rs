//! Whether the column is there, can hold ids at all, and what a writer past the proxy would leave in it.

use crate::lint::finding::{Code, Finding};
use crate::lint::survey::{Live, Survey};
use crate::rules::model::Unavailable;
use crate::schema::facts::ColumnFacts;

/// Types that ids can be stored in, though they are no integers.
pub(in crate::lint) fn is_text(data_type: &str) -> bool {
    matches!(
        data_type,
        "char"
            | "varchar"
            | "tinytext"
            | "text"
            | "mediumtext"
            | "longtext"
            | "binary"
            | "varbinary"
            | "tinyblob"
            | "blob"
            | "mediumblob"
            | "longblob"
    )
}

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
    if live.rule.is_auto() {
        let why = "the table has no AUTO_INCREMENT column, and no primary key that is one integer: its INSERTs are refused";
        let remedy = format!("name the rule's column; the table has {}", names.join(", "));
        return Finding::error(Code::ColumnMissing, live.place(), why, remedy);
    }
    let why = format!("the table has no column {}: its INSERTs are refused", live.rule.column);
    let remedy = match counter {
        Some(counter) => format!("write column = {:?}, which is its AUTO_INCREMENT", counter.shape.name),
        None => format!("correct the rule's column; the table has {}", names.join(", ")),
    };
    Finding::error(Code::ColumnMissing, live.place().column(&live.rule.column), why, remedy)
}

/// The server is to number rows that there are no ids for.
fn native(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    if live.rule.unavailable == Unavailable::Refuse || column.shape.auto_increment {
        return None;
    }
    let why = "unavailable = \"native\" has the server number rows while there are no ids, and the column is not AUTO_INCREMENT: \
               such INSERTs are refused (1467)";
    let remedy = "keep AUTO_INCREMENT on the column, or write unavailable = \"refuse\"";
    Some(Finding::error(Code::NativeWithoutCounter, live.column_place(column), why, remedy))
}

fn kind(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    let place = live.column_place(column);
    let (shape, written) = (&column.shape, &column.column_type);
    if shape.generated {
        let why = "the column is GENERATED, and the server takes no value for it";
        let remedy = "name the column that ids are stored in, or make this one an ordinary column";
        return Some(Finding::error(Code::ColumnGenerated, place, why, remedy));
    }
    if shape.highest().is_some() {
        return None;
    }
    let remedy = live.widen(column);
    let data_type = shape.data_type.as_str();
    if is_text(data_type) || matches!(data_type, "decimal" | "double") {
        let cost = match data_type {
            "double" => "ids above 2^53 are rounded in it",
            "decimal" => "comparing and indexing it costs more than an integer",
            _ => "ids sort letter by letter in it, and each start reads the whole table for the highest",
        };
        let why = format!("{written} holds ids, but {cost}");
        return Some(Finding::warning(Code::ColumnNotInteger, place, why, remedy));
    }
    let cost = match data_type {
        "float" => "rounds ids above 16777216: its INSERTs are refused",
        _ => "is no type for ids",
    };
    Some(Finding::error(Code::ColumnType, place, format!("{written} {cost}"), remedy))
}

/// Past the proxy, an INSERT without the id.
fn default(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    if column.shape.auto_increment || column.shape.generated || !(column.is_nullable || column.has_default) {
        return None;
    }
    let what = if column.has_default { "the column's DEFAULT" } else { "NULL" };
    let why = format!("a writer past the proxy that leaves the id out stores {what}, and gets no error");
    let bare = ColumnFacts { is_nullable: false, ..column.clone() };
    let remedy = format!("{}, but without a DEFAULT", live.modify(&bare, &column.column_type));
    Some(Finding::warning(Code::ColumnDefault, live.column_place(column), why, remedy))
}
