use proptest::prelude::{Just, Strategy, prop, prop_oneof, proptest};

use super::{Format, Load, OnDuplicate};
use crate::sql::dialect::Dialect;
use crate::sql::lex::{Lexer, Span, Token};

fn read(text: &str, dialect: Dialect, table: &str) -> Option<Load> {
    let mut lexer = Lexer::new(text.as_bytes(), dialect).unwrap();
    let load = Load::read(&mut lexer, "id", table).ok()??;
    let position = lexer.position() as usize;
    let ends_so = if load.semicolon { text[..position].ends_with(';') } else { position == text.len() };
    assert!(ends_so, "{text}");
    Some(load)
}

fn names<'a>(text: &'a str, tokens: &[Token]) -> Vec<&'a str> {
    tokens.iter().map(|token| &text[token.span.range()]).collect()
}

/// The statement that fills the table `s`, whose columns are (*). The spans lie in order, or it panics.
fn fill(text: &str, load: &Load) -> String {
    let is_all = load.listed.is_none();
    let mut edits = vec![(load.table, "s")];
    edits.extend(load.partition.map(|span| (span, "")));
    if is_all {
        edits.push((load.list, " (*)"));
    }
    edits.extend(load.qualifiers.iter().map(|&span| (span, "")));
    let (mut out, mut at) = (String::new(), 0);
    for (Span { start, end }, by) in edits {
        out += &text[at..start as usize];
        out += by;
        at = end as usize;
    }
    let filled = out + text[at..load.end as usize].trim_end();
    let listed = load.listed.iter().flatten().map(|token| token.span);
    let mut before = load.list.start;
    for span in listed {
        assert!(before < span.start && span.end < load.list.end, "{text}");
        before = span.end;
    }
    let assigned = load.assigned.iter().map(|token| token.span);
    assigned.fold(load.list.end, |before, span| {
        assert!(before < span.start && span.end < load.end, "{text}");
        span.end
    });
    filled
}

/// The facts that are read: of the file and of keys, the columns listed (`*`: all) and assigned.
fn facts(text: &str, load: &Load) -> String {
    let mut words = Vec::new();
    words.extend((load.format == Format::Xml).then_some("xml"));
    words.extend(load.local.then_some("local"));
    words.extend(match load.on_duplicate {
        OnDuplicate::Unsaid => None,
        OnDuplicate::Ignore => Some("ignore"),
        OnDuplicate::Replace => Some("replace"),
    });
    let listed = load.listed.as_ref().map_or("*".to_owned(), |listed| names(text, listed).join(" "));
    let listed = format!("({listed})");
    words.push(&listed);
    words.extend(names(text, &load.assigned));
    words.extend(load.query_names_table.then_some("query"));
    words.extend(load.traits.names_id.then_some("names-id"));
    words.extend(load.traits.reads_last_id.then_some("last-id"));
    words.extend((load.params > 0).then_some("params"));
    words.join(" ")
}

fn check_in(dialect: Dialect, rows: &[(&str, &str, &str)]) {
    for &(text, expect, facts_expected) in rows {
        let load = read(text, dialect, "t");
        let shown = load.map(|load| (fill(text, &load), facts(text, &load)));
        let expected = (!expect.is_empty()).then(|| (expect.to_owned(), facts_expected.to_owned()));
        assert_eq!(shown, expected, "{text}");
    }
}

/// A row has the text after LOAD, the statement that fills another table, and the facts. An empty statement: LOAD is
/// not understood.
fn check(rows: &[(&str, &str, &str)]) {
    check_in(Dialect::MARIADB, rows);
    check_in(Dialect::MYSQL, rows);
}

/// Neither server takes them. `|` stands between two.
fn check_none(texts: &str) {
    let rows: Vec<_> = texts.split(" | ").map(|text| (text, "", "")).collect();
    check(&rows);
}

#[test]
fn heads() {
    check(&[
        ("data infile 'x' into table t", "data infile 'x' into table s (*)", "(*)"),
        ("data infile 'x' into table t ;", "data infile 'x' into table s (*)", "(*)"),
        (
            "data low_priority local infile \"x\" replace into table `t` -- all\n",
            "data low_priority local infile \"x\" replace into table s (*) -- all",
            "local replace (*)",
        ),
        (
            "xml concurrent infile 'x' ignore into table a . t rows identified by '<r>'",
            "xml concurrent infile 'x' ignore into table s rows identified by '<r>' (*)",
            "xml ignore (*)",
        ),
        ("data infile 'x' into table t partition (p0, `p1`) (a)", "data infile 'x' into table s  (a)", "(a)"),
        ("/*!50000 data */ infile 'x' into table t", "/*!50000 data */ infile 'x' into table s (*)", "(*)"),
        (
            "data infile 'x' into table /*!50000 t */ set a=1",
            "data infile 'x' into table /*!50000 s (*) */ set a=1",
            "(*) a",
        ),
        (
            "data infile 'x' into table t /*! set a=1 */;",
            "data infile 'x' into table s (*) /*! set a=1 */",
            "(*) a",
        ),
        // A comment that the statement's end leaves open.
        ("data infile 'x' into table t /*! set a=1 ; */", "", ""),
        // A comment that begins in what is replaced, or ends there.
        ("data infile 'x' into table a /*!50000 . t */", "", ""),
        ("data infile 'x' into table t partition /*!50000 (p0) */", "", ""),
        ("data infile 'x' into table t (/*!50000 ) */", "", ""),
    ]);
    check_none(
        " | data | index into cache t | table t from master | data from master | \
         data concurrent low_priority infile 'x' into table t | data local low_priority infile 'x' into table t | \
         data local from infile 'x' into table t | data infile x into table t | data infile n'x' into table t | \
         data infile @x into table t | data infile 'x' 'y' into table t | \
         data infile 'x' replace ignore into table t | data infile 'x' into t | \
         data infile 'x' into table t as u | data infile 'x' into table a.b.t | \
         data infile 'x' into table t partition () | data infile 'x' into table t partition p0 | \
         data infile 'x' into table t character set utf8mb4 partition (p0)",
    );
}

#[test]
fn what_one_server_takes() {
    let from = "data from local infile 'x' into table t";
    check_in(Dialect::MYSQL, &[(from, "data from local infile 'x' into table s (*)", "local (*)")]);
    check_in(Dialect::MARIADB, &[(from, "", "")]);
    // The server's own error.
    let ignore = "data infile 'x' into table t (a) set b=ignore";
    check(&[(ignore, "data infile 'x' into table s (a) set b=ignore", "(a) b")]);
    // MySQL's bulk load.
    check_none(
        "data from url 'x' into table t | data from s3 'x' into table t | data infile 'x' count 3 into table t | \
         data infile 'x' in primary key order into table t | data infile 'x' into table t compression='zstd' | \
         data infile 'x' into table t parallel=4 algorithm=bulk | data infile 'x' into table t memory=1m | \
         data infile 'x' into table t (a) algorithm=bulk",
    );
}

#[test]
fn formats() {
    let taken = "character set utf8mb4 | char set 'latin1' | charset binary | rows identified by '<r>' ignore 3 lines | \
        rows identified by 0x41 | fields terminated by ',' | \
        columns escaped by '' optionally enclosed by '\"' terminated by x'2c' enclosed by b'1' | \
        fields terminated by ',' terminated by ';' | lines terminated by '\\n' starting by 'x' starting by '' | \
        ignore 1 lines | ignore 0 rows | \
        charset utf8 rows identified by '<a>' columns terminated by ',' lines terminated by ';' ignore 1 lines";
    for format in taken.split(" | ") {
        check_columns(&[(&format!("{format} (a)"), "=", "(a)")]);
    }
    let not_taken = "character utf8mb4 | character set = utf8mb4 | character set 1 | character set n'utf8' | \
        rows identified by n'<r>' | rows identified '<r>' | rows identified by '<r>' character set utf8mb4 | \
        fields | fields terminated by ',', enclosed by ';' | fields terminated by n',' | \
        fields terminated by @v | fields terminated by ',' ',' | fields optionally terminated by ',' | \
        fields starting by ',' | lines | lines enclosed by ',' | \
        lines terminated by ';' fields terminated by ',' | ignore 1 row | ignore -1 rows | ignore lines | \
        ignore 1 lines lines terminated by ';' | ignore 1 lines character set utf8mb4";
    for format in not_taken.split(" | ") {
        check_none(&format!("data infile 'x' into table t {format} (a)"));
    }
}

/// After `data infile 'x' into table t `. `=`: what follows the table's name stays as it is.
fn check_columns(rows: &[(&str, &str, &str)]) {
    let begin = |table: &str, rest: &str| format!("data infile 'x' into table {table} {rest}");
    for (text, expect, facts) in rows {
        check(&[(&begin("t", text), &begin("s", if *expect == "=" { text } else { expect }), facts)]);
    }
}

#[test]
fn columns() {
    check_columns(&[
        ("(a, b)", "=", "(a b)"),
        ("(a, `ID`)", "=", "(a `ID`)"),
        ("(id, id, a);", "(id, id, a)", "(id id a)"),
        ("()", " (*)", "(*)"),
        ("( ) set a=1", " (*) set a=1", "(*) a"),
        ("(@a, @`b c`, @'d e', @\"f\", @b.c, @1a, @1e5, @5)", "=", "()"),
        ("(@id, b)", "=", "(b)"),
        ("(t.a, db.t . b, T.c, u.d)", "(a, b, c, u.d)", "(a b c d)"),
    ]);
    let none = "(t./**/a) | (a,) | (a b) | ((a)) | (1) | (a, .b) | (@) | (@ a) | (@@a) | (@a b) | (@'a'b) | (a) (b) | (a) ignore 1 lines | (a";
    none.split(" | ").for_each(|text| check_none(&format!("data infile 'x' into table t {text}")));
}

#[test]
fn assignments() {
    check_columns(&[
        ("set a=1", "(*) set a=1", "(*) a"),
        ("(b) set a = b+1, c := default ;", "(b) set a = b+1, c := default", "(b) a c"),
        ("(id) set id=id+1", "=", "(id) id names-id"),
        ("(@x) set id = nullif(@x, ''), a = id", "=", "() id a names-id"),
        ("(a) set b = last_insert_id()", "=", "(a) b last-id"),
        ("(a) set b = ?", "=", "(a) b params"),
        ("(a) set t.b = t.a + db.t.c + u.d", "(a) set b = a + c + u.d", "(a) b"),
        ("(a) set b = @t.a, c = t.f(1), d = @@session.t", "=", "(a) b c d"),
        ("(a) set b = (select max(x) from u)", "=", "(a) b"),
        ("(a) set b = (select max(x) from db.T)", "=", "(a) b query"),
        ("(a) set b = (table t)", "=", "(a) b query"),
        (
            "(a) set b = (select x from u where u.y = t.a)",
            "(a) set b = (select x from u where u.y = a)",
            "(a) b query",
        ),
        ("(a) set b = 't', c = t.a, d = (select 1)", "(a) set b = 't', c = a, d = (select 1)", "(a) b c d"),
    ]);
    let none = "set | set a | set a= | set a=1, | set @a=1 | set a=1 as x | set a=1 on duplicate key update a=2 | set a=(1 | set a=t/**/.b";
    none.split(" | ").for_each(|text| check_none(&format!("data infile 'x' into table t {text}")));
    let params = read("data infile 'x' into table t (a) set b=?, c=?", Dialect::MARIADB, "t").unwrap().params;
    assert_eq!(params, 2);
}

fn piece() -> impl Strategy<Value = String> {
    let words = "partition (p) character set utf8 rows identified by 'x' fields terminated columns lines ignore 1 \
                 ( ) , , . @ a b id t `t` db t.a db.t.id @v = := set set select default ? ; /*! */ /**/";
    let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
    let parts = [
        "(a, @b, t.id)",
        "set a=1, id=t.b",
        "partition (p, q)",
        "ignore 2 lines",
        "fields terminated by ','",
        "lines terminated by ';'",
        "rows identified by '<r>'",
        "charset latin1",
        "()",
    ];
    prop_oneof![
        3 => prop::sample::select(words),
        2 => prop::sample::select(parts.map(str::to_owned).to_vec()),
        1 => "[-a-e0-3'\"`.@(),=;/*!\\\\ \n]{0,6}",
    ]
}

proptest! {
    /// The reader does not panic. What it understands has its spans in order, and what is made of it is understood in the same way.
    #[test]
    fn any_pieces(
        head in prop_oneof![
            4 => Just("data infile 'x' into table t"),
            1 => Just("xml local infile 'x' replace into table db.t"),
            1 => Just(""),
        ],
        pieces in prop::collection::vec(piece(), 0..8),
    ) {
        let text = format!("{head} {}", pieces.join(" "));
        for dialect in [Dialect::MARIADB, Dialect::MYSQL] {
            let Some(load) = read(&text, dialect, "t") else { continue };
            let filled = fill(&text, &load).replace("(*)", "()");
            let again = read(&filled, dialect, "s").unwrap_or_else(|| panic!("{text} to {filled}"));
            let of = |text, load: &Load| {
                (load.listed.as_ref().map(|listed| names(text, listed).join(",")), names(text, &load.assigned).join(","))
            };
            assert_eq!(of(&text, &load), of(&filled, &again), "{text} to {filled}");
            assert!(load.partition.is_none() || again.partition.is_none(), "{text}");
        }
    }
}
