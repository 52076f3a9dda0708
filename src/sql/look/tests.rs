use proptest::prelude::*;

use super::{
    Executed, Glance, LooksBack, Shown, begins_with, ends_transaction, executed, glance, has_whole_word,
    is_only_comments, may_execute_name, may_see_tracking, past_comments, shows_warnings,
};
use crate::sql::dialect::Dialect;

const ANY: Dialect = Dialect::MARIADB;

#[test]
fn comments_alone_are_no_statement() {
    for (text, expect) in [
        ("# prepare\n\t-- execute immediate @a\n--\n\n", true),
        ("", true),
        ("/* a */ # b", true),
        ("/*!99999 SELECT 1 */", true),
        ("/*!50000 SELECT 1 */", false),
        ("# a\nSELECT 1", false),
        ("--1", false),
        ("/* a", false),
        ("; # a", false),
    ] {
        assert_eq!(is_only_comments(text.as_bytes(), ANY), expect, "{text}");
    }
}

#[test]
fn a_whole_word_is_no_part_of_a_name() {
    for (text, expect) in [
        ("call p()", true),
        ("; CALL`p`()", true),
        ("/*!50000Call p()*/", true),
        ("\u{a0}call\u{a0}p()", true),
        ("callers", false),
        ("recall call1 _call call_ $call call$", false),
        ("recall call", true),
        ("", false),
    ] {
        assert_eq!(has_whole_word(text.as_bytes(), b"call"), expect, "{text}");
    }
}

#[test]
fn execute_may_name_a_statement() {
    for (text, expect) in [
        ("EXECUTE s", true),
        ("execute  immediate 'a'", false),
        ("BEGIN EXECUTE IMMEDIATE 'a'; EXECUTE s; END", true),
        ("EXECUTE /**/ IMMEDIATE 'a'", true),
        ("SELECT 1", false),
    ] {
        assert_eq!(may_execute_name(text.as_bytes()), expect, "{text}");
    }
}

#[test]
fn texts_that_show_variables_may_see_tracking() {
    let check = |text: &str, expect| assert_eq!(may_see_tracking(text.as_bytes()), expect, "{text}");
    check("SELECT @@session_track_schema", true);
    check("set SESSION_TRACK_state_change=1", true);
    check("Show Session VARIABLES like 'a%'", true);
    check("select * from performance_schema.Variables_by_thread", true);
    check("select variable from t", false);
    check("select a from track", false);
}

/// Harmless: with its first word.
#[track_caller]
fn check(text: &str, is_complete: bool, multi_statements: bool, expect: Result<&str, Glance<'_>>) {
    let expect = expect.map_or_else(|glance| glance, |word| Glance::Harmless(word.as_bytes()));
    assert_eq!(glance(text.as_bytes(), ANY, is_complete, multi_statements), expect, "{text}");
}

#[test]
fn the_first_word_tells_what_is_harmless() {
    const READ: Result<&str, Glance<'_>> = Err(Glance::Read);
    for (text, multi_statements, expect) in [
        ("SELECT 1", false, Ok("SELECT")),
        ("  /* hint; */ select 1", true, Ok("select")),
        ("-- x\n# y\n update t set a=1", false, Ok("update")),
        ("/*!50000 SELECT */ 1", false, Ok("SELECT")),
        ("COMMIT", true, Ok("COMMIT")),
        ("select_x", false, READ),
        ("select1", false, READ),
        ("INSERT INTO t VALUES (1)", false, READ),
        ("/*!50000 INSERT */ INTO t VALUES(1)", false, READ),
        ("/*M! INSERT */ INTO t VALUES(1)", false, READ),
        ("SET sql_mode=''", false, READ),
        ("(SELECT 1)", false, READ),
        ("", false, READ),
        ("--1", false, READ),
        ("-- a\0 SELECT 1\nSELECT 1", false, READ),
        ("SELECT 1; INSERT INTO t VALUES (1)", true, READ),
        ("SELECT 1; INSERT INTO t VALUES (1)", false, Ok("SELECT")),
        ("SELECT ';'", true, READ),
    ] {
        check(text, true, multi_statements, expect);
    }
}

#[test]
fn a_beginning_may_be_unclear() {
    for (text, multi_statements, expect) in [
        ("SEL", false, Err(Glance::Unclear)),
        ("select", false, Err(Glance::Unclear)),
        ("select ", false, Ok("select")),
        ("select ", true, Err(Glance::Read)),
        ("/* long", false, Err(Glance::Unclear)),
        ("-- long", false, Err(Glance::Unclear)),
        ("-", false, Err(Glance::Unclear)),
        (" --", false, Err(Glance::Unclear)),
        ("/", false, Err(Glance::Unclear)),
        ("-1", false, Err(Glance::Read)),
        ("insert into", false, Err(Glance::Read)),
    ] {
        check(text, false, multi_statements, expect);
    }
}

/// A blank of latin1 stands after the word.
#[test]
fn a_word_before_an_unclear_byte_is_read() {
    assert!(begins_with(b"-- a\nCALL\xA0p()", ANY, &["CALL"]));
    assert!(!begins_with(b"/* CALL", ANY, &["CALL"]));
    assert_eq!(past_comments(b"/* CALL", ANY), b"/* CALL");
}

#[test]
fn warnings_are_shown_by_kind_and_limit() {
    for (text, errors_only, offset, rows) in [
        ("SHOW WARNINGS", false, 0, usize::MAX),
        ("/* driver */ show  warnings ;", false, 0, usize::MAX),
        ("-- a\nSHOW/**/WARNINGS # b", false, 0, usize::MAX),
        ("SHOW WARNINGS LIMIT 5 /* a */; ;", false, 0, 5),
        ("show warnings limit 2,5", false, 2, 5),
        ("show errors limit 5 offset 2", true, 2, 5),
    ] {
        let shown = Shown { errors_only, offset, rows };
        assert_eq!(shows_warnings(text.as_bytes(), ANY), Some(shown), "{text}");
    }
    for other in [
        "SHOW COUNT(*) WARNINGS",
        "SHOW WARNINGS; SELECT 1",
        "SHOW WARNINGS; -- 1",
        "SHOW WARNINGS LIMIT ?",
        "SHOW TABLES",
        "SHOW WARNINGS LIMIT 1,2,3",
        "SHOW",
        "",
    ] {
        assert_eq!(shows_warnings(other.as_bytes(), ANY), None, "{other}");
    }
}

#[test]
fn the_first_word_may_end_a_transaction() {
    for (text, expect) in [
        ("COMMIT", true),
        ("/* app */ rollback", true),
        ("BEGIN", true),
        ("START TRANSACTION", true),
        ("SAVEPOINT a", false),
        ("SELECT 'commit'", false),
    ] {
        assert_eq!(ends_transaction(text.as_bytes(), ANY), expect, "{text}");
    }
}

#[test]
fn the_insert_id_may_be_read() {
    for (text, expect) in [
        ("select last_insert_id()", true),
        ("SELECT f()", true),
        ("insert into c(parent) values(LAST_INSERT_ID())", true),
        ("SELECT ROW_COUNT()", false),
        ("select found_rows()", false),
        ("  SHOW WARNINGS", false),
        ("/* app */ /* trace */SHOW WARNINGS", false),
        ("/* SHOW */ SELECT 1", true),
        ("/*! SHOW WARNINGS */", false),
        ("SELECT @@warning_count", false),
        ("GET DIAGNOSTICS @n = NUMBER", false),
        ("COMMIT", false),
    ] {
        assert_eq!(LooksBack::of(text.as_bytes(), ANY).may_read_insert_id(), expect, "{text}");
    }
}

#[test]
fn execute_runs_a_name_or_a_string() {
    for (text, expect) in [
        ("EXECUTE s", "name s"),
        ("/* a */ execute `S` USING @a ;", "name S"),
        ("EXECUTE s; SELECT 1", "name s and more"),
        ("EXECUTE s; -- a", "name s and more"),
        ("EXECUTE IMMEDIATE 'SHOW\\tWARNINGS'", "text SHOW\tWARNINGS"),
        ("EXECUTE IMMEDIATE 'SELECT ' 'ROW_COUNT()'", "none"),
        ("EXECUTE IMMEDIATE @a", "none"),
        ("SELECT 1", "none"),
        ("EXECUTE", "none"),
    ] {
        assert_eq!(runs(text.as_bytes(), ANY), expect, "{text}");
    }
}

fn runs(text: &[u8], dialect: Dialect) -> String {
    let (what, alone) = match executed(text, dialect) {
        Some(Executed::Name { name, alone }) => (format!("name {name}"), alone),
        Some(Executed::Text { text, alone }) => (format!("text {}", String::from_utf8_lossy(&text)), alone),
        None => ("none".to_owned(), true),
    };
    if alone { what } else { format!("{what} and more") }
}

#[test]
fn a_statement_looks_back_by_what_it_runs() {
    for (text, run, alone, expect) in [
        ("EXECUTE s", "SELECT 1", true, true),
        ("EXECUTE s", "SHOW WARNINGS", true, false),
        ("EXECUTE s; SELECT LAST_INSERT_ID()", "SHOW WARNINGS", false, true),
        ("EXECUTE s", "COMMIT", true, true),
        ("EXECUTE s", "SELECT ROW_COUNT()", false, false),
        ("EXECUTE s USING ROW_COUNT()", "SELECT ?", true, false),
    ] {
        let back = LooksBack::of(text.as_bytes(), ANY).and_runs(run.as_bytes(), ANY, alone);
        assert_eq!(back.may_read_insert_id(), expect, "{text}: {run}");
    }
}

/// Every answer about a text.
fn answers(text: &[u8], dialect: Dialect) -> String {
    let words = ["CALL", "SET", "DO", "LOCK", "CREATE", "BINLOG", "INSERT", "UPDATE"];
    let first = words.iter().find(|word| begins_with(text, dialect, &[word]));
    format!(
        "{:?} {first:?} {:?} {:?} {} {} {}",
        glance(text, dialect, true, false),
        LooksBack::of(text, dialect),
        shows_warnings(text, dialect),
        ends_transaction(text, dialect),
        is_only_comments(text, dialect),
        runs(text, dialect),
    )
}

fn statement() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "SHOW WARNINGS",
        "SHOW ERRORS LIMIT 2 OFFSET 1",
        "GET DIAGNOSTICS @n = ROW_COUNT",
        "COMMIT",
        "BEGIN",
        "SELECT ROW_COUNT() , LAST_INSERT_ID()",
        "SELECT @@session.warning_count",
        "UPDATE t SET row_count = 1",
        "CALL p()",
        "LOCK TABLES t WRITE",
        "CREATE TABLE t ( a INT )",
        "EXECUTE s USING @a",
        "EXECUTE IMMEDIATE 'SHOW WARNINGS'",
        "INSERT INTO t ( a ) VALUES ( 'row_count()' )",
    ])
}

fn comment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "-- show warnings\n",
        "#it's `commit\n",
        "/* prepare 'immediate row_count(), diagnostics */",
        "/**/",
        "\t--\n",
        "/*!99999 CALL p() */",
        " ",
    ])
}

proptest! {
    /// Comments before, within and after a statement change no answer about it.
    #[test]
    fn a_comment_changes_no_answer(
        statement in statement(),
        comments in prop::collection::vec((0usize..10, comment()), 1..4),
        is_mysql in any::<bool>(),
    ) {
        let dialect = if is_mysql { Dialect::MYSQL } else { ANY };
        let mut words: Vec<&str> = statement.split(' ').collect();
        // A string is one word here.
        if let Some(at) = words.iter().position(|word| *word == "'SHOW") {
            words.splice(at..at + 2, ["'SHOW WARNINGS'"]);
        }
        for (at, comment) in comments {
            words.insert(at.min(words.len()), comment);
        }
        let text = words.join(" ");
        prop_assert_eq!(answers(text.as_bytes(), dialect), answers(statement.as_bytes(), dialect), "{}", text);
        prop_assert!(past_comments(text.as_bytes(), dialect).starts_with(statement.split(' ').next().unwrap().as_bytes()));
    }
}
