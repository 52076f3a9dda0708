//! Views of ruled tables: which of them INSERTs can go through.

use std::collections::BTreeSet;

use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::{Live, Survey};
use crate::schema::facts::ViewFacts;
use crate::sql::name::{quoted, same_column};
use crate::sql::statement::view::{Definition, names_in};
use crate::table_name::TableName;

/// Views of views of views, as the proxy follows them.
const STEPS_MAX: usize = 32;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    // The server itself refuses an INSERT through a view that is not updatable.
    for view in survey.facts.views.iter().filter(|view| view.is_updatable) {
        let name = format!("{}.{}", view.schema, view.name);
        if view.definition.is_empty() {
            let why = "the control account lacks the right to see the view's definition: INSERTs through the view are refused, whatever its tables are";
            let remedy =
                format!("GRANT SELECT, SHOW VIEW ON {}.* to the control account", quoted(&view.schema));
            found.push(Finding::warning(Code::ViewUnseen, Where::object(name), why, remedy));
            continue;
        }
        let Some(live) = mentioned(survey, view) else { continue };
        let table = format!("{}.{}", live.table.schema, live.table.name);
        let why = match follow(survey, &view.schema, &view.name, STEPS_MAX) {
            None => format!("the view is not a view of {table} alone: INSERTs through the view are refused"),
            Some((_, columns)) => {
                let shown = columns.iter().flatten().filter(|name| same_column(name, &live.rule.column));
                match shown.count() {
                    1 => continue,
                    0 => format!(
                        "the view does not show {}: INSERTs through the view are refused",
                        live.rule.column
                    ),
                    _ => format!(
                        "the view shows {} more than once: INSERTs through the view are refused",
                        live.rule.column
                    ),
                }
            }
        };
        let remedy =
            format!("insert into {table} itself, or let the view show {} exactly once", live.rule.column);
        found.push(Finding::warning(Code::ViewRefused, live.place().of(name), why, remedy));
    }
}

fn view_of<'a>(survey: &Survey<'a>, schema: &str, name: &str) -> Option<&'a ViewFacts> {
    let case = survey.facts.case;
    let is_it = |view: &&ViewFacts| {
        case.folded(&view.name) == case.folded(name) && case.folded(&view.schema) == case.folded(schema)
    };
    survey.facts.views.iter().find(is_it)
}

/// A ruled table that the view names, or a view of its. Each view is read once, however many lead to it.
fn mentioned<'s>(survey: &'s Survey<'_>, view: &ViewFacts) -> Option<&'s Live<'s>> {
    let mut seen = BTreeSet::from([TableName::new(&view.schema, &view.name)]);
    let mut ahead = vec![names_in(&view.definition)];
    while let Some(names) = ahead.pop() {
        if let Some(live) = names.iter().find_map(|name| survey.ruled(&name.schema, &name.table)) {
            return Some(live);
        }
        let views = names.iter().filter_map(|name| view_of(survey, &name.schema, &name.table));
        let new = views.filter(|other| seen.insert(TableName::new(&other.schema, &other.name)));
        ahead.extend(new.map(|other| names_in(&other.definition)));
    }
    None
}

/// The ruled table that rows go into which are inserted here, and for each column of this name the table's own.
fn follow<'s>(
    survey: &'s Survey<'_>,
    schema: &str,
    name: &str,
    steps: usize,
) -> Option<(&'s Live<'s>, Vec<Option<String>>)> {
    if let Some(live) = survey.ruled(schema, name) {
        let columns = live.table.columns.iter().map(|column| Some(column.shape.name.clone()));
        return Some((live, columns.collect()));
    }
    let view = view_of(survey, schema, name)?;
    let definition = Definition::parse(&view.definition)?;
    let TableName { schema: from_schema, table: from } = &definition.from;
    let (live, behind) = follow(survey, from_schema, from, steps.checked_sub(1)?)?;
    let names: Vec<&String> = match view_of(survey, from_schema, from) {
        Some(below) if survey.ruled(from_schema, from).is_none() => below.columns.iter().collect(),
        _ => live.table.columns.iter().map(|column| &column.shape.name).collect(),
    };
    let column = |shown: Option<String>| {
        let shown = shown?;
        behind.get(names.iter().position(|name| same_column(name, &shown))?)?.clone()
    };
    Some((live, definition.columns.into_iter().map(column).collect()))
}

/// The ruled table that an INSERT into this name goes into, or may go into by a view that is not followed.
pub(in crate::lint) fn target<'s>(survey: &'s Survey<'_>, schema: &str, name: &str) -> Option<&'s Live<'s>> {
    let followed = follow(survey, schema, name, STEPS_MAX).map(|(live, _)| live);
    followed.or_else(|| mentioned(survey, view_of(survey, schema, name)?))
}
