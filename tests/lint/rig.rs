//! A folder with a configuration and rules, and the command that is run in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options};
use crate::support::servers::{ServerOptions, Shared};
use crate::support::{Kind, Server};

/// The settings of this server stay as they are.
pub(crate) fn server(kind: Kind) -> Option<&'static Server> {
    static SERVERS: Shared = Shared::new();
    SERVERS.get(kind, || ServerOptions { binlog: true, ..Default::default() })
}

/// May send several statements at once.
pub(crate) fn client(server: &Server) -> Client {
    let options = Options { capabilities: CLIENT_MULTI_STATEMENTS, ..Options::default() };
    Client::connect(&server.address(), &options).unwrap()
}

/// A table that nothing is wrong with, and its rules.
pub(crate) const TABLE: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT);";
pub(crate) const RULES: &str =
    "[generators.g]\nkind = 'sequence'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n";

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// `account`: lines of `[backend.control]`.
    pub(crate) fn new(server: &Server, account: &str) -> Self {
        Self::at(&server.address(), account)
    }

    pub(crate) fn at(address: &str, account: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("rules")).unwrap();
        folder.configure_at(address, account, "");
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn configure(&self, server: &Server, account: &str, more: &str) {
        self.configure_at(&server.address(), account, more);
    }

    fn configure_at(&self, address: &str, account: &str, more: &str) {
        // On no fixed port: another test's proxy may have it.
        let config = format!(
            "listen.address = '127.0.0.1:0'\nhttp.address = 'off'\nbackend.address = '{address}'\n\
             backend.tls.mode = 'disabled'\n[backend.control]\n{account}\n{more}"
        );
        let path = self.path().join("rowstamp.toml");
        fs::write(&path, config).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes the rules of a schema, after its name.
    pub(crate) fn rules(&self, schema: &str, rules: &str) {
        let text = format!("schema = '{schema}'\n{rules}");
        fs::write(self.path().join(format!("rules/{schema}.toml")), text).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rowstamp")).current_dir(self.path()).args(args).output().unwrap()
    }

    /// The findings of `check --online`. The exit code must say whether there are errors among them.
    #[track_caller]
    pub(crate) fn check(&self) -> Found {
        let output = self.run(&["check", "--online", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let json: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        let errors = json["errors"].as_u64().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(errors > 0)), "{json:#}");
        assert_eq!(said, "");
        Found(json)
    }
}

pub(crate) const ROOT: &str = "user = 'root'\npassword = ''";

pub(crate) struct Found(pub(crate) Value);

impl Found {
    /// Codes of what concerns a schema: its tables, routines, generators.
    pub(crate) fn of(&self, schema: &str) -> Vec<&str> {
        let begins = |place: &Value| {
            let name = place.as_str().unwrap_or_default();
            name == schema || name.strip_prefix(schema).is_some_and(|rest| rest.starts_with('.'))
        };
        let findings = self.0["findings"].as_array().unwrap().iter();
        let mine = findings.filter(|one| begins(&one["where"]["table"]) || begins(&one["where"]["object"]));
        mine.map(|one| one["code"].as_str().unwrap()).collect()
    }

    pub(crate) fn codes(&self) -> Vec<&str> {
        self.0["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect()
    }

    pub(crate) fn has(&self, code: &str) -> bool {
        self.0["findings"].as_array().unwrap().iter().any(|one| one["code"] == code)
    }

    /// The severity, reason and remedy of the first finding with this code.
    pub(crate) fn text(&self, code: &str) -> String {
        let mut findings = self.0["findings"].as_array().unwrap().iter();
        let one = findings.find(|one| one["code"] == code).unwrap_or_else(|| panic!("{code}: {:#}", self.0));
        format!("{}: {}: {}", one["severity"].as_str().unwrap(), one["why"], one["remedy"])
    }
}
