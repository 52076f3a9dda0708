//! The compressed protocol on either side, or both: what passes through it is what passes without it.

use std::io::Write;

use crate::rig::{alone, code, code_of, insert_id, make, rows, rules, server};
use crate::support::raw::{
    CLIENT_COMPRESS, CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_ZSTD, Client, Compress, Options,
    Outcome, Param,
};
use crate::support::{Kind, Proxy, Server, proxy};

const CLIENTS: [Compress; 4] = [Compress::Off, Compress::Zlib, Compress::Zstd(1), Compress::Zstd(22)];
const QUERY: u8 = 3;
const PACKET_MAX: usize = 0xFF_FFFF;

/// With these values of `listen.compression` and `backend.compression`.
fn started(server: &Server, db: &str, (listen, backend): (&str, &str)) -> Proxy {
    let config = proxy::config(&server.address()).replace("compression = \"any\"\n", "");
    let config = config.replace("[listen]\n", &format!("[listen]\ncompression = \"{listen}\"\n"));
    let config = config.replace("[backend]\n", &format!("[backend]\ncompression = \"{backend}\"\n"));
    Proxy::start(&config, &[("rules", &rules(db))])
}

fn options(db: &str, compress: Compress) -> Options {
    let capabilities = CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS;
    Options { database: Some(db.to_owned()), compress, capabilities, ..Options::default() }
}

/// Each server with a database that has `t` (ruled; a is a LONGBLOB) and `u`.
fn each(db: &str, run: impl Fn(Kind, &Server)) {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, "ALTER TABLE t DROP KEY a, MODIFY a LONGBLOB; ALTER TABLE u MODIFY a LONGBLOB;");
        run(kind, server);
    }
}

/// Statements of many kinds, compared with what they come to without a proxy and without frames.
fn goes_as_without(client: &mut Client, what: &str) {
    client.run("DELETE FROM t; DELETE FROM u");
    // Many packets, and several answers.
    let sql = "SELECT 1; SELECT REPEAT('ab',150000),'x'; UPDATE u SET a=1; SELECT 3";
    let packets = client.transcript(QUERY, sql.as_bytes()).unwrap();
    let lengths: Vec<_> = packets.iter().map(Vec::len).filter(|len| *len > 1000).collect();
    assert_eq!(lengths, [300_000 + 4 + 2], "{what}");
    // Ids.
    let first = insert_id(client, "INSERT INTO t(a) VALUES('x'),(REPEAT('y',100000)),('z')");
    assert_eq!(
        rows(client, "SELECT MIN(id),COUNT(*),SUM(LENGTH(a)) FROM t"),
        format!("{first},3,100002"),
        "{what}"
    );
    let statement = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
    for bytes in [10, 100, 100_000] {
        let outcomes = client.execute(&statement, &[Param::Blob(vec![b'p'; bytes])]).unwrap();
        let id = outcomes[0].ok().unwrap().insert_id;
        assert_eq!(
            rows(client, &format!("SELECT LENGTH(a) FROM t WHERE id={id}")),
            bytes.to_string(),
            "{what}"
        );
    }
    let long = client.execute(&statement, &[Param::Long(vec![b'l'; 100_000])]).unwrap();
    assert_eq!(code_of(&long), 0, "{what}");
    client.close(&statement).unwrap();
    assert_eq!(code(client, "INSERT INTO t(id,a) VALUES(id,3)"), 1235, "{what}");
    assert_eq!(insert_id(client, "INSERT INTO t(a) SELECT 'q' FROM t LIMIT 3"), first + 7, "{what}");
    // A file.
    client.local_file = b"1\tb\n".repeat(50_000);
    let outcomes = client.run("LOAD DATA LOCAL INFILE 'x' INTO TABLE u; SELECT COUNT(*) FROM u");
    assert_eq!((outcomes[0].ok().unwrap().affected_rows, outcomes.len()), (50_000, 2), "{what}");
    client.run("DELETE FROM t");
    client.local_file = b"1\tb\n".repeat(50_000);
    client.run("LOAD DATA LOCAL INFILE 'x' INTO TABLE t(@x,a)");
    assert_eq!(rows(client, "SELECT 'rowstamp'"), "rowstamp", "{what}");
    assert_eq!(rows(client, "SELECT COUNT(*),MAX(id)-MIN(id),MAX(a) FROM t"), "50000,49999,b", "{what}");
    client.local_file = b"1\tb\n".to_vec();
    let wrong = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t(@x,a) SET id=(SELECT 1 UNION SELECT 2)";
    assert_eq!(code(client, wrong), 1242, "{what}");
    // Everything starts over.
    client.change_user("root", "test").unwrap();
    assert_eq!(
        rows(client, "SELECT DATABASE(), REPEAT('c',60)"),
        format!("test,{}", "c".repeat(60)),
        "{what}"
    );
    client.reset().unwrap();
}

fn compression_of_the_server(client: &mut Client) -> String {
    rows(client, "SHOW SESSION STATUS LIKE 'Compression'").replace("Compression,", "")
}

#[test]
fn each_side_for_itself() {
    each("compressed_sides", |kind, server| {
        for (listen, backend) in [("any", "off"), ("off", "any"), ("zlib", "zstd"), ("zstd", "zlib")] {
            let proxy = started(server, "compressed_sides", (listen, backend));
            for compress in CLIENTS {
                let what = format!("{} {listen} {backend} {compress:?}", kind.name());
                let mut client =
                    Client::connect(&proxy.address(), &options("compressed_sides", compress)).unwrap();
                let is_offered = match compress {
                    Compress::Off => false,
                    Compress::Zlib => ["zlib", "any"].contains(&listen),
                    Compress::Zstd(_) => ["zstd", "any"].contains(&listen),
                };
                assert_eq!(client.has(CLIENT_COMPRESS | CLIENT_ZSTD), is_offered, "{what}");
                let is_spoken = backend != "off" && (kind == Kind::MySql9 || backend != "zstd");
                assert_eq!(
                    compression_of_the_server(&mut client),
                    if is_spoken { "ON" } else { "OFF" },
                    "{what}"
                );
                goes_as_without(&mut client, &what);
                let (bodies, plain) = client.unpacked();
                assert_eq!(
                    (bodies > 0, bodies < plain / 10),
                    (is_offered, is_offered),
                    "{what}: {bodies} of {plain}"
                );
            }
        }
    });
}

/// Commands and answers of every number of frames, cut anywhere, and of as many packets as make their numbers wrap.
#[test]
fn frames_are_counted_as_clients_and_servers_count_them() {
    each("compressed_counts", |kind, server| {
        let proxy = started(server, "compressed_counts", ("any", "any"));
        for compress in [Compress::Zlib, Compress::Zstd(3)] {
            let what = format!("{} {compress:?}", kind.name());
            let mut client =
                Client::connect(&proxy.address(), &options("compressed_counts", compress)).unwrap();
            for frame_bytes in [1, 3, 4, 5, 1000] {
                client.cut_frames(frame_bytes);
                assert_eq!(rows(&mut client, "SELECT 'rowstamp'"), "rowstamp", "{what} {frame_bytes}");
                assert_eq!(
                    code(&mut client, "INSERT INTO t(a) VALUES('x'),('y')"),
                    0,
                    "{what} {frame_bytes}"
                );
            }
            client.cut_frames(PACKET_MAX);
            // One column: its count, its definition, the rows, the end.
            let counted = |rows: usize| {
                let digits = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3)";
                format!(
                    "SELECT 'r' FROM {digits} a, {digits} b, {digits} c, {digits} d, {digits} e LIMIT {rows}"
                )
            };
            for packets in [254, 255, 256, 257, 512] {
                let sql = counted(packets - 3);
                // The next answer begins with number 1, as if an answer of 256 packets went on.
                let commands: [(u8, &[u8]); 3] =
                    [(QUERY, sql.as_bytes()), (QUERY, b"SELECT 'next'"), (0x99, b"")];
                client.pipeline(&commands).unwrap();
                assert_eq!(client.read_outcomes(false).unwrap()[0].rows().len(), packets - 3, "{what}");
                client.next_response();
                assert_eq!(
                    client.read_outcomes(false).unwrap()[0].cell(0, 0).unwrap(),
                    "next",
                    "{what} {packets}"
                );
                client.next_response();
                assert_eq!(code_of(&client.read_outcomes(false).unwrap()), 1047, "{what} {packets}");
                // A file is asked for by the last of so many packets: its own first one has any number.
                client.local_file = b"1\tb\n".repeat(100_000);
                let sql =
                    format!("{}; LOAD DATA LOCAL INFILE 'x' INTO TABLE u; SELECT 9", counted(packets - 3));
                let outcomes = client.run(sql);
                assert_eq!(outcomes[1].ok().unwrap().affected_rows, 100_000, "{what} {packets}");
                assert_eq!(outcomes[2].cell(0, 0).unwrap(), "9", "{what} {packets}");
            }
        }
    });
}

#[test]
fn what_is_longer_than_a_frame() {
    let _alone = alone();
    each("compressed_large", |kind, server| {
        let edge = [PACKET_MAX + 1];
        let all = [PACKET_MAX - 100, PACKET_MAX + 1, 2 * PACKET_MAX + 1];
        for (sides, compress, sizes) in [
            (("any", "off"), Compress::Zlib, &edge[..]),
            (("off", "any"), Compress::Off, &edge),
            (("any", "zstd"), Compress::Zlib, &all),
            (("any", "zlib"), Compress::Zstd(22), &edge),
        ] {
            let proxy = started(server, "compressed_large", sides);
            let what = format!("{} {sides:?} {compress:?}", kind.name());
            let mut client =
                Client::connect(&proxy.address(), &options("compressed_large", compress)).unwrap();
            for &bytes in sizes {
                let insert = format!("INSERT INTO t(a) VALUES('{}'),('b')", "x".repeat(bytes - 40));
                let id = insert_id(&mut client, &insert);
                let seen =
                    rows(&mut client, &format!("SELECT LENGTH(a),id=LAST_INSERT_ID() FROM t WHERE id={id}"));
                assert_eq!(seen, format!("{},1", bytes - 40), "{what}");
                let Outcome::Rows(set) = client.run(format!("SELECT a FROM t WHERE id={id}")).remove(0)
                else {
                    panic!("{what}: no rows")
                };
                assert_eq!(set.rows[0][0].text().unwrap().len(), bytes - 40, "{what}");
                client.run("TRUNCATE t");
            }
        }
    });
}

/// A client that asks for what was not offered believes that it is agreed. MySQL 9 too answers it in frames then, and packs none.
#[test]
fn who_was_offered_nothing_gets_frames_in_which_all_is_stored() {
    each("compressed_off", |kind, server| {
        let proxy = started(server, "compressed_off", ("off", "off"));
        for (compress, insists_on) in [(Compress::Zlib, CLIENT_COMPRESS), (Compress::Zstd(3), CLIENT_ZSTD)] {
            let what = format!("{} {compress:?}", kind.name());
            if (kind, compress) == (Kind::MariaDb, Compress::Zstd(3)) {
                // MariaDB does not know that bit.
                continue;
            }
            let options = Options { insists_on, ..options("compressed_off", compress) };
            let mut client = Client::connect(&proxy.address(), &options).unwrap();
            goes_as_without(&mut client, &what);
            let (bodies, plain) = client.unpacked();
            assert_eq!((bodies, bodies > 300_000), (plain, true), "{what}");
        }
    });
}

#[test]
fn levels_that_there_are_not() {
    each("compressed_levels", |kind, server| {
        let proxy = started(server, "compressed_levels", ("any", "off"));
        for level in [0, 23, 255] {
            let refused =
                Client::connect(&proxy.address(), &options("compressed_levels", Compress::Zstd(level)));
            let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                refused.contains("3923") && refused.contains("Invalid zstd"),
                "{} {level}: {refused}",
                kind.name()
            );
        }
    });
}

#[test]
fn frames_that_cannot_be_read_end_the_session() {
    each("compressed_garbage", |kind, server| {
        let proxy = started(server, "compressed_garbage", ("any", "off"));
        for compress in [Compress::Zlib, Compress::Zstd(3)] {
            for garbage in [
                &b"\x09\0\0\0\x50\0\0rubbish!!"[..],
                b"\x01\0\0\0\xff\xff\xff\x78",
                b"\xff\xff\xff\0\xff\xff\xff0123456789",
            ] {
                let options = options("compressed_garbage", compress);
                let mut client = Client::connect(&proxy.address(), &options).unwrap();
                assert_eq!(rows(&mut client, "SELECT 1"), "1");
                client.try_clone_stream().write_all(garbage).unwrap();
                client.next_response();
                let said = client.read_outcomes(false).unwrap();
                assert_eq!(code_of(&said), 1157, "{} {compress:?}", kind.name());
                assert!(client.is_closed());
            }
        }
        assert!(
            proxy.log().contains("protocol violation: the client: a compressed packet"),
            "{}",
            proxy.log()
        );
    });
}

/// The server says the same of the proxy's connection as of the client's own without a proxy.
#[test]
fn the_server_is_spoken_to_as_the_client_speaks() {
    each("compressed_as_client", |kind, server| {
        let proxy = started(server, "compressed_as_client", ("any", "as_client"));
        for compress in CLIENTS {
            let options = options("compressed_as_client", compress);
            let said = |address: &str| {
                let mut client = Client::connect(address, &options).unwrap();
                rows(
                    &mut client,
                    "SHOW STATUS WHERE Variable_name IN ('Compression','Compression_algorithm','Compression_level')",
                )
            };
            assert_eq!(said(&proxy.address()), said(&server.address()), "{} {compress:?}", kind.name());
        }
    });
}
