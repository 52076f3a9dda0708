//! The steps of a session. `{1}` and `{2}` in a text are the databases of its side. `¤` stands for two bytes
//! that are one character in GBK and end with a backslash elsewhere.

use rand::Rng;
use rand::rngs::StdRng;

use crate::support::Kind;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_FOUND_ROWS, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, Param,
};

/// Names of SQL's prepared statements, places of binary ones, and locks: all sessions have the same ones.
pub(super) const SLOTS: u8 = 3;
pub(super) const LOCKS: u8 = 4;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Query(Text),
    InitDb(&'static str),
    Prepare {
        slot: u8,
        sql: String,
    },
    Execute {
        slot: u8,
        params: Vec<Param>,
    },
    Close {
        slot: u8,
    },
    Lock(u8),
    Unlock(u8),
    UnlockAll,
    /// Looks if a temporary table hides this one.
    Hidden(&'static str),
    Reset,
    ChangeUser {
        user: &'static str,
        database: &'static str,
    },
    Reconnect {
        says_goodbye: bool,
        database: Option<&'static str>,
        capabilities: u32,
        collation: u8,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) sql: String,
    /// The proxy may refuse it, as docs/refused.md tells.
    pub(super) may_be_refused: bool,
}

fn text(sql: impl Into<String>) -> Step {
    Step::Query(Text { sql: sql.into(), may_be_refused: false })
}

fn refusable(sql: impl Into<String>) -> Step {
    Step::Query(Text { sql: sql.into(), may_be_refused: true })
}

fn one_of<T: Copy>(random: &mut StdRng, all: &[T]) -> T {
    all[random.gen_range(0..all.len())]
}

/// Draws the next step, or several that make no sense without each other. `mark` is in everything that is
/// written or set, and `number` is no other session's.
pub(super) fn draw(random: &mut StdRng, kind: Kind, mark: &str, number: u64) -> Vec<Step> {
    let slot = random.gen_range(0..SLOTS);
    match random.gen_range(0..100) {
        0..26 => vec![insert(random, mark)],
        26..30 => several(random, mark),
        30..40 => vec![variable(random, kind, mark, number)],
        40..44 => vec![mode(random)],
        44..48 => vec![charset(random)],
        48..55 => vec![transaction(random)],
        55..60 => vec![database(random)],
        60..65 => vec![sql_prepare(random, slot, mark)],
        65..70 => execute(random, slot, mark),
        70..73 => vec![Step::Prepare { slot, sql: template(random, mark) }],
        73..83 => vec![Step::Execute { slot, params: vec![bytes(mark), bytes(&format!("é{mark}"))] }],
        83 => vec![if random.gen_bool(0.5) {
            Step::Close { slot }
        } else {
            text(format!("DEALLOCATE PREPARE p{slot}"))
        }],
        84..89 => vec![temporary(random)],
        89..95 => vec![lock(random)],
        95 => vec![Step::Reset],
        96 => vec![Step::ChangeUser {
            user: one_of(random, &["root", "isolation_other"]),
            database: one_of(random, &["{1}", "{2}", ""]),
        }],
        _ => vec![Step::Reconnect {
            says_goodbye: random.gen_bool(0.5),
            database: one_of(random, &[None, Some("{1}"), Some("{2}")]),
            capabilities: capabilities(random),
            collation: one_of(random, &[45, 8, 28]),
        }],
    }
}

pub(super) fn capabilities(random: &mut StdRng) -> u32 {
    let all = [CLIENT_DEPRECATE_EOF, CLIENT_FOUND_ROWS, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK];
    all.into_iter().filter(|_| random.gen_bool(0.6)).fold(0, |all, one| all | one)
}

fn bytes(text: &str) -> Param {
    Param::String(text.as_bytes().to_vec())
}

/// Half of the time as the default database has it.
fn table(random: &mut StdRng) -> &'static str {
    one_of(random, &["t", "w", "t", "w", "{1}.t", "{2}.t", "{1}.w", "{2}.w"])
}

const COLUMNS: &str = "mark,conn,v,mode,charset,db,txt";

/// The values of them, of which the server knows what the session is.
fn values(mark: &str, txt: &str) -> String {
    format!("{mark},CONNECTION_ID(),@a,@@sql_mode,@@character_set_client,DATABASE(),{txt}")
}

fn insert(random: &mut StdRng, mark: &str) -> Step {
    let table = table(random);
    let row = |n: u8| values(&format!("'{mark}.{n}'"), "'é'");
    text(match random.gen_range(0..10) {
        0 | 1 => format!("INSERT INTO {table}({COLUMNS}) VALUES({})", row(0)),
        2 => format!("INSERT INTO {table}({COLUMNS}) VALUES({}),({})", row(0), row(1)),
        3 => format!("INSERT INTO {table} VALUES(NULL,{})", row(0)),
        4 => format!("INSERT INTO {table} SET mark='{mark}.0',conn=CONNECTION_ID(),v=@a,txt='é'"),
        5 => format!("INSERT INTO {table}({COLUMNS}) SELECT {} FROM {{1}}.d WHERE n<2", row(0)),
        // The session's settings decide the meaning of zero, quotes and backslashes.
        6 => format!("INSERT INTO {table}(id,{COLUMNS}) VALUES(0,{})", row(0)),
        7 => format!("INSERT INTO {table}(\"mark\",conn,v) VALUES('{mark}.0',CONNECTION_ID(),@a)"),
        8 => format!("INSERT INTO {table}(mark,txt) VALUES('{mark}.0','a\\'),('{mark}.1',' ')"),
        _ => format!("INSERT INTO {table}(mark,txt) VALUES('{mark}.0','¤')"),
    })
}

/// Several statements in a packet; an error for those who have not agreed on it.
fn several(random: &mut StdRng, mark: &str) -> Vec<Step> {
    let table = table(random);
    let row = values(&format!("'{mark}.0'"), "'é'");
    vec![refusable(match random.gen_range(0..3) {
        0 => format!("SET @a='{mark}'; INSERT INTO {table}({COLUMNS}) VALUES({row}); SELECT @a"),
        1 => format!("USE {{2}}; INSERT INTO {table}({COLUMNS}) VALUES({row})"),
        _ => format!("DO 1; INSERT INTO {table}({COLUMNS}) VALUES({row}); SET @b='{mark}'"),
    })]
}

fn variable(random: &mut StdRng, kind: Kind, mark: &str, number: u64) -> Step {
    let isolation = if kind == Kind::MySql9 { "transaction_isolation" } else { "tx_isolation" };
    let level = one_of(random, &["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]);
    text(match random.gen_range(0..11) {
        0 | 1 => format!("SET @a='{mark}'"),
        2 => format!("SET @a='{mark} of two', @b='{mark}'"),
        3 => format!("SELECT @b:='{mark}'"),
        4 => format!("SET last_insert_id={number}"),
        5 => format!("SELECT LAST_INSERT_ID({number})"),
        6 => format!("SET autocommit={}", random.gen_range(0..2)),
        7 => format!("SET SESSION {isolation}='{level}'"),
        8 => format!("SET time_zone='+0{}:00'", random.gen_range(0..10)),
        9 => format!("SET group_concat_max_len={}", 1000 + number % 100_000),
        _ => format!("SET foreign_key_checks={}, @b=NULL", random.gen_range(0..2)),
    })
}

fn mode(random: &mut StdRng) -> Step {
    text(one_of(
        random,
        &[
            "SET sql_mode=''",
            "SET sql_mode='ANSI_QUOTES'",
            "SET sql_mode='NO_BACKSLASH_ESCAPES'",
            "SET @@session.sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'",
            "SET sql_mode='NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES'",
            "SET sql_mode=CONCAT('PIPES','_AS_CONCAT')",
            "SET sql_mode=DEFAULT",
        ],
    ))
}

fn charset(random: &mut StdRng) -> Step {
    text(one_of(
        random,
        &[
            "SET NAMES utf8mb4",
            "SET NAMES latin1",
            "SET NAMES gbk",
            "SET NAMES cp1251",
            "SET character_set_client=gbk",
            "SET character_set_results=latin1",
            "SET collation_connection=utf8mb4_bin",
        ],
    ))
}

fn transaction(random: &mut StdRng) -> Step {
    text(one_of(
        random,
        &["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s"],
    ))
}

fn database(random: &mut StdRng) -> Step {
    match random.gen_range(0..5) {
        0 => Step::InitDb("{1}"),
        1 => Step::InitDb("{2}"),
        2 => text("USE {1}"),
        3 => text("USE {2}"),
        _ => text("USE nowhere"),
    }
}

/// A statement that is prepared: `?` are its mark and a text.
pub(super) fn template(random: &mut StdRng, mark: &str) -> String {
    if random.gen_bool(0.4) {
        return format!("SELECT '{mark}',?,?,@a,DATABASE()");
    }
    let table = table(random);
    match random.gen_range(0..3) {
        0 => format!("INSERT INTO {table}({COLUMNS}) SELECT {} FROM {{1}}.d WHERE n<2", values("?", "?")),
        1 => format!("INSERT INTO {table} VALUES(NULL,{})", values("?", "?")),
        _ => format!("INSERT INTO {table}({COLUMNS}) VALUES({})", values("?", "?")),
    }
}

fn sql_prepare(random: &mut StdRng, slot: u8, mark: &str) -> Step {
    refusable(format!("PREPARE p{slot} FROM '{}'", template(random, mark).replace('\'', "''")))
}

fn execute(random: &mut StdRng, slot: u8, mark: &str) -> Vec<Step> {
    let txt = one_of(random, &["é", "x"]);
    vec![text(format!("SET @m='{mark}', @x='{txt}'")), refusable(format!("EXECUTE p{slot} USING @m,@x"))]
}

fn temporary(random: &mut StdRng) -> Step {
    let table = table(random);
    let columns = super::TABLE.replace("{id}", "DEFAULT 77");
    match random.gen_range(0..8) {
        0 | 1 => text(format!("CREATE TEMPORARY TABLE IF NOT EXISTS {table} {columns}")),
        2 | 3 => text(format!("DROP TEMPORARY TABLE IF EXISTS {table}")),
        4 => text("CALL {1}.hide()"),
        5 => text("CALL {1}.show()"),
        _ => Step::Hidden(one_of(random, &["{1}.t", "{1}.w", "{2}.t"])),
    }
}

fn lock(random: &mut StdRng) -> Step {
    match random.gen_range(0..9) {
        0..5 => Step::Lock(random.gen_range(0..LOCKS)),
        5..8 => Step::Unlock(random.gen_range(0..LOCKS)),
        _ => Step::UnlockAll,
    }
}
