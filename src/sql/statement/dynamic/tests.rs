use super::{Dynamic, TextSource, is_variable, read, shows_its_text};
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::lex::Lexer;

fn lexer(text: &str, sql_mode: SqlMode) -> Lexer<'_> {
    Lexer::new(text.as_bytes(), Dialect { sql_mode, ..Dialect::MARIADB }).unwrap()
}

fn parse(text: &str) -> Option<Dynamic> {
    let mut lexer = lexer(text, SqlMode::NONE);
    let first = lexer.next().unwrap();
    read(&mut lexer, first).unwrap()
}

/// The text's kind, or the text, or the parameters.
fn shown(text: &str) -> String {
    let span = |span: crate::sql::lex::Span| String::from_utf8_lossy(span.of(text.as_bytes())).into_owned();
    let source = |source| match source {
        TextSource::Literal(literal) => format!("'{}'", String::from_utf8_lossy(&literal.text)),
        TextSource::Evaluated(at) => span(at),
        TextSource::Computed(at) => format!("={}", span(at)),
        TextSource::Unseen => "?".to_owned(),
    };
    let args = |using: super::Using| {
        let args: Vec<_> = using.args.iter().map(|&arg| span(arg)).collect();
        format!("{}|{}", args.join("|"), using.end)
    };
    match parse(text) {
        None => "none".to_owned(),
        Some(Dynamic::Prepare { name, source: from }) => format!("{name} from {}", source(from)),
        Some(Dynamic::Execute { name, using }) => format!("{name} {}", args(using)),
        Some(Dynamic::Immediate { source: from, using }) => format!("{} {}", source(from), args(using)),
        Some(Dynamic::Deallocate { name }) => format!("drop {name}"),
    }
}

#[test]
fn texts_that_are_shown() {
    let read_so = |text: &str, escapes, expect| {
        assert_eq!(shows_its_text(text.as_bytes(), escapes), expect, "{escapes:?} {text}");
    };
    let check = |text: &str, expect| read_so(text, None, expect);
    let quoted = r"INSERT INTO t VALUES('to \'PREPARE s FROM @a\', \n/* say */')";
    read_so(quoted, None, false);
    read_so(quoted, Some(true), true);
    read_so(quoted, Some(false), false);
    read_so(&format!("SET sql_mode=@m; {quoted}"), Some(true), false);
    read_so(&format!("{quoted};\n"), Some(true), true);
    read_so(r"PREPARE s FROM 'SIGNAL \'23000\''", Some(true), true);
    check("PREPARE s FROM 'SELECT 1'", true);
    check("EXECUTE IMMEDIATE 'SELECT ?' USING @a", true);
    check("BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'SELECT 1'; END", true);
    check("DEALLOCATE PREPARE s", true);
    check("PREPARE s FROM @a", false);
    check("EXECUTE IMMEDIATE CONCAT('a','b')", false);
    check("EXECUTE IMMEDIATE 'INSERT INTO ' 'm'", false);
    check("EXECUTE IMMEDIATE 'INSERT INTO ' || @m", false);
    check("EXECUTE IMMEDIATE @m || 'm'", false);
    check("EXECUTE IMMEDIATE 'INSERT INTO \\m'", false);
    check("EXECUTE IMMEDIATE x'494E'", false);
    check("EXECUTE IMMEDIATE 0x494E", false);
    check("PREPARE s FROM 'SELECT 1'; PREPARE t FROM @a", false);
    check("PREPARE s FROM 'it''s'", true);
    check("PREPARE `s t` FROM 'it''s'", true);
    check("PREPARE s FROM 'a' 'b'", false);
    check("PREPARE s FROM 'a'\"b\"", false);
    check("PREPARE s FROM 'it\\'s'", false);
    check("PREPARE s FROM 'a\\\\b'", true);
    // The string would end there under NO_BACKSLASH_ESCAPES.
    check("PREPARE s FROM 'SIGNAL \\'23000\\''", false);
    check("PREPARE s FROM", true);
    check("PREPARE s FROM a", false);
    check("PREPARE s FROM 'a", false);
    check("PREPARE s FROM /* ' */ 'a'", false);
    check("PREPARE s FROM 'a' -- '", false);
    check("EXECUTE IMMEDIATE 'SELECT (?), 0x4E' USING DATE'2001-01-01', CONCAT('a', @b)", true);
    check("EXECUTE IMMEDIATE 'SELECT ?' USING 1; EXECUTE IMMEDIATE @a", false);
    check("SELECT 1 FROM t; PREPARE s FROM 'a'", true);
    check("PREPARE s FROM \"SELECT 'a'\"", true);
    check("PREPARE s FROM \"SELECT 1\"", true);
}

#[test]
fn statements() {
    for (text, expect) in [
        ("PREPARE s FROM 'a''b\\nc'", "s from 'a'b\nc'"),
        ("prepare `S``x` from @q;", "S`x from @q"),
        ("PREPARE s FROM @`a b`", "s from @`a b`"),
        ("PREPARE s FROM @a.b", "s from @a.b"),
        ("PREPARE s FROM @a garbage", "s from =@a garbage"),
        (
            "PREPARE s FROM concat('a', @b, if(@c = 1, 'd', 'e'))",
            "s from concat('a', @b, if(@c = 1, 'd', 'e'))",
        ),
        ("PREPARE s FROM rand()", "s from =rand()"),
        ("PREPARE s FROM @@version", "s from =@@version"),
        ("PREPARE s FROM (@a := 'b')", "s from =(@a := 'b')"),
        ("PREPARE s FROM (select 1)", "s from =(select 1)"),
        ("PREPARE s FROM 'a' 'b'", "s from 'a' 'b'"),
        ("PREPARE s FROM 'a\\%'", "s from 'a\\%'"),
        ("PREPARE s", "none"),
        ("PREPARE 's' FROM 'a'", "none"),
        ("EXECUTE s", "s |9"),
        ("EXECUTE s /* x */ ;", "s |9"),
        ("EXECUTE s USING @a, @b ;", "s @a|@b|22"),
        ("EXECUTE s USING 1, if(1,2,3)", "s 1|if(1,2,3)|28"),
        ("EXECUTE s USING", "none"),
        ("EXECUTE s x", "none"),
        ("EXECUTE IMMEDIATE 'a' USING 5", "'a' 5|29"),
        ("EXECUTE IMMEDIATE @q", "@q |20"),
        ("DEALLOCATE PREPARE s", "drop s"),
        ("DROP PREPARE s;", "drop s"),
        ("DROP TABLE s", "none"),
    ] {
        assert_eq!(shown(text), expect, "{text}");
    }
}

#[test]
fn bytes_of_the_text_are_found_in_the_packet() {
    let text = r"PREPARE s FROM 'a''b\c\'d'";
    let Some(Dynamic::Prepare { source: TextSource::Literal(literal), .. }) = parse(text) else { panic!() };
    assert_eq!(literal.text, b"a'bc'd");
    let places: String = (0..7).map(|at| char::from(text.as_bytes()[literal.place(at) as usize])).collect();
    assert_eq!(places, r"a'b\\d'");
    assert_eq!(literal.escape(b"`it's\\`", SqlMode::NONE), b"`it''s\\\\`");
    assert_eq!(literal.escape(b"\\\"", SqlMode::NO_BACKSLASH_ESCAPES), b"\\\"");
}

#[test]
fn what_is_a_variable() {
    for (text, expect) in
        [("@a", true), ("@`a b`", true), ("@a.b", true), ("@a + 1", false), ("@@a", false), ("5", false)]
    {
        let lexer = lexer(text, SqlMode::NONE);
        let end = u32::try_from(text.len()).unwrap();
        assert_eq!(is_variable(&lexer, super::Span { start: 0, end }), expect, "{text}");
    }
}
