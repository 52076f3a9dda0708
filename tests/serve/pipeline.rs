//! Several commands in one write: answers come in order, with the right packet numbers.

use crate::rig::{code_of, each, pipelined, rows};
use crate::support::Kind;
use crate::support::raw::{CLIENT_DEPRECATE_EOF, Client, Outcome};

const QUERY: u8 = 3;

fn next(client: &mut Client) -> Vec<Outcome> {
    client.next_response();
    client.read_outcomes(false).unwrap()
}

#[test]
fn answers_of_ours_come_in_their_turn() {
    each("pipeline_turns", "", |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            let texts = [
                "SELECT 'one'",
                "INSERT INTO t(a) VALUES(1),(2)",
                "INSERT INTO t(id,a) VALUES(id,3)",
                "SELECT 'two'",
                "INSERT INTO t(a) VALUES(1)",
                "SELECT COUNT(*) FROM t",
                "INSERT IGNORE INTO t(a) VALUES(1),(4)",
                "SELECT LAST_INSERT_ID()=MAX(id) FROM t",
                "INSERT INTO t(a) VALUES(5) garbage",
                "UPDATE u SET a=1",
            ];
            let mut commands: Vec<(u8, &[u8])> = texts.iter().map(|text| (QUERY, text.as_bytes())).collect();
            commands.insert(3, (0x99, b""));
            let seen = pipelined(&mut client, &commands);
            let expect = "one,ok 2,error 1235,error 1047,two,error 1062,2,ok 1,1,error 1064,ok 0";
            assert_eq!(seen, expect, "{}", rig.name());
        }
    });
}

#[test]
fn prepared_and_executed_before_its_id_is_known() {
    each("pipeline_last", "", |rig| {
        // Only MariaDB has an id for "the last prepared".
        if rig.kind != Kind::MariaDb {
            return;
        }
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            let execute = [0xFF, 0xFF, 0xFF, 0xFF, 0, 1, 0, 0, 0];
            let prepare = |text: &'static str| (0x16, text.as_bytes());
            client
                .pipeline(&[
                    prepare("INSERT INTO t(a) VALUES(NULL)"),
                    (0x17, &execute),
                    (0x17, &execute),
                    (0x19, &[0xFF; 4]),
                    (QUERY, b"SELECT COUNT(id), MAX(id)-MIN(id) FROM t"),
                    prepare("INSERT INTO t(id) VALUES(id)"),
                    (0x17, &execute),
                    (QUERY, b"SELECT COUNT(*) FROM t"),
                ])
                .unwrap();
            client.next_response();
            let head = client.read_packet().unwrap();
            assert_eq!((head.len(), &head[5..9]), (12, &[0; 4][..]), "no parameters of the client's");
            let first = next(&mut client)[0].ok().unwrap().insert_id;
            assert_eq!(next(&mut client)[0].ok().unwrap().insert_id, first + 1);
            let counts = next(&mut client);
            assert_eq!(
                (counts[0].cell(0, 0).unwrap(), counts[0].cell(0, 1).unwrap()),
                ("2".into(), "1".into())
            );
            assert_eq!(code_of(&next(&mut client)), 1235);
            assert_eq!(code_of(&next(&mut client)), 1243);
            assert_eq!(next(&mut client)[0].cell(0, 0).unwrap(), "2", "nothing else was run");
        }
    });
}

#[test]
fn a_query_in_the_segment_of_another_that_is_refused() {
    each("pipeline_open", "", |rig| {
        let mut client = rig.client();
        client.run("BEGIN");
        client.run("INSERT INTO t(a) VALUES(1)");
        client
            .pipeline(&[(QUERY, b"INSERT INTO t(id,a) VALUES(id,2)"), (QUERY, b"INSERT INTO t(a) VALUES(3)")])
            .unwrap();
        assert_eq!(code_of(&next(&mut client)), 1235);
        let after = next(&mut client);
        let ok = after[0].ok().unwrap();
        assert_eq!((ok.insert_id, ok.status & 1), (2, 1), "no id is burned, the transaction is open");
        client.run("ROLLBACK");
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0");
    });
}
