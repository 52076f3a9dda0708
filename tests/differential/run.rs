//! One case on one address: everything that a client sees, as facts.

use std::fmt::Write;
use std::io;

use crate::differential::case::{Case, Flag, Statement, commented};
use crate::differential::comments;
use crate::differential::interpolate::interpolate;
use crate::differential::rename::Renamer;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_FOUND_ROWS, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, Client,
    ErrPacket, Options, Outcome, Prepared, Value,
};

/// In transaction, autocommit, more results, no backslash escapes. The rest tells of plans and of tracking.
const STATUS_COMPARED: u16 = 0x0001 | 0x0002 | 0x0008 | 0x0200;
/// "This command is not supported in the prepared statement protocol yet".
const ER_UNSUPPORTED_PS: u16 = 1295;
const ER_NOT_SUPPORTED_YET: u16 = 1235;
/// The first number of the native counter of a case's first table, and of the proxy's sequence.
pub(crate) const FIRST_ID: u64 = 1_000_001;
const SHIFTED_FIRST_ID: u64 = 2_000_007;
/// Further tables count from elsewhere: were parent and child numbered alike, their ids could not be told apart. The
/// thirteenth stays below `SERVERS_OWN_FIRST_ID`.
pub(crate) const BETWEEN_TABLES: u64 = 800_000;
/// The first number of counters that must never be used: those of ruled tables in a proxied run. MEDIUMINT
/// must hold it.
pub(crate) const SERVERS_OWN_FIRST_ID: u64 = 12_000_001;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Text,
    Prepared,
}

impl Protocol {
    pub(crate) const ALL: [Protocol; 2] = [Protocol::Text, Protocol::Prepared];
}

/// Tables with or without AUTO_INCREMENT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variant {
    With,
    Without,
    /// With it, its counter begun elsewhere: the judge's test of its own renaming.
    Shifted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The measure: what the proxy refuses for good is left out.
    Native,
    Proxied,
}

/// Something that a client sees, generated ids by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The statement, counted from 1; 0 is the state before the first.
    pub(crate) step: usize,
    /// Which of the case's statements the step belongs to.
    pub(crate) statement: usize,
    pub(crate) field: &'static str,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) facts: Vec<Fact>,
    /// The proxy's own errors 1235: steps and messages.
    pub(crate) refusals: Vec<(usize, String)>,
    /// Complaints about the bytes on both sides of the proxy: `Lab::with_bytes`.
    pub(crate) bytes: Vec<String>,
}

impl Record {
    /// The rows of the tables after a step.
    pub(crate) fn tables(&self, step: usize) -> impl Iterator<Item = &str> {
        self.facts
            .iter()
            .filter(move |fact| fact.step == step && fact.field == "table")
            .map(|fact| fact.value.as_str())
    }
}

/// Runs the case through `address`. The observer, a connection to the server itself, sets up and looks at the tables
/// (`Lab::observer`): it leaves the session under test alone.
pub(crate) fn run(
    case: &Case,
    observer: &mut Client,
    address: &str,
    protocol: Protocol,
    variant: Variant,
    role: Role,
) -> io::Result<Record> {
    for sql in &case.cleanup {
        observer.query(sql)?;
    }
    let mut session = Client::connect(address, &session_options(case))?;
    for (index, table) in (0..).zip(&case.tables) {
        for sql in create_table(table, index * BETWEEN_TABLES, variant, role) {
            expect_ok(&mut session, sql.as_bytes())?;
        }
    }
    for sql in &case.setup {
        expect_ok(observer, sql)?;
    }
    let result = run_in(case, observer, session, protocol, role);
    for sql in &case.cleanup {
        observer.query(sql)?;
    }
    result
}

/// The same on tables that are there, in a session of its own.
pub(crate) fn run_on_tables(
    case: &Case,
    observer: &mut Client,
    address: &str,
    protocol: Protocol,
    role: Role,
) -> io::Result<Record> {
    let session = Client::connect(address, &session_options(case))?;
    run_in(case, observer, session, protocol, role)
}

fn run_in(
    case: &Case,
    observer: &mut Client,
    session: Client,
    protocol: Protocol,
    role: Role,
) -> io::Result<Record> {
    let mut run = Run {
        case,
        session,
        observer,
        protocol,
        role,
        renamer: Renamer::new(&case.text()),
        record: Record::default(),
        step: 0,
        statement: 0,
    };
    let result = run.all_statements();
    // The session's end is awaited, so that its locks and temporary tables are gone.
    run.session.quit()?;
    result.map(|()| run.record)
}

fn session_options(case: &Case) -> Options {
    const GBK_CHINESE_CI: u8 = 28;
    let mut capabilities = CLIENT_DEPRECATE_EOF;
    for (flag, capability) in [
        (Flag::FoundRows, CLIENT_FOUND_ROWS),
        (Flag::Multi, CLIENT_MULTI_STATEMENTS),
        (Flag::Track, CLIENT_SESSION_TRACK),
    ] {
        if case.has(flag) {
            capabilities |= capability;
        }
    }
    if case.has(Flag::Classic) {
        capabilities &= !CLIENT_DEPRECATE_EOF;
    }
    let database = (!case.has(Flag::NoDatabase)).then(|| "judge".to_owned());
    let plain = Options { database, capabilities, ..Options::default() };
    if case.has(Flag::GbkHandshake) { Options { collation: GBK_CHINESE_CI, ..plain } } else { plain }
}

/// The statements that make it again; `offset` is added to where its counter starts.
pub(crate) fn create_table(table: &str, offset: u64, variant: Variant, role: Role) -> [String; 2] {
    let name = table_name(table);
    // A table that writes the word itself has no rule: it keeps its counter in every run.
    let counts_itself = table.contains("AUTO_INCREMENT");
    let from = |first_id: u64| format!(" AUTO_INCREMENT={}", first_id + offset);
    let (ai, from) = match (variant, role) {
        (Variant::Shifted, _) => ("AUTO_INCREMENT", from(SHIFTED_FIRST_ID)),
        (Variant::With, Role::Proxied) if !counts_itself => ("AUTO_INCREMENT", from(SERVERS_OWN_FIRST_ID)),
        (Variant::Without, _) if !counts_itself => ("", String::new()),
        (Variant::With | Variant::Without, _) => ("AUTO_INCREMENT", from(FIRST_ID)),
    };
    let marked = if table.contains("{from}") { table.to_owned() } else { format!("{table}{{from}}") };
    let columns = marked
        .replace("{text_id}", if ai.is_empty() { "id VARCHAR(20) NOT NULL PRIMARY KEY" } else { "{id}" })
        .replace("{id}", "id BIGINT NOT NULL {ai} PRIMARY KEY")
        .replace("{ai}", ai)
        .replace("{from}", &from);
    [
        format!("DROP TABLE IF EXISTS {}", qualified(name)),
        format!("CREATE TABLE {}{}", qualified(name), &columns[name.len()..]),
    ]
}

fn table_name(table: &str) -> &str {
    table.split_whitespace().next().unwrap_or_default()
}

fn qualified(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("judge.{name}") }
}

fn expect_ok(client: &mut Client, sql: &[u8]) -> io::Result<()> {
    match client.query(sql)?.last() {
        Some(Outcome::Err(error)) => {
            Err(io::Error::other(format!("set-up: {error:?}: {}", String::from_utf8_lossy(sql))))
        }
        _ => Ok(()),
    }
}

struct Run<'a> {
    case: &'a Case,
    session: Client,
    observer: &'a mut Client,
    protocol: Protocol,
    role: Role,
    renamer: Renamer,
    record: Record,
    step: usize,
    statement: usize,
}

impl Run<'_> {
    fn all_statements(&mut self) -> io::Result<()> {
        self.look_at_tables()?;
        for (index, statement) in self.case.statements.iter().enumerate() {
            self.statement = index;
            if statement.refused.is_some() && self.role == Role::Native {
                self.step += 1;
                self.finish_step(vec![("refused", "yes".to_owned())], false, statement.look)?;
            } else if self.protocol == Protocol::Prepared && !statement.sql.starts_with(b"!") {
                self.by_prepared(statement)?;
            } else {
                self.by_text(statement)?;
            }
        }
        if self.case.has(Flag::Contiguous) {
            let gaps = if self.renamer.ids_in_tables_adjoin() { "none" } else { "some" };
            self.fact("gaps between ids", gaps);
        }
        Ok(())
    }

    fn by_text(&mut self, statement: &Statement) -> io::Result<()> {
        if statement.executions.is_empty() {
            return self.one_text(&statement.sql, statement);
        }
        for params in &statement.executions {
            self.one_text(&interpolate(&statement.sql, params), statement)?;
        }
        Ok(())
    }

    fn one_text(&mut self, sql: &[u8], statement: &Statement) -> io::Result<()> {
        self.step += 1;
        self.session.local_file.clone_from(&statement.local_file);
        let outcomes = match sql.strip_prefix(b"!") {
            Some(command) => self.command(&String::from_utf8_lossy(command))?,
            None => self.session.query(sql)?,
        };
        let facts = self.outcome_facts(&outcomes);
        self.finish(facts, statement)
    }

    /// `!use NAME`, `!reset`, `!change_user NAME`: the commands that are not statements.
    fn command(&mut self, command: &str) -> io::Result<Vec<Outcome>> {
        match command.split_once(' ').unwrap_or((command, "")) {
            ("use", name) => self.session.use_database(name),
            ("reset", _) => self.session.reset(),
            ("change_user", database) => self.session.change_user("root", database),
            _ => Err(io::Error::other(format!("an unknown command !{command}"))),
        }
    }

    fn by_prepared(&mut self, statement: &Statement) -> io::Result<()> {
        let prepared = match self.session.prepare(&statement.sql)? {
            Ok(prepared) => prepared,
            Err(error) if error.code == ER_UNSUPPORTED_PS => return self.by_text(statement),
            Err(error) => {
                self.step += 1;
                let mut facts = vec![("stage", "prepare".to_owned())];
                facts.extend(self.error_facts(&error));
                return self.finish(facts, statement);
            }
        };
        let no_params = [Vec::new()];
        let executions =
            if statement.executions.is_empty() { &no_params } else { statement.executions.as_slice() };
        for params in executions {
            self.step += 1;
            self.session.local_file.clone_from(&statement.local_file);
            let mut facts = vec![("prepared", describe(&prepared))];
            // A wrong count would be read as garbage by the server; it is a fault of the description.
            if usize::from(prepared.params) == params.len() {
                let outcomes = self.session.execute(&prepared, params)?;
                facts.extend(self.outcome_facts(&outcomes));
            } else {
                facts.push(("prepared", format!("{} parameters are given", params.len())));
            }
            self.finish(facts, statement)?;
        }
        self.session.close(&prepared)
    }

    fn finish(&mut self, facts: Vec<(&'static str, String)>, statement: &Statement) -> io::Result<()> {
        if statement.refused.is_none() {
            return self.finish_step(facts, true, statement.look);
        }
        // The native run has nothing to compare these with but the refusal itself and what it must leave alone.
        let refused = self.record.refusals.last().is_some_and(|(step, _)| *step == self.step);
        let seen =
            facts.iter().map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(" ");
        self.finish_step(
            vec![("refused", if refused { "yes".to_owned() } else { seen })],
            false,
            statement.look,
        )
    }

    /// Names the ids by the tables first: there they stand in order, whatever the packets say.
    fn finish_step(
        &mut self,
        facts: Vec<(&'static str, String)>,
        with_warnings: bool,
        look: bool,
    ) -> io::Result<()> {
        self.look_at_tables()?;
        for (field, value) in facts {
            self.fact(field, &value);
        }
        if self.case.has(Flag::Quiet) && !look {
            return Ok(());
        }
        if with_warnings {
            let warnings = self.session.query(Self::looking("SHOW WARNINGS"))?;
            self.fact("warnings", &warnings.first().map(show).unwrap_or_default());
        }
        let last = self.session.query(Self::looking("SELECT LAST_INSERT_ID()"))?;
        self.fact("last_insert_id", &last.first().map(show).unwrap_or_default());
        Ok(())
    }

    /// Puts comments around a question of the judge's own if the statements of the cases have them.
    fn looking(sql: &str) -> Vec<u8> {
        if comments() { commented(sql.as_bytes(), 0) } else { sql.into() }
    }

    fn look_at_tables(&mut self) -> io::Result<()> {
        let mut dumps = self.case.dumps.clone();
        if dumps.is_empty() {
            let names = self.case.tables.iter().map(|table| qualified(table_name(table)));
            dumps = names.map(|name| format!("SELECT * FROM {name} ORDER BY 1").into_bytes()).collect();
        }
        for outcome in self.observer.query(dumps.join(&b"; "[..]))? {
            let text = show(&outcome);
            let new = self.renamer.see_table(&text);
            self.fact("table", &text);
            // Drivers compute the ids of a statement's rows from its first.
            if !new.is_empty() {
                let adjoin = new.windows(2).all(|pair| pair[0] + 1 == pair[1]);
                self.fact("new ids", if adjoin { "adjoin" } else { "have gaps" });
            }
        }
        Ok(())
    }

    fn outcome_facts(&mut self, outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
        let mut facts = vec![("results", outcomes.len().to_string())];
        for outcome in outcomes {
            match outcome {
                Outcome::Ok(ok) => facts.extend([
                    ("affected_rows", ok.affected_rows.to_string()),
                    ("insert_id", ok.insert_id.to_string()),
                    ("info", ok.info.clone()),
                    ("warning_count", ok.warnings.to_string()),
                ]),
                Outcome::Err(error) => facts.extend(self.error_facts(error)),
                Outcome::Rows(set) => {
                    let columns: Vec<_> =
                        set.columns.iter().map(|c| format!("{}:{}", c.name, c.kind)).collect();
                    facts.extend([
                        ("columns", columns.join(" ")),
                        ("rows", show(outcome)),
                        ("warning_count", set.warnings.to_string()),
                        ("rows' affected_rows", set.affected_rows.to_string()),
                        ("rows' insert_id", set.insert_id.to_string()),
                    ]);
                }
            }
            if outcome.err().is_none() {
                facts.push(("status", format!("{:#06x}", outcome.status() & STATUS_COMPARED)));
            }
        }
        facts
    }

    fn error_facts(&mut self, error: &ErrPacket) -> Vec<(&'static str, String)> {
        if error.code == ER_NOT_SUPPORTED_YET
            && error.sqlstate == "42000"
            && error.message.starts_with("rowstamp: ")
        {
            self.record.refusals.push((self.step, error.message.clone()));
        }
        vec![("error", format!("{} {}", error.code, error.sqlstate)), ("message", error.message.clone())]
    }

    fn fact(&mut self, field: &'static str, value: &str) {
        let value = self.renamer.rename(value);
        self.record.facts.push(Fact { step: self.step, statement: self.statement, field, value });
    }
}

fn describe(prepared: &Prepared) -> String {
    let columns: Vec<_> =
        prepared.columns.iter().map(|column| format!("{}:{}", column.name, column.kind)).collect();
    format!("{} parameters, columns [{}], {} warnings", prepared.params, columns.join(" "), prepared.warnings)
}

/// Rows as text that can be read and compared; bytes that are no plain text are escaped.
fn show(outcome: &Outcome) -> String {
    let mut text = String::new();
    for row in outcome.rows() {
        let values = row.iter().map(|value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Bytes(bytes) if bytes.iter().all(u8::is_ascii_digit) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Value::Bytes(bytes) => format!("'{}'", bytes.escape_ascii()),
            other => other.text().unwrap_or_default(),
        });
        let _ = write!(text, "({})", values.collect::<Vec<_>>().join(", "));
    }
    if let Some(error) = outcome.err() {
        let _ = write!(text, "{} {}", error.code, error.message);
    }
    text
}

#[test]
fn tables_are_created_with_and_without_a_counter() {
    let check = |table: &str, index, variant, role, expect: &str| {
        assert_eq!(
            create_table(table, index * BETWEEN_TABLES, variant, role)[1],
            expect,
            "{table} {index} {variant:?} {role:?}"
        );
    };
    let (native, proxied) = (Role::Native, Role::Proxied);
    let with = "CREATE TABLE judge.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT=";
    check("t ({id})", 0, Variant::With, native, &format!("{with}1000001"));
    check("t ({id})", 1, Variant::With, native, &format!("{with}1800001"));
    check("t ({id})", 0, Variant::With, proxied, &format!("{with}12000001"));
    check("t ({id})", 0, Variant::Without, proxied, "CREATE TABLE judge.t (id BIGINT NOT NULL  PRIMARY KEY)");
    let placed = "CREATE TABLE o.t (id INT AUTO_INCREMENT) AUTO_INCREMENT=1000001 PARTITION";
    check("o.t (id INT {ai}){from} PARTITION", 0, Variant::With, native, placed);
    let without_rule = "CREATE TABLE judge.other (id INT AUTO_INCREMENT KEY) AUTO_INCREMENT=1000001";
    for (variant, role) in [(Variant::With, native), (Variant::With, proxied), (Variant::Without, proxied)] {
        check("other (id INT AUTO_INCREMENT KEY)", 0, variant, role, without_rule);
    }
}
