use proptest::prelude::{any, prop_assert, proptest};

use super::{Call, CallForm, CallPlace, Draws, find};
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::lex::Lexer;

fn found(text: &str, several: bool) -> (Draws, Option<u32>) {
    let lexer = Lexer::new(text.as_bytes(), Dialect::MARIADB).unwrap();
    find(lexer, several).unwrap()
}

/// `n` NEXTVAL, `l` LASTVAL, `t` with its number ROWSTAMP_TAKE; of a select list `s`, among columns `c`, once
/// elsewhere `1`, explained `e`, refused `-`.
fn letters(call: &Call) -> String {
    let form = match call.form {
        CallForm::Next => "n".to_owned(),
        CallForm::Previous => "l".to_owned(),
        CallForm::Take(n) => format!("t{}", n.map_or("?".to_owned(), |n| n.to_string())),
    };
    let place = match call.place {
        CallPlace::Once { in_list: true, .. } => 's',
        CallPlace::Once { among_columns: true, .. } => 'c',
        CallPlace::Once { .. } => '1',
        CallPlace::Explained => 'e',
        CallPlace::Several(_) => '-',
    };
    format!("{form}{place}")
}

#[track_caller]
fn check(text: &str, expect: &str) {
    let (draws, _) = found(text, false);
    let calls: Vec<_> = draws.calls.iter().map(letters).collect();
    assert_eq!(calls.join(" "), expect, "{text}");
}

#[test]
fn where_calls_stand() {
    check("SELECT NEXTVAL(g), LASTVAL(g), ROWSTAMP_TAKE(g, 10)", "ns ls t10s");
    check("select next value for g, previous value for d.`g`", "ns ls");
    check("SELECT NEXTVAL(g) FROM dual WHERE 1", "ns");
    check("SELECT NEXTVAL(g) INTO @v", "ns");
    check("SELECT NEXTVAL(g) UNION SELECT NEXTVAL(g)", "ns ns");
    check("(SELECT NEXTVAL(g)) UNION ALL (SELECT NEXTVAL(g)) LIMIT 1", "ns ns");
    check("SELECT (SELECT NEXTVAL(g)), IF(1, 2, NEXTVAL(g))", "ns ns");
    check("INSERT INTO t VALUES (NEXTVAL(g), 1), (2, NEXTVAL(g))", "nc nc");
    check("INSERT INTO t (a, b) VALUES (NEXTVAL(g), (SELECT NEXTVAL(g)))", "nc ns");
    check("REPLACE t SET a = NEXTVAL(g), b = LASTVAL(g)", "nc lc");
    check("INSERT INTO t SELECT NEXTVAL(g)", "ns");
    check("INSERT INTO t (a) (SELECT NEXTVAL(g))", "ns");
    check("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = NEXTVAL(g)", "nc");
    check("INSERT INTO t SET a = (1), b = (2) ON DUPLICATE KEY UPDATE a = NEXTVAL(g)", "nc");
    check("SET @a = NEXTVAL(g), @b := NEXT VALUE FOR g", "n1 n1");
    check("DO NEXTVAL(g)", "n1");
    check("CALL p(NEXTVAL(g), 1)", "n1");
    check("UPDATE t SET a = NEXTVAL(g) WHERE id = 7 LIMIT 1", "nc");
    check("UPDATE t SET a = NEXTVAL(g) ORDER BY b LIMIT 1;", "nc");
    check("EXPLAIN SELECT NEXTVAL(g)", "ne");
    check("EXPLAIN INSERT INTO t VALUES (NEXTVAL(g))", "ne");
    check("ANALYZE SELECT NEXTVAL(g)", "ns");
    check("SET STATEMENT max_statement_time = 1 FOR SELECT NEXTVAL(g)", "ns");
}

#[test]
fn where_one_id_would_serve_several_rows() {
    for text in [
        "SELECT NEXTVAL(g) FROM t",
        "SELECT NEXTVAL(g) FROM dual, t",
        "SELECT a FROM t WHERE a = NEXTVAL(g)",
        "SELECT 1 ORDER BY NEXTVAL(g)",
        "SELECT 1 LIMIT NEXTVAL(g)",
        "SELECT (SELECT NEXTVAL(g)) FROM t",
        "SELECT a FROM (SELECT NEXTVAL(g) AS a) x",
        "SELECT NEXTVAL(g) INTO @a FROM t",
        "INSERT INTO t SELECT NEXTVAL(g) FROM u",
        "INSERT INTO t VALUES ((SELECT NEXTVAL(g) FROM u))",
        "INSERT INTO t VALUES (1), (2) ON DUPLICATE KEY UPDATE a = NEXTVAL(g)",
        "INSERT INTO t SELECT 1 ON DUPLICATE KEY UPDATE a = NEXTVAL(g)",
        "INSERT INTO t VALUES (1) RETURNING NEXTVAL(g)",
        "SET @a = (SELECT NEXTVAL(g) FROM t)",
        "UPDATE t SET a = NEXTVAL(g)",
        "UPDATE t SET a = NEXTVAL(g) LIMIT 2",
        "UPDATE t SET a = NEXTVAL(g) LIMIT 1, 1",
        "UPDATE t SET b = 1 WHERE a = NEXTVAL(g) LIMIT 1",
        "DELETE FROM t WHERE a = NEXTVAL(g) LIMIT 1",
        "WITH x AS (SELECT NEXTVAL(g)) SELECT * FROM x",
        "CREATE TABLE t (a BIGINT DEFAULT NEXTVAL(g))",
        "CREATE VIEW v AS SELECT NEXTVAL(g)",
        "CREATE PROCEDURE p() BEGIN DO 1; DO NEXTVAL(g); END",
        "BEGIN NOT ATOMIC DO 1; DO NEXTVAL(g); END",
        "VALUES (NEXTVAL(g))",
    ] {
        check(text, "n-");
    }
}

#[test]
fn what_is_no_call() {
    for text in [
        "SELECT NEXTVAL('g'), NEXTVAL(g, 1), NEXTVAL(), NEXTVAL",
        "SELECT t.NEXTVAL(g), `NEXTVAL`(g), @nextval, d.nextval(g)",
        "SELECT 'NEXTVAL(g)', \"NEXTVAL(g)\", /* NEXTVAL(g) */ 1 -- NEXTVAL(g)",
        "SELECT next value, next FROM t",
        "SELECT NEXTVAL(a.b.c), NEXTVAL(g + 1)",
        "SELECT ROWSTAMP_TAKE(g), ROWSTAMP_TAKE('g', 1)",
    ] {
        check(text, "");
    }
    check("SELECT ROWSTAMP_TAKE(g, 0), ROWSTAMP_TAKE(g, 10000001), ROWSTAMP_TAKE(g, 1 + (1))", "t?s t?s t?s");
    check(
        "SELECT ROWSTAMP_TAKE(g, 10000000), ROWSTAMP_TAKE(g, ?), ROWSTAMP_TAKE(g, '1')",
        "t10000000s t?s t?s",
    );
    check("SELECT /*!NEXTVAL(g)*/, nextval /* c */ ( g )", "ns ns");
}

#[test]
fn columns_without_a_name() {
    for (text, expect) in [
        ("SELECT NEXTVAL(g)", "NEXTVAL(g)"),
        ("SELECT  DISTINCT 1, NEXTVAL( g )+1 , 2", "NEXTVAL( g )+1"),
        ("SELECT NEXTVAL(g) a, NEXTVAL(g) AS a, NEXTVAL(g) 'a', NEXT VALUE FOR g `a`", ""),
        ("SELECT NEXTVAL(g) + a, NEXTVAL(g) DIV a, a NEXTVAL", "NEXTVAL(g) + a|NEXTVAL(g) DIV a"),
        (
            "SELECT CASE WHEN 1 THEN NEXTVAL(g) END, CASE 1 WHEN 1 THEN NEXTVAL(g) END a",
            "CASE WHEN 1 THEN NEXTVAL(g) END",
        ),
        ("SELECT NOW() + INTERVAL NEXTVAL(g) DAY", "NOW() + INTERVAL NEXTVAL(g) DAY"),
        ("SELECT (SELECT NEXTVAL(g)) UNION SELECT 1", "(SELECT NEXTVAL(g))"),
        ("SELECT NEXTVAL(g) FROM dual", "NEXTVAL(g)"),
        ("SELECT IF(1, NEXTVAL(g), 2) a", ""),
        (
            "SELECT NEXTVAL(g) IS NULL, NEXTVAL(g) LIKE 'a', NEXTVAL(g) IN (1)",
            "NEXTVAL(g) IS NULL|NEXTVAL(g) LIKE 'a'|NEXTVAL(g) IN (1)",
        ),
        ("INSERT INTO t SELECT NEXTVAL(g)", ""),
    ] {
        let (draws, _) = found(text, false);
        let names = draws.unnamed.iter().map(|span| String::from_utf8_lossy(span.of(text.as_bytes())));
        assert_eq!(names.collect::<Vec<_>>().join("|"), expect, "{text}");
    }
}

#[test]
fn statements_with_calls_stand_alone() {
    for (text, several, expect) in [
        ("SELECT 1; SELECT NEXTVAL(g)", true, Some(9)),
        ("SELECT NEXTVAL(g); SELECT 1", true, Some(18)),
        ("SELECT NEXTVAL(g);  ", true, None),
        ("SELECT 1; SELECT 2; USE d; DO NEXTVAL(g)", true, Some(26)),
        ("SELECT 1; SELECT NEXTVAL(g)", false, None),
        ("CREATE PROCEDURE p() BEGIN DO NEXTVAL(g); DO 1; END; SELECT NEXTVAL(g)", true, None),
    ] {
        assert_eq!(found(text, several).1, expect, "{text}");
    }
}

#[test]
fn the_first_look_finds_a_word_wherever_it_stands() {
    for word in ["NEXTVAL(g)", "lastval(g)", "NEXT VALUE FOR g", "rowstamp_take(g, 1)"] {
        for before in 0..40 {
            for after in [0, 1, 17, 40] {
                let text = format!("{}{word}{}", "x".repeat(before), "y".repeat(after));
                assert!(super::may_be_in(text.as_bytes()), "{text}");
            }
        }
    }
    for text in ["", "va", "SELECT c FROM sbtest1 WHERE id = 5017 AND k = 7", "COMMIT"] {
        assert!(!super::may_be_in(text.as_bytes()), "{text}");
    }
}

proptest! {
    /// Whatever stands there: calls lie in the text one after the other, and their words are there.
    #[test]
    fn any_text(
        pieces in proptest::collection::vec(any::<proptest::sample::Index>(), 0..40),
        mysql: bool,
        ansi: bool,
    ) {
        const PIECES: &[&str] = &[
            "SELECT", "NEXTVAL(g)", "NEXT VALUE FOR g", "LASTVAL(`g`)", "ROWSTAMP_TAKE(g, 2)", "FROM", "t", ",", "(", ")",
            "INSERT INTO t", "VALUES", "UPDATE t SET a =", "LIMIT 1", "UNION", "AS", "a", "'", "\"", "`", "/*", "*/", ";",
            "--", "\n", "CASE", "END", "WITH", "CALL p(", "SET @a =", "EXPLAIN", "WHERE", ".", "@", "ON DUPLICATE KEY UPDATE",
        ];
        let text = pieces.iter().map(|at| *at.get(PIECES)).collect::<Vec<_>>().join(" ");
        let sql_mode = if ansi { SqlMode::ANSI_QUOTES } else { SqlMode::NONE };
        let dialect = Dialect { sql_mode, ..if mysql { Dialect::MYSQL } else { Dialect::MARIADB } };
        let lexer = Lexer::new(text.as_bytes(), dialect).unwrap();
        if let Ok((draws, cut)) = find(lexer, true) {
            let mut from = 0;
            for call in &draws.calls {
                prop_assert!(call.span.start >= from && call.span.end as usize <= text.len(), "{}", text);
                let word = call.span.of(text.as_bytes()).to_ascii_uppercase();
                let begins = [&b"NEXT"[..], b"LASTVAL", b"PREVIOUS", b"ROWSTAMP_TAKE"];
                prop_assert!(begins.iter().any(|begin| word.starts_with(begin)), "{}", text);
                from = call.span.end;
            }
            prop_assert!(cut.is_none_or(|cut| text.as_bytes().get(cut as usize - 1) == Some(&b';')), "{}", text);
        }
    }
}
