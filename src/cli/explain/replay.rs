//! A log's statements, each planned as the session would have it by then.

use std::collections::{BTreeMap, HashMap};

use super::log::{Entry, What};
use super::tally::{Outcome, Said, Tally};
use super::{LiveTables, lookup};
use crate::proxy::settings::Verify;
use crate::rewrite::effects::Effects;
use crate::rewrite::named::Fresh;
use crate::rewrite::plan::{Plan, Planned, Protocol, Unreadable, View, plan};
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::rules::RuleSet;
use crate::sql::dialect::{Dialect, Server};
use crate::sql::digest::{Digest, digest};
use crate::sql::glance::{Glance, glance};
use crate::sql::lex::Lexer;
use crate::sql::statement::{self, Statement};

/// More connections than a server has at a time; what is known of others is forgotten when there are more.
const CONNECTIONS_MAX: usize = 100_000;

/// Prepared statements of a connection that are remembered.
const PREPARED_MAX: usize = 1_000;

/// What a connection starts with.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    pub(super) dialect: Dialect,
    pub(super) database: Option<String>,
    /// The server's version was asked for; what the log says of it is passed over.
    pub(super) keeps_server: bool,
}

struct Connection {
    dialect: Dialect,
    database: Option<String>,
    /// Texts by their digests.
    prepared: BTreeMap<String, Vec<u8>>,
}

pub(super) struct Replay<'a> {
    rules: &'a RuleSet,
    live: Option<&'a LiveTables>,
    verify: Verify,
    beginning: Beginning,
    /// `None`: of entries without a number.
    connections: HashMap<Option<u64>, Connection>,
    pub(super) tally: Tally,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        rules: &'a RuleSet,
        live: Option<&'a LiveTables>,
        verify: Verify,
        beginning: Beginning,
    ) -> Replay<'a> {
        let (connections, tally) = (HashMap::new(), Tally::default());
        Replay { rules, live, verify, beginning, connections, tally }
    }

    /// Another file: its connections are others.
    pub(super) fn starts_over(&mut self) {
        self.connections.clear();
    }

    pub(super) fn take(&mut self, entry: Entry, file: &str) {
        let Entry { connection: id, line, what } = entry;
        if let What::Starts { version } = what {
            self.starts_over();
            if let Some(server) = Server::parse(&version).filter(|_| !self.beginning.keeps_server) {
                self.beginning.dialect.server = server;
            }
            return;
        }
        if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&id) {
            self.connections.clear();
        }
        let mut connection = self.connections.remove(&id).unwrap_or_else(|| Connection::new(&self.beginning));
        let at = || format!("{file}:{line}");
        match what {
            What::Quit => return,
            What::Connect { database } => {
                connection = Connection { database, ..Connection::new(&self.beginning) };
            }
            What::Database(name) => connection.database = Some(name),
            What::Query(text) => self.query(&mut connection, &text, at),
            What::Prepare(text) => self.prepare(&mut connection, text, at),
            What::Execute(text) => self.execute(&connection, &text, at),
            What::TooLong => self.tally.too_long += 1,
            What::Starts { .. } | What::Other => {}
        }
        self.connections.insert(id, connection);
    }

    /// SQL's PREPARE and EXECUTE are passed over: the server logs what they prepare and run behind them.
    fn query(&mut self, connection: &mut Connection, text: &[u8], at: impl Fn() -> String) {
        if glance(text, true, true) == Glance::Harmless {
            self.tally.statements += 1;
            self.tally.elsewhere += 1;
            return;
        }
        let first = first_statement(text, &connection.dialect);
        if let Some(Statement::Dynamic(_)) = first {
            return;
        }
        self.tally.statements += 1;
        let planned = self.planned(connection, text, Protocol::Text);
        let said = self.said(&planned, text, connection, matches!(first, Some(Statement::Insert(_))));
        if let Planned::Untouched(effects) | Planned::Rewrite(Plan { effects, .. }) = &planned {
            connection.take(effects);
        }
        match said {
            Some(said) => self.tally.executed(digest(text, &connection.dialect), said, at),
            None => self.tally.elsewhere += 1,
        }
    }

    /// Nothing is inserted by it; but what is refused is refused here.
    fn prepare(&mut self, connection: &mut Connection, text: Vec<u8>, at: impl Fn() -> String) {
        if glance(&text, true, false) == Glance::Harmless {
            return;
        }
        let planned = self.planned(connection, &text, Protocol::Prepare);
        let is_insert = matches!(first_statement(&text, &connection.dialect), Some(Statement::Insert(_)));
        let digest = digest(&text, &connection.dialect);
        if let Some(said) = self.said(&planned, &text, connection, is_insert) {
            self.tally.prepared(digest.clone(), said, at);
        }
        if !digest.is_unreadable() && connection.prepared.len() < PREPARED_MAX {
            connection.prepared.insert(digest.hash, text);
        }
    }

    /// By the text that was prepared, where the log has it; the values say how many ids it takes.
    fn execute(&mut self, connection: &Connection, text: &[u8], at: impl Fn() -> String) {
        self.tally.statements += 1;
        if glance(text, true, false) == Glance::Harmless {
            self.tally.elsewhere += 1;
            return;
        }
        let Digest { hash, .. } = &digest(text, &connection.dialect);
        let prepared = connection.prepared.get(hash).map_or(text, Vec::as_slice);
        let planned = self.planned(connection, prepared, Protocol::Prepare);
        let is_insert = matches!(first_statement(text, &connection.dialect), Some(Statement::Insert(_)));
        let Some(mut said) = self.said(&planned, prepared, connection, is_insert) else {
            self.tally.elsewhere += 1;
            return;
        };
        if matches!(said.outcome, Outcome::Rewritten | Outcome::Left)
            && let filled @ Planned::Rewrite(_) = self.planned(connection, text, Protocol::Text)
            && let Some(filled) = self.said(&filled, text, connection, is_insert)
            && filled.outcome != Outcome::Refused
        {
            said = filled;
        }
        self.tally.executed(digest(prepared, &connection.dialect), said, at);
    }

    fn planned(&self, connection: &Connection, text: &[u8], protocol: Protocol) -> Planned {
        let tables = |schema: &str, table: &str| lookup(self.rules, self.live, schema, table);
        let view = View {
            dialect: &connection.dialect,
            multi_statements: protocol == Protocol::Text,
            default_schema: connection.database.as_deref(),
            any_rules: !self.rules.is_empty(),
            tables: &tables,
            hidden: &|_, _| false,
            session: &Fresh,
        };
        plan(text, &view, protocol)
    }

    /// `None`: it is no INSERT, and no rule concerns it.
    fn said(&self, planned: &Planned, text: &[u8], connection: &Connection, is_insert: bool) -> Option<Said> {
        let server = |why: &Unreadable| Said::new(Outcome::ServerFirst, &why.refusal.to_string());
        Some(match planned {
            Planned::Untouched(_) if is_insert => Said::new(Outcome::Left, ""),
            Planned::Untouched(_) => return None,
            Planned::Rewrite(plan) => self.rewritten(plan, text, connection),
            Planned::Refused(why) => Said::new(Outcome::Refused, &why.to_string()),
            Planned::Away(why) => Said::new(Outcome::Refused, why),
            Planned::Unreadable(why) | Planned::Stale { unreadable: why, .. } => server(why),
            Planned::NeedsTable { schema, table } | Planned::AsksTemporary { schema, table } => {
                Said::new(Outcome::ServerFirst, &format!("the server is asked about {schema}.{table}"))
            }
            Planned::NeedsValue { .. } => {
                Said::new(Outcome::ServerFirst, "the server is asked for the text in a user's variable")
            }
        })
    }

    fn rewritten(&self, plan: &Plan, text: &[u8], connection: &Connection) -> Said {
        if self.verify != Verify::Off
            && let Opinion::Differs(difference) = opinion_on_sample(plan, &connection.dialect, text)
        {
            return Said::new(Outcome::Refused, &format!("rewrite.verify: {difference}"));
        }
        let is_left = !plan.has_edits() && plan.select().is_none();
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
            database: beginning.database.clone(),
            prepared: BTreeMap::new(),
        }
    }

    /// As if it had succeeded, which a log does not tell.
    fn take(&mut self, effects: &Effects) {
        if effects.schema.is_some() {
            self.database.clone_from(&effects.schema);
        }
        self.dialect.sql_mode = effects.sql_mode.unwrap_or(self.dialect.sql_mode);
        self.dialect.charset = effects.charset.unwrap_or(self.dialect.charset);
    }
}

fn first_statement(text: &[u8], dialect: &Dialect) -> Option<Statement> {
    statement::classify(&mut Lexer::new(text, *dialect)?).ok()
}
