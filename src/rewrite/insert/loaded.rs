//! A LOAD DATA or LOAD XML, from its text and the table's columns.

use crate::rewrite::insert::staged::{by_stage, check_readable, table_span};
use crate::rewrite::insert::{Context, Planning, Unplanned, refused};
use crate::rewrite::plan::stage::{self, Filling, Kind, Stage, text};
use crate::rewrite::plan::{InsertPlan, NewRows, Protocol};
use crate::rules::model::TableShape;
use crate::sql::dialect::SqlMode;
use crate::sql::lex::{Lexer, Span, Token};
use crate::sql::load::{Load, OnDuplicate};
use crate::sql::name;
use crate::sql::reads::Reads;

/// Plans a LOAD, from the token after LOAD to the statement's end. The second value: true if a `;` ended the statement.
pub(in crate::rewrite) fn plan_load(
    lexer: &mut Lexer<'_>,
    context: &Context<'_>,
) -> Planning<(InsertPlan, bool)> {
    if context.protocol == Protocol::Prepare && !context.is_mariadb() {
        // The server's own error, 1295.
        return Err(Unplanned::Unreadable("LOAD in a prepared statement".to_owned()));
    }
    let load = match Load::read(lexer, context.target.id_column(), context.table) {
        Ok(Some(load)) => load,
        Ok(None) => {
            return refused("cannot read this LOAD; write it without the clauses of MySQL's bulk load");
        }
        Err(odd) => return refused(format!("cannot read this LOAD: {odd}; rewrite that part")),
    };
    let verb = load.format.verb();
    check(lexer, context, &load)?;
    let Some(shape) = context.shape() else {
        return refused(format!(
            "Rowstamp does not know the table's columns, which {verb} needs; give Rowstamp an account under [backend.control]"
        ));
    };
    let filled = filled(lexer, context, &load, shape)?;
    let id = |column: &LoadedColumn| name::same_column(&column.name, context.target.id_column());
    let id_place = filled.iter().position(id);
    if id_place.is_some() {
        context.check_integer_id()?;
    }
    let (names, left_id) =
        (context.quoted(filled.iter().map(|column| &column.name))?, context.left_id(id_place.is_none())?);
    let schema = context.written(&name::quoted(context.target.named().0))?;
    let stage = Stage {
        table: table_span(context),
        filling: Filling { start: 0, edits: edits(&load, &schema, &filled, &names), end: load.end },
        head: head(lexer.text(), &load, left_id.as_deref(), (&filled, &names)),
        tail: Filling { start: load.end, edits: Vec::new(), end: load.end },
        schema,
        columns: names
            .into_iter()
            .zip(&filled)
            .map(|(quoted, column)| context.staged(quoted, &column.name, column.is_stored))
            .collect::<Planning<_>>()?,
        id_place,
        zero_is_value: id_place.is_some()
            && context.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
        query_params: 0,
        has_later_params: false,
        kind: Kind::Load {
            replaces: load.on_duplicate == OnDuplicate::Replace,
            leaves_defaults: filled.iter().any(|column| column.default == DefaultValue::OfType),
            loses_defaults: filled
                .iter()
                .any(|column| column.is_read && column.default == DefaultValue::Lost),
        },
        named: None,
    };
    check_readable(lexer, &stage)?;
    let new_rows = if ignores(&load) { NewRows::SomeIgnored } else { NewRows::All };
    let lists_none = load.listed.is_none();
    let replaces = load.on_duplicate == OnDuplicate::Replace;
    Ok((InsertPlan { replaces, lists_none, ..by_stage(context, stage, new_rows) }, load.semicolon))
}

/// Stops what the stage cannot show as the table does.
fn check(lexer: &Lexer<'_>, context: &Context<'_>, load: &Load) -> Planning<()> {
    let verb = load.format.verb();
    if context.only_literals {
        return refused(format!(
            "{verb} needs a temporary table, which MySQL Router does not keep if sessions share connections (connection_sharing); \
             write INSERT ... VALUES"
        ));
    }
    if load.params > 0 {
        return refused(format!("{verb} has a placeholder; write the value"));
    }
    if context.target.view.is_some() {
        let (schema, table) = (&context.target.rule.schema, &context.target.table);
        return refused(format!(
            "{verb} cannot fill this view of {schema}.{table}; load into {schema}.{table}"
        ));
    }
    if load.query_names_table {
        return refused(format!(
            "SET of {verb} has a query that names the table; read the value into a variable first"
        ));
    }
    if load.traits.names_id {
        return refused(format!(
            "SET of {verb} reads {column}, which has no value before the rows are stored; leave {column} out of SET",
            column = context.target.id_column()
        ));
    }
    if Reads::of(lexer.text(), lexer.dialect()).last_result() {
        return refused(format!(
            "{verb} reads ROW_COUNT(), FOUND_ROWS() or a count of warnings; read the count into a variable first"
        ));
    }
    Ok(())
}

/// A column that has a value when the stage is filled.
struct LoadedColumn {
    name: String,
    /// The column is in the list, or there is no list and the column is not invisible.
    is_read: bool,
    is_stored: bool,
    default: DefaultValue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DefaultValue {
    /// The stage's column has the same.
    Copied,
    /// MySQL does not copy it.
    Lost,
    /// The column is left out, not to be NULL, and has none: LOAD gives it the type's own, also in
    /// strict mode.
    OfType,
}

/// The columns that the LOAD fills, in the order of the table.
fn filled(
    lexer: &Lexer<'_>,
    context: &Context<'_>,
    load: &Load,
    shape: &TableShape,
) -> Planning<Vec<LoadedColumn>> {
    let decoded = |tokens: &[Token]| -> Planning<Vec<String>> {
        let name = |&token: &Token| name::decode(lexer.text(), token, context.dialect.charset);
        let names: Option<Vec<_>> = tokens.iter().map(|token| Some(name(token)?.into_owned())).collect();
        names.map_or_else(|| refused("the name of a column cannot be read; connect with utf8mb4"), Ok)
    };
    let listed = load.listed.as_deref().map(decoded).transpose()?;
    let assigned = decoded(&load.assigned)?;
    let is_among = |names: &[String], name: &str| names.iter().any(|one| name::same_column(one, name));
    let mut filled = Vec::with_capacity(shape.columns.len());
    for column in &shape.columns {
        let is_assigned = is_among(&assigned, &column.name);
        if is_assigned && column.generated {
            return refused(format!(
                "SET gives a value to the generated column {name}; leave {name} out",
                name = column.name
            ));
        }
        let is_read = match &listed {
            Some(listed) => is_among(listed, &column.name),
            None => !column.invisible,
        };
        let is_written = is_read || is_assigned;
        let is_id = name::same_column(&column.name, context.target.id_column());
        let takes_default = !is_written && !is_id && column.needs_value;
        // The values of SET may read it.
        let may_be_read = !assigned.is_empty() && !is_id && !column.generated;
        let default = match column.data_type.as_str() {
            _ if takes_default => DefaultValue::OfType,
            "bit" if !context.is_mariadb() => DefaultValue::Lost,
            _ => DefaultValue::Copied,
        };
        if may_be_read && !is_written && default == DefaultValue::Lost {
            return refused(format!(
                "SET of LOAD may read the default of the BIT column {}; name that column in the list, or leave SET out",
                column.name
            ));
        }
        if is_written || takes_default || may_be_read {
            let is_stored = (is_written || takes_default) && !column.generated;
            filled.push(LoadedColumn { name: column.name.clone(), is_read, is_stored, default });
        }
    }
    // The server says that they are not there, or knows them already.
    for name in listed.iter().flatten().chain(&assigned) {
        if shape.column(name).is_none() && !filled.iter().any(|one| name::same_column(&one.name, name)) {
            let name = name.clone();
            filled.push(LoadedColumn { name, is_read: true, is_stored: true, default: DefaultValue::Copied });
        }
    }
    Ok(filled)
}

/// The edits that make the client's statement one that fills the stage.
fn edits(load: &Load, schema: &[u8], filled: &[LoadedColumn], names: &[Box<[u8]>]) -> Vec<(Span, Box<[u8]>)> {
    let mut edits = vec![(load.table, stage::stage_name(schema).into_boxed_slice())];
    edits.extend(load.partition.map(|span| (span, Box::default())));
    if load.listed.is_none() {
        let read = filled.iter().zip(names).filter(|(column, _)| column.is_read);
        edits.push((load.list, text!(b" ", stage::list(read.map(|(_, name)| name))).into()));
    }
    edits.extend(load.qualifiers.iter().map(|&span| (span, Box::default())));
    edits
}

/// The statement that stores the rows, up to its query.
fn head(
    text: &[u8],
    load: &Load,
    left_id: Option<&[u8]>,
    (filled, names): (&[LoadedColumn], &[Box<[u8]>]),
) -> Box<[u8]> {
    let verb = match load.on_duplicate {
        OnDuplicate::Replace => "REPLACE INTO ",
        _ if ignores(load) => "INSERT IGNORE INTO ",
        _ => "INSERT INTO ",
    };
    let partition = load.partition.map(|span| text!(b" ", span.of(text))).unwrap_or_default();
    let stored = filled.iter().zip(names).filter(|(column, _)| column.is_stored);
    let list = stage::list(left_id.into_iter().chain(stored.map(|(_, name)| &**name)));
    text!(verb.as_bytes(), load.table.of(text), partition, b" ", list, b" ").into()
}

/// True if a new row is skipped where another is in its way. A client's file is loaded so unless it says
/// REPLACE.
fn ignores(load: &Load) -> bool {
    match load.on_duplicate {
        OnDuplicate::Ignore => true,
        OnDuplicate::Replace => false,
        OnDuplicate::Unsaid => load.local,
    }
}
