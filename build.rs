//! The commit and its date, for `rowstamp --version`. Two calls of git: the libraries for it bring two dozen crates along.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // It changes with each commit and checkout. One that is not there would have this run every time.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["show", "--no-patch", "--format=%h %cs", "HEAD"]);
    let behind = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo::rustc-env=ROWSTAMP_VERSION={}{behind}", env!("CARGO_PKG_VERSION"));
}

/// `None`: there is no git, or this is not a repository of Rowstamp's own.
fn git(arguments: &[&str]) -> Option<String> {
    let top = Command::new("git").args(["rev-parse", "--show-prefix"]).output().ok()?;
    // Within another repository, as vendored sources are, the commit would be that one's.
    if !top.status.success() || !top.stdout.trim_ascii().is_empty() {
        return None;
    }
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
