//! `log.audit`: what is noted of statements, and what is not.

use std::fs;
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, code_of, each_with, insert_id, rules};
use crate::support::Kind;
use crate::support::raw::Param;
use crate::support::wait::NEVER;

const CONFIG: &str = "[log]\naudit = \"audit.log\"\n";

/// The file's lines, as soon as there are so many.
#[track_caller]
pub(crate) fn lines(rig: &Rig, file: &str, count: usize) -> Vec<serde_json::Value> {
    let (path, end) = (rig.proxy.dir().join(file), Instant::now() + NEVER);
    loop {
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains("s3cret"), "{}: a literal is in it: {text}", rig.name());
        let whole: Vec<_> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
        if whole.len() >= count {
            assert_eq!(whole.len(), count, "{}: {text}", rig.name());
            return whole;
        }
        assert!(Instant::now() < end, "{}: {count} lines are not there: {text}", rig.name());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn statements_with_ids_are_noted_and_no_literal() {
    let rules = rules("audit_notes");
    each_with("audit_notes", "CREATE TABLE w (id BIGINT PRIMARY KEY, s TEXT);", CONFIG, &rules, |rig| {
        rig.change(
            &rules.replace("[tables.t]", "[tables.w]\ncolumn = \"id\"\ngenerator = \"g\"\n[tables.t]"),
        );
        let mut client = rig.client();
        assert_eq!(insert_id(&mut client, "INSERT INTO w(s) VALUES('s3cret1'),('s3cret2')"), 1);
        assert_eq!(insert_id(&mut client, "INSERT INTO w(s) VALUES('s3cret3')"), 3);
        // Another rule's statements, and what is refused or brings its id, got no ids.
        assert_eq!(code(&mut client, "INSERT INTO u VALUES(1, 2)"), 0);
        assert_eq!(code(&mut client, "INSERT INTO w(id, s) VALUES(id, 's3cret4')"), 1235);
        assert_eq!(code(&mut client, "INSERT INTO w(id, s) VALUES(7, 's3cret5')"), 0);
        let prepared = client.prepare("INSERT INTO w(s) VALUES(?)").unwrap().unwrap();
        client.execute(&prepared, &[Param::String(b"s3cret6".to_vec())]).unwrap();
        assert_eq!(code(&mut client, "INSERT INTO w(s) SELECT s FROM w WHERE s = 's3cret3'"), 0);
        let found = lines(rig, "audit.log", 6);
        let texts: Vec<_> = found.iter().filter_map(|line| line["statement"].as_str()).collect();
        assert_eq!(texts.len(), 2, "one row and two look alike, prepared or not: {texts:?}");
        let noted: Vec<_> = found.iter().filter(|line| line["first"].is_u64()).collect();
        let ids = |nth: usize| (noted[nth]["first"].as_u64().unwrap(), noted[nth]["last"].as_u64().unwrap());
        assert_eq!((ids(0), ids(1), ids(2)), ((1, 2), (3, 3), (8, 8)), "{found:?}");
        for line in &noted {
            assert_eq!(
                (&line["table"], &line["generator"]),
                (&"audit_notes.w".into(), &"audit_notes.g".into())
            );
            assert_eq!(line["user"], "root", "{line}");
            assert!(line["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
            let digest = line["digest"].as_str().unwrap();
            assert!(
                found.iter().any(|text| text["statement"].is_string() && text["digest"] == digest),
                "{line}"
            );
        }
        // logrotate: renamed, and a SIGHUP.
        fs::rename(rig.proxy.dir().join("audit.log"), rig.proxy.dir().join("audit.log.1")).unwrap();
        assert!(rig.proxy.reload().0);
        assert_eq!(code(&mut client, "INSERT INTO w(s) VALUES('s3cret7')"), 0);
        assert_eq!(lines(rig, "audit.log", 2)[0]["statement"], texts[0]);
        assert_eq!(lines(rig, "audit.log.1", 6).len(), 6);
        // The proxy's own log has no literal either.
        assert!(!rig.proxy.log().contains("s3cret"), "{}", rig.proxy.log());
    });
}

/// A prepared statement is read as at its PREPARE: a string in double quotes stays one under ANSI_QUOTES.
#[test]
fn a_string_that_was_prepared_is_no_name_in_another_sql_mode() {
    each_with(
        "audit_modes",
        "CREATE TABLE w (id BIGINT PRIMARY KEY, s TEXT, a INT);",
        CONFIG,
        &rules("audit_modes"),
        |rig| {
            rig.change(
                &rules("audit_modes")
                    .replace("[tables.t]", "[tables.w]\ncolumn = \"id\"\ngenerator = \"g\"\n[tables.t]"),
            );
            let mut client = rig.client();
            let insert = client.prepare("INSERT INTO w(s, a) VALUES(\"s3cret1\", ?)").unwrap().unwrap();
            let select = client
                .prepare("INSERT INTO w(s, a) SELECT \"s3cret2\", a FROM u WHERE a < ?")
                .unwrap()
                .unwrap();
            client.run("INSERT INTO u VALUES(1, 2)");
            client.run("SET sql_mode = 'ANSI_QUOTES'");
            // MySQL reads a text again where a parameter is of another type than it took it for: then that is a name to it too (1054).
            let codes = [&insert, &select].map(|prepared| {
                let code = code_of(&client.execute(prepared, &[Param::Int(5)]).unwrap());
                assert!(code == 0 || code == 1054 && rig.kind == Kind::MySql9, "{}: {code}", rig.name());
                code
            });
            client.run("SET sql_mode = DEFAULT");
            assert_eq!(code_of(&client.execute(&select, &[Param::Int(5)]).unwrap()), 0, "{}", rig.name());
            let found = lines(rig, "audit.log", 4 + usize::from(codes[1] == 0));
            assert_eq!(found[0]["statement"], "INSERT INTO w(s, a) VALUES (...)", "{}", rig.name());
            assert_eq!(found[2]["statement"], "INSERT INTO w(s, a) SELECT ?, a FROM u WHERE a < ?");
        },
    );
}
