//! The verdict on a step: what its facts prove, what they show to be wrong, and what they leave open.

mod decoded;

use serde::Serialize;

use super::interleave::{Counting, is_even};
use crate::ids::sequence::SequenceSpec;
use crate::migrate::doubles::Doubles;
use crate::schema::{ServerConnection, Tally};

pub use decoded::{Decoded, Ticks};

/// How far the migration is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Done {
    /// The server's counter gives odd ids to every session; the rules are off.
    Interleaved,
    /// The rules are on; some clients write directly, some through the proxy.
    On,
    /// No client writes directly any more.
    Moved,
    /// The column has no AUTO_INCREMENT.
    Dropped,
    /// All clients write directly again; the rules are off.
    Back,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// A server, a table on a server, or a rule's tables on all of them.
    pub about: String,
    pub outcome: Outcome,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Proved,
    Finding,
    /// With these facts nobody can say.
    Open,
    /// Worth knowing.
    Note,
}

/// Sessions that were open when the increments were set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Old {
    /// Nobody said up to which number they are old.
    Unknown,
    /// The account sees only its own sessions.
    Unseen,
    Live(Vec<ServerConnection>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    pub counting: Counting,
    pub old: Old,
}

/// A ruled table on one server.
#[derive(Debug, Clone)]
pub struct TableFacts {
    pub is_on: bool,
    /// The server's counter; `None`: the column has no AUTO_INCREMENT.
    pub counter: Option<u64>,
    /// The highest id, read after the counter.
    pub highest: u64,
    /// A trigger that the account may see refuses INSERTs without an id.
    pub is_guarded: bool,
    /// Ids above it were looked at; `None`: all of them.
    pub since: Option<u64>,
    pub ids: Ids,
}

#[derive(Debug, Clone)]
pub enum Ids {
    Sequence {
        spec: SequenceSpec,
        tally: Tally,
        /// The generator's bound in the store, read after the ids; `None`: it cannot be read.
        bound: Option<u64>,
    },
    Timestamp(Decoded),
    /// The column is no integer.
    NotRead,
}

/// The sessions that began with the old increments. The server's own threads are left out, and so are those of `control`,
/// which inserts nothing.
pub fn old_sessions(all: Vec<ServerConnection>, up_to: u64, control: &str) -> Vec<ServerConnection> {
    let is_client = |session: &ServerConnection| {
        !["system user", "event_scheduler", control].contains(&session.user.as_str())
            && !session.command.starts_with("Binlog Dump")
            && session.command != "Daemon"
    };
    all.into_iter().filter(|session| session.id <= up_to && is_client(session)).collect()
}

/// Lines of one server or table.
struct Lines {
    about: String,
    lines: Vec<Line>,
}

impl Lines {
    fn of(about: &str) -> Lines {
        Lines { about: about.to_owned(), lines: Vec::new() }
    }

    fn push(&mut self, outcome: Outcome, text: impl Into<String>) {
        self.lines.push(Line { about: self.about.clone(), outcome, text: text.into() });
    }

    fn demand(&mut self, holds: bool, proved: impl Into<String>, wrong: impl Into<String>) {
        if holds {
            self.push(Outcome::Proved, proved);
        } else {
            self.push(Outcome::Finding, wrong);
        }
    }
}

pub fn server(about: &str, facts: &ServerFacts, done: Option<Done>) -> Vec<Line> {
    let mut lines = Lines::of(about);
    let Some(Done::Interleaved | Done::On) = done else { return lines.lines };
    let increments = facts.counting.increments;
    let (increment, offset) = (increments.increment, increments.offset);
    let says = format!("auto_increment_increment is {increment}, auto_increment_offset {offset}");
    let odd = format!("{says}: new sessions get odd ids");
    let not = format!(
        "{says}: new sessions get even ids too; run the output of `rowstamp migrate sql --step interleave`"
    );
    lines.demand(increments.are_odd(), odd, not);
    if facts.counting.is_galeras {
        let text = "wsrep_auto_increment_control is ON: Galera will set the increments again; SET GLOBAL wsrep_auto_increment_control = OFF on every node";
        lines.push(Outcome::Finding, text);
    }
    match &facts.old {
        Old::Live(old) => {
            let names: Vec<_> = old.iter().take(10).map(|one| format!("{} ({}@{})", one.id, one.user, one.host)).collect();
            let wrong = format!(
                "{} began before the increments were set, and can get even ids: {}; let each session reconnect, or KILL it",
                counted(old.len() as u64, "session"),
                names.join(", ")
            );
            lines.demand(old.is_empty(), "no session began before the increments were set", wrong);
        }
        Old::Unseen => lines.push(
            Outcome::Open,
            "the control account cannot see other sessions: GRANT PROCESS ON *.* to the account, or look into SHOW PROCESSLIST yourself",
        ),
        Old::Unknown if done == Some(Done::Interleaved) => lines.push(
            Outcome::Open,
            "old sessions may still live: write --sessions-up-to with the number that step interleave printed",
        ),
        Old::Unknown => {}
    }
    lines.lines
}

pub fn table(about: &str, facts: &TableFacts, done: Option<Done>) -> Vec<Line> {
    let mut lines = Lines::of(about);
    if let Some(done) = done {
        rule(&mut lines, facts, done);
        counter(&mut lines, facts, done);
        guards(&mut lines, facts, done);
    }
    match &facts.ids {
        Ids::Sequence { spec, tally, bound } => sequence(&mut lines, facts, (spec, tally, *bound), done),
        Ids::Timestamp(decoded) => decoded.lines(&mut lines, facts.is_on),
        Ids::NotRead => lines.push(Outcome::Open, "the ids are no integers, so verify does not compare them"),
    }
    lines.lines
}

fn rule(lines: &mut Lines, facts: &TableFacts, done: Done) {
    let wants_on = !matches!(done, Done::Interleaved | Done::Back);
    match (facts.is_on, wants_on) {
        (true, true) => lines.push(Outcome::Proved, "the rule is on"),
        (false, false) => lines.push(Outcome::Proved, "the rule is off"),
        (false, true) => lines.push(Outcome::Finding, "the rule is off: remove mode = \"off\""),
        (true, false) if done == Done::Back => {
            lines.push(Outcome::Finding, "the rule is still on: write mode = \"off\"");
        }
        (true, false) => lines.push(
            Outcome::Finding,
            "the rule is on already, but a session with the old increment can get even ids: write mode = \"off\" until no such session lives",
        ),
    }
    if let Ids::Sequence { spec, .. } = &facts.ids
        && matches!(done, Done::Interleaved | Done::On)
    {
        let (step, offset) = (spec.step, spec.offset);
        let wrong = format!(
            "the generator has step = {step}, offset = {offset}, and issues odd ids too: write step = 2, offset = 0"
        );
        lines.demand(is_even(spec), "the generator issues even ids only", wrong);
    }
}

fn counter(lines: &mut Lines, facts: &TableFacts, done: Done) {
    match (done, facts.counter) {
        (Done::Dropped, counter) => lines.demand(
            counter.is_none(),
            "the column has no AUTO_INCREMENT: the server makes no ids",
            "the column still has AUTO_INCREMENT: run the output of `rowstamp migrate sql --step drop`",
        ),
        (Done::Back, counter) => lines.demand(
            counter.is_some(),
            "the column has AUTO_INCREMENT",
            "the column has no AUTO_INCREMENT: run the output of `rowstamp migrate sql --step drop --back`",
        ),
        (Done::Moved, Some(next)) => {
            // Explicit ids carry it along: to the next that the inserting session would be given.
            let above = next.saturating_sub(1).saturating_sub(facts.highest);
            if above <= 2 {
                let text = format!(
                    "the server's counter is at {next}, right above the highest id: the server has given no id that is not in the table"
                );
                lines.push(Outcome::Proved, text);
            } else {
                let text = format!(
                    "the server's counter is at {next}, {above} above the highest id {}: rows were deleted or rolled back, or a \
                     direct INSERT failed",
                    facts.highest
                );
                lines.push(Outcome::Note, text);
            }
        }
        _ => {}
    }
}

fn guards(lines: &mut Lines, facts: &TableFacts, done: Done) {
    match (done, facts.is_guarded) {
        (Done::Moved | Done::Dropped, true) => {
            lines.push(Outcome::Proved, "the guard trigger refuses INSERTs without an id");
        }
        (Done::Moved | Done::Dropped, false) => lines.push(
            Outcome::Note,
            "the control account sees no guard trigger (it needs the TRIGGER right): rowstamp migrate sql --step guard",
        ),
        (Done::Back | Done::Interleaved | Done::On, true) => lines.push(
            Outcome::Finding,
            "the guard trigger refuses direct INSERTs: rowstamp migrate sql --step guard --back",
        ),
        _ => {}
    }
}

fn sequence(
    lines: &mut Lines,
    facts: &TableFacts,
    (spec, tally, bound): (&SequenceSpec, &Tally, Option<u64>),
    done: Option<Done>,
) {
    let class = format!("id % {} = {}", spec.step, spec.offset % spec.step.get());
    let where_ = facts.since.map_or_else(String::new, |since| format!(" above {since}"));
    let ours = counted(tally.of_class, "row");
    if facts.is_on {
        match (tally.highest_of_class, bound) {
            (None, _) => {}
            (Some(highest), Some(bound)) => lines.demand(
                highest < bound,
                format!("{ours}{where_} with {class}, all below the generator's committed bound {bound}"),
                format!(
                    "id {highest} is not below the generator's committed bound {bound}, so another writer made it; raise the \
                     bound with `rowstamp migrate seed`, and look for the writer"
                ),
            ),
            (Some(_), None) => {
                lines.push(
                    Outcome::Open,
                    format!("{ours}{where_} with {class}: the store cannot be read, so the generator's bound is not known"),
                );
            }
        }
    }
    let others = tally.rows.saturating_sub(tally.of_class);
    let shown = tally.others.map_or_else(String::new, |(first, last)| format!(" ({first} to {last})"));
    let is_whole = spec.step.get() == 1;
    match done {
        Some(Done::Moved | Done::Dropped) if is_whole => lines.push(
            Outcome::Open,
            "with step = 1 verify cannot tell ids of the generator from ids of the counter: only the other lines are proved",
        ),
        Some(Done::Moved | Done::Dropped) if facts.since.is_none() => lines.push(
            Outcome::Open,
            "older rows have ids of any writer: write --since-id with the highest id of the moment when the last direct writer \
             had moved",
        ),
        // An id of the counter's would lie below what is looked at.
        Some(Done::Moved) if facts.counter.is_some_and(|next| Some(next) <= facts.since) => lines.push(
            Outcome::Finding,
            format!(
                "the server's counter is at {}, so rows{where_} do not show the ids that it gives; write --since-id with the \
                 highest id of this table",
                facts.counter.unwrap_or(0)
            ),
        ),
        Some(Done::Moved | Done::Dropped) if tally.rows == 0 => lines.push(
            Outcome::Proved,
            format!("no row has an id{where_}, where the server's counter would continue: the counter has given no id since"),
        ),
        Some(Done::Moved | Done::Dropped) => lines.demand(
            others == 0,
            format!("{} of the generator ({class})", all_have_ids(tally.rows, &where_)),
            format!("{} of other writers{shown}: a client writes past the proxy", have_ids(others, &where_)),
        ),
        Some(Done::Back) if facts.since.is_none() || is_whole => lines.push(
            Outcome::Open,
            "ids may still come from the generator: to see this, verify needs step = 2 and --since-id",
        ),
        Some(Done::Back) if tally.rows == 0 => {
            lines.push(Outcome::Open, format!("no row has an id{where_} yet: run verify again when a row has one"));
        }
        Some(Done::Back) => lines.demand(
            tally.of_class == 0,
            format!("{} of the server's counter", all_have_ids(tally.rows, &where_)),
            format!(
                "{} of the generator ({class}): a client writes through a proxy whose rule is on",
                have_ids(tally.of_class, &where_)
            ),
        ),
        Some(Done::On | Done::Interleaved) | None if others > 0 => {
            lines.push(Outcome::Note, format!("{} of the server's counter{shown}", have_ids(others, &where_)));
        }
        _ => {}
    }
}

/// A rule without a table where one is looked for.
pub fn absent(about: &str, is_elsewhere: bool) -> Line {
    let why = "the control account sees no such table, so verify proves nothing of the table";
    let (outcome, more) = if is_elsewhere {
        (
            Outcome::Finding,
            "other servers have the table: GRANT SELECT on it to the account, or leave the server out",
        )
    } else {
        (Outcome::Open, "create the table, GRANT SELECT on it to the account, or remove its rule")
    };
    Line { about: about.to_owned(), outcome, text: format!("{why}; {more}") }
}

/// The line for a rule with one table, whose column has a unique key.
pub fn is_unique(about: &str) -> Line {
    let text = "no id is double: the column has a unique key".to_owned();
    Line { about: about.to_owned(), outcome: Outcome::Proved, text }
}

/// The line for columns that hold no integers.
pub fn not_compared(about: &str) -> Line {
    let text = "an id may be double: verify does not compare ids that are no integers".to_owned();
    Line { about: about.to_owned(), outcome: Outcome::Open, text }
}

/// The line for all tables of a rule. `sources` names them.
pub fn doubles(about: &str, found: &Doubles, sources: &[String]) -> Line {
    if found.ids == 0 {
        let (ids, tables) = (counted(found.compared, "id"), counted(sources.len() as u64, "table"));
        let text = format!("{ids} of {tables} compared: none is double");
        return Line { about: about.to_owned(), outcome: Outcome::Proved, text };
    }
    let name = |nth: &usize| sources.get(*nth).map_or("", String::as_str);
    let one = |double: &super::doubles::Double| {
        let mut places: Vec<_> = double.sources.iter().map(name).collect();
        places.dedup();
        format!("{} in {}", double.id, places.join(" and "))
    };
    let first: Vec<_> = found.first.iter().map(one).collect();
    let text = format!("{} came twice: {}", counted(found.ids, "id"), first.join(", "));
    Line { about: about.to_owned(), outcome: Outcome::Finding, text }
}

/// "1 row above 9 has an id", "2 rows above 9 have ids"
fn have_ids(rows: u64, where_: &str) -> String {
    if rows == 1 { format!("1 row{where_} has an id") } else { format!("{rows} rows{where_} have ids") }
}

fn all_have_ids(rows: u64, where_: &str) -> String {
    if rows == 1 {
        format!("the only row{where_} has an id")
    } else {
        format!("all {rows} rows{where_} have ids")
    }
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests;
