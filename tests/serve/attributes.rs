//! Query attributes (MySQL): statements and executions keep theirs, whatever is put in beside them.

use std::io::Write;
use std::process::Command;

use crate::rig::{Rig, code, code_of, each, insert_id, rows};
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_QUERY_ATTRIBUTES, Client, Param,
};
use crate::support::{Kind, servers};

const SQL: &str =
    "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b VARCHAR(10000), k INT UNIQUE);";
const READ: &str = "mysql_query_attribute_string('who')";

/// MySQL's sessions; MariaDB does not offer the bit, and so neither do we.
fn each_mysql(db: &str, run: impl Fn(&mut Rig)) {
    each(db, SQL, |rig| {
        let client = rig.client_with(CLIENT_QUERY_ATTRIBUTES);
        assert_eq!(client.has(CLIENT_QUERY_ATTRIBUTES), rig.kind == Kind::MySql9, "{}", rig.name());
        if rig.kind == Kind::MySql9 {
            // Another test may have installed it.
            let _ = rig.direct().query("INSTALL COMPONENT 'file://component_query_attributes'");
            run(rig);
        }
    });
}

/// The function shows no more than 1,023 bytes, so it is another one that is long.
fn with_filler(bytes: usize, name: &str) -> Vec<(String, Param)> {
    let mut attributes = vec![("filler".to_owned(), Param::String(vec![b'x'; bytes]))];
    attributes.extend(who(name));
    attributes
}

fn who(name: &str) -> Vec<(String, Param)> {
    vec![
        ("n".into(), Param::Int(7)),
        ("none".into(), Param::NullInt),
        ("who".into(), Param::String(name.into())),
    ]
}

#[test]
fn texts_keep_theirs() {
    each_mysql("attributes_text", |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS] {
            let mut client = rig.client_with(CLIENT_QUERY_ATTRIBUTES | capabilities);
            client.run("DELETE FROM t");
            let first = insert_id(&mut client, "INSERT INTO t(a) VALUES(1)");
            // 9,000 bytes: more than a first look takes in.
            for (filler, name) in [(0, "Ada"), (0, "; INSERT INTO t(a) VALUES(2)"), (9000, "Barbara")] {
                client.attributes = with_filler(filler, name);
                let id = insert_id(&mut client, &format!("INSERT INTO t(a,b) VALUES(3,{READ})"));
                assert!(id > first);
                assert_eq!(rows(&mut client, &format!("SELECT b FROM t WHERE id={id}")), name);
                assert_eq!(rows(&mut client, &format!("SELECT {READ}")), name);
                assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), id.to_string());
            }
            client.attributes = who("Grace");
            let id = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(4),(5)");
            assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), id.to_string());
            assert_eq!(code(&mut client, "INSERT INTO t(id) VALUES(id)"), 1235);
            assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1) garbage"), 1064);
            client.reset().unwrap();
            client.run("USE attributes_text");
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(6)") > id);
        }
    });
}

#[test]
fn attributes_over_the_edge_of_a_packet() {
    each_mysql("attributes_edge", |rig| {
        let mut client = rig.client_with(CLIENT_QUERY_ATTRIBUTES);
        for bytes in [70_000, 0xFF_FFFF, 20_000_000] {
            client.attributes = with_filler(bytes, "Ada");
            let id = insert_id(&mut client, &format!("INSERT INTO t(b) VALUES({READ})"));
            assert!(id > 0, "{bytes}");
            assert_eq!(rows(&mut client, &format!("SELECT b FROM t WHERE id={id}")), "Ada");
        }
    });
}

#[test]
fn executions_keep_theirs() {
    each_mysql("attributes_prepared", |rig| {
        let mut client = rig.client_with(CLIENT_QUERY_ATTRIBUTES);
        let none = client.prepare(format!("INSERT INTO t(a,b) VALUES(1,{READ})")).unwrap().unwrap();
        let two = client.prepare(format!("INSERT INTO t(a,b) VALUES(?,{READ}),(?,'b')")).unwrap().unwrap();
        let id = client.prepare(format!("INSERT INTO t(id,b) VALUES(?,{READ})")).unwrap().unwrap();
        let ignore = client.prepare("INSERT IGNORE INTO t(k) VALUES(?),(?)").unwrap().unwrap();
        for name in ["", "Ada", "Grace"] {
            client.run("DELETE FROM t");
            client.attributes = if name.is_empty() { Vec::new() } else { who(name) };
            assert_eq!(code_of(&client.execute(&none, &[]).unwrap()), 0);
            assert_eq!(code_of(&client.execute(&two, &[Param::Int(2), Param::NullInt]).unwrap()), 0);
            assert_eq!(code_of(&client.execute(&id, &[Param::Null]).unwrap()), 0);
            assert_eq!(code_of(&client.execute(&ignore, &[Param::Int(8), Param::Int(9)]).unwrap()), 0);
            let name = if name.is_empty() { "NULL" } else { name };
            let expect =
                format!("1,{name},NULL 2,{name},NULL NULL,b,NULL NULL,{name},NULL NULL,NULL,8 NULL,NULL,9");
            assert_eq!(rows(&mut client, "SELECT a,b,k FROM t ORDER BY id"), expect);
            assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE id<1"), "0");
        }
    });
}

#[test]
fn executions_without_types_and_with_too_few_parameters() {
    each_mysql("attributes_types", |rig| {
        let mut client = rig.client_with(CLIENT_QUERY_ATTRIBUTES);
        let insert = client.prepare("INSERT INTO t(a,k) VALUES(?,?)").unwrap().unwrap();
        let mut execute = |rest: &[u8]| {
            let body = [&insert.id.to_le_bytes()[..], &[8, 1, 0, 0, 0], rest].concat();
            client.send_command(0x17, &body).unwrap();
            code_of(&client.read_outcomes(true).unwrap())
        };
        // Two TINYs and an attribute; then without types, with none to know the attribute's by; then one parameter.
        assert_eq!(execute(b"\x03\x00\x01\x01\x00\x00\x01\x00\x00\xfe\x00\x03who\x01\x02\x01x"), 0);
        assert_eq!(execute(b"\x02\x00\x00\x03\x04"), 0);
        assert_ne!(execute(b"\x03\x00\x00\x05\x06\x01x"), 0);
        assert_ne!(execute(b"\x01\x00\x01\x01\x00\x00\x07"), 0);
        assert_eq!(execute(b"\x02\x02\x00\x08"), 0);
        assert_eq!(rows(&mut client, "SELECT a,k FROM t WHERE id>0 ORDER BY id"), "1,2 3,4 8,NULL");
    });
}

#[test]
fn what_the_server_does_not_read_either() {
    each_mysql("attributes_bad", |rig| {
        let (mut direct, mut client) =
            (rig.direct_with(CLIENT_QUERY_ATTRIBUTES), rig.client_with(CLIENT_QUERY_ATTRIBUTES));
        client.run("BEGIN");
        let insert = b"INSERT INTO t(a) VALUES(1)";
        for before in [
            &b"\x00\x02"[..],
            b"\x00\x00",
            b"\x01\x01\x00\x00",
            b"\xfb\x01",
            b"\x01\x02\x00\x01\xfe\x00\x01a\x02hi",
            b"",
        ] {
            let answer = |client: &mut Client| {
                client.send_command(3, &[before, insert].concat()).unwrap();
                client.read_outcomes(false).unwrap()
            };
            assert_eq!(answer(&mut client), answer(&mut direct), "{before:?}");
        }
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1);
        client.run("ROLLBACK");
    });
}

/// MySQL's own command line client.
#[test]
fn the_mysql_program() {
    each_mysql("attributes_cli", |rig| {
        let mut line = servers::sid_command("usr/bin/mysql");
        let port = rig.proxy.port.to_string();
        let options = [
            "--no-defaults",
            "--commands",
            "--named-commands",
            "-uroot",
            "-h127.0.0.1",
            "-P",
            &port,
            "-NB",
            "attributes_cli",
        ];
        line.extend(options.map(str::to_owned));
        let mut mysql = Command::new(&line[0]);
        let pipe = || std::process::Stdio::piped();
        let mut mysql = mysql.args(&line[1..]).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
        let text = format!(
            "query_attributes who Ada\nINSERT INTO t(a,b) VALUES(1,{READ});\nSELECT LAST_INSERT_ID(), b FROM t;\n"
        );
        mysql.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = mysql.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), "1\tAda", "{}", String::from_utf8_lossy(&output.stderr));
    });
}
