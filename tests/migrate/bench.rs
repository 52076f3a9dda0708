//! Commands as a DBA types them: `rowstamp` and `mysql` by name, in a proxy's folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::servers::sid_command;
use crate::support::{Kind, Server};

/// A folder with both programs; goes with the value.
pub(crate) struct Bench {
    programs: tempfile::TempDir,
}

impl Bench {
    /// `mysql` is the server's own client, logged in as root.
    pub(crate) fn new(server: &Server) -> Bench {
        let programs = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_rowstamp"), programs.path().join("rowstamp")).unwrap();
        let client = match server.kind {
            Kind::MariaDb => "mariadb".to_owned(),
            Kind::MySql9 => sid_command("usr/bin/mysql").join(" "),
        };
        let port = server.port;
        let script =
            format!("#!/bin/sh\nexec {client} --no-defaults -h 127.0.0.1 -P {port} -u root \"$@\"\n");
        let mysql = programs.path().join("mysql");
        fs::write(&mysql, script).unwrap();
        fs::set_permissions(&mysql, fs::Permissions::from_mode(0o755)).unwrap();
        Bench { programs }
    }

    /// Runs the line. Returns how it ends, and what it prints: standard error after standard output.
    pub(crate) fn run(&self, folder: &Path, line: &str) -> (Option<i32>, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.programs.path().display());
        // A pipe ends as its first command that fails.
        let line = format!("set -o pipefail; {line}");
        let Output { status, stdout, stderr } =
            Command::new("bash").args(["-c", &line]).current_dir(folder).env("PATH", path).output().unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    #[track_caller]
    pub(crate) fn check(&self, folder: &Path, line: &str, code: i32, expect: &[&str]) -> String {
        let (found, text) = self.run(folder, line);
        assert_eq!(found, Some(code), "{line}: {text}");
        for expect in expect {
            assert!(text.contains(expect), "{line}: {expect:?} is not in {text}");
        }
        text
    }
}

/// A folder with a configuration for this server, and rules; root is the control account, bounds are in a table of the server.
pub(crate) fn folder(server: &Server, rules: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    fs::create_dir(path.join("rules")).unwrap();
    let config = format!(
        "[backend]\naddress = \"{}\"\n[backend.control]\nuser = \"root\"\npassword = \"\"\n[store]\nkind = \"mysql\"\n",
        server.address()
    );
    fs::write(path.join("rowstamp.toml"), config).unwrap();
    for (name, text) in rules {
        fs::write(path.join(format!("rules/{name}.toml")), text).unwrap();
    }
    server.client().run("CREATE DATABASE IF NOT EXISTS rowstamp");
    (folder, path)
}
