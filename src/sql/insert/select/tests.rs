use super::Query;
use crate::sql::dialect::Dialect;
use crate::sql::lex::Lexer;

#[track_caller]
fn read(text: &str) -> Query {
    let mut lexer = Lexer::new(text.as_bytes(), Dialect::MARIADB).unwrap();
    let first = lexer.next().unwrap();
    Query::read(&mut lexer, first, "id", "t").unwrap().unwrap()
}

#[test]
fn where_the_query_ends() {
    for (query, rest) in [
        ("select 1", ""),
        ("select 1 from dual", ";"),
        ("select a from s", " -- x"),
        ("select a from s order by b", " on duplicate key update a=1"),
        ("select a from s join r on duplicates.a=1", ""),
        ("select a from s join r on (1)", " on duplicate key update a=1"),
        ("select s.returning from s", ""),
        ("(select a from s limit 2) order by a limit 1", ""),
        ("((select 1) union all (select 2))", " returning id"),
        ("select a from s for update", ""),
        ("with c(x) as (select 1), d as (select 2) (select x from c)", ""),
        ("select a from s offset 25 rows", " returning id"),
        ("table s", ";"),
    ] {
        let text = format!("{query}{rest}");
        assert_eq!(&text[..read(&text).span.end as usize], query, "{text}");
    }
}

#[test]
fn a_query_reads_or_leaves_what_only_its_neighbours_can() {
    for (text, expect) in [
        ("select sql_calc_found_rows a from s", "leaves"),
        ("select row_count()", "counts"),
        ("select `found_rows` ()", "counts"),
        ("select a from s where @@warning_count = 0", "warnings"),
        ("select @@session.error_count", "warnings"),
        ("select s.warning_count, @warning_count from s", ""),
        ("select row_count from s limit 2 rows examined 7", ""),
        ("select 'error_count' from s where prepared_at > 0", ""),
    ] {
        let Query { reads, counts_rows, .. } = read(text);
        let found = [(reads.counts, "counts"), (reads.warnings, "warnings"), (counts_rows, "leaves")];
        let found: Vec<_> = found.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        assert_eq!(found.join(" "), expect, "{text}");
    }
}

#[test]
fn names_in_updates() {
    let query = read("select 1 on duplicate key update n=values(n)+t.n+m+if(n is null,1,interval 1 day)");
    assert!(query.sources.is_empty());
    assert_eq!(query.bare_names.len(), 4, "n, n in VALUES, m, n");
    assert_eq!(read("select 1 from s on duplicate key update n=s.n").sources.len(), 1);
    assert_eq!(read("select 1 from s on duplicate key update n=(select 1)").sources.len(), 1);
    assert_eq!(read("select 1 from s on duplicate key update s.n=1").sources.len(), 1);
}
