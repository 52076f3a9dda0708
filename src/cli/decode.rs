//! `rowstamp decode`: what the fields of timestamp ids say.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::output::stdout;
use super::{EXIT_FOUND, Usage};
use crate::config::LoadError;
use crate::ids::layout::presets::{PRESETS, Preset};
use crate::ids::layout::{DecodeError, Layout, Parts};
use crate::rules;
use crate::rules::model::GeneratorKind;
use crate::toml_file::{did_you_mean, nearest};

#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The layout of the ids, by the name of a preset: cockroach, cosid, discord, instagram, js-safe,
    /// leaf, mastodon, mycat, pd-tso, polardbx, snowflake, sonyflake, tsid, uid-generator or yitter.
    #[arg(long, value_name = "NAME", required_unless_present = "generator", conflicts_with = "generator")]
    pub layout: Option<String>,
    /// The generator that made the ids, as the rules name it.
    #[arg(long, value_name = "SCHEMA.NAME")]
    pub generator: Option<String>,
    /// The folder of the rules.
    #[arg(long, value_name = "DIR", default_value = "rules", requires = "generator")]
    pub rules: PathBuf,
    /// The ids, as decimal numbers.
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

const AHEAD: &str = "The time is the beginning of the id's tick. It may be ahead of the clock that the id was made with: when a tick is\n\
                     full the generator uses the next one, and after a restart it continues above everything that it had reserved.";

pub fn run(args: &DecodeArgs) -> anyhow::Result<ExitCode> {
    let layout = match (&args.layout, &args.generator) {
        (Some(name), _) => preset(name)?,
        (None, Some(name)) => of_generator(&args.rules, name)?,
        // clap demands one of them.
        (None, None) => return Err(Usage("write --layout or --generator".to_owned()).into()),
    };
    let mut out = stdout();
    let (mut is_any_decoded, mut is_all_decoded) = (false, true);
    for id in &args.ids {
        match decode(&layout, id) {
            Ok(parts) => {
                is_any_decoded = true;
                write!(out, "{}", shown(id, &parts))?;
            }
            Err(why) => {
                is_all_decoded = false;
                eprintln!("error: {id} {why}");
            }
        }
    }
    if is_any_decoded {
        writeln!(out, "{AHEAD}")?;
    }
    Ok(ExitCode::from(if is_all_decoded { 0 } else { EXIT_FOUND }))
}

fn preset(name: &str) -> Result<Layout, Usage> {
    let names = || PRESETS.iter().map(|preset| preset.name);
    match (Preset::find(name), nearest(name, names())) {
        (Some(preset), _) => Ok(preset.layout()),
        (None, Some(near)) => Err(Usage(format!("there is no layout {name:?}; did you mean {near:?}?"))),
        (None, None) => {
            let known = names().collect::<Vec<_>>().join(", ");
            Err(Usage(format!("there is no layout {name:?}; known: {known}")))
        }
    }
}

/// The layout of a generator. Any error in the rules is an error here too.
fn of_generator(folder: &Path, name: &str) -> anyhow::Result<Layout> {
    let (rules, _) = rules::load(folder).map_err(LoadError::Findings)?;
    let Some(spec) = rules.generator_named(name) else {
        let names: Vec<_> = rules.generators().map(|spec| spec.name.to_string()).collect();
        let near = did_you_mean(name, &names);
        return Err(Usage(format!("{}: there is no generator {name}{near}", folder.display())).into());
    };
    match &spec.kind {
        GeneratorKind::Timestamp(timestamp) => Ok(timestamp.layout.clone()),
        GeneratorKind::Sequence(_) => {
            Err(Usage(format!("{}: {name} is a sequence, and its ids have no fields", spec.origin)).into())
        }
    }
}

fn decode(layout: &Layout, id: &str) -> Result<Parts, String> {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err("is no id; write a whole number without a sign".to_owned());
    }
    let parsed = id.parse().map_err(|_| DecodeError::TooLarge);
    parsed.and_then(|id| layout.decode(id)).map_err(|error| error.to_string())
}

/// The id and its fields, a line each.
fn shown(id: &str, parts: &Parts) -> String {
    let mut text = format!("{id}\n  time      {}\n", parts.time);
    for (name, value) in [("node", parts.node), ("sequence", parts.sequence)] {
        if let Some(value) = value {
            // Writing to a String does not fail.
            let _ = writeln!(text, "  {name:<9} {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::DecodeArgs;
    use crate::ids::layout::presets::PRESETS;
    use clap::{Args, Command};

    #[test]
    fn the_help_names_every_preset() {
        let help = DecodeArgs::augment_args(Command::new("decode")).render_long_help().to_string();
        for preset in PRESETS {
            assert!(help.contains(preset.name), "{} is not in {help}", preset.name);
        }
    }
}
