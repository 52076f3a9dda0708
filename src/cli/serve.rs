//! `rowstamp serve`: run the proxy.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::cli::ConfigArg;
use crate::config::{self, Loaded};
use crate::daemon::log::log_to_stderr;
use crate::daemon::{self, Start};

/// The time that tasks have to end after the proxy has ended. The process does not wait longer for them.
const END_DEADLINE: Duration = Duration::from_secs(6);

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Make timestamp ids with this machine's clock at once, even if the backend's clock is far from it
    #[arg(long)]
    pub trust_clock: bool,
    /// Replace the process that runs with this configuration. That process hands over its listening
    /// socket and its ids, and ends when its last session ends
    #[arg(long)]
    pub takeover: bool,
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let path = &*args.config.config;
    let Loaded { config, written, rules, mark, warnings, .. } = config::load_file(path)?;
    let set_log_level = log_to_stderr(&config.log);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let start =
        Start { config_path: path.to_owned(), trusts_clock: args.trust_clock, takes_over: args.takeover };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(daemon::start(start, (config, *written, mark), rules, set_log_level));
    // Files that a reload reads may lie on a disk that hangs.
    runtime.shutdown_timeout(END_DEADLINE);
    served?;
    Ok(ExitCode::SUCCESS)
}
