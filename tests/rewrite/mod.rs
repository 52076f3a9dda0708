//! Cases of `tests/rewrite/*.txt`: what a statement becomes. A new case is only text.
//!
//! A file holds settings (`table: orders(id bigint auto_increment, a int)`, `server: mysql 90700`, `mode: ANSI_QUOTES`,
//! ...; they hold until they are set again), and cases: the statement, then `=>` and what is sent. In front of `=>` stand
//! the style, if it is not `wrapped`, and what else is worth saying. Ids start at 7. `\` at a line's end joins lines.

use std::collections::HashMap;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowstamp::ids::block::{IdBlock, Spacing};
use rowstamp::rewrite::plan::edit::Style;
use rowstamp::rewrite::plan::effects::Temporary;
use rowstamp::rewrite::plan::prepared_names::{self, NameMeaning, NamedChange, Value};
use rowstamp::rewrite::plan::stage::{Engine, Kind, Nulls, Numbering, Takes};
use rowstamp::rewrite::plan::target::Target;
use rowstamp::rewrite::plan::{Lookup, Plan, PlanContext, PlanNeed, Planned, Protocol};
use rowstamp::rewrite::planner::{begins_insert, plan};
use rowstamp::rewrite::verify::{Opinion, Written, second_opinion};
use rowstamp::rules::model::{
    Collide, ColumnShape, Explicit, GeneratorName, InsertId, Mode, Origin, Rule, TableShape, Unavailable,
};
use rowstamp::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};

mod properties;
mod verify;

const FIRST_ID: u64 = 7;

struct Setting {
    dialect: Dialect,
    protocol: Protocol,
    several: bool,
    schema: Option<String>,
    tables: HashMap<String, Arc<Target>>,
    rule: Rule,
    step: u64,
    session: Session,
}

/// The prepared statements (`prepare: prepare s from '...'`), and the values that the server would answer
/// (`value: @q=...`, NULL without `=`).
#[derive(Default)]
struct Session {
    named: HashMap<String, NameMeaning>,
    values: Vec<(String, Value)>,
}

impl prepared_names::SessionFacts for Session {
    fn prepared(&self, name: &str) -> NameMeaning {
        self.named.get(&name.to_lowercase()).cloned().unwrap_or(NameMeaning::Unknown)
    }

    fn value(&self, question: &[u8]) -> Value {
        let question = str::from_utf8(question).unwrap();
        let asked =
            |(expression, _): &&(String, Value)| question.starts_with(&format!("SELECT ({expression})"));
        self.values.iter().find(asked).map_or(Value::NotAsked, |(_, value)| value.clone())
    }
}

/// A rule for the column `id`, in mode on, that keeps ids which a client gives.
pub(crate) fn rule(schema: &str, table: &str, generator: &str) -> Rule {
    Rule {
        of_schemas: None,
        made_from: None,
        schema: schema.to_owned(),
        table: table.to_owned(),
        column: "id".to_owned(),
        generator: GeneratorName { schema: schema.to_owned(), name: generator.to_owned() },
        explicit: Explicit::Keep,
        insert_id: InsertId::Session,
        mode: Mode::On,
        unavailable: Unavailable::Refuse,
        collide: Collide::Raise,
        origin: Origin { file: PathBuf::new(), line: 1 },
    }
}

impl Setting {
    fn new() -> Self {
        let server = Server { kind: ServerKind::MariaDb, version: 101_119 };
        Setting {
            dialect: Dialect { server, sql_mode: SqlMode::default(), charset: ClientCharset::Utf8 },
            protocol: Protocol::Text,
            several: false,
            schema: Some("shop".to_owned()),
            tables: HashMap::new(),
            rule: rule("shop", "", "orders"),
            step: 1,
            session: Session::default(),
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        match key {
            "server" => {
                let (kind, version) = value.split_once(' ').unwrap();
                let kind = if kind == "mysql" { ServerKind::MySql } else { ServerKind::MariaDb };
                self.dialect.server = Server { kind, version: version.parse().unwrap() };
            }
            "mode" => self.dialect.sql_mode = SqlMode::parse(value),
            "charset" => self.dialect.charset = ClientCharset::parse(value),
            "protocol" => {
                self.protocol = if value == "prepare" { Protocol::Prepare } else { Protocol::Text };
            }
            "several" => self.several = value == "on",
            "schema" => self.schema = Some(value.to_owned()).filter(|s| s != "none"),
            "step" => self.step = value.parse().unwrap(),
            "column" => value.clone_into(&mut self.rule.column),
            "explicit" => {
                self.rule.explicit = match value {
                    "advance" => Explicit::Advance,
                    "reject" => Explicit::Reject,
                    _ => Explicit::Keep,
                }
            }
            "insert_id" => {
                self.rule.insert_id = if value == "packet" { InsertId::Packet } else { InsertId::Session };
            }
            "rule" => {
                self.rule.mode = match value {
                    "shadow" => Mode::Shadow,
                    "off" => Mode::Off,
                    _ => Mode::On,
                }
            }
            "prepare" => self.prepare(value),
            "value" => {
                let (expression, text) = value.split_once('=').map_or((value, None), |(e, t)| (e, Some(t)));
                let answer = text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
                self.session.values.retain(|(known, _)| known != expression);
                self.session.values.push((expression.to_owned(), answer));
            }
            "routine_ran" => {
                for known in self.session.named.values_mut() {
                    if let NameMeaning::Is(statement) = known {
                        *known = NameMeaning::Perhaps(statement.clone());
                    }
                }
            }
            "table" => self.table(value),
            other => panic!("no such setting: {other}"),
        }
    }

    /// `orders(id bigint auto_increment, a int)`, or `orders` alone: no columns are known. ` shown` after it: a trigger may read
    /// the insert id.
    fn table(&mut self, value: &str) {
        let shown = value.strip_suffix(" shown");
        let (value, shows_insert_id) = (shown.unwrap_or(value), shown.is_some());
        let (name, columns) = value.split_once('(').map_or((value, None), |(name, rest)| (name, Some(rest)));
        let shape = columns.map(|columns| {
            let columns = columns.trim_end_matches(')').split(',').map(|column| {
                let words: Vec<&str> = column.split_whitespace().collect();
                ColumnShape {
                    name: words[0].to_owned(),
                    data_type: words[1].to_owned(),
                    unsigned: words.contains(&"unsigned"),
                    auto_increment: words.contains(&"auto_increment"),
                    generated: words.contains(&"generated"),
                    invisible: words.contains(&"invisible"),
                    in_primary_key: false,
                    needs_value: words.contains(&"needed"),
                    set_by_trigger: false,
                    masked: words.contains(&"masked"),
                }
            });
            Arc::new(TableShape { columns: columns.collect(), shows_insert_id, fires_on_update: false })
        });
        let rule = Arc::new(Rule { table: name.to_owned(), ..self.rule.clone() });
        let table = rule.table.clone();
        let spacing = Spacing::by(NonZeroU64::new(self.step).unwrap());
        let target = Target { rule, table, shape, spacing, view: None, usage: Arc::default() };
        self.tables.insert(name.to_owned(), Arc::new(target));
    }

    fn prepare(&mut self, text: &str) {
        let effects = match self.plan(text) {
            Planned::Untouched(effects) => effects,
            Planned::Rewrite(plan) => plan.effects,
            other => panic!("{text}: {other:?}"),
        };
        for (_, change) in effects.prepared_names {
            let known = match &change {
                NamedChange::Prepared(_, statement) => NameMeaning::Is(statement.clone()),
                NamedChange::Dropped(_) => NameMeaning::Unknown,
            };
            self.session.named.insert(change.name().to_lowercase(), known);
        }
    }

    fn plan(&self, text: impl AsRef<[u8]>) -> Planned {
        let tables = |schema: &str, table: &str| match self.tables.get(&table.to_ascii_lowercase()) {
            Some(target) if schema == "shop" => Lookup::Ruled(Arc::clone(target)),
            _ if table == "unknown" => Lookup::Unknown,
            _ => Lookup::NotRuled,
        };
        let view = PlanContext {
            dialect: &self.dialect,
            multi_statements: self.several,
            insert_id_is_set: false,
            cannot_update: &[],
            default_schema: self.schema.as_deref(),
            any_rules: true,
            tables: &tables,
            id_names: &(),
            hidden: &|_, table| table == "hidden",
            session: &self.session,
        };
        plan(text.as_ref(), &view, self.protocol)
    }

    fn run(&self, text: &str) -> String {
        match self.plan(text) {
            Planned::Untouched(effects) => {
                let mut out = "=> untouched".to_owned();
                if effects.ddl {
                    out += ", ddl";
                }
                if effects.opaque {
                    out += ", opaque";
                }
                if effects.routine {
                    out += ", routine";
                }
                for (_, change) in &effects.prepared_names {
                    let verb = if matches!(change, NamedChange::Prepared(..)) { "names" } else { "drops" };
                    write!(out, ", {verb} {}", change.name()).unwrap();
                }
                if effects.tracking {
                    out += ", tracking";
                }
                for (statement, change) in &effects.temporary {
                    match change {
                        Temporary::Created(name) => write!(out, ", {statement} created {name}").unwrap(),
                        Temporary::Gone(name) => write!(out, ", {statement} dropped {name}").unwrap(),
                        Temporary::Renamed { from, to } => {
                            write!(out, ", {statement} renamed {from} to {to}").unwrap();
                        }
                    }
                }
                out
            }
            Planned::Needs(PlanNeed::Temporary(name)) => format!("=> hidden? {name}"),
            Planned::Needs(PlanNeed::Table(name)) => format!("=> needs {name}"),
            Planned::Stale { table, .. } => format!("=> stale {table}"),
            Planned::Needs(PlanNeed::Settings) => "=> needs the settings".to_owned(),
            Planned::Needs(PlanNeed::Value { question }) => {
                format!("=> asks {}", String::from_utf8(question).unwrap())
            }
            Planned::Cut(at) => format!("=> cut before {}", &text[at..]),
            Planned::Fails(_) => "=> fails".to_owned(),
            Planned::Away(_) => "=> no id".to_owned(),
            Planned::Refused(refusal) => {
                assert!(refusal.to_string().starts_with("rowstamp: "), "{refusal}");
                "=> refused".to_owned()
            }
            Planned::Unreadable(_) => "=> unreadable".to_owned(),
            Planned::Rewrite(plan) if self.protocol == Protocol::Prepare => {
                prepared(text, &plan, &self.dialect)
            }
            Planned::Rewrite(plan) if plan.staged().is_some() => staged(text, &plan),
            Planned::Rewrite(plan) => spliced(text, &plan, &self.dialect),
        }
    }
}

fn notes(plan: &Plan) -> String {
    let mut out = String::new();
    for insert in &plan.inserts {
        match insert.style {
            Style::Wrapped => {}
            _ if insert.ids == 0 => {}
            Style::Literal => out += "literal ",
            Style::OdkuOne => out += "odku-one ",
            Style::OdkuLiteral => out += "odku-literal ",
            Style::OdkuNative => out += "odku-native ",
        }
        if !insert.explicit.is_empty() {
            write!(out, "explicit {:?} ", insert.explicit).unwrap();
        }
    }
    out
}

/// The statements that make the stage, fill it (with three rows, numbered from 1) and store it. If the query
/// brings ids, one of the rows has one. For values: the statement that fills the stage, and the text around
/// the rows in the statement that stores them.
fn staged(text: &str, plan: &Plan) -> String {
    let (insert, stage) = plan.staged().unwrap();
    // The statement that the server prepares by that name.
    if insert.is_named {
        let sent = plan.splice(text.as_bytes(), &[]).unwrap();
        return format!("=> staged, {}", String::from_utf8(sent).unwrap());
    }
    let text = stage.named.as_ref().map_or(text, |named| std::str::from_utf8(&named.text).unwrap());
    let (takes, ids) = if stage.brings_ids() { (Takes::Some, 2) } else { (Takes::All, 3) };
    let numbering = Numbering { base: 1, increment: 1, takes, first: Some(FIRST_ID), ids };
    let spacing = &insert.target.spacing;
    let nulls = if stage.kind == Kind::Query { Nulls::Anywhere } else { Nulls::AsInTable };
    let texts = [
        stage.create(text.as_bytes(), nulls, Engine::InnoDb),
        stage.fill(text.as_bytes()),
        stage.store(text.as_bytes(), &numbering, spacing),
    ];
    let [create, fill, store] = texts.map(|text| String::from_utf8(text).unwrap());
    if stage.kind == Kind::Values {
        // The rest is as in an INSERT ... SELECT that brings ids.
        let (head, _) = store.split_once("SELECT IF(").or_else(|| store.split_once("SELECT ")).unwrap();
        let (_, tail) = store.rsplit_once(" ORDER BY `rowstamp nr`").unwrap();
        return format!("=> {} | {head}<rows>{tail}", fill.replace("`rowstamp stage`", "`stage`"));
    }
    let mut sent = [create, fill, store].join(" | ");
    // The parts that are the same in all of them.
    let nth = if takes == Takes::Some { "(`rowstamp k`-1)" } else { "(`rowstamp nr`-1)" };
    let step = spacing.step.get();
    let id =
        format!("IF({nth}<{ids},{FIRST_ID}+{nth}*{step},18446744073709551615+`rowstamp nr`+0*UUID_SHORT())");
    for (piece, short) in [
        (id.as_str(), "<id>"),
        ("CREATE TEMPORARY TABLE ", "<create> "),
        (" (`rowstamp nr` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB", ""),
        ("(SELECT 1 AS `rowstamp 1`) AS `rowstamp 2` LEFT JOIN ", "<nothing> "),
        (" ON FALSE LIMIT 0", ""),
        (" LIMIT 0", ""),
        (" ORDER BY `rowstamp nr`", " <order>"),
        ("`rowstamp ", "`"),
    ] {
        sent = sent.replace(piece, short);
    }
    format!("=> {sent}")
}

/// The second parser has nothing against any case.
fn verified(plan: &Plan, dialect: &Dialect, text: &str, sent: Vec<u8>, written: Written<'_>) -> String {
    let opinion = second_opinion(plan, dialect, text.as_bytes(), &sent, written);
    let sent = String::from_utf8(sent).unwrap();
    match opinion {
        Opinion::Differs(difference) => format!("rewrite.verify: {difference}: {sent}"),
        Opinion::Agrees | Opinion::NotVerified => sent,
    }
}

fn spliced(text: &str, plan: &Plan, dialect: &Dialect) -> String {
    let mut next = FIRST_ID;
    let blocks: Vec<IdBlock> = plan
        .demands()
        .map(|(insert, ids)| {
            let spacing = insert.target.spacing;
            let block = IdBlock::new(next, spacing, NonZeroU64::new(u64::from(ids)).unwrap()).unwrap();
            next = block.last() + spacing.step.get();
            block
        })
        .collect();
    let out = plan.splice(text.as_bytes(), &blocks).unwrap();
    let before = plan.variables(&blocks).map(|sql| format!("{sql} ")).unwrap_or_default();
    format!("{before}{}=> {}", notes(plan), verified(plan, dialect, text, out, Written::Ids(&blocks)))
}

fn prepared(text: &str, plan: &Plan, dialect: &Dialect) -> String {
    match plan.prepare(text.as_bytes()) {
        Err(_) => "=> refused".to_owned(),
        Ok(prepared) => {
            let mut out = notes(plan);
            for ours in &prepared.ours {
                write!(out, "ours {}:{} ", ours.index, ours.row).unwrap();
            }
            for param in &prepared.id_params {
                write!(out, "id {}:{} ", param.index, param.row).unwrap();
            }
            format!("{out}=> {}", verified(plan, dialect, text, prepared.text, Written::Placeholders))
        }
    }
}

fn check(file: &Path, failures: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(file).unwrap().replace("\\\n", "");
    let mut setting = Setting::new();
    let mut statement: Option<(usize, &str)> = None;
    let mut cases = 0;
    for (nr, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with("## ") {
            continue;
        }
        let is_setting = statement.is_none()
            && line
                .split_once(": ")
                .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        if is_setting {
            let (key, value) = line.split_once(": ").unwrap();
            setting.set(key, value);
        } else if let Some((at, input)) = statement.take() {
            cases += 1;
            // `\n`, `\0` in a case stand for the bytes.
            let input = input.replace("<nl>", "\n").replace("<nul>", "\0");
            let got = setting.run(&input).replace('\n', "<nl>").replace('\0', "<nul>");
            if got != line {
                failures.push(format!(
                    "{}:{}\n  {input}\n  expected {line}\n  got      {got}",
                    file.display(),
                    at + 1
                ));
            }
        } else {
            statement = Some((nr, line));
        }
    }
    assert!(statement.is_none(), "{}: a case without its result", file.display());
    cases
}

#[test]
fn cases() {
    let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rewrite"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let mut failures = Vec::new();
    let cases: usize = files.iter().map(|file| check(file, &mut failures)).sum();
    assert!(failures.is_empty(), "{} of {cases} cases:\n{}", failures.len(), failures.join("\n"));
    assert!(cases > 200, "only {cases} cases were read");
}

#[test]
fn refusals_name_the_table_and_the_row() {
    let mut setting = Setting::new();
    setting.set("table", "orders(id bigint auto_increment, a int)");
    for (text, expect) in [
        (
            "INSERT INTO orders (id, a) VALUES (1, 2), ((DEFAULT), 3)",
            "the id of row 2 has DEFAULT in parentheses or within an expression; write DEFAULT by itself, or the value",
        ),
        (
            "INSERT INTO orders (id, a) VALUES (1, 2), (@x, DEFAULT)",
            "the id of row 2 is an expression, and another column has DEFAULT; leave that column out, in a separate statement",
        ),
        (
            "INSERT INTO orders (a) VALUES (LAST_INSERT_ID(5)) ON DUPLICATE KEY UPDATE id = 7",
            "a value has LAST_INSERT_ID(expr), and ON DUPLICATE KEY UPDATE assigns id; leave id out of its list, or write the \
             value without LAST_INSERT_ID",
        ),
        (
            "ANALYZE INSERT INTO orders (a) SELECT 1",
            "Rowstamp runs INSERT ... SELECT as several statements, which ANALYZE cannot measure; run the statement without \
             ANALYZE",
        ),
    ] {
        let Planned::Refused(refusal) = setting.plan(text) else { panic!("{text}: it is not refused") };
        assert_eq!(refusal.to_string(), format!("rowstamp: shop.orders: {expect}"));
    }
}

/// The beginning is all that is read of a statement that is too long.
#[test]
fn a_beginning_tells_its_table_only_where_the_name_cannot_go_on() {
    let dialect = Setting::new().dialect;
    for (text, expect) in [
        ("insert into x(", false),
        ("insert into x (a", true),
        ("insert into x values (", true),
        ("insert into x", false),
        ("insert into x.", false),
        ("insert into x /* c", false),
        // `/* c */.t`, `-- c\n.t`, `/*!50000 .t */`
        ("insert into x/", false),
        ("insert into x -", false),
        ("insert into x --", false),
        ("insert into x/*!5", false),
        ("insert into x/*!50000 ", false),
        ("select 1", false),
    ] {
        assert_eq!(begins_insert(text.as_bytes(), &dialect), expect, "{text}");
    }
}
