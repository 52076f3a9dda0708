//! The pages of the book that users need: those of docs/, but for its part for developers. `cargo install` brings no file of
//! the repository, so the program carries them: `rowstamp book` prints one, and the texts of the program name them by it.

/// A page, as `rowstamp book NAME` knows it.
#[derive(Debug)]
pub struct Page {
    pub name: &'static str,
    /// Markdown; its first line is `# ` and the title.
    pub text: &'static str,
}

impl Page {
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }
}

/// All of docs/, and the last one, which there only includes it.
macro_rules! pages {
    ($($name:literal)+) => {
        &[
            $(Page { name: $name, text: include_str!(concat!("../docs/", $name, ".md")) },)+
            Page { name: "changes", text: include_str!("../CHANGELOG.md") },
        ]
    };
}

/// In the order of docs/SUMMARY.md. A test holds that none is missing.
pub const PAGES: &[Page] = pages![
    "introduction"
    "quickstart"
    "install"
    "first-table"
    "words"
    "limits-of-use"
    "topologies"
    "stores"
    "accounts"
    "security"
    "rehearse"
    "check"
    "migrate"
    "migrate-back"
    "inserts"
    "draws"
    "redis"
    "http"
    "id-services"
    "refused"
    "differences"
    "native"
    "timestamps"
    "errors"
    "service"
    "reload"
    "upgrade"
    "monitoring"
    "console"
    "users"
    "store-commands"
    "restore"
    "audit"
    "network"
    "load-balancers"
    "environment"
    "capacity"
    "runbook"
    "troubleshooting"
    "faq"
    "config"
    "rules"
    "cli"
    "metrics"
    "compatibility"
    "benchmarks"
];

/// The command with which a text names a page of the book: `rowstamp book errors`. It is a literal, because constants and
/// `concat!` need one. A test checks that the page exists.
macro_rules! page {
    ($name:literal) => {
        concat!("`rowstamp book ", $name, "`")
    };
}

pub(crate) use page;
