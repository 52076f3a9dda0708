//! The bytes of a session on both sides of the proxy. What the client sends must reach the server, and what the server
//! answers must reach the client, byte for byte, but for what is named here:
//!
//! * [`own`]: commands of the proxy's own, which are in the server's wire only;
//! * [`edits`], [`select`], [`execute`]: ids in ruled statements;
//! * [`answers`]: what ids, session tracking and parameters of ours do to answers;
//! * errors of the proxy's own ([`OWN_ERRORS`]), and what the server said of a text that it was asked about.
//!
//! [`transcript`] makes commands and answers of bytes, and sees to it that packets are numbered as they must be.
//!
//! Not compared: logins, and which ids they are (none is below [`Rules::first_id`], and none is sent twice).
//! Nobody checks here that the pieces of a ruled text stand in the right place, or that there are as many as
//! there are rows: results show that. Under NO_AUTO_VALUE_ON_ZERO a zero that became an id is not noticed
//! here. Any parameter of an execution that is NULL or zero may have become an id. The server's answers to
//! commands of the proxy's own are free, and so is how often these are sent. The quotes of a text in SQL's
//! PREPARE may change if it reads the same. Bulk executions, cursors, query attributes and optional metadata
//! are in none of the cases: such commands would have to be the same on both sides.

mod answers;
mod edits;
mod execute;
mod load;
mod named;
mod own;
mod parts;
mod stage;
#[cfg(test)]
mod tests;
mod tokens;
mod transcript;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::tap::Log;
use answers::Allowed;
use edits::{Ids, Known, Told, from_digits, ids_in};
use execute::{Bound, Execution};
use own::{Place, is_own};
use stage::Run;
use transcript::{Exchange, Transcript, command, number, shown};

/// Codes of errors that the proxy answers with itself, and how their texts begin.
const OWN_ERRORS: [(u16, &str); 5] = [
    (1235, "rowstamp: "),
    (1467, "rowstamp: "),
    (1243, "Unknown prepared statement handler"),
    (1153, "Got a packet bigger than"),
    (1047, "Unknown command"),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The names of the id columns of ruled tables and views.
    pub(crate) columns: &'static [&'static str],
    pub(crate) first_id: u64,
}

/// The judge of bytes. It remembers the ids of all sessions: none may come twice.
#[derive(Debug)]
pub(crate) struct Wire {
    rules: Rules,
    /// First and last of runs.
    ids: BTreeMap<u64, u64>,
    pub(crate) compared: usize,
}

impl Wire {
    pub(crate) fn new(rules: Rules) -> Self {
        Wire { rules, ids: BTreeMap::new(), compared: 0 }
    }

    /// Judges the sessions on the client's wire. The proxy's own connections are not looked at.
    pub(crate) fn complaints(&mut self, clients: &[Log], servers: &[Log]) -> Vec<String> {
        let read = |logs: &[Log]| logs.iter().filter_map(|log| Transcript::read(log)).collect::<Vec<_>>();
        let mut servers: BTreeMap<u32, _> = read(servers).into_iter().collect();
        let clients = read(clients);
        let mut complaints = Vec::new();
        if clients.is_empty() {
            complaints.push("the client's wire carried nothing".to_owned());
        }
        for (id, client) in clients {
            let found = client.and_then(|client| {
                let server = servers.remove(&id).ok_or("the server's wire carried nothing of it")?;
                Walk::new(self, &client, &server?).run()
            });
            complaints.extend(found.err());
        }
        complaints
    }
}

/// A statement that the client has prepared.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) text: Vec<u8>,
    pub(crate) server_id: u32,
    /// Parameters of the client's.
    params: u16,
    hidden: Vec<u16>,
    /// The server has another text.
    is_changed: bool,
    /// Parameters sent ahead, by the client's numbers.
    pub(crate) long: BTreeSet<u16>,
}

impl Statement {
    /// The server's number of a parameter of the client's.
    fn param(&self, client: u16) -> u16 {
        self.hidden.iter().fold(client, |param, hidden| if *hidden <= param { param + 1 } else { param })
    }

    /// The ids that an execution was given; `None`: it differs by more.
    pub(crate) fn bound(&self, asked: &Exchange, sent: &Exchange) -> Option<Bound> {
        let (asked, sent) = (asked.command(), sent.command());
        if number(sent, 1)? != self.server_id || sent.first() != Some(&command::STMT_EXECUTE) {
            return None;
        }
        if self.hidden.is_empty() && asked[5..] == sent[5..] {
            return Some(Bound::default());
        }
        let servers = self.long.iter().map(|param| self.param(*param)).collect();
        let theirs = Execution::read(asked, usize::from(self.params), &self.long)?;
        let ours = Execution::read(sent, usize::from(self.params) + self.hidden.len(), &servers)?;
        theirs.ids_in(&ours, &self.hidden)
    }
}

/// How a command of the client's was sent.
enum Sent {
    AsItIs,
    WithIds(Ids),
    /// A stage is stored.
    Stored(Run),
    /// The stage of a LOAD is stored; true: rows may be replaced.
    Loaded(Run, bool),
    /// An execution; what was bound.
    Bound(Bound),
}

/// [`Walk::statements`], [`Walk::unknown`], [`Walk::stores`]
type Statements = (BTreeMap<u32, Statement>, BTreeSet<u32>, BTreeMap<u32, Run>);

struct Walk<'a> {
    wire: &'a mut Wire,
    client: &'a Transcript,
    server: &'a Transcript,
    /// The next of the server's exchanges.
    at: usize,
    statements: BTreeMap<u32, Statement>,
    unknown: BTreeSet<u32>,
    /// Among these: what stores stages.
    stores: BTreeMap<u32, Run>,
    /// Texts that SQL's PREPARE gave a name.
    named: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The last text that the server told for a user's variable or a computed text.
    last_told: Option<Vec<u8>>,
    /// The number of the stage's zero dates, of which the server warns again.
    repeated: u16,
    /// The server's answer to SHOW WARNINGS when the last statement's stage was filled.
    warned: Option<Vec<Vec<u8>>>,
    own: Own,
}

/// The results of the proxy's own commands since the client's last command that was sent.
#[derive(Debug, Clone, Default)]
struct Own {
    /// The server's answers about user's variables and computed texts.
    told: Vec<Told>,
    /// Ids that went into variables.
    set: Vec<u64>,
    /// `insert_id` as the client had set it, and its distance to the next.
    said: Option<(u64, u64)>,
    /// One of them may be the answer to a command that was not sent.
    errors: Vec<Vec<u8>>,
    /// There is a stage, of which the server was not asked for its warnings.
    asks_warnings: bool,
    /// The statement that filled a stage.
    filled: Option<stage::Filled>,
    load: Option<load::Filled>,
}

impl<'a> Walk<'a> {
    fn new(wire: &'a mut Wire, client: &'a Transcript, server: &'a Transcript) -> Self {
        let (statements, unknown, stores) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (named, last_told, warned, own) = (BTreeMap::new(), None, None, Own::default());
        Walk {
            wire,
            client,
            server,
            at: 0,
            statements,
            unknown,
            stores,
            named,
            last_told,
            warned,
            repeated: 0,
            own,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for asked in &self.client.exchanges {
            self.whole_or_cut(asked)?;
            self.wire.compared += 1;
        }
        match self.server.exchanges.get(self.at) {
            Some(left) => Err(format!("nobody asked for {}", shown(left.command()))),
            None => Ok(()),
        }
    }

    fn exchange(&mut self, asked: &Exchange) -> Result<(), String> {
        if let Some(warned) = self.warned.take_if(|_| warnings::is_show(asked)) {
            // The statement that stored the rows may have been prepared, and is closed.
            let rest = self.server.exchanges.get(self.at..).unwrap_or_default();
            let closed = rest.iter().take_while(|sent| sent.byte() == command::STMT_CLOSE).count();
            let stored = rest.get(closed).filter(|sent| warnings::is_show(sent));
            self.at += if stored.is_some() { closed + 1 } else { 0 };
            let stored = stored.map(|stored| &*stored.answer);
            let is_right = warnings::are_told(&asked.answer, &warned, (stored, self.repeated));
            self.warned = Some(warned);
            return if is_right {
                Ok(())
            } else {
                Err("SHOW WARNINGS shows others than there were".to_owned())
            };
        }
        self.warned = None;
        while let Some(sent) = self.server.exchanges.get(self.at) {
            let known = Known { columns: self.wire.rules.columns, told: &self.own.told };
            if let Some(how) = self.sent(asked, sent, known) {
                self.at += 1;
                let ids = self.take_ids(asked, &how)?;
                let own = std::mem::take(&mut self.own);
                return self.answered(asked, sent, &how, (&ids, &own)).map_err(|problem| {
                    format!(
                        "in the answer to {}, sent as {}: {problem}",
                        shown(asked.command()),
                        shown(sent.command())
                    )
                });
            }
            let statement = named(asked).and_then(|id| self.statements.get(&id));
            // Asked once, after a stage was filled or could not be.
            let is_clients = warnings::is_show(sent) && !self.own.asks_warnings;
            if is_clients || !is_own(&Place { asked, statement, unknown: &self.unknown, known }, sent) {
                break;
            }
            self.at += 1;
            self.note_own(asked, sent);
        }
        // Parameters that are sent ahead for a stage are kept until the statement is executed.
        let keeps = may_be_staged(named(asked).and_then(|id| self.statements.get(&id)));
        if asked.byte() == command::STMT_SEND_LONG_DATA && keeps {
            return Ok(());
        }
        let is_own_error = asked.error().is_some_and(|(code, text)| {
            OWN_ERRORS.iter().any(|(own, begins)| *own == code && text.starts_with(begins.as_bytes()))
        });
        let is_short = asked.answer.len() == 1 || load::asks_first(&asked.answer);
        if is_own_error && is_short {
            self.own = Own::default();
            return Ok(());
        }
        let is_told = |error: &Vec<u8>| asked.answer.last().is_some_and(|told| stage::is_told(told, error));
        if let Some(told) = self.own.errors.iter().position(|error| is_short && is_told(error)) {
            self.own.errors.remove(told);
            return Ok(());
        }
        let sent =
            self.server.exchanges.get(self.at).map_or("nothing".to_owned(), |sent| shown(sent.command()));
        let answer = asked.answer.iter().map(|packet| shown(packet)).collect::<Vec<_>>().join(" | ");
        Err(format!("{} became {sent}, and was answered {answer}", shown(asked.command())))
    }

    /// How `sent` is what the client asked; `None`: it is not.
    fn sent(&self, asked: &Exchange, sent: &Exchange, known: Known<'_>) -> Option<Sent> {
        let statement = named(asked).and_then(|id| self.statements.get(&id));
        if asked.byte() != sent.byte() {
            let is_text = asked.byte() == command::STMT_EXECUTE && sent.byte() == command::QUERY;
            let ran = own::ran(asked, statement);
            if is_text && load::is_load(ran) {
                let stored = load::stores(ran, sent.text());
                return stored.map(|(run, replaces)| Sent::Loaded(run, replaces));
            }
            let run = stage::stores(ran, sent.text());
            return run.filter(|_| is_text).map(Sent::Stored);
        }
        let (theirs, ours) = (asked.text(), sent.text());
        match (asked.byte(), statement) {
            (command::QUERY, _) if asked.sent == sent.sent => Some(Sent::AsItIs),
            (command::QUERY, _) if named::stands_in(theirs, ours) => Some(Sent::AsItIs),
            (command::QUERY, _) if load::is_load(theirs) => {
                load::stores(theirs, ours).map(|(run, replaces)| Sent::Loaded(run, replaces))
            }
            // The text may have been shown to the server before it was prepared: then the client does not know that one.
            (command::STMT_PREPARE, _) if asked.statement_id() != sent.statement_id() => None,
            (command::STMT_PREPARE, _) if sent.error().is_some() && asked.answer != sent.answer => None,
            (command::STMT_PREPARE, _) if theirs == ours => Some(Sent::AsItIs),
            (command::QUERY | command::STMT_PREPARE, _) => match stage::stores(theirs, ours) {
                Some(run) => Some(Sent::Stored(run)),
                None => ids_in(theirs, ours, known).map(Sent::WithIds),
            },
            (command::STMT_EXECUTE, Some(_))
                if let Some(run) = self.stores.get(&number(sent.command(), 1)?) =>
            {
                Some(Sent::Stored(*run))
            }
            (command::STMT_EXECUTE, Some(statement)) => statement.bound(asked, sent).map(Sent::Bound),
            (command::STMT_SEND_LONG_DATA, Some(statement)) => {
                let param = u16::from_le_bytes([*theirs.get(4)?, *theirs.get(5)?]);
                let expected = [
                    &statement.server_id.to_le_bytes()[..],
                    &statement.param(param).to_le_bytes(),
                    &theirs[6..],
                ];
                (ours == expected.concat()).then_some(Sent::AsItIs)
            }
            (command::STMT_CLOSE | command::STMT_RESET | command::STMT_FETCH, Some(statement)) => {
                let expected = [&statement.server_id.to_le_bytes()[..], &theirs[4..]];
                (ours == expected.concat()).then_some(Sent::AsItIs)
            }
            _ => (asked.sent == sent.sent).then_some(Sent::AsItIs),
        }
    }

    /// Runs of ids that the command was given.
    fn take_ids(&mut self, asked: &Exchange, how: &Sent) -> Result<Vec<(u64, u64)>, String> {
        let each = |numbers: &[u64]| numbers.iter().map(|number| (*number, *number)).collect::<Vec<_>>();
        let ids = match how {
            Sent::WithIds(ids) if ids.variables.len() != self.own.set.len() => {
                return Err(format!("{} reads other variables than were set", shown(asked.command())));
            }
            Sent::WithIds(ids) => each(&[&ids.numbers[..], &self.own.set].concat()),
            Sent::Stored(run) | Sent::Loaded(run, _) => run.iter().copied().collect(),
            Sent::AsItIs => Vec::new(),
            Sent::Bound(bound) => each(&[&bound.hidden[..], &bound.replaced].concat()),
        };
        if let Some((next, increment)) = self.own.said {
            let expected = (0..).map(|nth| next + nth * increment);
            let all = ids
                .iter()
                .flat_map(|&(first, last)| (first..=last).step_by(usize::try_from(increment).unwrap_or(1)));
            return match all.zip(expected).find(|(id, expected)| id != expected) {
                Some((id, expected)) => {
                    Err(format!("{} got {id}, and insert_id says {expected}", shown(asked.command())))
                }
                None => Ok(ids),
            };
        }
        for (first, last) in &ids {
            let complaint = |what| Err(format!("{} got {first}, which {what}", shown(asked.command())));
            if *first < self.wire.rules.first_id {
                return complaint("is no id");
            }
            if self.wire.ids.range(..=last).next_back().is_some_and(|(_, taken)| taken >= first) {
                return complaint("was taken before");
            }
            self.wire.ids.insert(*first, *last);
        }
        Ok(ids)
    }

    fn answered(
        &mut self,
        asked: &Exchange,
        sent: &Exchange,
        how: &Sent,
        (ids, own): (&[(u64, u64)], &Own),
    ) -> Result<(), String> {
        let statement = named(asked).and_then(|id| self.statements.get(&id));
        let is_ruled =
            asked.command() != sent.command() || statement.is_some_and(|statement| statement.is_changed);
        let text = statement.map_or_else(|| asked.text(), |statement| &statement.text).to_ascii_uppercase();
        let has = |word: &&[u8]| memchr::memmem::find(&text, word).is_some();
        let inserts = [&b"INSERT"[..], b"REPLACE", b"EXECUTE"].iter().any(has);
        let (capabilities, more_warnings) =
            (self.client.capabilities, own.filled.map_or(0, |filled| filled.warnings));
        let allowed = Allowed { capabilities, is_ruled, inserts, ids, more_warnings };
        if let (&Sent::Loaded(_, replaces), Some(load)) = (how, &own.load) {
            return allowed.compare(asked.byte(), &asked.answer, &load.told(&sent.answer, replaces));
        }
        // RETURNING answers with rows. MariaDB takes a comment after a semicolon for another statement.
        if let (Sent::Stored(_), Some(filled), Some([0 | 0xFF, ..])) =
            (how, own.filled, sent.answer.first().map(Vec::as_slice))
        {
            let mut told = sent.answer.clone();
            told[0] = answers::as_filled(&told[0], filled.no_index_used, filled.is_one);
            let compared = allowed.compare(asked.byte(), &asked.answer, &told);
            if let Some(id) = named(asked) {
                self.note_use(id, asked);
            }
            return compared;
        }
        if asked.byte() != command::STMT_PREPARE {
            if let Some(id) = named(asked) {
                self.note_use(id, asked);
            }
            return allowed.compare(asked.byte(), &asked.answer, &sent.answer);
        }
        let hidden = match how {
            Sent::WithIds(ids) => ids.hidden.clone(),
            Sent::AsItIs | Sent::Stored(_) | Sent::Loaded(..) | Sent::Bound(_) => Vec::new(),
        };
        allowed.compare_prepared(&asked.answer, &sent.answer, &hidden)?;
        if let Some(id) = asked.statement_id() {
            let head = &asked.answer[0];
            let params = u16::from_le_bytes([head[7], head[8]]);
            let text = asked.text().to_vec();
            let (is_changed, long) = (is_ruled, BTreeSet::new());
            let statement = Statement { text, server_id: id, params, hidden, is_changed, long };
            self.statements.insert(id, statement);
        }
        Ok(())
    }

    fn note_use(&mut self, id: u32, asked: &Exchange) {
        let Some(statement) = self.statements.get_mut(&id) else { return };
        match (asked.byte(), asked.command()) {
            (command::STMT_SEND_LONG_DATA, [_, _, _, _, _, low, high, ..]) => {
                statement.long.insert(u16::from_le_bytes([*low, *high]));
            }
            (command::STMT_EXECUTE | command::STMT_RESET, _) => statement.long.clear(),
            (command::STMT_CLOSE, _) => {
                self.statements.remove(&id);
            }
            _ => {}
        }
    }

    fn note_own(&mut self, asked: &Exchange, sent: &Exchange) {
        if stage::find(sent.text(), stage::STAGE).is_some() {
            self.own.asks_warnings = !sent.text().starts_with(b"DROP ");
        }
        if warnings::is_show(sent) {
            self.own.asks_warnings = false;
            (self.warned, self.repeated) = (Some(sent.answer.clone()), 0);
        }
        if let (Some(dates), Some(filled)) = (stage::zero_dates(sent), &mut self.own.filled) {
            filled.warnings -= i32::from(dates);
            self.repeated = dates;
        }
        self.own.told.extend(told(sent));
        self.last_told = named::last_text(&self.own.told).or(self.last_told.take());
        self.own.set.extend(own::ids_set(sent));
        self.own.said = own::id_said(sent).or(self.own.said);
        self.own.errors.extend(sent.error().and_then(|_| sent.answer.last().cloned()));
        if own::is_fill(
            &Place {
                asked,
                statement: named(asked).and_then(|id| self.statements.get(&id)),
                unknown: &self.unknown,
                known: Known { columns: self.wire.rules.columns, told: &[] },
            },
            sent,
        ) {
            self.own.filled = Some(stage::filled(sent));
            let statement = named(asked).and_then(|id| self.statements.get(&id));
            let is_load = load::is_load(own::ran(asked, statement));
            self.own.load = is_load.then(|| load::Filled::of(sent)).flatten();
        }
        let Some(id) = sent.statement_id().filter(|_| sent.byte() == command::STMT_PREPARE) else { return };
        let known = Known { columns: self.wire.rules.columns, told: &[] };
        let statement = named(asked).and_then(|id| self.statements.get_mut(&id));
        let Some(statement) = statement.filter(|_| asked.byte() == command::STMT_EXECUTE) else {
            self.unknown.insert(id);
            return;
        };
        let text = sent.text();
        if stage::fills(&statement.text, text) {
            self.unknown.insert(id);
            return;
        }
        if let Some(run) = stage::stores(&statement.text, text) {
            self.stores.insert(id, run);
            self.unknown.insert(id);
            return;
        }
        let ids =
            if text == statement.text { Some(Ids::default()) } else { ids_in(&statement.text, text, known) };
        if let Some(ids) = ids {
            self.unknown.insert(std::mem::replace(&mut statement.server_id, id));
            (statement.hidden, statement.is_changed) = (ids.hidden, text != statement.text);
        }
    }
}

/// True if the statement may use a stage.
fn may_be_staged(statement: Option<&Statement>) -> bool {
    statement
        .is_some_and(|statement| statement.text.to_ascii_uppercase().windows(6).any(|word| word == b"SELECT"))
}

/// The statement that a command names.
fn named(asked: &Exchange) -> Option<u32> {
    let names = [
        command::STMT_EXECUTE,
        command::STMT_SEND_LONG_DATA,
        command::STMT_CLOSE,
        command::STMT_RESET,
        command::STMT_FETCH,
    ];
    number(asked.command(), 1).filter(|_| names.contains(&asked.byte()))
}

/// The text in the answer to a question for a user's variable or a computed text: the second column of its row, in hexadecimal
/// digits. The first one says whether it is NULL.
fn told(sent: &Exchange) -> Option<Told> {
    const QUESTIONS: [&[u8]; 2] = [b"\x03SELECT (", b"\x03EXECUTE IMMEDIATE 'SELECT a IS NULL,"];
    if !QUESTIONS.iter().any(|begin| sent.command().starts_with(begin)) {
        return None;
    }
    if sent.answer.iter().any(|packet| packet == b"\x011\xfb") {
        return Some(Told::Null);
    }
    let row = sent.answer.iter().find(|packet| packet.starts_with(b"\x010"))?;
    // The text comes after its length.
    let (_, text) = row.get(2..)?.split_at_checked(match row.get(2)? {
        0xFC => 3,
        0xFD => 4,
        _ => 1,
    })?;
    // In UTF-16 there are zero bytes between.
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
    from_digits(&digits).map(Told::Text)
}
