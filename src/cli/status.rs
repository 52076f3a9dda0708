//! `rowstamp status`: a running proxy on one screen, as its HTTP server reports it.

mod client;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::output::stdout;
use super::{ConfigArg, EXIT_FOUND, Usage, block_on};
use crate::address::Address;
use crate::admin::status::{FORMAT, Status};
use crate::config;

const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// To the upper left corner, and the screen empty from there (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Print one JSON object, the same as /status.json.
    #[arg(long)]
    pub json: bool,
    /// Repeat every two seconds until you stop the command.
    #[arg(long)]
    pub watch: bool,
}

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let address = config::http_address(&args.config.config)?;
    let Some(address) = address else {
        bail!(Usage("http.address is \"off\", so the proxy cannot be asked; write an address".into()));
    };
    if matches!(address, Address::Tcp { port: 0, .. }) {
        bail!(Usage("http.address has port 0, so the port is not known; write a port".into()));
    }
    block_on(async {
        if args.watch { watch(&address, args.json).await } else { once(&address, args.json).await }
    })
}

async fn once(address: &Address, json: bool) -> anyhow::Result<ExitCode> {
    let answer = client::ask(address).await?;
    let status = read(&answer)?;
    let mut out = stdout();
    if json {
        out.write_all(&answer)?;
    } else {
        out.write_all(screen::screen(&status).as_bytes())?;
    }
    Ok(ExitCode::from(if status.ready { 0 } else { EXIT_FOUND }))
}

async fn watch(address: &Address, json: bool) -> anyhow::Result<ExitCode> {
    let clears = !json && io::stdout().is_terminal();
    loop {
        let shown = match client::ask(address).await {
            Ok(answer) if json => String::from_utf8_lossy(&answer).into_owned(),
            Ok(answer) => screen::screen(&read(&answer)?),
            // The proxy may be about to start, or to be taken over.
            Err(error) => {
                eprintln!("{}error: {error}", if clears { CLEAR } else { "" });
                String::new()
            }
        };
        if !shown.is_empty() {
            let mut out = stdout();
            write!(out, "{}{shown}", if clears { CLEAR } else { "" })?;
            out.flush()?;
            if !out.has_reader() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

fn read(answer: &[u8]) -> anyhow::Result<Status> {
    let other = "the program at http.address is not Rowstamp, or is another version of it";
    let status: Status = serde_json::from_slice(answer).context(other)?;
    ensure!(status.format == FORMAT, "{other}: its status has format {}, not {FORMAT}", status.format);
    Ok(status)
}
