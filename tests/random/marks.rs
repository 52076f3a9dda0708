//! Statements that may be refused: the rows of docs/refused.md that the grammar draws. And differences in
//! which rows are stored.

use crate::differential::run::Record;
use crate::differential::tally::Combination;
use crate::random::session::Drawn;
use crate::support::Kind;

/// A production of which a statement may be refused, with a part of the message.
pub(crate) struct Mark {
    pub(crate) group: &'static str,
    pub(crate) production: &'static str,
    pub(crate) message: &'static str,
}

/// All of a group but what leaves the clause out.
const ANY: &str = "any but none";

/// One of several.
const REPLACE: &str = "replace|replace_low_priority|replace_delayed";

const fn mark(group: &'static str, production: &'static str, message: &'static str) -> Mark {
    Mark { group, production, message }
}

pub(crate) const MARKS: &[Mark] = &[
    mark("source", "select", "INSERT ... SELECT"),
    mark("source", "table", "INSERT ... SELECT"),
    mark("source", "select", "the query"),
    mark("source", "table", "the query"),
    mark("statement", "analyze", "ANALYZE"),
    mark("statement", "explain", "without AUTO_INCREMENT the server cannot explain"),
    mark("statement", "load_data", "LOAD"),
    mark("id style", "expression", "an expression"),
    mark("id style", "undecided", "an expression"),
    mark("table", "tstr", "does not show whether it is NULL or zero"),
    mark("on duplicate key", ANY, "ON DUPLICATE KEY UPDATE"),
    mark("alias", ANY, "a row without values has an alias"),
];

/// Marks that so few statements meet that a long run may have none.
const RARE: &[Mark] = &[mark("source", "select", "an empty column list in front of a query")];

/// A declared difference (docs/differences.md) in which rows are stored: no statement with all of these is run.
pub(crate) struct Apart {
    pub(crate) name: &'static str,
    servers: &'static [Kind],
    productions: &'static [(&'static str, &'static str)],
}

pub(crate) const APART: &[Apart] = &[
    Apart {
        name: "REPLACE of generated and of existing ids, which MariaDB refuses",
        servers: &[Kind::MariaDb],
        productions: &[("verb", REPLACE), ("id style", "mixed|bound|bound_mixed")],
    },
    Apart {
        name: "INSERT DELAYED ... SELECT, of which MySQL warns in each statement that it becomes",
        servers: &[Kind::MySql9],
        productions: &[("verb", "insert_delayed|replace_delayed"), ("source", "select|table")],
    },
    Apart {
        name: "INSERT DELAYED of an expression as id, the same",
        servers: &[Kind::MySql9],
        productions: &[("verb", "insert_delayed|replace_delayed"), ("id style", "expression|undecided")],
    },
    Apart {
        name: "INSERT DELAYED of an expression as id with ODKU, which MariaDB runs and does not prepare",
        servers: &[Kind::MariaDb],
        productions: &[
            ("verb", "insert_delayed|replace_delayed"),
            ("on duplicate key", ANY),
            ("id style", "expression|undecided"),
        ],
    },
    Apart {
        name: "ODKU of many generated and explicit ids, some of which MariaDB gives to several rows",
        servers: &[Kind::MariaDb],
        productions: &[
            ("rows", "to_fifty"),
            ("on duplicate key", ANY),
            ("id style", "mixed|bound|bound_mixed"),
        ],
    },
];

/// Which of them a statement may meet.
pub(crate) fn apart(server: Kind, drawn: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let has = |(group, name): &(&str, &str)| drawn.iter().any(|one| matches(*one, group, name));
    let met = |apart: &&Apart| apart.servers.contains(&server) && apart.productions.iter().all(has);
    APART.iter().find(met).map(|apart| apart.name)
}

fn matches((group, name): (&str, &str), of: &str, production: &str) -> bool {
    group == of && (production.split('|').any(|one| one == name) || (production == ANY && name != "none"))
}

/// Refusals that no production of the statement accounts for.
pub(crate) fn unexpected_refusals(drawn: &Drawn, proxied: &Record, _here: Combination) -> Vec<String> {
    let mut complaints = Vec::new();
    for (step, message) in &proxied.refusals {
        let statement = proxied.facts.iter().find(|fact| fact.step == *step).map_or(0, |fact| fact.statement);
        if mark_of(drawn, statement, message).is_none() {
            complaints
                .push(format!("step {step} refused: refused, and no production is marked for it: {message}"));
        }
    }
    complaints
}

/// The mark that accounts for a refusal, by its place in `MARKS`. The rare ones come after them.
pub(crate) fn mark_of(drawn: &Drawn, statement: usize, message: &str) -> Option<usize> {
    MARKS.iter().chain(RARE).position(|mark| {
        message.contains(mark.message)
            && drawn.productions_of(statement).any(|one| matches(one, mark.group, mark.production))
    })
}
