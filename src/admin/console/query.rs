//! WHERE, ORDER BY and LIMIT of a SHOW, and SELECT from the same tables. What is taken is what a table of
//! some rows needs: columns, constants, comparisons, AND, OR, NOT. There are no joins, functions or
//! calculations.

use std::cmp::Ordering;
use std::mem;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    LimitClause, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderBySort, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, UnaryOperator, Value as Constant,
    WildcardAdditionalOptions,
};

use super::answer::{Column, Table, Type, Value};
use super::client::select;
use super::command::{SHOWN, ShowKind};
use super::failure::Failure;
use super::tokens::Tokens;

/// The deepest nesting of a condition: each level is a call.
const DEPTH_MAX: usize = 32;
/// Columns of an answer: `*` may be written again and again.
const COLUMNS_MAX: usize = 4_096;
/// The schema that may stand before the tables' names.
const SCHEMA: &str = "rowstamp";

/// A query of one of the console's tables.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) what: ShowKind,
    query: Box<Query>,
}

/// A SELECT from one of the console's tables. `None`: it is from another, or from none.
pub(super) fn of_select(statement: &str) -> Option<Result<Asked, Failure>> {
    // Drivers and GUIs put their names into a comment before it.
    let first = Tokens::new(statement).next().ok()?;
    first.filter(|word| word.is("SELECT"))?;
    // A statement that cannot be read is left to others, which report the error.
    let query = select::query(statement).ok()?;
    let what = table_of(&query)?;
    Some(checked(Asked { what, query }))
}

/// A SHOW with clauses after its name.
pub(super) fn of_show(what: ShowKind, clauses: &str) -> Result<Asked, Failure> {
    let name = SHOWN.iter().find(|(_, shown)| *shown == what).map_or("", |(name, _)| name);
    let query = select::query(&format!("SELECT * FROM {name} {clauses}"))?;
    if table_of(&query) == Some(what) { checked(Asked { what, query }) } else { Err(unsupported("UNION")) }
}

fn table_of(query: &Query) -> Option<ShowKind> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [from] = select.from.as_slice() else { return None };
    let names = select::relation_name(&from.relation).filter(|_| from.joins.is_empty())?;
    let name = match names.as_slice() {
        [name] => name,
        [schema, name] if schema.eq_ignore_ascii_case(SCHEMA) => name,
        _ => return None,
    };
    SHOWN.iter().find(|(shown, _)| shown.eq_ignore_ascii_case(name)).map(|(_, what)| *what)
}

fn unsupported(what: &str) -> Failure {
    Failure::Unsupported(format!(
        "the console's tables do not support {what}; they support columns, COUNT(*), WHERE with = <> < <= > >= LIKE IN BETWEEN IS NULL \
         AND OR NOT, ORDER BY and LIMIT"
    ))
}

/// Nothing of it is passed over in silence.
fn checked(mut asked: Asked) -> Result<Asked, Failure> {
    let query = &asked.query;
    let SetExpr::Select(select) = &*query.body else { return Err(unsupported("UNION")) };
    let is_grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(by, more) if by.is_empty() && more.is_empty());
    let unknown = [
        (query.with.is_some(), "WITH"),
        (!query.locks.is_empty(), "FOR UPDATE"),
        (select.distinct.is_some(), "DISTINCT"),
        (select.into.is_some(), "INTO"),
        (is_grouped, "GROUP BY"),
        (select.having.is_some(), "HAVING"),
    ];
    if let Some((_, what)) = unknown.into_iter().find(|(is_there, _)| *is_there) {
        return Err(unsupported(what));
    }
    if is_bare(&mut asked.query) { Ok(asked) } else { Err(unsupported("one of these clauses")) }
}

/// Removes the hints. True if nothing is left beside the clauses that this module knows: the parser knows more.
fn is_bare(query: &mut Query) -> bool {
    let (order, limit) = (query.order_by.take(), query.limit_clause.take());
    let SetExpr::Select(select) = &mut *query.body else { return false };
    // Taken out, for a copy of a condition would recurse as deep as it is nested.
    let (projection, from) = (mem::take(&mut select.projection), mem::take(&mut select.from));
    let selection = select.selection.take();
    // A hint is a comment and no clause.
    select.optimizer_hints.clear();
    let is_bare = query.to_string().trim() == "SELECT"
        && from.iter().all(|from| is_plain_table(&from.relation))
        && order.as_ref().is_none_or(is_plain_order)
        && !matches!(&limit, Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty());
    if let SetExpr::Select(select) = &mut *query.body {
        (select.projection, select.from, select.selection) = (projection, from, selection);
    }
    (query.order_by, query.limit_clause) = (order, limit);
    is_bare
}

/// A name, and an alias of the table alone.
fn is_plain_table(relation: &TableFactor) -> bool {
    let TableFactor::Table {
        name: _,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return false;
    };
    let is_plain = |alias: &TableAlias| alias.columns.is_empty() && alias.at.is_none();
    with_hints.is_empty()
        && partitions.is_empty()
        && index_hints.is_empty()
        && alias.as_ref().is_none_or(is_plain)
}

fn is_plain_order(order: &OrderBy) -> bool {
    let is_plain = |by: &OrderByExpr| by.with_fill.is_none() && by.options.nulls_first.is_none();
    matches!(&order.kind, OrderByKind::Expressions(by) if by.iter().all(is_plain))
        && order.interpolate.is_none()
}

/// The value that an answer's column has of a row.
enum Output {
    Column(usize),
    /// COUNT(*), of all rows.
    Count,
}

impl Asked {
    fn select(&self) -> Option<&Select> {
        if let SetExpr::Select(select) = &*self.query.body { Some(select) } else { None }
    }

    pub(super) fn columns(&self, of: &[Column]) -> Result<Vec<Column>, Failure> {
        Ok(self.outputs(of)?.into_iter().map(|(_, column)| column).collect())
    }

    fn outputs(&self, of: &[Column]) -> Result<Vec<(Output, Column)>, Failure> {
        let is_plain = |more: &WildcardAdditionalOptions| *more == WildcardAdditionalOptions::default();
        let all = || of.iter().enumerate().map(|(at, column)| (Output::Column(at), column.clone()));
        let mut outputs = Vec::new();
        for item in self.select().map(|select| select.projection.as_slice()).unwrap_or_default() {
            if outputs.len() > COLUMNS_MAX {
                return Err(unsupported("so many columns in one SELECT"));
            }
            let (expr, alias) = match item {
                SelectItem::Wildcard(more) if is_plain(more) => {
                    outputs.extend(all());
                    continue;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), more)
                    if is_plain(more) =>
                {
                    let names = name.0.iter().filter_map(ObjectNamePart::as_ident).collect::<Vec<_>>();
                    if !self.is_table(&names) {
                        return Err(unknown_column(&format!("{name}.*"), of));
                    }
                    outputs.extend(all());
                    continue;
                }
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.clone())),
                _ => return Err(unsupported("this form of a column")),
            };
            outputs.push(if is_count(expr) {
                (Output::Count, Column::new(alias.unwrap_or_else(|| "COUNT(*)".to_owned()), Type::Unsigned))
            } else {
                let at = self.place(expr, of)?.ok_or_else(|| unsupported("calculations"))?;
                let column = of.get(at).ok_or_else(|| unsupported("this form of a column"))?;
                let name = alias.map_or_else(|| column.name.clone(), Into::into);
                (Output::Column(at), Column::new(name, column.kind))
            });
        }
        let counts = outputs.iter().filter(|(output, _)| matches!(output, Output::Count)).count();
        if counts > 0 && counts < outputs.len() {
            return Err(unsupported("COUNT(*) together with columns"));
        }
        Ok(outputs)
    }

    pub(super) fn answer(&self, table: Table) -> Result<Table, Failure> {
        let Table { columns: of, mut rows } = table;
        let outputs = self.outputs(&of)?;
        if let Some(condition) = self.select().and_then(|select| select.selection.as_ref()) {
            // Also where there is no row, so that a mistake is always seen.
            let nothing = vec![Value::Null; of.len()];
            self.truth(condition, &of, &nothing, 0)?;
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                if self.truth(condition, &of, &row, 0)? == Some(true) {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        let columns: Vec<_> = outputs.iter().map(|(_, column)| column.clone()).collect();
        let order = self.order(&of, &outputs)?;
        let (skip, take) = self.limit()?;
        if matches!(outputs.first(), Some((Output::Count, _))) {
            let count = Value::Unsigned(rows.len() as u64);
            let rows = std::iter::once(vec![count; columns.len()]).skip(skip).take(take).collect();
            return Ok(Table { columns, rows });
        }
        if !order.is_empty() {
            rows.sort_by(|a, b| {
                let by = |&(at, is_down): &(usize, bool)| {
                    let found = compare(a.get(at).unwrap_or(&Value::Null), b.get(at).unwrap_or(&Value::Null));
                    if is_down { found.reverse() } else { found }
                };
                order.iter().map(by).find(|found| found.is_ne()).unwrap_or(Ordering::Equal)
            });
        }
        let shown = |row: Vec<Value>| {
            let of = |(output, _): &(Output, Column)| match output {
                Output::Column(at) => row.get(*at).cloned().unwrap_or(Value::Null),
                Output::Count => Value::Null,
            };
            outputs.iter().map(of).collect()
        };
        let rows = rows.into_iter().skip(skip).take(take).map(shown).collect();
        Ok(Table { columns, rows })
    }

    /// Columns by their places, and whether the largest comes first.
    fn order(&self, of: &[Column], outputs: &[(Output, Column)]) -> Result<Vec<(usize, bool)>, Failure> {
        let Some(order) = &self.query.order_by else { return Ok(Vec::new()) };
        let OrderByKind::Expressions(by) = &order.kind else { return Err(unsupported("ORDER BY ALL")) };
        let one = |one: &OrderByExpr| {
            let is_down = match one.options.sort {
                None | Some(OrderBySort::Asc) => false,
                Some(OrderBySort::Desc) => true,
                Some(OrderBySort::Using(_)) => return Err(unsupported("USING")),
            };
            // By a name of the answer's, or the number of its column.
            let named = |name: &Ident| {
                outputs.iter().find(|(_, column)| column.name.eq_ignore_ascii_case(&name.value))
            };
            let number = number(&one.expr).and_then(|nth| outputs.get(nth.checked_sub(1)?));
            let shown = if let Expr::Identifier(name) = &one.expr { named(name) } else { number };
            let at = match shown {
                Some((Output::Column(at), _)) => Some(*at),
                _ => self.place(&one.expr, of)?,
            };
            Ok((at.ok_or_else(|| unsupported("calculations in ORDER BY"))?, is_down))
        };
        by.iter().map(one).collect()
    }

    fn limit(&self) -> Result<(usize, usize), Failure> {
        let count =
            |expr: &Expr| number(expr).ok_or_else(|| unsupported("a LIMIT that is not a whole number"));
        Ok(match &self.query.limit_clause {
            None => (0, usize::MAX),
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (count(offset)?, count(limit)?),
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                let skip = offset.as_ref().map_or(Ok(0), |offset| count(&offset.value))?;
                (skip, limit.as_ref().map_or(Ok(usize::MAX), count)?)
            }
        })
    }
}

fn is_count(expr: &Expr) -> bool {
    let Expr::Function(Function {
        name,
        args: FunctionArguments::List(args),
        over: None,
        filter: None,
        null_treatment: None,
        ..
    }) = expr
    else {
        return false;
    };
    if args.duplicate_treatment.is_some() || !args.clauses.is_empty() {
        return false;
    }
    let is_named = matches!(name.0.as_slice(), [ObjectNamePart::Identifier(name)] if name.value.eq_ignore_ascii_case("COUNT"));
    is_named && matches!(args.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
}

fn number(expr: &Expr) -> Option<usize> {
    let Expr::Value(constant) = expr else { return None };
    if let Constant::Number(digits, _) = &constant.value { digits.parse().ok() } else { None }
}

fn unknown_column(name: &str, of: &[Column]) -> Failure {
    let names: Vec<_> = of.iter().map(|column| &*column.name).collect();
    Failure::UnknownColumn { column: name.chars().take(64).collect(), known: names.join(", ") }
}

/// AND and OR: the part that is `by` decides, and NULL leaves open what no other part decides.
fn joined(by: bool, a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(a), _) if a == by => Some(by),
        (_, Some(b)) if b == by => Some(by),
        (Some(_), Some(_)) => Some(!by),
        _ => None,
    }
}

impl Asked {
    /// True if these names may stand before a column: the table's alias or, if it has none, the table's name.
    fn is_table(&self, names: &[&Ident]) -> bool {
        let Some(TableFactor::Table { name, alias, .. }) =
            self.select().and_then(|select| select.from.first()).map(|from| &from.relation)
        else {
            return false;
        };
        let is = |name: &Ident, known: &str| name.value.eq_ignore_ascii_case(known);
        let own = name.0.last().and_then(ObjectNamePart::as_ident).map(|name| &*name.value);
        let known = alias.as_ref().map(|alias| &*alias.name.value).or(own).unwrap_or_default();
        match names {
            [table] => is(table, known),
            [schema, table] => alias.is_none() && is(schema, SCHEMA) && is(table, known),
            _ => false,
        }
    }

    /// The place of a column; `None`: it is none.
    fn place(&self, expr: &Expr, of: &[Column]) -> Result<Option<usize>, Failure> {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(names) => match names.split_last() {
                Some((name, table)) if self.is_table(&table.iter().collect::<Vec<_>>()) => name,
                _ => return Err(unknown_column(&expr.to_string(), of)),
            },
            Expr::Nested(inner) if matches!(**inner, Expr::Identifier(_)) => return self.place(inner, of),
            _ => return Ok(None),
        };
        let found = of.iter().position(|column| column.name.eq_ignore_ascii_case(&name.value));
        found.map(Some).ok_or_else(|| unknown_column(&name.value, of))
    }

    fn value(&self, expr: &Expr, of: &[Column], row: &[Value]) -> Result<Value, Failure> {
        if let Some(at) = self.place(expr, of)? {
            return Ok(row.get(at).cloned().unwrap_or(Value::Null));
        }
        match expr {
            Expr::Nested(inner) if matches!(**inner, Expr::Value(_)) => self.value(inner, of, row),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match self.value(expr, of, row)? {
                Value::Unsigned(n) => Ok(Value::Real(-as_real(n))),
                Value::Real(n) => Ok(Value::Real(-n)),
                _ => Err(unsupported("calculations")),
            },
            Expr::Value(constant) => match &constant.value {
                Constant::Number(digits, _) => match (digits.parse(), digits.parse()) {
                    (Ok(whole), _) => Ok(Value::Unsigned(whole)),
                    (_, Ok(real)) => Ok(Value::Real(real)),
                    _ => Err(unsupported("this number")),
                },
                Constant::SingleQuotedString(text) | Constant::DoubleQuotedString(text) => {
                    Ok(Value::Text(text.clone()))
                }
                Constant::Boolean(is) => Ok(Value::Unsigned(u64::from(*is))),
                Constant::Null => Ok(Value::Null),
                _ => Err(unsupported("this form of a constant")),
            },
            _ => Err(unsupported("calculations and functions")),
        }
    }

    /// The truth of a condition, as in SQL: `None` is unknown.
    fn truth(
        &self,
        expr: &Expr,
        of: &[Column],
        row: &[Value],
        depth: usize,
    ) -> Result<Option<bool>, Failure> {
        if depth > DEPTH_MAX {
            return Err(unsupported("a condition nested so deep"));
        }
        let inner = |expr: &Expr| self.truth(expr, of, row, depth + 1);
        let of_row = |expr: &Expr| self.value(expr, of, row);
        let not = |negated: bool, is: Option<bool>| is.map(|is| is != negated);
        Ok(match expr {
            Expr::Nested(nested) => inner(nested)?,
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => not(true, inner(expr)?),
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                // A part that is `by` decides the whole; otherwise a part that is NULL makes it NULL.
                let by = *op == BinaryOperator::Or;
                let (mut rest, mut whole) = (expr, Some(!by));
                // The parser hangs `a AND b AND c` up on its left side, as deep as it is long.
                while let Expr::BinaryOp { left, op: one, right } = rest
                    && one == op
                {
                    whole = joined(by, whole, inner(right)?);
                    rest = left;
                }
                joined(by, whole, inner(rest)?)
            }
            Expr::BinaryOp { left, op, right } => {
                let wanted = match op {
                    BinaryOperator::Eq => Ordering::is_eq,
                    BinaryOperator::NotEq => Ordering::is_ne,
                    BinaryOperator::Lt => Ordering::is_lt,
                    BinaryOperator::LtEq => Ordering::is_le,
                    BinaryOperator::Gt => Ordering::is_gt,
                    BinaryOperator::GtEq => Ordering::is_ge,
                    _ => return Err(unsupported("this operator")),
                };
                known(&of_row(left)?, &of_row(right)?).map(wanted)
            }
            Expr::IsNull(expr) => Some(of_row(expr)? == Value::Null),
            Expr::IsNotNull(expr) => Some(of_row(expr)? != Value::Null),
            Expr::Between { expr, negated, low, high } => {
                let value = of_row(expr)?;
                let low = known(&value, &of_row(low)?).map(Ordering::is_ge);
                let high = known(&value, &of_row(high)?).map(Ordering::is_le);
                not(*negated, low.zip(high).map(|(low, high)| low && high))
            }
            Expr::InList { expr, list, negated } => {
                let value = of_row(expr)?;
                let mut found = Some(false);
                for one in list {
                    match known(&value, &of_row(one)?) {
                        Some(Ordering::Equal) => {
                            found = Some(true);
                            break;
                        }
                        Some(_) => {}
                        None => found = None,
                    }
                }
                not(*negated, found)
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                match (of_row(expr)?, of_row(pattern)?) {
                    (Value::Null, _) | (_, Value::Null) => None,
                    (text, pattern) => not(*negated, Some(text.is_like(&pattern))),
                }
            }
            _ => return Err(unsupported("this form of a condition")),
        })
    }
}

/// `None`: one of them is NULL.
fn known(a: &Value, b: &Value) -> Option<Ordering> {
    (*a != Value::Null && *b != Value::Null).then(|| compare(a, b))
}

/// Numbers by their size, texts without case, and a text that stands beside a number by the number in it. NULL comes
/// first.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Unsigned(a), Value::Unsigned(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.to_lowercase().cmp(&b.to_lowercase()),
        // An id may have more digits than a DOUBLE holds.
        (Value::Unsigned(a), Value::Text(text)) if let Ok(b) = text.trim().parse() => a.cmp(&b),
        (Value::Text(text), Value::Unsigned(b)) if let Ok(a) = text.trim().parse::<u64>() => a.cmp(b),
        _ => real(a).total_cmp(&real(b)),
    }
}

fn real(value: &Value) -> f64 {
    match value {
        Value::Unsigned(n) => as_real(*n),
        Value::Real(n) => *n,
        Value::Text(text) => text.trim().parse().unwrap_or(0.0),
        Value::Null => 0.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "beside a number with a fraction")]
fn as_real(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests;
