//! Cursors and results without definitions: packet by packet what the server sends without the proxy.

use crate::reload::rules;
use crate::rig::{Rig, each, each_with, rows};
use crate::support::Kind;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_OPTIONAL_RESULTSET_METADATA, Client, MARIADB_CACHE_METADATA, Options,
};

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const RESET: u8 = 0x1A;
const FETCH: u8 = 0x1C;
const READ_ONLY: u8 = 1;

/// The table of the same rows without a rule.
const NATIVE: &str = "CREATE TABLE n (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE);";

/// One client straight at the server, in table n, and one at the proxy, in table t.
struct Both {
    native: Client,
    proxied: Client,
    name: String,
}

impl Both {
    fn new(rig: &Rig, capabilities: u32) -> Both {
        let extended = if rig.kind == Kind::MariaDb && capabilities & CLIENT_OPTIONAL_RESULTSET_METADATA != 0
        {
            MARIADB_CACHE_METADATA
        } else {
            0
        };
        let options =
            Options { database: Some(rig.db.clone()), capabilities, extended, ..Options::default() };
        let connect = |address: String| Client::connect(&address, &options).unwrap();
        let (native, proxied) = (connect(rig.server.address()), connect(rig.proxy.address()));
        assert_eq!((native.capabilities, native.extended), (proxied.capabilities, proxied.extended));
        Both { native, proxied, name: format!("{} {capabilities:#x}", rig.name()) }
    }

    /// Compares the first byte and the length of each packet. Returns the packets of the proxy.
    fn same(&mut self, what: &str, command: u8, body: [Vec<u8>; 2]) -> Vec<Vec<u8>> {
        let [native, proxied] = body;
        let native = self.native.transcript(command, &native).unwrap();
        let proxied = self.proxied.transcript(command, &proxied).unwrap();
        // An error names the statement, whose ids are not the same.
        let length = |packet: &[u8]| if packet.first() == Some(&0xFF) { 0 } else { packet.len() };
        let shape = |packets: &[Vec<u8>]| {
            packets.iter().map(|packet| (packet.first().copied(), length(packet))).collect::<Vec<_>>()
        };
        assert_eq!(shape(&native), shape(&proxied), "{}: {what}", self.name);
        proxied
    }

    /// `{t}` is the table.
    fn query(&mut self, text: &str) -> Vec<Vec<u8>> {
        self.same(text, QUERY, ["n", "t"].map(|table| text.replace("{t}", table).into_bytes()))
    }

    /// The server's id and the client's.
    fn prepare(&mut self, text: &str) -> [[u8; 4]; 2] {
        let texts = ["n", "t"].map(|table| text.replace("{t}", table).into_bytes());
        let native = self.native.transcript(PREPARE, &texts[0]).unwrap();
        let proxied = self
            .proxied
            .transcript(PREPARE, &texts[1])
            .unwrap_or_else(|e| panic!("{}: {text} {e}", self.name));
        let lengths = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&native), lengths(&proxied), "{}: {text}", self.name);
        [&native, &proxied].map(|packets| packets[0][1..5].try_into().unwrap())
    }

    fn execute(&mut self, ids: [[u8; 4]; 2], flags: u8, rest: &[u8]) -> Vec<Vec<u8>> {
        self.same("execute", EXECUTE, ids.map(|id| [&id[..], &[flags, 1, 0, 0, 0], rest].concat()))
    }

    fn fetch(&mut self, ids: [[u8; 4]; 2], rows: u8) -> Vec<Vec<u8>> {
        self.same("fetch", FETCH, ids.map(|id| [&id[..], &[rows, 0, 0, 0]].concat()))
    }
}

fn each_form(rig: &Rig, run: impl Fn(&mut Both)) {
    for metadata in [0, CLIENT_OPTIONAL_RESULTSET_METADATA] {
        for eof in [0, CLIENT_DEPRECATE_EOF] {
            run(&mut Both::new(rig, metadata | eof));
        }
    }
}

#[test]
fn a_cursor_stays_open_beside_ruled_inserts() {
    each("cursors_beside", &format!("{NATIVE} INSERT INTO u VALUES (1,1),(2,2),(3,3);"), |rig| {
        each_form(rig, |both| {
            both.query("DELETE FROM {t}");
            let select = both.prepare("SELECT a FROM u ORDER BY a");
            let insert = both.prepare("INSERT INTO {t}(a) VALUES(?)");
            both.execute(select, READ_ONLY, &[]);
            assert_eq!(both.fetch(select, 1).len(), 2);
            both.query("INSERT IGNORE INTO {t}(a) VALUES(1),(2)");
            both.fetch(select, 1);
            // The INSERT leaves no rows, and so no cursor.
            both.execute(insert, READ_ONLY, &[0, 1, 3, 0, 3, 0, 0, 0]);
            both.query("SELECT COUNT(*) FROM {t} WHERE id=LAST_INSERT_ID()");
            both.fetch(insert, 1);
            both.query("INSERT INTO {t}(a) SELECT a+10 FROM u");
            both.fetch(select, 5);
            both.fetch(select, 5);
            both.same("reset", RESET, select.map(|id| id.to_vec()));
            both.fetch(select, 5);
            both.query("SELECT COUNT(*) FROM {t}");
            assert_eq!(rows(&mut rig.direct(), "SELECT COUNT(*) FROM t"), "6", "{}", both.name);
        });
    });
}

#[test]
fn returned_rows_in_a_cursor() {
    each("cursors_returned", NATIVE, |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        each_form(rig, |both| {
            both.query("DELETE FROM {t}");
            let insert = both.prepare("INSERT INTO {t}(a) VALUES(?),(?),(NULL) RETURNING a");
            let other = both.prepare("INSERT IGNORE INTO {t}(a) VALUES(?),(50) RETURNING a,a+1");
            for (nth, flags) in (0..).zip([READ_ONLY, 0, READ_ONLY]) {
                both.execute(insert, flags, &[0, 1, 1, 0, 1, 0, 10 * nth + 1, 10 * nth + 2]);
                if flags == READ_ONLY {
                    both.fetch(insert, 2);
                }
                both.execute(other, flags, &[0, 1, 1, 0, 10 * nth + 3]);
                let seen = both.query("SELECT a FROM {t} WHERE id=LAST_INSERT_ID()");
                let expect = (10 * nth + 3).to_string().into_bytes();
                assert!(seen.iter().any(|row| row[1..] == expect), "{}: {seen:?}", both.name);
                both.fetch(insert, 9);
                both.fetch(other, 9);
            }
            let seen = rows(&mut rig.direct(), "SELECT COUNT(*), COUNT(DISTINCT id) FROM t WHERE id>0");
            assert_eq!(seen, "13,13", "{}", both.name);
        });
    });
}

#[test]
fn results_without_definitions() {
    each("cursors_none", &format!("{NATIVE} INSERT INTO u VALUES (1,1),(2,2),(3,3);"), |rig| {
        each_form(rig, |both| {
            if rig.kind == Kind::MySql9 {
                both.query("SET resultset_metadata=NONE");
            }
            both.query("DELETE FROM {t}");
            both.query("INSERT INTO {t}(a) VALUES(1),(2)");
            let select = both.prepare("SELECT a,id-id FROM {t} WHERE a<?");
            let insert = both.prepare("INSERT INTO {t}(a) VALUES(?),(?)");
            let hidden = both.prepare("INSERT INTO {t}(a) VALUES(NULL),(NULL)");
            for nth in 1..3 {
                both.execute(insert, 0, &[0, 1, 1, 0, 1, 0, 10 * nth, 10 * nth + 1]);
                both.execute(hidden, 0, &[]);
                both.execute(select, 0, &[0, 1, 1, 0, 99]);
                both.execute(select, READ_ONLY, &[0, 1, 1, 0, 99]);
                both.fetch(select, 99);
            }
            both.query("INSERT IGNORE INTO {t}(a) VALUES(1),(3)");
            both.query("SELECT a FROM {t} WHERE id=LAST_INSERT_ID()");
            both.query("INSERT INTO {t}(a) SELECT a+50 FROM u");
            both.query("SELECT COUNT(*) FROM {t} WHERE id>0");
        });
    });
}

/// MariaDB sends them with the statement's id, and with an execution where they are others than then.
#[test]
fn definitions_that_the_client_keeps() {
    const DB: &str = "cursors_kept";
    each_with(DB, NATIVE, "", &rules(DB, "", &[("t", "id", "g")]), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut step = 1;
        for eof in [0, CLIENT_DEPRECATE_EOF] {
            let both = &mut Both::new(rig, CLIENT_OPTIONAL_RESULTSET_METADATA | eof);
            let insert = both.prepare("INSERT INTO {t}(a) VALUES(NULL),(NULL) RETURNING *");
            both.execute(insert, 0, &[]);
            assert_eq!(both.execute(insert, 0, &[])[0], [2, 0], "{}: it has them", both.name);
            for (change, alter) in [(false, true), (true, false), (true, true)] {
                if alter {
                    both.query("ALTER TABLE {t} MODIFY a VARCHAR(20) NOT NULL");
                    both.query("ALTER TABLE {t} MODIFY a INT");
                    both.query("ALTER TABLE {t} ADD COLUMN b INT");
                }
                if change {
                    step += 1;
                    rig.change(&rules(DB, &format!("step = {step}"), &[("t", "id", "g")]));
                }
                let seen = both.execute(insert, 0, &[]);
                assert_eq!(seen[0], [if alter { 3 } else { 2 }, 1], "{}", both.name);
                if alter {
                    both.query("ALTER TABLE {t} DROP COLUMN b");
                }
            }
        }
    });
}
