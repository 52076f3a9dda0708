//! SHOW WARNINGS after INSERT ... SELECT: the bytes that the server itself answers with.

use crate::rig::{make, rules, server};
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_QUERY_ATTRIBUTES, Client, Compress, Options, Outcome,
};
use crate::support::{Kind, Proxy, proxy};

const QUERY: u8 = 3;
const DB: &str = "warned";

/// A statement, and what is asked after it.
const STATEMENTS: [(&str, &[&str]); 12] = [
    (
        "INSERT INTO t(a,b) SELECT 500,'abcdef'",
        &["SHOW WARNINGS", "show  warnings;", "SHOW WARNINGS LIMIT 1", "SHOW ERRORS"],
    ),
    (
        "INSERT INTO t(a,b) SELECT 1,'x' UNION ALL SELECT 600,'y'",
        &["/* me */ SHOW WARNINGS LIMIT 0,1", "SHOW WARNINGS LIMIT 1,1"],
    ),
    // More than fit into the numbers of packets.
    ("INSERT INTO t(a,b) SELECT 500,'abcdef' FROM many x, many y", &["SHOW WARNINGS"]),
    ("INSERT INTO t(a,b) SELECT 1,'x'", &["SHOW WARNINGS"]),
    ("INSERT INTO t(a) SELECT 'é' FROM many", &["SHOW WARNINGS"]),
    // Natively the statement that stores the rows warns too.
    ("INSERT IGNORE INTO t(a,u) SELECT 500,7 UNION ALL SELECT 1,7", &["SHOW WARNINGS"]),
    ("INSERT INTO t(id,a) VALUES(@x+0,700)", &["SHOW WARNINGS"]),
    // Zero dates, of which the server warns in each of the two statements.
    (
        "INSERT IGNORE INTO t(d) SELECT '0000-00-00' UNION ALL SELECT '2020-13-01' UNION ALL SELECT '2020-01-02'",
        &["SHOW WARNINGS", "SHOW WARNINGS LIMIT 1,1"],
    ),
    ("INSERT IGNORE INTO t(d,u) SELECT '0000-00-00',n FROM many ORDER BY n", &["SHOW WARNINGS"]),
    (
        "INSERT IGNORE INTO t(d,u) SELECT '0000-00-00',7 ON DUPLICATE KEY UPDATE d='0000-00-00'",
        &["SHOW WARNINGS"],
    ),
    ("INSERT IGNORE INTO t(id,d) VALUES(@x+0,'2020-02-31')", &["SHOW WARNINGS"]),
    ("INSERT INTO t(a,b) SELECT 1,'abcdef' FROM nowhere", &["SHOW WARNINGS", "SHOW ERRORS"]),
];

#[test]
fn they_are_the_servers_own() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(
            server,
            DB,
            "DROP TABLE t; CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, a TINYINT, b VARCHAR(3), u INT UNIQUE, d DATETIME(2)); \
            CREATE TABLE many (n INT); INSERT INTO many VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15),(16),(17);",
        );
        let config = proxy::config(&server.address());
        let proxy = Proxy::start(&config, &[("rules", &rules(DB))]);
        for (compress, capabilities) in [
            (Compress::Off, 0),
            (Compress::Off, CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES),
            (Compress::Zlib, CLIENT_DEPRECATE_EOF),
        ] {
            let options = |compress| Options {
                database: Some(DB.into()),
                compress,
                capabilities,
                ..Options::default()
            };
            let mut direct = Client::connect(&server.address(), &options(Compress::Off)).unwrap();
            let mut proxied = Client::connect(&proxy.address(), &options(compress)).unwrap();
            let attributes: &[u8] = if direct.has(CLIENT_QUERY_ATTRIBUTES) { b"\0\x01" } else { b"" };
            for sql_mode in
                ["", "STRICT_ALL_TABLES", "NO_ZERO_DATE,NO_ZERO_IN_DATE", "STRICT_ALL_TABLES,NO_ZERO_DATE"]
            {
                for (statement, questions) in STATEMENTS {
                    let what =
                        format!("{} {compress:?} {capabilities:x} '{sql_mode}' {statement}", kind.name());
                    for client in [&mut direct, &mut proxied] {
                        client.run(format!("SET sql_mode='{sql_mode}', max_error_count=1024"));
                    }
                    direct.run("DELETE FROM t");
                    let native = outcome(&mut direct, statement);
                    let natively = answers(&mut direct, questions, attributes);
                    direct.run("DELETE FROM t");
                    assert_eq!(outcome(&mut proxied, statement), native, "{what}");
                    let proxied = answers(&mut proxied, questions, attributes);
                    assert!(proxied == natively, "{what}: {proxied:?}, natively {natively:?}");
                }
            }
        }
    }
}

/// The code of the statement's error, or its count of warnings.
fn outcome(client: &mut Client, statement: &str) -> Result<u16, u16> {
    match &client.query(statement).unwrap()[0] {
        Outcome::Ok(ok) => Ok(ok.warnings),
        other => Err(other.err().map_or(0, |error| error.code)),
    }
}

/// The packets that each is answered with.
fn answers(client: &mut Client, questions: &[&str], attributes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let answer = |sql: &&str| client.transcript(QUERY, &[attributes, sql.as_bytes()].concat()).unwrap();
    questions.iter().map(answer).collect()
}
