//! The text that the command prints, where it prints it, and how it ends.

use std::fs;

use serde_json::{Value, json};

use crate::lint::rig::{Folder, ROOT, RULES, client, server};
use crate::support::{Kind, Server};

/// Exit code, standard output and what is said beside.
fn run(folder: &Folder, line: &str) -> (i32, String, String) {
    let output = folder.run(&line.split(' ').collect::<Vec<_>>());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn for_people() {
    for kind in Kind::ALL {
        // A server of its own: tables that other tests create on the shared one are counted too.
        let Some(server) = Server::start(kind) else { continue };
        let server = &server;
        client(server).run(
            "CREATE DATABASE text_shop; USE text_shop; CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY AUTO_INCREMENT)",
        );
        let folder = Folder::new(server, ROOT);
        folder.rules("text_shop", RULES);
        let (code, out, _) = run(&folder, "check --online");
        let note = "text_shop.t\n  warning  auto-increment-kept  rules/text_shop.toml:4: id is still AUTO_INCREMENT: ";
        assert!(code == 0 && out.starts_with(note), "{out}");
        let counts = "\n\n0 errors, 1 warning, 0 notes\n1 rule for 1 table and 0 patterns, 1 generator\n";
        assert!(out.ends_with(counts), "{out}");
        folder.rules("text_shop", &RULES.replace("[tables.t]", "[tables.u]"));
        let (code, out, _) = run(&folder, "check --online");
        assert!(code == 1 && out.contains("  error    table-missing  rules/text_shop.toml:4: "), "{out}");
    }
}

#[test]
fn without_an_account_or_a_server() {
    let Some(mut server) = Server::start(Kind::MariaDb) else { return };
    let folder = Folder::new(&server, ROOT);
    folder.rules("shop", &RULES.replace("'sequence'", "'sequence'\nseed = 'none'"));
    server.kill();
    let (code, out, said) = run(&folder, "check --online --json");
    let away = format!("error: the server at {} cannot be reached: ", server.address());
    assert!(code == 1 && out.is_empty() && said.starts_with(&away), "{out}{said}");
    assert!(said.ends_with("; start it, or correct the address\n"), "{said}");

    let config = format!("backend.address = '{}'\n", server.address());
    fs::write(folder.path().join("rowstamp.toml"), config).unwrap();
    let how = "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `shop`.* TO rowstamp@'%';";
    let (code, out, said) = run(&folder, "check --online");
    assert!(code == 2 && out.is_empty() && said.contains(how), "{out}{said}");
    // The files' own errors come first, and say less of it.
    folder.rules("shop", RULES);
    let (code, out, said) = run(&folder, "check --online");
    assert!(code == 2 && out.contains("generators.g.seed") && said.contains(how), "{out}{said}");
}

/// Syntax errors and their like, also without a server.
#[test]
fn files_as_json() {
    let Some(server) = server(Kind::MariaDb) else { return };
    let folder = Folder::new(server, ROOT);
    folder.rules("shop", RULES);
    let json = |line: &str| {
        let (code, out, said) = run(&folder, line);
        assert_eq!(said, "", "{line}");
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (code, found) = json("check --json");
    assert_eq!((code, found), (0, json!({"findings": [], "errors": 0, "warnings": 0, "notes": 0})));
    folder.rules("shop", &RULES.replace("column = 'id'", "colum = 'id'"));
    for line in ["check --json", "check --online --json"] {
        let (code, found) = json(line);
        let error =
            found["findings"].as_array().unwrap().iter().find(|one| one["severity"] == "error").unwrap();
        assert_eq!((code, &error["code"]), (1, &json!("file")), "{found:#}");
        let place = json!({"object": "tables.t.colum", "file": "rules/shop.toml", "line": 5});
        assert_eq!(error["where"], place);
        assert!(error["remedy"].as_str().unwrap().contains("did you mean column?"), "{found:#}");
    }
}
