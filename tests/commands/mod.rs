//! The commands as an operator meets them: what they print where, and how they end.

mod environment;
mod preflight;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::Proxy;

/// On no fixed port: another process may have it.
const GOOD: &str = "backend.address = 'db:3306'\nlisten.address = '127.0.0.1:0'\nhttp.address = 'off'\n";
const RULES: &str = "schema = 'shop'\n[generators.ids]\nkind = 'sequence'\nseed = 'none'\n\
                     [tables.orders]\ncolumn = 'id'\ngenerator = 'ids'\n[tables.'items_*']\ncolumn = 'id'\ngenerator = 'ids'\n";

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowstamp")).current_dir(folder).args(args).output().unwrap()
}

/// Runs in a folder with these two files; exit code, what it prints, and what it says on stderr.
#[track_caller]
fn check(config: Option<&str>, args: &[&str], expect: (i32, &str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    fs::write(folder.path().join("rules/shop.toml"), RULES).unwrap();
    if let Some(config) = config {
        fs::write(folder.path().join("rowstamp.toml"), config).unwrap();
    }
    let output = run(folder.path(), args);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(expect.0), "{args:?}: {stdout}{stderr}");
    for (found, wanted) in [(stdout, expect.1), (stderr, expect.2)] {
        let fits = if wanted.is_empty() { found.is_empty() } else { found.contains(wanted) };
        assert!(fits, "{args:?}: {wanted:?} is not what is in {found:?}");
    }
}

#[test]
fn exit_codes() {
    let bad = "backend.adress = 'x'";
    let summary = "0 errors, 1 warning\n2 rules for 1 table and 1 pattern, 1 generator\n";
    check(Some(GOOD), &["check"], (0, summary, ""));
    check(Some(GOOD), &["check", "--config", "rowstamp.toml"], (0, summary, ""));
    check(
        Some(bad),
        &["check"],
        (1, "error: rowstamp.toml:1: backend.adress: unknown key; did you mean address?\n", ""),
    );
    check(
        Some(bad),
        &["serve"],
        (2, "", "error: rowstamp.toml:1: backend.adress: unknown key; did you mean address?\n"),
    );
    check(
        None,
        &["check"],
        (2, "", "error: rowstamp.toml: there is no such file; write one (all keys: `rowstamp book config`)"),
    );
    check(None, &["serve"], (2, "", "error: rowstamp.toml: there is no such file"));
    check(
        Some(GOOD),
        &["check", "--config", "other.toml"],
        (2, "", "error: other.toml: there is no such file"),
    );
    check(Some(GOOD), &["chek"], (2, "", "a similar subcommand exists: 'check'"));
    check(
        Some(GOOD),
        &["check", "--online"],
        (
            2,
            "",
            "[backend.control] is missing: --online reads the server through the control account. Create this account on the server",
        ),
    );
    check(Some(GOOD), &["check", "--json"], (0, "\"code\": \"file\"", ""));
    check(Some(GOOD), &["check", "--help"], (0, "--online", ""));
    check(Some(GOOD), &[], (2, "", "Usage: rowstamp"));
    check(None, &["-V"], (0, concat!("rowstamp ", env!("CARGO_PKG_VERSION"), "\n"), ""));
    check(None, &["--help"], (0, "check", ""));
}

/// --version prints `rowstamp 0.1.0 (c7edc788e7ca 2026-11-25)`; the commit of a packaged crate is not known.
#[test]
fn the_version_has_the_commit_and_its_date() {
    let output = run(Path::new("."), &["--version"]);
    let version = String::from_utf8(output.stdout).unwrap();
    let behind = version.trim().strip_prefix(concat!("rowstamp ", env!("CARGO_PKG_VERSION"))).unwrap();
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() {
        return assert_eq!(behind, "");
    }
    let (commit, date) =
        behind.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')?.split_once(' ')).unwrap();
    assert!(commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{version}");
    let parts: Vec<_> = date.split('-').map(str::len).collect();
    assert_eq!(parts, [4, 2, 2], "{version}");
}

#[test]
fn pages_of_the_book() {
    check(None, &["book"], (0, "\nrefused          Refused statements\n", ""));
    check(None, &["book", "refused"], (0, "# Refused statements\n", ""));
    check(None, &["book", "refuse"], (2, "", "a similar value exists: 'refused'"));
}

#[test]
fn completions_and_manual_pages() {
    for (shell, expect) in
        [("bash", "complete -F _rowstamp"), ("zsh", "#compdef rowstamp"), ("fish", "-l takeover")]
    {
        check(None, &["completions", shell], (0, expect, ""));
    }
    check(None, &["completions", "basch"], (2, "", "a similar value exists: 'bash'"));
    check(None, &["man"], (0, "ROWSTAMP_BACKEND__ADDRESS", ""));
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["man", "--dir", "."]);
    assert!(output.status.success(), "{output:?}");
    for page in ["rowstamp.1", "rowstamp-serve.1", "rowstamp-store-raise.1"] {
        assert!(fs::read_to_string(folder.path().join(page)).unwrap().contains(".TH "), "{page}");
    }
    check(
        None,
        &["man", "--dir", "none"],
        (1, "", "error: none does not exist; name a folder that this user may write to"),
    );
}

#[test]
fn explain_gives_the_second_opinion_where_it_is_asked_for() {
    let insert = &["explain", "--database", "shop", "insert into orders(a) values(1)"][..];
    let partitioned =
        &["explain", "--database", "shop", "insert into orders partition(p0) (a) values(1)"][..];
    let always = format!("{GOOD}rewrite.verify = 'always'\n");
    let note = "the tables' columns are not known";
    check(Some(GOOD), insert, (0, "LAST_INSERT_ID() and the OK packet hold the first\n\n", note));
    check(Some(&always), insert, (0, "hold the first\nrewrite.verify: the second parser agrees\n", note));
    check(
        Some(&always),
        partitioned,
        (0, "rewrite.verify: the second parser cannot judge the statement\n", note),
    );
    let parts =
        &["explain", "insert into shop.t(a) values(1); use shop; call p(); insert into orders(a) values(2)"]
            [..];
    check(
        Some(GOOD),
        parts,
        (0, "after the server's answer:\n insert into orders(a,`id`) values(2,LAST_INSERT_ID(<id 1", note),
    );
    check(Some("rewrite.verify = 'often'\n"), &["check"], (1, "rewrite.verify", ""));
}

#[test]
fn explain_reads_logs() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    let rules = RULES
        .replace("generator = 'ids'\n[tables.'items", "generator = 'ids'\nmode = 'shadow'\n[tables.'items");
    fs::write(folder.path().join("rules/shop.toml"), rules).unwrap();
    fs::write(folder.path().join("rowstamp.toml"), GOOD.replace("db:3306", "127.0.0.1:1")).unwrap();
    let log = "/usr/sbin/mysqld, Version: 9.7.4 (x). started with:\n\
               2026-11-22T21:48:05.123456Z\t    8 Connect\tapp@localhost on shop using TCP/IP\n\
               2026-11-22T21:48:05.123456Z\t    8 Query\tinsert into orders (a) values ('canary'), (2)\n\
               2026-11-22T21:48:05.123456Z\t    8 Query\tinsert into others (a) values (1)\n\
               2026-11-22T21:48:05.123456Z\t    8 Query\tselect 1\n\
               2026-11-22T21:48:05.123456Z\t    8 Prepare\tinsert into items_1 (a) values (?)\n";
    fs::write(folder.path().join("a.log"), log).unwrap();
    let explain = |args: &[&str]| {
        let output = run(folder.path(), &[&["explain"], args].concat());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (exit, out, _) = explain(&["--from", "a.log", "--from", "a.log"]);
    let expect = "statements: 6; refused: 0, server first: 0, rewritten: 2 (ids: 4), INSERTs left unchanged: 2, others: 2\n";
    assert!(exit == 0 && out.ends_with(expect) && !out.contains("canary"), "{exit}: {out}");
    assert!(out.contains("  INSERT INTO orders(a) VALUES (...)\n"), "{out}");
    assert!(out.contains("note: prepared 2 times, and not run\n"), "{out}");
    // Without column lists nothing is known, and so refused.
    fs::write(folder.path().join("b.log"), "\t\t 3 Query\tinsert into shop.orders values (1)\n").unwrap();
    let (exit, out, _) = explain(&["--json", "--from", "b.log"]);
    assert!(
        exit == 1 && out.contains("\"refused\": 1") && out.contains("\"at\": \"b.log:1\""),
        "{exit}: {out}"
    );
    let (exit, _, error) = explain(&["--from", "c.log"]);
    assert!(exit == 1 && error.contains("error: cannot read c.log: "), "{exit}: {error}");
    for wrong in [
        &["--from", "a.log", "insert"][..],
        &["--json", "insert"],
        &["--from", "a.log", "--format", "x"],
        &[],
    ] {
        assert_eq!(explain(wrong).0, 2, "{wrong:?}");
    }
    let (exit, out, _) = explain(&["--database", "shop", "insert into orders(a) values(1)"]);
    let note = "mode = \"shadow\": sent unchanged; with the rule on:\n";
    assert!(exit == 0 && out.starts_with(note) && out.contains("<id 1 of shop.ids>"), "{exit}: {out}");
}

#[test]
fn decode_takes_ids_apart() {
    let tweet = "1541815603606036480\n  time      2022-06-28T16:07:40.105Z\n  node      378\n  sequence  0\n";
    let with = |layout: &'static str, ids: &[&'static str]| [&["decode", "--layout", layout], ids].concat();
    check(None, &with("snowflake", &["1541815603606036480"]), (0, tweet, ""));
    check(None, &with("snowflake", &["1541815603606036480"]), (0, "It may be ahead of the clock", ""));
    let tso = "443852055297916932\n  time      2023-08-27T18:33:41.687Z\n  sequence  4\n";
    check(None, &with("pd-tso", &["1", "443852055297916932"]), (0, tso, ""));
    // Ids that can be read are shown, and each other one is an error.
    check(
        None,
        &with("snowflake", &["-1", "1541815603606036480"]),
        (1, tweet, "error: -1 is no id; write a whole number"),
    );
    check(None, &with("snowflake", &["9223372036854775808"]), (1, "", "is above 9223372036854775807"));
    check(None, &with("snowflake", &["99999999999999999999999"]), (1, "", "is above 9223372036854775807"));
    check(None, &with("js-safe", &["9007199254740992"]), (1, "", "was made with another layout"));
    check(
        None,
        &with("snowflak", &["1"]),
        (2, "", "there is no layout \"snowflak\"; did you mean \"snowflake\"?\n"),
    );
    check(
        None,
        &with("ulid", &["1"]),
        (2, "", "there is no layout \"ulid\"; known: cockroach, cosid, discord"),
    );
    check(None, &["decode", "--layout", "snowflake"], (2, "", "<ID>"));
    check(None, &["decode", "1"], (2, "", "--layout"));
    check(None, &["decode", "--rules", "rules", "1"], (2, "", "--generator"));
    check(
        None,
        &["decode", "--layout", "leaf", "--generator", "shop.ids", "1"],
        (2, "", "cannot be used with"),
    );
    check(
        None,
        &["decode", "--generator", "shop.ids", "1"],
        (2, "", "shop.ids is a sequence, and its ids have no fields\n"),
    );
    check(
        None,
        &["decode", "--generator", "shop.id", "1"],
        (2, "", "rules: there is no generator shop.id; did you mean shop.ids?\n"),
    );
    check(
        None,
        &["decode", "--rules", "none", "--generator", "shop.id", "1"],
        (2, "", "error: none: cannot be read"),
    );
    check(None, &["decode", "--help"], (0, "uid-generator", ""));
}

#[test]
fn timestamp_generators_are_checked_and_decoded() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    let rules = RULES.replace("'sequence'\nseed = 'none'", "'timestamp'\nlayout = 'js-safe'\nnode = 3");
    fs::write(folder.path().join("rules/shop.toml"), &rules).unwrap();
    fs::write(
        folder.path().join("rowstamp.toml"),
        "backend.address = '127.0.0.1:1'\nlisten.address = '127.0.0.1:0'\n",
    )
    .unwrap();
    let said = |args: &[&str]| {
        let output = run(folder.path(), args);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = said(&["check"]);
    assert!(code == Some(0) && text.contains("2 rules for 1 table and 1 pattern, 1 generator\n"), "{text}");
    let (code, text) = said(&["decode", "--generator", "shop.ids", "67108864"]);
    let parts = "67108864\n  time      2019-12-24T16:00:16.384Z\n  node      0\n  sequence  0\nThe time is";
    assert!(code == Some(0) && text.starts_with(parts), "{text}");
    fs::write(folder.path().join("rules/shop.toml"), rules.replace("js-safe", "uid-generator")).unwrap();
    let (code, text) = said(&["check"]);
    assert!(
        code == Some(1)
            && text.contains("generators.ids.layout: \"uid-generator\" is unknown; write \"cockroach\", "),
        "{text}"
    );
}

#[test]
fn a_hangup_reads_the_files_again_and_a_termination_ends_it() {
    let mut proxy = Proxy::start("listen.address = '127.0.0.1:0'\nbackend.address = '127.0.0.1:1'\n", &[]);
    let (is_in_force, log) = proxy.reload();
    assert!(is_in_force, "{log}");
    fs::remove_file(proxy.dir().join("rowstamp.toml")).unwrap();
    let (is_in_force, log) = proxy.reload();
    assert!(!is_in_force && log.contains("there is no such file"), "{log}");
    proxy.stop();
}

/// A folder with a store that a proxy has made, at 1, as its generator has issued nothing.
fn with_store() -> tempfile::TempDir {
    let rules = &[("shop", RULES)];
    let mut proxy = Proxy::start("listen.address = '127.0.0.1:0'\nbackend.address = '127.0.0.1:1'\n", rules);
    proxy.stop();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    for file in ["rowstamp.toml", "rowstamp.redb", "rules/shop.toml"] {
        fs::copy(proxy.dir().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

/// Exit code, and what it says.
fn said(folder: &Path, line: &str) -> (i32, String) {
    let output = run(folder, &line.split(' ').collect::<Vec<_>>());
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_generators_bound_is_raised_and_never_lowered() {
    let folder = with_store();
    let check = |line: &str, code: i32, expect: &str| {
        let (found, text) = said(folder.path(), line);
        assert!(found == code && text.contains(expect), "{line}: {found}: {text}");
    };
    check("store list", 0, "GENERATOR  BOUND  KIND      OWNER\nshop.ids   1      sequence  ");
    check("store raise shop.ids --to 5000", 0, "shop.ids is raised from 1 to 5000\n");
    check("store raise shop.ids --to 5000", 0, "shop.ids is already at 5000\n");
    check(
        "store raise shop.ids --to 4999",
        1,
        "shop.ids is at 5000, which is above 4999; a bound is never lowered",
    );
    let far = "5000000001 is far above its bound, 5000, and the ids in its tables are not known";
    check(
        "store raise shop.ids --to 5000001",
        1,
        "5000001 is far above its bound, 5000, and the ids in its tables are not known",
    );
    check("store raise --settle --to 5000000001", 1, far);
    check("store lower shop.ids --to 7", 2, "[backend.control] is missing");
    check("store list", 0, "shop.ids   5000   sequence  rowstamp store raise\n");
    let (code, json) = said(folder.path(), "store list --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let generator = &json["generators"][0];
    assert_eq!((code, &generator["name"], &generator["bound"]), (0, &"shop.ids".into(), &5000.into()));
    assert_eq!(json["suspect"], serde_json::Value::Null);

    check(
        "store raise shop.id --to 9",
        2,
        "neither the store nor the rules have a generator shop.id; did you mean shop.ids?",
    );
    check("store raise shop.ids", 2, "--to <BOUND>");
    check("store raise --to 9", 2, "<GENERATOR>");
    check("store raise shop.ids --to 18446462598732840961", 2, "is not in 1..=18446462598732840960");
    check("store raise shop.ids --settle", 2, "cannot be used with");
    check("store raise shop.ids --above-tables --to 9", 2, "cannot be used with");
    check("store raise shop.ids --above-tables", 2, "[backend.control] is missing");
    check("store raise --settle", 2, "shop.ids has seed = \"none\"");
    check("store raise --settle --to 4000", 0, "shop.ids is already at 5000\n");
    check("store raise --settle --to 7000", 0, "shop.ids is raised from 5000 to 7000\n");
    check("store", 2, "Usage: rowstamp store");
    check("store --help", 0, "raise");

    fs::remove_file(folder.path().join("rowstamp.redb")).unwrap();
    check(
        "store list",
        1,
        "there is no store yet; correct store.path, or start `rowstamp serve`, which makes the store",
    );
    assert!(!folder.path().join("rowstamp.redb").exists());
}

/// A command whose reader has ended (`rowstamp check | head`) ends as ever, and does all its work.
#[test]
fn a_reader_that_ends_is_no_error() {
    let folder = with_store();
    for line in [
        "check",
        "check --json",
        "explain --database shop insert\tinto\torders(a)\tvalues(1)",
        "decode --layout snowflake 1541815603606036480 x",
        "book",
        "book refused",
        "man",
        "completions bash",
        "store list --json",
        "store raise shop.ids --to 5000",
        "store list",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowstamp"));
        command.current_dir(folder.path()).args(line.split(' ')).stdout(writer);
        let unread = command.output().unwrap();
        let read = run(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let end =
            |output: &Output| (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!(end(&unread), end(&read), "{line}");
        assert!(!read.stdout.is_empty(), "{line}");
    }
    assert!(said(folder.path(), "store list").1.contains("shop.ids   5000 "));
}

#[test]
fn the_store_of_a_proxy_that_runs_is_left_alone() {
    let rules = &[("shop", RULES)];
    let proxy = Proxy::start("listen.address = '127.0.0.1:0'\nbackend.address = '127.0.0.1:1'\n", rules);
    let (code, text) = said(proxy.dir(), "store raise shop.ids --to 9");
    assert!(code == 1 && text.contains("is in use by another Rowstamp process; stop that process"), "{text}");
}

#[test]
fn what_is_exported_raises_another_store_and_lowers_nothing() {
    let (from, to) = (with_store(), with_store());
    let check = |folder: &tempfile::TempDir, line: &str, code: i32, expect: &str| {
        let (found, text) = said(folder.path(), line);
        assert!(found == code && text.contains(expect), "{line}: {found}: {text}");
    };
    let put = |text: &str| fs::write(to.path().join("file"), text).unwrap();
    check(&from, "store raise shop.ids --to 5000", 0, "");
    let table =
        r#"{"key":"bindings/shop.orders","value":{"v":1,"generator":"shop.ids","floor":7,"new":[1]}}"#;
    fs::write(from.path().join("table"), table).unwrap();
    check(&from, "store import table", 0, "table: records: 1, written: 1;");
    check(&from, "store export file", 0, "");
    check(&from, "store export file", 1, "Rowstamp cannot create file; name a file that does not exist");
    let (code, text) = said(from.path(), "store export -");
    assert_eq!((code, &text), (0, &fs::read_to_string(from.path().join("file")).unwrap()));
    assert!(text.lines().count() == 2 && text.contains(r#""new":[1]"#), "{text}");

    put(&text);
    check(&to, "store import file", 0, "file: records: 2, written: 2;");
    check(&to, "store list", 0, "shop.ids   5000   sequence  rowstamp store import\n");
    check(&to, "store list", 0, "shop.orders  shop.ids   7\n");
    check(&to, "store raise shop.ids --to 6000", 0, "");
    check(&to, "store import file", 0, "file: records: 2, written: 0;");
    check(&to, "store list", 0, "shop.ids   6000 ");
    // Nothing at all is written where one record does not fit.
    put(&text.replace("5000", "9000").replace(r#""generator":"shop.ids""#, r#""generator":"shop.b""#));
    check(&to, "store import file", 1, "table shop.orders has generator shop.b, but shop.ids in this store");
    put(&text.replace("sequence", "timestamp"));
    check(
        &to,
        "store import file",
        1,
        "generators/shop.ids is of kind timestamp, but of kind sequence in this store",
    );
    put(&format!("{text}nonsense\n"));
    check(&to, "store import file", 1, "file:3: this is no line of `rowstamp store export`");
    put(r#"{"key":"witness/p1","value":{"v":1}}"#);
    check(&to, "store import file", 1, "file:1: witness/p1 belongs to one store only");
    put(&text.replace(r#""v":1"#, r#""v":2"#));
    check(&to, "store import file", 1, "has format 2, and this version of Rowstamp reads formats up to 1");
    check(&to, "store list", 0, "shop.ids   6000 ");

    // To a store that is not there yet.
    fs::remove_file(to.path().join("rowstamp.redb")).unwrap();
    let other = from.path().join("rowstamp.toml").display().to_string();
    check(&to, &format!("store move --from {other}"), 0, "records: 2, written: ");
    let (_, moved) = said(to.path(), "store export -");
    assert_eq!(moved, text);
    // A store that was moved away is refused, and a move brings it back.
    let moved = [
        "this store was moved to the file ",
        "rowstamp.redb",
        "would come twice",
        "rowstamp store move --from",
    ];
    for line in [
        "serve",
        "store raise shop.ids --to 9000",
        "store import file",
        "store export -",
        "store raise --settle --to 9000",
        "store list",
    ] {
        let (code, text) = said(from.path(), line);
        assert!(code == 1 && moved.iter().all(|part| text.contains(part)), "{line}: {code} {text}");
    }
    check(&to, &format!("store move --from {other}"), 0, "written: 0;");
    let third = with_store();
    check(&third, &format!("store move --from {other}"), 1, "this store was moved to the file");
    check(&to, "store raise shop.ids --to 9000", 0, "to 9000");
    let here = to.path().join("rowstamp.toml").display().to_string();
    check(&from, &format!("store move --from {here}"), 0, "written");
    check(&from, "store list", 0, "shop.ids   9000 ");
    check(&to, "store raise shop.ids --to 9001", 1, "this store was moved to");
}
