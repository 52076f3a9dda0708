//! docs/migrate.md and docs/migrate-back.md as the one script that they are: its files, its commands with what they print, and where
//! the test does something.

use std::fs;
use std::path::Path;

/// In the order in which they are walked: there, and back.
const PAGES: [&str; 2] = ["docs/migrate.md", "docs/migrate-back.md"];

/// A part of the guide that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// ```` ```toml FILE ````: what FILE holds.
    File { name: String, text: String },
    /// ```` ```sql ````: what an administrator of the server runs.
    Sql(String),
    /// `$ COMMAND` in a block, and the lines after it.
    Command { line: String, output: String },
    /// `<!-- test: WHAT -->`
    Happens(String),
}

pub(crate) fn read() -> Vec<Part> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    PAGES
        .iter()
        .flat_map(|page| parse(&fs::read_to_string(root.join(page)).expect("the guide is there")))
        .collect()
}

fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(what) = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->")) {
            parts.push(Part::Happens(what.to_owned()));
        }
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = || block.iter().flat_map(|line| [line, "\n"]).collect::<String>();
        match kind.split_once(' ') {
            Some(("toml", name)) => parts.push(Part::File { name: name.to_owned(), text: text() }),
            None if kind == "sql" => parts.push(Part::Sql(text())),
            None if kind == "console" => parts.extend(commands(&block)),
            _ => {}
        }
    }
    parts
}

fn commands(block: &[&str]) -> Vec<Part> {
    let mut parts = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), parts.last_mut()) {
            (Some(line), _) => parts.push(Part::Command { line: line.to_owned(), output: String::new() }),
            (None, Some(Part::Command { output, .. })) => output.extend([line, "\n"]),
            (None, _) => panic!("{line:?} stands before any command"),
        }
    }
    parts
}

/// Words of the lines that depend on how far the generator has come when it is asked: its ids may be above
/// the highest of the counter's already.
const MOVING: [&str; 2] = ["counter is at", " above "];

/// The text that two runs have in common: each number is `#`, and columns have any width.
pub(crate) fn alike(text: &str) -> String {
    let mut alike = String::new();
    for line in text.lines().filter(|line| !MOVING.iter().any(|words| line.contains(words))) {
        for word in line.split_whitespace() {
            let mut digits = false;
            for c in word.chars() {
                if !(c.is_ascii_digit() && digits) {
                    alike.push(if c.is_ascii_digit() { '#' } else { c });
                }
                digits = c.is_ascii_digit();
            }
            alike.push(' ');
        }
        alike.push('\n');
    }
    alike.trim().to_owned()
}

/// The last number of a text.
pub(crate) fn last_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty())?.parse().ok()
}

#[test]
fn a_guide_is_read() {
    let text = "# x\n```toml a.toml\nb = 1\n```\n<!-- test: wait -->\n```console\n$ one | two\nout 1\n$ three\n```\n```sql\nDO 1;\n```\n";
    let command = |line: &str, output: &str| Part::Command { line: line.into(), output: output.into() };
    let expect = [
        Part::File { name: "a.toml".into(), text: "b = 1\n".into() },
        Part::Happens("wait".into()),
        command("one | two", "out 1\n"),
        command("three", ""),
        Part::Sql("DO 1;\n".into()),
    ];
    assert_eq!(parse(text), expect);
    assert_eq!(alike("a  12\nthe counter is at 7\n b1.34"), "a # \nb#.#");
    assert_eq!(last_number("a 12\nb 7 c"), Some(7));
}
