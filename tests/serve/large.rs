//! Statements and results of 16 MiB and of 64 MiB: what is stored, said and shown is what it is without the proxy.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::rig::{Rig, alone, code, code_of, each_with, make, rows, rules, server};
use crate::support::raw::{Client, Options, Outcome, Param, Prepared};
use crate::support::relay::{Port, pass_on};
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Proxy, Server, proxy};

/// The longest payload of one packet.
const EDGE: usize = 0xFF_FFFF;
const AROUND_THE_EDGE: std::ops::RangeInclusive<usize> = EDGE - 1..=EDGE + 2;
const MIB: usize = 1 << 20;

/// Letters that tell a byte that is missing, twice or out of its place: their period is a prime.
fn letters(bytes: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..65_521_u32).map(|n| b'a' + u8::try_from(n * n % 23).unwrap()).collect();
    let mut letters = period.repeat(bytes / period.len() + 1);
    letters.truncate(bytes);
    letters
}

/// A statement whose payload, command byte and all, has this many bytes.
fn text(head: &str, tail: &str, payload_bytes: usize) -> Vec<u8> {
    let room = payload_bytes - 1 - head.len() - tail.len();
    [head.as_bytes(), &letters(room), tail.as_bytes()].concat()
}

/// MyISAM: its log does not get every large row twice. `t` is ruled, `s` too and has AUTO_INCREMENT, `n` is what they are
/// compared with, `w` has no rule.
fn each(db: &str, config: &str, run: impl Fn(&mut Rig)) {
    let _alone = alone();
    let table = |name, id| format!("CREATE TABLE {name} (id BIGINT {id}, a LONGBLOB, b INT) ENGINE=MyISAM;");
    let auto = "AUTO_INCREMENT PRIMARY KEY";
    let sql = [
        "DROP TABLE t;".into(),
        table("t", "PRIMARY KEY"),
        table("s", auto),
        table("n", auto),
        table("w", ""),
    ];
    let rules = format!(
        "{}[generators.h]\nkind = \"sequence\"\n[tables.s]\ncolumn = \"id\"\ngenerator = \"h\"\n",
        rules(db)
    );
    each_with(db, &sql.concat(), config, &rules, run);
}

/// Returns the answer that a client sees to an INSERT, and the row that the server has stored.
fn facts(client: &mut Client, table: &str, outcomes: &[Outcome]) -> String {
    let seen = match &outcomes[0] {
        Outcome::Ok(ok) => {
            assert_eq!(outcomes.len(), 1);
            let columns = "LENGTH(a),SHA2(a,256),b,id=LAST_INSERT_ID()";
            let row = rows(client, &format!("SELECT {columns} FROM {table} WHERE id={}", ok.insert_id));
            format!("{} affected, {} warnings, {row}", ok.affected_rows, ok.warnings)
        }
        Outcome::Err(error) => format!("{} {} {}", error.code, error.sqlstate, error.message),
        other @ Outcome::Rows(_) => panic!("{other:?}"),
    };
    let all = rows(client, &format!("SELECT COUNT(*),SUM(LENGTH(a)) FROM {table}"));
    client.run(format!("TRUNCATE {table}"));
    format!("{seen}; {all}")
}

#[test]
fn inserts_by_text() {
    each("large_text", "", |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        let mut sizes: Vec<_> = AROUND_THE_EDGE.collect();
        sizes.push(64 * MIB - 1);
        for bytes in sizes {
            let of = |table: &str| text(&format!("INSERT INTO {table}(a,b) VALUES('"), "',7)", bytes);
            let outcomes = native.query(of("n")).unwrap();
            let expected = facts(&mut native, "n", &outcomes);
            assert!(expected.starts_with("1 affected"), "{expected}");
            for table in ["t", "s"] {
                let outcomes = proxied.query(of(table)).unwrap();
                assert_eq!(facts(&mut proxied, table, &outcomes), expected, "{} {table} {bytes}", rig.name());
            }
            let outcomes = proxied.query(of("w")).unwrap();
            assert_eq!(outcomes[0].ok().unwrap().affected_rows, 1);
            let stored = rows(&mut proxied, "SELECT LENGTH(a),SHA2(a,256),b FROM w");
            assert!(expected.contains(&stored), "{} w {bytes}", rig.name());
            proxied.run("TRUNCATE w");
        }
    });
}

/// The text becomes longer than one packet, or than four, only by its ids; the answer's packet numbers go on from the
/// client's own, which `Client` holds it to.
#[test]
fn inserts_that_grow_over_the_edge() {
    each("large_grow", "", |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        for bytes in [EDGE - 60, EDGE - 2, 2 * EDGE - 1] {
            // An id before the value and one after it.
            let of = |table: &str| {
                text(&format!("INSERT INTO {table}(id,a,b) VALUES(NULL,'"), "',1),(NULL,'x',2)", bytes)
            };
            let outcomes = native.query(of("n")).unwrap();
            let expected = facts(&mut native, "n", &outcomes);
            for table in ["t", "s"] {
                let outcomes = proxied.query(of(table)).unwrap();
                assert_eq!(facts(&mut proxied, table, &outcomes), expected, "{} {table} {bytes}", rig.name());
            }
            // The server's errors too come under the client's numbers.
            let wrong = |table: &str| text(&format!("INSERT INTO {table}(a,c) VALUES('"), "',1)", bytes);
            let native_code = code(&mut native, wrong("n"));
            assert_eq!((code(&mut proxied, wrong("t")), native_code), (1054, 1054), "{}", rig.name());
        }
    });
}

fn prepared(client: &mut Client, table: &str) -> Prepared {
    client.prepare(format!("INSERT INTO {table}(a,b) VALUES(?,?)")).unwrap().unwrap()
}

/// Command, statement, flag, iterations; bitmap, flag, types, the value's length; the other value.
const AROUND_A_VALUE: usize = 1 + 4 + 1 + 4 + 1 + 1 + 4 + 9 + 8;

#[test]
fn executions() {
    each("large_execute", "", |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        let of_native = prepared(&mut native, "n");
        let of_ruled = ["t", "s"].map(|table| (table, prepared(&mut proxied, table)));
        let mut sizes: Vec<_> = AROUND_THE_EDGE.collect();
        // The hidden parameter takes ten bytes, and more where the bitmap grows.
        sizes.extend([EDGE - 11, EDGE - 10, 64 * MIB - 1]);
        for bytes in sizes {
            let params = [Param::Blob(letters(bytes - AROUND_A_VALUE)), Param::Int(7)];
            let outcomes = native.execute(&of_native, &params).unwrap();
            let expected = facts(&mut native, "n", &outcomes);
            assert!(expected.starts_with("1 affected"), "{expected}");
            for (table, statement) in &of_ruled {
                let outcomes = proxied.execute(statement, &params).unwrap();
                assert_eq!(facts(&mut proxied, table, &outcomes), expected, "{} {table} {bytes}", rig.name());
            }
        }
    });
}

#[test]
fn long_data() {
    each("large_long", "", |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        let of_native = prepared(&mut native, "n");
        let of_ruled = ["t", "s"].map(|table| (table, prepared(&mut proxied, table)));
        // Command, statement and parameter are seven bytes.
        for bytes in [EDGE - 7, EDGE - 6, EDGE - 5, 63 * MIB] {
            let params = [Param::Long(letters(bytes)), Param::Int(7)];
            let outcomes = native.execute(&of_native, &params).unwrap();
            let expected = facts(&mut native, "n", &outcomes);
            for (table, statement) in &of_ruled {
                let outcomes = proxied.execute(statement, &params).unwrap();
                assert_eq!(facts(&mut proxied, table, &outcomes), expected, "{} {table} {bytes}", rig.name());
            }
        }
        assert_eq!(code(&mut proxied, "INSERT INTO t(a) VALUES('x')"), 0);
    });
}

#[test]
fn results() {
    each("large_results", "", |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        proxied.run("INSERT INTO t(a) VALUES('x')");
        // The row: its length takes four bytes, or nine.
        for bytes in AROUND_THE_EDGE.chain([EDGE + 5, EDGE + 10]).map(|bytes| bytes - 4).chain([64 * MIB]) {
            let query = format!("SELECT 1,REPEAT('rowstamp1',{bytes} DIV 9),2 UNION ALL SELECT 3,'end',4");
            let of = |client: &mut Client| match client.run(&query).remove(0) {
                Outcome::Rows(set) => set.rows,
                other => panic!("{other:?}"),
            };
            assert!(of(&mut native) == of(&mut proxied), "{} {bytes}", rig.name());
        }
        assert_eq!(code(&mut proxied, "INSERT INTO t(a) VALUES('y')"), 0);
        assert_eq!(rows(&mut proxied, "SELECT COUNT(*) FROM t WHERE id=LAST_INSERT_ID()"), "1");
    });
}

#[test]
fn above_the_default_limit() {
    each("large_limit", "", |rig| {
        let mut client = rig.client();
        let of = |table: &str, bytes| text(&format!("INSERT INTO {table}(a) VALUES('"), "')", bytes);
        assert_eq!(code(&mut client, of("t", 64 * MIB)), 0, "{}", rig.name());
        assert_eq!(code(&mut client, of("t", 64 * MIB + 100)), 1153, "{}", rig.name());
        assert_eq!(code(&mut client, of("w", 64 * MIB + 100)), 0, "{}", rig.name());
        let statement = prepared(&mut client, "t");
        let params = [Param::Blob(letters(64 * MIB + 100)), Param::Int(7)];
        assert_eq!(code_of(&client.execute(&statement, &params).unwrap()), 1153, "{}", rig.name());
        assert_eq!(code_of(&client.execute(&statement, &[Param::Null, Param::Int(8)]).unwrap()), 0);
        let seen = rows(&mut client, "SELECT b FROM t WHERE id=LAST_INSERT_ID()");
        assert_eq!(seen, "8", "{}: the session goes on", rig.name());
    });
    each("large_allowed", "[limits]\nstatement_bytes = \"70MiB\"\n", |rig| {
        let mut client = rig.client();
        let insert = text("INSERT INTO t(a) VALUES('", "')", 65 * MIB);
        assert_eq!(code(&mut client, insert), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT LENGTH(a) FROM t"), (65 * MIB - 28).to_string());
    });
}

/// Returns the answer to a text, and whether the session goes on after it. The server may close
/// while it is sent.
fn end(client: &mut Client, statement: &[u8]) -> String {
    let _ = client.send_query(statement);
    let said = match client.read_outcomes(false) {
        Ok(outcomes) => match outcomes.last().unwrap() {
            Outcome::Err(error) => format!("{} {} {}", error.code, error.sqlstate, error.message),
            _ => "good".to_owned(),
        },
        Err(error) => format!("closed: {:?}", error.kind()),
    };
    let goes_on = client.query("SELECT 1").is_ok_and(|outcomes| code_of(&outcomes) == 0);
    format!("{said}; {}", if goes_on { "goes on" } else { "is over" })
}

#[test]
fn at_the_servers_own_limit() {
    const ALLOWED: usize = 17 * MIB;
    let _alone = alone();
    for kind in Kind::ALL {
        let options = ServerOptions {
            arguments: vec![format!("--max-allowed-packet={ALLOWED}")],
            ..Default::default()
        };
        let Some(server) = Server::start_with(kind, options) else { continue };
        make(&server, "large_server", "CREATE TABLE l (id BIGINT PRIMARY KEY, a LONGBLOB) ENGINE=MyISAM;");
        let rules = rules("large_server").replace("[tables.t]", "[tables.l]");
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules)]);
        let options = Options { database: Some("large_server".into()), ..Options::default() };
        let connect = |address: &str| Client::connect(address, &options).unwrap();
        let mut refused = String::new();
        for (head, tail) in [("SELECT LENGTH('", "')"), ("INSERT INTO l(id,a) VALUES(1,'", "')")] {
            for bytes in [ALLOWED - 1, ALLOWED, ALLOWED + 1, ALLOWED + 2] {
                let statement = text(head, tail, bytes);
                let of = |address: &str| end(&mut connect(address), &statement);
                let native = of(&server.address());
                connect(&server.address()).run("DELETE FROM l");
                let proxied = of(&proxy.address());
                assert_eq!(native, proxied, "{} {head} {bytes}", kind.name());
                assert_eq!(native == "good; goes on", bytes < ALLOWED, "{} {head} {bytes}", kind.name());
                refused = native;
                connect(&server.address()).run("DELETE FROM l");
            }
        }
        // The id makes it too long: what it comes to is the server's own answer too.
        for (bytes, expect) in
            [(ALLOWED - 100, "good; goes on"), (ALLOWED - 10, &*refused), (ALLOWED, &refused)]
        {
            let said = end(&mut connect(&proxy.address()), &text("INSERT INTO l(a) VALUES('", "')", bytes));
            assert_eq!(said, expect, "{} {bytes}", kind.name());
        }
        assert_eq!(rows(&mut connect(&proxy.address()), "SELECT COUNT(*) FROM l"), "1", "{}", kind.name());
    }
}

/// A relay in front of the server that takes its time with what comes from the proxy. TLS is spoken through it: a write is
/// taken by the TLS buffer, and waits there while the socket is full.
fn slow(server: &str) -> Port {
    let server = server.to_owned();
    Port::open(move |proxy| {
        let server = TcpStream::connect(&server).expect("the server listens");
        pass_on(&proxy, &server, |bytes| {
            if bytes.len() > 4096 {
                thread::sleep(Duration::from_micros(500));
            }
        });
        pass_on(&server, &proxy, |_| ());
    })
}

#[test]
fn a_slow_way_to_a_server_that_speaks_tls() {
    // MariaDB of this age has no certificate of its own.
    let Some(server) = server(Kind::MySql9) else { return };
    make(
        server,
        "large_slow",
        "CREATE TABLE l (id BIGINT AUTO_INCREMENT PRIMARY KEY, a LONGBLOB) ENGINE=MyISAM;",
    );
    let slow = slow(&server.address());
    let config = proxy::config(&slow.address());
    let ruled = rules("large_slow").replace("tables.t", "tables.l");
    let proxy = Proxy::start(&config, &[("rules", &ruled)]);
    let timeout = Duration::from_secs(10);
    let options = Options { database: Some("large_slow".into()), timeout, ..Options::default() };
    let mut client = Client::connect(&proxy.address(), &options).unwrap();
    assert!(!rows(&mut client, "SHOW STATUS LIKE 'Ssl_cipher'").ends_with(','), "it speaks TLS");
    for insert in ["INSERT INTO l(a) SELECT ?", "INSERT INTO l(a) VALUES(?)"] {
        let insert = client.prepare(insert).unwrap().unwrap();
        for more in 0..12 {
            let value = letters(6 * MIB + more * 5_003);
            let expect = value.len().to_string();
            assert_eq!(code_of(&client.execute(&insert, &[Param::Blob(value)]).unwrap()), 0);
            assert_eq!(rows(&mut client, "SELECT LENGTH(a) FROM l ORDER BY id DESC LIMIT 1"), expect);
        }
    }
}
