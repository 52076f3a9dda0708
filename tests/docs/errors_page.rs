//! docs/errors.md has a heading for each error of the proxy's own, the texts under it, and the list of all.

use std::collections::BTreeSet;

use rowstamp::mysql::error::Refusal;

use super::page::Page;
use super::{check_part, read};

const PAGE: &str = "docs/errors.md";

/// True if a heading, or a section from its heading on, begins with that number: `1235`,
/// `1235: refused statements`.
fn is_of(text: &str, code: u16) -> bool {
    let number = text.split(|c: char| !c.is_ascii_digit()).next();
    number.is_some_and(|number| number.parse::<u16>() == Ok(code))
}

/// Code, SQL state and text, by their numbers.
fn errors() -> BTreeSet<(u16, String, String)> {
    let error = |refusal: Refusal| {
        let (code, state) = refusal.code();
        (code, String::from_utf8_lossy(&state).into_owned(), refusal.to_string())
    };
    Refusal::examples().into_iter().map(error).collect()
}

/// A text as far as it is the same in all cases.
fn beginning(text: &str) -> &str {
    let until_case = text.split("...").next().unwrap_or_default();
    until_case.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().trim_end()
}

#[test]
fn every_error_has_its_heading_and_its_text_there() {
    let page = read(PAGE);
    let sections: Vec<_> = page.split("\n## ").skip(1).collect();
    let fault = |(code, _, text): &(u16, String, String)| match sections.iter().find(|it| is_of(it, *code)) {
        None => Some(format!("there is no heading ## {code}")),
        Some(section) if section.contains(beginning(text)) => None,
        Some(_) => Some(format!("## {code} has not the text {:?}", beginning(text))),
    };
    let faults: Vec<_> = errors().iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{PAGE}: {}", faults.join("\n"));
}

#[test]
fn the_list_of_errors_is_that_of_the_code() {
    let page = Page::parse(&read(PAGE));
    let shown = |code: u16| {
        let heading = page.headings.iter().find(|heading| is_of(&heading.text, code));
        heading.map_or(code.to_string(), |heading| format!("[{code}](#{})", heading.anchor))
    };
    let row =
        |(code, state, text): (u16, String, String)| format!("| {} | {state} | `{text}` |\n", shown(code));
    let rows: String = errors().into_iter().map(row).collect();
    check_part(PAGE, "errors", &format!("| error | SQL state | text |\n|---|---|---|\n{rows}"));
}

#[test]
fn sections_and_texts_are_known() {
    for (text, expect) in
        [("1235: not supported", true), ("12350", false), ("Error 1235", false), ("", false)]
    {
        assert_eq!(is_of(text, 1235), expect, "{text}");
    }
    for (text, expect) in [
        ("Bad handshake: ...", "Bad handshake:"),
        ("Unknown command 0x12", "Unknown command"),
        ("Malformed communication packet.", "Malformed communication packet."),
    ] {
        assert_eq!(beginning(text), expect, "{text}");
    }
}
