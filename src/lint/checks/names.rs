//! Checks that each rule's table is there, under this name, and is a table, and that no two rules claim it.

use std::collections::BTreeMap;

use crate::lint::checks::grants::Grants;
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::report::counted;
use crate::lint::survey::Survey;
use crate::rules::model::Rule;
use crate::rules::pattern;
use crate::schema::TableKind;
use crate::schema::facts::TableFacts;
use crate::table_name::{FoldedName, NameCase};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    for rule in survey.rules.rules() {
        found.extend(of_rule(survey, rule));
        found.extend(passes(survey, rule));
    }
    found.extend(same_but_case(survey));
    found.extend(ambiguous(survey));
}

fn of_rule(survey: &Survey<'_>, rule: &Rule) -> Option<Finding> {
    let (facts, case) = (survey.facts, survey.facts.case);
    let place = Where::table(&rule.schema, &rule.table).at(&rule.origin);
    if rule.of_schemas.is_some() {
        return unmatched(survey, rule).then(|| {
            let why = format!(
                "the control account sees no table that matches {:?} in a database that matches {:?}, except tables with their own rules",
                rule.table, rule.schema
            );
            let remedy =
                "correct the patterns, or GRANT SELECT, SHOW VIEW on these databases to the control account";
            Finding::warning(Code::PatternUnmatched, place, why, remedy)
        });
    }
    let sees = facts.schemas.iter().any(|name| case.folded(name) == case.folded(&rule.schema));
    if !sees {
        let why =
            format!("the server has no database {}, or the control account does not see it", rule.schema);
        let other = facts.schemas.iter().find(|name| name.to_lowercase() == rule.schema.to_lowercase());
        let remedy = match other {
            Some(other) => format!("write schema = \"{other}\": this server distinguishes letter case"),
            None => format!(
                "correct `schema`, create the database, or GRANT SELECT, SHOW VIEW ON `{}`.* to the control account",
                rule.schema
            ),
        };
        return Some(Finding::error(Code::SchemaMissing, place, why, remedy));
    }
    if pattern::is_pattern(&rule.table) {
        return unmatched(survey, rule).then(|| {
            let why = format!(
                "no table of {} matches {:?}, except tables with their own rules",
                rule.schema, rule.table
            );
            let remedy = "correct the pattern, or remove the rule until there are such tables";
            Finding::warning(Code::PatternUnmatched, place, why, remedy)
        });
    }
    let of_schema = |table: &&TableFacts| case.folded(&table.schema) == case.folded(&rule.schema);
    let is_it = |table: &TableFacts| case.folded(&table.name) == case.folded(&rule.table);
    let mut tables = facts.tables.iter().filter(of_schema);
    match tables.find(|table| is_it(table)) {
        Some(table) if table.is_base() => None,
        Some(table) => Some(not_a_table(rule, table, place)),
        None => Some(missing(survey, rule, place)),
    }
}

/// True if no table has this pattern as its rule, nor as one of two rules that claim it.
fn unmatched(survey: &Survey<'_>, rule: &Rule) -> bool {
    let case = survey.facts.case;
    let is_same = |found: &Rule| (&found.origin, found.written()) == (&rule.origin, rule.written());
    let is_mine = |table: &TableFacts| match survey.rules.find(case, &table.schema, &table.name) {
        Ok(found) => found.is_some_and(|found| is_same(&found)),
        Err(two) => is_same(&two.first) || is_same(&two.second),
    };
    !survey.facts.tables.iter().any(|table| table.is_base() && is_mine(table))
}

/// All tables that the pattern passes over, in one finding.
fn passes(survey: &Survey<'_>, rule: &Rule) -> Option<Finding> {
    let is_same = |found: &Rule| (&found.origin, found.written()) == (&rule.origin, rule.written());
    let mine = survey.passed.iter().filter(|(of, _)| is_same(of));
    let name = |table: &TableFacts| match rule.of_schemas {
        Some(_) => format!("{}.{}", table.schema, table.name),
        None => table.name.clone(),
    };
    let names: Vec<String> = mine.map(|(_, table)| name(table)).collect();
    let place = Where::table(&rule.schema, &rule.table).at(&rule.origin);
    let column = &rule.column;
    let without = if rule.is_auto() {
        "no AUTO_INCREMENT column and no primary key that is one integer".to_owned()
    } else {
        format!("no column {column} of a type for ids")
    };
    let all = names.join(", ");
    let count = names.len();
    if survey.tables.iter().any(|live| is_same(&live.rule)) {
        let why = format!("the rule gives no ids to {} with {without}: {all}", counted(count, "table"));
        let remedy =
            "if one of these tables should have ids, write a rule for that table which names its column";
        return (count > 0).then(|| Finding::note(Code::PatternPasses, place, why, remedy));
    }
    let why = format!("the rule has no effect: it matches only tables with {without}: {all}");
    let remedy = "correct the rule's column, or remove the rule";
    (count > 0).then(|| Finding::warning(Code::PatternPasses, place, why, remedy))
}

fn not_a_table(rule: &Rule, table: &TableFacts, place: Where) -> Finding {
    let what = if table.kind == TableKind::View { "a view" } else { "no table" };
    let why = format!(
        "{}.{} is {what}: the rule has no effect, or its INSERTs are refused",
        rule.schema, rule.table
    );
    let remedy = "name the table that stores the rows; INSERTs through a view of that table get ids too";
    Finding::error(Code::NotATable, place, why, remedy)
}

fn missing(survey: &Survey<'_>, rule: &Rule, place: Where) -> Finding {
    let facts = survey.facts;
    let near = facts.tables.iter().find(|table| {
        table.name.to_lowercase() == rule.table.to_lowercase()
            && facts.case.folded(&table.schema) == facts.case.folded(&rule.schema)
    });
    if let Some(near) = near {
        let why = format!(
            "the server has {:?} and no {:?}, and distinguishes letter case (lower_case_table_names = 0)",
            near.name, rule.table
        );
        return Finding::error(Code::NameCase, place, why, format!("write [tables.{:?}]", near.name));
    }
    let why = format!("the database {} has no table {}", rule.schema, rule.table);
    let remedy = if Grants::of(facts).has("SELECT", &rule.schema, Some(&rule.table)) {
        "correct the name, or remove the rule until the table is there".to_owned()
    } else {
        format!("GRANT SELECT, SHOW VIEW ON `{}`.* to the control account, or correct the name", rule.schema)
    };
    Finding::error(Code::TableMissing, place, why, remedy)
}

/// Rules whose names differ in letter case alone. On a server that ignores it, two such rules are for one table.
fn same_but_case(survey: &Survey<'_>) -> Vec<Finding> {
    let case = survey.facts.case;
    if case == NameCase::Sensitive {
        return Vec::new();
    }
    let mut by_name: BTreeMap<FoldedName<'_>, &Rule> = BTreeMap::new();
    let mut found = Vec::new();
    for rule in survey.rules.rules() {
        let name = case.fold(&rule.schema, &rule.table);
        let Some(first) = by_name.insert(name, rule) else { continue };
        let why = format!(
            "{}.{} ({}) is the same table for this server (lower_case_table_names = {}): the table's INSERTs are refused",
            first.schema,
            first.table,
            first.origin,
            survey.facts.server.variable("lower_case_table_names")
        );
        let place = Where::table(&rule.schema, &rule.table).at(&rule.origin);
        found.push(Finding::error(Code::RulesDifferInCase, place, why, "keep one of the two rules"));
    }
    found
}

fn ambiguous(survey: &Survey<'_>) -> Vec<Finding> {
    let facts = survey.facts;
    let claimed = facts.tables.iter().filter(|table| table.is_base());
    let two = claimed.filter_map(|table| {
        let two = survey.rules.find(facts.case, &table.schema, &table.name).err()?;
        let [first, second] = two.claims();
        let why = format!(
            "{first:?} ({}) and {second:?} ({}) both match the table: its INSERTs are refused",
            two.first.origin, two.second.origin
        );
        let place = Where::table(&table.schema, &table.name).at(&two.second.origin);
        let remedy = format!("write a rule for this table alone: [tables.{:?}]", table.name);
        Some(Finding::error(Code::TableAmbiguous, place, why, remedy))
    });
    two.collect()
}
