//! Commands of the proxy's own on the session's connection, by the bytes they consist of. What is not named here must be
//! the client's.

use std::collections::BTreeSet;

use super::Statement;
use super::edits::{Known, Told, ids_in};
use super::load;
use super::stage::{fills, stores};
use super::transcript::{Exchange, command, number};

/// The client's command that a command of the proxy's own comes before.
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
    /// The form of the text after the command's byte: `#` is a number, `*` any text.
    form: &'static str,
    also: fn(&Place<'_>, &Exchange) -> bool,
}

/// ARCHITECTURE.md: "What is outstanding" (Own); docs/design: "INSERT ... SELECT", "Decisions".
const KINDS: [Kind; 50] = [
    Kind {
        name: "session tracking is switched on",
        byte: command::QUERY,
        form: "SET session_track_schema=ON, session_track_state_change=ON, session_track_system_variables=*",
        also: tracks,
    },
    Kind {
        name: "the session's state is read",
        byte: command::QUERY,
        form: "SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@collation_connection),HEX(IFNULL(@@character_set_results,'')),HEX(@@session_track_state_change),HEX(@@session_track_schema),HEX(IFNULL(@@session_track_system_variables,'')),HEX(@@insert_id),HEX(CONVERT(IFNULL(DATABASE(),'') USING utf8mb4)) LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "a prepared statement is prepared under what it meant then",
        byte: command::QUERY,
        form: "SET *",
        also: sets_settings,
    },
    Kind { name: "the same", byte: command::QUERY, form: "USE `*`", also: anyway },
    Kind {
        name: "whether the client has set the id that the server generates next",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT_WS(',',@@insert_id,@@auto_increment_increment,@@auto_increment_offset,LAST_INSERT_ID())) LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "which row ON DUPLICATE KEY UPDATE has updated, where a trigger made the server forget it",
        byte: command::QUERY,
        form: "SELECT HEX(LAST_INSERT_ID()) LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "that id is taken from MariaDB",
        byte: command::QUERY,
        form: "SET insert_id=#",
        also: anyway,
    },
    Kind {
        name: "that id is taken from MySQL",
        byte: command::QUERY,
        form: "CREATE TEMPORARY TABLE `*`.`rowstamp insert_id` (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) SELECT 1 AS used",
        also: anyway,
    },
    Kind {
        name: "the same",
        byte: command::QUERY,
        form: "DROP TEMPORARY TABLE `*`.`rowstamp insert_id`",
        also: anyway,
    },
    Kind {
        name: "LAST_INSERT_ID() is brought up to date, or put back",
        byte: command::QUERY,
        form: "SET last_insert_id=#",
        also: anyway,
    },
    Kind {
        name: "the same, behind statements of a packet that may have set it again",
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
        form: "SELECT (*) IS NULL,IF(LENGTH(CONVERT(* USING utf8mb4))>1000000,'-',HEX(CONVERT(* USING utf8mb4))) LIMIT 1",
        also: asks_for_a_part,
    },
    Kind {
        name: "what an expression with functions is, where EXECUTE IMMEDIATE evaluates it",
        byte: command::QUERY,
        form: "EXECUTE IMMEDIATE 'SELECT a IS NULL,IF(LENGTH(CONVERT(a USING utf8mb4))>#,''-'',HEX(CONVERT(a USING utf8mb4)))FROM(SELECT ? AS a)AS x LIMIT 1' USING *",
        also: uses_a_part,
    },
    Kind {
        name: "ids for SQL's EXECUTE go into user's variables",
        byte: command::QUERY,
        form: "SET @`rowstamp.#`=#*",
        also: sets_ids_only,
    },
    Kind {
        name: "a stage: how statements are logged, and numbers counted",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT_WS(',',@@log_bin,@@sql_log_bin,@@binlog_format,@@sql_mode LIKE '%NO_ZERO_DATE%',@@auto_increment_increment,LAST_INSERT_ID())) LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "a stage is made",
        byte: command::QUERY,
        form: "CREATE TEMPORARY TABLE `*`.`rowstamp stage` (`rowstamp nr` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) \
               ENGINE=InnoDB SELECT * FROM (SELECT 1 AS `rowstamp 1`) AS `rowstamp 2` LEFT JOIN * ON FALSE LIMIT 0",
        also: anyway,
    },
    Kind {
        name: "the same, with the NOT NULL of the table's columns",
        byte: command::QUERY,
        form: "CREATE TEMPORARY TABLE `*`.`rowstamp stage` (`rowstamp nr` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) \
               ENGINE=InnoDB SELECT * FROM * LIMIT 0",
        also: anyway,
    },
    Kind {
        name: "the same, of a LOAD that fills no column",
        byte: command::QUERY,
        form: "CREATE TEMPORARY TABLE `*`.`rowstamp stage` (`rowstamp nr` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) \
               ENGINE=InnoDB",
        also: is_load,
    },
    Kind {
        name: "the same, of a table that is too wide for InnoDB",
        byte: command::QUERY,
        form: "CREATE TEMPORARY TABLE `*`.`rowstamp stage` (`rowstamp nr` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) \
               ENGINE=MyISAM SELECT *",
        also: anyway,
    },
    Kind {
        name: "a stage is made, whatever defaults the table has",
        byte: command::QUERY,
        form: "SET @`rowstamp sql_mode`=*",
        also: anyway,
    },
    Kind { name: "the same", byte: command::QUERY, form: "SET sql_mode=@`rowstamp sql_mode`", also: anyway },
    Kind { name: "the same", byte: command::QUERY, form: "SET sql_mode=''", also: anyway },
    Kind {
        name: "why a stage cannot be made",
        byte: command::QUERY,
        form: "* SELECT NULL* FROM (SELECT 1 AS `rowstamp 1`) AS `rowstamp 2` WHERE FALSE",
        also: anyway,
    },
    Kind { name: "a stage is filled", byte: command::QUERY, form: "*", also: fills_stage },
    Kind {
        name: "the same, by SQL's PREPARE",
        byte: command::QUERY,
        form: "PREPARE `rowstamp fill` FROM '*'",
        also: anyway,
    },
    Kind {
        name: "the same, by SQL's EXECUTE",
        byte: command::QUERY,
        form: "EXECUTE `rowstamp fill`*",
        also: anyway,
    },
    Kind {
        name: "what filled a stage goes",
        byte: command::QUERY,
        form: "DEALLOCATE PREPARE `rowstamp fill`",
        also: anyway,
    },
    Kind { name: "what that was warned of", byte: command::QUERY, form: "SHOW WARNINGS", also: anyway },
    Kind {
        name: "how many zero dates it has",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT(0+COUNT(*))) FROM `*`.`rowstamp stage` LIMIT 1",
        also: anyway,
    },
    Kind { name: "a LOAD fills one", byte: command::QUERY, form: "*", also: loads },
    Kind { name: "the same, prepared", byte: command::STMT_PREPARE, form: "*", also: fills_stage },
    Kind { name: "the same, executed", byte: command::STMT_EXECUTE, form: "*", also: executes_unknown },
    Kind {
        name: "which ids a stage has",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT_WS(',',MIN(`rowstamp nr`),COUNT(IF(*,1,NULL)),MAX(IF(*,NULL,*)))) FROM `*`.`rowstamp stage` LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "the id that the last row brought",
        byte: command::QUERY,
        form: "SELECT HEX(IF(*,'-',*)) FROM `*`.`rowstamp stage` ORDER BY `rowstamp nr` DESC LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "the same of a LOAD that brings none",
        byte: command::QUERY,
        form: "SELECT HEX(CONCAT_WS(',',MIN(`rowstamp nr`),COUNT(*))) FROM `*`.`rowstamp stage` LIMIT 1",
        also: is_load,
    },
    Kind { name: "a stage is stored, prepared", byte: command::STMT_PREPARE, form: "*", also: stores_stage },
    Kind {
        name: "a stage goes",
        byte: command::QUERY,
        form: "DROP TEMPORARY TABLE `*`.`rowstamp stage`",
        also: anyway,
    },
    Kind {
        name: "whether the session has locked tables",
        byte: command::STMT_PREPARE,
        form: "SELECT 1 FROM `*`.`*` AS `rowstamp lock` LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "the highest id of a table that it has locked",
        byte: command::QUERY,
        form: "SELECT CAST(CAST(CEILING(MAX(`*`)) AS DECIMAL(65)) AS CHAR) FROM `*`.`*`* LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "the highest id of such a table, where ids are texts",
        byte: command::QUERY,
        form: "SELECT CAST(MAX(CAST(`*` AS DECIMAL(65))) AS CHAR) FROM `*`.`*` WHERE * LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "the smallest of a statement's ids in such a table",
        byte: command::QUERY,
        form: "SELECT CAST(*MIN(*) AS CHAR) FROM `*`.`*` WHERE * LIMIT 1",
        also: anyway,
    },
    Kind {
        name: "whether the user may insert",
        byte: command::STMT_PREPARE,
        form: "INSERT INTO *.* (`*`) VALUES (NULL)",
        also: anyway,
    },
    Kind {
        name: "whether the user may update the id",
        byte: command::STMT_PREPARE,
        form: "INSERT INTO *.* (`*`) VALUES (NULL) ON DUPLICATE KEY UPDATE `*`=LAST_INSERT_ID(`*`)",
        also: anyway,
    },
    Kind {
        name: "whether a text prepares, and what its query has",
        byte: command::STMT_PREPARE,
        form: "*",
        also: is_a_part,
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

/// True if `sent` is one of [`KINDS`].
pub(crate) fn is_own(place: &Place<'_>, sent: &Exchange) -> bool {
    let text = sent.text();
    let of_kind = |kind: &Kind| {
        kind.byte == sent.byte()
            // Or with the client's file.
            && (sent.sent.len() == 1 || loads(place, sent))
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

fn sets_settings(_: &Place<'_>, sent: &Exchange) -> bool {
    const NAMES: &str = "NAMES '*' COLLATE '*',character_set_results=*";
    const OTHERS: &str = "character_set_client='*',collation_connection='*'";
    let of_charset = ["", NAMES, OTHERS, "collation_connection='*'", "character_set_client='*'"];
    of_charset.iter().any(|set| {
        let with_mode = format!("SET sql_mode='*'{}{set}", if set.is_empty() { "" } else { "," });
        fits(format!("SET {set}").as_bytes(), sent.text()) || fits(with_mode.as_bytes(), sent.text())
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

fn between<'a>(text: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    let rest = &text[memchr::memmem::find(text, before)? + before.len()..];
    Some(&rest[..memchr::memmem::rfind(rest, after)?])
}

/// True if the variables that the client tracks stay, and only missing ones are added.
fn tracks(_: &Place<'_>, sent: &Exchange) -> bool {
    const LIST: &str = "@@session_track_system_variables";
    let added = [
        "sql_mode",
        "character_set_client",
        "character_set_connection",
        "character_set_results",
        "collation_connection",
        "session_track_schema",
        "session_track_state_change",
    ]
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
    let using = b")AS x LIMIT 1' USING ";
    let at = memchr::memmem::find(sent.command(), using).map(|at| at + using.len());
    at.is_some_and(|at| contains(place.asked.command(), &sent.command()[at..]))
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

/// `insert_id` and `auto_increment_increment`, as the server has told them.
pub(crate) fn id_said(sent: &Exchange) -> Option<(u64, u64)> {
    sent.text().strip_prefix(b"SELECT HEX(CONCAT_WS(',',@@insert_id,")?;
    let digits = sent.answer.iter().filter_map(|packet| std::str::from_utf8(packet.get(1..)?).ok());
    let is_row = |text: &&str| text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let row = digits.rev().find(is_row)?;
    let bytes =
        row.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let told = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    let mut numbers = told.split(',').map(|number| number.parse().ok());
    let (id, increment) = (numbers.next()??, numbers.next()??);
    (id > 0).then_some((id, increment))
}

fn is_a_part(place: &Place<'_>, sent: &Exchange) -> bool {
    let of_statement = || place.statement.is_some_and(|statement| contains(&statement.text, sent.text()));
    contains(place.asked.text(), sent.text()) || of_statement()
}

/// The text that the client's command runs.
pub(crate) fn ran<'a>(asked: &'a Exchange, statement: Option<&'a Statement>) -> &'a [u8] {
    if asked.byte() == command::STMT_EXECUTE {
        return statement.map_or(&[], |statement| &statement.text);
    }
    asked.text()
}

fn fills_stage(place: &Place<'_>, sent: &Exchange) -> bool {
    fills(ran(place.asked, place.statement), sent.text())
}

fn is_load(place: &Place<'_>, _: &Exchange) -> bool {
    load::is_load(ran(place.asked, place.statement))
}

fn loads(place: &Place<'_>, sent: &Exchange) -> bool {
    load::fills(ran(place.asked, place.statement), place.asked, sent)
}

fn stores_stage(place: &Place<'_>, sent: &Exchange) -> bool {
    place.asked.byte() == command::STMT_EXECUTE
        && stores(ran(place.asked, place.statement), sent.text()).is_some()
}

/// True if `sent` fills a stage.
pub(crate) fn is_fill(place: &Place<'_>, sent: &Exchange) -> bool {
    match sent.byte() {
        command::QUERY if sent.text().starts_with(b"EXECUTE `rowstamp fill`") => true,
        command::QUERY => fills_stage(place, sent) || loads(place, sent),
        command::STMT_EXECUTE => executes_unknown(place, sent),
        _ => false,
    }
}

fn executes_unknown(place: &Place<'_>, sent: &Exchange) -> bool {
    number(sent.command(), 1).is_some_and(|id| place.unknown.contains(&id))
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

/// The client's `sql_select_limit` may be 0.
#[test]
fn every_question_has_its_own_limit() {
    let unlimited =
        KINDS.iter().filter(|kind| kind.form.starts_with("SELECT") && !kind.form.ends_with(" LIMIT 1"));
    let names: Vec<_> = unlimited.map(|kind| kind.name).collect();
    assert!(names.is_empty(), "{names:?}");
}
