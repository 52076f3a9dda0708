//! Statements that SQL's PREPARE named: in one write with their EXECUTE, and in a routine that nobody sees.

use crate::rig::{code, each, pipelined, rows};
use crate::support::raw::CLIENT_DEPRECATE_EOF;

const QUERY: u8 = 3;

#[test]
fn a_command_that_must_ask_waits_in_its_turn() {
    each("named_turns", "", |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            let texts = [
                "SET @q='INSERT INTO t(a) VALUES(?)', @a=1, @b=2, @i=NULL",
                "PREPARE s FROM @q",
                "EXECUTE s USING @a",
                "SELECT COUNT(*) FROM t",
                "EXECUTE s USING @a",
                "EXECUTE s USING @b",
                "PREPARE s FROM 'INSERT INTO t(id,a) VALUES(?,3)'",
                "EXECUTE s USING @i",
                "SELECT LAST_INSERT_ID()=MAX(id) FROM t",
                "DEALLOCATE PREPARE s",
                "EXECUTE s USING @i",
                "PREPARE s FROM @nothing",
                "SELECT COUNT(DISTINCT id) FROM t",
            ];
            let commands: Vec<(u8, &[u8])> = texts.iter().map(|text| (QUERY, text.as_bytes())).collect();
            let seen = pipelined(&mut client, &commands);
            let expect = "ok 0,ok 0,ok 1,1,error 1062,ok 1,ok 0,ok 1,1,ok 0,error 1243,error 1064,3";
            assert_eq!(seen, expect, "{}", rig.name());
        }
    });
}

/// Our parameters are in the statement, so that an id that was bound once cannot be bound again unseen.
#[test]
fn a_routine_that_executes_the_sessions_statement_fails() {
    each("named_routine", "CREATE PROCEDURE p() EXECUTE s;", |rig| {
        let mut client = rig.client();
        client.run("PREPARE s FROM 'INSERT INTO t(a) VALUES(NULL)'");
        client.run("EXECUTE s");
        assert_eq!(code(&mut client, "CALL p()"), 1210, "{}", rig.name());
        assert_eq!(code(&mut client, "EXECUTE s"), 1235, "{}: the routine may have prepared it", rig.name());
        client.run("PREPARE s FROM 'INSERT INTO t(a) VALUES(NULL)'");
        client.run("EXECUTE s");
        assert_eq!(rows(&mut client, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t"), "2,2");
        let mut other = rig.client();
        assert_eq!(code(&mut other, "EXECUTE s"), 1243, "{}: names are the session's own", rig.name());
    });
}
