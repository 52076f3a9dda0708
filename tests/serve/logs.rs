//! `rowstamp explain --from` on logs that the servers themselves have written.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::rig::{code, code_of};
use crate::support::raw::{Client, Options, Param};
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Server, proxy};

const RULES: &str = "schema = \"logs\"\n[generators.g]\nkind = \"sequence\"\n\
                     [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";

/// Exit code and output.
fn explain(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rowstamp"))
        .current_dir(folder)
        .arg("explain")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("canary"), "{text}");
    (output.status.code().unwrap(), text + &String::from_utf8(output.stderr).unwrap())
}

fn write(server: &Server) {
    let mut client = server.client();
    client.run("CREATE DATABASE logs");
    client.run("USE logs");
    client.run("CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT, s VARCHAR(200))");
    client.run("INSERT INTO t(a) VALUES(1)");
    client.run("INSERT INTO t(a) VALUES(2)");
    client.run("insert into t (a) values (3), (4)");
    client.run("INSERT INTO t(a,s)\nVALUES (5,'canary\n# canary\nSET canary;')");
    client.run("INSERT INTO t(id,a) VALUES(50,1)");
    client.run("INSERT INTO t(a) VALUES(50),(51) ON DUPLICATE KEY UPDATE id=id+1000");
    assert_eq!(code(&mut client, "INSERT INTO t(a VALUES(1)"), 1064);
    let options = Options { database: Some("logs".to_owned()), ..Options::default() };
    let mut other = Client::connect(&server.address(), &options).unwrap();
    let insert = other.prepare("INSERT INTO t(a,s) VALUES(?,?)").unwrap().unwrap();
    for a in [7, 8] {
        let params = [Param::Int(a), Param::String(b"it's canary".to_vec())];
        assert_eq!(code_of(&other.execute(&insert, &params).unwrap()), 0);
    }
    other.run("PREPARE s FROM 'INSERT INTO t(a,s) VALUES(7,''canary'')'");
    other.run("EXECUTE s");
    other.run("SET sql_mode='ANSI_QUOTES'");
    other.run("INSERT INTO \"t\"(\"a\") VALUES(9)");
    other.quit().unwrap();
    client.run("FLUSH LOGS");
}

#[test]
fn logs_of_both_servers() {
    for kind in Kind::ALL {
        let arguments = [
            "--general-log=1",
            "--general-log-file=general.log",
            "--slow-query-log=1",
            "--slow-query-log-file=slow.log",
            "--long-query-time=0",
            "--log-output=FILE",
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        let Some(server) = Server::start_with(kind, ServerOptions { arguments, ..ServerOptions::default() })
        else {
            continue;
        };
        write(&server);
        let data = server.client().query("SELECT @@datadir").unwrap()[0].cell(0, 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("rules")).unwrap();
        fs::write(folder.path().join("rules/logs.toml"), RULES).unwrap();
        fs::write(folder.path().join("rowstamp.toml"), proxy::config(&server.address())).unwrap();
        for name in ["general.log", "slow.log"] {
            fs::copy(Path::new(&data).join(name), folder.path().join(name)).unwrap();
        }
        let name = kind.name();
        let (exit, json) = explain(folder.path(), &["--json", "--from", "general.log"]);
        let log = fs::read_to_string(folder.path().join("general.log")).unwrap();
        let found: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|e| panic!("{name}: {e}: {json}"));
        let number = |key: &str| found[key].as_u64().unwrap();
        assert_eq!(exit, 1, "{name}: {json}");
        let counts = ["refused", "server_first", "rewritten", "left", "ids", "broken_lines"].map(number);
        assert_eq!(counts, [1, 1, 8, 1, 9, 0], "{name}: {json}\n{log}");
        let digests = found["digests"].as_array().unwrap();
        let of = |text: &str| {
            digests.iter().find(|row| row["text"] == text).unwrap_or_else(|| panic!("{text}: {json}"))
        };
        assert_eq!(digests[0]["text"], "INSERT INTO t(a) VALUES (...) ON DUPLICATE KEY UPDATE id = id + ?");
        assert!(digests[0]["why"].as_str().unwrap().len() > 10, "{json}");
        // The texts of prepared statements and of others are one digest, and each that ran counts once.
        let both = of("INSERT INTO t(a, s) VALUES (...)");
        assert_eq!((both["count"].as_u64(), both["ids"].as_u64()), (Some(4), Some(4)), "{name}: {json}");
        assert_eq!(of("INSERT INTO t(a) VALUES (...)")["ids"], 4, "{name}: {json}");
        assert_eq!(of("INSERT INTO \"t\"(\"a\") VALUES (...)")["outcome"], "rewritten", "{name}: {json}");
        let (exit, text) = explain(folder.path(), &["--from", "general.log"]);
        assert!(
            exit == 1 && text.contains("refused: 1,") && text.contains("first: general.log:"),
            "{name}: {text}"
        );
        // A slow log tells less: not which statements failed, nor which were prepared.
        let (exit, json) = explain(folder.path(), &["--json", "--from", "slow.log"]);
        let log = fs::read_to_string(folder.path().join("slow.log")).unwrap();
        let found: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|e| panic!("{name}: {e}: {json}"));
        let number = |key: &str| found[key].as_u64().unwrap();
        assert_eq!((exit, number("refused"), number("broken_lines")), (1, 1, 0), "{name}: {json}\n{log}");
        assert!(number("rewritten") >= 7 && number("left") == 1, "{name}: {json}\n{log}");
    }
}

/// A view of a ruled table is one of its names, and a pattern that fits the view is no rule of it.
#[test]
fn views_and_names_without_a_database() {
    for kind in Kind::ALL {
        let Some(server) = Server::start_with(kind, ServerOptions::default()) else { continue };
        let name = kind.name();
        let mut client = server.client();
        client.run("CREATE DATABASE logs");
        client.run("CREATE TABLE logs.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)");
        client.run("CREATE VIEW logs.t_view AS SELECT a AS b, id AS nr FROM logs.t");
        client.run("CREATE VIEW logs.blind AS SELECT b FROM logs.t_view");
        client.run("CREATE DATABASE other");
        client.run("CREATE VIEW other.far AS SELECT nr, b FROM logs.t_view");
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        fs::create_dir(at("rules")).unwrap();
        fs::write(at("rules/logs.toml"), RULES.replace("tables.t]", "tables.\"t*\"]")).unwrap();
        fs::write(at("rowstamp.toml"), proxy::config(&server.address())).unwrap();
        for (sql, exit, expect) in [
            (
                "INSERT INTO logs.t_view(b) VALUES(1)",
                0,
                "INSERT INTO logs.t_view(b,`nr`) VALUES(1,LAST_INSERT_ID(<id 1",
            ),
            (
                "INSERT INTO other.far(b) VALUES(1)",
                0,
                "INSERT INTO other.far(b,`nr`) VALUES(1,LAST_INSERT_ID(<id 1",
            ),
            ("INSERT INTO logs.blind(b) VALUES(1)", 1, "does not show column id exactly once"),
            ("INSERT INTO t(a) VALUES(1)", 0, "t has a rule in logs; write --database logs"),
            ("INSERT INTO far(b) VALUES(1)", 0, "far has a rule in other; write --database other"),
        ] {
            let (code, text) = explain(folder.path(), &[sql]);
            assert!(code == exit && text.contains(expect), "{name}: {sql}: {code} {text}");
        }
        // A log that begins in the midst of connections, as one that logrotate has made.
        fs::write(at("cut.log"), "\t\t    30 Query\tINSERT INTO t(a) VALUES(1)\n").unwrap();
        let (code, text) = explain(folder.path(), &["--from", "cut.log"]);
        assert!(code == 1 && text.contains("remedy: write --database logs"), "{name}: {code} {text}");
        let (code, text) = explain(folder.path(), &["--from", "cut.log", "--database", "logs"]);
        assert!(code == 0 && text.contains("rewritten: 1 (ids: 1)"), "{name}: {code} {text}");
        let (code, text) = explain(folder.path(), &["--from", "rowstamp.toml"]);
        assert!(code == 1 && text.contains("rowstamp.toml is no query log"), "{name}: {code} {text}");
    }
}
