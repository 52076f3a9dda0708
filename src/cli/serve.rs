//! `rowstamp serve`: run the proxy.

use std::path::Path;
use std::process::ExitCode;

/// Reads the configuration; the proxy itself is connected here.
pub fn run(config: &Path) -> anyhow::Result<ExitCode> {
    let loaded = super::load(config)?;
    anyhow::bail!("{}: the proxy is not built yet", loaded.config.proxy.listen)
}
