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
//! Not compared: logins, and which ids they are (all are above [`Rules::first_id`], and none is sent twice). Of a ruled text it
//! is not asked whether a piece stands where it should, or that there are as many as there are rows: results show that.
//! Under NO_AUTO_VALUE_ON_ZERO a zero that became an id is not noticed here. Of an execution any parameter that is NULL or
//! zero may have become an id. What the server answers to commands of the proxy's own, and how often they are sent, is free.
//! Of a text in SQL's PREPARE the quotes may change as long as it reads the same. Bulk executions, cursors, query attributes
//! and optional metadata are in none of the cases: such commands would have to be the same on both sides.

mod answers;
mod edits;
mod execute;
mod own;
mod select;
#[cfg(test)]
mod tests;
mod tokens;
mod transcript;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::tap::Log;
use answers::Allowed;
use edits::{Ids, Known, Told, from_digits, ids_in};
use execute::{Bound, Execution};
use own::{Place, is_own};
use select::{Selected, selected};
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
    /// What ruled tables and views call their ids.
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

    /// What is wrong with the sessions that the client's wire carried; connections of the proxy's own are not looked at.
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
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: Vec<u8>,
    pub(crate) server_id: u32,
    /// Parameters of the client's.
    params: u16,
    hidden: Vec<u16>,
    selected: Option<Selected>,
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

    /// What ids an execution was given; `None`: it differs by more.
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
    Selected(Selected),
    /// An execution; what was bound.
    Bound(Bound),
}

struct Walk<'a> {
    wire: &'a mut Wire,
    client: &'a Transcript,
    server: &'a Transcript,
    /// The next of the server's exchanges.
    at: usize,
    statements: BTreeMap<u32, Statement>,
    unknown: BTreeSet<u32>,
    own: Own,
}

/// What came of commands of the proxy's own since the last one of the client's that was sent.
#[derive(Debug, Default)]
struct Own {
    /// What the server said of user's variables.
    told: Vec<Told>,
    /// Ids that went into variables.
    set: Vec<u64>,
    /// One of them may be the answer to a command that was not sent.
    errors: Vec<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn new(wire: &'a mut Wire, client: &'a Transcript, server: &'a Transcript) -> Self {
        let (statements, unknown) = (BTreeMap::new(), BTreeSet::new());
        Walk { wire, client, server, at: 0, statements, unknown, own: Own::default() }
    }

    fn run(&mut self) -> Result<(), String> {
        for asked in &self.client.exchanges {
            self.exchange(asked)?;
            self.wire.compared += 1;
        }
        match self.server.exchanges.get(self.at) {
            Some(left) => Err(format!("nobody asked for {}", shown(left.command()))),
            None => Ok(()),
        }
    }

    fn exchange(&mut self, asked: &Exchange) -> Result<(), String> {
        while let Some(sent) = self.server.exchanges.get(self.at) {
            let known = Known { columns: self.wire.rules.columns, told: &self.own.told };
            if let Some(how) = self.sent(asked, sent, known) {
                self.at += 1;
                let ids = self.take_ids(asked, &how)?;
                self.own = Own::default();
                return self.answered(asked, sent, &how, &ids).map_err(|problem| {
                    format!(
                        "in the answer to {}, sent as {}: {problem}",
                        shown(asked.command()),
                        shown(sent.command())
                    )
                });
            }
            let statement = named(asked).and_then(|id| self.statements.get(&id));
            if !is_own(&Place { asked, statement, unknown: &self.unknown, known }, sent) {
                break;
            }
            self.at += 1;
            self.note_own(asked, sent);
        }
        let is_own_error = asked.error().is_some_and(|(code, text)| {
            OWN_ERRORS.iter().any(|(own, begins)| *own == code && text.starts_with(begins.as_bytes()))
        });
        if is_own_error && asked.answer.len() == 1 {
            return Ok(());
        }
        if let Some(told) = self.own.errors.iter().position(|error| asked.answer == [&**error]) {
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
        if asked.byte() != sent.byte() {
            return None;
        }
        let statement = named(asked).and_then(|id| self.statements.get(&id));
        let (theirs, ours) = (asked.text(), sent.text());
        match (asked.byte(), statement) {
            (command::QUERY, _) if asked.sent == sent.sent => Some(Sent::AsItIs),
            // The text may have been shown to the server before it was prepared: then the client does not know that one.
            (command::STMT_PREPARE, _) if asked.statement_id() != sent.statement_id() => None,
            (command::STMT_PREPARE, _) if sent.error().is_some() && asked.answer != sent.answer => None,
            (command::STMT_PREPARE, _) if theirs == ours => Some(Sent::AsItIs),
            (command::QUERY | command::STMT_PREPARE, _) => match selected(theirs, ours, known) {
                // It was shown to the server beforehand.
                Some(_) if asked.byte() == command::STMT_PREPARE && sent.error().is_some() => None,
                // Where the block was too small it is sent again, and the client has the answer to that.
                Some(_)
                    if asked.answer != sent.answer && sent.error().is_some_and(|(code, _)| code == 1690) =>
                {
                    None
                }
                Some(selected) => Some(Sent::Selected(selected)),
                None => ids_in(theirs, ours, known).map(Sent::WithIds),
            },
            (command::STMT_EXECUTE, Some(_))
                if asked.answer != sent.answer && sent.error().is_some_and(|(code, _)| code == 1690) =>
            {
                None
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
        let statement = named(asked).and_then(|id| self.statements.get(&id));
        let of_select = statement.and_then(|statement| statement.selected.as_ref());
        let ids = match (how, of_select) {
            (Sent::WithIds(ids), _) if ids.variables.len() != self.own.set.len() => {
                return Err(format!("{} reads other variables than were set", shown(asked.command())));
            }
            (Sent::WithIds(ids), _) => each(&[&ids.numbers[..], &self.own.set].concat()),
            (Sent::Selected(selected), _) if asked.byte() == command::QUERY => {
                vec![selected.block(&[]).ok_or("an INSERT ... SELECT without its block")?]
            }
            (Sent::AsItIs | Sent::Selected(_), _) => Vec::new(),
            (Sent::Bound(bound), Some(selected)) => {
                vec![selected.block(&bound.hidden).ok_or("an INSERT ... SELECT without its block")?]
            }
            (Sent::Bound(bound), None) => each(&[&bound.hidden[..], &bound.replaced].concat()),
        };
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
        ids: &[(u64, u64)],
    ) -> Result<(), String> {
        let statement = named(asked).and_then(|id| self.statements.get(&id));
        let is_ruled =
            asked.command() != sent.command() || statement.is_some_and(|statement| statement.is_changed);
        let allowed = Allowed { capabilities: self.client.capabilities, is_ruled, ids };
        if asked.byte() != command::STMT_PREPARE {
            if let Some(id) = named(asked) {
                self.note_use(id, asked);
            }
            return allowed.compare(asked.byte(), &asked.answer, &sent.answer);
        }
        let (hidden, selected) = match how {
            Sent::WithIds(ids) => (ids.hidden.clone(), None),
            Sent::Selected(selected) => (selected.hidden.clone(), Some(selected.clone())),
            Sent::AsItIs | Sent::Bound(_) => (Vec::new(), None),
        };
        allowed.compare_prepared(&asked.answer, &sent.answer, &hidden)?;
        if let Some(id) = asked.statement_id() {
            let head = &asked.answer[0];
            let params = u16::from_le_bytes([head[7], head[8]]);
            let text = asked.text().to_vec();
            let (is_changed, long) = (is_ruled, BTreeSet::new());
            let statement = Statement { text, server_id: id, params, hidden, selected, is_changed, long };
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
        self.own.told.extend(told(sent));
        self.own.set.extend(own::ids_set(sent));
        self.own.errors.extend(sent.error().and_then(|_| sent.answer.last().cloned()));
        let Some(id) = sent.statement_id().filter(|_| sent.byte() == command::STMT_PREPARE) else { return };
        let known = Known { columns: self.wire.rules.columns, told: &[] };
        let statement = named(asked).and_then(|id| self.statements.get_mut(&id));
        let Some(statement) = statement.filter(|_| asked.byte() == command::STMT_EXECUTE) else {
            self.unknown.insert(id);
            return;
        };
        let text = sent.text();
        let ids =
            if text == statement.text { Some(Ids::default()) } else { ids_in(&statement.text, text, known) };
        if let Some(ids) = ids {
            self.unknown.insert(std::mem::replace(&mut statement.server_id, id));
            (statement.hidden, statement.selected, statement.is_changed) =
                (ids.hidden, None, text != statement.text);
        }
    }
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
    // Behind its length.
    let (_, text) = row.get(2..)?.split_at_checked(match row.get(2)? {
        0xFC => 3,
        0xFD => 4,
        _ => 1,
    })?;
    // In UTF-16 there are zero bytes between.
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
    from_digits(&digits).map(Told::Text)
}
