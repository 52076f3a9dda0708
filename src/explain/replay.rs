//! A log's statements, each planned as the session would have it by then.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use crate::explain::tables::{NO_DATABASE, Tables};
use crate::explain::tally::{Outcome, Said, Tally};
use crate::proxy::settings::Verify;
use crate::querylog::entry::{Entry, EntryKind};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::Database;
use crate::rewrite::plan::{Lookup, Plan, PlanContext, PlanNeed, Planned, Protocol, Unreadable};
use crate::rewrite::planner::plan;
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::sql::dialect::{Dialect, Server};
use crate::sql::digest::{Digest, digest};
use crate::sql::lex::Lexer;
use crate::sql::look::glance;
use crate::sql::statement::{self, Statement};

/// More connections than a server has at a time; what is known of others is forgotten when there
/// are more.
const CONNECTIONS_MAX: usize = 100_000;

/// Prepared statements of a connection that are remembered.
const PREPARED_MAX: usize = 1_000;

/// All texts that are remembered; beyond that they are forgotten, and what executes them is judged
/// by its own text.
const PREPARED_BYTES_MAX: usize = 256 << 20;

/// The state that a connection starts with.
#[derive(Debug, Clone)]
pub(crate) struct Beginning {
    pub(crate) dialect: Dialect,
    pub(crate) database: Option<String>,
    /// The server's version was asked for; what the log says of it is passed over.
    pub(crate) keeps_server: bool,
}

struct Connection {
    dialect: Dialect,
    database: Database,
    /// Texts by their digests.
    prepared: BTreeMap<String, Vec<u8>>,
}

impl From<Option<String>> for Database {
    fn from(name: Option<String>) -> Self {
        name.map_or(Database::None, Database::Is)
    }
}

struct Judged {
    planned: Planned,
    /// The text names a table by itself that has a rule in these databases, and which database it means
    /// is not known.
    may_be_in: Vec<String>,
}

pub(crate) struct Replay<'a> {
    tables: Tables<'a>,
    verify: Verify,
    beginning: Beginning,
    /// `None`: of entries without a number.
    connections: HashMap<Option<u64>, Connection>,
    /// The bytes of the prepared texts of all connections.
    prepared_bytes: usize,
    pub(crate) tally: Tally,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(tables: Tables<'a>, verify: Verify, beginning: Beginning) -> Replay<'a> {
        let (connections, tally) = (HashMap::new(), Tally::default());
        Replay { tables, verify, beginning, connections, prepared_bytes: 0, tally }
    }

    /// Another file: its connections are others.
    pub(crate) fn starts_over(&mut self) {
        self.connections.clear();
        self.prepared_bytes = 0;
    }

    pub(crate) fn take(&mut self, entry: Entry, file: &str) {
        let Entry { connection: id, line, what } = entry;
        if let EntryKind::Starts { version, shows_logins } = what {
            if !shows_logins {
                self.starts_over();
            }
            if let Some(server) = Server::parse(&version).filter(|_| !self.beginning.keeps_server) {
                self.beginning.dialect.server = server;
            }
            return;
        }
        if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&id) {
            self.starts_over();
        }
        let mut connection = self.connections.remove(&id).unwrap_or_else(|| Connection::new(&self.beginning));
        let at = || format!("{file}:{line}");
        match what {
            EntryKind::Quit => return self.forget(&connection),
            EntryKind::Connect { database } => {
                self.forget(&connection);
                connection = Connection { database: database.into(), ..Connection::new(&self.beginning) };
            }
            EntryKind::Reset => {
                self.forget(&connection);
                connection = Connection { database: connection.database, ..Connection::new(&self.beginning) };
            }
            EntryKind::Database(name) => connection.database = name.into(),
            EntryKind::Query(text) => self.query(&mut connection, &text, &at),
            EntryKind::Prepare(text) => self.prepare(&mut connection, text, at),
            EntryKind::Execute(text) => self.execute(&connection, &text, at),
            EntryKind::TooLong => self.tally.too_long += 1,
            EntryKind::InRoutine => self.tally.in_routines += 1,
            EntryKind::Starts { .. } | EntryKind::Other => {}
        }
        self.connections.insert(id, connection);
    }

    /// Takes the prepared texts of a connection that ends out of the count.
    fn forget(&mut self, connection: &Connection) {
        let bytes: usize = connection.prepared.values().map(Vec::len).sum();
        self.prepared_bytes = self.prepared_bytes.saturating_sub(bytes);
    }

    fn keep(&mut self, connection: &mut Connection, hash: String, text: Vec<u8>) {
        if self.prepared_bytes + text.len() > PREPARED_BYTES_MAX {
            self.connections.values_mut().for_each(|connection| connection.prepared.clear());
            connection.prepared.clear();
            self.prepared_bytes = 0;
        }
        self.prepared_bytes += text.len();
        let before = connection.prepared.insert(hash, text);
        self.prepared_bytes = self.prepared_bytes.saturating_sub(before.map_or(0, |text| text.len()));
    }

    /// SQL's PREPARE and EXECUTE are passed over: the server logs what they prepare and run after
    /// them.
    fn query(&mut self, connection: &mut Connection, text: &[u8], at_line: &dyn Fn() -> String) {
        if glance(text, connection.dialect, true, true).is_harmless() {
            self.tally.statements += 1;
            self.tally.elsewhere += 1;
            return;
        }
        let first = first_statement(text, &connection.dialect);
        if let Some(Statement::Dynamic(_)) = first {
            return;
        }
        self.tally.statements += 1;
        let judged = self.judged(connection, text, Protocol::Text);
        if let Planned::Cut(at) = judged.planned
            && let Some((first, later)) = text.split_at_checked(at)
            && !first.is_empty()
        {
            self.tally.statements -= 1;
            self.query(connection, first, at_line);
            return self.query(connection, later, at_line);
        }
        let said = self.said(&judged, text, connection, matches!(first, Some(Statement::Insert(_))));
        if let Planned::Untouched(effects) | Planned::Rewrite(Plan { effects, .. }) = &judged.planned {
            connection.take(effects);
        }
        match said {
            Some(said) => self.tally.executed(digest(text, &connection.dialect), said, at_line),
            None => self.tally.elsewhere += 1,
        }
    }

    /// Nothing is inserted by it; but what is refused is refused here.
    fn prepare(&mut self, connection: &mut Connection, text: Vec<u8>, at: impl Fn() -> String) {
        if glance(&text, connection.dialect, true, false).is_harmless() {
            return;
        }
        let judged = self.judged(connection, &text, Protocol::Prepare);
        let is_insert = matches!(first_statement(&text, &connection.dialect), Some(Statement::Insert(_)));
        let digest = digest(&text, &connection.dialect);
        if let Some(said) = self.said(&judged, &text, connection, is_insert) {
            self.tally.prepared(digest.clone(), said, at);
        }
        if !digest.is_unreadable() && connection.prepared.len() < PREPARED_MAX {
            self.keep(connection, digest.hash, text);
        }
    }

    /// By the text that was prepared, where the log has it; the values say how many ids it takes.
    fn execute(&mut self, connection: &Connection, text: &[u8], at: impl Fn() -> String) {
        self.tally.statements += 1;
        if glance(text, connection.dialect, true, false).is_harmless() {
            self.tally.elsewhere += 1;
            return;
        }
        let Digest { hash, .. } = &digest(text, &connection.dialect);
        let prepared = connection.prepared.get(hash).map_or(text, Vec::as_slice);
        let judged = self.judged(connection, prepared, Protocol::Prepare);
        let is_insert = matches!(first_statement(text, &connection.dialect), Some(Statement::Insert(_)));
        let Some(mut said) = self.said(&judged, prepared, connection, is_insert) else {
            self.tally.elsewhere += 1;
            return;
        };
        if matches!(said.outcome, Outcome::Rewritten | Outcome::Left)
            && let filled @ Judged { planned: Planned::Rewrite(_), .. } =
                self.judged(connection, text, Protocol::Text)
            && let Some(filled) = self.said(&filled, text, connection, is_insert)
            && filled.outcome != Outcome::Refused
        {
            said = filled;
        }
        self.tally.executed(digest(prepared, &connection.dialect), said, at);
    }

    fn judged(&self, connection: &Connection, text: &[u8], protocol: Protocol) -> Judged {
        let may_be_in = Mutex::new(Vec::new());
        let tables = |schema: &str, table: &str| {
            if schema != NO_DATABASE {
                return self.tables.lookup(schema, table);
            }
            let mut may_be_in = may_be_in.lock();
            may_be_in.extend(self.tables.databases_of(table).into_iter().map(str::to_owned));
            Lookup::NotRuled
        };
        let database = match &connection.database {
            Database::Unknown => Some(NO_DATABASE),
            Database::None => None,
            Database::Is(name) => Some(&**name),
        };
        let view = PlanContext {
            multi_statements: protocol == Protocol::Text,
            any_rules: !self.tables.rules.is_empty(),
            ..PlanContext::fresh(&connection.dialect, database, &tables)
        };
        let planned = plan(text, &view, protocol);
        Judged { planned, may_be_in: may_be_in.into_inner() }
    }

    /// `None`: it is no INSERT, and no rule concerns it.
    fn said(&self, judged: &Judged, text: &[u8], connection: &Connection, is_insert: bool) -> Option<Said> {
        let Judged { planned, may_be_in } = judged;
        if let (Planned::Untouched(_) | Planned::Rewrite(_), Some(first)) = (planned, may_be_in.first()) {
            let why = format!(
                "the log does not show the default database of this connection, and a table of the statement has a rule in {first}; \
                 write --database {first}, or begin with a log that has the start of the connection"
            );
            return Some(Said::new(Outcome::Unknown, &why));
        }
        let server = |why: &Unreadable| Said::new(Outcome::ServerFirst, &why.refusal.to_string());
        Some(match planned {
            Planned::Untouched(_) if is_insert => Said::new(Outcome::Left, ""),
            Planned::Untouched(_) | Planned::Cut(_) => return None,
            Planned::Rewrite(plan) => self.rewritten(plan, text, connection),
            Planned::Refused(why) => Said::new(Outcome::Refused, &why.to_string()),
            Planned::Away(why) => Said::new(Outcome::Refused, why),
            Planned::Unreadable(why) | Planned::Stale { unreadable: why, .. } => server(why),
            Planned::Needs(PlanNeed::Table(name) | PlanNeed::Temporary(name)) => {
                Said::new(Outcome::ServerFirst, &format!("Rowstamp asks the server about {name} first"))
            }
            Planned::Needs(PlanNeed::Settings) => {
                Said::new(Outcome::ServerFirst, "Rowstamp reads the session's settings again first")
            }
            Planned::Needs(PlanNeed::Value { .. }) | Planned::Fails(_) => Said::new(
                Outcome::ServerFirst,
                "Rowstamp asks the server for the text in a user variable first",
            ),
        })
    }

    fn rewritten(&self, plan: &Plan, text: &[u8], connection: &Connection) -> Said {
        if self.verify != Verify::Off
            && let Opinion::Differs(difference) = opinion_on_sample(plan, &connection.dialect, text)
        {
            return Said::new(Outcome::Refused, &format!("rewrite.verify: {difference}"));
        }
        let is_left = !plan.has_edits() && plan.staged().is_none();
        let ids = plan.demands().map(|(_, ids)| u64::from(ids)).sum();
        let mut said = Said::new(if is_left { Outcome::Left } else { Outcome::Rewritten }, "");
        said.ids = ids;
        said
    }
}

impl Connection {
    fn new(beginning: &Beginning) -> Connection {
        Connection {
            dialect: beginning.dialect,
            database: beginning.database.clone().map_or(Database::Unknown, Database::Is),
            prepared: BTreeMap::new(),
        }
    }

    /// Applies the effects of a statement as if it had succeeded: a log does not tell whether it has.
    fn take(&mut self, effects: &Effects) {
        if let Some(schema) = &effects.schema {
            self.database = Database::Is(schema.clone());
        }
        self.dialect.sql_mode = effects.sql_mode.unwrap_or(self.dialect.sql_mode);
        self.dialect.charset = effects.charset.unwrap_or(self.dialect.charset);
    }
}

fn first_statement(text: &[u8], dialect: &Dialect) -> Option<Statement> {
    statement::classify(&mut Lexer::new(text, *dialect)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{Beginning, Replay};
    use crate::explain::tables::Tables;
    use crate::explain::{SERVER, dialect};
    use crate::proxy::settings::Verify;
    use crate::querylog::log::{Format, Log};
    use crate::rules::RuleSet;

    /// Checks the numbers of statements of a log: rewritten, left, unknown.
    #[track_caller]
    fn check(log: &str, database: Option<&str>, expect: (u64, u64, u64)) {
        let text = "schema = \"shop\"\n[generators.g]\nkind = \"sequence\"\n\
                    [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        let rules = RuleSet::of_text(text);
        let beginning = Beginning {
            dialect: dialect(SERVER, "").unwrap(),
            database: database.map(str::to_owned),
            keeps_server: false,
        };
        let mut replay = Replay::new(Tables { rules: &rules, live: None }, Verify::Off, beginning);
        let mut log = Log::new(log.as_bytes(), Format::Auto, 1000);
        while let Some(entry) = log.next().unwrap() {
            replay.take(entry, "x.log");
        }
        let json: serde_json::Value = serde_json::from_str(&replay.tally.json().unwrap()).unwrap();
        let number = |key: &str| json[key].as_u64().unwrap();
        assert_eq!((number("rewritten"), number("left"), number("unknown")), expect, "{json}");
        assert_eq!(replay.tally.is_refused(), expect.2 > 0, "{json}");
    }

    const INSERT: &str = "INSERT INTO t(a) VALUES(1)";

    fn query(connection: u32, sql: &str) -> String {
        format!("261122 21:48:05\t{connection:6} Query\t{sql}\n")
    }

    #[test]
    fn a_database_that_was_chosen_before_the_log_began_is_not_guessed() {
        check(&query(1, INSERT), None, (0, 0, 1));
        check(&query(1, INSERT), Some("shop"), (1, 0, 0));
        check(&query(1, INSERT), Some("crm"), (0, 1, 0));
        check(&query(1, "INSERT INTO shop.t(a) VALUES(1)"), None, (1, 0, 0));
        // No rule anywhere is for it.
        check(&query(1, "INSERT INTO u(a) VALUES(1)"), None, (0, 1, 0));
        check(&(query(1, "USE shop") + &query(1, INSERT) + &query(2, INSERT)), None, (1, 0, 1));
        check(&(query(1, "SELECT 1; INSERT INTO t(a) VALUES(1)")), None, (0, 0, 1));
        // The server's own error, 1046.
        let login = "261122 21:48:05\t     1 Connect\tapp@localhost on  using Socket\n";
        check(&(login.to_owned() + &query(1, INSERT)), None, (0, 1, 0));
        check(&(login.to_owned() + &query(1, INSERT)), Some("shop"), (0, 1, 0));
    }

    #[test]
    fn a_reset_and_a_log_begun_anew_keep_the_database() {
        let begins = query(1, "USE shop");
        let reset = "261122 21:48:05\t     1 Reset Connection\t\n";
        check(&(begins.clone() + reset + &query(1, INSERT)), None, (1, 0, 0));
        let ansi = query(1, "SET sql_mode='ANSI_QUOTES'");
        let quoted = query(1, "INSERT INTO \"t\"(a) VALUES(1)");
        check(&(begins.clone() + &ansi + &quoted), None, (1, 0, 0));
        let banner = "mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:\n";
        check(&(begins + banner + &query(1, INSERT)), None, (1, 0, 0));
    }

    #[test]
    fn texts_that_are_prepared_have_a_limit() {
        let rules = RuleSet::default();
        let beginning =
            Beginning { dialect: dialect(SERVER, "").unwrap(), database: None, keeps_server: false };
        let mut replay = Replay::new(Tables { rules: &rules, live: None }, Verify::Off, beginning);
        replay.prepared_bytes = super::PREPARED_BYTES_MAX - 40;
        let prepare = |connection: u32| {
            format!("261122 21:48:05\t{connection:6} Prepare\tINSERT INTO t(a) VALUES(?)\n")
        };
        let log = prepare(1) + &prepare(2) + "261122 21:48:05\t     2 Quit\t\n";
        let mut log = Log::new(log.as_bytes(), Format::Auto, 1000);
        let mut held = Vec::new();
        while let Some(entry) = log.next().unwrap() {
            replay.take(entry, "x.log");
            held.push(replay.prepared_bytes);
        }
        assert_eq!(held, [super::PREPARED_BYTES_MAX - 14, 26, 0]);
    }
}
