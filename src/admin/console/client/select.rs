//! SELECTs of variables and of a few functions, and from a server's own tables, which are empty
//! here.

use sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
    Value as Constant,
};
use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::admin::console::SERVER_VERSION;
use crate::admin::console::answer::{Column, Table, Type, Value};
use crate::admin::console::client::{catalog, variables};
use crate::admin::console::context::Context;
use crate::admin::console::failure::Failure;
use crate::admin::console::syntax::SyntaxError;

/// No client's setup query is nearly as long. The parser makes of `1+1+1` a tree as deep as the
/// text is long, and dropping such a tree recurses.
const STATEMENT_BYTES_MAX: usize = 16 * 1024;
/// The most JOINs of a statement. At a JOIN without a condition the parser recurses, without a limit of its own: 500
/// end the process. MySQL joins 61 tables at the most.
const JOINS_MAX: usize = 61;
/// The most columns of an answer: the limit of MySQL's tables. Each `*` stands for the columns of all tables, so a
/// short text may ask for millions.
const COLUMNS_MAX: usize = 4_096;
/// The databases that a server has for itself.
const SYSTEM: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];

pub(crate) fn answer(statement: &str, context: &Context<'_>) -> Result<Table, Failure> {
    let select = parse(statement)?;
    let is_dual = |table: &TableWithJoins| {
        table.joins.is_empty() && relation_name(&table.relation).is_some_and(|name| name == ["dual"])
    };
    if select.from.iter().all(is_dual) { row(&select, context) } else { nothing(&select) }
}

/// The body of a query, of a union its first part.
fn parse(statement: &str) -> Result<Select, Failure> {
    let mut body = *query(statement)?.body;
    loop {
        body = match body {
            SetExpr::Select(select) => return Ok(*select),
            // A union has the columns of its first part.
            SetExpr::SetOperation { left, .. } => *left,
            SetExpr::Query(query) => *query.body,
            _ => return Err(unreadable()),
        }
    }
}

/// The parser's own error would quote the statement.
fn unreadable() -> Failure {
    Failure::Syntax(SyntaxError::Wrong {
        found: "this SELECT".to_owned(),
        wanted: "one that the console understands",
        form: "SELECT @@variable, or HELP for a list of the commands",
    })
}

/// A text that is one query.
pub(crate) fn query(statement: &str) -> Result<Box<Query>, Failure> {
    if statement.len() > STATEMENT_BYTES_MAX {
        return Err(no_tables());
    }
    let statement = statement.trim_end_matches(|c: char| c == ';' || c.is_whitespace() || c == '\0');
    let dialect = MySqlDialect {};
    let tokens = Tokenizer::new(&dialect, statement).tokenize_with_location().map_err(|_| unreadable())?;
    let is_join =
        |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::JOIN);
    if tokens.iter().filter(is_join).count() > JOINS_MAX {
        return Err(too_wide());
    }
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statements().map_err(|_| unreadable())?;
    let Ok([Statement::Query(query)]) = <[Statement; 1]>::try_from(parsed) else { return Err(unreadable()) };
    Ok(query)
}

/// The one row of a SELECT that needs no table.
fn row(select: &Select, context: &Context<'_>) -> Result<Table, Failure> {
    let mut table = Table { columns: Vec::new(), rows: Vec::new() };
    let mut row = Vec::new();
    if select.projection.len() > COLUMNS_MAX {
        return Err(too_wide());
    }
    for item in &select.projection {
        let (expression, alias) = match item {
            SelectItem::UnnamedExpr(expression) => (expression, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return Err(no_tables()),
        };
        let value = value(expression, context)?;
        let name = alias.map_or_else(|| expression.to_string(), |alias| alias.value.clone());
        let kind = match value {
            Value::Unsigned(_) => Type::Unsigned,
            Value::Real(_) => Type::Real,
            Value::Text(_) | Value::Null => Type::Text,
        };
        table.columns.push(Column::new(name, kind));
        row.push(value);
    }
    table.rows.push(row);
    Ok(table)
}

fn value(expression: &Expr, context: &Context<'_>) -> Result<Value, Failure> {
    match expression {
        Expr::Nested(inner) => value(inner, context),
        // The one function that needs no parentheses.
        Expr::Identifier(name) if name.value.eq_ignore_ascii_case("CURRENT_USER") => {
            function_value(&name.value, context)
        }
        Expr::Identifier(name) => variable(std::slice::from_ref(name)),
        Expr::CompoundIdentifier(names) => variable(names),
        Expr::Value(constant) => Ok(match &constant.value {
            Constant::Number(digits, _) => {
                digits.parse().map_or_else(|_| Value::from(&**digits), Value::Unsigned)
            }
            Constant::Boolean(is) => Value::Unsigned(u64::from(*is)),
            Constant::Null => Value::Null,
            Constant::SingleQuotedString(text) | Constant::DoubleQuotedString(text) => Value::from(&**text),
            _ => return Err(computes_nothing()),
        }),
        Expr::Function(function) => match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => function_value(&name.value, context),
            _ => Err(computes_nothing()),
        },
        _ => Err(computes_nothing()),
    }
}

fn function_value(function: &str, context: &Context<'_>) -> Result<Value, Failure> {
    let caller = context.caller;
    match &*function.to_uppercase() {
        "DATABASE" | "SCHEMA" => Ok(context.database.map(str::to_owned).into()),
        "USER" | "SESSION_USER" | "SYSTEM_USER" => {
            Ok(format!("{}@{}", caller.login.user.name, caller.client).into())
        }
        "CURRENT_USER" => Ok(format!("{}@%", caller.login.user.name).into()),
        "CURRENT_ROLE" => Ok("NONE".into()),
        "CONNECTION_ID" => Ok(u64::from(caller.connection_id).into()),
        "VERSION" => Ok(SERVER_VERSION.into()),
        "LAST_INSERT_ID" | "ROW_COUNT" | "FOUND_ROWS" => Ok(0_u64.into()),
        _ => Err(computes_nothing()),
    }
}

/// `@@name`, `@@session.name`. A user's variable, `@name`, is NULL.
fn variable(names: &[Ident]) -> Result<Value, Failure> {
    let [first, rest @ ..] = names else { return Err(computes_nothing()) };
    let Some(name) = first.value.strip_prefix("@@") else {
        return if first.value.starts_with('@') { Ok(Value::Null) } else { Err(no_tables()) };
    };
    let name = rest.last().map_or(name, |last| &*last.value);
    variables::value(name).ok_or_else(|| Failure::UnknownVariable(name.to_owned()))
}

/// No row, with the columns that there would be. An error if it is not from a server's own tables.
fn nothing(select: &Select) -> Result<Table, Failure> {
    let mut tables = Vec::new();
    for table in &select.from {
        let joined = table.joins.iter().map(|join| &join.relation);
        // The columns of a subquery need not be known, unless all of them are asked for.
        let subquery = || vec![SYSTEM[0].to_owned(), String::new()];
        tables.extend(
            std::iter::once(&table.relation)
                .chain(joined)
                .map(|relation| relation_name(relation).unwrap_or_else(subquery)),
        );
    }
    let of_system = |name: &Vec<String>| matches!(&name[..], [schema, _] if SYSTEM.iter().any(|system| system.eq_ignore_ascii_case(schema)));
    if !tables.iter().all(of_system) {
        return Err(no_tables());
    }
    let mut columns = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                columns.extend(names.last().map(|name| Column::text(name.value.clone())));
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => columns.push(Column::text(name.value.clone())),
            SelectItem::UnnamedExpr(expression) => columns.push(Column::text(expression.to_string())),
            SelectItem::ExprWithAlias { alias, .. } => columns.push(Column::text(alias.value.clone())),
            _ => columns.extend(all_columns(&tables)?),
        }
        if columns.len() > COLUMNS_MAX {
            return Err(too_wide());
        }
    }
    Ok(Table::empty(columns))
}

fn all_columns(tables: &[Vec<String>]) -> Result<Vec<Column>, Failure> {
    let mut columns = Vec::new();
    for table in tables {
        let known = table.last().and_then(|name| catalog::columns(name));
        columns.extend(known.ok_or_else(|| Failure::UnknownTable(table.join(".")))?.map(Column::text));
    }
    // By the statement's length, at most some ten thousand.
    Ok(columns)
}

pub(crate) fn relation_name(relation: &TableFactor) -> Option<Vec<String>> {
    let TableFactor::Table { name, args: None, .. } = relation else { return None };
    let part = |part: &ObjectNamePart| Some(part.as_ident()?.value.clone());
    let mut names = name.0.iter().map(part).collect::<Option<Vec<_>>>()?;
    if let [one] = &mut names[..] {
        one.make_ascii_lowercase();
    }
    Some(names)
}

fn no_tables() -> Failure {
    let text = "this is Rowstamp's console, which has no tables of your server; connect to the proxy for your data; SHOW COMMANDS lists the commands";
    Failure::Unsupported(text.to_owned())
}

fn too_wide() -> Failure {
    let text = format!("the console answers SELECTs of at most {COLUMNS_MAX} columns and {JOINS_MAX} joins");
    Failure::Unsupported(text)
}

fn computes_nothing() -> Failure {
    let text = "the console does not compute expressions; it knows @@variables, DATABASE(), USER(), VERSION(), CONNECTION_ID() and constants";
    Failure::Unsupported(text.to_owned())
}
