//! LOAD DATA into a ruled table: files of the client and of the server, and what goes wrong on the way.

use std::io::Write;

use crate::rig::{code, each, insert_id, make, message, pipelined, rows, server};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, Client, Options};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, proxy};

const LOCAL: &str = "LOAD DATA LOCAL INFILE 'any' INTO TABLE t (a)";

fn lines(numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

#[test]
fn each_line_gets_an_id_in_the_order_of_the_file() {
    each("load_many", "", |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            client.local_file = lines(0..200_000);
            let outcomes = client.run(LOCAL);
            let ok = outcomes[0].ok().unwrap();
            assert_eq!((ok.affected_rows, ok.insert_id), (200_000, 0), "{}", rig.name());
            let first = rows(&mut client, "SELECT LAST_INSERT_ID()");
            let wrong = format!("SELECT COUNT(*), SUM(id <> {first} + a) FROM t");
            assert_eq!(rows(&mut client, &wrong), "200000,0", "{}", rig.name());
            assert_eq!(
                insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)"),
                first.parse::<u64>().unwrap() + 200_000
            );
        }
    });
}

/// The file is the server's own: here the test writes it where the server reads.
#[test]
fn a_file_on_the_server() {
    each("load_server", "", |rig| {
        let mut client = rig.client();
        let folder = rows(&mut client, "SELECT @@datadir");
        let path = std::path::Path::new(folder.trim_end_matches('/')).join("load_server.txt");
        let Ok(mut file) = std::fs::File::create(&path) else {
            panic!("{}: {} cannot be written", rig.name(), path.display());
        };
        file.write_all(b"7\n8\n\\N\n9\n").unwrap();
        drop(file);
        let load = format!("LOAD DATA INFILE '{}' INTO TABLE t (a)", path.display());
        let outcomes = client.run(&load);
        assert_eq!(outcomes[0].ok().map(|ok| ok.affected_rows), Some(4), "{}: {outcomes:?}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(DISTINCT id), MIN(a), MAX(a) FROM t"), "4,7,9");
        // Without LOCAL a row in the way is an error, and none is stored.
        assert_eq!(code(&mut client, &load), 1062, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "4", "{}", rig.name());
        std::fs::remove_file(&path).unwrap();
    });
}

/// Packet numbers go on from the file's, whatever the answer is; and the client's next commands are there already.
#[test]
fn whatever_the_answer_is_the_session_goes_on() {
    each("load_answers", "", |rig| {
        for bytes in [0, 1, 0xFF_FFFF, 20_000_000] {
            let mut client = rig.client();
            client.run("DELETE FROM t");
            client.local_file = [vec![b'1'; bytes], b"\n7\n".to_vec()].concat();
            // Too large a number, or none.
            client.run("SET sql_mode = ''");
            client.run(LOCAL);
            client.run("SET sql_mode = 'STRICT_ALL_TABLES'");
            assert_eq!(rows(&mut client, "SELECT COUNT(*) > 0 FROM t"), "1", "{}: {bytes}", rig.name());
            assert_eq!(code(&mut client, "LOAD DATA LOCAL INFILE 'any' INTO TABLE t (nowhere)"), 1054);
            // A file was asked for, and read, before the refusal.
            client.local_file = b"7\n8\n".to_vec();
            let refused =
                "LOAD DATA LOCAL INFILE 'any' REPLACE INTO TABLE t (@a) SET a = (SELECT 1 UNION SELECT 2)";
            assert_eq!(code(&mut client, refused), 1242, "{}", rig.name());
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0);
        }
    });
}

#[test]
fn a_client_that_dies_in_its_file_leaves_nothing() {
    each("load_dies", "", |rig| {
        let mut direct = Client::connect(&rig.server.address(), &Options::default()).unwrap();
        let mut client = rig.client();
        let id = rows(&mut client, "SELECT CONNECTION_ID()");
        client.send_query(LOCAL.as_bytes()).unwrap();
        assert_eq!(client.read_packet().unwrap(), b"\xfbany", "{}", rig.name());
        drop(client);
        let left = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
        let what = || format!("{}: the session is gone", rig.name());
        wait_until(what, || rows(&mut direct, &left) == "0");
        let mut client = rig.client();
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0", "{}", rig.name());
        client.local_file = lines(0..10);
        assert_eq!(client.run(LOCAL)[0].ok().unwrap().affected_rows, 10, "{}", rig.name());
    });
}

/// Without TRIGGER on the schema the control account cannot see what a BEFORE INSERT trigger would have made of NULL.
#[test]
fn triggers_that_the_control_account_cannot_see() {
    let sql = "CREATE TABLE n (id BIGINT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL); \
        CREATE USER 'load_blind'@'%' IDENTIFIED BY ''; GRANT SELECT ON load_blind.* TO 'load_blind'@'%';";
    let rules = "schema = \"load_blind\"\n[generators.g]\nkind = \"sequence\"\n[tables.n]\ncolumn = \"id\"\ngenerator = \"g\"\n";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, "load_blind", sql);
        let config = proxy::config(&server.address()).replace("user = \"root\"", "user = \"load_blind\"");
        let proxy = Proxy::start(&config, &[("rules", rules)]);
        let connect = |address: String| {
            let options = Options { database: Some("load_blind".to_owned()), ..Options::default() };
            Client::connect(&address, &options).unwrap()
        };
        let mut client = connect(proxy.address());
        client.local_file = b"1\t2\n".to_vec();
        let all = "LOAD DATA LOCAL INFILE 'any' INTO TABLE n (a, b)";
        assert_eq!(client.run(all)[0].ok().unwrap().affected_rows, 1, "{}", kind.name());
        let said = message(&mut client, "LOAD DATA LOCAL INFILE 'any' INTO TABLE n (a)");
        assert!(said.contains("GRANT TRIGGER ON `load_blind`.* TO"), "{}: {said}", kind.name());
        client.local_file = b"\\N\t2\n".to_vec();
        let said = message(&mut client, all);
        assert!(
            said.contains("of the values (warnings: 1)") && said.contains("GRANT TRIGGER"),
            "{}: {said}",
            kind.name()
        );
        let mut root = connect(server.address());
        root.run("GRANT TRIGGER ON load_blind.* TO 'load_blind'@'%'");
        // Connections that are open already may not see it yet.
        let is_seen = || {
            client.local_file = b"\\N\t2\n".to_vec();
            client.query(all).unwrap()[0].ok().is_some_and(|ok| ok.affected_rows == 1)
        };
        wait_until(|| format!("{}: the grant counts", kind.name()), is_seen);
    }
}

#[test]
fn commands_behind_a_load_wait_for_it() {
    each("load_behind", "", |rig| {
        let mut client = rig.client();
        let seen = pipelined(
            &mut client,
            &[
                (3, b"INSERT INTO t(a) VALUES(1)"),
                (3, b"LOAD DATA INFILE '/nowhere/at/all' INTO TABLE t (a)"),
                (3, b"SELECT COUNT(*) FROM t"),
            ],
        );
        // MariaDB reads files of its own folder only.
        let error = if rig.kind == Kind::MariaDb { 1290 } else { 13 };
        assert_eq!(seen, format!("ok 1,error {error},1"), "{}", rig.name());
    });
}
