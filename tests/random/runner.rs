//! Many cases on one server: the tables are made once for all of them and emptied between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use crate::differential::case::{Case, Flag, Refusal};
use crate::differential::compare::{Verdict, compare, left_a_trace};
use crate::differential::declared::Declared;
use crate::differential::lab::Lab;
use crate::differential::run::{self, Fact, Protocol, Record, Role, Variant};
use crate::differential::tally::Combination;
use crate::random::histogram::Histogram;
use crate::random::marks;
use crate::random::session::{self, Drawn};
use crate::random::shrink;
use crate::random::tables::TABLES;
use crate::support::raw::Client;

/// Cases for which the tables are made once.
const CASES_AT_ONCE: usize = 250;
/// Each shrinks by running it many times.
const DIFFERENCES_SHRUNK: usize = 5;
const VARIANTS: [Variant; 2] = [Variant::With, Variant::Without];

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) histogram: Histogram,
    pub(crate) differences: Vec<String>,
    pub(crate) took: Duration,
}

/// The result of a case through the proxy in one combination.
pub(crate) struct Proxied {
    /// With what it refused marked so.
    pub(crate) case: Case,
    pub(crate) record: Record,
}

/// Statements that were refused, with their executions.
type LeftOut = Vec<(usize, usize)>;

/// Draws and runs cases until so many INSERTs were compared, in all combinations of this server.
/// Or `only` the case of that number.
pub(crate) fn run_all(lab: &Lab, seed: u64, statements: u64, only: Option<u64>) -> Outcome {
    let started = Instant::now();
    let declared = Declared::load();
    let mut outcome = Outcome::default();
    let mut observer = lab.observer();
    let draw = |number: u64| {
        let name = format!("random_{}_{seed}_{number}", lab.kind.name());
        session::draw(lab.kind, name, seed.wrapping_mul(1_000_003).wrapping_add(number))
    };
    if let Some(number) = only {
        let case = [draw(number)];
        run_some(lab, &mut observer, &declared, &case, &mut outcome).expect("the case runs");
        return outcome;
    }
    let mut number = 0;
    while outcome.histogram.compared < statements {
        // A case is about 30 INSERTs over its combinations.
        let left = usize::try_from((statements - outcome.histogram.compared) / 30 + 1).unwrap_or(usize::MAX);
        let cases: Vec<Drawn> = (0..left.min(CASES_AT_ONCE))
            .map(|_| {
                number += 1;
                draw(number)
            })
            .collect();
        if let Err(error) = run_some(lab, &mut observer, &declared, &cases, &mut outcome) {
            outcome.differences.push(format!("seed {seed}, up to case {number}: broke off: {error}"));
            break;
        }
        if outcome.differences.len() > DIFFERENCES_SHRUNK {
            break;
        }
    }
    outcome.took = started.elapsed();
    outcome
}

fn run_some(
    lab: &Lab,
    observer: &mut Client,
    declared: &Declared,
    cases: &[Drawn],
    outcome: &mut Outcome,
) -> io::Result<()> {
    for drawn in cases {
        outcome.histogram.draw(drawn);
    }
    let mut proxied = BTreeMap::new();
    for variant in VARIANTS {
        make_tables(lab.proxied(), observer, variant, Role::Proxied)?;
        for (index, drawn) in cases.iter().enumerate() {
            for protocol in Protocol::ALL.into_iter().filter(|protocol| drawn.case.runs_by(*protocol)) {
                let here = Combination { server: lab.kind, protocol, variant };
                let mut run = |case: &Case| {
                    empty_tables(observer, case)?;
                    let record = run::run_on_tables(case, observer, lab.proxied(), protocol, Role::Proxied);
                    lab.with_bytes(record)
                };
                match run_refusing(&drawn.case, &mut run) {
                    Ok(one) => {
                        proxied.insert((index, here), one);
                    }
                    Err(error) => {
                        *observer = lab.observer();
                        outcome.differences.push(format!(
                            "{} {here}: the proxied run broke off: {error}\n{}",
                            drawn.case.name,
                            crate::random::print::case(&drawn.case)
                        ));
                    }
                }
            }
        }
    }
    make_tables(lab.direct(), observer, Variant::With, Role::Native)?;
    let mut natives: BTreeMap<(usize, Protocol, usize, LeftOut), Record> = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((index, here), Proxied { case, record }) in proxied {
        // The proxy may refuse a statement in one combination and take it in another. Combinations share a
        // native run where the same was refused.
        let key = (index, here.protocol, case.statements.len(), left_out(&case));
        if !natives.contains_key(&key) {
            empty_tables(observer, &case)?;
            let native = run::run_on_tables(&case, observer, lab.direct(), here.protocol, Role::Native)?;
            natives.insert(key.clone(), native);
        }
        let native = &natives[&key];
        outcome.histogram.count(&cases[index], &case, native, &record, here);
        let complaints = judge(&cases[index], &case, native, &record, declared, here);
        if let Some(complaints) = complaints {
            wrong.push((index, here, complaints));
        }
    }
    let mut shrunk = BTreeSet::new();
    for (index, here, complaints) in wrong {
        if outcome.differences.len() < DIFFERENCES_SHRUNK && shrunk.insert(index) {
            outcome.differences.push(shrink::report(
                lab,
                observer,
                declared,
                &cases[index],
                here,
                &complaints,
            ));
        } else {
            let first: String = complaints[0].chars().take(200).collect();
            outcome.differences.push(format!("{} {here}: {first}", cases[index].case.name));
        }
    }
    Ok(())
}

/// Returns what is wrong, if anything is.
pub(crate) fn judge(
    drawn: &Drawn,
    case: &Case,
    native: &Record,
    proxied: &Record,
    declared: &Declared,
    here: Combination,
) -> Option<Vec<String>> {
    let mut complaints = marks::unexpected_refusals(drawn, proxied, here);
    let (case, last) = with_tags(case, native);
    let last = last.into_iter().chain(conflict_of_counters(native)).min();
    let [native, proxied] = [native, proxied].map(|record| without_traces_of_errors(&case, record));
    let [native, proxied] = [native, proxied].map(|record| up_to(last, record));
    if let Verdict::Wrong { complaints: more } = compare(&case, &native, &proxied, &declared.here(here), here)
    {
        complaints.extend(more);
    }
    (!complaints.is_empty()).then_some(complaints)
}

/// Runs the case; what the proxy refused is noted in the case, so that the native run leaves it out.
pub(crate) fn run_refusing(
    case: &Case,
    run: &mut impl FnMut(&Case) -> io::Result<Record>,
) -> io::Result<Proxied> {
    let mut case = case.clone();
    let mut bytes = Vec::new();
    loop {
        let mut record = run(&case)?;
        bytes.append(&mut record.bytes);
        let refused = refused_statements(&record);
        // The part of a cut packet before the refused one has run. The native run could not leave out just
        // the rest.
        let ran_in_part = |(statement, step): &(&usize, &usize)| {
            memchr::memchr(b';', &case.statements[**statement].sql).is_some() && left_a_trace(&record, **step)
        };
        if let Some((statement, _)) = refused.iter().find(ran_in_part) {
            let statement = *statement;
            case.statements.truncate(statement);
            continue;
        }
        let mut again = false;
        for (statement, step) in &refused {
            let of_statement = |f: &&Fact| f.statement == *statement && f.step > 0;
            let first = record.facts.iter().filter(of_statement).map(|f| f.step).min();
            let statement = &mut case.statements[*statement];
            statement.refused = Some(Refusal { only: Vec::new(), why: "refused".to_owned() });
            if statement.executions.len() > 1 {
                // One step natively, so one here: the execution that was refused.
                let nth = step - first.unwrap_or(*step);
                statement.executions = vec![statement.executions[nth].clone()];
                again = true;
            }
        }
        if !again {
            leave_out(&mut record, &refused);
            record.bytes = bytes;
            return Ok(Proxied { case, record });
        }
    }
}

fn refused_statements(record: &Record) -> BTreeMap<usize, usize> {
    let mut refused = BTreeMap::new();
    for (step, _) in &record.refusals {
        let statement = record.facts.iter().find(|fact| fact.step == *step).map(|fact| fact.statement);
        refused.entry(statement.unwrap_or_default()).or_insert(*step);
    }
    refused
}

/// The facts of refused statements as `run` writes them for a statement that is known to be refused.
fn leave_out(record: &mut Record, refused: &BTreeMap<usize, usize>) {
    let mut facts: Vec<Fact> = Vec::new();
    for fact in record.facts.drain(..) {
        if !refused.contains_key(&fact.statement)
            || ["table", "new ids", "last_insert_id"].contains(&fact.field)
        {
            facts.push(fact);
        } else if facts.last().is_none_or(|last| last.step != fact.step || last.field != "refused") {
            facts.push(Fact { field: "refused", value: "yes".to_owned(), ..fact });
        }
    }
    record.facts = facts;
}

fn left_out(case: &Case) -> LeftOut {
    let refused = case.statements.iter().enumerate().filter(|(_, statement)| statement.refused.is_some());
    refused.map(|(index, statement)| (index, statement.executions.len())).collect()
}

/// Tags declared differences by the native run's facts, such as LAST_INSERT_ID() after an error or an update.
/// Also returns the first statement, if any, that stores what it shows then: from there on tables may differ.
pub(crate) fn with_tags(case: &Case, native: &Record) -> (Case, Option<usize>) {
    let mut case = case.clone();
    let mut first_that_stores = None;
    let counts_found_rows = case.flags.contains(&Flag::FoundRows);
    let (mut failed, mut updated) = (false, false);
    // Statements that may leave its warnings as they are follow.
    let (mut staged_warned, mut prepares_twice) = (false, false);
    for (index, statement) in case.statements.iter_mut().enumerate() {
        let facts = || native.facts.iter().filter(move |fact| fact.statement == index);
        let is_odku = statement.tags.iter().any(|tag| tag == "odku");
        // If an explicit id met another row, the server tells that row's id.
        let all_explicit = is_odku && statement.tags.iter().any(|tag| tag == "explicit");
        statement.tags.retain(|tag| tag != "odku" && (all_explicit || tag != "explicit"));
        let is_staged = statement.tags.iter().any(|tag| tag == "staged_warnings");
        let mut only_if = |tag: &str, is: bool| statement.tags.retain(|one| is || one != tag);
        let fails = facts().any(|fact| fact.field == "error");
        only_if("failed_query", fails);
        only_if("failed_unlisted", fails);
        let warns = facts().any(|fact| fact.field == "warnings" && !fact.value.is_empty());
        only_if("staged_warnings", warns);
        only_if("ignored_query", facts().any(|fact| fact.field == "insert_id" && is_explicit(&fact.value)));
        let was_left_out = |value: &str| value.starts_with('~');
        if statement.tags.iter().any(|tag| tag == "skips")
            && facts().any(|fact| fact.field == "insert_id" && was_left_out(&fact.value))
        {
            statement.tags.push("all_generated_left_out".to_owned());
        }
        let text = String::from_utf8_lossy(&statement.sql).to_ascii_uppercase();
        if !["SELECT", "SHOW"].iter().any(|word| text.starts_with(word)) {
            staged_warned = is_staged && warns;
        } else if staged_warned && text.starts_with("SELECT @@WARNING_COUNT") {
            statement.tags.push("staged_counts".to_owned());
        }
        let is_query = ["SELECT", "TABLE"].iter().any(|word| text.contains(word));
        if text.starts_with("PREPARE") {
            prepares_twice = text.contains("/*!");
        }
        let is_twice = text.contains("/*!") || text.starts_with("EXECUTE") && prepares_twice;
        if (is_query || is_staged) && is_twice {
            statement.tags.push("staged_twice".to_owned());
        }
        let met = |step| {
            facts().any(|fact| fact.step == step && fact.field == "affected_rows" && fact.value == "2")
        };
        let mut last_step = 0;
        let (mut failed_once, mut updated_once) = (failed, updated);
        for fact in facts().filter(|fact| ["error", "insert_id", "affected_rows"].contains(&fact.field)) {
            let generated = is_generated(&fact.value);
            match fact.field {
                "insert_id" if all_explicit && fact.value == "0" && counts_found_rows => {
                    statement.tags.push("odku_unchanged_found_rows".to_owned());
                }
                // The id is another execution's, which this one met.
                "insert_id" if generated && all_explicit && met(fact.step) => {
                    statement.tags.push("odku_another_key".to_owned());
                }
                "insert_id" if is_explicit(&fact.value) && is_odku => {
                    statement.tags.push("odku_another_key".to_owned());
                }
                "error" => failed = true,
                "insert_id" if generated && !is_odku => (failed, updated) = (false, false),
                "affected_rows" if is_odku => {
                    updated |= fact.value != "1" || counts_found_rows || last_step == fact.step;
                }
                _ => {}
            }
            last_step = fact.step;
            failed_once |= failed;
            updated_once |= updated;
        }
        // After RETURNING nothing tells whether a row was updated.
        if is_odku && !facts().any(|fact| ["error", "affected_rows"].contains(&fact.field)) {
            (updated, updated_once) = (true, true);
        }
        let sql = &statement.sql;
        let sets = [&b"SELECT LAST_INSERT_ID(5"[..], b"SET last_insert_id", b"!reset"];
        if sets.iter().any(|text| sql.starts_with(text)) {
            (failed, updated) = (false, false);
            (failed_once, updated_once) = (false, false);
        }
        if (failed_once || updated_once) && reads_insert_id(sql) {
            first_that_stores.get_or_insert(index);
        }
        for (is, tag) in [(failed_once, "failed"), (updated_once, "odku_update")] {
            if is {
                statement.tags.push(tag.to_owned());
            }
        }
    }
    (case, first_that_stores)
}

fn reads_insert_id(sql: &[u8]) -> bool {
    let sql = String::from_utf8_lossy(sql).to_ascii_uppercase();
    !sql.starts_with("SELECT") && (sql.contains("LAST_INSERT_ID()") || sql.contains("@@IDENTITY"))
}

/// Declared: MySQL's error 1869, where rows that are updated meet its own counter.
fn conflict_of_counters(native: &Record) -> Option<usize> {
    let is_it = |fact: &&Fact| fact.field == "error" && fact.value.starts_with("1869");
    native.facts.iter().find(is_it).map(|fact| fact.statement)
}

/// Leaves out the facts and refusals of the statement `end` and of those after it.
fn up_to(end: Option<usize>, mut record: Record) -> Record {
    let Some(end) = end else { return record };
    let first = record.facts.iter().filter(|fact| fact.statement >= end).map(|fact| fact.step).min();
    record.facts.retain(|fact| fact.statement < end);
    record.refusals.retain(|(step, _)| first.is_none_or(|first| *step < first));
    record
}

fn is_generated(insert_id: &str) -> bool {
    insert_id.starts_with(['#', '~'])
}

fn is_explicit(insert_id: &str) -> bool {
    !is_generated(insert_id) && insert_id != "0"
}

/// Leaves out ROW_COUNT() and warnings after a refused statement: natively they tell of the one before it.
/// Also leaves out the rows of EXPLAIN.
fn without_traces_of_errors(case: &Case, record: &Record) -> Record {
    let tells = |sql: &[u8]| {
        [&b"SELECT ROW_COUNT()"[..], b"SHOW WARNINGS", b"SELECT @@warning_count"]
            .iter()
            .any(|text| sql.starts_with(text))
    };
    let mut behind = false;
    let left_out: Vec<bool> = case
        .statements
        .iter()
        .map(|statement| {
            behind = statement.refused.is_some() || behind && tells(&statement.sql);
            behind && statement.refused.is_none()
        })
        .collect();
    let mut record = record.clone();
    record
        .facts
        .retain(|fact| !left_out.get(fact.statement).copied().unwrap_or(false) || fact.field == "table");
    // Estimates of rows and costs are of the moment.
    let explains = |fact: &Fact| {
        let sql = case.statements.get(fact.statement).map_or(&b""[..], |statement| &statement.sql);
        sql.starts_with(b"EXPLAIN") || sql.starts_with(b"DESC")
    };
    record.facts.retain(|fact| fact.field != "rows" || !explains(fact));
    record
}

fn make_tables(address: &str, observer: &mut Client, variant: Variant, role: Role) -> io::Result<()> {
    // Through the proxy, so that it knows at once.
    let options = crate::support::raw::Options { database: Some("judge".to_owned()), ..Default::default() };
    let mut client = Client::connect(address, &options)?;
    for (table, index) in TABLES.iter().zip(0..) {
        for sql in run::create_table(table.made, index * run::BETWEEN_TABLES, variant, role) {
            client.run(&sql);
        }
        for trigger in table.triggers {
            observer.run(trigger);
        }
    }
    client.quit()
}

fn empty_tables(observer: &mut Client, case: &Case) -> io::Result<()> {
    let mut text = Vec::new();
    for table in &case.tables {
        let name = table.split_whitespace().next().unwrap_or_default();
        text.extend(format!("DELETE FROM {name};").bytes());
    }
    for sql in case.setup.iter().filter(|sql| sql.starts_with(b"INSERT")) {
        text.extend(sql);
        text.push(b';');
    }
    text.extend(b"DO 1");
    match observer.query(&text)?.last().and_then(|outcome| outcome.err().cloned()) {
        Some(error) => Err(io::Error::other(format!("emptying the tables: {error:?}"))),
        None => Ok(()),
    }
}
