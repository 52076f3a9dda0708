//! Packets of several statements that go to the server in parts: the client sees one response, as the server's own.

use crate::rig::{code, each, make, pipelined, rows, rules, server};
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_QUERY_ATTRIBUTES, Client, Compress, Options, Param,
};
use crate::support::{Kind, Proxy, proxy};

const QUERY: u8 = 3;
const CLIENTS: [Compress; 3] = [Compress::Off, Compress::Zlib, Compress::Zstd(1)];

/// The second and fourth statements go by way of a stage, and store nothing: the answer has no id.
const SQL: &str = "SELECT 'one' AS a, NULL; INSERT INTO t(a) SELECT a FROM t WHERE 0; \
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, REPEAT('x', i) FROM n; \
    REPLACE INTO t(a) SELECT 5 FROM t WHERE 0; DO 1; SELECT 'last'";

#[test]
fn the_bytes_are_the_servers_own() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, "parts_bytes", "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT;");
        let config = proxy::config(&server.address());
        let proxy = Proxy::start(&config, &[("rules", &rules("parts_bytes"))]);
        for compress in CLIENTS {
            for capabilities in [0, CLIENT_DEPRECATE_EOF, CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES] {
                let what = format!("{} {compress:?} {capabilities:x}", kind.name());
                let capabilities = capabilities | CLIENT_MULTI_STATEMENTS;
                let options = |compress| Options {
                    database: Some("parts_bytes".into()),
                    compress,
                    capabilities,
                    ..Options::default()
                };
                let mut direct = Client::connect(&server.address(), &options(Compress::Off)).unwrap();
                let mut proxied = Client::connect(&proxy.address(), &options(compress)).unwrap();
                // The session's state is asked for before.
                code(&mut proxied, "DELETE FROM t");
                let body = if direct.has(CLIENT_QUERY_ATTRIBUTES) { "\0\x01" } else { "" };
                for sql in
                    [SQL.to_owned(), format!("{SQL}; SELECT nothing; SELECT 1"), format!("{SQL}; nonsense")]
                {
                    let body = [body.as_bytes(), sql.as_bytes()].concat();
                    let native = direct.transcript(QUERY, &body).unwrap();
                    let seen = proxied.transcript(QUERY, &body).unwrap();
                    assert!(native.len() > 600, "{what}: {native:?}");
                    assert!(seen == native, "{what}: {} packets, natively {}", seen.len(), native.len());
                }
            }
        }
    }
}

#[test]
fn commands_after_them_come_in_their_turn() {
    each("parts_pipelined", "", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS | CLIENT_DEPRECATE_EOF);
        let texts = [
            "INSERT INTO t(a) VALUES(1); INSERT INTO t(a) SELECT a+1 FROM t; INSERT INTO t(a) SELECT a+2 FROM t",
            "SELECT COUNT(*) FROM t",
            "INSERT INTO t(a) SELECT 1; INSERT INTO t(a) VALUES(9)",
            "SELECT COUNT(*) FROM t",
            "INSERT INTO t(a) SELECT 5; INSERT INTO t(id,a) VALUES(id,6); INSERT INTO t(a) VALUES(7)",
            "INSERT INTO t(a) VALUES(8)",
            "SELECT GROUP_CONCAT(a ORDER BY a) FROM t",
        ];
        let commands: Vec<(u8, &[u8])> = texts.iter().map(|text| (QUERY, text.as_bytes())).collect();
        let seen = pipelined(&mut client, &commands);
        assert_eq!(seen, "ok 2,4,error 1062,4,error 1235,ok 1,1,2,3,4,5,8", "{}", rig.name());
        // A statement that is prepared before such a packet works after it.
        let prepared = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        assert_eq!(
            code(&mut client, "DELETE FROM t; INSERT INTO t(a) SELECT 1; INSERT INTO t(a) SELECT 2"),
            0
        );
        assert!(client.execute(&prepared, &[Param::Int(3)]).unwrap()[0].ok().unwrap().insert_id > 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(DISTINCT id),SUM(a) FROM t"), "3,6");
    });
}

#[test]
fn of_more_than_a_packet() {
    each("parts_large", "ALTER TABLE t DROP KEY a, MODIFY a LONGBLOB;", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        let long = "x".repeat(17_000_000);
        for sql in [
            format!("INSERT INTO t(a) VALUES('{long}'); INSERT INTO t(a) SELECT 'y'; SELECT COUNT(*) FROM t"),
            format!("SELECT 1; INSERT INTO t(a) SELECT '{long}'; SELECT COUNT(*) FROM t"),
            format!("INSERT INTO t(a) SELECT 'z'; SELECT LENGTH('{long}'); SELECT COUNT(*) FROM t"),
        ] {
            let outcomes = client.run(sql);
            assert_eq!(outcomes.len(), 3, "{}: {outcomes:?}", rig.name());
        }
        assert_eq!(
            rows(&mut client, "SELECT COUNT(*),COUNT(DISTINCT id),SUM(LENGTH(a)) FROM t"),
            format!("4,4,{}", 2 * long.len() + 2)
        );
    });
}
