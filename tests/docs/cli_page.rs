//! docs/cli.md lists every command with its arguments, as `--help` tells them.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use rowstamp::cli::CommandLine;

use super::{cell, check_part};

const HEAD: &str = "| argument | what |\n|---|---|\n";
/// Told once, for all commands that have it.
const CONFIG: &str = "config";
/// Clap's own.
const ADDED: [&str; 2] = ["help", "version"];

/// The commands below this one, but for clap's own.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| command.get_name() != "help")
}

/// With what clap adds to arguments when it reads a command line.
fn command_line() -> Command {
    let mut command = CommandLine::command();
    command.build();
    command
}

/// Clap takes the dot from the end of a text's only paragraph.
fn sentence(text: &str) -> String {
    let dot = if text.ends_with(['.', ':', '?', ']']) { "" } else { "." };
    format!("{text}{dot}")
}

fn about(command: &Command) -> String {
    let text = command.get_long_about().or(command.get_about());
    sentence(&text.unwrap_or_else(|| panic!("{} has no comment", command.get_name())).to_string())
}

fn word(value: &PossibleValue) -> String {
    let meaning = value.get_help().map_or(String::new(), |help| format!(": {help}"));
    format!("`{}`{meaning}", value.get_name())
}

/// The facts that are not in the text of an argument: its words, its default, its variable.
fn more(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_possible_values().iter().map(word).collect();
    let values = (!values.is_empty()).then(|| format!(" One of {}.", values.join("; ")));
    // A flag's is "false".
    let defaults = if arg.get_action().takes_values() { arg.get_default_values() } else { &[] };
    let default = defaults.first().filter(|value| !value.is_empty());
    let default = default.map(|value| format!(" Default: `{}`.", value.to_str().unwrap()));
    let variable = arg.get_env().map(|name| format!(" Variable: `{}`.", name.to_str().unwrap()));
    [values, default, variable].into_iter().flatten().collect()
}

fn row(arg: &Arg) -> String {
    let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
    let text = arg.get_long_help().or(arg.get_help());
    let text = text.unwrap_or_else(|| panic!("{arg} has no comment")).to_string();
    format!("| `{short}{arg}` | {} |\n", cell(&format!("{}{}", sentence(&text), more(arg))))
}

fn is_own(arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    id != CONFIG && !ADDED.contains(&id)
}

/// The command and those below it, each under a heading with its full name.
fn describe(command: &Command, parent: &str, level: usize, page: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    writeln!(page, "{} {name}\n\n{}", "#".repeat(level), cell(&about(command))).unwrap();
    if below(command).next().is_none() {
        let usage = command.clone().render_usage().to_string();
        writeln!(page, "Usage: `{}`", usage.trim_start_matches("Usage: ")).unwrap();
    }
    page.push('\n');
    let rows: String = command.get_arguments().filter(|arg| is_own(arg)).map(row).collect();
    if !rows.is_empty() {
        writeln!(page, "{HEAD}{rows}").unwrap();
    }
    if let Some(after) = command.get_after_help() {
        writeln!(page, "```text\n{}\n```\n", after.to_string().trim_end()).unwrap();
    }
    below(command).for_each(|command| describe(command, &name, level + 1, page));
}

fn reference(line: &Command) -> String {
    let mut configs =
        below(line).flat_map(Command::get_arguments).filter(|arg| arg.get_id().as_str() == CONFIG);
    let mut page = format!(
        "Commands that read rowstamp.toml have `[OPTIONS]` with this one; it is not repeated below.\n\n{HEAD}{}\n",
        row(configs.next().unwrap())
    );
    below(line).for_each(|command| describe(command, line.get_name(), 2, &mut page));
    page
}

#[test]
fn the_reference_has_every_command() {
    check_part("docs/cli.md", "commands", &reference(&command_line()));
}

#[test]
fn a_command_is_described() {
    let page = reference(&command_line());
    for part in [
        "## rowstamp serve\n\nRun the proxy. ",
        "Usage: `rowstamp explain [OPTIONS] [SQL]`\n\n| argument | what |\n|---|---|\n| `[SQL]` | ",
        "\n### rowstamp store raise\n",
        "| `-c, --config <FILE>` | ",
        " Default: `rowstamp.toml`. Variable: `ROWSTAMP_CONFIG`. |\n",
        "```text\nExamples:\n  rowstamp migrate plan ",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
    assert_eq!(page.matches("--config <FILE>").count(), 1);
    assert!(!page.contains(" help\n"), "clap's own command is left out");
}
