//! Commands of the proxy's own on the session's connection, by the bytes they consist of. What is not named here must be
//! the client's.

use std::collections::BTreeSet;

use super::Statement;
use super::edits::{Known, Told, ids_in};
use super::select::selected;
use super::transcript::{Exchange, command, number};

/// What a command of the proxy's own stands in front of.
pub(crate) struct Place<'a> {
    pub(crate) asked: &'a Exchange,
    /// The client's statement that it names.
    pub(crate) statement: Option<&'a Statement>,
    /// Statements of the server's that the client knows nothing of, or no longer.
    pub(crate) unknown: &'a BTreeSet<u32>,
    pub(crate) known: Known<'a>,
}

struct Kind {
    /// For the reader, and for failures of the test of this table.
    name: &'static str,
    byte: u8,
    /// Of the text behind the command's byte: `#` is a number, `*` any text.
    form: &'static str,
    also: fn(&Place<'_>, &Exchange) -> bool,
}

/// ARCHITECTURE.md: "What is outstanding" (Own); docs/design: "INSERT ... SELECT", "Decisions".
const KINDS: [Kind; 22] = [
    Kind {
        name: "session tracking is switched on",
        byte: command::QUERY,
        form: "SET session_track_schema=ON, session_track_state_change=ON, session_track_system_variables=*",
        also: tracks,
    },
    Kind {
        name: "the session's state is read",
        byte: command::QUERY,
        form: "SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@session_track_state_change),HEX(@@session_track_schema),HEX(@@session_track_system_variables),HEX(CONVERT(DATABASE() USING utf8mb4))",
        also: anyway,
    },
    Kind {
        name: "LAST_INSERT_ID() is brought up to date, or put back",
        byte: command::QUERY,
        form: "SET last_insert_id=#",
        also: anyway,
    },
    Kind {
        name: "the same, behind statements of a packet that may have set it anew",
        byte: command::QUERY,
        form: "SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN(*),LAST_INSERT_ID(),#)AS UNSIGNED)",
        also: names_ids,
    },
    Kind {
        name: "whether a temporary table hides a name",
        byte: command::QUERY,
        form: "SHOW CREATE TABLE `*`.`*`",
        also: anyway,
    },
    Kind {
        name: "what a user's variable holds",
        byte: command::QUERY,
        form: "SELECT (*) IS NULL,IF(LENGTH(CONVERT(* USING utf8mb4))>1000000,'-',HEX(CONVERT(* USING utf8mb4)))",
        also: asks_for_a_part,
    },
    Kind {
        name: "what an expression with functions is, where EXECUTE IMMEDIATE evaluates it",
        byte: command::QUERY,
        form: "EXECUTE IMMEDIATE 'SELECT a IS NULL,IF(LENGTH(CONVERT(a USING utf8mb4))>#,''-'',HEX(CONVERT(a USING utf8mb4)))FROM(SELECT ? AS a)AS x' USING *",
        also: uses_a_part,
    },
    Kind {
        name: "ids for SQL's EXECUTE go into user's variables",
        byte: command::QUERY,
        form: "SET @`rowstamp.#`=#*",
        also: sets_ids_only,
    },
    Kind {
        name: "INSERT ... SELECT: how statements are logged",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT_WS(',',@@log_bin,@@sql_log_bin,@@binlog_format,LAST_INSERT_ID()))",
        also: anyway,
    },
    Kind {
        name: "INSERT ... SELECT: how far it counted",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT(LAST_INSERT_ID(),''))",
        also: anyway,
    },
    Kind {
        name: "INSERT ... SELECT: views among its tables",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT(COUNT(*),'')) FROM information_schema.views WHERE table_name IN ('*')",
        also: anyway,
    },
    Kind {
        name: "INSERT ... SELECT: rows are counted beforehand",
        byte: command::QUERY,
        form: "WITH `rowstamp q`(*) AS (*) SELECT HEX(CONCAT(COUNT(*),'')) FROM `rowstamp q`",
        also: counts_a_part,
    },
    Kind {
        name: "INSERT ... SELECT: its block was too small",
        byte: command::QUERY,
        form: "*",
        also: overran,
    },
    Kind { name: "the same, prepared", byte: command::STMT_EXECUTE, form: "*", also: overran_prepared },
    Kind {
        name: "whether the user may insert",
        byte: command::STMT_PREPARE,
        form: "INSERT INTO *.* (`*`) VALUES (NULL)",
        also: anyway,
    },
    Kind {
        name: "whether a text prepares, and what its query has",
        byte: command::STMT_PREPARE,
        form: "*",
        also: is_a_part,
    },
    Kind {
        name: "whether the rewritten query prepares",
        byte: command::STMT_PREPARE,
        form: "*",
        also: is_select,
    },
    Kind {
        name: "whether the text in another prepares",
        byte: command::STMT_PREPARE,
        form: "*",
        also: is_a_part_unquoted,
    },
    Kind {
        name: "the same, where a variable holds it",
        byte: command::STMT_PREPARE,
        form: "*",
        also: was_told,
    },
    Kind {
        name: "a statement is prepared again",
        byte: command::STMT_PREPARE,
        form: "*",
        also: is_statements_text,
    },
    Kind { name: "such statements are closed", byte: command::STMT_CLOSE, form: "*", also: names_unknown },
    Kind {
        name: "what was sent ahead is dropped",
        byte: command::STMT_RESET,
        form: "*",
        also: drops_long_data,
    },
];

/// Whether it is one of [`KINDS`].
pub(crate) fn is_own(place: &Place<'_>, sent: &Exchange) -> bool {
    let text = sent.text();
    let of_kind = |kind: &Kind| {
        kind.byte == sent.byte()
            && sent.sent.len() == 1
            && fits(kind.form.as_bytes(), text)
            && (kind.also)(place, sent)
    };
    let found = KINDS.iter().find(|kind| of_kind(kind));
    found.is_some_and(|kind| !kind.name.is_empty())
}

fn fits(form: &[u8], text: &[u8]) -> bool {
    match form {
        [] => text.is_empty(),
        [b'*'] => true,
        [b'*', rest @ ..] => (0..=text.len()).any(|at| fits(rest, &text[at..])),
        [b'#', rest @ ..] => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && fits(rest, &text[digits..])
        }
        [byte, rest @ ..] => text.strip_prefix(&[*byte]).is_some_and(|text| fits(rest, text)),
    }
}

fn anyway(_: &Place<'_>, _: &Exchange) -> bool {
    true
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

fn between<'a>(text: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    let rest = &text[memchr::memmem::find(text, before)? + before.len()..];
    Some(&rest[..memchr::memmem::rfind(rest, after)?])
}

/// What the client tracks stays; added is what is not among it.
fn tracks(_: &Place<'_>, sent: &Exchange) -> bool {
    const LIST: &str = "@@session_track_system_variables";
    let added = ["sql_mode", "character_set_client", "session_track_schema", "session_track_state_change"]
        .map(|name| format!("IF(FIND_IN_SET('{name}',REPLACE({LIST},' ','')),NULL,'{name}')"));
    let list = format!("IF({LIST}='*','*',CONCAT_WS(',',NULLIF({LIST},''),{}))", added.join(","));
    sent.command().ends_with(format!("session_track_system_variables={list}").as_bytes())
}

fn names_ids(_: &Place<'_>, sent: &Exchange) -> bool {
    let ids = between(sent.command(), b" IN(", b"),LAST_INSERT_ID(),");
    ids.is_some_and(|ids| ids.split(|byte| *byte == b',').all(|id| fits(b"#", id)))
}

fn asks_for_a_part(place: &Place<'_>, sent: &Exchange) -> bool {
    let expression = between(sent.command(), b"SELECT (", b") IS NULL,IF(");
    expression.is_some_and(|expression| contains(place.asked.command(), expression))
}

fn uses_a_part(place: &Place<'_>, sent: &Exchange) -> bool {
    let using = b")AS x' USING ";
    let at = memchr::memmem::find(sent.command(), using).map(|at| at + using.len());
    at.is_some_and(|at| contains(place.asked.command(), &sent.command()[at..]))
}

fn counts_a_part(place: &Place<'_>, sent: &Exchange) -> bool {
    let query = between(sent.command(), b") AS (", b") SELECT HEX");
    let same = |query: &[u8]| contains(place.asked.command(), query);
    let limited = |query: &[u8]| {
        let (head, tail) = String::from_utf8_lossy(query)
            .split_once(" LIMIT 18446744073709551615")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        Some(same((head + &tail).as_bytes()))
    };
    query.is_some_and(|query| same(query) || limited(query) == Some(true))
}

fn sets_ids_only(_: &Place<'_>, sent: &Exchange) -> bool {
    let text = &sent.command()[1 + b"SET ".len()..];
    text.split(|byte| *byte == b',').all(|one| fits(b"@`rowstamp.#`=#", one))
}

/// Ids that go into user's variables.
pub(crate) fn ids_set(sent: &Exchange) -> Vec<u64> {
    let sets = sent.command().strip_prefix(b"\x03SET @`rowstamp.").unwrap_or_default();
    let number =
        |one: &[u8]| std::str::from_utf8(one.rsplit(|byte| *byte == b'=').next()?).ok()?.parse().ok();
    sets.split(|byte| *byte == b',').filter_map(number).collect()
}

/// Error 1690 of our own making, which the client does not see.
fn is_overrun(place: &Place<'_>, sent: &Exchange) -> bool {
    let is_ours =
        sent.error().is_some_and(|(code, text)| code == 1690 && contains(text, b"18446744073709551615 +"));
    is_ours && place.asked.answer != sent.answer
}

fn overran(place: &Place<'_>, sent: &Exchange) -> bool {
    let form = || selected(place.asked.text(), sent.text(), place.known);
    is_overrun(place, sent) && place.asked.byte() == command::QUERY && form().is_some()
}

fn overran_prepared(place: &Place<'_>, sent: &Exchange) -> bool {
    is_overrun(place, sent)
        && place.statement.is_some_and(|statement| statement.bound(place.asked, sent).is_some())
}

fn is_a_part(place: &Place<'_>, sent: &Exchange) -> bool {
    let of_statement = || place.statement.is_some_and(|statement| contains(&statement.text, sent.text()));
    contains(place.asked.text(), sent.text()) || of_statement()
}

fn is_select(place: &Place<'_>, sent: &Exchange) -> bool {
    selected(place.asked.text(), sent.text(), place.known).is_some()
}

/// A text in quotes, which may double its own.
fn is_a_part_unquoted(place: &Place<'_>, sent: &Exchange) -> bool {
    let plain = |text: &[u8]| {
        text.iter().copied().filter(|byte| ![b'\'', b'"', b'\\'].contains(byte)).collect::<Vec<_>>()
    };
    contains(&plain(place.asked.command()), &plain(sent.text()))
}

fn was_told(place: &Place<'_>, sent: &Exchange) -> bool {
    place.known.told.iter().filter_map(Told::text).any(|told| contains(told, sent.text()))
}

fn is_statements_text(place: &Place<'_>, sent: &Exchange) -> bool {
    let text = sent.text();
    place.statement.is_some_and(|statement| {
        statement.text == text || ids_in(&statement.text, text, place.known).is_some()
    })
}

fn names_unknown(place: &Place<'_>, sent: &Exchange) -> bool {
    sent.command().len() == 5 && number(sent.command(), 1).is_some_and(|id| place.unknown.contains(&id))
}

fn drops_long_data(place: &Place<'_>, sent: &Exchange) -> bool {
    place.statement.is_some_and(|statement| {
        number(sent.command(), 1) == Some(statement.server_id) && !statement.long.is_empty()
    })
}

#[test]
fn own_commands_by_their_forms() {
    let check = |form: &str, text: &str, expect| {
        assert_eq!(fits(form.as_bytes(), text.as_bytes()), expect, "{form} {text}");
    };
    check("SET last_insert_id=#", "SET last_insert_id=17", true);
    check("SET last_insert_id=#", "SET last_insert_id=", false);
    check("SET last_insert_id=#", "SET last_insert_id=1, b=2", false);
    check("SHOW CREATE TABLE `*`.`*`", "SHOW CREATE TABLE `a`.`b`", true);
    check("SHOW CREATE TABLE `*`.`*`", "SHOW CREATE TABLE `a`", false);
}
