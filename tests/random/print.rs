//! A case as `tests/differential/case.rs` reads it.

use std::fmt::Write;

use crate::differential::case::{Case, Flag, Statement};
use crate::support::raw::Param;

pub(crate) fn case(case: &Case) -> String {
    let mut text = format!("== {}\n", case.name);
    for table in &case.tables {
        let _ = writeln!(text, "% table {table}");
    }
    for sql in &case.setup {
        let _ = writeln!(text, "% setup {}", line(sql));
    }
    for sql in &case.dumps {
        let _ = writeln!(text, "% dump {}", line(sql));
    }
    for flag in &case.flags {
        let _ = writeln!(text, "% flags {}", flag_name(*flag));
    }
    for statement in &case.statements {
        text += &self::statement(statement);
    }
    text
}

fn statement(statement: &Statement) -> String {
    let mut text = String::new();
    if let Some(refusal) = &statement.refused {
        let _ = writeln!(text, "% refused {}", refusal.why);
    }
    if !statement.tags.is_empty() {
        let _ = writeln!(text, "% tagged {}", statement.tags.join(" "));
    }
    if statement.look {
        text += "% look\n";
    }
    if !statement.local_file.is_empty() {
        let file = String::from_utf8_lossy(&statement.local_file).replace('\n', "\\n").replace('\t', "\\t");
        let _ = writeln!(text, "% file {file}");
    }
    let _ = writeln!(text, "{}", line(&statement.sql));
    for params in &statement.executions {
        let _ = writeln!(text, "% params {}", params.iter().map(param).collect::<Vec<_>>().join(", "));
    }
    text
}

/// A line of a case file. Characters that it cannot hold as they are become `{x:hex}`.
fn line(sql: &[u8]) -> String {
    let text = String::from_utf8_lossy(sql);
    let mut line = String::new();
    for (index, c) in text.chars().enumerate() {
        let misread = index == 0 && (c.is_whitespace() || "%!=".contains(c) && !text.starts_with('!'));
        if misread || c.is_control() {
            let _ = write!(line, "{{x:{:02x}}}", u32::from(c));
        } else {
            line.push(c);
        }
    }
    // The reader drops white space at no end but keeps what a macro makes.
    if line.ends_with(' ') {
        line.pop();
        line += "{x:20}";
    }
    line
}

fn param(param: &Param) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match param {
        Param::Null => "NULL".to_owned(),
        Param::NullInt => "null_int".to_owned(),
        Param::Int(number) => number.to_string(),
        Param::Uint(number) => format!("u{number}"),
        Param::Tiny(number) => if *number == 0 { "false" } else { "true" }.to_owned(),
        Param::Double(number) => number.to_string(),
        Param::String(bytes) => format!("'{}'", text(bytes)),
        Param::Blob(bytes) => format!("b'{}'", text(bytes)),
        other => unreachable!("not drawn: {other:?}"),
    }
}

fn flag_name(flag: Flag) -> &'static str {
    match flag {
        Flag::FoundRows => "found_rows",
        Flag::Multi => "multi",
        Flag::Text => "text",
        Flag::Prepared => "prepared",
        Flag::Classic => "classic",
        Flag::Track => "track",
        Flag::GbkHandshake => "gbk_handshake",
        Flag::Quiet => "quiet",
        Flag::NoDatabase => "no_database",
        Flag::Contiguous => "contiguous",
    }
}

#[test]
fn what_is_printed_is_read_again() {
    for (sql, expect) in
        [("SELECT 1", "SELECT 1"), ("a\nb ", "a{x:0a}b{x:20}"), ("!reset", "!reset"), ("%a", "{x:25}a")]
    {
        assert_eq!(line(sql.as_bytes()), expect);
    }
    assert_eq!(param(&Param::String(b"x".to_vec())), "'x'");
    assert_eq!(param(&Param::Uint(7)), "u7");
}
