use super::{Query, RowsMax};
use crate::sql::dialect::Dialect;
use crate::sql::lex::Lexer;

fn read_any(text: &str) -> Option<Query> {
    let mut lexer = Lexer::new(text.as_bytes(), Dialect::MARIADB).unwrap();
    let first = lexer.next().unwrap();
    Query::read(&mut lexer, first, "id", "t").unwrap()
}

#[track_caller]
fn read(text: &str) -> Query {
    read_any(text).unwrap()
}

/// `^` in what is expected stands where the LIMIT goes.
#[track_caller]
fn check(text: &str, expect: &str, rows_max: RowsMax) {
    let query = read(text);
    let mut with = text[..query.span.end as usize].to_owned();
    if let Some(at) = query.limit_at {
        with.insert(at as usize, '^');
    }
    assert_eq!((with.as_str(), query.rows_max, query.unfit), (expect, rows_max, None), "{text}");
}

#[test]
fn where_the_limit_goes() {
    use RowsMax::{AtMost, One, Unknown};
    check("select 1", "select 1^", One);
    check("select 1 from dual;", "select 1 from dual^", One);
    check("select a from s -- x", "select a from s^", Unknown);
    check("select a from s order by b on duplicate key update a=1", "select a from s order by b^", Unknown);
    check("select a from s join r on duplicates.a=1", "select a from s join r on duplicates.a=1^", Unknown);
    check("select a from s limit 5", "select a from s limit 5", AtMost(5));
    check("select a from s limit 2, 7", "select a from s limit 2, 7", AtMost(7));
    check("select a from s limit ?", "select a from s limit ?", Unknown);
    check("select s.limit from s", "select s.limit from s^", Unknown);
    check("(select a from s)", "(select a from s^)", Unknown);
    check("((select a from s limit 3))", "((select a from s limit 3))", AtMost(3));
    check("(select 1) union (select 2 limit 1)", "(select 1) union (select 2 limit 1)^", Unknown);
    check("((select 1) union all (select 2))", "((select 1) union all (select 2)^)", Unknown);
    check(
        "select 1 union select 2 order by 1 limit 9",
        "select 1 union select 2 order by 1 limit 9",
        AtMost(9),
    );
    check("select a from s for update", "select a from s^ for update", Unknown);
    check("select a from s lock in share mode", "select a from s^ lock in share mode", Unknown);
    check("(select a from s for update)", "(select a from s^ for update)", Unknown);
    check(
        "with c as (select 1 limit 2) select * from c",
        "with c as (select 1 limit 2) select * from c^",
        Unknown,
    );
    check(
        "with c(x) as (select 1), d as (select 2) (select x from c)",
        "with c(x) as (select 1), d as (select 2) (select x from c^)",
        Unknown,
    );
    check("(with c as (select 1) select 2)", "(with c as (select 1) select 2^)", One);
    check(
        "select (select a from s limit 1), extract(year from now())",
        "select (select a from s limit 1), extract(year from now())^",
        One,
    );
    check("select a from s returning id", "select a from s^", Unknown);
}

#[test]
fn nothing_is_written_behind_a_minus() {
    for text in ["(-------)", "(select 1 --)", "select 1 - -- x", "select a from s --for update", "()"] {
        assert!(read_any(text).is_none(), "{text}");
    }
}

#[test]
fn what_cannot_be_kept() {
    for text in [
        "(select a from s limit 2) order by a",
        "(select a from s) limit 2",
        "select sql_calc_found_rows a from s",
        "select row_count()",
        "select a from s where @@warning_count = 0",
        "select a from s limit 2 rows examined 7",
    ] {
        assert!(read(text).unfit.is_some(), "{text}");
    }
    assert!(read("select last_insert_id(a) from s").sets_last_id);
    assert!(!read("select last_insert_id() from s").sets_last_id);
}

#[test]
fn what_may_be_run_again() {
    for text in [
        "select count(*), rand(), @x from s",
        "with c(x) as (select 1) select max(x) from c",
        "select a in (1,2) from s use index (i)",
    ] {
        assert!(read(text).is_repeatable, "{text}");
    }
    for text in ["select f(1)", "select d.f(1)", "select @n:=@n+1 from s", "select get_lock('x',1)"] {
        assert!(!read(text).is_repeatable, "{text}");
    }
}

#[test]
fn hidden_digits() {
    let check = |text: &str, expect: &[(bool, Option<u32>)]| {
        let found: Vec<_> = read(text).inexact.iter().map(|found| (found.is_average, found.column)).collect();
        assert_eq!(found, expect, "{text}");
    };
    check("select a, a/b from s", &[(false, Some(1))]);
    check("select round(a/b,2), cast(avg(a) as decimal(9,2)) from s where a/b>1 order by avg(a)", &[]);
    check("select x from (select avg(a) x from s) v", &[(true, None)]);
    check("select a from s where a/b>1 union select a/b from s", &[(false, Some(0))]);
    check(
        "with c as (select a/b x from s) select f(1,2), 3, avg(x) from c",
        &[(false, None), (true, Some(2))],
    );
    assert!(read("select s.*, a from s").selects_star && read("select a, * from s").selects_star);
    assert!(!read("select a*2, count(*) from s").selects_star);
}

#[test]
fn names_in_updates() {
    let query = read("select 1 on duplicate key update n=values(n)+t.n+m+if(n is null,1,interval 1 day)");
    assert!(!query.names_source);
    assert_eq!(query.bare_names.len(), 4, "n, n in VALUES, m, n");
    assert!(read("select 1 from s on duplicate key update n=s.n").names_source);
    assert!(read("select 1 from s on duplicate key update n=(select 1)").names_source);
    assert!(read("select 1 from s on duplicate key update s.n=1").names_source);
}
