//! The program's texts for its users name no file that `cargo install` does not bring. They name pages of the
//! book by the command that prints them, and the pages are there.

use clap::{Command, CommandFactory};
use rowstamp::book::PAGES;
use rowstamp::cli::CommandLine;
use serde_json::Value;

use super::config::{config_schema, rules_schema};
use super::{files, read};

/// Files and folders of the repository, as texts would name them.
const NOT_INSTALLED: [&str; 7] =
    ["README", "docs/", "examples/", "schemas/", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"];
/// The endings of the program's own files: its web page is served as it stands.
const SOURCES: [&str; 3] = [".rs", ".js", ".html"];

/// The first of them in a text.
fn named(text: &str) -> Option<&'static str> {
    NOT_INSTALLED.into_iter().find(|name| text.contains(name))
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part.ends_with("tests.rs"))
}

/// Lines that are no comments, up to the tests at a file's end, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (body, _) = text.split_once("\nmod tests {").unwrap_or((text, ""));
    let lines = body.lines().map(|line| line.split_once(" // ").map_or(line, |(code, _)| code));
    lines.enumerate().map(|(n, line)| (n + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn sources() -> impl Iterator<Item = (String, String)> {
    let paths = SOURCES.into_iter().flat_map(|ending| files("src", ending));
    paths.filter(|path| !is_test(path)).map(|path| (path.clone(), read(&path)))
}

#[test]
fn no_text_of_the_program_names_a_file_of_the_repository() {
    let faults: Vec<_> = sources()
        .filter(|(path, _)| path != "src/book.rs")
        .flat_map(|(path, text)| {
            let found = code(&text).filter_map(|(n, line)| Some((n, named(line)?)));
            found.map(|(n, name)| format!("{path}:{n}: {name}: write book::page!")).collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Doc comments that become texts: of commands and their arguments, of keys.
#[test]
fn no_help_names_a_file_of_the_repository() {
    let mut texts = Vec::new();
    of_command(&CommandLine::command(), &mut texts);
    of_schema(&config_schema(), &mut texts);
    of_schema(&rules_schema(), &mut texts);
    let faults: Vec<_> = texts.iter().filter(|text| named(text).is_some()).collect();
    assert!(texts.len() > 200 && faults.is_empty(), "{faults:#?}");
}

fn of_command(command: &Command, texts: &mut Vec<String>) {
    let about = [command.get_about(), command.get_long_about()];
    let after = [command.get_after_help(), command.get_after_long_help()];
    let arguments = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
    texts.extend(about.into_iter().chain(after).chain(arguments).flatten().map(ToString::to_string));
    command.get_subcommands().for_each(|command| of_command(command, texts));
}

fn of_schema(schema: &Value, texts: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            texts.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| of_schema(field, texts));
        }
        Value::Array(items) => items.iter().for_each(|item| of_schema(item, texts)),
        _ => {}
    }
}

#[test]
fn the_pages_that_texts_name_are_there() {
    let mut count = 0;
    for (path, text) in sources() {
        for rest in code(&text).flat_map(|(_, line)| line.split("page!(\"").skip(1)) {
            let (name, _) = rest.split_once('"').unwrap();
            assert!(PAGES.iter().any(|page| page.name == name), "{path} names {name}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn names_are_found() {
    for (text, expect) in [
        ("see README.md, \"X\"", Some("README")),
        ("write it (docs/check.md)", Some("docs/")),
        ("rowstamp check", None),
    ] {
        assert_eq!(named(text), expect, "{text}");
    }
    let text = "//! README\n    // README\nx(); // README\ny(\"README\");\n#[cfg(test)]\nmod tests {\n    README\n}\n";
    let found: Vec<_> = code(text).filter(|(_, line)| named(line).is_some()).collect();
    assert_eq!(found, [(4, "y(\"README\");")]);
}
