//! Compound statements and bodies of routines, as far as the session must read them.

use crate::rig::{code, each, rows};
use crate::support::Kind;

/// MariaDB's lexer has a token of two dots, in front of which a number ends.
#[test]
fn loops_from_one_integer_to_another() {
    each("bodies_for", "", |rig| {
        if rig.kind == Kind::MySql9 {
            // MySQL has no such loop: the error is its own.
            let mut client = rig.client();
            assert_eq!(code(&mut client, "BEGIN NOT ATOMIC FOR i IN 0..2 DO SELECT i; END FOR; END"), 1064);
            assert_eq!(code(&mut client, "SELECT 1..2"), 1064, "mysql9");
            return;
        }
        let (mut client, mut direct) = (rig.client(), rig.direct());
        client.run("INSERT INTO t(a) VALUES(1)");
        let bounds = [
            "0..2",
            "0 .. 2",
            "0 ..2",
            "REVERSE 0..2",
            "0...9",
            "0.5..2",
            "0x1..2",
            "1e0..2",
            "'0'..2",
            "0b1..b'11'",
            "00../**/02",
            "-1..-1",
            "1e..2",
            "`n`..n",
        ];
        for bounds in bounds {
            let body = format!(
                "DECLARE n, 1e INT DEFAULT 1; SET @all = ''; \
                 FOR i IN {bounds} DO SET @all = CONCAT(@all, i, ' '); INSERT INTO u VALUES (i, 0); END FOR; \
                 SELECT @all"
            );
            let block = format!("BEGIN NOT ATOMIC {body}; END");
            let native = rows(&mut direct, &block);
            assert!(!native.is_empty(), "{bounds}");
            assert_eq!(rows(&mut client, &block), native, "{bounds}");
            assert_eq!(
                code(&mut client, format!("CREATE OR REPLACE PROCEDURE p() BEGIN {body}; END")),
                0,
                "{bounds}"
            );
            assert_eq!(rows(&mut client, "CALL p()"), native, "{bounds}");
            let prepared = client.prepare(&block).unwrap();
            assert_eq!(prepared.is_ok(), direct.prepare(&block).unwrap().is_ok(), "{bounds}");
        }
        // A ruled INSERT in a loop is seen.
        let inside = "BEGIN NOT ATOMIC FOR i IN 0..2 DO INSERT INTO t(a) VALUES(7); END FOR; END";
        assert_eq!(code(&mut client, inside), 1235);
        assert_eq!(code(&mut client, "SELECT 1..2"), 1064);
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "1");
    });
}
